"""Several servers of one upstream: how they are chosen, and that one which fails costs nobody else anything."""

import json
import signal
import socket
import threading
from contextlib import contextmanager

import pytest

from support.client import Client, IncompleteResponse, get, post
from support.denials import assert_denied
from support.exposition import ask, scrape
from support.pki import attestgate
from support.recording_upstream import OK, RecordingUpstream
from support.waiting import eventually

# So long that no test sees its end, or so short that every test does.
FOR_GOOD = {"failures": 2, "for": "1h", "at_most": "1h"}
FOR_A_MOMENT = {"failures": 2, "for": "200ms", "at_most": "400ms"}


@pytest.fixture
def three():
    servers = [RecordingUpstream() for _ in range(3)]
    yield servers
    for server in servers:
        server.close()
        assert server.faults == []


def upstream(servers, **settings):
    return {"service": {"servers": [server.address for server in servers], **settings}}


def counts(servers):
    return [len(server.requests) for server in servers]


def states(gateway, server):
    """What workers think of a server."""
    found = scrape(gateway)
    return {labels["state"] for labels in found.labels("attestgate_upstream_server_workers")
            if labels["server"] == server.address
            and found("attestgate_upstream_server_workers", **labels) > 0}


def resetting(connection):
    connection.read_request()
    connection.reset()


