"""attestgate-device enrol: what it sends, what it keeps, and how it resumes."""

import base64
import hashlib
import json
import stat
import subprocess
from functools import partial

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from support.command_line import device_tool
from support.enrolment_peer import BINDING, INITIALIZATION, NONCE, EnrolmentPeer, from_b64url, thumbprint
from support.paths import BINARY, ENVIRONMENT, PATIENCE
from support.platforms import APPS, PLATFORMS, only

run = partial(device_tool, text=True)
ENROLMENT = [NONCE, INITIALIZATION, NONCE, BINDING]
LATER = (75,)
NO_ANSWER = (18, 56)  # CURLE_PARTIAL_FILE, of newer libcurl CURLE_RECV_ERROR


@pytest.fixture
def peer(pki):
    made = EnrolmentPeer(pki)
    yield made
    made.close()


@pytest.fixture(params=PLATFORMS)
def platform(request):
    return request.param


@pytest.fixture
def authority(tmp_path, platform):
    directory = tmp_path / "authority"
    assert run("ca", "init", "--platform", platform, "--directory", directory).returncode == 0
    return directory


@pytest.fixture
def phone(tmp_path, peer, pki, authority, platform):
    return Phone(tmp_path / "phone", peer, pki, authority, APPS[platform])


def point(of):
    return of.public_key().public_numbers()


class Phone:
    def __init__(self, directory, peer, pki, authority, app):
        self.directory, self.peer, self.pki, self.authority, self.app = directory, peer, pki, authority, app

    def enrol(self, *arguments, statuses=(0,), **options):
        done = run(
            "enrol", "--enrolment", self.peer.url, "--resolve", f"localhost:{self.peer.port}:127.0.0.1", "--ca",
            self.pki.server_ca, "--attestation-ca", self.authority, "--directory", self.directory, "--app-id", self.app,
            *arguments, **options)
        assert done.returncode in statuses, f"{done.returncode}: {done.stdout}{done.stderr}"
        return done

    def certificate(self):
        """The leaf, after looking that its key is the device's."""
        leaf = x509.load_pem_x509_certificate((self.directory / "certificate.pem").read_bytes())
        private = serialization.load_pem_private_key((self.directory / "certificate-key.pem").read_bytes(), None)
        public = serialization.load_pem_public_key((self.directory / "certificate-public-key.pem").read_bytes())
        assert point(leaf) == point(private) == public.public_numbers()
        assert leaf == self.peer.issued[-1]
        return leaf


def test_a_phone_is_made_and_enrolled_by_one_command(phone):
    done = phone.enrol()
    assert phone.peer.paths == ENROLMENT
    phone.certificate()
    lines = done.stdout.splitlines()
    assert [line.split(" ")[0] for line in lines] == [
        "created", "hardware", "GET", "attested", "POST", "GET", "asserted", "POST", "bound:"]
    assert "good until" in lines[-1] and done.stderr == ""
    for path in phone.directory.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path.name
    header, claims = phone.peer.claims(phone.peer.requests[-1][1])
    kid = thumbprint(claims["cnf"]["jwk"])
    assert header == {"alg": "ES256", "kid": kid, "typ": "rp-kb+jwt"}
    assert claims["aud"] == phone.peer.url and claims["iss"] == f"{phone.peer.url}/instance/{kid}"


def test_repeated_it_renews_the_certificate_and_with_rotate_replaces_the_key(phone):
    phone.enrol()
    first = phone.certificate()
    phone.enrol()
    second = phone.certificate()
    assert first != second and point(first) == point(second)
    phone.enrol("--rotate")
    third = phone.certificate()
    assert point(third) != point(second)
    assert phone.peer.paths == ENROLMENT + [NONCE, BINDING] * 2
    assert not (phone.directory / "next-certificate-key.pem").exists()


