"""No wait for a client is without an end: each state that a connection can stay in, and what ends it.

The table of docs/operations/limits.md names the tests; those of thousands at once are in `test_flood`.
"""

import re
import socket
import ssl
import threading
import time

import pytest

import denials
from client import Client, IncompleteResponse, get
from denials import assert_denied
from exposition import scrape
from paths import PATIENCE, REPOSITORY
from recording_upstream import OK, Gone
from waiting import eventually

# More than the kernels between a service and a client hold.
ENDLESS = 1 << 40
BLOCK = bytes(1 << 16)
TIMEOUTS = {"head": "1s", "content_idle": "1s"}


class Talker:
    """A service that answers with content without end as soon as it has the head, whatever becomes of the request."""

    def __init__(self):
        self.sent = 0
        self.last, self.since = -1, 0.0

    def __call__(self, connection):
        connection.read_head()
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % ENDLESS)
        try:
            while True:
                connection.send(BLOCK)
                self.sent += len(BLOCK)
        except OSError:
            raise Gone from None

    def is_stopped(self):
        """Whether nothing was taken of it for a while, as the client takes nothing. When that is decides nothing."""
        if self.sent != self.last:
            self.last, self.since = self.sent, time.monotonic()
        return self.sent > 0 and time.monotonic() > self.since + 0.3


@pytest.fixture
def talker(own_upstream):
    own_upstream.script = Talker()
    return own_upstream.script


@pytest.fixture
def start(start_gateway, own_upstream):
    def start(**timeouts):
        return start_gateway(
            {"service": own_upstream.address}, [{"name": "all", "host": "localhost", "path": "/", "content_limit": "1GiB"}],
            timeouts={**TIMEOUTS, **timeouts})
    return start


def assert_cut_off(gateway, code="response_not_taken"):
    """The log and the metrics say why, and nothing of it stays."""
    entry = gateway.logged(denial=code)
    assert entry["aborted"] and entry["status"] == 200 and entry["decision"] == "forwarded", entry
    denials.exercised.add("responseNotTaken")
    assert scrape(gateway)("attestgate_denials_total", code=code) == 1
    eventually(lambda: gateway.connections() == 0, "both connections to be closed")


def test_an_unused_connection_is_closed_in_order(start, own_upstream, phone):
    gateway = start(keep_alive="3s")
    with Client(gateway, phone) as client:
        assert client.exchange(get("/")).status == 200
        client.assert_closed()


def test_a_connection_without_a_single_request_is_closed_in_order(start, phone):
    gateway = start(keep_alive="1s")
    with Client(gateway, phone) as client:
        client.assert_closed()


def test_who_does_not_take_the_response_is_cut_off(start, talker, phone):
    gateway = start()
    with Client(gateway, phone, receive_buffer=4096) as client:
        client.send(get("/"))
        assert_cut_off(gateway)


def test_who_takes_the_response_ever_so_slowly_is_cut_off(start, talker, phone):
    """It reads all the time, and never as much as the rate asks for: the pauses that are left between two writes of the
    gateway are shorter than what is admitted. On a busy machine they may not be; then it is cut off for one."""
    gateway = start(content_idle="3s", content_rate="1MiB/s")
    with Client(gateway, phone, receive_buffer=65536) as client:
        client.send(get("/"))
        # Below TLS: what comes is not for reading.
        with socket.socket(fileno=client.socket.detach()) as plain:
            plain.settimeout(PATIENCE)

            def is_cut_off():
                time.sleep(len(plain.recv(65536)) / 700_000)
                return any("denial" in entry for entry in gateway.access())
            eventually(is_cut_off, "the gateway to lose patience")
    assert_cut_off(gateway)


def test_content_that_ends_does_not_end_the_time_to_take_the_response(start, talker, phone):
    gateway = start(content_idle="3s")
    with Client(gateway, phone, receive_buffer=4096) as client:
        client.send(get("/", "Content-Length: 50", method="POST"))
        eventually(talker.is_stopped, "the service to be stopped")
        # One by one: each has the gateway try to write, and at the last the kernel takes nothing more.
        for _ in range(50):
            client.send(b"x")
            time.sleep(0.005)
        assert_cut_off(gateway)


