"""Services that speak HTTP/2, well and badly: what their clients see, what metrics and log say, and that nobody else has to suffer."""

import socket
import subprocess
import threading
from collections import Counter
from dataclasses import dataclass
from typing import Callable, Optional

import pytest

from support.attested import Attested
from support.client import Client, get, post
from support.denials import assert_denied
from support.exposition import scrape
from support.http2_client import HTTP2Client, StreamReset
from support.http2_service import (
    CANCEL, CONTINUATION, DATA, END_HEADERS, GOAWAY, HEADERS, HTTP2Service, INTERNAL_ERROR, OK, PADDED, PING, PUSH_PROMISE,
    REFUSED_STREAM, SETTINGS, WINDOW_UPDATE, Connection, Gone, frame, serve_well, settings)
from support.paths import PATIENCE
from support.ports import uncommon_port
from support.services import Services
from support.waiting import at_some_pace, eventually

ROUTES = [{"name": "all", "host": "localhost", "path": "/", "content_limit": "64MiB"}]
# Where nothing is expected of the service but a connection; and where not even that.
IMPATIENT = {"response_timeout": "500ms", "content_timeout": "500ms"}
QUICK = {**IMPATIENT, "connect_timeout": "500ms"}


@pytest.fixture
def serve():
    started = []

    def start(*arguments, **options):
        started.append(HTTP2Service(*arguments, **options))
        return started[-1]
    yield start
    for service in started:
        service.close()


def behind(start_gateway, *services, routes=ROUTES, **upstream):
    return start_gateway(
        {"service": {"servers": [service.address for service in services], "protocol": "h2", **upstream}}, routes)


def failures(gateway):
    metrics = scrape(gateway)
    return Counter({
        labels["kind"]: count for labels in metrics.labels("attestgate_upstream_failures_total")
        if (count := int(metrics("attestgate_upstream_failures_total", **labels)))})


def assert_nothing_held(gateway):
    def is_free():
        metrics = scrape(gateway)
        return metrics("attestgate_upstream_requests") == 0 and metrics("attestgate_upstream_waiting") == 0 \
            and metrics("attestgate_upstream_connections", state="busy") == 0
    eventually(is_free, "all that was held to be let go of")


# MARK: what goes to the service, and what comes back

def test_a_request_arrives_in_the_form_of_rfc_9113(start_gateway, serve, phone):
    service = serve()
    gateway = behind(start_gateway, service)
    with Client(gateway, phone) as client:
        assert client.exchange(get("/a/b?c=d", "X-Mixed: Value", "TE: trailers", "Keep-Alive: 5")).content == b"ok"
        assert client.exchange(post("/up", b"content")).content == b"ok"
    read, written = service.requests
    assert read.fields[:4] == [
        (":method", "GET"), (":scheme", "http"), (":authority", "localhost"), (":path", "/a/b?c=d")]
    names = [name for name, _ in read.fields]
    assert all(name == name.lower() for name in names) and read.value("x-mixed") == "Value"
    # A client of HTTP/1.1 can be sent no trailers.
    assert not {"te", "keep-alive", "connection", "host", "transfer-encoding", "content-length"} & set(names)
    assert {"forwarded", "traceparent"} <= set(names)
    assert (written.value("content-length"), written.content) == ("7", b"content")


def test_over_tls_the_scheme_is_https(start_gateway, serve, pki, phone):
    services = Services(pki)
    context = services.context()
    context.set_alpn_protocols(["h2"])
    service = serve(tls=context)
    gateway = start_gateway({"service": services.settings(service.address, protocol="h2")}, ROUTES)
    with Client(gateway, phone) as client:
        assert client.exchange(get("/")).content == b"ok"
    assert service.requests[0].value(":scheme") == "https"


def test_trailers_are_passed_on_to_http_2_clients_only(start_gateway, serve, phone):
    def script(connection):
        connection.greet()
        while True:
            request = connection.next_request()
            connection.answer(request, b"content", [
                ("grpc-status", "0"), ("x-checksum", "abc"), ("accept-signature", "forged"), ("te", "trailers")])
    service = serve(script)
    gateway = behind(start_gateway, service)
    with HTTP2Client(gateway, phone) as client:
        response = client.get("/", ("te", "trailers"))
        assert response.content == b"content"
        assert dict(response.trailers) == {"grpc-status": "0", "x-checksum": "abc"}
    with Client(gateway, phone) as client:
        response = client.exchange(get("/"))
        assert response.content == b"content" and response.values("grpc-status") == []
    assert [request.value("te") for request in service.requests] == ["trailers", None]


def test_a_trailers_only_response_ends_with_its_head(start_gateway, serve, phone):
    def script(connection):
        connection.greet()
        while True:
            connection.headers(connection.next_request().stream, [*OK, ("grpc-status", "5")], end=True)
    gateway = behind(start_gateway, serve(script))
    with HTTP2Client(gateway, phone) as client:
        response = client.get("/")
        assert (response.status, response.value("grpc-status"), response.content) == (200, "5", b"")
    with Client(gateway, phone) as client:
        assert client.exchange(get("/")).value("content-length") == "0"


def test_requests_share_a_connection_and_are_answered_in_any_order(start_gateway, serve, phone):
    def script(connection):
        connection.greet()
        requests = [connection.next_request() for _ in range(30)]
        for request in reversed(requests):
            connection.answer(request, request.path.encode())
        connection.listen()
    service = serve(script)
    gateway = behind(start_gateway, service)
    with HTTP2Client(gateway, phone) as client:
        numbers = [client.start(path=f"/{number}") for number in range(30)]
        for place, number in enumerate(numbers):
            assert client.response(number).content == f"/{place}".encode()
    assert len(service.connections) == 1
    assert_nothing_held(gateway)


def test_no_more_streams_than_are_configured_share_a_connection(start_gateway, serve, phone):
    # A connection that has answered would get requests that wait.
    all_come = threading.Barrier(4, timeout=PATIENCE)

    def script(connection):
        connection.greet()
        requests = [connection.next_request() for _ in range(5)]
        all_come.wait()
        for request in requests:
            connection.answer(request)
        connection.listen()
    service = serve(script)
    gateway = behind(start_gateway, service, streams=5, connections=4, idle_connections=4)
    with HTTP2Client(gateway, phone) as client:
        numbers = [client.start(path=f"/{number}") for number in range(20)]
        assert [client.response(number).content for number in numbers] == [b"ok"] * 20
    assert len(service.connections) == 4


