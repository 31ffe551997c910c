"""Enrolment: from a phone nobody has seen to a certificate, over HTTPS; every row of the table of errors."""

import base64
import json
import re
import socket
import ssl
import threading
import time
from datetime import timezone
from email.utils import parsedate_to_datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from support import client as http
from support.client import tls_context
from support.denials import assert_handshake_refused
from support.enrolling_phone import MTLSKey, b64url, error_of, from_b64url, jws, sha256
from support.enrolment import AUTHORITIES, REFUSED, Enrolling, admission_token
from support.exposition import ask, scrape
from support.paths import PATIENCE, REPOSITORY
from support.phone import HardwareKey
from support.pki import attestgate
from support.platforms import PLATFORMS, only
from support.waiting import eventually

@pytest.fixture(params=PLATFORMS)
def platform(request):
    return request.param


@pytest.fixture(scope="module")
def shared(pki, shared_upstream, tmp_path_factory):
    made = Enrolling(tmp_path_factory.mktemp("enrolment"), pki, shared_upstream, platforms=PLATFORMS)
    made.start()
    yield made
    made.stop()


@pytest.fixture
def enrolling(shared, platform):
    """An ordinary enrolment, open to every genuine app, shared by the tests that leave it as it is."""
    assert shared.gateway.process.poll() is None, f"an earlier test ended the gateway\n{shared.gateway.errors}"
    with shared.phones_of(platform):
        yield shared


@pytest.fixture
def start(pki, own_upstream, tmp_path, platform):
    """Starts one of a test's own, for phones of the platform; it must end well with it."""
    started = []

    def start(**settings):
        made = Enrolling(tmp_path / f"enrolment-{len(started)}", pki, own_upstream, platforms=[platform], **settings)
        started.append(made.start())
        return started[-1]

    yield start
    for made in started:
        made.stop()


@pytest.fixture
def initialized(enrolling):
    """A phone that has been initialized, and is bound to nothing yet."""
    phone = enrolling.phone()
    response = phone.initialize()
    assert (response.status, response.content) == (204, b""), response
    return phone


# The way it is meant.


def test_an_unknown_phone_gets_a_certificate(enrolling, tmp_path):
    phone, mtls, response = enrolling.enrolled()
    body = json.loads(response.content)
    assert response.value("cache-control") == "no-store"
    leaf, authority = (x509.load_der_x509_certificate(base64.b64decode(text)) for text in body["certificate_chain"])
    authority.public_key().verify(leaf.signature, leaf.tbs_certificate_bytes, ec.ECDSA(hashes.SHA256()))
    assert leaf.public_key().public_bytes(
        serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint) == mtls.point
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.UniformResourceIdentifier) == [
        f"urn:attestgate:device:{phone.key.key_id.hex()}"]
    usage = leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    assert leaf.serial_number.bit_length() >= 128
    assert int(leaf.not_valid_after.replace(tzinfo=timezone.utc).timestamp()) == body["expires_at"]
    assert abs(body["expires_at"] - time.time() - 30 * 86_400) < 600
    listed = [device for device in enrolling.devices() if base64.b64decode(device["key_id"]) == phone.key.key_id]
    assert [device["state"] for device in listed] == ["active"]


def test_a_phone_enrols_requests_rotates_requests_and_is_revoked(enrolling, tmp_path):
    gateway = enrolling.gateway
    phone, mtls, response = enrolling.enrolled()

    def ask(identity):
        requesting = phone.requesting(gateway, identity)
        with requesting.connect() as client:
            answer = client.exchange(requesting.request())
        phone.counter = requesting.counter
        return answer

    first = phone.identity(tmp_path, mtls, response, "first")
    assert ask(first).status == 200
    rotated = MTLSKey()
    second = phone.identity(tmp_path, rotated, phone.bind(rotated), "second")
    assert ask(second).status == 200
    assert ask(first).status == 200, "the old key's overlap is not over"
    number = next(
        device["device"] for device in enrolling.devices() if base64.b64decode(device["key_id"]) == phone.key.key_id)
    gateway.device_command("revoke", str(number))
    for identity in [second, first]:
        assert_handshake_refused(gateway, identity, "device_revoked")
    assert error_of(phone.bind(MTLSKey())) == REFUSED
    assert error_of(phone.initialize()) == REFUSED


