"""`attestgate verify android-key`: chains of Android phones get their verdict, and refusals their step and likely cause."""

import base64
import json
import subprocess
import time

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from support.key_attestation import KeyAttestationAuthority
from support.key_description import CHALLENGE, PACKAGE, SIGNER, application, integer, key_description, octets, root_of_trust
from support.paths import BINARY, ENVIRONMENT, REPOSITORY

VECTORS = REPOSITORY.parent / "shared" / "vectors" / "android" / "chains.json"
CHAIN_STEPS = ["certificates", "root", "signatures", "provisioning", "validity", "key_description", "revocation"]
STEPS = [*CHAIN_STEPS[:-1], "security_level", "key", "challenge", "application", "boot", "patch_level", "revocation"]
TIME = "2026-09-21T12:00:00Z"


def vectors():
    if not VECTORS.is_file():
        reason = "no android/chains.json in shared/vectors beside the project's folder"
        return [pytest.param(None, id="absent", marks=pytest.mark.skip(reason=reason))]
    return [pytest.param(vector, id=vector["id"]) for vector in json.loads(VECTORS.read_text())["vectors"]]


GENUINE = vectors()


def verify(*arguments, given):
    given = given.encode() if isinstance(given, str) else given
    return subprocess.run(
        [BINARY, "verify", "android-key", *map(str, arguments)], input=given, capture_output=True, env=ENVIRONMENT, timeout=60)


def report(*arguments, given):
    """The JSON object of a verdict, whose status fits it."""
    done = verify(*arguments, "--json", "-", given=given)
    assert done.stderr == b"", done.stderr
    found = json.loads(done.stdout)
    assert done.returncode == (0 if found["accepted"] else 1)
    assert found["accepted"] == all(step["ok"] is not False for step in found["steps"])
    return found


def refused(found):
    return [step["step"] for step in found["steps"] if step["ok"] is False]


def array(chain):
    return json.dumps([base64.b64encode(der).decode() for der in chain])


# Genuine ones

@pytest.mark.parametrize("vector", GENUINE)
def test_a_genuine_chain_has_its_verdict_and_its_key_description(vector):
    given = json.dumps(vector["chain_der"])
    found = report("--chain-only", "--at", vector["verification_time"], given=given)
    assert found["accepted"] == (vector["expected"] == "accept"), found
    assert [step["step"] for step in found["steps"]] == CHAIN_STEPS
    assert refused(found)[:1] == ([] if found["accepted"] else ["root"])
    stated = vector["key_description"]
    assert found["key_description"] == {
        "attestationVersion": stated["attestationVersion"], "attestationSecurityLevel": stated["attestationSecurityLevel"],
        "keyMintVersion": stated["keymasterVersion"], "keyMintSecurityLevel": stated["keymasterSecurityLevel"],
        "attestationChallenge": stated["attestationChallenge"], "softwareEnforced": stated["softwareEnforced"],
        "hardwareEnforced": stated["teeEnforced"]}
    assert found["serials"] == vector["serials_hex"]
    assert (found["public_key"] is not None) == (vector["leaf_public_key_type"] == "ECPublicKey")


@pytest.mark.parametrize("vector", GENUINE)
def test_a_genuine_key_that_is_not_on_p256_is_refused_by_its_name(vector):
    name = {"RSAPublicKey": "RSA-", "MLDSA65PublicKey": "ML-DSA-65"}.get(vector["leaf_public_key_type"])
    found = report("--boot", "any", "--at", vector["verification_time"], given=json.dumps(vector["chain_der"]))
    assert ("key" in refused(found)) == (name is not None or vector["expected"] != "accept")
    if name:
        assert name in next(step["detail"] for step in found["steps"] if step["step"] == "key")


@pytest.mark.parametrize("vector", GENUINE)
def test_a_genuine_chain_is_read_in_each_form(vector):
    chain = [base64.b64decode(text) for text in vector["chain_der"]]
    pem = "".join(f"-----BEGIN CERTIFICATE-----\r\n{base64.encodebytes(der).decode()}-----END CERTIFICATE-----\r\n" for der in chain)
    url = json.dumps([base64.urlsafe_b64encode(der).decode().rstrip("=") for der in chain], indent=1)
    expected = report("--chain-only", "--at", vector["verification_time"], given=array(chain))
    for given in (pem, f"the phone's certificates\n{pem}", url, f"\n{url}\n"):
        assert report("--chain-only", "--at", vector["verification_time"], given=given) == expected


# A software phone

