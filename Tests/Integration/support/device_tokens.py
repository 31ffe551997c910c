"""An issuer of device tokens, with jwcrypto."""

import base64
import json
import time

from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256, Hash
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwcrypto import jwk, jws

ISSUER = "https://gms.example"


def sha256(data):
    digest = Hash(SHA256())
    digest.update(data)
    return digest.finalize()


def unpadded(data):
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def certificate_of(identity):
    return x509.load_pem_x509_certificate(identity.certificate.read_bytes())


class TokenIssuer:
    def __init__(self, folder, **key):
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.key = jwk.JWK.generate(**(key or {"kty": "EC", "crv": "P-256"}), kid="1")
        self.file = folder / "jwks.json"
        self.publish(self.key)

    def publish(self, *keys, **members):
        self.file.write_text(json.dumps({"keys": [{**key.export_public(as_dict=True), **members} for key in keys]}))

    def settings(self, **change):
        return {"issuer": ISSUER, "jwks": str(self.file), **change}

    def claims(self, identity, **change):
        certificate, now = certificate_of(identity), int(time.time())
        point = certificate.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
        claims = {
            "iss": ISSUER, "iat": now, "exp": now + 600, "jti": "1", "type": "IOS",
            "sub": base64.b64encode(sha256(point)).decode(),
            "cnf": {"x5t#S256": unpadded(sha256(certificate.public_bytes(Encoding.DER)))}, **change}
        return {name: value for name, value in claims.items() if value is not None}

    def sign(self, claims, key=None, **header):
        token = jws.JWS(json.dumps(claims))
        token.allowed_algs = ["ES256", "RS256", "PS256", "HS256"]
        header = {"typ": "JWT", "alg": "ES256", "kid": "1", **header}
        token.add_signature(
            key or self.key, None, json.dumps({name: value for name, value in header.items() if value is not None}), None)
        return token.serialize(compact=True)

    def token(self, identity, key=None, header=None, **change):
        return self.sign(self.claims(identity, **change), key, **(header or {}))
