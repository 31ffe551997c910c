"""Standbys: one that lags is promoted, one is waited for in vain; and two stores that share nothing but their secret."""

import json
import select
import shutil
import signal
from pathlib import Path

import pytest

from support.attested import Attested
from support.client import get
from support.database_link import DatabaseLink
from support.denials import assert_denied
from support.phone import Phone, challenge_of
from support.postgresql import PostgreSQL
from support.sharing import at
from support.waiting import eventually


@pytest.fixture
def follow():
    """Starts standbys."""
    started = []

    def follow(primary, name):
        started.append(PostgreSQL(primary=primary, name=name))
        return started[-1]
    yield follow
    for server in started:
        server.close()


def test_a_promoted_lagging_standby_accepts_no_earlier_proof(
        start_sharing, pki, own_upstream, database, follow):
    """It follows asynchronously, against what the page says. Counters that were acknowledged are lost, and a revocation."""
    kept, lagging = follow(database, "kept"), follow(database, "lagging")
    database.configure(synchronous_standby_names="kept")
    hosts = [str(server.directory) for server in (database, kept, lagging)]
    first, second = [start_sharing(registry={"postgresql": {"hosts": hosts}}) for _ in range(2)]
    phone, other = Phone(first, pki.phone("pg-lagging")), Phone(first, pki.phone("pg-lagging-revoked"))
    gone = other.request(path="/gone")
    with at(first, phone) as one, at(second, phone) as two:
        assert one.exchange(phone.request(path="/known")).status == 200
        eventually(lambda: database.standbys() == 2, "both standbys to have it")
        known = lagging.sql("SELECT highest FROM attestgate.counter ORDER BY device LIMIT 1", "attestgate")
        # From here on it hears of nothing.
        lagging.configure(primary_conninfo="")
        eventually(lambda: database.sql("SELECT count(*) FROM pg_stat_replication") == "1", "it to stop following")
        used = [phone.request(path="/once") for _ in range(6)]
        unsent = phone.request(path="/once")
        for client, data in zip([one, two] * 3, used):
            assert client.exchange(data).status == 200
        first.device_command("revoke", str(other.number))
        database.stop(signal.SIGQUIT)
        kept.stop(signal.SIGQUIT)
        # As somebody may leave it who wants no standby any more.
        lagging.configure(synchronous_standby_names="")
        assert lagging.sql("SELECT pg_promote()") == "t"
        assert lagging.sql("SELECT highest FROM attestgate.counter ORDER BY device LIMIT 1", "attestgate") == known
        refusal = "with several hosts synchronous_standby_names must not be empty"
        for gateway, client in ((first, one), (second, two)):
            eventually(lambda: refusal in gateway.errors, lambda: f"the new primary to be refused\n{gateway.errors}")
            for data in (used[0], unsent, phone.request(path="/refused")):
                assert_denied(gateway, client.exchange(data), "store_unavailable", 503)
        # With a standby of its own it is taken, and no previous proof is good any more.
        follow(lagging, "new")
        lagging.configure(synchronous_standby_names="new")

        def settled(client, data):
            """The answer once the new standby is there to wait for: until then commits may be late, and the store fails again."""
            answers = []
            eventually(lambda: answers.append(client.exchange(data)) or answers[-1].status != 503, "it to serve")
            return answers[-1]

        def serves(client):
            phone.kept = None
            return client.exchange(phone.request(path="/after")).status == 200
        for gateway, client in ((first, one), (second, two)):
            eventually(lambda: client.exchange(get("/device")).status == 200, lambda: f"it to serve\n{gateway.errors}")
            for data in (*used, unsent):
                assert_denied(gateway, settled(client, data), "challenge_required", 401)
            eventually(lambda: serves(client), lambda: f"it to go on\n{gateway.errors}")
            for data in used:
                assert_denied(gateway, settled(client, data), "challenge_required", 401)
    # What the database has forgotten of revocations stands in the gateways' journals.
    assert json.loads(first.device_command("show", "--json", str(other.number)))["state"] == "revoked"
    for gateway in (first, second):
        assert "repeated all revocations and ends of bindings from the revocation journal" in gateway.errors
        try:
            with at(gateway, other) as client:
                assert_denied(gateway, client.exchange(gone), "device_revoked", 403)
        except OSError:
            # Its handshake is refused where it is known already.
            pass
    seen = [request.target for request in own_upstream.requests]
    assert (seen.count("/once"), seen.count("/refused"), seen.count("/gone")) == (6, 0, 0)


NOWHERE = Path("/nonexistent/socket")


def answers_until_it_serves(gateway, phone, challenge, resume):
    """To proofs of one challenge, of which `gateway` does not know yet; `resume` is called on the way. - Returns: their kinds."""
    seen = []
    with at(gateway, phone) as client:
        def passes():
            response = client.exchange(phone.request(path="/fresh", nonce=challenge))
            if response.status == 200:
                return True
            seen.append(json.loads(response.content)["error"])
            assert seen[-1] == "store_unavailable"
            assert (response.status, response.value("retry-after")) == (503, "1"), response
            if len(seen) == 20:
                resume()
            return False
        eventually(passes, lambda: f"it to serve: {seen[-5:]}\n{gateway.errors}")
    return seen


