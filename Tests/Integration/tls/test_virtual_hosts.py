"""Several hosts at one address: each with its own certificate and its own rules for clients, chosen by what the handshake asks
for; and what was settled for one of them opens no other.

The listener's own rules are for clients that ask for none of the hosts. Everything is tried with them and with a host, so that
the one's being laxer, or stricter, shows in neither direction."""

import json
import re
import ssl
import time
from types import SimpleNamespace

import pytest

from support import ocsp
from support.attested import Attested
from support.client import Client, context_trusting, ended, get
from support.command_line import s_client
from support.denials import NothingForwarded, assert_connection_refused, assert_denied
from support.exposition import ask, scrape
from support.gateway import Gateway
from support.pki import Identity, attestgate
from support.raw_handshake import RawTLS, client_hello, counted, server_name
from support.recording_upstream import RecordingUpstream
from support.reloading import reload
from test_pins import pin

A, B, OWN = "a.example", "b.example", "localhost"
TLS12, TLS13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
VERSIONS = pytest.mark.parametrize("version", [TLS12, TLS13], ids=["1.2", "1.3"])
DECODE_ERROR, ILLEGAL_PARAMETER = 50, 47

ROUTES = [
    {"name": name.replace(".", "-"), "host": name, "path": "/"} for name in [OWN, A, B, "other.example"]]


@pytest.fixture(scope="module")
def hosts(pki, tmp_path_factory):
    """Certificates of two hosts, and clients of three authorities: each host's, and one that is anybody's."""
    web = pki.authority("hosts-web")
    directory = tmp_path_factory.mktemp("hosts")
    (directory / "web.pem").write_text(pki.server_ca.read_text() + web.certificate.read_text())
    made = SimpleNamespace(directory=directory, web=directory / "web.pem", server={}, authority={}, client={})
    for name in [A, B]:
        made.server[name] = pki.client(
            f"hosts-server-{name}", issuer=web, extensions=f"subjectAltName=DNS:{name}\nextendedKeyUsage=serverAuth\n")
        made.authority[name] = pki.authority(f"hosts-ca-{name}")
        made.client[name] = pki.client(f"hosts-client-{name}", issuer=made.authority[name])
    made.server[OWN] = Identity(pki.server_certificate, pki.server_key)
    made.authority[OWN], made.client[OWN] = pki.gms, pki.phone("hosts-phone")
    return made


def tls(identity, policy="intermediate"):
    return {"certificate": str(identity.certificate), "key": str(identity.key), "policy": policy}


def with_hosts(gateway, hosts, trusting=None, clients=None, policy=None):
    """Gives the gateway the two hosts. By name, OWN for the listener itself: `trusting` says whom they trust, if not each its
    own authority, `clients` what they say of clients besides, `policy` what they offer of TLS."""
    def rules(name):
        trusted = (trusting or {}).get(name, [hosts.authority[name]])
        return {
            "tls": tls(hosts.server[name], (policy or {}).get(name, "intermediate")),
            "clients": {"authorities": [str(each.certificate) for each in trusted], **(clients or {}).get(name, {})}}
    listener = gateway.conf["listeners"][0]
    listener.update(rules(OWN))
    listener["hosts"] = [{"names": [name], **rules(name)} for name in [A, B]]
    return gateway


@pytest.fixture
def start(pki, hosts, own_upstream, tmp_path):
    started = []

    def make(*arguments, policy=None, clients=None, **settings):
        gateway = Gateway(
            tmp_path / f"gateway-{len(started)}", pki, {"service": own_upstream.address}, ROUTES, **settings)
        started.append(gateway)
        return with_hosts(gateway, hosts, *arguments, clients=clients, policy=policy).start()

    yield make
    for gateway in started:
        gateway.stop()


@pytest.fixture(scope="module")
def everybody(hosts):
    """Trust of all authorities, by all."""
    return {name: list(hosts.authority.values()) for name in [OWN, A, B]}


@pytest.fixture(scope="module")
def trusting(pki, hosts, everybody, tmp_path_factory):
    """A gateway whose hosts all trust everybody, shared by the tests that leave it as it is; with its service."""
    upstream = RecordingUpstream()
    gateway = Gateway(tmp_path_factory.mktemp("trusting"), pki, {"service": upstream.address}, ROUTES)
    yield with_hosts(gateway, hosts, everybody).start(), upstream
    gateway.stop()
    upstream.close()
    assert upstream.faults == []


