"""A software phone from nothing to its end, by the built programs alone: attestgate, attestgate-device, a recording service."""

import json
import re
import shutil
import subprocess

import pytest

from support.paths import PATIENCE, REPOSITORY
from support.pki import attestgate
from support.platforms import PLATFORMS, only
from support.software_phone import EnrollingGateway as Enrolling, run

LATER = 75


@pytest.fixture(params=PLATFORMS)
def platform(request):
    return request.param


@pytest.fixture(scope="module")
def shared(pki, shared_upstream, tmp_path_factory):
    made = Enrolling(tmp_path_factory.mktemp("enrolling"), pki, shared_upstream)
    yield made
    made.stop()


@pytest.fixture
def enrolling(shared, platform):
    with shared.phones_of(platform):
        yield shared


def test_a_phone_enrols_requests_rotates_and_is_refused_after_revocation(enrolling):
    phone = enrolling.phone("whole-life")
    assert phone.enrol().stdout.splitlines()[-1].startswith("bound: ")
    assert phone.request("-d", "a=b") == (200, None)
    first = (phone.directory / "certificate.pem").read_bytes()
    assert phone.request("--http2", "-d", "c=d") == (200, None)
    shutil.copytree(phone.directory, before := enrolling.directory / f"{enrolling.platform}-before-rotation")
    phone.enrol("--rotate")
    assert (phone.directory / "certificate.pem").read_bytes() != first
    assert phone.request() == (200, None)
    # The old key is good for a while.
    old = enrolling.phone("before-rotation")
    (before / "counter").write_bytes((phone.directory / "counter").read_bytes())
    assert old.request() == (200, None)
    enrolling.gateway.device_command("revoke", str(phone.number))
    assert "certificate revoked" in phone.request_in_vain()
    assert "403 invalid_request" in phone.enrol(status=1).stderr, "nor is its certificate renewed"
    assert "403 invalid_request" in phone.enrol("--rotate", status=1).stderr


@only("ios")
@pytest.mark.parametrize("form", ["ios-14", "ios-18-code-hash", "ios-27", "ios-27-code-hash"])
def test_phones_of_every_ios_enrol_and_are_served(enrolling, form):
    phone = enrolling.phone(f"phone-{form}")
    phone.enrol("--form", form)
    assert phone.request("--form", form) == (200, None)


@only("ios")
@pytest.mark.parametrize("newer", ["ios-27", "ios-27-code-hash"])
def test_a_phone_that_enrolled_with_extensions_is_refused_without_them(enrolling, newer):
    phone = enrolling.phone(f"downgraded-{newer}")
    phone.enrol("--form", newer)
    assert phone.request("--form", "ios-14") == (403, "app_refused")
    assert "403 integrity_check_error" in phone.enrol("--rotate", "--form", "ios-14", status=1).stderr
    assert phone.request("--form", newer) == (200, None)
    # Opting in to code hashes, and out again, is an app's own affair.
    assert phone.request("--form", "ios-27") == (200, None)


@only("ios")
def test_an_iphone_shows_the_app_of_its_newest_attestation_or_assertion(enrolling):
    phone = enrolling.phone("posture")
    phone.enrol("--form", "ios-27")
    shown = phone.shown
    bound = shown["bindings"][0]["created_at"]
    posture = {
        "platform": "ios", "environment": shown["environment"], "os_version": "27.0", "app_version": "1",
        "distribution": "app-store", "key_protection": "secure-enclave", "admission": "open",
        "enrolled_at": shown["registered_at"], "attested_at": shown["registered_at"], "bound_at": bound}
    risk = {} if shown["receipt"] is None else {"risk": shown["receipt"]["risk_metric"]}
    assert shown["posture"] == posture | {name: value for name, value in risk.items() if value is not None}
    older = enrolling.phone("posture-ios-14")
    older.enrol("--form", "ios-14")
    assert not {"os_version", "app_version", "distribution"} & set(older.shown["posture"])
    # Its system is updated, and with it what it shows.
    older.enrol("--rotate", "--form", "ios-27")
    posture = older.shown["posture"]
    assert (posture["app_version"], posture["distribution"]) == ("1", "app-store")
    assert posture["bound_at"] == older.shown["bindings"][-1]["created_at"]
    text = older.printed()
    for row in ["app version +1", "distribution +app-store", "key protection +secure-enclave", "admission +open"]:
        assert re.search(f"^{row}$", text, re.MULTILINE), text


@only("ios")
def test_a_phone_whose_system_is_updated_must_keep_showing_its_extensions(enrolling):
    phone = enrolling.phone("updated")
    phone.enrol("--form", "ios-14")
    assert phone.request("--form", "ios-14") == (200, None)
    phone.enrol("--rotate", "--form", "ios-27")
    assert phone.request("--form", "ios-14") == (403, "app_refused")
    assert phone.request("--form", "ios-27") == (200, None)


@only("ios")
def test_a_mac_does_not_enrol_where_phones_are_admitted(enrolling):
    assert "403 integrity_check_error" in enrolling.phone("mac").enrol("--form", "macos-27", status=1).stderr


def test_an_app_that_is_not_admitted_does_not_enrol(enrolling):
    phone = enrolling.phone("stranger")
    other = ("--rp-id", "TEAMID1234.org.example.stranger")
    if enrolling.platform == "android":
        phone.app, other = "android:org.example.stranger", ()
    assert "403 invalid_request" in phone.enrol(*other, status=1).stderr


