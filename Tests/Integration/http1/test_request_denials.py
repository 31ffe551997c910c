"""Requests that are well-formed and refused nevertheless."""

import re
import time

import pytest

from support.client import Client, get, post
from support.denials import NothingForwarded, assert_denied
from support.paths import PATIENCE
from support.waiting import eventually


@pytest.fixture
def small(start_gateway, own_upstream, phone):
    """A gateway with narrow limits, and what proves that nothing passed it."""
    return gateway_with(start_gateway, own_upstream, phone)


@pytest.fixture
def impatient(start_gateway, own_upstream, phone):
    """The same, and it waits for heads and content only for a moment."""
    return gateway_with(
        start_gateway, own_upstream, phone, timeouts={"head": "300ms", "content_idle": "300ms"})


def gateway_with(start_gateway, own_upstream, phone, **settings):
    gateway = start_gateway(
        {"service": own_upstream.address},
        [{"name": "records", "host": "localhost", "path": "/records", "methods": ["GET", "HEAD", "POST"],
          "content_limit": 1000},
         {"name": "sentinel", "host": "localhost", "path": "/sentinel"}],
        limits={"head": "1KiB", "target": 128, "fields": 8}, **settings)
    return gateway, NothingForwarded(gateway, own_upstream, phone)


@pytest.mark.parametrize("path", ["/", "/record", "/records-old", "/other"])
def test_an_unknown_path_is_route_unknown(small, phone, path):
    gateway, nothing_forwarded = small
    with nothing_forwarded, Client(gateway, phone) as client:
        entry = assert_denied(gateway, client.exchange(get(path)), "route_unknown", 404)
        assert "route" not in entry and entry["detail"] == "no route of this host matches the path"
        # The request was whole, so the connection serves the next.
        assert_denied(gateway, client.exchange(get(path)), "route_unknown", 404)


def test_an_unknown_host_is_route_unknown(small, phone):
    gateway, nothing_forwarded = small
    with nothing_forwarded, Client(gateway, phone, server_name=None) as client:
        entry = assert_denied(gateway, client.exchange(get("/records", host="example.org")), "route_unknown", 404)
        assert entry["detail"] == "no route has this host"


@pytest.mark.parametrize("method", ["DELETE", "PUT", "OPTIONS", "TRACE", "get", "BREW"])
def test_a_method_the_route_does_not_name_is_method_refused(small, phone, method):
    gateway, nothing_forwarded = small
    with nothing_forwarded, Client(gateway, phone) as client:
        response = client.exchange(get("/records/7", method=method))
        entry = assert_denied(gateway, response, "method_refused", 405)
        assert response.value("allow").split(", ") == ["GET", "HEAD", "POST"]
        assert entry["route"] == "records"


def test_a_denied_head_request_has_no_content(small, phone):
    gateway, nothing_forwarded = small
    with nothing_forwarded, Client(gateway, phone) as client:
        assert_denied(gateway, client.exchange(get("/other", method="HEAD")), "route_unknown", 404, "HEAD")
        # What follows is the head of the next response, not the content of this one.
        assert_denied(gateway, client.exchange(get("/other")), "route_unknown", 404)


@pytest.mark.parametrize("name", [
    "X-HTTP-Method-Override", "x-http-method", "X-Method-Override", "X-ORIGINAL-URL", "X-Rewrite-URL",
    "X-Original-Method", "X-Original-URI"])
def test_a_field_that_overrides_method_or_target_is_header_refused(small, phone, name):
    gateway, nothing_forwarded = small
    with nothing_forwarded, Client(gateway, phone) as client:
        assert_denied(gateway, client.exchange(get("/records", f"{name}: DELETE")), "header_refused", 400)


def test_content_announced_beyond_the_limit_is_too_large(small, phone):
    gateway, nothing_forwarded = small
    with nothing_forwarded, Client(gateway, phone) as client:
        client.send_while_open(post("/records", b"x" * 1001))
        assert_denied(gateway, client.read_response(), "too_large", 413)


def test_a_client_that_sends_everything_before_reading_gets_the_denial(small, phone):
    gateway, nothing_forwarded = small
    with nothing_forwarded, Client(gateway, phone) as client:
        client.send_while_open(post("/records", b"x" * 4_000_000))
        assert_denied(gateway, client.read_response(), "too_large", 413)


def test_content_above_the_limit_is_refused_instead_of_100_continue(small, phone):
    gateway, nothing_forwarded = small
    with nothing_forwarded, Client(gateway, phone) as client:
        client.send(get("/records", "Content-Length: 1001", "Expect: 100-continue", method="POST"))
        assert_denied(gateway, client.read_response(), "too_large", 413)
        client.assert_closed()


def test_content_of_exactly_the_limit_passes(small, own_upstream, phone):
    gateway, _ = small
    with Client(gateway, phone) as client:
        assert client.exchange(post("/records", b"x" * 1000)).status == 200
        assert own_upstream.last_request().content == b"x" * 1000


