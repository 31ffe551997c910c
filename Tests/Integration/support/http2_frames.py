"""Frames of HTTP/2 as they lie on the wire (RFC 9113), and a client that sends what no library would."""

import socket
import struct
from dataclasses import dataclass

import h2.errors
import hpack

from support.client import tls_context
from support.paths import PATIENCE

Codes = h2.errors.ErrorCodes

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, ACK, END_HEADERS, PADDED, WITH_PRIORITY = 0x1, 0x1, 0x4, 0x8, 0x20

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

# GET / of localhost: indexed fields, and the authority as a literal that is not remembered (RFC 7541).
HEAD = b"\x82\x87\x84\x01\x09localhost"


def frame(kind, flags=0, stream=0, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def number(value):
    return struct.pack(">I", value)


def settings(*entries):
    return frame(SETTINGS, payload=b"".join(struct.pack(">HI", *entry) for entry in entries))


def string(text):
    """A string literal (RFC 7541 section 5.2) in no code."""
    length = len(text)
    if length < 127:
        return bytes([length]) + text
    made, length = b"\x7f", length - 127
    while length >= 128:
        made, length = made + bytes([length & 127 | 128]), length >> 7
    return made + bytes([length]) + text


def literal(name, value=b""):
    """A field that is not remembered (RFC 7541 section 6.2.2)."""
    return b"\x00" + string(name) + string(value)


# Of an ordinary request.
PSEUDO = {b":method": b"GET", b":scheme": b"https", b":path": b"/", b":authority": b"localhost"}


def block(*fields, leading=(), without=(), **changed):
    """A request's fields, none of them remembered. `leading`: fields before the pseudo-header fields."""
    pseudo = {**PSEUDO, **{b":" + name.encode(): value for name, value in changed.items()}}
    listed = [*leading, *((name, value) for name, value in pseudo.items() if name not in without), *fields]
    return b"".join(literal(*each) for each in listed)


def headers(stream=1, fields=None, end=True, ends_block=True, flags=0, before=b"", after=b""):
    flags |= (END_STREAM if end else 0) | (END_HEADERS if ends_block else 0)
    return frame(HEADERS, flags, stream, before + (block() if fields is None else fields) + after)


def post(*fields, end=False):
    return headers(fields=block(*fields, method=b"POST"), end=end)


def data(content=b"test", stream=1, end=True, padding=None):
    if padding is not None:
        return frame(DATA, PADDED | end, stream, bytes([padding]) + content + bytes(padding))
    return frame(DATA, END_STREAM if end else 0, stream, content)


def priority(stream, depends=0, weight=255, exclusive=False):
    return frame(PRIORITY, 0, stream, number(depends | exclusive << 31) + bytes([weight]))


def reset(stream=1, code=Codes.CANCEL):
    return frame(RST_STREAM, 0, stream, number(code))


def window(stream, increment):
    return frame(WINDOW_UPDATE, 0, stream, number(increment))


def continuation(fields=literal(b"x-test", b"h2spec"), stream=1, ends_block=True):
    return frame(CONTINUATION, END_HEADERS if ends_block else 0, stream, fields)


def ping(content=bytes(8), flags=0, stream=0):
    return frame(PING, flags, stream, content)


def goaway(code=Codes.NO_ERROR, stream=0):
    return frame(GOAWAY, 0, stream, number(0) + number(code))


class Over(Exception):
    """The gateway has closed the connection."""


@dataclass
class Frame:
    kind: int
    flags: int
    stream: int
    payload: bytes
    # Of HEADERS.
    fields: dict = None

    def ends_stream(self):
        return self.kind in (DATA, HEADERS) and bool(self.flags & END_STREAM)

    def code(self):
        """The error code of RST_STREAM or GOAWAY."""
        return Codes(struct.unpack(">I", self.payload[:4] if self.kind == RST_STREAM else self.payload[4:8])[0])


class RawClient:
    """Sends nothing by itself, only what the test asks for; `frames` holds what came."""

    def __init__(self, gateway, identity):
        plain = socket.create_connection(("127.0.0.1", gateway.port), timeout=PATIENCE)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        context = tls_context(gateway.pki, identity)
        context.set_alpn_protocols(["h2"])
        try:
            self.socket = context.wrap_socket(plain, server_hostname="localhost")
        except BaseException:
            plain.close()
            raise
        self.buffer, self.frames, self.decoder = b"", [], hpack.Decoder()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def greet(self):
        """Preface and settings of both sides, each acknowledged: then the gateway holds us to its own."""
        self.send(PREFACE + settings())
        first = self.read()
        assert (first.kind, first.flags & ACK) == (SETTINGS, 0), first
        self.wait(lambda each: each.kind == SETTINGS and each.flags & ACK)
        self.send(frame(SETTINGS, ACK))
        self.ping()
        self.frames.clear()

    def send(self, data):
        try:
            self.socket.sendall(data)
        except OSError:
            # What the gateway had to say before may still be read.
            pass

    def read(self):
        """The next frame. - Raises: Over."""
        while len(self.buffer) < 9 or len(self.buffer) < 9 + int.from_bytes(self.buffer[:3], "big"):
            try:
                data = self.socket.recv(65536)
            except socket.timeout:
                raise AssertionError(f"the gateway says nothing more; there are {self.frames}") from None
            except OSError:
                data = b""
            if not data:
                assert not self.buffer, "a frame is cut off"
                raise Over(f"there are {self.frames}")
            self.buffer += data
        length = int.from_bytes(self.buffer[:3], "big")
        kind, flags, stream = struct.unpack(">BBI", self.buffer[3:9])
        payload, self.buffer = self.buffer[9:9 + length], self.buffer[9 + length:]
        self.frames.append(Frame(kind, flags, stream, payload))
        if kind == HEADERS:
            self.frames[-1].fields = dict(self.decoder.decode(payload))
        return self.frames[-1]

    def wait(self, condition):
        """- Returns: the next frame of which that is true."""
        while True:
            each = self.read()
            if condition(each):
                return each

    def wait_for_end(self):
        """Until the gateway closes."""
        try:
            while True:
                self.read()
        except Over:
            pass

    def ping(self):
        """Everything the gateway has to say to what was sent before has come after it.

        Twice, for an answer to PING may overtake what else is to be sent.
        """
        for data in [b"earlier.", b"and then"]:
            self.send(frame(PING, payload=data))
            self.wait(lambda each: (each.kind, each.flags, each.payload) == (PING, ACK, data))

    def of(self, stream, *kinds):
        return [each for each in self.frames if each.stream == stream and (not kinds or each.kind in kinds)]
