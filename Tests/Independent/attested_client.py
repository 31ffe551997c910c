"""Requests with proofs, written from docs/protocol.md alone."""

import base64
import hashlib
import re
import ssl
import tempfile
import time
from pathlib import Path

from cryptography.hazmat.primitives import serialization

from .https import Connection

ALWAYS = ["@method", "@authority", "@path", "@query"]
IF_PRESENT = ["authorization", "content-type", "content-encoding"]
CHALLENGE_PATH = "/.well-known/attestgate/challenge"
# How old a challenge is when another is asked for.
CHALLENGE_SECONDS = 240


def base64text(data):
    return base64.b64encode(data).decode()


def content_digest(content):
    return f"sha-256=:{base64text(hashlib.sha256(content).digest())}:"


def parameters(covered, created, key_id, challenge):
    """The value of `attest` in Signature-Input."""
    names = " ".join(f'"{name}"' for name in covered)
    return f'({names});created={created};keyid="{base64text(key_id)}";nonce="{challenge}";tag="attestgate-request"'


def signature_base(method, authority, target, fields, covered, said):
    """`said`: the parameters."""
    path, mark, query = target.partition("?")
    values = {"@method": [method], "@authority": [authority.lower().removesuffix(":443")],
              "@path": [path or "/"], "@query": [mark + query if mark else "?"]}
    for name, value in fields:
        values.setdefault(name.lower(), []).append(value.strip())
    lines = [f'"{name}": {", ".join(values[name])}' for name in covered]
    return "\n".join([*lines, f'"@signature-params": {said}'])


class AttestedClient:
    """Sends requests, each with a proof of its own."""

    def __init__(self, host, port, authorities, phone):
        self._host, self._port, self._authorities, self._phone = host, port, authorities, phone
        self._authority = host if port == 443 else f"{host}:{port}"
        self._connection = None
        self.challenge, self.challenged_at = None, 0
        # By how much the gateway's clock is ahead of ours.
        self.ahead = 0

    def use(self, chain, key):
        """Shows this certificate from now on, on a new connection."""
        self.close()
        context = ssl.create_default_context(cafile=self._authorities)
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "both.pem"
            path.touch(mode=0o600)
            path.write_bytes(chain + key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
            context.load_cert_chain(path)
        self._connection = Connection(self._host, self._port, context)

    def request(self, method, target, fields=(), content=b""):
        """Sends a request, and once more where the challenge or the clock was at fault. Whatever else is refused, only the
        caller knows whether it may be done twice."""
        if self.challenge is None or time.time() - self.challenged_at > CHALLENGE_SECONDS:
            self.fetch_challenge()
        answer = self.send(self.prove(method, target, fields, content), content)
        if answer.status == 401 and answer.error() in ("challenge_required", "proof_stale"):
            if answer.error() == "proof_stale":
                self.ahead = answer.seconds() - time.time()
            answer = self.send(self.prove(method, target, fields, content), content)
        return answer

    def fetch_challenge(self):
        answer = self.send(("GET", CHALLENGE_PATH, [("Host", self._authority)]))
        assert answer.status == 204, answer

    def prove(self, method, target, fields=(), content=b""):
        """Makes the next proof. - Returns: method, target and all fields."""
        fields, covered = [("Host", self._authority), *fields], list(ALWAYS)
        if content:
            fields += [("Content-Length", str(len(content))), ("Content-Digest", content_digest(content))]
            covered.append("content-digest")
        present = {name.lower() for name, _ in fields}
        covered += [name for name in IF_PRESENT if name in present]
        if self._phone.algorithm != "apple-attest":
            fields.append(("Attest-Proof-Counter", str(self._phone.next_counter())))
            covered.append("attest-proof-counter")
        said = parameters(covered, int(time.time() + self.ahead), self._phone.key_id, self.challenge)
        base = signature_base(method, self._authority, target, fields, covered, said)
        if self._phone.algorithm == "apple-attest":
            proven = self._phone.assertion(hashlib.sha256(base.encode()).digest())
        else:
            proven = self._phone.signature(base.encode())
        proof = [("Signature-Input", f"attest={said}"), ("Signature", f"attest=:{base64text(proven)}:")]
        return method, target, fields + proof

    def send(self, proven, content=b""):
        """Sends what `prove` has made, as often as is asked for, and keeps the challenge that the answer brings."""
        answer = self._connection.send(*proven, content)
        brought = re.search(r'\battest=\([^)]*\)[^,]*;nonce="([^"]+)"', answer.fields.get("accept-signature", ""))
        if brought:
            self.challenge, self.challenged_at = brought[1], time.time()
        return answer

    def close(self):
        if self._connection:
            self._connection.close()
