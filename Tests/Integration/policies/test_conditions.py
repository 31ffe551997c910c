"""Conditions of the conf file on what is known of a device: each is met and denied, what is not known is denied, and no denial
spends a counter."""

import json

import pytest
from cryptography.hazmat.primitives import serialization

from support.client import get
from support.deciding import PROTOCOLS, assert_policy_denied, connect
from support.denials import NothingForwarded, code_of
from support.enrolling_phone import MTLSKey, bind, sha256
from support.enrolment import admission_token
from support.exposition import scrape
from support.key_description import integer, root_of_trust
from support.phone import Phone
from support.pki import attestgate
from support.platforms import APPS, PLATFORMS
from support.play_integrity import Console
from support.postures import APP_STORE, DEVELOPMENT, PLAIN, TESTFLIGHT, Postures, shows
from support.software_phone import EnrollingGateway
from support.waiting import eventually

IOS, ANDROID = "ios", "android"


def hardware(number, value):
    return {"hardware": {number: value}}


SELF_SIGNED = {"hardware": {704: root_of_trust(locked=0xFF, state=1)}}
UNLOCKED = {"hardware": {704: root_of_trust(locked=0, state=2)}}
OTHERS = {"hardware": {704: root_of_trust(locked=0, state=0)}}
# Name of the policy: platform, conditions, violation; phones that meet them; phones that do not.
CONDITIONS = {
    "ios-os": (IOS, {"minimum_os": "17.4"}, "os_outdated",
               [{"os_version": "17.4"}, {"os_version": "17.10"}, {"os_version": "18"}, {"os_version": "17.4.1"}],
               [{"os_version": "17.3.9"}, {"os_version": "9.9"}, {}]),
    "android-os": (ANDROID, {"minimum_os": "16"}, "os_outdated",
                   [{}, hardware(705, integer(160_100))], [hardware(705, integer(150_000))]),
    "app-version": (ANDROID, {"minimum_app_version": 1042}, "app_outdated", [{}], []),
    "next-app-version": (ANDROID, {"minimum_app_version": 1043}, "app_outdated", [], [{}]),
    "patch-level": (ANDROID, {"minimum_patch_level": "2026-02"}, "patch_level_outdated",
                    [{}, hardware(706, integer(202_603))], [hardware(706, integer(202_601)), hardware(706, integer(202_512))]),
    "vendor-level": (ANDROID, {"minimum_vendor_patch_level": "2026-02-05"}, "patch_level_outdated",
                     [{}, hardware(718, integer(20_260_301))], [hardware(718, integer(20_260_204))]),
    "boot-level": (ANDROID, {"minimum_boot_patch_level": "2026-02-05"}, "patch_level_outdated",
                   [hardware(719, integer(20_260_205))], [hardware(719, integer(20_260_201))]),
    "tee": (ANDROID, {"key_protection": "tee"}, "key_protection_low", [{}], []),
    "strongbox": (ANDROID, {"key_protection": "strongbox"}, "key_protection_low", [], [{}]),
    "certificate-key": (ANDROID, {"certificate_key": "attested"}, "certificate_key_unattested", [{}], [{"attests_key": False}]),
    "boot": (ANDROID, {"boot": "verified"}, "boot_unverified", [{}, OTHERS], [SELF_SIGNED, UNLOCKED]),
    "bootloader": (ANDROID, {"bootloader": "locked"}, "bootloader_unlocked", [{}, SELF_SIGNED], [UNLOCKED, OTHERS]),
}
COMMON = {
    "admitted-openly": {"admission": ["open"]}, "admitted": {"admission": ["token", "approval"]}, "fresh": {"attested_within": "1h"},
    "several": {"ios": {"minimum_os": "18", "maximum_risk": 5},
                "android": {"minimum_os": "17", "key_protection": "strongbox", "minimum_patch_level": "2027-01",
                            "minimum_vendor_patch_level": "2027-01-01", "boot": "verified"}, "admission": ["token"]},
    "apple-only": {"ios": {"minimum_os": "17.4"}},
    "shown-version": {"ios": {"minimum_app_version": "2.1"}}, "shown-category": {"ios": {"distribution": ["app-store"]}},
    "shown-both": {"ios": {"minimum_app_version": "2.1", "distribution": ["app-store", "testflight"], "minimum_os": "17.4"}},
}