@pytest.mark.parametrize("form", ["nonce-and-tag", "nonce", "dsr"])
def test_an_app_is_initialized_only_in_its_configured_form(start, platform, form):
    enrolling = start(app={"client_data": form})
    mtls = MTLSKey()
    phone = enrolling.phone()
    for other in {"nonce-and-tag", "nonce", "dsr"} - {form}:
        status, error = error_of(phone.initialize(form=other, mtls=mtls))
        # An iPhone sends another member.
        assert status == 400 if platform == "ios" and "dsr" in (form, other) else (status, error) == REFUSED
    assert phone.initialize(form=form, mtls=mtls).status == 204
    if form == "dsr":
        assert error_of(phone.bind(MTLSKey())) == REFUSED, "the attestation speaks for another key"
    assert phone.bind(mtls).status == 200


# Nonces.


@only("ios")
def test_no_two_nonces_are_alike(enrolling):
    nonces = {enrolling.service.nonce() for _ in range(50)}
    assert len(nonces) == 50 and all(len(from_b64url(nonce)) >= 16 for nonce in nonces)


def test_a_nonce_used_concurrently_initializes_one_instance(enrolling):
    nonce = enrolling.service.nonce()
    phones = [enrolling.phone() for _ in range(8)]
    bodies = [phone.initialization(nonce=nonce) for phone in phones]
    statuses = []

    def post(body):
        statuses.append(enrolling.service.post("/instance-initialization", body).status)

    threads = [threading.Thread(target=post, args=(body,)) for body in bodies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(statuses) == [204] + [403] * 7


def test_a_nonce_used_concurrently_binds_one_key(enrolling, initialized):
    nonce = enrolling.service.nonce()
    tokens = [initialized.token(MTLSKey(), nonce=nonce) for _ in range(8)]
    statuses = []

    def post(token):
        statuses.append(enrolling.service.post("/key-binding", {"assertion": token}).status)

    threads = [threading.Thread(target=post, args=(token,)) for token in tokens]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(statuses) == [200] + [403] * 7


@pytest.mark.parametrize("store", ["file", "database"])
@pytest.mark.parametrize("end", ["halt", "crash"])
def test_a_used_nonce_stays_used_after_a_restart(request, start, end, store):
    registry = {"postgresql": request.getfixturevalue("database").conf} if store == "database" else {}
    enrolling = start(registry=registry)
    phone, nonce = enrolling.phone(), enrolling.service.nonce()
    assert phone.initialize(nonce=nonce).status == 204
    spent = enrolling.service.nonce()
    assert phone.bind(MTLSKey(), nonce=spent).status == 200
    unused = enrolling.service.nonce()
    getattr(enrolling.gateway, end)()
    enrolling.start()
    assert error_of(enrolling.phone().initialize(nonce=nonce)) == REFUSED
    assert error_of(phone.bind(MTLSKey(), nonce=spent)) == REFUSED
    # A start on a file draws an epoch, to which nonces are bound too; a database keeps its own.
    late = enrolling.phone().initialize(nonce=unused)
    assert late.status == 204 if store == "database" else error_of(late) == REFUSED
    assert enrolling.phone().initialize().status == 204


def test_a_nonce_of_an_earlier_epoch_is_refused(start):
    enrolling = start()
    phone, nonce = enrolling.phone(), enrolling.service.nonce()
    enrolling.gateway.renew_epoch()
    assert error_of(phone.initialize(nonce=nonce)) == REFUSED
    assert phone.initialize().status == 204


@pytest.mark.parametrize("bend", [
    lambda nonce: b64url(bytes(58)), lambda nonce: nonce[:40] + b64url(b"abc") + nonce[44:],
    lambda nonce: b64url(from_b64url(nonce) + b"\0")])
def test_a_foreign_nonce_is_refused(enrolling, bend):
    assert error_of(enrolling.phone().initialize(nonce=bend(enrolling.service.nonce()))) == REFUSED


def test_a_request_challenge_is_refused_as_a_nonce(enrolling, tmp_path):
    phone, mtls, response = enrolling.enrolled()
    challenge = phone.requesting(enrolling.gateway, phone.identity(tmp_path, mtls, response)).challenge()
    assert error_of(enrolling.phone().initialize(nonce=challenge)) == REFUSED


# Instance initialization: replays, and what is refused.


def test_a_repeated_attestation_gets_the_same_answer_until_the_device_is_bound(enrolling):
    phone = enrolling.phone()
    body = phone.initialization()
    for _ in range(3):
        assert enrolling.service.post("/instance-initialization", body).status == 204
    assert phone.bind(MTLSKey()).status == 200
    assert error_of(enrolling.service.post("/instance-initialization", body)) == REFUSED


def test_another_attestation_of_a_registered_key_is_refused(enrolling, initialized):
    assert error_of(initialized.initialize()) == REFUSED


def test_an_attestation_replayed_for_another_nonce_is_refused(enrolling):
    phone = enrolling.phone()
    body = phone.initialization()
    assert error_of(enrolling.service.post(
        "/instance-initialization", {**body, "nonce": enrolling.service.nonce()})) == REFUSED


def test_an_attestation_replayed_for_another_device_is_refused(enrolling):
    phone, other = enrolling.phone(), enrolling.phone()
    body = phone.initialization()
    assert error_of(enrolling.service.post(
        "/instance-initialization", {**body, "hardware_key_tag": other.tag})) == REFUSED


def test_an_attestation_of_another_app_is_refused(enrolling, platform):
    foreign = {"ios": "TEAMID1234.org.example.foreign", "android": "android:org.example.foreign"}[platform]
    assert error_of(enrolling.phone().initialize(app=foreign)) == REFUSED


def test_an_attestation_of_another_authority_is_refused(enrolling, platform, tmp_path):
    assert error_of(enrolling.phone().initialize(authority=AUTHORITIES[platform](tmp_path, "another root"))) == REFUSED


@only("ios")
def test_an_attestation_with_an_expired_leaf_is_refused(enrolling):
    assert error_of(enrolling.phone().initialize(days=-1)) == REFUSED


@only("ios")
def test_an_attestation_whose_counter_has_moved_is_refused(enrolling):
    assert error_of(enrolling.phone().initialize(counter=1)) == REFUSED


@only("ios")
@pytest.mark.parametrize("body", [
    b"", b"{", b"[]", b"\xff", b'{"nonce":"a","nonce":"a"}', b"{}", {"nonce": "abc"}])
def test_malformed_content_is_a_bad_request(enrolling, body):
    for path in ["/instance-initialization", "/key-binding"]:
        assert error_of(enrolling.service.post(path, body)) == (400, "bad_request")


@pytest.mark.parametrize("member", ["nonce", "hardware_key_tag", "key_attestation"])
def test_a_missing_or_unknown_member_is_a_bad_request_and_one_of_another_form_a_validation_error(enrolling, member):
    body = enrolling.phone().initialization()
    path = "/instance-initialization"
    missing = {name: value for name, value in body.items() if name != member}
    assert error_of(enrolling.service.post(path, missing)) == (400, "bad_request")
    assert error_of(enrolling.service.post(path, {**body, "extra": 1})) == (400, "bad_request")
    wrongs = [1, "", "!", []]
    if isinstance(body[member], list):
        wrongs += [[1], [""], ["!"], [*body[member][:-1], body[member][-1] + "="], body[member] * 2, [body[member]]]
    else:
        wrongs.append(body[member] + "=")
    for wrong in wrongs:
        assert error_of(enrolling.service.post(path, {**body, member: wrong})) == (422, "validation_error")


@only("ios")
def test_a_malformed_attestation_is_a_validation_error(enrolling):
    assert error_of(enrolling.phone().initialize(key_attestation=b64url(b"\xa0"))) == (422, "validation_error")


@only("ios")
def test_an_app_below_the_minimum_fails_the_integrity_check(start):
    enrolling = start(app={"minimum_bundle_version": "2.0", "absent_extensions": "refuse"})
    assert error_of(enrolling.phone().initialize()) == (403, "integrity_check_error")


@only("ios")
def test_a_device_whose_app_has_since_become_too_old_fails_the_integrity_check(start):
    enrolling = start()
    phone = enrolling.phone()
    assert phone.initialize().status == 204
    enrolling.gateway.conf["apps"][0].update(minimum_bundle_version="2.0", absent_extensions="refuse")
    enrolling.change()
    assert error_of(phone.bind(MTLSKey())) == (403, "integrity_check_error")


# Key binding: each check with all else valid.

CLAIMS = {
    "aud of another service": lambda p, k: {"claims": {"aud": "https://elsewhere.example"}},
    "aud with a slash more": lambda p, k: {"claims": {"aud": p.provider + "/"}},
    "aud as a list": lambda p, k: {"claims": {"aud": [p.provider]}},
    "iss of another service": lambda p, k: {"claims": {"iss": f"https://elsewhere.example/instance/{k.thumbprint}"}},
    "iss of another key": lambda p, k: {"claims": {"iss": f"{p.provider}/instance/{MTLSKey().thumbprint}"}},
    "iss without instance": lambda p, k: {"claims": {"iss": p.provider}},
    "iat behind": lambda p, k: {"claims": {"iat": int(time.time()) - 90}},
    "iat ahead": lambda p, k: {"claims": {"iat": int(time.time()) + 90, "exp": int(time.time()) + 200}},
    "exp past": lambda p, k: {"claims": {"exp": int(time.time()) - 1}},
    "exp far": lambda p, k: {"claims": {"exp": int(time.time()) + 400}},
    "exp as text": lambda p, k: {"claims": {"exp": str(int(time.time()) + 200)}},
    "alg none": lambda p, k: {"header": {"alg": "none"}},
    "alg HS256": lambda p, k: {"header": {"alg": "HS256"}},
    "typ JWT": lambda p, k: {"header": {"typ": "JWT"}},
    "typ in capitals": lambda p, k: {"header": {"typ": "RP-KB+JWT"}},
    "kid of another key": lambda p, k: {"header": {"kid": MTLSKey().thumbprint}},
    "a key of another curve": lambda p, k: {"cnf": {"jwk": {**k.jwk, "crv": "P-384"}}},
    "a point off the curve": lambda p, k: {"cnf": {"jwk": {**k.jwk, "y": k.jwk["x"]}}},
    "signed by another key": lambda p, k: {"signer": MTLSKey()},
    "an assertion of another hardware key": lambda p, k: {"key": HardwareKey()},
    "an assertion for another nonce": lambda p, k: {"signed_nonce": p.service.nonce()},
    "an assertion for another key": lambda p, k: {"signed_thumbprint": MTLSKey().thumbprint},
}


def test_counter_0_binds_no_key(initialized, platform):
    expected = {"ios": REFUSED, "android": (422, "validation_error")}[platform]
    assert error_of(initialized.bind(MTLSKey(), counter=0)) == expected


@only("ios")
def test_an_assertion_of_another_app_binds_no_key(initialized):
    assert error_of(initialized.bind(MTLSKey(), app="TEAMID1234.org.example.foreign")) == REFUSED


@pytest.mark.parametrize("name", CLAIMS)
def test_a_key_binding_is_refused_for(enrolling, initialized, name):
    mtls = MTLSKey()
    assert error_of(initialized.bind(mtls, **CLAIMS[name](initialized, mtls))) == REFUSED
    # And for nothing else.
    assert initialized.bind(mtls).status == 200


# Members that the reference API does not name.

UNKNOWN_MEMBERS = {
    "unknown claim": lambda p, k: {"claims": {"scope": "all"}},
    "a jwk in the header": lambda p, k: {"header": {"jwk": k.jwk}},
    "crit": lambda p, k: {"header": {"crit": ["exp"]}},
    "a private key in cnf": lambda p, k: {"cnf": {"jwk": {**k.jwk, "d": "AAAA"}}},
    "another member of cnf": lambda p, k: {"cnf": {"jwk": k.jwk, "jkt": "a"}},
    "an admission token that nobody asks for": lambda p, k: {"claims": {"admission_token": "a"}},
}


@pytest.mark.parametrize("name", UNKNOWN_MEMBERS)
def test_an_unknown_member_of_the_token_is_a_bad_request(initialized, name):
    mtls = MTLSKey()
    assert error_of(initialized.bind(mtls, **UNKNOWN_MEMBERS[name](initialized, mtls))) == (400, "bad_request")
    assert initialized.bind(mtls).status == 200


@pytest.mark.parametrize("member", ["alg", "kid", "typ"])
def test_a_missing_header_member_is_a_bad_request(initialized, member):
    assert error_of(initialized.bind(MTLSKey(), header={member: None})) == (400, "bad_request")


@pytest.mark.parametrize("platform, member", [
    *((platform, member) for platform in PLATFORMS for member in [
        "iss", "aud", "iat", "exp", "nonce", "hardware_key_tag", "hardware_signature", "cnf"]),
    ("ios", "key_attestation"), ("android", "counter")], indirect=["platform"])
def test_a_missing_claim_is_a_bad_request(initialized, member):
    assert error_of(initialized.bind(MTLSKey(), claims={member: None})) == (400, "bad_request")


@pytest.mark.parametrize("platform, member", [
    *((platform, member) for platform in PLATFORMS for member in ["nonce", "hardware_key_tag", "hardware_signature"]),
    ("ios", "key_attestation"), ("android", "counter"), ("android", "mtls_key_attestation")], indirect=["platform"])
def test_a_claim_of_another_form_is_a_validation_error(initialized, member):
    assert error_of(initialized.bind(MTLSKey(), claims={member: "?"})) == (422, "validation_error")


def test_a_duplicate_claim_is_a_bad_request(enrolling, initialized):
    mtls = MTLSKey()
    header, payload, _ = initialized.token(mtls).split(".")
    claims = from_b64url(payload).decode()
    doubled = claims[:-1] + f', "aud": "{initialized.provider}"' + "}"
    token = jws(from_b64url(header).decode(), doubled, mtls)
    assert error_of(enrolling.service.post("/key-binding", {"assertion": token})) == (400, "bad_request")


@only("ios")
@pytest.mark.parametrize("token", ["", "a", "a.b", "a.b.c.d", "e30.e30.", "e30=.e30.AA"])
def test_a_malformed_token_is_a_bad_request(enrolling, token):
    assert error_of(enrolling.service.post("/key-binding", {"assertion": token})) == (400, "bad_request")


def test_an_instance_that_was_never_initialized_is_not_found(enrolling):
    assert error_of(enrolling.phone().bind(MTLSKey())) == (404, "not_found")


def test_a_token_that_was_used_is_refused(enrolling, initialized):
    token = initialized.token(MTLSKey())
    assert enrolling.service.post("/key-binding", {"assertion": token}).status == 200
    assert error_of(enrolling.service.post("/key-binding", {"assertion": token})) == REFUSED


def test_a_counter_value_used_by_a_request_binds_no_key(enrolling, tmp_path):
    phone, mtls, response = enrolling.enrolled()
    requesting = phone.requesting(enrolling.gateway, phone.identity(tmp_path, mtls, response))
    with requesting.connect() as client:
        assert client.exchange(requesting.request()).status == 200
    assert error_of(phone.bind(MTLSKey(), counter=requesting.counter)) == REFUSED
    assert phone.bind(MTLSKey(), counter=requesting.counter + 1).status == 200


def test_a_key_is_bound_to_one_device_ever(enrolling):
    _, mtls, _ = enrolling.enrolled()
    other = enrolling.phone()
    assert other.initialize().status == 204
    assert error_of(other.bind(mtls)) == REFUSED


def test_a_phone_whose_clock_is_wrong_learns_the_time(initialized):
    refused = initialized.bind(MTLSKey(), claims={"iat": int(time.time()) - 86_400})
    assert error_of(refused) == REFUSED
    assert abs(parsedate_to_datetime(refused.value("date")).timestamp() - time.time()) < 60


def test_a_repeated_key_binding_returns_the_lost_certificate(enrolling):
    phone, mtls, response = enrolling.enrolled()
    again = phone.bind(mtls)
    first, second = (
        x509.load_der_x509_certificate(base64.b64decode(json.loads(answer.content)["certificate_chain"][0]))
        for answer in (response, again))
    assert first.serial_number != second.serial_number
    assert first.public_key().public_numbers() == second.public_key().public_numbers()


def test_after_the_overlap_the_old_key_is_refused(start, tmp_path):
    enrolling = start(enrolment={"rotation_overlap": "0s"})
    phone, mtls, response = enrolling.enrolled()
    old = phone.identity(tmp_path, mtls, response)
    rotated = MTLSKey()
    new = phone.identity(tmp_path, rotated, phone.bind(rotated), "new")

    def outcome(identity):
        try:
            with phone.requesting(enrolling.gateway, identity).connect() as client:
                return client.exchange(http.get("/device")).status
        except ssl.SSLError as error:
            return error.reason
        except (http.IncompleteResponse, OSError):
            return None  # the binding ended while the connection was open
    assert outcome(new) == 200
    eventually(lambda: "CERTIFICATE_REVOKED" in str(outcome(old)), "the old key's binding to end")
    assert error_of(phone.bind(mtls)) == REFUSED, "a rotation is not taken back"


# Admission.


@pytest.fixture
def by_token(start, tmp_path):
    issuer = MTLSKey()
    path = tmp_path / "issuer.pem"
    path.write_bytes(issuer.private.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo))
    enrolling = start(enrolment={
        "admission": "token", "token": {"issuer": "https://login.example", "keys": [str(path)]}})
    return enrolling, issuer


