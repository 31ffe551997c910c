"""A machine to run the commands of the pages on, as they stand: the ports and paths that they name are its own."""

import fcntl
import os
import pty
import re
import shutil
import subprocess
import termios

import pytest

from support.documented import expression
from support.paths import BINARY, ENVIRONMENT, PATIENCE, REPOSITORY
from support.waiting import eventually

# Mount and network namespaces of its own (unshare(1)): nobody else's files or ports are in the way, nor are these in anybody's.
ENTER = ["unshare", "--mount", "--net", "--propagation", "private"]
MOUNTS = ["/etc", "/var/lib", "/var/log", "/var/backups", "/run"]
# It lasts until its standard input ends, so it ends with the process that started it.
PREPARATION = "set -eu; ip link set lo up; {mounts} echo ready; exec cat"
# Commands that stay in the foreground.
STAYING = re.compile(r"(?m)^(?:attestgate run|nginx|haproxy) .*\Z")
TOKEN_LISTENER = """  listeners:
    - address: 127.0.0.1:9464
      token_file: /etc/attestgate/administration.token"""
# What answers behind the gateway.
SERVICE = """
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = (self.command + " " + self.path + "\\n").encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    do_POST = do_PUT = do_HEAD = do_GET
    def log_message(self, *arguments): pass
http.server.ThreadingHTTPServer.request_queue_size = 200
http.server.ThreadingHTTPServer(("127.0.0.1", 9000), Handler).serve_forever()
"""


class Machine:
    def __init__(self, directory):
        self.directory, self.project = directory, directory / "project"
        self._staying, self._inside = [], None
        self._keeper = None
        try:
            self._begin()
        except BaseException:
            # Nobody else would.
            self.stop()
            raise

    def _begin(self):
        self._lay_out()
        self._enter()
        self._stay(["/usr/bin/python3", "-c", SERVICE], "service")
        eventually(lambda: self.succeeds("exec 3<>/dev/tcp/127.0.0.1/9000"), "the service to listen")
        self.run(
            "attestgate pki init --directory /etc/attestgate --host localhost; attestgate-device ca init --directory /etc/attestgate\n"
            "umask 077; openssl rand -hex 32 > /etc/attestgate/administration.token")

    def _lay_out(self):
        """A fresh clone, and an installed conf file."""
        for name in ["certs", "var"]:
            (self.project / name).mkdir(parents=True)
        for name in ["conf", "docs", "scripts"]:
            shutil.copytree(REPOSITORY / name, self.project / name)
        (self.project / ".curlrc").write_text("fail-with-body\nsilent\nshow-error\n")
        shutil.copytree("/etc", self.place("/etc"), symlinks=True, ignore=shutil.ignore_patterns("*shadow*", "private"))
        for place in ["/etc/attestgate", "/var/lib/attestgate", "/var/log/attestgate", "/run/attestgate", "/var/backups",
                      "/var/lib/nginx", "/var/log/nginx"]:
            self.place(place).mkdir(parents=True, exist_ok=True)
        conf = (REPOSITORY / "conf" / "attestgate.yaml").read_text()
        conf = conf.replace("../certs/", "/etc/attestgate/").replace("../var/", "/var/lib/attestgate/")
        # Beside the gateway of the clone, and with what docs/operations/administration.md tells of.
        conf = conf.replace(":8443", ":9443").replace(":8444", ":9444").replace(
            "  socket: /var/lib/attestgate/administration.socket", "  socket: /run/attestgate/administration.socket\n" + TOKEN_LISTENER)
        (self.place("/etc/attestgate") / "attestgate.yaml").write_text(conf)

    def place(self, path):
        """Where something of the machine lies outside of it."""
        return self.directory / path[1:]

    def _enter(self):
        mounts = " ".join(f"mount --bind {self.place(path)} {path};" for path in MOUNTS)
        tried = subprocess.run([*ENTER, "true"], capture_output=True, text=True)
        if tried.returncode != 0:
            pytest.skip(f"no namespaces for a machine of its own: {tried.stderr.strip()}")
        self._keeper = subprocess.Popen(
            [*ENTER, "bash", "-c", PREPARATION.format(mounts=mounts)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=self._environment())
        assert self._keeper.stdout.readline() == b"ready\n", "the machine of its own could not be prepared"
        self._inside = ["nsenter", "--mount", "--net", "--target", str(self._keeper.pid), f"--wd={self.project}"]

    def _environment(self):
        return {**ENVIRONMENT, "HOME": str(self.project), "PATH": f"{BINARY.parent}:{ENVIRONMENT['PATH']}:/usr/sbin:/sbin"}

    def succeeds(self, text):
        return self._bash(text).returncode == 0

    def write(self, name, text):
        """Puts a file where somebody who reads the page would."""
        (self.project / name).parent.mkdir(exist_ok=True)
        (self.project / name).write_text(text)

    def run(self, text, printed=None):
        """Runs commands as they stand. Asserts that none fails, or that they print this: it may show how something is refused.
        What stays in the foreground stays, until the machine is stopped."""
        staying = STAYING.search(text.strip())
        if staying:
            text = text.strip()[:staying.start()]
        done = self._bash("set -euo pipefail\n" + text if printed is None else text)
        said = done.stdout.decode(errors="replace")
        if printed is None:
            assert done.returncode == 0, f"status {done.returncode} of\n{text}\n{said}"
        else:
            assert expression(printed).fullmatch(said.strip()), f"{text}\nprinted\n{said}\nand not\n{printed}"
        if staying:
            self._serve(staying[0])
        return said

    def _bash(self, text):
        terminal, theirs = pty.openpty()

        def take_terminal():
            os.setsid()
            fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)

        try:
            # Answers every prompt for a passphrase on the terminal: line by line, so that several may ask.
            os.write(terminal, b"correct horse\n" * 8)
            return subprocess.run(
                [*self._inside, "bash", "-c", text], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                env=self._environment(), timeout=PATIENCE, preexec_fn=take_terminal)
        finally:
            os.close(terminal)
            os.close(theirs)

    def _serve(self, command):
        """Starts it, and waits until it is there: a gateway says so, of others a new listening socket tells."""
        words, before = command.split("#")[0].split(), self._listening()
        log = self._stay(words, words[0])

        def is_there():
            assert self._staying[-1][0].poll() is None, f"{command} has ended: {log.read_text()}"
            return "serving " in log.read_text() if words[0] == "attestgate" else self._listening() - before
        eventually(is_there, lambda: f"{command} to serve: {log.read_text()}")

    def _listening(self):
        """The local ports that something listens at (proc(5): state 0A)."""
        lines = [line.split() for line in self._bash("cat /proc/net/tcp").stdout.decode().splitlines()[1:]]
        return {line[1] for line in lines if line[3] == "0A"}

    def _stay(self, words, name):
        log = self.directory / f"{name}-{len(self._staying)}.log"
        with open(log, "wb") as file:
            process = subprocess.Popen(
                [*self._inside, *words], stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=self._environment())
        self._staying.append((process, log))
        return log

    def logs(self):
        return "\n".join(f"{log.name}:\n{log.read_text(errors='replace')[-3000:]}" for _, log in self._staying)

    def stop(self):
        for process, _ in reversed(self._staying):
            process.terminate()
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if self._keeper:
            self._keeper.kill()
            self._keeper.wait()