@pytest.fixture(scope="module")
def world(tmp_path_factory, pki, shared_upstream):
    policies = {name: {platform: section} for name, (platform, section, *_) in CONDITIONS.items()}
    made = Postures(tmp_path_factory.mktemp("conditions"), pki, shared_upstream, {**policies, **COMMON})
    yield made
    made.stop()


@pytest.fixture
def postures(world):
    assert world.gateway.process.poll() is None, world.gateway.errors
    world.gateway.begin()
    world.upstream.reset_behaviour()
    return world


def phone_of(postures, platform, facts):
    """The phone of which these facts are known."""
    return postures.phone(platform, repr(facts).translate(str.maketrans("", "", "{}'\"\\, :/")), **facts)


def plain(postures, platform):
    return phone_of(postures, platform, PLAIN[platform])


def nothing_forwarded(postures):
    return NothingForwarded(postures.gateway, postures.upstream, plain(postures, IOS).identity)


CASES = [
    pytest.param(name, facts, met, id=f"{name}-{number}-{'met' if met else 'failed'}")
    for name, (_, _, _, good, bad) in CONDITIONS.items()
    for number, (facts, met) in enumerate([*((each, True) for each in good), *((each, False) for each in bad)])]


@pytest.mark.parametrize("name, facts, met", CASES)
def test_each_condition_is_met_or_denied(postures, name, facts, met):
    platform, _, violation, *_ = CONDITIONS[name]
    phone = phone_of(postures, platform, facts)
    assert postures.violations(phone, name) == (None if met else [violation])
    # With a proof it is the same, and a denial spends no counter.
    data = phone.request("POST", f"/proof/{name}/1", content=b"content")
    response = postures.ask(phone, data)
    if met:
        assert response.status == 200, response
        return
    assert_policy_denied(postures.gateway, response, [violation])
    assert postures.ask(phone, phone.request(path="/proof/admitted-openly/1", counter=phone.counter)).status == 200


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("platform", PLATFORMS)
def test_all_violations_are_named_in_the_order_of_their_table(postures, platform, protocol):
    phone = plain(postures, platform)
    expected = {
        IOS: ["os_outdated", "risk_too_high", "admission_low"],
        ANDROID: ["os_outdated", "patch_level_outdated", "key_protection_low", "admission_low"]}[platform]
    with nothing_forwarded(postures), connect(postures.gateway, phone, protocol) as client:
        assert_policy_denied(postures.gateway, client.exchange(get("/several/1")), expected)
        assert_policy_denied(postures.gateway, client.exchange(phone.request(path="/proof/several/1")), expected)


@pytest.mark.parametrize("platform", PLATFORMS)
def test_the_device_is_judged_before_its_proof_is_looked_at(postures, platform):
    """Neither a missing nor a wrong proof says anything else, and nothing is verified."""
    phone = plain(postures, platform)
    for data in [get("/proof/several/1"), phone.request(path="/proof/several/1", sent={"method": "DELETE"}),
                 phone.request(path="/proof/several/1", created=1), get("/proof/several/1", "Signature: x")]:
        entry = assert_policy_denied_by_registry(postures, phone, data)
        assert "verification_us" not in entry, entry


def assert_policy_denied_by_registry(postures, phone, data):
    response = postures.ask(phone, data)
    assert code_of(response) == "policy_denied", response
    return postures.gateway.logged(trace_id=json.loads(response.content)["trace_id"])


def test_a_device_that_an_operator_registered_has_no_attested_facts(postures, pki):
    for platform in PLATFORMS:
        phone = Phone(postures.gateway, pki.phone(f"conditions-registered-{platform}"), APPS[platform])
        for name, (system, _, violation, *_) in CONDITIONS.items():
            if system == platform:
                assert postures.violations(phone, name) == [violation], name
        assert postures.violations(phone, "fresh") == ["attestation_too_old"]
        assert postures.violations(phone, "admitted-openly") == ["admission_low"]


