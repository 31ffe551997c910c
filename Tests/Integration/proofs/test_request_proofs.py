"""Proofs that prove: what an honest phone sends passes, and the service learns who sent it."""

import re
import time

import pytest

from support.client import get, post
from support.phone import COUNTER_FIELD, TARGET, challenge_of, content_digest
from support.platforms import only


@pytest.fixture
def client(attested):
    with attested.phone.connect() as client:
        yield client


@pytest.mark.parametrize("request_of", [
    dict(path="/"), dict(path="/a/b", query="c=d&e=%20"), dict(method="DELETE", path="/a"), dict(method="HEAD", path="/a"),
    dict(method="POST", path="/a", content=b""), dict(method="POST", path="/a", content=b"x"),
    dict(method="PUT", path="/a", content=bytes(100_000)), dict(method="POST", path="/a", content=bytes(range(256)), chunked=True),
    dict(method="POST", path="/a", content=b"", chunked=True),
    dict(path="/a", fields=[("Authorization", "Bearer x"), ("Accept", "text/html")]),
    dict(method="POST", path="/a", content=b"{}", fields=[("Content-Type", "application/json"), ("Content-Encoding", "br")]),
    dict(path="/a", fields=[("X-Twice", "1"), ("X-Twice", " 2 ")], also=["x-twice"]),
    dict(path="/a", extra=f";expires={int(time.time()) + 3000}"),
], ids=lambda case: "-".join(str(v)[:12] for v in case.values()))
def test_an_honest_request_passes(attested, client, request_of):
    response = client.exchange(attested.phone.request(**request_of), request_of.get("method"))
    assert response.status == 200, response
    seen = attested.upstream.last_request()
    assert seen.method == request_of.get("method", "GET")
    assert seen.content == (request_of.get("content") or b"")


def test_the_algorithm_may_be_stated(attested, client):
    extra = f';alg="{attested.phone.algorithm}"'
    assert client.exchange(attested.phone.request(path="/a", extra=extra)).status == 200


def test_components_may_be_covered_in_any_order(attested, client):
    covered = ["@query", "@path", "@method", "@authority"]
    if attested.phone.platform == "android":
        covered.insert(1, COUNTER_FIELD.lower())
    assert client.exchange(attested.phone.request(path="/a", covered=covered)).status == 200


@only("ios")
def test_the_flags_of_an_assertion_may_be_others(attested, client):
    assert client.exchange(attested.phone.request(path="/a", flags=0x00)).status == 200


@pytest.mark.parametrize("digest", [
    content_digest(b"x", "sha-512"), content_digest(b"x") + ", " + content_digest(b"x", "sha-512"),
    content_digest(b"x") + ", md5=:AAAA:"])
def test_every_digest_of_the_standard_is_taken(attested, client, digest):
    assert client.exchange(attested.phone.request("POST", "/a", content=b"x", digest=digest)).status == 200


def test_the_service_gets_the_device_but_not_the_proof(attested, client):
    data = attested.phone.request(path="/a", sent={"fields": [
        ("Attest-Device", "evil"), ("attest-app", "evil"), ("ATTEST-COUNTER", "7"), ("Attest-Platform", "evil")]})
    assert client.exchange(data).status == 200
    seen = attested.upstream.last_request()
    fields = {name.lower(): value for name, value in seen.fields}
    assert fields["attest-app"] == attested.phone.app
    assert fields["attest-platform"] == attested.phone.platform
    assert fields["attest-counter"] == str(attested.phone.counter)
    assert re.fullmatch("[0-9a-f]{64}", fields["attest-device"])
    assert len([n for n, _ in seen.fields if n.lower().startswith("attest-")]) == 4
    assert b"signature" not in seen.head.lower()
    assert attested.phone.key.key_id.hex() not in seen.head.decode(), "the service receives no key id"
    # The same device has the same name, another has another.
    assert client.exchange(attested.phone.request(path="/b")).status == 200
    assert ("Attest-Device", fields["attest-device"]) in attested.upstream.last_request().fields
    other = attested.new_phone()
    with other.connect() as second:
        assert second.exchange(other.request(path="/b")).status == 200
    assert ("Attest-Device", fields["attest-device"]) not in attested.upstream.last_request().fields


def test_a_device_route_needs_no_proof_and_passes_no_counter(attested, client):
    assert client.exchange(get("/device/1")).status == 200
    names = [name for name, _ in attested.upstream.last_request().fields]
    assert "Attest-Device" in names and "Attest-Counter" not in names
    assert client.exchange(post("/device/1", b"x")).status == 200


def test_a_certificate_route_passes_nothing_about_devices(attested, client):
    assert client.exchange(get("/certificate", "Attest-Device: evil")).status == 200
    assert b"attest-" not in attested.upstream.last_request().head.lower()


def test_signatures_of_others_pass_to_the_service(attested, client):
    data = attested.phone.request(path="/a", sent={"fields": [
        ("Signature-Input", 'sig1=("@method");created=1'), ("Signature", "sig1=:AAAA:")]})
    assert client.exchange(data).status == 200
    fields = attested.upstream.last_request().fields
    assert ("Signature-Input", 'sig1=("@method");created=1') in fields and ("Signature", "sig1=:AAAA:") in fields


