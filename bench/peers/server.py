"""What all servers have in common: a process on a core of its own, its ports, start and stop."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "Tests" / "Integration"))
# Between choosing a port and listening there, thousands of connections are made: none is given one of these.
from support.ports import uncommon_port as free_port


class Failed(Exception):
    """The run cannot go on; the message is for the person who started it."""

    def __init__(self, message, status=2):
        super().__init__(message)
        self.status = status


def spawn(command, core, **options):
    """Starts a process on one core, or on those of a set, out of reach of the terminal's Ctrl-C: the script stops it itself."""
    cores = core if isinstance(core, set) else {core}
    return subprocess.Popen(
        [str(part) for part in command], start_new_session=True, stdin=subprocess.DEVNULL,
        preexec_fn=lambda: os.sched_setaffinity(0, cores), **options)


class Server:
    """One server process on loopback. `ports` maps a variant to its port; the first is the main one."""

    name = ""
    variants = ["main"]
    # Where WebSockets below /tunnel lead; None if nothing that is measured needs them.
    tunnel_port = None
    # The Unix socket of the first server behind; None if nothing that is measured needs it.
    upstream_socket = None
    # The rows it takes part in; None for all that are measured of several servers.
    rows = None
    # How many of its processes, from the first, are charged with what requests cost; None for all.
    charged = None
    # Workers, and the core or cores that they have: looked at when the server starts.
    worker_count = 1

    def __init__(self, directory, certificates, upstream_ports, core):
        """`upstream_ports`: of the servers behind. /bench goes to the first of them, /balanced to all."""
        self.directory = Path(directory) / self.name
        self.directory.mkdir()
        self.certificates = Path(certificates)
        self.upstream_ports = upstream_ports
        self.core = core
        self.ports = {variant: free_port() for variant in self.variants}
        self.process = None

    def command(self):
        raise NotImplementedError

    def configuration(self):
        raise NotImplementedError

    def start(self):
        self.configuration_file.write_text(self.configuration())
        with open(self.directory / "output", "wb") as output:
            self.process = spawn(self.command(), self.core, stdout=output, stderr=output)
        for port in self.ports.values():
            self._await(port)

    def stop(self):
        if self.process is None:
            return
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                # The group holds this server and its workers, nothing else.
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()
        self.process = None

    @property
    def configuration_file(self):
        return self.directory / "conf"

    @property
    def worker(self):
        """The process that serves requests."""
        return self.process.pid

    @property
    def workers(self):
        """All processes whose CPU time is reported; the one above first."""
        return [self.worker]

    def _await(self, port):
        for _ in range(200):
            if self.process.poll() is not None:
                break
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                return
            except OSError:
                time.sleep(0.05)
        output = (self.directory / "output").read_text(errors="replace")
        raise Failed(f"{self.name} does not listen on port {port}:\n{output[-2000:]}")
