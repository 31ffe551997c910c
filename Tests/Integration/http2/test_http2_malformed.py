"""A malformed request over HTTP/2: the client learns why, then its stream is reset, and nothing else ends."""

import json

import pytest

from support.client import get
from support.command_line import curl
from support.http2_client import HTTP2Client
from support.http2_frames import (
    Codes, DATA, GOAWAY, HEADERS, RST_STREAM, RawClient, block, data, headers, literal, post, reset)
from support.recording_upstream import OK


@pytest.fixture
def client(gateway, upstream, phone):
    with RawClient(gateway, phone) as client:
        client.greet()
        yield client


def assert_others_go_on(client, upstream):
    client.send(headers(401))
    assert client.wait(lambda each: each.stream == 401 and each.kind == HEADERS).fields[":status"] == "200"
    assert not [each for each in client.frames if each.kind == GOAWAY]


# Beyond those of h2spec (test_h2spec.py).
MALFORMED = {
    "the scheme is http": [headers(fields=block(scheme=b"http"))],
    "the path has an empty segment": [headers(fields=block(path=b"/a//b"))],
    "the path is a full URI": [headers(fields=block(path=b"https://localhost/"))],
    "the authority has user information": [headers(fields=block(authority=b"user@localhost"))],
    "Host is another authority": [headers(fields=block((b"host", b"other.example")))],
    "Content-Length twice": [headers(fields=block((b"content-length", b"0"), (b"content-length", b"0")))],
    "Transfer-Encoding": [headers(fields=block((b"transfer-encoding", b"chunked")))],
    "a name with a space": [headers(fields=block((b"x y", b"ok")))],
    "a value with a line feed": [headers(fields=block((b"x-test", b"a\nb")))],
    "a value with white space before it": [headers(fields=block((b"x-test", b" ok")))],
    "CONNECT": [headers(fields=block(method=b"CONNECT"), end=False)],
    "no content although a length is stated": [headers(fields=block((b"content-length", b"4"), method=b"POST"))],
    "content shorter than it says": [post((b"content-length", b"5")), data()],
    "content although the length is 0": [post((b"content-length", b"0")), data()],
    "Content-Length in trailers": [post(), data(end=False), headers(fields=literal(b"content-length", b"4"))],
    "an upload with more to come": [headers(fields=block((b"X", b"ok"), method=b"POST"), end=False), data(end=False)],
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_request_is_answered_400_then_reset_and_others_go_on(client, upstream, name):
    client.send(b"".join(MALFORMED[name]))
    client.wait(lambda each: each.kind == RST_STREAM)
    head, content, last = client.of(1)
    assert (head.kind, head.fields[":status"]) == (HEADERS, "400")
    assert (content.kind, content.ends_stream()) == (DATA, True)
    assert json.loads(content.payload)["error"] == "request_malformed"
    assert last.code() == Codes.PROTOCOL_ERROR
    client.ping()
    assert len(client.of(1)) == 3, "there is one reset"
    assert_others_go_on(client, upstream)
    assert [request.target for request in upstream.requests[-1:]] == ["/"]


def test_a_malformed_head_request_is_answered_without_content_then_reset(client):
    client.send(headers(fields=block((b"X", b"ok"), method=b"HEAD")))
    client.wait(lambda each: each.kind == RST_STREAM)
    assert [each.kind for each in client.of(1)] == [HEADERS, RST_STREAM]
    assert client.of(1)[0].fields[":status"] == "400" and client.of(1)[0].ends_stream()


REFUSED = {
    "a method of no route": (405, [headers(fields=block(method=b"PROPFIND"))]),
    "another host": (421, [headers(fields=block(authority=b"other.example"))]),
    "an unusual name": (400, [headers(fields=block((b"x_y", b"ok")))]),
    "too many fields": (431, [headers(fields=block(*[(b"x-%d" % n, b"") for n in range(110)]))]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_request_that_is_well_formed_is_answered_and_not_reset(client, upstream, name):
    status, frames = REFUSED[name]
    client.send(b"".join(frames))
    client.wait(lambda each: each.stream == 1 and each.ends_stream())
    client.ping()
    assert client.of(1)[0].fields[":status"] == str(status)
    assert not client.of(1, RST_STREAM)
    assert_others_go_on(client, upstream)


def test_curl_learns_the_status_of_a_malformed_request_with_and_without_content(gateway, upstream, phone, tmp_path):
    """libcurl 7.88 loses a response that arrives together with the reset of an upload."""
    large = tmp_path / "large"
    large.write_bytes(bytes(1 << 20))
    for content in [[], ["--data-binary", "short"], ["--data-binary", f"@{large}"]]:
        done = curl(
            gateway, "//", "--http2", "--path-as-is", "--output", "/dev/null", "--write-out", "%{http_code}", *content,
            identity=phone)
        assert (done.returncode, done.stdout) == (0, b"400"), done.stderr


def test_a_client_library_serves_its_other_requests_after_a_malformed_one(gateway, upstream, phone):
    with HTTP2Client(gateway, phone) as http2:
        for _ in range(5):
            assert http2.get("//").status == 400
            assert http2.exchange(get("/after")).status == 200
        assert not http2.going_away


# Frames on streams that have ended.

def test_frames_behind_the_clients_own_reset_are_answered_once_with_stream_closed(client, upstream):
    late = [data(end=False), data(end=False), headers(fields=literal(b"x-test", b"ok")), data()]
    client.send(headers(end=False) + reset() + b"".join(late))
    client.wait(lambda each: each.kind == RST_STREAM)
    client.ping()
    assert [(each.kind, each.code()) for each in client.of(1)] == [(RST_STREAM, Codes.STREAM_CLOSED)]
    assert_others_go_on(client, upstream)


@pytest.mark.parametrize("frame", [data(), headers()], ids=["DATA", "HEADERS"])
def test_a_frame_in_flight_when_the_gateway_ends_a_request_is_dropped(client, upstream, frame):
    """It may have been sent before the early answer or the reset arrived (RFC 9113 section 5.1)."""
    client.send(headers(fields=block((b"X", b"ok"), method=b"POST"), end=False))
    client.wait(lambda each: each.kind == RST_STREAM)
    client.send(frame)
    client.ping()
    assert len(client.of(1, RST_STREAM)) == 1
    assert_others_go_on(client, upstream)


@pytest.mark.parametrize("frame", [data(), headers()], ids=["DATA", "HEADERS"])
def test_a_frame_behind_the_clients_own_end_ends_the_connection(client, upstream, frame):
    upstream.answer = OK
    client.send(headers())
    client.wait(lambda each: each.stream == 1 and each.ends_stream())
    client.send(frame)
    client.wait_for_end()
    assert [each.code() for each in client.frames if each.kind == GOAWAY] == [Codes.STREAM_CLOSED]
