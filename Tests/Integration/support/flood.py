"""Slow clients by the thousand, in one thread: each says what its kind says, and then hardly anything, until it is ended."""

import resource
import select
import socket
import ssl
import time
from dataclasses import dataclass
from typing import Callable, Optional

from support.paths import PATIENCE

WANTS = (ssl.SSLWantReadError, ssl.SSLWantWriteError)
# Connections that begin at once: few enough for a slow machine to complete their handshakes in time.
BREADTH = 64
# A slow client's next octet, in seconds.
PULSE = 0.5
# Between two things that are done meanwhile.
PAUSE = 0.2


def allow_descriptors(count):
    """Raises the limit as far as needed. - Returns: why there are too few; None if there are enough."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < count:
        return f"{count} descriptors are needed, and the limit is {hard}"
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, count) if soft != resource.RLIM_INFINITY else soft, hard))
    return None


@dataclass
class Kind:
    """What clients of this kind do. Without TLS they stop in the middle of the handshake."""

    name: str
    count: int
    beginning: Callable[[], bytes]
    has_tls: bool = True
    trickle: bytes = b""
    reads: bool = True
    receive_buffer: Optional[int] = None
    source: str = "127.0.0.1"


class FloodClient:
    def __init__(self, flood, kind):
        self.kind, self.received, self.is_ready, self.end = kind, b"", False, None
        plain = socket.socket()
        if kind.receive_buffer:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, kind.receive_buffer)
            # As over a network: with the segments of a loopback the kernel would hold megabytes for each.
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 1400)
        plain.bind((kind.source, 0))
        plain.settimeout(PATIENCE)
        plain.connect(("127.0.0.1", flood.gateway.port))
        plain.setblocking(False)
        self.socket = flood.wrap(plain) if kind.has_tls else plain

    def go_on(self):
        """As far as it comes without waiting."""
        try:
            if not self.is_ready:
                if self.kind.has_tls:
                    self.socket.do_handshake()
                self.is_ready = True
                # Little enough for an empty socket.
                data = self.kind.beginning()
                assert self.socket.send(data) == len(data) if data else True
            while self.kind.reads:
                data = self.socket.recv(4096)
                if not data:
                    self.end = "closed"
                    return
                self.received += data
        except (*WANTS, BlockingIOError):
            pass
        except (ConnectionError, ssl.SSLError) as error:
            self.end = f"cut off: {error}"

    def pulse(self):
        try:
            self.socket.send(self.kind.trickle)
        except (*WANTS, BlockingIOError):
            pass
        except OSError:
            # What was said to it before is still to be read.
            pass

    def drain(self):
        """Reads what still comes, however long nobody wanted it. - Returns: how many octets that were."""
        self.socket.settimeout(PATIENCE)
        count = 0
        try:
            while data := self.socket.recv(65536):
                count += len(data)
        except OSError:
            pass
        return count


class Flood:
    """All clients of a gateway; `meanwhile` is called at intervals while any of them is active."""

    def __init__(self, gateway, context, session, meanwhile):
        self.gateway, self.context, self.session, self.meanwhile = gateway, context, session, meanwhile
        self.epoll = select.epoll()
        self.clients = []
        self.live = {}
        # How many of these notice their end by reading.
        self.readers = 0
        # Clients whose handshake timed out because the machine was too slow; they connected again.
        self.late = 0
        self.pulsed = self.paused = time.monotonic()

    def wrap(self, plain):
        return self.context.wrap_socket(
            plain, server_hostname="localhost", do_handshake_on_connect=False, suppress_ragged_eofs=False,
            session=self.session)

    def open(self, kind):
        """- Returns: the clients, each of which has said what it had to."""
        made = []
        while len(made) < kind.count:
            some = [self._begin(kind) for _ in range(min(BREADTH, kind.count - len(made)))]
            self.until(lambda: all(c.is_ready or c.end for c in some), f"{kind.name} to begin")
            for client in some:
                if client.is_ready:
                    made.append(client)
                else:
                    self.late += 1
                    client.socket.close()
        self.clients += made
        return made

    def _begin(self, kind):
        client = FloodClient(self, kind)
        self.live[client.socket.fileno()] = client
        self.readers += kind.reads
        self.epoll.register(client.socket.fileno(), select.EPOLLIN | select.EPOLLRDHUP)
        self._advance(client)
        return client

    def until(self, condition, what):
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline, f"waited in vain for {what() if callable(what) else what}"
            self.turn()

    def until_ended(self):
        """Runs until every client that reads has been ended."""
        self.until(lambda: self.readers == 0, lambda: f"{self.readers} slow clients to be ended")

    def turn(self):
        for descriptor, _ in self.epoll.poll(0.02, 1024):
            self._advance(self.live[descriptor])
        if time.monotonic() > self.pulsed + PULSE:
            self.pulsed = time.monotonic()
            for client in self.live.values():
                if client.kind.trickle and client.is_ready:
                    client.pulse()
        if time.monotonic() > self.paused + PAUSE:
            self.meanwhile()
            self.paused = time.monotonic()

    def _advance(self, client):
        was_ready = client.is_ready
        client.go_on()
        descriptor = client.socket.fileno()
        if client.end:
            self.epoll.unregister(descriptor)
            del self.live[descriptor]
            self.readers -= client.kind.reads
        elif client.is_ready and not was_ready and not client.kind.reads:
            self.epoll.modify(descriptor, 0)

    def close(self):
        for client in self.clients:
            client.socket.close()
        self.epoll.close()


class Service:
    """A health service that answers thousands at once, with as many octets as the last part of the target says."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
        self.listener.setblocking(False)
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.block = memoryview(bytes(1 << 20))

    def serve(self, stop):
        """Until `stop` is set, on a thread of its own."""
        with select.epoll() as epoll:
            epoll.register(self.listener.fileno(), select.EPOLLIN)
            peers = {}
            while not stop.is_set():
                for descriptor, events in epoll.poll(0.1, 256):
                    if descriptor == self.listener.fileno():
                        self._accept(epoll, peers)
                    elif not self._go_on(peers[descriptor]):
                        peers.pop(descriptor)[0].close()
                    else:
                        _, _, out, left = peers[descriptor]
                        epoll.modify(descriptor, select.EPOLLOUT if out[0] or left[0] else select.EPOLLIN)
            for peer, *_ in peers.values():
                peer.close()
        self.listener.close()

    def _accept(self, epoll, peers):
        try:
            while True:
                peer, _ = self.listener.accept()
                peer.setblocking(False)
                # Head so far, what is to be sent, and how many octets of content behind that.
                peers[peer.fileno()] = (peer, bytearray(), [b""], [0])
                epoll.register(peer.fileno(), select.EPOLLIN)
        except BlockingIOError:
            pass

    def _go_on(self, state):
        """- Returns: whether the connection stays open."""
        peer, head, out, left = state
        try:
            if not out[0] and not left[0]:
                data = peer.recv(65536)
                head += data
                if not data:
                    return False
                if b"\r\n\r\n" in head:
                    size = int(head.split(b" ", 2)[1].rsplit(b"/", 1)[1] or b"0")
                    out[0], left[0] = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size, size
                    head.clear()
            while out[0] or left[0]:
                if out[0]:
                    out[0] = out[0][peer.send(out[0]):]
                else:
                    left[0] -= peer.send(self.block[:min(left[0], 65536)])
        except BlockingIOError:
            pass
        except OSError:
            return False
        return True
