"""An identity provider of which the tests know every answer: metadata, JWK Set, and tokens for admission. Keys and tokens are
jwcrypto's."""

import json
import threading
import time

from jwcrypto import jwk, jws

from support.posted_to import PostedTo
from support.status_list_service import Answer

METADATA = "/realms/care/.well-known/openid-configuration"
KEYS = "/realms/care/certs"


def new_key(kid, kind="EC", **options):
    options = {"crv": "P-256"} if kind == "EC" else {"size": 2048, **options}
    return jwk.JWK.generate(kty=kind, kid=kid, **options)


def key_set(*keys):
    """The JWK Set of public keys, or of dictionaries."""
    return json.dumps({"keys": [
        json.loads(key.export_public()) if isinstance(key, jwk.JWK) else key for key in keys]}).encode()


def token(key, algorithm, issuer, audience, thumbprint, header=None, **change):
    """An admission token. `change`: of its claims; None leaves one out."""
    now = int(time.time())
    claims = {
        "iss": issuer, "aud": audience, "sub": "patient-1", "jti": thumbprint, "exp": now + 300, "iat": now,
        "cnf": {"jkt": thumbprint}, **change}
    made = jws.JWS(json.dumps({name: value for name, value in claims.items() if value is not None}))
    protected = {"alg": algorithm, "typ": "JWT", "kid": key.get("kid"), **(header or {})}
    made.add_signature(key, algorithm, json.dumps({name: value for name, value in protected.items() if value is not None}), None)
    return made.serialize(compact=True)


class IssuerService:
    """`pages`: the answers by path. `fetches`: the paths that were asked for, with their fields."""

    def __init__(self, identity, keys=(), host="localhost"):
        self.lock, self.fetches = threading.Lock(), []
        self.service = PostedTo(self._answer, identity)
        self.port, self.host = self.service.port, host
        self.origin = f"{'https' if identity else 'http'}://{host}:{self.port}"
        self.issuer = f"{self.origin}/realms/care"
        self.pages = {}
        self.describe()
        self.publish(*keys)

    @property
    def keys_url(self):
        return self.origin + KEYS

    def describe(self, **change):
        metadata = {"issuer": self.issuer, "jwks_uri": self.keys_url, **change}
        self.pages[METADATA] = Answer(200, json.dumps(metadata).encode(), Content_Type="application/json")

    def publish(self, *keys, **fields):
        self.pages[KEYS] = Answer(200, key_set(*keys), Content_Type="application/jwk-set+json", **fields)

    def count(self, path=KEYS):
        with self.lock:
            return sum(asked == path for asked, _ in self.fetches)

    def stop(self):
        self.service.close()

    def _answer(self, handler):
        with self.lock:
            self.fetches.append((handler.path, dict(handler.headers.items())))
            answer = self.pages.get(handler.path, Answer(404))
        tag = answer.fields.get("ETag")
        if tag and handler.headers["If-None-Match"] == tag:
            answer = Answer(304, ETag=tag)
        try:
            handler.send_response(answer.status)
            for name, value in answer.fields.items():
                handler.send_header(name.replace("_", "-"), value)
            if answer.status != 304:
                handler.send_header("Content-Length", str(len(answer.content)))
            handler.end_headers()
            handler.wfile.write(answer.content)
        except OSError:
            handler.close_connection = True
