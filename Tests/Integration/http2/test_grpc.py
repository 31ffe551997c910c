"""gRPC, end to end: grpcio's client and grpcio's service, and the gateway between them."""

import json
import re
import subprocess
import threading
from email.utils import parsedate_to_datetime

import grpc
import pytest

from support import http2_web_sockets
from support.challenges import ChallengeMaker
from support.client import Client, get
from support.denials import assert_denied, wait_for_count
from support.exposition import scrape
from support.gateway import APP
from support.grpc_peer import GRPCClient, GRPCService, Requests, status_of
from support.http2_client import HTTP2Client
from support.paths import BINARY, ENVIRONMENT, PATIENCE
from support.phone import HardwareKey, Phone
from support.pki import attestgate
from support.platforms import APPS, PLATFORMS
from support.services import Services
from support.waiting import eventually

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


def test_messages_alternate_within_one_call(start, transport):
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

def test_messages_arrive_while_both_sides_pause(start, transport):
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


def test_a_cancelled_call_ends_at_the_service(start, transport):
    service, gateway, client = start(transport)
    feed = client.down("Feed", b"x", timeout=LATE)
    next(feed)
    feed.cancel()
    eventually(lambda: "Feed" in service.cancelled, "the service to hear of it")
    # The connection to the service stays open.
    assert client.unary("Echo", b"after") == b"after"
    assert scrape(gateway)("attestgate_upstream_connections", upstream="records", state="idle") == 1


def test_a_lost_clients_calls_end_at_the_service(start, transport, pki, phone):
    service, gateway, _ = start(transport)
    lost = GRPCClient(gateway.port, pki, phone)
    feeds = [lost.down("Feed", b"x", timeout=LATE) for _ in range(3)]
    for feed in feeds:
        next(feed)
    lost.channel.close()
    eventually(lambda: service.cancelled.count("Feed") == 3, "the service to hear of all of them")


def test_a_deadline_reaches_the_service_and_is_kept_by_the_client(start, transport):
    service, _, client = start(transport)
    # Long enough for whatever machine this is: the service must have been called before the deadline.
    for seconds in (0.5, 4, 15):
        code, _, _ = status_of(lambda: client.unary("Hang", timeout=seconds))
        assert code == Code.DEADLINE_EXCEEDED
        if any(name == "Hang" for name, _ in service.said):
            break
    # From `grpc-timeout`, or by the client's reset, whichever comes first.
    eventually(lambda: "Hang" in service.cancelled, "the service to hear of it")


# What the service says.

def test_an_error_status_has_its_details(start, transport):
    _, gateway, client = start(transport)
    code, details, trailing = status_of(lambda: client.unary("Fail"))
    assert (code, details) == (Code.FAILED_PRECONDITION, "not so: ä %")
    assert trailing["x-reason-bin"] == b"\x00\xff"
    # It is an answer like any other: no proxy is to blame for what is in trailers.
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
    # A call that ends before the service has begun with it ends unseen there.
    eventually(lambda: [name for name, _ in service.said].count("Hang") == 10, "the service to begin with all of them")
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
    """Two servers, each stopped in order and started again while calls are made."""
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

def challenge_in(metadata):
    form = r'attest=\(.+\);created;nonce="([A-Za-z0-9_-]{78})"(?:;alg="ecdsa-p256-sha256")?;tag="attestgate-request"'
    return re.fullmatch(form, metadata["accept-signature"])[1]


class Denied:
    """What a gRPC client sees of a call that the gateway refuses: all of it metadata, which this asserts of every denial."""

    def __init__(self, gateway, call, code, status, grpc_code):
        self.code, self.message, self.metadata = status_of(call)
        assert self.code == grpc_code, self.message
        assert self.metadata["attest-denial"] == code
        said, trace = re.fullmatch(rf"{code}: (.+\.) Trace: ([0-9a-f]{{32}})", self.message).groups()
        assert said[0].isupper()
        assert self.metadata["cache-control"] == "no-store" and self.metadata["date"].endswith(" GMT")
        # To everybody else it is the same denial as ever.
        self.entry = gateway.logged(trace_id=trace)
        assert (self.entry["denial"], self.entry["status"], self.entry["protocol"]) == (code, status, "HTTP/2")
        assert self.entry["response_bytes"] == 0
        wait_for_count(gateway, 1, "attestgate_denials_total", code=code)
        assert ("accept-signature" in self.metadata) == (status == 401)
        assert ("www-authenticate" in self.metadata) == (status == 401)

    @property
    def challenge(self):
        return challenge_in(self.metadata)


