"""`attestgate verify play-integrity`: tokens that jwcrypto has made get their verdict, and each broken one its step."""

import base64
import json
import subprocess
import time

import pytest
from jwcrypto import jwk
from jwcrypto.common import base64url_encode

from support.enrolling_phone import MTLSKey, error_of, sha256
from support.enrolment import Enrolling
from support.paths import BINARY, ENVIRONMENT
from support.pki import attestgate
from support.play_integrity import NONCE, NOW, PACKAGE, Console, payload
from support.waiting import eventually


@pytest.fixture(scope="module")
def console(tmp_path_factory):
    return Console(tmp_path_factory.mktemp("console"))


def test_tokens_of_another_implementation_are_accepted(console):
    code, verdict = console.verify(console.token(), "--device", "MEETS_DEVICE_INTEGRITY")
    assert code == 0 and verdict["accepted"] is True
    assert all(step["ok"] is not False for step in verdict["steps"])
    assert verdict["payload"]["requestDetails"]["requestPackageName"] == PACKAGE
    assert verdict["payload"]["deviceIntegrity"]["deviceRecognitionVerdict"][-1] == "MEETS_DEVICE_INTEGRITY"
    assert verdict["payload"]["appIntegrity"]["versionCode"] == "1042"
    # Google writes the nonce with padding in one kind of request, and a hash without in the other.
    content = payload()
    content["requestDetails"]["requestHash"] = content["requestDetails"].pop("nonce").rstrip("=")
    assert console.verify(console.token(content))[0] == 0
    code, text = console.verify(console.token(), json_output=False)
    assert code == 0 and text.startswith("integrity token: accepted")


def change(section, name, value):
    def changed(console):
        content = payload()
        if name is None:
            del content[section]
        elif value is None:
            del content[section][name]
        else:
            content[section][name] = value
        return console.token(content)
    return changed


def doubled(console):
    text = json.dumps(payload())
    return console.encrypt(console.sign(text.replace('"timestampMillis"', '"nonce": "AA", "timestampMillis"').encode()))


def nested(console):
    return console.encrypt(console.token())


def parts(change):
    def changed(console):
        token = console.token().split(".")
        change(token)
        return ".".join(token)
    return changed


def header(**members):
    """The header replaced, with the rest as it was."""
    def changed(token):
        token[0] = base64url_encode(json.dumps({"alg": "A256KW", "enc": "A256GCM", **members}))
    return parts(changed)


def cut(position, length):
    def changed(token):
        token[position] = token[position][:length]
    return parts(changed)


def flip(position):
    def changed(token):
        bytes_ = bytearray(base64.urlsafe_b64decode(token[position] + "=" * (-len(token[position]) % 4)))
        bytes_[0] ^= 1
        token[position] = base64url_encode(bytes(bytes_))
    return parts(changed)


def rsa(console):
    return console.encrypt(
        console.sign(payload()), {"alg": "RSA1_5", "enc": "A256GCM"}, jwk.JWK.generate(kty="RSA", size=2048))


def direct(console):
    return console.encrypt(console.sign(payload()), {"alg": "dir", "enc": "A256GCM"})


def compressed(console):
    return console.encrypt(console.sign(payload()), {"alg": "A256KW", "enc": "A256GCM", "zip": "DEF"})


def symmetric(console):
    key = jwk.JWK(kty="oct", k=console.secret.k)
    return console.encrypt(console.sign(payload(), {"alg": "HS256"}, key))


def unsigned(console):
    header, content = (base64url_encode(json.dumps(part)) for part in ({"alg": "none"}, payload()))
    return console.encrypt(f"{header}.{content}.")


