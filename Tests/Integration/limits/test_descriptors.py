"""File descriptors run out: that is the gateway's fault, not a server's, and no proof is spent for it."""

import json
import re
import resource
import socket
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from support.attested import Attested
from support.client import Client, IncompleteResponse, get
from support.exposition import scrape
from support.gateway import Gateway
from support.http2_client import HTTP2Client
from support.paths import BINARY, PATIENCE
from support.pki import attestgate
from support.recording_upstream import RecordingUpstream
from support.waiting import eventually

LIMIT = 256
CLIENTS = 150


class Limited(Gateway):
    """A gateway that may open so many files."""

    limit = LIMIT

    def command(self):
        return ["prlimit", f"--nofile={self.limit}:{self.limit}", *super().command()]


class SlowService:
    """Answers each request after a while, and notes the counters that it has received."""

    # Of an answer.
    seconds = 0.5

    def __init__(self):
        self.counters, self.lock = [], threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        buffer = b""
        with connection:
            while True:
                while b"\r\n\r\n" not in buffer:
                    try:
                        data = connection.recv(65536)
                    except OSError:
                        return
                    if not data:
                        return
                    buffer += data
                head, buffer = buffer.split(b"\r\n\r\n", 1)
                counter = re.search(rb"(?i)^attest-counter: (\d+)", head, re.MULTILINE)
                with self.lock:
                    if counter:
                        self.counters.append(int(counter[1]))
                time.sleep(self.seconds)
                try:
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
                except OSError:
                    return

    def close(self):
        self.listener.close()


@pytest.fixture
def scarce(pki, tmp_path, monkeypatch):
    """A gateway with few descriptors before two slow servers. `phone`: whose counters may come in any order."""
    from support import attested as module
    monkeypatch.setattr(module, "Gateway", Limited)
    services = [SlowService(), SlowService()]
    made = []

    def start(**settings):
        class Upstream:
            address = services[0].address
            byte_count = 0
        scarce = Attested(
            tmp_path / "scarce", pki, Upstream, counter="window 1024",
            upstream_settings={"servers": [service.address for service in services], "waiting_timeout": "1m"}, **settings)
        scarce.services = services
        made.append(scarce)
        return scarce

    yield start
    for scarce in made:
        scarce.gateway.stop()
    for service in services:
        service.close()


def delivered(scarce):
    return sorted(counter for service in scarce.services for counter in service.counters)


def failures(gateway):
    metrics = scrape(gateway)
    name = "attestgate_upstream_failures_total"
    return {labels["kind"]: int(metrics(name, **labels)) for labels in metrics.labels(name) if metrics(name, **labels)}


def assert_no_server_blamed(scarce, statuses):
    print("statuses", {status: statuses.count(status) for status in set(statuses)}, "failures", failures(scarce.gateway))
    assert 502 not in statuses and 504 not in statuses
    metrics = scrape(scarce.gateway)
    assert metrics("attestgate_upstream_server_ejections_total") == 0
    assert "unreachable" not in failures(scarce.gateway)


def assert_spent_is_delivered(scarce, proofs):
    """`proofs`: requests by their counters. What no server has received passes now, and each counter reached one server once."""
    received = delivered(scarce)
    assert len(received) == len(set(received)), "no counter passes twice"
    left = sorted(set(proofs) - set(received))
    print(f"{len(received)} of {len(proofs)} proofs delivered, {len(left)} usable again")
    with scarce.phone.connect() as client:
        for counter in left:
            assert client.exchange(proofs[counter]).status == 200, f"counter {counter} was spent, and no server has seen it"


def proofs_of(phone, count):
    phone.challenge()
    proofs = {}
    for _ in range(count):
        request = phone.request(path="/a")
        proofs[phone.counter] = request
    return proofs


def test_a_crowd_of_clients_is_not_blamed_on_the_servers(scarce):
    scarce = scarce(workers=2)
    # So that all that get in are there at once.
    for service in scarce.services:
        service.seconds = 3
    proofs = proofs_of(scarce.phone, CLIENTS)
    together = threading.Barrier(CLIENTS)

    def ask(request):
        together.wait()
        try:
            with Client(scarce.gateway, scarce.phone.identity) as client:
                response = client.exchange(request)
        except (OSError, IncompleteResponse):
            return "closed"
        return response.status

    with ThreadPoolExecutor(CLIENTS) as pool:
        statuses = list(pool.map(ask, proofs.values()))
    assert_no_server_blamed(scarce, statuses)
    assert_spent_is_delivered(scarce, proofs)
    # Who does not get in at once waits in the kernel.
    assert statuses.count(200) == CLIENTS


def test_many_streams_wait_for_descriptors_and_no_server_is_blamed(scarce):
    """More requests at once than there are descriptors for connections to the servers."""
    scarce = scarce(workers=1, limits={"streams": 100})
    proofs = proofs_of(scarce.phone, 300)
    requests = list(proofs.values())
    clients = [HTTP2Client(scarce.gateway, scarce.phone.identity) for _ in range(4)]
    statuses = []

    def ask(client, part):
        numbers = client.begin_together(part)
        for number in numbers:
            statuses.append(client.response(number).status)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(ask, clients, [requests[place::4] for place in range(4)]))
    for client in clients:
        client.close()
    assert_no_server_blamed(scarce, statuses)
    assert failures(scarce.gateway).keys() <= {"exhausted"}
    assert_spent_is_delivered(scarce, proofs)


