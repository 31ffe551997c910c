"""Certificates of Android keys, by a root of the test's own. Written from Android's description of key attestation, not from
the simulator's code, so that two readings of it are compared."""

from datetime import datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID, ObjectIdentifier

from support.key_description import application, key_description
from support.platforms import ANDROID_APP

KEY_DESCRIPTION = ObjectIdentifier("1.3.6.1.4.1.11129.2.1.17")
# Leaf first, root last, as of a phone that got its attestation key in the factory.
NAMES = [
    {NameOID.COMMON_NAME: "Android Keystore Key"}, {NameOID.TITLE: "TEE", NameOID.SERIAL_NUMBER: "1"},
    {NameOID.TITLE: "TEE", NameOID.SERIAL_NUMBER: "2"}, {NameOID.SERIAL_NUMBER: "f92009e853b6b045"}]


class KeyAttestationAuthority:
    """What Google is for phones that are sold: a root, and the keys below it by which one phone attests others.

    `first_serial`: of the leaf; those above follow."""

    def __init__(self, directory, name="key attestation root", first_serial=0xAB0):
        self.keys = [ec.generate_private_key(ec.SECP256R1()) for _ in NAMES[1:]]
        self.above = [
            self._issue(position, self.keys[position - 1], first_serial + position) for position in range(1, len(NAMES))]
        self.first_serial = first_serial
        self.path = Path(directory) / f"{name.replace(' ', '-')}.pem"
        self.path.write_bytes(self.above[-1].public_bytes(Encoding.PEM))

    def _issue(self, position, key, serial, extension=None):
        above = min(position + 1, len(NAMES) - 1)
        subject, issuer = (
            x509.Name([x509.NameAttribute(kind, value) for kind, value in NAMES[place].items()]) for place in (position, above))
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).serial_number(serial) \
            .not_valid_before(datetime(2026, 1, 1)).not_valid_after(datetime(2036, 1, 1)).public_key(key.public_key())
        if extension is not None:
            builder = builder.add_extension(x509.UnrecognizedExtension(KEY_DESCRIPTION, extension), critical=False)
        return builder.sign(self.keys[above - 1], hashes.SHA256())

    def certificates(self, private, description):
        """Leaf first. `description`: the extension's value."""
        return [self._issue(0, private, self.first_serial, description), *self.above]

    def attest(self, key, challenge, app=ANDROID_APP, **description):
        """What `getCertificateChain` returns: DER, leaf first. `description`: what `key_description` takes."""
        software = {709: application(app.removeprefix("android:")), **description.pop("software", {})}
        value = key_description(challenge=challenge, software=software, **description)
        return [certificate.public_bytes(Encoding.DER) for certificate in self.certificates(key.private, value)]
