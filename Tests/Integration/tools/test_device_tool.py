"""The software phone: what it leaves on disk, and what it sends."""

import base64
import hashlib
import json
import random
import stat
import subprocess
import time
from dataclasses import dataclass

import pytest

from support import seeds
from support.command_line import DEVICE_TOOL, device_tool
from support.paths import BINARY, ENVIRONMENT, PATIENCE
from support.proof_peer import Answer, ProofPeer

APP = "ABCDE12345.org.example.app"


@dataclass
class Device:
    directory: object
    description: dict
    peer: ProofPeer
    pki: object
    scratch: object

    def request(self, *arguments, path="/records/1?view=full", check=True):
        """One request to the peer. - Returns: the finished process."""
        done = device_tool(
            "request", "--directory", self.directory, "--cacert", self.pki.server_ca,
            "--resolve", f"localhost:{self.peer.port}:127.0.0.1", *arguments, self.peer.url + path)
        if check:
            assert done.returncode == 0, done.stderr.decode()
        return done

    def check(self, request):
        request.check(APP, self.description["public_key"], self.scratch)


@pytest.fixture
def peer(pki):
    made = ProofPeer(pki)
    yield made
    made.close()


@pytest.fixture
def device(pki, peer, tmp_path):
    directory, scratch = tmp_path / "device", tmp_path / "scratch"
    scratch.mkdir()
    done = device_tool("create", "--directory", directory, "--app-id", APP, "--json")
    assert done.returncode == 0, done.stderr.decode()
    description = json.loads(done.stdout)
    issued = subprocess.run(
        [BINARY, "pki", "issue", "--directory", pki.directory, "--certificate-key", description["certificate_key"],
         "--out", description["certificate"]], capture_output=True, timeout=PATIENCE, env=ENVIRONMENT)
    assert issued.returncode == 0, issued.stderr.decode()
    return Device(directory, description, peer, pki, scratch)


# What is made.

def test_a_device_prints_what_its_registration_needs(device):
    assert device.description["app_id"] == APP
    assert len(base64.b64decode(device.description["public_key"], validate=True)) == 65
    assert len(base64.b64decode(device.description["key_id"], validate=True)) == 32


def test_files_are_their_owners_alone_and_never_replaced(device, tmp_path):
    device.request()
    for path in device.directory.iterdir():
        # The certificate is no secret, and another program's.
        if path.name != "certificate.pem":
            assert stat.S_IMODE(path.stat().st_mode) == 0o600, path.name
    before = {path.name: path.read_bytes() for path in device.directory.iterdir()}
    done = device_tool("create", "--directory", device.directory, "--app-id", APP)
    assert done.returncode == 1 and b"already exists" in done.stderr
    assert before == {path.name: path.read_bytes() for path in device.directory.iterdir()}
    authority = tmp_path / "ca"
    assert device_tool("ca", "init", "--directory", authority).returncode == 0
    again = device_tool("ca", "init", "--directory", authority)
    assert again.returncode == 1 and b"already exists" in again.stderr
    chain = subprocess.run(
        ["openssl", "verify", "-CAfile", authority / "simulator-root.pem",
         authority / "simulator-intermediate.pem"], capture_output=True, timeout=PATIENCE)
    assert chain.returncode == 0, chain.stdout + chain.stderr


def test_a_wrong_command_line_is_usage(device):
    for arguments in [["create"], ["create", "--directory", device.directory, "--app-id", "x"],
                      ["request", "--directory", device.directory, "http://localhost/"],
                      ["request", "--directory", device.directory, "-H", "no line", device.peer.url],
                      ["request", "--directory", device.directory, "--nonce", "a\r\nX: b", device.peer.url]]:
        assert device_tool(*arguments).returncode == 2
    assert device_tool("request", "--directory", device.directory / "none", device.peer.url).returncode == 1
    assert device.request("--omit", "content-type", check=False).returncode == 1


# What is sent.

def test_the_proof_fits_the_request_that_arrives(device):
    done = device.request("-d", "a=b&c", "-H", "Authorization: Bearer t", "-H", "X-Other: 1")
    assert done.stdout == b"the record"
    [request] = device.peer.requests
    assert request.method == "POST" and request.content == b"a=b&c"
    assert request.parameters.startswith(
        '("@method" "@authority" "@path" "@query" "content-digest" "authorization" "content-type");created=')
    assert request.value("content-type") == "application/x-www-form-urlencoded"
    device.check(request)


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE", "PUT", "PATCH"])
def test_every_method_is_proven_as_sent(device, method, tmp_path):
    (tmp_path / "content").write_bytes(bytes(range(256)) * 20)
    arguments = ["-d", f"@{tmp_path}/content"] if method in ["PUT", "PATCH"] else []
    device.request("-X", method, *arguments)
    [request] = device.peer.requests
    assert request.method == method
    assert request.content == (b"" if not arguments else bytes(range(256)) * 20)
    device.check(request)


