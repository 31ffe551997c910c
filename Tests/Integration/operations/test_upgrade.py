"""A newer program takes over from a running gateway: no request fails for it, no proof is good twice, and one of the two
serves, whatever happens to the other.

ATTESTGATE_UPGRADES says how many upgrades there are under load (2).
"""

import http.client
import json
import os
import random
import re
import signal
import threading
import time

import pytest

from support import seeds
from support.denials import assert_denied, code_of
from support.exposition import ask
from support.gateway import is_stopped
from support.http2_client import HTTP2Client
from support.paths import BINARY
from support.phone import Phone
from support.pki import attestgate
from support.ports import uncommon_port
from support.taking_over import Orphan, adopt_orphans, has_ended, listening_sockets, parent, successor, upgrade
from support.waiting import eventually

UPGRADES = int(os.environ.get("ATTESTGATE_UPGRADES", "2"))

pytestmark = pytest.mark.usefixtures("orphans")


@pytest.fixture(scope="module")
def orphans():
    adopt_orphans()


class Load(threading.Thread):
    """A phone that sends one proof after the other, and takes another connection when the gateway has ended its own."""

    def __init__(self, attested, phone, sends_content=False):
        super().__init__(daemon=True)
        self.attested, self.phone, self.content = attested, phone, b"content" * 100 if sends_content else None
        self.stopping = threading.Event()
        self.statuses, self.connections, self.fault, self.last = [], 0, None, None

    def request(self):
        self.last = self.phone.request("POST" if self.content else "GET", "/", content=self.content)
        return self.last

    def run(self):
        try:
            while not self.stopping.is_set():
                self.connections += 1
                self.use_connection()
        except Exception as fault:
            self.fault = fault

    def stop(self):
        self.stopping.set()
        self.join()
        assert self.fault is None, f"after {len(self.statuses)} requests on {self.connections} connections: {self.fault!r}"
        assert set(self.statuses) == {200}


class HTTP1Load(Load):
    def use_connection(self):
        with self.phone.connect() as client:
            is_last = False
            while not is_last and not self.stopping.is_set():
                response = client.exchange(self.request())
                self.statuses.append(response.status)
                is_last = "close" in response.values("Connection")


class HTTP2Load(Load):
    def use_connection(self):
        with HTTP2Client(self.attested.gateway, self.phone.identity) as client:
            while not client.going_away and not self.stopping.is_set():
                self.statuses.append(client.exchange(self.request()).status)


def goes_on(loads, count=20):
    goals = {load: len(load.statuses) + count for load in loads}
    eventually(lambda: all(load.fault or len(load.statuses) >= goal for load, goal in goals.items()), "the load to go on")


def test_an_upgrade_fails_no_request_and_takes_no_proof_twice(start_attested):
    attested = start_attested(workers=2)
    gateway = attested.gateway
    sockets = listening_sockets(gateway.port)
    loads = [kind(attested, attested.new_phone(), content) for kind in (HTTP1Load, HTTP2Load) for content in (False, True)]
    for load in loads:
        load.phone.challenge()
        load.start()
    witness = attested.phone
    for number in range(UPGRADES):
        goes_on(loads)
        with witness.connect() as client:
            spent = witness.request()
            assert client.exchange(spent).status == 200
            before = upgrade(gateway)
            goes_on(loads)
            # A client that has not seen the end sends once more, or finds the connection ended as if it had been idle for long.
            with witness.connect() as other:
                assert_denied(gateway, other.exchange(spent), "counter_replayed", 401)
                assert other.exchange(witness.request()).status == 200
        assert has_ended(gateway, before), gateway.errors
        assert listening_sockets(gateway.port) == sockets
        # The service manager supervises it: it is no child of a process that has ended.
        assert parent(gateway.process.pid) == os.getpid()
    for load in loads:
        load.stop()
        # Neither stayed with a process that was about to end.
        assert load.connections > UPGRADES


