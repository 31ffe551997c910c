"""Changing the configuration without dropping anyone, and without half of it."""

import copy
import json
import os
import re
import resource
import signal
import socket
import threading

import pytest

from support.client import Client, get
from support.denials import assert_denied
from support.exposition import ask
from support.gateway import Gateway
from support.pki import attestgate
from support.ports import uncommon_port
from support.recording_upstream import RecordingUpstream
from support.reloading import Load, reload
from support.waiting import eventually


@pytest.fixture
def reloadable(start_gateway, own_upstream, tmp_path):
    # A registry brings the administration socket with it.
    return start_gateway({"service": own_upstream.address}, registry={"devices": 64}, workers=2)


def test_a_reload_changes_routes_upstreams_and_limits(reloadable, own_upstream, phone):
    gateway, second = reloadable, RecordingUpstream()
    try:
        with Client(gateway, phone, server_name=None) as old:
            assert old.exchange(get("/a")).status == 200
            gateway.conf["upstreams"]["second"] = {"servers": [second.address]}
            gateway.conf["routes"] = [
                {"name": "new", "host": "localhost", "path": "/new", "require": "certificate", "upstream": "second"}]
            gateway.conf["limits"] = {"target": 128}
            gateway.write_conf()
            done = reload(gateway)
            assert (done.returncode, done.stdout) == (0, f"generation 2 of {gateway.conf_path} is served\n"), done.stderr
            with Client(gateway, phone) as new:
                assert new.exchange(get("/new")).status == 200
                assert_denied(gateway, new.exchange(get("/a")), "route_unknown", 404)
                assert_denied(gateway, new.exchange(get("/new/" + "a" * 200)), "too_large", 414)
            assert second.requests and own_upstream.requests
            # The connection from before lives by the rules it came in under.
            assert old.exchange(get("/a")).status == 200
            assert_denied(gateway, old.exchange(get("/nowhere", host="example.org")), "route_unknown", 404)
    finally:
        second.close()


def test_a_reload_command_with_another_conf_file_is_refused(reloadable, phone, tmp_path):
    """Both files name the same socket: the command would report success without its file being read."""
    gateway, other = reloadable, tmp_path / "other.yaml"
    other.write_text(json.dumps(dict(gateway.conf, routes=[])))
    for path in [other, tmp_path / "." / "other.yaml"]:
        done = attestgate("reload", "--config", path)
        assert done.returncode == 1 and not done.stdout
        assert f"was started with {gateway.conf_path}" in done.stderr and str(path) in done.stderr, done.stderr
        assert "name that file with --config, or restart the gateway with this one" in done.stderr
    status = json.loads(ask(gateway, "/status")[2])
    assert status["generation"] == 1 and "last_reload" not in status
    assert json.loads(ask(gateway, "/reload")[2]) == {"file": str(gateway.conf_path)}
    # A link to the file is the file, and so is any spelling of its path.
    link = tmp_path / "link.yaml"
    link.symlink_to(gateway.conf_path)
    for number, path in enumerate([link, f"{gateway.conf_path.parent}/./{gateway.conf_path.name}"], 2):
        done = attestgate("reload", "--config", path)
        assert (done.returncode, done.stdout) == (0, f"generation {number} of {gateway.conf_path} is served\n"), done.stderr


def test_a_reload_command_prints_the_warnings(reloadable, pki):
    """Example: a renewal installed last year's certificate; only the log would show it."""
    gateway = reloadable
    assert "has expired" not in reload(gateway).stderr
    expired = pki.server("reload-expired", start=-3, end=-1)
    gateway.conf["listeners"][0]["tls"].update(certificate=str(expired.certificate), key=str(expired.key))
    gateway.write_conf()
    done = reload(gateway)
    assert (done.returncode, done.stdout) == (0, f"generation 3 of {gateway.conf_path} is served\n"), done.stderr
    assert f"warning: listener 127.0.0.1:{gateway.port}: {expired.certificate}: " in done.stderr, done.stderr
    assert "has expired" in done.stderr and re.search(rf"^{gateway.conf_path}:[0-9]+:[0-9]+: warning", done.stderr, re.M)


def test_sighup_reloads_as_well(reloadable, phone):
    gateway = reloadable
    gateway.conf["routes"][0]["path"] = "/moved"
    gateway.write_conf()
    gateway.signal(signal.SIGHUP)

    def is_served():
        with Client(gateway, phone) as client:
            return client.exchange(get("/moved")).status == 200
    eventually(is_served, "the new generation to be served")
    eventually(lambda: "generation 2" in gateway.errors, "the log to say so")