@pytest.mark.parametrize("path", [NONCE, INITIALIZATION, BINDING])
def test_the_same_command_recovers_from_a_lost_answer(phone, path):
    phone.peer.script[path] = [EnrolmentPeer.LOST]
    done = phone.enrol(statuses=NO_ANSWER)
    assert "attestgate-device: " in done.stderr
    hardware_key = (phone.directory / "hardware-key.pem").read_bytes()
    phone.enrol()
    phone.certificate()
    assert (phone.directory / "hardware-key.pem").read_bytes() == hardware_key
    initializations = [content for path, content in phone.peer.requests if path == INITIALIZATION]
    assert len(set(initializations)) == 1, "byte for byte the same"


def test_a_rotation_without_an_answer_continues_with_its_key(phone):
    phone.enrol()
    phone.peer.script[BINDING] = [EnrolmentPeer.LOST]
    phone.enrol("--rotate", statuses=NO_ANSWER)
    key = (phone.directory / "next-certificate-key.pem").read_bytes()
    done = phone.enrol()
    assert "continuing the rotation" in done.stdout
    phone.certificate()
    assert (phone.directory / "certificate-key.pem").read_bytes() == key


def test_a_phone_that_waits_for_approval_learns_when_to_retry(phone):
    phone.peer.script = {BINDING: [(403, "invalid_request", {"Retry-After": "60"}), (503, "temporarily_unavailable")]}
    assert "an operator must approve the device" in phone.enrol(statuses=LATER).stderr
    assert "try again later" in phone.enrol(statuses=LATER).stderr
    phone.enrol()
    assert phone.peer.paths.count(INITIALIZATION) == 1


def test_a_refusal_is_printed_with_the_services_reason(phone):
    phone.peer.script[BINDING] = [(403, "invalid_request"), (403, "invalid_request")]
    assert "403 invalid_request: no; all attempts failed" in phone.enrol(statuses=(1,)).stderr
    assert phone.peer.paths == ENROLMENT + [NONCE, BINDING], "once more with a new nonce, and no oftener"


def test_a_service_that_has_forgotten_the_phone_gets_a_new_hardware_key(phone):
    phone.enrol()
    hardware_key = (phone.directory / "hardware-key.pem").read_bytes()
    phone.peer.script[BINDING] = [(404, "not_found")]
    phone.enrol()
    assert (phone.directory / "hardware-key.pem").read_bytes() != hardware_key
    assert phone.peer.paths[6:] == ENROLMENT


def test_the_admission_token_is_read_from_a_file_or_standard_input(phone, tmp_path):
    (tmp_path / "token").write_text("YQ.Yg.Yw\n")
    phone.enrol("--admission-token", tmp_path / "token")
    assert phone.peer.claims(phone.peer.requests[-1][1])[1]["admission_token"] == "YQ.Yg.Yw"
    phone.enrol("--admission-token", "-", input="YQ.Yg.ZA")
    assert phone.peer.claims(phone.peer.requests[-1][1])[1]["admission_token"] == "YQ.Yg.ZA"


@pytest.mark.parametrize("what", ["nonce", "client-data", "tag", "attestation", "member"])
def test_an_altered_initialization_is_sent_once_and_forgotten(phone, what):
    expect_initialization_sent_once(phone, what)


@only("android")
@pytest.mark.parametrize("what", [
    "attestation-certificates", "attestation-root", "attestation-signatures", "attestation-provisioning",
    "attestation-validity", "attestation-key-description", "attestation-security-level", "attestation-key",
    "attestation-application", "attestation-boot", "attestation-patch-level", "attestation-revocation"])
def test_an_altered_key_attestation_is_sent_once_and_forgotten(phone, what):
    expect_initialization_sent_once(phone, what)


def expect_initialization_sent_once(phone, what):
    phone.peer.script[INITIALIZATION] = [(403, "invalid_request")]
    assert "instance-initialization was refused: 403 invalid_request" in phone.enrol("--alter", what, statuses=(1,)).stderr
    assert phone.peer.paths == ([INITIALIZATION] if what == "nonce" else [NONCE, INITIALIZATION])
    phone.enrol()
    phone.certificate()


