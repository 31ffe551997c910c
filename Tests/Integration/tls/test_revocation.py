"""Revocation lists: what is on them is refused, in a handshake, by a session, on an open connection; and a list that is old
or missing lets nobody in."""

import re
import socket
import ssl
import time
from contextlib import contextmanager, nullcontext
from copy import copy
from functools import partial

import pytest

from support.client import Client, ended, get, session_of, tls_context
from support.command_line import s_client, s_client_alert
from support.denials import NothingForwarded, assert_connection_refused
from support.exposition import scrape
from support.gateway import Gateway
from support.pki import Lists, attestgate
from support.ports import reserve_port
from support.reloading import Load, reload, revoke_and_reload
from support.waiting import eventually

REVOKED, UNKNOWN = 44, 46
REQUEST = b"GET /refused HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


@pytest.fixture
def lists(tmp_path, pki):
    return Lists(tmp_path, pki)


@pytest.fixture
def revoking(start_gateway, own_upstream, lists):
    return start_gateway({"service": own_upstream.address}, clients=lists.clients, workers=1)


def assert_refused(gateway, upstream, identity, phone, code, alert, count=1, **options):
    with NothingForwarded(gateway, upstream, phone):
        assert s_client_alert(s_client(gateway, identity=identity, send=REQUEST)) == alert
    return assert_connection_refused(gateway, code, count=count)


def test_an_unlisted_certificate_is_admitted(revoking, pki, phone):
    issuing = pki.root
    for identity in [phone, pki.client("listed-of-root", issuer=issuing)]:
        with Client(revoking, identity) as client:
            assert client.exchange(get("/")).status == 200


@pytest.mark.parametrize("reason", ["keyCompromise", "certificateHold", "unspecified"])
def test_a_revoked_certificate_is_refused_and_the_log_names_it(start_gateway, own_upstream, pki, phone, lists, reason):
    identity = pki.phone(f"revoked-{reason}")
    lists.revoke(identity, reason=reason)
    gateway = start_gateway({"service": own_upstream.address}, clients=lists.clients)
    entry = assert_refused(gateway, own_upstream, identity, phone, "certificate_revoked", REVOKED)
    names = pki.names(identity)
    assert entry["detail"] == (
        f"subject {names.subject}, issuer {names.issuer}, serial {names.serial}, key id {names.key_id.hex()}: "
        f"revoked by the list of {names.issuer}: {reason}")


def test_a_list_in_der_is_accepted(start_gateway, own_upstream, pki, phone, lists):
    identity = pki.phone("revoked-der")
    lists.revoke(identity, form="DER")
    gateway = start_gateway({"service": own_upstream.address}, clients=lists.clients)
    assert_refused(gateway, own_upstream, identity, phone, "certificate_revoked", REVOKED)


def test_one_file_may_hold_lists_of_several_authorities(start_gateway, own_upstream, pki, phone, lists):
    identity = pki.phone("revoked-bundle")
    lists.revoke(identity)
    lists.gms.write_text(lists.root.read_text() + lists.gms.read_text())
    gateway = start_gateway({"service": own_upstream.address}, clients={"crls": [str(lists.gms)]})
    assert_refused(gateway, own_upstream, identity, phone, "certificate_revoked", REVOKED)


def test_only_the_listed_one_of_two_certificates_with_one_key_is_refused(start_gateway, own_upstream, pki, phone, lists):
    revoked = pki.client("two-of-one-key-1")
    kept = pki.client("two-of-one-key-2", key=revoked.key)
    lists.revoke(revoked)
    gateway = start_gateway({"service": own_upstream.address}, clients=lists.clients)
    entry = assert_refused(gateway, own_upstream, revoked, phone, "certificate_revoked", REVOKED)
    assert pki.names(kept).key_id.hex() in entry["detail"]
    with Client(gateway, kept) as client:
        assert client.exchange(get("/")).status == 200


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["1.2", "1.3"])
def test_a_revoked_certificate_is_never_resumed(start_gateway, own_upstream, pki, phone, lists, version):
    gateway = start_gateway({"service": own_upstream.address}, clients=lists.clients, policy="intermediate")
    revoked = pki.phone("revoked-then-resumed")
    contexts = {identity: tls_context(pki, identity, maximum=version) for identity in [revoked, phone]}
    sessions = {}
    for identity, context in contexts.items():
        with Client(gateway, identity, context=context) as client:
            assert not client.socket.session_reused
            sessions[identity] = session_of(client)
        # The control: the session is resumed, also after a reload that has nothing against its client.
        assert reload(gateway).returncode == 0
        with Client(gateway, identity, context=context, session=sessions[identity]) as client:
            assert client.socket.session_reused
            sessions[identity] = session_of(client)
    revoke_and_reload(gateway, lists, revoked)
    with NothingForwarded(gateway, own_upstream, phone):
        with pytest.raises(ssl.SSLError, match="(?i)certificate.revoked"):
            with Client(gateway, revoked, context=contexts[revoked], session=sessions[revoked]) as client:
                assert not client.socket.session_reused
                client.exchange(get("/refused"))
    assert_connection_refused(gateway, "certificate_revoked")
    # The list's change costs nobody else his session.
    with Client(gateway, phone, context=contexts[phone], session=sessions[phone]) as client:
        assert client.socket.session_reused
        assert client.exchange(get("/")).status == 200


