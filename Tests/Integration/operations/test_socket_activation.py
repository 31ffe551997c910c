"""Listening sockets that a service manager has made (sd_listen_fds(3)), as systemd's own tool passes them."""

import shutil
import socket

import pytest

from support.client import Client, get
from support.exposition import ask
from support.gateway import Gateway
from support.paths import BINARY, ENVIRONMENT
from support.ports import uncommon_port
from support.taking_over import adopt_orphans, has_ended, listening_sockets, upgrade
from support.waiting import eventually

TOOL = "systemd-socket-activate"

pytestmark = pytest.mark.skipif(not shutil.which(TOOL), reason=f"{TOOL} (package systemd) is not installed")


class ActivatedGateway(Gateway):
    """Its sockets are there before it is; the first connection starts it. The tool becomes the gateway, so it has its number."""

    addresses = ()
    passes_sockets = False

    def command(self):
        listen = [word for address in self.addresses for word in ("--listen", str(address))]
        return [TOOL, *listen, "--setenv=SWIFT_BACKTRACE=enable=no", BINARY, "run", "--config", self.conf_path]


@pytest.fixture
def activated(pki, own_upstream, tmp_path):
    made = ActivatedGateway(tmp_path / "gateway", pki, {"service": own_upstream.address}, workers=2)
    # The tool binds the port itself, and shares it with nobody.
    made.holder.close()
    yield made
    made.stop()


def wake(gateway):
    """- Returns: whether somebody could connect, and so wakes it."""
    try:
        socket.create_connection(("127.0.0.1", gateway.port)).close()
        return True
    except ConnectionRefusedError:
        return False


def test_the_managers_sockets_are_served_by_all_workers_and_survive_an_upgrade(activated, phone):
    gateway, other = activated, uncommon_port()
    administration = gateway.conf["administration"]["socket"]
    gateway.addresses = [f"127.0.0.1:{gateway.port}", administration, f"127.0.0.1:{other}"]
    gateway.start(until=lambda: wake(gateway))
    eventually(lambda: "serving" in gateway.errors, lambda: f"the gateway to start\n{gateway.errors}")
    sockets = listening_sockets(gateway.port)
    assert len(sockets) == 1
    for _ in range(8):
        with Client(gateway, phone) as client:
            assert client.exchange(get("/")).status == 200
    eventually(lambda: ask(gateway, "/health/ready")[0] == 200, "every worker to serve")
    # What is for no listener is not kept open for nobody.
    assert f"the inherited listening socket 127.0.0.1:{other} belongs to no listener and was closed" in gateway.errors
    assert not listening_sockets(other)
    adopt_orphans()
    before = upgrade(gateway)
    with Client(gateway, phone) as client:
        assert client.exchange(get("/")).status == 200
    assert ask(gateway, "/health/ready")[0] == 200
    assert listening_sockets(gateway.port) == sockets
    assert has_ended(gateway, before)
    gateway.stop()
    # The file is the manager's.
    assert (gateway.directory / "admin.sock").is_socket()


def test_socket_variables_of_another_process_are_ignored(pki, own_upstream, tmp_path, monkeypatch):
    """An activated shell passes its variables on to its children."""
    monkeypatch.setitem(ENVIRONMENT, "LISTEN_FDS", "1")
    monkeypatch.setitem(ENVIRONMENT, "LISTEN_PID", "1")
    gateway = Gateway(tmp_path / "gateway", pki, {"service": own_upstream.address})
    gateway.start()
    gateway.stop()