def rows(platform):
    """What docs/device-tool.md says of --alter: each word with what it is refused as. Android phones have a table of their own too."""
    page = (REPOSITORY / "docs" / "device-tool.md").read_text()
    tables = page.split("| `WHAT`")[1:]
    for table in tables if platform == "android" else tables[:1]:
        for line in table.split("\n\n")[0].splitlines()[2:]:
            words, *_, refusal = line.strip("| ").split(" | ")
            for word in re.findall("`(.*?)`", words):
                yield word, refusal.replace("`", "")


@pytest.mark.parametrize(
    "platform, what, refusal", [(platform, *row) for platform in PLATFORMS for row in rows(platform)], indirect=["platform"])
def test_every_alteration_is_refused_as_documented(enrolling, what, refusal):
    phone = enrolling.phone(f"altered-{what}")
    if what == "counter-replayed":
        phone.enrol()
    assert f"was refused: {refusal}" in phone.enrol("--alter", what, status=1).stderr
    phone.enrol()
    assert phone.request() == (200, None), "and nothing of it is left"


def test_the_page_lists_every_alteration():
    listed = re.search(r"--alter.*?\(values: (.*?)\)", " ".join(run("enrol", "--help").stdout.split()))[1]
    assert {word for word, _ in rows("android")} == set(listed.split(", "))


@pytest.mark.parametrize("form", ["nonce", "dsr"])
def test_a_form_of_client_data_is_accepted_for_the_app_configured_for_it(pki, shared_upstream, tmp_path, platform, form):
    service = Enrolling(tmp_path, pki, shared_upstream, platforms=[platform], app={"client_data": form})
    try:
        phone = service.phone("phone")
        assert "refused" not in phone.enrol("--client-data", form).stderr
        assert phone.request() == (200, None)
        phone.enrol("--client-data", form, "--rotate")
        assert phone.request() == (200, None)
        service.phone("other").enrol(status=1)
    finally:
        service.stop()


def test_a_phone_waits_until_an_operator_has_approved_it(pki, shared_upstream, tmp_path, platform):
    service = Enrolling(tmp_path, pki, shared_upstream, platforms=[platform], admission="approval")
    try:
        phone = service.phone("phone")
        assert "an operator must approve the device" in phone.enrol(status=LATER).stderr
        assert "an operator must approve the device" in phone.enrol(status=LATER).stderr
        service.gateway.device_command("approve", str(phone.number))
        phone.enrol()
        assert phone.request() == (200, None)
        phone.enrol("--rotate")
        assert phone.request() == (200, None), "once is enough"
    finally:
        service.stop()


@only("ios")
def test_an_enrolled_phone_that_is_revoked_stands_on_the_revocation_list(enrolling):
    phone, other = enrolling.phone("listed"), enrolling.phone("not-listed")
    out = enrolling.directory / "gms.crl"
    phone.enrol()
    other.enrol()

    def verdicts():
        done = attestgate("pki", "crl", "--config", enrolling.gateway.conf_path, "--out", out)
        assert done.returncode == 0, done.stderr
        return [subprocess.run(
            ["openssl", "verify", "-x509_strict", "-partial_chain", "-crl_check", "-CRLfile", out, "-trusted",
             enrolling.pki.gms.certificate, each.directory / "certificate.pem"],
            capture_output=True, text=True, timeout=PATIENCE) for each in (phone, other)]

    assert [done.returncode for done in verdicts()] == [0, 0]
    enrolling.gateway.device_command("revoke", str(phone.number))
    revoked, good = verdicts()
    assert revoked.returncode == 2 and "certificate revoked" in revoked.stderr, revoked
    assert good.returncode == 0, good.stderr


@pytest.fixture(scope="module")
def over_mtls(pki, shared_upstream, tmp_path_factory):
    made = Enrolling(tmp_path_factory.mktemp("over-mtls"), pki, shared_upstream, devices=True)
    yield made
    made.stop()


def test_a_phone_renews_over_mutual_tls_is_attested_again_and_revokes_itself(over_mtls, platform):
    with over_mtls.phones_of(platform):
        phone = over_mtls.phone("over-mtls")
        phone.enrol()
        first = (phone.directory / "certificate.pem").read_bytes()
        assert "403 invalid_request" in phone.enrol("--rotate", status=1).stderr
        assert f"POST {phone.devices[1]}/key-binding: 200" in phone.renew("--rotate").stdout
        assert (phone.directory / "certificate.pem").read_bytes() != first
        assert phone.renew().stdout.splitlines()[-1].startswith("bound: ")
        assert phone.request() == (200, None)

        before = phone.shown["posture"]["attested_at"]
        authority = ("--attestation-ca", over_mtls.directory / "authority") if platform == "android" else ()
        posture = json.loads(phone.instances("attest", *authority).stdout)["posture"]
        assert posture["attested_at"] >= before and posture["platform"] == platform
        listed = json.loads(phone.instances("list").stdout)
        assert [entry["current"] for entry in listed] == [True]
        phone.instances("revoke", listed[0]["id"])
        phone.instances("list", status=56)
        assert "certificate revoked" in phone.request_in_vain()
