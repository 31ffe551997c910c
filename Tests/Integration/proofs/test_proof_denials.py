"""Proofs that prove nothing. Each attack ends in its denial, and not one byte reaches the service."""

import copy
import re
import time

import pytest

from support.client import get, post
from support.denials import assert_denied
from support.phone import ALGORITHMS, COUNTER_FIELD, TARGET, HardwareKey, cbor_assertion, challenge_of, content_digest
from support.platforms import PLATFORMS, only

STATUS = {"body_digest_mismatch": 400, "device_mismatch": 403}


@pytest.fixture
def refused(attested):
    """Sends bytes, and expects that denial and nothing at the service."""
    def check(data, code, detail=None, phone=None):
        with attested.nothing_forwarded(), (phone or attested.phone).connect() as client:
            response = client.exchange(data)
            entry = assert_denied(attested.gateway, response, code, STATUS.get(code, 401))
            assert response.values("www-authenticate") == (
                ['Signature realm="attestgate"'] if response.status == 401 else [])
            assert len(response.values("accept-signature")) == (1 if response.status == 401 else 0)
            if detail:
                assert detail in entry["detail"], entry
        return response
    return check


# proof_required

@pytest.mark.parametrize("fields", [
    [], ["Signature: attest=:AAAA:"], ['Signature-Input: attest=("@method");created=1'],
    ['Signature-Input: sig1=("@method");created=1', "Signature: sig1=:AAAA:"], ["Authorization: Bearer abc"],
], ids=["nothing", "no input", "no signature", "another's signature", "a token"])
def test_a_request_without_a_proof_learns_how_to_make_one(refused, attested, fields):
    if fields and fields[0].startswith("Signature-Input: attest"):
        # The gateway reports the missing field only if the other one is well-formed.
        fields = [f"{name}: {value}" for name, value in attested.phone.proof() if name == "Signature-Input"]
    response = refused(get("/a", *fields), "proof_required")
    challenge_of(response)


def test_the_denial_lists_what_the_proof_must_cover(refused, platform):
    response = refused(post("/location/1", b"x", "Content-Type: text/plain", "Authorization: a"), "proof_required")
    components = re.match(r"attest=\(([^)]*)\)", response.value("accept-signature"))[1].replace('"', "").split()
    counter = [COUNTER_FIELD.lower()] if platform == "android" else []
    assert components == TARGET + ["content-digest", "authorization", "content-type", *counter, "x-location"]
    assert (';alg="ecdsa-p256-sha256"' in response.value("accept-signature")) == (platform == "android")


# proof_malformed

def bend(pattern, replacement):
    """A change of the proof's fields as text."""
    def change(fields):
        text = [(name, re.sub(pattern, replacement, value)) for name, value in fields]
        assert text != fields, "the change changes nothing"
        return text
    return change


@pytest.mark.parametrize("change", [
    bend(r";created=\d+", ""), bend(r';keyid="[^"]*"', ""), bend(r';tag="[^"]*"', ""), bend(r';nonce="[^"]*"', ""),
    bend(r";created=(\d+)", r";created=\1;created=\1"), bend(r";created=(\d+)", r';created="\1"'),
    bend(r";created=(\d+)", r";created=-\1"), bend(r";created=(\d+)", r";created=0\1"),
    bend(r';tag="', r';extra=1;tag="'), bend(r'"@path"', '"@path";req'), bend(r'"@path"', '"@path" "@path"'),
    bend(r'"@path"', '"@target-uri"'), bend(r'"@path"', '"Accept"'), bend(r"attest=\(", "attest=( "),
    bend(r';keyid="....', ';keyid="'), bend(r':\Z', ""), bend(r"\Aattest=:.", "attest=:*"), bend(r"\Aattest=", "attest=1;a="),
    bend(r'attestgate-request', "attestgate-response"), bend(r'\A(attest=\(.*)\Z', r'\1, \1'),
    bend(r'\A(attest=\(.*)\Z', r'\1, sig=("@method");tag="attestgate-request"'), bend(r'\Aattest=:.*', "attest=::"),
    bend(r';tag="', r';alg="none";tag="'),
    bend(r"\A(attest=\(.*)\Z", r"\1\\"),
], ids=lambda change: "")
def test_a_proof_in_another_form_is_malformed(refused, attested, change):
    fields = change(attested.phone.proof(path="/a"))
    refused(get("/a", *[f"{name}: {value}" for name, value in fields]), "proof_malformed")


