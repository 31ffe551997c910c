"""`attestgate policy explain`: what the policy of a route decides about a device, condition by condition, and why."""

import json

import pytest

from support.deciding import PATIENT
from support.decision_points import EVALUATION, AuthZEN, DataAPI
from support.key_description import integer
from support.pki import attestgate
from support.platforms import PLATFORMS
from support.postures import Postures
from support.services import Services

IOS = {
    "minimum_os": "17.4", "minimum_app_version": "2.1", "maximum_risk": 5, "distribution": ["app-store", "testflight"]}
ANDROID = {
    "minimum_os": "15", "minimum_app_version": 7, "minimum_patch_level": "2026-01", "minimum_vendor_patch_level": "2026-01-05",
    "minimum_boot_patch_level": "2026-01-05", "key_protection": "strongbox", "certificate_key": "attested", "boot": "verified",
    "bootloader": "locked", "play_integrity": "MEETS_DEVICE_INTEGRITY", "play_integrity_age": "3650d", "device_secure": "claimed"}
COMMON = {"attested_within": "3650d", "admission": ["token", "approval"]}
GOOD = {
    "ios": {
        "platform": "ios", "environment": "production", "os_version": "17.10", "app_version": "2.1", "distribution": "app-store",
        "risk": 5, "enrolled_at": "2026-01-01T00:00:00Z", "attested_at": "2026-02-01T00:00:00Z",
        "bound_at": "2026-03-01T00:00:00Z", "admission": "token"},
    "android": {
        "platform": "android", "environment": "production", "os_version": "16.0", "patch_level": "2026-01",
        "vendor_patch_level": "2026-01-05", "boot_patch_level": "2026-02-01", "app_version": "7", "key_protection": "strongbox",
        "certificate_key_attested": True, "boot": "verified", "bootloader_locked": True,
        "play_integrity": ["MEETS_BASIC_INTEGRITY", "MEETS_DEVICE_INTEGRITY"], "play_integrity_at": "2026-02-01T00:00:00Z",
        "enrolled_at": "2026-01-01T00:00:00Z", "attested_at": "2026-02-01T00:00:00Z", "bound_at": "2026-03-01T00:00:00Z",
        "admission": "approval", "claimed_device_secure": True},
}
# For each condition: its fact, one that does not meet it, and the violation.
CASES = {
    "ios": {
        "minimum_os": ("os_version", "17.3", "os_outdated"), "minimum_app_version": ("app_version", "1.9", "app_outdated"),
        "maximum_risk": ("risk", 6, "risk_too_high"), "distribution": ("distribution", "development", "distribution_refused"),
        "attested_within": ("attested_at", "1990-01-01T00:00:00Z", "attestation_too_old"),
        "admission": ("admission", "open", "admission_low")},
    "android": {
        "minimum_os": ("os_version", "14.9", "os_outdated"), "minimum_app_version": ("app_version", "6", "app_outdated"),
        "minimum_patch_level": ("patch_level", "2025-12", "patch_level_outdated"),
        "minimum_vendor_patch_level": ("vendor_patch_level", "2026-01-01", "patch_level_outdated"),
        "minimum_boot_patch_level": ("boot_patch_level", "2026-01-01", "patch_level_outdated"),
        "key_protection": ("key_protection", "tee", "key_protection_low"),
        "certificate_key": ("certificate_key_attested", False, "certificate_key_unattested"),
        "boot": ("boot", "self-signed", "boot_unverified"), "bootloader": ("bootloader_locked", False, "bootloader_unlocked"),
        "play_integrity": ("play_integrity", ["MEETS_BASIC_INTEGRITY"], "integrity_low"),
        "play_integrity_age": ("play_integrity_at", "1990-01-01T00:00:00Z", "integrity_too_old"),
        "device_secure": ("claimed_device_secure", False, "screen_lock_missing"),
        "attested_within": ("attested_at", "1990-01-01T00:00:00Z", "attestation_too_old"),
        "admission": ("admission", "operator", "admission_low")},
}
# Apple or Google vouch for the others.
SOURCES = {"attested_within": "registry", "admission": "registry", "device_secure": "claimed"}


