"""Connections to the service that are kept, and die between two requests."""

import socket
import threading

import pytest

from support.client import Client, get, post
from support.denials import assert_denied
from support.exposition import scrape
from support.recording_upstream import OK, Gone
from support.waiting import eventually


def one_answer_each(connection):
    """Answers the first request; the next is read, and the connection closed over it."""
    connection.read_request()
    connection.send(OK)
    try:
        connection.read_request()
    except Gone:
        pass


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE", "OPTIONS", "PUT"])
def test_a_repeatable_request_on_a_dead_connection_is_sent_again(start_gateway, own_upstream, phone, method):
    gateway = start_gateway({"service": own_upstream.address})
    own_upstream.script = one_answer_each
    with Client(gateway, phone) as client:
        assert client.exchange(get("/first")).status == 200
        assert client.exchange(get("/second", method=method)).status == 200
    assert [[r.target for r in c.requests] for c in own_upstream.connections] == [["/first", "/second"], ["/second"]]


@pytest.mark.parametrize("data", [
    post("/second", b"hello"), get("/second", method="POST"), get("/second", method="PATCH"),
    post("/second", b"hello").replace(b"POST", b"PUT")])
def test_a_request_that_may_have_had_effect_is_not_sent_again(start_gateway, own_upstream, phone, data):
    gateway = start_gateway({"service": own_upstream.address})
    own_upstream.script = one_answer_each
    with Client(gateway, phone) as client:
        assert client.exchange(get("/first")).status == 200
        assert client.exchange(data).status == 502
        # The sentinel: nothing was sent in between.
        assert client.exchange(get("/third")).status == 200
    assert [r.target for r in own_upstream.requests] == ["/first", "/second", "/third"]


def test_a_proven_request_that_may_have_had_effect_is_not_sent_again(start_attested, own_upstream):
    attested = start_attested()
    phone = attested.phone
    own_upstream.script = one_answer_each
    with phone.connect() as client:
        assert client.exchange(phone.request(path="/first")).status == 200
        second = phone.request(path="/second")
        assert client.exchange(second).status == 502
        # Its counter is spent: the service has seen it.
        assert_denied(attested.gateway, client.exchange(second), "counter_replayed", 401)
        assert client.exchange(phone.request(path="/third")).status == 200
    assert [r.target for r in own_upstream.requests] == ["/first", "/second", "/third"]


def test_a_proven_request_of_which_no_byte_was_sent_goes_to_the_next_server(start_attested, own_upstream):
    """With its one counter."""
    with socket.create_server(("127.0.0.1", 0)) as unused:
        closed = "127.0.0.1:%d" % unused.getsockname()[1]
    attested = start_attested(upstream_settings={"servers": [closed, own_upstream.address]})
    phone = attested.phone
    with phone.connect() as client:
        for number in range(4):
            assert client.exchange(phone.request(path=f"/{number}")).status == 200
    assert [r.target for r in own_upstream.requests] == ["/0", "/1", "/2", "/3"]
    metrics = scrape(attested.gateway)
    assert metrics("attestgate_upstream_server_failures_total", server=closed, kind="unreachable") >= 1


def test_a_request_is_sent_again_only_once(start_gateway, own_upstream, phone):
    gateway = start_gateway({"service": own_upstream.address})
    own_upstream.script = one_answer_each
    with Client(gateway, phone) as client:
        client.exchange(get("/first"))
        own_upstream.script = lambda connection: connection.read_request()
        assert client.exchange(get("/second")).status == 502
    assert len([r for r in own_upstream.requests if r.target == "/second"]) == 2


def test_a_connection_that_the_service_closed_while_idle_is_not_used(start_gateway, own_upstream, phone):
    gateway = start_gateway({"service": own_upstream.address})
    with Client(gateway, phone) as client:
        for _ in range(3):
            assert client.exchange(post("/", b"hello")).status == 200
            last = own_upstream.connections[-1]
            last.socket.shutdown(socket.SHUT_WR)
            eventually(lambda: last.is_closed_by_gateway, "the gateway to close its side")
    assert len(own_upstream.connections) == 3


@pytest.mark.parametrize("method, head", [
    ("HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n"),
    ("HEAD", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
    ("GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 50\r\n\r\n"),
    ("GET", b"HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n")])
def test_content_after_a_head_response_answers_no_other_request(
        start_gateway, own_upstream, pki, phone, method, head):
    """Response queue poisoning: the service sends the content a moment later."""
    gateway = start_gateway({"service": own_upstream.address})
    answered = threading.Event()

    def script(connection):
        connection.read_request()
        connection.send(head)
        answered.wait(10)
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nSTOLEN")
    own_upstream.script = script
    with Client(gateway, phone) as client, Client(gateway, pki.phone("other")) as other:
        assert client.exchange(get("/first", method=method)).status in (200, 304)
        own_upstream.script = None
        other.send(get("/second"))
        eventually(lambda: "/second" in [request.target for request in own_upstream.requests], "the second request")
        answered.set()
        assert b"STOLEN" not in other.read_response().content
    assert [[r.target for r in c.requests] for c in own_upstream.connections] == [["/first"], ["/second"]]


def test_an_unused_connection_to_the_service_is_closed_after_its_time(start_gateway, own_upstream, phone):
    gateway = start_gateway({"service": {"servers": [own_upstream.address], "idle_timeout": "1s"}})
    with Client(gateway, phone) as client:
        assert client.exchange(get("/")).status == 200
        eventually(lambda: own_upstream.connections[0].is_closed_by_gateway, "the gateway to close it")
        assert client.exchange(get("/")).status == 200
