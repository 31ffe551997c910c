"""Servers that are known by a name: resolved without blocking, again and again, and never to ourselves."""

import socket
import struct
import threading

import pytest

from support.client import Client, get
from support.denials import assert_denied
from support.enrolment import Enrolling
from support.exposition import ask, scrape
from support.gateway import Gateway
from support.name_server import A, CNAME, NXDOMAIN, REFUSED, SERVFAIL, NameServer, packed
from support.pki import attestgate
from support.ports import uncommon_port
from support.recording_upstream import RecordingUpstream
from support.services import Services, names
from support.waiting import eventually

NAME = "records.test"


@pytest.fixture
def nameserver():
    server = NameServer()
    yield server
    server.close()


@pytest.fixture
def both():
    """Two services on two addresses and one port."""
    first = RecordingUpstream(host="127.0.0.2")
    second = RecordingUpstream(host="127.0.0.3", port=first.port)
    yield first, second
    for server in (first, second):
        server.close()
        assert server.faults == []


def named(port, name=NAME, **settings):
    return {"servers": [f"{name}:{port}"], "plaintext": "accepted", **settings}


def resolver(nameserver, **settings):
    return {"nameservers": [nameserver.address], "minimum_ttl": "1s", "timeout": "200ms", "attempts": 2, **settings}


def server(gateway):
    return gateway.conf["upstreams"]["service"]["servers"][0]


def lookups(gateway, result):
    return scrape(gateway)("attestgate_name_lookups_total", server=server(gateway), result=result)


def addresses(gateway):
    return scrape(gateway)("attestgate_name_addresses", server=server(gateway))


def wait_until_located(gateway):
    """On a machine that is slow, first answers come after the two seconds that the start waits for them."""
    eventually(lambda: addresses(gateway) > 0, "the name to be resolved")


def is_served(client, path="/"):
    return client.exchange(get(path)).status == 200


def test_a_name_is_resolved_before_the_first_request(start_gateway, nameserver, both, phone):
    nameserver.addresses[NAME] = ["127.0.0.2"]
    gateway = start_gateway({"service": named(both[0].port)}, resolver=resolver(nameserver, timeout="2s"), workers=2)
    for _ in range(4):
        with Client(gateway, phone) as client:
            assert is_served(client)
    assert len(both[0].requests) == 4
    # Once for all workers, for both kinds of address, and each lookup from a port of its own.
    eventually(lambda: lookups(gateway, "resolved") >= 3, "the name to be resolved again")
    assert len(set(nameserver.ports)) >= 3
    assert {name for name, _ in nameserver.questions} == {NAME}


