"""Many requests on one connection of HTTP/2: each has its own proof, pace and end."""

import hashlib
import random
import socket
import struct
import threading
import time

import h2.errors
import h2.settings
import pytest

from support import seeds
from support.denials import assert_connection_refused, assert_denied, assert_used_before_the_start
from support.exposition import scrape
from support.http2_client import ConnectionOver, HTTP2Client, Stream
from support.http2_frames import GOAWAY, frame, headers, literal
from support.pki import attestgate
from support.recording_upstream import Held, answering
from support.waiting import eventually

Codes = h2.errors.ErrorCodes


@pytest.fixture
def http2(gateway, phone):
    with HTTP2Client(gateway, phone) as client:
        yield client


def test_a_hundred_concurrent_attested_requests_pass_once_in_any_order(start_attested):
    seed = seeds.seed()
    attested = start_attested(counter="window 1024")
    held = Held(attested.upstream)
    phone = attested.phone
    requests = [phone.request(path=f"/{n}") for n in range(100)]
    with HTTP2Client(attested.gateway, phone.identity) as http2:
        numbers = [http2.begin(data) for data in requests]
        attested.upstream.wait_for_requests(100)
        order = list(range(100))
        random.Random(seed).shuffle(order)
        for place in order:
            held.release(f"/{place}")
        for place, number in enumerate(numbers):
            response = http2.response(number)
            assert (response.status, response.content) == (200, f"/{place}".encode())
        with attested.nothing_forwarded():
            responses = [http2.response(number) for number in [http2.begin(data) for data in requests]]
            assert {response.status for response in responses} == {401}
            assert_denied(attested.gateway, responses[50], "counter_replayed", 401)
    assert sorted(r.target for r in attested.upstream.requests if r.target != "/sentinel") == sorted(
        f"/{n}" for n in range(100))
    # Nor do they pass with HTTP/1.1, nor after a crash.
    attested.gateway.crash()
    attested.gateway.start()
    for connect in (phone.connect, lambda: HTTP2Client(attested.gateway, phone.identity)):
        with attested.nothing_forwarded(), connect() as client:
            assert_used_before_the_start(attested.gateway, client, phone, *requests[:10])


def test_with_strict_counters_concurrent_requests_out_of_order_are_refused(start_attested):
    attested = start_attested()
    phone = attested.phone
    early, late = phone.request(path="/early"), phone.request(path="/late")
    with HTTP2Client(attested.gateway, phone.identity) as http2:
        assert http2.response(http2.begin(late)).status == 200
        assert_denied(attested.gateway, http2.response(http2.begin(early)), "counter_late", 401)


def test_a_proof_is_valid_in_every_version_of_http(attested):
    # What is signed is the same, byte for byte.
    phone = attested.phone
    data = phone.request(method="POST", path="/a", query="b=c", content=b"x")
    with HTTP2Client(attested.gateway, phone.identity) as http2:
        assert http2.exchange(data).status == 200
        seen = attested.upstream.last_request()
        assert (seen.target, seen.content) == ("/a?b=c", b"x")
    with attested.nothing_forwarded(), phone.connect() as client:
        assert_denied(attested.gateway, client.exchange(data), "counter_replayed", 401)


def test_a_slow_service_stops_only_its_own_client_stream(start_gateway, own_upstream, phone):
    gateway = start_gateway(
        {"service": own_upstream.address}, [{"name": "all", "host": "localhost", "path": "/", "content_limit": "64MiB"}])
    with HTTP2Client(gateway, phone) as http2:
        send_beside_others(own_upstream, http2)


