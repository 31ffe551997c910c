"""A TLS server that plays a gateway for the device tool: answers by a script, and looks at proofs on its own.

Everything about proofs here is written from RFC 9421 and Apple's description, so that a fault of the tool's cannot
hide behind the same fault in the test.
"""

import base64
import hashlib
import json
import ssl
import subprocess
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from support.paths import PATIENCE

CHALLENGE_PATH = "/.well-known/attestgate/challenge"


@dataclass
class Answer:
    """One response of the script."""

    status: int = 200
    denial: str | None = None
    challenge: str | None = None
    headers: dict = field(default_factory=dict)
    content: bytes = b"the record"


@dataclass
class Received:
    """One request, byte for byte as far as a proof covers it."""

    method: str
    target: str
    lines: list
    content: bytes

    def value(self, name):
        """All lines of a field as RFC 9421 section 2.1 combines them; None if there is none."""
        found = [value.strip() for key, value in self.lines if key.lower() == name]
        return ", ".join(found) if found else None

    @property
    def parameters(self):
        return self.value("signature-input").removeprefix("attest=")

    @property
    def counter(self):
        data = self._assertion()[1]
        return int.from_bytes(data[33:37], "big")

    @property
    def nonce(self):
        return self.parameters.split(';nonce="')[1].split('"')[0]

    def signature_base(self):
        """RFC 9421 section 2.5."""
        path, _, query = self.target.partition("?")
        derived = {
            "@method": self.method, "@authority": self.value("host").lower().removesuffix(":443"), "@path": path,
            "@query": "?" + query}
        names = self.parameters[1:self.parameters.index(")")].replace('"', "").split()
        lines = [f'"{name}": {derived[name] if name in derived else self.value(name)}' for name in names]
        return "\n".join([*lines, f'"@signature-params": {self.parameters}']).encode()

    def _assertion(self):
        """The two byte strings of the CBOR map that the simulator sends in its plainest form."""
        cbor = base64.b64decode(self.value("signature").removeprefix("attest=:").removesuffix(":"), validate=True)
        assert cbor[:12] == b"\xa2\x69signature\x58"
        signature = cbor[13:13 + cbor[12]]
        rest = cbor[13 + cbor[12]:]
        assert rest[:20] == b"\x71authenticatorData\x58\x25" and len(rest) == 57
        return signature, rest[20:]

    def check(self, app_id, public_key, directory):
        """Verifies the proof as Apple describes it, with the openssl command line."""
        signature, data = self._assertion()
        assert data[:33] == hashlib.sha256(app_id.encode()).digest() + b"\x40"
        if self.content:
            digest = base64.b64encode(hashlib.sha256(self.content).digest()).decode()
            assert self.value("content-digest") == f"sha-256=:{digest}:"
        else:
            assert self.value("content-digest") is None
        nonce = hashlib.sha256(data + hashlib.sha256(self.signature_base()).digest()).digest()
        (directory / "nonce").write_bytes(nonce)
        (directory / "signature").write_bytes(signature)
        # A SubjectPublicKeyInfo of P-256 is a constant beginning and the point.
        prefix = bytes.fromhex("3059301306072a8648ce3d020106082a8648ce3d030107034200")
        (directory / "key.der").write_bytes(prefix + base64.b64decode(public_key))
        done = subprocess.run(
            ["openssl", "dgst", "-sha256", "-verify", directory / "key.der", "-keyform", "DER", "-signature",
             directory / "signature", directory / "nonce"], capture_output=True, timeout=PATIENCE)
        assert done.returncode == 0, "the signature does not fit the request that arrived"


class ProofPeer:
    """Asks for client certificates, gives challenges, and answers by `script`, then with 200."""

    def __init__(self, pki):
        self.requests = []
        self.challenge_requests = []
        self.script = []
        self.challenge_answer = Answer(204, challenge="challenge-1", content=b"")
        self._lock = threading.Lock()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pki.server_certificate, pki.server_key)
        context.load_verify_locations(pki.gms.certificate)
        context.verify_mode = ssl.CERT_REQUIRED
        peer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # A response leaves at once, and whole: the second part of one would wait for the first to be acknowledged.
            wbufsize = -1
            timeout = PATIENCE

            def respond(self):
                content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                answer = peer._take(Received(self.command, self.path, self.headers.items(), content))
                body = answer.content
                if answer.denial:
                    body = json.dumps({"error": answer.denial, "error_description": "no"}).encode()
                self.send_response_only(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                if answer.challenge:
                    self.send_header(
                        "Accept-Signature",
                        f'attest=("@method" "@authority" "@path" "@query");created;nonce="{answer.challenge}";'
                        'tag="attestgate-request"')
                if answer.status != 204:
                    self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if answer.status != 204 and self.command != "HEAD":
                    self.wfile.write(body)

            do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = do_PATCH = respond

            def log_message(self, *_):
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):
                """Clients without a certificate are part of the tests."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self._server.socket = context.wrap_socket(
            self._server.socket, server_side=True, do_handshake_on_connect=False)
        self.port = self._server.server_address[1]
        self.url = f"https://localhost:{self.port}"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def _take(self, request):
        with self._lock:
            if request.target == CHALLENGE_PATH:
                self.challenge_requests.append(request)
                return self.challenge_answer
            self.requests.append(request)
            return self.script.pop(0) if self.script else Answer()

    def close(self):
        self._server.shutdown()
        self._server.server_close()