def test_content_that_nobody_takes_does_not_end_the_time_to_take_the_response(start, talker, phone):
    """Client and service both send and take nothing: each could wait for the other for ever."""
    gateway = start(content_idle="3s")
    with Client(gateway, phone, receive_buffer=4096) as client:
        client.send(get("/", f"Content-Length: {1 << 29}", method="POST"))
        client.socket.setblocking(False)

        def is_full():
            try:
                client.socket.send(BLOCK)
                return False
            except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
                return talker.is_stopped()
            except OSError:
                return True
        eventually(is_full, "nobody to take anything any more")
        assert_cut_off(gateway)


def test_content_that_stops_behind_the_head_of_the_response_is_cut_off(start, own_upstream, phone):
    """Too late for a 408: what was answered stays the answer, and the log says how it ended."""
    stop = threading.Event()

    def script(connection):
        connection.read_head()
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello")
        stop.wait(30)
    own_upstream.script = script
    gateway = start()
    with Client(gateway, phone) as client:
        client.send(get("/", "Content-Length: 6", method="POST") + b"hello")
        assert client.read_head().status == 200
        with pytest.raises(IncompleteResponse):
            client._exactly(10)
        assert_cut_off(gateway, "request_timeout")
    stop.set()


def test_who_does_not_send_what_100_continue_asks_for_is_denied(start, own_upstream, phone):
    gateway = start()
    with Client(gateway, phone) as client:
        client.send(get("/", "Content-Length: 5", "Expect: 100-continue", method="POST"))
        assert client.read_head().status == 100
        assert_denied(gateway, client.read_response("POST"), "request_timeout", 408)
        client.assert_closed()


def test_who_waits_for_100_continue_behind_others_is_not_hurried(start_gateway, own_upstream, phone):
    """The time for content begins when it is asked for (RFC 9110 section 10.1.1)."""
    release = threading.Event()

    def answer(request):
        if request.target == "/first":
            release.wait(PATIENCE)
        return OK
    own_upstream.answer = answer
    gateway = start_gateway(
        {"service": {"servers": [own_upstream.address], "connections": 1, "idle_connections": 1, "waiting_timeout": "1m"}},
        timeouts=TIMEOUTS)
    with Client(gateway, phone) as first, Client(gateway, phone) as second:
        first.send(get("/first"))
        own_upstream.wait_for_requests(1)
        second.send(get("/second", "Content-Length: 5", "Expect: 100-continue", method="POST"))
        eventually(lambda: scrape(gateway)("attestgate_upstream_waiting", upstream="service") == 1, "it to wait")
        # The longer this takes the better.
        time.sleep(1.3)
        release.set()
        assert first.read_response().status == 200
        assert second.read_head().status == 100
        assert second.exchange(b"hello", "POST").status == 200
    assert own_upstream.last_request().content == b"hello"


def test_a_refused_client_that_sends_on_is_cut_off(start, own_upstream, phone):
    gateway = start()
    with Client(gateway, phone) as client:
        client.send(b"GET / HTTP/1.1\r\nHost : localhost\r\n\r\n")
        assert client.read_response().status == 400
        client.socket.setblocking(False)

        def is_ended():
            try:
                client.socket.send(b"a")
            except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
                pass
            except OSError:
                return True
            return False
        eventually(is_ended, "the gateway to listen no more")


def test_each_wait_of_the_table_is_tested():
    page = (REPOSITORY / "docs" / "operations" / "limits.md").read_text()
    table = re.search(r"(?ms)^### Every wait has an end\n(.*?)(?=^#|\Z)", page)[1]
    rows = [line for line in table.splitlines() if line.startswith("| ") and "| test |" not in line]
    assert len(rows) >= 15
    sources = "\n".join(path.read_text() for path in (REPOSITORY / "Tests" / "Integration").glob("*.py"))
    for row in rows:
        named = re.findall(r"`(test_\w+)`", row)
        assert named, f"no test: {row}"
        for name in named:
            assert f"def {name}(" in sources, name
