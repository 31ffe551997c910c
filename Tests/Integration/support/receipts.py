"""Receipts as Apple makes them: CMS signed data over a SET of fields, by the test's own authority. Written from Apple's
"Assessing fraud risk", not from the code."""

from datetime import datetime, timedelta, timezone

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs7

DAY = timedelta(days=1)


def der(tag, content):
    length = len(content)
    if length < 128:
        head = bytes([length])
    else:
        octets = length.to_bytes((length.bit_length() + 7) // 8, "big")
        head = bytes([0x80 | len(octets)]) + octets
    return bytes([tag]) + head + content


def rfc3339(moment):
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"


class ReceiptMaker:
    """Signs receipts under an `AttestationAuthority`."""

    def __init__(self, authority, marked=True):
        self.authority = authority
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.certificate = authority.signer(self.key, marked)

    def make(self, app, leaf, kind="RECEIPT", client_data_hash=b"\0" * 32, risk=None, not_before=None, created=None,
             expires=None, environment=None):
        """`leaf`: the attestation's. Times are datetimes; created now, good for ninety days if not said otherwise."""
        created = created or datetime.now(timezone.utc)
        fields = {
            2: app.encode(), 3: leaf.public_bytes(serialization.Encoding.DER), 4: client_data_hash, 5: b"token",
            6: kind.encode(), 12: rfc3339(created).encode(), 21: rfc3339(expires or created + 90 * DAY).encode()}
        if environment is not None:
            fields[7] = environment.encode()
        if risk is not None:
            fields[17] = str(risk).encode()
        if not_before is not None:
            fields[19] = rfc3339(not_before).encode()
        payload = der(0x31, b"".join(
            der(0x30, der(2, bytes([number])) + der(2, b"\x01") + der(4, value)) for number, value in fields.items()))
        builder = pkcs7.PKCS7SignatureBuilder().set_data(payload).add_signer(self.certificate, self.key, hashes.SHA256())
        for certificate in (self.authority.intermediate, self.authority.root):
            builder = builder.add_certificate(certificate)
        return builder.sign(
            serialization.Encoding.DER, [pkcs7.PKCS7Options.Binary, pkcs7.PKCS7Options.NoAttributes])

    def of_attestation(self, **fields):
        """What `attest` takes as a receipt."""
        return lambda app, leaf, digest: self.make(app, leaf, "ATTEST", client_data_hash=digest, **fields)


def fields_of(receipt):
    """What a receipt says, read without looking at its signature: number -> bytes. Good for what `make` has made."""
    start = receipt.index(b"\x04\x05token") - 1
    # The payload begins with the SET before field 2; look for it from the front.
    for position in range(start):
        if receipt[position] != 0x31:
            continue
        try:
            return _set(receipt, position)
        except (ValueError, IndexError):
            continue
    raise ValueError("no fields")


def _header(data, position):
    length, position = data[position + 1], position + 2
    if length & 0x80:
        count = length & 0x7f
        length, position = int.from_bytes(data[position:position + count], "big"), position + count
    return position, position + length


def _set(data, position):
    fields = {}
    start, end = _header(data, position)
    while start < end:
        if data[start] != 0x30:
            raise ValueError("no sequence")
        inner, start = _header(data, start)
        number, after = _header(data, inner)
        _, version = _header(data, after)
        value = _header(data, version)
        fields[data[number]] = data[value[0]:value[1]]
    if 2 not in fields or 21 not in fields:
        raise ValueError("other fields")
    return fields
