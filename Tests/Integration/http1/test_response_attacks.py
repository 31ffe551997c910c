"""Answers of a service that two readers could take for different things: 502, or cut off; nothing of them is passed on."""

import pytest

from support.client import Client, IncompleteResponse, get
from support.denials import assert_denied
from support.recording_upstream import OK, Gone
from support.waiting import eventually

# A connection of its own for each: what was said on another is the script's.
LAST = OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
POISON = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison"


def line(text):
    return text.encode("latin-1") + b"\r\nContent-Length: 6\r\n\r\npoison"


def head(*fields, status="200 OK", content=b"poison"):
    return "\r\n".join([f"HTTP/1.1 {status}", *fields, "", ""]).encode("latin-1") + content


CHUNKED = "Transfer-Encoding: chunked"
CHUNKS = b"6\r\npoison\r\n0\r\n\r\n"

HEADS = {
    # RFC 9112 section 4.
    **{f"status line {text!r}": line(text) for text in [
        "HTTP/1.1 099 Low", "HTTP/1.1 600 High", "HTTP/1.1 2OO OK", "HTTP/1.1 +20 OK", "HTTP/1.1 -20 OK", "HTTP/1.1 2 0 OK",
        "HTTP/1.1 2000 OK", "HTTP/1.1  200 OK", "HTTP/1.1\t200 OK", "HTTP/1.1 200\0OK", "HTTP/1.1 200 O\0K", "HTTP/1.1 200 O\rK",
        "HTTP/1.1 200 O\nK", "HTTP/1.1 200 OK\r", "HTTP/1.1 200 O\x7fK", "HTTP/1.1", "HTTP/1.1 ", "HTTP/1.1 OK", "HTTP/1.2 200 OK",
        "HTTP/0.9 200 OK", "HTTP/3 200 OK", "HTTP/1 200 OK", "HTTP/11 200 OK", "HTTP/1.10 200 OK", "http/1.1 200 OK", "HTTPS/1.1 200 OK",
        "ICY 200 OK", " HTTP/1.1 200 OK", "\r\nHTTP/1.1 200 OK", "\nHTTP/1.1 200 OK", "\0HTTP/1.1 200 OK", "200 OK", "GET / HTTP/1.1"]},
    # RFC 9112 section 6.3.
    "CL.TE": head("Content-Length: 6", CHUNKED, content=CHUNKS), "TE.CL": head(CHUNKED, "Content-Length: 6", content=CHUNKS),
    "CL.TE with length 0": head("Content-Length: 0", CHUNKED, content=CHUNKS),
    "Content-Length twice, equal": head("Content-Length: 6", "Content-Length: 6"),
    "Content-Length twice, in other letters": head("Content-Length: 6", "content-length: 0"),
    **{f"Content-Length {value!r}": head(f"Content-Length: {value}") for value in [
        "6, 6", "6,0", "-6", "+6", "0x6", "06", "6 6", "6;", "", "six", "6.0", "18446744073709551622", "\xb2", "6\0", "\x0b6"]},
    **{f"Transfer-Encoding {value!r}": head(f"Transfer-Encoding: {value}", content=CHUNKS) for value in [
        "identity", "gzip", "gzip, chunked", "chunked, gzip", "chunked, chunked", "chunked;q=1", "xchunked", "\x0bchunked",
        "chunked\0", "\"chunked\"", "", ",chunked", "chunked,"]},
    "Transfer-Encoding twice": head(CHUNKED, CHUNKED, content=CHUNKS),
    "Transfer-Encoding twice, once of nobody": head("Transfer-Encoding: cow", CHUNKED, content=CHUNKS),
    "Transfer-Encoding in HTTP/1.0": b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + CHUNKS,
    # RFC 9112 section 5.
    **{f"field {text!r}": head(text, "Content-Length: 6") for text in [
        "X : a", "X\t: a", " X: a", "\tX: a", ": a", "X", "X@Y: a", "X\0: a", "X: a\0", "X: a\x0bb", "X: a\x7f", "X: a\rb", "X: a\nY: b",
        "X: a\r\n b", "X: a\r\n\tb", "X: a\r", "X\xe9: a", "Content-Length: 6\r\n 0"]},
    "Connection that is no list": head("Connection: close now", "Content-Length: 6"),
    "Connection that names Content-Length": head("Connection: Content-Length", "Content-Length: 6"),
    "all lines end with LF": POISON.replace(b"\r\n", b"\n"), "all lines end with CR": POISON.replace(b"\r\n", b"\r") + b"\n",
    # RFC 9110 section 8.6 and RFC 9112 section 6.1.
    "204 that announces content": head("Content-Length: 6", status="204 No Content"),
    "204 with chunks": head(CHUNKED, status="204 No Content", content=CHUNKS),
    "100 that announces content": head("Content-Length: 6", status="100 Continue") + POISON,
    "103 with chunks": head(CHUNKED, status="103 Early Hints", content=CHUNKS) + POISON,
    "101 unasked": head("Upgrade: websocket", "Connection: Upgrade", status="101 Switching Protocols"),
    "malformed behind an interim response": head(status="100 Continue", content=b"") + line("HTTP/1.1 2OO OK"),
}

