"""WebSockets over HTTP/2 (RFC 8441): a stream is opened as any request is decided, then carries bytes both ways, beside the requests
of the same connection, until somebody or something ends it."""

import contextlib
import random
import signal
import socket
import struct
import threading
import time

import h2.errors
import h2.settings
import pytest

from support import seeds
from support.denials import assert_denied
from support.exposition import scrape
from support.http2_client import ConnectionOver, HTTP2Client, StreamReset
from support.http2_frames import PING, frame, headers, literal
from support.http2_web_sockets import ENABLE_CONNECT_PROTOCOL, StreamSocket, connect, switches_by_key
from support.memory_states import KIB, proportional_bytes
from support.phone import Phone
from support.pki import attestgate
from support.platforms import APPS, PLATFORMS
from support.recording_upstream import OK
from support.services import Services
from support.waiting import at_some_pace, eventually
from support.web_socket_gateway import gateway, nothing_forwarded, raw, service, shared_gateway, shared_raw, start  # noqa: F401
from support.web_sockets import KEY, Service, accept_of, is_cut_off, switching

Codes = h2.errors.ErrorCodes

@pytest.fixture
def http2(gateway, phone):
    with HTTP2Client(gateway, phone) as client:
        yield client


class Trace:
    """Finds a request's lines among those of others."""

    def __init__(self):
        self.id = f"{random.randrange(1, 1 << 128):032x}"
        self.fields = [("traceparent", f"00-{self.id}-{'b' * 16}-01")]

    def ended(self, gateway, **members):
        return gateway.logged(event="request", trace_id=self.id, status=200, protocol="HTTP/2", **members)


# What goes through.

def test_messages_of_every_size_are_echoed_unchanged(gateway, http2):
    trace, total = Trace(), 0
    tunnel = StreamSocket(http2, "/sizes", trace.fields)
    for size in [0, 1, 125, 126, 4096, 65_535, 65_536, 1 << 20]:
        message = bytes(index % 251 for index in range(size))
        tunnel.echo(message)
        total += size
    tunnel.close(4000, b"done")
    # A WebSocket's client waits for the service to end the connection (RFC 6455 section 7.1.1).
    entry = trace.ended(gateway, route="chat", tunnel_end="service", method="CONNECT")
    assert entry["request_bytes"] > total and entry["response_bytes"] > total
    assert entry["decision"] == "forwarded" and entry["duration_us"] > 0
    assert not {"denial", "aborted"} & set(entry)


def test_messages_come_back_from_a_service_over_tls(start_gateway, pki, phone):
    services = Services(pki)
    service = Service(services.context())
    try:
        gateway = start_gateway(
            {"service": services.settings(service.address)},
            [{"name": "chat", "host": "localhost", "path": "/", "websocket": "allowed"}])
        with HTTP2Client(gateway, phone) as http2:
            tunnel = StreamSocket(http2)
            for size in [0, 1, 65_536, 1 << 20]:
                tunnel.echo(bytes(size))
            tunnel.close(4002, b"over TLS")
        eventually(lambda: (4002, "over TLS") in service.closed, "the service to hear the code")
    finally:
        service.close()


def test_tunnels_and_requests_share_a_connection(start, phone, raw):
    seed = seeds.seed()
    choose = random.Random(seed)
    gateway = start(limits={"tunnels_per_device": 40})
    raw.answer = lambda request: b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (
        len(request.target), request.target.encode())
    with HTTP2Client(gateway, phone) as http2:
        tunnels = [StreamSocket(http2, f"/{index}") for index in range(40)]
        assert scrape(gateway)("attestgate_tunnels") == 40
        for turn in range(200):
            if choose.random() < 0.3:
                assert http2.get(f"/ignored/{turn}").content == f"/ignored/{turn}".encode()
            else:
                choose.choice(tunnels).echo(choose.randbytes(choose.choice([1, 200, 20_000])))
        choose.shuffle(tunnels)
        for index, tunnel in enumerate(tunnels):
            tunnel.close()
            if index < 39:
                tunnels[-1].echo(b"still here")
        assert http2.get("/ignored/last").status == 200
    eventually(lambda: scrape(gateway)("attestgate_tunnels") == 0, "all to end")