def send_beside_others(upstream, http2):
    resume = threading.Event()

    def slow(connection):
        if connection.read_head().target.startswith("/slow"):
            resume.wait(60)
            request = connection.read_request()
            connection.send(answering(hashlib.sha256(request.content).hexdigest().encode()))
            connection.wait_for_end()
        else:
            while True:
                connection.read_request()
                connection.send(answering(b"quick"))
    upstream.script = slow
    data = random.Random(3).randbytes(8_000_000)
    number = http2.start("POST", "/slow", [("content-length", str(len(data)))], end=False)
    sent = 0
    # What kernels and windows take, they take; then the window stays shut.
    while sent < len(data):
        room = min(http2.h2.local_flow_control_window(number), 16_384, len(data) - sent)
        if room > 0:
            http2.h2.send_data(number, data[sent:sent + room])
            http2.flush()
            sent += room
        elif not http2.pump_for(1):
            break
    assert sent < len(data)
    for n in range(20):
        assert http2.get(f"/quick/{n}").content == b"quick"
    resume.set()
    http2.send(number, data[sent:], end=True)
    assert http2.response(number).content == hashlib.sha256(data).hexdigest().encode()


def test_a_client_that_does_not_read_one_response_gets_the_others(gateway, upstream, http2):
    data = random.Random(4).randbytes(5_000_000)
    upstream.answer = lambda request: answering(data if request.target == "/big" else b"small")
    big = http2.start("GET", "/big")
    http2.stop_reading(big)
    http2.head(big)
    for n in range(20):
        assert http2.get(f"/{n}").content == b"small"
    assert not http2.streams[big].is_ended
    http2.read_on(big)
    assert http2.response(big).content == data


def test_a_client_that_resets_a_stream_ends_its_request_at_the_service(start_gateway, own_upstream, phone):
    gateway = start_gateway({"service": own_upstream.address})
    ended = threading.Event()

    def wait(connection):
        connection.read_request()
        connection.wait_for_end()
        ended.set()
    own_upstream.script = wait
    with HTTP2Client(gateway, phone) as http2:
        number = http2.start("GET", "/left")
        own_upstream.wait_for_requests(1)
        http2.reset(number)
        assert ended.wait(30)
        assert gateway.logged(aborted=True, protocol="HTTP/2")
        own_upstream.reset_behaviour()
        assert http2.get("/").status == 200


def test_an_unread_response_is_reset_and_the_connection_continues(start_gateway, own_upstream, phone):
    gateway = start_gateway({"service": own_upstream.address}, timeouts={"content_idle": "1s"})
    own_upstream.answer = lambda request: answering(bytes(1_000_000) if request.target == "/big" else b"small")
    with HTTP2Client(gateway, phone) as http2:
        number = http2.start("GET", "/big")
        http2.stop_reading(number)
        http2.pump_until(lambda: http2.streams[number].reset is not None)
        assert http2.streams[number].reset == Codes.INTERNAL_ERROR
        entry = gateway.logged(denial="response_not_taken")
        assert entry["status"] == 200 and entry["protocol"] == "HTTP/2"
        assert http2.get("/small").content == b"small"


def test_an_end_that_finds_no_window_is_waited_for_like_content(start_gateway, own_upstream, phone):
    """END_STREAM takes a DATA frame, which a client that opens no window never gets."""
    gateway = start_gateway({"service": own_upstream.address}, timeouts={"content_idle": "1s"})
    own_upstream.answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    with HTTP2Client(gateway, phone) as http2:
        http2.h2.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 0})
        http2.flush()
        http2.ping()
        number = http2.start("GET", "/")
        http2.pump_until(lambda: http2.streams[number].reset is not None)
        assert http2.streams[number].reset == Codes.INTERNAL_ERROR
    assert gateway.logged(denial="response_not_taken")["protocol"] == "HTTP/2"


def test_a_client_that_disconnects_during_its_content_harms_no_other(start_attested):
    """Use after free: the connection breaks during another connection's event."""
    seed = seeds.seed()
    choose = random.Random(seed)
    attested = start_attested(counter="window 1024")
    phone = attested.phone
    for number in range(60):
        http2 = HTTP2Client(attested.gateway, phone.identity)
        try:
            for part in range(choose.randrange(1, 12)):
                http2.begin(phone.request(
                    method="POST", path=f"/stream/{number}-{part}", content=bytes(choose.randrange(1, 40_000))))
        except (OSError, ConnectionOver):
            pass
        http2.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        http2.close()
    assert attested.gateway.process.poll() is None, attested.gateway.errors
    with HTTP2Client(attested.gateway, phone.identity) as http2:
        assert http2.exchange(phone.request(path="/after")).status == 200


