"""Policies in Rego, as OPA evaluates them, decide about phones of both platforms by what their attestations state."""

import json

import pytest

from support.client import Client, get
from support.deciding import PATIENT, assert_policy_denied
from support.decision_points import OPA
from support.enrolling_phone import MTLSKey, bind
from support.enrolment import Enrolling
from support.key_description import integer
from support.platforms import PLATFORMS

DATA = {"listed_addresses": ["127.0.9.0/24"], "tenants": ["north"], "least_patch_level": "2026-02-01"}
FACTS = ["method", "route", "host", "device", "app", "platform", "posture", "subject", "client_network", "path", "query"]


class Rego:
    """A gateway with a route of each policy, and phones that it has enrolled."""

    def __init__(self, directory, pki, upstream):
        self.points = {"records": OPA("records"), "reference": OPA("reference", data=DATA)}
        self.enrolling = Enrolling(directory, pki, upstream, platforms=PLATFORMS)
        self.gateway = gateway = self.enrolling.gateway
        gateway.conf["routes"] = [
            *({"name": name, "host": "localhost", "path": f"/{name}", "require": "device", "policy": name, "upstream": "service"}
              for name in ("records", "writing", "reference")),
            {"name": "certificate", "host": "localhost", "path": "/certificate", "require": "certificate", "policy": "reference",
             "upstream": "service"}]
        gateway.conf["policies"] = {name: {"pdp": name} for name in ("records", "writing", "reference")}
        common = {"kind": "opa", "timeout": PATIENT}
        records = {**common, "url": self.points["records"].url}
        gateway.conf["decision_points"] = {
            "records": {**records, "path": "/v1/data/health/records/verdict"},
            "writing": {**records, "path": "/v1/data/health/records/only_get"},
            "reference": {
                **common, "url": self.points["reference"].url, "path": "/v1/data/reference/api/verdict", "profile": "dsr",
                "sends": FACTS, "headers": ["x-tenant", "accept"]}}
        self.enrolling.start()
        self.identities = {}

    def phone(self, platform, name, **attested):
        """- Returns: the identity of a phone with that name."""
        if (platform, name) not in self.identities:
            with self.enrolling.phones_of(platform):
                phone, mtls = self.enrolling.phone(), MTLSKey()
                response = phone.initialize(**attested)
                assert response.status == 204, response
                bound = bind(phone, mtls, **attested)
                self.identities[platform, name] = phone.identity(
                    self.enrolling.directory, mtls, bound, f"{platform}-{name}")
        return self.identities[platform, name]

    def ask(self, identity, path, *fields, method="GET", source=None):
        with Client(self.gateway, identity, source=source) as client:
            return client.exchange(get(path, *fields, method=method))

    def stop(self):
        self.enrolling.stop()
        for point in self.points.values():
            point.stop()


@pytest.fixture(scope="module")
def rego(tmp_path_factory, pki, shared_upstream):
    made = Rego(tmp_path_factory.mktemp("rego"), pki, shared_upstream)
    yield made
    made.stop()


def new(rego):
    return rego.phone("ios", "new", os_version="17.10")


def old(rego):
    return rego.phone("ios", "old", os_version="17.3")


def silent(rego):
    return rego.phone("ios", "silent")


def android(rego):
    return rego.phone("android", "new")


def android_before(rego):
    return rego.phone("android", "old", hardware={706: integer(202_601)})


@pytest.mark.parametrize("phone, method, violations", [
    (new, "GET", []), (old, "GET", ["os_outdated"]), (silent, "GET", ["os_outdated"]), (android, "GET", []),
    (new, "DELETE", ["write_refused"]), (old, "DELETE", ["os_outdated", "write_refused"]), (android, "DELETE", ["write_refused"])])
def test_the_posture_decides(rego, phone, method, violations):
    response = rego.ask(phone(rego), "/records/1", method=method)
    if not violations:
        assert response.status == 200
        return
    assert_policy_denied(rego.gateway, response, violations)


