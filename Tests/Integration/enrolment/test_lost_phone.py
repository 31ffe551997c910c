"""The life of a person's phones, by the built programs alone: enrolment over TLS, renewal over mutual TLS, a new posture, and
the lost phone, which the new one revokes."""

import base64
import json
import re
import time
from datetime import timezone

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from support import client as http
from support.client import Client
from support.denials import assert_closed, assert_handshake_refused
from support.enrolling_phone import MTLSKey, b64url
from support.enrolment import admission_token
from support.pki import attestgate
from support.platforms import PLATFORMS
from support.software_phone import EnrollingGateway

DAY = 86_400


class Person:
    """Someone who logs in at an issuer, on each new phone."""

    def __init__(self, service, issuer, directory):
        self.service, self.issuer, self.directory = service, issuer, directory

    def phone(self, name):
        phone = self.service.phone(name)
        token = self.directory / f"{name}.token"
        token.write_text(admission_token(self.issuer, phone.create(), self.service.url, sub="patient-1"))
        phone.enrol("--admission-token", token)
        return phone


@pytest.fixture(params=PLATFORMS)
def person(request, pki, shared_upstream, tmp_path):
    issuer, path = MTLSKey(), tmp_path / "login.pem"
    path.write_bytes(issuer.private.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo))
    service = EnrollingGateway(
        tmp_path, pki, shared_upstream, platforms=[request.param], devices=True, admission="token",
        token={"issuer": "https://login.example", "keys": [str(path)]})
    yield Person(service, issuer, tmp_path)
    service.stop()


def certificate(phone):
    return x509.load_pem_x509_certificate(phone.identity.certificate.read_bytes())


def seconds_left(phone):
    """Until the certificate ends."""
    return certificate(phone).not_valid_after.replace(tzinfo=timezone.utc).timestamp() - time.time()


def point(phone):
    return certificate(phone).public_key().public_numbers()


def change_certificate_life(service, life):
    service.gateway.conf["enrolment"]["certificate_life"] = life
    service.gateway.write_conf()
    done = attestgate("reload", "--config", service.gateway.conf_path)
    assert done.returncode == 0, done.stderr


def identifier(phone):
    """In the list of the person's devices."""
    record = json.loads((phone.directory / "enrolment").read_text())
    return b64url(base64.b64decode(record["hardware_key"]))


def audit(service, what):
    """The devices in the log's lines about an act."""
    text = service.gateway.error_path.read_text()
    return re.findall(rf"enrolment: .* decision=granted what={what} .*?device=(\w+)", text)


def test_a_person_revokes_the_lost_phone_from_the_new_one(person):
    service = person.service
    lost = person.phone("lost")
    assert lost.request() == (200, None)

    # Its certificate ends within a minute.
    change_certificate_life(service, "1m")
    fresh = person.phone("fresh")
    assert seconds_left(fresh) <= 60
    change_certificate_life(service, "30d")
    first = point(fresh)
    assert f"POST {fresh.devices[1]}/key-binding: 200" in fresh.renew("--rotate").stdout
    assert seconds_left(fresh) > 29 * DAY and point(fresh) != first
    rotated = point(fresh)
    assert f"POST {fresh.devices[1]}/key-binding: 200" in fresh.renew().stdout
    assert point(fresh) == rotated
    assert fresh.request() == (200, None)

    before = fresh.shown["posture"]["attested_at"]
    authority = ("--attestation-ca", service.directory / "authority") if service.platform == "android" else ()
    posture = json.loads(fresh.instances("attest", *authority).stdout)["posture"]
    assert posture["platform"] == service.platform and posture["attested_at"] >= before

    listed = json.loads(fresh.instances("list").stdout)
    assert [(each["id"], each["status"], each["current"]) for each in listed] == [
        (identifier(fresh), "ACTIVE", True), (identifier(lost), "ACTIVE", False)]

    identity = lost.identity
    with Client(service.gateway, identity) as kept, Client(service.gateway, fresh.identity) as other:
        assert kept.exchange(http.get("/device")).status == 200
        assert other.exchange(http.get("/device")).status == 200
        # The answer comes after the act, and the second begins with it.
        fresh.instances("revoke", identifier(lost))
        assert_closed(kept)
        assert other.exchange(http.get("/device")).status == 200
    assert_handshake_refused(service.gateway, identity, "device_revoked")
    assert "certificate revoked" in lost.request_in_vain()
    lost.instances("list", status=56)
    lost.renew(status=56)
    assert "403 invalid_request" in lost.enrol(status=1).stderr
    assert fresh.request() == (200, None)

    assert [each["status"] for each in json.loads(fresh.instances("list").stdout)] == ["ACTIVE", "REVOKED"]
    states = {phone: phone.shown for phone in (fresh, lost)}
    assert [states[phone]["state"] for phone in (fresh, lost)] == ["active", "revoked"]
    assert len(states[fresh]["bindings"]) == 2
    short = {phone: audit(service, "first")[number] for number, phone in enumerate((lost, fresh))}
    for what, count in [("rotation", 1), ("renewal", 1), ("attested", 1), ("listed", 2), ("revoked", 1)]:
        assert audit(service, what) == [short[fresh]] * count, what
    assert f"what=revoked target={short[lost]}" in re.sub(
        r"(what=revoked) (.*?)(target=\w+)", r"\1 \3", service.gateway.error_path.read_text())
