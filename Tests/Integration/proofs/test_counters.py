"""A proof passes once: across connections, workers, restarts, crashes and failing disks."""

import os
import threading
import time
from pathlib import Path

import pytest

from support.client import get
from support.crashing import kill_under_load
from support.denials import assert_denied, assert_used_before_the_start, code_of, wait_for_count
from support.pki import attestgate
from support.waiting import eventually


def simultaneously(count, action):
    """Runs `action(n)` in that many threads, all let go at once; returns what they returned."""
    barrier, results = threading.Barrier(count), [None] * count

    def run(number):
        barrier.wait()
        results[number] = action(number)
    threads = [threading.Thread(target=run, args=[n]) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def test_one_proof_sent_a_thousand_times_at_once_passes_once(start_attested):
    """Over 100 connections to four workers, while other phones push this one out of a small cache."""
    attested = start_attested(workers=4, registry={"devices": 16})
    phone = attested.phone
    others = [attested.new_phone() for _ in range(24)]
    for other in others:
        other.kept, other.kept_until = phone.challenge(), phone.kept_until
    data = phone.request(path="/once")
    clients = [phone.connect() for _ in range(100)]
    crowd = [other.connect() for other in others]
    crowd_data = [[other.request(path="/crowd") for _ in range(10)] for other in others]

    def send(number):
        if number < 100:
            return [clients[number].exchange(data).status for _ in range(10)]
        return [crowd[number - 100].exchange(each).status for each in crowd_data[number - 100]]
    try:
        results = simultaneously(100 + len(others), send)
    finally:
        for client in clients + crowd:
            client.close()
    statuses = [status for result in results[:100] for status in result]
    assert sorted(set(statuses)) == [200, 401]
    assert statuses.count(200) == 1
    assert [r.target for r in attested.upstream.requests].count("/once") == 1
    assert {status for result in results[100:] for status in result} == {200}


def test_many_proofs_at_once_each_pass_once(start_attested):
    """In window mode parallel requests overtake each other, and none is refused for that."""
    attested = start_attested(workers=2, counter="window 1024")
    phone = attested.phone
    requests = [phone.request(path=f"/{n}") for n in range(200)]
    clients = [phone.connect() for _ in range(20)]
    results = simultaneously(20, lambda n: [clients[n].exchange(requests[n + 20 * k]).status for k in range(10)])
    assert {status for result in results for status in result} == {200}
    results = simultaneously(20, lambda n: [clients[n].exchange(requests[n + 20 * k]).status for k in range(10)])
    assert {status for result in results for status in result} == {401}
    for client in clients:
        client.close()
    assert sorted(r.target for r in attested.upstream.requests) == sorted(f"/{n}" for n in range(200))


def test_a_value_further_behind_than_the_window_is_late(start_attested):
    attested = start_attested(counter="window 16")
    phone = attested.phone
    early = [phone.request(path="/early") for _ in range(20)]
    with phone.connect() as client:
        assert client.exchange(phone.request(path="/a")).status == 200  # counter 21
        for data in early[4:]:  # 5 to 20: at most 16 behind
            assert client.exchange(data).status == 200
        assert_denied(attested.gateway, client.exchange(early[3]), "counter_late", 401)


def test_a_proof_does_not_pass_again_after_a_restart(start_attested):
    attested = start_attested()
    phone, gateway = attested.phone, attested.gateway
    data = phone.request(path="/a")
    with phone.connect() as client:
        assert client.exchange(data).status == 200
    gateway.halt()
    gateway.start()
    with phone.connect() as client:
        assert_used_before_the_start(gateway, client, phone, data)
        assert client.exchange(phone.request(path="/a")).status == 200


def test_a_proof_does_not_pass_again_after_the_registry_is_restored_from_a_copy(start_attested, tmp_path):
    """The copy lacks the counter; a fresh epoch refuses earlier proofs."""
    attested = start_attested()
    phone, gateway = attested.phone, attested.gateway
    gateway.halt()
    path = Path(gateway.conf["registry"]["path"])
    copies = {name: name.read_bytes() for name in (path, Path(f"{path}-wal")) if name.exists()}
    gateway.start()
    data = phone.request(path="/once")
    with phone.connect() as client:
        assert client.exchange(data).status == 200
    gateway.halt()
    for name in (path, Path(f"{path}-wal")):
        name.unlink(missing_ok=True)
    for name, content in copies.items():
        name.write_bytes(content)
    gateway.start()
    with phone.connect() as client:
        with attested.nothing_forwarded_at_all():
            assert_denied(gateway, client.exchange(data), "challenge_required", 401)
        phone.kept = None
        assert client.exchange(phone.request(path="/a")).status == 200
    assert [r.target for r in attested.upstream.requests].count("/once") == 1


def test_a_proof_for_one_store_does_not_pass_at_another_with_the_same_secret(start_attested, tmp_path):
    """The key of challenges includes the store's id, so a copied secret is not enough."""
    one = start_attested()
    # To the second gateway, the secret says that its registry is lost.
    other = start_attested(
        registry={"secret": one.gateway.conf["registry"]["secret"], "revocations": str(tmp_path / "other.revocations")},
        arguments=["--accept-lost-registry"])
    assert one.challenges.secret == other.challenges.secret and one.challenges.store != other.challenges.store
    phone = other.phone
    with other.nothing_forwarded_at_all(), phone.connect() as client:
        data = phone.request(path="/a", nonce=one.phone.challenge())
        assert_denied(other.gateway, client.exchange(data), "challenge_required", 401)
    with phone.connect() as client:
        assert client.exchange(phone.request(path="/a")).status == 200


def test_a_fresh_epoch_refuses_earlier_proofs_at_a_running_gateway_and_after_a_reload(start_attested):
    attested = start_attested(workers=2)
    phone, gateway = attested.phone, attested.gateway
    data = phone.request(path="/a")
    gateway.renew_epoch()
    with attested.nothing_forwarded_at_all(), phone.connect() as client:
        assert_denied(gateway, client.exchange(data), "challenge_required", 401)
    phone.kept = None
    with phone.connect() as client:
        assert client.exchange(phone.request(path="/a")).status == 200
    done = attestgate("reload", "--config", gateway.conf_path)
    assert done.returncode == 0, done.stderr
    for _ in range(4):
        # The generation that came with the reload hands out challenges of the fresh epoch too.
        phone.kept = None
        with phone.connect() as client:
            assert client.exchange(phone.request(path="/a")).status == 200


def test_a_proof_does_not_pass_again_after_a_crash_under_load(start_attested, own_upstream):
    """kill -9 five times under load: a proof that the service has seen never passes again."""
    attested = start_attested(workers=2)
    gateway, phone = attested.gateway, attested.phone
    for _ in range(5):
        sent = kill_under_load(gateway, phone, own_upstream, phone.challenge(), 20)
        gateway.start()
        passed = len(own_upstream.requests)
        with phone.connect() as client:
            for data in sent:
                assert code_of(client.exchange(data)) == "challenge_required"
                response = client.exchange(phone.again(data))
                # All but the last must have been committed; a strict counter takes no value that was overtaken.
                if data is not sent[-1]:
                    assert code_of(response) == "counter_replayed"
        wait_for_count(gateway, len(sent), "attestgate_denials_total", code="challenge_required")
        wait_for_count(gateway, len(sent) - 1, "attestgate_denials_total", code="counter_replayed")
        assert len(own_upstream.requests) <= passed + 1


def test_a_failing_upstream_does_not_return_the_counter(start_attested, own_upstream):
    attested = start_attested()
    phone = attested.phone
    own_upstream.script = lambda connection: (connection.read_request(), connection.reset())
    data = phone.request(path="/a")
    with phone.connect() as client:
        assert_denied(attested.gateway, client.exchange(data), "upstream_unavailable", 502)
        own_upstream.reset_behaviour()
        assert_denied(attested.gateway, client.exchange(data), "counter_replayed", 401)


def test_a_proof_is_sent_to_the_service_once_even_if_a_kept_connection_breaks(start_attested, own_upstream):
    """A DELETE may be repeated (RFC 9110 section 9.2.2), but its proof is for one sending."""
    attested = start_attested()
    phone, seen = attested.phone, []

    def closes_after_the_second(connection):
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") if connection.read_request() else None
        seen.append(connection.read_request())
        connection.socket.close()
    own_upstream.script = closes_after_the_second
    with phone.connect() as client:
        assert client.exchange(phone.request("DELETE", "/1")).status == 200
        assert_denied(attested.gateway, client.exchange(phone.request("DELETE", "/2")), "upstream_unavailable", 502)
    assert [request.target for request in own_upstream.requests] == ["/1", "/2"]


def test_a_connection_that_the_service_has_closed_is_not_used_for_a_proof(start_attested, own_upstream):
    attested = start_attested()
    phone = attested.phone

    def closes_at_once(connection):
        connection.read_request()
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        connection.socket.close()
    own_upstream.script = closes_at_once

    def is_closed_by_service():
        return own_upstream.connections[-1].socket.fileno() == -1
    with phone.connect() as client:
        for number in range(20):
            assert client.exchange(phone.request(path=f"/{number}")).status == 200
            # The answer may be with the client before the service comes to closing.
            eventually(is_closed_by_service, "the service to close")


def test_a_proof_that_expires_while_its_content_arrives_is_refused(start_attested):
    """The counter is spent after the last byte of content: by then the proof must still be good."""
    attested = start_attested(proof={"max_age": "10s", "challenge_life": "10s"})
    phone = attested.phone
    created = int(time.time()) - 8
    data = phone.request("POST", "/a", content=b"x" * 10, created=created, nonce=attested.challenges.make(age=8))
    with attested.nothing_forwarded(), phone.connect() as client:
        client.send(data[:-1]).wait_until_delivered()
        eventually(lambda: time.time() > created + 11, "the proof to end")
        client.send(data[-1:])
        assert_denied(attested.gateway, client.read_response(), "proof_stale", 401)


def test_one_device_cannot_hold_all_content(start_attested):
    attested = start_attested(limits={"held_content": "4MiB"})
    phone, other = attested.phone, attested.new_phone()
    holders = []
    try:
        # One device may hold the largest content of a request, or a sixteenth of all.
        for _ in range(11):
            client = phone.connect()
            holders.append(client)
            client.send(phone.request("POST", "/a", content=bytes(90_000))[:-1]).wait_until_delivered()
        with phone.connect() as client:
            client.send_while_open(phone.request("POST", "/a", content=bytes(90_000)))
            assert_denied(attested.gateway, client.read_response(), "overloaded", 503)
        with other.connect() as client:
            assert client.exchange(other.request("POST", "/a", content=bytes(90_000))).status == 200
    finally:
        for client in holders:
            client.close()


@pytest.mark.parametrize("suffix", ["", "-wal", ".lock"])
def test_a_gateway_whose_registry_file_is_removed_stops_serving(start_attested, suffix):
    """What is written to an unlinked file is lost with the process."""
    attested = start_attested()
    phone, gateway = attested.phone, attested.gateway
    path = gateway.conf["registry"]["path"] + suffix
    with phone.connect() as client:
        assert client.exchange(phone.request(path="/a")).status == 200
        os.rename(path, path + ".away")

        def is_closed():
            return client.exchange(phone.request(path="/a")).status == 503
        eventually(is_closed, "the registry to be missed")
        eventually(lambda: "replaced" in gateway.errors, "the log to say so")


def test_a_client_that_leaves_before_the_commit_has_used_its_counter(start_attested):
    attested = start_attested()
    phone = attested.phone
    data = phone.request(path="/a")
    with phone.connect() as client:
        client.send(data).wait_until_delivered()
    with phone.connect() as client:
        eventually(lambda: client.exchange(phone.request(path="/b")).status == 200, "the gateway")
        # Whether the first was forwarded or not: it is over.
        assert client.exchange(data).status == 401


def test_a_store_that_cannot_be_written_closes_the_routes_that_need_it(start_attested):
    """No file can grow any more, as if the disk were full."""
    attested = start_attested()
    phone, gateway = attested.phone, attested.gateway
    phone.challenge()
    gateway.limit_files(0)
    try:
        data = phone.request(path="/a")
        with attested.nothing_forwarded_at_all(), phone.connect() as client:
            # The log cannot be written either.
            assert_denied(gateway, client.exchange(data), "store_unavailable", 503, is_logged=False)
            assert_denied(gateway, client.exchange(phone.request(path="/a")), "store_unavailable", 503, is_logged=False)
    finally:
        gateway.limit_files(None)

    def recovers():
        with phone.connect() as client:
            return client.exchange(phone.request(path="/a")).status == 200
    eventually(recovers, lambda: f"the store to recover\n{gateway.errors}")
    with phone.connect() as client:
        assert client.exchange(data).status == 401, "what the store could not write stays spent"


def test_a_hanging_store_closes_every_route(start_attested, tmp_path):
    """No fdatasync returns as long as the trace lasts."""
    attested = start_attested()
    phone, gateway = attested.phone, attested.gateway
    phone.challenge()
    with gateway.traced(tmp_path / "trace", "-e", "trace=fdatasync,fsync", "-e", "inject=fdatasync,fsync:delay_enter=600s"):
        with attested.nothing_forwarded_at_all(), phone.connect() as client:
            assert_denied(gateway, client.exchange(phone.request(path="/a")), "store_unavailable", 503)
            # By now nobody has heard of revocations for five seconds.
            assert_denied(gateway, client.exchange(get("/certificate")), "store_unavailable", 503)