BROKEN = {
    "no token": (lambda console: "x", "form"),
    "an empty token": (lambda console: "", "form"),
    "four parts": (parts(lambda token: token.pop()), "form"),
    "six parts": (parts(lambda token: token.append("AA")), "form"),
    "alg none": (header(alg="none"), "form"),
    "alg RSA1_5": (rsa, "form"),
    "alg dir": (direct, "form"),
    "enc A128GCM": (header(enc="A128GCM"), "form"),
    "zip": (compressed, "form"),
    "crit": (header(crit=["exp"]), "form"),
    "a short key": (cut(1, 20), "form"),
    "a short vector": (cut(2, 8), "form"),
    "a short tag": (cut(4, 8), "form"),
    "an altered header": (header(typ="x"), "decryption"),
    "an altered key": (flip(1), "decryption"),
    "altered content": (flip(3), "decryption"),
    "an altered tag": (flip(4), "decryption"),
    "a token inside a token": (nested, "signature"),
    "an inner alg none": (unsigned, "signature"),
    "an inner alg HS256": (symmetric, "signature"),
    "a doubled member": (doubled, "signature"),
    "no request details": (change("requestDetails", None, None), "payload"),
    "a time as a number": (change("requestDetails", "timestampMillis", NOW * 1000), "payload"),
    "a time with a sign": (change("requestDetails", "timestampMillis", f"+{NOW * 1000}"), "payload"),
    "a version as a number": (change("appIntegrity", "versionCode", 1042), "payload"),
    "verdicts as a text": (change("deviceIntegrity", "deviceRecognitionVerdict", "MEETS_DEVICE_INTEGRITY"), "payload"),
    "two nonces": (change("requestDetails", "requestHash", "AA"), "payload"),
    "another package": (change("requestDetails", "requestPackageName", "org.example.other"), "package"),
    "an app of another package": (change("appIntegrity", "packageName", "org.example.other"), "package"),
    "another nonce": (change("requestDetails", "nonce", base64url_encode(bytes(32))), "nonce"),
    "a future time": (change("requestDetails", "timestampMillis", str((NOW + 61) * 1000)), "age"),
    "an old time": (change("requestDetails", "timestampMillis", str((NOW - 601) * 1000)), "age"),
    "an enormous time": (change("requestDetails", "timestampMillis", str(2**63 - 1)), "age"),
    "an app that Play does not know": (change("appIntegrity", "appRecognitionVerdict", "UNRECOGNIZED_VERSION"), "recognition"),
    "an app that was not evaluated": (change("appIntegrity", "appRecognitionVerdict", None), "recognition"),
    "a phone without the verdict": (change("deviceIntegrity", "deviceRecognitionVerdict", ["MEETS_BASIC_INTEGRITY"]), "device"),
    "a phone without verdicts": (change("deviceIntegrity", "deviceRecognitionVerdict", None), "device"),
    "a phone that was not evaluated": (change("deviceIntegrity", None, None), "device"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_token_is_refused_at_its_step(console, name):
    make, step = BROKEN[name]
    code, verdict = console.verify(make(console), "--device", "MEETS_DEVICE_INTEGRITY")
    assert code == 1 and verdict["accepted"] is False
    assert [each["step"] for each in verdict["steps"] if each["ok"] is False][0] == step


def test_wrong_keys_are_told_from_a_wrong_token(console, tmp_path):
    other = Console(tmp_path / "other")
    mixed = Console(tmp_path / "mixed")
    mixed.decryption.write_bytes(console.decryption.read_bytes())
    code, verdict = console.verify(console.token(), console=other)
    assert code == 1 and "decryption_key" in str(verdict["steps"])
    assert "Play Console" in str(verdict["likely_causes"])
    code, verdict = console.verify(console.token(), console=mixed)
    assert code == 1 and "verification_key" in str(verdict["steps"])
    code, verdict = console.verify(flip(3)(console))
    assert code == 1 and verdict["likely_causes"] == []


def test_unreadable_keys_are_wrong_usage(console, tmp_path):
    bad = tmp_path / "bad"
    bad.write_text("AAAA")
    for options in (
            ["--decryption-key", bad, "--verification-key", console.verification],
            ["--decryption-key", console.decryption, "--verification-key", bad],
            ["--decryption-key", tmp_path / "none", "--verification-key", console.verification],
            ["--decryption-key", console.decryption, "--verification-key", console.verification, "--app-id", PACKAGE]):
        result = subprocess.run(
            [BINARY, "verify", "play-integrity", *map(str, options), "-"], input=b"x", capture_output=True, env=ENVIRONMENT,
            timeout=60)
        assert result.returncode == 2, result.stderr


# A gateway that demands tokens.


@pytest.fixture(scope="module")
def enrolling(pki, shared_upstream, tmp_path_factory, console):
    demanded = {
        "decryption_key": str(console.decryption), "verification_key": str(console.verification),
        "device": "MEETS_DEVICE_INTEGRITY", "each_binding": "true"}
    made = Enrolling(
        tmp_path_factory.mktemp("playing"), pki, shared_upstream, app={"play_integrity": demanded},
        platforms=["android"]).start()
    yield made
    made.stop()


def asked(console, phone, nonce, **change):
    """A token that the phone requests for a nonce of ours."""
    return console.fresh(sha256(nonce.encode(), phone.tag.encode()), **change)


def initialize(phone, token, nonce):
    return phone.initialize(nonce=nonce, **({"play_integrity_token": token} if token else {}))


def bind(phone, mtls, token, nonce):
    return phone.bind(mtls, nonce=nonce, claims={"play_integrity_token": token} if token else {})


def test_a_phone_shows_a_token_at_initialization_and_at_each_binding(enrolling, console):
    phone, mtls = enrolling.phone(), MTLSKey()
    nonce = phone.service.nonce()
    assert error_of(initialize(phone, None, nonce)) == (400, "bad_request")
    assert error_of(initialize(phone, asked(console, phone, phone.service.nonce()), nonce)) == (403, "invalid_request")
    eventually(lambda: "step=nonce" in enrolling.gateway.error_path.read_text(), "step=nonce")
    weak = asked(console, phone, nonce, deviceIntegrity={"deviceRecognitionVerdict": ["MEETS_BASIC_INTEGRITY"]})
    assert error_of(initialize(phone, weak, nonce)) == (403, "integrity_check_error")
    assert initialize(phone, asked(console, phone, nonce), nonce).status == 204
    nonce = phone.service.nonce()
    assert error_of(bind(phone, mtls, None, nonce)) == (400, "bad_request")
    strong = {"deviceRecognitionVerdict": ["MEETS_DEVICE_INTEGRITY", "MEETS_STRONG_INTEGRITY"]}
    assert bind(phone, mtls, asked(console, phone, nonce, deviceIntegrity=strong), nonce).status == 200
    shown = json.loads(enrolling.gateway.device_command("show", "--json", phone.key.key_id.hex()))["phone"]
    assert shown["integrity"] == strong["deviceRecognitionVerdict"]
    assert shown["integrity_at"] is not None


def test_a_demand_that_was_raised_later_holds_at_the_next_binding(pki, shared_upstream, tmp_path, console):
    demanded = {"decryption_key": str(console.decryption), "verification_key": str(console.verification)}
    raising = Enrolling(tmp_path, pki, shared_upstream, app={"play_integrity": demanded}, platforms=["android"]).start()

    def raise_to(**more):
        app, = (app for app in raising.gateway.conf["apps"] if app["id"].startswith("android:"))
        app["play_integrity"] = {**demanded, **more}
        raising.gateway.write_conf()
        assert attestgate("reload", "--config", raising.gateway.conf_path).returncode == 0
    try:
        phone = raising.phone()
        nonce = phone.service.nonce()
        assert initialize(phone, asked(console, phone, nonce), nonce).status == 204
        assert bind(phone, MTLSKey(), None, phone.service.nonce()).status == 200
        raise_to(device="MEETS_STRONG_INTEGRITY")
        assert error_of(bind(phone, MTLSKey(), None, phone.service.nonce())) == (400, "bad_request")
        nonce = phone.service.nonce()
        assert error_of(bind(phone, MTLSKey(), asked(console, phone, nonce), nonce)) == (403, "integrity_check_error")
        nonce = phone.service.nonce()
        strong = asked(console, phone, nonce, deviceIntegrity={"deviceRecognitionVerdict": ["MEETS_STRONG_INTEGRITY"]})
        assert bind(phone, MTLSKey(), strong, nonce).status == 200
        # Its verdict is known now.
        assert bind(phone, MTLSKey(), None, phone.service.nonce()).status == 200
    finally:
        raising.stop()


def test_a_token_that_nobody_demands_is_refused(pki, shared_upstream, tmp_path, console):
    plain = Enrolling(tmp_path, pki, shared_upstream, platforms=["android"]).start()
    try:
        phone = plain.phone()
        nonce = phone.service.nonce()
        assert error_of(initialize(phone, asked(console, phone, nonce), nonce)) == (400, "bad_request")
    finally:
        plain.stop()


def test_keys_that_do_not_fit_are_told_from_tokens_that_do_not(enrolling, console, tmp_path):
    other = Console(tmp_path / "other")
    phone = enrolling.phone()
    nonce = phone.service.nonce()
    assert error_of(initialize(phone, asked(other, phone, nonce), nonce)) == (403, "invalid_request")
    said = "step=decryption: decryption_key does not unwrap"
    eventually(lambda: said in enrolling.gateway.error_path.read_text(), said)
    # Who has the app's key has encrypted this, so the other key in the conf file is wrong.
    mixed = Console(tmp_path / "mixed")
    mixed.secret = console.secret
    assert error_of(initialize(phone, asked(mixed, phone, nonce), nonce)) == (500, "server_error")
    eventually(lambda: "verification_key has not signed" in enrolling.gateway.error_path.read_text(), "verification_key has not signed")
