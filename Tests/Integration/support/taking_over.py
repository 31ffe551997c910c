"""Gateways that give way to a process which is no child of the test's, but of one that has ended."""

import ctypes
import os
import signal
import subprocess
import time

from support.gateway import Gateway
from support.pki import attestgate
from support.waiting import eventually

PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans():
    """From here on, who is left by a process of the tests is a child of the tests, as services are of their manager."""
    assert ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1) == 0


class Orphan:
    """A process that was not started here; as much of `subprocess.Popen` as a gateway is asked for."""

    def __init__(self, pid):
        self.pid, self.returncode = pid, None

    def poll(self):
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout=None):
        deadline = time.monotonic() + (timeout or 30)
        while self.poll() is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired("attestgate", timeout)
            time.sleep(0.01)
        return self.returncode

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)


def parent(pid):
    with open(f"/proc/{pid}/stat") as file:
        return int(file.read().rsplit(")", 1)[1].split()[1])


def upgrade(gateway: Gateway):
    """Upgrades it as an operator does, and waits until the previous process has ended. - Returns: that process."""
    before = gateway.process
    done = attestgate("upgrade", "--config", gateway.conf_path)
    assert done.returncode == 0, f"{done.stderr}\n{gateway.errors}"
    pid = int(done.stdout.split()[1])
    assert done.stdout == f"process {pid} serves, process {before.pid} finishes its open requests\n"
    gateway.process = Orphan(pid)
    return before


def successor(gateway: Gateway):
    """Waits for the process that is to take over, once it is left by its parent. - Returns: its number."""
    def find():
        for entry in os.listdir("/proc"):
            try:
                if entry.isdigit() and int(entry) != gateway.process.pid and parent(entry) == os.getpid():
                    with open(f"/proc/{entry}/cmdline", "rb") as file:
                        if os.fsencode(gateway.conf_path) in file.read().split(b"\0"):
                            return int(entry)
            except OSError:
                pass
        return None
    return eventually(find, lambda: f"a process that takes over\n{gateway.errors}")


def listening_sockets(port):
    """What listens on a port of this machine, by the numbers that the kernel gives sockets."""
    found = set()
    with open("/proc/net/tcp") as file:
        for line in list(file)[1:]:
            words = line.split()
            if words[1].endswith(f":{port:04X}") and words[3] == "0A":
                found.add(words[9])
    return found


def has_ended(gateway, process):
    eventually(lambda: process.poll() is not None, lambda: f"process {process.pid} to end\n{gateway.errors}")
    return process.returncode == 0
