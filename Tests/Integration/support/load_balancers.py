"""HAProxy and nginx as load balancers that relay connections to a gateway as they are, with a PROXY header before them."""

import os
import shutil
import socket
import subprocess
from pathlib import Path

from support.paths import PATIENCE
from support.ports import uncommon_port
from support.waiting import eventually

# Debian has both in /usr/sbin, which is not on the PATH of ordinary users.
PATH = os.environ["PATH"] + os.pathsep + "/usr/sbin"
# nginx.org builds the module in, Debian apart.
STREAM_MODULE = Path("/usr/lib/nginx/modules/ngx_stream_module.so")


class OtherProxy:
    """A program of others with a folder of its own, and a port, for `Client`."""

    def __init__(self, directory, gateway):
        self.directory, self.pki, self.port = Path(directory), gateway.pki, uncommon_port()
        self.directory.mkdir()

    def run(self, name, command, **environment):
        """Starts it, and waits until it listens."""
        output = self.directory / "output"
        with open(output, "wb") as file:
            self.process = subprocess.Popen(
                [str(part) for part in command], stdin=subprocess.DEVNULL, stdout=file, stderr=file, cwd=self.directory,
                env={**os.environ, "PATH": PATH, **environment})

        def listens():
            assert self.process.poll() is None, f"{name} ended:\n{output.read_text()}"
            try:
                self.connect_to_all()
                return True
            except OSError:
                return False
        try:
            eventually(listens, lambda: f"{name} to listen:\n{output.read_text()}")
        except BaseException:
            self.stop()
            raise

    def connect_to_all(self):
        """Connects to each port. - Raises: if it does not listen there."""
        socket.create_connection(("127.0.0.1", self.port), PATIENCE).close()

    def stop(self):
        self.process.terminate()
        self.process.wait(PATIENCE)


class LoadBalancer(OtherProxy):
    program = ""

    def __init__(self, directory, gateway, options=""):
        assert shutil.which(self.program, path=PATH), f"{self.program} is not installed: scripts/install-packages"
        super().__init__(directory, gateway)
        conf = self.directory / "conf"
        conf.write_text(self.configuration(f"127.0.0.1:{gateway.port}", options))
        self.run(self.program, self.command(conf))


class HAProxy(LoadBalancer):
    """`options`: of its `server` line."""

    program = "haproxy"

    def command(self, conf):
        return ["haproxy", "-db", "-q", "-f", conf]

    def configuration(self, gateway, options):
        return f"""global
  maxconn 200
defaults
  mode tcp
  timeout connect 10s
  timeout client 60s
  timeout server 60s
listen phones
  bind 127.0.0.1:{self.port}
  server gateway {gateway} {options}
"""


class Nginx(LoadBalancer):
    program = "nginx"

    def command(self, conf):
        return ["nginx", "-c", conf, "-e", self.directory / "errors"]

    def configuration(self, gateway, options):
        load = f"load_module {STREAM_MODULE};" if STREAM_MODULE.exists() else ""
        return f"""{load} daemon off; worker_processes 1; pid {self.directory}/pid;
events {{ worker_connections 512; }}
stream {{ server {{ listen 127.0.0.1:{self.port}; proxy_pass {gateway}; proxy_protocol on; }} }}
"""