def test_subprotocols_extensions_and_own_fields_are_agreed_between_the_ends(http2, raw):
    raw.script = switches_by_key("Sec-WebSocket-Extensions: permessage-deflate", "Sec-WebSocket-Protocol: a", "X-Own: b")
    tunnel = StreamSocket(http2, "/raw", [
        ("sec-websocket-extensions", "permessage-deflate"), ("sec-websocket-protocol", "a"), ("origin", "https://localhost")])
    sent = raw.connections[-1].handshake
    assert sent.values("sec-websocket-extensions") == ["permessage-deflate"]
    assert sent.values("sec-websocket-protocol") == ["a"] and sent.values("origin") == ["https://localhost"]
    assert tunnel.head.value("sec-websocket-extensions") == "permessage-deflate" and tunnel.head.value("x-own") == "b"
    assert tunnel.head.value("sec-websocket-protocol") == "a"


def test_the_service_gets_an_http_1_1_handshake_with_a_new_key(http2, raw):
    raw.script = switches_by_key()
    keys = set()
    for _ in range(3):
        # A key that the client makes up is not used (RFC 8441 section 5).
        tunnel = StreamSocket(http2, "/raw/a?b=c", [("sec-websocket-key", KEY)])
        tunnel.http2.send(tunnel.number, b"through")
        assert tunnel.exactly(7) == b"through"
        # They are the handshake's of HTTP/1.1.
        assert not {"sec-websocket-accept", "upgrade", "connection"} & {name for name, _ in tunnel.head.fields}
        head = raw.connections[-1].handshake
        assert (head.method, head.target) == ("GET", "/raw/a?b=c")
        assert head.values("connection") == ["Upgrade"] and head.values("upgrade") == ["websocket"]
        assert head.values("sec-websocket-version") == ["13"] and head.values("host") == ["localhost"]
        assert head.values("forwarded") and head.values("content-length") == head.values("transfer-encoding") == []
        [key] = head.values("sec-websocket-key")
        assert key != KEY
        keys.add(key)
    assert len(keys) == 3


# Opened as any request is decided.

def test_the_settings_offer_websockets_where_a_route_permits_them(start_gateway, gateway, http2, phone, own_upstream):
    http2.ping()
    assert http2.h2.remote_settings.enable_connect_protocol == 1
    other = start_gateway({"service": own_upstream.address})
    with HTTP2Client(other, phone) as client:
        client.ping()
        assert client.h2.remote_settings.get(ENABLE_CONNECT_PROTOCOL) in (None, 0)
        assert_denied(other, client.response(connect(client)), "request_malformed", 400)
        assert client.get("/").status == 200


