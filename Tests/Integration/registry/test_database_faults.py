"""A database that fails in every way an operator may meet: what is refused, what standard error says, and that it recovers by
itself when the cause goes."""

import json
import os
import re
import subprocess
import time
from contextlib import contextmanager

import pytest

from support.client import IncompleteResponse, get
from support.database_link import DatabaseLink
from support.denials import assert_denied
from support.exposition import ask, scrape
from support.gateway import Gateway
from support.http2_client import ConnectionOver, HTTP2Client, StreamReset
from support.phone import Phone
from support.pki import Authority
from support.postgresql import PostgreSQL
from support.sharing import APPS, ROUTES, at
from support.waiting import eventually


@pytest.fixture
def link(database):
    made = DatabaseLink(database)
    yield made
    made.close()


@contextmanager
def role(database, cause, cure):
    """Those who are connected stay so: their connections end with the change."""
    database.sql(f"ALTER ROLE attestgate {cause}")
    database.end_connections()
    yield
    database.sql(f"ALTER ROLE attestgate {cure}")


def too_many_connections(database, link):
    return role(database, "CONNECTION LIMIT 0", "CONNECTION LIMIT -1")


def not_let_in(database, link):
    return role(database, "NOLOGIN", "LOGIN")


def locked(database, link):
    return database.locked("counter")


@contextmanager
def read_only(database, link):
    database.sql("ALTER DATABASE attestgate SET default_transaction_read_only = on")
    database.end_connections()
    yield
    database.sql("ALTER DATABASE attestgate RESET default_transaction_read_only")


@contextmanager
def too_slow(database, link):
    """It answers, each time after more than three seconds."""
    link.delay = 3.5
    yield
    link.delay = 0


@contextmanager
def not_there(database, link):
    """Nobody listens any more: its directory is empty."""
    os.rename(link.target, link.target.with_suffix(".away"))
    link.cut()
    yield
    os.rename(link.target.with_suffix(".away"), link.target)


# What fails, and what standard error says of it.
CAUSES = [
    (too_many_connections, "too many connections for role"),
    (not_let_in, "is not permitted to log in"),
    (locked, "due to statement timeout (SQLSTATE 57014)"),
    (read_only, "session is read-only"),
    (too_slow, "no answer within 3000 ms"),
    (not_there, "server closed the connection unexpectedly"),
]


def assert_refused_until_cured(gateway, phone, upstream, failing, message):
    """`failing`: the block within which the database fails."""
    with phone.connect() as client:
        passed = phone.request(path="/a")
        assert client.exchange(passed).status == 200
        refused = []

        def is_refused():
            data = phone.request(path=f"/tried/{phone.counter + 1}")
            response = client.exchange(data)
            if response.status == 200:
                return None
            refused.append(data)
            return response
        with failing:
            for _ in range(2):
                assert_denied(gateway, eventually(is_refused, "a refusal"), "store_unavailable", 503)
            eventually(lambda: message in gateway.errors, lambda: f"{message!r} in\n{gateway.errors}")
            assert scrape(gateway)("attestgate_registry_available") == 0
            assert scrape(gateway)("attestgate_registry_errors_total") >= 1
            registry = json.loads(ask(gateway, "/status")[2])["registry"]
            # What opening it again has found, if that was tried meanwhile.
            assert not registry["available"] and registry["reason"], registry
            assert re.fullmatch(r"20\S+Z", registry["unavailable_since"])

        def recovers():
            return client.exchange(phone.request(path="/a")).status == 200
        eventually(recovers, lambda: f"the gateway to recover\n{gateway.errors}")
        assert "registry: available again" in gateway.errors
        assert scrape(gateway)("attestgate_registry_available") == 1
        assert_denied(gateway, client.exchange(passed), "counter_replayed", 401)
        for data in refused:
            # Refused before its value was looked at, or spent; in no case twice.
            client.exchange(data)
            assert_denied(gateway, client.exchange(data), "counter_replayed", 401)
    seen = [request.target for request in upstream.requests if request.target.startswith("/tried")]
    assert len(seen) == len(set(seen))


@pytest.mark.parametrize("cause, message", CAUSES, ids=[cause.__name__ for cause, _ in CAUSES])
def test_a_failing_database_closes_only_what_needs_it_until_it_recovers(
        start_sharing, pki, own_upstream, database, link, cause, message):
    gateway = start_sharing(registry={"postgresql": link.conf})
    phone = Phone(gateway, pki.phone(f"pg-{cause.__name__}"))
    phone.challenge()
    assert_refused_until_cured(gateway, phone, own_upstream, cause(database, link), message)


