"""A real nginx as the health service."""

import os
import socket
import subprocess
from pathlib import Path

from support.paths import PATIENCE
from support.ports import uncommon_port
from support.waiting import eventually

CONF = """
{user}
daemon off;
worker_processes 1;
pid {directory}/nginx.pid;
error_log {directory}/error.log warn;
events {{ worker_connections 512; }}
http {{
  access_log {directory}/access.log;
  client_body_temp_path {directory}/body;
  proxy_temp_path {directory}/proxy;
  fastcgi_temp_path {directory}/fastcgi;
  uwsgi_temp_path {directory}/uwsgi;
  scgi_temp_path {directory}/scgi;
  client_max_body_size 0;
  log_format tls '$request_uri $ssl_session_reused $ssl_client_verify $ssl_client_s_dn';
  server {{
    listen 127.0.0.1:{port}{tls};
    access_log {directory}/tls.log tls;
    root {directory}/files;
    location /files/ {{ dav_methods PUT; }}
    location = /close {{ keepalive_timeout 0; return 200 "closed\n"; }}
    location = /echo {{ return 200 "$request_method $request_uri $http_host $http_forwarded\\n"; }}
  }}
}}
"""


TLS = """ ssl;
    ssl_certificate {identity.certificate};
    ssl_certificate_key {identity.key};
    ssl_protocols TLSv1.2 TLSv1.3;
    ssl_client_certificate {clients};
    ssl_verify_client on"""


class Nginx:
    def __init__(self, directory, services=None):
        """`services`: whose certificate it has, and whose clients it asks for theirs; None for no TLS."""
        self.directory = Path(directory)
        self.files = self.directory / "files" / "files"
        self.files.mkdir(parents=True)
        port = uncommon_port()
        self.address = f"127.0.0.1:{port}"
        conf = self.directory / "nginx.conf"
        # As root, nginx would serve as a user who may not read the test's directory.
        user = "user root;" if os.geteuid() == 0 else ""
        tls = TLS.format(identity=services.ordinary, clients=services.clients.certificate) if services else ""
        conf.write_text(CONF.format(user=user, directory=self.directory, port=port, tls=tls))
        self.process = subprocess.Popen(
            ["nginx", "-c", conf, "-e", self.directory / "start.log"], stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=open(self.directory / "stderr.log", "wb"))
        eventually(lambda: self._listens(port), lambda: f"nginx: {(self.directory / 'stderr.log').read_text()}")

    def _listens(self, port):
        assert self.process.poll() is None, (self.directory / "stderr.log").read_text()
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return True
        except ConnectionRefusedError:
            return False

    def logged(self, count):
        """The lines of its log of TLS, once there are so many: path, whether resumed, whether verified, who."""
        def lines():
            lines = (self.directory / "tls.log").read_text().splitlines()
            return lines if len(lines) >= count else None
        return [line.split(" ", 3) for line in eventually(lines, f"{count} lines in nginx's log")]

    def stop(self):
        self.process.terminate()
        self.process.wait(PATIENCE)