def context_of(hosts, identity, version=TLS13):
    context = context_trusting(hosts.web)
    context.minimum_version = context.maximum_version = version
    if identity:
        context.load_cert_chain(identity.certificate, identity.key)
    return context


def connect(gateway, hosts, name, identity, version=TLS13, context=None, session=None):
    """Asks for the host, and takes no certificate but that host's."""
    return Client(
        gateway, identity, context=context or context_of(hosts, identity, version), session=session, server_name=name)


def session_of(client, name):
    assert client.exchange(get("/session", host=name)).status == 200
    session = client.socket.session
    client.leave()
    return session


def assert_admitted(*arguments, **options):
    name = arguments[2]
    with connect(*arguments, **options) as client:
        assert client.exchange(get("/admitted", host=name)).status == 200


def assert_refused(upstream, alert, gateway, hosts, name, identity, *arguments, code, **options):
    """The handshake ends with that alert, the log says why and whom it was to, and not one byte is forwarded."""
    with NothingForwarded(gateway, upstream, hosts.client[OWN]):
        with pytest.raises(ssl.SSLError, match=f"(?i){alert.replace('_', '.')}"):
            with connect(gateway, hosts, name, identity, *arguments, **options) as client:
                client.exchange(get("/refused", host=name))
    entry = assert_connection_refused(gateway, code)
    assert entry.get("server_name") == name, entry


# What a host shows.

def test_each_host_presents_its_own_certificate_and_the_listener_to_all_others(start, hosts):
    gateway = start()
    asked = {A: A, B: B, "A.Example": A, OWN: OWN, "other.example": OWN, "a.example.org": OWN, "xa.example": OWN, None: OWN}
    for name, expected in asked.items():
        context = context_of(hosts, hosts.client[expected])
        context.check_hostname = False
        with Client(gateway, None, context=context, server_name=name) as client:
            names = [value for _, value in client.socket.getpeercert()["subjectAltName"]]
            assert expected in names, (name, names)


@VERSIONS
def test_each_host_names_its_own_authorities(start, hosts, version):
    gateway = start()
    for name in [OWN, A, B]:
        output = s_client(
            gateway, "-servername", name, "-CAfile", hosts.web, "-tls1_2" if version == TLS12 else "-tls1_3")
        named = re.search("Acceptable client certificate CA names\n(.*?)\n(Requested|Client Cert)", output, re.DOTALL)[1]
        [common_name] = re.findall("CN=([^,]+)", gateway.pki.names(hosts.authority[name]).subject)
        assert len(named.strip().splitlines()) == 1 and common_name in named, named


@VERSIONS
@pytest.mark.parametrize("place", [OWN, A])
def test_a_response_is_stapled_only_by_its_own_host(start, pki, hosts, tmp_path, place, version):
    stapled = ocsp.Stapled(tmp_path, pki)
    stapled.write()
    gateway = start()
    listener = gateway.conf["listeners"][0]
    section = listener["tls"] if place == OWN else listener["hosts"][0]["tls"]
    section.update({"key": str(pki.server_key), **stapled.tls})
    gateway.write_conf()
    assert reload(gateway).returncode == 0
    for name in [OWN, A, B]:
        output = s_client(
            gateway, "-servername", name, "-status", "-tls1_2" if version == TLS12 else "-tls1_3",
            identity=hosts.client[name], send=get("/", "Connection: close", host=name))
        assert "HTTP/1.1 200" in output, output
        assert ("OCSP Response Status: successful" in output) == (name == place), output
        assert ("OCSP response: no response sent" in output) == (name != place), output


# Whom a host believes. The same handshake is tried where it is to succeed, so that it is the host that decides.

@VERSIONS
@pytest.mark.parametrize("name", [OWN, A, B])
def test_a_client_of_another_hosts_authority_is_refused(start, own_upstream, hosts, name, version):
    gateway = start()
    assert_admitted(gateway, hosts, name, hosts.client[name], version)
    for other in {OWN, A, B} - {name}:
        assert_refused(
            own_upstream, "unknown_ca", gateway, hosts, name, hosts.client[other], version,
            code="certificate_unknown_authority")


