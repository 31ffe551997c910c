"""Seeds for FuzzHTTP2Session and FuzzHTTP2ClientSession: connections with frames of each type, well-formed and not.

    python3 Fuzz/http2_seeds.py TARGET DIRECTORY
"""

import hashlib
import itertools
import sys
from pathlib import Path

DATA, HEADERS, PRIORITY, RESET, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, END_HEADERS, PADDED = 1, 4, 8
LINE = [(":method", "POST"), (":scheme", "https"), (":authority", "a.example"), (":path", "/a?b=c")]

CONNECT = [(":method", "CONNECT"), (":protocol", "websocket"), *LINE[1:]]


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
    head(1, line=CONNECT) + frame(DATA, 0, 1, b"ahead") + head(3, end=True) + frame(DATA, END_STREAM, 1, b"end"),
    head(1, line=CONNECT) + head(1, ("x", "y"), line=[], end=True), head(1, line=CONNECT) + frame(RESET, 0, 1, b"\0\0\0\x08"),
    *(head(1, field, end=True) for field in [
        ("X", "y"), ("a_b", "c"), ("te", "trailers"), ("connection", "close"), ("x", " y"), (":path", "/"), ("x", "a\nb")]),
    *(head(1, line=LINE[:number] + LINE[number + 1:], end=True) for number in range(len(LINE))),
    *(head(1, line=LINE[:3] + [(":path", path)], end=True) for path in ["//", "*", "/%C3%A4", "/a?", ""]),
]

STATUS = [(":status", "200")]


def answer(stream, *fields, end=False, status="200"):
    return head(stream, *fields, end=end, line=[(":status", status)])


# The requests are on 1 (HEAD), 3 (with content), 5 and 7.
ANSWERS = [
    answer(3, ("content-length", "5"), ("x", "y")) + frame(DATA, 0, 3, b"hel") + frame(DATA, END_STREAM, 3, b"lo"),
    answer(1, ("content-length", "5"), end=True) + answer(5) + frame(DATA, END_STREAM, 5, b"hello"),
    answer(5) + frame(DATA, 0, 5, b"x") + head(5, ("grpc-status", "0"), ("a.b_c-bin", "AA=="), end=True, line=[]),
    answer(5, status="100") + answer(5, ("link", "x"), status="103") + answer(5, end=True),
    answer(3, ("content-length", "0")) + head(3, ("x", "y"), end=True, line=[]) + frame(RESET, 0, 3, bytes(4)),
    answer(5, status="204") + frame(DATA, END_STREAM, 5), answer(5, status="304") + frame(DATA, END_STREAM, 5, b"x"),
    answer(1) + frame(DATA, END_STREAM, 1, b"x"), answer(3, ("content-length", "4")) + frame(DATA, END_STREAM, 3, b"hello"),
    answer(5) + frame(DATA, PADDED | END_STREAM, 5, b"\2ab\0\0"),
    frame(RESET, 0, 5, b"\0\0\0\x07") + answer(3) + frame(RESET, 0, 3, b"\0\0\0\x07"),
    answer(3, end=True) + frame(GOAWAY, 0, 0, b"\0\0\0\3" + bytes(4)) + answer(1, end=True),
    frame(GOAWAY, 0, 0, b"\x7f\xff\xff\xff" + bytes(4)) + answer(5, end=True) + frame(GOAWAY, 0, 0, b"\0\0\0\1" + bytes(4)),
    frame(HEADERS, END_STREAM, 5, block(line=STATUS)) + frame(CONTINUATION, END_HEADERS, 5, block(("x", "y"), line=[])),
    frame(SETTINGS, 0, 0, b"\0\4\0\0\0\1\0\3\0\0\0\1") + frame(WINDOW_UPDATE, 0, 3, b"\0\0\0\1") + answer(3, end=True),
    frame(PUSH_PROMISE, END_HEADERS, 1, b"\0\0\0\2" + block()), frame(PING, 0, 0, b"12345678") + frame(0xbb, 0, 0, b"x"),
    frame(HEADERS, END_HEADERS, 5, b"\x88\x5f\x87\x49\x7c\xa5\x8a\xe8\x19\xaa\xbe") + frame(DATA, END_STREAM, 5, b"x"),
    *(answer(5, field, end=True) for field in [
        ("X", "y"), ("a_b", "c"), ("te", "trailers"), ("connection", "close"), ("x", " y"), (":status", "200"), ("x", "a\nb")]),
    *(answer(5, end=True, status=status) for status in ["101", "99", "600", ""]),
]

TARGETS = {
    "FuzzHTTP2Session": (GREETING, CONNECTIONS, (0, 0x1b, 0x0e, 0x3b)),
    "FuzzHTTP2ClientSession": (GREETING, ANSWERS, (0x18, 0x01, 0x0d, 0x1e)),
}

target, directory = sys.argv[1:]
greeting, connections, manners = TARGETS[target]
for connection, byte in itertools.product(connections, manners):
    seed = bytes([7, byte]) + greeting + connection
    Path(directory, "seed-" + hashlib.sha256(seed).hexdigest()[:16]).write_bytes(seed)
