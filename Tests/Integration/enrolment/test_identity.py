"""What services learn of a device beyond its pseudonym, on routes that say so."""

import re

import pytest
from cryptography.hazmat.primitives import serialization

from support.client import Client, get
from support.enrolling_phone import MTLSKey
from support.enrolment import Enrolling, admission_token
from support.http2_client import HTTP2Client
from support.pki import attestgate
from support.platforms import PLATFORMS, only

WHOLE = ["subject", "posture"]


@pytest.fixture(params=PLATFORMS)
def platform(request):
    return request.param


class Identifying:
    """A gateway that admits by tokens. The routes tell nothing, the person, the posture, or both; `/observed` observes."""

    def __init__(self, directory, pki, upstream, platform):
        self.issuer = MTLSKey()
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / "issuer.pem"
        path.write_bytes(self.issuer.private.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo))
        self.directory, self.upstream = directory, upstream
        self.enrolling = Enrolling(
            directory, pki, upstream, platforms=[platform],
            enrolment={"admission": "token", "token": {"issuer": "https://login.example", "keys": [str(path)]}})
        gateway = self.gateway = self.enrolling.gateway
        gateway.conf["upstreams"]["other"] = gateway.conf["upstreams"]["service"]
        service = {"host": "localhost", "upstream": "service", "require": "device"}
        gateway.conf["routes"] = [
            {**service, "name": "nothing", "path": "/"}, {**service, "name": "whole", "path": "/whole", "identity": WHOLE},
            {**service, "name": "proof", "path": "/proof", "require": "request-proof", "identity": WHOLE},
            {**service, "name": "subject", "path": "/subject", "identity": ["subject"]},
            {**service, "name": "posture", "path": "/posture", "identity": ["posture"]},
            {**service, "name": "other", "path": "/other", "identity": WHOLE, "upstream": "other"},
            {**service, "name": "observed", "path": "/observed", "identity": WHOLE, "enforce": "observe"}]
        gateway.write_conf()
        self.enrolling.start()

    def enrolled(self, name, subject="patient-1"):
        phone, mtls = self.enrolling.phone(), MTLSKey()
        assert phone.initialize().status == 204
        token = admission_token(self.issuer, mtls, self.enrolling.provider, sub=subject)
        response = phone.bind(mtls, claims={"admission_token": token})
        return phone, phone.identity(self.directory, mtls, response, name)

    def stop(self):
        self.enrolling.stop()


@pytest.fixture
def identifying(tmp_path, pki, own_upstream, platform):
    made = Identifying(tmp_path / "identifying", pki, own_upstream, platform)
    yield made
    made.stop()


def stated(identifying, client, path, *fields):
    """- Returns: the fields about the device that the service received, by lower-case name."""
    assert client.exchange(get(path, *fields)).status == 200
    found = identifying.upstream.last_request().fields
    names = [name.lower() for name, _ in found]
    assert len(set(names)) == len(names)
    return {name.lower(): value for name, value in found if name.lower().startswith("attest-")}


def test_routes_tell_what_their_identity_names(identifying, platform):
    _, identity = identifying.enrolled("first")
    with Client(identifying.gateway, identity) as client:
        assert not {"attest-subject", "attest-posture"} & set(stated(identifying, client, "/"))
        whole = stated(identifying, client, "/whole")
        assert re.fullmatch("[0-9a-f]{64}", whole["attest-subject"])
        facts = whole["attest-posture"].split(", ")
        assert facts[:2] == [f"platform={platform}", "environment=simulator"] and facts[-1] == "admission=token"
        assert any(re.fullmatch(r"bound_at=\d{10}", fact) for fact in facts)
        known = {"ios": "key_protection=secure-enclave", "android": r'patch_level="\d{4}-\d\d"'}[platform]
        assert any(re.fullmatch(known, fact) for fact in facts), facts
        assert stated(identifying, client, "/whole") == whole
        subject = stated(identifying, client, "/subject")
        assert subject["attest-subject"] == whole["attest-subject"] and "attest-posture" not in subject
        posture = stated(identifying, client, "/posture")
        assert posture["attest-posture"] == whole["attest-posture"] and "attest-subject" not in posture


def test_the_person_is_another_at_each_service_and_the_same_on_each_device(identifying):
    _, first = identifying.enrolled("first")
    _, second = identifying.enrolled("second")
    _, stranger = identifying.enrolled("third", subject="patient-2")
    seen = []
    for identity in first, second, stranger:
        with Client(identifying.gateway, identity) as client:
            seen.append((stated(identifying, client, "/whole"), stated(identifying, client, "/other")))
    subjects = [[fields["attest-subject"] for fields in pair] for pair in seen]
    assert subjects[0] == subjects[1] and not set(subjects[0]) & set(subjects[2])
    assert len({*subjects[0], *subjects[2]}) == 4
    assert len({pair[0]["attest-device"] for pair in seen}) == 3
    listed = identifying.gateway.device_command("list", "--json")
    assert not any(subject in listed for pair in subjects for subject in pair)


@pytest.mark.parametrize("client", [Client, HTTP2Client])
def test_what_a_client_says_of_itself_is_removed_in_every_spelling(identifying, client):
    _, identity = identifying.enrolled("first")
    with client(identifying.gateway, identity) as opened:
        for path in "/", "/whole":
            good = stated(identifying, opened, path)
            for name in "Attest-Subject", "Attest-Posture":
                for spelling in name, name.upper(), name.lower():
                    found = stated(identifying, opened, path, f"{spelling}: evil", f"{spelling}: evil")
                    assert found == good and "evil" not in str(found)
                for spelling in name.replace("-", "_"), name.replace("-", "."), name.replace("-", "!"):
                    with client(identifying.gateway, identity) as other:
                        assert other.exchange(get(path, f"{spelling}: evil")).status == 400


def test_a_request_that_is_only_observed_has_no_identity(identifying):
    _, identity = identifying.enrolled("first")
    with Client(identifying.gateway, identity) as client:
        assert "attest-subject" in stated(identifying, client, "/observed")
    stranger = identifying.enrolling.pki.phone("identity-unbound")
    with Client(identifying.gateway, stranger) as client:
        found = stated(identifying, client, "/observed")
    assert found == {"attest-verdict": found["attest-verdict"]} and "would-deny" in found["attest-verdict"]


def test_a_proven_request_states_what_others_do(identifying):
    phone, identity = identifying.enrolled("first")
    requesting = phone.requesting(identifying.gateway, identity)
    with requesting.connect() as client:
        for _ in range(2):
            assert client.exchange(requesting.request(path="/proof")).status == 200
            fields = dict(identifying.upstream.last_request().fields)
            assert fields["Attest-Counter"] == str(requesting.counter)
            assert "admission=token" in fields["Attest-Posture"] and len(fields["Attest-Subject"]) == 64


@only("ios")
def test_check_refuses_identity_where_no_device_is_known(identifying):
    identifying.gateway.conf["routes"].append({
        "name": "certificate", "host": "localhost", "path": "/certificate", "require": "certificate", "upstream": "service",
        "identity": ["subject"]})
    identifying.gateway.write_conf()
    done = attestgate("check", "--config", identifying.gateway.conf_path)
    assert done.returncode != 0 and "`identity` has no effect" in done.stderr, done.stderr
