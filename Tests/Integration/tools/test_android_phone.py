"""The software phone as an Android phone: registered by its key and app id, and served by a gateway."""

import json

import pytest

from support.command_line import device_tool
from support.pki import attestgate
from support.platforms import ANDROID_APP


@pytest.fixture
def request_of(start_attested, pki, tmp_path):
    """Sends a request of the tool's phone. - Returns: status, denial if any, and the process."""
    gateway = start_attested(platforms=["android"], counter="window 64").gateway
    directory = tmp_path / "phone"
    done = device_tool("create", "--platform", "android", "--app-id", ANDROID_APP, "--directory", directory, "--json")
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)
    issued = attestgate(
        "pki", "issue", "--directory", pki.directory, "--certificate-key", made["certificate_key"], "--out",
        made["certificate"])
    assert issued.returncode == 0, issued.stderr
    added = json.loads(gateway.device_command(
        "add", "--app-id", ANDROID_APP, "--public-key", made["public_key"], "--certificate-key", made["certificate"],
        "--json"))
    assert (added["platform"], added["key_id"]) == ("android", made["key_id"])

    def tool(*arguments):
        return device_tool(
            "request", "--directory", directory, "--cacert", pki.server_ca, "--resolve",
            f"localhost:{gateway.port}:127.0.0.1", "-i", *arguments, f"https://localhost:{gateway.port}/records")

    def request(*arguments):
        done = tool(*arguments)
        head, _, content = done.stdout.decode().partition("\r\n\r\n")
        status = int(head.split()[1]) if head else 0
        return status, json.loads(content)["error"] if status >= 400 else None, done
    request.directory, request.tool = directory, tool
    return request


def test_its_requests_pass_in_both_versions_and_a_replay_does_not(request_of, own_upstream):
    for arguments in [(), ("--http2",), ("-d", "x"), ("--http2", "-d", "x", "-X", "PUT")]:
        assert request_of(*arguments)[:2] == (200, None)
    assert (request_of.directory / "counter").read_text() == "4\n"
    assert [request.values("attest-counter") for request in own_upstream.requests] == [["1"], ["2"], ["3"], ["4"]]
    for request in own_upstream.requests:
        names = {name.lower() for name, _ in request.fields}
        assert "attest-proof-counter" not in names and "signature" not in names
    # Two answers: the first is read.
    done = request_of.tool("--replay")
    assert b"first: 200\n" in done.stderr and b"replay: 401 counter_replayed" in done.stderr


@pytest.mark.parametrize("arguments, denial", [
    (("--corrupt", "signature"), "proof_invalid"), (("--corrupt", "assertion"), "proof_malformed"),
    (("--sign-path", "/other"), "proof_invalid"), (("--omit", "attest-proof-counter"), "proof_incomplete"),
    (("--counter", "0"), "proof_malformed"), (("--alg", "apple-attest"), "proof_malformed"),
    (("--unsigned-header", "Attest-Proof-Counter: 7"), "proof_malformed"), (("--no-proof",), "proof_required"),
    (("--created-offset", "-400"), "proof_stale"),
], ids=lambda value: value if isinstance(value, str) else value[0])
def test_each_fault_has_its_denial(request_of, own_upstream, arguments, denial):
    assert request_of(*arguments)[1] == denial
    assert own_upstream.requests == []


def test_options_of_assertions_are_refused(request_of, tmp_path):
    for arguments in [("--rp-id", "x"), ("--form", "ios-27")]:
        done = request_of(*arguments)[2]
        assert done.returncode == 1 and b"does not make" in done.stderr
    for platform, app in [("ios", ANDROID_APP), ("android", "TEAMID1234.org.example.app"), ("android", "android:app")]:
        done = device_tool("create", "--platform", platform, "--app-id", app, "--directory", tmp_path / "other")
        assert done.returncode == 2
