"""What comes back to the client: the service's answer, framed by the gateway."""

import pytest

from support.client import get
from support.recording_upstream import OK


def test_fields_of_the_response_come_through(upstream, connect):
    upstream.answer = (
        b"HTTP/1.1 201 Whatever\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nX_Under: yes\r\nServer: it\r\n"
        b"Keep-Alive: timeout=5\r\nContent-Length: 2\r\nETag: \"x\"\r\n\r\nok")
    response = connect().exchange(get("/"))
    assert (response.status, response.content) == (201, b"ok")
    assert response.fields == [
        ("Set-Cookie", "a=1"), ("Set-Cookie", "b=2"), ("X_Under", "yes"), ("Server", "it"), ("ETag", '"x"'),
        ("Content-Length", "2")]


def test_fields_that_the_services_connection_names_are_not_passed_on(upstream, connect):
    # RFC 9110 section 7.6.1.
    upstream.answer = (
        b"HTTP/1.1 200 OK\r\nX-Hop: 1\r\nConnection: X-Hop, keep-alive\r\nX-Kept: 2\r\nContent-Length: 2\r\n\r\nok")
    response = connect().exchange(get("/"))
    assert response.fields == [("X-Kept", "2"), ("Content-Length", "2")]


def test_a_head_response_has_the_fields_and_no_content(upstream, connect):
    upstream.answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\nX: a\r\n\r\n"
    client = connect()
    response = client.exchange(get("/", method="HEAD"))
    assert (response.status, response.value("content-length"), response.value("x")) == (200, "5000", "a")
    upstream.answer = OK
    assert client.exchange(get("/")).content == b"ok"


@pytest.mark.parametrize("framing", [b"Transfer-Encoding: chunked\r\n", b""])
def test_a_head_response_does_not_claim_a_length_that_the_service_did_not_state(upstream, connect, framing):
    # RFC 9110 section 8.6: a Content-Length there is what GET would have been answered with, and that was not 0.
    upstream.answer = b"HTTP/1.1 200 OK\r\n" + framing + b"\r\n"
    client = connect()
    response = client.exchange(get("/", method="HEAD"))
    assert (response.status, response.values("content-length")) == (200, [])
    upstream.answer = OK
    assert client.exchange(get("/")).content == b"ok"


@pytest.mark.parametrize("status, lengths", [(204, []), (304, []), (304, ["5000"])])
def test_a_response_without_content_has_none(upstream, connect, status, lengths):
    stated = b"".join(b"Content-Length: %s\r\n" % length.encode() for length in lengths)
    upstream.answer = b"HTTP/1.1 %d Nothing\r\n%sETag: \"x\"\r\n\r\n" % (status, stated)
    client = connect()
    response = client.exchange(get("/"))
    assert (response.status, response.values("content-length"), response.value("etag")) == (status, lengths, '"x"')
    upstream.answer = OK
    assert client.exchange(get("/")).content == b"ok"


@pytest.mark.parametrize("content", [b"", b"hello", b"x" * 100_000])
def test_a_chunked_response_is_rechunked_and_its_trailers_dropped(upstream, connect, content):
    chunks = b"".join(b"%x ;a=b\r\n%s\r\n".replace(b" ", b"") % (len(part), part) for part in (
        content[i:i + 7000] for i in range(0, len(content), 7000)))
    upstream.answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + b"".join(
        [b"0\r\n", b"X-Trailer: a\r\n", b"Set-Cookie: a=b\r\n", b"Attest-Device: me\r\n", b"Accept-Signature: a=()\r\n", b"\r\n"])
    client = connect()
    # The client's reader takes no trailers.
    response = client.exchange(get("/"))
    assert (response.content, response.fields) == (content, [("Transfer-Encoding", "chunked")])
    upstream.answer = OK
    assert client.exchange(get("/")).content == b"ok"


@pytest.mark.parametrize("version", [b"1.1", b"1.0"])
def test_a_response_ended_by_its_connection_is_complete_and_the_clients_connection_continues(upstream, connect, version):
    def script(connection):
        connection.read_request()
        connection.send(b"HTTP/" + version + b" 200 OK\r\n\r\n" + b"x" * 70_000)
    client = connect()
    upstream.script = script
    assert client.exchange(get("/")).content == b"x" * 70_000
    upstream.script = None
    assert client.exchange(get("/")).content == b"ok"


def test_interim_responses_are_not_passed_on(upstream, connect):
    upstream.answer = (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    response = connect().exchange(get("/"))
    assert (response.status, response.fields, response.content) == (200, [("Content-Length", "2")], b"ok")
