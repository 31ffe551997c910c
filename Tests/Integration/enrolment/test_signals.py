"""Signals: what an app says of its phone. They are taken from what a proof covers alone, are kept and shown as claimed, and count
for policies only where these say so."""

import base64
import json
import shutil

import pytest
from jwcrypto import jwk

from support.client import Client, get
from support.denials import code_of
from support.device_tokens import ISSUER
from support.enrolling_phone import error_of
from support.enrolment import Enrolling
from support.gateway import Gateway
from support.pki import attestgate, openssl
from support.platforms import PLATFORMS, only
from support.postgresql import PostgreSQL
from support.waiting import eventually

SAID = {
    "ios": {"systemName": "iOS", "systemVersion": "iOS 17.4", "systemModel": "iPhone 14", "identifierForVendor": "B8C94B1C"},
    "android": {
        "isDeviceSecure": True, "passwordComplexity": "high", "biometricManager": {"biometricStrong": True},
        "build": {"version": {"securityPatch": "2026-01-05"}, "abis": ["arm64-v8a", "x86"]}}}
CLAIMED = {
    "ios": {"systemName": "iOS", "systemVersion": "iOS 17.4", "systemModel": "iPhone 14", "identifierForVendor": "B8C94B1C"},
    "android": {
        "isDeviceSecure": True, "passwordComplexity": "high", "biometricManager.biometricStrong": True,
        "build.version.securityPatch": "2026-01-05", "build.abis": ["arm64-v8a", "x86"]}}
POLICIES = {
    "believing": {
        "ios": {"minimum_os": "17.4", "minimum_os_source": "claimed"}, "android": {"device_secure": "claimed"}},
    "strict": {"ios": {"minimum_os": "17.4"}, "android": {"minimum_os": "99"}}}
VIOLATION = {"ios": "os_outdated", "android": "screen_lock_missing"}
MOST = 4096


def routes():
    return [
        {"name": name, "host": "localhost", "path": f"/{name}", "require": "device", "policy": name, "upstream": "service"}
        for name in POLICIES]


@pytest.fixture(params=PLATFORMS)
def platform(request):
    return request.param


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def shared(request, pki, shared_upstream, tmp_path_factory):
    directory = tmp_path_factory.mktemp("signals")
    key, keys = directory / "tokens.key", directory / "jwks.json"
    openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", key)
    key.chmod(0o600)
    keys.write_text(json.dumps({"keys": [jwk.JWK.from_pem(key.read_bytes()).export_public(as_dict=True)]}))
    database = PostgreSQL() if request.param == "postgresql" else None
    registry = {"postgresql": database.conf} if database else {}
    made = Enrolling(
        directory, pki, shared_upstream, devices=True, platforms=PLATFORMS, registry=registry, policies=POLICIES,
        enrolment={"device_tokens": {"issuer": ISSUER, "key": str(key)}}, device_tokens={"issuer": ISSUER, "jwks": str(keys)})
    made.gateway.conf["routes"] += [*routes(), {
        "name": "tokens", "host": "localhost", "path": "/tokens", "require": "device", "device_token": "required",
        "upstream": "service"}]
    made.start()
    yield made
    made.stop()
    if database:
        database.close()


@pytest.fixture
def enrolling(shared, platform):
    with shared.phones_of(platform):
        yield shared


@pytest.fixture
def device(enrolling):
    return enrolling.device(*enrolling.enrolled())


def say(device, signals, **change):
    return device.send("POST", "/attestation", {"nonce": device.enrolling.service.nonce(), "signals": signals}, **change)


def said(device, signals):
    response = say(device, signals)
    assert response.status == 200, response
    return json.loads(response.content)


def shown(device, *arguments):
    number = max(entry["device"] for entry in device.enrolling.devices())
    return device.enrolling.gateway.device_command("show", *arguments, str(number))


def kept(device):
    return json.loads(shown(device, "--json"))["signals"]


def ask(gateway, device, path, *fields):
    with Client(gateway, device.identity) as client:
        return client.exchange(get(path, *fields))


def attributes(token):
    payload = token.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(payload + "=="))["deviceHealth"]["deviceAttributes"]


def test_what_an_app_says_is_kept_and_shown_as_claimed(enrolling, device, platform):
    assert kept(device) is None and "claimed" not in shown(device)
    answer = said(device, SAID[platform])
    assert kept(device)["claims"] == CLAIMED[platform]
    posture = json.loads(shown(device, "--json"))["posture"]
    claimed = {"ios": {"claimed_os_version": "17.4"}, "android": {"claimed_device_secure": True}}[platform]
    assert {name: value for name, value in posture.items() if name.startswith("claimed")} == claimed
    assert platform == "android" or "os_version" not in posture, "nothing is attested"
    assert claimed.items() <= answer["posture"].items()
    lines = [" ".join(line.split()) for line in shown(device).splitlines()]
    assert f"signals claimed by the app, not proven, {kept(device)['claimed_at']}" in lines
    expected = {"ios": "claimed systemModel iPhone 14", "android": "claimed build.abis arm64-v8a, x86"}[platform]
    assert expected in lines
    attested = {"systemVersion": posture["os_version"]} if platform == "android" else {}
    assert attributes(answer["device_token"]) == {**attested, **SAID[platform]}