def test_the_algorithm_can_only_agree_with_the_registered_device(refused, attested, platform):
    for algorithm in {*ALGORITHMS.values(), "rsa-v1_5-sha256"} - {ALGORITHMS[platform]}:
        refused(attested.phone.request(path="/a", extra=f';alg="{algorithm}"'), "proof_malformed")


def test_the_registered_device_decides_how_its_proof_is_verified(refused, attested, platform):
    """A proof in the form of the other platform, signed by the very key: whatever `alg` says, it is none."""
    disguised = copy.copy(attested.phone)
    disguised.platform = next(other for other in PLATFORMS if other != platform)
    code = "proof_incomplete" if platform == "android" else "proof_malformed"
    refused(disguised.request(path="/a"), code)
    refused(disguised.request(path="/a", extra=f';alg="{ALGORITHMS[platform]}"'), code)
    refused(disguised.request(path="/a", extra=f';alg="{disguised.algorithm}"'), "proof_malformed")


@only("android")
@pytest.mark.parametrize("signature", [
    lambda s: s[:-1], lambda s: s + b"\x00", lambda s: b"\x00", lambda s: s[:32], lambda s: s * 2, lambda s: s * 60,
    lambda s: b"\x30\x44\x02\x20" + s[:32] + b"\x02\x20" + s[32:],
], ids=["cut", "trailing", "one byte", "half", "twice", "huge", "DER"])
def test_a_signature_of_another_length_is_malformed(refused, attested, signature):
    refused(attested.phone.request(path="/a", assertion=signature), "proof_malformed", "64 bytes")


@only("android")
@pytest.mark.parametrize("lines", [
    ["0"], ["00"], ["+7"], ["-7"], ["07"], ["7.0"], ["7 8"], ["0x7"], ["4294967296"], ["99999999999"], [""], ["seven"],
    ["7", "7"], ["7", "8"], ["7, 7"], ["7", ""],
], ids=lambda lines: "-".join(lines))
def test_a_counter_in_another_form_is_malformed(refused, attested, lines):
    refused(attested.phone.request(path="/a", counter_lines=lines), "proof_malformed", "not one decimal number")


@only("ios")
@pytest.mark.parametrize("assertion", [
    lambda a: a[:-1], lambda a: a + b"\x00", lambda a: b"\xa1" + a[1:], lambda a: b"\xbf" + a[1:] + b"\xff",
    lambda a: b"\xa3" + a[1:] + b"\x61x\x00", lambda a: a.replace(b"\x69signature", b"\x69signaturf"),
    lambda a: cbor_assertion(b"\x30\x00", a[-37:])[:20], lambda a: b"\x00", lambda a: b"\x9f" * 300,
    lambda a: b"\xa2" + b"\x69signature" + b"\x5b\xff\xff\xff\xff\xff\xff\xff\xff" + a, lambda a: a * 40,
    lambda a: cbor_assertion(a[14:84], b"x" * 36),
], ids=["cut", "trailing", "one entry", "indefinite", "third entry", "renamed", "stub", "number", "nested", "huge length",
        "too long", "short data"])
def test_a_malformed_assertion_is_malformed(refused, attested, assertion):
    refused(attested.phone.request(path="/a", assertion=assertion), "proof_malformed")


def test_a_content_digest_in_another_form_is_malformed(refused, attested):
    phone = attested.phone
    for digest in ["sha-256=:AAAA:", "sha-1=:AAAA:", "sha-256=abc", content_digest(b"x") + ";a=1", ""]:
        refused(phone.request("POST", "/a", content=b"x", digest=digest), "proof_malformed")


# challenge_required

