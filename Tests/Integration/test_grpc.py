"""gRPC, end to end: grpcio's client and grpcio's service, and the gateway between them."""

import threading

import grpc
import pytest

from exposition import scrape
from grpc_peer import GRPCClient, GRPCService, Requests, status_of
from paths import PATIENCE
from phone import Phone
from services import Services
from waiting import eventually

Code = grpc.StatusCode
# A deadline that no service comes to within a test: what ends such a call is not that.
LATE = 10 * PATIENCE
BOTH = ["h2c", "tls"]


@pytest.fixture(scope="module")
def services(pki):
    return Services(pki)


@pytest.fixture(params=BOTH)
def transport(request):
    return request.param


@pytest.fixture
def serve(services):
    """Starts gRPC services of a test's own."""
    started = []

    def start(transport="h2c", **options):
        service = GRPCService(services.ordinary if transport == "tls" else None, **options)
        started.append(service)
        return service
    yield start
    for service in started:
        service.stop()


def upstream(services, service, transport, **settings):
    settings = {"protocol": "h2", **settings}
    if transport == "tls":
        return services.settings(service.address, **settings)
    return {"servers": [service.address], **settings}


@pytest.fixture
def start(services, serve, start_gateway, pki, phone):
    """A service, a gateway in front of it and a client of that."""
    clients = []

    def start(transport="h2c", routes=None, upstream_settings=None, service=None, **settings):
        service = service or serve(transport)
        gateway = start_gateway(
            {"records": upstream(services, service, transport, **(upstream_settings or {}))},
            routes or [{"name": "all", "host": "localhost", "path": "/", "content_limit": "64MiB"}], **settings)
        client = GRPCClient(gateway.port, pki, phone)
        clients.append(client)
        return service, gateway, client
    yield start
    for client in clients:
        client.channel.close()


# The four kinds of calls.

def test_a_call_is_answered_with_its_metadata_and_trailers(start, transport):
    service, gateway, client = start(transport)
    metadata = (("x-text", "plain"), ("x-octets-bin", bytes(range(256))), ("x-text", "twice"))
    content, call = client.call("Echo", b"hello", metadata=metadata)
    assert content == b"hello"
    assert dict(call.initial_metadata())["x-initial-bin"] == bytes(range(256))
    assert dict(call.initial_metadata())["x-initial"] == "first"
    assert dict(call.trailing_metadata())["x-trailing"] == "last"
    assert dict(call.trailing_metadata())["x-trailing-bin"] == bytes(range(255, -1, -1))
    got = service.metadata("Echo")
    assert got["x-text"] == ["plain", "twice"] and got["x-octets-bin"] == [bytes(range(256))]
    assert got["forwarded"][0].startswith("for=127.0.0.1;proto=https")
    line = gateway.logged(protocol="HTTP/2", status=200)
    assert (line["decision"], line["method"], line["server"]) == ("forwarded", "POST", service.address)


def test_a_message_of_no_octets_is_one(start, transport):
    _, _, client = start(transport)
    assert client.unary("Echo", b"") == b""


def test_a_service_streams_to_its_client(start, transport):
    _, _, client = start(transport)
    got = list(client.down("Down", b"500 1000"))
    assert [int.from_bytes(message[:4], "big") for message in got] == list(range(500))
    assert all(len(message) == 1004 for message in got)


def test_a_client_streams_to_its_service(start, transport):
    _, _, client = start(transport)
    assert client.up("Up", iter([bytes(1000)] * 500)) == b"500 500000"


def test_both_speak_in_turn_on_one_call(start, transport):
    """Each message is answered before the next one is sent: nothing waits for the end, or for a block to be full."""
    _, _, client = start(transport)
    requests = Requests()
    answers = client.both("Both", requests)
    for number in range(100):
        requests.send(f"ping {number}".encode())
        assert next(answers) == f"ping {number}".encode()[::-1]
    requests.end()
    assert list(answers) == [] and answers.code() == Code.OK


def test_a_service_may_speak_first(start, transport):
    """On a new connection, and on those that are there already."""
    service, gateway, client = start(transport)
    for _ in range(4):
        requests = Requests()
        call = client.both("Greet", requests, timeout=PATIENCE)
        assert next(call) == b"welcome"
        requests.end()
        assert list(call) == []