def test_a_gateway_that_lacks_the_fresh_epoch_asks_to_come_back_later(start_sharing, pki, database):
    """Its own challenge would be refused too, as soon as it has its database again."""
    link = DatabaseLink(database)
    try:
        first, second = start_sharing(), start_sharing(registry={"postgresql": link.conf})
        phone = Phone(first, pki.phone("pg-behind"))
        old = phone.request(path="/old")
        with at(second, phone) as client:
            assert client.exchange(phone.request(path="/a")).status == 200
        target, link.target = link.target, NOWHERE
        link.cut()
        first.renew_epoch()
        phone.kept = None
        seen = answers_until_it_serves(
            second, phone, phone.challenge(), lambda: setattr(link, "target", target))
        assert set(seen) == {"store_unavailable"}
        # It knows that this one is of an earlier epoch.
        with at(second, phone) as client:
            assert_denied(second, client.exchange(old), "challenge_required", 401)
    finally:
        for gateway in (first, second):
            gateway.stop()
        link.close()


def test_after_a_promotion_no_gateway_refuses_a_fresh_challenge(start_sharing, pki, database, follow):
    """The first has found the new primary, and has drawn an epoch; the second comes later."""
    standby, last = follow(database, "standby"), follow(database, "last")
    database.configure(synchronous_standby_names="ANY 1 (*)")
    eventually(lambda: database.standbys() == 2, "both standbys to follow")
    links = [DatabaseLink(server) for server in (database, standby)]
    try:
        first = start_sharing(
            registry={"postgresql": {"hosts": [str(server.directory) for server in (database, standby)]}})
        second = start_sharing(registry={"postgresql": {"hosts": [str(link.directory) for link in links]}})
        phone = Phone(first, pki.phone("pg-window"))
        with at(first, phone) as one, at(second, phone) as two:
            for client in (one, two):
                assert client.exchange(phone.request(path="/a")).status == 200
            target, links[1].target = links[1].target, NOWHERE
            database.stop(signal.SIGQUIT)
            assert standby.sql("SELECT pg_promote()") == "t"
            last.configure(primary_conninfo=f"host={standby.directory} user=root")

            def renewed():
                """A challenge of the first that it takes; None until it has one."""
                answer = one.exchange(get("/.well-known/attestgate/challenge"))
                if answer.status != 204:
                    return None
                fresh = challenge_of(answer)
                return fresh if one.exchange(phone.request(path="/b", nonce=fresh)).status == 200 else None
            challenge = eventually(renewed, lambda: f"the first to find the new primary\n{first.errors}")
        seen = answers_until_it_serves(
            second, phone, challenge, lambda: setattr(links[1], "target", target))
        assert set(seen) == {"store_unavailable"}
    finally:
        for gateway in (first, second):
            gateway.stop()
        for link in links:
            link.close()


def test_a_wait_for_a_standby_that_is_cancelled_lets_nothing_through(
        start_sharing, pki, own_upstream, database, follow):
    """PostgreSQL reports success with a warning; a promoted standby may lack the commit."""
    standby = follow(database, "standby")
    database.configure(synchronous_standby_names="standby")
    eventually(lambda: database.standbys() == 1, "the standby to follow")
    gateway = start_sharing(registry={"postgresql": {"hosts": [str(database.directory), str(standby.directory)]}})
    phone = Phone(gateway, pki.phone("pg-cancelled"))
    with phone.connect() as client:
        assert client.exchange(phone.request(path="/a")).status == 200
        standby.stop()
        waiting = "FROM pg_stat_activity WHERE usename = 'attestgate' AND wait_event = 'SyncRep'"

        def cancelled():
            """A proof whose commit was; None where the machine was so slow that the gateway did not wait for its end."""
            data = phone.request(path="/cancelled")
            client.send(data)
            eventually(
                lambda: database.sql(f"SELECT bool_or(pg_cancel_backend(pid)) {waiting}") == "t"
                or select.select([client.socket], [], [], 0)[0], "the commit to wait, or its answer")
            assert_denied(gateway, client.read_response(), "store_unavailable", 503)
            return data if "a commit was answered with a warning" in gateway.errors else None
        data = eventually(cancelled, lambda: f"a word of it\n{gateway.errors}")
        # The database holds it for spent, and a standby may not.
        assert_denied(gateway, client.exchange(phone.request(path="/cancelled")), "store_unavailable", 503)
        standby.start()
        eventually(
            lambda: client.exchange(phone.request(path="/a")).status == 200, lambda: f"it to recover\n{gateway.errors}")
        assert_denied(gateway, client.exchange(data), "counter_replayed", 401)
    assert "/cancelled" not in [request.target for request in own_upstream.requests]


@pytest.mark.parametrize("store", ["file", "database"])
def test_a_challenge_of_another_store_with_the_same_secret_is_refused(request, pki, own_upstream, tmp_path, store):
    """The same phone is known to both, with the same counter: only the challenge says which of them a proof is for."""
    first = Attested(tmp_path / "first", pki, own_upstream)
    second = None
    try:
        (tmp_path / "second").mkdir()
        shutil.copy(first.gateway.conf["registry"]["secret"], tmp_path / "second" / "secret")
        registry = {"postgresql": request.getfixturevalue("database").conf} if store == "database" else {}
        # Of the secret alone the second one would say that its registry is lost.
        arguments = ["--accept-lost-registry"] if store == "file" else []
        second = Attested(tmp_path / "second", pki, own_upstream, registry=registry, arguments=arguments)
        phone = first.phone
        assert second.gateway.add_device(phone)
        data = phone.request(path="/once")
        with at(second.gateway, phone) as client:
            assert_denied(second.gateway, client.exchange(data), "challenge_required", 401)
            with phone.connect() as own:
                assert own.exchange(data).status == 200
            assert_denied(second.gateway, client.exchange(data), "challenge_required", 401)
            theirs = challenge_of(client.exchange(get("/.well-known/attestgate/challenge")))
            assert client.exchange(phone.request(path="/elsewhere", nonce=theirs)).status == 200
        assert [r.target for r in own_upstream.requests].count("/once") == 1
    finally:
        for made in (first, second):
            if made:
                made.gateway.stop()
