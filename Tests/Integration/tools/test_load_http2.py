"""The load generator over HTTP/2: many requests at a time on one connection, each made, counted and reported as over HTTP/1.1."""

import json
import subprocess
import threading
import time

import pytest

from support.paths import BINARY, ENVIRONMENT, PATIENCE
from support.pki import attestgate
from support.platforms import APPS, PLATFORMS
from support.recording_upstream import OK
from support.waiting import eventually

CONTENT = 60_000


def load(*arguments):
    """- Returns: its exit status and its report."""
    if "--duration" not in arguments:
        arguments = ("--duration", 0.5, *arguments)
    done = subprocess.run(
        [BINARY.with_name("attestgate-load"), "--http2", "--warmup", "0", "--json", "--quiet", *map(str, arguments)], capture_output=True, text=True, timeout=2 * PATIENCE, env=ENVIRONMENT)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def load_over_many_connections(*arguments):
    """No request fails, though a connection serves few of them."""
    for duration in (0.5, 3, 30):
        # Short, so that the test is; longer if the machine was so slow that hardly any connection was used up.
        status, report = load("--duration", duration, *arguments)
        assert (status, report["errors"]) == (0, {}), report
        if report["handshakes"] > 4:
            return
    raise AssertionError(f"no connection was used up: {report}")


def on(gateway, path):
    return ["--certificates", gateway.pki.directory, "--address", f"127.0.0.1:{gateway.port}",
            f"https://localhost:{gateway.port}{path}"]


class Crowd:
    """A service that answers nobody before so many requests are there at the same time."""

    def __init__(self, upstream, size):
        self.size, self.present, self.is_complete = size, 0, threading.Event()
        self.lock = threading.Lock()
        upstream.answer = self.answer

    def answer(self, _):
        with self.lock:
            self.present += 1
            if self.present >= self.size:
                self.is_complete.set()
        self.is_complete.wait(PATIENCE)
        return OK


@pytest.fixture
def start_with_fleet(start_attested, tmp_path):
    """A gateway with devices of the load generator's. - Returns: it, and the load generator's options for them."""
    def start(count, platform="ios", **settings):
        app = APPS[platform]
        gateway = start_attested(platforms=[platform], **settings).gateway
        subprocess.run(
            [BINARY.with_name("attestgate-load"), "--prepare", tmp_path / "fleet", "--devices", str(count), "--app-id", app],
            check=True, capture_output=True, timeout=PATIENCE, env=ENVIRONMENT)
        done = attestgate("device", "import", "--config", gateway.conf_path, tmp_path / "fleet" / "registrations.jsonl")
        assert done.returncode == 0, done.stderr
        return gateway, ["--mode", "attested", "--prepared", tmp_path / "fleet", "--connections", count]
    return start


# Heads of one connection come in the order of their counters, so without content strict is enough.
@pytest.mark.parametrize("counter, content", [("strict", []), ("window 64", ["-X", "PUT", "-d", "hello"])])
@pytest.mark.parametrize("proofs", ["live", "ahead"])
@pytest.mark.parametrize("platform", PLATFORMS)
def test_parallel_requests_of_a_device_each_have_a_proof_of_their_own(
        start_with_fleet, own_upstream, counter, content, proofs, platform):
    gateway, devices = start_with_fleet(2, platform, counter=counter)
    Crowd(own_upstream, 20)
    status, report = load(
        *devices, "--parallel", 10, "--proofs", proofs, "--stock", 1000, *content, *on(gateway, "/records?a=b"))
    assert (status, report["errors"]) == (0, {}), report
    assert (report["protocol"], report["parallel"], report["connections"]) == ("h2", 10, 2)
    assert list(report["statuses"]) == ["200"] and report["requests"] > 0
    assert report["proofs"]["missing"] == 0 and report["proofs"]["live" if proofs == "live" else "ahead"] > 0

    def logged():
        found = [line for line in gateway.access() if line.get("route") == "records"]
        return found if len(found) >= report["requests"] else None
    lines = eventually(logged, "every request to be logged")
    assert {line["status"] for line in lines} == {200}
    assert {line["protocol"] for line in lines} == {"HTTP/2"} and report["handshakes"] == 0


def test_with_one_request_at_a_time_no_two_are_in_flight(start_gateway, own_upstream, pki):
    gateway = start_gateway({"service": own_upstream.address})
    present, most, lock = 0, 0, threading.Lock()

    def answer(_):
        nonlocal present, most
        with lock:
            present += 1
            most = max(most, present)
        # A second one, if there is one, comes meanwhile.
        time.sleep(0.01)
        with lock:
            present -= 1
        return OK
    own_upstream.answer = answer
    status, report = load("--connections", 1, *on(gateway, "/"))
    assert (status, report["errors"], most) == (0, {}, 1)


