"""What a connection of the gateway holds in each state that a peer can keep it in: opens many in one, and looks at the memory.

Kernel buffers are not the gateway's: `net.ipv4.tcp_rmem` and `tcp_wmem` bound those.
"""

import select
import ssl
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

from support.client import Client, get, tls_context
from support.phone import content_digest
from support.recording_upstream import OK, Gone
from support.web_sockets import handshake, switching

KIB = 1024
BLOCK = 32
# Held by a request whose last byte never comes.
CONTENT = bytes(64 * KIB)
LARGE = 1 << 30
# Of a gateway that nobody hurries while it is looked at.
TIMEOUTS = {"head": "60s", "content_idle": "60s", "content_rate": "1B/s"}
# What a connection is without its blocks: TLS, OpenSSL's buffers for one record each way, our objects.
IDLE, BUSY = 24, 68


@dataclass
class State:
    """`bound`: KiB for each connection, at most: docs/operations/limits.md says the same. `enter` brings a connection into it, and
    returns bytes that are then sent as long as the gateway takes them."""

    name: str
    bound: int
    enter: Callable
    reads_nothing: bool = False


def idle(phone, client):
    assert client.exchange(get("/certificate")).status == 200


def in_head(phone, client):
    client.send(get("/certificate", "X: " + "a" * 12_000)[:-2])


def collecting(phone, client):
    client.send(phone.request("POST", "/", content=CONTENT)[:-1])


def streaming(phone, client):
    proof = phone.proof("POST", "/stream/slow", content=b"x", digest=content_digest(b""))
    client.send(get("/stream/slow", *[f"{name}: {value}" for name, value in proof], f"Content-Length: {LARGE}", method="POST"))
    return bytes(64 * KIB)


def answering(phone, client):
    client.send(phone.request(path="/endless"))


STATES = [
    State("idle", IDLE, idle),
    # What has come of it.
    State("within a head of 12 KiB", BUSY + BLOCK, in_head),
    # The head; the content, in whole blocks, is bounded by content_limit and held_content.
    State("collecting content of 64 KiB", BUSY + BLOCK + BLOCK + 64, collecting),
    # The head, what came from the client, what goes to the service.
    State("streaming content to a service that takes none", BUSY + 3 * BLOCK, streaming),
    # The head, what came from the service, what goes to the client.
    State("behind in taking their response", BUSY + 3 * BLOCK, answering, reads_nothing=True),
]


def serve(connection):
    """A service that takes no large content, and has an endless response."""
    while True:
        try:
            head = connection.read_head()
            if head.target == "/endless":
                connection.read_request()
                connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % LARGE)
                while True:
                    connection.send(bytes(64 * KIB))
            if head.target.startswith("/stream"):
                # Holds on to it without reading.
                connection.upstream.closed.wait()
                return
            connection.read_request()
            connection.send(OK)
        except (Gone, OSError):
            return


def proportional_bytes(process):
    """Of what the process has allocated. Its share in the pages of programs and libraries depends on who else runs them."""
    return _proportional_bytes(process.pid)


def _proportional_bytes(number):
    for line in Path(f"/proc/{number}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss_Anon:"):
            return int(line.split()[1]) * KIB
    raise AssertionError("the kernel tells no Pss_Anon")


def _press(clients):
    """Sends until none of them is taken from any more for a moment."""
    poll = {client.socket.fileno(): (client, data) for client, data in clients}
    for client, _ in clients:
        client.socket.setblocking(False)
    last = time.monotonic()
    while time.monotonic() < last + 1:
        _, writable, _ = select.select([], list(poll), [], 0.2)
        for number in writable:
            client, data = poll[number]
            try:
                client.socket.send(data)
                last = time.monotonic()
            except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
                pass


def _stands(value, since):
    """Waits until a figure has stopped growing."""
    while True:
        before = value()
        time.sleep(since)
        if abs(value() - before) < 64 * KIB:
            return value()


def measure(attested, state, count, identity=None):
    """- Returns: KiB by which the gateway has grown for each of `count` connections in that state."""
    phone = attested.phone
    context = tls_context(attested.pki, identity or phone.identity)
    options = {"receive_buffer": 16 * KIB} if state.reads_nothing else {}
    clients = []

    def enter(how_many):
        entered = []
        for _ in range(how_many):
            client = Client(attested.gateway, phone.identity, context, **options)
            clients.append(client)
            data = state.enter(phone, client)
            if data:
                entered.append((client, data))
        if entered:
            _press(entered)
        return _stands(lambda: proportional_bytes(attested.gateway.process), 0.3)
    try:
        # What is allocated once, at the first of its kind, is no connection's.
        before = enter(max(5, count // 20))
        return (enter(count) - before) / count / KIB
    finally:
        for client in clients:
            client.close()


def echo(connection):
    """A service for WebSockets behind any gateway: nginx and HAProxy write heads in their own way."""
    while b"\r\n\r\n" not in connection.received:
        connection.receive()
    connection.send(switching())
    while True:
        connection.send(connection.receive())


def measure_tunnels(server, pki, identity, count):
    """`server`: one of `bench/peers`, whose service echoes. - Returns: KiB by which its worker has grown for each of `count`
    WebSockets that have said something and are quiet then."""
    context = tls_context(pki, identity)
    # What `Client` wants to know.
    server.port, server.pki = next(iter(server.ports.values())), pki
    clients = []

    def enter(how_many):
        for _ in range(how_many):
            client = Client(server, identity, context)
            clients.append(client)
            assert client.send(handshake("/tunnel")).read_head().status == 101
            message = b"\x82\x7e\x13\x88" + bytes(5000)
            assert client.send(message)._exactly(len(message)) == message
        return _stands(lambda: _proportional_bytes(server.worker), 0.3)
    try:
        before = enter(max(5, count // 20))
        return (enter(count) - before) / count / KIB
    finally:
        for client in clients:
            client.close()