def test_with_admission_by_token_a_device_needs_one_to_enrol_but_not_to_rotate(by_token):
    enrolling, issuer = by_token
    phone, mtls = enrolling.phone(), MTLSKey()
    assert phone.initialize().status == 204
    assert error_of(phone.bind(mtls)) == (400, "bad_request"), "nothing was shown"
    good = admission_token(issuer, mtls, enrolling.provider)
    assert phone.bind(mtls, claims={"admission_token": good}).status == 200
    assert phone.bind(MTLSKey()).status == 200


@only("ios")
@pytest.mark.parametrize("change", [
    {"iss": "https://other.example"}, {"aud": "https://other.example"}, {"exp": 1}, {"cnf": {"jkt": "a" * 43}},
    {"exp": 4_000_000_000}, {"nbf": 4_000_000_000}, {"sub": ""}, {"jti": None}])
def test_an_admission_token_is_refused_for(by_token, change):
    enrolling, issuer = by_token
    phone, mtls = enrolling.phone(), MTLSKey()
    assert phone.initialize().status == 204
    token = admission_token(issuer, mtls, enrolling.provider, **change)
    assert error_of(phone.bind(mtls, claims={"admission_token": token})) == REFUSED


@only("ios")
def test_an_unknown_or_used_admission_token_is_refused(by_token):
    enrolling, issuer = by_token
    phone, other, mtls = enrolling.phone(), enrolling.phone(), MTLSKey()
    assert phone.initialize().status == 204 and other.initialize().status == 204
    forged = admission_token(MTLSKey(), mtls, enrolling.provider)
    assert error_of(phone.bind(mtls, claims={"admission_token": forged})) == REFUSED
    good = admission_token(issuer, mtls, enrolling.provider)
    assert phone.bind(mtls, claims={"admission_token": good}).status == 200
    # The same id once more, for another key.
    key = MTLSKey()
    again = admission_token(issuer, key, enrolling.provider, jti=b64url(sha256(mtls.point)))
    assert error_of(other.bind(key, claims={"admission_token": again})) == REFUSED


