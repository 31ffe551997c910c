"""A real nginx as the health service."""

import os
import socket
import subprocess
from pathlib import Path

from paths import PATIENCE
from ports import uncommon_port
from waiting import eventually

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
  server {{
    listen 127.0.0.1:{port};
    root {directory}/files;
    location /files/ {{ dav_methods PUT; }}
    location = /echo {{ return 200 "$request_method $request_uri $http_host $http_forwarded\\n"; }}
  }}
}}
"""


class Nginx:
    def __init__(self, directory):
        self.directory = Path(directory)
        self.files = self.directory / "files" / "files"
        self.files.mkdir(parents=True)
        port = uncommon_port()
        self.address = f"127.0.0.1:{port}"
        conf = self.directory / "nginx.conf"
        # As root, nginx would serve as a user who may not read the test's directory.
        user = "user root;" if os.geteuid() == 0 else ""
        conf.write_text(CONF.format(user=user, directory=self.directory, port=port))
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

    def stop(self):
        self.process.terminate()
        self.process.wait(PATIENCE)
