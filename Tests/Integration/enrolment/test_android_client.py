"""The trust client for Android enrols and is served: clients/android, on the JVM with a software phone."""

import base64
import json
import subprocess
from collections import Counter

import pytest
from cryptography.hazmat.primitives import serialization

from support.enrolling_phone import MTLSKey
from support.enrolment import Enrolling, admission_token
from support.paths import PATIENCE
from support.platforms import ANDROID_APP
from support.play_integrity import Console
from support.waiting import eventually

PACKAGE = ANDROID_APP.removeprefix("android:")
SIGNING_CERTIFICATE = "a5" * 32
PROGRAM = "org.attestgate.trustclient.PhoneProgram"
SERVED = {"url": "200", "okhttp": "200 h2"}


class Phone:
    """A software phone of the client's, and where it goes."""

    def __init__(self, java, enrolling, directory):
        self.java, self.directory = java, directory
        self.address = [
            PACKAGE, enrolling.provider, enrolling.pki.server_ca, f"https://localhost:{enrolling.gateway.port}"]

    def enrol(self, *options, command="enrol"):
        """- Returns: "enrolled" and the key, or the failure; then the result of a request, if the phone is enrolled."""
        return self.java.run(PROGRAM, self.directory, command, *self.address, *options).strip()

    def devices(self, command, *options, instance="-"):
        """- Returns: what the listener for enrolled devices answers, or the failure."""
        return self.java.run(PROGRAM, self.directory, command, *self.address, instance, *options).strip()

    def arguments(self, stack, count, threads=16, method="GET"):
        return [self.directory, "requests", *self.address, stack, count, threads, method, "/records"]

    def requests(self, *arguments, **options):
        """- Returns: how often each result came."""
        printed = self.java.run(PROGRAM, *self.arguments(*arguments, **options)).strip()
        pairs = [pair.rpartition("=") for pair in printed.strip("{}").split(", ")]
        return {result: int(count) for result, _, count in pairs}


@pytest.fixture
def start(java, tmp_path, pki, upstream):
    """Starts gateways that enrol the phones of one software KeyMint."""
    started = []
    java.run(PROGRAM, tmp_path / "phone", "root", PACKAGE)

    def start(enrolment=None, devices=False, **app):
        made = Enrolling(
            tmp_path / "gateway", pki, upstream, enrolment, devices=devices,
            app={"id": ANDROID_APP, "attestation_root": str(tmp_path / "keymint" / "root.pem"),
                 "signing_certificates": [SIGNING_CERTIFICATE], "counter": "window 256", **app})
        started.append(made)
        made.start()
        return made
    yield start
    for made in started:
        made.stop()


@pytest.fixture
def phone_of(java, tmp_path):
    def phone_of(enrolling, name="phone"):
        return Phone(java, enrolling, tmp_path / name)
    return phone_of


def is_served(printed):
    return printed.startswith("enrolled ") and printed.endswith(" 200")


def counters(requests):
    return [int(value) for request in requests for value in request.values("attest-counter")]


@pytest.mark.parametrize("stack", ["url", "okhttp"])
def test_two_hundred_requests_in_parallel_are_served(start, phone_of, upstream, stack):
    phone = phone_of(start())
    before = len(upstream.requests)
    assert is_served(phone.enrol())
    assert phone.requests(stack, 200, 64) == {SERVED[stack]: 200}
    assert phone.requests(stack, 20, method="POST") == {SERVED[stack]: 20}
    spent = counters(upstream.requests[before:])
    # The first was spent by the key binding.
    assert sorted(spent) == list(range(2, 223))


def test_a_killed_app_loses_no_counter_and_uses_none_twice(start, phone_of, upstream):
    phone = phone_of(start())
    begin = len(upstream.requests)
    phone.enrol()
    for number in range(3):
        before = len(upstream.requests)
        process = subprocess.Popen(
            phone.java.command(PROGRAM, *phone.arguments("okhttp", 200, 64)), stdout=subprocess.DEVNULL)
        eventually(lambda: len(upstream.requests) - before > 20 * (number + 1), "requests")
        process.kill()
        process.wait()
    assert phone.requests("okhttp", 200, 64) == {"200 h2": 200}
    assert phone.requests("url", 20) == {"200": 20}
    spent = Counter(counters(upstream.requests[begin:]))
    assert [counter for counter, times in spent.items() if times > 1] == []