def test_a_service_that_admits_one_stream_is_asked_one_at_a_time(start_gateway, serve, phone):
    most = []

    def script(connection):
        connection.greet(streams=1)
        while True:
            request = connection.next_request()
            most.append(len([r for r in connection.order if not r.reset]) - connection.handed_out)
            connection.answer(request)
    service = serve(script)
    gateway = behind(start_gateway, service, connections=2, idle_connections=2)
    with HTTP2Client(gateway, phone) as client:
        numbers = [client.start(path=f"/{number}") for number in range(40)]
        assert [client.response(number).content for number in numbers] == [b"ok"] * 40
    assert len(service.connections) == 2 and set(most) == {0}
    assert failures(gateway) == Counter()


def test_requests_without_a_stream_wait_and_time_out(start_gateway, serve, phone):
    def attempt(seconds):
        release = threading.Event()

        def script(connection):
            connection.greet()
            first = connection.next_request()
            release.wait(2 * PATIENCE)
            connection.answer(first)
            while True:
                connection.answer(connection.next_request())
        service = serve(script)
        gateway = behind(
            start_gateway, service, streams=1, connections=1, idle_connections=1, waiting=1, waiting_timeout=f"{seconds}s",
            response_timeout="2m")
        with HTTP2Client(gateway, phone) as client:
            first = client.start(path="/first")
            eventually(lambda: service.paths() == ["/first"], "the first")
            waiting = client.start(path="/waiting")
            eventually(lambda: scrape(gateway)("attestgate_upstream_waiting") == 1, "it to wait")
            assert_denied(gateway, client.get("/refused"), "upstream_busy", 503)
            assert client.response(waiting).status == 503
            release.set()
            assert client.response(first).content == b"ok"
            assert client.get("/after").content == b"ok"
        assert failures(gateway) == {"connection_limit": 1, "waiting_timeout": 1}
        assert_nothing_held(gateway)
    at_some_pace(attempt)


@pytest.mark.parametrize("idle", [1, 0])
def test_a_service_that_admits_no_stream_is_waited_for_and_not_connected_to_again(start_gateway, serve, phone, idle):
    def script(connection):
        connection.greet(streams=0)
        connection.listen()
    service = serve(script)
    gateway = behind(start_gateway, service, idle_connections=idle, waiting_timeout="300ms", connect_timeout="1m")
    with HTTP2Client(gateway, phone) as client:
        for _ in range(3):
            assert_denied(gateway, client.get("/refused"), "upstream_busy", 503)
        assert len(service.connections) == 1 and service.requests == []
        assert failures(gateway) == {"waiting_timeout": 3}
        assert_nothing_held(gateway)


def test_a_service_that_admits_streams_again_is_asked_again(start_gateway, serve, phone):
    opened = threading.Event()

    def script(connection):
        connection.greet(streams=0)
        opened.wait(PATIENCE)
        connection.send(settings(streams=10))
        while True:
            connection.answer(connection.next_request())
    service = serve(script)
    gateway = behind(start_gateway, service, waiting_timeout="1m")
    with HTTP2Client(gateway, phone) as client:
        number = client.start(path="/")
        eventually(lambda: scrape(gateway)("attestgate_upstream_waiting") == 1, "it to wait")
        opened.set()
        assert client.response(number).content == b"ok"
    assert len(service.connections) == 1


def greeting_and(*others):
    """All in one write, so that it is read at once."""
    def script(connection):
        assert connection._exactly(24)
        connection.send(b"".join([settings(), *others]))
        if others:
            connection.listen()
    return script


NOT_ADMITTED = {
    "goes away": ([frame(GOAWAY, 0, 0, bytes(8))], "refused"),
    "breaks a rule": ([frame(DATA, 0, 0, b"x")], "http2"),
}


@pytest.mark.parametrize("how", NOT_ADMITTED)
def test_a_service_that_sends_settings_but_accepts_no_request_has_failed(start_gateway, serve, phone, how):
    """Like one that refuses connections: each is tried once, and the failure counts."""
    said, kind = NOT_ADMITTED[how]
    bad, worse, good = serve(greeting_and(*said)), serve(greeting_and(*said)), serve()
    gateway = behind(start_gateway, bad, worse, ejection={"failures": 2, "for": "1h", "at_most": "1h"})
    with HTTP2Client(gateway, phone) as client:
        assert_denied(gateway, client.get("/"), "upstream_unavailable", 502)
        assert (len(bad.connections), len(worse.connections)) == (1, 1)
        assert client.get("/").status == 502
        assert failures(gateway) == {kind: 2}
    assert sum(scrape(gateway)("attestgate_upstream_server_ejections_total", server=service.address)
               for service in [bad, worse]) == 1
    assert_nothing_held(gateway)
    # With another server to ask, nobody notices.
    both = behind(start_gateway, bad, good)
    with HTTP2Client(both, phone) as client:
        assert [client.get("/").status for _ in range(4)] == [200] * 4
    assert len(bad.connections) <= 1 + 2 + 4


# MARK: what was not processed is sent again, and nothing else

UNPROCESSED = ["refused", "going away"]