def test_an_open_connection_ends_when_a_new_list_names_its_certificate(revoking, lists, own_upstream, pki, phone):
    revoked = pki.phone("revoked-while-open")
    with Client(revoking, revoked) as barred, Client(revoking, phone) as kept:
        for client in [barred, kept]:
            assert client.exchange(get("/")).status == 200
        # The control.
        assert reload(revoking).returncode == 0
        assert barred.exchange(get("/")).status == 200
        lists.revoke(revoked)
        assert reload(revoking).returncode == 0
        # The reload is served: what is to end has ended by now.
        assert ended(barred)
        assert kept.exchange(get("/")).status == 200
    entry = assert_connection_refused_open(revoking)
    said = f"key id {pki.names(revoked).key_id.hex()}: while the connection was open: revoked by the list of CN="
    assert entry["detail"].startswith(said), entry


def assert_connection_refused_open(gateway):
    def find():
        return next((e for e in gateway.access() if e.get("denial") == "certificate_revoked"), None)
    return eventually(find, "the log to tell of the connection")


def test_a_handshake_completed_after_a_reload_uses_the_new_list(revoking, lists, own_upstream, pki, phone):
    """Verified by the old list and completed under the new one."""
    revoked = pki.phone("revoked-in-the-handshake")
    for identity, is_admitted in [(phone, True), (revoked, False)]:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = tls_context(pki, identity).wrap_bio(incoming, outgoing, server_hostname="localhost")
        with socket.create_connection(("127.0.0.1", revoking.port), timeout=10) as plain:
            while True:
                try:
                    tls.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    plain.sendall(outgoing.read())
                    incoming.write(plain.recv(65536))
            # The client's last flight is here, and not sent. Its first octets keep the gateway in the handshake.
            tls.write(get("/overtaken"))
            flight = outgoing.read()
            plain.sendall(flight[:5])
            revoke_and_reload(revoking, lists, *([] if is_admitted else [revoked]))
            with nullcontext() if is_admitted else NothingForwarded(revoking, own_upstream, phone):
                plain.sendall(flight[5:])
                answer = read_all(plain, tls, incoming)
                assert (b"200 OK" in answer) == is_admitted


def read_all(plain, tls, incoming):
    """What comes until there is an answer, or the end."""
    answer = b""
    while b"\r\n\r\n" not in answer:
        try:
            data = plain.recv(65536)
        except ConnectionResetError:
            break
        if not data:
            break
        incoming.write(data)
        try:
            while True:
                answer += tls.read(65536)
        except (ssl.SSLError, ssl.SSLEOFError):
            pass
    return answer


def test_only_listed_certificates_fail_while_lists_change_under_load(
    start_gateway, own_upstream, lists, pki, phone,
):
    """Each reload brings another list; only the listed clients are refused."""
    gateway = start_gateway({"service": own_upstream.address}, clients=lists.clients, workers=2)
    suspect = pki.phone("in-and-out")
    context = tls_context(pki, suspect)
    load, session = Load(gateway, phone), None
    try:
        for number in range(20):
            is_revoked = number % 2 == 1
            revoke_and_reload(gateway, lists, *([suspect] if is_revoked else []))
            if not is_revoked:
                with Client(gateway, suspect, context=context) as client:
                    session = session_of(client)
                # The control: what is refused below would be resumed.
                with Client(gateway, suspect, context=context, session=session) as client:
                    assert client.socket.session_reused
                    session = session_of(client)
                continue
            for offered in [None, session]:
                with pytest.raises(ssl.SSLError, match="(?i)certificate.revoked"):
                    with Client(gateway, suspect, context=context, session=offered) as client:
                        client.exchange(get("/refused"))
    finally:
        load.end()
    assert load.answered > 100
    assert not any(request.target == "/refused" for request in own_upstream.requests)
    assert_connection_refused(gateway, "certificate_revoked", count=20)