@pytest.mark.parametrize("spoil, reason", [
    (lambda conf: conf.update(routes=[]), "routes"),
    (lambda conf: conf["routes"][0].update(upstream="nowhere"), "there is no upstream `nowhere`"),
    (lambda conf: conf["listeners"][0]["tls"].update(certificate="/nowhere.pem"), "nowhere.pem"),
    (lambda conf: conf.update(workers=3), "more threads require a restart, or `attestgate upgrade`"),
    (lambda conf: conf.update(workers=1), "fewer threads require a restart\n"),
    (lambda conf: conf["registry"].update(devices=128), "registry: another registry requires a restart"),
    (lambda conf: conf["upstreams"]["service"].update(servers=[conf["listeners"][0]["address"]]), "is a listener of the gateway itself"),
], ids=["empty", "contradiction", "certificate", "more workers", "fewer workers", "registry", "loop"])
def test_a_failed_reload_changes_nothing_and_says_so(reloadable, phone, spoil, reason):
    gateway, good = reloadable, copy.deepcopy(reloadable.conf)
    spoil(gateway.conf)
    gateway.write_conf()
    done = reload(gateway)
    assert done.returncode == 1 and reason in done.stderr, done.stderr
    eventually(lambda: "not reloaded, nothing changed" in gateway.errors, "the log to say so")
    with Client(gateway, phone) as client:
        assert client.exchange(get("/a")).status == 200
    gateway.conf = good
    gateway.write_conf()
    assert reload(gateway).returncode == 0


@pytest.mark.parametrize("place", ["certificate", "key", "authorities", "secret"])
def test_a_pipe_in_place_of_a_file_fails_the_reload_without_blocking(reloadable, tmp_path, phone, place):
    """Opening a pipe waits for a writer, and the next reload would wait for this one."""
    gateway, good = reloadable, copy.deepcopy(reloadable.conf)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o600)
    listener = gateway.conf["listeners"][0]
    if place == "authorities":
        listener["clients"]["authorities"] = [str(pipe)]
    elif place == "secret":
        secret = gateway.conf["registry"]["secret"]
        os.rename(secret, tmp_path / "kept")
        os.rename(pipe, secret)
    else:
        listener["tls"][place] = str(pipe)
    gateway.write_conf()
    done = reload(gateway)
    assert done.returncode == 1 and "is not a regular file" in done.stderr, done.stderr
    if place == "secret":
        os.rename(tmp_path / "kept", secret)
    gateway.conf = good
    gateway.write_conf()
    assert reload(gateway).returncode == 0
    with Client(gateway, phone) as client:
        assert client.exchange(get("/a")).status == 200


def test_an_address_in_use_fails_the_reload(reloadable, phone):
    gateway = reloadable
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listener = dict(gateway.conf["listeners"][0], address="127.0.0.1:%d" % taken.getsockname()[1])
        gateway.conf["listeners"].append(listener)
        gateway.write_conf()
        done = reload(gateway)
        assert done.returncode == 1 and "in use" in done.stderr
    with Client(gateway, phone) as client:
        assert client.exchange(get("/a")).status == 200


def test_a_reload_adds_and_removes_listeners(reloadable, phone):
    gateway = reloadable
    first = gateway.conf["listeners"][0]
    port = uncommon_port()
    gateway.conf["listeners"] = [first, dict(first, address=f"127.0.0.1:{port}")]
    gateway.write_conf()
    assert reload(gateway).returncode == 0
    held, gateway.port = gateway.port, port
    with Client(gateway, phone) as client:
        assert client.exchange(get("/a", host=f"localhost:{port}")).status == 200
        gateway.port = held
        gateway.conf["listeners"] = [first]
        gateway.write_conf()
        assert reload(gateway).returncode == 0
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port)).close()
        # Who came in by it stays.
        assert client.exchange(get("/a", host=f"localhost:{port}")).status == 200
    with Client(gateway, phone) as client:
        assert client.exchange(get("/a")).status == 200


@pytest.mark.parametrize("spare", range(8))
def test_a_reload_without_descriptors_changes_nothing(reloadable, phone, spare):
    """A reload acquires everything before it changes anything, so no worker loses its listeners."""
    gateway = reloadable
    eventually(lambda: ask(gateway, "/health/ready")[0] == 200, "every worker to serve")
    # What was asked and is closed already counts no more.
    eventually(lambda: gateway.connections() <= 1, "the questions' connections to be closed")
    before = gateway.descriptors()
    resource.prlimit(gateway.process.pid, resource.RLIMIT_NOFILE, (before + spare, 20_000))
    gateway.signal(signal.SIGHUP)
    eventually(lambda: "reloaded" in gateway.errors, lambda: f"an outcome\n{gateway.errors}")
    resource.prlimit(gateway.process.pid, resource.RLIMIT_NOFILE, (20_000, 20_000))
    for _ in range(10):
        with Client(gateway, phone) as client:
            assert client.exchange(get("/a")).status == 200
    assert reload(gateway).returncode == 0
    with Client(gateway, phone) as client:
        assert client.exchange(get("/a")).status == 200


def test_old_generations_are_bounded_though_the_oldest_is_busy(start_gateway, own_upstream, phone):
    gateway = start_gateway({"service": own_upstream.address}, timeouts={"shutdown": "1s"})
    release = threading.Event()

    def slow(connection):
        connection.read_request()
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n")
        release.wait(30)
    own_upstream.script = slow
    kept = []
    try:
        with Client(gateway, phone) as busy:
            busy.send(get("/a"))
            assert busy.read_head().status == 200
            own_upstream.reset_behaviour()
            for _ in range(14):
                client = Client(gateway, phone)
                kept.append(client)
                assert client.exchange(get("/a")).status == 200
                assert reload(gateway).returncode == 0
            eventually(lambda: retired(gateway) <= 8, lambda: f"{retired(gateway)} old generations")
            # The newest of them are served still.
            assert kept[-1].exchange(get("/a")).status == 200
    finally:
        release.set()
        for client in kept:
            client.close()


