"""What stands in for Apple and for the phone's hardware: an authority, and keys that it attests."""

import datetime
import hashlib

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from . import cbor

NONCE_EXTENSION = x509.ObjectIdentifier("1.2.840.113635.100.8.2")
AAGUID = b"appattest" + bytes(7)
DAY = datetime.timedelta(days=1)


def sha256(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def point(public_key):
    """The 65 bytes that a key's id is the SHA-256 of."""
    return public_key.public_bytes(serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint)


def extension_value(nonce):
    """SEQUENCE { [1] { OCTET STRING nonce } }"""
    return b"\x30\x24\xa1\x22\x04\x20" + nonce


class Authority:
    """A root, and the intermediate that signs the leaves of attestations."""

    def __init__(self):
        self._root_key, self._key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
        self.root = _certificate("Independent root", self._root_key.public_key(), "Independent root", self._root_key, 1)
        self.intermediate = _certificate("Independent 1", self._key.public_key(), "Independent root", self._root_key, 0)

    def root_pem(self):
        """What the gateway's conf file names as `attestation_root`."""
        return self.root.public_bytes(serialization.Encoding.PEM)

    def leaf(self, public_key, nonce):
        said = x509.UnrecognizedExtension(NONCE_EXTENSION, extension_value(nonce))
        name = sha256(point(public_key)).hex()
        return _certificate(name, public_key, "Independent 1", self._key, None, said)


def _certificate(subject, public_key, issuer, issuer_key, path_length, *extensions):
    now = datetime.datetime.now(datetime.timezone.utc)
    builder = (
        x509.CertificateBuilder().serial_number(x509.random_serial_number()).public_key(public_key)
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .not_valid_before(now - DAY).not_valid_after(now + 3 * DAY)
        .add_extension(x509.BasicConstraints(ca=path_length is not None, path_length=path_length), critical=True))
    for extension in extensions:
        builder = builder.add_extension(extension, critical=False)
    return builder.sign(issuer_key, hashes.SHA256())


class SoftwarePhone:
    """A hardware key, its counter, and what DCAppAttestService makes with them."""

    algorithm = "apple-attest"

    def __init__(self, authority, app_id, key=None):
        self._authority, self._rp_id_hash = authority, sha256(app_id.encode())
        self._key = key or ec.generate_private_key(ec.SECP256R1())
        self.key_id = self.tag = sha256(point(self._key.public_key()))
        self.counter = 0

    def attestation(self, client_data_hash):
        """The one attestation of the key, as `attestKey` returns it."""
        data = self.attested_data()
        leaf = self._authority.leaf(self._key.public_key(), sha256(data, client_data_hash))
        chain = [made.public_bytes(serialization.Encoding.DER) for made in [leaf, self._authority.intermediate]]
        return cbor.encode({"fmt": "apple-appattest", "attStmt": {"x5c": chain, "receipt": b""}, "authData": data})

    def attested_data(self):
        """The authenticator data of the attestation."""
        public = point(self._key.public_key())
        cose_key = {1: 2, 3: -7, -1: 1, -2: public[1:33], -3: public[33:]}
        return b"".join([self._rp_id_hash, b"\x40", bytes(4), AAGUID, b"\x00\x20", self.key_id, cbor.encode(cose_key)])

    def assertion_parts(self, client_data_hash):
        """The signature and the authenticator data of the next assertion."""
        self.counter += 1
        data = self._rp_id_hash + b"\x40" + self.counter.to_bytes(4, "big")
        return self._key.sign(sha256(data, client_data_hash), ec.ECDSA(hashes.SHA256())), data

    def assertion(self, client_data_hash):
        """An assertion as `generateAssertion` returns it."""
        signature, data = self.assertion_parts(client_data_hash)
        return cbor.encode({"signature": signature, "authenticatorData": data})