def start_with_short_list(start_gateway, own_upstream, lists, pki, phone, **clients):
    """A gateway whose list of the GMS CA becomes stale while it runs: a connection and a session from before."""
    for life in (4, 12, 40):
        # Short, so that the test is; longer if the machine was so slow that the list was stale before it was used.
        lists.revoke(end=life / 86_400, start=-life / 86_400)
        ends = time.time() + life
        try:
            gateway = start_gateway({"service": own_upstream.address}, clients={**lists.clients, **clients})
            context = tls_context(pki, phone)
            with Client(gateway, phone, context=context) as client:
                session = session_of(client)
            client = Client(gateway, phone, context=context)
            assert client.exchange(get("/")).status == 200
            with Client(gateway, phone, context=context, session=session) as second:
                assert second.socket.session_reused
                session = session_of(second)
            assert time.time() < ends
        except (OSError, AssertionError):
            continue
        eventually(lambda: time.time() > ends + 1, "the list to become stale", patience=60)
        return gateway, client, context, session
    pytest.fail("no list lived long enough to be used")


def test_a_stale_list_refuses_new_connections_and_ends_none(start_gateway, own_upstream, lists, pki, phone):
    gateway, client, context, session = start_with_short_list(start_gateway, own_upstream, lists, pki, phone)
    of_root = pki.client("of-root-beside-stale", issuer=pki.root)
    entry = assert_refused(gateway, own_upstream, phone, of_root, "crl_stale", UNKNOWN)
    assert "is stale or not yet valid" in entry["detail"] and "subject CN=" in entry["detail"]
    with pytest.raises(ssl.SSLError, match="(?i)certificate.unknown"):
        with Client(gateway, phone, context=context, session=session) as second:
            assert not second.socket.session_reused
            second.exchange(get("/refused"))
    assert client.exchange(get("/")).status == 200
    client.close()
    eventually(lambda: "the revocation list of CN=AttestGate development GMS CA has ended" in gateway.errors, "the log to say so")
    # A reload with it succeeds, and a fresh one repairs it.
    done = reload(gateway)
    assert done.returncode == 0 and "is stale since" in done.stderr
    assert_refused(gateway, own_upstream, phone, of_root, "crl_stale", UNKNOWN, count=3)
    revoke_and_reload(gateway, lists)
    with Client(gateway, phone) as client:
        assert client.exchange(get("/")).status == 200


def test_a_stale_list_at_the_start_refuses_its_clients_and_nobody_else(start_gateway, own_upstream, lists, pki, phone):
    """As after a reboot: the other authority, and another listener without the list, serve."""
    lists.revoke(start=-3, end=-1)
    with start_twice(start_gateway, own_upstream, lists) as (gateway, other):
        checked = attestgate("check", "--config", gateway.conf_path)
        assert checked.returncode == 0
        warning, = [line for line in checked.stderr.splitlines() if "warning: " in line]
        assert re.search(
            r"attestgate.yaml:\d+:\d+: warning: listener 127.0.0.1:\d+: .*gms.crl: the revocation list of CN=AttestGate "
            r"development GMS CA is stale since 20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ: all clients of this authority are refused; "
            r"replace the file by a fresh list, then reload$", warning), warning
        assert "is stale since 20" in gateway.errors
        of_root = pki.client("of-root-beside-stale-start", issuer=pki.root)
        entry = assert_refused(gateway, own_upstream, phone, of_root, "crl_stale", UNKNOWN)
        assert "the revocation list of CN=AttestGate development GMS CA is stale or not yet valid" in entry["detail"]
        with Client(other, phone) as client:
            assert client.exchange(get("/")).status == 200
        name, listener = "attestgate_crl_stale", gateway.conf["listeners"][0]["address"]
        metrics = scrape(gateway)
        assert metrics(name, listener=listener, issuer="CN=AttestGate development GMS CA") == 1
        assert metrics(name, listener=listener, issuer="CN=root") == 0
        eventually(
            lambda: "GMS CA has ended: all clients of this authority are refused until a fresh list is loaded" in gateway.errors,
            lambda: f"the log to say what it means: {gateway.errors}")
        # A fresh list readmits them, without a restart.
        revoke_and_reload(gateway, lists)
        with Client(gateway, phone) as client:
            assert client.exchange(get("/")).status == 200
        assert scrape(gateway)(name, listener=listener, issuer="CN=AttestGate development GMS CA") == 0