def test_a_rule_that_is_undefined_denies(rego):
    assert rego.ask(new(rego), "/writing/1").status == 200
    assert_policy_denied(rego.gateway, rego.ask(new(rego), "/writing/1", method="PUT"))


DEVICE = {
    "device_system_version_not_match": "iOS 15.1 is not admitted.", "device_patch_level_not_match": "The patch level is too low."}


def oldest(rego):
    return rego.phone("ios", "oldest", os_version="15.1")


@pytest.mark.parametrize("phone, path, fields, violations, reason", [
    (new, "/reference/1", [], [], None),
    (new, "/reference/1?form=json&a=b", ["X-Tenant: north"], [], None),
    (android, "/reference/1", [], [], None),
    (oldest, "/reference/1", [], ["device_system_version_not_match"], "iOS 15.1 is not admitted."),
    (android_before, "/reference/1", [], ["device_patch_level_not_match"], "The patch level is too low."),
    # What is wrong with the request is for the log alone.
    (new, "/reference/1", ["X-Tenant: north", "X-Tenant: south"], ["tenant_not_match"], None),
    (new, "/reference/1?form=json&form=xml", [], ["form_not_match"], None),
    (oldest, "/reference/1?form=xml", [], ["device_system_version_not_match", "form_not_match"], "iOS 15.1 is not admitted.")])
def test_the_reference_systems_policy_names_what_is_wrong(rego, phone, path, fields, violations, reason):
    response = rego.ask(phone(rego), path, *fields)
    if not violations:
        assert response.status == 200, response
        return
    entry = assert_policy_denied(rego.gateway, response, violations, reason)
    for code in violations:
        assert code in entry["detail"]


def test_a_listed_network_is_refused_without_a_word_about_it_to_the_client(rego):
    response = rego.ask(new(rego), "/reference/1", source="127.0.9.1")
    entry = assert_policy_denied(rego.gateway, response, ["client_address_listed"])
    assert "The client's address is listed." in entry["detail"]


@pytest.mark.parametrize("platform", PLATFORMS)
def test_the_input_of_the_reference_system_has_the_names_of_its_own_enforcement_point(rego, platform):
    identity = new(rego) if platform == "ios" else android(rego)
    assert rego.ask(identity, "/reference/a%20b?x=1&x=2&y", "X-Tenant: north", "Accept: a/b", "Cookie: a=b").status == 200
    document = json.loads(json.dumps(rego.points["reference"].documents[-1]))
    assert document["request"] == {
        "method": "GET", "headers": {"X-Tenant": ["north"], "Accept": ["a/b"]}, "path": "/reference/a b",
        "query": {"x": ["1", "2"], "y": [""]}, "url": "/reference/a%20b?x=1&x=2&y", "clientIP": "127.0.0.0/24"}
    assert document["deviceTokenValid"] is True
    token = document["deviceTokenPayload"]
    assert token["type"] == platform.upper() and len(token["sub"]) == 64
    health = token["deviceHealth"]
    if platform == "ios":
        assert health["deviceAttributes"] == {"systemVersion": "17.10"} and "rpID" in health["assertion"]
        return
    assert health["integrityVerdict"]["appIntegrity"] == {"packageName": "org.example.app", "versionCode": 1042}
    assert health["keyIdAttestation"] == {"attestationSecurityLevel": 1, "teeEnforced": {
        "rootOfTrust": {"deviceLocked": True, "verifiedBootState": "VERIFIED"}, "osPatchLevel": 202602,
        "vendorPatchLevel": 20260205, "bootPatchLevel": 202602}}
    assert health["deviceAttributes"] == {"build": {"version": {"release": "16.0", "securityPatch": "2026-02-01"}}}


def test_a_client_without_a_device_has_no_valid_token(rego):
    assert_policy_denied(
        rego.gateway, rego.ask(new(rego), "/certificate/1"), ["device_token_invalid"], "The device is not known.")
    document = rego.points["reference"].documents[-1]
    assert document["deviceTokenValid"] is False and "deviceTokenPayload" not in document