class Phone:
    """A phone with one key, whose chain leads to a root of its own."""

    def __init__(self, directory, description):
        key = ec.generate_private_key(ec.SECP256R1())
        authority = KeyAttestationAuthority(directory)
        self.root = authority.path
        self.certificates = authority.certificates(key, description)
        self.chain = [certificate.public_bytes(Encoding.DER) for certificate in self.certificates]
        self.public_key = base64.b64encode(
            key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)).decode()


@pytest.fixture
def phone_with(tmp_path):
    """Makes a phone whose key has that description."""
    return lambda description: Phone(tmp_path, description)


@pytest.fixture
def judged(phone_with):
    """Judges a phone's chain with options that fit, but for those that are given."""
    def judged(phone=None, *further, chain=None, **changed):
        phone = phone or phone_with(key_description())
        options = {
            "root": phone.root, "at": TIME, "app-id": f"android:{PACKAGE}", "signing-certificate": SIGNER.hex(),
            "client-data-hash": base64.b64encode(CHALLENGE).decode(), "minimum-patch-level": "2026-02",
            **{name.replace("_", "-"): value for name, value in changed.items()}}
        arguments = [part for name, value in options.items() if value is not None for part in (f"--{name}", value)]
        return report(*arguments, *further, given=array(chain or phone.chain))
    return judged


def test_a_phone_s_key_is_accepted(judged, phone_with):
    phone = phone_with(key_description())
    found = judged(phone)
    assert found["accepted"], found
    assert [step["step"] for step in found["steps"]] == STEPS
    assert [step["step"] for step in found["steps"] if step["ok"] is None] == ["revocation"]
    assert found["public_key"] == phone.public_key and found["serials"] == ["ab0", "ab1", "ab2", "ab3"]
    assert judged(phone, chain=phone.chain[:-1])["accepted"], "without its root"


def test_what_no_option_names_is_shown_and_not_compared(phone_with):
    phone = phone_with(key_description())
    found = report("--root", phone.root, "--at", TIME, given=array(phone.chain))
    assert found["accepted"]
    assert [step["step"] for step in found["steps"] if step["ok"] is None] == ["challenge", "application", "patch_level", "revocation"]
    details = {step["step"]: step["detail"] for step in found["steps"]}
    assert PACKAGE in details["application"] and base64.b64encode(CHALLENGE).decode() in details["challenge"]


@pytest.mark.parametrize("step, changed", [
    ("application", {"app_id": "android:org.example.other"}), ("application", {"signing_certificate": "00" * 32}),
    ("challenge", {"client_data_hash": base64.b64encode(bytes(32)).decode()}),
    ("challenge", {"client_data_hash": None, "challenge": base64.b64encode(CHALLENGE).decode()}),
    ("security_level", {"security_level": "strongbox"}), ("patch_level", {"minimum_patch_level": "2026-03"}),
    ("validity", {"at": "2025-12-31T23:59:59Z"}), ("root", {"root": None})])
def test_an_option_that_does_not_fit_refuses_its_step(judged, step, changed):
    found = judged(**changed)
    assert refused(found)[0] == step


@pytest.mark.parametrize("step, description", [
    ("boot", key_description(hardware={704: root_of_trust(locked=0)})),
    ("boot", key_description(hardware={704: root_of_trust(state=2)})),
    ("key", key_description(hardware={702: integer(2)})), ("key_description", key_description()[:-1]),
    ("security_level", key_description(level=0))], ids=["unlocked", "unverified", "imported", "cut", "software"])
def test_a_description_that_does_not_fit_refuses_its_step(judged, phone_with, step, description):
    phone = phone_with(description)
    assert refused(judged(phone)) == [step]
    if step == "boot":
        assert judged(phone, boot="any")["accepted"]


@pytest.mark.parametrize("serial", ["ab1", "AB2", str(0xAB1), str(0xAB3)])
def test_a_serial_on_the_status_list_is_refused(judged, tmp_path, serial):
    path = tmp_path / "status.json"
    for status, entries in [("REVOKED", [serial]), ("SUSPENDED", ["1", serial])]:
        path.write_text(json.dumps({"entries": {entry: {"status": status} for entry in entries}}))
        assert refused(judged(status_list=path)) == ["revocation"]
    path.write_text(json.dumps({"entries": {"ab0": {"status": "REVOKED"}}}))
    found = judged(status_list=path)
    assert found["accepted"] and found["steps"][-1]["ok"] is True