@pytest.mark.parametrize("how", UNPROCESSED)
@pytest.mark.parametrize("size", [0, 10, 20_000])
def test_unprocessed_requests_are_sent_to_another_server(start_gateway, serve, phone, how, size):
    """Of any method, its content with it."""
    def refuse(connection):
        connection.greet()
        request = connection.next_request()
        if how == "refused":
            connection.reset(request.stream, REFUSED_STREAM)
        else:
            connection.go_away(0)
        connection.listen()
    bad, good = serve(refuse), serve()
    gateway = behind(start_gateway, bad, good)
    content = bytes(range(256)) * (size // 256) + bytes(size % 256)
    with Client(gateway, phone) as client:
        response = client.exchange(post("/once", content))
        assert (response.status, response.content) == (200, b"ok")
    assert bad.paths() == ["/once"] and good.paths() == ["/once"]
    assert good.requests[0].content == content and good.requests[0].value(":method") == "POST"
    assert scrape(gateway)("attestgate_upstream_retries_total") == 1
    assert failures(gateway) == Counter()
    assert_nothing_held(gateway)


@pytest.mark.parametrize("how", [*UNPROCESSED, "processed"])
def test_a_proven_request_is_sent_again_only_if_it_was_not_processed(serve, pki, tmp_path, how):
    """The one counter was durable before: it reaches one server that acts on it, or is lost with the request."""
    def refuse(connection):
        connection.greet()
        request = connection.next_request()
        if how == "going away":
            connection.go_away(0)
        else:
            connection.reset(request.stream, REFUSED_STREAM if how == "refused" else INTERNAL_ERROR)
        connection.listen()
    bad, good = serve(refuse), serve()
    attested = Attested(
        tmp_path / "proven", pki, bad, upstream_settings={"servers": [bad.address, good.address], "protocol": "h2"})
    try:
        phone = attested.phone
        request = phone.request(path="/once")
        with phone.connect() as client:
            assert client.exchange(request).status == (502 if how == "processed" else 200)
            assert_denied(attested.gateway, client.exchange(request), "counter_replayed", 401)
        counters = [r.value("attest-counter") for r in bad.requests + good.requests]
        assert counters == [str(phone.counter)] * (1 if how == "processed" else 2)
    finally:
        attested.gateway.stop()


def test_a_request_refused_twice_is_not_sent_a_third_time(start_gateway, serve, phone):
    def refuse(connection):
        connection.greet()
        while True:
            connection.reset(connection.next_request().stream, REFUSED_STREAM)
    services = [serve(refuse) for _ in range(3)]
    gateway = behind(start_gateway, *services)
    with Client(gateway, phone) as client:
        assert_denied(gateway, client.exchange(get("/")), "upstream_unavailable", 502)
    assert sum(len(service.requests) for service in services) == 2
    assert failures(gateway) == {"refused": 1}


def test_content_that_is_too_much_to_be_kept_is_not_sent_again(start_gateway, serve, phone):
    def refuse(connection):
        connection.greet()
        request = connection.next_request()
        connection.reset(request.stream, REFUSED_STREAM)
        connection.listen()
    bad, good = serve(refuse), serve()
    gateway = behind(start_gateway, bad, good)
    with Client(gateway, phone) as client:
        assert_denied(gateway, client.exchange(post("/", bytes(200_000))), "upstream_unavailable", 502)
    assert good.requests == []


def tls_port(serve, pki):
    return serve(tls=Services(pki).context())


def leaving(serve, _):
    return serve(lambda _: None)


def reading_and_leaving(serve, _):
    return serve(lambda connection: connection._exactly(3))


@pytest.mark.parametrize("begin", [tls_port, leaving, reading_and_leaving])
def test_a_server_that_leaves_before_its_settings_is_said_to_speak_no_http_2(start_gateway, serve, pki, phone, begin):
    service = begin(serve, pki)
    gateway = behind(start_gateway, service)
    with Client(gateway, phone) as client:
        entry = assert_denied(gateway, client.exchange(get("/")), "upstream_unavailable", 502)
    assert entry["detail"] == (
        f"{service.address} does not support HTTP/2: it closed the connection before SETTINGS (does it expect TLS?)"), entry
    assert failures(gateway) == {"not_http2": 1} and service.requests == []


def at_once(connection):
    connection.send(settings())
    connection.listen()


def by_octets(connection):
    for octet in settings(streams=100):
        connection.send(bytes([octet]))
    connection.listen()


def behind_the_request(connection):
    connection._exactly(3)
    connection.send(settings(window=100) + frame(GOAWAY, 0, 0, bytes(8)))


def going_away(connection):
    connection._exactly(3)
    connection.go_away(0, 1)


@pytest.mark.parametrize("script", [at_once, by_octets, behind_the_request, going_away])
def test_an_http_2_server_asked_in_http_1_1_is_recognized(start_gateway, serve, phone, script):
    service = serve(script)
    gateway = start_gateway({"service": {"servers": [service.address]}}, ROUTES)
    with Client(gateway, phone) as client:
        entry = assert_denied(gateway, client.exchange(get("/")), "upstream_unavailable", 502)
    assert entry["detail"] == f"{service.address} answered in HTTP/2: set `protocol: h2`", entry
    assert failures(gateway) == {"malformed": 1} and not service.faults


def test_a_response_that_only_begins_like_http_2_is_malformed(start_gateway, serve, phone):
    for said in [frame(SETTINGS, 0, 1), frame(PING, 0, 0, bytes(8)), b"\0\0\0HTTP/1.1 200 OK"]:
        service = serve(lambda connection, said=said: (connection._exactly(3), connection.send(said + b"\r\n\r\n"), connection.listen()))
        gateway = start_gateway({"service": {"servers": [service.address]}}, ROUTES)
        with Client(gateway, phone) as client:
            entry = assert_denied(gateway, client.exchange(get("/")), "upstream_unavailable", 502)
        assert "malformed response" in entry["detail"], entry


@pytest.mark.parametrize("protocol", ["h2", "http/1.1"])
def test_a_request_that_began_a_connection_is_logged_as_forwarded(start_gateway, serve, phone, protocol):
    """Over HTTP/2 a request waits for SETTINGS, over HTTP/1.1 it is written before; the log does not differ."""
    gone, silent = f"127.0.0.1:{uncommon_port()}", serve(Connection.listen).address
    for address, code, status in [(gone, "upstream_unavailable", 502), (silent, "upstream_timeout", 504)]:
        gateway = start_gateway({"service": {"servers": [address], "protocol": protocol, **QUICK}}, ROUTES)
        with Client(gateway, phone) as client:
            entry = assert_denied(gateway, client.exchange(get("/")), code, status)
        assert entry["decision"] == "forwarded" and entry["server"] == address, entry
        assert scrape(gateway)("attestgate_requests_total", route="all", decision="forwarded") == 1


def test_a_request_without_a_place_at_the_upstream_is_logged_as_denied(start_gateway, serve, phone):
    silent = serve(Connection.listen)
    gateway = behind(start_gateway, silent, connect_timeout="30s", connections=1, idle_connections=1, streams=1, waiting=1,
        waiting_timeout="100ms")
    with HTTP2Client(gateway, phone) as client:
        client.start("GET", "/first")
        response = client.get("/second")
    entry = assert_denied(gateway, response, "upstream_busy", 503)
    assert entry["decision"] == "denied", entry


@pytest.mark.parametrize("method,is_repeated", [("GET", True), ("POST", False)])
def test_possibly_processed_requests_are_sent_again_only_if_idempotent(
        start_gateway, serve, phone, method, is_repeated):
    def leave(connection):
        connection.greet()
        connection.next_request()
    bad, good = serve(leave), serve()
    gateway = behind(start_gateway, bad, good)
    with Client(gateway, phone) as client:
        response = client.exchange(get("/", method=method))
        if is_repeated:
            assert response.content == b"ok"
        else:
            assert_denied(gateway, response, "upstream_unavailable", 502)
    assert len(good.requests) == (1 if is_repeated else 0)


def test_a_stream_that_was_reset_is_not_sent_again(start_gateway, serve, phone):
    def reset(connection):
        connection.greet()
        connection.reset(connection.next_request().stream, CANCEL)
        connection.listen()
    bad, good = serve(reset), serve()
    gateway = behind(start_gateway, bad, good)
    with Client(gateway, phone) as client:
        assert_denied(gateway, client.exchange(get("/")), "upstream_unavailable", 502)
    assert good.requests == []


def test_a_proven_request_is_sent_again_only_if_unprocessed(attested_service, serve):
    """Once each: its counter stays used, whatever the result."""
    service, attested = attested_service

    def script(connection):
        connection.greet()
        connection.reset(connection.next_request().stream, REFUSED_STREAM if len(service.requests) == 1 else CANCEL)
        connection.answer(connection.next_request())
        connection.listen()
    service.script = script
    phone = attested.phone
    with phone.connect() as client:
        assert client.exchange(phone.request("POST", "/x", content=b"content")).content == b"ok"
        assert [request.content for request in service.requests] == [b"content"] * 2
        assert service.requests[1].value("attest-counter") == str(phone.counter)


@pytest.fixture
def attested_service(serve, pki, tmp_path):
    from support.attested import Attested
    service = serve()
    attested = Attested(tmp_path / "attested", pki, service, upstream_settings={"protocol": "h2"})
    yield service, attested
    attested.gateway.stop()


# MARK: who is no service of HTTP/2

def test_a_server_that_does_not_agree_on_h2_gets_no_request(start_gateway, serve, pki, phone):
    services = Services(pki)
    for protocols in [None, ["http/1.1"]]:
        context = services.context()
        if protocols:
            context.set_alpn_protocols(protocols)
        service = serve(tls=context)
        gateway = start_gateway({"service": services.settings(service.address, protocol="h2")}, ROUTES)
        with Client(gateway, phone) as client:
            entry = assert_denied(gateway, client.exchange(get("/")), "upstream_unavailable", 502)
        assert "HTTP/2 (ALPN h2)" in entry["detail"] or "no application protocol" in entry["detail"].lower(), entry
        assert service.requests == [] and not any(c.buffer for c in service.connections)
        assert failures(gateway) == {"tls": 1}


@pytest.mark.parametrize("said", [
    b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n", frame(PING, 0, 0, bytes(8)), b"SSH-2.0-OpenSSH_9.2\r\n",
    b"\x15\x03\x01\x00\x02\x02\x46", b""], ids=["http/1.1", "ping", "ssh", "alert", "silence"])
def test_a_server_that_speaks_something_else_gets_no_request(start_gateway, serve, phone, said):
    heard = []

    def script(connection):
        if said:
            connection.send(said)
        if said.startswith(b"\x15"):
            return
        try:
            while True:
                heard.append(connection._exactly(1))
        except Gone:
            pass
    bad, good = serve(script), serve()
    gateway = behind(start_gateway, bad, **({} if said else QUICK))
    with Client(gateway, phone) as client:
        response = client.exchange(get("/secret"))
        if said:
            entry = assert_denied(gateway, response, "upstream_unavailable", 502)
            assert "does not support HTTP/2" in entry["detail"], entry
        else:
            assert_denied(gateway, response, "upstream_timeout", 504)
    # The preface and settings, perhaps what is wrong: of a request nothing.
    assert b"secret" not in b"".join(heard) and b"".join(heard)[:3] in (b"PRI", b"")
    assert failures(gateway) == {"not_http2" if said else "connect_timeout": 1}
    # With another server to ask, nobody notices.
    def attempt(seconds):
        both = behind(start_gateway, bad, good, **({} if said else {"connect_timeout": f"{seconds}s"}))
        with Client(both, phone) as client:
            for _ in range(4):
                assert client.exchange(post("/", b"x")).content == b"ok"
    at_some_pace(attempt)


# MARK: faults

@dataclass
class Fault:
    """`does`: what the service does with the request; `sees`: a denial's code, or whose response is cut off; `kind`: in the metric.

    `is_all`: the connection and all its streams end with it.
    """

    name: str
    does: Callable
    sees: tuple
    kind: str
    is_all: bool = False
    detail: Optional[str] = None


UNAVAILABLE, TIMEOUT = ("upstream_unavailable", 502), ("upstream_timeout", 504)
CUT, CUT_LATE = ("upstream_unavailable", 200), ("upstream_timeout", 200)


def head(*fields, end=False):
    def does(connection, request):
        connection.headers(request.stream, list(fields), end)
    return does


def both(*actions):
    def does(connection, request):
        for action in actions:
            action(connection, request)
    return does


def content(octets, end=False):
    return lambda connection, request: connection.data(request.stream, octets, end)


def raw(*frames, count=1):
    """`frames`: kind, flags, whether it is the request's stream, payload."""
    def does(connection, request):
        said = b"".join(
            frame(kind, flags, request.stream if of_stream else 0, payload) for kind, flags, of_stream, payload in frames)
        for _ in range(count):
            connection.send(said)
    return does


status = (":status", "200")
FAULTS = [
    Fault("never answers", lambda c, r: None, TIMEOUT, "response_timeout"),
    Fault("answers and stops", both(head(status), content(b"half")), CUT_LATE, "response_timeout"),
    Fault("resets", lambda c, r: c.reset(r.stream, INTERNAL_ERROR), UNAVAILABLE, "reset", detail="INTERNAL_ERROR"),
    Fault("resets in the middle", both(head(status), content(b"half"), lambda c, r: c.reset(r.stream, CANCEL)), CUT, "reset"),
    Fault("resets without an error", lambda c, r: c.reset(r.stream, 0), UNAVAILABLE, "reset"),
    Fault("no status", head(("x-a", "b"), end=True), UNAVAILABLE, "malformed"),
    Fault("two statuses", head(status, status, end=True), UNAVAILABLE, "malformed"),
    Fault("a status of letters", head((":status", "2oo"), end=True), UNAVAILABLE, "malformed"),
    Fault("a status behind fields", head(("x-a", "b"), status, end=True), UNAVAILABLE, "malformed"),
    Fault("a pseudo-field of requests", head(status, (":path", "/"), end=True), UNAVAILABLE, "malformed"),
    Fault("a name in upper case", head(status, ("X-A", "b"), end=True), UNAVAILABLE, "malformed"),
    Fault("a line end in a value", head(status, ("x-a", "b\r\nx-c: d"), end=True), UNAVAILABLE, "malformed"),
    Fault("a field of the connection", head(status, ("connection", "close"), end=True), UNAVAILABLE, "malformed"),
    Fault("a transfer coding", head(status, ("transfer-encoding", "chunked"), end=True), UNAVAILABLE, "malformed"),
    Fault("two lengths", head(status, ("content-length", "1"), ("content-length", "2")), UNAVAILABLE, "malformed"),
    Fault("switches protocols", head((":status", "101"), end=True), UNAVAILABLE, "malformed"),
    Fault("interim responses without end", lambda c, r: [
        c.headers(r.stream, [(":status", "103")]) for _ in range(20)], UNAVAILABLE, "malformed"),
    Fault("less content than it said", both(head(status, ("content-length", "9")), content(b"half", True)), CUT, "malformed"),
    Fault("more content than it said", both(head(status, ("content-length", "2")), content(b"more", True)), CUT, "malformed"),
    Fault("trailers that do not end", both(head(status), content(b"x"), head(("x-a", "b"))), CUT, "malformed"),
    Fault("a pseudo-field in trailers", both(head(status), content(b"x"), head((":status", "200"), end=True)), CUT, "malformed"),
    Fault("a head of many fields", head(status, *[(f"x-{n}", "y") for n in range(200)], end=True), UNAVAILABLE, "malformed"),
    # Of the whole connection.
    Fault("content without a head", content(b"x"), UNAVAILABLE, "http2", True),
    Fault("a frame that is too large", raw((DATA, 0, True, bytes(16385))), UNAVAILABLE, "http2", True),
    Fault("DATA on no stream", raw((DATA, 0, False, b"x")), UNAVAILABLE, "http2", True),
    Fault("HPACK that is none", raw((HEADERS, END_HEADERS, True, b"\xff\xff\xff\xff\xff\xff")), UNAVAILABLE, "http2", True),
    Fault("a push", raw((PUSH_PROMISE, END_HEADERS, True, b"\0\0\0\2\x82")), UNAVAILABLE, "http2", True),
    Fault("padding longer than the frame", raw((DATA, PADDED, True, b"\xffx")), UNAVAILABLE, "http2", True),
    Fault("a window beyond all bounds", raw((WINDOW_UPDATE, 0, False, b"\x7f\xff\xff\xff")), UNAVAILABLE, "http2", True),
    Fault("SETTINGS that mean nothing", raw((SETTINGS, 0, False, b"x")), UNAVAILABLE, "http2", True),
    Fault("a flood of SETTINGS", raw((SETTINGS, 0, False, b""), count=1000), UNAVAILABLE, "http2", True),
    Fault("a flood of PING", raw((PING, 0, False, bytes(8)), count=5000), UNAVAILABLE, "http2", True),
    Fault("a flood of empty DATA", both(head(status), raw((DATA, 0, True, b""), count=5000)), CUT, "http2", True),
    Fault("a flood of CONTINUATION", both(
        raw((HEADERS, 0, True, b"")), raw((CONTINUATION, 0, True, b""), count=5000)), UNAVAILABLE, "http2", True),
    Fault("a flood of WINDOW_UPDATE", raw((WINDOW_UPDATE, 0, False, b"\0\0\0\1"), count=20_000), UNAVAILABLE, "http2", True),
    Fault("a flood of nothing known", raw((0xfa, 0, False, b""), count=5000), UNAVAILABLE, "http2", True),
    Fault("ends the connection", lambda c, r: c.socket.shutdown(socket.SHUT_RDWR), UNAVAILABLE, "disconnected", True),
    Fault("breaks the connection", lambda c, r: c.break_off(), UNAVAILABLE, "disconnected", True),
    Fault("ends it in a head", both(
        lambda c, r: c.send(frame(HEADERS, END_HEADERS, r.stream, bytes(50))[:20]),
        lambda c, r: c.socket.shutdown(socket.SHUT_RDWR)), UNAVAILABLE, "disconnected", True),
    Fault("ends it in the content", both(
        head(status), content(b"half"), lambda c, r: c.socket.shutdown(socket.SHUT_RDWR)), CUT, "disconnected", True),
    Fault("goes away and then ends it", both(
        lambda c, r: c.go_away(r.stream), lambda c, r: c.socket.shutdown(socket.SHUT_RDWR)),
        UNAVAILABLE, "disconnected", True),
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_affects_only_its_own_request_or_connection(start_gateway, serve, phone, fault):
    """One client asks for the fault, another has a request under way on the same connection, and a third asks afterwards."""
    def script(connection):
        connection.greet()
        waiting = connection.next_request()
        if waiting.path != "/waiting":
            connection.answer(waiting)
            return serve_on(connection)
        faulty = connection.next_request()
        fault.does(connection, faulty)
        while not fault.is_all:
            request = connection.next_request()
            if request.path == "/release":
                connection.answer(waiting)
            connection.answer(request)
        serve_on(connection)

    def serve_on(connection):
        while True:
            connection.answer(connection.next_request())
    service = serve(script)
    # Only what the service does decides, but where that is nothing.
    limits = {**IMPATIENT, "response_timeout": "2s"} if fault.kind == "response_timeout" else {}
    gateway = behind(start_gateway, service, **limits)
    with HTTP2Client(gateway, phone) as waiter, HTTP2Client(gateway, phone) as victim, Client(gateway, phone) as third:
        # Not idempotent, so that nothing is sent again.
        waiting = waiter.start("POST", "/waiting")
        eventually(lambda: service.paths() == ["/waiting"], "the first request")
        number = victim.start("POST", "/faulty")
        code, seen = fault.sees
        if seen == 200:
            with pytest.raises(StreamReset):
                victim.response(number)
            entry = gateway.logged(denial=code, status=200)
            assert entry["aborted"] is True
        else:
            assert_denied(gateway, victim.response(number), code, seen)
            entry = gateway.logged(denial=code, status=seen)
        assert entry["fault"] == "upstream" and (fault.detail or "") in entry["detail"], entry
        if fault.is_all:
            assert waiter.response(waiting).status == 502
        elif fault.kind != "response_timeout":
            released = third.exchange(get("/release"))
            assert released.content == b"ok" and waiter.response(waiting).content == b"ok"
            assert len(service.connections) == 1
        else:
            # It has waited as long.
            assert waiter.response(waiting).status in (200, 504)
        # The next one is served, on this connection or on a new one.
        service.script = serve_well
        assert third.exchange(get("/after", method="PUT")).content == b"ok"
        expected = {fault.kind: 2 if fault.is_all or fault.kind == "response_timeout" else 1}
        assert failures(gateway) == expected
        assert_nothing_held(gateway)


# MARK: windows

def test_without_a_window_the_service_gets_no_content_and_the_client_a_denial(start_gateway, serve, phone):
    def script(connection):
        connection.greet(window=0)
        connection.next_request(complete=False)
        connection.listen()
    service = serve(script)
    gateway = behind(start_gateway, service, **IMPATIENT)
    with Client(gateway, phone) as client:
        assert_denied(gateway, client.exchange(post("/", b"content")), "upstream_timeout", 504)
    assert service.requests[0].content == b""
    eventually(lambda: [r.reset for r in service.resets] == [CANCEL], "the stream to be reset")
    assert_nothing_held(gateway)


def test_unread_content_waits_with_the_client(start_gateway, serve, phone):
    """At most the windows and blocks are held, however much the client sends."""
    def script(connection):
        connection.greet()
        connection.takes = False
        connection.next_request(complete=False)
        connection.listen()
    service = serve(script)
    gateway = behind(start_gateway, service, **IMPATIENT)
    memory = gateway.resident_bytes()
    with HTTP2Client(gateway, phone) as client:
        number = client.start("POST", "/", end=False)
        client.send(number, bytes(20_000_000), end=True)
        assert client.response(number).status == 504
    assert len(service.requests[0].content) <= 65_535
    assert gateway.resident_bytes() < memory + 8_000_000


@pytest.mark.parametrize("count", [1, 20])
def test_a_client_that_takes_nothing_stops_its_own_stream_alone(start_gateway, serve, phone, count):
    sent = []

    def script(connection):
        connection.greet()
        streams = []
        # As much as it may, and no octet more; others are answered meanwhile.
        while True:
            for stream in streams:
                while (room := min(connection.room(stream), 16384)) > 0:
                    connection.data(stream, bytes(room))
                    connection.spend(stream, room)
                    sent.append(room)
            connection.take_frame()
            while connection.handed_out < len(connection.order):
                request = connection.next_request()
                if request.path == "/big":
                    connection.headers(request.stream)
                    streams.append(request.stream)
                else:
                    connection.answer(request)
    service = serve(script)
    gateway = behind(start_gateway, service)
    memory = gateway.resident_bytes()
    with HTTP2Client(gateway, phone) as slow, Client(gateway, phone) as other:
        numbers = [slow.start(path="/big") for _ in range(count)]
        for number in numbers:
            slow.head(number)
            slow.stop_reading(number)
        for _ in range(50):
            assert other.exchange(get("/other")).content == b"ok"
        assert len(service.connections) == 1
        assert sum(sent) < count * 400_000 and gateway.resident_bytes() < memory + count * 400_000 + 4_000_000
        for number in numbers:
            slow.reset(number)
        eventually(lambda: [r.reset for r in service.resets] == [CANCEL] * count, "the service to hear of it")
    assert_nothing_held(gateway)


def test_resets_of_one_client_do_not_end_the_connection_of_others(start_gateway, serve, phone):
    """A service that ends a connection on which many streams are reset, as guards against rapid reset do."""
    release = threading.Event()

    def script(connection):
        connection.greet()
        waiting = None
        while True:
            request = connection.next_request()
            if request.path == "/waiting":
                waiting = request
            elif request.path == "/other":
                connection.answer(request)
            if waiting and release.is_set():
                connection.answer(waiting)
                waiting = None
            if len([r for r in connection.order if r.reset is not None]) > 150:
                return
    service = serve(script)
    gateway = behind(start_gateway, service)
    with HTTP2Client(gateway, phone) as waiter, Client(gateway, phone) as other:
        waiting = waiter.start("POST", "/waiting")
        eventually(lambda: service.paths() == ["/waiting"], "the first")
        for _ in range(4):
            # Within what one connection of a client may reset.
            with HTTP2Client(gateway, phone) as vandal:
                for _ in range(60):
                    came, reset = len(service.requests), len(service.resets)
                    number = vandal.start("POST", "/given-up")
                    eventually(lambda: len(service.requests) > came, "it to arrive")
                    vandal.reset(number)
                    eventually(lambda: len(service.resets) > reset, "it to be reset")
        release.set()
        first = service.connections[0]
        assert len(service.connections) >= 3 and len([r for r in first.order if r.reset is not None]) <= 50
        assert other.exchange(get("/other")).content == b"ok"
        # It has gone on: what ends it now is nothing but its end.
        first.answer(first.order[0])
        assert waiter.response(waiting).content == b"ok"
    assert failures(gateway) == Counter()


# MARK: connections that come and go

def test_a_client_that_leaves_many_requests_at_once_has_few_of_them_reset(start_gateway, serve, phone):
    """The others end with their connection, which other clients may need; its end is not the service's failure."""
    def script(connection):
        connection.greet()
        while True:
            request = connection.next_request(complete=False)
            if request.path == "/other":
                connection.answer(request)
    service = serve(script)
    gateway = behind(start_gateway, service)
    with HTTP2Client(gateway, phone) as waiter, HTTP2Client(gateway, phone) as other:
        waiting = waiter.start("POST", "/waiting")
        eventually(lambda: service.paths() == ["/waiting"], "the first")
        with HTTP2Client(gateway, phone) as vandal:
            for _ in range(90):
                vandal.start("POST", "/left", end=False)
            eventually(lambda: len(service.requests) == 91, "all of them to arrive")
        eventually(lambda: len(service.resets) == 50, "some to be reset")
        assert other.get("/other").content == b"ok"
        first, second = service.connections
        assert len(service.resets) == 50 and all(r.reset is None for r in second.order)
        # The connection stays open for the client that is still there.
        first.answer(first.order[0])
        assert waiter.response(waiting).content == b"ok"
    eventually(lambda: first.going_away == [0], "it to end with the last one that anybody wants")
    assert failures(gateway) == Counter()
    assert_nothing_held(gateway)


def test_a_service_that_sends_enhance_your_calm_is_not_ejected(start_gateway, serve, phone):
    def calm(connection):
        connection.greet()
        request = connection.next_request()
        connection.go_away(request.stream, 11)
    bad, good = serve(calm), serve()
    gateway = behind(start_gateway, bad, good, ejection={"failures": 2, "for": "1h", "at_most": "1h"})
    with HTTP2Client(gateway, phone) as client:
        # Not idempotent, so that nothing is sent again.
        seen = [client.response(client.start("POST", "/")).status for _ in range(10)]
    assert seen.count(502) == 5
    assert failures(gateway) == {"disconnected": 5}
    assert scrape(gateway)("attestgate_upstream_server_ejections_total") == 0


def test_an_unread_upload_delays_no_other_request(start_gateway, serve, phone):
    """It fills the window of a shared connection, so other requests use another connection."""
    def script(connection):
        connection.greet()
        connection.takes = False
        while True:
            request = connection.next_request(complete=False)
            if request.path == "/stuck":
                connection.handed_out -= 1
                connection.take_frame()
            else:
                while not request.is_complete:
                    connection.take_frame()
                connection.answer(request)
    service = serve(script)
    gateway = behind(start_gateway, service, response_timeout="1m")
    with HTTP2Client(gateway, phone) as stuck, HTTP2Client(gateway, phone) as other:
        number = stuck.start("POST", "/stuck", end=False)
        stuck.send(number, bytes(65_535))
        eventually(lambda: service.requests and len(service.requests[0].content) == 65_535, "the window to be shut")
        for _ in range(3):
            number = other.start("POST", "/other", end=False)
            other.send(number, b"content", end=True)
            assert other.response(number).content == b"ok"
    assert len(service.connections) == 2 and failures(gateway) == Counter()


def test_a_request_delayed_by_others_is_not_the_services_failure(start_gateway, serve, phone):
    def attempt(seconds):
        def script(connection):
            connection.greet()
            connection.takes = False
            connection.listen()
        bad, good = serve(script), serve()
        # One connection to each: clients have to share it.
        gateway = behind(
            start_gateway, bad, good, response_timeout=f"{seconds}s", connections_per_server=1,
            ejection={"failures": 1, "for": "1h", "at_most": "1h"})
        with HTTP2Client(gateway, phone) as stuck, HTTP2Client(gateway, phone) as other:
            held = stuck.start("POST", "/stuck", end=False)
            stuck.send(held, bytes(65_535))
            eventually(lambda: bad.requests and len(bad.requests[0].content) == 65_535, "the window to be shut")
            numbers = [other.start("POST", "/other", end=False) for _ in range(6)]
            for number in numbers:
                other.send(number, b"content", end=True)
            assert sorted(other.response(number).status for number in numbers) == [200] * 3 + [504] * 3
            assert failures(gateway) == {"response_timeout": 3}
            assert scrape(gateway)("attestgate_upstream_server_ejections_total") == 0
            # And that connection gets no more: there is one left.
            assert [other.get("/next").status for _ in range(2)] == [200] * 2
    at_some_pace(attempt)


def test_a_service_that_goes_away_in_order_loses_nothing(start_gateway, serve, phone):
    """GOAWAY with the last stream it serves, those under way completed, and the connection closed: again and again."""
    def script(connection):
        connection.greet()
        requests = [connection.next_request() for _ in range(6)]
        connection.go_away(requests[-1].stream)
        for request in requests:
            connection.answer(request)
        connection.listen()
    service = serve(script)
    gateway = behind(start_gateway, service)
    with HTTP2Client(gateway, phone) as client:
        for _ in range(10):
            numbers = [client.start("POST", f"/{number}") for number in range(12)]
            assert [client.response(number).content for number in numbers] == [b"ok"] * 12
    assert len(service.connections) == 20
    assert failures(gateway) == Counter()
    assert_nothing_held(gateway)


def test_a_connection_that_the_service_has_closed_is_not_used_again(start_gateway, serve, phone):
    def script(connection):
        connection.greet()
        connection.answer(connection.next_request())
        # With GOAWAY or without.
        if len(service.connections) % 2:
            connection.go_away(1)
        connection.socket.shutdown(socket.SHUT_RDWR)
    service = serve(script)
    gateway = behind(start_gateway, service)
    with Client(gateway, phone) as client:
        for number in range(20):
            response = client.exchange(get(f"/{number}"))
            assert response.status == 200
    assert failures(gateway) == Counter()


def test_an_idle_connection_is_closed_in_order(start_gateway, serve, phone):
    ended = []

    def script(connection):
        connection.greet()
        connection.answer(connection.next_request())
        connection.listen()
        ended.append(connection.going_away)
    service = serve(script)
    gateway = behind(start_gateway, service, idle_timeout="1s")
    with Client(gateway, phone) as client:
        assert client.exchange(get("/")).content == b"ok"
    eventually(lambda: ended == [[0]], "GOAWAY, then the end")
    assert_nothing_held(gateway)


def test_a_reload_closes_idle_connections_and_completes_requests_in_flight(start_gateway, serve, phone):
    release = threading.Event()

    def script(connection):
        connection.greet()
        while True:
            request = connection.next_request()
            if request.path == "/slow":
                release.wait(PATIENCE)
            connection.answer(request)
    service = serve(script)
    gateway = behind(start_gateway, service)
    with Client(gateway, phone) as slow:
        slow.send(get("/slow"))
        eventually(lambda: "/slow" in service.paths(), "it to be under way")
        gateway.conf["upstreams"]["service"]["streams"] = 7
        gateway.write_conf()
        assert subprocess.run(
            [gateway.command()[0], "reload", "--config", gateway.conf_path], timeout=PATIENCE).returncode == 0
        # One that came before the reload would wait with the slow one: the service reads nothing there meanwhile.
        with Client(gateway, phone) as other:
            assert other.exchange(get("/other")).content == b"ok"
        release.set()
        assert slow.read_response().content == b"ok"


def test_an_unresponsive_connection_is_abandoned_after_one_request(start_gateway, serve, phone):
    def attempt(seconds):
        def script(connection):
            connection.greet()
            if len(service.connections) > 1:
                while True:
                    connection.answer(connection.next_request())
            # As if the network had lost it: nothing comes, not even acknowledgements.
            connection.next_request()
            release.wait(PATIENCE)
        release = threading.Event()
        service = serve(script)
        gateway = behind(start_gateway, service, response_timeout=f"{seconds}s")
        with Client(gateway, phone) as client:
            assert_denied(gateway, client.exchange(get("/lost")), "upstream_timeout", 504)
            assert client.exchange(get("/next")).content == b"ok"
        release.set()
        assert len(service.connections) == 2
    at_some_pace(attempt)


# MARK: how servers are judged

def test_a_connection_that_breaks_is_one_failure_and_a_reset_is_none(start_gateway, serve, phone):
    def script(connection):
        connection.greet()
        while True:
            requests = [connection.next_request() for _ in range(5)]
            if requests[0].path != "/reset":
                return
            for request in requests:
                connection.reset(request.stream, INTERNAL_ERROR)
    bad, good = serve(script), serve()
    gateway = behind(start_gateway, bad, good, ejection={"failures": 3, "for": "1h", "at_most": "1h"})

    def five(path):
        """As many of both servers. - Returns: how many of them failed."""
        with HTTP2Client(gateway, phone) as client:
            numbers = [client.start("POST", path) for _ in range(10)]
            return [client.response(number).status for number in numbers].count(502)
    server = {"server": bad.address}
    assert five("/reset") == 5
    assert scrape(gateway)("attestgate_upstream_server_failures_total", kind="reset", **server) == 5
    for breaks in [1, 2, 3]:
        assert scrape(gateway)("attestgate_upstream_server_ejections_total", **server) == 0
        assert five("/broken") == 5
        assert scrape(gateway)("attestgate_upstream_server_failures_total", kind="disconnected", **server) == 5 * breaks
    assert scrape(gateway)("attestgate_upstream_server_ejections_total", **server) == 1
    assert five("/ejected") == 0


# MARK: health

def test_health_checks_speak_the_upstreams_protocol(start_gateway, serve, phone):
    healthy = {"status": "200"}

    def script(connection):
        connection.greet()
        while True:
            request = connection.next_request()
            if request.path == "/health":
                connection.headers(request.stream, [(":status", healthy["status"])], end=True)
            else:
                connection.answer(request)
    service = serve(script)
    gateway = behind(
        start_gateway, service, health={"path": "/health", "interval": "100ms", "timeout": "90ms", "unhealthy_after": 1})
    eventually(lambda: service.paths().count("/health") >= 3, "checks")
    assert service.requests[0].value("user-agent") == "attestgate"
    eventually(
        lambda: scrape(gateway)("attestgate_upstream_server_checks_total", result="passed") >= 2, "checks to pass")
    healthy["status"] = "503"
    eventually(
        lambda: scrape(gateway)("attestgate_upstream_server_workers", state="unhealthy") == 1, "it to be found unhealthy")


@pytest.mark.parametrize("how", ["goes away", "admits no stream"])
def test_a_check_fails_with_its_server_and_is_no_request(start_gateway, serve, phone, how):
    def refuse(connection):
        assert connection._exactly(24)
        connection.send(settings() + frame(GOAWAY, 0, 0, bytes(8)) if how == "goes away" else settings(streams=0))
        connection.listen()
    bad, good = serve(refuse), serve()
    gateway = behind(
        start_gateway, bad, good, health={"path": "/health", "interval": "2s", "timeout": "1900ms", "unhealthy_after": 1})
    name = "attestgate_upstream_server_checks_total"
    eventually(lambda: scrape(gateway)(name, server=bad.address, result="failed") >= 2, "checks to fail")
    metrics = scrape(gateway)
    assert metrics(name, server=bad.address, result="passed") == metrics(name, server=good.address, result="failed") == 0
    assert metrics("attestgate_upstream_server_workers", server=bad.address, state="unhealthy") == 1
    # Each server was asked on its own account.
    assert metrics(name, server=good.address, result="passed") <= good.paths().count("/health") <= len(good.connections)
    assert metrics("attestgate_upstream_server_requests_total", server=bad.address) == 0
    assert_nothing_held(gateway)
    with HTTP2Client(gateway, phone) as client:
        assert [client.get("/").status for _ in range(4)] == [200] * 4


# MARK: others' services

def test_nghttpd_is_a_service(start_gateway, pki, phone, tmp_path):
    services = Services(pki)
    (tmp_path / "docs").mkdir()
    data = bytes(range(256)) * 40_000
    (tmp_path / "docs" / "big").write_bytes(data)
    for tls in [False, True]:
        port = uncommon_port()
        arguments = [str(services.ordinary.key), str(services.ordinary.certificate)] if tls else []
        server = subprocess.Popen(
            ["nghttpd", "--address=127.0.0.1", f"--htdocs={tmp_path / 'docs'}", "--trailer=x-end: yes",
             *([] if tls else ["--no-tls"]), str(port), *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            eventually(lambda: not socket.socket().connect_ex(("127.0.0.1", port)), "nghttpd to listen")
            upstream = services.settings(f"127.0.0.1:{port}") if tls else {"servers": [f"127.0.0.1:{port}"]}
            gateway = start_gateway({"service": {**upstream, "protocol": "h2"}}, ROUTES)
            with HTTP2Client(gateway, phone) as client:
                numbers = [client.start(path="/big") for _ in range(5)]
                for number in numbers:
                    response = client.response(number)
                    assert response.content == data and dict(response.trailers)["x-end"] == "yes"
                assert client.get("/nothing").status == 404
            assert_nothing_held(gateway)
        finally:
            server.terminate()
            server.wait(PATIENCE)
