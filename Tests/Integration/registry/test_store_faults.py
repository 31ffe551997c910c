"""The registry's file on a disk of its own that fills up or is made read-only, and a file that is damaged."""

import json
import random
import re
import subprocess
from contextlib import contextmanager

import pytest

from support import seeds
from support.denials import assert_denied, assert_used_before_the_start
from support.exposition import scrape
from support.http2_client import HTTP2Client
from support.pki import attestgate
from support.waiting import eventually

SEED = seeds.seed()


def mount(*arguments):
    return subprocess.run(["mount", *map(str, arguments)], capture_output=True, text=True)


@pytest.fixture
def disk(tmp_path):
    """A disk of 4 MiB."""
    directory = tmp_path / "disk"
    directory.mkdir()
    done = mount("-t", "tmpfs", "-o", "size=4m", "tmpfs", directory)
    if done.returncode != 0:
        pytest.skip(f"nothing can be mounted here: {done.stderr.strip()}")
    yield directory
    subprocess.run(["umount", "-l", directory], check=True)


@contextmanager
def filled(disk):
    ballast = disk / "ballast"
    with open(ballast, "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            pass
    yield
    ballast.unlink()


def test_a_full_disk_refuses_only_what_needs_the_registry_until_there_is_room(start_attested, disk):
    attested = start_attested(registry={"path": str(disk / "registry.sqlite")}, counter="window 1024")
    gateway, phone = attested.gateway, attested.phone
    spent = []
    # What is asked of the registry first is a counter.
    phone.challenge()
    with filled(disk), phone.connect() as client:
        # The log has room for some: it was longer before. What finds the store closed already is not looked at; it is opened again
        # each half second, until a counter fails in it.
        def fails_to_commit():
            data = phone.request(path="/a")
            response = client.exchange(data)
            if response.status != 200:
                assert_denied(gateway, response, "store_unavailable", 503)
                if "stays spent" not in gateway.logged(trace_id=json.loads(response.content)["trace_id"])["detail"]:
                    return False
            spent.append(data)
            return response.status != 200
        eventually(fails_to_commit, "the disk to be full")
        eventually(lambda: "database or disk is full" in gateway.errors, lambda: f"the log to say so\n{gateway.errors}")
        assert "requests that need it are refused" in gateway.errors
        assert scrape(gateway)("attestgate_registry_errors_total") >= 1

        def is_told():
            client.exchange(phone.request(path="/b"))
            return scrape(gateway)("attestgate_registry_available") == 0
        eventually(is_told, "the metrics to say so")

        def is_shown():
            """Who looks for the first time now hears why, and since when."""
            client.exchange(phone.request(path="/b"))
            shown = attestgate("status", "--config", gateway.conf_path).stdout
            return re.search(r"^registry +NOT AVAILABLE since 20\S+Z, .*\nregistry's fault +.*disk is full", shown, re.MULTILINE)
        eventually(is_shown, "the status to say so")

    def recovers():
        with phone.connect() as client:
            return client.exchange(phone.request(path="/a")).status == 200
    eventually(recovers, lambda: f"the store to recover\n{gateway.errors}")
    assert "registry: available again" in gateway.errors
    registry = json.loads(attestgate("status", "--config", gateway.conf_path, "--json").stdout)["registry"]
    assert registry["available"] and not {"reason", "unavailable_since"} & set(registry)
    passed = [request.target for request in attested.upstream.requests].count("/a")
    with phone.connect() as client:
        for data in spent:
            assert_denied(gateway, client.exchange(data), "counter_replayed", 401)
    assert [request.target for request in attested.upstream.requests].count("/a") == passed


def test_a_value_whose_commit_failed_was_never_forwarded_and_is_used_while_the_process_lives(start_attested, disk):
    """In memory. After kill -9 it is as unused as its request is undelivered; what was forwarded stays used."""
    attested = start_attested(registry={"path": str(disk / "registry.sqlite")}, counter="window 1024")
    gateway, phone = attested.gateway, attested.phone
    phone.challenge()
    forwarded, failed = [], []
    with filled(disk), phone.connect() as client:
        def fails_to_commit():
            data = phone.request(path="/a")
            response = client.exchange(data)
            if response.status == 200:
                forwarded.append(phone.counter)
                return False
            assert_denied(gateway, response, "store_unavailable", 503)
            if "stays spent" not in gateway.logged(trace_id=json.loads(response.content)["trace_id"])["detail"]:
                return False
            failed.append((phone.counter, data))
            return True
        eventually(fails_to_commit, "a commit to fail")
        counter, data = failed[0]
        # While the registry is closed everything is refused; never is it forwarded.
        assert client.exchange(data).status in (401, 503)
        gateway.crash()
    gateway.start()
    phone.kept = None
    received = [request.values("attest-counter")[0] for request in attested.upstream.requests]
    assert str(counter) not in received and set(map(str, forwarded)) <= set(received)
    with phone.connect() as client:
        assert client.exchange(phone.request(path="/a", counter=counter)).status == 200
        for used in [counter, *forwarded]:
            assert_denied(gateway, client.exchange(phone.request(path="/a", counter=used)), "counter_replayed", 401)
    received = [request.values("attest-counter")[0] for request in attested.upstream.requests]
    assert received.count(str(counter)) == 1


def test_a_read_only_registry_is_refused_at_the_start(start_attested, disk):
    attested = start_attested(registry={"path": str(disk / "registry.sqlite")})
    gateway, phone = attested.gateway, attested.phone
    data = phone.request(path="/a")
    with phone.connect() as client:
        assert client.exchange(data).status == 200
    gateway.halt()
    done = mount("-o", "remount,ro", disk)
    assert done.returncode == 0, done.stderr
    try:
        status, said = start_in_vain(gateway)
        assert status == 1
        assert f"registry: {disk}: this user cannot create files in it" in said
    finally:
        assert mount("-o", "remount,rw", disk).returncode == 0
    gateway.start()
    with phone.connect() as client:
        assert_used_before_the_start(gateway, client, phone, data)
        assert client.exchange(phone.request(path="/a")).status == 200


def test_a_file_system_that_becomes_read_only_refuses_only_what_needs_the_registry(start_attested, tmp_path):
    """As ext4 does after an error: open files stay open, and writing fails with EROFS, here from the tracer."""
    attested = start_attested(counter="window 1024")
    gateway, phone = attested.gateway, attested.phone
    phone.challenge()
    writes = "pwrite64,ftruncate,fdatasync,fsync,unlink"
    with phone.connect() as client:
        passed = phone.request(path="/a")
        assert client.exchange(passed).status == 200
        with gateway.traced(tmp_path / "trace", "-e", f"trace={writes}", "-e", f"inject={writes}:error=EROFS"):
            with attested.nothing_forwarded_at_all():
                spent = phone.request(path="/a")
                assert_denied(gateway, client.exchange(spent), "store_unavailable", 503)
                assert_denied(gateway, client.exchange(phone.request(path="/a")), "store_unavailable", 503)
            eventually(lambda: "disk I/O error" in gateway.errors, lambda: f"the log to say so\n{gateway.errors}")
            assert scrape(gateway)("attestgate_registry_available") == 0
        eventually(
            lambda: client.exchange(phone.request(path="/a")).status == 200, lambda: f"the store to recover\n{gateway.errors}")
        assert "registry: available again" in gateway.errors
        for data in (passed, spent):
            assert_denied(gateway, client.exchange(data), "counter_replayed", 401)
    assert "EROFS" in (tmp_path / "trace").read_text()


SYNCS = ("-e", "trace=fdatasync,fsync", "-e")


def test_a_slow_disk_refuses_nothing(start_attested, tmp_path):
    """Half a second per sync: values that arrive meanwhile join the next one."""
    attested = start_attested(counter="window 1024")
    gateway, phone = attested.gateway, attested.phone
    requests = [phone.request(path=f"/{number}") for number in range(60)]
    with HTTP2Client(gateway, phone.identity) as client:
        with gateway.traced(tmp_path / "trace", *SYNCS, "inject=fdatasync,fsync:delay_enter=500ms"):
            numbers = [number for start in range(0, 60, 20) for number in client.begin_together(requests[start:start + 20])]
            assert [client.response(number).status for number in numbers] == [200] * 60
    assert sorted(int(request.target[1:]) for request in attested.upstream.requests) == list(range(60))


def test_a_hanging_disk_refuses_requests_until_it_recovers(start_attested, tmp_path):
    attested = start_attested(counter="window 1024")
    gateway, phone = attested.gateway, attested.phone
    phone.challenge()
    refused = []
    with phone.connect() as client:
        with gateway.traced(tmp_path / "trace", *SYNCS, "inject=fdatasync,fsync:delay_enter=600s"):
            with attested.nothing_forwarded_at_all():
                for _ in range(3):
                    refused.append(phone.request(path=f"/refused/{phone.counter + 1}"))
                    assert_denied(gateway, client.exchange(refused[-1]), "store_unavailable", 503)
            assert gateway.process.poll() is None
        eventually(
            lambda: client.exchange(phone.request(path="/a")).status == 200, lambda: f"the store to recover\n{gateway.errors}")
        # The first was on its way, and is spent; the others were refused before that.
        assert_denied(gateway, client.exchange(refused[0]), "counter_replayed", 401)
        for data in refused[1:]:
            client.exchange(data)
            assert_denied(gateway, client.exchange(data), "counter_replayed", 401)
    seen = [request.target for request in attested.upstream.requests if request.target.startswith("/refused")]
    assert len(seen) == len(set(seen))


def start_in_vain(gateway):
    done = gateway.run()
    return done.returncode, done.stderr


def test_a_damaged_file_is_refused_with_instructions_and_a_restored_copy_serves(start_attested):
    print(f"seed {SEED}")
    chance = random.Random(SEED)
    attested = start_attested()
    gateway, phone = attested.gateway, attested.phone
    path = gateway.conf["registry"]["path"]
    spent = phone.request(path="/a")
    gateway.halt()
    backup = open(path, "rb").read()
    page = chance.randrange(1, len(backup) // 4096)
    for offset in (0, page * 4096):
        damaged = bytearray(backup)
        damaged[offset:offset + 64] = chance.randbytes(64)
        open(path, "wb").write(damaged)
        status, said = start_in_vain(gateway)
        assert status == 1
        assert path in said and "restore it from a backup" in said, said
        done = attestgate("device", "list", "--config", gateway.conf_path)
        assert done.returncode != 0 and "restore it from a backup" in done.stderr, done.stderr
        assert open(path, "rb").read() == damaged
    open(path, "wb").write(backup)
    gateway.start()
    with phone.connect() as client:
        # Signed before: whether it was used since the copy, the copy cannot say.
        assert_denied(gateway, client.exchange(spent), "challenge_required", 401)
        phone.kept = None
        assert client.exchange(phone.request(path="/a")).status == 200