def test_an_unknown_device_is_unauthenticated_and_an_unknown_route_unimplemented(start, transport):
    service, gateway, client = start(
        transport, routes=[{"name": "records", "host": "localhost", "path": "/test.Records", "require": "device"}])
    Denied(gateway, lambda: client.unary("Echo"), "device_unknown", 401, Code.UNAUTHENTICATED)
    # With content that is larger than any window: nobody waits for the rest of it.
    Denied(gateway, lambda: client.unary("Echo", bytes(1 << 20)), "device_unknown", 401, Code.UNAUTHENTICATED)
    Denied(gateway, lambda: client.unary("/nowhere.Records/Echo"), "route_unknown", 404, Code.UNIMPLEMENTED)
    assert service.said == []


def test_streams_are_refused_as_calls_are(start):
    _, gateway, client = start(
        routes=[{"name": "records", "host": "localhost", "path": "/test.Records", "require": "device"}])
    requests = Requests()
    requests.send(b"first")
    for call in [
            lambda: client.down("Down", b"1 1"), lambda: client.up("Up", iter([b"x"] * 10)),
            lambda: client.both("Both", requests)]:
        Denied(gateway, call, "device_unknown", 401, Code.UNAUTHENTICATED)
    requests.end()


def test_an_unreachable_service_is_unavailable(start, transport):
    service, gateway, client = start(transport)
    service.stop().wait()
    Denied(gateway, lambda: client.unary("Echo"), "upstream_unavailable", 502, Code.UNAVAILABLE)


def test_a_client_above_its_rate_learns_how_long_to_wait(start):
    # One more comes so late that no test waits for it.
    service, gateway, client = start(limits={"rate_per_source": "1/m burst 1"})
    assert client.unary("Echo", b"first") == b"first"
    denied = Denied(gateway, lambda: client.unary("Echo"), "rate_limited", 429, Code.UNAVAILABLE)
    assert 1 <= int(denied.metadata["retry-after"]) <= 60 and denied.metadata["ratelimit"].startswith('"source";r=0')
    assert len(service.said) == 1


def test_content_beyond_the_routes_limit_has_a_code_of_its_own(start):
    """gRPC would make UNKNOWN of 413. Its length was not known before it came."""
    _, gateway, client = start(routes=[{"name": "all", "host": "localhost", "path": "/", "content_limit": 1000}])
    Denied(gateway, lambda: client.unary("Echo", bytes(2000)), "too_large", 413, Code.RESOURCE_EXHAUSTED)


def test_a_call_with_a_response_is_cut_off_without_a_denial(start):
    """A call with a response gets no denial: the stream ends, and the client keeps what it received."""
    service, gateway, client = start(routes=[{"name": "all", "host": "localhost", "path": "/", "content_limit": 1000}])
    requests = Requests()
    answers = client.both("Both", requests)
    requests.send(b"first")
    assert next(answers) == b"tsrif"
    requests.send(bytes(2000))
    code, _, metadata = status_of(lambda: answers)
    requests.end()
    assert code == Code.INTERNAL and "attest-denial" not in metadata
    gateway.logged(denial="too_large", status=200)


class Liar(GRPCService):
    """Says what is the gateway's to say, in its head and in its trailers."""

    LIES = (("attest-denial", "device_revoked"), ("accept-signature", "attest=()"))

    def echo(self, request, context):
        context.send_initial_metadata(self.LIES)
        context.set_trailing_metadata((*self.LIES, ("x-trailing", "last")))
        return request

    def fail(self, request, context):
        """As Trailers-Only."""
        context.set_trailing_metadata(self.LIES)
        context.abort(Code.UNAUTHENTICATED, "device_revoked: not the gateway's word")


def test_a_service_cannot_imitate_a_denial(start):
    service = Liar()
    try:
        _, _, client = start(service=service)
        content, call = client.call("Echo", b"hello")
        said = dict(call.initial_metadata()), dict(call.trailing_metadata())
        assert content == b"hello" and said[1]["x-trailing"] == "last"
        code, _, trailing = status_of(lambda: client.unary("Fail"))
        assert code == Code.UNAUTHENTICATED
        for metadata in [*said, trailing]:
            assert "attest-denial" not in metadata and "accept-signature" not in metadata
    finally:
        service.stop()


# What others see of it.

