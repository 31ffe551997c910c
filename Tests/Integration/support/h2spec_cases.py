"""The cases of h2spec in our words: what a client sends, what is demanded, and what becomes of it here where that differs.

h2spec counts by the sections of RFC 7540; `SOURCES` has those of RFC 9113, which took its place.
"""

from dataclasses import dataclass

from support.http2_frames import (
    ACK, Codes, DATA, END_HEADERS, END_STREAM, PADDED, PREFACE, PRIORITY, PUSH_PROMISE, RST_STREAM, SETTINGS, WINDOW_UPDATE,
    WITH_PRIORITY, block, continuation, data, frame, goaway, headers, literal, number, ping, post, priority, reset, settings,
    window)


# What is demanded, and what is done.

@dataclass(frozen=True)
class ConnectionFault:
    """GOAWAY with that code, and the end (RFC 9113 section 5.4.1)."""

    code: Codes


@dataclass(frozen=True)
class StreamFault:
    """RST_STREAM with that code, and the others go on (section 5.4.2)."""

    code: Codes


@dataclass(frozen=True)
class Malformed:
    """400, then RST_STREAM with PROTOCOL_ERROR; the others go on (section 8.1.1)."""


@dataclass(frozen=True)
class Served:
    """The request on stream 1 is answered, and reached the service with that."""

    content: bytes = b""
    method: str = "GET"
    field: tuple = None


@dataclass(frozen=True)
class Portions:
    """The response on stream 1 comes in DATA frames of these lengths, and no more before the window opens."""

    lengths: tuple


@dataclass(frozen=True)
class GoesOn:
    """Nothing is said of it."""


@dataclass(frozen=True)
class Closes:
    """The connection ends without a word."""


# Steps that wait.

RESPONSE_ENDED = "the response on stream 1 has ended"
ACKNOWLEDGED = "our settings are acknowledged"
PORTION = "a DATA frame on stream 1 has come"


@dataclass(frozen=True)
class Case:
    name: str
    title: str
    sends: tuple
    demanded: object
    # Where it is something else.
    ours: object = None
    # Whether preface and settings have been exchanged before.
    greets: bool = True

    @property
    def section(self):
        return self.name.rsplit("/", 1)[0]

    @property
    def done(self):
        return self.ours or self.demanded


# From the section of h2spec to where that stands now.
SOURCES = {
    "generic 1": "9113, 3.4", "generic 2": "9113, 5.1", "generic 3.1": "9113, 6.1", "generic 3.2": "9113, 6.2",
    "generic 3.3": "9113, 6.3", "generic 3.4": "9113, 6.4", "generic 3.5": "9113, 6.5", "generic 3.7": "9113, 6.7",
    "generic 3.8": "9113, 6.8", "generic 3.9": "9113, 6.9", "generic 3.10": "9113, 6.10", "generic 4": "9113, 8.1",
    "generic 5": "7541, 6",
    "http2 3.5": "9113, 3.4", "http2 4.1": "9113, 4.1", "http2 4.2": "9113, 4.2", "http2 4.3": "9113, 4.3",
    "http2 5.1": "9113, 5.1", "http2 5.1.1": "9113, 5.1.1", "http2 5.1.2": "9113, 5.1.2", "http2 5.3.1": "9113, 5.3.2",
    "http2 5.4.1": "9113, 5.4.1", "http2 5.5": "9113, 5.5", "http2 6.1": "9113, 6.1", "http2 6.2": "9113, 6.2",
    "http2 6.3": "9113, 6.3", "http2 6.4": "9113, 6.4", "http2 6.5": "9113, 6.5", "http2 6.5.2": "9113, 6.5.2",
    "http2 6.5.3": "9113, 6.5.3", "http2 6.7": "9113, 6.7", "http2 6.8": "9113, 6.8", "http2 6.9": "9113, 6.9",
    "http2 6.9.1": "9113, 6.9.1", "http2 6.9.2": "9113, 6.9.2", "http2 6.10": "9113, 6.10", "http2 7": "9113, 7",
    "http2 8.1": "9113, 8.1", "http2 8.1.2": "9113, 8.2.1", "http2 8.1.2.1": "9113, 8.3", "http2 8.1.2.2": "9113, 8.2.2",
    "http2 8.1.2.3": "9113, 8.3.1", "http2 8.1.2.6": "9113, 8.1.1", "http2 8.2": "9113, 8.4",
    "hpack 2.3.3": "7541, 2.3.3", "hpack 4.2": "7541, 4.2", "hpack 5.2": "7541, 5.2", "hpack 6.1": "7541, 6.1",
    "hpack 6.3": "7541, 6.3",
}

