"""What a user would build instead: nginx, whose `auth_request` asks a verifier of the user's own about each request."""

import os
import secrets
import signal
import socket
import subprocess
import time
from pathlib import Path

from .nginx import Nginx
from .server import Failed, spawn

VERIFIERS = Path(__file__).resolve().parent.parent / "verifiers"


class AuthRequest(Nginx):
    """nginx in front, the verifier behind it on a Unix socket, both on the server's core."""

    variants = ["tickets"]
    app = "ABCDE12345.org.example.bench"
    # Where counters are kept: beside the gateway's own, on the same disk.
    registry = None
    # What `attestgate-load --prepare` has written.
    registrations = None

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.verifier = None
        self.socket = self.directory / "socket"
        self.secret = self.directory / "secret"
        self.secret.write_bytes(secrets.token_bytes(32))

    def program(self):
        raise NotImplementedError

    def start(self):
        database = Path(self.registry or self.directory) / f"{self.name}.sqlite"
        registering = ["--register", self.registrations] if self.registrations else []
        with open(self.directory / "verifier-output", "wb") as output:
            self.verifier = spawn(
                [*self.program(), "--socket", self.socket, "--database", database, "--secret", self.secret, "--app", self.app,
                 *registering],
                self.core, stdout=output, stderr=output)
        self._await_verifier()
        super().start()

    def stop(self):
        super().stop()
        if self.verifier is None:
            return
        if self.verifier.poll() is None:
            self.verifier.send_signal(signal.SIGTERM)
            try:
                self.verifier.wait(10)
            except subprocess.TimeoutExpired:
                self.verifier.kill()
                self.verifier.wait()
        self.verifier = None
        self.socket.unlink(missing_ok=True)

    @property
    def workers(self):
        return [self.worker, self.verifier.pid]

    def _await_verifier(self):
        for _ in range(200):
            if self.verifier.poll() is not None:
                break
            with socket.socket(socket.AF_UNIX) as probe:
                try:
                    probe.connect(str(self.socket))
                    # nginx's worker is another user, where the master is root.
                    os.chmod(self.socket, 0o666)
                    return
                except OSError:
                    time.sleep(0.05)
        output = (self.directory / "verifier-output").read_text(errors="replace")
        raise Failed(f"{self.name}: the verifier does not listen:\n{output[-2000:]}")

    def upstreams(self):
        return super().upstreams() + f"  upstream verifier {{ server unix:{self.socket}; keepalive 64; keepalive_requests 1000000000; }}\n"

    def locations(self):
        # The verifier gets all fields of the request, which may be covered, and what it cannot know from them.
        return super().locations() + """
    location /attested {
      auth_request /verify;
      auth_request_set $challenge $upstream_http_accept_signature;
      add_header Accept-Signature $challenge always;
      proxy_pass http://bench;
    }
    location = /.well-known/attestgate/challenge { proxy_pass http://verifier; }
    location = /verify {
      internal;
      proxy_pass http://verifier;
      proxy_pass_request_body off;
      proxy_set_header Connection "";
      proxy_set_header Content-Length "";
      proxy_set_header X-Original-Method $request_method;
      proxy_set_header X-Original-Authority $http_host;
      proxy_set_header X-Original-Target $request_uri;
      proxy_set_header X-Original-Content-Length $content_length;
      proxy_set_header X-Client-Certificate $ssl_client_escaped_cert;
    }"""


class Python(AuthRequest):
    """uvicorn with uvloop and httptools, `cryptography`, sqlite3."""

    name = "auth-request-python"
    rows = {"auth-request-python", "attested-latency"}
    interpreter = None

    def program(self):
        return [self.interpreter, VERIFIERS / "python" / "verifier.py"]


class Swift(AuthRequest):
    """Hummingbird, swift-crypto, SQLite."""

    name = "auth-request-swift"
    rows = {"auth-request-swift", "attested-latency"}
    binary = None

    def program(self):
        return [self.binary]
