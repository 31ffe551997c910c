"""Seeds for FuzzHTTP2Session: connections with frames of each type, well-formed and not.

    python3 Fuzz/http2_seeds.py DIRECTORY
"""

import hashlib
import itertools
import sys
from pathlib import Path

DATA, HEADERS, PRIORITY, RESET, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 2, 3, 4, 6, 7, 8, 9
END_STREAM, END_HEADERS, PADDED = 1, 4, 8
LINE = [(":method", "POST"), (":scheme", "https"), (":authority", "a.example"), (":path", "/a?b=c")]


def frame(kind, flags=0, stream=0, payload=b""):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def block(*fields, line=LINE):
    return b"".join(
        b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()
        for name, value in [*line, *fields])


def head(stream, *fields, end=False, line=LINE):
    return frame(HEADERS, END_HEADERS | (END_STREAM if end else 0), stream, block(*fields, line=line))


def request(stream, *fields):
    return head(stream, *fields) + frame(DATA, 0, stream, b"hel") + frame(DATA, END_STREAM, stream, b"lo")


GREETING = frame(SETTINGS) + frame(SETTINGS, 1)
CONNECTIONS = [
    request(1, ("content-length", "5"), ("x", "y")) + request(3),
    head(1, ("cookie", "a=1"), ("cookie", "b=2"), ("accept", "*/*"), end=True),
    head(1, ("content-length", "0")) + frame(DATA, END_STREAM, 1),
    head(1, ("content-length", "4")) + frame(DATA, END_STREAM, 1, b"hello"),
    head(1, ("host", "a.example"), ("expect", "100-continue")) + frame(DATA, PADDED | END_STREAM, 1, b"\2ab\0\0"),
    head(1) + frame(DATA, 0, 1, b"x") + head(1, ("x-sum", "1"), end=True, line=[]),
    frame(HEADERS, END_STREAM, 1, block()) + frame(CONTINUATION, END_HEADERS, 1, block(("x", "y"), line=[])),
    frame(HEADERS, END_HEADERS | END_STREAM, 1, b"\x82\x87\x84\x41\x8c\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff")
    + frame(HEADERS, END_HEADERS | END_STREAM, 3, b"\x82\x87\x84\xbe\x58\x86\xa8\xeb\x10\x64\x9c\xbf"),
    head(1) + frame(RESET, 0, 1, b"\0\0\0\x08") + head(3, end=True) + frame(WINDOW_UPDATE, 0, 3, b"\0\0\0\1"),
    frame(PING, 0, 0, b"12345678") + frame(PRIORITY, 0, 5, b"\0\0\0\0\1") + frame(0xbb, 0, 0, b"x") + request(5),
    frame(SETTINGS, 0, 0, b"\0\4\0\0\0\1\0\1\0\0\0\0") + head(1, end=True) + frame(GOAWAY, 0, 0, bytes(8)),
    *(head(1, field, end=True) for field in [
        ("X", "y"), ("a_b", "c"), ("te", "trailers"), ("connection", "close"), ("x", " y"), (":path", "/"), ("x", "a\nb")]),
    *(head(1, line=LINE[:number] + LINE[number + 1:], end=True) for number in range(len(LINE))),
    *(head(1, line=LINE[:3] + [(":path", path)], end=True) for path in ["//", "*", "/%C3%A4", "/a?", ""]),
]

directory = Path(sys.argv[1])
for connection, manners in itertools.product(CONNECTIONS, (0, 0x1b, 0x0e)):
    seed = bytes([7, manners]) + GREETING + connection
    (directory / ("seed-" + hashlib.sha256(seed).hexdigest()[:16])).write_bytes(seed)