def test_chunked_content_beyond_the_limit_is_too_large_and_never_completed(small, own_upstream, phone):
    gateway, _ = small
    with Client(gateway, phone) as client:
        client.send(get("/records", "Transfer-Encoding: chunked", method="POST") + b"3e8\r\n" + b"x" * 1000 + b"\r\n")
        client.send_while_open(b"1\r\nx\r\n0\r\n\r\n")
        assert_denied(gateway, client.read_response(), "too_large", 413)
        client.assert_closed()
    eventually(lambda: all(c.is_closed_by_gateway for c in own_upstream.connections), "the upstream to be left")
    assert own_upstream.requests == []


@pytest.mark.parametrize("count, status", [(128, 200), (129, 414)])
def test_a_target_beyond_the_configured_limit_is_too_large(small, phone, own_upstream, count, status):
    gateway, _ = small
    with Client(gateway, phone) as client:
        response = client.exchange(get("/records/" + "a" * (count - 9)))
        assert response.status == status
        if status != 200:
            assert_denied(gateway, response, "too_large", 414)
            assert own_upstream.connections == []


@pytest.mark.parametrize("fields", [["X: " + "a" * 1024], [f"X{n}: a" for n in range(8)]], ids=["bytes", "fields"])
def test_a_head_beyond_the_configured_limit_is_too_large(small, phone, fields):
    gateway, nothing_forwarded = small
    with nothing_forwarded, Client(gateway, phone) as client:
        assert_denied(gateway, client.exchange(get("/records", *fields)), "too_large", 431)
        client.assert_closed()


@pytest.mark.parametrize("beginning", [b"G", b"GET /records HTTP/1.1\r\n", b"GET /records HTTP/1.1\r\nHost: localhost\r\nX"])
@pytest.mark.parametrize("before", [0, 1], ids=["first request", "second request"])
def test_a_head_that_does_not_come_in_time_is_request_timeout(impatient, phone, beginning, before):
    gateway, nothing_forwarded = impatient
    start = time.monotonic()
    with Client(gateway, phone) as client:
        for _ in range(before):
            assert client.exchange(get("/records")).status == 200
        with nothing_forwarded:
            response = client.send(beginning).read_response()
            client.assert_closed()
    entry = assert_denied(gateway, response, "request_timeout", 408)
    # Counted from the head's first byte, not from the start of time.
    assert entry["duration_us"] <= (time.monotonic() - start) * 1_000_000
    assert response.value("connection") == "close"
    assert "route" not in entry


def test_a_trickling_head_does_not_move_its_deadline(impatient, phone):
    gateway, nothing_forwarded = impatient
    with nothing_forwarded, Client(gateway, phone) as client:
        client.send(b"GET /records HTTP/1.1\r\nHost: localhost\r\nX: ")
        client.socket.settimeout(0.02)

        def is_answered():
            try:
                client.send_while_open(b"a")
                client._more()
                return True
            except TimeoutError:
                return False
        eventually(is_answered, "the gateway to lose patience")
        client.socket.settimeout(PATIENCE)
        assert_denied(gateway, client.read_response(), "request_timeout", 408)


@pytest.mark.parametrize("framing, part", [("Content-Length: 10", b"hello"), ("Transfer-Encoding: chunked", b"5\r\nhello\r\n")])
def test_content_that_does_not_come_in_time_is_request_timeout(impatient, own_upstream, phone, framing, part):
    gateway, _ = impatient
    with Client(gateway, phone) as client:
        response = client.send(get("/records", framing, method="POST") + part).read_response()
        client.assert_closed()
    assert_denied(gateway, response, "request_timeout", 408)
    eventually(lambda: all(c.is_closed_by_gateway for c in own_upstream.connections), "the upstream to be left")
    assert own_upstream.requests == []


def test_a_connection_is_closed_after_its_number_of_requests(start_gateway, own_upstream, phone):
    gateway = start_gateway({"service": own_upstream.address}, limits={"requests_per_connection": 3})
    with Client(gateway, phone) as client:
        responses = [client.exchange(get(f"/{n}")) for n in range(3)]
        client.assert_closed()
    assert [r.values("connection") for r in responses] == [[], [], ["close"]]


def test_the_log_holds_neither_path_nor_query_nor_the_whole_address(small, phone):
    gateway, _ = small
    with Client(gateway, phone) as client:
        client.exchange(get("/records/patient-4711?name=meyer"))
        client.exchange(get("/unknown/patient-4711?name=meyer"))
    gateway.logged(status=404)
    text = gateway.access_path.read_text()
    assert "patient" not in text and "meyer" not in text
    # The service's own address and the gateway's are no secret.
    assert "127.0.0.1" not in re.sub(r'"(server|listener)":"127\.0\.0\.1:\d+"', "", text)
    assert '"client":"127.0.0.0/24"' in text
