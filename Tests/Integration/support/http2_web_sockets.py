"""WebSockets over a stream of HTTP/2 (RFC 8441): a client of ours on top of `HTTP2Client`, frames by Python's websockets; and a raw
service that answers handshakes whose key it does not know beforehand."""

from websockets.frames import Frame, Opcode
from websockets.streams import StreamReader

from support.web_sockets import accept_of, switching

ENABLE_CONNECT_PROTOCOL = 0x8


def pseudo(path="/", authority="localhost", protocol="websocket", method="CONNECT", scheme="https"):
    """The pseudo-header fields of an extended CONNECT; None for one that is missing."""
    fields = [(":method", method), (":protocol", protocol), (":scheme", scheme), (":authority", authority), (":path", path)]
    return [(name, value) for name, value in fields if value is not None]


def connect(http2, path="/", fields=(), version="13", end=False, **replaced):
    """Asks for a WebSocket. - Returns: its stream."""
    versions = [("sec-websocket-version", version)] if version is not None else []
    own = [(name.lower(), value) for name, value in fields]
    return http2.start(pseudo=pseudo(path, **replaced), fields=[*versions, *own], end=end)


class StreamSocket:
    """A WebSocket that is open, on one stream of a connection."""

    def __init__(self, http2, path="/", fields=(), **options):
        self.http2 = http2
        self.number = connect(http2, path, fields, **options)
        self.head = http2.head(self.number)
        assert self.head.status == 200, self.head
        self.reader = StreamReader()
        self.parsing = None

    @property
    def stream(self):
        return self.http2.streams[self.number]

    def send(self, message, opcode=Opcode.BINARY, fin=True):
        self.http2.send(self.number, Frame(opcode, message, fin=fin).serialize(mask=True))

    def receive(self):
        """The next frame."""
        while True:
            # Each octet is handed over once: `content` is let go of, or long messages would cost their square.
            content, self.stream.response.content = self.stream.response.content, b""
            if content:
                self.reader.feed_data(content)
            if self.parsing is None:
                self.parsing = Frame.parse(self.reader.read_exact, mask=False)
            try:
                next(self.parsing)
            except StopIteration as done:
                self.parsing = None
                return done.value
            assert not self.stream.is_ended and self.stream.reset is None, "the tunnel has ended"
            self.http2.pump_until(
                lambda: self.stream.response.content or self.stream.is_ended or self.stream.reset is not None)

    def echo(self, message):
        self.send(message)
        frame = self.receive()
        assert (frame.opcode, bytes(frame.data)) == (Opcode.BINARY, message)

    def close(self, code=1000, reason=b""):
        """As RFC 6455 has it: the service ends first."""
        self.send(code.to_bytes(2, "big") + reason, Opcode.CLOSE)
        assert self.receive().opcode == Opcode.CLOSE
        self.wait_for_end()
        self.end()

    def end(self):
        """END_STREAM."""
        if self.stream.reset is None:
            self.http2.h2.end_stream(self.number)
            self.http2.flush()

    def wait_for_end(self):
        """- Returns: None for END_STREAM, or the code of RST_STREAM."""
        self.http2.pump_until(lambda: self.stream.is_ended or self.stream.reset is not None)
        return None if self.stream.is_ended else self.stream.reset

    def exactly(self, count):
        """That many octets, whatever they are."""
        self.http2.pump_until(
            lambda: len(self.stream.response.content) >= count or self.stream.is_ended or self.stream.reset is not None)
        return self.stream.response.content[:count]


def switches_by_key(*fields, then=b"", echo=True, **answer):
    """As `web_sockets.switches`, for a key that the gateway makes."""
    def script(connection):
        head = connection.handshake = connection.read_head()
        connection.early = connection.content_behind(head)
        given = {"accept": accept_of(head.values("sec-websocket-key")[0]), **answer}
        connection.send(switching(*fields, **given) + then)
        if connection.early and echo:
            connection.send(connection.early)
        while True:
            data = connection.receive()
            if echo:
                connection.send(data)
    return script