@pytest.mark.parametrize("path", ["/", "/a/../b", "/%7Ea/%C3%A4?x=%20&y", "/a?", "/a?b?c"])
def test_targets_are_proven_as_sent(device, path):
    device.request(path=path)
    [request] = device.peer.requests
    device.check(request)


def test_empty_content_is_no_content(device):
    device.request("-d", "")
    [request] = device.peer.requests
    assert request.value("content-length") == "0" and request.value("content-digest") is None
    device.check(request)


def test_a_given_host_field_is_the_proven_authority(device):
    device.request("-H", "Host: other.example")
    [request] = device.peer.requests
    assert request.value("host") == "other.example"
    device.check(request)


def test_one_challenge_serves_many_requests_and_counters_go_up(device):
    for _ in range(3):
        device.request()
    assert len(device.peer.challenge_requests) == 1
    assert device.peer.challenge_requests[0].value("signature") is None
    assert [request.counter for request in device.peer.requests] == [1, 2, 3]
    assert {request.nonce for request in device.peer.requests} == {"challenge-1"}


def test_a_new_challenge_in_any_response_is_used_next(device):
    device.peer.script = [Answer(challenge="challenge-2")]
    device.request()
    device.request()
    assert [request.nonce for request in device.peer.requests] == ["challenge-1", "challenge-2"]


def test_a_challenge_that_is_refused_is_renewed_once(device):
    device.peer.script = [Answer(401, "challenge_required", "challenge-2")]
    assert device.request().stdout == b"the record"
    assert [request.nonce for request in device.peer.requests] == ["challenge-1", "challenge-2"]
    assert [request.counter for request in device.peer.requests] == [1, 2]
    device.check(device.peer.requests[1])

    device.peer.requests.clear()
    device.peer.script = [Answer(401, "challenge_required", f"challenge-{number}") for number in [3, 4]]
    done = device.request("--fail", check=False)
    assert done.returncode == 22 and json.loads(done.stdout)["error"] == "challenge_required"
    assert len(device.peer.requests) == 2


def test_a_stale_proof_is_replaced_using_the_gateways_clock(device):
    device.peer.script = [
        Answer(401, "proof_stale", "challenge-2", headers={"Date": "Sun, 06 Nov 1994 08:49:37 GMT"})]
    device.request()
    created = int(device.peer.requests[1].parameters.split(";created=")[1].split(";")[0])
    assert 784_111_777 <= created <= 784_111_777 + PATIENCE


@pytest.mark.parametrize("denial", ["counter_replayed", "counter_late"])
def test_a_refused_counter_is_resent_only_on_request(device, denial):
    device.peer.script = [Answer(401, denial, "challenge-2")]
    device.request()
    assert len(device.peer.requests) == 1
    device.peer.script = [Answer(401, denial, "challenge-3")]
    device.request("--idempotent")
    assert [request.counter for request in device.peer.requests] == [1, 2, 3]


def test_a_services_own_401_is_shown_as_it_is(device):
    content = b"x" * 200_000
    device.peer.script = [Answer(401, content=content)]
    assert device.request().stdout == content
    assert len(device.peer.requests) == 1


def test_a_gateway_without_a_challenge_is_named(device):
    device.peer.challenge_answer = Answer(403, "device_revoked")
    done = device.request(check=False)
    assert done.returncode == 1 and b"403, device_revoked" in done.stderr
    assert device.peer.requests == []


def test_no_response_has_curls_own_exit_code(device):
    without = device.request("--no-certificate", "--no-proof", check=False)
    assert without.returncode in (35, 55, 56), without.stderr
    untrusted = device_tool("request", "--directory", device.directory, "--no-proof", "--cacert", device.pki.gms.certificate,
                    device.peer.url)
    assert untrusted.returncode == 60
    port = device.peer.port
    device.peer.close()
    done = device_tool("request", "--directory", device.directory, "--no-proof", f"https://127.0.0.1:{port}/")
    assert done.returncode == 7 and b"connect" in done.stderr


def test_include_shows_the_head_before_the_content(device):
    device.peer.script = [Answer(headers={"X-Answer": "42"})]
    head, _, content = device.request("-i").stdout.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200") and b"X-Answer: 42" in head and content == b"the record"


# What is wrong on purpose.

def test_a_replay_sends_the_very_same_bytes(device):
    device.peer.script = [Answer(), Answer(401, "counter_replayed", "challenge-2")]
    done = device.request("--replay", "-d", "x")
    first, second = device.peer.requests
    assert first == second
    assert b"first: 200\n" in done.stderr and b"replay: 401 counter_replayed\n" in done.stderr