def test_with_admission_by_approval_a_device_waits_for_an_operator(start):
    enrolling = start(enrolment={"admission": "approval"})
    phone, mtls = enrolling.phone(), MTLSKey()
    assert phone.initialize().status == 204
    waiting = phone.bind(mtls)
    assert error_of(waiting) == REFUSED
    assert waiting.value("retry-after") == "60", "so that an app can tell it from a refusal that waiting does not change"
    (device,) = enrolling.devices()
    assert device["state"] == "pending"
    enrolling.gateway.device_command("approve", str(device["device"]))
    assert phone.bind(mtls).status == 200


# Limits, timeouts, and what is no request.


@only("ios")
def test_other_paths_and_methods_are_refused(enrolling):
    assert error_of(enrolling.service.exchange(http.get("/"))) == (404, "not_found")
    refused = enrolling.service.exchange(http.get("/key-binding"))
    assert error_of(refused) == (405, "bad_request") and refused.value("allow") == "POST"
    refused = enrolling.service.post("/nonce", {})
    assert error_of(refused) == (405, "bad_request") and refused.value("allow") == "GET"


@only("ios")
def test_content_of_another_type_is_refused(enrolling):
    refused = enrolling.service.post("/key-binding", {}, "Content-Type: application/x-www-form-urlencoded")
    assert error_of(refused) == (415, "bad_request")