@pytest.fixture
def strangers(start_gateway, own_upstream, pki):
    """A gateway that knows none of the devices that come."""
    return start_gateway(
        {"service": own_upstream.address}, [{"name": "all", "host": "localhost", "path": "/", "require": "device"}])


def call_head(content_type):
    return [("content-type", content_type), ("te", "trailers")]


@pytest.mark.parametrize("content_type", ["application/grpc", "application/grpc+proto", "Application/gRPC;a=b"])
def test_a_refused_call_is_one_head_that_ends_its_stream_with_the_denials_status(strangers, phone, content_type):
    with HTTP2Client(strangers, phone) as client:
        number = client.start("POST", "/test.Records/Echo", call_head(content_type), end=False)
        response = client.response(number)
        assert (response.status, response.content) == (401, b"")
        fields = dict(response.fields)
        assert fields["content-type"] == "application/grpc" and fields["grpc-status"] == "16"
        assert fields["attest-denial"] == "device_unknown" and fields["grpc-message"].startswith("device_unknown: The key")
        assert response.value("accept-signature") and response.value("www-authenticate") == 'Signature realm="attestgate"'
        assert client.streams[number].is_ended_by_head


@pytest.mark.parametrize("content_type", ["application/grpc-web", "application/grpc-web+proto", "application/grpcx", "application/json"])
def test_other_clients_get_json_denials(strangers, phone, content_type):
    with HTTP2Client(strangers, phone) as client:
        response = client.response(client.start("POST", "/", call_head(content_type)))
        assert_denied(strangers, response, "device_unknown", 401)
        assert not [name for name, _ in response.fields if name.startswith("grpc-") or name == "attest-denial"]


def test_a_websocket_is_no_grpc_call_whatever_its_content_type(start_gateway, own_upstream, phone):
    gateway = start_gateway({"service": own_upstream.address}, [
        {"name": "all", "host": "localhost", "path": "/"},
        {"name": "chat", "host": "localhost", "path": "/chat", "websocket": "allowed"}])
    with HTTP2Client(gateway, phone) as client:
        response = client.response(http2_web_sockets.connect(client, fields=call_head("application/grpc")))
        assert_denied(gateway, response, "method_refused", 405)


def test_requests_over_http11_are_not_grpc(strangers, phone):
    with Client(strangers, phone) as client:
        response = client.exchange(get("/", "Content-Type: application/grpc", method="POST"))
        assert_denied(strangers, response, "device_unknown", 401)
        assert response.values("grpc-status") == response.values("attest-denial") == []


def test_a_malformed_head_is_answered_as_any_other(strangers, phone):
    with HTTP2Client(strangers, phone) as client:
        response = client.response(client.start("POST", "/a//b", call_head("application/grpc")))
        assert_denied(strangers, response, "request_malformed", 400)