def test_without_a_proof_nothing_of_one_is_sent(device):
    device.peer.script = [Answer(401, "proof_required", "challenge-1")]
    device.request("--no-proof", "-d", "x")
    [request] = device.peer.requests
    assert device.peer.challenge_requests == []
    assert all(request.value(name) is None for name in ["signature", "signature-input", "content-digest"])


@pytest.mark.parametrize("arguments", [
    ["--sign-method", "PUT"], ["--sign-path", "/other"], ["--sign-query", "x=y"], ["--sign-authority", "other"],
    ["--rp-id", "other"], ["--corrupt", "signature"], ["--unsigned-header", "Content-Type: a/b"],
], ids=lambda arguments: arguments[0])
def test_a_proof_of_another_request_does_not_fit(device, arguments):
    device.peer.script = [Answer(401, "challenge_required", "challenge-2")]
    device.request("-d", "x", *arguments)
    [request] = device.peer.requests
    with pytest.raises(AssertionError):
        device.check(request)


def test_another_hardware_key_claims_the_same_key_id(device):
    other = device.scratch / "other.pem"
    device.pki.generate_key(other, "P-256")
    device.request("--hardware-key", other)
    [request] = device.peer.requests
    assert f'keyid="{device.description["key_id"]}"' in request.parameters
    with pytest.raises(AssertionError):
        device.check(request)


def test_given_parameters_are_sent_and_signed(device):
    device.request(
        "--created-offset", "-400", "--expires", "10", "--nonce", "mine", "--keyid", "AAAA", "--alg", "none",
        "--tag", "other", "--omit", "@query")
    [request] = device.peer.requests
    for part in [';keyid="AAAA"', ';nonce="mine"', ';alg="none"', ';tag="other"']:
        assert part in request.parameters
    assert '"@query"' not in request.parameters
    created, expires = (int(request.parameters.split(f";{name}=")[1].split(";")[0]) for name in ["created", "expires"])
    assert expires == created + 10 and created < time.time() - 300
    assert device.peer.challenge_requests == []
    # It is a good proof of all that.
    device.check(request)


def test_a_digest_of_other_content_goes_out_signed(device):
    device.request("-d", "x", "--sign-data", "y")
    device.request("-d", "x", "--content-digest", "sha-256=:AAAA:")
    expected = base64.b64encode(hashlib.sha256(b"y").digest()).decode()
    assert [request.value("content-digest") for request in device.peer.requests] == [
        f"sha-256=:{expected}:", "sha-256=:AAAA:"]


def test_a_fixed_counter_leaves_the_stored_one_alone(device):
    device.request("--counter", "4294967295")
    device.request()
    assert [request.counter for request in device.peer.requests] == [4294967295, 1]


def test_a_printed_proof_can_be_sent_with_curl(device):
    lines = device.request("--print-proof", "-d", "x", "-H", "Content-Type: text/plain").stdout
    assert device.peer.requests == []
    headers = device.scratch / "headers"
    headers.write_bytes(lines)
    done = subprocess.run(
        ["curl", "-sS", "--cacert", device.pki.server_ca, "--cert", device.description["certificate"],
         "--key", device.directory / "certificate-key.pem", "-H", f"@{headers}", "-H", "Content-Type: text/plain",
         "-d", "x", device.peer.url + "/records/1?view=full"], capture_output=True, timeout=PATIENCE)
    assert done.stdout == b"the record", done.stderr
    device.check(device.peer.requests[0])


def test_a_killed_tool_uses_no_counter_twice(device):
    """Killed at any moment, it leaves only gaps."""
    seed = seeds.seed()
    generator = random.Random(seed)
    counters = []
    for _ in range(40):
        process = subprocess.Popen(
            [DEVICE_TOOL, "request", "--directory", device.directory, "--print-proof", "--nonce", "x", device.peer.url],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT)
        try:
            output, _ = process.communicate(timeout=generator.uniform(0, 0.06))
        except subprocess.TimeoutExpired:
            process.kill()
            output, _ = process.communicate()
        signature = [line for line in output.splitlines(keepends=True) if line.startswith(b"Signature: ")]
        if signature and signature[0].endswith(b":\n"):
            assertion = base64.b64decode(signature[0].split(b":", 2)[2].strip().removesuffix(b":"))
            counters.append(int.from_bytes(assertion[-4:], "big"))
    done = device.request("--print-proof", "--nonce", "x")
    last = int((device.directory / "counter").read_text())
    assert done.returncode == 0 and counters == sorted(set(counters)) and all(value < last for value in counters)