def test_each_likely_cause_is_reported(judged, phone_with):
    def cause(*arguments, **options):
        return judged(*arguments, **options)["likely_causes"][0]
    phone = phone_with(key_description())
    assert "all that getCertificateChain() returns" in cause(phone, chain=phone.chain[:1])
    assert "leaf first" in cause(phone, chain=[phone.chain[1], phone.chain[0], *phone.chain[2:]])
    assert "truncated" in cause(phone, chain=[phone.chain[0][:-1], *phone.chain[1:]])
    assert "--root" in cause(phone, root=None)
    assert "compare what the app passed" in cause(phone, client_data_hash="AA==")
    assert "debug build" in cause(phone, signing_certificate="00" * 32)
    assert "--boot any" in cause(phone_with(key_description(hardware={704: root_of_trust(locked=0)})))


def test_what_identifies_a_phone_is_not_shown(judged, phone_with):
    secret = "356938035643809"
    found = judged(phone_with(key_description(hardware={714: octets(secret.encode()), 723: octets(secret.encode())})))
    assert found["accepted"]
    text = json.dumps(found)
    assert secret not in text and secret.encode().hex() not in text and '"714"' not in text


def test_the_text_output_marks_each_step_and_hides_control_characters(phone_with):
    phone = phone_with(key_description(software={709: application("org.example\x1b[31m")}))
    done = verify("--root", phone.root, "--at", TIME, "-", given=array(phone.chain))
    text = done.stdout.decode()
    assert done.returncode == 0 and text.startswith("key attestation: accepted") and text.count("✓") == len(STEPS) - 4
    assert "\x1b" not in text and phone.public_key in text
    done = verify("--at", TIME, "-", given=array(phone.chain))
    assert done.returncode == 1 and "✗ root" in done.stdout.decode() and "Likely cause:" in done.stdout.decode()


def test_input_may_be_a_file(tmp_path, phone_with):
    phone = phone_with(key_description())
    path = tmp_path / "chain.pem"
    path.write_bytes(b"".join(certificate.public_bytes(Encoding.PEM) for certificate in phone.certificates))
    done = verify("--root", phone.root, "--at", TIME, "--app-id", f"android:{PACKAGE}", path, given=b"")
    assert (done.returncode, done.stderr) == (0, b"")


# Rubbish and usage

@pytest.mark.parametrize("given", [
    b"", b"\n", b"hello", b"{}", b"[]", b"[1]", b"[[]]", b"[\"\"]", b"[\"A\"]", b"[\"not base64!\", \"AAAA\"]", b"\xff" * 100,
    b"-----BEGIN CERTIFICATE-----", b"-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----", b"[" * 100_000, b"A" * 2_000_000])
def test_rubbish_is_refused_and_explained(given):
    found = report(given=given)
    assert refused(found) == ["certificates"] and found["likely_causes"] and found["key_description"] is None


@pytest.mark.parametrize("given", [
    b"[" + b",".join([b"\"AAAA\""] * 140_000) + b"]", b"[\"" + b"A" * 1_000_000 + b"\",\"AAAA\"]", b"[" + b"[]," * 300_000 + b"[]]",
    b"[\"" + b"A" * 2_000_000 + b"\"]", b"-----BEGIN CERTIFICATE-----\n" * 37_000,
    b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n" * 16_000])
def test_a_megabyte_is_refused_within_seconds(given):
    begin = time.monotonic()
    found = report(given=given)
    assert refused(found) == ["certificates"]
    # A debug build on a busy machine.
    assert time.monotonic() - begin < 30


@pytest.mark.parametrize("arguments, word", [
    (["--challenge", "AA==", "--client-data-hash", "AA==", "-"], "either --challenge or --client-data-hash"),
    (["--challenge", "not base64!", "-"], "--challenge"), (["--app-id", "TEAM123456.org.example.app", "-"], "android:"),
    (["--app-id", "android:", "-"], "android:"), (["--signing-certificate", "abcd", "-"], "64 hexadecimal digits"),
    (["--signing-certificate", "xy", "-"], "--signing-certificate"), (["--security-level", "software", "-"], "--security-level"),
    (["--minimum-patch-level", "2026-13", "-"], "--minimum-patch-level"), (["--minimum-patch-level", "202601", "-"], "--minimum-patch"),
    (["--boot", "unlocked", "-"], "--boot"), (["--at", "yesterday", "-"], "--at"), (["--root", "/nowhere.pem", "-"], "/nowhere.pem"),
    (["--status-list", "/nowhere.json", "-"], "/nowhere.json"), (["--status-list", __file__, "-"], "is no status list"),
    (["/nowhere.pem"], "/nowhere.pem"), ([], "FILE"), (["--frobnicate", "-"], "--frobnicate")])
def test_wrong_usage_ends_with_2(arguments, word):
    done = verify(*arguments, given=b"")
    assert (done.returncode, done.stdout) == (2, b"")
    assert word in done.stderr.decode()