# Challenges.

@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_the_challenge_endpoint_gives_one_for_a_certificate_alone(attested, client, method):
    response = client.exchange(get("/.well-known/attestgate/challenge", method=method), method)
    assert (response.status, response.value("cache-control")) == (204, "no-store")
    assert client.exchange(attested.phone.request(path="/a", nonce=challenge_of(response))).status == 200
    stranger = attested.new_phone(register=False)
    with stranger.connect() as other:
        challenge_of(other.exchange(get("/.well-known/attestgate/challenge")))


def test_the_challenge_endpoint_takes_no_other_method(attested, client):
    from support.denials import assert_denied
    response = client.exchange(post("/.well-known/attestgate/challenge", b"x"))
    assert_denied(attested.gateway, response, "method_refused", 405)
    assert response.value("allow") == "GET, HEAD"


def test_two_challenges_are_never_the_same(client):
    given = {challenge_of(client.exchange(get("/.well-known/attestgate/challenge"))) for _ in range(50)}
    assert len(given) == 50


def test_one_challenge_is_good_for_many_requests(attested, client):
    challenge = attested.challenges.make()
    for _ in range(10):
        response = client.exchange(attested.phone.request(path="/a", nonce=challenge))
        assert response.status == 200 and response.values("accept-signature") == []


def test_a_challenge_past_half_its_life_is_followed_by_a_new_one(attested, client):
    for path, status in [("/a", 200), ("/device", 200)]:
        response = client.exchange(attested.phone.request(path=path, nonce=attested.challenges.make(age=200)))
        assert response.status == status
        if path == "/a":
            fresh = challenge_of(response)
    assert client.exchange(attested.phone.request(path="/a", nonce=fresh)).values("accept-signature") == []


def test_signature_fields_of_the_service_are_removed(attested, client):
    attested.upstream.answer = b'HTTP/1.1 200 OK\r\nContent-Length: 0\r\nAccept-Signature: attest=("@path");nonce="evil"\r\n\r\n'
    assert client.exchange(attested.phone.request(path="/a")).values("accept-signature") == []


# Content that is waited for.

def test_content_is_invited_only_after_the_proof_has_verified(attested):
    phone = attested.phone
    good = phone.request("POST", "/a", content=b"x" * 1000, fields=[("Expect", "100-continue")])
    head, body = good[:-1000], good[-1000:]
    with phone.connect() as client:
        client.send(head)
        assert client.read_head().status == 100
        client.send(body)
        assert client.read_response().status == 200
    bad = phone.request("POST", "/a", content=b"x" * 1000, fields=[("Expect", "100-continue")], sent={"target": "/b"})
    with attested.nothing_forwarded(), phone.connect() as client:
        client.send(bad[:-1000])
        assert client.read_response().status == 401, "answered without having seen the content"


def test_nothing_is_forwarded_before_the_last_byte_of_content(attested):
    data = attested.phone.request("POST", "/a", content=b"x" * 1000)
    with attested.nothing_forwarded(), attested.phone.connect() as client:
        client.send(data[:-1]).wait_until_delivered()
    with attested.phone.connect() as client:
        # Never complete, so never counted: the same proof still passes.
        assert client.exchange(data).status == 200


def test_content_beyond_the_limit_is_refused_before_it_comes(attested):
    from support.denials import assert_denied
    phone = attested.phone
    with attested.nothing_forwarded(), phone.connect() as client:
        client.send_while_open(phone.request("POST", "/a", content=bytes(100_001)))
        assert_denied(attested.gateway, client.read_response(), "too_large", 413)
    with attested.nothing_forwarded(), phone.connect() as client:
        client.send_while_open(phone.request("POST", "/a", content=bytes(100_001), chunked=True))
        assert_denied(attested.gateway, client.read_response(), "too_large", 413)


def test_covered_components_have_the_standards_values(attested, client):
    """RFC 9421 section 2.2.3: the host in lower case; section 2.2.7: the question mark belongs to the query."""
    data = attested.phone.request(path="/a", sent={"host": "LOCALHOST"})
    assert client.exchange(data).status == 200
    # An own reading of RFC 9421's base is in phone.py; here only that both agree on order and on all parts.
    covered = list(reversed(TARGET)) + ([COUNTER_FIELD.lower()] if attested.phone.platform == "android" else [])
    assert client.exchange(attested.phone.request(path="/a", covered=covered)).status == 200


# The counter.

@only("ios")
@pytest.mark.parametrize("also", [[], [COUNTER_FIELD.lower()]], ids=["uncovered", "covered"])
def test_an_iphones_field_with_a_counter_has_no_effect(attested, client, also):
    data = attested.phone.request(path="/a", fields=[(COUNTER_FIELD, "9999")], also=also)
    assert client.exchange(data).status == 200
    fields = {name.lower(): value for name, value in attested.upstream.last_request().fields}
    assert COUNTER_FIELD.lower() not in fields
    assert fields["attest-counter"] == str(attested.phone.counter)