# What the service answers, as far as it matters: longer than the windows that are opened here.
CONTENT = b"hello world"

PROTOCOL = ConnectionFault(Codes.PROTOCOL_ERROR)
SIZE = ConnectionFault(Codes.FRAME_SIZE_ERROR)
COMPRESSION = ConnectionFault(Codes.COMPRESSION_ERROR)
FLOW = ConnectionFault(Codes.FLOW_CONTROL_ERROR)
PROTOCOL_OF_STREAM = StreamFault(Codes.PROTOCOL_ERROR)
CLOSED_STREAM = StreamFault(Codes.STREAM_CLOSED)
CLOSED = ConnectionFault(Codes.STREAM_CLOSED)
WINDOW, FRAME_SIZE, PUSH, STREAMS, TABLE, LIST = 4, 5, 2, 3, 1, 6

# Half a block: the first field is whole, the second is not.
FIRST, REST = block()[:20], block()[20:]


def represented(pattern, name_index=None, huffman=False):
    """One field in a representation of RFC 7541 section 6.2: its name new, or user-agent of the static table."""
    name = b"" if name_index else (b"\x85\xf2\xb2\x4a\x84\xff" if huffman else b"\x06x-test")
    value = b"\x84\x9c\x48\xac\xa4" if huffman else b"\x06h2spec"
    if name_index is None:
        return bytes([pattern]) + name + value
    # 58 in the bits that the pattern leaves (section 5.1).
    prefix = 6 if pattern == 0x40 else 4
    most = (1 << prefix) - 1
    index = bytes([pattern | name_index]) if name_index < most else bytes([pattern | most, name_index - most])
    return index + value


USER_AGENT, X_TEST = ("user-agent", "h2spec"), ("x-test", "h2spec")