def checks(gateway, result):
    return scrape(gateway)("attestgate_upstream_server_checks_total", result=result)


def test_a_proof_is_not_spent_while_no_connection_can_be_opened(start_attested, own_upstream):
    """Every one of 40 proofs passes afterwards, and neither requests nor checks have spoken against the server."""
    own_upstream.is_checked = True
    attested = start_attested(
        counter="window 1024",
        upstream_settings={
            "idle_connections": 0, "waiting_timeout": "100ms",
            "health": {"path": "/health", "interval": "1s", "timeout": "500ms", "unhealthy_after": 1}})
    gateway, old = attested.gateway, resource.prlimit(attested.gateway.process.pid, resource.RLIMIT_NOFILE)
    proofs = proofs_of(attested.phone, 41)
    with attested.phone.connect() as client, attested.phone.connect() as sentinel:
        assert sentinel.exchange(proofs.pop(min(proofs))).status == 200
        eventually(lambda: checks(gateway, "passed") > 0, "a check to pass")
        eventually(lambda: gateway.connections() == 2, "all other connections to be closed")
        resource.prlimit(gateway.process.pid, resource.RLIMIT_NOFILE, (gateway.lowest_free_descriptor(), old[1]))
        try:
            answers = [client.exchange(proofs[counter]) for counter in sorted(proofs)]
            # A check is due meanwhile.
            time.sleep(1.5)
        finally:
            resource.prlimit(gateway.process.pid, resource.RLIMIT_NOFILE, old)
        print("during the lack:", {status: [a.status for a in answers].count(status) for status in {a.status for a in answers}})
        passed = checks(gateway, "passed")
        eventually(lambda: checks(gateway, "passed") > passed, "checks to pass")
        again = [client.exchange(proofs[counter]).status for counter in sorted(proofs)]
        print("after the lack:", {status: again.count(status) for status in set(again)})
        assert {answer.status for answer in answers} == {503}
        assert {json.loads(answer.content)["error"] for answer in answers} == {"overloaded"}
        assert {answer.value("retry-after") for answer in answers} == {"1"}
    assert again.count(200) == 40
    assert set(failures(gateway)) == {"exhausted"}
    assert scrape(gateway)("attestgate_upstream_server_ejections_total") == 0
    assert checks(gateway, "failed") == 0


def test_operators_are_served_while_clients_hold_all_they_may(start_gateway, own_upstream, phone):
    gateway = start_gateway({"service": own_upstream.address}, kind=Limited)
    held = []
    try:
        for _ in range(LIMIT):
            held.append(socket.create_connection(("127.0.0.1", gateway.port), timeout=PATIENCE))
        eventually(lambda: any(e["event"] == "accept_paused" for e in gateway.access()), "accepting to pause")
        open_ = gateway.descriptors()
        assert open_ < LIMIT - 16
        # Metrics, a reload with new listening sockets, and the log: each needs descriptors of its own.
        assert scrape(gateway)("attestgate_accept_pauses_total") >= 1
        done = attestgate("reload", "--config", gateway.conf_path)
        assert done.returncode == 0, done.stderr
        done = attestgate("reopen-logs", "--config", gateway.conf_path)
        assert done.returncode == 0, done.stderr
    finally:
        for connection in held:
            connection.close()
    with Client(gateway, phone) as client:
        assert client.exchange(get("/a")).status == 200


# What is said of the limit.

def conf_of(pki, tmp_path, **settings):
    upstream = RecordingUpstream()
    gateway = Gateway(tmp_path / "unstarted", pki, {"service": upstream.address}, **settings)
    gateway.write_conf()
    upstream.close()
    gateway.holder.close()
    return gateway.conf_path


def run_with(limit, command, conf):
    return subprocess.run(
        ["prlimit", f"--nofile={limit}:{limit}", BINARY, command, "--config", conf],
        capture_output=True, text=True, timeout=PATIENCE)


def test_check_compares_the_limit_with_what_the_configuration_can_need(pki, tmp_path):
    conf = conf_of(pki, tmp_path)
    done = run_with(LIMIT, "check", conf)
    assert done.returncode == 0
    assert re.search(
        r"warning: this process can open 256 files, and the configuration can require 1\d{4}: 10000 connections of clients, "
        r"1024 to upstreams, \d+ others\. .*LimitNOFILE", done.stderr), done.stderr
    done = run_with(20_000, "check", conf)
    assert done.returncode == 0 and "files" not in done.stderr


@pytest.mark.parametrize("command", ["check", "run"])
def test_too_few_descriptors_to_work_at_all_are_refused(pki, tmp_path, command):
    done = run_with(48, command, conf_of(pki, tmp_path))
    assert done.returncode == 1
    assert re.search(r"this process can open 48 files, and needs at least \d+: raise LimitNOFILE", done.stderr), done.stderr


@pytest.mark.parametrize("workers", [1, 4])
def test_the_estimate_of_what_an_idle_gateway_has_open_holds(start_attested, workers):
    """As `DescriptorBudget.base` has it, with a registry."""
    gateway = start_attested(workers=workers).gateway
    eventually(lambda: gateway.connections() == 0, "the connections of the start to be closed")
    print(gateway.descriptors(), "open with", workers, "workers")
    assert gateway.descriptors() <= 48 + 7 * workers + 1 * workers + 1


def test_the_start_warns_of_too_few_descriptors(start_gateway, own_upstream):
    gateway = start_gateway({"service": own_upstream.address}, kind=Limited)
    assert "this process can open 256 files, and the configuration can require" in gateway.errors