def test_a_failed_upgrade_leaves_every_listener_with_the_old_process(start_attested, tmp_path):
    """The upgrade fails at any point: the gateway keeps serving and logs the reason."""
    token, port = tmp_path / "token", uncommon_port()
    token.write_text("a-token-for-the-administration-0123456789")
    token.chmod(0o600)
    attested = start_attested(administration={
        "socket": str(tmp_path / "admin.sock"),
        "listeners": [{"address": f"127.0.0.1:{port}", "token_file": str(token)}]})
    gateway, phone = attested.gateway, attested.phone
    program = tmp_path / "attestgate"
    program.symlink_to(BINARY)
    gateway.halt()
    gateway.command = lambda: [program, "run", "--config", gateway.conf_path]
    gateway.start()
    places = {p: listening_sockets(p) for p in (gateway.port, port)}

    def serves(process):
        assert gateway.process is process and process.poll() is None, gateway.errors
        with phone.connect() as client:
            assert client.exchange(phone.request()).status == 200
        gateway.device_command("show", str(phone.number))
        assert {p: listening_sockets(p) for p in places} == places

    def put(text):
        beside = tmp_path / "beside"
        beside.write_text(text)
        beside.chmod(0o755)
        beside.replace(program)

    process = gateway.process
    faults = {
        "it exited with status 3": "#!/bin/sh\nexit 3\n",
        "No such file": None,
        # It says that it is ready, hears that the registry is its own, and is gone.
        "before it served": "#!/usr/bin/python3\nimport socket, os\n"
                            "s = socket.socket(fileno=3)\ns.setblocking(True)\ns.send(b'prepared %d' % os.getpid())\ns.recv(64)\n",
        "did not follow the upgrade protocol": "#!/usr/bin/python3\nimport socket, time\ns = socket.socket(fileno=3)\n"
                          "s.send(b'hello')\ntime.sleep(60)\n",
    }
    for reason, text in faults.items():
        if text is None:
            program.unlink()
        else:
            put(text)
        done = attestgate("upgrade", "--config", gateway.conf_path)
        assert done.returncode == 1 and "not upgraded" in done.stderr and reason in done.stderr, done.stderr
        eventually(lambda: reason in gateway.errors, f"the gateway to log: {reason}")
        serves(process)
    # A program that is good, and a conf file that is not.
    program.unlink()
    program.symlink_to(BINARY)
    good = gateway.conf_path.read_text()
    gateway.conf_path.write_text(good.replace('"require": "request-proof"', '"require": "faith"'))
    done = attestgate("upgrade", "--config", gateway.conf_path, "--socket", tmp_path / "admin.sock")
    gateway.conf_path.write_text(good)
    assert done.returncode == 1 and re.search(r"not upgraded: .*:\d+:\d+: error: .*`faith` is not a known value", done.stderr), done.stderr
    assert has_logged(gateway, "`faith` is not a known value")
    serves(process)
    # One whose secret is none, which is read when the registry is its own: this process has let go of it, and takes it back.
    secret = tmp_path / "secret"
    secret.write_text("no secret")
    secret.chmod(0o600)
    gateway.conf_path.write_text(good.replace(gateway.conf["registry"]["secret"], str(secret)))
    done = attestgate("upgrade", "--config", gateway.conf_path, "--socket", tmp_path / "admin.sock")
    gateway.conf_path.write_text(good)
    assert done.returncode == 1 and f"registry: secret: {secret}: " in done.stderr, done.stderr
    assert has_logged(gateway, f"registry: secret: {secret}: ") and "this process serves again" in gateway.errors
    serves(process)
    # `attestgate status` shows it later too, without the paths.
    shown = attestgate("status", "--config", gateway.conf_path).stdout
    assert re.search(r"^failed upgrade +20\S+Z .*registry: secret: secret: ", shown, re.MULTILINE), shown
    before = upgrade(gateway)
    serves(gateway.process)
    assert has_ended(gateway, before)
    # And from there once more, by the signal.
    before = gateway.process
    gateway.signal(signal.SIGUSR2)
    eventually(lambda: before.poll() is not None, "the previous process to end")
    assert before.returncode == 0
    gateway.process = Orphan(serving_process(gateway))
    serves(gateway.process)


def test_a_gateway_started_by_relative_paths_is_upgraded_twice(start_attested):
    """As the README starts it: `attestgate run --config conf/attestgate.yaml`, with `../var` in the file."""
    attested = start_attested()
    gateway, phone = attested.gateway, attested.phone
    gateway.halt()
    relative = gateway.directory / "relative.yaml"
    relative.write_text(json.dumps(gateway.conf).replace(f"{gateway.directory}/", "./"))
    gateway.command = lambda: ["env", "-C", gateway.directory, BINARY, "run", "--config", relative.name]
    gateway.start()
    for _ in range(2):
        before = upgrade(gateway)
        assert has_ended(gateway, before)
        with phone.connect() as client:
            assert client.exchange(phone.request()).status == 200


def has_logged(gateway, reason):
    """Whether the gateway's own log has it, beside what the other process wrote to the same place."""
    lines = [json.loads(line) for line in gateway.errors.splitlines() if line.startswith("{")]
    messages = [line["message"] for line in lines] or [l for l in gateway.errors.splitlines() if "not upgraded: " in l]
    return any("not upgraded: " in message and reason in message for message in messages)


def serving_process(gateway):
    return json.loads(ask(gateway, "/status")[2])["process"]


