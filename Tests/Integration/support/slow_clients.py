"""Clients that take as long as they can, most of them with a certificate: each holds up one wait of the gateway."""

import socket
import ssl
import struct

from support.client import Client, IncompleteResponse, get
from support.paths import PATIENCE

# In its first record: a handshake message of that length, and its beginning.
HALF_HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
HEAD = b"GET /slow HTTP/1.1\r\nHost: localhost\r\nX: "
CONTENT = get("/slow", "Content-Length: 1000", method="POST") + b"hello"
LONG = get("/slow", "Content-Length: 1000000", method="POST")
CHUNKED = get("/slow", "Transfer-Encoding: chunked", method="POST") + b"5\r\nhello\r\n"


class HalfOpen:
    """A connection that stops before its handshake, within its first message, or behind the gateway's answer to that."""

    def __init__(self, gateway, context, beginning):
        self.socket = socket.create_connection(("127.0.0.1", gateway.port), timeout=PATIENCE)
        if beginning is None:
            incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            handshake = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
            try:
                handshake.do_handshake()
            except ssl.SSLWantReadError:
                beginning = outgoing.read()
        self.socket.sendall(beginning)
        self.socket.setblocking(False)

    def go_on(self):
        """- Returns: whether the gateway has ended it."""
        try:
            while self.socket.recv(65536):
                pass
            return True
        except BlockingIOError:
            return False
        except ConnectionError:
            return True

    def assert_denied(self):
        """A client without keys can only receive the end of the connection."""
        self.socket.close()


class Slow:
    """A client that has shown its certificate, says something, and then hardly anything."""

    def __init__(self, gateway, identity, context, beginning, trickle=b""):
        self.client = Client(gateway, identity, context)
        self.trickle = trickle
        self.client.send(beginning)
        self.client.socket.setblocking(False)

    @property
    def socket(self):
        return self.client.socket

    def go_on(self):
        """One octet more, if it has any. - Returns: whether the gateway has said something."""
        try:
            if self.trickle:
                self.client.socket.send(self.trickle)
            self.client._more()
            return True
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return False
        except (OSError, IncompleteResponse):
            return True

    def assert_denied(self):
        self.client.socket.settimeout(PATIENCE)
        response = self.client.read_response()
        assert response.status == 408, response
        self.client.assert_closed()
        self.client.close()


def half_open(gateway, identity, context):
    """One of each kind."""
    return [HalfOpen(gateway, context, beginning) for beginning in (b"", HALF_HELLO, None)]


def stalled(gateway, identity, context):
    """The same of those that stop, or send an octet now and then, in what has its time in total."""
    return [Slow(gateway, identity, context, beginning, trickle) for beginning, trickle in [
        (b"G", b""), (HEAD, b""), (HEAD, b"a"), (CONTENT, b""), (CHUNKED, b""), (LONG, b"a"),
        (CHUNKED, b"1\r\na\r\n")]]


def reset(one):
    """It is gone in the middle, so that the gateway sees a reset."""
    plain = socket.socket(fileno=one.socket.detach())
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    plain.close()
