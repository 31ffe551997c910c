"""A health service that records every byte it is sent, and answers as a test tells it."""

import contextlib
import socket
import ssl
import struct
import threading

from support import strict
from support.paths import PATIENCE
from support.waiting import eventually

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


# How a health check begins.
CHECK = b"GET /health HTTP/1.1\r\n"


class Gone(Exception):
    """The gateway has closed the connection."""


class Connection:
    """One connection of the gateway, as the service sees it."""

    def __init__(self, upstream, peer):
        self.upstream = upstream
        self.socket = peer
        self.received = bytearray()
        # How often it took bytes from the socket.
        self.reads = 0
        # Those of this connection.
        self.requests = []
        self.consumed = 0
        self.is_closed_by_gateway = False
        # Closed, and so that nobody can take it for an end in order.
        self.is_broken = False
        # Of TLS, once the handshake is complete.
        self.is_resumed = self.version = self.subject = None

    def receive(self, count=65536):
        """More bytes, recorded. - Raises: Gone at the end."""
        try:
            data = self.socket.recv(count)
        except (ConnectionError, ssl.SSLError):
            data, self.is_broken = b"", True
        if not data:
            self.is_closed_by_gateway = True
            raise Gone
        self.reads += 1
        self.received += data
        return data

    def read_head(self):
        while True:
            try:
                return strict.parse_head(self.received[self.consumed:], *self.upstream.expected)[0]
            except strict.Incomplete:
                self.receive()

    def content_behind(self, head):
        """- Returns: the content that has come so far behind the head that was read last."""
        return bytes(self.received[self.consumed + len(head.head):])

    def read_request(self):
        """The next complete request."""
        while True:
            try:
                request, length = strict.parse_request(self.received[self.consumed:], *self.upstream.expected)
            except strict.Incomplete:
                self.receive()
                continue
            self.consumed += length
            self.requests.append(request)
            self.upstream.requests.append(request)
            return request

    def is_check(self):
        """Whether it begins with a health check of the gateway; then all of its head has come."""
        if not self.upstream.is_checked:
            return False
        while CHECK.startswith(self.received) and len(self.received) < len(CHECK):
            self.receive()
        if not self.received.startswith(CHECK):
            return False
        while b"\r\n\r\n" not in self.received:
            self.receive()
        self.upstream.checks.append(bytes(self.received))
        return True

    def send(self, data):
        self.socket.sendall(data)

    def reset(self):
        """Closes so that the gateway sees a reset."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def wait_for_end(self):
        """Reads until the gateway closes."""
        try:
            while True:
                self.receive()
        except Gone:
            pass


class RecordingUpstream:
    def __init__(self, tls=None, host="127.0.0.1", port=0, path=None):
        """`tls`: the SSLContext of a service that speaks TLS; may be changed for connections to come. `path`: of a Unix socket."""
        self.tls = tls
        if path:
            self.listener = socket.socket(socket.AF_UNIX)
            self.listener.bind(str(path))
            self.listener.listen(256)
            self.address = f"unix:{path}"
        else:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            self.listener = socket.create_server((host, port), backlog=256, family=family)
            self.port = self.listener.getsockname()[1]
            self.address = f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"
        # Why handshakes failed.
        self.refusals = []
        self.connections = []
        # Those of all connections, in the order in which they were complete.
        self.requests = []
        # Health checks are not in the record of requests: the heads of all that came.
        self.checks = []
        self.faults = []
        self.closed = threading.Event()
        # Whether to separate health checks from requests: a connection's first bytes are read before its script then.
        self.is_checked = False
        # Whether requests may ask for WebSockets.
        self.upgrades = False
        # Names of fields, in lower case, that the gateway may forward although they are unusual.
        self.unusual_names = ()
        # How often Forwarded stands in a request.
        self.forwarded = 1
        self.reset_behaviour()
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def expected(self):
        return self.upgrades, self.unusual_names, self.forwarded

    def reset_behaviour(self):
        # What is answered to a request: bytes, or a function of it.
        self.answer = OK
        # Serves a health check's connection, once its head has come.
        self.health = lambda connection: connection.send(OK)
        # Serves a connection in place of the usual loop, from its start or from its next request on: a function of the connection.
        self.script = None

    def _accept(self):
        while True:
            try:
                peer, _ = self.listener.accept()
            except OSError:
                return
            # A connection that is never read again must not keep the test run alive.
            peer.settimeout(PATIENCE * 4)
            connection = Connection(self, peer)
            self.connections.append(connection)
            threading.Thread(target=self._serve, args=[connection], daemon=True).start()

    def _serve(self, connection):
        try:
            if self.tls and not self._secure(connection):
                return None
            if connection.is_check():
                return self.health(connection)
            if self.script:
                return self.script(connection)
            while True:
                # A script serves kept connections too, from their next request on: which one is used decides nothing.
                if connection.consumed == len(connection.received):
                    connection.receive()
                if self.script:
                    return self.script(connection)
                request = connection.read_request()
                answer = self.answer
                connection.send(answer(request) if callable(answer) else answer)
        except Gone:
            pass
        except strict.NotCanonical as fault:
            self.faults.append(f"{fault}: {bytes(connection.received)!r}")
        except OSError:
            connection.is_closed_by_gateway = True
        finally:
            connection.socket.close()

    def _secure(self, connection):
        try:
            # Without this option, an end that anybody on the way can have made is reported as an ordinary one.
            connection.socket = peer = self.tls.wrap_socket(
                connection.socket, server_side=True, suppress_ragged_eofs=False, do_handshake_on_connect=False)
            peer.do_handshake()
            connection.is_resumed, connection.version = peer.session_reused, peer.version()
            connection.subject = (peer.getpeercert() or {}).get("subject")
            return True
        except OSError as fault:
            self.refusals.append(str(fault))
            # What still comes is read over: a reset in answer to it could overtake the alert.
            with contextlib.suppress(OSError):
                socket.socket.shutdown(connection.socket, socket.SHUT_WR)
                while socket.socket.recv(connection.socket, 65536):
                    pass
            return False

    def close(self):
        self.closed.set()
        # close() alone leaves a thread in accept().
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for connection in self.connections:
            try:
                connection.socket.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    @property
    def received(self):
        """Everything ever received, in the order of the connections."""
        return b"".join(bytes(connection.received) for connection in list(self.connections))

    @property
    def byte_count(self):
        return sum(len(connection.received) for connection in list(self.connections))

    def wait_for_requests(self, count):
        eventually(lambda: len(self.requests) >= count, lambda: f"{count} requests; there are {self.requests}")
        return self.requests

    def last_request(self):
        return self.requests[-1]


def answering(content):
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(content), content)


class Held:
    """A service that answers no request before the test releases it."""

    def __init__(self, upstream):
        self.released = {}
        self.lock = threading.Lock()
        upstream.answer = self.answer

    def event(self, target):
        with self.lock:
            return self.released.setdefault(target, threading.Event())

    def answer(self, request):
        self.event(request.target).wait(60)
        return answering(request.target.encode())

    def release(self, target):
        self.event(target).set()