GENERIC = [
    Case("generic 1/1", "the client's preface", (PREFACE, settings((WINDOW, 65_535))), GoesOn(), greets=False),
    Case("generic 2/1", "PRIORITY on an idle stream", (priority(1),), GoesOn()),
    Case("generic 2/2", "WINDOW_UPDATE behind the end of a request",
         (settings((WINDOW, 0)), headers(), window(1, 1)), Portions((1,))),
    Case("generic 2/3", "PRIORITY behind the end of a request",
         (settings((WINDOW, 0)), headers(), priority(1), window(1, 1)), Portions((1,))),
    Case("generic 2/4", "RST_STREAM behind the end of a request", (headers(), reset()), GoesOn()),
    Case("generic 2/5", "PRIORITY on a stream that has closed", (headers(), RESPONSE_ENDED, priority(1)), GoesOn()),
    Case("generic 3.1/1", "DATA", (post(), data()), Served(b"test", "POST")),
    Case("generic 3.1/2", "DATA in several frames", (post(), data(end=False), data()), Served(b"testtest", "POST")),
    Case("generic 3.1/3", "DATA with padding", (post(), data(padding=5)), Served(b"test", "POST")),
    Case("generic 3.2/1", "HEADERS", (headers(),), Served()),
    Case("generic 3.2/2", "HEADERS with padding", (headers(flags=PADDED, before=b"\x05", after=bytes(5)),), Served()),
    Case("generic 3.2/3", "HEADERS with priority", (headers(flags=WITH_PRIORITY, before=number(0) + b"\xff"),), Served()),
    Case("generic 3.3/1", "PRIORITY of weight 1", (priority(1, weight=0), headers()), Served()),
    Case("generic 3.3/2", "PRIORITY of weight 256", (priority(1), headers()), Served()),
    Case("generic 3.3/3", "PRIORITY that depends on another stream", (priority(3, depends=1), headers()), Served()),
    Case("generic 3.3/4", "PRIORITY, exclusive", (priority(1, exclusive=True), headers()), Served()),
    Case("generic 3.3/5", "PRIORITY on an idle stream, then a request on a lower one", (priority(3), headers()), Served()),
    Case("generic 3.4/1", "RST_STREAM", (headers(end=False), reset()), GoesOn()),
    Case("generic 3.5/1", "SETTINGS of every kind", (settings(
        (TABLE, 4096), (PUSH, 1), (STREAMS, 100), (WINDOW, 65_535), (FRAME_SIZE, 16_384), (LIST, 100)), ACKNOWLEDGED),
        GoesOn()),
    Case("generic 3.7/1", "PING", (ping(b"h2spec  "),), GoesOn()),
    Case("generic 3.8/1", "GOAWAY", (goaway(),), Closes()),
    Case("generic 3.9/1", "WINDOW_UPDATE of the connection", (window(0, 1),), GoesOn()),
    Case("generic 3.9/2", "WINDOW_UPDATE of a stream", (headers(), window(1, 1)), Served()),
    Case("generic 3.10/1", "CONTINUATION", (headers(fields=FIRST, ends_block=False), continuation(REST)), Served()),
    Case("generic 3.10/2", "CONTINUATION in several frames", (
        headers(fields=FIRST, ends_block=False), continuation(REST[:5], ends_block=False), continuation(REST[5:])),
        Served()),
    Case("generic 4/1", "GET", (headers(),), Served()),
    Case("generic 4/2", "HEAD", (headers(fields=block(method=b"HEAD")),), Served(method="HEAD")),
    Case("generic 4/3", "POST", (post(), data()), Served(b"test", "POST")),
    Case("generic 4/4", "POST with trailers", (
        post((b"trailer", b"x-test")), data(end=False), headers(fields=literal(b"x-test", b"ok"))), Served(b"test", "POST")),
    Case("generic 5/1", "an indexed field", (headers(after=b"\xba"),), Served(field=("user-agent", ""))),
    Case("generic 5/2", "a literal to be remembered, its name indexed",
         (headers(after=represented(0x40, 58)),), Served(field=USER_AGENT)),
    Case("generic 5/3", "the same in Huffman's code",
         (headers(after=represented(0x40, 58, huffman=True)),), Served(field=USER_AGENT)),
    Case("generic 5/4", "a literal to be remembered, its name new",
         (headers(after=represented(0x40)),), Served(field=X_TEST)),
    Case("generic 5/5", "the same in Huffman's code",
         (headers(after=represented(0x40, huffman=True)),), Served(field=X_TEST)),
    Case("generic 5/6", "a literal not to be remembered, its name indexed",
         (headers(after=represented(0x00, 58)),), Served(field=USER_AGENT)),
    Case("generic 5/7", "the same in Huffman's code",
         (headers(after=represented(0x00, 58, huffman=True)),), Served(field=USER_AGENT)),
    Case("generic 5/8", "a literal not to be remembered, its name new",
         (headers(after=represented(0x00)),), Served(field=X_TEST)),
    Case("generic 5/9", "the same in Huffman's code",
         (headers(after=represented(0x00, huffman=True)),), Served(field=X_TEST)),
    Case("generic 5/10", "a literal never to be remembered, its name indexed",
         (headers(after=represented(0x10, 58)),), Served(field=USER_AGENT)),
    Case("generic 5/11", "the same in Huffman's code",
         (headers(after=represented(0x10, 58, huffman=True)),), Served(field=USER_AGENT)),
    Case("generic 5/12", "a literal never to be remembered, its name new",
         (headers(after=represented(0x10)),), Served(field=X_TEST)),
    Case("generic 5/13", "the same in Huffman's code",
         (headers(after=represented(0x10, huffman=True)),), Served(field=X_TEST)),
    Case("generic 5/14", "a table size update", (headers(before=b"\x20"),), Served()),
    Case("generic 5/15", "two table size updates", (headers(before=b"\x3f\x61\x3f\xe1\x1f"),), Served()),
]