class Explaining:
    """A gateway with a policy, and one that asks a decision point besides."""

    def __init__(self, directory, pki, upstream):
        self.points = {"authzen": AuthZEN(lambda document: True), "opa": DataAPI(lambda document: True)}
        # A question outside of a gateway has no trace.
        for point in self.points.values():
            point.is_traced = False
        self.postures = Postures(
            directory, pki, upstream, {
                "all": {"ios": IOS, "android": ANDROID, **COMMON}, "trial": {"ios": {"minimum_os": "17.4"}, "simulate": "true"},
                "open": {"admission": ["open"]}})
        self.gateway = self.postures.gateway
        self.gateway.conf["policies"].update({name: {"ios": {"minimum_os": "17.4"}, "pdp": name} for name in self.points})
        self.gateway.conf["decision_points"] = {
            "authzen": {"kind": "authzen", "path": EVALUATION}, "opa": {"kind": "opa", "path": "/v1/data/a"}}
        for name, point in self.points.items():
            self.gateway.conf["decision_points"][name].update(url=point.url, timeout=PATIENT)
            self.gateway.conf["routes"].append({
                "name": name, "host": "localhost", "path": f"/{name}", "require": "device", "policy": name, "upstream": "service"})
        self.gateway.conf["policies"]["asked"] = {"pdp": "mapped"}
        self.gateway.conf["decision_points"]["mapped"] = {
            **self.gateway.conf["decision_points"]["authzen"], "sends": ["query"],
            "mapping": {"templates": [{"path": "/asked/{id}", "resource": {"type": "record", "id": "{id}"}}]}}
        self.gateway.conf["routes"].append({
            "name": "certificate", "host": "localhost", "path": "/asked", "require": "certificate", "policy": "asked",
            "upstream": "service"})
        self.postures.reload()

    def explain(self, posture=None, *arguments, route="device-all", status=0, **options):
        """- Returns: what is printed; with `--json`, read."""
        source = ["--posture", "-"] if posture is not None else []
        text = posture if isinstance(posture, str) else json.dumps(posture)
        done = attestgate(
            "policy", "explain", "--config", self.gateway.conf_path, "--route", route, *source, *arguments,
            **({"input": text} if source else {}), **options)
        assert done.returncode == status, done.stdout + done.stderr
        return json.loads(done.stdout) if "--json" in arguments and status < 2 else done.stdout + done.stderr


@pytest.fixture(scope="module")
def explaining(tmp_path_factory, pki, shared_upstream):
    made = Explaining(tmp_path_factory.mktemp("explaining"), pki, shared_upstream)
    yield made
    made.postures.stop()
    for point in made.points.values():
        point.stop()


@pytest.fixture
def explain(explaining):
    for point in explaining.points.values():
        point.behave()
    return explaining.explain


@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_device_that_meets_all_conditions_is_allowed(explain, platform):
    printed = explain(GOOD[platform], "--json")
    assert printed["decision"] == "allow" and printed["violations"] == [] and printed["decision_point"] is None
    assert (printed["route"], printed["policy"], printed["simulated"]) == ("device-all", "all", False)
    assert [row["condition"] for row in printed["conditions"]] == list(CASES[platform])
    for row in printed["conditions"]:
        fact = CASES[platform][row["condition"]][0]
        assert (row["fact"], row["verdict"], row["violation"]) == (fact, "met", None), row
        assert row["value"] == GOOD[platform][fact] and row["required"], row
        assert row["source"] == SOURCES.get(row["condition"], "attested"), row
        assert row["source"] == "claimed" or row["age_seconds"] > 0, row


@pytest.mark.parametrize("platform, condition", [
    pytest.param(platform, condition, id=f"{platform}-{condition}") for platform in PLATFORMS for condition in CASES[platform]])
def test_each_condition_is_explained(explain, platform, condition):
    fact, value, violation = CASES[platform][condition]
    for changed, verdict in [(GOOD[platform] | {fact: value}, "failed"), (without(GOOD[platform], fact), "unknown")]:
        if verdict == "unknown" and condition == "admission":
            # Every device was admitted somehow.
            continue
        printed = explain(changed, "--json", status=1)
        assert printed["decision"] == "deny" and printed["violations"] == [violation]
        [row] = [row for row in printed["conditions"] if row["verdict"] != "met"]
        assert (row["condition"], row["verdict"], row["violation"]) == (condition, verdict, violation)
        assert row["value"] == (value if verdict == "failed" else None)
        text = explain(changed, status=1)
        [line] = [line for line in text.splitlines() if "✗" in line]
        assert line.split()[1] == condition and line.endswith(violation), line
        assert ("not known" in line) == (verdict == "unknown") and (verdict == "failed" or " old" not in line)
        assert text.rstrip().endswith(f"decision: deny ({violation})")