@contextmanager
def start_twice(start_gateway, own_upstream, lists):
    """A gateway with two listeners, of which the second one has no lists. - Returns: it, and the same for clients of the second."""
    holder, port = reserve_port()
    gateway = start_gateway(
        {"service": own_upstream.address}, clients=lists.clients, kind=partial(TwoListeners, other=port))
    other = copy(gateway)
    other.port = port
    with holder:
        yield gateway, other


class TwoListeners(Gateway):
    def __init__(self, *arguments, other, **settings):
        self.other = other
        super().__init__(*arguments, **settings)

    def _conf(self, *arguments):
        conf = super()._conf(*arguments)
        first, = conf["listeners"]
        clients = {key: value for key, value in first["clients"].items() if key == "authorities"}
        conf["listeners"].append({**first, "address": f"127.0.0.1:{self.other}", "clients": clients})
        return conf


def test_stale_lists_count_where_they_are_accepted(start_gateway, own_upstream, lists, pki, phone):
    revoked = pki.phone("revoked-by-a-stale-list")
    lists.revoke(revoked, start=-3, end=-1)
    gateway = start_gateway(
        {"service": own_upstream.address}, clients={"crls": [str(lists.gms)], "crl_policy": "accept-stale"})
    # The second authority has no list, and needs none.
    for identity in [phone, pki.client("of-root-without-list", issuer=pki.root)]:
        with Client(gateway, identity) as client:
            assert client.exchange(get("/")).status == 200
    assert_refused(gateway, own_upstream, revoked, phone, "certificate_revoked", REVOKED)


def test_a_certificate_of_an_issuer_without_a_list_is_refused(revoking, own_upstream, pki, phone):
    issuing = pki.authority("issuing-without-list", issuer=pki.root)
    identity = pki.client("of-issuing-without-list", issuer=issuing, above=[issuing.certificate])
    entry = assert_refused(revoking, own_upstream, identity, phone, "crl_stale", UNKNOWN)
    assert "there is no revocation list of an issuer in its chain" in entry["detail"]


def test_a_certificate_of_an_issuer_that_is_revoked_is_refused(start_gateway, own_upstream, lists, pki, phone):
    issuing = pki.authority("issuing-revoked", issuer=pki.root)
    identity = pki.client("of-issuing-revoked", issuer=issuing, above=[issuing.certificate])
    clients = {**lists.clients, "crl_policy": "accept-stale"}
    gateway = start_gateway({"service": own_upstream.address}, clients=clients)
    with Client(gateway, identity) as client:
        assert client.exchange(get("/")).status == 200
        pki.crl(lists.root, pki.root, [(issuing, "cACompromise")])
        assert reload(gateway).returncode == 0
        assert ended(client)
    entry = assert_refused(gateway, own_upstream, identity, phone, "certificate_revoked", REVOKED, count=1)
    assert "an issuer in its chain is revoked by the list of CN=root: cACompromise" in entry["detail"]


def spoil_with_foreign(lists, pki):
    pki.crl(lists.gms, pki.authority("crl-foreign"))


def spoil_with_impostor(lists, pki):
    pki.crl(lists.gms, pki.authority("crl-impostor", subject="/CN=AttestGate development GMS CA"))


def spoil_with_rubbish(lists, pki):
    lists.gms.write_bytes(b"0\x03abc")


def spoil_with_text(lists, pki):
    lists.gms.write_text("no list\n")


def spoil_with_half(lists, pki):
    lists.gms.write_text(lists.gms.read_text() + lists.gms.read_text()[:200])


def spoil_with_delta(lists, pki):
    lists.revoke(extensions="2.5.29.27=critical,ASN1:INTEGER:1")


def spoil_with_part(lists, pki):
    lists.revoke(extensions="issuingDistributionPoint=critical,@part\n[part]\nonlyuser=TRUE")