FRAMES = [
    Case("http2 3.5/1", "the preface is answered with SETTINGS", (PREFACE, settings()), GoesOn(), greets=False),
    Case("http2 3.5/2", "something else than the preface",
         (b"INVALID CONNECTION PREFACE\r\n\r\n",), PROTOCOL, Closes(), greets=False),
    Case("http2 4.1/1", "a frame of unknown type", (frame(0x16, 0, 0, bytes(8)),), GoesOn()),
    Case("http2 4.1/2", "flags that nobody knows", (ping(flags=0x16),), GoesOn()),
    Case("http2 4.1/3", "the reserved bit", (ping(flags=0x16, stream=1 << 31),), GoesOn()),
    Case("http2 4.2/1", "DATA of 2^14 octets", (post(), data(bytes(16_384))), Served(bytes(16_384), "POST")),
    Case("http2 4.2/2", "DATA beyond the largest frame",
         (post(), data(bytes(16_385))), StreamFault(Codes.FRAME_SIZE_ERROR), SIZE),
    Case("http2 4.2/3", "HEADERS beyond the largest frame",
         (headers(fields=block(*[(b"x-%d" % n, b"x" * 4000) for n in range(5)])),), SIZE),
    Case("http2 4.3/1", "a block that cannot be decoded", (headers(fields=b"\x40"),), COMPRESSION),
    Case("http2 4.3/2", "PRIORITY within a block",
         (headers(end=False, ends_block=False), priority(1), continuation()), PROTOCOL),
    Case("http2 4.3/3", "HEADERS of another stream within a block",
         (headers(end=False, ends_block=False), headers(3), continuation()), PROTOCOL),
    Case("http2 6.1/1", "DATA on stream 0", (data(stream=0),), PROTOCOL),
    Case("http2 6.1/2", "DATA on a stream that the client has ended", (post(end=True), data()), CLOSED_STREAM, CLOSED),
    Case("http2 6.1/3", "DATA with more padding than payload",
         (post((b"content-length", b"4")), frame(DATA, PADDED | END_STREAM, 1, b"\x06Test")), PROTOCOL),
    Case("http2 6.2/1", "HEADERS without the end of its block, then PRIORITY",
         (headers(end=False, ends_block=False), priority(1), continuation()), PROTOCOL),
    Case("http2 6.2/2", "HEADERS without the end of its block, then those of another stream",
         (headers(end=False, ends_block=False), headers(3), continuation()), PROTOCOL),
    Case("http2 6.2/3", "HEADERS on stream 0", (headers(0),), PROTOCOL),
    Case("http2 6.2/4", "HEADERS with more padding than payload",
         (headers(flags=PADDED, before=bytes([len(block()) + 2])),), PROTOCOL),
    Case("http2 6.3/1", "PRIORITY on stream 0", (priority(0),), PROTOCOL),
    Case("http2 6.3/2", "PRIORITY of four octets",
         (headers(), frame(PRIORITY, 0, 1, bytes(4))), StreamFault(Codes.FRAME_SIZE_ERROR), SIZE),
    Case("http2 6.4/1", "RST_STREAM on stream 0", (reset(0),), PROTOCOL),
    Case("http2 6.4/2", "RST_STREAM on an idle stream", (reset(),), PROTOCOL),
    Case("http2 6.4/3", "RST_STREAM of three octets", (headers(), frame(RST_STREAM, 0, 1, bytes(3))), SIZE),
    Case("http2 6.5/1", "an acknowledgement of SETTINGS with a payload", (frame(SETTINGS, ACK, 0, b"\0"),), SIZE),
    Case("http2 6.5/2", "SETTINGS on a stream", (frame(SETTINGS, 0, 1, bytes([0, STREAMS, 0, 0, 0, 100])),), PROTOCOL),
    Case("http2 6.5/3", "SETTINGS of three octets", (frame(SETTINGS, 0, 0, bytes([0, STREAMS, 0])),), SIZE),
    Case("http2 6.5.2/1", "ENABLE_PUSH of 2", (settings((PUSH, 2)),), PROTOCOL),
    Case("http2 6.5.2/2", "INITIAL_WINDOW_SIZE of 2^31", (settings((WINDOW, 1 << 31)),), FLOW),
    Case("http2 6.5.2/3", "MAX_FRAME_SIZE below 2^14", (settings((FRAME_SIZE, 16_383)),), PROTOCOL),
    Case("http2 6.5.2/4", "MAX_FRAME_SIZE of 2^24", (settings((FRAME_SIZE, 1 << 24)),), PROTOCOL),
    Case("http2 6.5.2/5", "a setting that nobody knows", (settings((0xff, 1)),), GoesOn()),
    Case("http2 6.5.3/1", "a setting twice in one frame: the last one holds",
         (settings((WINDOW, 100), (WINDOW, 1)), ACKNOWLEDGED, headers()), Portions((1,))),
    Case("http2 6.5.3/2", "SETTINGS are acknowledged", (settings((PUSH, 0)), ACKNOWLEDGED), GoesOn()),
    Case("http2 6.7/1", "PING is answered with what it carries", (ping(b"h2spec  "),), GoesOn()),
    Case("http2 6.7/2", "an answer to no PING is not answered", (ping(b"invalid ", ACK), ping(b"h2spec  ")), GoesOn()),
    Case("http2 6.7/3", "PING on a stream", (ping(stream=1),), PROTOCOL),
    Case("http2 6.7/4", "PING of six octets", (ping(bytes(6)),), SIZE),
    Case("http2 6.8/1", "GOAWAY on a stream", (goaway(stream=1),), PROTOCOL),
    Case("http2 6.9/1", "WINDOW_UPDATE of nothing", (window(0, 0),), PROTOCOL),
    Case("http2 6.9/2", "WINDOW_UPDATE of nothing on a stream",
         (headers(end=False), window(1, 0)), PROTOCOL_OF_STREAM, PROTOCOL),
    Case("http2 6.9/3", "WINDOW_UPDATE of three octets", (frame(WINDOW_UPDATE, 0, 0, b"\0\0\1"),), SIZE),
    Case("http2 6.9.1/1", "a window of 1", (settings((WINDOW, 1)), ACKNOWLEDGED, headers()), Portions((1,))),
    Case("http2 6.9.1/2", "a connection's window beyond 2^31 - 1",
         (window(0, (1 << 31) - 1), window(0, (1 << 31) - 1)), FLOW),
    Case("http2 6.9.1/3", "a stream's window beyond 2^31 - 1",
         (headers(end=False), window(1, (1 << 31) - 1), window(1, (1 << 31) - 1)), StreamFault(Codes.FLOW_CONTROL_ERROR)),
    Case("http2 6.9.2/1", "INITIAL_WINDOW_SIZE changes under a stream",
         (settings((WINDOW, 0)), ACKNOWLEDGED, headers(), settings((WINDOW, 1))), Portions((1,))),
    Case("http2 6.9.2/2", "a window below zero",
         (settings((WINDOW, 3)), ACKNOWLEDGED, headers(), PORTION, settings((WINDOW, 2)), ACKNOWLEDGED, window(1, 2)),
         Portions((3, 1))),
    Case("http2 6.9.2/3", "INITIAL_WINDOW_SIZE of 2^31",
         (frame(SETTINGS, 0, 0, bytes([0, WINDOW, 0x80, 0, 0, 0])),), FLOW),
    Case("http2 6.10/1", "CONTINUATION in several frames behind HEADERS",
         (headers(ends_block=False), continuation(ends_block=False), continuation()), Served(field=("x-test", "h2spec"))),
    Case("http2 6.10/2", "CONTINUATION, then another frame", (
        headers(end=False, ends_block=False), continuation(ends_block=False), data()), PROTOCOL),
    Case("http2 6.10/3", "CONTINUATION on stream 0", (headers(ends_block=False), continuation(stream=0)), PROTOCOL),
    Case("http2 6.10/4", "CONTINUATION behind a block that has ended", (headers(), continuation()), PROTOCOL),
    Case("http2 6.10/5", "CONTINUATION behind one that ended the block",
         (headers(ends_block=False), continuation(), continuation()), PROTOCOL),
    Case("http2 6.10/6", "CONTINUATION behind DATA", (
        headers(fields=block(method=b"POST"), end=False, ends_block=False), data(), continuation(ends_block=False),
        continuation(stream=0)), PROTOCOL),
    Case("http2 7/1", "GOAWAY with a code that nobody knows", (goaway(0xff),), Closes()),
    Case("http2 7/2", "RST_STREAM with a code that nobody knows", (post(), reset(code=0xff)), GoesOn()),
]