@VERSIONS
@pytest.mark.parametrize("name", [OWN, A, B])
def test_a_chain_cached_for_one_host_is_not_used_for_another(start, own_upstream, hosts, name, version):
    gateway = start()
    for _ in range(2):
        assert_admitted(gateway, hosts, name, hosts.client[name], version)
    # The control: it is known there.
    assert scrape(gateway)("attestgate_client_chains_total", cache="hit") == 1
    other = {OWN: A, A: B, B: OWN}[name]
    assert_refused(
        own_upstream, "unknown_ca", gateway, hosts, other, hosts.client[name], version,
        code="certificate_unknown_authority")


@VERSIONS
@pytest.mark.parametrize("name", [OWN, A])
def test_every_host_demands_a_certificate(start, own_upstream, hosts, name, version):
    # TLS 1.2 has no alert of that name.
    alert = "certificate_required" if version == TLS13 else "handshake_failure"
    assert_refused(own_upstream, alert, start(), hosts, name, None, version, code="certificate_required")


@pytest.mark.parametrize("strict, lax", [(OWN, A), (A, OWN), (B, A)])
def test_the_lowest_version_is_that_of_the_host(start, own_upstream, hosts, strict, lax):
    gateway = start(policy={strict: "modern"})
    assert_admitted(gateway, hosts, lax, hosts.client[lax], TLS12)
    assert_admitted(gateway, hosts, strict, hosts.client[strict], TLS13)
    assert_refused(
        own_upstream, "protocol_version", gateway, hosts, strict, hosts.client[strict], TLS12, code="handshake_failed")


@VERSIONS
@pytest.mark.parametrize("strict, lax", [(OWN, A), (A, OWN), (B, A)])
def test_each_host_has_its_own_revocation_settings(start, own_upstream, pki, hosts, everybody, strict, lax, version):
    # The sentinel's own client is another, that nobody revokes.
    revoked = hosts.client[B]
    lists = {
        name: pki.crl(hosts.directory / f"{name}-{time.time_ns()}.crl", authority, [(revoked, "superseded")] if name == B else [])
        for name, authority in hosts.authority.items()}
    gateway = start(everybody, clients={strict: {"crls": list(map(str, lists.values()))}})
    assert_admitted(gateway, hosts, lax, revoked, version)
    assert_admitted(gateway, hosts, strict, hosts.client[A], version)
    assert_refused(
        own_upstream, "certificate_revoked", gateway, hosts, strict, revoked, version, code="certificate_revoked")


@VERSIONS
@pytest.mark.parametrize("strict, lax", [(OWN, A), (A, OWN), (B, A)])
def test_pins_are_those_of_the_host(start, own_upstream, pki, hosts, everybody, strict, lax, version):
    gateway = start(everybody, clients={strict: {"pins": [pin(pki, hosts.client[OWN])]}})
    assert_admitted(gateway, hosts, lax, hosts.client[A], version)
    assert_admitted(gateway, hosts, strict, hosts.client[OWN], version)
    assert_refused(
        own_upstream, "bad_certificate", gateway, hosts, strict, hosts.client[A], version, code="certificate_not_pinned")


@VERSIONS
@pytest.mark.parametrize("strict, lax", [(OWN, A), (A, OWN), (B, A)])
def test_self_signed_certificates_are_taken_by_the_hosts_that_say_so(start, own_upstream, pki, hosts, strict, lax, version):
    gateway = start(clients={lax: {"accept": ["issued", "registered"]}}, registry={"devices": 64})
    lone = pki.client("hosts-self-signed", issuer=None)
    with connect(gateway, hosts, lax, lone, version) as client:
        # TLS takes it, and the registry knows nobody who has it.
        assert_denied(gateway, client.exchange(get("/", host=lax)), "device_unknown", 401)
    assert_refused(
        own_upstream, "unknown_ca", gateway, hosts, strict, lone, version, code="certificate_unknown_authority")


# Resumed on another host (CVE-2025-23419).

PAIRS = pytest.mark.parametrize("first, second", [(A, B), (A, OWN), (OWN, A)])


def resumed(gateway, hosts, name, context, version):
    """A session of the host, of which it is shown that the host resumes it."""
    with connect(gateway, hosts, name, None, version, context) as client:
        assert not client.socket.session_reused
        session = session_of(client, name)
    with connect(gateway, hosts, name, None, version, context, session) as client:
        assert client.socket.session_reused
        return session_of(client, name)


