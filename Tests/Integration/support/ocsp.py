"""OCSP responses, as an authority makes them, and as none should."""

from datetime import datetime, timedelta, timezone

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.x509 import ocsp

from support.pki import Authority


def load(identity):
    """- Returns: certificate and key of an authority or identity."""
    key = serialization.load_pem_private_key(identity.key.read_bytes(), None)
    return x509.load_pem_x509_certificate(identity.certificate.read_bytes()), key


def seconds(offset):
    return datetime.now(timezone.utc).replace(microsecond=0, tzinfo=None) + timedelta(seconds=offset)


def write(path, leaf, issuer, signer=None, status="good", start=-60, end=3600):
    """Writes what `issuer` says of the leaf's certificate, as one step. `start`, `end`: seconds from now.

    - Returns: the end, in seconds since 1970.
    """
    certificate = x509.load_pem_x509_certificate(leaf.read_bytes())
    authority, _ = load(issuer)
    signing, key = load(signer or issuer)
    revoked = status == "revoked"
    ends = seconds(end)
    response = ocsp.OCSPResponseBuilder().add_response(
        cert=certificate, issuer=authority, algorithm=hashes.SHA1(), cert_status=ocsp.OCSPCertStatus[status.upper()],
        this_update=seconds(start), next_update=ends, revocation_time=seconds(-90) if revoked else None,
        revocation_reason=x509.ReasonFlags.key_compromise if revoked else None,
    ).responder_id(ocsp.OCSPResponderEncoding.HASH, signing).certificates([signing]).sign(key, hashes.SHA256())
    made = path.with_suffix(".new")
    made.write_bytes(response.public_bytes(serialization.Encoding.DER))
    made.replace(path)
    return int((ends - datetime(1970, 1, 1)).total_seconds())


def error():
    return ocsp.OCSPResponseBuilder.build_unsuccessful(ocsp.OCSPResponseStatus.TRY_LATER).public_bytes(
        serialization.Encoding.DER)


class Stapled:
    """A server certificate with its issuer's behind it, and the file with what is stapled."""

    def __init__(self, directory, pki):
        self.issuer = Authority(pki.server_ca, pki.directory / "server-ca.key")
        self.leaf = pki.server_certificate
        self.chain, self.response = directory / "chain.pem", directory / "server.ocsp"
        self.chain.write_text(self.leaf.read_text() + pki.server_ca.read_text())

    def write(self, **options):
        return write(self.response, self.leaf, self.issuer, **options)

    @property
    def tls(self):
        return {"certificate": str(self.chain), "ocsp_response": str(self.response)}