def without(posture, fact):
    return {name: value for name, value in posture.items() if name != fact}


def test_nothing_known_is_denied_with_every_violation(explain):
    printed = explain({"platform": "android"}, "--json", status=1)
    assert {row["verdict"] for row in printed["conditions"]} == {"unknown", "failed"}
    assert printed["violations"] == list(dict.fromkeys(violation for _, _, violation in CASES["android"].values()))


def test_the_text_has_a_line_for_each_condition(explain):
    lines = explain(GOOD["ios"]).splitlines()
    assert lines[0] == "route device-all, policy all"
    rows = [line for line in lines if "✓" in line]
    assert [row.split()[1] for row in rows] == list(CASES["ios"]) and lines[-1] == "decision: allow"
    assert all("old" in row and ("attested" in row or "registry" in row) for row in rows), rows


def test_a_simulated_policy_is_called_so(explain):
    printed = explain(GOOD["ios"] | {"os_version": "16"}, "--json", route="device-trial", status=1)
    assert printed["simulated"] is True and printed["decision"] == "deny"
    assert "(simulated)" in explain(GOOD["ios"], route="device-trial")


# Devices of the registry

@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_device_of_the_registry_is_explained_as_the_gateway_decides(explaining, platform):
    facts = {"ios": {"os_version": "17.4"}, "android": {"hardware": {719: integer(20_260_205)}}}[platform]
    phone = explaining.postures.phone(platform, "explained", **facts)
    number = number_of(explaining, phone)
    assert explaining.postures.violations(phone, "open") is None
    explained = explaining.explain(None, "--device", str(number), "--json", route="device-open")
    assert explained["decision"] == "allow"
    found = explaining.postures.violations(phone, "all")
    explained = explaining.explain(None, "--device", str(number), "--json", status=1)
    assert sorted(explained["violations"]) == sorted(found)
    # By its key as well.
    key = phone.key.key_id.hex()
    assert explaining.explain(None, "--device", key, "--json", status=1)["violations"] == explained["violations"]
    # What `device show` prints is the posture.
    shown = explaining.gateway.device_command("show", str(number), "--json")
    assert explaining.explain(shown, "--json", status=1) | {"conditions": None} == explained | {"conditions": None}


def number_of(explaining, phone):
    return json.loads(explaining.gateway.device_command("show", phone.key.key_id.hex(), "--json"))["device"]


def test_a_device_whose_patch_levels_have_no_day_is_explained(explaining):
    phone = explaining.postures.phone("android", "a month", hardware={718: integer(202_602), 719: integer(202_602)})
    assert explaining.explain(None, "--device", str(number_of(explaining, phone)), route="device-open")


def test_a_posture_can_be_in_a_file(explain, tmp_path):
    (tmp_path / "posture.json").write_text(json.dumps({"device": 7, "posture": GOOD["ios"]}))
    assert explain(None, "--posture", str(tmp_path / "posture.json"), "--json")["decision"] == "allow"


def test_a_posture_is_explained_without_a_gateway(explaining, tmp_path):
    """By its conf file alone."""
    conf = {**explaining.gateway.conf, "administration": {"socket": str(tmp_path / "nobody.sock")}}
    (tmp_path / "attestgate.yaml").write_text(json.dumps(conf))
    done = attestgate(
        "policy", "explain", "--config", tmp_path / "attestgate.yaml", "--route", "device-all", "--posture", "-", "--json",
        input=json.dumps(GOOD["ios"]))
    assert done.returncode == 0 and json.loads(done.stdout)["decision"] == "allow"


# Decision points