def test_the_risk_metric_of_apples_receipt_is_judged(tmp_path, pki, upstream):
    postures = Postures(tmp_path, pki, upstream, {"risk": {"ios": {"maximum_risk": 5}}}, ios={"receipt": "required"})
    try:
        for risk, violations in [(0, None), (5, None), (6, ["risk_too_high"])]:
            phone = postures.phone(IOS, f"risk {risk}", risk=risk)
            assert postures.violations(phone, "risk") == violations
    finally:
        postures.stop()


def test_phones_of_the_device_tool_are_judged_by_what_they_attest(tmp_path, pki, upstream):
    service = EnrollingGateway(tmp_path, pki, upstream)
    try:
        policies = {
            "strongbox": {"android": {"key_protection": "strongbox"}}, "tee": {"android": {"key_protection": "tee"}},
            "patch": {"android": {"minimum_patch_level": "2026-05"}}, "app": {"android": {"minimum_app_version": 7}},
            "system": {"ios": {"minimum_os": "17.10"}}}
        enrolled = {
            (IOS, "old"): (["--os-version", "17.9"], {"system"}), (IOS, "new"): (["--os-version", "17.10"], set()),
            (IOS, "silent"): ([], {"system"}),
            (ANDROID, "best"): (["--security-level", "strongbox", "--patch-level", "2026-05", "--app-version", "7"], set()),
            (ANDROID, "plain"): (["--patch-level", "2026-04"], {"strongbox", "patch", "app"}),
            (ANDROID, "remote"): (["--provisioning", "remote", "--app-version", "8"], {"strongbox"})}
        phones = {}
        for (platform, name), (options, _) in enrolled.items():
            with service.phones_of(platform):
                phones[platform, name] = service.phone(name)
                phones[platform, name].enrol(*options)
        conf = service.gateway.conf
        for name, policy in policies.items():
            conf["policies"] = {name: policy}
            conf["routes"][0].update(policy=name, apps=[APPS[platform] for platform in policy])
            service.gateway.write_conf()
            assert attestgate("reload", "--config", service.gateway.conf_path).returncode == 0
            for (platform, phone), (_, refused) in enrolled.items():
                if platform in policy:
                    expected = (403, "policy_denied") if name in refused else (200, None)
                    assert phones[platform, phone].request("-d", "a=b") == expected, (name, platform, phone)
    finally:
        service.stop()


def test_a_policy_without_conditions_for_a_system_admits_its_devices(tmp_path, pki, upstream):
    postures = Postures(tmp_path, pki, upstream, {"apple": {"ios": {"minimum_os": "18"}}, "other": {"admission": ["open"]}})
    try:
        for route in postures.gateway.conf["routes"]:
            route.pop("apps", None)
        postures.reload()
        assert postures.violations(plain(postures, IOS), "apple") == ["os_outdated"]
        assert postures.violations(plain(postures, ANDROID), "apple") is None
    finally:
        postures.stop()


def test_the_ways_of_admission_are_told_apart(postures):
    for platform in PLATFORMS:
        assert postures.violations(plain(postures, platform), "admitted-openly") is None
        assert postures.violations(plain(postures, platform), "admitted") == ["admission_low"]


# What proofs show

@pytest.mark.parametrize("policy, shown, violations", [
    ("shown-version", shows(APP_STORE, "2.1"), []), ("shown-version", shows(APP_STORE, "2.10"), []),
    ("shown-version", shows(APP_STORE, "2.0.9"), ["app_outdated"]), ("shown-version", shows(), ["app_outdated"]),
    ("shown-category", shows(APP_STORE, "1"), []), ("shown-category", shows(TESTFLIGHT, "1"), ["distribution_refused"]),
    ("shown-category", shows(), ["distribution_refused"]), ("shown-both", shows(TESTFLIGHT, "3"), []),
    ("shown-both", shows(DEVELOPMENT, "1"), ["app_outdated", "distribution_refused"])])