def test_missing_content_is_answered_408_and_the_connection_continues(start_gateway, own_upstream, phone):
    gateway = start_gateway({"service": own_upstream.address}, timeouts={"content_idle": "1s"})
    with HTTP2Client(gateway, phone) as http2:
        number = http2.start("POST", "/", [("content-length", "10")], end=False)
        http2.send(number, b"x")
        assert_denied(gateway, http2.response(number), "request_timeout", 408)
        assert http2.get("/").status == 200


def test_a_head_that_is_not_completed_is_answered_408_and_ends_the_connection(start_gateway, own_upstream, phone):
    gateway = start_gateway({"service": own_upstream.address}, timeouts={"head": "1s"})
    with HTTP2Client(gateway, phone) as http2:
        http2.ping()
        number = http2.h2.get_next_available_stream_id()
        http2.h2.send_headers(
            number, [(":method", "GET"), (":scheme", "https"), (":authority", "localhost"), (":path", "/")],
            end_stream=True)
        frame = bytearray(http2.h2.data_to_send())
        # Without END_HEADERS.
        frame[4] &= ~0x4
        http2.streams[number] = Stream()
        http2.send_bytes(bytes(frame))
        assert_denied(gateway, http2.response(number), "request_timeout", 408)
        http2.wait_for_end()
        assert http2.going_away
    assert own_upstream.byte_count == 0


def test_a_head_request_whose_head_is_late_is_answered_without_content(start_gateway, own_upstream, phone):
    gateway = start_gateway({"service": own_upstream.address}, timeouts={"head": "1s"})
    with HTTP2Client(gateway, phone) as http2:
        http2.ping()
        number = http2.h2.get_next_available_stream_id()
        http2.h2.send_headers(
            number, [(":method", "HEAD"), (":scheme", "https"), (":authority", "localhost"), (":path", "/")], end_stream=True)
        frame = bytearray(http2.h2.data_to_send())
        # Without END_HEADERS.
        frame[4] &= ~0x4
        http2.streams[number] = Stream()
        http2.send_bytes(bytes(frame))
        response = http2.response(number)
        assert_denied(gateway, response, "request_timeout", 408, method="HEAD")
        assert response.content == b""


@pytest.mark.parametrize("others", [0, 3])
def test_a_deferred_request_is_refused_when_the_gateway_stops_and_never_lost(
        start_gateway, own_upstream, phone, others):
    """Content-Length 0 without END_STREAM: the request waits for its end."""
    gateway = start_gateway({"service": own_upstream.address}, timeouts={"shutdown": "20s"})
    held = Held(own_upstream)
    with HTTP2Client(gateway, phone) as http2:
        numbers = [http2.start("GET", f"/{n}") for n in range(others)]
        own_upstream.wait_for_requests(others)
        waiting = http2.start("POST", "/held", [("content-length", "0")], end=False)
        http2.ping()
        gateway.signal()
        http2.pump_until(lambda: http2.streams[waiting].reset is not None)
        assert http2.streams[waiting].reset == Codes.REFUSED_STREAM
        for n, number in enumerate(numbers):
            held.release(f"/{n}")
            assert http2.response(number).content == f"/{n}".encode()
        http2.wait_for_end()
    assert gateway.wait() == 0
    assert not [r for r in own_upstream.requests if r.target == "/held"]


def test_a_deferred_request_is_served_when_its_end_arrives(gateway, upstream, http2):
    number = http2.start("POST", "/held", [("content-length", "0")], end=False)
    http2.ping()
    http2.send(number, end=True)
    assert http2.response(number).status == 200 and upstream.last_request().target == "/held"


