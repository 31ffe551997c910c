"""A phone: hardware key, client certificate, and request proofs. Written from the protocol, not from the gateway's code,
so that two readings of it are compared."""

import base64
import hashlib
import re
import struct
import threading
import time

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, utils

from support import client as http
from support.client import Client
from support.gateway import APP
from support.platforms import platform_of

TARGET = ["@method", "@authority", "@path", "@query"]
COVERED_WHEN_PRESENT = ["authorization", "content-type", "content-encoding"]
COUNTER_FIELD = "Attest-Proof-Counter"
ALGORITHMS = {"ios": "apple-attest", "android": "ecdsa-p256-sha256"}


def b64(data):
    return base64.b64encode(data).decode()


def cbor_bytes(data):
    return (bytes([0x58, len(data)]) if len(data) < 256 else b"\x59" + struct.pack(">H", len(data))) + data


def cbor_assertion(signature, authenticator_data):
    return (b"\xa2" + b"\x69signature" + cbor_bytes(signature)
            + b"\x71authenticatorData" + cbor_bytes(authenticator_data))


class HardwareKey:
    def __init__(self, private=None):
        self.private = private or ec.generate_private_key(ec.SECP256R1())
        self.point = self.private.public_key().public_bytes(
            serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint)
        self.key_id = hashlib.sha256(self.point).digest()

    def sign(self, message):
        return self.private.sign(message, ec.ECDSA(hashes.SHA256()))

    def sign_fixed(self, message):
        """r and s of 32 bytes each (RFC 9421 section 3.3.4)."""
        return b"".join(number.to_bytes(32, "big") for number in utils.decode_dss_signature(self.sign(message)))


def content_digest(content, algorithm="sha-256"):
    digest = hashlib.new(algorithm.replace("-", ""), content).digest()
    return f"{algorithm}=:{b64(digest)}:"