def test_a_slow_connection_to_the_database_refuses_nothing(start_sharing, pki, own_upstream, link):
    """A tenth of a second each way."""
    gateway = start_sharing(registry={"postgresql": link.conf})
    phone = Phone(gateway, pki.phone("pg-latency"))
    requests = [phone.request(path=f"/{number}") for number in range(30)]
    link.delay = 0.1
    with HTTP2Client(gateway, phone.identity) as client:
        numbers = client.begin_together(requests)
        assert [client.response(number).status for number in numbers] == [200] * 30
    assert sorted(int(request.target[1:]) for request in own_upstream.requests) == list(range(30))


def test_a_password_that_is_changed_is_read_again(pki, own_upstream, tmp_path):
    database = PostgreSQL(Authority(pki.server_certificate, pki.server_key), password="the first")
    password = tmp_path / "password"

    def write(text):
        password.with_suffix(".new").write_text(text)
        password.with_suffix(".new").chmod(0o600)
        password.with_suffix(".new").replace(password)

    @contextmanager
    def changed():
        database.sql("ALTER ROLE attestgate PASSWORD 'the second'")
        database.end_connections()
        yield
        write("the second\n")
    write("the first\n")
    gateway = None
    try:
        conf = {
            "hosts": ["localhost"], "port": database.port, "password_file": str(password),
            "tls": {"authorities": str(pki.server_ca)}}
        gateway = Gateway(
            tmp_path / "gateway", pki, {"service": own_upstream.address}, ROUTES, apps=APPS,
            registry={"postgresql": conf}).start()
        phone = Phone(gateway, pki.phone("pg-password"))
        assert_refused_until_cured(gateway, phone, own_upstream, changed(), "password authentication failed")
        assert "the first" not in gateway.errors and "the second" not in gateway.errors
    finally:
        if gateway:
            gateway.stop()
        database.close()


@pytest.fixture
def disk(database):
    """A small disk of the database's own, on which it keeps the registry."""
    directory = database.directory / "disk"
    directory.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(directory)], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"nothing can be mounted here: {done.stderr.strip()}")
    try:
        database._own(directory, 0o700)
        database.sql(f"CREATE TABLESPACE small LOCATION '{directory}'")
        database.sql("ALTER DATABASE attestgate SET TABLESPACE small")
        yield directory
    finally:
        database.stop()
        subprocess.run(["umount", "-l", str(directory)], check=True)


def test_a_full_disk_of_the_database_refuses_counters_until_there_is_room(start_sharing, pki, own_upstream, database, disk):
    gateway = start_sharing()
    phone = Phone(gateway, pki.phone("pg-full"))
    phone.challenge()

    @contextmanager
    def filled():
        # A transaction with an old snapshot keeps every version of the row, so that each counter takes room.
        with database.snapshot(), open(disk / "ballast", "wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError:
                pass
            yield
        (disk / "ballast").unlink()
    assert_refused_until_cured(gateway, phone, own_upstream, filled(), "(SQLSTATE 53100)")


def test_a_revocation_is_found_without_a_notification(start_sharing, pki, own_upstream, link):
    """Notifications are lost; polling finds the change. Open connections end in both HTTP versions."""
    first, second = start_sharing(), start_sharing(registry={"postgresql": link.conf})
    phone = Phone(first, pki.phone("pg-unheard"))
    link.drops_notifications = True
    with at(second, phone) as client, HTTP2Client(second, phone.identity) as http2:
        assert client.exchange(phone.request(path="/a")).status == 200
        assert http2.exchange(get("/device")).status == 200
        begun = time.monotonic()
        first.device_command("revoke", str(phone.number))
        # Before it has heard, the database refuses the counter.
        try:
            assert http2.exchange(phone.request(path="/late")).status == 403
        except (ConnectionOver, StreamReset):
            pass
        with pytest.raises(IncompleteResponse):
            client.assert_closed()
        http2.wait_for_end()
        print(f"both connections over {time.monotonic() - begun:.2f} s after the command was begun")
        assert link.dropped >= 1
    assert "/late" not in [request.target for request in own_upstream.requests]