def spoil_with_sha1(lists, pki):
    lists.revoke(digest="sha1")


def spoil_with_one_missing(lists, pki):
    lists.gms.write_text(lists.root.read_text())


@pytest.mark.parametrize("spoil, reason", [
    (spoil_with_foreign, "is not signed by an authority"), (spoil_with_impostor, "is not signed by an authority"),
    (spoil_with_rubbish, "cannot read the revocation list"), (spoil_with_text, "cannot find a revocation list"),
    (spoil_with_half, "cannot read revocation list 2"),
    (spoil_with_delta, "critical extension"), (spoil_with_part, "critical extension"), (spoil_with_sha1, "weaker than SHA-256"),
    (spoil_with_one_missing, "a second revocation list of CN=root"),
], ids=lambda value: getattr(value, "__name__", None))
def test_a_bad_list_is_refused_and_the_last_good_one_stays(revoking, own_upstream, lists, pki, phone, spoil, reason):
    revoked = pki.phone("revoked-for-good")
    revoke_and_reload(revoking, lists, revoked)
    spoil(lists, pki)
    checked = attestgate("check", "--config", revoking.conf_path)
    assert checked.returncode == 1 and reason in checked.stderr and str(lists.directory) in checked.stderr, checked.stderr
    done = reload(revoking)
    assert done.returncode == 1 and reason in done.stderr, done.stderr
    assert_refused(revoking, own_upstream, revoked, phone, "certificate_revoked", REVOKED)


@pytest.mark.parametrize("start, end, said", [(-3, -1, "is stale since 20"), (1, 3, "is not valid before 20")])
def test_a_reload_with_a_stale_list_refuses_new_handshakes_and_ends_no_connection(
        revoking, own_upstream, lists, pki, phone, start, end, said):
    of_root = pki.client("of-root-at-stale-reload", issuer=pki.root)
    with Client(revoking, phone) as kept:
        assert kept.exchange(get("/")).status == 200
        lists.revoke(start=start, end=end)
        done = reload(revoking)
        assert done.returncode == 0 and said in done.stderr, done.stderr
        assert kept.exchange(get("/")).status == 200
    assert_refused(revoking, own_upstream, phone, of_root, "crl_stale", UNKNOWN)


def test_an_authority_without_a_list_is_refused_where_fresh_ones_are_required(revoking, lists):
    revoking.conf["listeners"][0]["clients"]["crls"] = [str(lists.gms)]
    revoking.write_conf()
    checked = attestgate("check", "--config", revoking.conf_path)
    assert checked.returncode == 1 and "there is no revocation list of CN=root" in checked.stderr


def test_age_end_and_length_of_a_list_are_metrics_and_its_end_is_warned_of(start_gateway, own_upstream, lists, pki):
    lists.revoke(*(pki.client(f"counted-{n}") for n in range(3)), start=-3, end=0.9)
    gateway = start_gateway({"service": own_upstream.address}, clients=lists.clients)
    listener = gateway.conf["listeners"][0]["address"]
    name = "attestgate_crl_next_update_timestamp_seconds"
    end = scrape(gateway)(name, listener=listener, issuer="CN=AttestGate development GMS CA")
    assert abs(end - (time.time() + 0.9 * 86_400)) < 600
    assert scrape(gateway)(name, listener=listener, issuer="CN=root") > end
    made = scrape(gateway)(
        "attestgate_crl_this_update_timestamp_seconds", listener=listener, issuer="CN=AttestGate development GMS CA")
    assert abs(made - (time.time() - 3 * 86_400)) < 600
    for issuer, count in [("CN=AttestGate development GMS CA", 3), ("CN=root", 0)]:
        assert scrape(gateway)("attestgate_crl_entries", listener=listener, issuer=issuer) == count
    said = f"listener {listener}: the revocation list of CN=AttestGate development GMS CA ends in 21 hours"
    eventually(lambda: said in gateway.errors, lambda: f"a warning in {gateway.errors}")
    assert "CN=root" not in gateway.errors
    # Another list, other figures.
    lists.revoke()
    assert reload(gateway).returncode == 0
    metrics = scrape(gateway)
    assert metrics("attestgate_crl_entries", listener=listener, issuer="CN=AttestGate development GMS CA") == 0
    assert metrics(name, listener=listener, issuer="CN=AttestGate development GMS CA") > end + 20 * 86_400
