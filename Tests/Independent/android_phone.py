"""What stands in for Google and for an Android phone's keystore: an authority, and keys that it attests. Written from Android's
"Key and ID attestation" and docs/protocol.md."""

import datetime
import hashlib
import secrets

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.x509.oid import NameOID

from .software_phone import point, sha256

KEY_DESCRIPTION = x509.ObjectIdentifier("1.3.6.1.4.1.11129.2.1.17")
DAY = datetime.timedelta(days=1)
# SHA-256 of the certificate that signs the app.
SIGNER = hashlib.sha256(b"the app's signer").digest()


def der(tag, *contents):
    content = b"".join(contents)
    size = len(content)
    length = bytes([size]) if size < 128 else bytes([0x80 | (size.bit_length() + 7) // 8]) + size.to_bytes(
        (size.bit_length() + 7) // 8, "big")
    return bytes(tag) + length + content


def number(value, tag=0x02):
    return der([tag], value.to_bytes(value.bit_length() // 8 + 1, "big"))


def octets(value):
    return der([0x04], value)


def tagged(values):
    """AuthorizationList: members of a number and an encoded value, by explicit tags."""
    members = b""
    for tag, value in values:
        members += der([0xA0 | tag] if tag < 31 else [0xBF, 0x80 | tag >> 7, tag & 127], value)
    return der([0x30], members)


def key_description(package, challenge):
    application = der(
        [0x30], der([0x31], der([0x30], octets(package.encode()), number(7))), der([0x31], octets(SIGNER)))
    root_of_trust = der([0x30], octets(bytes(32)), b"\x01\x01\xff", number(0, 0x0A), octets(bytes(32)))
    software = tagged([(709, octets(application))])
    hardware = tagged([
        (1, der([0x31], number(2))), (2, number(3)), (3, number(256)), (5, der([0x31], number(4))), (10, number(1)),
        (503, b"\x05\x00"), (702, number(0)), (704, root_of_trust), (705, number(150_000)), (706, number(202_609))])
    return der(
        [0x30], number(300), number(1, 0x0A), number(300), number(1, 0x0A), octets(challenge), octets(b""), software,
        hardware)


class AndroidAuthority:
    """A root and two keys below it, as a phone brings them from its factory."""

    def __init__(self):
        self._keys = [ec.generate_private_key(ec.SECP256R1()) for _ in range(3)]
        names = ["root", "of the batch", "of the phone"]
        self._names = [
            x509.Name([x509.NameAttribute(NameOID.TITLE, "TEE"), x509.NameAttribute(NameOID.SERIAL_NUMBER, name)])
            for name in names]
        self._chain = [self._certificate(self._keys[place].public_key(), place, max(0, place - 1)) for place in range(3)]

    def root_pem(self):
        """What the gateway's conf file names as `attestation_root`."""
        return self._chain[0].public_bytes(serialization.Encoding.PEM)

    def attest(self, public_key, package, challenge):
        """What `KeyStore.getCertificateChain` returns: the leaf first."""
        extension = x509.UnrecognizedExtension(KEY_DESCRIPTION, key_description(package, challenge))
        leaf = self._certificate(public_key, None, 2, extension)
        return [made.public_bytes(serialization.Encoding.DER) for made in [leaf, *reversed(self._chain)]]

    def _certificate(self, public_key, place, issuer, *extensions):
        now = datetime.datetime.now(datetime.timezone.utc)
        leaf = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Android Keystore Key")])
        builder = (
            x509.CertificateBuilder().serial_number(1 if place is None else x509.random_serial_number())
            .public_key(public_key).subject_name(leaf if place is None else self._names[place])
            .issuer_name(self._names[issuer]).not_valid_before(now - DAY).not_valid_after(now + 300 * DAY))
        for extension in extensions:
            builder = builder.add_extension(extension, critical=False)
        return builder.sign(self._keys[issuer], hashes.SHA256())


class AndroidPhone:
    """A key in the Keystore, the app's counter, and the tag by which the app names the key."""

    algorithm = "ecdsa-p256-sha256"

    def __init__(self, authority, app_id):
        self._authority, self._package = authority, app_id.removeprefix("android:")
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.key_id = sha256(point(self._key.public_key()))
        self.tag = secrets.token_bytes(24)
        self.counter = 0

    def attestation(self, challenge, public_key=None):
        """The chain of the hardware key, or of another key of the phone."""
        return self._authority.attest(public_key or self._key.public_key(), self._package, challenge)

    def next_counter(self):
        self.counter += 1
        return self.counter

    def sign(self, message):
        """As java.security.Signature returns it."""
        return self._key.sign(message, ec.ECDSA(hashes.SHA256()))

    def signature(self, base):
        """r and s of 32 bytes each."""
        r, s = decode_dss_signature(self.sign(base))
        return r.to_bytes(32, "big") + s.to_bytes(32, "big")
