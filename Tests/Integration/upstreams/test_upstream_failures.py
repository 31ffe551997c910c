"""A health service that is down, silent or speaks nonsense: 502 and 504, and never half an answer taken for a whole."""

import socket

import pytest

from support.client import Client, IncompleteResponse, get, post
from support.denials import assert_denied
from support.recording_upstream import OK, Gone
from support.waiting import eventually

A_MOMENT = {"connect_timeout": "300ms", "response_timeout": "300ms"}


@pytest.fixture
def behind(start_gateway, own_upstream, phone):
    """A client of a gateway in front of `own_upstream`."""
    gateway = start_gateway({"service": own_upstream.address})
    with Client(gateway, phone) as client:
        yield gateway, client


@pytest.fixture
def impatient(start_gateway, own_upstream, phone):
    """The same where the gateway waits only for a moment: on a slow machine, any answer may come too late for it."""
    gateway = start_gateway({"service": {"servers": [own_upstream.address], **A_MOMENT}})
    with Client(gateway, phone) as client:
        yield gateway, client


def answer_and_close(data, reset=False):
    def script(connection):
        connection.read_request()
        connection.send(data)
        if reset:
            connection.reset()
    return script


def test_a_refused_connection_is_upstream_unavailable(start_gateway, phone):
    # Bound and not listening: nobody else can take the port meanwhile.
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        gateway = start_gateway({"service": "127.0.0.1:%d" % nobody.getsockname()[1]})
        with Client(gateway, phone) as client:
            for request in [get("/"), post("/", b"hello"), get("/")]:
                entry = assert_denied(gateway, client.exchange(request), "upstream_unavailable", 502)
                server = "127.0.0.1:%d" % nobody.getsockname()[1]
                assert entry["detail"] == f"connecting to {server} failed: Connection refused"
                assert (entry["upstream"], entry["server"]) == ("service", server)


def test_a_connection_that_is_not_accepted_is_upstream_timeout(start_gateway, phone):
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        waiting = []
        try:
            # Once its queue is full the kernel answers further connections with silence.
            while True:
                one = socket.socket()
                one.settimeout(0.5)
                waiting.append(one)
                one.connect(full.getsockname())
        except TimeoutError:
            pass
        gateway = start_gateway({"service": {"servers": ["127.0.0.1:%d" % full.getsockname()[1]], **A_MOMENT}})
        with Client(gateway, phone) as client:
            assert_denied(gateway, client.exchange(get("/")), "upstream_timeout", 504)
        for one in waiting:
            one.close()


