"""What one address, and all together, may have open: connections beyond that are turned away, and the others are served."""

import socket

import pytest

from support.client import Client, get
from support.denials import assert_connection_refused
from support.exposition import scrape
from support.paths import PATIENCE
from support.pki import attestgate
from support.waiting import eventually

# Every address of the loopback network is this machine's.
OTHER = "127.0.0.2"


@pytest.fixture
def start(start_gateway, own_upstream):
    def start(workers=2, **limits):
        return start_gateway({"service": own_upstream.address}, workers=workers, limits=limits)
    return start


@pytest.fixture
def half_open(request):
    """Opens connections on which no handshake begins."""
    def open_(gateway, count, source):
        made = [socket.create_connection(("127.0.0.1", gateway.port), PATIENCE, (source, 0)) for _ in range(count)]
        for one in made:
            request.addfinalizer(one.close)
        return made
    return open_


def is_served(gateway, phone, source):
    try:
        with Client(gateway, phone, source=source) as client:
            return client.exchange(get("/")).status == 200
    except OSError:
        return False


def assert_turned_away(gateway, detail, count=1):
    """The log says why in words, and the metrics by the limit; no other limit has moved."""
    entry = assert_connection_refused(gateway, "connection_limit", count)
    assert entry["detail"] == detail, entry
    limits = {"connections or handshakes of one address": "source", "handshakes of the worker": "handshakes"}
    metrics = scrape(gateway)
    counts = {limit: metrics("attestgate_connections_limited_total", limit=limit) for limit in ["connections", "handshakes", "source"]}
    assert counts.pop(limits[detail]) >= count and not any(counts.values()), counts


def test_connections_per_address_are_limited_over_all_workers(start, phone):
    gateway = start(workers=3, connections_per_source=4)
    clients = [Client(gateway, phone, source=OTHER) for _ in range(4)]
    assert all(client.exchange(get("/")).status == 200 for client in clients)
    for _ in range(6):
        assert not is_served(gateway, phone, OTHER)
    assert is_served(gateway, phone, "127.0.0.1")
    assert_turned_away(gateway, "connections or handshakes of one address", 6)
    # Those that are open were not touched, and each that leaves makes room for one.
    assert all(client.exchange(get("/")).status == 200 for client in clients)
    clients.pop().close()
    eventually(lambda: is_served(gateway, phone, OTHER), "room for one more")
    for client in clients:
        client.close()


def test_connections_from_before_a_reload_count_towards_its_limit(start, phone):
    gateway = start()
    with Client(gateway, phone, source=OTHER) as client:
        assert client.exchange(get("/")).status == 200
        gateway.conf["limits"] = {"connections_per_source": 1}
        gateway.write_conf()
        assert attestgate("reload", "--config", gateway.conf_path).returncode == 0
        assert not is_served(gateway, phone, OTHER)
        assert is_served(gateway, phone, "127.0.0.1")
    eventually(lambda: is_served(gateway, phone, OTHER), "room")


def test_handshakes_per_address_are_limited_and_others_are_served(start, half_open, phone):
    gateway = start(handshakes_per_source=5)
    silent = half_open(gateway, 5, OTHER)
    eventually(lambda: gateway.connections() >= 5, "the handshakes to be under way")
    assert not is_served(gateway, phone, OTHER)
    assert is_served(gateway, phone, "127.0.0.1")
    assert_turned_away(gateway, "connections or handshakes of one address")
    silent.pop().close()
    eventually(lambda: is_served(gateway, phone, OTHER), "room for one more")
    # A handshake that is complete does not count: these are more than five.
    clients = []
    for _ in range(8):
        eventually(lambda: add(clients, gateway, phone), "one more connection")
    for client in clients:
        client.close()


def add(clients, gateway, phone):
    try:
        clients.append(Client(gateway, phone, source=OTHER))
        return clients[-1].exchange(get("/")).status == 200
    except OSError:
        return False


def test_hundreds_of_half_open_connections_refuse_no_other_client(start, half_open, phone):
    gateway = start(workers=1, handshakes=20)
    for _ in range(10):
        half_open(gateway, 50, OTHER)
        assert is_served(gateway, phone, "127.0.0.1"), "a genuine handshake is newer than those of the crowd"
        # The twenty, and what the gateway has for itself and its service.
        assert gateway.connections() <= 30
    assert_turned_away(gateway, "handshakes of the worker", 470)


def test_a_pipeline_reaches_the_service_one_request_at_a_time(start, own_upstream, phone):
    gateway = start(workers=1)
    with Client(gateway, phone) as client:
        client.send(get("/") * 600)
        for _ in range(600):
            assert client.read_response().status == 200
    # A second one under way would have had a connection of its own.
    assert len(own_upstream.connections) == 1