@pytest.mark.parametrize("size", [4 << 20, 20 << 20])
def test_large_messages_go_both_ways(start, transport, size):
    _, _, client = start(transport)
    message = bytes(range(256)) * (size // 256)
    assert client.unary("Echo", message) == message
    assert client.up("Up", iter([message] * 2)) == f"2 {2 * size}".encode()


# Who says when.

def test_what_was_said_arrives_while_both_pause(start, transport):
    """A message waits for no other, either way."""
    service, _, client = start(transport)
    feed = client.down("Feed", b"x")
    assert next(feed)[:4] == bytes(4)
    service.gate.clear()
    requests = Requests()
    answers = client.both("Both", requests)
    requests.send(b"first")
    assert next(answers) == b"tsrif"
    service.gate.set()
    seen = [int.from_bytes(next(feed)[:4], "big") for _ in range(20)]
    assert seen == list(range(seen[0], seen[0] + 20))
    feed.cancel()
    requests.end()
    assert list(answers) == []


def test_a_call_that_its_client_gives_up_ends_at_the_service(start, transport):
    service, gateway, client = start(transport)
    feed = client.down("Feed", b"x", timeout=LATE)
    next(feed)
    feed.cancel()
    eventually(lambda: "Feed" in service.cancelled, "the service to hear of it")
    # The connection to the service goes on.
    assert client.unary("Echo", b"after") == b"after"
    assert scrape(gateway)("attestgate_upstream_connections", upstream="records", state="idle") == 1


def test_a_client_that_is_lost_ends_its_calls_at_the_service(start, transport, pki, phone):
    service, gateway, _ = start(transport)
    lost = GRPCClient(gateway.port, pki, phone)
    feeds = [lost.down("Feed", b"x", timeout=LATE) for _ in range(3)]
    for feed in feeds:
        next(feed)
    lost.channel.close()
    eventually(lambda: service.cancelled.count("Feed") == 3, "the service to hear of all of them")


def test_a_deadline_is_the_services_to_know_and_the_clients_to_keep(start, transport):
    service, _, client = start(transport)
    code, _, _ = status_of(lambda: client.unary("Hang", timeout=0.5))
    assert code == Code.DEADLINE_EXCEEDED
    # From `grpc-timeout`, or by the client's reset, whichever comes first.
    eventually(lambda: "Hang" in service.cancelled, "the service to hear of it")


# What the service says.

def test_an_error_status_has_its_details(start, transport):
    _, gateway, client = start(transport)
    code, details, trailing = status_of(lambda: client.unary("Fail"))
    assert (code, details) == (Code.FAILED_PRECONDITION, "not so: ä %")
    assert trailing["x-reason-bin"] == b"\x00\xff"
    # It is an answer like any other: what is in trailers is nobody's fault on the way.
    assert gateway.logged(status=200, route="all")["decision"] == "forwarded"


def test_an_unknown_method_is_the_services_answer(start, transport):
    _, _, client = start(transport)
    assert status_of(lambda: client.unary("NoSuch"))[0] == Code.UNIMPLEMENTED


def test_a_service_may_end_a_call_before_its_client_has(start, transport):
    _, _, client = start(transport)
    requests = Requests()
    requests.send(b"first")
    code, details, _ = status_of(lambda: client.both("Refuse", requests))
    requests.end()
    assert (code, details) == (Code.RESOURCE_EXHAUSTED, "enough")


# Many at once.

def test_a_hundred_calls_share_one_connection(start, transport):
    service, gateway, client = start(transport)
    hanging = [client.future("Hang", timeout=LATE) for _ in range(10)]
    calls = [client.future("Echo", bytes([number]) * 1000) for number in range(100)]
    for number, call in enumerate(calls):
        assert call.result() == bytes([number]) * 1000
    metrics = scrape(gateway)
    assert metrics("attestgate_upstream_connections", upstream="records", state="busy") <= 2
    for call in hanging:
        call.cancel()
    eventually(lambda: service.cancelled.count("Hang") == 10, "the service to hear of all of them")


def test_a_service_that_admits_few_streams_gets_no_more(start, serve, transport):
    service = serve(transport, options=[("grpc.max_concurrent_streams", 3)])
    _, gateway, client = start(transport, service=service, upstream_settings={"connections": 2, "idle_connections": 2})
    calls = [client.future("Echo", bytes([number])) for number in range(100)]
    assert [call.result() for call in calls] == [bytes([number]) for number in range(100)]
    metrics = scrape(gateway)
    assert sum(
        metrics("attestgate_upstream_connections", upstream="records", state=state) for state in ["busy", "idle"]) <= 2
    assert all(not metrics("attestgate_upstream_failures_total", **labels) for labels in metrics.labels("attestgate_upstream_failures_total"))


def test_one_slow_client_holds_up_no_other(start, transport):
    _, _, client = start(transport)
    # Nobody reads it: windows fill, all the way to the service.
    stuck = client.down("Down", b"100 1000000")
    next(stuck)
    for number in range(20):
        assert client.unary("Echo", bytes(100_000)) == bytes(100_000)
    assert sum(len(message) for message in stuck) == 99 * 1000004


# Services that come and go.

def test_a_service_that_ages_its_connections_loses_no_call(start, serve, transport):
    """`max_connection_age`: GOAWAY again and again, while calls are made."""
    service = serve(
        transport, options=[("grpc.max_connection_age_ms", 200), ("grpc.max_connection_age_grace_ms", 10_000)])
    _, gateway, client = start(transport, service=service)
    for round in range(15):
        calls = [client.future("Echo", bytes([number]) * 2000) for number in range(40)]
        for number, call in enumerate(calls):
            assert call.result() == bytes([number]) * 2000, f"round {round}"
        threading.Event().wait(0.05)
    assert gateway.errors.count("error") == 0


def test_a_service_is_replaced_under_load_and_no_call_fails(start, serve, services, start_gateway, pki, phone, transport):
    """Two servers, each stopped in order and started anew while calls are made."""
    running = [serve(transport), serve(transport)]
    settings = services.settings(*(s.address for s in running)) if transport == "tls" else {
        "servers": [s.address for s in running]}
    gateway = start_gateway(
        {"records": {**settings, "protocol": "h2"}}, [{"name": "all", "host": "localhost", "path": "/"}])
    stop, failed, made = threading.Event(), [], []

    def load():
        with GRPCClient(gateway.port, pki, phone) as client:
            while not stop.is_set():
                calls = [client.future("Echo", bytes([number]) * 3000) for number in range(20)]
                for number, call in enumerate(calls):
                    code, details, _ = status_of(lambda: call)
                    made.append(code)
                    # grpcio's own service cancels calls that come between its shutdown and its GOAWAY: that is its answer.
                    if (code, details) not in [(Code.OK, ""), (Code.CANCELLED, "CANCELLED")]:
                        failed.append((code, details))
    threads = [threading.Thread(target=load) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for place in [0, 1, 0]:
            before = len(made)
            eventually(lambda: len(made) > before + 100, "calls to be made")
            port = running[place].port
            running[place].stop(grace=PATIENCE).wait()
            running[place] = serve(transport, port=port)
    finally:
        stop.set()
        for thread in threads:
            thread.join(PATIENCE)
    assert failed == [] and len(made) > 300
    assert made.count(Code.OK) > 0.8 * len(made)
    # A server that is not there for a moment may well be ejected: that is another kind of line.
    requests = [line for line in gateway.access() if line["event"] == "request"]
    assert [line for line in requests if line.get("status") != 200 or "denial" in line] == []


# What the gateway says.

def test_denials_are_status_codes(start, transport, pki):
    """grpcio makes them of the HTTP status (gRPC's http-grpc-status-mapping)."""
    service, gateway, client = start(
        transport, routes=[
            {"name": "records", "host": "localhost", "path": "/test.Records", "require": "device"},
            {"name": "proven", "host": "localhost", "path": "/proven.Records", "require": "request-proof"}])
    code, details, _ = status_of(lambda: client.unary("Echo"))
    assert code == Code.UNAUTHENTICATED and "401" in details
    assert status_of(lambda: client.unary("/nowhere.Records/Echo"))[0] == Code.UNIMPLEMENTED
    gateway.logged(denial="device_unknown", status=401)
    assert service.said == []


def test_a_service_that_is_not_there_is_unavailable(start, transport):
    service, gateway, client = start(transport)
    service.stop().wait()
    code, details, _ = status_of(lambda: client.unary("Echo"))
    assert code == Code.UNAVAILABLE and "502" in details
    gateway.logged(denial="upstream_unavailable", status=502)


# Proofs.

@pytest.fixture
def proven(start, pki, transport):
    service, gateway, _ = start(
        transport, routes=[
            {"name": "proven", "host": "localhost", "path": "/", "require": "request-proof", "content_limit": "8MiB"},
            {"name": "streams", "host": "localhost", "path": "/test.Records/Both", "require": "device"}])
    return service, gateway, Phone(gateway, pki.phone(f"grpc-{gateway.port}"))


def proof_of(phone, name, message):
    """The metadata that proves a unary call: over the gRPC frame, which is the content."""
    frame = b"\0" + len(message).to_bytes(4, "big") + message
    fields = phone.proof(
        "POST", f"/test.Records/{name}", authority=f"localhost:{phone.gateway.port}", content=frame,
        fields=[("Content-Type", "application/grpc")])
    return [(name.lower(), value) for name, value in fields]


def test_a_proven_call_reaches_the_service_once(proven, pki):
    service, gateway, phone = proven
    with GRPCClient(gateway.port, pki, phone.identity) as client:
        for size in [0, 10, 1 << 20]:
            message = bytes(size)
            metadata = proof_of(phone, "Echo", message)
            assert client.unary("Echo", message, metadata=metadata) == message
            got = service.metadata("Echo")
            assert got["attest-counter"] == [str(phone.counter)] and "signature" not in got
            before = len(service.said)
            code, details, _ = status_of(lambda: client.unary("Echo", message, metadata=metadata))
            assert (code, len(service.said)) == (Code.UNAUTHENTICATED, before), details
        gateway.logged(denial="counter_replayed")


def test_a_call_that_is_not_what_was_proven_reaches_no_service(proven, pki):
    service, gateway, phone = proven
    with GRPCClient(gateway.port, pki, phone.identity) as client:
        assert status_of(lambda: client.unary("Echo", b"other", metadata=proof_of(phone, "Echo", b"content")))[0] != Code.OK
        gateway.logged(denial="body_digest_mismatch")
        assert status_of(lambda: client.unary("Echo", b"none"))[0] == Code.UNAUTHENTICATED
        assert service.said == []


def test_a_call_both_ways_is_for_a_route_that_asks_for_the_device_alone(proven, pki):
    """Its content is not there when its head is: no proof can cover it."""
    service, gateway, phone = proven
    with GRPCClient(gateway.port, pki, phone.identity) as client:
        requests = Requests()
        answers = client.both("Both", requests)
        for number in range(10):
            requests.send(b"%d!" % number)
            assert next(answers) == b"!%d" % number
        requests.end()
        assert list(answers) == []
        assert len(service.metadata("Both")["attest-device"]) == 1


# Time.

def test_a_client_that_streams_may_pause_for_as_long_as_its_route_says(start, transport):
    """And what it says meanwhile need not be much: `content_rate` would have ended it."""
    _, gateway, client = start(
        transport, routes=[
            {"name": "patient", "host": "localhost", "path": "/test.Records/Both", "content_idle": "10m"},
            {"name": "all", "host": "localhost", "path": "/"}],
        timeouts={"content_idle": "300ms", "content_rate": "1MiB/s"})
    patient, hurried = Requests(), Requests()
    answers = client.both("Both", patient)
    counted = client.future_up("Up", hurried)
    patient.send(b"first")
    assert next(answers) == b"tsrif"
    hurried.send(b"first")
    # Cut off, since it says nothing more; the other one says as little.
    assert status_of(lambda: counted)[0] != Code.OK
    gateway.logged(denial="request_timeout", route="all")
    patient.send(b"second")
    assert next(answers) == b"dnoces"
    patient.end()
    hurried.end()
    assert list(answers) == []
