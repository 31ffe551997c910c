"""The memory of the whole process is bounded, whatever the attack; who holds the most gives way, and others are served."""

import re
import resource
import subprocess
import threading

import pytest

from support import memory_attacks as attacks
from support.client import Client, get
from support.exposition import scrape
from support.memory_attacks import KIB, MIB, holding
from support.paths import ENVIRONMENT, PATIENCE
from support.recording_upstream import Gone
from support.waiting import eventually

# What the process may take for a moment beyond its budget, as docs/operations/limits.md states it.
RESERVE = 64 * MIB


def endless(connection):
    """A service with an endless answer for `/big`, and a short one for everything else."""
    while True:
        try:
            head = connection.read_head()
            connection.read_request()
            if head.target != "/big":
                connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
                continue
            connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (1 << 30))
            while True:
                connection.send(bytes(64 * KIB))
        except (Gone, OSError):
            return


def test_a_denial_that_waits_for_its_client_holds_few_bytes(start_gateway, own_upstream, pki, phone):
    """100 denials on a connection whose window never opens took 2.4 MiB to 6.4 MiB: a head and a response each."""
    gateway = start_gateway(
        {"service": own_upstream.address}, [{"name": "some", "host": "localhost", "path": "/some"}])
    with holding() as sockets:
        attacks.unread_denials(gateway, pki, phone, sockets, 1)
        eventually(lambda: scrape(gateway)("attestgate_http2_streams", worker="0") == 100, "the requests to come")
        before = gateway.resident_bytes()
        attacks.unread_denials(gateway, pki, phone, sockets, 8)
        eventually(lambda: scrape(gateway)("attestgate_http2_streams", worker="0") == 900, "the requests to come")
        held = (gateway.resident_bytes() - before) / 8
        print(f"{held / KIB:.0f} KiB for each connection with 100 denials that wait")
        assert held < 1 * MIB
        used = scrape(gateway)("attestgate_buffer_blocks", state="used")
        assert used < 100, f"{used} blocks of 32 KiB are in use"


def greedy_identities(pki, count):
    return [pki.client(f"greedy-{number}") for number in range(count)]


def test_clients_that_hold_the_most_give_way_and_others_are_served(start_gateway, own_upstream, pki, phone):
    """With a budget, unread answers cannot take all memory; without one, as many as there are connections hold theirs."""
    own_upstream.script = endless
    gateway = start_gateway({"service": {"servers": [own_upstream.address], "connections": 2000}})
    budget = gateway.resident_bytes() + 36 * MIB
    gateway.halt()
    gateway.conf["limits"] = {"memory": f"{budget // MIB + 1}MiB"}
    gateway.start()
    peak = 0
    with holding() as sockets:
        for identity in greedy_identities(pki, 4):
            attacks.unread_answers(gateway, pki, identity, sockets, 90)
            with Client(gateway, phone) as other:
                for _ in range(10):
                    assert other.exchange(get("/")).status == 200
            peak = max(peak, gateway.resident_bytes())
        metrics = scrape(gateway)
        assert metrics("attestgate_memory_limit_bytes") >= budget
        assert metrics("attestgate_memory_actions_total", action="connection_closed") > 0
        assert metrics("attestgate_connections_limited_total", limit="memory") > 0
    print(f"budget {budget / MIB:.0f} MiB, peak {peak / MIB:.0f} MiB")
    assert peak <= budget + RESERVE
    assert "of limits.memory" in gateway.errors
    entry = gateway.logged(denial="connection_limit", detail="memory of the process")
    assert entry["event"] == "connection_refused"
    # At most a line a second.
    lines = re.findall(r"memory: .* are in use: reading paused", gateway.errors)
    assert 1 <= len(lines) < 60
    eventually(lambda: scrape(gateway)("attestgate_memory_pressure") == 0, "the pressure to end", 60)


def test_memory_returns_after_an_attack(start_gateway, own_upstream, pki, phone):
    own_upstream.script = endless
    gateway = start_gateway({"service": {"servers": [own_upstream.address], "connections": 2000}})
    with Client(gateway, phone) as client:
        assert client.exchange(get("/")).status == 200
    with holding() as sockets:
        attacks.unread_answers(gateway, pki, phone, sockets, 20)
    before = gateway.resident_bytes()
    with holding() as sockets:
        for identity in greedy_identities(pki, 4):
            attacks.unread_answers(gateway, pki, identity, sockets, 90)
        during = gateway.resident_bytes()
    assert during > before * 1.2, "the attack has taken nothing"
    eventually(
        lambda: gateway.resident_bytes() < before * 1.2,
        lambda: f"memory to return: {before / MIB:.0f} MiB, {during / MIB:.0f}, now {gateway.resident_bytes() / MIB:.0f}", 60)