@pytest.mark.parametrize("what", [
    "binding-nonce", "alg", "kid", "typ", "iss", "aud", "iat", "exp", "instance", "hardware-signature", "claim",
    "signature"])
def test_an_altered_key_binding_is_sent_once_and_forgotten(phone, what):
    expect_binding_sent_once(phone, what)


@only("android")
@pytest.mark.parametrize("what", [
    "counter", "counter-zero", "key-attestation", "mtls-key", "mtls-challenge", "mtls-attestation"])
def test_an_altered_key_binding_of_an_android_phone_is_sent_once_and_forgotten(phone, what):
    expect_binding_sent_once(phone, what)


def expect_binding_sent_once(phone, what):
    phone.peer.script[BINDING] = [(403, "invalid_request")]
    assert "key-binding was refused: 403 invalid_request" in phone.enrol("--alter", what, statuses=(1,)).stderr
    assert phone.peer.paths == ([NONCE, INITIALIZATION, BINDING] if what == "binding-nonce" else ENROLMENT)
    phone.enrol()
    phone.certificate()


def test_an_impossible_request_is_an_error_with_its_reason(phone, tmp_path, authority):
    assert "not enrolled" in phone.enrol("--rotate", statuses=(1,)).stderr
    phone.enrol()
    other = run("enrol", "--enrolment", "https://other.example", "--directory", phone.directory)
    assert other.returncode == 1 and "belongs to" in other.stderr
    other = run("enrol", "--enrolment", phone.peer.url, "--directory", phone.directory, "--app-id", phone.app + "x")
    assert other.returncode == 1 and f"belongs to {phone.app}, not to {phone.app}x" in other.stderr
    none = run("enrol", "--enrolment", phone.peer.url, "--directory", tmp_path / "none")
    assert none.returncode == 1 and "--app-id" in none.stderr
    strangers = Phone(tmp_path / "stranger", phone.peer, phone.pki, tmp_path / "no-authority", phone.app)
    refused = strangers.enrol(statuses=(1,)).stderr
    assert "name its directory with --attestation-ca" in refused and "ca init" in refused
    assert "already attested" in phone.enrol("--alter", "nonce", statuses=(1,)).stderr
    for arguments in [["--enrolment", "http://localhost"], ["--enrolment", "https://a?b"], ["--alter", "all"],
                      ["--client-data", "x"], ["--app-id", "x"]]:
        assert run("enrol", "--enrolment", "https://a", "--directory", phone.directory, *arguments).returncode == 2
    assert run("enrol", "--enrolment", phone.peer.url, "--resolve", f"localhost:{phone.peer.port}:127.0.0.1",
               "--directory", phone.directory).returncode == 60, "a server nobody vouches for"


# What an Android phone sends

@only("android")
@pytest.mark.parametrize("form", ["nonce-and-tag", "nonce"])
@pytest.mark.parametrize("provisioning, level", [("factory", "tee"), ("remote", "strongbox")])
def test_an_android_phone_sends_the_attestations_of_both_keys(phone, form, provisioning, level):
    phone.enrol(
        "--client-data", form, "--provisioning", provisioning, "--security-level", level, "--signing-certificate", "12" * 32,
        "--app-version", "7", "--patch-level", "2026-11", "--os-version", "17.0.1")
    body = json.loads(phone.peer.requests[1][1])
    assert len(from_b64url(body["hardware_key_tag"])) == 32
    hashed = hashlib.sha256((body["nonce"] + body["hardware_key_tag"]).encode()).digest()
    challenge = hashed if form == "nonce-and-tag" else body["nonce"].encode()
    hardware = verdict(phone, body["key_attestation"], challenge, level)
    assert hardware["key_description"]["hardwareEnforced"]["osVersion"] == 170_001
    assert hardware["key_description"]["softwareEnforced"]["attestationApplicationId"]["packages"][0]["version"] == 7

    claims = phone.peer.claims(phone.peer.requests[-1][1])[1]
    assert claims["counter"] == 1 and "key_attestation" not in claims
    assert claims["hardware_key_tag"] == body["hardware_key_tag"]
    data = '{"nonce":"%s","jwk_thumbprint":"%s","counter":1}' % (claims["nonce"], thumbprint(claims["cnf"]["jwk"]))
    key = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), base64.b64decode(hardware["public_key"]))
    key.verify(from_b64url(claims["hardware_signature"]), data.encode(), ec.ECDSA(hashes.SHA256()))
    challenge = hashlib.sha256((claims["nonce"] + claims["hardware_key_tag"]).encode()).digest()
    bound = verdict(phone, claims["mtls_key_attestation"], challenge, level)
    jwk = claims["cnf"]["jwk"]
    assert base64.b64decode(bound["public_key"]) == b"\x04" + from_b64url(jwk["x"]) + from_b64url(jwk["y"])
    assert bound["serials"] == hardware["serials"]


