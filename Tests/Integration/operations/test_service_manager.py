"""The notify protocol of systemd (sd_notify(3)), spoken to a socket of the test's own."""

import os
import queue
import socket
import threading
import time

import pytest

from support import gateway as gateways
from support.paths import PATIENCE
from support.pki import attestgate
from support.taking_over import adopt_orphans, has_ended, upgrade


class Manager:
    """Takes each datagram at once: the kernel keeps few of them, and the gateway does not wait for room."""

    def __init__(self, path):
        self.path = path
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(path)
        self.messages = queue.SimpleQueue()
        self.reader = threading.Thread(target=self._read)
        self.reader.start()

    def _read(self):
        while message := self.socket.recv(4096):
            self.messages.put(message.decode())

    def send(self, message):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as peer:
            peer.sendto(message, self.path)

    def close(self):
        self.send(b"")
        self.reader.join()
        self.socket.close()

    def next(self, *wanted):
        """The next datagram that says one of these; the watchdog's may come in between."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            lines = self.messages.get(timeout=PATIENCE).splitlines()
            if any(line.split("=")[0] in wanted for line in lines):
                return dict(line.split("=", 1) for line in lines)
        raise AssertionError(f"waited in vain for one of {wanted}")


@pytest.fixture(params=["path", "abstract"])
def managed(request, start_gateway, own_upstream, tmp_path, monkeypatch):
    name = str(tmp_path / "notify") if request.param == "path" else f"\0attestgate-test-{os.getpid()}"
    manager = Manager(name)
    monkeypatch.setitem(gateways.ENVIRONMENT, "NOTIFY_SOCKET", name.replace("\0", "@"))
    monkeypatch.setitem(gateways.ENVIRONMENT, "WATCHDOG_USEC", "400000")
    yield manager, start_gateway({"service": own_upstream.address}, registry={"devices": 64}, workers=2)
    manager.close()


def test_systemd_is_notified_of_start_reload_watchdog_and_stop(managed, phone):
    manager, gateway = managed
    assert manager.next("READY")["READY"] == "1"
    assert manager.next("WATCHDOG") == {"WATCHDOG": "1"}
    before = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
    assert attestgate("reload", "--config", gateway.conf_path).returncode == 0
    # Both in one datagram, or the manager could not tell this reload from an earlier one.
    reloading = manager.next("RELOADING")
    assert reloading["RELOADING"] == "1"
    assert before <= int(reloading["MONOTONIC_USEC"]) <= time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
    assert manager.next("READY")["STATUS"] == "generation 2"
    gateway.signal()
    assert manager.next("STOPPING") == {"STOPPING": "1"}
    assert gateway.wait() == 0


def test_systemd_watches_the_new_process_after_an_upgrade(managed):
    manager, gateway = managed
    adopt_orphans()
    before = upgrade(gateway)
    notice = manager.next("MAINPID")
    assert (notice["MAINPID"], notice["READY"]) == (str(gateway.process.pid), "1")
    # The new one speaks only once the manager listens to it, and the previous one says nothing more: not that the service stops.
    assert manager.next("READY")["STATUS"].startswith("serving ")
    assert has_ended(gateway, before)
    assert manager.next("WATCHDOG", "STOPPING") == {"WATCHDOG": "1"}


def test_a_hanging_process_sends_no_watchdog_notification(managed):
    manager, gateway = managed
    manager.next("WATCHDOG")
    with gateway.paused():
        # What was sent before it was stopped is read first; nothing new comes.
        manager.send(b"MARK=1")
        manager.next("MARK")
        with pytest.raises(queue.Empty):
            manager.messages.get(timeout=1.0)
    assert manager.next("WATCHDOG") == {"WATCHDOG": "1"}
