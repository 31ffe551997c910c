"""The framing oracle over routes that ask for proofs: every request that can be read brings one, and is forwarded as it was
meant, in canonical form. If the digests that were signed are of other content, none with content is ever complete."""

import base64
import re

from support import intended
from support.attacks import SMUGGLED
from support.oracle import Oracle
from support.phone import COVERED_WHEN_PRESENT, Phone, content_digest

PSEUDONYM = re.compile("[0-9a-f]{64}")


def is_signable(request):
    """Whether a signature base can hold all that a proof is to cover: nothing beyond ASCII (RFC 9421 section 2.5)."""
    return all(value.isascii() for name, value in request.fields if name.lower() in COVERED_WHEN_PRESENT)


class AttestedOracle(Oracle):
    def __init__(self, directory, pki, body):
        identity = pki.phone(f"oracle-{body}")
        super().__init__(directory, pki, identity, require="request-proof", body=body)
        self.body = body
        self.prover = Phone(self.gateway, identity)
        # Whether proofs are for the content that is sent.
        self.is_right = True
        self.withheld = []

    def prepare(self, data):
        made, position = b"", 0
        while position < len(data):
            try:
                head = intended._Head(data, position)
            except (intended.Refused, intended.Unfinished):
                break
            try:
                content, after = head.content(data, head.end)
            except (intended.Refused, intended.Unfinished):
                content, after = b"", len(data)
            made += data[position:head.end - 2] + self._proof(head, content) + b"\r\n" + data[head.end:after]
            position = after
        # An attacker has a phone too: what cannot be read is not to be refused for want of a proof.
        start, end, rest = data[position:].partition(b"\r\n\r\n")
        return made + start + (b"\r\n" + self._lines("POST", "/outer", SMUGGLED) + b"\r\n" + rest if end else b"")

    def _proof(self, head, content):
        path, _, query = head.target.decode().partition("?")
        signed = content if self.is_right else content + b"x"
        digest = content_digest(signed) if head.is_chunked or head.length else None
        return self._lines(
            head.method.decode(), path, content, query=query, digest=digest,
            authority=head.authority.decode().lower().removesuffix(":443"),
            fields=[(name.decode(), value.decode("latin-1")) for name, value in head.fields])

    def _lines(self, method, path, content, **options):
        proof = self.prover.proof(method, path, content=content, **options)
        return b"".join(f"{name}: {value}\r\n".encode() for name, value in proof)

    def read(self, data):
        reading = intended.read(data)
        self.withheld = []
        requests = iter(reading.requests)
        reading.requests = []
        for index, (method, status) in enumerate(reading.answers):
            if status != 200:
                continue
            request = next(requests)
            if not is_signable(request):
                # Refused by its head: nothing of it is forwarded.
                reading.answers[index] = (method, 401)
                continue
            names = dict(request.fields)
            has_content = "Transfer-Encoding" in names or names.get("Content-Length", "0") != "0"
            request = self._forwarded(request)
            if self.is_right or not has_content:
                reading.requests.append(request)
            else:
                reading.answers[index] = (method, 400)
                self.withheld.append(request)
        if reading.broken:
            reading.broken = self._forwarded(reading.broken)
        return reading

    def parts(self, reading):
        return super().parts(reading) + self.withheld if self.body == "stream" else []

    def _forwarded(self, request):
        """The request as it reaches the service: with the device's headers, without the proof, framed by the gateway."""
        signature = next(value for name, value in request.fields if name == "Signature")
        assertion = base64.b64decode(signature.removeprefix("attest=:").removesuffix(":"))
        fields = []
        for name, value in request.fields:
            if name == "Transfer-Encoding" and self.body == "collect":
                if request.content or request.method in ("POST", "PUT", "PATCH"):
                    fields.append(("Content-Length", str(len(request.content))))
            elif name not in ("Signature", "Signature-Input"):
                fields.append((name, value))
            if name == "Forwarded":
                # The counter stands at the end of the authenticator data, and that at the end of the assertion.
                fields += [
                    ("Attest-Device", self.pseudonym), ("Attest-App", self.prover.app), ("Attest-Platform", "ios"),
                    ("Attest-Counter", str(int.from_bytes(assertion[-4:], "big")))]
        return intended.Intended(request.method, request.target, fields, request.content)

    @property
    def pseudonym(self):
        """What the service knows the phone by: the same for all requests."""
        if not hasattr(self, "_pseudonym"):
            before = len(self.upstream.requests)
            with self._client() as client:
                assert client.exchange(self.prepare(b"GET /who HTTP/1.1\r\nHost: localhost\r\n\r\n")).status == 200
            self._pseudonym = self.upstream.requests[before].values("Attest-Device")[0]
            assert PSEUDONYM.fullmatch(self._pseudonym)
            self.seen = len(self.upstream.connections)
        return self._pseudonym