@pytest.mark.parametrize("make, detail", [
    (lambda c: c.make(age=301), "expired"), (lambda c: c.make(age=-120), "the challenge is from the future"),
    (lambda c: c.make(epoch=b"e" * 16), "belongs to another store or epoch"),
    (lambda c: c.make(store=b"s" * 16), "belongs to another store or epoch"),
    (lambda c: c.make(purpose="enrolment"), "belongs to another store or epoch"),
    (lambda c: c.make(secret=b"k" * 32), "belongs to another store or epoch"),
    (lambda c: c.make(generation=9), "belongs to another store or epoch"), (lambda c: "x", "not a challenge"),
    (lambda c: c.make()[:-1], "not a challenge"), (lambda c: c.make() + "A", "not a challenge"),
    (lambda c: "A" * 78, "not a challenge"), (lambda c: "A" * 512, "not a challenge"),
], ids=["expired", "premature", "of an earlier epoch", "of another store", "of enrolment", "of another secret",
        "of an unknown generation", "text", "cut", "extended", "of another version", "long"])
def test_a_foreign_or_expired_challenge_is_replaced(refused, attested, make, detail):
    data = attested.phone.request(path="/a", nonce=make(attested.challenges), created=int(time.time()))
    response = refused(data, "challenge_required", detail)
    # With what the answer brings, the request passes.
    with attested.phone.connect() as client:
        assert client.exchange(attested.phone.request(path="/a", nonce=challenge_of(response))).status == 200


# proof_stale

# Far enough from every bound that a slow machine does not come across it.
@pytest.mark.parametrize("age, challenge_age, detail", [
    (-300, 0, "in the future"), (305, 250, "in the past"), (80, 0, "before the challenge"),
])
def test_a_proof_of_another_time_is_stale_and_learns_the_gateways_time(refused, attested, age, challenge_age, detail):
    data = attested.phone.request(
        path="/a", nonce=attested.challenges.make(age=challenge_age), created=int(time.time()) - age)
    response = refused(data, "proof_stale", detail)
    assert response.value("date").endswith("GMT")


def test_a_proof_past_its_own_end_is_stale(refused, attested):
    refused(attested.phone.request(path="/a", extra=f";expires={int(time.time())}"), "proof_stale", "expires is in the past")


# proof_incomplete

@pytest.mark.parametrize("missing", TARGET)
def test_a_proof_that_leaves_out_a_part_of_the_target_is_incomplete(refused, attested, missing):
    covered = [name for name in TARGET if name != missing]
    response = refused(attested.phone.request(path="/a", covered=covered), "proof_incomplete")
    assert f"Missing: {missing}." in response.content.decode()


@pytest.mark.parametrize("name", ["Authorization", "Content-Type", "Content-Encoding"])
def test_a_field_that_was_added_after_signing_is_noticed(refused, attested, name):
    data = attested.phone.request(path="/a", sent={"fields": [(name, "x")]})
    response = refused(data, "proof_incomplete")
    assert f"Missing: {name.lower()}." in response.content.decode()


def test_uncovered_content_is_incomplete(refused, attested):
    phone = attested.phone
    response = refused(phone.request(path="/a", method="POST", sent={"content": b"added"}), "proof_incomplete")
    assert "Missing: content-digest." in response.content.decode()
    refused(phone.request("POST", "/a", content=b"x", covered=TARGET), "proof_incomplete")
    refused(phone.request("POST", "/a", chunked=True, content=b"", digest=None), "proof_incomplete")


@only("android")
@pytest.mark.parametrize("change", [
    {"counter_lines": []}, {"covered": TARGET}, {"counter_lines": [], "covered": TARGET},
], ids=["absent", "uncovered", "neither"])
def test_a_proof_without_its_counter_is_incomplete(refused, attested, change):
    response = refused(attested.phone.request(path="/a", **change), "proof_incomplete")
    assert "Missing: attest-proof-counter." in response.content.decode()


def test_a_missing_covered_field_is_named(refused, attested):
    response = refused(attested.phone.request(path="/a", also=["x-absent"]), "proof_incomplete")
    assert "Missing: x-absent." in response.content.decode()


def test_a_route_may_demand_more(refused, attested):
    response = refused(attested.phone.request(path="/location/1", fields=[("X-Location", "here")]), "proof_incomplete")
    assert "Missing: x-location." in response.content.decode()
    with attested.phone.connect() as client:
        data = attested.phone.request(path="/location/1", fields=[("X-Location", "here")], also=["x-location"])
        assert client.exchange(data).status == 200


