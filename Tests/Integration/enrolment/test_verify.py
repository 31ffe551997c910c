"""`attestgate verify`: genuine attestations, assertions and receipts get their verdict, and refusals their likely cause."""

import base64
import hashlib
import json
import subprocess

import pytest

from support.paths import BINARY, ENVIRONMENT, REPOSITORY
from support.pki import openssl

VECTORS = REPOSITORY.parent / "shared" / "vectors" / "apple"
STEPS = [
    "form", "rp_id", "counter", "aaguid", "extensions", "validation_category", "bundle_version", "certificates", "key_id",
    "credential_id", "cose_key", "nonce_extension", "nonce", "platform", "os_version", "ca_flags", "validity", "chain",
    "receipt"]


def vectors(name):
    path = VECTORS / f"{name}.json"
    if not path.is_file():
        reason = f"no {name}.json in shared/vectors/apple beside the project's folder"
        return [pytest.param(None, id="absent", marks=pytest.mark.skip(reason=reason))]
    return [pytest.param(vector, id=vector["id"]) for vector in json.loads(path.read_text())["vectors"]]


ATTESTATIONS, ASSERTIONS, RECEIPTS = vectors("attestations"), vectors("assertions"), vectors("receipts")
LAST = ATTESTATIONS[-1:]


def verify(*arguments, given, **options):
    return subprocess.run(
        [BINARY, "verify", *arguments], input=given, capture_output=True, env=ENVIRONMENT, timeout=60, **options)


def attestation(vector, *further, given=None, **changed):
    options = {
        "app-id": vector["app_id"], "key-id": vector["key_id"], "at": vector["verification_time"],
        "client-data-hash": vector["client_data_hash"], **{name.replace("_", "-"): value for name, value in changed.items()}}
    arguments = [part for name, value in options.items() if value is not None for part in (f"--{name}", value)]
    given = vector["attestation_object"] if given is None else given
    return verify("attestation", *arguments, *further, "-", given=given.encode() if isinstance(given, str) else given)


def assertion(vector, *further, given=None, stored=0, **changed):
    options = {
        "app-id": vector["app_id"], "public-key": vector["public_key_x963"], "client-data": vector["client_data"],
        "stored-counter": str(stored), **{name.replace("_", "-"): value for name, value in changed.items()}}
    arguments = [part for name, value in options.items() if value is not None for part in (f"--{name}", value)]
    return verify("assertion", *arguments, *further, "-", given=(given or vector["assertion"]).encode())


def receipt(vector, *further, given=None, **changed):
    spki = "".join(vector["public_key_pem"].split("\n")[1:-2])
    options = {
        "app-id": vector["app_id"], "public-key": spki, "at": vector["creation_time"],
        **{name.replace("_", "-"): value for name, value in changed.items()}}
    arguments = [part for name, value in options.items() for part in (f"--{name}", value)]
    return verify("receipt", *arguments, *further, "-", given=given or vector["receipt"].encode())


def report(done):
    """The JSON object of a verdict, whose status fits it."""
    assert done.stderr == b"", done.stderr
    found = json.loads(done.stdout)
    assert done.returncode == (0 if found["accepted"] else 1)
    assert found["accepted"] == all(step["ok"] is not False for step in found["steps"])
    return found


def refused(found):
    return [step["step"] for step in found["steps"] if step["ok"] is False]