@pytest.mark.parametrize("name", ["authzen", "opa"])
def test_the_question_is_shown_and_asked_only_if_told(explaining, explain, name):
    point = explaining.points[name]
    before = len(point.documents)
    printed = explain(GOOD["ios"], "--json", route=name)["decision_point"]
    assert printed["name"] == name and printed["answer"] is None and len(point.documents) == before
    question = json.loads(printed["question"])
    assert "0" * 64 in printed["question"] and "17.10" in printed["question"]
    assert explain(GOOD["ios"], route=name).rstrip().endswith("decision: allow, if the decision point does: --ask asks it")
    printed = explain(GOOD["ios"], "--json", "--ask", route=name)
    assert printed["decision"] == "allow" and printed["decision_point"]["answer"]["decision"] is True
    assert point.documents[-1] == (question["input"] if name == "opa" else question) and len(point.documents) == before + 1
    assert "answered: allow" in explain(GOOD["ios"], "--ask", route=name)


def test_a_denial_of_the_decision_point_is_shown_with_its_reasons(explaining, explain):
    explaining.points["opa"].decide = lambda document: {
        "allow": False, "violations": ["too_late"], "reason_user": "Not on a Sunday.", "reason_admin": "rule 7"}
    printed = explain(GOOD["ios"], "--json", "--ask", route="opa", status=1)
    assert printed["decision"] == "deny" and printed["violations"] == ["too_late"]
    assert printed["decision_point"]["answer"] == {
        "decision": False, "violations": ["too_late"], "reason_user": "Not on a Sunday.", "reason_admin": "rule 7"}
    text = explain(GOOD["ios"], "--ask", route="opa", status=1)
    assert "answered: deny (too_late; Not on a Sunday.; rule 7)" in text and text.rstrip().endswith("decision: deny (too_late)")
    explaining.points["opa"].decide = lambda document: True


def test_a_decision_point_without_a_decision_denies(explaining, explain):
    for name, reason in [("status 500", "status 500"), ("wrong content type", "application/json"), ("closes at once", "")]:
        explaining.points["authzen"].misbehave(name)
        printed = explain(GOOD["ios"], "--json", "--ask", route="authzen", status=1)
        assert printed["decision"] == "unavailable" and reason in printed["decision_point"]["answer"]["error"]
        text = explain(GOOD["ios"], "--ask", route="authzen", status=1)
        assert "no decision: " in text and text.rstrip().endswith("decision: none (policy_unavailable)")


def test_a_request_of_a_client_without_a_device_is_explained(explaining, explain):
    asked = explain(None, "--json", "--ask", "--method", "DELETE", "--path", "/asked/7?a=b", route="certificate")
    assert asked["decision"] == "allow" and asked["conditions"] == []
    question = explaining.points["authzen"].documents[-1]
    assert question == json.loads(asked["decision_point"]["question"])
    assert question["subject"]["type"] == "certificate" and question["action"]["name"] == "DELETE"
    assert question["resource"]["id"] == "7" and "a=b" in json.dumps(question)


def test_a_request_that_no_mapping_fits_is_denied_and_asked_about_by_nobody(explaining, explain):
    before = len(explaining.points["authzen"].documents)
    printed = explain(None, "--json", "--ask", "--path", "/asked", route="certificate", status=1)
    assert printed["decision"] == "deny" and printed["decision_point"]["question"] is None
    assert "no template matches the path" in printed["decision_point"]["denied"]
    text = explain(None, "--ask", route="certificate", status=1)
    assert "denied: " in text and text.rstrip().endswith("decision: deny")
    assert len(explaining.points["authzen"].documents) == before


def test_a_device_is_given_where_one_is_required_and_nowhere_else(explain):
    assert "the route device-all requires a device" in explain(None, status=2)
    assert "the route certificate requires no device" in explain(GOOD["ios"], route="certificate", status=2)


@pytest.mark.parametrize("what", ["absent", "slow", "unresolvable"])
def test_the_command_ends_though_the_decision_point_does_not_answer(explaining, pki, tmp_path, what):
    point = AuthZEN(lambda document: True)
    point.is_traced = False
    conf = json.loads(explaining.gateway.conf_path.read_text())
    conf["decision_points"]["authzen"].update(url=point.url, timeout="200ms")
    if what == "unresolvable":
        conf["decision_points"]["authzen"].update(
            url="https://does-not-exist.invalid", tls={"authorities": str(pki.server_ca)})
    (tmp_path / "attestgate.yaml").write_text(json.dumps(conf))
    point.misbehave("slow")
    if what == "absent":
        point.go()
    for _ in range(2):
        done = attestgate(
            "policy", "explain", "--config", tmp_path / "attestgate.yaml", "--route", "authzen", "--posture", "-", "--json", "--ask",
            input=json.dumps(GOOD["ios"]))
        assert done.returncode == 1, done.stdout + done.stderr
        assert json.loads(done.stdout)["decision_point"]["answer"]["error"], done.stdout
    point.go()


