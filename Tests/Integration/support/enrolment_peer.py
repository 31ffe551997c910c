"""A TLS server that plays an enrolment service for the device tool: takes whatever is well-formed, and answers by a script
where a test wants a refusal, or no answer at all. Whether the contents are right is for the gateway's own tests."""

import base64
import hashlib
import json
import secrets
import ssl
import threading
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from support.paths import PATIENCE

NONCE, INITIALIZATION, BINDING = "/nonce", "/instance-initialization", "/key-binding"


def b64url(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def from_b64url(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


class EnrolmentPeer:
    """`script` maps a path to answers in the place of its own: a status with a code, or LOST, after which nothing comes."""

    LOST = "the request arrives, its answer does not"

    def __init__(self, pki):
        self.requests = []
        self.script = {}
        self.issued = []
        self._lock = threading.Lock()
        self._ca = x509.load_pem_x509_certificate(pki.gms.certificate.read_bytes())
        self._ca_key = serialization.load_pem_private_key(pki.gms.key.read_bytes(), None)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pki.server_certificate, pki.server_key)
        peer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # A response leaves at once, and whole: the second part of one would wait for the first to be acknowledged.
            wbufsize = -1
            timeout = PATIENCE

            def respond(self):
                content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                answer = peer._answer(self.path, content)
                if answer is None:
                    # Without a byte of it, libcurl would send the request again on a new connection.
                    self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
                    self.close_connection = True
                    return
                status, body, fields = answer
                self.send_response(status)
                for name, value in fields.items():
                    self.send_header(name, value)
                if status != 204:
                    self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if status != 204:
                    self.wfile.write(body)

            do_GET = do_POST = respond

            def log_message(self, *_):
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

        self._server = Server(("127.0.0.1", 0), Handler)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self.port = self._server.server_address[1]
        self.url = f"https://localhost:{self.port}"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    @property
    def paths(self):
        return [path for path, _ in self.requests]

    def claims(self, content):
        """The header and the claims of a key binding."""
        parts = json.loads(content)["assertion"].split(".")
        return json.loads(from_b64url(parts[0])), json.loads(from_b64url(parts[1]))

    def _answer(self, path, content):
        with self._lock:
            self.requests.append((path, content))
            waiting = self.script.get(path)
            scripted = waiting.pop(0) if waiting else None
        if scripted == self.LOST:
            return None
        if scripted:
            status, code, fields = (*scripted, {})[:3]
            return status, json.dumps({"error": code, "error_description": "no"}).encode(), fields
        if path == NONCE:
            return 200, json.dumps({"nonce": b64url(secrets.token_bytes(32))}).encode(), {}
        if path == INITIALIZATION:
            return 204, b"", {}
        return 200, json.dumps(self._bind(content)).encode(), {}

    def _bind(self, content):
        jwk = self.claims(content)[1]["cnf"]["jwk"]
        point = b"\x04" + from_b64url(jwk["x"]) + from_b64url(jwk["y"])
        key = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), point)
        now = datetime.now(timezone.utc)
        end = now + timedelta(days=1)
        leaf = (
            x509.CertificateBuilder().subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "phone")]))
            .issuer_name(self._ca.subject).public_key(key).serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(minutes=5)).not_valid_after(end).sign(self._ca_key, hashes.SHA256()))
        self.issued.append(leaf)
        chain = [certificate.public_bytes(serialization.Encoding.DER) for certificate in [leaf, self._ca]]
        return {
            "certificate_chain": [base64.b64encode(der).decode() for der in chain], "expires_at": int(end.timestamp())}

    def close(self):
        self._server.shutdown()
        self._server.server_close()


def thumbprint(jwk):
    text = json.dumps({name: jwk[name] for name in ["crv", "kty", "x", "y"]}, separators=(",", ":"))
    return b64url(hashlib.sha256(text.encode()).digest())