@pytest.mark.parametrize("options", [
    ["form=NONCE"], ["form=DSR"], ["attested"], ["form=DSR", "attested"]], ids="-".join)
def test_it_enrols_renews_and_rotates_in_every_form(start, phone_of, options):
    form = next((option.removeprefix("form=") for option in options if option.startswith("form=")), "NONCE_AND_TAG")
    phone = phone_of(start(
        client_data=form.lower().replace("_", "-"), certificate_key="attested" if "attested" in options else "any"))
    first = phone.enrol(*options)
    assert is_served(first)
    for command in ["enrol", "rotate", "enrol"]:
        # The hardware key stays.
        assert phone.enrol(*options, command=command) == first


def test_an_enrolment_continues_after_any_lost_answer(start, phone_of):
    enrolling = start()
    for number in range(1, 5):
        phone = phone_of(enrolling, f"phone-{number}")
        assert phone.enrol(f"lose={number}") == "the answer is lost"
        # A clock that is wrong does not matter.
        assert is_served(phone.enrol("skew=-86400"))
    # None was initialized twice.
    assert len(enrolling.devices()) == 4


def test_a_phone_that_has_lost_its_counter_gets_a_new_key(start, phone_of):
    enrolling = start()
    phone = phone_of(enrolling)
    # The certificate's key is bound, which the phone does not know.
    assert phone.enrol("lose=4") == "the answer is lost"
    keys = set()
    for number in range(2):
        for file in (phone.directory / "client").glob("*.counter"):
            file.unlink()
        printed = phone.enrol()
        assert is_served(printed)
        keys.add(printed)
        assert len(enrolling.devices()) == number + 2
        # What was replaced is deleted, but not what a request in progress may use.
        assert len(list((phone.directory / "client").glob("*.counter"))) == 1
    assert len(keys) == 2


def test_a_phone_waits_until_an_operator_has_approved_it(start, phone_of):
    enrolling = start({"admission": "approval"})
    phone = phone_of(enrolling)
    assert phone.enrol().endswith("(AWAIT_APPROVAL)")
    enrolling.gateway.device_command("approve", str(enrolling.devices()[0]["device"]))
    assert is_served(phone.enrol())