def test_connections_of_more_than_eight_generations_ago_end(start_gateway, own_upstream, phone):
    gateway = start_gateway({"service": own_upstream.address}, timeouts={"shutdown": "10s", "keep_alive": "5m"})
    with Client(gateway, phone) as used, Client(gateway, phone) as unused:
        for client in [used, unused]:
            assert client.exchange(get("/a")).status == 200
        for _ in range(8):
            assert reload(gateway).returncode == 0
        assert used.exchange(get("/a")).values("connection") == []
        assert reload(gateway).returncode == 0
        # In order: no request that is on its way fails.
        assert used.exchange(get("/a")).value("connection") == "close"
        used.assert_closed()
        unused.assert_closed()
    eventually(lambda: retired(gateway) == 0, lambda: f"{retired(gateway)} old generations")


def retired(gateway):
    status = json.loads(ask(gateway, "/status")[2])
    return max(worker["retired_generations"] for worker in status["workers"])


def test_load_runs_through_fifty_reloads_and_nothing_leaks(reloadable, own_upstream, phone):
    """Each reload changes routes, upstreams and limits. Counts before and after are of an idle gateway."""
    gateway, second = reloadable, RecordingUpstream()
    certain = gateway.conf["routes"][0]

    def change(number):
        gateway.conf["upstreams"]["second"] = {"servers": [second.address], "connections": 200 + number}
        gateway.conf["routes"] = [
            dict(certain, upstream=["service", "second"][number % 2]),
            *[dict(certain, name=f"extra-{n}", path=f"/extra-{n}") for n in range(number % 5)]]
        gateway.conf["limits"] = {"connections": 1000 + number, "fields": 20 + number % 3}
        gateway.write_conf()
        done = reload(gateway)
        assert done.returncode == 0, done.stderr
    try:
        change(0)
        warm = Load(gateway, phone)
        for number in range(5):
            change(number)
        warm.end()
        descriptors, memory, mapped = gateway.descriptors(), gateway.resident_bytes(), gateway.mapped_bytes()
        load = Load(gateway, phone)
        for number in range(50):
            change(number)
        load.end()
        assert load.answered > 100
        eventually(lambda: gateway.descriptors() <= descriptors + 8,
                   lambda: f"{descriptors} descriptors before, {gateway.descriptors()} after")
        grown = gateway.resident_bytes() - memory
        assert grown < 16 * 1024 * 1024, f"{grown} octets more after fifty reloads"
        # The thread that reads the files has a stack of 8 MiB.
        grown = gateway.mapped_bytes() - mapped
        assert grown < 200 * 1024 * 1024, f"{grown} octets more of address space: stacks of threads that have ended?"
    finally:
        second.close()


def test_load_runs_through_a_restart(start_gateway, own_upstream, phone, pki, tmp_path):
    """The new process listens before the old one receives its signal; new connections never wait, and none is refused."""
    old = start_gateway({"service": own_upstream.address}, workers=2)
    new = Gateway(tmp_path / "new", pki, {"service": own_upstream.address}, workers=2)
    new.conf["listeners"], new.port = old.conf["listeners"], old.port
    load = Load(old, phone)
    try:
        eventually(lambda: load.answered > 50, "requests to be answered")
        new.start()
        load.is_draining.set()
        old.signal()
        assert old.wait() == 0
        load.has_drained.set()
        answered = load.answered
        eventually(lambda: load.answered > answered + 50, "the new process to answer")
    finally:
        try:
            load.end()
        finally:
            new.stop()


def test_a_drain_completes_requests_in_flight_and_a_second_signal_ends_at_once(reloadable, own_upstream, phone):
    gateway = reloadable
    release = threading.Event()

    def slow(connection):
        connection.read_request()
        release.wait(20)
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    own_upstream.script = slow
    with Client(gateway, phone) as busy, Client(gateway, phone) as idle:
        idle_request = get("/.well-known/attestgate/challenge")
        assert idle.exchange(idle_request).status == 204
        busy.send(get("/a")).wait_until_delivered()
        eventually(lambda: any(c.received for c in own_upstream.connections), "the request to arrive")
        gateway.signal()
        idle.assert_closed()
        release.set()
        response = busy.read_response()
        assert (response.status, response.values("connection")) == (200, ["close"])
        busy.assert_closed()
    assert gateway.wait() == 0


def test_a_generation_that_lost_its_routes_still_drains(reloadable, phone):
    gateway = reloadable
    with Client(gateway, phone) as old:
        assert old.exchange(get("/a")).status == 200
        gateway.conf["routes"][0]["path"] = "/moved"
        gateway.write_conf()
        assert reload(gateway).returncode == 0
        gateway.signal()
        old.assert_closed()
    assert gateway.wait() == 0