STREAM_CASES = [
    Case("http2 5.1/1", "idle: DATA", (data(),), PROTOCOL),
    Case("http2 5.1/2", "idle: RST_STREAM", (reset(),), PROTOCOL),
    Case("http2 5.1/3", "idle: WINDOW_UPDATE", (window(1, 100),), PROTOCOL),
    Case("http2 5.1/4", "idle: CONTINUATION", (continuation(block()),), PROTOCOL),
    Case("http2 5.1/5", "half closed: DATA", (headers(), data()), CLOSED_STREAM, CLOSED),
    Case("http2 5.1/6", "half closed: HEADERS", (headers(), headers()), CLOSED_STREAM, CLOSED),
    Case("http2 5.1/7", "half closed: CONTINUATION", (headers(), continuation(block())), PROTOCOL),
    Case("http2 5.1/8", "closed by the client's RST_STREAM: DATA",
         (headers(end=False), reset(), data()), CLOSED_STREAM),
    Case("http2 5.1/9", "closed by the client's RST_STREAM: HEADERS",
         (headers(end=False), reset(), headers()), CLOSED_STREAM),
    Case("http2 5.1/10", "closed by the client's RST_STREAM: CONTINUATION",
         (headers(end=False), reset(), continuation()), PROTOCOL),
    Case("http2 5.1/11", "closed: DATA", (headers(), RESPONSE_ENDED, data()), CLOSED),
    Case("http2 5.1/12", "closed: HEADERS", (headers(), RESPONSE_ENDED, headers()), CLOSED),
    Case("http2 5.1/13", "closed: CONTINUATION", (headers(), RESPONSE_ENDED, continuation()), PROTOCOL),
    Case("http2 5.1.1/1", "a stream of even number", (headers(2),), PROTOCOL),
    Case("http2 5.1.1/2", "a stream below one that was begun", (headers(5), headers(3)), PROTOCOL),
    Case("http2 5.1.2/1", "a stream more than there may be", (
        settings((WINDOW, 0)), *(headers(2 * n + 1) for n in range(101))),
        StreamFault(Codes.REFUSED_STREAM), PROTOCOL),
    Case("http2 5.3.1/1", "HEADERS that depend on their own stream",
         (headers(flags=WITH_PRIORITY, before=number(1) + b"\xff"),), PROTOCOL_OF_STREAM, PROTOCOL),
    Case("http2 5.3.1/2", "PRIORITY that depends on its own stream", (priority(1, depends=1),), PROTOCOL_OF_STREAM, GoesOn()),
    Case("http2 5.4.1/1", "the connection is closed after an error", (ping(stream=3),), PROTOCOL),
    Case("http2 5.4.1/2", "GOAWAY stands before that end", (ping(stream=3),), PROTOCOL),
    Case("http2 5.5/1", "a frame of an extension", (frame(0x16, 0, 0, bytes(8)),), GoesOn()),
    Case("http2 5.5/2", "a frame of an extension within a block",
         (headers(ends_block=False), frame(0x16, 0, 0, bytes(8))), PROTOCOL),
]