# proof_invalid: the heart of it. Whatever the client changes after signing is noticed.

@pytest.mark.parametrize("sent", [
    {"method": "DELETE"}, {"target": "/b"}, {"target": "/a?x=1"}, {"target": "/A"}, {"target": "/a/b"},
    {"host": "localhost:PORT"},
], ids=["method", "path", "query", "case", "subpath", "authority"])
def test_a_request_that_was_changed_after_signing_is_refused(refused, attested, sent):
    sent = {name: value.replace("PORT", str(attested.gateway.port)) for name, value in sent.items()}
    refused(attested.phone.request(path="/a", sent=sent), "proof_invalid", "signature does not verify")


def test_a_query_removed_after_signing_is_detected(refused, attested):
    refused(attested.phone.request(path="/a", query="patient=7", sent={"target": "/a"}), "proof_invalid")


@pytest.mark.parametrize("name", ["Authorization", "Content-Type", "X-Location"])
def test_a_covered_field_changed_after_signing_is_detected(refused, attested, name):
    data = attested.phone.request(path="/location/1", fields=[(name, "one"), ("X-Location", "here")], also=["x-location"])
    refused(data.replace(f"{name}: one".encode(), f"{name}: two".encode()), "proof_invalid")


def test_a_second_line_of_a_covered_field_is_noticed(refused, attested):
    data = attested.phone.request(path="/a", fields=[("X-Dose", "1")], also=["x-dose"], sent={"fields": [("X-Dose", "9")]})
    refused(data, "proof_invalid")


def test_a_covered_field_cannot_be_removed_by_connection(attested):
    """No proof covers `Connection`: it could remove a signed field behind the gateway."""
    phone = attested.phone
    with attested.nothing_forwarded(), phone.connect() as client:
        data = phone.request(
            path="/location/1", fields=[("X-Location", "here")], also=["x-location"],
            sent={"fields": [("Connection", "x-location")]})
        assert_denied(attested.gateway, client.exchange(data), "header_refused", 400)


def test_a_field_that_overrides_the_method_spends_no_counter(attested):
    phone = attested.phone
    data = phone.request(path="/a", sent={"fields": [("X-HTTP-Method-Override", "DELETE")]})
    with phone.connect() as client:
        assert_denied(attested.gateway, client.exchange(data), "header_refused", 400)
        assert client.exchange(data.replace(b"X-HTTP-Method-Override: DELETE\r\n", b"")).status == 200


def test_a_digest_that_was_changed_together_with_the_content_is_noticed(refused, attested):
    data = attested.phone.request("POST", "/a", content=b"pay 1 euro")
    data = data.replace(b"pay 1", b"pay 9").replace(content_digest(b"pay 1 euro").encode(), content_digest(b"pay 9 euro").encode())
    refused(data, "proof_invalid")


def test_another_phones_signature_is_refused(refused, attested):
    refused(attested.phone.request(path="/a", key=HardwareKey()), "proof_invalid", "signature does not verify")


@only("ios")
def test_another_apps_assertion_is_refused(refused, attested):
    refused(attested.phone.request(path="/a", app="TEAMID1234.org.evil.app"), "proof_invalid", "another app")


@only("ios")
def test_counter_0_of_the_attestation_is_refused(refused, attested):
    refused(attested.phone.request(path="/a", counter=0), "proof_invalid", "counter is 0")


def test_data_that_was_hashed_twice_is_refused(refused, attested):
    refused(attested.phone.request(path="/a", hash_times=2), "proof_invalid")


def test_a_counter_that_was_raised_after_signing_is_refused(refused, attested):
    def raised(assertion):
        return assertion[:-1] + bytes([assertion[-1] ^ 0x80])
    phone = attested.phone
    if phone.platform == "android":
        data = phone.request(path="/a")
        field = f"{COUNTER_FIELD}: {phone.counter}"
        data = data.replace(field.encode(), f"{COUNTER_FIELD}: {phone.counter + 128}".encode())
    else:
        data = phone.request(path="/a", assertion=raised)
    refused(data, "proof_invalid")


