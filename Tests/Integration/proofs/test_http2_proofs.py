"""Every promise about proofs holds over HTTP/2 too: the same tests, another connection."""

import pytest

from support import phone as phones
from support.denials import assert_denied
from support.http2_client import HTTP2Client, StreamReset
from support.phone import content_digest
from support.recording_upstream import Gone
from test_proof_denials import *  # noqa: F401,F403
from test_request_proofs import *  # noqa: F401,F403

# Those that are about how HTTP/1.1 writes something: a field named in Connection, the spelling of names, the bytes of a
# request that is not complete. The last ones stand below in the words of HTTP/2.
test_a_covered_field_cannot_be_removed_by_connection = None
test_signatures_of_others_pass_to_the_service = None
test_content_is_invited_only_after_the_proof_has_verified = None
test_nothing_is_forwarded_before_the_last_byte_of_content = None
test_content_beyond_the_limit_is_refused_before_it_comes = None


@pytest.fixture(autouse=True)
def over_http2(monkeypatch):
    monkeypatch.setattr(phones, "Client", HTTP2Client)


def fields_of(phone, method, path, content, **options):
    return [(name.lower(), value) for name, value in phone.proof(method, path, content=content, **options)]


@pytest.fixture
def http2(attested):
    with HTTP2Client(attested.gateway, attested.phone.identity) as client:
        yield client


def test_content_is_invited_over_http_2_once_the_proof_has_verified(attested, http2):
    expect = ("expect", "100-continue")
    with attested.nothing_forwarded():
        number = http2.start("POST", "/a", [expect], end=False)
        assert_denied(attested.gateway, http2.response(number), "proof_required", 401)
        assert http2.streams[number].interim == []
    number = http2.start("POST", "/a", [expect, *fields_of(attested.phone, "POST", "/a", b"hello")], end=False)
    http2.pump_until(lambda: http2.streams[number].interim)
    http2.send(number, b"hello", end=True)
    assert http2.response(number).status == 200
    assert attested.upstream.last_request().content == b"hello"


def test_nothing_is_forwarded_over_http_2_before_the_end_of_the_stream(attested, http2):
    with attested.nothing_forwarded():
        number = http2.start("POST", "/a", fields_of(attested.phone, "POST", "/a", b"hello"), end=False)
        http2.send(number, b"hello")
        http2.ping()
    http2.send(number, b"", end=True)
    assert http2.response(number).status == 200


def test_content_beyond_the_limit_is_refused_over_http_2(attested, http2):
    content = bytes(100_001)
    for announced in [[], [("content-length", "100001")]]:
        with attested.nothing_forwarded():
            number = http2.start(
                "POST", "/a", [*announced, *fields_of(attested.phone, "POST", "/a", content)], end=False)
            http2.send(number, content, end=True)
            assert_denied(attested.gateway, http2.response(number), "too_large", 413)


@pytest.mark.parametrize("announced", [True, False], ids=["length", "no length"])
def test_streamed_content_that_differs_from_its_proof_never_arrives_complete(attested, http2, announced):
    content, other = b"a" * 200_000, b"a" * 199_999 + b"b"
    length = [("content-length", "200000")] if announced else []
    number = http2.start("PUT", "/stream/x", [*length, *fields_of(attested.phone, "PUT", "/stream/x", content)], end=False)
    http2.send(number, other, end=True)
    assert_denied(attested.gateway, http2.response(number), "body_digest_mismatch", 400)
    assert not any(r.target == "/stream/x" for r in attested.upstream.requests)
    number = http2.start("PUT", "/stream/y", [*length, *fields_of(attested.phone, "PUT", "/stream/y", content)], end=False)
    http2.send(number, content, end=True)
    assert http2.response(number).status == 200
    assert attested.upstream.last_request().content == content


def test_a_mismatch_cuts_off_a_response_over_http_2_that_has_begun(start_attested):
    attested = start_attested()
    content = b"a" * 100_000

    def answer_early(connection):
        connection.read_head()
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
        try:
            connection.wait_for_end()
        except Gone:
            pass
    attested.upstream.script = answer_early
    phone = attested.phone
    with HTTP2Client(attested.gateway, phone.identity) as http2:
        number = http2.start("PUT", "/stream/x", fields_of(phone, "PUT", "/stream/x", content), end=False)
        http2.head(number)
        http2.send(number, content[:-1] + b"b", end=True)
        with pytest.raises(StreamReset):
            http2.response(number)