def test_a_request_deferred_too_long_is_answered_408_and_the_connection_continues(
        start_gateway, own_upstream, phone):
    gateway = start_gateway({"service": own_upstream.address}, timeouts={"head": "1s"})
    with HTTP2Client(gateway, phone) as http2:
        waiting = http2.start("POST", "/held", [("content-length", "0")], end=False)
        assert_denied(gateway, http2.response(waiting), "request_timeout", 408)
        assert http2.get("/").status == 200
        assert not http2.going_away
    assert [r.target for r in own_upstream.requests] == ["/"]


def test_an_endless_field_block_ends_the_connection_even_on_a_closed_stream(start_gateway, own_upstream, phone):
    gateway = start_gateway({"service": own_upstream.address}, timeouts={"head": "1s"})
    held = Held(own_upstream)
    with HTTP2Client(gateway, phone) as http2:
        # Fields behind the client's own END_STREAM would end the connection at once.
        over = http2.start("POST", "/over", end=False)
        http2.reset(over)
        under_way = http2.start("GET", "/under_way")
        own_upstream.wait_for_requests(1)
        http2.ping()
        http2.send_bytes(headers(over, literal(b"x-t", b"1"), ends_block=False))
        http2.pump_until(lambda: http2.going_away)
        assert http2.going_away == [(Codes.NO_ERROR, under_way)]
        # What is under way is completed.
        held.release("/under_way")
        assert http2.response(under_way).status == 200
        http2.wait_for_end()


def test_open_streams_are_counted(start_gateway, own_upstream, phone):
    gateway = start_gateway({"service": own_upstream.address})
    held = Held(own_upstream)
    with HTTP2Client(gateway, phone) as http2, HTTP2Client(gateway, phone) as second:
        numbers = [http2.start("GET", f"/{n}") for n in range(5)]
        second.start("GET", "/second")
        own_upstream.wait_for_requests(6)
        assert scrape(gateway)("attestgate_http2_streams", worker="0") == 6
        held.release("/0")
        http2.response(numbers[0])
        http2.reset(numbers[1])
        http2.ping()
        assert scrape(gateway)("attestgate_http2_streams", worker="0") == 4
        for n in range(5):
            held.release(f"/{n}")
        for number in numbers[2:]:
            http2.response(number)
    eventually(lambda: scrape(gateway)("attestgate_http2_streams", worker="0") == 0, "all to end")
    held.release("/second")


def test_an_idle_connection_is_ended_with_goaway(start_gateway, own_upstream, phone):
    gateway = start_gateway({"service": own_upstream.address}, timeouts={"keep_alive": "1s"})
    with HTTP2Client(gateway, phone) as http2:
        number = http2.start("GET", "/")
        http2.response(number)
        http2.wait_for_end()
        assert http2.going_away == [(Codes.NO_ERROR, number)]


def test_a_connection_accepts_its_configured_number_of_requests(start_gateway, own_upstream, phone):
    gateway = start_gateway({"service": own_upstream.address}, limits={"requests_per_connection": 3})
    with HTTP2Client(gateway, phone) as http2:
        numbers = [http2.start("GET", f"/{n}") for n in range(5)]
        for number in numbers[:3]:
            assert http2.response(number).status == 200
        http2.wait_for_end()
        # The client knows that it may send the others again.
        assert http2.going_away[-1][0] == Codes.NO_ERROR
        covered = http2.going_away[-1][1]
        assert [http2.streams[n].response for n in numbers[3:]] == [None, None]
        assert all(http2.streams[n].reset == Codes.REFUSED_STREAM for n in numbers[3:] if n <= covered)
    assert sorted(r.target for r in own_upstream.requests) == ["/0", "/1", "/2"]