MALFORMED = {
    "CONNECT without :protocol": {"protocol": None},
    "CONNECT as RFC 9113 has it": {"protocol": None, "path": None, "scheme": None},
    "another protocol": {"protocol": "telnet"},
    "websocket in other letters": {"protocol": "WebSocket"},
    ":protocol with GET": {"method": "GET"},
    "no :path": {"path": None},
    "no :scheme": {"scheme": None},
    "another scheme": {"scheme": "wss"},
    "no :authority": {"authority": None},
    "no version": {"version": None},
    "an end with the head": {"end": True},
    "content of a length": {"fields": [("content-length", "5")]},
    "content of no length": {"fields": [("content-length", "0")]},
    "Upgrade too": {"fields": [("upgrade", "websocket")]},
    "two versions": {"fields": [("sec-websocket-version", "13")]},
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_connect_is_refused_and_the_connection_continues(gateway, http2, nothing_forwarded, name):
    with nothing_forwarded:
        options = {"path": "/raw", **MALFORMED[name]}
        number = connect(http2, **options)
        # What is sent behind it is no request, and no tunnel's.
        if not options.get("end"):
            http2.send(number, b"behind")
        assert_denied(gateway, http2.response(number), "request_malformed", 400)
        assert http2.get("/ignored").status == 200
        http2.get("/ignored")
        before = nothing_forwarded.upstream.requests[-2:]
        assert {request.target for request in before} == {"/ignored"}
        nothing_forwarded.before = nothing_forwarded.upstream.byte_count


def test_a_connect_without_permission_is_a_method_that_the_route_refuses(gateway, http2, nothing_forwarded):
    with nothing_forwarded:
        answer = http2.response(connect(http2, "/ignored"))
        entry = assert_denied(gateway, answer, "method_refused", 405)
        assert entry["method"] == "CONNECT" and "CONNECT" not in answer.value("allow")


def test_the_challenge_endpoint_opens_no_tunnel(gateway, http2, nothing_forwarded):
    with nothing_forwarded:
        assert_denied(gateway, http2.response(connect(http2, "/.well-known/attestgate/challenge")), "method_refused", 405)


@pytest.mark.parametrize("version", ["8", "14", "13, 8"])
def test_another_version_is_refused_with_the_supported_one(gateway, http2, nothing_forwarded, version):
    with nothing_forwarded:
        answer = http2.response(connect(http2, "/raw", version=version))
        assert_denied(gateway, answer, "websocket_version", 426)
        assert answer.value("sec-websocket-version") == "13"
        assert not {"upgrade", "connection"} & {name for name, _ in answer.fields}


def test_a_device_is_known_to_the_service(gateway, pki, service):
    phone = Phone(gateway, pki.phone("h2-websocket-known"))
    with HTTP2Client(gateway, phone.identity) as http2:
        StreamSocket(http2, "/device", [("Attest-Device", "spoofed")]).echo(b"hello")
    names = service.opened[-1].request_headers.get_all("Attest-Device")
    assert len(names) == 1 and len(names[0]) == 64


def test_an_unknown_device_opens_no_tunnel(gateway, pki, nothing_forwarded):
    with nothing_forwarded, HTTP2Client(gateway, pki.phone("h2-websocket-stranger")) as http2:
        assert_denied(gateway, http2.response(connect(http2, "/device")), "device_unknown", 401)
        assert http2.get("/").status != 101


@pytest.mark.parametrize("platform", PLATFORMS)
def test_one_proof_of_connect_opens_one_tunnel(gateway, pki, service, platform):
    phone = Phone(gateway, pki.phone(f"h2-websocket-proof-{platform}"), APPS[platform])
    proof = phone.proof("CONNECT", "/proof")
    other = phone.proof("GET", "/proof")
    with HTTP2Client(gateway, phone.identity) as http2:
        tunnel = StreamSocket(http2, "/proof", proof)
        tunnel.echo(b"proven")
        assert service.opened[-1].request_headers["Attest-Counter"] == str(phone.counter - 1)
        before = len(service.opened)
        for fields, code in [
                (proof, "counter_replayed"), ([], "proof_required"), (other, "proof_invalid")]:
            own = [(name.lower(), value) for name, value in fields]
            assert_denied(gateway, http2.response(connect(http2, "/proof", own)), code, 401)
            tunnel.echo(b"is open")
        # Nor is the proof of a tunnel one of a request.
        connecting = [(name.lower(), value) for name, value in phone.proof("CONNECT", "/proof")]
        assert_denied(gateway, http2.get("/proof", *connecting), "proof_invalid", 401)
        assert len(service.opened) == before
        StreamSocket(http2, "/proof", connecting).echo(b"its own")


def test_a_refused_tunnel_does_not_use_its_proof(start, pki):
    gateway = start(limits={"tunnels_per_device": 2})
    phone = Phone(gateway, pki.phone("h2-websocket-share"))
    with HTTP2Client(gateway, phone.identity) as http2:
        held = [StreamSocket(http2), StreamSocket(http2, "/device")]
        proof = [(name.lower(), value) for name, value in phone.proof("CONNECT", "/proof")]
        for path, fields in [("/", []), ("/device", []), ("/proof", proof)]:
            answer = http2.response(connect(http2, path, fields))
            assert_denied(gateway, answer, "device_tunnel_limit", 429)
            assert answer.value("retry-after") == "1"
        held[0].close()
        eventually(lambda: scrape(gateway)("attestgate_tunnels") == 1, "the place to be given back")
        StreamSocket(http2, "/proof", proof).echo(b"the same proof")


# Only after the service's valid 101.

WRONG = {
    "to another key": {"accept": "AAAAAAAAAAAAAAAAAAAAAAAAAAA="},
    "to the client's key": {"accept": accept_of(KEY)},
    "twice": {"connection": "Connection: Upgrade\r\nSec-WebSocket-Accept: x"},
    "to another protocol": {"upgrade": "Upgrade: h2c"},
    "without Upgrade": {"upgrade": None},
    "without Connection": {"connection": None},
    "with content": {"connection": "Connection: Upgrade\r\nContent-Length: 3"},
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_handshake_response_opens_no_tunnel(gateway, http2, raw, name):
    raw.script = switches_by_key(then=b"\x81\x02no", **WRONG[name])
    number = connect(http2, "/raw", [("sec-websocket-key", KEY)])
    http2.send(number, b"\x81\x80frame")
    assert_denied(gateway, http2.response(number), "upstream_unavailable", 502)
    eventually(lambda: raw.connections[-1].is_closed_by_gateway, "the service to be left")
    assert b"frame" not in raw.connections[-1].received
    raw.script = None
    assert http2.get("/ignored").status == 200


@pytest.mark.parametrize("answer, status", [
    (b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno", 403), (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 200),
    (b"HTTP/1.1 426 Upgrade Required\r\nSec-WebSocket-Version: 8\r\nContent-Length: 0\r\n\r\n", 426),
    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", 200),
])
def test_another_answer_of_the_service_is_passed_on(gateway, http2, raw, answer, status):
    """A client takes any 2xx for an open tunnel (RFC 8441 section 5) and sees it end."""
    raw.answer = answer
    count = len(raw.requests)
    number = connect(http2, "/raw")
    http2.send(number, b"smuggled")
    response = http2.response(number)
    assert response.status == status and len(response.content) <= 2
    with contextlib.suppress(Exception):
        http2.send(number, b"smuggled")
    raw.answer = OK
    assert http2.get("/ignored").status == 200
    assert [request.target for request in raw.requests[count:]] == ["/raw", "/ignored"]
    assert b"smuggled" not in raw.received
    assert scrape(gateway)("attestgate_tunnels") == 0


def test_data_sent_before_the_handshake_response_waits_within_its_windows(gateway, http2, raw):
    release, ahead = threading.Event(), bytes(range(256)) * 400

    def slow(connection):
        connection.read_head()
        release.wait(60)
        return switches_by_key()(connection)
    raw.script = slow
    number = connect(http2, "/raw")
    http2.ping()
    sent = 0
    while sent < len(ahead):
        room = min(http2.h2.local_flow_control_window(number), 16_384, len(ahead) - sent)
        if room > 0:
            http2.h2.send_data(number, ahead[sent:sent + room])
            http2.flush()
            sent += room
        elif not http2.pump_for(0.5):
            break
    assert sent == 65_535, "the stream's window is what may wait"
    # Nobody else is kept by it: the connection's window is wider.
    raw.script = None
    assert http2.response(http2.begin(
        b"POST /ignored HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nunhurried")).status == 200
    assert b"\x00\x01\x02" not in raw.connections[0].received
    release.set()
    assert http2.head(number).status == 200
    http2.send(number, ahead[sent:])
    http2.pump_until(lambda: len(http2.streams[number].response.content) >= len(ahead))
    assert http2.streams[number].response.content == ahead
    assert [c.early for c in raw.connections if hasattr(c, "early")][-1] == b""


def test_everything_arrives_from_a_client_that_closes_before_the_response(gateway, http2, raw):
    for ahead in [b"", b"last words"]:
        release, trace = threading.Event(), Trace()

        def slow(connection):
            connection.read_head()
            release.wait(60)
            return switches_by_key(echo=False)(connection)
        raw.script = slow
        number = connect(http2, "/raw", trace.fields)
        count = len(raw.connections)
        http2.send(number, ahead, end=True)
        http2.ping()
        release.set()
        response = http2.response(number)
        assert response.status == 200 and response.content == b""
        connection = raw.connections[-1]
        eventually(lambda: connection.is_closed_by_gateway, "the end to reach the service")
        assert not connection.is_broken and bytes(connection.received).endswith(ahead) and count
        trace.ended(gateway, tunnel_end="client")


def test_data_sent_right_after_the_handshake_response_arrives(http2, raw):
    raw.script = switches_by_key(then=b"\x81\x05first" * 3000)
    tunnel = StreamSocket(http2, "/raw")
    assert tunnel.exactly(21_000) == b"\x81\x05first" * 3000
    http2.send(tunnel.number, b"heard")
    http2.pump_until(lambda: tunnel.stream.response.content.endswith(b"heard"))


# Back-pressure.

def test_a_client_without_a_window_pauses_only_its_own_tunnel(gateway, phone, service):
    octets, service.sent = 32 << 20, 0
    with HTTP2Client(gateway, phone) as http2:
        number = connect(http2, f"/flood/{octets}")
        http2.stop_reading(number)
        assert http2.head(number).status == 200
        tunnel = StreamSocket(http2, "/beside")
        seen = -1
        while seen != service.sent or seen == 0:
            seen = service.sent
            for _ in range(5):
                tunnel.echo(b"beside")
                time.sleep(0.05)
        assert seen < octets, "all went into buffers"
        # Kernel buffers are not the gateway's: a block each way for connection, stream and service.
        assert scrape(gateway)("attestgate_buffer_blocks", state="used") <= 8
        http2.read_on(number)
        taken = len(http2.streams[number].response.content)
        while not http2.streams[number].is_ended:
            http2.streams[number].response.content = b""
            http2.pump()
            taken += len(http2.streams[number].response.content)
        assert taken > octets


def hold(connection):
    """A service that reads nothing until the test releases it."""
    head = connection.read_head()
    connection.send(switching(accept=accept_of(head.values("sec-websocket-key")[0])))
    connection.upstream.release.wait(60)
    while True:
        connection.receive()


def test_a_service_that_reads_nothing_stops_its_own_tunnel_alone(gateway, http2, raw):
    raw.release = threading.Event()
    raw.script = hold
    tunnel, beside = StreamSocket(http2, "/raw"), StreamSocket(http2, "/beside")
    connection, sent, piece = raw.connections[-1], 0, bytes(16_384)
    while sent < 64 << 20:
        room = min(http2.h2.local_flow_control_window(tunnel.number), len(piece))
        if room > 0:
            http2.h2.send_data(tunnel.number, piece[:room])
            http2.flush()
            sent += room
        elif not http2.pump_for(1):
            break
    assert sent < 64 << 20, "all went into buffers"
    beside.echo(b"is open")
    assert scrape(gateway)("attestgate_buffer_blocks", state="used") <= 10
    raw.release.set()
    eventually(lambda: len(connection.received) >= sent, "all of it to arrive")


def test_a_client_that_never_reads_loses_the_stream_and_keeps_its_connection(start, phone, service):
    gateway = start(timeouts={"content_idle": "1s", "content_rate": "1MiB/s"})
    service.sent, closed = 0, len(service.closed)
    trace = Trace()
    with HTTP2Client(gateway, phone) as http2:
        number = connect(http2, f"/flood/{1 << 30}", trace.fields)
        http2.stop_reading(number)
        http2.pump_until(lambda: http2.streams[number].reset is not None)
        assert http2.streams[number].reset == Codes.CANCEL
        assert trace.ended(gateway, tunnel_end="denied")["denial"] == "response_not_taken"
        StreamSocket(http2).echo(b"good")
    eventually(lambda: is_cut_off(service, closed), "the service to be cut off")


# The ends.

@pytest.mark.parametrize("ends_block", [True, False], ids=["trailers", "a block without an end"])
def test_data_on_a_tunnels_closing_stream_ends_nothing_else(start, phone, service, raw, ends_block):
    """The tunnel has ended; END_STREAM waits because the client reads nothing."""
    gateway = start(timeouts={"head": "500ms"})
    trace, ends = Trace(), threading.Event()

    def end_when_told(connection):
        head = connection.read_head()
        connection.send(switching(accept=accept_of(head.values("sec-websocket-key")[0])))
        ends.wait(60)
    raw.script = end_when_told
    service.sent = 0
    with HTTP2Client(gateway, phone) as other, HTTP2Client(gateway, phone) as http2:
        http2.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        largest = (1 << 31) - 1
        http2.h2.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: largest})
        http2.h2.increment_flow_control_window(largest - 65_535)
        http2.ping()
        tunnel = StreamSocket(http2, "/raw", trace.fields)
        http2.head(connect(http2, f"/flood/{1 << 30}"))
        # Nothing is read from here on. With every frame of the client the gateway tries to write, until the kernel takes no octet more.
        sent, rounds = -1, 0
        while rounds < 10:
            sent, rounds = service.sent, rounds + 1 if service.sent == sent else 0
            http2.socket.sendall(frame(PING, payload=bytes(8)))
            time.sleep(0.1)
        ends.set()
        trace.ended(gateway, tunnel_end="service")
        http2.socket.sendall(headers(tunnel.number, literal(b"x-t", b"1"), ends_block=ends_block))
        if not ends_block:
            # The time for a head passes; the longer this takes the better.
            time.sleep(1)
        StreamSocket(other).echo(b"good")
        assert gateway.process.poll() is None


def test_everything_a_closing_service_sent_arrives(gateway, http2, raw):
    trace = Trace()

    def say_and_end(connection):
        head = connection.read_head()
        connection.send(switching(accept=accept_of(head.values("sec-websocket-key")[0])) + b"z" * 300_000)
    raw.script = say_and_end
    tunnel = StreamSocket(http2, "/raw", trace.fields)
    assert tunnel.wait_for_end() is None
    assert tunnel.stream.response.content == b"z" * 300_000
    tunnel.end()
    trace.ended(gateway, tunnel_end="service")


def test_a_client_may_speak_for_a_moment_after_the_service_has_ended(gateway, http2, raw):
    def end_and_listen(connection):
        head = connection.read_head()
        connection.send(switching(accept=accept_of(head.values("sec-websocket-key")[0])))
        connection.socket.shutdown(socket.SHUT_WR)
        connection.wait_for_end()
    raw.script = end_and_listen
    tunnel = StreamSocket(http2, "/raw")
    assert tunnel.wait_for_end() is None
    # `send` would not, where the response has ended.
    http2.h2.send_data(tunnel.number, b"y" * 16_000)
    http2.flush()
    tunnel.end()
    connection = raw.connections[-1]
    eventually(lambda: connection.is_closed_by_gateway, "the end to reach the service")
    assert bytes(connection.received).endswith(b"y" * 16_000) and not connection.is_broken


def test_a_client_that_does_not_end_is_not_waited_for(gateway, http2, raw):
    trace = Trace()

    def end(connection):
        head = connection.read_head()
        connection.send(switching(accept=accept_of(head.values("sec-websocket-key")[0])))
    raw.script = end
    tunnel = StreamSocket(http2, "/raw", trace.fields)
    assert tunnel.wait_for_end() is None
    trace.ended(gateway, tunnel_end="service")
    http2.pump_until(lambda: tunnel.stream.reset is not None)
    assert tunnel.stream.reset == Codes.NO_ERROR
    raw.script = None
    assert http2.get("/ignored").status == 200


def test_everything_a_closing_client_sent_arrives(gateway, http2, raw):
    trace = Trace()
    raw.script = switches_by_key(echo=False)
    tunnel = StreamSocket(http2, "/raw", trace.fields)
    http2.send(tunnel.number, b"y" * 200_000, end=True)
    connection = raw.connections[-1]
    eventually(lambda: connection.is_closed_by_gateway, "the end to reach the service")
    assert not connection.is_broken and bytes(connection.received).endswith(b"y" * 200_000)
    trace.ended(gateway, tunnel_end="client")
    assert tunnel.wait_for_end() is None


def test_a_client_that_resets_the_stream_breaks_the_connection_to_the_service(gateway, http2, raw):
    trace = Trace()
    raw.script = switches_by_key(echo=False)
    tunnel, beside = StreamSocket(http2, "/raw", trace.fields), StreamSocket(http2, "/beside")
    http2.reset(tunnel.number)
    connection = raw.connections[-1]
    eventually(lambda: connection.is_broken, "the service to see a break")
    assert trace.ended(gateway, tunnel_end="client_lost")["aborted"] is True
    beside.echo(b"is open")


def test_a_client_that_vanishes_breaks_all_its_tunnels(start, phone, raw):
    gateway = start()
    raw.script = switches_by_key(echo=False)
    http2 = HTTP2Client(gateway, phone)
    connections = []
    for _ in range(3):
        StreamSocket(http2, "/raw")
        connections.append(raw.connections[-1])
    http2.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    http2.close()
    eventually(lambda: all(connection.is_broken for connection in connections), "the service to see the breaks")
    eventually(lambda: scrape(gateway)("attestgate_tunnels_ended_total", by="client_lost") == 3, "all to be counted")
    assert scrape(gateway)("attestgate_tunnels") == 0


def test_a_broken_service_connection_resets_the_stream_without_a_failure(gateway, http2, raw):
    failures, trace = scrape(gateway)("attestgate_upstream_failures_total", upstream="raw"), Trace()

    def reset(connection):
        head = connection.read_head()
        connection.send(switching(accept=accept_of(head.values("sec-websocket-key")[0])))
        assert connection.receive() == b"go"
        connection.reset()
    raw.script = reset
    tunnel = StreamSocket(http2, "/raw", trace.fields)
    http2.send(tunnel.number, b"go")
    # RFC 8441 section 5.
    assert tunnel.wait_for_end() == Codes.CANCEL
    trace.ended(gateway, tunnel_end="service_lost")
    assert scrape(gateway)("attestgate_upstream_failures_total", upstream="raw") == failures


def test_a_service_that_does_not_end_is_not_waited_for(gateway, http2, raw):
    trace = Trace()

    def stay(connection):
        head = connection.read_head()
        connection.send(switching(accept=accept_of(head.values("sec-websocket-key")[0])))
        connection.wait_for_end()
        connection.has_heard = True
        connection.upstream.release.wait(60)
    raw.release = threading.Event()
    raw.script = stay
    tunnel = StreamSocket(http2, "/raw", trace.fields)
    tunnel.end()
    assert tunnel.wait_for_end() is None
    trace.ended(gateway, tunnel_end="client")
    assert raw.connections[-1].has_heard
    raw.release.set()


def test_header_fields_within_a_tunnel_are_an_error_of_its_stream(gateway, http2, raw):
    """RFC 9113 section 8.5."""
    trace = Trace()
    raw.script = switches_by_key(echo=False)
    tunnel, beside = StreamSocket(http2, "/raw", trace.fields), StreamSocket(http2, "/beside")
    http2.h2.send_headers(tunnel.number, [("x-trailer", "a")], end_stream=True)
    http2.flush()
    assert tunnel.wait_for_end() == Codes.PROTOCOL_ERROR
    connection = raw.connections[-1]
    eventually(lambda: connection.is_broken, "the service to see a break")
    trace.ended(gateway, tunnel_end="client_lost")
    beside.echo(b"is open")


# What ends it besides.

def closing(http2, path="/", meanwhile=None, fields=()):
    """Opens a tunnel, does something, and waits for its end. - Returns: how it ended, and after how long."""
    tunnel = StreamSocket(http2, path, fields)
    tunnel.echo(b"open")
    if meanwhile:
        meanwhile()
    begun = time.monotonic()
    end = tunnel.wait_for_end()
    assert tunnel.stream.response.content == b"", "the gateway speaks no frames"
    return end, time.monotonic() - begun


@pytest.mark.parametrize("path", ["/", "/device", "/proof"])
def test_a_revoked_device_loses_its_tunnel_at_once(gateway, pki, service, path):
    phone, trace = Phone(gateway, pki.phone(f"h2-websocket-revoked{path.replace('/', '-')}")), Trace()
    fields = phone.proof("CONNECT", path) if path == "/proof" else []
    closed = len(service.closed)
    with HTTP2Client(gateway, phone.identity) as http2:
        with contextlib.suppress(ConnectionOver):
            closing(
                http2, path, lambda: gateway.device_command("revoke", str(phone.number)), [*fields, *trace.fields])
    assert trace.ended(gateway, tunnel_end="denied", denial="device_revoked")["fault"] == "client"
    eventually(lambda: is_cut_off(service, closed), "the service to see the end")


def test_an_idle_tunnel_ends_and_its_connection_continues(start, phone):
    gateway, trace = start(timeouts={"tunnel_idle": "1s", "tunnel_life": "1h"}), Trace()
    with HTTP2Client(gateway, phone) as http2:
        end, took = closing(http2, fields=trace.fields)
        assert end is None and took >= 0.9
        entry = trace.ended(gateway, tunnel_end="idle")
        assert "denial" not in entry and entry["duration_us"] >= 900_000
        StreamSocket(http2).echo(b"another")


def test_a_busy_tunnel_ends_with_its_life(start, phone):
    gateway, trace = start(timeouts={"tunnel_life": "1s"}), Trace()
    with HTTP2Client(gateway, phone) as http2:
        tunnel = StreamSocket(http2, fields=trace.fields)
        with pytest.raises(AssertionError, match="the tunnel has ended"):
            while True:
                tunnel.echo(b"on")
        assert trace.ended(gateway, tunnel_end="life")["duration_us"] >= 1_000_000


def test_a_tunnel_ends_with_its_clients_certificate(gateway, pki):
    for life in (3, 10, 30):
        identity = pki.client(f"h2-websocket-ends-in-{life}-{time.time_ns()}", end=life / 86_400)
        ends, trace = time.time() + life, Trace()
        try:
            with HTTP2Client(gateway, identity) as http2:
                with contextlib.suppress(ConnectionOver):
                    closing(http2, fields=trace.fields)
        except (OSError, StreamReset):
            # So slow a machine that it ended before it was used.
            if life == 30:
                raise
            continue
        assert time.time() >= ends - 1
        entry = trace.ended(gateway, tunnel_end="denied", denial="certificate_expired")
        assert "aborted" not in entry
        return


# Reload and end of the process.

def test_a_tunnel_survives_a_reload_under_its_connections_original_settings(start, pki):
    gateway = start()
    phone = Phone(gateway, pki.phone("h2-websocket-reloaded"))
    with HTTP2Client(gateway, phone.identity) as http2:
        tunnel = StreamSocket(http2, "/device")
        tunnel.echo(b"before")
        for route in gateway.conf["routes"]:
            route.pop("websocket", None)
        gateway.write_conf()
        assert attestgate("reload", "--config", gateway.conf_path).returncode == 0
        for _ in range(3):
            tunnel.echo(b"after")
        StreamSocket(http2, "/device").echo(b"as offered")
        with HTTP2Client(gateway, phone.identity) as new:
            assert_denied(gateway, new.response(connect(new, "/device")), "request_malformed", 400)
        tunnel.echo(b"later")
        # A revocation reaches it there too.
        gateway.device_command("revoke", str(phone.number))
        with contextlib.suppress(ConnectionOver):
            tunnel.wait_for_end()
    gateway.logged(denial="device_revoked", tunnel_end="denied")
    eventually(lambda: scrape(gateway)("attestgate_worker_retired_generations") == 0, "the old generation to go")


def test_a_tunnel_may_continue_until_the_stops_grace_period_ends(start, phone):
    def attempt(seconds):
        gateway = start(timeouts={"shutdown": f"{seconds}s"})
        with HTTP2Client(gateway, phone) as http2:
            tunnel = StreamSocket(http2)
            tunnel.echo(b"before")
            gateway.signal(signal.SIGTERM)
            http2.pump_until(lambda: http2.going_away)
            tunnel.echo(b"within")
            with pytest.raises((ConnectionOver, AssertionError)):
                while True:
                    tunnel.echo(b"on")
        assert gateway.wait() == 0
        assert gateway.logged(tunnel_end="shutdown", protocol="HTTP/2")
    at_some_pace(attempt, (2, 8, 32))


def test_a_draining_connection_ends_with_its_last_tunnel(start, phone):
    gateway = start(limits={"requests_per_connection": 2})
    with HTTP2Client(gateway, phone) as http2:
        first, second = StreamSocket(http2), StreamSocket(http2)
        http2.pump_until(lambda: http2.going_away)
        assert http2.going_away == [(Codes.NO_ERROR, second.number)]
        for tunnel in [first, second]:
            tunnel.echo(b"is open")
        first.close()
        second.echo(b"alone")
        second.close()
        http2.wait_for_end()


# Logs and metrics.

def test_an_opened_tunnel_is_logged_at_once_and_counted(start, phone):
    gateway, trace = start(), Trace()
    with HTTP2Client(gateway, phone) as http2:
        tunnel = StreamSocket(http2, "/traced", trace.fields)
        opening = gateway.logged(event="tunnel_opened", trace_id=trace.id)
        assert (opening["route"], opening["status"], opening["decision"]) == ("chat", 200, "forwarded")
        assert (opening["method"], opening["protocol"]) == ("CONNECT", "HTTP/2") and "duration_us" not in opening
        assert scrape(gateway)("attestgate_tunnels") == scrape(gateway)("attestgate_tunnels_opened_total") == 1
        tunnel.echo(b"x" * 1000)
        for to in ["service", "client"]:
            assert scrape(gateway)("attestgate_tunnel_bytes_total", to=to) >= 1000
        tunnel.close()
    trace.ended(gateway, tunnel_end="service")
    eventually(lambda: scrape(gateway)("attestgate_tunnels") == 0, "the gauge")
    assert scrape(gateway)("attestgate_tunnels_ended_total", by="service") == 1
    assert scrape(gateway)("attestgate_protocol_requests_total", protocol="HTTP/2") == 1


def test_opening_and_closing_tunnels_on_one_connection_leaves_nothing(start, phone, raw):
    seed = seeds.seed()
    choose, gateway = random.Random(seed), start()
    raw.script = switches_by_key()
    with HTTP2Client(gateway, phone) as http2:
        def one():
            tunnel = StreamSocket(http2, choose.choice(["/raw", "/"]))
            ending = choose.randrange(3)
            if ending == 0:
                http2.reset(tunnel.number)
            elif ending == 1:
                tunnel.end()
                tunnel.wait_for_end()
            else:
                http2.send(tunnel.number, b"\x82\x80" + bytes(4))
                tunnel.end()
                tunnel.wait_for_end()
        for _ in range(60):
            one()
            eventually(lambda: scrape(gateway)("attestgate_tunnels") == 0, "the tunnel to end")
        eventually(lambda: scrape(gateway)("attestgate_buffer_blocks", state="used") <= 2, "the blocks to be given back")
        raw.script = None
        assert http2.get("/ignored").status == 200


# Many.

TUNNELS = 300
# KiB, as docs/operations/websockets.md has it: a stream, and its connection to the service.
BOUND = 24


def test_three_hundred_tunnels_on_three_connections_work_within_the_documented_memory(start, phone):
    gateway = start(limits={"tunnels_per_device": TUNNELS + 20, "connections_per_client": TUNNELS + 20})
    with contextlib.ExitStack() as stack:
        def come(count):
            http2 = stack.enter_context(HTTP2Client(gateway, phone))
            return [StreamSocket(http2) for _ in range(count)]
        first = come(20)
        for tunnel in first:
            tunnel.echo(b"warm" * 2000)
        before = proportional_bytes(gateway.process)
        tunnels = [tunnel for _ in range(TUNNELS // 100) for tunnel in come(100)]
        for index, tunnel in enumerate(tunnels):
            tunnel.echo(bytes([index % 256]) * 5000)
        assert scrape(gateway)("attestgate_tunnels") == TUNNELS + 20
        eventually(lambda: scrape(gateway)("attestgate_buffer_blocks", state="used") == 0, "the blocks to be given back")
        held = (proportional_bytes(gateway.process) - before) / KIB / TUNNELS
        print(f"{held:.1f} KiB for each idle tunnel")
        assert held < BOUND
        for tunnel in first + tunnels:
            tunnel.close()
    eventually(lambda: scrape(gateway)("attestgate_tunnels") == 0, "all to end")