@only("android")
@pytest.mark.parametrize("signature", [
    lambda s: bytes(64), lambda s: b"\xff" * 64, lambda s: s[32:] + s[:32], lambda s: s[:32] + bytes(32),
    lambda s: bytes(32) + s[32:], lambda s: s[:-1] + bytes([s[-1] ^ 1]),
], ids=["zeros", "beyond the order", "swapped", "s is zero", "r is zero", "one bit"])
def test_numbers_that_are_no_signature_of_the_key_are_refused(refused, attested, signature):
    refused(attested.phone.request(path="/a", assertion=signature), "proof_invalid", "signature does not verify")


# device_mismatch

def test_a_proof_of_another_registered_phone_is_a_mismatch(refused, attested):
    """A stolen proof does not travel: it is bound to the connection's certificate."""
    other = attested.new_phone()
    stolen = other.request(path="/a")
    refused(stolen, "device_mismatch", "keyid is not")
    with other.connect() as client:
        assert client.exchange(stolen).status == 200, "its own connection may use it"


def test_an_unknown_key_id_is_never_looked_up(refused, attested):
    refused(attested.phone.request(path="/a", keyid=b"k" * 32), "device_mismatch")


# body_digest_mismatch

@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("size", [1, 50_000])
def test_content_that_was_changed_after_signing_is_a_mismatch(refused, attested, chunked, size):
    content = bytes(size)
    data = attested.phone.request("POST", "/a", content=content, chunked=chunked, sent={"content": content[:-1] + b"\x01"})
    refused(data, "body_digest_mismatch")


def test_every_given_digest_must_match(refused, attested):
    digest = content_digest(b"x") + ", " + content_digest(b"y", "sha-512")
    refused(attested.phone.request("POST", "/a", content=b"x", digest=digest), "body_digest_mismatch")
    digest = content_digest(b"y") + ", " + content_digest(b"x", "sha-512")
    refused(attested.phone.request("POST", "/a", content=b"x", digest=digest), "body_digest_mismatch")


def test_a_digest_of_absent_content_must_be_that_of_empty_content(refused, attested):
    refused(attested.phone.request(path="/a", digest=content_digest(b"x")), "body_digest_mismatch")
    with attested.phone.connect() as client:
        assert client.exchange(attested.phone.request(path="/a", digest=content_digest(b""))).status == 200


# counter_replayed and counter_late

def test_a_proof_passes_once(refused, attested):
    data = attested.phone.request(path="/a")
    with attested.phone.connect() as client:
        assert client.exchange(data).status == 200
        assert_denied(attested.gateway, client.exchange(data), "counter_replayed", 401)
    refused(data, "counter_replayed")


def test_a_new_proof_with_an_old_counter_is_refused(refused, attested):
    phone = attested.phone
    first = phone.request(path="/a")
    with phone.connect() as client:
        assert client.exchange(first).status == 200
    refused(phone.request(path="/b", counter=phone.counter), "counter_replayed")


def test_an_overtaken_counter_is_late(refused, attested):
    phone = attested.phone
    early, late = phone.request(path="/a"), phone.request(path="/b")
    with phone.connect() as client:
        assert client.exchange(late).status == 200
    refused(early, "counter_late")


def test_a_proof_that_does_not_verify_uses_no_counter(attested):
    phone = attested.phone
    with phone.connect() as client:
        broken = phone.request(path="/a", sent={"target": "/b"})
        assert_denied(attested.gateway, client.exchange(broken), "proof_invalid", 401)
        assert client.exchange(phone.request(path="/a", counter=phone.counter)).status == 200


# device_unknown and app_refused

@pytest.mark.parametrize("path", ["/a", "/device"])
def test_an_unbound_certificate_is_unknown(refused, attested, path):
    stranger = attested.new_phone(register=False)
    stranger.kept, stranger.kept_until = attested.phone.challenge(), attested.phone.kept_until
    refused(stranger.request(path=path), "device_unknown", phone=stranger)
    with stranger.connect() as client:
        assert client.exchange(get("/certificate")).status == 200, "a route for certificates asks for no device"


def test_a_device_of_an_app_that_the_route_does_not_name_is_refused(attested):
    phone = attested.phone
    with attested.nothing_forwarded(), phone.connect() as client:
        assert_denied(attested.gateway, client.exchange(phone.request(path="/other/1")), "app_refused", 403)