def malformed(name, title, *fields, sends=None, **options):
    return Case(name, title, sends or (headers(fields=block(*fields, **options)),), PROTOCOL_OF_STREAM, Malformed())


MESSAGES = [
    malformed("http2 8.1/1", "a second HEADERS without the end of the stream", sends=(
        post(), data(end=False), headers(fields=literal(b"x-test", b"ok"), end=False))),
    malformed("http2 8.1.2/1", "a name in upper case", (b"X-TEST", b"ok")),
    malformed("http2 8.1.2.1/1", "a pseudo-header field that nobody knows", (b":test", b"ok")),
    malformed("http2 8.1.2.1/2", "a pseudo-header field of responses", (b":status", b"200")),
    malformed("http2 8.1.2.1/3", "a pseudo-header field in trailers", sends=(
        post(), data(end=False), headers(fields=literal(b":method", b"POST"), end=False))),
    malformed("http2 8.1.2.1/4", "a pseudo-header field behind another", leading=[(b"x-test", b"ok")]),
    malformed("http2 8.1.2.2/1", "Connection", (b"connection", b"keep-alive")),
    malformed("http2 8.1.2.2/2", "TE other than trailers", (b"trailers", b"test"), (b"te", b"trailers, deflate")),
    malformed("http2 8.1.2.3/1", ":path is empty", path=b""),
    malformed("http2 8.1.2.3/2", "no :method", without=[b":method"]),
    malformed("http2 8.1.2.3/3", "no :scheme", without=[b":scheme"]),
    malformed("http2 8.1.2.3/4", "no :path", without=[b":path"]),
    malformed("http2 8.1.2.3/5", ":method twice", (b":method", b"GET")),
    malformed("http2 8.1.2.3/6", ":scheme twice", (b":scheme", b"https")),
    malformed("http2 8.1.2.3/7", ":path twice", (b":path", b"/")),
    malformed("http2 8.1.2.6/1", "content longer than it says", sends=(post((b"content-length", b"1")), data())),
    malformed("http2 8.1.2.6/2", "content longer than it says, in several frames",
              sends=(post((b"content-length", b"1")), data(end=False), data())),
    Case("http2 8.2/1", "PUSH_PROMISE",
         (frame(PUSH_PROMISE, END_HEADERS, 1, number(3) + block()),), PROTOCOL),
]