def verdict(phone, chain, challenge, level):
    """What `attestgate verify` says of a chain that it accepts."""
    done = subprocess.run(
        [BINARY, "verify", "android-key", "--root", phone.authority / "simulator-android-root.pem", "--app-id", phone.app,
         "--signing-certificate", "12" * 32, "--client-data-hash", base64.b64encode(challenge), "--security-level", level,
         "--minimum-patch-level", "2026-11", "--json", "-"],
        input=json.dumps(chain).encode(), capture_output=True, env=ENVIRONMENT, timeout=PATIENCE)
    assert done.returncode == 0, (done.stdout, done.stderr)
    return json.loads(done.stdout)


@only("android")
def test_the_counter_rises_with_each_binding_and_may_be_sent_again_on_purpose(phone):
    assert "enrol it first" in phone.enrol("--alter", "counter-replayed", statuses=(1,)).stderr
    phone.enrol()
    phone.enrol("--rotate", "--no-mtls-attestation")
    claims = phone.peer.claims(phone.peer.requests[-1][1])[1]
    assert claims["counter"] == 2 and "mtls_key_attestation" not in claims
    phone.peer.script[BINDING] = [(403, "invalid_request")]
    phone.enrol("--alter", "counter-replayed", statuses=(1,))
    assert phone.peer.claims(phone.peer.requests[-1][1])[1]["counter"] == 2
    assert (phone.directory / "counter").read_text() == "2\n"


@only("android")
def test_a_new_hardware_key_has_a_new_tag(phone):
    phone.enrol()
    phone.peer.script[BINDING] = [(404, "not_found")]
    phone.enrol()
    tags = [json.loads(content)["hardware_key_tag"] for path, content in phone.peer.requests if path == INITIALIZATION]
    assert len(set(tags)) == 2


@pytest.mark.parametrize("platform, arguments", [
    ("ios", ("--patch-level", "2026-11")), ("ios", ("--no-mtls-attestation",)), ("ios", ("--alter", "attestation-root")),
    ("android", ("--form", "ios-27")), ("android", ("--rp-id", "x"))], indirect=["platform"])
def test_an_option_of_the_other_platform_is_refused_before_anything_is_made(phone, arguments):
    assert "is no app of the platform" in phone.enrol(*arguments, statuses=(1,)).stderr
    assert not phone.directory.exists() and phone.peer.paths == []


@only("android")
@pytest.mark.parametrize("arguments", [
    ("--signing-certificate", "12"), ("--signing-certificate", "G" * 64), ("--patch-level", "2026-13"), ("--patch-level", "202601"),
    ("--security-level", "software"), ("--provisioning", "x"), ("--app-version", "-1")])
def test_a_malformed_value_of_an_android_option_is_wrong_usage(phone, arguments):
    phone.enrol(*arguments, statuses=(2,))
    assert not phone.directory.exists()