@only("ios")
def test_content_beyond_the_limit_is_refused(enrolling):
    assert error_of(enrolling.service.post("/key-binding", b" " * 65_537)) == (413, "bad_request")
    with enrolling.service.connect() as client:
        client.send(http.get(
            "/key-binding", "Content-Type: application/json", "Transfer-Encoding: chunked", method="POST"))
        client.send_while_open(b"10000\r\n" + b" " * 65_536 + b"\r\n1\r\n \r\n")
        assert error_of(client.read_response("POST")) == (413, "bad_request")


@only("ios")
def test_missing_content_ends_in_a_timeout(start):
    enrolling = start(timeouts={"content_idle": "1s", "head": "1s"})
    with enrolling.service.connect() as client:
        client.send(http.get("/key-binding", "Content-Length: 100", method="POST") + b"{")
        assert error_of(client.read_response("POST")) == (408, "bad_request")
    with enrolling.service.connect() as client:
        client.send(b"GET /nonce HT")
        assert error_of(client.read_response()) == (408, "bad_request")
    assert enrolling.service.nonce(), "and others are served"


@only("ios")
def test_an_address_above_its_rate_learns_when_to_retry(start):
    enrolling = start(enrolment={"requests_per_minute": 5})
    for _ in range(5):
        enrolling.service.nonce()
    refused = enrolling.service.exchange(http.get("/nonce"))
    assert error_of(refused) == (503, "temporarily_unavailable")
    assert 1 <= int(refused.value("retry-after")) <= 12