def test_concurrent_streams_are_limited(start_gateway, own_upstream, phone):
    gateway = start_gateway({"service": own_upstream.address}, limits={"streams": 4})
    held = Held(own_upstream)
    with HTTP2Client(gateway, phone) as http2:
        http2.ping()
        assert http2.h2.remote_settings.max_concurrent_streams == 4
        # As a client that does not care.
        http2.h2.remote_settings[h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS] = 100
        http2.h2.remote_settings.acknowledge()
        numbers = [http2.start("GET", f"/{n}") for n in range(4)]
        own_upstream.wait_for_requests(4)
        for n in range(4, 6):
            http2.start("GET", f"/{n}")
        http2.wait_for_end()
        # It may have said so in full knowledge: RFC 9113 section 5.1.2 lets the stream's error be the connection's.
        assert http2.going_away == [(Codes.PROTOCOL_ERROR, numbers[3])]
        for n in range(4):
            held.release(f"/{n}")
    assert_connection_refused(gateway, "protocol_broken")
    assert len(own_upstream.requests) == 4


@pytest.mark.parametrize("how", ["SIGTERM", "reload"])
def test_streams_are_completed_when_the_gateway_ends_or_reloads(start_gateway, own_upstream, phone, how):
    gateway = start_gateway({"service": own_upstream.address}, timeouts={"shutdown": "20s"})
    held = Held(own_upstream)
    with HTTP2Client(gateway, phone) as http2:
        numbers = [http2.start("GET", f"/{n}") for n in range(10)]
        own_upstream.wait_for_requests(10)
        if how == "reload":
            # It is over when the command is: the streams belong to what was served before.
            assert attestgate("reload", "--config", gateway.conf_path).returncode == 0
        else:
            gateway.signal()
            # Two steps, so that none is lost that is on its way (RFC 9113 section 6.8).
            http2.pump_until(lambda: len(http2.going_away) == 2)
            assert http2.going_away == [(Codes.NO_ERROR, (1 << 31) - 1), (Codes.NO_ERROR, numbers[-1])]
        for n in range(10):
            held.release(f"/{n}")
        for n, number in enumerate(numbers):
            assert http2.response(number).content == f"/{n}".encode()
        if how == "SIGTERM":
            http2.wait_for_end()
    if how == "SIGTERM":
        assert gateway.wait() == 0


def test_a_client_that_closes_gets_its_responses_in_flight(start_gateway, own_upstream, phone):
    gateway = start_gateway({"service": own_upstream.address})
    held = Held(own_upstream)
    with HTTP2Client(gateway, phone) as http2:
        numbers = [http2.start("GET", f"/{n}") for n in range(3)]
        own_upstream.wait_for_requests(3)
        # Not by the library, which would take the connection for over.
        http2.send_bytes(frame(GOAWAY, payload=bytes(8)))
        http2.ping()
        for n, number in enumerate(numbers):
            held.release(f"/{n}")
            assert http2.response(number).content == f"/{n}".encode()
        http2.wait_for_end()


def connected(gateway, pki, lives):
    for life in lives:
        try:
            return HTTP2Client(gateway, pki.client(f"ending-{life}-{time.time_ns()}", end=life / 86_400))
        except OSError:
            continue
    raise AssertionError("a slow machine")


def test_a_certificate_that_ends_ends_the_connection_but_not_its_requests(start_gateway, own_upstream, pki):
    gateway = start_gateway({"service": own_upstream.address})
    held = Held(own_upstream)
    # Long enough for whatever machine this is: the connection must be there before the end.
    http2 = connected(gateway, pki, (4, 15, 45))
    with http2:
        number = http2.start("GET", "/0")
        own_upstream.wait_for_requests(1)
        http2.pump_until(lambda: http2.going_away)
        assert http2.going_away == [(Codes.NO_ERROR, number)]
        held.release("/0")
        assert http2.response(number).status == 200
        http2.wait_for_end()
    assert_connection_refused(gateway, "certificate_expired")


