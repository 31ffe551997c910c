"""WebSockets through the gateway: opened as any request is decided, then bytes both ways, until somebody or something ends them."""

import asyncio
import contextlib
import signal
import socket
import ssl
import struct
import threading
import time

import pytest
import websockets

from support.client import Client, IncompleteResponse, get
from support.denials import assert_denied, wait_for_count
from support.exposition import scrape
from support.memory_states import KIB, proportional_bytes
from support.phone import Phone
from support.pki import attestgate
from support.platforms import APPS, PLATFORMS
from support.services import Services
from support.taking_over import adopt_orphans, has_ended, upgrade
from support.waiting import at_some_pace, eventually
from support.web_socket_gateway import gateway, nothing_forwarded, raw, service, shared_gateway, shared_raw, start  # noqa: F401
from support.web_sockets import KEY, Service, handshake, is_cut_off, run, switches, switching, traces, until
from support.web_sockets import Phone as SocketPhone


@pytest.fixture(autouse=True)
def trace():
    traces.begin()
    yield
    traces.end()


def ended(gateway, **members):
    """The line of the access log about a tunnel of this test that has ended."""
    members = {"event": "request", "status": 101, **members}

    def find():
        return next((e for e in gateway.access() if traces.has(e) and all(e.get(k) == v for k, v in members.items())), None)
    return eventually(find, lambda: f"a log line with {members}; there are {gateway.access()[-5:]}")


@contextlib.contextmanager
def raw_tunnel(gateway, identity, path="/raw", **options):
    with Client(gateway, identity, **options) as client:
        client.send(handshake(path))
        assert client.read_head().status == 101
        yield client


# What goes through.

