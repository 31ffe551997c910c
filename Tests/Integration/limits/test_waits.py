"""No wait for a client is without an end: each state that a connection can stay in, and what ends it.

docs/operations/limits.md lists them, and `WAITS` has the tests; those of thousands at once are in `test_flood`.
"""

import re
import socket
import ssl
import threading
import time

import pytest

from support import denials
from support.client import Client, IncompleteResponse, get
from support.denials import assert_denied
from support.exposition import scrape
from support.paths import PATIENCE, REPOSITORY
from support.recording_upstream import OK, Gone
from support.waiting import at_some_pace, eventually

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
    def attempt(seconds):
        with Client(start(keep_alive=f"{seconds}s"), phone) as client:
            assert client.exchange(get("/")).status == 200
            client.assert_closed()
    at_some_pace(attempt)


def test_a_connection_without_a_single_request_is_closed_in_order(start, phone):
    gateway = start(keep_alive="1s")
    with Client(gateway, phone) as client:
        client.assert_closed()


def test_a_client_that_does_not_read_the_response_is_cut_off(start, talker, phone):
    gateway = start()
    with Client(gateway, phone, receive_buffer=4096) as client:
        client.send(get("/"))
        assert_cut_off(gateway)


def test_a_client_that_reads_below_the_rate_is_cut_off(start, talker, phone):
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


def test_the_end_of_content_does_not_end_the_response_timeout(start, talker, phone):
    def attempt(seconds):
        gateway = start(content_idle=f"{seconds}s")
        with Client(gateway, phone, receive_buffer=4096) as client:
            client.send(get("/", "Content-Length: 50", method="POST"))
            eventually(talker.is_stopped, "the service to be stopped")
            # One by one: each has the gateway try to write, and at the last the kernel takes nothing more.
            for _ in range(50):
                client.send(b"x")
                time.sleep(0.005)
            assert_cut_off(gateway)
    at_some_pace(attempt, (2, 8, 32))


def test_unread_content_does_not_end_the_response_timeout(start, talker, phone):
    """Client and service both send and read nothing: each could wait for the other for ever."""
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
    """Too late for a 408: the response stays, and the log says how it ended."""
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


def test_a_client_that_sends_nothing_after_100_continue_is_denied(start, own_upstream, phone):
    gateway = start()
    with Client(gateway, phone) as client:
        client.send(get("/", "Content-Length: 5", "Expect: 100-continue", method="POST"))
        assert client.read_head().status == 100
        assert_denied(gateway, client.read_response("POST"), "request_timeout", 408)
        client.assert_closed()


def test_waiting_for_100_continue_behind_others_does_not_time_out(start_gateway, own_upstream, phone):
    """The time for content begins when it is asked for (RFC 9110 section 10.1.1)."""
    def attempt(seconds):
        release = threading.Event()

        def answer(request):
            if request.target == "/first":
                release.wait(4 * PATIENCE)
            return OK
        own_upstream.answer = answer
        gateway = start_gateway(
            {"service": {"servers": [own_upstream.address], "connections": 1, "idle_connections": 1, "waiting_timeout": "2m"}},
            timeouts={**TIMEOUTS, "content_idle": f"{seconds}s"})
        begun = len(own_upstream.requests)
        with Client(gateway, phone) as first, Client(gateway, phone) as second:
            first.send(get("/first"))
            own_upstream.wait_for_requests(begun + 1)
            second.send(get("/second", "Content-Length: 5", "Expect: 100-continue", method="POST"))
            eventually(lambda: scrape(gateway)("attestgate_upstream_waiting", upstream="service") == 1, "it to wait")
            # The longer this takes the better.
            time.sleep(1.3 * seconds)
            release.set()
            assert first.read_response().status == 200
            assert second.read_head().status == 100
            assert second.exchange(b"hello", "POST").status == 200
        assert own_upstream.last_request().content == b"hello"
    at_some_pace(attempt)


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


