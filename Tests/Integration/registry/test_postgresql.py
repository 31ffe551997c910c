"""The registry in PostgreSQL: what was accepted stays spent, whichever process crashes; and several gateways are one."""

import signal
import ssl
import threading

import pytest

from support.attested import ROUTES
from support.client import IncompleteResponse, get
from support.crashing import kill_under_load
from support.denials import assert_denied, code_of
from support.gateway import Gateway
from support.phone import Phone
from support.pki import Authority, attestgate
from support.postgresql import PostgreSQL
from support.recording_upstream import OK
from support.sharing import APPS, at
from support.taking_over import adopt_orphans, has_ended, upgrade
from support.waiting import eventually

@pytest.fixture
def start(start_sharing):
    return start_sharing


def test_a_proof_passes_once_and_not_again_after_a_crash_of_the_gateway(start, pki, own_upstream):
    gateway = start(workers=2)
    phone = Phone(gateway, pki.phone("pg-crash"))
    challenge, sent = phone.challenge(), []
    for _ in range(3):
        batch = kill_under_load(gateway, phone, own_upstream, challenge, 10)
        gateway.start()
        passed = len(own_upstream.requests)
        with phone.connect() as client:
            for data in batch[:-1] + sent:
                assert code_of(client.exchange(data)) == "counter_replayed"
            # The last may have been committed or not; it has passed at most once.
            client.exchange(batch[-1])
            assert client.exchange(batch[-1]).status == 401
        assert len(own_upstream.requests) <= passed + 1
        sent += batch
    with phone.connect() as client:
        assert client.exchange(phone.request(path="/a", nonce=challenge)).status == 200


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGQUIT], ids=["stopped", "crashed"])
def test_without_the_database_nothing_passes_until_it_recovers(
        start, pki, own_upstream, database, end):
    gateway = start()
    phone = Phone(gateway, pki.phone(f"pg-{end.name}"))
    with phone.connect() as client:
        passed = phone.request(path="/a")
        assert client.exchange(passed).status == 200
        database.stop(end)
        count = len(own_upstream.requests)
        refused = [phone.request(path="/a") for _ in range(3)]
        for data in refused:
            assert_denied(gateway, client.exchange(data), "store_unavailable", 503)
        assert len(own_upstream.requests) == count
        database.start()

        def recovered():
            return client.exchange(phone.request(path="/a")).status == 200
        eventually(recovered, lambda: f"the gateway to recover\n{gateway.errors}")
        assert_denied(gateway, client.exchange(passed), "counter_replayed", 401)
    assert "registry: available again" in gateway.errors


def test_a_hanging_database_closes_every_route(start, pki, own_upstream, database):
    gateway = start()
    phone = Phone(gateway, pki.phone("pg-stuck"))
    phone.challenge()
    with phone.connect() as client:
        with database.stuck():
            count = len(own_upstream.requests)
            data = phone.request(path="/a")
            assert_denied(gateway, client.exchange(data), "store_unavailable", 503)

            def is_closed():
                response = client.exchange(get("/certificate"))
                return response.status == 503 and response
            # Once nobody has heard of revocations for five seconds.
            response = eventually(is_closed, "routes without a proof to be refused as well")
            assert_denied(gateway, response, "store_unavailable", 503)
            assert "/a" not in [r.target for r in own_upstream.requests[count:]]
        eventually(lambda: client.exchange(phone.request(path="/b")).status == 200, "the gateway to recover")
        # Whether it was written or not, it stays spent.
        assert_denied(gateway, client.exchange(data), "counter_replayed", 401)


def test_a_proof_that_one_gateway_let_through_is_refused_by_the_other(start, pki, own_upstream):
    first, second = start(), start()
    phone = Phone(first, pki.phone("pg-two"))
    with at(first, phone) as one, at(second, phone) as other:
        # A challenge of one is good at the other, and both know the device now.
        assert one.exchange(phone.request(path="/a")).status == 200
        assert other.exchange(phone.request(path="/a")).status == 200
        for here, gateway, there in [(one, second, other), (other, first, one)]:
            data = phone.request(path="/once")
            assert here.exchange(data).status == 200
            assert_denied(gateway, there.exchange(data), "counter_replayed", 401)
    assert [r.target for r in own_upstream.requests].count("/once") == 2