@VERSIONS
@PAIRS
def test_a_session_is_not_resumed_at_a_host_that_does_not_trust_its_client(
        start, own_upstream, hosts, first, second, version):
    gateway = start()
    context = context_of(hosts, hosts.client[first], version)
    session = resumed(gateway, hosts, first, context, version)
    before = scrape(gateway)("attestgate_handshakes_total", result="resumed")
    assert_refused(
        own_upstream, "unknown_ca", gateway, hosts, second, None, version, context, session,
        code="certificate_unknown_authority")
    assert scrape(gateway)("attestgate_handshakes_total", result="resumed") == before


@VERSIONS
@PAIRS
def test_a_session_is_resumed_only_at_its_own_host(
        start, hosts, everybody, first, second, version):
    gateway = start(everybody)
    # Certificate and trust are the same, and the names alone differ.
    listener = gateway.conf["listeners"][0]
    both = hosts.directory / "both"
    if not both.exists():
        both.mkdir()
        gateway.pki.generate_key(both / "key", "P-256")
    made = gateway.pki.client(
        "hosts-server-both", issuer=gateway.pki.authority("hosts-web"),
        extensions=f"subjectAltName=DNS:{A},DNS:{B},DNS:{OWN}\nextendedKeyUsage=serverAuth\n")
    for each in [listener, *listener["hosts"]]:
        each["tls"] = tls(made)
    gateway.write_conf()
    assert reload(gateway).returncode == 0
    context = context_of(hosts, hosts.client[first], version)
    session = resumed(gateway, hosts, first, context, version)
    with connect(gateway, hosts, second, None, version, context, session) as client:
        assert not client.socket.session_reused
        assert client.exchange(get("/", host=second)).status == 200
    # It was not for want of the session.
    with connect(gateway, hosts, first, None, version, context, session) as client:
        assert client.socket.session_reused


@VERSIONS
def test_names_of_one_host_share_sessions_and_each_request_must_match_its_name(
        start, own_upstream, hosts, version):
    gateway = start()
    gateway.conf["listeners"][0]["hosts"][0]["names"] += ["other.example"]
    gateway.write_conf()
    assert reload(gateway).returncode == 0
    context = context_of(hosts, hosts.client[A], version)
    session = resumed(gateway, hosts, A, context, version)
    context.check_hostname = False
    with NothingForwarded(gateway, own_upstream, hosts.client[OWN]):
        with connect(gateway, hosts, "other.example", None, version, context, session) as client:
            assert client.socket.session_reused
            assert_denied(gateway, client.exchange(get("/", host=A)), "misdirected", 421)
    with connect(gateway, hosts, "other.example", None, version, context, session) as client:
        assert client.exchange(get("/", host="other.example")).status == 200


# What the handshake asked for, and what requests ask for.

@VERSIONS
@pytest.mark.parametrize("asked, host", [
    (A, B), (A, OWN), (OWN, A), (A, "nobody.example"), ("other.example", A), (None, A), (None, f"{A}:443"), (None, "B.Example"),
    (A, f"x{A}"), (A, f"{A}.org"), (A, "127.0.0.1"), ("a.example.org", "a.example")])
def test_a_request_for_another_host_than_the_handshake_asked_for_is_misdirected(
        trusting, hosts, asked, host, version):
    gateway, upstream = trusting
    context = context_of(hosts, hosts.client[A], version)
    context.check_hostname = False
    with NothingForwarded(gateway, upstream, hosts.client[OWN]):
        with Client(gateway, None, context=context, server_name=asked) as client:
            for method, path in [("GET", "/"), ("POST", "/a"), ("GET", "/.well-known/attestgate/challenge")]:
                fields, content = (["Content-Length: 2"], b"{}") if method == "POST" else ([], b"")
                response = client.exchange(get(path, *fields, host=host, method=method) + content)
                entry = assert_denied(gateway, response, "misdirected", 421)
                assert entry.get("server_name") == asked and entry["decision"] == "denied" and "route" not in entry
            response = client.exchange(get("/", host=host, method="HEAD"))
            assert_denied(gateway, response, "misdirected", 421, method="HEAD")


@pytest.mark.parametrize("asked, host", [
    (A, A), (A, "A.EXAMPLE"), (A, f"{A}:PORT"), ("A.Example", A), (B, B), (OWN, OWN), ("other.example", "Other.Example:PORT"),
    (None, OWN), (None, "other.example")])