def test_the_app_gets_an_admission_token_for_the_key_that_it_makes(start, phone_of, tmp_path):
    issuer = MTLSKey()
    (tmp_path / "issuer.pem").write_bytes(issuer.private.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo))
    enrolling = start(
        {"admission": "token", "token": {"issuer": "https://login.example", "keys": [str(tmp_path / "issuer.pem")]}},
        certificate_key="attested")
    phone = phone_of(enrolling)
    assert phone.enrol("attested").endswith("(GIVE_UP)")
    process = subprocess.Popen(
        phone.java.command(PROGRAM, phone.directory, "enrol", *phone.address, "attested", "admission"),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    thumbprint = process.stdout.readline().strip()
    token = admission_token(issuer, issuer, enrolling.provider, cnf={"jkt": thumbprint})
    assert is_served(process.communicate(token + "\n", PATIENCE)[0].strip())
    # Only the first binding needs one.
    assert is_served(phone.enrol("attested"))


def integrity_tokens(phone, console, *options):
    """Enrols, and answers each request for a token of Google Play. - Returns: the number of tokens, and the result."""
    process = subprocess.Popen(
        phone.java.command(PROGRAM, phone.directory, "enrol", *phone.address, *options),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    count = 0
    with process:
        for line in process.stdout:
            if " " in line:
                return count, line.strip()
            process.stdin.write(console.fresh(base64.urlsafe_b64decode(line.strip() + "=")) + "\n")
            process.stdin.flush()
            count += 1


@pytest.mark.parametrize("options", [[], ["form=DSR"], ["attested"]], ids="-".join)
def test_an_enrolled_phone_renews_and_is_attested_over_mutual_tls_and_revokes_itself(start, phone_of, options):
    form = "dsr" if options == ["form=DSR"] else "nonce-and-tag"
    enrolling = start(
        {"certificate_life": "1d"}, devices=True, client_data=form,
        certificate_key="attested" if "attested" in options else "any")
    phone = phone_of(enrolling)
    # The first key is bound without a certificate.
    options = [*options, f"devices=https://localhost:{enrolling.devices_port}"]
    first = phone.enrol(*options)
    assert is_served(first)
    refusal = phone.enrol(*options[:-1], command="rotate")
    assert "Here: renew at the listener for enrolled devices" in refusal
    # The first completes what was refused.
    for command in ["enrol", "rotate", "enrol"]:
        assert phone.enrol(*options, command=command) == first
    log = enrolling.gateway.error_path.read_text()
    assert log.count("key-binding decision=granted what=rotation") == (3 if "attested" in options else 2)

    answer, _, token = phone.devices("attest", *options).rpartition(" ")
    assert json.loads(answer)["posture"]["platform"] == "android" and token == "null"
    identifier, status, current = phone.devices("instances", *options).split()
    assert (status, current) == ("ACTIVE", "current")
    # The posture and its key leave nothing.
    assert is_served(phone.enrol(*options))
    assert phone.devices("revoke", *options, instance="A" * 43).startswith("REFUSED 404 not_found")
    assert phone.devices("revoke", *options, instance=identifier) == "revoked"
    assert phone.devices("instances", *options).startswith("true ")
    log = enrolling.gateway.error_path.read_text()
    for what in ["attested", "listed", "revoked"]:
        assert f"decision=granted what={what}" in log


@pytest.mark.parametrize("form", ["NONCE_AND_TAG", "NONCE", "DSR"])
def test_a_phone_shows_what_google_play_says_of_it(start, phone_of, tmp_path, form):
    console = Console(tmp_path / "console")
    keys = {"decryption_key": str(console.decryption), "verification_key": str(console.verification)}
    enrolling = start(play_integrity=keys, client_data=form.lower().replace("_", "-"))
    phone = phone_of(enrolling)
    # An app that has none learns what is missing.
    refusal = phone.enrol(f"form={form}")
    assert "play_integrity_token is missing" in refusal and refusal.endswith("(GIVE_UP)")
    count, printed = integrity_tokens(phone, console, f"form={form}", "integrity")
    assert (count, is_served(printed)) == (1, True), printed
    # A renewal needs none.
    assert phone.enrol(f"form={form}") == printed
    enrolling.gateway.conf["apps"][0]["play_integrity"]["each_binding"] = "true"
    enrolling.change()
    refusal = phone.enrol(f"form={form}", "integrity")
    assert "play_integrity_token is missing" in refusal and refusal.endswith("(GIVE_UP) 200")
    assert integrity_tokens(phone, console, f"form={form}", "integrity=each") == (1, printed)
    assert integrity_tokens(phone_of(enrolling, "other"), console, f"form={form}", "integrity=each")[0] == 2


def test_a_revoked_phone_stops(start, phone_of):
    enrolling = start()
    phone = phone_of(enrolling)
    phone.enrol()
    enrolling.gateway.device_command("revoke", str(enrolling.devices()[0]["device"]))
    answers = phone.requests("url", 2)
    assert all("certificate_revoked" in answer or "device_revoked" in answer for answer in answers), answers
    refusal = phone.enrol()
    assert refusal.startswith("REFUSED 403 invalid_request") and "(GIVE_UP)" in refusal


@pytest.mark.parametrize("demand, error, advice, option", [
    ({"minimum_patch_level": "2026-11"}, "os_outdated", "UPDATE_SYSTEM", "patch=202611"),
    ({"minimum_version_code": 2}, "integrity_check_error", "UPDATE", "version=2")], ids=["system", "app"])
def test_an_outdated_phone_is_served_until_it_enrols_and_readmitted_after_its_update(
        start, phone_of, demand, error, advice, option):
    enrolling = start()
    phone = phone_of(enrolling)
    first = phone.enrol()
    enrolling.gateway.conf["apps"][0].update(demand)
    enrolling.change()
    other = phone_of(enrolling, "other")
    for _ in range(2):
        refusal = phone.enrol()
        assert refusal.startswith(f"REFUSED 403 {error}") and refusal.endswith(f"({advice}) 200")
        assert other.enrol().endswith(f"({advice})")
    # At once, although the nonce of the refused attestation is still valid.
    assert is_served(other.enrol(option))
    updated = phone.enrol(option)
    assert is_served(updated) and updated != first


def test_an_empty_body_of_http2_is_served(start, phone_of):
    phone = phone_of(start())
    phone.enrol()
    assert phone.requests("okhttp", 1, method="EMPTY") == {"200 h2": 1}


def test_a_refused_attestation_names_its_remedy(start, phone_of):
    refusal = phone_of(start(signing_certificates=["00" * 32])).enrol()
    assert refusal.startswith("REFUSED 403 in") and refusal.endswith(")")