def test_a_client_has_no_more_connections_than_its_limit(start_gateway, own_upstream, pki, phone):
    gateway = start_gateway({"service": own_upstream.address}, limits={"connections_per_client": 5, "connections": 8}, workers=2)
    with holding() as sockets:
        attacks.silent(gateway, pki, phone, sockets, 20)
        closed = eventually(lambda: [s for s in sockets if attacks.is_closed(s)], "further connections to be closed")
        eventually(lambda: sum(attacks.is_closed(s) for s in sockets) == 15, "all further connections to be closed")
        assert closed
        with Client(gateway, pki.client("modest")) as other:
            assert other.exchange(get("/")).status == 200
        gateway.logged(denial="connection_limit", detail="connections of one client")
        assert scrape(gateway)("attestgate_connections_limited_total", limit="client") == 15
    # Places come back.
    def is_served():
        try:
            with Client(gateway, phone) as again:
                return again.exchange(get("/")).status == 200
        except (OSError, Exception):
            return False
    eventually(is_served, "places to come back")


def test_a_full_gateway_closes_the_oldest_idle_connection_of_the_largest_holder(start_gateway, own_upstream, pki, phone):
    """One key could hold all connections of a worker: everybody else was turned away."""
    gateway = start_gateway({"service": own_upstream.address}, limits={"connections": 8})
    with Client(gateway, pki.client("modest")) as modest, holding() as sockets:
        assert modest.exchange(get("/")).status == 200
        attacks.silent(gateway, pki, phone, sockets, 7)
        for number in range(3):
            with Client(gateway, pki.client(f"late-{number}")) as late:
                assert late.exchange(get("/")).status == 200
        assert modest.exchange(get("/")).status == 200, "the small holder kept its connection"
        assert attacks.is_closed(sockets[0], 5), "the oldest of the largest is closed"
        assert not attacks.is_closed(sockets[-1])


def test_a_connection_in_use_gives_way_to_nobody(start_gateway, own_upstream, pki, phone):
    release = threading.Event()

    def answer(request):
        if request.target == "/slow":
            release.wait(60)
        return b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    own_upstream.answer = answer
    gateway = start_gateway({"service": own_upstream.address}, limits={"connections": 2})
    try:
        with Client(gateway, phone) as first, Client(gateway, phone) as second:
            first.send(get("/slow"))
            second.send(get("/slow"))
            own_upstream.wait_for_requests(2)
            with pytest.raises(OSError):
                Client(gateway, pki.client("late"))
            release.set()
            assert [client.read_response().status for client in (first, second)] == [200, 200]
            with Client(gateway, pki.client("late")) as late:
                assert late.exchange(get("/")).status == 200
    finally:
        release.set()


def test_a_listener_has_no_more_connections_than_its_own_limit(start_gateway, own_upstream, pki, phone):
    gateway = start_gateway({"service": own_upstream.address})
    gateway.halt()
    gateway.conf["listeners"][0]["connections"] = 3
    gateway.start()
    with holding() as sockets:
        attacks.silent(gateway, pki, phone, sockets, 3)
        with Client(gateway, pki.client("modest")) as other:
            assert other.exchange(get("/")).status == 200
        assert attacks.is_closed(sockets[0], 5)
        assert scrape(gateway)("attestgate_connections_limited_total", limit="listener") == 1


def test_a_client_has_no_more_streams_than_its_limit_whatever_its_connections(start_gateway, own_upstream, pki, phone):
    """Denied requests took no share of any upstream, so nothing bounded the streams of a key."""
    gateway = start_gateway(
        {"service": own_upstream.address}, [{"name": "some", "host": "localhost", "path": "/some"}],
        limits={"streams_per_client": 30})
    with holding() as sockets:
        attacks.unread_denials(gateway, pki, phone, sockets, 3, streams=20)
        eventually(lambda: scrape(gateway)("attestgate_http2_streams", worker="0") == 30, "the streams to reach the limit")
    eventually(lambda: scrape(gateway)("attestgate_http2_streams", worker="0") == 0, "the streams to end")
    with holding() as sockets:
        attacks.unread_denials(gateway, pki, phone, sockets, 1, streams=20)
        eventually(lambda: scrape(gateway)("attestgate_http2_streams", worker="0") == 20, "places to come back")


def test_a_stranger_has_little_time(start_attested, pki):
    """Anybody can make a key and connect where self-signed certificates are accepted."""
    attested = start_attested(clients={"accept": ["issued", "registered"]})
    gateway = attested.gateway
    stranger = pki.client("memory-stranger", issuer=None)
    with holding() as sockets:
        attacks.silent(gateway, pki, stranger, sockets, 1)
        attacks.unread_denials(gateway, pki, stranger, sockets, 1, streams=10)
        attacks.silent(gateway, pki, attested.phone.identity, sockets, 1)
        for stranger in sockets[:2]:
            assert attacks.is_closed(stranger, 15)
        assert not attacks.is_closed(sockets[2]), "a client with an issued certificate may be idle for longer"


def test_an_address_space_that_is_too_small_is_refused_at_start(start_gateway, own_upstream):
    """It said that it served, and ended at the first requests."""
    gateway = start_gateway({"service": own_upstream.address})
    gateway.halt()
    done = gateway.run(
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (400 * MIB, 400 * MIB)))
    assert done.returncode != 0
    assert "serving" not in done.stderr
    assert re.search(r"address space is limited to 400 MiB.*LimitAS=", done.stderr.replace("\n", " ")), done.stderr
    gateway.start()