def test_a_request_for_the_same_host_is_served_in_any_case_and_with_the_listener_s_port(trusting, hosts, asked, host):
    gateway, _ = trusting
    host = host.replace("PORT", str(gateway.port))
    context = context_of(hosts, hosts.client[A])
    context.check_hostname = False
    with Client(gateway, None, context=context, server_name=asked) as client:
        for _ in range(2):
            assert client.exchange(get("/", host=host)).status == 200
        # A misdirected one in between spoils nothing.
        assert client.exchange(get("/", host="b.example" if asked != B else A)).status == 421
        assert client.exchange(get("/", host=host)).status == 200


def test_a_trailing_dot_is_refused_in_a_host_name(trusting, hosts):
    gateway, upstream = trusting
    for asked in [A, None]:
        context = context_of(hosts, hosts.client[A])
        context.check_hostname = False
        with NothingForwarded(gateway, upstream, hosts.client[OWN]):
            with Client(gateway, None, context=context, server_name=asked) as client:
                assert_denied(gateway, client.exchange(get("/", host=f"{A}.")), "request_malformed", 400)


def test_a_listener_of_one_host_also_compares_host_and_server_name(gateway, upstream, phone):
    with NothingForwarded(gateway, upstream, phone):
        with Client(gateway, phone) as client:
            assert_denied(gateway, client.exchange(get("/", host="example.org")), "misdirected", 421)
    with Client(gateway, phone) as client:
        assert client.exchange(get("/", host=f"LOCALHOST:{gateway.port}")).status == 200


def test_a_misdirected_request_spends_no_counter(pki, own_upstream, tmp_path):
    attested = Attested(tmp_path / "gateway", pki, own_upstream)
    try:
        data = attested.phone.request(path="/a")
        context = context_trusting(pki.server_ca)
        context.load_cert_chain(attested.phone.identity.certificate, attested.phone.identity.key)
        context.check_hostname = False
        with attested.nothing_forwarded():
            with Client(attested.gateway, None, context=context, server_name="elsewhere.example") as client:
                assert_denied(attested.gateway, client.exchange(data), "misdirected", 421)
        # The very same proof is good where it belongs.
        with attested.phone.connect() as client:
            assert client.exchange(data).status == 200
    finally:
        attested.gateway.stop()


# What is asked for is read strictly.

BROKEN = {
    "no list": b"", "half a length": b"\x00", "an empty list": b"\x00\x00", "a list without a name": b"\x00\x01\x00",
    "an empty name in a short list": b"\x00\x02\x00\x00", "a longer list than there is": b"\x00\xff" + server_name(b"a.example")[2:],
    "a shorter list": b"\x00\x05" + server_name(b"a.example")[2:], "a longer name than there is": b"\x00\x06\x00\x00\x04abc",
    "something behind it": server_name(b"a.example") + b"\x00", "a name of another type": server_name(b"a.example", kind=1),
    "two names": counted(server_name(b"a.example")[2:] * 2, 2),
}
NO_HOSTS = [
    b"127.0.0.1", b"a.example.", b".example", b"a..example", b"::1", b"[::1]", b"a_b.example", b"a\x00.example", b"a.example\x00",
    "bücher.example".encode(), b"a.example:443", b"*.example", b"a" * 64, b"a." * 127 + b"a", b"",
]


def assert_hello_refused(gateway, upstream, identity, alert, *hellos):
    """The last of these messages is answered with that alert. - Returns: what the log says of it."""
    before = len([entry for entry in gateway.access() if entry.get("denial") == "handshake_failed"])
    with NothingForwarded(gateway, upstream, identity):
        with RawTLS(gateway) as raw:
            for hello in hellos[:-1]:
                assert raw.send(hello).read_server_hello(), "a HelloRetryRequest"
            assert raw.send(hellos[-1]).read_alert() == alert
    return assert_connection_refused(gateway, "handshake_failed", count=before + 1)


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN)
def test_a_malformed_server_name_is_refused_with_decode_error(gateway, upstream, phone, content):
    entry = assert_hello_refused(gateway, upstream, phone, DECODE_ERROR, client_hello(content))
    assert "server_name is malformed" in entry["detail"] and "server_name" not in entry


@pytest.mark.parametrize("name", NO_HOSTS, ids=repr)
def test_a_server_name_that_is_no_host_name_is_refused(gateway, upstream, phone, name):
    entry = assert_hello_refused(gateway, upstream, phone, ILLEGAL_PARAMETER, client_hello(server_name(name)))
    assert "holds no host name" in entry["detail"] and "server_name" not in entry