class Phone:
    """One app installation, on the platform that the app's id tells. Its counter rises with each proof, whatever becomes of it."""

    def __init__(self, gateway, identity, app=APP, register=True):
        self.gateway, self.identity, self.app = gateway, identity, app
        self.platform = platform_of(app)
        self.key = HardwareKey()
        self.counter = 0
        self.kept, self.kept_until, self.kept_of = None, 0, None
        # What `again` signs once more: the arguments of each request, by its bytes.
        self.made = {}
        self.lock = threading.Lock()
        if register:
            self.number = gateway.add_device(self)

    def connect(self, **options):
        return Client(self.gateway, self.identity, **options)

    # Challenges.

    def challenge(self):
        """A challenge of this phone's gateway, the same for a while: past half its life, answers would bring a new one. A gateway that
        was started again has others."""
        process = getattr(self.gateway, "process", None)
        if self.kept is None or time.monotonic() > self.kept_until or self.kept_of is not process:
            self.kept_until, self.kept_of = time.monotonic() + 30, process
            with self.connect() as client:
                response = client.exchange(http.get("/.well-known/attestgate/challenge"))
            assert response.status == 204, response
            self.kept = challenge_of(response)
        return self.kept

    # Proofs.

    @property
    def algorithm(self):
        return ALGORITHMS[self.platform]

    def _take_counter(self, counter=None):
        with self.lock:
            if counter is None:
                self.counter += 1
                counter = self.counter
        return counter

    def _sign(self, base, counter, **change):
        """An Android key signs the base, of which the counter is a line; an assertion has its own."""
        if self.platform == "ios":
            return self.assertion(base, counter=counter, **change)
        key, hash_times = change.pop("key", None) or self.key, change.pop("hash_times", 1)
        assert change == {}, "options of assertions"
        for _ in range(hash_times - 1):
            base = hashlib.sha256(base).digest()
        return key.sign_fixed(base)

    def assertion(self, client_data, app=None, counter=None, flags=0x40, extensions=b"", key=None, hash_times=1):
        counter = self._take_counter(counter)
        data = hashlib.sha256((app or self.app).encode()).digest() + bytes([flags]) + struct.pack(">I", counter) + extensions
        digest = client_data
        for _ in range(hash_times):
            digest = hashlib.sha256(digest).digest()
        nonce = hashlib.sha256(data + digest).digest()
        return cbor_assertion((key or self.key).sign(nonce), data)

    def proof(
        self, method="GET", path="/", query="", authority="localhost", fields=(), content=None, chunked=False, **change
    ):
        """The fields of a proof for that request; `change` bends it.

        covered, parameters, nonce, created, keyid, extra parameters as text, tag, label, digest (None: no such field),
        assertion (bytes, or a function of the genuine ones; on Android the signature), counter_lines (the texts of Android's field in
        place of the counter), and what `assertion()` takes.
        """
        own = []
        counter = self._take_counter(change.pop("counter", None))
        if self.platform == "android":
            own += [(COUNTER_FIELD, text) for text in change.pop("counter_lines", [str(counter)])]
        has_content = chunked or content
        digest = change.pop("digest", content_digest(content or b"") if has_content else None)
        if digest is not None:
            own.append(("Content-Digest", digest))
        present = [(name.lower(), value) for name, value in [*fields, *own]]
        covered = change.pop("covered", None)
        if covered is None:
            names = {name for name, _ in present}
            covered = TARGET + (["content-digest"] if digest is not None else [])
            covered += [name for name in COVERED_WHEN_PRESENT if name in names]
            covered += change.pop("also", [])
            covered += [COUNTER_FIELD.lower()] if self.platform == "android" else []
        label, tag = change.pop("label", "attest"), change.pop("tag", "attestgate-request")
        nonce = change.pop("nonce", None)
        parameters = change.pop("parameters", None) or (
            f'created={change.pop("created", int(time.time()))};keyid="{b64(change.pop("keyid", self.key.key_id))}"'
            f';nonce="{nonce if nonce is not None else self.challenge()}"{change.pop("extra", "")};tag="{tag}"')
        inner = "(" + " ".join(f'"{name}"' for name in covered) + ");" + parameters
        signed = dict(change.pop("signed", {}))
        values = {
            "@method": method, "@authority": authority, "@path": path, "@query": f"?{query}", **signed}
        lines = []
        for name in covered:
            value = values.get(name)
            if value is None:
                value = ", ".join(v.strip(" \t") for key, v in present if key == name)
            lines.append(f'"{name}": {value}')
        base = "\n".join([*lines, f'"@signature-params": {inner}'])
        bend = change.pop("assertion", None)
        assertion = self._sign(base.encode("latin-1"), counter, **change)
        if bend is not None:
            assertion = bend(assertion) if callable(bend) else bend
        return [*own, ("Signature-Input", f"{label}={inner}"), ("Signature", f"{label}=:{b64(assertion)}:")]

    def request(self, method="GET", path="/", query="", fields=(), content=None, chunked=False, sent=None, **change):
        """The bytes of a request with its proof.

        `sent` replaces what goes out after signing: method, target, fields, content, host.
        """
        arguments = {
            "method": method, "path": path, "query": query, "fields": fields, "content": content, "chunked": chunked,
            "sent": sent, **change}
        proof = self.proof(method, path, query, fields=fields, content=content, chunked=chunked, **change)
        sent = sent or {}
        body = sent.get("content", content) or b""
        lines = [*fields, *proof, *sent.get("fields", [])]
        if chunked:
            lines.append(("Transfer-Encoding", "chunked"))
            half = len(body) // 2
            parts = [part for part in (body[:half], body[half:]) if part]
            body = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"
        elif content is not None or "content" in sent:
            lines.append(("Content-Length", str(len(body))))
        target = path + (f"?{query}" if query else "")
        data = http.get(
            sent.get("target", target), *[f"{name}: {value}" for name, value in lines],
            method=sent.get("method", method), host=sent.get("host", "localhost")) + body
        self.made[data] = arguments
        return data

    def again(self, data):
        """The same request with the same counter, signed for a challenge of now: its counter alone decides whether it passes."""
        arguments = {name: value for name, value in self.made[data].items() if name not in ("nonce", "created")}
        return self.request(**{**arguments, "counter": counter_of(data)})


def counter_of(data):
    """Of a request's proof, as `Phone.request` has made it."""
    if stated := re.search(rf"\r\n{COUNTER_FIELD}: (\d+)\r\n".encode(), data):
        return int(stated[1])
    assertion = base64.b64decode(re.search(rb"\r\nSignature: [a-z]+=:([^:]+):", data)[1])
    # 32 bytes of the app, one of flags, then the counter.
    begin = assertion.index(b"authenticatorData") + len("authenticatorData") + 2 + 33
    return struct.unpack(">I", assertion[begin:begin + 4])[0]


def challenge_of(response):
    """The challenge that a response brings, from an Accept-Signature in canonical form."""
    value = response.value("accept-signature")
    match = re.fullmatch(
        r'attest=\((?:"[a-z@-]+"(?: |(?=\))))+\);created;nonce="([A-Za-z0-9_-]{78})"(?:;alg="ecdsa-p256-sha256")?;tag="attestgate-request"',
        value)
    assert match, value
    return match[1]