def test_a_revoked_device_gets_no_further_request_through_on_open_streams(start_attested):
    attested = start_attested()
    phone = attested.new_phone()
    held = Held(attested.upstream)
    with HTTP2Client(attested.gateway, phone.identity) as http2:
        number = http2.begin(phone.request(path="/0"))
        attested.upstream.wait_for_requests(1)
        attested.gateway.device_command("revoke", str(phone.number))
        with attested.nothing_forwarded():
            try:
                response = http2.exchange(phone.request(path="/1"))
                assert_denied(attested.gateway, response, "device_revoked", 403)
            except ConnectionOver:
                # It ends with the connection.
                pass
        held.release("/0")


def test_idle_http_2_connections_stay_within_the_documented_memory(start_gateway, own_upstream, phone):
    gateway = start_gateway({"service": own_upstream.address})

    def used():
        client = HTTP2Client(gateway, phone)
        for number in [client.start("GET", "/") for _ in range(20)]:
            assert client.response(number).status == 200
        return client
    clients = [used() for _ in range(10)]
    before = gateway.proportional_bytes()
    clients += [used() for _ in range(60)]
    each = (gateway.proportional_bytes() - before) / 60
    print(f"{each / 1024:.1f} KiB")
    assert each < 100 << 10
    for client in clients:
        client.close()


def test_unread_content_of_a_connection_is_bounded(start_gateway, own_upstream, phone):
    gateway = start_gateway(
        {"service": own_upstream.address}, [{"name": "all", "host": "localhost", "path": "/", "content_limit": "64MiB"}])
    own_upstream.script = lambda connection: (connection.read_head(), own_upstream.closed.wait(60))
    with HTTP2Client(gateway, phone) as http2:
        http2.ping()
        before = gateway.resident_bytes()
        numbers = [http2.start("POST", f"/{n}", end=False) for n in range(8)]
        sent = 0
        while True:
            room = [(n, http2.h2.local_flow_control_window(n)) for n in numbers]
            number, most = max(room, key=lambda each: each[1])
            if most > 0:
                http2.h2.send_data(number, bytes(min(most, 16_384)))
                http2.flush()
                sent += min(most, 16_384)
            elif not http2.pump_for(1):
                break
        grown = gateway.resident_bytes() - before
        print(f"{sent >> 10} KiB sent, {grown >> 10} KiB more")
        # A block for the head, the way to the service and what its kernel takes; and the windows.
        assert grown < (8 * 4 * 32 + 256 + 4096) << 10
        # Streams starve for what others leave lying, not for a fault of theirs: nobody is cut off.
        assert http2.resets(numbers) == [None] * 8


def test_a_stream_delayed_by_others_does_not_time_out(start_gateway, own_upstream, phone):
    gateway = start_gateway(
        {"service": own_upstream.address}, [{"name": "all", "host": "localhost", "path": "/", "content_limit": "64MiB"}],
        timeouts={"content_idle": "8s"})
    resume = threading.Event()

    def serve(connection):
        if connection.read_head().target != "/starving":
            resume.wait(60)
        connection.read_request()
        connection.send(answering(b"ok"))
        connection.wait_for_end()
    own_upstream.script = serve
    with HTTP2Client(gateway, phone) as http2:
        # A stream's window opens again when half of it is used: ten of them have more than the connection's in any case.
        numbers = [http2.start("POST", f"/{n}", end=False) for n in range(10)]
        starving = http2.start("POST", "/starving", [("content-length", "5")], end=False)
        while True:
            number, most = max(
                ((n, http2.h2.local_flow_control_window(n)) for n in numbers), key=lambda each: each[1])
            if most > 0:
                http2.h2.send_data(number, bytes(min(most, 16_384)))
                http2.flush()
            elif not http2.pump_for(10):
                break
        assert http2.h2.outbound_flow_control_window == 0
        assert http2.resets([*numbers, starving]) == [None] * 11 and http2.streams[starving].response is None
        resume.set()
        http2.send(starving, b"hello", end=True)
        assert http2.response(starving).status == 200