def test_content_beyond_a_window_is_sent_whole(start_gateway, own_upstream, tmp_path):
    gateway = start_gateway({"service": own_upstream.address})
    (tmp_path / "content").write_bytes(bytes(range(250)) * (CONTENT // 250))
    lengths = set()

    def answer(request):
        lengths.add((len(request.content), request.content == (tmp_path / "content").read_bytes()))
        return OK
    own_upstream.answer = answer
    status, report = load(
        "--connections", 2, "--parallel", 5, "-X", "PUT", "-d", f"@{tmp_path}/content", *on(gateway, "/"))
    assert (status, report["errors"]) == (0, {}), report
    assert lengths == {(CONTENT, True)}


def test_a_connection_that_the_server_ends_costs_no_request(start_gateway, own_upstream):
    gateway = start_gateway({"service": own_upstream.address}, limits={"requests_per_connection": 25})
    own_upstream.answer = lambda _: OK
    load_over_many_connections("--connections", 2, "--parallel", 10, *on(gateway, "/"))


def test_unprocessed_proofs_are_sent_again_in_order(start_with_fleet, own_upstream):
    own_upstream.answer = lambda _: OK
    gateway, devices = start_with_fleet(2, counter="strict", limits={"requests_per_connection": 25})
    load_over_many_connections(*devices, "--parallel", 10, *on(gateway, "/records"))


@pytest.mark.parametrize("mode", ["handshake", "resumed"])
def test_each_request_has_a_connection_of_its_own_where_handshakes_are_measured(start_gateway, own_upstream, mode):
    gateway = start_gateway({"service": own_upstream.address})
    own_upstream.answer = lambda _: OK
    status, report = load("--mode", mode, "--connections", 2, "--requests", 7, "--duration", 60, *on(gateway, "/"))
    assert (status, report["errors"]) == (0, {}), report
    assert report["requests"] == report["handshakes"] == 7
    assert (report["resumed"] == report["requests"]) == (mode == "resumed")


def test_requests_are_sent_when_they_are_due(start_gateway, own_upstream):
    gateway = start_gateway({"service": own_upstream.address})
    own_upstream.answer = lambda _: OK
    status, report = load("--connections", 2, "--parallel", 4, "--rate", 100, "--duration", 1, *on(gateway, "/"))
    assert (status, report["errors"]) == (0, {}), report
    due = report["requests"] + report["open_loop"]["unsent"]
    # It ends somewhat later where the machine is slow. Those still under way then, eight at most, are neither answered nor unsent.
    expected = 100 * report["duration_seconds"]
    assert expected - 8 - 1 <= due <= expected + 2, report


def test_idle_connections_are_held(start_gateway, own_upstream):
    gateway = start_gateway({"service": own_upstream.address})
    own_upstream.answer = lambda _: OK
    status, report = load("--mode", "idle", "--hold", "0.2", "--connections", 3, *on(gateway, "/"))
    assert (status, report["errors"], report["requests"]) == (0, {}, 3), report


def test_a_server_that_speaks_no_http2_is_a_failure(start_gateway, own_upstream):
    gateway = start_gateway({"service": own_upstream.address}, protocols=["http/1.1"])
    status, report = load("--connections", 1, *on(gateway, "/"))
    assert (status, list(report["errors"]), report["requests"]) == (1, ["tls"], 0), report


def test_refusals_are_reported_by_status(start_gateway, own_upstream):
    gateway = start_gateway({"service": own_upstream.address})
    own_upstream.answer = lambda _: b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno"
    status, report = load("--connections", 2, "--parallel", 5, *on(gateway, "/"))
    assert (status, list(report["errors"])) == (1, ["status"]), report
    assert report["statuses"] == {"403": report["requests"]} and report["requests"] > 0


@pytest.mark.parametrize("arguments", [
    ["--parallel", "2"], ["--http2", "--parallel", "0"], ["--http2", "--parallel", "1001"],
    ["--http2", "--parallel", "2", "--mode", "handshake"], ["--http2", "--parallel", "2", "--mode", "idle"],
])
def test_options_that_do_not_go_together_are_usage(arguments):
    done = subprocess.run(
        [BINARY.with_name("attestgate-load"), "--ca", "x", *arguments, "https://localhost/"], capture_output=True, text=True,
        timeout=PATIENCE, env=ENVIRONMENT)
    assert (done.returncode, "--parallel" in done.stderr) == (2, True), done.stderr