@only("ios")
def test_connections_per_address_are_limited(start):
    enrolling = start(enrolment={"connections_per_address": 2})
    with enrolling.service.connect() as first, enrolling.service.connect():
        with pytest.raises(OSError):
            enrolling.service.connect()
        assert first.exchange(http.get("/nonce")).status == 200

    def again():
        try:
            return enrolling.service.connect()
        except OSError:
            return None
    eventually(again, "room for another connection").close()


@only("ios")
def test_a_connection_above_its_addresses_limit_displaces_no_other(start):
    enrolling = start(enrolment={"connections": 4, "connections_per_address": 2})

    def connect(source):
        plain = socket.create_connection(
            ("127.0.0.1", enrolling.service.port), timeout=PATIENCE, source_address=(source, 0))
        return tls_context(enrolling.pki, None).wrap_socket(plain, server_hostname="localhost")

    # As crowded the one as the other: whichever would give way, one of these would be gone.
    held = [connect(source) for source in ["127.0.0.2", "127.0.0.3"] * 2]
    try:
        for _ in range(4):
            with pytest.raises(OSError):
                connect("127.0.0.2")
        for connection in held:
            connection.sendall(http.get("/nonce"))
            assert connection.recv(12) == b"HTTP/1.1 200"
    finally:
        for connection in held:
            connection.close()