@pytest.mark.parametrize("first, second", [(A, B), (A, None), (None, A), (A, OWN), (OWN, A)])
def test_a_second_client_hello_cannot_ask_for_another_host(trusting, hosts, first, second):
    gateway, upstream = trusting

    def hello(name, **options):
        return client_hello(name and server_name(name.encode()), **options)
    # The control.
    with RawTLS(gateway) as raw:
        assert raw.send(hello(first, has_share=False)).read_server_hello()
        assert not raw.send(hello(first)).read_server_hello()
    entry = assert_hello_refused(
        gateway, upstream, hosts.client[OWN], ILLEGAL_PARAMETER, hello(first, has_share=False), hello(second))
    assert "the second ClientHello has another host than the first" in entry["detail"] and entry.get("server_name") == first


# Generations.

@VERSIONS
def test_a_new_list_of_one_host_ends_its_connections_and_sessions_and_no_others(
        start, own_upstream, pki, hosts, everybody, version):
    lists = [
        pki.crl(hosts.directory / f"{name}-{time.time_ns()}.crl", authority) for name, authority in hosts.authority.items()]
    gateway = start(everybody, clients={A: {"crls": list(map(str, lists))}})
    revoked = hosts.client[B]
    context = context_of(hosts, revoked, version)
    sessions = {name: resumed(gateway, hosts, name, context, version) for name in [A, B, OWN]}
    with connect(gateway, hosts, A, revoked, version) as barred, connect(gateway, hosts, B, revoked, version) as kept, \
            connect(gateway, hosts, OWN, revoked, version) as own:
        opened = {A: barred, B: kept, OWN: own}
        assert reload(gateway).returncode == 0
        for name, client in opened.items():
            assert client.exchange(get("/", host=name)).status == 200
        pki.crl(lists[list(hosts.authority).index(B)], hosts.authority[B], [(revoked, "keyCompromise")])
        assert reload(gateway).returncode == 0
        # The reload is served: what is to end has ended by now.
        assert ended(barred)
        for name in [B, OWN]:
            assert opened[name].exchange(get("/", host=name)).status == 200
    entry = gateway.logged(denial="certificate_revoked")
    assert "while the connection was open" in entry["detail"] and entry["server_name"] == A
    assert_refused(
        own_upstream, "certificate_revoked", gateway, hosts, A, None, version, context, sessions[A],
        code="certificate_revoked")
    for name in [B, OWN]:
        with connect(gateway, hosts, name, None, version, context, sessions[name]) as client:
            assert client.socket.session_reused


def test_removed_pins_of_one_host_end_only_its_connections(start, pki, hosts, everybody):
    gateway = start(everybody)
    client = hosts.client[B]
    with connect(gateway, hosts, A, client) as barred, connect(gateway, hosts, B, client) as kept:
        gateway.conf["listeners"][0]["hosts"][0]["clients"]["pins"] = [pin(pki, hosts.client[A])]
        gateway.write_conf()
        assert reload(gateway).returncode == 0
        assert ended(barred)
        assert kept.exchange(get("/", host=B)).status == 200


def test_connections_of_a_host_that_is_gone_stay_unless_any_list_names_them(start, pki, hosts, everybody):
    gateway = start(everybody)
    revoked, other = hosts.client[B], hosts.client[A]
    with connect(gateway, hosts, A, revoked) as barred, connect(gateway, hosts, A, other) as kept:
        listener = gateway.conf["listeners"][0]
        del listener["hosts"][0]
        # What the listener says for everybody else was never meant for the host's clients: these pins would end both.
        listener["clients"]["pins"] = [pin(pki, hosts.client[OWN])]
        gateway.write_conf()
        assert reload(gateway).returncode == 0
        for client in [barred, kept]:
            assert client.exchange(get("/", host=A)).status == 200
        lists = [
            pki.crl(
                hosts.directory / f"{name}-{time.time_ns()}.crl", authority,
                [(revoked, "keyCompromise")] if name == B else [])
            for name, authority in hosts.authority.items()]
        listener["hosts"][0]["clients"]["crls"] = list(map(str, lists))
        gateway.write_conf()
        assert reload(gateway).returncode == 0
        assert ended(barred)
        assert kept.exchange(get("/", host=A)).status == 200


