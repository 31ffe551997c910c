"""Who may have how many WebSockets: no phone takes what others need, no tunnels what requests need, and every place comes back."""

import contextlib
import signal
import socket
import struct

import pytest

from support.client import Client, IncompleteResponse, get
from support.denials import NothingForwarded, assert_denied
from support.exposition import scrape
from support.phone import Phone
from support.recording_upstream import OK, RecordingUpstream
from support.waiting import eventually
from support.web_sockets import handshake, switching

ROUTES = [
    {"name": "chat", "host": "localhost", "path": "/", "websocket": "allowed"},
    {"name": "device", "host": "localhost", "path": "/device", "require": "device", "websocket": "allowed"},
    {"name": "proof", "host": "localhost", "path": "/proof", "require": "request-proof", "websocket": "allowed"},
]
CERTIFICATES = ROUTES[:1]


def switch_or_answer(connection):
    """Opens each WebSocket and stays quiet; answers other requests."""
    head = connection.read_head()
    if head.values("upgrade"):
        connection.send(switching())
        connection.wait_for_end()
    else:
        connection.send(OK)


@pytest.fixture
def upstream():
    upstream = RecordingUpstream()
    upstream.upgrades = True
    upstream.script = switch_or_answer
    yield upstream
    upstream.close()
    assert upstream.faults == []


@pytest.fixture
def start(start_gateway, upstream):
    def started(routes=ROUTES, service=None, **settings):
        # A script serves a whole connection, so none is to be used again.
        service = {"servers": [upstream.address], "idle_connections": 0, **(service or {})}
        return start_gateway({"service": service}, [dict(route) for route in routes], **settings)
    return started


@pytest.fixture
def opened():
    """Opens tunnels that stay until the test closes them, or ends."""
    with contextlib.ExitStack() as stack:
        def opened(gateway, identity, path="/", *fields, **options):
            client = stack.enter_context(Client(gateway, identity))
            client.send(handshake(path, *fields, **options))
            assert client.read_head().status == 101
            return client
        yield opened


def opens(gateway, identity, path="/"):
    """Whether a WebSocket opens; it ends at once."""
    with Client(gateway, identity) as client:
        return client.send(handshake(path)).read_head().status == 101


def assert_refused(gateway, identity, code, status, path="/", *fields, **options):
    with Client(gateway, identity) as client:
        answer = client.exchange(handshake(path, *fields, **options))
        entry = assert_denied(gateway, answer, code, status)
        assert answer.value("retry-after") == "1"
        client.assert_closed()
        return entry


# What one may have.

def test_one_phone_cannot_take_all_websockets(start, upstream, pki, phone, opened):
    gateway = start(CERTIFICATES)
    held = [opened(gateway, phone) for _ in range(4)]
    with NothingForwarded(gateway, upstream, phone):
        assert_refused(gateway, phone, "device_tunnel_limit", 429)
    upstream.script = switch_or_answer
    # Nobody else has less by it, and it still has its requests.
    opened(gateway, pki.phone("other"))
    with Client(gateway, phone) as client:
        assert client.exchange(get("/")).status == 200
    held[0].close()
    eventually(lambda: opens(gateway, phone), "the place of the tunnel that has ended")


def test_a_phones_share_counts_over_all_workers(start, phone, opened):
    gateway = start(CERTIFICATES, workers=3, limits={"tunnels_per_device": 5})
    for _ in range(5):
        opened(gateway, phone)
    for _ in range(8):
        assert_refused(gateway, phone, "device_tunnel_limit", 429)


def test_a_devices_share_counts_over_all_routes_and_is_checked_before_its_counter(start, upstream, pki, opened):
    gateway = start(limits={"tunnels_per_device": 2})
    phone = Phone(gateway, pki.phone("websocket-share"))
    host = f"localhost:{gateway.port}"
    held = [opened(gateway, phone.identity), opened(gateway, phone.identity, "/device")]
    proof = [f"{name}: {value}" for name, value in phone.proof(path="/proof", authority=host)]
    before = upstream.byte_count
    for path, fields in [("/", []), ("/device", []), ("/proof", proof)]:
        assert_refused(gateway, phone.identity, "device_tunnel_limit", 429, path, *fields, host=host if fields else "localhost")
    assert upstream.byte_count == before
    held[0].close()

    def has_opened():
        with contextlib.suppress(AssertionError):
            return opened(gateway, phone.identity, "/proof", *proof, host=host)
    eventually(has_opened, "the same proof to open one")


def test_a_refused_device_takes_no_place_and_learns_of_none(start, upstream, pki, opened):
    gateway = start(limits={"tunnels": 1})
    phone = Phone(gateway, pki.phone("websocket-admitted"))
    opened(gateway, phone.identity, "/device")
    before = upstream.byte_count
    for identity, path, code in [
            (pki.phone("websocket-unknown"), "/device", "device_unknown"), (phone.identity, "/proof", "proof_required")]:
        with Client(gateway, identity) as client:
            assert_denied(gateway, client.exchange(handshake(path)), code, 401)
    assert_refused(gateway, phone.identity, "tunnel_limit", 503, "/device")
    assert upstream.byte_count == before