def test_if_either_process_is_killed_exactly_one_serves(start_attested, tmp_path):
    attested = start_attested()
    gateway, phone = attested.gateway, attested.phone
    seed = seeds.seed()
    chance = random.Random(seed)
    for _ in range(UPGRADES):
        before = gateway.process
        with phone.connect() as client:
            spent = phone.request()
            assert client.exchange(spent).status == 200
        starts = gateway.errors.count("accepts software phones")
        gateway.signal(signal.SIGUSR2)
        # The new process has read its conf file.
        eventually(lambda: gateway.errors.count("accepts software phones") > starts, "the new process to start")
        time.sleep(chance.uniform(0, 1.3))
        if before.poll() is None:
            before.kill()
        before.wait(30)

        def is_served():
            try:
                return ask(gateway, "/health/ready")[0] == 200 and serving_process(gateway) != before.pid
            except (OSError, http.client.HTTPException):
                return False
        eventually(is_served, lambda: f"the new process to serve\n{gateway.errors}")
        gateway.process = Orphan(serving_process(gateway))
        with phone.connect() as client:
            # A process that was killed before it had closed the file has handed nothing over: its challenges end with it.
            assert code_of(client.exchange(spent)) in ("counter_replayed", "challenge_required")
            assert_denied(gateway, client.exchange(phone.again(spent)), "counter_replayed", 401)
            assert client.exchange(phone.request()).status == 200


def test_an_upgrade_signal_during_a_takeover_does_not_prevent_later_upgrades(start_gateway, own_upstream, tmp_path):
    """SIGUSR2 to all processes of a service: the new process once waited for ever for an answer."""
    gateway = start_gateway({"service": own_upstream.address})
    program, go = tmp_path / "program", tmp_path / "go"
    program.write_text(
        "#!/bin/bash\n"
        f"case $ATTESTGATE_TAKE_OVER in second*) while [ ! -e {go} ]; do sleep 0.02; done;; esac\n"
        f"exec -a $0 {BINARY} \"$@\"\n")
    program.chmod(0o755)
    gateway.halt()
    gateway.command = lambda: [program, "run", "--config", gateway.conf_path]
    before = gateway.start().process
    gateway.signal(signal.SIGUSR2)
    new = successor(gateway)
    with gateway.paused():
        go.touch()
        eventually(lambda: catches(new, signal.SIGUSR2), "the new process to wait for the old one")
        os.kill(new, signal.SIGUSR2)
        eventually(lambda: gateway.errors.count("by SIGUSR2") == 2, "the new process to log its signal")
    assert has_ended(gateway, before)
    gateway.process = Orphan(new)
    assert "not upgraded: the gateway has just started" in gateway.errors
    done = attestgate("reload", "--config", gateway.conf_path)
    assert done.returncode == 0, done.stderr
    assert has_ended(gateway, upgrade(gateway))


def catches(pid, number):
    with open(f"/proc/{pid}/status") as file:
        mask = next(line.split()[1] for line in file if line.startswith("SigCgt:"))
    return int(mask, 16) >> number - 1 & 1


def stop_before_it_serves(gateway):
    """Begins an upgrade. - Returns: the new process, stopped; None if it served before that."""
    gateway.signal(signal.SIGUSR2)
    new = Orphan(successor(gateway))
    os.kill(new.pid, signal.SIGSTOP)
    eventually(lambda: is_stopped(new.pid), "the new process to be stopped")
    if gateway.errors.count("serving ") == 1:
        return new
    os.kill(new.pid, signal.SIGCONT)
    before, gateway.process = gateway.process, new
    assert has_ended(gateway, before)
    gateway.halt()
    return None


def test_stopping_during_an_upgrade_leaves_no_process_serving(start_gateway, own_upstream):
    for _ in range(20):
        gateway = start_gateway({"service": own_upstream.address})
        if new := stop_before_it_serves(gateway):
            break
    assert new, "each new process served at once"
    gateway.signal(signal.SIGTERM)
    assert has_ended(gateway, gateway.process)
    os.kill(new.pid, signal.SIGCONT)
    eventually(lambda: new.poll() is not None, lambda: f"the new process to end\n{gateway.errors}")
    assert gateway.errors.count("serving ") == 1


def test_during_an_upgrade_both_processes_use_the_database(start_sharing, database):
    gateway = start_sharing(workers=2)
    phone = Phone(gateway, gateway.pki.phone("upgraded-phone"))
    with phone.connect() as client, phone.connect() as kept:
        spent = phone.request()
        assert client.exchange(spent).status == 200
        assert kept.exchange(phone.request()).status == 200
        before = upgrade(gateway)
        with phone.connect() as new:
            assert_denied(gateway, new.exchange(spent), "counter_replayed", 401)
            assert new.exchange(phone.request()).status == 200
        assert has_ended(gateway, before)
