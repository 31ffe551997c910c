"""The software phone sends many attested requests at once, on one connection of HTTP/2 or on one each."""

import json
import subprocess
import threading
from dataclasses import dataclass

import pytest

from support.exposition import scrape
from support.gateway import APP
from support.paths import BINARY, ENVIRONMENT, PATIENCE
from support.pki import attestgate
from support.recording_upstream import OK
from support.waiting import eventually

TOOL = BINARY.with_name("attestgate-device")
MANY = 40


def run(*arguments):
    return subprocess.run(
        [TOOL, *map(str, arguments)], capture_output=True, text=True, timeout=2 * PATIENCE, env=ENVIRONMENT)


class Crowd:
    """A service that answers nobody before so many requests are there at the same time."""

    def __init__(self, upstream, size):
        self.size, self.present = size, 0
        self.lock, self.is_complete = threading.Lock(), threading.Event()
        upstream.answer = self.answer

    def answer(self, _):
        with self.lock:
            self.present += 1
            if self.present >= self.size:
                self.is_complete.set()
        self.is_complete.wait(PATIENCE)
        return OK


@dataclass
class Device:
    directory: object
    gateway: object

    def request(self, *arguments, path="/records"):
        return run(
            "request", "--directory", self.directory, "--cacert", self.gateway.pki.server_ca, "--resolve",
            f"localhost:{self.gateway.port}:127.0.0.1", *arguments, f"https://localhost:{self.gateway.port}{path}")


@pytest.fixture
def start_device(start_attested, pki, tmp_path):
    """A phone of the tool's, registered with a gateway of its own."""
    def start(**settings):
        gateway = start_attested(**settings).gateway
        done = run("create", "--directory", tmp_path / "device", "--app-id", APP, "--json")
        assert done.returncode == 0, done.stderr
        made = json.loads(done.stdout)
        issued = attestgate(
            "pki", "issue", "--directory", pki.directory, "--certificate-key", made["certificate_key"], "--out",
            made["certificate"])
        assert issued.returncode == 0, issued.stderr
        gateway.device_command(
            "add", "--app-id", APP, "--public-key", made["public_key"], "--certificate-key", made["certificate"])
        return Device(tmp_path / "device", gateway)
    return start


def numbered(text, count=MANY, name=""):
    return "".join(f"{name}{number + 1}: {text}\n" for number in range(count))


def connections(gateway):
    return scrape(gateway)("attestgate_connections_total")


def test_all_requests_share_one_http_2_connection(start_device, own_upstream):
    device = start_device(counter="window 64")
    # The challenge is there: no connection is for that.
    assert device.request("--http2").returncode == 0
    before = connections(device.gateway)
    Crowd(own_upstream, MANY)
    done = device.request("--http2", "--parallel", MANY, "-d", "hello")
    assert (done.returncode, done.stdout) == (0, numbered("200")), done.stderr
    assert connections(device.gateway) - before == 1


@pytest.mark.parametrize("arguments", [
    [], ["--no-proof"], ["--parallel", 3], ["--no-proof", "--parallel", 3], ["--print-proof"]])
def test_a_listener_without_http_2_is_a_failure_where_http_2_is_demanded(start_device, own_upstream, arguments):
    device = start_device(counter="window 64", protocols=["http/1.1"])
    own_upstream.answer = lambda _: OK
    done = device.request("--http2", *arguments)
    assert done.returncode == 16 and "does not support HTTP/2" in done.stderr + done.stdout, (done.stdout, done.stderr)
    assert "200" not in done.stdout and "ok" not in done.stdout
    assert device.request().returncode == 0


def test_without_http_2_each_has_a_connection(start_device, own_upstream):
    device = start_device(counter="window 64")
    assert device.request().returncode == 0
    before = connections(device.gateway)
    Crowd(own_upstream, MANY)
    done = device.request("--parallel", MANY)
    assert (done.returncode, done.stdout) == (0, numbered("200")), done.stderr
    assert connections(device.gateway) - before == MANY


@pytest.mark.parametrize("version", [[], ["--http2"]], ids=["http1", "http2"])
def test_replays_of_all_are_refused(start_device, own_upstream, version):
    device = start_device(counter="window 64")
    own_upstream.answer = lambda _: OK
    done = device.request("--parallel", MANY, "--replay", "--fail", *version)
    assert done.returncode == 0, done.stderr
    assert done.stdout == numbered("200", name="first ") + numbered("401 counter_replayed", name="replay ")


def test_requests_that_need_another_proof_are_sent_again(start_device, own_upstream):
    device = start_device(counter="window 64")
    own_upstream.answer = lambda _: OK
    assert device.request().returncode == 0
    # The challenge that is kept is of another epoch now.
    device.gateway.halt()
    device.gateway.start()
    done = device.request("--http2", "--parallel", MANY, "--verbose")
    assert (done.returncode, done.stdout) == (0, numbered("200")), done.stderr
    assert done.stderr.count("refused as challenge_required") == MANY


def test_after_a_start_a_phone_gets_through_with_one_more_round_trip(start_device, own_upstream):
    """`attestgate-device` repeats as `AttestedClient` does: both have `ProofExchange`."""
    device = start_device()
    own_upstream.answer = lambda _: OK
    assert device.request().returncode == 0
    device.gateway.halt()
    device.gateway.start()
    before = len(device.gateway.access())

    def answers():
        return [entry["status"] for entry in device.gateway.access()[before:] if entry["event"] == "request"]
    done = device.request("--verbose")
    assert (done.returncode, done.stderr.count("refused as challenge_required")) == (0, 1), done.stderr
    eventually(lambda: answers() == [401, 200], lambda: f"one more: {answers()}")
    # The challenge that came with the refusal is kept.
    done = device.request("--verbose")
    assert done.returncode == 0 and "challenge_required" not in done.stderr, done.stderr


def test_requests_above_the_stream_limit_wait(start_device, own_upstream):
    device = start_device(counter="window 1024", limits={"streams": 10})
    own_upstream.answer = lambda _: OK
    # libcurl 7.88 opens all streams before it has read the limit, and gives up one that is refused five times.
    for _ in range(20):
        done = device.request("--http2", "--parallel", 100)
        if "tried 5 times before giving up" not in done.stderr:
            break
    assert (done.returncode, done.stdout) == (0, numbered("200", 100)), done.stderr


def test_refusals_and_failures_are_reported_one_by_one(start_device):
    device = start_device()
    done = device.request("--http2", "--parallel", 3, "--no-proof", "--fail")
    assert (done.returncode, done.stdout) == (22, numbered("401 proof_required", 3)), done.stderr
    device.gateway.halt()
    for version in [[], ["--http2"]]:
        done = device.request("--parallel", 3, "--no-proof", *version)
        assert done.returncode == 7 and done.stdout.count("no answer: ") == 3, done.stderr
    device.gateway.start()


@pytest.mark.parametrize("arguments", [
    ["--parallel", "0"], ["--parallel", "1001"], ["--parallel", "x"], ["--parallel", "2", "--print-proof"],
    ["--parallel", "2", "--include"], ["--parallel", "2", "--counter", "7"],
])
def test_options_that_do_not_go_together_are_usage(tmp_path, arguments):
    done = run("request", "--directory", tmp_path, *arguments, "https://localhost/")
    assert (done.returncode, "--parallel" in done.stderr) == (2, True)
