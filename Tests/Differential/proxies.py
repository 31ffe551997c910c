"""The three proxies that are compared, each with TLS and client certificates, before a recorder of its own."""

import os
import shutil
import socket
import subprocess
from pathlib import Path

from support.gateway import Gateway
from support.paths import PATIENCE
from support.ports import uncommon_port
from recorder import Recorder
from support.waiting import eventually

# Debian has both in /usr/sbin, which is not on the PATH of ordinary users.
PATH = os.environ["PATH"] + os.pathsep + "/usr/sbin"
# How long each waits for a request, and for the rest of one. What comes at all comes in one write.
WAIT = 1
# Of one request: line, head and content, the same for all.
LINE, HEAD, CONTENT = 8 * 1024, 16 * 1024, 64 * 1024


def missing():
    """The Debian packages that are not there."""
    packages = {"nginx": "nginx-light", "haproxy": "haproxy"}
    return [package for program, package in packages.items() if not shutil.which(program, path=PATH)]


class AttestGate:
    name = "ours"

    def __init__(self, directory, pki):
        self.recorder = Recorder()
        self.pki = pki
        route = {"name": "all", "host": "localhost", "path": "/", "content_limit": CONTENT}
        self.gateway = Gateway(
            directory, pki, {"service": self.recorder.address}, [route], limits={"head": HEAD, "target": LINE},
            timeouts={"head": f"{WAIT}s", "content_idle": f"{WAIT}s", "keep_alive": f"{WAIT}s"})
        self.port = self.gateway.port

    def start(self):
        self.gateway.start()

    def stop(self):
        self.gateway.stop()
        self.recorder.close()


class Peer:
    """A proxy of others, with what Debian's package has for defaults."""

    name = ""

    def __init__(self, directory, pki):
        self.directory, self.pki, self.recorder = Path(directory), pki, Recorder()
        self.directory.mkdir()
        self.port = uncommon_port()
        self.process = None

    def start(self):
        conf, output = self.directory / "conf", self.directory / "output"
        conf.write_text(self.configuration())
        with open(output, "wb") as file:
            self.process = subprocess.Popen(
                [str(part) for part in self.command(conf)], stdin=subprocess.DEVNULL, stdout=file, stderr=file,
                env={**os.environ, "PATH": PATH})

        def listens():
            assert self.process.poll() is None, f"{self.name} ended:\n{output.read_text()}"
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return True
            except OSError:
                return False
        eventually(listens, lambda: f"{self.name} to listen:\n{output.read_text()}")

    def stop(self):
        self.recorder.close()
        if self.process:
            self.process.terminate()
            self.process.wait(PATIENCE)


class Nginx(Peer):
    name = "nginx"

    def command(self, conf):
        return ["nginx", "-c", conf, "-e", self.directory / "errors"]

    def configuration(self):
        temporary = "".join(
            f"{kind}_temp_path {self.directory}/{kind}; " for kind in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"])
        # As root, nginx would serve as a user who may not read this directory.
        user = "user root;" if os.geteuid() == 0 else ""
        tls = (f"ssl_certificate {self.pki.server_certificate}; ssl_certificate_key {self.pki.server_key}; "
               f"ssl_client_certificate {self.pki.gms.certificate}; ssl_verify_client on;")
        return f"""{user} daemon off; worker_processes 1; pid {self.directory}/pid;
events {{ worker_connections 512; }}
http {{
  {temporary} access_log off;
  client_header_timeout {WAIT}s; client_body_timeout {WAIT}s; keepalive_timeout {WAIT}s; keepalive_requests 100000; lingering_timeout 1s;
  large_client_header_buffers 4 {HEAD}; client_max_body_size {CONTENT};
  server {{ listen 127.0.0.1:{self.port} ssl default_server; {tls} return 404; }}
  server {{
    listen 127.0.0.1:{self.port} ssl; server_name localhost; {tls}
    location / {{
      proxy_pass http://{self.recorder.address}; proxy_http_version 1.1;
      proxy_set_header Host $http_host; proxy_set_header Connection "";
    }}
  }}
}}
"""


class HAProxy(Peer):
    name = "haproxy"

    def command(self, conf):
        return ["haproxy", "-db", "-q", "-f", conf]

    def configuration(self):
        pair = self.directory / "server.pem"
        pair.write_text(Path(self.pki.server_certificate).read_text() + Path(self.pki.server_key).read_text())
        return f"""global
  nbthread 1
  maxconn 500
  tune.bufsize 32768
defaults
  mode http
  timeout connect 5s
  timeout client {WAIT}s
  timeout server {WAIT}s
  timeout http-request {WAIT}s
  timeout http-keep-alive {WAIT}s
frontend all
  bind 127.0.0.1:{self.port} ssl crt {pair} ca-file {self.pki.gms.certificate} verify required
  http-request deny deny_status 404 unless {{ req.hdr(host),field(1,:) -i localhost }}
  http-request deny deny_status 413 if {{ req.hdr_val(content-length) gt {CONTENT} }}
  default_backend service
backend service
  server service {self.recorder.address}
"""


ALL = [AttestGate, Nginx, HAProxy]