def spoil(text):
    """Another byte in the middle of base64 text."""
    content = bytearray(base64.b64decode(text))
    content[len(content) // 2] ^= 1
    return base64.b64encode(content).decode()


# Genuine ones

@pytest.mark.parametrize("vector", ATTESTATIONS)
def test_a_genuine_attestation_is_accepted(vector):
    found = report(attestation(vector, "--environment", vector["environment"], "--json"))
    assert found["accepted"], found
    assert [step["step"] for step in found["steps"]] == STEPS
    assert found["key_id"] == vector["key_id"]
    assert found["public_key"] == vector["public_key_x963"]
    assert found["app_id"] == vector["app_id"]
    assert found["environment"] == vector["environment"]
    assert found["counter"] == 0
    assert found["os_version"] == vector["os_version"]
    extensions = vector["auth_data_extensions"] or {}
    assert found["extensions"].keys() == extensions.keys()
    assert (found["leaf_not_before"], found["leaf_not_after"]) == (vector["leaf_not_before"], vector["leaf_not_after"])


@pytest.mark.parametrize("vector", ATTESTATIONS)
def test_a_challenge_is_hashed_for_the_caller(vector):
    if vector["client_data_hash_form"] != "sha256":
        pytest.skip("its client data hash is not the SHA-256 of a challenge")
    assert report(attestation(vector, "--json", client_data_hash=None, challenge=vector["challenge"]))["accepted"]


@pytest.mark.parametrize("vector", ATTESTATIONS)
def test_raw_cbor_and_base64url_are_read(vector):
    raw = base64.b64decode(vector["attestation_object"])
    url = base64.urlsafe_b64encode(raw).decode().rstrip("=")
    key_id = base64.urlsafe_b64encode(base64.b64decode(vector["key_id"])).decode()
    lines = base64.encodebytes(raw).decode()
    for given in (raw, url, lines, f"  {vector['attestation_object']}\n"):
        assert report(attestation(vector, "--json", given=given, key_id=key_id))["accepted"]
    assert "base64url" in attestation(vector, given=url).stdout.decode()


@pytest.mark.parametrize("vector", ATTESTATIONS)
def test_an_attestation_is_accepted_while_its_leaf_is_valid_and_no_longer(vector):
    for time in (vector["leaf_not_before"], vector["leaf_not_after"]):
        assert report(attestation(vector, "--json", at=time))["accepted"]
    # All but the youngest expired long ago, and the youngest did before this was written.
    found = report(attestation(vector, "--json", at=None))
    assert refused(found) == ["validity"]
    assert "Expired leaf" in found["likely_causes"][0]
    assert refused(report(attestation(vector, "--json", at="2019-01-01T00:00:00Z"))) == ["validity"]


@pytest.mark.parametrize("vector", ASSERTIONS)
def test_a_genuine_assertion_is_accepted_and_once(vector):
    found = report(assertion(vector, "--json"))
    assert found["accepted"] and found["counter"] == vector["counter"] and found["key_id"] == vector["key_id"]
    assert report(assertion(vector, "--json", client_data=None, client_data_hash=vector["client_data_hash"]))["accepted"]
    found = report(assertion(vector, "--json", stored=vector["counter"]))
    assert refused(found) == ["counter"] and "Replayed" in found["likely_causes"][0]


@pytest.mark.parametrize("vector", RECEIPTS)
def test_a_genuine_receipt_is_accepted_until_it_expires(vector):
    found = report(receipt(vector, "--json"))
    assert found["accepted"] and found["type"] == vector["type"]
    assert found["risk_metric"] == vector["risk_metric"]
    assert report(receipt(vector, "--json", at=vector["expiration_time"]))["accepted"]
    assert refused(report(receipt(vector, "--json", at="2026-01-01T00:00:00Z"))) == ["expiration"]
    assert refused(report(receipt(vector, "--json", at="2020-01-01T00:00:00Z"))) == ["creation"]
    assert refused(report(receipt(vector, "--json", app_id="TEAM123456.com.example.app"))) == ["app_id"]


# What is likely to be wrong

def cause(done):
    found = report(done)
    assert not found["accepted"]
    return refused(found), found["likely_causes"][0]


@pytest.mark.parametrize("vector", ATTESTATIONS)
def test_an_app_id_of_another_maker_is_reported(vector):
    team, bundle = vector["team_id"], vector["bundle_id"]
    for other in (bundle, f"{team}.com.example.other", f"ZZZZZZZZZZ.{bundle}", f"{team}.{bundle.upper()}x"):
        steps, text = cause(attestation(vector, "--json", app_id=other))
        assert steps == ["rp_id"] and f"made by {vector['app_id']}" in text
    assert "team id is missing" in cause(attestation(vector, "--json", app_id=bundle))[1]


@pytest.mark.parametrize("vector", ATTESTATIONS)
def test_a_key_of_the_other_environment_is_reported(vector):
    other = {"production": "development", "development": "production"}[vector["environment"]]
    steps, text = cause(attestation(vector, "--json", "--environment", other))
    assert steps == ["aaguid"]
    assert ("Sandbox key in production" if other == "production" else "Production key") in text


@pytest.mark.parametrize("vector", ATTESTATIONS)
def test_a_challenge_hashed_differently_is_reported(vector):
    passed = base64.b64decode(vector["client_data_hash"])

    def explanation(challenge):
        encoded = base64.b64encode(challenge).decode()
        steps, text = cause(attestation(vector, "--json", client_data_hash=None, challenge=encoded))
        assert steps == ["nonce"]
        return text
    assert explanation(passed).startswith("Not hashed: the app passed the challenge itself")
    if vector["client_data_hash_form"] == "sha256":
        challenge = base64.b64decode(vector["challenge"])
        assert "of the challenge without its final line feed" in explanation(challenge + b"\n")
        assert "base64 of" in explanation(base64.b64encode(challenge))
        steps, text = cause(attestation(vector, "--json", client_data_hash=vector["challenge"]))
        assert steps == ["nonce"] and text.startswith("Hashed twice")
    # The receipt knows what was passed, if it is genuine or not.
    assert "Another challenge: the app passed" in explanation(b"something else")


@pytest.mark.parametrize("vector", ATTESTATIONS)
def test_another_keys_id_and_a_wrong_hash_of_this_key_are_reported(vector):
    steps, text = cause(attestation(vector, "--json", key_id=base64.b64encode(bytes(32)).decode()))
    assert steps == ["key_id"] and vector["key_id"] in text
    point = base64.b64decode(vector["public_key_x963"])
    spki = bytes.fromhex("3059301306072a8648ce3d020106082a8648ce3d030107034200") + point
    for what, content in [("SubjectPublicKeyInfo", spki), ("coordinates", point[1:])]:
        key_id = base64.b64encode(hashlib.sha256(content).digest()).decode()
        assert what in cause(attestation(vector, "--json", key_id=key_id))[1]


@pytest.mark.parametrize("vector", LAST)
@pytest.mark.parametrize("cut", [0, 1, 2, 3, 400, 4000])
def test_a_truncated_paste_is_reported(vector, cut):
    text = vector["attestation_object"]
    given = text[:len(text) * 3 // 4 - cut] if cut else ""
    steps, text = cause(attestation(vector, "--json", given=given))
    assert steps == ["form"] and ("Cut off" in text or text == "The input is empty.")


@pytest.mark.parametrize("vector", LAST)
def test_damaged_base64_is_repaired_and_reported(vector):
    text = vector["attestation_object"]
    mangled = {"spaces": text.replace("+", " "), "escapes": text.replace("/", "\\/"), "percent": text.replace("+", "%2B"),
               "hexadecimal": base64.b64decode(text).hex(), "quotes": f'"{text}"'}
    for kind, given in mangled.items():
        found = report(attestation(vector, "--json", given=given))
        assert found["accepted"], kind
        assert found["notes"] or kind == "quotes", kind


@pytest.mark.parametrize("vector", LAST)
def test_mixed_up_inputs_are_reported(vector):
    for other, arguments in [(ASSERTIONS[0].values[0]["assertion"], "verify assertion"),
                             (RECEIPTS[0].values[0]["receipt"], "verify receipt")]:
        steps, text = cause(attestation(vector, "--json", given=other))
        assert steps == ["form"] and arguments in text
    made = ASSERTIONS[0].values[0]
    steps, text = cause(assertion(made, "--json", given=vector["attestation_object"]))
    assert steps == ["form"] and "verify attestation" in text
    steps, text = cause(receipt(RECEIPTS[0].values[0], "--json", given=vector["attestation_object"].encode()))
    assert steps == ["form"] and "verify attestation" in text


@pytest.mark.parametrize("vector", ATTESTATIONS)
def test_a_forged_attestation_is_refused(vector):
    assert not report(attestation(vector, "--json", given=spoil(vector["attestation_object"])))["accepted"] or (
        # The middle of some lies in the receipt, which nobody demands here.
        report(attestation(vector, "--json", given=spoil(vector["attestation_object"])))["steps"][-1]["ok"] is None)


@pytest.mark.parametrize("vector", ATTESTATIONS)
def test_another_root_refuses_apples_attestations(vector, pki):
    steps, text = cause(attestation(vector, "--json", "--root", str(pki.gms.certificate)))
    assert steps == ["chain"] and "--root" in text


@pytest.mark.parametrize("vector", LAST)
def test_apples_root_may_be_named(vector):
    root = REPOSITORY / "certs" / "roots" / "apple-app-attestation-root-ca.pem"
    assert report(attestation(vector, "--json", "--root", str(root)))["accepted"]
    assert openssl("x509", "-in", root, "-noout", "-subject").strip().startswith("subject=CN = Apple App Attestation Root CA")


@pytest.mark.parametrize("vector", ASSERTIONS)
def test_causes_of_refused_assertions_are_reported(vector):
    data = base64.b64decode(vector["client_data"])

    def cause_of(**changed):
        return cause(assertion(vector, "--json", **changed))
    assert cause_of(client_data=base64.b64encode(data + b"\n").decode())[1].count("line feed")
    twice = base64.b64encode(hashlib.sha256(data).digest()).decode()
    assert cause_of(client_data=twice) == (["signature"], cause_of(client_data=twice)[1])
    assert cause_of(client_data=twice)[1].startswith("Not hashed")
    assert cause_of(app_id="TEAM123456.com.example.app")[0] == ["rp_id"]
    other = next(each.values[0] for each in ASSERTIONS if each.values[0]["key_id"] != vector["key_id"])
    steps, text = cause_of(public_key=other["public_key_x963"])
    assert steps == ["signature"] and text.startswith("The app used another key or other client data")


# People and usage

@pytest.mark.parametrize("vector", LAST)
def test_the_text_output_marks_each_step_with_a_tick_or_a_cross(vector, tmp_path):
    done = attestation(vector)
    text = done.stdout.decode()
    assert done.returncode == 0 and text.startswith("attestation: accepted") and text.count("✓") == len(STEPS)
    done = attestation(vector, app_id="TEAM123456.com.example.app")
    text = done.stdout.decode()
    assert done.returncode == 1 and text.startswith("attestation: refused") and text.count("✗") == 1
    assert "Likely cause:" in text


@pytest.mark.parametrize("vector", LAST)
def test_input_may_be_a_file(vector, tmp_path):
    path = tmp_path / "attestation.b64"
    path.write_text(vector["attestation_object"])
    done = subprocess.run(
        [BINARY, "verify", "attestation", "--app-id", vector["app_id"], "--key-id", vector["key_id"], "--client-data-hash",
         vector["client_data_hash"], "--at", vector["verification_time"], path], capture_output=True, env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr


KEY_ID = base64.b64encode(bytes(32)).decode()
ATTESTATION = ["attestation", "--app-id", "TEAM123456.com.example.app", "--key-id", KEY_ID]
ASSERTION = ["assertion", "--app-id", "TEAM123456.com.example.app", "--stored-counter", "0", "--client-data", "AA=="]


@pytest.mark.parametrize("arguments, word", [
    ([*ATTESTATION, "-"], "--challenge"),
    ([*ATTESTATION, "--challenge", "AA==", "--client-data-hash", "AA==", "-"], "--challenge"),
    ([*ATTESTATION, "--challenge", "not base64!", "-"], "--challenge"),
    ([*ATTESTATION, "--challenge", "AA==", "--environment", "sandbox", "-"], "--environment"),
    ([*ATTESTATION, "--challenge", "AA==", "--at", "yesterday", "-"], "--at"),
    ([*ATTESTATION, "--challenge", "AA==", "--root", "/nowhere.pem", "-"], "/nowhere.pem"),
    ([*ATTESTATION, "--challenge", "AA==", "/nowhere.cbor"], "/nowhere.cbor"),
    ([*ATTESTATION[:-1], "AAAA", "--challenge", "AA==", "-"], "--key-id"),
    ([*ASSERTION, "--public-key", KEY_ID, "-"], "it is a key id"),
    ([*ASSERTION, "--public-key", base64.b64encode(b"\x04" + bytes(64)).decode(), "-"], "is not a P-256 point: a byte is wrong"),
    ([*ASSERTION, "--public-key", base64.b64encode(bytes(64)).decode(), "-"], "put 04 before"),
    (["attestation"], "--app-id"), (["frobnicate"], "frobnicate"),
])
def test_wrong_usage_ends_with_2(arguments, word):
    done = verify(*arguments, given=b"")
    assert (done.returncode, done.stdout) == (2, b"")
    assert word in done.stderr.decode()


@pytest.mark.parametrize("given", [b"", b"\n", b"hello", b"{}", b"\xa3", b"\xff" * 100, b"0" * 5000, b"A" * 2_000_000])
@pytest.mark.parametrize("kind", ["attestation", "assertion", "receipt"])
def test_rubbish_is_refused_and_explained(kind, given):
    point = "BM9z03ZFdtHcEwA6dl7q+QF6i20M+7LVG70TYITELta2Z7MC2EHmlPuoYDRVfy+upr/06+lBYobEk/TCwuSb2ho="
    arguments = {
        "attestation": [*ATTESTATION, "--challenge", "AA=="], "assertion": [*ASSERTION, "--public-key", point],
        "receipt": ["receipt", "--app-id", "TEAM123456.com.example.app", "--public-key", point]}[kind]
    found = report(verify(*arguments, "--json", "-", given=given))
    assert refused(found) == ["form"] and found["likely_causes"]
