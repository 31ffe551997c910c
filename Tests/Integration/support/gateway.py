"""The gateway as a process: its conf file, its start, its logs, its end."""

import base64
import fcntl
import json
import os
import resource
import signal
import socket
import subprocess
from contextlib import contextmanager
from pathlib import Path

from support.exposition import ask
from support.paths import BINARY, ENVIRONMENT, PATIENCE
from support.pki import attestgate
from support.ports import reserve_port
from support.waiting import eventually

# The app that simulated phones have.
APP = "TEAMID1234.org.example.app"

# Every gateway of the test that runs now; a failure shows their logs.
running = []


def is_stopped(pid):
    """Whether no thread of the process runs (proc(5))."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    # t is that of a thread that is traced.
    return all((thread / "stat").read_text().rpartition(") ")[2][0] in "Tt" for thread in threads)


class Gateway:
    # For how long its start and its end are waited for.
    patience = PATIENCE
    # Whether it is given listening sockets.
    passes_sockets = True

    def __init__(self, directory, pki, upstreams, routes=None, strip_headers=(), **settings):
        """
        `upstreams`: name -> address, or name -> dictionary as in the conf file.
        `settings`: workers, limits, timeouts, proxy_protocol, forwarded_certificate, ports, protocols, policy, clients, apps as in the conf file; `registry` adds to that
        section, which is there when a route asks for devices.
        """
        self.directory = Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        self.pki = pki
        self.holder, self.port = reserve_port()
        self.access_path = self.directory / "access.log"
        self.error_path = self.directory / "stderr.log"
        self.conf_path = self.directory / "attestgate.yaml"
        # Where the access log of this test begins, in bytes.
        self.begin_of_log = 0
        self.process = None
        # Further ones of `attestgate run`.
        self.arguments = []
        self.environment = ENVIRONMENT
        self.conf = self._conf(upstreams, routes, strip_headers, settings)

    def _conf(self, upstreams, routes, strip_headers, settings):
        def upstream(value):
            return value if isinstance(value, dict) else {"servers": [value]}

        first = next(iter(upstreams))
        routes = [{"require": "certificate", "upstream": first, **route} for route in routes or [
            {"name": "all", "host": "localhost", "path": "/"}]]
        registry = settings.pop("registry", {})
        if registry or any(route["require"] not in ("nothing", "certificate") for route in routes):
            settings = {
                "registry": {
                    **({} if "postgresql" in registry else {"path": str(self.directory / "registry.sqlite")}),
                    "secret": str(self.directory / "secret"), **registry},
                "apps": [{"id": APP, "environment": "simulator"}],
                **settings,
            }
        return {
            # One worker unless a test is about several: then what it does has one order.
            "workers": settings.pop("workers", 1),
            "listeners": [{
                "address": f"127.0.0.1:{self.port}",
                **{name: settings.pop(name) for name in ["proxy_protocol", "forwarded_certificate", "ports"]
                   if name in settings},
                "protocols": settings.pop("protocols", ["h2", "http/1.1"]),
                "tls": {
                    "certificate": str(self.pki.server_certificate), "key": str(self.pki.server_key),
                    "policy": settings.pop("policy", "modern"),
                },
                "clients": {
                    "authorities": [str(self.pki.gms.certificate), str(self.pki.root.certificate)],
                    **settings.pop("clients", {})},
            }],
            "upstreams": {name: upstream(value) for name, value in upstreams.items()},
            "routes": routes,
            "strip_headers": list(strip_headers),
            "administration": {"socket": str(self.directory / "admin.sock")},
            "log": {"access": str(self.access_path), **settings.pop("log", {})},
            **settings,
        }

    def write_conf(self):
        # JSON is YAML.
        self.conf_path.write_text(json.dumps(self.conf, indent=1))

    def start(self, until=None):
        """Starts it, and waits until every worker serves, or `until()` is true."""
        self.write_conf()
        self.process = self.spawn(stderr=open(self.error_path, "wb"))
        if self in stopped:
            stopped.remove(self)
        else:
            running.append(self)
        eventually(until or self._is_ready, lambda: f"the gateway to start\n{self.errors}", self.patience)
        return self

    def command(self):
        return [BINARY, "run", *self.arguments, "--config", self.conf_path]

    def spawn(self, **options):
        """Starts the program with its listening sockets, as systemd does: the ports are held by us (sd_listen_fds(3))."""
        sockets = self._listening_sockets() if self.passes_sockets else []
        command = self.command()
        if sockets:
            # Moved above the numbers that they get, so that none is overwritten.
            above = 3 + len(sockets)
            passed = [fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, above) for each in sockets]
            moves = " ".join(f"{3 + place}<&{number}" for place, number in enumerate(passed))
            closes = " ".join(f"{number}<&-" for number in passed)
            command = [
                "bash", "-c", f'export LISTEN_FDS={len(sockets)} LISTEN_PID=$$; exec "$@" {moves} {closes}', "bash", *command]
            options["pass_fds"] = passed
        try:
            return subprocess.Popen(
                command, **{"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "env": self.environment, **options})
        finally:
            for number in options.get("pass_fds", ()):
                os.close(number)
            for each in sockets:
                each.close()

    def run(self, **options):
        """Starts it, and waits for its end. - Returns: as `subprocess.run`."""
        process = self.spawn(stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
        try:
            return subprocess.CompletedProcess(
                process.args, stderr=process.communicate(timeout=self.patience)[1], returncode=process.returncode)
        finally:
            process.kill()

    def _listening_sockets(self):
        """One for each worker and listener, and those of enrolment and of the federation. An address that is taken is left to the gateway."""
        role = self.arguments[self.arguments.index("--role") + 1] if "--role" in self.arguments else "both"
        addresses = [each["address"] for each in self.conf.get("listeners", ())] * self.conf["workers"]
        addresses = addresses if role in ("gateway", "both") else []
        if role in ("federation", "both") and "federation" in self.conf:
            addresses.append(self.conf["federation"]["address"])
        if role in ("enrolment", "both") and "enrolment" in self.conf:
            enrolment = self.conf["enrolment"]
            addresses += [each["address"] for each in (enrolment, enrolment.get("devices")) if each]
        sockets = []
        for address in [address for address in addresses if not address.startswith("unix:")]:
            host, _, port = address.rpartition(":")
            made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            try:
                made.bind((host.strip("[]"), int(port)))
                made.listen(4096)
                sockets.append(made)
            except OSError:
                made.close()
        return sockets

    def _is_ready(self):
        assert self.process.poll() is None, f"the gateway ended with {self.process.returncode}:\n{self.errors}"
        administration = self.conf.get("administration", {})
        if "socket" not in administration:
            return self.listens()
        try:
            # No connection of ours comes to the listener: a test that counts those finds only its own.
            if ask(self, "/health/ready")[0] != 200:
                return False
            for listener in administration.get("listeners", []):
                host, port = listener["address"].rsplit(":", 1)
                socket.create_connection((host, port), timeout=PATIENCE).close()
            return True
        except (ConnectionRefusedError, FileNotFoundError):
            return False

    def listens(self):
        assert self.process.poll() is None, f"the gateway ended with {self.process.returncode}:\n{self.errors}"
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE).close()
            return True
        except ConnectionRefusedError:
            return False

    def signal(self, number=signal.SIGTERM):
        os.kill(self.process.pid, number)

    def wait(self):
        try:
            return self.process.wait(self.patience)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"the gateway did not end after its signal\n{self.errors}") from None

    def stop(self, grace=PATIENCE):
        """Ends the gateway the way an operator does; it must end well, after whatever was done to it.

        `grace`: how long it may finish what is open before it is informed a second time.
        """
        if self.process is None or self in stopped:
            return
        stopped.append(self)
        if self.process.poll() is None:
            self.signal()
            try:
                self.process.wait(grace)
            except subprocess.TimeoutExpired:
                self.signal()
        status = self.wait()
        self.holder.close()
        assert status == 0, f"the gateway ended with status {status}, not 0\n{self.errors}"

    def crash(self, number=None):
        """kill -9, or another signal; to be started again with the same files on the same port."""
        assert self.process.poll() is None, f"it had ended by itself, with {self.process.returncode}\n{self.errors}"
        self.signal(number or signal.SIGKILL)
        self.process.wait(PATIENCE)
        running.remove(self)

    def limit_files(self, size):
        """No file can grow beyond `size` octets, as if the disk were full; None ends that."""
        size = resource.RLIM_INFINITY if size is None else size
        resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    @contextmanager
    def traced(self, path, *options):
        """Within the block, strace sees every thread; what it wrote is in `path` afterwards."""
        tracer = subprocess.Popen(
            ["strace", "-f", "-qq", "-o", str(path), *options, "-p", str(self.process.pid)],
            stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            def is_attached():
                assert tracer.poll() is None, f"strace cannot trace: {tracer.stderr.read().decode()}"
                threads = Path(f"/proc/{self.process.pid}/task").iterdir()
                return all("TracerPid:\t0\n" not in (thread / "status").read_text() for thread in threads)
            eventually(is_attached, "strace to attach")
            yield
        finally:
            tracer.terminate()
            tracer.communicate(timeout=PATIENCE)

    # Devices.

    def device_command(self, *arguments):
        """Runs `attestgate device`, and returns what it printed."""
        done = attestgate("device", *arguments, "--config", self.conf_path)
        assert done.returncode == 0, f"{arguments}: {done.stderr}"
        return done.stdout

    def renew_epoch(self):
        done = attestgate("registry", "renew-epoch", "--config", self.conf_path)
        assert done.returncode == 0, done.stderr

    def add_device(self, phone):
        """Registers a phone as an operator does. - Returns: its number."""
        printed = self.device_command(
            "add", "--app-id", phone.app, "--public-key", base64.b64encode(phone.key.point).decode(),
            "--certificate-key", phone.identity.key, "--json")
        return json.loads(printed)["device"]

    def halt(self):
        """Ends the gateway in order, to be started again with the same files on the same port."""
        self.signal()
        status = self.wait()
        assert status == 0, f"the gateway ended with status {status}, not 0\n{self.errors}"
        running.remove(self)
        return self

    @property
    def errors(self):
        return self.error_path.read_text(errors="replace") if self.error_path.exists() else ""

    # The access log.

    def begin(self):
        """Another test begins: the lines of those before are none of its own. Some of theirs may still come."""
        self.begin_of_log = self._whole_lines(0)[1]

    def access(self):
        """The access log of this test so far: every line must be a JSON object."""
        return [json.loads(line) for line in self._whole_lines(self.begin_of_log)[0].decode().splitlines()]

    def _whole_lines(self, begin):
        """- Returns: them, and where they end."""
        if not self.access_path.exists():
            return b"", begin
        with open(self.access_path, "rb") as file:
            file.seek(begin)
            text = file.read()
        text = text[:text.rfind(b"\n") + 1]
        return text, begin + len(text)

    def logged(self, **members):
        """Waits for a line of the access log that has these members."""
        def find():
            return next((e for e in self.access() if all(e.get(k) == v for k, v in members.items())), None)
        return eventually(find, lambda: f"a log line with {members}; there are {self.access()[-5:]}")

    # The process as the kernel sees it.

    def resident_bytes(self):
        return self._status("VmRSS")

    def mapped_bytes(self):
        """Its address space, touched or not."""
        return self._status("VmSize")

    def _status(self, name):
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith(name + ":"):
                return int(line.split()[1]) * 1024
        raise AssertionError(f"the kernel tells no {name}")

    def proportional_bytes(self):
        """PSS: what is shared with other processes counts for each by its share (proc(5))."""
        for line in Path(f"/proc/{self.process.pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
        raise AssertionError("the kernel tells no PSS")

    def _stat(self):
        """What the kernel counts, from the third member on (proc(5)): the name before it may have any form."""
        return Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()

    def cpu_seconds(self):
        user, system = self._stat()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    @contextmanager
    def paused(self):
        """Within the block it does not run: what is sent to it meanwhile, it finds all at once."""
        self.signal(signal.SIGSTOP)
        try:
            eventually(lambda: is_stopped(self.process.pid), "the gateway to be stopped")
            yield
        finally:
            self.signal(signal.SIGCONT)

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def lowest_free_descriptor(self):
        """The number that the next one gets."""
        taken = set(map(int, os.listdir(f"/proc/{self.process.pid}/fd")))
        return next(number for number in range(len(taken) + 1) if number not in taken)

    def connections(self):
        """How many sockets it has besides those it listens on."""
        folder, count = f"/proc/{self.process.pid}/fd", 0
        for name in os.listdir(folder):
            try:
                count += os.readlink(f"{folder}/{name}").startswith("socket:")
            except FileNotFoundError:
                pass
        return count - self.conf["workers"] * len(self.conf["listeners"]) - ("administration" in self.conf)


stopped = []

# Of a gateway whose test is over: one that failed in the middle of a request must not hold up the others.
BRIEF = 1.0