def test_a_new_host_decides_about_connections_that_requested_it(start, pki, hosts, everybody):
    gateway = start(everybody)
    context = context_of(hosts, hosts.client[B])
    context.check_hostname = False
    with Client(gateway, None, context=context, server_name="other.example") as barred, \
            connect(gateway, hosts, OWN, hosts.client[B]) as kept:
        assert barred.exchange(get("/", host="other.example")).status == 200
        host = gateway.conf["listeners"][0]["hosts"][0]
        host["names"] += ["other.example"]
        host["clients"]["pins"] = [pin(pki, hosts.client[A])]
        gateway.write_conf()
        assert reload(gateway).returncode == 0
        assert ended(barred)
        assert kept.exchange(get("/", host=OWN)).status == 200


def test_a_changed_file_of_a_host_is_noticed(start, pki, hosts, everybody):
    listed = hosts.directory / f"watched-{time.time_ns()}.crl"
    lists = [pki.crl(hosts.directory / f"{name}-{time.time_ns()}.crl", authority) for name, authority in hosts.authority.items() if name != B]
    pki.crl(listed, hosts.authority[B])
    gateway = start(everybody, clients={A: {"crls": [*map(str, lists), str(listed)]}}, watch="1s")
    with connect(gateway, hosts, A, hosts.client[B]) as client:
        assert client.exchange(get("/", host=A)).status == 200
        pki.crl(listed, hosts.authority[B], [(hosts.client[B], "keyCompromise")])
        assert ended(client)


# Hosts in metrics and status.

def test_metrics_and_status_identify_hosts_by_their_first_name(start, pki, hosts):
    lists = [str(pki.crl(hosts.directory / "listed.crl", hosts.authority[A]))]
    gateway = start(clients={A: {"crls": lists}})
    gateway.conf["listeners"][0]["hosts"][0]["names"] += ["other.example"]
    gateway.write_conf()
    assert reload(gateway).returncode == 0
    metrics = scrape(gateway)
    ends = metrics.labels("attestgate_certificate_expiry_timestamp_seconds")
    assert {labels.get("host") for labels in ends} == {None, A, B}
    assert {labels["listener"] for labels in ends} == {f"127.0.0.1:{gateway.port}"}
    for name in ["attestgate_crl_next_update_timestamp_seconds", "attestgate_crl_entries"]:
        assert [labels["host"] for labels in metrics.labels(name)] == [A]
    status = json.loads(ask(gateway, "/status")[2])
    assert {each.get("host") for each in status["certificates"]} == {None, A, B}
    address = f"127.0.0.1:{gateway.port}"
    assert status["listeners"] == [address] and status["hosts"] == [
        {"listener": address, "names": [A, "other.example"]}, {"listener": address, "names": [B]}]
    assert f"listener {address}, host {A}: serving {A}" in gateway.errors, gateway.errors
    listing = attestgate("status", "--config", gateway.conf_path)
    assert f"{address} {A}" in listing.stdout and f"{A}, other.example at {address}" in listing.stdout, listing.stdout


def test_check_names_the_host_of_a_warning(start, pki, hosts):
    gateway = start()
    expired = pki.client(
        "hosts-expired", issuer=pki.authority("hosts-web"), start=-3, end=-1,
        extensions=f"subjectAltName=DNS:{A}\nextendedKeyUsage=serverAuth\n")
    listener = gateway.conf["listeners"][0]
    listener["hosts"][0]["tls"] = tls(expired)
    listener["hosts"][1]["names"] += ["unrouted.example"]
    gateway.write_conf()
    done = attestgate("check", "--config", gateway.conf_path)
    assert done.returncode == 0, done.stderr
    place = f"listener 127.0.0.1:{gateway.port}, host"
    said = done.stdout + done.stderr
    assert "1 listener, 2 hosts, 4 routes" in said, said
    assert f"{place} {A}: {expired.certificate}: the certificate of CN=hosts-expired has expired, 1 day ago" in said
    assert f"{place} {B}: {hosts.server[B].certificate}: the certificate does not contain the name unrouted.example" in said
    assert "there is no route for the host `unrouted.example`" in said
    # And what cannot be served at all.
    listener["hosts"][1]["tls"]["key"] = str(hosts.server[A].key)
    gateway.write_conf()
    done = attestgate("check", "--config", gateway.conf_path)
    assert done.returncode == 1 and f"{place} {B}: " in done.stderr, done.stderr