def test_conditions_that_fail_are_shown_though_the_decision_point_allows(explain):
    printed = explain(GOOD["ios"] | {"os_version": "16"}, "--json", "--ask", route="authzen", status=1)
    assert printed["decision"] == "deny" and printed["violations"] == ["os_outdated"]


@pytest.mark.parametrize("path", [EVALUATION, None], ids=["path", "metadata"])
def test_a_decision_point_is_asked_over_tls(explaining, pki, path):
    services = Services(pki)
    point = AuthZEN(lambda document: True, identity=services.ordinary)
    point.is_traced = False
    conf = explaining.gateway.conf
    before = dict(conf["decision_points"]["authzen"])
    try:
        conf["decision_points"]["authzen"] = {
            "kind": "authzen", "url": point.url, "tls": {"authorities": str(services.authority.certificate)}, "timeout": PATIENT,
            **({"path": path} if path else {})}
        explaining.gateway.write_conf()
        assert explaining.explain(GOOD["ios"], "--json", "--ask", route="authzen")["decision"] == "allow"
        assert point.asked[-1].path == EVALUATION
        if path is None:
            point.metadata = {"policy_decision_point": "https://elsewhere.example"}
            printed = explaining.explain(GOOD["ios"], "--json", "--ask", route="authzen", status=1)
            assert "metadata" in printed["decision_point"]["answer"]["error"]
    finally:
        conf["decision_points"]["authzen"] = before
        explaining.gateway.write_conf()
        point.stop()


# Wrong usage

@pytest.mark.parametrize("arguments, message", [
    (["--device", "1", "--posture", "-"], "give either --device or --posture"), (["--posture", "/nonexistent"], "/nonexistent"), (["--device", "no-device"], "no-device"), (["--unknown"], "--unknown")])
def test_wrong_arguments_are_explained(explain, arguments, message):
    assert message in explain(None, *arguments, status=2)


@pytest.mark.parametrize("route, message", [
    ("no-such-route", "there is no route no-such-route"), ("sentinel", "the route sentinel has no policy")])
def test_a_route_without_a_policy_is_reported(explain, route, message):
    assert message in explain(GOOD["ios"], route=route, status=2)


@pytest.mark.parametrize("posture, message", [
    ("{", ""), ("[]", ""), ({}, "`platform` is missing"), ({"platform": "windows"}, "`platform` is not one of: ios, "),
    ({"platform": "ios", "os_verison": "17.4"}, "\"os_verison\" is no fact of a posture"),
    ({"platform": "ios", "os_version": 17.4}, "`os_version` is not as"), ({"platform": "ios", "risk": "5"}, "`risk` is not a number"),
    ({"platform": "ios", "risk": -1}, "`risk` is not a number"),
    ({"platform": "android", "boot": "fine"}, "`boot` is not one of: "),
    ({"platform": "android", "bootloader_locked": "yes"}, "`bootloader_locked` is not true or false"),
    ({"platform": "android", "patch_level": "2026-1"}, "`patch_level` is not as"),
    ({"platform": "android", "play_integrity": "MEETS_DEVICE_INTEGRITY"}, "`play_integrity` is not a list of texts"),
    ({"platform": "ios", "attested_at": "yesterday"}, "`attested_at` is not as"), pytest.param("{" + " " * 70_000 + "}", "", id="long")])
def test_a_text_that_is_no_posture_is_refused_with_the_reason(explain, posture, message):
    assert message in explain(posture, status=2)


def test_a_device_that_does_not_exist_is_reported(explaining):
    done = attestgate(
        "policy", "explain", "--config", explaining.gateway.conf_path, "--route", "device-all", "--device", "999999")
    assert done.returncode != 0 and done.stdout == "" and "no such device" in done.stderr