def test_what_a_proof_shows_of_the_app_is_judged_after_it(postures, policy, shown, violations):
    phone = new_phone(postures)
    data = phone.request("POST", f"/proof/{policy}/1", content=b"content", **shown)
    response = postures.ask(phone, data)
    if not violations:
        assert response.status == 200, response
        return
    assert_policy_denied(postures.gateway, response, violations)
    # Its counter is not spent.
    again = phone.request(path="/proof/admitted-openly/1", counter=phone.counter, **shown)
    assert postures.ask(phone, again).status == 200
    # A wrong proof shows nothing: it is refused as such.
    wrong = phone.request(path=f"/proof/{policy}/1", sent={"method": "DELETE"}, **shown)
    assert code_of(postures.ask(phone, wrong)) == "proof_invalid"


def test_what_only_the_registry_knows_is_judged_before_the_proof_and_the_rest_after_it(postures):
    phone = postures.phone(IOS, "outdated for both", os_version="17.3")
    wrong = phone.request(path="/proof/shown-both/1", sent={"method": "DELETE"}, **shows(DEVELOPMENT, "1"))
    assert_policy_denied(postures.gateway, postures.ask(phone, wrong), ["os_outdated"])


def test_a_route_without_proofs_judges_what_was_shown_last(postures):
    phone = new_phone(postures)
    assert postures.violations(phone, "shown-version") == ["app_outdated"]
    for version, violations in [("2.1", None), ("2.0", ["app_outdated"]), ("2.2", None)]:
        shown = phone.request(path="/proof/admitted-openly/1", **shows(APP_STORE, version))
        assert postures.ask(phone, shown).status == 200
        assert postures.violations(phone, "shown-version") == violations


def test_what_was_shown_last_is_shown_to_operators_and_outlives_a_restart(tmp_path, pki, upstream):
    postures = Postures(
        tmp_path, pki, upstream, {"shown": {"ios": {"minimum_app_version": "2.1"}}, "any": {"admission": ["open", "operator"]}})
    try:
        phone = plain(postures, IOS)
        assert postures.ask(phone, phone.request(path="/proof/any/1", **shows(APP_STORE, "2.1"))).status == 200
        assert postures.violations(phone, "shown") is None
        eventually(lambda: known(postures, phone).get("app_version") == "2.1", "the registry to know", 10)
        postures.gateway.halt()
        postures.gateway.start()
        assert postures.violations(phone, "shown") is None
    finally:
        postures.stop()


def known(postures, phone):
    """The facts as an operator sees them."""
    return json.loads(postures.gateway.device_command("show", phone.key.key_id.hex(), "--json"))["posture"]


def new_phone(postures):
    return postures.phone(IOS, f"shows {len(postures.phones)}", os_version="17.4")


# Changes

def test_a_reload_changes_the_verdict_for_new_connections_at_once(tmp_path, pki, upstream):
    postures = Postures(tmp_path, pki, upstream, {"os": {"ios": {"minimum_os": "17.4"}, "android": {"minimum_os": "16"}}})
    try:
        for platform, later in [(IOS, "17.5"), (ANDROID, "17")]:
            phone = plain(postures, platform)
            proof = phone.request(path="/proof/os/1")
            assert postures.violations(phone, "os") is None
            section = postures.gateway.conf["policies"]["os"][platform]
            before, section["minimum_os"] = section["minimum_os"], later
            postures.reload()
            for data in [get("/os/1"), proof]:
                assert_policy_denied(postures.gateway, postures.ask(phone, data), ["os_outdated"])
            section["minimum_os"] = before
            postures.reload()
            assert postures.ask(phone, proof).status == 200, "its counter was not spent"
    finally:
        postures.stop()


def test_an_attestation_grows_old(tmp_path, pki, upstream):
    postures = Postures(tmp_path, pki, upstream, {"fresh": {"attested_within": "1h"}, "week": {"attested_within": "7d"}})
    try:
        phones = [plain(postures, platform) for platform in PLATFORMS]
        for phone in phones:
            assert postures.violations(phone, "fresh") is None
        postures.edit_store("UPDATE device SET registered_at = registered_at - 7200")
        postures.edit_store("UPDATE attestation SET attested_at = attested_at - 7200 WHERE attested_at IS NOT NULL")
        for phone in phones:
            assert postures.violations(phone, "fresh") == ["attestation_too_old"]
            assert postures.violations(phone, "week") is None
    finally:
        postures.stop()