def test_a_service_that_moves_is_followed_without_a_failed_request(start_gateway, nameserver, both, phone):
    first, second = both
    nameserver.addresses[NAME] = ["127.0.0.2"]
    gateway = start_gateway({"service": named(first.port)}, resolver=resolver(nameserver), workers=2)
    wait_until_located(gateway)
    statuses, enough = [], threading.Event()

    def load():
        with Client(gateway, phone) as client:
            while not enough.is_set():
                statuses.append(client.exchange(get("/")).status)
    threads = [threading.Thread(target=load) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        first.wait_for_requests(20)
        nameserver.addresses[NAME] = ["127.0.0.3"]
        second.wait_for_requests(20)
        # What was kept for the old address is closed, whether it was busy or not.
        eventually(
            lambda: all(connection.is_closed_by_gateway for connection in first.connections),
            "the connections to the old address to be closed")
        assert not any(connection.is_broken for connection in first.connections)
    finally:
        enough.set()
        for thread in threads:
            thread.join()
    assert set(statuses) == {200}


def test_a_request_in_flight_at_the_old_address_continues(start_gateway, nameserver, both, phone):
    first, second = both
    nameserver.addresses[NAME] = ["127.0.0.2"]
    gateway = start_gateway({"service": named(first.port)}, resolver=resolver(nameserver))
    wait_until_located(gateway)
    release = threading.Event()

    def slow(connection):
        connection.read_request()
        release.wait(60)
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nold")
        connection.wait_for_end()
    first.script = slow
    with Client(gateway, phone) as stuck, Client(gateway, phone) as client:
        stuck.send(get("/slow"))
        first.wait_for_requests(1)
        first.script = None
        nameserver.addresses[NAME] = ["127.0.0.3"]
        eventually(lambda: is_served(client) and second.requests, "the new address to be used")
        before = len(first.requests)
        release.set()
        assert stuck.read_response().content == b"old"
        # Nobody gets that connection any more.
        eventually(lambda: first.connections[0].is_closed_by_gateway, "the old connection to be closed")
        for _ in range(3):
            assert is_served(stuck)
    assert len(first.requests) == before


def silence(question):
    return None


def elsewhere(question):
    return packed("127.0.0.3" if question.type == A else "::1")


def forged(question):
    """Of somebody who has not seen the question."""
    return question.answer([(None, question.type, 1, elsewhere(question))], id=question.id ^ 1)


# What becomes of a lookup that a nameserver answers so.
FAILURES = {
    "silence": (silence, "timeout"),
    "servfail": (lambda question: question.answer(code=SERVFAIL), "timeout"),
    "refused": (lambda question: question.answer(code=REFUSED), "refused"),
    "nxdomain": (lambda question: question.answer(code=NXDOMAIN), "nonexistent"),
    "empty": (lambda question: question.answer(), "nonexistent"),
    "truncated": (lambda question: question.answer(flags=0x0200), "truncated"),
    "garbage": (lambda question: struct.pack("!H", question.id) + b"\x81\x80" + b"\xff" * 40, "malformed"),
    "cut": (lambda question: question.answer([(None, question.type, 1, elsewhere(question))])[:-3], "malformed"),
    "another-name": (
        lambda question: question.answer([(None, question.type, 1, elsewhere(question))], about="other.test"), "malformed"),
    "forged": (forged, "timeout"),
    "unspecified": (
        lambda question: question.answer([(None, question.type, 1, bytes(len(elsewhere(question))))]), "forbidden"),
}


def test_known_addresses_survive_a_failing_nameserver(start_gateway, nameserver, both, phone):
    first, second = both
    cases = {f"{case}.test": case for case in FAILURES}
    nameserver.addresses.update({name: ["127.0.0.2"] for name in cases})
    gateway = start_gateway(
        {case: named(first.port, name) for name, case in cases.items()},
        [{"name": case, "host": "localhost", "path": f"/{case}", "upstream": case} for case in FAILURES],
        resolver=resolver(nameserver))

    def value(metric, case, **labels):
        return scrape(gateway)(f"attestgate_name_{metric}", server=f"{case}.test:{first.port}", **labels)
    for case in FAILURES:
        eventually(lambda: value("addresses", case) == 1, f"{case} to be resolved")
    nameserver.behaviour = lambda question: FAILURES[cases[question.name]][0](question)
    with Client(gateway, phone) as client:
        for case, (_, result) in FAILURES.items():
            eventually(lambda: value("lookups_total", case, result=result) >= 1, f"{case} to end as {result}")
            assert is_served(client, f"/{case}"), case
            assert (value("addresses", case), value("stale", case)) == (1, 1), case
        assert second.byte_count == 0
        nameserver.behaviour = None
        for case in FAILURES:
            eventually(lambda: f"{case}.test:{first.port} is resolved again" in gateway.errors, f"{case} to be resolved")
            # Said once, however often it failed.
            assert gateway.errors.count(f"{case}.test:{first.port} can no longer be resolved, its address is still used: ") == 1
            assert value("stale", case) == 0



def test_an_unresolved_name_fails_only_its_own_requests(
        start_gateway, nameserver, both, own_upstream, phone):
    gateway = start_gateway(
        {"service": named(both[0].port), "other": own_upstream.address},
        [{"name": "named", "host": "localhost", "path": "/"},
         {"name": "other", "host": "localhost", "path": "/other", "upstream": "other"}],
        resolver=resolver(nameserver))
    assert ask(gateway, "/health/ready")[0] == 200
    eventually(
        lambda: f"{server(gateway)} cannot be resolved and receives no requests until it can be: the name does not exist"
        in gateway.errors,
        "the error log to say so")
    with Client(gateway, phone) as client:
        assert_denied(gateway, client.exchange(get("/")), "upstream_unavailable", 502)
        assert "its name could not be resolved" in gateway.logged(route="named")["detail"]
        assert is_served(client, "/other")
        metrics = scrape(gateway)
        assert metrics("attestgate_upstream_failures_total", upstream="service", kind="unresolved") == 1
        assert metrics("attestgate_upstream_server_workers", server=server(gateway), state="unresolved") == 1
        nameserver.addresses[NAME] = ["127.0.0.2"]
        eventually(lambda: is_served(client), "the name to be resolved")
    assert addresses(gateway) == 1


def test_a_silent_nameserver_delays_no_other_request(start_gateway, nameserver, both, own_upstream, phone):
    nameserver.behaviour = silence
    gateway = start_gateway(
        {"service": named(both[0].port), "other": own_upstream.address},
        [{"name": "named", "host": "localhost", "path": "/"},
         {"name": "other", "host": "localhost", "path": "/other", "upstream": "other"}],
        resolver=resolver(nameserver, timeout="10s", attempts=10))
    assert f"{server(gateway)} is not resolved yet" in gateway.errors
    with Client(gateway, phone) as client:
        for _ in range(20):
            assert is_served(client, "/other")
            assert client.exchange(get("/")).status == 502
    assert lookups(gateway, "timeout") == 0, "the lookup is still under way"


def test_an_unresolved_server_leaves_the_requests_to_the_others(start_gateway, nameserver, both, phone):
    first, second = both
    first.is_checked = second.is_checked = True
    gateway = start_gateway({"service": {
        "servers": [f"{NAME}:{first.port}", second.address], "plaintext": "accepted",
        "health": {"path": "/health", "interval": "2s", "timeout": "1900ms"}}}, resolver=resolver(nameserver))
    with Client(gateway, phone) as client:
        for _ in range(6):
            assert is_served(client)
        assert len(second.requests) == 6
        # Nobody asks it how it is, nor thinks ill of it.
        metrics = scrape(gateway)
        assert metrics("attestgate_upstream_server_checks_total", server=server(gateway)) == 0
        assert metrics("attestgate_upstream_server_failures_total", server=server(gateway)) == 0
        nameserver.addresses[NAME] = ["127.0.0.2"]
        eventually(lambda: is_served(client) and first.requests, "the server to be used")
        eventually(lambda: first.checks, "the server to be checked")


def test_aliases_and_ipv6_only_names_are_resolved(start_gateway, nameserver, phone):
    upstream = RecordingUpstream(host="::1")
    try:
        nameserver.addresses[NAME] = ["::1"]

        def aliased(question):
            if question.type == A:
                return question.answer([(None, CNAME, 1, b"\x05other\x04test\0")])
            return question.answer([
                (None, CNAME, 1, b"\x05other\x04test\0"), ("other.test", question.type, 1, packed("::1"))])
        nameserver.behaviour = aliased
        gateway = start_gateway({"service": named(upstream.port)}, resolver=resolver(nameserver))
        wait_until_located(gateway)
        with Client(gateway, phone) as client:
            assert is_served(client)
        assert addresses(gateway) == 1
    finally:
        upstream.close()


def test_a_dead_address_is_passed_over_and_three_hundred_are_bounded(start_gateway, nameserver, both, phone):
    first, _ = both
    # Nobody listens on the others, and ::1 refuses.
    nameserver.addresses[NAME] = ["127.0.0.2", "127.0.0.9", "::1"]
    gateway = start_gateway({"service": named(first.port)}, resolver=resolver(nameserver))
    wait_until_located(gateway)
    with Client(gateway, phone) as client:
        first.answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        for _ in range(6):
            assert is_served(client)
        assert addresses(gateway) == 3
        nameserver.addresses[NAME] = ["127.0.0.2"] + [f"127.0.7.{number}" for number in range(250)] + [
            f"fd00::{number:x}" for number in range(1, 50)]
        eventually(lambda: addresses(gateway) == 16, "16 addresses")
        assert is_served(client)


def test_over_tls_a_forged_address_gets_no_request(start_gateway, nameserver, pki, phone):
    services = Services(pki)
    right = services.start(services.certificate("named", extensions=names(f"DNS:{NAME}")), host="127.0.0.2")
    # It has a certificate of the same authority, for another name.
    wrong = RecordingUpstream(tls=services.context(), host="127.0.0.3", port=right.port)
    try:
        nameserver.addresses[NAME] = ["127.0.0.2"]
        gateway = start_gateway(
            {"service": services.settings(f"{NAME}:{right.port}")}, resolver=resolver(nameserver))
        wait_until_located(gateway)
        with Client(gateway, phone) as client:
            assert is_served(client)
            nameserver.addresses[NAME] = ["127.0.0.3"]
            eventually(lambda: client.exchange(get("/")).status == 502, "the forged answer to be believed")
            assert wrong.byte_count == 0
            nameserver.addresses[NAME] = ["127.0.0.2"]
            eventually(lambda: is_served(client), "the service to be found again")
    finally:
        right.close()
        wrong.close()


def test_localhost_is_resolved_without_a_nameserver(start_gateway, nameserver, own_upstream, phone):
    nameserver.addresses["localhost"] = ["127.0.0.3"]
    gateway = start_gateway(
        {"service": named(own_upstream.port, "localhost"), "other": named(own_upstream.port, "deep.localhost")},
        [{"name": "one", "host": "localhost", "path": "/"},
         {"name": "two", "host": "localhost", "path": "/two", "upstream": "other"}], resolver=resolver(nameserver))
    with Client(gateway, phone) as client:
        assert is_served(client) and is_served(client, "/two")
    assert nameserver.questions == []


# Rebinding: the owner of the name would have the gateway speak to itself, from an address that is trusted.

def assert_refused(gateway, phone, purpose):
    eventually(
        lambda: f"which is the address of {purpose}: it is not used" in gateway.errors, "the error log to say so")
    with Client(gateway, phone) as client:
        assert_denied(gateway, client.exchange(get("/")), "upstream_unavailable", 502)
    metrics = scrape(gateway)
    assert metrics("attestgate_name_addresses", server=server(gateway)) == 0
    assert metrics("attestgate_name_addresses_refused_total", server=server(gateway)) >= 1
    assert metrics("attestgate_upstream_server_requests_total", server=server(gateway)) == 0


def machine_address():
    """One that is not loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            # Sends nothing: the kernel only looks for a route.
            probe.connect(("198.51.100.1", 9))
        except OSError:
            pytest.skip("this machine has no address but loopback")
        return probe.getsockname()[0]


@pytest.mark.parametrize("listens, leads", [
    ("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "127.0.0.1"), ("0.0.0.0", "127.7.7.7"), ("0.0.0.0", "machine"),
    ("127.0.0.1", "::ffff:127.0.0.1")])
def test_a_name_of_the_administrations_address_is_not_used(
        start_gateway, nameserver, own_upstream, phone, pki, tmp_path, listens, leads):
    token, port = tmp_path / "token", uncommon_port()
    token.write_text("t0ken-" * 8)
    token.chmod(0o600)
    if leads == "machine":
        leads = machine_address()
    tls = {"certificate": str(pki.server_certificate), "key": str(pki.server_key)}
    nameserver.addresses[NAME] = [leads]
    gateway = start_gateway(
        {"service": named(port)}, registry={"devices": 64}, resolver=resolver(nameserver), administration={
            "socket": str(tmp_path / "admin.sock"),
            "listeners": [{"address": f"{listens}:{port}", "token_file": str(token), "tls": tls}]})
    assert_refused(gateway, phone, "the administration")
    assert scrape(gateway)("attestgate_administration_refused_total") == 0
    # What it leads to besides is used, and an address that was good stays so.
    nameserver.addresses[NAME] = [leads, "127.0.0.2"] if listens != "0.0.0.0" else [leads]
    if listens != "0.0.0.0":
        eventually(lambda: addresses(gateway) == 1, "the other address to be known")


def test_a_name_that_is_rebound_to_the_administration_stays_with_its_service(
        start_gateway, nameserver, phone, tmp_path):
    upstream = RecordingUpstream(host="127.0.0.2", port=uncommon_port())
    token = tmp_path / "token"
    token.write_text("t0ken-" * 8)
    token.chmod(0o600)
    nameserver.addresses[NAME] = ["127.0.0.2"]
    try:
        gateway = start_gateway(
            {"service": named(upstream.port)}, registry={"devices": 64}, resolver=resolver(nameserver), administration={
                "socket": str(tmp_path / "admin.sock"),
                "listeners": [{"address": f"127.0.0.1:{upstream.port}", "token_file": str(token)}]})
        wait_until_located(gateway)
        nameserver.addresses[NAME] = ["127.0.0.1"]
        eventually(lambda: lookups(gateway, "forbidden") >= 2, "the rebinding to be seen")
        upstream.answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        with Client(gateway, phone) as client:
            for _ in range(3):
                assert is_served(client)
        assert scrape(gateway)("attestgate_administration_refused_total") == 0
        # Said once, however often it is seen.
        assert gateway.errors.count("it is not used") == 1
    finally:
        upstream.close()


def test_a_name_of_the_gateways_address_is_not_used(start_gateway, pki, nameserver, phone):
    port = uncommon_port()
    nameserver.addresses[NAME] = ["127.0.0.1"]
    gateway = start_gateway({"service": named(port)}, resolver=resolver(nameserver))
    gateway.halt()
    gateway.conf["upstreams"]["service"] = named(gateway.port)
    gateway.start()
    assert_refused(gateway, phone, "the gateway itself")


def test_a_name_of_enrolments_address_is_not_used(nameserver, pki, own_upstream, tmp_path, phone):
    nameserver.addresses[NAME] = ["127.0.0.1"]
    enrolling = Enrolling(tmp_path / "enrolling", pki, own_upstream, resolver=resolver(nameserver))
    port = enrolling.gateway.conf["enrolment"]["address"].rsplit(":", 1)[1]
    enrolling.gateway.conf["upstreams"]["service"] = named(port)
    enrolling.gateway.conf["routes"].append(
        {"name": "open", "host": "localhost", "path": "/open", "require": "certificate", "upstream": "service"})
    enrolling.start()
    try:
        gateway = enrolling.gateway
        eventually(
            lambda: "which is the address of enrolment: it is not used" in gateway.errors, "the error log to say so")
        with Client(gateway, phone) as client:
            assert client.exchange(get("/open")).status == 502
        assert addresses(gateway) == 0
    finally:
        enrolling.stop()


# Operators.

def check(gateway):
    gateway.write_conf()
    return attestgate("check", "--config", gateway.conf_path)


def test_check_warns_of_unresolvable_names(start_gateway, nameserver, both):
    nameserver.addresses[NAME] = ["127.0.0.2"]
    gateway = start_gateway({"service": named(both[0].port)}, resolver=resolver(nameserver))
    done = check(gateway)
    assert (done.returncode, done.stderr) == (0, "")
    nameserver.addresses[NAME] = ["127.0.0.1"]
    gateway.conf["upstreams"]["service"] = named(gateway.port)
    done = check(gateway)
    assert done.returncode == 0
    assert f"warning: {NAME}:{gateway.port} resolves to 127.0.0.1, which is the address of the gateway itself" in done.stderr
    nameserver.behaviour = silence
    done = check(gateway)
    assert done.returncode == 0
    assert f"warning: {NAME}:{gateway.port} cannot be resolved now: no nameserver has answered" in done.stderr


def test_check_refuses_an_address_of_this_machine_where_the_gateway_listens_on_all(pki, tmp_path):
    port, address = uncommon_port(), machine_address()
    gateway = Gateway(tmp_path / "gateway", pki, {"service": {
        "servers": [f"{address}:{port}"], "plaintext": "accepted"}})
    gateway.conf["listeners"][0]["address"] = f"0.0.0.0:{port}"
    done = check(gateway)
    gateway.holder.close()
    assert done.returncode == 1
    assert f"upstream service: {address}:{port} is the address of the gateway itself" in done.stderr


def test_a_gateway_that_waits_for_names_stops_on_a_signal(nameserver, both, pki, tmp_path):
    nameserver.behaviour = silence
    gateway = Gateway(
        tmp_path / "gateway", pki, {"service": named(both[0].port)}, resolver=resolver(nameserver, timeout="10s"))
    gateway.start(until=lambda: nameserver.questions)
    gateway.stop()
    assert "stopped" in gateway.errors and "serving" not in gateway.errors


def test_a_reload_adds_names_and_keeps_known_addresses(
        start_gateway, nameserver, both, phone):
    first, second = both
    nameserver.addresses[NAME] = ["127.0.0.2"]
    gateway = start_gateway({"service": named(first.port)}, resolver=resolver(nameserver, maximum_ttl="1h"))
    nameserver.ttl = 3600
    eventually(lambda: lookups(gateway, "resolved") >= 2, "an answer of long life")
    asked = nameserver.asked(NAME)
    nameserver.addresses["second.test"] = ["127.0.0.3"]
    gateway.conf["upstreams"]["other"] = named(second.port, "second.test")
    gateway.conf["routes"].append(
        {"name": "other", "host": "localhost", "path": "/other", "require": "certificate", "upstream": "other"})
    gateway.write_conf()
    done = attestgate("reload", "--config", gateway.conf_path)
    assert done.returncode == 0, done.stderr
    with Client(gateway, phone) as client:
        assert is_served(client) and is_served(client, "/other")
    assert (len(first.requests), len(second.requests)) == (1, 1)
    assert nameserver.asked(NAME) == asked, "what was known is not asked for again"
    # A name that is gone from the file is followed no more.
    del gateway.conf["upstreams"]["other"], gateway.conf["routes"][1]
    gateway.write_conf()
    assert attestgate("reload", "--config", gateway.conf_path).returncode == 0
    assert len(scrape(gateway).labels("attestgate_name_addresses")) == 1