# The head is well-formed, so that it may have been passed on when the fault is found.
CONTENTS = {
    **{f"chunk size {size!r}": size.encode("latin-1") + b"\r\npoison\r\n0\r\n\r\n" for size in [
        "0x6", "-6", "+6", " 6", "6 ", "6\t", "", "g", "6_", "6\0", "6,", "6\n", "10000000000000006", "fffffffffffffffa", "0" * 40 + "6",
        "6;a\nb", "6;" + "a" * 5000]},
    **{f"chunk ended by {end!r}": b"6\r\npoison" + end + b"0\r\n\r\n" for end in [b"\n", b"\r", b"\n\r", b"\r\r\n", b"", b"XX"]},
    **{f"trailer {text!r}": b"6\r\npoison\r\n0\r\n" + text.encode("latin-1") + b"\r\n\r\n" for text in [
        "X", ": a", "X : a", " X: a", "X: a\r\n b", "X: a\0", "X: a\n", "Content-Length: 6", "Transfer-Encoding: chunked",
        "X: " + "a" * 5000]},
    "the trailers end with LF": b"6\r\npoison\r\n0\r\n\n",
}


@pytest.fixture
def behind(start_gateway, own_upstream, phone):
    return start_gateway({"service": own_upstream.address}, timeouts={"keep_alive": "300s"})


def answering(data, is_bytewise=False):
    """Serves a connection's first request with exactly that."""
    def script(connection):
        try:
            connection.read_request()
            for index in range(0, len(data), 1 if is_bytewise else len(data)):
                connection.send(data[index:index + (1 if is_bytewise else len(data))])
            connection.wait_for_end()
        except (Gone, OSError):
            # Left in the middle of what it says.
            connection.is_closed_by_gateway = True
    return script


@pytest.mark.parametrize("is_bytewise", [False, True], ids=["in one write", "byte by byte"])
def test_an_ambiguous_response_head_is_502_and_nothing_is_passed_on(behind, own_upstream, phone, is_bytewise):
    with Client(behind, phone) as client:
        for name, data in HEADS.items():
            own_upstream.script = answering(data, is_bytewise)
            try:
                response = client.exchange(get("/"))
                assert_denied(behind, response, "upstream_unavailable", 502, is_logged=False)
                assert b"poison" not in response.content
            except (AssertionError, IncompleteResponse) as failure:
                raise AssertionError(f"{name}: {failure}") from failure
        own_upstream.script = None
        own_upstream.answer = OK
        assert client.exchange(get("/")).content == b"ok"
    eventually(lambda: all(c.is_closed_by_gateway for c in own_upstream.connections[:-1]), "the faulty ones to be left")


@pytest.mark.parametrize("is_bytewise", [False, True], ids=["in one write", "byte by byte"])
def test_ambiguous_response_content_never_completes(behind, own_upstream, phone, is_bytewise):
    for name, content in CONTENTS.items():
        own_upstream.script = answering(head(CHUNKED, content=content), is_bytewise)
        with Client(behind, phone) as client:
            try:
                response = client.exchange(get("/"))
            except IncompleteResponse:
                continue
            assert response.status == 502, name


def test_a_flood_of_interim_responses_is_502(behind, own_upstream, phone):
    """RFC 9110 section 15.2 lets a service send several; one that does nothing else is not waited for."""
    interim = b"HTTP/1.1 102 Processing\r\n\r\n"

    def flood(connection):
        try:
            connection.read_request()
            while True:
                connection.send(interim)
        except (Gone, OSError):
            connection.is_closed_by_gateway = True
    with Client(behind, phone) as client:
        own_upstream.script = flood
        assert_denied(behind, client.exchange(get("/")), "upstream_unavailable", 502)
        eventually(lambda: own_upstream.connections[-1].is_closed_by_gateway, "the flood to be left")
        for count, status in [(16, 200), (17, 502)]:
            own_upstream.script = answering(interim * count + LAST)
            assert client.exchange(get("/")).status == status


@pytest.mark.parametrize("method, answer", [
    ("HEAD", head("Content-Length: 6", content=POISON)), ("HEAD", head(CHUNKED, content=CHUNKS + POISON)),
    ("GET", head(status="204 No Content", content=POISON)), ("GET", head(status="304 Not Modified", content=POISON)),
    ("GET", head("Content-Length: 6", status="304 Not Modified", content=b"poison")),
    ("GET", head("Content-Length: 0", content=POISON)), ("GET", head(CHUNKED, content=b"0\r\n\r\n" + POISON))],
    ids=["HEAD", "HEAD with chunks", "204", "304", "304 with a length", "Content-Length 0", "behind the last chunk"])
def test_bytes_behind_a_response_answer_no_other_request(behind, own_upstream, phone, method, answer):
    own_upstream.answer = LAST
    with Client(behind, phone) as client, Client(behind, phone) as other:
        for asking in (client, other, client):
            own_upstream.script = answering(answer)
            response = asking.exchange(get("/", method=method))
            assert response.status < 400 and response.content == b""
            own_upstream.script = None
            assert asking.exchange(get("/")).content == b"ok"