@contextmanager
def nobody():
    """An address that refuses connections: bound and not listening, so that nobody else can take the port."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield "127.0.0.1:%d" % holder.getsockname()[1]


def test_requests_are_spread_evenly_over_kept_connections(start_gateway, three, phone):
    gateway = start_gateway(upstream(three))
    with Client(gateway, phone) as client:
        for _ in range(30):
            assert client.exchange(get("/")).status == 200
    assert counts(three) == [10, 10, 10]
    assert [len(server.connections) for server in three] == [1, 1, 1]
    metrics = scrape(gateway)
    for server in three:
        assert metrics("attestgate_upstream_server_requests_total", upstream="service", server=server.address) == 10
        assert metrics("attestgate_upstream_connections", server=server.address, state="idle") == 1


def test_least_connections_passes_a_slow_server_over(start_gateway, three, phone):
    gateway = start_gateway(upstream(three, balance="least-connections"))
    release = threading.Event()

    def slow(connection):
        connection.read_request()
        release.wait(60)
        connection.send(OK)
    three[0].script = slow
    with Client(gateway, phone) as stuck, Client(gateway, phone) as client:
        stuck.send(get("/slow"))
        three[0].wait_for_requests(1)
        for _ in range(20):
            assert client.exchange(get("/")).status == 200
        assert counts(three) == [1, 10, 10]
        release.set()
        assert stuck.read_response().status == 200


def test_a_device_keeps_its_server(start_gateway, three, pki):
    gateway = start_gateway(upstream(three, balance="device"), workers=2)
    used = set()
    for number in range(12):
        phone = pki.phone(f"balanced-{number}")
        before = counts(three)
        for _ in range(3):
            with Client(gateway, phone) as client:
                for _ in range(2):
                    assert client.exchange(get("/")).status == 200
        grown = [now - then for now, then in zip(counts(three), before)]
        assert sorted(grown) == [0, 0, 6], "all workers and connections choose alike"
        used.add(grown.index(6))
    # 12 devices at one of three by chance: once in 177,000 runs.
    assert len(used) > 1


def test_a_refusing_server_fails_no_request_and_is_soon_skipped(start_gateway, three, phone):
    with nobody() as dead:
        gateway = start_gateway({"service": {
            "servers": [dead, *(server.address for server in three[1:])], "ejection": FOR_GOOD}})
        with Client(gateway, phone) as client:
            for number in range(12):
                # Not one byte was sent there, so even what is not idempotent goes to the next.
                assert client.exchange(post("/", b"%d" % number)).status == 200
        assert sorted(r.content for s in three for r in s.requests) == sorted(b"%d" % n for n in range(12))
        metrics = scrape(gateway)
        assert metrics("attestgate_upstream_server_failures_total", server=dead, kind="unreachable") == 2
        assert metrics("attestgate_upstream_server_ejections_total", server=dead) == 1
        assert metrics("attestgate_upstream_failures_total", upstream="service") == 0
        assert metrics("attestgate_upstream_server_workers", server=dead, state="ejected") == 1
        event = gateway.logged(event="server_ejected")
        assert event["upstream"] == "service" and dead in event["detail"]
        def served():
            return [entry["server"] for entry in gateway.access() if entry["event"] == "request"]
        eventually(lambda: len(served()) == 12, "a line for each request")
        assert set(served()) == {three[1].address, three[2].address}, "who answered, not who was tried before"


def test_a_proof_is_sent_to_the_next_server_with_its_one_counter(start_attested):
    with nobody() as dead:
        attested = start_attested()
        gateway, phone = attested.gateway, attested.phone
        gateway.halt()
        gateway.conf["upstreams"]["service"] = {"servers": [dead, attested.upstream.address]}
        gateway.start()
        before = scrape(gateway)("attestgate_registry_counters_committed_total")
        with phone.connect() as client:
            for _ in range(4):
                assert client.exchange(phone.request(path="/a")).status == 200
        metrics = scrape(gateway)
        assert metrics("attestgate_upstream_server_failures_total", server=dead, kind="unreachable") == 2
        assert metrics("attestgate_registry_counters_committed_total") - before == 4
        counters = [r.values("attest-counter")[0] for r in attested.upstream.requests]
        assert len(counters) == 4 == len(set(counters))


BAD = {
    "resets": resetting,
    "closes in the middle of the head": lambda c: (c.read_request(), c.send(b"HTTP/1.1 200 OK\r\nConte")),
    "speaks nonsense": lambda c: (c.read_request(), c.send(b"\x16\x03\x01nonsense\r\n\r\n"), c.wait_for_end()),
    "closes in the middle of the content": lambda c: (
        c.read_request(), c.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly")),
}


@pytest.mark.parametrize("name", BAD)
def test_one_failing_server_of_three_is_ejected(start_gateway, three, phone, name):
    gateway = start_gateway(upstream(three, ejection=FOR_GOOD))
    three[0].script = BAD[name]
    failed = 0
    for _ in range(30):
        with Client(gateway, phone) as client:
            try:
                failed += client.exchange(post("/", b"x")).status == 502
            except IncompleteResponse:
                failed += 1
    assert failed == 2, "as many as it takes to eject it"
    assert len(three[0].connections) == 2
    assert sum(counts(three[1:])) == 28
    assert states(gateway, three[0]) == {"ejected"}
    assert states(gateway, three[1]) == {"usable"}


def test_a_silent_server_is_ejected_and_delays_no_other_request(start_gateway, three, phone):
    gateway = start_gateway(upstream(three, ejection=FOR_GOOD, response_timeout="300ms"))
    three[0].script = lambda connection: (connection.read_request(), connection.wait_for_end())
    with Client(gateway, phone) as client:
        for _ in range(3 * 2 + 20):
            # On a slow machine a good server may be late, too.
            assert client.exchange(get("/")).status in (200, 504)
    eventually(lambda: states(gateway, three[0]) == {"ejected"}, "the ejection")
    # A response that was late was not asked for again.
    assert len(three[0].requests) == 2


def test_a_server_is_used_again_after_its_ejection(start_gateway, three, phone):
    gateway = start_gateway(upstream(three, ejection=FOR_A_MOMENT))
    three[0].script = resetting
    with Client(gateway, phone) as client:
        eventually(
            lambda: client.exchange(post("/", b"x")).status in (200, 502) and states(gateway, three[0]) == {"ejected"},
            "the ejection")
        three[0].script = None
        before = len(three[0].requests)
        eventually(
            lambda: client.exchange(post("/", b"x")).status in (200, 502) and len(three[0].requests) > before + 3,
            "the server to be used again")
    event = gateway.logged(event="server_readmitted")
    assert event["upstream"] == "service" and three[0].address in event["detail"]
    events = [entry["event"] for entry in gateway.access() if entry["event"].startswith("server_")]
    # Between two that say that it is used again, one says that it is not.
    assert all(pair != ("server_readmitted",) * 2 for pair in zip(events, events[1:])) and events[0] == "server_ejected"
    assert states(gateway, three[0]) == {"usable"}


def test_when_all_are_ejected_all_are_asked(start_gateway, three, phone):
    gateway = start_gateway(upstream(three, ejection={**FOR_GOOD, "minimum_servers": 1}))
    for server in three:
        server.script = resetting
    with Client(gateway, phone) as client:
        for _ in range(12):
            assert client.exchange(post("/", b"x")).status == 502
        ejected = [states(gateway, server) == {"ejected"} for server in three]
        assert sorted(ejected) == [False, True, True], "one is left, whatever it does"
        left = three[ejected.index(False)]
        before = len(left.requests)
        for _ in range(5):
            client.exchange(post("/", b"x"))
        assert len(left.requests) == before + 5
        left.script = None
        assert client.exchange(post("/", b"x")).status == 200


def test_with_all_servers_down_each_request_is_denied_and_the_gateway_recovers(start_gateway, phone):
    servers = [RecordingUpstream() for _ in range(3)]
    gateway = start_gateway(upstream(servers, ejection=FOR_A_MOMENT))
    with Client(gateway, phone) as client:
        assert client.exchange(get("/")).status == 200
        before = gateway.connections()
        for server in servers:
            server.close()
        for _ in range(10):
            assert_denied(gateway, client.exchange(post("/", b"x")), "upstream_unavailable", 502)
        eventually(lambda: gateway.connections() <= before, "no connection to be left behind")


def test_a_failure_not_caused_by_the_server_ejects_none(start_gateway, three, phone):
    gateway = start_gateway(upstream(three, ejection={"failures": 1, "for": "1h", "at_most": "1h"}))
    for server in three:
        server.answer = b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n"
    release = threading.Event()
    with Client(gateway, phone) as client:
        for _ in range(6):
            assert client.exchange(get("/")).status == 500
    # Nor does a client that leaves.
    for server in three:
        server.script = lambda connection: (connection.read_request(), release.wait(60))
    for number in range(3):
        with Client(gateway, phone) as client:
            client.send(get("/left"))
            eventually(lambda: sum(counts(three)) == 7 + number, "the request")
    release.set()
    assert [states(gateway, server) for server in three] == [{"usable"}] * 3


def test_a_slow_client_has_no_server_ejected(start_gateway, three, phone):
    gateway = start_gateway(upstream(three, ejection={"failures": 1, "for": "1h", "at_most": "1h"}))

    def impatient(connection):
        connection.socket.recv(65536)
        connection.reset()
    for server in three:
        server.script = impatient
    for _ in range(6):
        with Client(gateway, phone) as client:
            client.send(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhel")
            assert client.read_response().status == 502
    assert [states(gateway, server) for server in three] == [{"usable"}] * 3


def test_waiting_requests_are_served_when_an_ejection_ends(start_gateway, three, phone):
    hanging, ejected, _ = three
    release = threading.Event()
    hanging.script = lambda connection: (connection.read_request(), release.wait(60), connection.send(OK))
    ejected.script = resetting
    gateway = start_gateway(upstream(
        three[:2], connections_per_server=1, waiting_timeout="30s",
        ejection={"failures": 1, "for": "1s", "at_most": "1s"}))
    with Client(gateway, phone) as first, Client(gateway, phone) as second, Client(gateway, phone) as third:
        first.send(get("/hangs"))
        eventually(lambda: len(hanging.requests) == 1, "the first request")
        assert second.exchange(post("/", b"x")).status == 502
        ejected.script = None
        # The one server is full and the other ejected, and nothing happens until that ends.
        assert third.exchange(get("/waits")).status == 200
        assert [r.target for r in ejected.requests] == ["/", "/waits"]
        release.set()
        assert first.read_response().status == 200


# Waiting and limits.


def holding(release):
    def script(connection):
        while True:
            connection.read_request()
            release.wait(60)
            connection.send(OK)
    return script


ONE = {"connections": 1, "idle_connections": 1}


def test_requests_wait_for_a_connection_in_order(start_gateway, own_upstream, phone):
    gateway = start_gateway({"service": {"servers": [own_upstream.address], **ONE, "waiting_timeout": "1m"}})
    release = threading.Event()
    own_upstream.script = holding(release)
    clients = [Client(gateway, phone) for _ in range(5)]
    for number, client in enumerate(clients):
        client.send(post(f"/{number}", b"content %d" % number) if number % 2 else get(f"/{number}"))
        waiting = max(0, number)
        eventually(lambda: scrape(gateway)("attestgate_upstream_waiting", upstream="service") == waiting, "it to wait")
    own_upstream.wait_for_requests(1)
    release.set()
    for client in clients:
        assert client.read_response().status == 200
        client.close()
    assert [r.target for r in own_upstream.requests] == ["/0", "/1", "/2", "/3", "/4"]
    assert [r.content for r in own_upstream.requests] == [b"", b"content 1", b"", b"content 3", b""]
    assert len(own_upstream.connections) == 1
    assert scrape(gateway)("attestgate_upstream_waiting", upstream="service") == 0


def test_large_content_waits_with_its_client(start_gateway, own_upstream, phone):
    gateway = start_gateway({"service": {"servers": [own_upstream.address], **ONE, "waiting_timeout": "1m"}})
    release = threading.Event()
    own_upstream.script = holding(release)
    content = bytes(range(256)) * 3_000
    with Client(gateway, phone) as first, Client(gateway, phone) as second:
        first.send(get("/first"))
        own_upstream.wait_for_requests(1)
        head = post("/second", content)
        sender = threading.Thread(target=second.send, args=[head])
        sender.start()
        eventually(lambda: scrape(gateway)("attestgate_upstream_waiting", upstream="service") == 1, "it to wait")
        release.set()
        assert first.read_response().status == 200
        sender.join(60)
        assert second.read_response().status == 200
    assert own_upstream.requests[1].content == content


def test_a_wait_without_end_is_upstream_busy(start_gateway, own_upstream, phone):
    gateway = start_gateway({"service": {"servers": [own_upstream.address], **ONE, "waiting_timeout": "200ms"}})
    own_upstream.script = holding(threading.Event())
    with Client(gateway, phone) as first, Client(gateway, phone) as second:
        first.send(get("/first"))
        own_upstream.wait_for_requests(1)
        for number in range(2):
            response = second.exchange(post("/second", b"x"))
            assert response.value("retry-after") == "1"
            entry = assert_denied(gateway, response, "upstream_busy", 503)
            assert entry["decision"] == "denied" and entry["fault"] == "gateway"
            assert entry["upstream"] == "service" and "server" not in entry, "nobody was asked"
        assert scrape(gateway)("attestgate_upstream_failures_total", kind="waiting_timeout") == 2
    assert [r.target for r in own_upstream.requests] == ["/first"]


def test_waiting_requests_are_limited(start_gateway, own_upstream, phone):
    gateway = start_gateway({"service": {
        "servers": [own_upstream.address], **ONE, "waiting": 1, "waiting_timeout": "1m"}})
    release = threading.Event()
    own_upstream.script = holding(release)
    with Client(gateway, phone) as first, Client(gateway, phone) as second, Client(gateway, phone) as third:
        first.send(get("/first"))
        own_upstream.wait_for_requests(1)
        second.send(get("/second"))
        waiting = lambda: scrape(gateway)("attestgate_upstream_waiting", upstream="service")
        eventually(lambda: waiting() == 1, "the second to wait")
        assert_denied(gateway, third.exchange(get("/third")), "upstream_busy", 503)
        assert scrape(gateway)("attestgate_upstream_failures_total", kind="connection_limit") == 1
        # Who leaves makes room at once.
        second.socket.shutdown(socket.SHUT_RDWR)
        eventually(lambda: waiting() == 0, "the second to be gone")
        third.send(get("/fourth"))
        eventually(lambda: waiting() == 1, "the third to wait")
        release.set()
        assert first.read_response().status == third.read_response().status == 200
    assert [r.target for r in own_upstream.requests] == ["/first", "/fourth"]


def test_requests_beyond_the_breaker_are_refused_at_once(start_gateway, own_upstream, phone):
    gateway = start_gateway({"service": {"servers": [own_upstream.address], "requests": 2, "waiting_timeout": "1m"}})
    release = threading.Event()
    own_upstream.script = holding(release)
    with Client(gateway, phone) as first, Client(gateway, phone) as second, Client(gateway, phone) as third:
        first.send(get("/first"))
        second.send(get("/second"))
        own_upstream.wait_for_requests(2)
        assert_denied(gateway, third.exchange(get("/third")), "upstream_busy", 503)
        assert scrape(gateway)("attestgate_upstream_failures_total", kind="request_limit") == 1
        release.set()
        assert first.read_response().status == second.read_response().status == 200
        assert third.exchange(get("/fourth")).status == 200


def test_a_server_that_hangs_holds_no_more_than_its_connections(start_gateway, three, phone):
    gateway = start_gateway(upstream(three, connections_per_server=2))
    three[0].script = holding(threading.Event())
    clients = [Client(gateway, phone) for _ in range(6)]
    for client in clients:
        client.send(get("/"))
    eventually(lambda: sum(counts(three)) == 6 and len(three[0].requests) == 2, lambda: f"two there: {counts(three)}")
    with Client(gateway, phone) as client:
        for _ in range(10):
            assert client.exchange(get("/")).status == 200
    assert counts(three)[0] == 2
    for client in clients:
        client.close()


# Health checks.


CHECKED = {"path": "/health", "interval": "100ms", "timeout": "80ms", "healthy_after": 2, "unhealthy_after": 2}


@pytest.fixture
def checked(three):
    """Servers that tell checks from requests."""
    for server in three:
        server.is_checked = True
    return three


def test_a_server_whose_checks_fail_gets_no_requests_until_they_pass(start_gateway, checked, phone):
    status = [200]
    checked[0].health = lambda c: c.send(b"HTTP/1.1 %d X\r\nContent-Length: 0\r\n\r\n" % status[0])
    # Patient with servers that are merely slow: only what the answer says decides here.
    gateway = start_gateway(upstream(checked, health={**CHECKED, "interval": "2s", "timeout": "1900ms"}))
    eventually(lambda: checked[0].checks, "the first check")
    assert checked[0].checks[0] == (
        b"GET /health HTTP/1.1\r\nHost: %s\r\nUser-Agent: attestgate\r\nConnection: close\r\n\r\n"
        % checked[0].address.encode())
    # One that had failed would have done so at once.
    eventually(lambda: states(gateway, checked[0]) == {"usable"}, "the first check to pass")
    status[0] = 503
    eventually(lambda: states(gateway, checked[0]) == {"unhealthy"}, "the checks to fail")
    with Client(gateway, phone) as client:
        for _ in range(10):
            assert client.exchange(get("/")).status == 200
        assert counts(checked) == [0, 5, 5]
        event = gateway.logged(event="server_unhealthy")
        assert event["detail"] == f"{checked[0].address}: its health checks fail: status 503, expected 200 to 299"
        assert event["upstream"] == "service"
        status[0] = 204
        eventually(lambda: states(gateway, checked[0]) == {"usable"}, "the checks to pass")
        for _ in range(9):
            assert client.exchange(get("/")).status == 200
    assert counts(checked)[0] == 3
    gateway.logged(event="server_healthy")
    metrics = scrape(gateway)
    checks = "attestgate_upstream_server_checks_total"
    assert metrics(checks, server=checked[0].address, result="failed") >= 2
    assert metrics(checks, server=checked[0].address, result="passed") >= 2


NOT_WELL = {
    "never answers": lambda c: c.wait_for_end(),
    "wrong status": lambda c: c.send(b"HTTP/1.1 204 No Content\r\n\r\n"),
    "speaks nonsense": lambda c: c.send(b"\x16\x03\x01\r\n\r\n"),
    "closes": lambda c: None,
    "half an answer": lambda c: c.send(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"),
}


NOT_WELL_REASONS = {
    "refuses": "failed: Connection refused",
    "never answers": "no complete response within 1000 ms",
    "wrong status": "status 204, expected 200",
    "half an answer": "the upstream closed the connection",
}


@pytest.mark.parametrize("name", ["refuses", *NOT_WELL])
def test_a_server_that_is_not_well_is_known_before_the_first_request(start_gateway, checked, phone, name):
    first, *others = [server.address for server in checked]
    with nobody() as dead:
        if name == "refuses":
            first = dead
        else:
            checked[0].health = NOT_WELL[name]
        gateway = start_gateway({"service": {"servers": [first, *others], "health": {
            "path": "/health", "interval": "10s", "timeout": "1s", "status": 200}}})
        unhealthy = {"server": first, "state": "unhealthy"}
        eventually(lambda: scrape(gateway)("attestgate_upstream_server_workers", **unhealthy), "the first check to fail")
        assert NOT_WELL_REASONS.get(name, "") in gateway.logged(event="server_unhealthy")["detail"]
        with Client(gateway, phone) as client:
            for _ in range(6):
                assert client.exchange(post("/", b"x")).status == 200
    assert counts(checked)[0] == 0


def test_a_checks_response_is_read_only_as_far_as_needed(start_gateway, own_upstream, phone):
    own_upstream.is_checked = True
    sent = []

    def endless(connection):
        connection.send(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            connection.send(bytes(100_000))
            sent.append(100_000)
    own_upstream.health = endless
    gateway = start_gateway({"service": {"servers": [own_upstream.address], "health": CHECKED}})
    passed = {"server": own_upstream.address, "result": "passed"}
    eventually(lambda: scrape(gateway)("attestgate_upstream_server_checks_total", **passed) >= 2, "two checks")
    # What sockets hold, and not what could be sent in that time.
    assert sum(sent) < 100_000_000


def test_checks_end_with_their_configuration_and_leave_nothing_behind(start_gateway, own_upstream, phone):
    own_upstream.is_checked = True
    gateway = start_gateway({"service": {"servers": [own_upstream.address], "health": CHECKED}})
    eventually(lambda: len(own_upstream.checks) >= 3, "checks")
    assert len(own_upstream.connections) >= 3, "each has a connection of its own"
    del gateway.conf["upstreams"]["service"]["health"]
    gateway.write_conf()
    gateway.signal(signal.SIGHUP)
    eventually(lambda: scrape(gateway)("attestgate_generation") == 2, "the reload")
    # The scrape's own connection is one of them.
    eventually(lambda: gateway.connections() == 0, "the last check to end")
    count = len(own_upstream.connections)
    with Client(gateway, phone) as client:
        assert client.exchange(get("/sentinel")).status == 200
    assert len(own_upstream.connections) == count + 1


def test_a_reload_during_checks_does_no_harm(start_gateway, own_upstream, phone):
    own_upstream.is_checked = True
    own_upstream.health = lambda connection: connection.wait_for_end()
    gateway = start_gateway({"service": {
        "servers": [own_upstream.address], "health": {"path": "/health", "interval": "1m", "timeout": "30s"}}}, workers=2)
    for number in range(4):
        gateway.signal(signal.SIGHUP)
        eventually(lambda: scrape(gateway)("attestgate_generation") == number + 2, "the reload")
    with Client(gateway, phone) as client:
        assert client.exchange(get("/")).status == 200


def test_status_shows_servers(start_gateway, three, phone):
    with nobody() as dead:
        gateway = start_gateway({"service": {"servers": [dead, three[0].address], "ejection": FOR_GOOD}}, workers=2)
        for _ in range(20):
            with Client(gateway, phone) as client:
                assert client.exchange(get("/")).status == 200
        eventually(
            lambda: scrape(gateway)("attestgate_upstream_server_workers", server=dead, state="ejected") > 0, "an ejection")
        service = json.loads(ask(gateway, "/status")[2])["upstreams"][0]
        assert (service["name"], service["waiting"]) == ("service", 0)
        assert {server["name"] for server in service["servers"]} == {dead, three[0].address}
        assert next(s for s in service["servers"] if s["name"] == dead)["states"].get("ejected", 0) > 0
        printed = attestgate("status", "--config", gateway.conf_path).stdout
        assert "UPSTREAM" in printed and "WAITING" in printed and dead in printed and "ejected" in printed
        failed, good = (next(s for s in service["servers"] if s["name"] == name) for name in (dead, three[0].address))
        assert "Connection refused" in failed["last_failure"]["reason"] and "last_failure" not in good
        assert f"{failed['last_failure']['at']} {failed['last_failure']['reason']}" in printed


def test_status_shows_the_failures_of_a_single_server_which_is_never_ejected(start_gateway, phone):
    with nobody() as dead:
        gateway = start_gateway({"service": dead})
        with Client(gateway, phone) as client:
            assert client.exchange(get("/")).status == 502
        server, = json.loads(ask(gateway, "/status")[2])["upstreams"][0]["servers"]
        assert server["states"] == {"usable": 1} and "Connection refused" in server["last_failure"]["reason"], server