# The waits that docs/operations/limits.md lists, and the tests that show the end of each.
WAITS = {
    # Of a client.
    "handshake": [
        "test_a_handshake_that_is_not_finished_in_time_is_closed", "test_a_trickling_handshake_does_not_move_its_deadline"],
    "request": [
        "test_a_connection_without_a_single_request_is_closed_in_order", "test_an_unused_connection_is_closed_in_order",
        "test_an_idle_connection_ends_with_its_certificate"],
    "rest of a head": [
        "test_a_head_that_does_not_come_in_time_is_request_timeout", "test_a_trickling_head_does_not_move_its_deadline"],
    "content": [
        "test_content_that_does_not_come_in_time_is_request_timeout", "test_endlessly_trickling_content_is_denied",
        "test_a_streaming_client_may_pause_as_long_as_its_route_permits",
        "test_a_client_that_sends_nothing_after_100_continue_is_denied",
        "test_waiting_for_100_continue_behind_others_does_not_time_out",
        "test_content_that_stops_behind_the_head_of_the_response_is_cut_off"],
    "reading, also of a WebSocket": [
        "test_a_client_that_does_not_read_the_response_is_cut_off", "test_a_client_that_reads_below_the_rate_is_cut_off",
        "test_the_end_of_content_does_not_end_the_response_timeout",
        "test_unread_content_does_not_end_the_response_timeout",
        "test_a_client_that_never_reads_is_cut_off"],
    "rest of a request answered early, and close after a refusal (also of a handshake) or GOAWAY": [
        "test_a_refused_client_cannot_extend_its_time_with_single_bytes",
        "test_a_refused_client_that_sends_on_is_cut_off",
        "test_a_client_refused_in_its_handshake_is_closed_soon",
        "test_a_flood_is_ended_while_others_are_served"],
    "TLS records without content": ["test_key_updates_without_end_end_the_connection"],
    # Of others.
    "device or counter in the registry": ["test_a_hanging_store_closes_every_route"],
    "PostgreSQL": ["test_a_hanging_database_closes_every_route"],
    "address of a server": ["test_a_silent_nameserver_delays_no_other_request"],
    "free connection or stream": [
        "test_a_wait_without_end_is_upstream_busy",
        "test_requests_without_a_stream_wait_and_time_out"],
    "new connection": ["test_a_connection_that_is_not_accepted_is_upstream_timeout"],
    "server's TLS handshake or SETTINGS": [
        "test_a_handshake_answered_by", "test_a_server_that_speaks_something_else_gets_no_request"],
    "server taking content": [
        "test_a_service_that_takes_no_content_any_more_is_upstream_timeout",
        "test_a_service_that_takes_nothing_for_too_long_loses_the_tunnel"],
    "head of the response": ["test_silence_before_the_head_is_complete_is_upstream_timeout"],
    "content of the response": [
        "test_silence_within_the_content_cuts_the_response_off",
        "test_an_upload_may_pause_longer_than_the_service_after_an_early_response"],
    "health check": ["test_a_server_that_is_not_well_is_known_before_the_first_request"],
    "next request on a kept connection": ["test_an_unused_connection_to_the_service_is_closed_after_its_time"],
    "data in a WebSocket": ["test_an_idle_tunnel_and_one_beyond_its_life_end"],
    "end of a WebSocket": [
        "test_a_busy_tunnel_ends_with_its_life", "test_a_tunnel_ends_with_its_clients_certificate",
        "test_a_service_that_does_not_end_is_not_waited_for"],
    "load balancers at a stop": [
        "test_a_stopping_gateway_accepts_connections_for_the_delay_and_a_second_signal_ends_it",
        "test_requests_in_flight_finish_after_the_delay"],
    "requests in flight at a stop": ["test_requests_in_flight_get_at_most_the_shutdown_time"],
    # Of whole connections of HTTP/2.
    "request, with none in flight": [
        "test_an_idle_connection_is_ended_with_goaway",
        "test_a_certificate_that_ends_ends_the_connection_but_not_its_requests"],
    "rest of fields, which blocks other frames": [
        "test_a_head_that_is_not_completed_is_answered_408_and_ends_the_connection",
        "test_an_endless_field_block_ends_the_connection_even_on_a_closed_stream"],
    "end of a stream after Content-Length 0, 16 at once": [
        "test_a_request_deferred_too_long_is_answered_408_and_the_connection_continues"],
    "content, while other streams hold the window": ["test_a_stream_delayed_by_others_does_not_time_out"],
    "reading": ["test_a_client_that_reads_nothing_is_ended"],
    "requests in transit at the worker's end": ["test_streams_are_completed_when_the_gateway_ends_or_reloads"],
}


def test_each_wait_of_the_page_is_tested():
    page = (REPOSITORY / "docs" / "operations" / "limits.md").read_text()
    section = re.search(r"(?ms)^## Timeouts\n(.*?)(?=^#|\Z)", page)[1]
    assert set(re.findall(r"(?m)^- (.+?):\s", section)) == set(WAITS)
    sources = "\n".join(path.read_text() for path in (REPOSITORY / "Tests" / "Integration").rglob("*.py"))
    missing = [name for names in WAITS.values() for name in names if f"def {name}(" not in sources]
    assert missing == []