def test_proofs_sent_to_both_at_once_pass_once(start, pki, own_upstream):
    first, second = start(workers=2), start(workers=2)
    phone = Phone(first, pki.phone("pg-both"))
    requests = [phone.request(path=f"/{number}") for number in range(40)]
    statuses = {}

    def send(gateway):
        with at(gateway, phone) as client:
            for number, data in enumerate(requests):
                statuses.setdefault(number, []).append(client.exchange(data).status)
    threads = [threading.Thread(target=send, args=[gateway]) for gateway in [first, second, first, second]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seen = [r.target for r in own_upstream.requests]
    for number in range(40):
        assert len(statuses[number]) == 4
        # 503 only where others came in between again and again; then nothing passed.
        assert statuses[number].count(200) == seen.count(f"/{number}") <= 1, statuses[number]
        assert set(statuses[number]) <= {200, 401, 503}
    assert len(seen) >= 30, statuses


def test_a_revocation_at_one_gateway_is_seen_by_the_other(start, pki):
    first, second = start(), start()
    phone = Phone(first, pki.phone("pg-revoked"))
    with at(second, phone) as client:
        assert client.exchange(phone.request(path="/a")).status == 200
        assert client.exchange(get("/device")).status == 200
        first.device_command("revoke", str(phone.number))
        # Memory alone answers for this route, and the connection is closed when it hears.
        with pytest.raises(IncompleteResponse):
            client.assert_closed()
    # Memory alone answers in handshakes too.
    with pytest.raises(ssl.SSLError, match="CERTIFICATE_REVOKED"), at(second, phone) as client:
        client.exchange(get("/device"))
    first.device_command("restore", str(phone.number))

    def serves():
        try:
            with at(second, phone) as client:
                return client.exchange(get("/device")).status == 200
        except ssl.SSLError:
            return False
    eventually(serves, "the other gateway to admit the device again")


def test_a_remote_database_is_used_with_tls_and_a_password(pki, own_upstream, tmp_path):
    database = PostgreSQL(Authority(pki.server_certificate, pki.server_key), password="a secret = of 'many' kinds")
    try:
        password = tmp_path / "password"
        password.write_text("a secret = of 'many' kinds\n")
        password.chmod(0o600)
        conf = {
            "hosts": ["localhost"], "port": database.port, "password_file": str(password),
            "tls": {"authorities": str(pki.server_ca)}}
        gateway = Gateway(
            tmp_path / "gateway", pki, {"service": own_upstream.address}, ROUTES, apps=APPS,
            registry={"postgresql": conf}).start()
        phone = Phone(gateway, pki.phone("pg-tls"))
        with phone.connect() as client:
            assert client.exchange(phone.request(path="/a")).status == 200
        encrypted = "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE usename = 'attestgate' AND ssl"
        assert int(database.sql(encrypted)) == 2
        gateway.halt()
        for change, reason in [
                ({"tls": {"authorities": str(pki.gms.certificate)}}, "certificate verify failed"),
                # The same server by a name that its certificate does not have.
                ({"hosts": ["localhost.localdomain"]}, ""), ({"password_file": None}, "password")]:
            section = {name: value for name, value in {**conf, **change}.items() if value is not None}
            gateway.conf["registry"]["postgresql"] = section
            gateway.write_conf()
            done = attestgate("run", "--config", gateway.conf_path)
            assert done.returncode != 0
            assert reason in done.stderr and "a secret" not in done.stderr, done.stderr
    finally:
        database.close()


def test_a_database_may_ask_for_a_certificate_of_the_gateway(pki, own_upstream, tmp_path):
    database = PostgreSQL(Authority(pki.server_certificate, pki.server_key), clients=pki.root)
    try:
        ours = pki.client("pg-role", subject="/CN=attestgate", issuer=pki.root)
        tls = {"authorities": str(pki.server_ca), "certificate": str(ours.certificate), "key": str(ours.key)}
        gateway = Gateway(
            tmp_path / "gateway", pki, {"service": own_upstream.address}, ROUTES, apps=APPS,
            registry={"postgresql": {"hosts": ["localhost"], "port": database.port, "tls": tls}}).start()
        phone = Phone(gateway, pki.phone("pg-certificate"))
        with phone.connect() as client:
            assert client.exchange(phone.request(path="/a")).status == 200
        gateway.halt()
        other = pki.client("pg-other-role", subject="/CN=somebody", issuer=pki.root)
        stranger = pki.client("pg-stranger", subject="/CN=attestgate", issuer=None)
        for change, reason in [
                ({"certificate": None, "key": None}, "requires a valid client certificate"),
                ({"certificate": str(other.certificate), "key": str(other.key)}, "certificate authentication failed"),
                ({"certificate": str(stranger.certificate), "key": str(stranger.key)}, "")]:
            gateway.conf["registry"]["postgresql"]["tls"] = {
                name: value for name, value in {**tls, **change}.items() if value is not None}
            gateway.write_conf()
            done = attestgate("run", "--config", gateway.conf_path)
            assert done.returncode != 0
            assert reason in done.stderr, done.stderr
    finally:
        database.close()


def test_a_database_that_may_lose_what_it_acknowledged_is_refused_at_the_start(start, database):
    gateway = start().halt()
    conf = gateway.conf["registry"]["postgresql"]
    conf["hosts"] = [str(database.directory), str(database.directory) + "/"]
    gateway.write_conf()
    done = attestgate("run", "--config", gateway.conf_path)
    assert done.returncode != 0
    assert "synchronous_standby_names must not be empty" in done.stderr
    conf["hosts"] = conf["hosts"][:1]
    database.sql("ALTER ROLE attestgate SET synchronous_commit = off")
    gateway.write_conf()
    done = attestgate("run", "--config", gateway.conf_path)
    assert done.returncode != 0
    assert "synchronous_commit must not be off" in done.stderr
    database.sql("ALTER ROLE attestgate RESET synchronous_commit")
    gateway.start()


def test_devices_are_administered_through_a_gateway_that_runs(start):
    gateway = start()
    assert gateway.device_command("list").startswith("DEVICE")
    gateway.halt()
    done = attestgate("device", "list", "--config", gateway.conf_path)
    assert done.returncode != 0
    assert "can be administered only through a running gateway" in done.stderr
    gateway.start()


def test_an_unconfirmed_commit_is_reported_with_what_it_waits_for(start, pki, database):
    gateway = start()
    phone = Phone(gateway, pki.phone("pg-alone"))
    database.configure(synchronous_standby_names="ANY 1 (*)")
    try:
        done = attestgate("device", "revoke", "--config", gateway.conf_path, str(phone.number))
        assert done.returncode == 1, done
        eventually(lambda: "COMMIT: no answer in time: is a synchronous standby connected?" in gateway.errors,
                   lambda: f"the reason\n{gateway.errors}")
    finally:
        database.configure(synchronous_standby_names="")


def test_a_synchronous_standby_that_is_promoted_takes_over_with_a_fresh_epoch(start, pki, own_upstream, database):
    """Two gateways, three servers. Counters acknowledged by the old primary are used, and every earlier proof is refused."""
    following = [PostgreSQL(primary=database) for _ in range(2)]
    try:
        database.configure(synchronous_standby_names="ANY 1 (*)")
        hosts = [str(server.directory) for server in [database, *following]]
        first, second = [start(registry={"postgresql": {"hosts": hosts}}) for _ in range(2)]
        phone = Phone(first, pki.phone("pg-promoted"))
        with at(first, phone) as one, at(second, phone) as other:
            sent, unsent = [phone.request(path="/once") for _ in range(4)], phone.request(path="/once")
            for client, data in zip([one, other, one, other], sent):
                assert client.exchange(data).status == 200
            eventually(lambda: database.standbys() == 2, "both standbys to follow")
            database.stop(signal.SIGQUIT)
            assert_denied(first, one.exchange(phone.request(path="/refused")), "store_unavailable", 503)
            successor, last = following
            assert successor.sql("SELECT pg_promote()") == "t"
            last.configure(primary_conninfo=f"host={successor.directory} user=root")
            phone.kept = None

            def serves(client):
                phone.kept = None
                return client.exchange(phone.request(path="/after")).status == 200
            for client, gateway in [(one, first), (other, second)]:
                eventually(lambda: serves(client), lambda: f"the gateway to find the new primary\n{gateway.errors}")
                for data in [*sent, unsent]:
                    assert_denied(gateway, client.exchange(data), "challenge_required", 401)
            assert successor.sql("SELECT highest FROM attestgate.counter", "attestgate") == str(phone.counter)
        seen = [r.target for r in own_upstream.requests]
        assert (seen.count("/once"), seen.count("/refused")) == (4, 0)
    finally:
        for server in following:
            server.close()


def test_a_restored_dump_gets_a_fresh_epoch(start, pki, own_upstream, database):
    """The dump lacks the counter; the fresh epoch is drawn automatically."""
    gateway = start()
    phone = Phone(gateway, pki.phone("pg-dump"))
    data = phone.request(path="/once")
    gateway.halt()
    database.sql("CREATE DATABASE copy TEMPLATE attestgate OWNER attestgate")
    gateway.start()
    with phone.connect() as client:
        assert client.exchange(data).status == 200
    gateway.halt()
    done = database._run(
        "pg_dump", "-h", database.directory, "-U", "root", "-f", database.directory / "dump.sql", "copy")
    assert done.returncode == 0
    database.sql("DROP DATABASE attestgate")
    database.sql("CREATE DATABASE attestgate OWNER attestgate")
    done = database._run(
        "psql", "-h", database.directory, "-U", "root", "-d", "attestgate", "-Xq", "-o", database.directory / "restored",
        "-f", database.directory / "dump.sql")
    assert done.returncode == 0
    gateway.start()
    with phone.connect() as client:
        assert_denied(gateway, client.exchange(data), "challenge_required", 401)
        phone.kept = None
        assert client.exchange(phone.request(path="/a")).status == 200
    assert [r.target for r in own_upstream.requests].count("/once") == 1


def test_overlapping_processes_share_one_gateways_witness(start, pki, own_upstream):
    """During an upgrade both processes have one witness, which the old one keeps until it ends."""
    adopt_orphans()
    gateway = start()
    phone, thief = Phone(gateway, pki.phone("pg-overlap")), Phone(gateway, pki.phone("pg-overlap-thief"))
    journal = gateway.directory / "secret.revocations"
    release = threading.Event()

    def answer(request):
        if request.target == "/held":
            release.wait(60)
        return OK
    own_upstream.answer = answer
    with phone.connect() as client:
        sent = [phone.request(path="/once"), phone.request(path="/held")]
        assert client.exchange(sent[0]).status == 200
        client.send(sent[1])
        own_upstream.wait_for_requests(2)
        # The old process has a request in flight, so it stays.
        before = upgrade(gateway)
        # The command asks the new one.
        gateway.device_command("revoke", str(thief.number))
        release.set()
        assert client.read_response().status == 200
    assert has_ended(gateway, before), gateway.errors
    # Taken over from the old one, with what that has not written, or has.
    eventually(lambda: "revoked " in journal.read_text(), lambda: f"the revocation in the journal\n{gateway.errors}")
    with phone.connect() as client:
        for data in sent:
            assert_denied(gateway, client.exchange(data), "counter_replayed", 401)
        assert client.exchange(phone.request(path="/after")).status == 200
    assert "revoked" in gateway.device_command("show", str(thief.number))
    complaints = [line for line in gateway.errors.splitlines() if "registry: " in line]
    assert not [line for line in complaints if '"level":"info"' not in line and '"level":"notice"' not in line]
    assert [request.target for request in own_upstream.requests].count("/once") == 1