@pytest.mark.parametrize("reset", [False, True], ids=["close", "reset"])
@pytest.mark.parametrize("data", [
    b"", b"HTTP/1.1 200 OK\r\nContent-Le", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n", b"HTTP/1.1 100 Continue\r\n\r\n"])
def test_an_end_before_the_head_is_complete_is_upstream_unavailable(behind, own_upstream, data, reset):
    gateway, client = behind
    own_upstream.script = answer_and_close(data, reset)
    assert_denied(gateway, client.exchange(get("/")), "upstream_unavailable", 502)
    # The client did nothing wrong: its connection stays open.
    own_upstream.script = None
    assert client.exchange(get("/")).status == 200


MALFORMED = {
    "garbage": b"\x00\x01\x02 what is this\r\n\r\n",
    "HTTP/0.9": b"<html>hello</html>\r\n\r\n",
    "HTTP/2": b"HTTP/2 200 OK\r\nContent-Length: 2\r\n\r\nok",
    "status of two digits": b"HTTP/1.1 20 OK\r\nContent-Length: 2\r\n\r\nok",
    "status 999": b"HTTP/1.1 999 OK\r\nContent-Length: 2\r\n\r\nok",
    "bare LF": b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok",
    "Content-Length twice": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok",
    "Content-Length with Transfer-Encoding": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "Content-Length +2": b"HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nok",
    "unknown transfer coding": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
    "obs-fold": b"HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 2\r\n\r\nok",
    "space before colon": b"HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\nok",
    "NUL in a field": b"HTTP/1.1 200 OK\r\nX: a\0b\r\nContent-Length: 2\r\n\r\nok",
    "101 unasked": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n",
    "a head without an end": b"HTTP/1.1 200 OK\r\nX: " + b"a" * 40000,
    "too many fields": b"HTTP/1.1 200 OK\r\n" + b"X: a\r\n" * 500 + b"\r\n",
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_response_is_upstream_unavailable(behind, own_upstream, name):
    gateway, client = behind
    own_upstream.answer = MALFORMED[name]
    assert_denied(gateway, client.exchange(get("/")), "upstream_unavailable", 502)
    own_upstream.answer = OK
    assert client.exchange(get("/")).status == 200


TRUNCATED = {
    "Content-Length": b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this",
    "no content at all": b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n",
    "chunked": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
    "within a chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n50\r\nhello",
    "before the trailer's end": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n",
    "malformed chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0x5\r\n",
}


@pytest.mark.parametrize("name", TRUNCATED)
def test_a_truncated_response_never_looks_complete(behind, own_upstream, name):
    gateway, client = behind
    own_upstream.script = answer_and_close(TRUNCATED[name])
    with pytest.raises(IncompleteResponse):
        assert client.exchange(get("/")).status == 502, "cut off, or refused before the first byte"
        raise IncompleteResponse
    entry = gateway.logged(denial="upstream_unavailable")
    assert entry["status"] in (200, 502) and entry["fault"] == "upstream"


def test_a_reset_does_not_end_a_response_that_lasts_until_the_connection_closes(behind, own_upstream):
    gateway, client = behind
    own_upstream.script = answer_and_close(b"HTTP/1.1 200 OK\r\n\r\nnot all of it", reset=True)
    with pytest.raises(IncompleteResponse):
        assert client.exchange(get("/")).status == 502, "cut off, or refused before the first byte"
        raise IncompleteResponse


def silent(data):
    def script(connection):
        connection.read_request()
        connection.send(data)
        connection.wait_for_end()
    return script


@pytest.mark.parametrize("data", [b"", b"HTTP/1.1 200 OK\r\nContent-", b"HTTP/1.1 100 Continue\r\n\r\n"])
def test_silence_before_the_head_is_complete_is_upstream_timeout(impatient, own_upstream, data):
    gateway, client = impatient
    own_upstream.script = silent(data)
    assert_denied(gateway, client.exchange(get("/")), "upstream_timeout", 504)
    own_upstream.script = None
    eventually(lambda: client.exchange(get("/")).status == 200, "an answer in time")


def test_silence_within_the_content_cuts_the_response_off(impatient, own_upstream):
    gateway, client = impatient
    own_upstream.script = silent(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this")

    def is_cut_off():
        try:
            assert client.exchange(get("/")).status == 504, "a response of which the rest never came"
            return False
        except IncompleteResponse:
            return True
    eventually(is_cut_off, "a response that began in time")
    gateway.logged(denial="upstream_timeout", status=200)


def test_a_request_above_the_connection_limit_is_upstream_busy_without_a_queue(start_gateway, own_upstream, phone):
    gateway = start_gateway({"service": {"servers": [own_upstream.address], "connections": 1, "idle_connections": 1, "waiting": 0}})
    own_upstream.script = silent(b"")
    with Client(gateway, phone) as first, Client(gateway, phone) as second:
        first.send(get("/first"))
        own_upstream.wait_for_requests(1)
        assert_denied(gateway, second.exchange(get("/second")), "upstream_busy", 503)


def test_the_next_server_is_tried_when_one_refuses(start_gateway, own_upstream, phone):
    with socket.socket() as one, socket.socket() as other:
        dead = []
        for nobody in (one, other):
            nobody.bind(("127.0.0.1", 0))
            dead.append("127.0.0.1:%d" % nobody.getsockname()[1])
        gateway = start_gateway({"service": {"servers": [*dead, own_upstream.address]}})
        for _ in range(6):
            with Client(gateway, phone) as client:
                assert client.exchange(post("/", b"hello")).status == 200
    assert [r.content for r in own_upstream.requests] == [b"hello"] * 6


def test_a_connection_with_unsolicited_data_is_not_used_again(behind, own_upstream):
    gateway, client = behind

    def script(connection):
        try:
            connection.read_request()
            connection.send(OK + b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison")
            connection.wait_for_end()
        except Gone:
            pass
    own_upstream.script = script
    for _ in range(5):
        # Never the answer that was sent ahead, which could be meant for another client.
        assert client.exchange(get("/")).content == b"ok"


def test_a_response_longer_than_its_length_is_cut_there(behind, own_upstream):
    gateway, client = behind
    own_upstream.answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok" + b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison"
    for _ in range(3):
        assert client.exchange(get("/")).content == b"ok"
    assert len(own_upstream.connections) == 3, "such a connection is not used again"