def test_curl_sees_status_and_fields(strangers, phone, pki):
    done = subprocess.run(
        ["curl", "-sS", "-i", "--http2", "--cacert", pki.server_ca, "--cert", phone.certificate, "--key", phone.key,
         # Without content: curl takes the reset that tells it to send no more of it (RFC 9113 section 8.1) for a failure.
         "-H", "Content-Type: application/grpc", "-H", "te: trailers", "-X", "POST",
         f"https://localhost:{strangers.port}/test.Records/Echo"],
        capture_output=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.decode().splitlines()
    assert lines[0].startswith("HTTP/2 401") and "grpc-status: 16" in lines and "attest-denial: device_unknown" in lines
    assert lines[-1] == "" and [line for line in lines if line.startswith("accept-signature: attest=(")]


# Proofs.

@pytest.fixture(params=PLATFORMS)
def proven(start, pki, transport, request):
    app = APPS[request.param]
    service, gateway, _ = start(
        transport, apps=[{"id": app, "environment": "simulator", "counter": "strict"}], routes=[
            {"name": "proven", "host": "localhost", "path": "/", "require": "request-proof", "content_limit": "8MiB"},
            {"name": "streams", "host": "localhost", "path": "/test.Records/Both", "require": "device"}])
    return service, gateway, Phone(gateway, pki.phone(f"grpc-{gateway.port}"), app)


def proof_of(phone, name, message, **change):
    """The metadata that proves a unary call: over the gRPC frame, which is the content."""
    frame = b"\0" + len(message).to_bytes(4, "big") + message
    fields = phone.proof(
        "POST", f"/test.Records/{name}", authority=f"localhost:{phone.gateway.port}", content=frame,
        fields=[("Content-Type", "application/grpc")], **change)
    return [(name.lower(), value) for name, value in fields]


@pytest.fixture
def attempt(proven, pki):
    """Calls Echo with a proof bent by `change`."""
    _, gateway, phone = proven
    with GRPCClient(gateway.port, pki, phone.identity) as client:
        yield lambda **change: client.unary("Echo", b"hello", metadata=proof_of(phone, "Echo", b"hello", **change))


def test_a_client_without_a_challenge_takes_it_from_the_metadata(proven, pki):
    service, gateway, phone = proven
    with GRPCClient(gateway.port, pki, phone.identity) as client:
        denied = Denied(gateway, lambda: client.unary("Echo", b"hello"), "proof_required", 401, Code.UNAUTHENTICATED)
        # The message's own fields are among what is asked for.
        assert '"content-digest"' in denied.metadata["accept-signature"] and '"content-type"' in denied.metadata["accept-signature"]
        metadata = proof_of(phone, "Echo", b"hello", nonce=denied.challenge)
        assert client.unary("Echo", b"hello", metadata=metadata) == b"hello"
        # The very same once more, as a library does that retries by itself.
        denied = Denied(
            gateway, lambda: client.unary("Echo", b"hello", metadata=metadata), "counter_replayed", 401, Code.UNAUTHENTICATED)
        assert client.unary("Echo", b"hello", metadata=proof_of(phone, "Echo", b"hello", nonce=denied.challenge)) == b"hello"
    assert len(service.said) == 2


@pytest.mark.parametrize("code, change", [
    ("challenge_required", {"nonce": "A" * 78}),
    ("proof_stale", {"created": 1_700_000_000}),
    ("counter_late", {"counter": 1}),
    ("proof_invalid", {"key": HardwareKey()}),
    ("proof_malformed", {"label": "attest", "extra": ";alg=\"none\""}),
])
def test_a_refused_proof_says_why_and_the_next_one_passes(proven, attempt, code, change):
    """All are UNAUTHENTICATED; the code says what the client must do."""
    service, gateway, phone = proven
    for _ in range(2):
        # Then 1 is behind, and was never used.
        phone.counter += 1
        assert attempt() == b"hello"
    denied = Denied(gateway, lambda: attempt(**change), code, 401, Code.UNAUTHENTICATED)
    assert attempt(nonce=denied.challenge) == b"hello"
    assert len(service.said) == 3


def test_a_component_that_is_not_covered_is_named(proven, attempt):
    _, gateway, _ = proven
    denied = Denied(
        gateway, lambda: attempt(covered=["@method", "@authority", "@path", "@query", "content-digest"]),
        "proof_incomplete", 401, Code.UNAUTHENTICATED)
    assert " Missing: content-type. " in denied.message


def test_the_next_challenge_is_metadata_of_an_answer(proven, pki):
    service, gateway, phone = proven
    aged = ChallengeMaker(gateway)
    with GRPCClient(gateway.port, pki, phone.identity) as client:
        metadata = proof_of(phone, "Echo", b"hello", nonce=aged.make(age=200))
        content, call = client.call("Echo", b"hello", metadata=metadata)
        assert content == b"hello"
        assert "accept-signature" not in dict(call.trailing_metadata())
        challenge = challenge_in(dict(call.initial_metadata()))
        # The service's own error brings it as well.
        frame = proof_of(phone, "Fail", b"", nonce=aged.make(age=200))
        code, _, trailing = status_of(lambda: client.unary("Fail", b"", metadata=frame))
        assert code == Code.FAILED_PRECONDITION and "attest-denial" not in trailing and challenge_in(trailing)
        assert client.unary("Echo", b"hello", metadata=proof_of(phone, "Echo", b"hello", nonce=challenge)) == b"hello"


RETRIES = [("grpc.enable_retries", 1), ("grpc.service_config", json.dumps({"methodConfig": [{
    "name": [{}], "retryPolicy": {
        "maxAttempts": 3, "initialBackoff": "0.01s", "maxBackoff": "0.02s", "backoffMultiplier": 1,
        "retryableStatusCodes": ["UNAVAILABLE"]}}]}))]


def test_grpc_libraries_do_not_resend_a_proven_call_and_may_resend_others(proven, pki):
    """Otherwise the second answer, `counter_replayed`, would hide the result of the call."""
    service, gateway, phone = proven
    service.stop().wait()
    with GRPCClient(gateway.port, pki, phone.identity, options=RETRIES) as client:
        metadata = proof_of(phone, "Echo", b"hello")
        Denied(gateway, lambda: client.unary("Echo", b"hello", metadata=metadata), "upstream_unavailable", 502, Code.UNAVAILABLE)
        assert status_of(lambda: client.unary("Both", b""))[0] == Code.UNAVAILABLE

    def attempts(route):
        return len([line for line in gateway.access() if line["event"] == "request" and line.get("route") == route])
    eventually(lambda: attempts("streams") == 3, "all attempts of the other call to be logged")
    assert attempts("proven") == 1


def test_a_clock_that_is_wrong_can_be_set_by_the_metadata(proven, attempt):
    _, gateway, _ = proven
    denied = Denied(gateway, lambda: attempt(created=1), "proof_stale", 401, Code.UNAUTHENTICATED)
    date = int(parsedate_to_datetime(denied.metadata["date"]).timestamp())
    assert attempt(created=date, nonce=denied.challenge) == b"hello"


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
            Denied(
                gateway, lambda: client.unary("Echo", message, metadata=metadata), "counter_replayed", 401, Code.UNAUTHENTICATED)
            assert len(service.said) == before


def test_a_call_that_differs_from_its_proof_reaches_no_service(proven, pki):
    service, gateway, phone = proven
    with GRPCClient(gateway.port, pki, phone.identity) as client:
        metadata = proof_of(phone, "Echo", b"content")
        Denied(
            gateway, lambda: client.unary("Echo", b"other", metadata=metadata), "body_digest_mismatch", 400, Code.INTERNAL)
        assert service.said == []


def test_a_bidirectional_call_needs_a_route_without_request_proofs(proven, pki):
    """Its content arrives after its head, so no proof can cover it."""
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

def test_a_streaming_client_may_pause_as_long_as_its_route_permits(start, transport):
    """It may also send little: elsewhere `content_rate` would end it."""
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


# The software phone.

FRAME = b"\0\0\0\0\1x"


@pytest.fixture
def software_phone(start, pki, tmp_path):
    """attestgate-device, registered with a gateway in front of a service of gRPC, as docs/device-tool.md has it."""
    service, gateway, _ = start(routes=[{"name": "all", "host": "localhost", "path": "/", "require": "request-proof"}])
    directory, frame = tmp_path / "device", tmp_path / "frame"
    frame.write_bytes(FRAME)
    tool = BINARY.with_name("attestgate-device")

    def run(*arguments):
        return subprocess.run([tool, *map(str, arguments)], capture_output=True, timeout=PATIENCE, env=ENVIRONMENT)
    done = run("create", "--directory", directory, "--app-id", APP, "--json")
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)
    issued = attestgate(
        "pki", "issue", "--directory", pki.directory, "--certificate-key", made["certificate_key"], "--out", made["certificate"])
    assert issued.returncode == 0, issued.stderr
    gateway.device_command("add", "--app-id", APP, "--public-key", made["public_key"], "--certificate-key", made["certificate"])

    def call(*arguments, content=("-d", f"@{frame}")):
        return run(
            "request", "--directory", directory, "--cacert", pki.server_ca, "--http2", "-v", *content,
            "-H", "Content-Type: application/grpc", "-H", "te: trailers", *arguments,
            f"https://localhost:{gateway.port}/test.Records/Echo")
    return service, gateway, call


def test_the_software_phone_calls_a_service_and_shows_what_is_refused(software_phone):
    service, _, call = software_phone
    done = call()
    assert (done.returncode, done.stdout) == (0, FRAME), done.stderr
    assert b"grpc-status: 0" in done.stderr
    done = call("--replay")
    assert b"first: 200\n" in done.stderr and b"replay: 401 counter_replayed\n" in done.stderr
    # Without content: libcurl takes the reset that tells it to send no more of it (RFC 9113 section 8.1) for a failure.
    done = call("--no-proof", content=("-X", "POST"))
    assert done.stdout == b"" and b"grpc-status: 16" in done.stderr and b"attest-denial: proof_required" in done.stderr
    assert len(service.said) == 2


def test_the_software_phone_takes_the_next_challenge_from_a_refused_call(software_phone):
    service, gateway, call = software_phone
    assert call().returncode == 0
    # The challenge that is kept is of another epoch now.
    gateway.halt()
    gateway.start()
    done = call()
    assert (done.returncode, done.stdout) == (0, FRAME), done.stderr
    assert b"refused as challenge_required" in done.stderr and len(service.said) == 2
