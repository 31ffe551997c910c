"""The listener for enrolled devices: renewal over mutual TLS, a new posture, the devices of a person. Nothing of it works on
the other listener, with another device, or without a proof where anything changes."""

import json
import ssl

import pytest
from cryptography.hazmat.primitives import serialization

from support import client as http
from support.client import Client
from support.denials import assert_closed, assert_handshake_refused
from support.enrolling_phone import MTLSKey, as_text, b64url, error_of, sha256
from support.enrolment import REFUSED, EnrolledPhone, Enrolling, admission_token
from support.exposition import scrape
from support.pki import attestgate
from support.platforms import PLATFORMS, only
from support.ports import uncommon_port
from support.waiting import eventually


@pytest.fixture(params=PLATFORMS)
def platform(request):
    return request.param


@pytest.fixture(scope="module")
def shared(pki, shared_upstream, tmp_path_factory):
    made = Enrolling(tmp_path_factory.mktemp("devices"), pki, shared_upstream, devices=True, platforms=PLATFORMS)
    made.start()
    yield made
    made.stop()


@pytest.fixture
def enrolling(shared, platform):
    with shared.phones_of(platform):
        yield shared


@pytest.fixture
def device(enrolling):
    return enrolling.device(*enrolling.enrolled())


@pytest.fixture(scope="module")
def by_token(pki, shared_upstream, tmp_path_factory):
    directory = tmp_path_factory.mktemp("devices-of-persons")
    issuer = MTLSKey()
    path = directory / "login.pem"
    path.write_bytes(issuer.private.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo))
    made = Enrolling(directory, pki, shared_upstream, devices=True, enrolment={
        "admission": "token", "token": {"issuer": "https://login.example", "keys": [str(path)]}})
    made.start()
    yield made, issuer
    made.stop()


def enrolled_for(by_token, person, name):
    enrolling, issuer = by_token
    phone, mtls = enrolling.phone(), MTLSKey()
    assert phone.initialize().status == 204
    response = phone.bind(mtls, claims={"admission_token": admission_token(issuer, mtls, enrolling.provider, sub=person)})
    return enrolling.device(phone, mtls, response, name)


def assert_refused(address, identity, alert):
    """The handshake ends with that alert."""
    with pytest.raises(ssl.SSLError, match=f"(?i){alert}"):
        with Client(address, identity) as client:
            client.send_while_open(http.get("/instances")).read_to_end()


# Each endpoint on each listener: whether it is there.
ENDPOINTS = [
    ("GET", "/nonce", True, True), ("POST", "/instance-initialization", True, False), ("POST", "/key-binding", True, True),
    ("GET", "/.well-known/attestgate/challenge", False, True), ("POST", "/attestation", False, True),
    ("GET", "/instances", False, True), ("PATCH", "/instances/" + "A" * 43, False, True),
    ("DELETE", "/instances/" + "A" * 43, False, True), ("GET", "/instances/", False, True), ("GET", "/", False, False)]


@only("ios")
@pytest.mark.parametrize("method, path, of_all, of_devices", ENDPOINTS)
def test_each_endpoint_is_only_at_its_listener(enrolling, device, method, path, of_all, of_devices):
    content = b"{}" if method in ("POST", "PATCH") else b""
    data = http.get(path, *([f"Content-Length: {len(content)}"] if content else []), method=method) + content
    for exchange, exists in [(enrolling.service.exchange, of_all), (device.exchange, of_devices)]:
        response = exchange(data)
        assert (response.status == 404) == (not exists), (method, path, response)
        if not exists:
            assert error_of(response) == (404, "not_found")


def test_a_first_key_is_bound_without_a_certificate_and_later_ones_with_it(enrolling, device):
    mtls = MTLSKey()
    assert error_of(device.own.bind(mtls)) == REFUSED
    response = device.bind(mtls)
    rotated = enrolling.device(device.own, mtls, response, "rotated")
    assert device.bind(mtls).status == 200, "an answer that was lost"
    assert rotated.bind(mtls).status == 200, "a renewal"
    assert error_of(rotated.own.bind(MTLSKey())) == REFUSED
    assert "what=rotation" in enrolling.gateway.error_path.read_text()


def test_an_answer_to_the_first_binding_that_was_lost_is_repeated(enrolling):
    phone, mtls, _ = enrolling.enrolled()
    assert phone.bind(mtls).status == 200


def test_a_device_binds_no_key_over_the_connection_of_another(enrolling, device):
    other, mtls, _ = enrolling.enrolled()
    fresh = enrolling.phone()
    assert fresh.initialize().status == 204
    for phone, key in [(other, mtls), (other, MTLSKey()), (fresh, MTLSKey())]:
        assert error_of(EnrolledPhone(enrolling, phone, device.identity).bind(key)) == REFUSED
    assert fresh.bind(MTLSKey()).status == 200