def test_messages_of_every_size_are_echoed_unchanged(gateway, phone):
    async def echo():
        async with SocketPhone(gateway, phone).connect("/sizes") as socket:
            for size in [0, 1, 125, 126, 4096, 65_535, 65_536, 1 << 20]:
                for message in [bytes(index % 251 for index in range(size)), "ä" * (size // 2)]:
                    await socket.send(message)
                    assert await socket.recv() == message
    run(echo())
    # A WebSocket's client waits for the service to end the connection (RFC 6455 section 7.1.1).
    entry = ended(gateway, route="chat", tunnel_end="service")
    assert entry["request_bytes"] > 2 << 20 and entry["response_bytes"] > 2 << 20
    assert entry["decision"] == "forwarded" and entry["duration_us"] > 0
    assert not {"denial", "aborted"} & set(entry)


def test_messages_come_back_from_a_service_over_tls(start_gateway, pki, phone):
    services = Services(pki)
    service = Service(services.context())
    try:
        gateway = start_gateway(
            {"service": services.settings(service.address)},
            [{"name": "chat", "host": "localhost", "path": "/", "websocket": "allowed"}])

        async def echo():
            async with SocketPhone(gateway, phone).connect() as socket:
                for size in [0, 1, 65_536, 1 << 20]:
                    await socket.send(bytes(size))
                    assert await socket.recv() == bytes(size)
                await socket.close(4002, "over TLS")
        run(echo())
        eventually(lambda: (4002, "over TLS") in service.closed, "the service to hear the code")
        assert ended(gateway, route="chat")["tunnel_end"] in ("client", "service")
    finally:
        service.close()


def test_fragmented_and_concurrent_messages_are_echoed_in_order(gateway, phone):
    async def talk():
        async with SocketPhone(gateway, phone).connect() as socket:
            await socket.send([b"in ", b"three ", b"parts"])
            assert await socket.recv() == b"in three parts"
            messages = [bytes([index % 256]) * (index * 37 % 5000) for index in range(400)]

            async def send():
                for message in messages:
                    await socket.send(message)
            sending = asyncio.ensure_future(send())
            for message in messages:
                assert await socket.recv() == message
            await sending
    run(talk())


def test_pings_are_answered_from_the_other_end(gateway, phone):
    async def ping():
        async with SocketPhone(gateway, phone).connect() as socket:
            for data in [b"", b"beat", b"x" * 125]:
                await asyncio.wait_for(await socket.ping(data), 20)
    run(ping())


def test_close_codes_reach_the_other_end_both_ways(gateway, phone, service):
    async def leave():
        socket = await SocketPhone(gateway, phone).connect()
        await socket.close(4000, "done for today")

    async def be_left():
        async with SocketPhone(gateway, phone).connect("/bye") as socket:
            with pytest.raises(websockets.ConnectionClosed):
                await socket.recv()
            return socket.close_code, socket.close_reason
    run(leave())
    eventually(lambda: (4000, "done for today") in service.closed, "the service to hear the code")
    assert run(be_left()) == (4001, "as agreed")


def test_subprotocols_and_extensions_are_agreed_between_the_ends(gateway, phone, raw):
    async def agree():
        async with SocketPhone(gateway, phone).connect(subprotocols=["records.v1", "records.v2"]) as socket:
            return socket.subprotocol
    assert run(agree()) == "records.v2"
    raw.script = switches("Sec-WebSocket-Extensions: permessage-deflate", "Sec-WebSocket-Protocol: a", "X-Own: b")
    with Client(gateway, phone) as client:
        client.send(handshake("/raw", "Sec-WebSocket-Extensions: permessage-deflate", "Sec-WebSocket-Protocol: a"))
        answer = client.read_head()
    sent = raw.connections[-1].handshake
    assert sent.values("sec-websocket-extensions") == ["permessage-deflate"]
    assert sent.values("sec-websocket-protocol") == ["a"]
    assert answer.value("sec-websocket-extensions") == "permessage-deflate" and answer.value("x-own") == "b"
    assert answer.value("sec-websocket-protocol") == "a"


def test_the_service_gets_a_rewritten_handshake(gateway, phone, raw):
    raw.script = switches()
    with raw_tunnel(gateway, phone) as client:
        client.send(b"through").wait_until_delivered()
        assert client._exactly(7) == b"through"
    head = raw.connections[-1].handshake
    assert head.values("connection") == ["Upgrade"] and head.values("upgrade") == ["websocket"]
    assert head.values("sec-websocket-key") == [KEY] and head.values("sec-websocket-version") == ["13"]
    assert head.values("forwarded") and head.values("content-length") == []


def test_the_answer_names_the_protocol_once(gateway, phone, raw):
    raw.script = switches(connection="Connection: keep-alive, upgrade", upgrade="Upgrade: WebSocket")
    with Client(gateway, phone) as client:
        answer = client.send(handshake("/raw")).read_head()
    assert answer.value("connection") == "Upgrade" and answer.value("upgrade") == "websocket"
    assert answer.values("content-length") == [] and answer.values("transfer-encoding") == []


# Opened as any request is decided.

def test_a_device_is_known_to_the_service(gateway, pki, service):
    phone = Phone(gateway, pki.phone("websocket-known"))

    async def come():
        async with SocketPhone(gateway, phone.identity).connect("/device", [("Attest-Device", "spoofed")]) as socket:
            await socket.send("hello")
            assert await socket.recv() == "hello"
    run(come())
    names = service.opened[-1].request_headers.get_all("Attest-Device")
    assert len(names) == 1 and len(names[0]) == 64


def test_an_unknown_device_opens_no_tunnel(gateway, pki, nothing_forwarded):
    with nothing_forwarded, Client(gateway, pki.phone("websocket-stranger")) as client:
        assert_denied(gateway, client.exchange(handshake("/device")), "device_unknown", 401)
        client.assert_closed()


@pytest.mark.parametrize("platform", PLATFORMS)
def test_one_proof_opens_one_tunnel(gateway, pki, service, platform):
    phone = Phone(gateway, pki.phone(f"websocket-proof-{platform}"), APPS[platform])
    authority = f"localhost:{gateway.port}"
    proof = phone.proof(path="/proof", authority=authority)

    async def open_with(fields):
        async with SocketPhone(gateway, phone.identity).connect("/proof", fields) as socket:
            for message in ["proven", "once", "and for all"]:
                await socket.send(message)
                assert await socket.recv() == message
    run(open_with(proof))
    assert service.opened[-1].request_headers["Attest-Counter"] == str(phone.counter)
    before = len(service.opened)
    for fields, code in [(proof, "counter_replayed"), ([], "proof_required")]:
        with phone.connect() as client:
            lines = [f"{name}: {value}" for name, value in fields]
            assert_denied(gateway, client.exchange(handshake("/proof", *lines, host=authority)), code, 401)
            client.assert_closed()
    assert len(service.opened) == before


INVALID = {
    "POST": {"method": "POST"},
    "with content": {"version": "Sec-WebSocket-Version: 13\r\nContent-Length: 5"},
    "with chunks": {"version": "Sec-WebSocket-Version: 13\r\nTransfer-Encoding: chunked"},
    "Connection does not list it": {"connection": "Connection: keep-alive"},
    "no Connection": {"connection": None},
    "two protocols": {"upgrade": "Upgrade: websocket, h2c"},
    "another protocol first": {"upgrade": "Upgrade: h2c, websocket"},
    "Upgrade twice": {"upgrade": "Upgrade: websocket\r\nUpgrade: websocket"},
    "a version of the protocol": {"upgrade": "Upgrade: websocket/13"},
    "no version": {"version": None},
    "two versions": {"version": "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Version: 13"},
    "no key": {"key": None},
    "two keys": {"key": f"Sec-WebSocket-Key: {KEY}\r\nSec-WebSocket-Key: {KEY}"},
    "a short key": {"key": "Sec-WebSocket-Key: dGhlIHNhbXBsZQ=="},
    "another spelling of the key": {"key": "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZR=="},
    "a key that is no base64": {"key": "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25j_Q=="},
}


@pytest.mark.parametrize("name", INVALID)
def test_an_invalid_handshake_is_refused_and_nothing_behind_it_is_read(gateway, phone, nothing_forwarded, name):
    with nothing_forwarded, Client(gateway, phone) as client:
        client.send(handshake("/raw", **INVALID[name]) + get("/raw/smuggled"))
        assert_denied(gateway, client.read_response(), "request_malformed", 400)
        client.assert_closed()


def test_a_handshake_in_http_1_0_is_refused(gateway, phone, nothing_forwarded):
    with nothing_forwarded, Client(gateway, phone) as client:
        client.send(handshake("/raw").replace(b"HTTP/1.1", b"HTTP/1.0"))
        assert_denied(gateway, client.read_response(), "request_malformed", 400)
        client.assert_closed()


@pytest.mark.parametrize("version", ["8", "14", "13, 8"])
def test_another_version_is_refused_with_the_supported_one(gateway, phone, nothing_forwarded, version):
    with nothing_forwarded, Client(gateway, phone) as client:
        answer = client.exchange(handshake("/raw", version=f"Sec-WebSocket-Version: {version}"))
        assert_denied(gateway, answer, "websocket_version", 426)
        assert answer.value("sec-websocket-version") == "13" and answer.value("upgrade") == "websocket"
        client.assert_closed()


@pytest.mark.parametrize("upgrade", ["h2c", "TLS/1.0", "websockets", "h2c, HTTP/3.0"])
def test_every_other_protocol_is_left_out_and_the_request_served(gateway, phone, raw, upgrade):
    with Client(gateway, phone) as client:
        assert client.exchange(handshake("/raw", upgrade=f"Upgrade: {upgrade}")).status == 200
        assert client.exchange(get("/raw")).status == 200
    for request in raw.requests[-2:]:
        assert request.values("upgrade") == [] and request.values("connection") == []


def test_a_handshake_without_permission_is_an_ordinary_request(gateway, phone, raw):
    with Client(gateway, phone) as client:
        assert client.exchange(handshake("/ignored")).status == 200
        assert client.exchange(get("/ignored")).status == 200
    assert raw.requests[-2].values("upgrade") == []


def test_tunnels_are_limited(start, phone):
    gateway = start(limits={"tunnels": 1})

    async def crowd():
        phones = SocketPhone(gateway, phone)
        async with phones.connect() as first:
            with pytest.raises(websockets.InvalidStatusCode) as refused:
                await phones.connect()
            assert refused.value.status_code == 503 and refused.value.headers["Retry-After"]
            await first.send("still")
            assert await first.recv() == "still"
    run(crowd())
    ended(gateway)
    with Client(gateway, phone) as client:
        assert client.exchange(handshake("/")).status == 101
        with Client(gateway, phone) as second:
            assert_denied(gateway, second.exchange(handshake("/")), "tunnel_limit", 503)
            second.assert_closed()
    eventually(lambda: scrape(gateway)("attestgate_tunnels") == 0, "the tunnel to end")


def test_a_websocket_route_must_permit_get(start):
    gateway = start()
    gateway.conf["routes"][0]["methods"] = ["POST"]
    gateway.write_conf()
    done = attestgate("check", "--config", gateway.conf_path)
    assert done.returncode != 0 and "`websocket: allowed` has no effect without the method GET" in done.stderr


# Only after the service's valid 101.

WRONG = {
    "to another key": {"accept": "AAAAAAAAAAAAAAAAAAAAAAAAAAA="},
    "in other letters": {"accept": "S3PPLMBITXAQ9KYGZZHZRBK+XOO="},
    "twice": {"connection": "Connection: Upgrade\r\nSec-WebSocket-Accept: x"},
    "to another protocol": {"upgrade": "Upgrade: h2c"},
    "to two protocols": {"upgrade": "Upgrade: websocket, h2c"},
    "without Upgrade": {"upgrade": None},
    "without Connection": {"connection": None},
    "that says close": {"connection": "Connection: close"},
    "with content": {"connection": "Connection: Upgrade\r\nContent-Length: 3"},
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_handshake_response_opens_no_tunnel(gateway, phone, raw, name):
    raw.script = switches(then=b"\x81\x02no", **WRONG[name])
    with Client(gateway, phone) as client:
        client.send(handshake("/raw") + b"\x81\x80frame")
        assert_denied(gateway, client.read_response(), "upstream_unavailable", 502)
        client.assert_closed()
    eventually(lambda: raw.connections[-1].is_closed_by_gateway, "the service to be left")
    assert raw.connections[-1].early == b"" and b"frame" not in raw.received[-200:]


def test_another_answer_of_the_service_is_passed_on_and_ends_the_connection(gateway, phone, raw):
    """Upgrade smuggling: a service that continues in HTTP must not be fed with what the client calls frames."""
    smuggled = get("/raw/smuggled")
    for answer in [
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 426 Upgrade Required\r\nSec-WebSocket-Version: 8\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nContent-Length: 0\r\n\r\n",
    ]:
        raw.answer = answer
        count = len(raw.requests)
        with Client(gateway, phone) as client:
            response = client.send(handshake("/raw") + smuggled).read_response()
            assert response.status == int(answer.rsplit(b"HTTP/1.1 ", 1)[1][:3])
            assert response.value("connection") == "close" and response.values("upgrade") == []
            # Behind the answer, in an event of its own, is no better.
            client.send_while_open(smuggled)
            client.assert_closed()
        assert [request.target for request in raw.requests[count:]] == ["/raw"]
    assert b"smuggled" not in raw.received


def test_data_sent_before_the_handshake_response_waits(gateway, phone, raw):
    raw.script = switches()
    with Client(gateway, phone) as client:
        client.send(handshake("/raw") + get("/raw/looks-like-a-request"))
        assert client.read_head().status == 101
        assert client._exactly(len(get("/raw/looks-like-a-request"))) == get("/raw/looks-like-a-request")
    assert raw.connections[-1].early == b""


def test_data_sent_right_after_the_handshake_response_arrives(gateway, phone, raw):
    raw.script = switches(then=b"\x81\x05first" * 3000)
    with raw_tunnel(gateway, phone) as client:
        assert client._exactly(21_000) == b"\x81\x05first" * 3000
        client.send(b"heard")
        assert client._exactly(5) == b"heard"


# Back-pressure.

def test_a_client_that_reads_nothing_stops_the_service_and_then_gets_all(gateway, phone, service):
    octets, service.sent = 32 << 20, 0

    async def take():
        async with SocketPhone(gateway, phone).connect(f"/flood/{octets}", max_queue=1) as socket:
            seen = -1
            while seen != service.sent or seen == 0:
                seen = service.sent
                await asyncio.sleep(0.5)
            assert seen < octets, "all went into buffers"
            # Kernel buffers are not the gateway's: of its own there are four blocks at most.
            assert scrape(gateway)("attestgate_buffer_blocks", state="used") <= 5
            taken = 0
            async for message in socket:
                assert message == bytes(range(256)) * 256
                taken += len(message)
            return taken
    assert run(take()) == octets


def test_a_client_that_never_reads_is_cut_off(start, phone, service):
    gateway = start(timeouts={"content_idle": "1s", "content_rate": "1MiB/s"})
    service.sent, closed = 0, len(service.closed)
    with raw_tunnel(gateway, phone, f"/flood/{1 << 30}", receive_buffer=16 * KIB):
        entry = ended(gateway, tunnel_end="denied")
        assert entry["denial"] == "response_not_taken" and service.sent < 1 << 30
        eventually(lambda: is_cut_off(service, closed), "the service to be cut off")


def hold(connection):
    """A service that reads nothing until the test releases it."""
    connection.read_head()
    connection.send(switching())
    connection.upstream.release.wait(30)
    while True:
        connection.receive()


def test_a_service_that_reads_nothing_stops_the_client(gateway, phone, raw):
    raw.release = threading.Event()
    raw.script = hold
    total = 64 << 20
    with raw_tunnel(gateway, phone) as client:
        quiet = [time.monotonic(), 0]

        def stands():
            return time.monotonic() > quiet[0] + 1
        blocks = (bytes(1 << 16) for _ in range(total >> 16))

        def watched():
            for block in blocks:
                quiet[0] = time.monotonic()
                yield block
        sent = client.pump(watched(), stands)
        assert sent < total, "all went into buffers"
        assert scrape(gateway)("attestgate_buffer_blocks", state="used") <= 5
        raw.release.set()
        eventually(lambda: len(raw.connections[-1].received) >= sent, "all of it to arrive")


# The ends.

def test_everything_a_closing_service_sent_arrives(gateway, phone, raw):
    def say_and_end(connection):
        connection.read_head()
        connection.send(switching() + b"z" * 300_000)
    raw.script = say_and_end
    with raw_tunnel(gateway, phone) as client:
        assert client.read_to_end() == b"z" * 300_000
    assert ended(gateway, route="raw", tunnel_end="service")


def test_everything_a_closing_client_sent_arrives(gateway, phone, raw):
    raw.script = switches(echo=False)
    with raw_tunnel(gateway, phone) as client:
        client.send(b"y" * 200_000)
        with contextlib.suppress(OSError):
            client.socket.unwrap()
        connection = raw.connections[-1]
        eventually(lambda: connection.is_closed_by_gateway, "the end to reach the service")
    assert not connection.is_broken and bytes(connection.received).endswith(b"y" * 200_000)
    assert ended(gateway, route="raw", tunnel_end="client")


def test_everything_arrives_from_a_client_that_ends_without_close_notify(gateway, phone, raw):
    raw.script = switches(echo=False)
    with raw_tunnel(gateway, phone) as client:
        client.send(b"y" * 200_000)
        # Below TLS: the kernel's FIN, and nothing else.
        socket.socket.shutdown(client.socket, socket.SHUT_WR)
        connection = raw.connections[-1]
        eventually(lambda: connection.is_closed_by_gateway, "the end to reach the service")
    assert not connection.is_broken and bytes(connection.received).endswith(b"y" * 200_000)
    assert ended(gateway, route="raw", tunnel_end="client")


def test_a_client_that_vanishes_breaks_the_connection_to_the_service(gateway, phone, raw):
    raw.script = switches(echo=False)
    with raw_tunnel(gateway, phone) as client:
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection = raw.connections[-1]
    eventually(lambda: connection.is_broken, "the service to see a break")
    assert ended(gateway, tunnel_end="client_lost")["aborted"] is True


def test_a_broken_service_connection_ends_the_tunnel_without_a_failure(gateway, phone, raw):
    failures = scrape(gateway)("attestgate_upstream_failures_total", upstream="raw")

    def reset(connection):
        connection.read_head()
        connection.send(switching())
        assert connection.receive() == b"go"
        connection.reset()
    raw.script = reset
    with raw_tunnel(gateway, phone) as client:
        client.send(b"go")
        with pytest.raises((IncompleteResponse, ssl.SSLError)):
            client.read_to_end()
    assert ended(gateway, tunnel_end="service_lost")
    assert scrape(gateway)("attestgate_upstream_failures_total", upstream="raw") == failures


def test_a_service_that_does_not_end_is_not_waited_for(gateway, phone, raw):
    def stay(connection):
        connection.read_head()
        connection.send(switching())
        connection.wait_for_end()
        connection.has_heard = True
        # It keeps its side open for as long as anybody lets it.
        connection.upstream.release.wait(30)
    raw.release = threading.Event()
    raw.script = stay
    with raw_tunnel(gateway, phone) as client:
        with contextlib.suppress(OSError):
            client.socket.unwrap()
        assert ended(gateway, route="raw", tunnel_end="client")
    assert raw.connections[-1].has_heard
    raw.release.set()


def test_a_service_that_takes_nothing_for_too_long_loses_the_tunnel(start, phone, shared_raw, raw):
    gateway = start()
    gateway.conf["upstreams"]["raw"]["response_timeout"] = "1s"
    gateway.write_conf()
    assert attestgate("reload", "--config", gateway.conf_path).returncode == 0
    raw.release = threading.Event()
    raw.script = hold
    with raw_tunnel(gateway, phone) as client:
        client.pump(bytes(1 << 16) for _ in range(1024))
        assert ended(gateway, tunnel_end="service_lost")
        raw.release.set()
        with pytest.raises((IncompleteResponse, OSError)):
            client.read_to_end()


def closing(gateway, identity, path="/", meanwhile=None, fields=()):
    """Opens a tunnel, does something, and waits for its end. - Returns: how long that took."""
    async def wait():
        async with SocketPhone(gateway, identity).connect(path, fields) as socket:
            await socket.send("open")
            assert await socket.recv() == "open"
            if meanwhile:
                await asyncio.get_running_loop().run_in_executor(None, meanwhile)
            begun = time.monotonic()
            with pytest.raises(websockets.ConnectionClosed):
                await socket.recv()
            assert socket.close_code == 1006, "the gateway speaks no frames"
            return time.monotonic() - begun
    return run(wait())


@pytest.mark.parametrize("path", ["/", "/device", "/proof"])
def test_a_revoked_device_loses_its_tunnel_at_once(gateway, pki, service, path):
    phone = Phone(gateway, pki.phone(f"websocket-revoked{path.replace('/', '-')}"))
    fields = phone.proof(path=path, authority=f"localhost:{gateway.port}") if path == "/proof" else ()
    closed = len(service.closed)
    took = closing(
        gateway, phone.identity, path, lambda: gateway.device_command("revoke", str(phone.number)), fields)
    print(f"closed {took:.3f} s after the command had returned")
    entry = ended(gateway, tunnel_end="denied", denial="device_revoked")
    assert entry["fault"] == "client"
    eventually(lambda: is_cut_off(service, closed), "the service to see the end")
    with phone.connect() as client, pytest.raises((ssl.SSLError, OSError, IncompleteResponse)):
        client.exchange(handshake(path))


def test_another_devices_tunnel_stays(gateway, pki):
    phones = [Phone(gateway, pki.phone(f"websocket-pair-{index}")) for index in range(2)]

    async def both():
        async with SocketPhone(gateway, phones[0].identity).connect("/device") as stays, \
                SocketPhone(gateway, phones[1].identity).connect("/device") as goes:
            await asyncio.get_running_loop().run_in_executor(
                None, lambda: gateway.device_command("revoke", str(phones[1].number)))
            with pytest.raises(websockets.ConnectionClosed):
                await goes.recv()
            await stays.send("here")
            assert await stays.recv() == "here"
    run(both())


def test_a_tunnel_ends_with_its_clients_certificate(gateway, pki):
    for life in (3, 10, 30):
        identity = pki.client(f"websocket-ends-in-{life}-{time.time_ns()}", end=life / 86_400)
        ends = time.time() + life
        try:
            closing(gateway, identity)
        except (OSError, websockets.InvalidStatusCode, websockets.ConnectionClosed):
            # So slow a machine that it ended before it was used.
            if life == 30:
                raise
            continue
        assert time.time() >= ends - 1
        return assert_ended_by_certificate(gateway)


def assert_ended_by_certificate(gateway):
    entry = ended(gateway, tunnel_end="denied", denial="certificate_expired")
    assert "aborted" not in entry


def test_tunnels_end_when_revocations_cannot_be_received(start, pki, tmp_path):
    gateway = start()
    phone = Phone(gateway, pki.phone("websocket-stuck"))
    authority = f"localhost:{gateway.port}"
    proof = phone.proof(path="/proof", authority=authority)

    async def wait():
        with gateway.traced(tmp_path / "trace", "-e", "trace=fdatasync,fsync", "-e", "inject=fdatasync,fsync:delay_enter=600s"):
            async with SocketPhone(gateway, phone.identity).connect("/device") as tunnel:
                await tunnel.send("open")
                assert await tunnel.recv() == "open"
                with phone.connect() as client:
                    # Gets the store's thread stuck.
                    client.send(handshake("/proof", *[f"{name}: {value}" for name, value in proof], host=authority))
                    with pytest.raises(websockets.ConnectionClosed):
                        await tunnel.recv()
    run(wait())
    assert ended(gateway, route="device", denial="store_unavailable", tunnel_end="denied")


def test_an_idle_tunnel_and_one_beyond_its_life_end(start, phone):
    gateway = start(timeouts={"tunnel_idle": "1s", "tunnel_life": "1h"})
    took = closing(gateway, phone)
    assert took >= 0.9
    entry = ended(gateway, tunnel_end="idle")
    assert "denial" not in entry and entry["duration_us"] >= 900_000


def test_a_busy_tunnel_ends_with_its_life(start, phone, service):
    gateway = start(timeouts={"tunnel_life": "1s"})

    async def talk():
        async with SocketPhone(gateway, phone).connect() as socket:
            with pytest.raises(websockets.ConnectionClosed):
                while True:
                    await socket.send("on")
                    assert await socket.recv() == "on"
    run(talk())
    assert ended(gateway, tunnel_end="life")["duration_us"] >= 1_000_000


# Reload and end of the process.

def test_a_tunnel_survives_a_reload_under_its_original_settings(start, phone):
    gateway = start()

    def reload():
        for route in gateway.conf["routes"]:
            route.pop("websocket", None)
        gateway.write_conf()
        gateway.signal(signal.SIGHUP)
        eventually(lambda: "generation 2" in gateway.errors, "the reload")

    async def talk():
        async with SocketPhone(gateway, phone).connect() as socket:
            await asyncio.get_running_loop().run_in_executor(None, reload)
            await socket.send("after")
            assert await socket.recv() == "after"
            with pytest.raises(websockets.InvalidStatusCode):
                await SocketPhone(gateway, phone).connect()
            await socket.send("later")
            assert await socket.recv() == "later"
    run(talk())
    eventually(lambda: scrape(gateway)("attestgate_worker_retired_generations") == 0, "the old generation to go")


def test_a_revocation_reaches_the_tunnel_of_an_earlier_generation(start, pki):
    gateway = start()
    phone = Phone(gateway, pki.phone("websocket-reloaded"))

    def reload_and_revoke():
        assert attestgate("reload", "--config", gateway.conf_path).returncode == 0
        gateway.device_command("revoke", str(phone.number))
    closing(gateway, phone.identity, "/device", reload_and_revoke)
    assert ended(gateway, denial="device_revoked")


# Longer than a process trusts what it knows of devices without news.
UNTIL_STALE = 6.0


def in_thread(action):
    return asyncio.get_running_loop().run_in_executor(None, action)


@pytest.mark.parametrize("upgrades", [1, 2])
def test_a_tunnel_survives_upgrades_until_its_device_is_revoked(start, pki, upgrades):
    """The process that has the tunnel asks the one that has the registry, over a process between them too."""
    adopt_orphans()
    gateway = start(timeouts={"shutdown": "60s"})
    phones = [Phone(gateway, pki.phone(f"websocket-upgrade-{upgrades}-{index}")) for index in range(2)]
    before = []

    async def talk():
        async with SocketPhone(gateway, phones[0].identity).connect("/device") as goes, \
                SocketPhone(gateway, phones[1].identity).connect("/device") as stays:
            for _ in range(upgrades):
                before.append(await in_thread(lambda: upgrade(gateway)))
                await goes.send("after")
                assert await goes.recv() == "after"
            await asyncio.sleep(UNTIL_STALE)
            await goes.send("later")
            assert await goes.recv() == "later"
            await in_thread(lambda: gateway.device_command("revoke", str(phones[0].number)))
            with pytest.raises(websockets.ConnectionClosed):
                await goes.recv()
            await stays.send("here")
            assert await stays.recv() == "here"
    run(talk())
    assert ended(gateway, tunnel_end="denied", denial="device_revoked")
    for process in before:
        assert has_ended(gateway, process), gateway.errors


def test_tunnels_of_a_replaced_process_end_when_the_new_one_cannot_be_asked(start, pki):
    adopt_orphans()
    gateway = start(timeouts={"shutdown": "60s"})
    phone = Phone(gateway, pki.phone("websocket-upgrade-killed"))

    async def talk():
        async with SocketPhone(gateway, phone.identity).connect("/device") as tunnel:
            before = await in_thread(lambda: upgrade(gateway))
            gateway.process.kill()
            with pytest.raises(websockets.ConnectionClosed):
                await tunnel.recv()
            return before
    before = run(talk())
    assert ended(gateway, tunnel_end="denied", denial="store_unavailable")
    assert has_ended(gateway, before), gateway.errors
    gateway.process.wait()
    gateway.start()


def test_a_tunnel_may_continue_until_the_stops_grace_period_ends(start, phone):
    def attempt(seconds):
        gateway = start(timeouts={"shutdown": f"{seconds}s"})

        async def talk():
            async with SocketPhone(gateway, phone).connect() as socket:
                await socket.send("before")
                assert await socket.recv() == "before"
                gateway.signal()
                await until(lambda: not gateway_listens(gateway), "the gateway to accept no more")
                await socket.send("within")
                assert await socket.recv() == "within"
                with pytest.raises(websockets.ConnectionClosed):
                    await socket.recv()
        run(talk())
        assert gateway.wait() == 0
        assert ended(gateway, tunnel_end="shutdown")
    at_some_pace(attempt, (2, 8, 32))


def gateway_listens(gateway):
    try:
        socket.create_connection(("127.0.0.1", gateway.port), timeout=5).close()
        return True
    except OSError:
        return False


# Logs and metrics.

def test_an_opened_tunnel_is_logged_at_once_and_counted(gateway, phone):
    before = scrape(gateway)

    async def talk():
        async with SocketPhone(gateway, phone).connect("/traced", [("traceparent", f"00-{'a' * 31}1-{'b' * 16}-01")]) as socket:
            await until(lambda: gateway.logged(event="tunnel_opened", trace_id="a" * 31 + "1"), "the opening")
            during = scrape(gateway)
            assert during("attestgate_tunnels") == 1
            opened = "attestgate_tunnels_opened_total"
            assert during(opened) == before(opened) + 1
            await socket.send(b"x" * 1000)
            await socket.recv()
            moved = scrape(gateway)
            for to in ["service", "client"]:
                assert moved("attestgate_tunnel_bytes_total", to=to) - before("attestgate_tunnel_bytes_total", to=to) >= 1000
    run(talk())
    opening = gateway.logged(event="tunnel_opened", trace_id="a" * 31 + "1")
    assert (opening["route"], opening["status"], opening["decision"]) == ("chat", 101, "forwarded")
    assert "duration_us" not in opening
    gateway.logged(event="request", status=101, trace_id="a" * 31 + "1", tunnel_end="service")
    wait_for_count(
        gateway, before("attestgate_tunnels_ended_total", by="service") + 1, "attestgate_tunnels_ended_total", by="service")
    eventually(lambda: scrape(gateway)("attestgate_tunnels") == 0, "the gauge")
    durations = "attestgate_request_duration_seconds_sum"
    assert scrape(gateway)(durations, phase="total") >= 0


# Many.

TUNNELS = 300
# KiB, as docs/operations/websockets.md has it: an idle connection, and what it has to the service.
BOUND = 44 if ssl.OPENSSL_VERSION_INFO < (3, 5) else 64


def test_three_hundred_tunnels_work_within_the_documented_memory(start, phone):
    gateway = start(limits={"tunnels_per_device": TUNNELS + 20, "connections_per_client": TUNNELS + 20})

    async def crowd():
        phones = SocketPhone(gateway, phone)

        async def come(count):
            return [await phones.connect() for _ in range(count)]

        async def talk(socket, message):
            await socket.send(message)
            assert await socket.recv() == message
        first = await come(20)
        for socket in first:
            await talk(socket, b"warm" * 2000)
        before = proportional_bytes(gateway.process)
        sockets = await come(TUNNELS)
        await asyncio.gather(*[talk(socket, bytes([index % 256]) * 5000) for index, socket in enumerate(sockets)])
        assert scrape(gateway)("attestgate_tunnels") == TUNNELS + 20
        await until(lambda: scrape(gateway)("attestgate_buffer_blocks", state="used") == 0, "the blocks to be given back")
        held = (proportional_bytes(gateway.process) - before) / KIB / TUNNELS
        await asyncio.gather(*[socket.close() for socket in first + sockets])
        return held
    held = run(crowd())
    print(f"{held:.1f} KiB for each idle tunnel")
    assert held < BOUND
    eventually(lambda: scrape(gateway)("attestgate_tunnels") == 0, "all to end")
