"""A server that plays Apple's App Attest data service: looks at what it is asked, closely, and answers by a script. Written from
Apple's "Assessing fraud risk", not from the code."""

import base64
import json
import threading
import time
from dataclasses import dataclass, field

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from support.enrolling_phone import from_b64url
from support.posted_to import PostedTo
from support.receipts import fields_of

TEAM, KEY_ID = "A1B2C3D4E5", "ABCDE12345"
LONGEST_TOKEN_AGE = 3600


@dataclass
class Call:
    """One request for a newer receipt."""

    at: float
    receipt: bytes
    fields: dict
    connection: object
    ended: threading.Event = field(default_factory=threading.Event)

    @property
    def leaf(self):
        return x509.load_der_x509_certificate(self.fields[3])

    @property
    def app(self):
        return self.fields[2].decode()


class Answer(Exception):
    def __init__(self, status, content=b"", **headers):
        self.status, self.content, self.headers = status, content, headers


class Hangup(Exception):
    """The connection ends without an answer."""


def receipt(data):
    return Answer(200, base64.b64encode(data))


class ReceiptService:
    """`script(call)` returns an `Answer`, or raises `Hangup`; it may take its time."""

    def __init__(self, directory, identity=None, host="localhost"):
        """`identity`: certificate and key to speak TLS with; None speaks in the clear. `host`: as it is to be asked for."""
        self.host = host
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.key_path = directory / "AuthKey.p8"
        self.key_path.write_bytes(self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
        self.key_path.chmod(0o600)
        self.calls, self.faults = [], []
        self.under_way = self.most_under_way = 0
        self.lock = threading.Lock()
        self.script = lambda call: Answer(304)
        self.service = PostedTo(self._serve, identity)
        self.port = self.service.port

    @property
    def url(self):
        return f"{'http' if self.service.context is None else 'https'}://{self.host}:{self.port}"

    def stop(self):
        self.service.close()
        assert self.faults == [], self.faults

    # What is looked at.

    def _check_token(self, token):
        header, claims, signature = token.split(".")
        assert json.loads(from_b64url(header)) == {"alg": "ES256", "kid": KEY_ID}, header
        members = json.loads(from_b64url(claims))
        assert set(members) == {"iss", "iat"} and members["iss"] == TEAM, members
        assert abs(time.time() - members["iat"]) < LONGEST_TOKEN_AGE, members
        raw = from_b64url(signature)
        assert len(raw) == 64
        r, s = (int.from_bytes(half, "big") for half in (raw[:32], raw[32:]))
        try:
            self.key.public_key().verify(
                encode_dss_signature(r, s), f"{header}.{claims}".encode(), ec.ECDSA(hashes.SHA256()))
        except InvalidSignature:
            raise AssertionError("the token's signature") from None

    def _read(self, handler):
        assert handler.path == "/v1/attestationData", handler.path
        assert handler.headers["Host"] == f"{self.host}:{self.port}", handler.headers
        authorization = handler.headers.get_all("Authorization")
        assert len(authorization) == 1
        content = handler.rfile.read(int(handler.headers["Content-Length"]))
        self._check_token(authorization[0])
        data = base64.b64decode(content, validate=True)
        return Call(time.time(), data, fields_of(data), handler.connection)

    def _serve(self, handler):
        try:
            call = self._read(handler)
        except Exception as error:
            self.faults.append(repr(error))
            handler.send_error(400)
            return
        with self.lock:
            self.calls.append(call)
            self.under_way += 1
            self.most_under_way = max(self.most_under_way, self.under_way)
            script = self.script
        try:
            answer = script(call)
        except Hangup:
            handler.close_connection = True
            return
        finally:
            with self.lock:
                self.under_way -= 1
        try:
            handler.send_response(answer.status)
            for name, value in answer.headers.items():
                handler.send_header(name.replace("_", "-"), value)
            if answer.status != 304:
                handler.send_header("Content-Length", str(len(answer.content)))
            handler.end_headers()
            handler.wfile.write(answer.content)
        except OSError:
            handler.close_connection = True