@only("ios")
def test_a_certificate_that_is_bound_to_nothing_is_no_device(enrolling, device, pki):
    unbound = EnrolledPhone(enrolling, device.own, pki.client("of-no-device"))
    # Attested, but bound to no key.
    pending = enrolling.phone()
    assert pending.initialize().status == 204
    strange = EnrolledPhone(enrolling, pending, pki.client("strange", issuer=None))
    for phone in (unbound, strange):
        for path in ("/nonce", "/instances", "/.well-known/attestgate/challenge"):
            response = phone.get(path)
            assert error_of(response) == (401, "device_unknown")
            assert response.values("accept-signature") == []


@only("ios")
def test_no_certificate_and_one_of_another_authority_end_the_handshake(enrolling, device, pki):
    assert_refused(device.address, None, "certificate.required")
    assert_refused(device.address, pki.client("foreign", issuer=pki.root), "unknown.ca")
    eventually(
        lambda: "connection decision=refused error=certificate_unknown_authority" in enrolling.gateway.error_path.read_text(),
        "the log to tell of the refusal")


def test_a_revoked_device_is_refused_as_by_the_gateway(enrolling, device):
    with device.connect() as kept:
        assert kept.exchange(http.get("/instances")).status == 200
        enrolling.gateway.device_command("revoke", str(max(entry["device"] for entry in enrolling.devices())))
        assert_closed(kept)
    assert_refused(device.address, device.identity, "certificate.revoked")
    assert error_of(device.own.bind(MTLSKey())) == REFUSED


def test_a_person_lists_and_revokes_own_devices_only(by_token):
    enrolling, _ = by_token
    lost, kept, other = (enrolled_for(by_token, person, name) for person, name in [
        ("patient-1", "lost"), ("patient-1", "kept"), ("patient-2", "other")])
    listed = kept.instances()
    assert [entry["id"] for entry in listed] == [kept.id, lost.id]
    assert [entry["current"] for entry in listed] == [True, False]
    assert {name: listed[1][name] for name in ("platform", "app", "status")} == {
        "platform": "ios", "app": lost.own.app, "status": "ACTIVE"}
    assert set(listed[0]) == {"id", "platform", "app", "status", "created_at", "current"}
    assert [entry["id"] for entry in other.instances()] == [other.id]

    assert error_of(kept.revoke(other.id)) == REFUSED
    assert error_of(kept.revoke(b64url(bytes(32)))) == (404, "not_found")
    assert error_of(kept.revoke("a")) == (404, "not_found")
    assert [entry["status"] for entry in kept.instances()] == ["ACTIVE", "ACTIVE"]

    with lost.connect() as connection:
        assert connection.exchange(http.get("/instances")).status == 200
        response = kept.revoke(lost.id)
        assert response.status == 204 and not response.content
        assert_closed(connection)
    assert_refused(lost.address, lost.identity, "certificate.revoked")
    assert_handshake_refused(enrolling.gateway, lost.identity, "device_revoked")
    assert [entry["status"] for entry in kept.instances()] == ["ACTIVE", "REVOKED"]
    assert kept.revoke(lost.id).status == 204, "it is revoked already"
    assert "instance decision=granted what=revoked" in enrolling.gateway.error_path.read_text()


def test_without_a_person_a_device_sees_and_revokes_itself_alone(enrolling, device):
    other = enrolling.device(*enrolling.enrolled(), name="other")
    assert [entry["id"] for entry in device.instances()] == [device.id]
    assert error_of(device.revoke(other.id)) == REFUSED
    assert device.revoke(device.id).status == 204
    assert_refused(device.address, device.identity, "certificate.revoked")


MALFORMED = [({}, (400, "bad_request")), ({"status": "ACTIVE"}, (422, "validation_error")),
             ({"status": ["REVOKED"]}, (422, "validation_error")), ({"status": "REVOKED", "a": 1}, (400, "bad_request"))]


@only("ios")
@pytest.mark.parametrize("body, error", MALFORMED)
def test_a_malformed_revocation_changes_nothing(device, body, error):
    assert error_of(device.send("PATCH", f"/instances/{device.id}", body)) == error
    assert device.instances()[0]["status"] == "ACTIVE"


def test_what_changes_anything_needs_a_proof_of_its_content_once(enrolling, device):
    path, body = f"/instances/{device.id}", {"status": "REVOKED"}
    bare = json.dumps(body).encode()
    head = http.get(path, "Content-Type: application/json", f"Content-Length: {len(bare)}", method="PATCH")
    response = device.exchange(head + bare)
    assert error_of(response) == (401, "proof_required")
    assert response.value("accept-signature") and response.value("www-authenticate")

    def error(**change):
        return error_of(device.send("PATCH", path, body, **change))

    assert error(sent={"content": b'{"status":"REVOKED" }'}) == (400, "body_digest_mismatch")
    assert error(sent={"method": "POST"})[0] == 405
    assert error(authority="records.example") == (401, "proof_invalid")
    assert error(nonce="a" * 78) == (401, "challenge_required")
    assert error(created=1) == (401, "proof_stale")
    other = enrolling.device(*enrolling.enrolled(), name="other")
    assert error_of(device.exchange(other.request("PATCH", path, body))) == (403, "device_mismatch")
    # A proof that was used, here for a posture, is worth nothing any more.
    data = device.request("POST", "/attestation", {"nonce": enrolling.service.nonce()})
    assert device.exchange(data).status == 200
    assert error_of(device.exchange(data)) == (401, "counter_replayed")
    assert error(counter=device.proving.counter) == (401, "counter_replayed")
    assert device.instances()[0]["status"] == "ACTIVE"


