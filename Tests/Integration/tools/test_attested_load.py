"""The load generator's attested mode: what it prepares, and that every proof it sends is good and used once."""

import json
import os
import subprocess

import pytest

from support.paths import BINARY, ENVIRONMENT, PATIENCE
from support.proof_peer import Answer, ProofPeer

APP = "ABCDE12345.org.example.app"


def load(*arguments):
    return subprocess.run(
        [BINARY.with_name("attestgate-load"), *map(str, arguments)], capture_output=True, text=True,
        timeout=2 * PATIENCE, env=ENVIRONMENT)


@pytest.fixture
def peer(pki):
    made = ProofPeer(pki)
    yield made
    made.close()


@pytest.fixture
def fleet(tmp_path):
    done = load("--prepare", tmp_path / "fleet", "--devices", 3, "--app-id", APP)
    assert done.returncode == 0, done.stderr
    return tmp_path / "fleet"


def attested(fleet, pki, peer, *arguments, duration=0.3):
    done = load(
        "--mode", "attested", "--prepared", fleet, "--certificates", pki.directory, "--connections", 3, "--warmup", 0,
        "--duration", duration, "--json", "--quiet", "--address", f"127.0.0.1:{peer.port}", *arguments,
        peer.url + "/records?a=b")
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


@pytest.mark.parametrize("proofs", [["live"], ["ahead", "--stock", "30"], ["ahead", "--stock", "6000"]], ids=" ".join)
def test_every_proof_is_good_and_no_counter_is_used_twice(fleet, pki, peer, tmp_path, proofs):
    keys = [json.loads(line)["public_key"] for line in (fleet / "registrations.jsonl").read_text().splitlines()]
    for run in range(2):
        code, report = attested(fleet, pki, peer, "--proofs", *proofs, "-X", "PUT", "-d", "hello")
        assert code == 0, report
        assert report["requests"] > 0 and report["proofs"]["missing"] == 0
        assert (report["proofs"]["ahead"] > 0) == (proofs[0] == "ahead")
        assert len(peer.challenge_requests) == 3 * (run + 1)
    used = [(request.parameters.split(';keyid="')[1].split('"')[0], request.counter) for request in peer.requests]
    assert len(used) == len(set(used))
    assert len({key for key, _ in used}) == 3
    # Each device's proofs fit its own key, and none of the others'.
    (tmp_path / "scratch").mkdir()
    for request in peer.requests[:3] + peer.requests[-3:]:
        fitting = 0
        for key in keys:
            try:
                request.check(APP, key, tmp_path / "scratch")
                fitting += 1
            except AssertionError:
                pass
        assert fitting == 1


def test_exactly_the_requested_number_of_requests_is_sent(fleet, pki, peer):
    code, report = attested(fleet, pki, peer, "--requests", 7, duration=60)
    assert (code, report["requests"], len(peer.requests)) == (0, 7, 7), report


def test_the_warm_up_begins_when_the_proofs_are_made(fleet, pki, peer):
    # Making them takes longer than the warm-up does.
    code, report = attested(fleet, pki, peer, "--proofs", "ahead", "--stock", "50000", "--warmup", "0.5")
    assert code == 0, report
    # At either end of the measurement each of the three connections has one request that counts only on one side.
    assert len(peer.requests) - report["requests"] > 2 * 3


def test_a_new_challenge_is_used_at_once(fleet, pki, peer):
    for duration in (0.3, 3, 30):
        # Short, so that the test is; longer if the machine was so slow that not all of them were sent.
        peer.script = [Answer(challenge=f"challenge-{number}") for number in range(2, 12)]
        code, report = attested(fleet, pki, peer, duration=duration)
        assert code == 0, report
        used = {request.nonce for request in peer.requests}
        if "challenge-11" in used:
            break
    assert {"challenge-1", "challenge-11"} <= used


def test_a_gateway_without_a_challenge_is_a_failure(fleet, pki, peer):
    peer.challenge_answer = Answer(404, "route_unknown")
    code, report = attested(fleet, pki, peer)
    assert code == 1 and report["errors"]["proof"] == 3
    assert report["proofs"]["missing"] > 0


def test_options_that_do_not_go_together_are_usage(fleet, tmp_path):
    url = "https://localhost/"
    for arguments in [
        ["--prepare", tmp_path / "x", url], ["--prepare", tmp_path / "x", "--devices", 1],
        ["--mode", "attested", "--ca", "x", url], ["--prepared", fleet, "--ca", "x", url], ["--ca", "x"],
        ["--mode", "attested", "--prepared", fleet, "--ca", "x", url],
    ]:
        done = load(*arguments)
        assert done.returncode == 2, done.stdout + done.stderr
    assert load("--prepare", fleet, "--devices", 1, "--app-id", APP).returncode == 2


def test_cpu_time_of_several_processes_is_added_up(fleet, pki, peer):
    # The peer is of this process; the other one does nothing.
    idle = subprocess.Popen(["sleep", "600"])
    try:
        both = attested(fleet, pki, peer, "--server-pid", os.getpid(), "--server-pid", idle.pid)[1]
        alone = attested(fleet, pki, peer, "--server-pid", idle.pid)[1]
    finally:
        idle.kill()
        idle.wait()
    gone = attested(fleet, pki, peer, "--server-pid", os.getpid(), "--server-pid", idle.pid)[1]
    assert both["server_cpu_seconds"] > 0 and alone["server_cpu_seconds"] == 0
    assert "server_cpu_seconds" not in gone