def test_without_the_store_enrolment_is_refused_without_internal_details(start):
    enrolling = start()
    phone = enrolling.phone()
    body = phone.initialization()
    enrolling.gateway.limit_files(0)
    refused = enrolling.service.post("/instance-initialization", body)
    assert error_of(refused) == (503, "temporarily_unavailable")
    assert refused.value("retry-after")
    enrolling.gateway.limit_files(None)
    eventually(
        lambda: enrolling.service.post("/instance-initialization", body).status == 204, "the store to be back")


# What operators see.


def test_every_decision_is_logged_without_the_evidence(enrolling, initialized):
    mtls = MTLSKey()
    nonce = enrolling.service.nonce()
    token = initialized.token(mtls, nonce=nonce, signer=MTLSKey())
    before = len(enrolling.gateway.errors)
    enrolling.service.post("/key-binding", {"assertion": token})
    lines = eventually(
        lambda: [line for line in enrolling.gateway.errors[before:].splitlines() if "key-binding" in line],
        "the decision to be logged")
    assert "decision=refused error=invalid_request" in lines[0]
    assert "the JWT's signature does not verify with cnf.jwk" in lines[0]
    members = json.loads(lines[0])
    assert {name: members[name] for name in ("event", "endpoint", "decision", "error", "reason")} == {
        "event": "enrolment", "endpoint": "key-binding", "decision": "refused", "error": "invalid_request",
        "reason": "the JWT's signature does not verify with cnf.jwk"}
    for secret in [nonce, token, initialized.tag, mtls.thumbprint]:
        assert secret not in enrolling.gateway.errors