@only("ios")
def test_an_iphone_is_attested_anew_by_its_proof(enrolling, device):
    def shown():
        number = max(entry["device"] for entry in enrolling.devices())
        return json.loads(enrolling.gateway.device_command("show", "--json", str(number)))["posture"]

    before = shown()["attested_at"]
    eventually(lambda: attested(enrolling, device)["attested_at"] > before, "the clock to go on")
    assert shown()["attested_at"] > before
    nonce = enrolling.service.nonce()
    assert device.send("POST", "/attestation", {"nonce": nonce}).status == 200
    assert error_of(device.send("POST", "/attestation", {"nonce": nonce})) == REFUSED
    assert error_of(device.send("POST", "/attestation", {"nonce": "A" * 22})) == REFUSED
    assert error_of(device.send("POST", "/attestation", {})) == (400, "bad_request")
    for extra in ({"key_attestation": []}, {"play_integrity_token": "a"}, {"unknown": 1}):
        body = {"nonce": enrolling.service.nonce(), **extra}
        assert error_of(device.send("POST", "/attestation", body)) == (400, "bad_request")
    assert "attestation decision=granted what=attested" in enrolling.gateway.error_path.read_text()


def attested(enrolling, device, **members):
    response = device.send("POST", "/attestation", {"nonce": enrolling.service.nonce(), **members})
    assert response.status == 200, response
    return json.loads(response.content)["posture"]


@only("android")
def test_an_android_phone_is_attested_anew_by_a_chain_for_the_nonce(enrolling, device):
    phone = device.own

    def chain(nonce, **description):
        key = MTLSKey()
        return as_text(phone.authority.attest(key, sha256(nonce.encode(), phone.tag.encode()), app=phone.app, **description))

    before = attested(enrolling, device)
    nonce = enrolling.service.nonce()
    body = {"nonce": nonce, "key_attestation": chain(nonce)}
    response = device.send("POST", "/attestation", body)
    assert response.status == 200, response
    posture = json.loads(response.content)["posture"]
    assert posture["attested_at"] >= before["attested_at"] and posture["key_protection"] == before["key_protection"]
    # Of another nonce.
    body = {"nonce": enrolling.service.nonce(), "key_attestation": chain(enrolling.service.nonce())}
    assert error_of(device.send("POST", "/attestation", body)) == REFUSED
    body = {"nonce": (nonce := enrolling.service.nonce()), "key_attestation": chain(nonce)[:1]}
    assert error_of(device.send("POST", "/attestation", body))[0] in (403, 422)


@only("ios")
def test_the_status_names_both_listeners(enrolling, device):
    assert enrolling.status()["enrolment"] == {
        "listener": f"127.0.0.1:{enrolling.service.port}", "devices_listener": f"127.0.0.1:{enrolling.devices_port}",
        "admission": "open"}
    done = attestgate("status", "--config", enrolling.gateway.conf_path)
    assert f"enrolled devices 127.0.0.1:{enrolling.devices_port}" in [" ".join(line.split()) for line in done.stdout.splitlines()]


def test_the_metrics_tell_of_the_endpoints(enrolling, device):
    device.instances()
    samples = scrape(enrolling.gateway)
    assert samples("attestgate_enrolment_requests_total", endpoint="instances", result="ok") > 0


def test_a_reload_adds_the_listener_and_removes_it(pki, shared_upstream, tmp_path):
    made = Enrolling(tmp_path / "reloaded", pki, shared_upstream)
    made.start()
    try:
        phone, mtls, response = made.enrolled()
        section, made.devices_port = made.gateway.conf["enrolment"], uncommon_port()
        devices = {
            "address": f"127.0.0.1:{made.devices_port}", "tls": section["tls"],
            "clients": {"authorities": [str(pki.gms.certificate)]}}
        made.change(devices=devices)
        device = made.device(phone, mtls, response)
        assert [entry["id"] for entry in device.instances()] == [device.id]
        assert error_of(phone.bind(MTLSKey())) == REFUSED
        made.change(renewal="tls")
        assert phone.bind(MTLSKey()).status == 200
        del section["devices"], section["renewal"]
        made.change()
        eventually(lambda: is_refused(device), "the listener to end")
        assert phone.bind(MTLSKey()).status == 200
    finally:
        made.gateway.stop()
        made.holder.close()


def is_refused(device):
    try:
        device.connect().close()
        return False
    except ConnectionRefusedError:
        return True
