"""A client attester and instances of its client, with jwcrypto."""

import base64
import hashlib
import json
import time
import uuid

from jwcrypto import jwk, jws

CLIENT_ID = "https://wallet.example"


def unpadded(data):
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def sign(key, claims, **header):
    """A JWS in compact form. Members that are None are left out."""
    token = jws.JWS(json.dumps({name: value for name, value in claims.items() if value is not None}))
    token.allowed_algs = ["ES256", "RS256", "PS256", "HS256"]
    header = {"alg": "ES256", **header}
    token.add_signature(
        key, None, json.dumps({name: value for name, value in header.items() if value is not None}), None)
    return token.serialize(compact=True)


class ClientAttester:
    def __init__(self, folder):
        folder.mkdir(parents=True, exist_ok=True)
        self.key = jwk.JWK.generate(kty="EC", crv="P-256", kid="11")
        self.file = folder / "attester.json"
        self.file.write_text(json.dumps({"keys": [self.key.export_public(as_dict=True)]}))

    def settings(self, resource, **change):
        return {"jwks": str(self.file), "resource": resource, **change}

    def attestation(self, instance, key=None, header=None, **change):
        now = int(time.time())
        public = {**instance.key.export_public(as_dict=True), "use": "sig"}
        claims = {"sub": CLIENT_ID, "iat": now, "exp": now + 600, "cnf": {"jwk": public}, **change}
        return sign(key or self.key, claims, **{"typ": "oauth-client-attestation+jwt", "kid": "11", **(header or {})})


class WalletInstance:
    """An instance of the client, with its key."""

    def __init__(self, resource, key=None):
        self.resource, self.key = resource, key or jwk.JWK.generate(kty="EC", crv="P-256")

    def pop(self, challenge, key=None, header=None, **change):
        claims = {
            "aud": self.resource, "jti": str(uuid.uuid4()), "iat": int(time.time()), "challenge": challenge, **change}
        return sign(key or self.key, claims, **{"typ": "oauth-client-attestation-pop+jwt", **(header or {})})

    def dpop(self, challenge, method, url, token=None, key=None, header=None, **change):
        claims = {
            "htm": method, "htu": url, "jti": str(uuid.uuid4()), "iat": int(time.time()), "nonce": challenge,
            "ath": token and unpadded(hashlib.sha256(token.encode()).digest()), **change}
        public = json.loads(self.key.export_public())
        return sign(key or self.key, claims, **{"typ": "dpop+jwt", "jwk": public, **(header or {})})


def fields(attestation, pop):
    return [f"OAuth-Client-Attestation: {attestation}", f"OAuth-Client-Attestation-PoP: {pop}"]