# What requests need.

def test_tunnels_leave_room_for_requests(start, upstream, pki, opened):
    # None waits: a request that finds no room is refused at once.
    gateway = start(CERTIFICATES, {"connections": 5, "waiting": 0})
    phones = [pki.phone(f"websocket-room-{index}") for index in range(3)]
    held = [opened(gateway, phone) for phone in phones[:2]]
    before = upstream.byte_count
    entry = assert_refused(gateway, phones[2], "tunnel_limit", 503)
    assert entry["detail"] == "of the upstream" and upstream.byte_count == before
    with Client(gateway, phones[2]) as client:
        assert client.exchange(get("/")).status == 200
    held[1].close()
    eventually(lambda: opens(gateway, phones[2]), "the place of the tunnel that has ended")


# Every place comes back.

def end_in_order(client):
    assert client.read_head().status == 101
    with contextlib.suppress(OSError):
        client.socket.unwrap()


def vanish_early(client):
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


def vanish(client):
    assert client.read_head().status == 101
    vanish_early(client)


def read_on(client):
    with contextlib.suppress(IncompleteResponse, OSError):
        client.read_to_end()


def then(*, answer=None, ends=None):
    """A service that answers a handshake so, and ends so."""
    def script(connection):
        connection.read_head()
        if answer:
            connection.send(answer)
        if ends == "waits":
            connection.wait_for_end()
        elif ends == "breaks":
            connection.reset()
    return script


OPEN = switching()
# What the service does, and the client then.
ENDS = {
    "the client ends it": (then(answer=OPEN, ends="waits"), end_in_order),
    "the client vanishes": (then(answer=OPEN, ends="waits"), vanish),
    "the service ends it": (then(answer=OPEN), read_on),
    "the service breaks it": (then(answer=OPEN, ends="breaks"), read_on),
    "nothing moves": (then(answer=OPEN, ends="waits"), read_on),
    "the service declines": (then(answer=b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"), read_on),
    "the service answers wrongly": (then(answer=switching(accept="AAAAAAAAAAAAAAAAAAAAAAAAAAA=")), read_on),
    "the service is gone before it answers": (then(ends="breaks"), read_on),
    "the client is gone before the answer": (then(ends="waits"), vanish_early),
    "the service never answers": (then(ends="waits"), read_on),
}


def test_a_tunnels_place_is_returned_however_it_ends(start, upstream, phone, opened):
    # One place of each kind: of the worker, of the phone, of the upstream.
    gateway = start(
        CERTIFICATES, {"connections": 2, "response_timeout": "1s"}, limits={"tunnels": 1, "tunnels_per_device": 1},
        timeouts={"tunnel_idle": "1s"})
    for name, (script, act) in ENDS.items():
        upstream.script = script
        begun = len(upstream.connections)
        with Client(gateway, phone) as client:
            client.send(handshake("/"))
            eventually(
                lambda: len(upstream.connections) > begun and upstream.connections[-1].received,
                f"{name}: the handshake to reach the service")
            act(client)
        upstream.script = switch_or_answer
        eventually(lambda: opens(gateway, phone), f"the place to come back: {name}")
        eventually(lambda: scrape(gateway)("attestgate_tunnels") == 0, f"the tunnel that has shown it to end: {name}")
    # And no more of them than were taken.
    gateway.conf["timeouts"]["tunnel_idle"] = "5m"
    reload(gateway)

    def has_opened():
        with contextlib.suppress(AssertionError):
            return opened(gateway, phone)
    eventually(has_opened, "a tunnel to stay")
    assert_refused(gateway, phone, "tunnel_limit", 503)
    gateway.conf["limits"]["tunnels"] = 9
    reload(gateway, 3)
    assert_refused(gateway, phone, "device_tunnel_limit", 429)


def reload(gateway, generation=2):
    gateway.write_conf()
    gateway.signal(signal.SIGHUP)
    eventually(lambda: f"generation {generation}" in gateway.errors, "the reload")


def test_an_earlier_generations_tunnel_keeps_its_place_until_it_ends(start, phone, opened):
    gateway = start(CERTIFICATES, limits={"tunnels_per_device": 2})
    held = [opened(gateway, phone), opened(gateway, phone)]
    gateway.conf["limits"]["tunnels_per_device"] = 1
    reload(gateway)
    assert_refused(gateway, phone, "device_tunnel_limit", 429)
    held[0].close()
    gateway.logged(event="request", status=101)
    assert_refused(gateway, phone, "device_tunnel_limit", 429)
    held[1].close()
    eventually(lambda: opens(gateway, phone), "the places to come back")