def test_another_attestation_of_the_same_phone_is_judged_anew(tmp_path, pki, upstream):
    """An Android phone attests whenever it binds a key."""
    postures = Postures(tmp_path, pki, upstream, {"patch": {"android": {"minimum_patch_level": "2026-03"}}})
    try:
        with postures.enrolling.phones_of(ANDROID):
            phone, mtls = postures.enrolling.phone(), MTLSKey()
        assert phone.initialize().status == 204
        requester = phone.requesting(postures.gateway, phone.identity(tmp_path, mtls, phone.bind(mtls)))
        assert postures.violations(requester, "patch") == ["patch_level_outdated"]
        assert bind(phone, MTLSKey(), **hardware(706, integer(202_603))).status == 200
        assert postures.violations(requester, "patch") is None
    finally:
        postures.stop()


def test_a_device_that_a_token_or_an_operator_admitted_is_known_as_such(tmp_path, pki, upstream):
    issuer = MTLSKey()
    (tmp_path / "issuer.pem").write_bytes(issuer.private.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo))
    postures = Postures(
        tmp_path, pki, upstream, {kind: {"admission": [kind]} for kind in ("open", "token", "approval")}, admission="token",
        token={"issuer": "https://login.example", "keys": [str(tmp_path / "issuer.pem")]})
    try:
        phone, mtls = postures.enrolling.phone(), MTLSKey()
        token = admission_token(issuer, mtls, postures.enrolling.provider)
        assert phone.initialize().status == 204
        bound = phone.bind(mtls, claims={"admission_token": token})
        requester = phone.requesting(postures.gateway, phone.identity(tmp_path, mtls, bound))
        assert postures.violations(requester, "token") is None
        assert postures.violations(requester, "open") == postures.violations(requester, "approval") == ["admission_low"]
    finally:
        postures.stop()


def test_verdicts_of_google_play_and_their_age_are_judged(tmp_path, pki, upstream):
    console = Console(tmp_path / "console")
    demanded = {"decryption_key": str(console.decryption), "verification_key": str(console.verification)}
    postures = Postures(tmp_path, pki, upstream, {
        "device": {"android": {"play_integrity": "MEETS_DEVICE_INTEGRITY"}},
        "strong": {"android": {"play_integrity": "MEETS_STRONG_INTEGRITY"}},
        "recent": {"android": {"play_integrity_age": "1h"}}})
    try:
        with postures.enrolling.phones_of(ANDROID):
            before = plain(postures, ANDROID)
            for name, violation in [("device", "integrity_low"), ("strong", "integrity_low"), ("recent", "integrity_too_old")]:
                assert postures.violations(before, name) == [violation], "nothing is known"
            [app] = [app for app in postures.gateway.conf["apps"] if app["id"].startswith("android:")]
            app["play_integrity"] = demanded
            postures.reload()
            phone, mtls = postures.enrolling.phone(), MTLSKey()
            nonce = phone.service.nonce()
            token = console.fresh(sha256(nonce.encode(), phone.tag.encode()))
            assert phone.initialize(nonce=nonce, play_integrity_token=token).status == 204
            requester = phone.requesting(postures.gateway, phone.identity(tmp_path, mtls, phone.bind(mtls)))
        assert postures.violations(requester, "device") is None
        assert postures.violations(requester, "strong") == ["integrity_low"]
        assert postures.violations(requester, "recent") is None
        postures.edit_store("UPDATE attestation SET integrity_at = integrity_at - 7200 WHERE integrity_at IS NOT NULL")
        assert postures.violations(requester, "recent") == ["integrity_too_old"]
    finally:
        postures.stop()


def test_violations_are_counted(tmp_path, pki, upstream):
    postures = Postures(tmp_path, pki, upstream, {"several": COMMON["several"]})
    try:
        for _ in range(3):
            postures.violations(plain(postures, IOS), "several")
        postures.violations(plain(postures, ANDROID), "several")
        metrics = scrape(postures.gateway)
        assert metrics("attestgate_policy_decisions_total", policy="several", decision="deny", simulated="false") == 4
        for code, count in [("os_outdated", 4), ("risk_too_high", 3), ("patch_level_outdated", 1), ("admission_low", 4)]:
            assert metrics("attestgate_policy_violations_total", policy="several", violation=code, simulated="false") == count
    finally:
        postures.stop()