def test_every_step_of_enrolment_is_counted(enrolling, initialized):
    assert initialized.bind(MTLSKey()).status == 200
    metrics = ask(enrolling.gateway, "/metrics")[2]

    def value(line):
        return next(float(text.split(" ")[-1]) for text in metrics.splitlines() if text.startswith(line))
    assert value('attestgate_enrolment_requests_total{endpoint="key-binding",result="ok"}') >= 1
    assert value('attestgate_enrolment_attestations_total{result="verified"}') >= 1
    assert value("attestgate_enrolment_certificates_issued_total") >= 1
    assert value('attestgate_enrolment_certificates_expiring{within="30d"}') >= 0


@only("ios")
def test_every_metric_of_enrolment_is_documented(enrolling):
    page = (REPOSITORY / "docs" / "enrolment.md").read_text()
    documented = set(re.findall(r"^\| `(attestgate_enrolment_\w+)[`{]", page, re.MULTILINE))
    assert {name for name in scrape(enrolling.gateway).kinds if name.startswith("attestgate_enrolment_")} == documented


@only("ios")
def test_status_shows_the_enrolment_address_and_the_admission(enrolling):
    status = enrolling.status()
    assert status["enrolment"] == {"listener": f"127.0.0.1:{enrolling.service.port}", "admission": "open"}
    assert "issuer" in {certificate["role"] for certificate in status["certificates"]}


# Reloads and roles.


def test_a_reload_changes_the_admission(start):
    enrolling = start()
    phone = enrolling.phone()
    assert phone.initialize().status == 204
    enrolling.change(admission="approval")
    assert error_of(phone.bind(MTLSKey())) == REFUSED
    enrolling.change(admission="open")
    assert phone.bind(MTLSKey()).status == 200


@only("ios")
def test_the_role_gateway_enrols_no_device_and_needs_no_ca_key(start, tmp_path):
    enrolling = start()
    enrolling.gateway.halt()
    enrolling.gateway.conf["enrolment"]["authority"]["key"] = str(tmp_path / "not there")
    enrolling.gateway.arguments = ["--role", "gateway"]
    enrolling.gateway.start()
    with pytest.raises(OSError):
        enrolling.service.connect()


@only("ios")
def test_the_role_enrolment_serves_no_requests_and_needs_no_listener_key(start, tmp_path):
    enrolling = start()
    enrolling.gateway.halt()
    enrolling.gateway.conf["listeners"][0]["tls"]["key"] = str(tmp_path / "not there")
    enrolling.gateway.arguments = ["--role", "enrolment"]
    enrolling.start()
    enrolling.enrolled()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", enrolling.gateway.port), timeout=PATIENCE)


@only("ios")
def test_a_failed_reload_changes_nothing(start, tmp_path):
    enrolling = start()
    authority = enrolling.gateway.conf["enrolment"]["authority"]
    enrolling.gateway.conf["enrolment"]["authority"] = {**authority, "key": str(enrolling.pki.server_key)}
    enrolling.gateway.write_conf()
    done = attestgate("reload", "--config", enrolling.gateway.conf_path)
    assert done.returncode == 1 and "enrolment" in done.stderr, done.stderr
    enrolling.enrolled()


def test_enrolment_in_flight_is_completed_when_the_gateway_stops(start):
    enrolling = start()
    phone = enrolling.phone()
    content = json.dumps(phone.initialization()).encode()
    with enrolling.service.connect() as client:
        client.send(http.get(
            "/instance-initialization", f"Content-Length: {len(content)}", method="POST") + content[:-1])
        client.wait_until_delivered()
        enrolling.gateway.signal()
        eventually(lambda: "finishing requests in flight" in enrolling.gateway.errors, "the gateway to begin to end")
        assert client.send(content[-1:]).read_response("POST").status == 204
    assert enrolling.gateway.wait() == 0