COMPRESSION_CASES = [
    Case("hpack 2.3.3/1", "an index beyond the tables", (headers(after=b"\xc6"),), COMPRESSION),
    Case("hpack 2.3.3/2", "a literal whose name is beyond the tables", (headers(after=b"\x7f\x07\x00"),), COMPRESSION),
    Case("hpack 4.2/1", "a table size update at the end of a block", (headers(after=b"\x21"),), COMPRESSION),
    Case("hpack 5.2/1", "Huffman padding of more than seven bits",
         (headers(after=b"\x00\x85\xf2\xb2\x4a\x84\xff\x84\x49\x50\x9f\xff"),), COMPRESSION),
    Case("hpack 5.2/2", "Huffman padding of zeros",
         (headers(after=b"\x00\x85\xf2\xb2\x4a\x84\xff\x83\x49\x50\x90"),), COMPRESSION),
    Case("hpack 5.2/3", "the end-of-string symbol",
         (headers(after=b"\x00\x85\xf2\xb2\x4a\x84\xff\x87\x49\x51\xff\xff\xff\xfa\x7f"),), COMPRESSION),
    Case("hpack 6.1/1", "index 0", (headers(after=b"\x80"),), COMPRESSION),
    Case("hpack 6.3/1", "a table larger than was admitted", (headers(before=b"\x3f\xe2\x1f"),), COMPRESSION),
]

CASES = {case.name: case for case in [*GENERIC, *FRAMES, *STREAM_CASES, *MESSAGES, *COMPRESSION_CASES]}
