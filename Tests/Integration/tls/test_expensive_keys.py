"""Self-signed certificates with keys that are expensive to verify with: the gateway refuses the key, and verifies nothing."""

import base64
import hashlib
import os
import shutil
import ssl
import subprocess
from datetime import datetime, timedelta, timezone

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from support.attested import ROUTES
from support.client import Client, get
from support.command_line import s_client, s_client_alert
from support.denials import NothingForwarded, assert_connection_refused, assert_denied
from support.paths import ENVIRONMENT, PATIENCE
from support.pki import Identity
from test_self_signed import APPS

UNKNOWN_CA, UNSUPPORTED = 48, 43

# Records each signature of a certificate that the gateway itself verifies.
COUNTING = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

int X509_verify(void *certificate, void *key) {
    static int (*verify)(void *, void *);
    if (!verify) verify = dlsym(RTLD_NEXT, "X509_verify");
    int file = open(getenv("VERIFICATIONS"), O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (file < 0 || write(file, "x", 1) != 1) abort();
    close(file);
    return verify(certificate, key);
}
"""


class Counting:
    """A gateway that accepts self-signed certificates, and how many of their signatures it has verified."""

    def __init__(self, start_gateway, upstream, directory):
        shim, self.record = directory / "counting.so", directory / "verifications"
        subprocess.run(
            [shutil.which("cc") or shutil.which("clang"), "-shared", "-fPIC", "-x", "c", "-o", shim, "-"],
            input=COUNTING, text=True, timeout=PATIENCE, check=True)
        self.upstream = upstream
        self.gateway = start_gateway(
            {"service": upstream.address}, ROUTES, apps=APPS,
            # Our own side presents only keys that it is asked for.
            clients={"accept": ["issued", "registered"], "keys": ["p256", "p521", "rsa2048"]})
        self.gateway.halt().environment = {
            **ENVIRONMENT, "LD_PRELOAD": str(shim), "VERIFICATIONS": str(self.record)}
        self.gateway.start()

    def verified(self):
        return os.path.getsize(self.record) if self.record.exists() else 0


@pytest.fixture
def counting(start_gateway, own_upstream, tmp_path):
    return Counting(start_gateway, own_upstream, tmp_path)


class HugeExponent:
    """RSA whose public exponent is as long as its modulus. OpenSSL takes that up to 3072 bits."""

    def __init__(self):
        self.usual = rsa.generate_private_key(public_exponent=65537, key_size=3072)
        # The two exponents change places.
        self.numbers = self.usual.private_numbers()
        self.public_numbers = rsa.RSAPublicNumbers(self.numbers.d, self.numbers.public_numbers.n)

    def public_key(self):
        return self.public_numbers.public_key()

    def sign(self, der, tbs):
        """- Returns: a certificate that `usual` has signed, now signed by this key (RFC 8017 section 8.2.1)."""
        digest = bytes.fromhex("3031300d060960864801650304020105000420") + hashlib.sha256(tbs).digest()
        message = b"\0\x01".ljust(384 - len(digest) - 1, b"\xff") + b"\0" + digest
        signature = pow(int.from_bytes(message, "big"), 65537, self.public_numbers.n)
        return der[:-384] + signature.to_bytes(384, "big")

    def pem(self):
        n = self.numbers
        values = [0, self.public_numbers.n, self.public_numbers.e, 65537, n.p, n.q, 65537, 65537, n.iqmp]
        encoded = b"".join(element(2, value.to_bytes(value.bit_length() // 8 + 1, "big")) for value in values)
        text = base64.encodebytes(element(0x30, encoded))
        return b"-----BEGIN RSA PRIVATE KEY-----\n" + text + b"-----END RSA PRIVATE KEY-----\n"


def element(tag, content):
    """In DER, of at most 64 KiB."""
    size = len(content)
    length = bytes([size]) if size < 128 else bytes([0x82]) + size.to_bytes(2, "big")
    return bytes([tag]) + length + content


def certificate(directory, name, key, signer=None, issuer=None):
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(timezone.utc)
    signer = signer or key
    made = (
        x509.CertificateBuilder().subject_name(subject).issuer_name(issuer or subject).public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=name == "above", path_length=None), critical=True)
        .sign(signer.usual if isinstance(signer, HugeExponent) else signer, hashes.SHA256()))
    der = made.public_bytes(serialization.Encoding.DER)
    if isinstance(signer, HugeExponent):
        der = signer.sign(der, made.tbs_certificate_bytes)
    identity = Identity(directory / f"{name}.pem", directory / f"{name}.key")
    identity.certificate.write_text(ssl.DER_cert_to_PEM_cert(der))
    identity.key.touch(0o600)
    identity.key.write_bytes(key.pem() if isinstance(key, HugeExponent) else key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
    return identity


def refuse(counting, identity, code, alert):
    output = s_client(counting.gateway, identity=identity, weak=True, send=get("/", "Connection: close"))
    assert s_client_alert(output) == alert
    return assert_connection_refused(counting.gateway, code)["detail"]


@pytest.mark.parametrize("is_forged", [False, True], ids=["signed by it", "forged"])
@pytest.mark.parametrize("make", [
    HugeExponent, lambda: rsa.generate_private_key(65537, 4096), lambda: ec.generate_private_key(ec.SECP521R1()),
], ids=["huge exponent", "RSA-4096", "P-521"])
def test_no_signature_of_an_unacceptable_key_is_verified(counting, pki, tmp_path, make, is_forged):
    key = make()
    signer = ec.generate_private_key(ec.SECP256R1()) if is_forged else None
    identity = certificate(tmp_path, "expensive", key, signer)
    with NothingForwarded(counting.gateway, counting.upstream, pki.phone()):
        before = counting.verified()
        detail = refuse(counting, identity, "certificate_unsuitable", UNSUPPORTED)
        assert "the key is not on P-256" in detail
        assert counting.verified() == before


def test_the_signature_of_an_acceptable_key_is_verified_once(counting, tmp_path):
    # The control of the test above.
    identity = certificate(tmp_path, "acceptable", ec.generate_private_key(ec.SECP256R1()))
    before = counting.verified()
    with Client(counting.gateway, identity) as client:
        assert_denied(counting.gateway, client.exchange(get("/")), "device_unknown", 401)
    assert counting.verified() == before + 1


def test_a_key_of_a_chain_verifies_only_after_an_authority_has_signed_it(counting, pki, tmp_path):
    # An expensive key has signed the leaf, and claims to be a trusted authority's.
    root = x509.load_pem_x509_certificate(pki.root.certificate.read_bytes())
    above_key = HugeExponent()
    above = certificate(
        tmp_path, "above", above_key, signer=ec.generate_private_key(ec.SECP256R1()), issuer=root.subject)
    name = x509.load_pem_x509_certificate(above.certificate.read_bytes()).subject
    leaf = certificate(tmp_path, "leaf", ec.generate_private_key(ec.SECP256R1()), signer=above_key, issuer=name)
    leaf.certificate.write_bytes(leaf.certificate.read_bytes() + above.certificate.read_bytes())
    # The leaf's signature would have held.
    assert "signature failure, 1 above it" in refuse(counting, leaf, "certificate_unknown_authority", UNKNOWN_CA)