def test_a_policy_believes_them_only_if_it_says_so(enrolling, device, platform):
    def violations(name):
        response = ask(enrolling.gateway, device, f"/{name}")
        return [] if code_of(response) is None else json.loads(response.content)["violations"]

    assert violations("believing") == [VIOLATION[platform]] and violations("strict") == ["os_outdated"]
    said(device, SAID[platform])
    assert violations("believing") == [] and violations("strict") == ["os_outdated"]
    said(device, {"systemVersion": "17.3", "isDeviceSecure": False})
    assert violations("believing") == [VIOLATION[platform]]
    said(device, {})
    assert violations("believing") == [VIOLATION[platform]]


def test_newer_signals_replace_all_earlier_ones_and_a_request_without_any_none(device, platform):
    said(device, SAID[platform])
    said(device, {"systemModel": "other"})
    assert kept(device)["claims"] == {"systemModel": "other"}
    time = kept(device)["claimed_at"]
    assert device.send("POST", "/attestation", {"nonce": device.enrolling.service.nonce()}).status == 200
    assert kept(device) == {"claims": {"systemModel": "other"}, "claimed_at": time}


REFUSED = {
    "no object": ["a"], "text": "a", "null": None, "number": {"a": 1.5}, "list of numbers": {"a": [1]}, "nothing": {"a": None},
    "depth": {"a": {"b": {"c": {}}}}, "name": {"a b": 1}, "name with a full stop": {"a.b": 1}, "long name": {"a" * 65: 1},
    "escape sequence": {"a": "\x1b[2J"}, "C1": {"a": "\x9b2J"}, "line": {"a": "b\nc"}, "direction": {"a": "\u202eb"},
    "size": {"a": "x" * (MOST - len('{"a":""}') + 1)}}


@only("ios")
@pytest.mark.parametrize("signals", REFUSED.values(), ids=REFUSED)
def test_another_form_is_refused_and_nothing_is_kept(device, signals):
    assert error_of(say(device, signals)) == (422, "validation_error")
    assert kept(device) is None


def test_nothing_is_taken_from_what_no_proof_covers(enrolling, device, platform):
    body = json.dumps({"nonce": enrolling.service.nonce(), "signals": SAID[platform]}).encode()
    head = get("/attestation", "Content-Type: application/json", f"Content-Length: {len(body)}", method="POST")
    assert error_of(device.exchange(head + body)) == (401, "proof_required")
    other = json.dumps({"nonce": enrolling.service.nonce(), "signals": {"systemVersion": "99"}}).encode()
    response = say(device, SAID[platform], sent={"content": other})
    assert error_of(response) == (400, "body_digest_mismatch")
    assert kept(device) is None


def test_a_token_with_all_that_an_app_may_say_is_accepted(enrolling, device):
    most = {"a": "x" * (MOST - len('{"a":""}'))}
    token = said(device, most)["device_token"]
    assert len(token) <= 8192
    assert ask(enrolling.gateway, device, "/tokens", f"X-Device-Token: {token}").status == 200


def test_signals_survive_an_export_and_its_import(enrolling, device, platform, tmp_path):
    said(device, SAID[platform])
    before, number = kept(device), max(entry["device"] for entry in enrolling.devices())
    path = tmp_path / "export.jsonl"
    done = attestgate("registry", "export", "--config", enrolling.gateway.conf_path, path)
    assert done.returncode == 0, done.stderr
    conf = enrolling.gateway.conf
    known = conf["registry"]
    conf["registry"] = {"path": str(tmp_path / "imported.sqlite"), "secret": known["secret"]}
    enrolling.gateway.halt()
    enrolling.gateway.write_conf()
    try:
        done = attestgate("registry", "import", "--config", enrolling.gateway.conf_path, "--accept-lost-revocations", path)
        assert done.returncode == 0, done.stderr
        enrolling.gateway.start()
        assert len(enrolling.devices()) == number and kept(device) == before
        enrolling.gateway.halt()
    finally:
        conf["registry"] = known
        enrolling.gateway.start()


@only("ios")
def test_another_gateway_on_the_database_learns_of_them(enrolling, device, platform, pki, shared_upstream, tmp_path):
    registry = enrolling.gateway.conf["registry"]
    if "postgresql" not in registry:
        pytest.skip("a file has one gateway")
    directory = tmp_path / "other"
    directory.mkdir()
    shutil.copy(registry["secret"], directory / "secret")
    other = Gateway(
        directory, pki, {"service": shared_upstream.address}, routes(), apps=enrolling.gateway.conf["apps"],
        registry={"postgresql": registry["postgresql"]}, policies=POLICIES)
    other.start()
    try:
        assert code_of(ask(other, device, "/believing")) == "policy_denied"
        said(device, SAID[platform])
        eventually(lambda: ask(other, device, "/believing").status == 200, "the change to arrive")
    finally:
        other.stop()
