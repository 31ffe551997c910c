"""Behind a proxy that terminates the phones' TLS: the certificate that it states is judged as that of a handshake, for every
request of a connection that many phones share."""

import base64
import ssl

import pytest

from support import web_sockets
from support.client import Client, IncompleteResponse, get
from support.denials import assert_answered, assert_denied
from support.edge import (
    EDGE, FIELDS, AttestedBehind, EdgeConnection, edge_authority, edge_identity, listener_settings, stated, stating, value)
from support.gateway import BRIEF
from support.http2_client import HTTP2Client
from support.pki import CLIENT, Authority, Lists, attestgate
from support.reloading import reload, revoke_and_reload
from support.waiting import eventually

IDENTITY = ["attest-device", "attest-app", "attest-platform", "attest-counter"]
ROUTES = [
    {"name": "records", "host": "localhost", "path": "/", "require": "request-proof"},
    {"name": "observed", "host": "localhost", "path": "/observed", "require": "request-proof", "enforce": "observe"},
    {"name": "certificate", "host": "localhost", "path": "/certificate"},
    {"name": "chat", "host": "localhost", "path": "/chat", "websocket": "allowed"},
]
FORMATS = sorted(FIELDS)


@pytest.fixture
def edge(pki):
    return edge_identity(pki)


@pytest.fixture
def start_behind(pki, own_upstream, tmp_path):
    started = []

    def start(form="rfc9440", **settings):
        made = AttestedBehind(
            tmp_path / f"behind-{len(started)}", pki, own_upstream, form,
            **{"routes": ROUTES, "upstream_settings": {"client_certificate": "rfc9440"}, **settings})
        started.append(made)
        return made

    yield start
    for made in started:
        made.gateway.stop(BRIEF)


@pytest.fixture
def behind(start_behind):
    return start_behind()


@pytest.fixture
def refused(behind, edge):
    """Sends a request with these lines, expects its denial and nothing at the service, and that the connection continues."""
    def refused(lines, code, status, data=None):
        with EdgeConnection(behind.gateway, edge) as connection:
            with behind.nothing_forwarded_at_all():
                response = connection.exchange(stating(data or get("/certificate"), *lines))
                entry = assert_denied(behind.gateway, response, code, status)
            # It belongs to other phones, too.
            assert connection.exchange(stating(get("/certificate"), stated(behind.phone.identity))).status == 200
        return response, entry
    return refused


# What passes.

@pytest.mark.parametrize("form", FORMATS)
def test_a_phone_proves_its_requests_through_a_proxy(start_behind, form):
    behind = start_behind(form)
    phone = behind.phone
    with phone.connect() as client:
        for _ in range(3):
            assert client.exchange(phone.request("POST", "/", content=b"hello")).status == 200
            request = behind.upstream.last_request()
            assert [name for name in IDENTITY if request.values(name)] == IDENTITY
            # What the service learns is of the phone, not of the proxy.
            assert request.values("client-cert") == [value(phone.identity)]
            assert form == "rfc9440" or request.values(FIELDS[form].lower()) == []
        replayed = phone.request()
        assert client.exchange(replayed).status == 200
        with behind.nothing_forwarded_at_all():
            assert_denied(behind.gateway, client.exchange(phone.again(replayed)), "counter_replayed", 401)


def test_phones_share_a_connection_and_keep_their_identities(behind, edge):
    phones = [behind.phone, behind.new_phone(), behind.new_phone()]
    seen = {}
    with EdgeConnection(behind.gateway, edge) as connection:
        for phone in phones * 3:
            assert connection.exchange(stating(phone.request(), stated(phone.identity))).status == 200
            request = behind.upstream.last_request()
            assert request.values("client-cert") == [value(phone.identity)]
            seen.setdefault(request.values("attest-device")[0], set()).add(phone.number)
    assert [len(numbers) for numbers in seen.values()] == [1, 1, 1]


def test_streams_of_one_connection_have_clients_of_their_own(behind, edge):
    phones = [behind.phone, behind.new_phone()]
    requests = [stating(phone.request(path=f"/{n}"), stated(phone.identity)) for n in range(4) for phone in phones]
    with HTTP2Client(behind.gateway, edge) as connection:
        for number in connection.begin_together(requests):
            assert connection.response(number).status == 200
    for request in behind.upstream.requests[-8:]:
        assert request.values("client-cert")[0] in [value(phone.identity) for phone in phones]
    assert len({(r.values("client-cert")[0], r.values("attest-device")[0]) for r in behind.upstream.requests[-8:]}) == 2


def test_a_phones_limits_are_not_those_of_its_proxy(start_behind, edge):
    behind = start_behind(limits={
        "connections_per_client": 1, "connections_per_source": 1, "handshakes_per_source": 1, "streams_per_client": 1})
    connections = [EdgeConnection(behind.gateway, edge, stated(behind.phone.identity)) for _ in range(4)]
    for connection in connections:
        assert connection.exchange(get("/certificate")).status == 200
        connection.close()


def test_a_proof_for_another_phones_certificate_is_refused(behind, refused):
    other = behind.new_phone()
    refused([stated(other.identity)], "device_mismatch", 403, behind.phone.request())


def test_an_observed_request_with_a_denial_against_it_states_no_certificate(behind):
    with behind.phone.connect() as client:
        assert client.exchange(get("/observed")).status == 200
    request = behind.upstream.last_request()
    assert request.values("attest-verdict") == ["would-deny;code=proof_required"]
    assert [name for name in [*IDENTITY, "client-cert"] if request.values(name)] == []


def test_a_request_without_a_certificate_passes_where_nothing_is_required(start_behind, edge):
    behind = start_behind(section={"require": "optional"}, routes=[
        *ROUTES, {"name": "public", "host": "localhost", "path": "/public", "require": "nothing"}])
    with EdgeConnection(behind.gateway, edge) as connection:
        assert connection.exchange(get("/public")).status == 200
        # Some proxies send the field all the same.
        assert connection.exchange(get("/public", "Client-Cert: ")).status == 200
        assert_denied(behind.gateway, connection.exchange(get("/certificate")), "certificate_required", 403)
        assert connection.exchange(get("/public")).status == 200


# What the proxy states of the client's address.

def test_limits_logs_and_services_see_the_phones_address(start_behind, edge):
    behind = start_behind(
        section={"address": "x-forwarded-for"}, upstream_settings={"forwarded": ["forwarded", "x-forwarded-for"]},
        limits={"rate_per_source": "1/m burst 2"})
    with EdgeConnection(behind.gateway, edge, stated(behind.phone.identity)) as connection:
        def ask(*addresses):
            return connection.exchange(get("/certificate", *[f"X-Forwarded-For: {each}" for each in addresses]))

        assert ask("203.0.113.9, 192.0.2.7").status == 200
        request = behind.upstream.last_request()
        assert request.values("x-forwarded-for") == ["192.0.2.7"]
        assert request.values("forwarded")[0].startswith("for=192.0.2.7;")
        assert behind.gateway.logged(route="certificate", decision="forwarded")["client"] == "192.0.2.0/24"
        # What a phone writes itself stands before, in the line or in one of its own.
        assert ask("198.51.100.1, 192.0.2.7").status == 200
        assert_denied(behind.gateway, ask("198.51.100.2", "192.0.2.7"), "rate_limited", 429)
        assert ask("192.0.3.7").status == 200


@pytest.mark.parametrize("field, own", [("x-forwarded-for", "192.0.2.7"), ("forwarded", "for=192.0.2.7;proto=https")])
def test_a_quote_does_not_hide_the_phones_address(start_behind, edge, field, own):
    behind = start_behind(section={"address": field}, limits={"rate_per_source": "1/m burst 2"})
    with EdgeConnection(behind.gateway, edge, stated(behind.phone.identity)) as connection:
        def ask(value):
            return connection.exchange(get("/certificate", f"{field}: {value}"))

        for written in ('"', 'for="'):
            assert ask(f"{written}, {own}").status == 200
            assert behind.gateway.logged(route="certificate", decision="forwarded")["client"] == "192.0.2.0/24"
        assert_denied(behind.gateway, ask(f'"a, {own}'), "rate_limited", 429)
        # What has no address counts for nobody, and is logged.
        assert ask("unknown").status == 200
        behind.gateway.logged(detail=f"the proxy states no client's address that can be read in {field.title()}")


def test_without_an_address_no_phone_pays_for_others(start_behind, edge):
    behind = start_behind(limits={"rate_per_source": "1/m burst 1"})
    with EdgeConnection(behind.gateway, edge, stated(behind.phone.identity)) as connection:
        for _ in range(4):
            assert connection.exchange(get("/certificate", "X-Forwarded-For: 192.0.2.7")).status == 200


# What is refused.

INVALID = {
    "twice": lambda pki, phone: [stated(phone), stated(phone)],
    "twice, in two cases": lambda pki, phone: [stated(phone), f"CLIENT-CERT: {value(phone)}"],
    "two values": lambda pki, phone: [f"Client-Cert: {value(phone)}, {value(phone)}"],
    "a parameter": lambda pki, phone: [f"{stated(phone)};a=1"],
    "no byte sequence": lambda pki, phone: [f"Client-Cert: {value(phone, 'der-base64')}"],
    "bad base64": lambda pki, phone: [stated(phone).replace("Client-Cert: :M", "Client-Cert: :*")],
    "another base64": lambda pki, phone: [stated(phone).replace("+", "-").replace("/", "_").replace("=", "")],
    "no certificate": lambda pki, phone: ["Client-Cert: :AAAA:"],
    "bytes behind it": lambda pki, phone: [stated(phone)[:-1].rstrip("=") + "AAAA:"],
    "a bad chain": lambda pki, phone: [stated(phone), "Client-Cert-Chain: :AAAA:, :*:"],
    "a chain twice": lambda pki, phone: [stated(phone), *[f"Client-Cert-Chain: {value(pki.gms)}"] * 2],
    "the form of another proxy": lambda pki, phone: [f"Client-Cert: {value(phone, 'pem-urlencoded')}"],
}


@pytest.mark.parametrize("case", INVALID)
def test_a_field_that_is_not_one_certificate_is_refused(refused, behind, pki, case):
    refused(INVALID[case](pki, behind.phone.identity), "certificate_invalid", 400)


def test_a_field_above_16_kib_is_refused(start_behind, edge):
    behind = start_behind(limits={"head": "24KiB"})
    with EdgeConnection(behind.gateway, edge) as connection:
        with behind.nothing_forwarded_at_all():
            response = connection.exchange(get("/certificate", f"Client-Cert: :{'A' * 16_384}:"))
            assert_denied(behind.gateway, response, "certificate_invalid", 400)


@pytest.mark.parametrize("text", ["%", "%4", "%GG", "%2", "-----BEGIN CERTIFICATE-----"])
def test_bad_percent_encoding_is_refused(start_behind, edge, text):
    behind = start_behind("pem-urlencoded")
    with EdgeConnection(behind.gateway, edge) as connection:
        with behind.nothing_forwarded_at_all():
            line = f"{stated(behind.phone.identity, 'pem-urlencoded')}{text}"
            if text.startswith("-"):
                line = f"X-SSL-Client-Cert: {text}"
            assert_denied(
                behind.gateway, connection.exchange(get("/certificate", line)), "certificate_invalid", 400)


UNACCEPTED = {
    "of another authority": (lambda pki: pki.client("behind-foreign", issuer=pki.authority("behind-other")), "certificate_unknown_authority"),
    "self-signed": (lambda pki: pki.client("behind-self", issuer=None), "certificate_unknown_authority"),
    "expired": (lambda pki: pki.client("behind-expired", start=-9, end=-1), "certificate_expired"),
    "not valid yet": (lambda pki: pki.client("behind-early", start=1), "certificate_expired"),
    "for servers": (lambda pki: pki.client("behind-server", extensions=CLIENT.replace("clientAuth", "serverAuth")), "certificate_unsuitable"),
    "of a large key": (lambda pki: pki.client("behind-p384", kind="P-384"), "certificate_unsuitable"),
    "of the proxy": (edge_identity, "certificate_unknown_authority"),
}


@pytest.mark.parametrize("case", UNACCEPTED)
def test_a_certificate_is_judged_as_in_a_handshake(refused, pki, case):
    make, code = UNACCEPTED[case]
    response, entry = refused([stated(make(pki))], code, 401)
    # RFC 9110 section 15.5.2. No proof would help.
    assert response.values("www-authenticate") and not response.values("accept-signature")
    assert "subject CN=" in entry["detail"]


def test_a_request_without_the_field_is_refused(refused):
    refused([], "certificate_required", 403)
    refused(["Client-Cert: "], "certificate_required", 403)
    refused(["X-SSL-Client-Cert: AAAA"], "certificate_required", 403)


def test_a_revoked_device_is_refused_on_a_kept_connection(behind, edge):
    phone = behind.phone
    with phone.connect() as client:
        assert client.exchange(get("/certificate")).status == 200
        behind.gateway.device_command("revoke", str(phone.number))
        with behind.nothing_forwarded_at_all():
            assert_denied(behind.gateway, client.exchange(get("/certificate")), "device_revoked", 403)
            assert_denied(behind.gateway, client.exchange(phone.request(nonce="x")), "device_revoked", 403)


def test_a_revoked_certificate_is_refused_on_a_kept_connection(start_behind, pki, tmp_path, edge):
    lists = Lists(tmp_path, pki)
    behind = start_behind(section={"crls": [str(lists.gms), str(lists.root)]})
    other = behind.new_phone()
    with EdgeConnection(behind.gateway, edge) as first, EdgeConnection(behind.gateway, edge) as second:
        assert first.exchange(get("/certificate", stated(behind.phone.identity))).status == 200
        assert second.exchange(get("/certificate", stated(other.identity))).status == 200
        revoke_and_reload(behind.gateway, lists, behind.phone.identity)
        with behind.nothing_forwarded_at_all():
            response = first.exchange(get("/certificate", stated(behind.phone.identity)))
            assert_denied(behind.gateway, response, "certificate_revoked", 401)
        assert second.exchange(get("/certificate", stated(other.identity))).status == 200
    with EdgeConnection(behind.gateway, edge) as connection, behind.nothing_forwarded_at_all():
        response = connection.exchange(get("/certificate", stated(behind.phone.identity)))
        assert_denied(behind.gateway, response, "certificate_revoked", 401)


def test_a_stale_list_refuses_its_authoritys_phones(start_behind, pki, tmp_path, edge):
    lists = Lists(tmp_path, pki)
    lists.revoke(start=-9, end=-1)
    behind = start_behind(section={"crls": [str(lists.gms), str(lists.root)], "crl_policy": "accept-stale"})
    behind.gateway.conf["listeners"][0]["forwarded_certificate"]["crl_policy"] = "require-fresh"
    behind.gateway.write_conf()
    assert reload(behind.gateway).returncode == 0
    with EdgeConnection(behind.gateway, edge) as connection, behind.nothing_forwarded_at_all():
        response = connection.exchange(get("/certificate", stated(behind.phone.identity)))
        assert_denied(behind.gateway, response, "crl_stale", 401)


def test_a_reload_judges_by_new_pins_on_kept_connections(behind, edge):
    other = behind.new_phone()
    with EdgeConnection(behind.gateway, edge) as first, EdgeConnection(behind.gateway, edge) as second:
        for connection in (first, second):
            assert connection.exchange(get("/certificate", stated(other.identity))).status == 200
        key = base64.b64encode(behind.pki.names(behind.phone.identity).key_id).decode()
        behind.gateway.conf["listeners"][0]["forwarded_certificate"]["pins"] = [key]
        behind.gateway.write_conf()
        assert reload(behind.gateway).returncode == 0
        with behind.nothing_forwarded_at_all():
            response = first.exchange(get("/certificate", stated(other.identity)))
            assert_denied(behind.gateway, response, "certificate_not_pinned", 401)
        assert second.exchange(get("/certificate", stated(behind.phone.identity))).status == 200


# What a reload makes stricter, and what then refuses a phone that the gateway has never seen.
STRICTER = {
    "authorities": (
        lambda listener, routes, pki: listener["forwarded_certificate"].update(
            authorities=[str(pki.authority("behind-other").certificate)]), "certificate_unknown_authority"),
    "route": (
        lambda listener, routes, pki: next(route for route in routes if route["name"] == "certificate").update(
            require="request-proof"), "proof_required"),
    "proxies": (
        lambda listener, routes, pki: listener["clients"].update(
            authorities=[str(pki.authority("other-edges").certificate)]), None),
}


@pytest.fixture(params=STRICTER)
def made_stricter(request, start_behind, pki, edge):
    """A gateway, and what reloads it with a stricter rule. - Returns: what expects that the rule counts."""
    make_stricter, code = STRICTER[request.param]
    behind = start_behind(routes=[dict(route) for route in ROUTES])

    def expect():
        phone = behind.new_phone()
        with behind.nothing_forwarded_at_all():
            if code is None:
                assert_refused_by_tls(
                    lambda: EdgeConnection(behind.gateway, edge, stated(phone.identity)), get("/certificate"))
            else:
                with EdgeConnection(behind.gateway, edge, stated(phone.identity)) as client:
                    assert_answered(behind.gateway, client.exchange(get("/certificate")), code, 401)

    def reload_stricter():
        make_stricter(behind.gateway.conf["listeners"][0], behind.gateway.conf["routes"], pki)
        behind.gateway.write_conf()
        assert reload(behind.gateway).returncode == 0
        return expect
    return behind, reload_stricter


def test_a_reload_ends_a_proxys_kept_connection_after_one_request(made_stricter, edge):
    behind, reload_stricter = made_stricter
    with EdgeConnection(behind.gateway, edge, stated(behind.phone.identity)) as asking, \
            EdgeConnection(behind.gateway, edge) as silent:
        assert asking.exchange(get("/certificate")).status == 200
        assert silent.exchange(get("/certificate", stated(behind.phone.identity))).status == 200
        expect = reload_stricter()
        expect()
        # Sent before the proxy noticed the reload, perhaps: the old rules answer, and then never again.
        response = asking.exchange(get("/certificate"))
        assert response.values("connection") == ["close"]
        asking.assert_closed()
        silent.assert_closed()
        expect()


def test_a_reload_ends_a_proxys_request_in_flight_in_order(made_stricter, edge):
    behind, reload_stricter = made_stricter
    with EdgeConnection(behind.gateway, edge) as connection:
        data = stating(get("/certificate", "Content-Length: 4", method="POST"), stated(behind.phone.identity))
        connection.send(data + b"ab")
        eventually(lambda: behind.upstream.received.endswith(b"ab"), "the upstream to receive the first part")
        expect = reload_stricter()
        connection.send(b"cd")
        response = connection.read_response()
        assert response.status == 200 and response.values("connection") == ["close"]
        connection.assert_closed()
        expect()


def test_a_reload_announces_the_end_of_a_proxys_connection_of_http2(made_stricter, edge):
    behind, reload_stricter = made_stricter
    with HTTP2Client(behind.gateway, edge) as connection:
        assert connection.exchange(stating(get("/certificate"), stated(behind.phone.identity))).status == 200
        expect = reload_stricter()
        connection.pump_until(lambda: connection.going_away)
        connection.wait_for_end()
        expect()


def test_a_listener_that_believes_no_proxy_any_more_ends_their_connections(behind, edge):
    with EdgeConnection(behind.gateway, edge, stated(behind.phone.identity)) as connection:
        assert connection.exchange(get("/certificate")).status == 200
        del behind.gateway.conf["listeners"][0]["forwarded_certificate"]
        behind.gateway.write_conf()
        assert reload(behind.gateway).returncode == 0
        with behind.nothing_forwarded_at_all(), pytest.raises(IncompleteResponse):
            connection.exchange(get("/certificate"))


def test_a_tunnel_ends_with_its_devices_revocation_and_others_stay(behind, edge):
    other = behind.new_phone()
    behind.upstream.upgrades = True
    behind.upstream.script = web_sockets.switches()
    tunnels = []
    for phone in (behind.phone, other):
        connection = EdgeConnection(behind.gateway, edge, stated(phone.identity))
        response = connection.exchange(web_sockets.handshake("/chat"))
        assert response.status == 101
        tunnels.append(connection)
    behind.gateway.device_command("revoke", str(behind.phone.number))
    behind.gateway.logged(route="chat", denial="device_revoked")
    assert len([e for e in behind.gateway.access() if e.get("route") == "chat" and e["event"] == "request"]) == 1
    for connection in tunnels:
        connection.close()


def test_a_tunnel_ends_with_a_reload_that_revokes_its_certificate_and_others_stay(start_behind, pki, tmp_path, edge):
    lists = Lists(tmp_path, pki)
    behind = start_behind(section={"crls": [str(lists.gms), str(lists.root)]})
    other = behind.new_phone()
    behind.upstream.upgrades = True
    behind.upstream.script = web_sockets.switches()
    tunnels = [EdgeConnection(behind.gateway, edge, stated(phone.identity)) for phone in (behind.phone, other)]
    for connection in tunnels:
        assert connection.exchange(web_sockets.handshake("/chat")).status == 101
    revoke_and_reload(behind.gateway, lists, behind.phone.identity)
    behind.gateway.logged(route="chat", denial="certificate_revoked")
    tunnels[1].send(b"still")
    assert tunnels[1]._exactly(5) == b"still"
    for connection in tunnels:
        connection.close()


# Who may state certificates.

def assert_refused_by_tls(connect, request):
    # With TLS 1.3 the client's handshake ends before the gateway's.
    with pytest.raises((ssl.SSLError, ConnectionError)):
        with connect() as client:
            client.exchange(request)


@pytest.mark.parametrize("name", ["other.internal", f"a.{EDGE}", "*.internal"])
def test_an_edge_with_another_name_is_refused(behind, pki, name):
    stranger = edge_identity(pki, name) if "*" not in name else pki.client(
        "edge-wildcard", issuer=edge_authority(pki), extensions=f"{CLIENT}subjectAltName=DNS:{name}\n")
    assert_refused_by_tls(
        lambda: EdgeConnection(behind.gateway, stranger, stated(behind.phone.identity)), get("/certificate"))
    entry = behind.gateway.logged(event="connection_refused", denial="certificate_not_pinned")
    assert "none of the accepted names" in entry["detail"]


def test_a_phone_cannot_be_the_edge(behind):
    with behind.nothing_forwarded_at_all():
        assert_refused_by_tls(
            lambda: Client(behind.gateway, behind.phone.identity), get("/certificate", stated(behind.phone.identity)))
        behind.gateway.logged(event="connection_refused", denial="certificate_unknown_authority")


# Authorities of phones and of proxies, and what their relation makes possible.
RELATED = {
    "same file": (lambda pki: (pki.gms, pki.gms), "a client could pass for the proxy"),
    "same key": (lambda pki: (pki.gms, copied(pki.gms)), "a client could pass for the proxy"),
    "the phones' issuer": (
        lambda pki: (pki.authority("phones-below", issuer=edge_authority(pki)), edge_authority(pki)),
        "a client could pass for the proxy"),
    "issued by the phones'": (
        lambda pki: (pki.gms, pki.authority("edges-below", issuer=pki.gms)), "the proxy could pass for a client"),
}


def copied(authority):
    copy = authority.certificate.with_name("copy.pem")
    copy.write_text(authority.certificate.read_text())
    return Authority(copy, authority.key)


@pytest.mark.parametrize("case", RELATED)
def test_related_authorities_of_edges_and_phones_are_refused(pki, behind, case):
    make, danger = RELATED[case]
    phones, edges = make(pki)
    listener = behind.gateway.conf["listeners"][0]
    listener["forwarded_certificate"]["authorities"] = [str(phones.certificate)]
    listener["clients"]["authorities"] = [str(edges.certificate)]
    behind.gateway.write_conf()
    done = attestgate("check", "--config", behind.gateway.conf_path)
    assert done.returncode != 0
    assert danger in done.stderr + done.stdout


def test_an_edges_own_certificate_that_is_revoked_ends_its_connections(start_behind, pki, tmp_path, edge):
    crl = tmp_path / "edges.crl"
    pki.crl(crl, edge_authority(pki))
    settings = listener_settings(pki)["clients"]
    behind = start_behind()
    behind.gateway.conf["listeners"][0]["clients"] = {**settings, "crls": [str(crl)]}
    behind.gateway.write_conf()
    assert reload(behind.gateway).returncode == 0
    with EdgeConnection(behind.gateway, edge, stated(behind.phone.identity)) as connection:
        assert connection.exchange(get("/certificate")).status == 200
        pki.crl(crl, edge_authority(pki), [(edge, "keyCompromise")])
        assert reload(behind.gateway).returncode == 0
        with pytest.raises(IncompleteResponse):
            connection.exchange(get("/certificate"))
    behind.gateway.logged(event="connection_refused", denial="certificate_revoked")


# Where no proxy is expected.

SPELLINGS = [
    "Client-Cert", "client-CERT", "Client-Cert-Chain", "X-SSL-Client-Cert", "X-Forwarded-Client-Cert",
    "X-Forwarded-Tls-Client-Cert", "X-Amzn-Mtls-Clientcert-Leaf"]


@pytest.mark.parametrize("name", SPELLINGS)
def test_elsewhere_every_such_field_is_removed(gateway, upstream, phone, pki, name):
    with Client(gateway, phone) as client:
        text = value(pki.phone("another"))
        refused = client.exchange(get("/", f"{name}: {text}", f"Connection: {name}"))
        assert_denied(gateway, refused, "header_refused", 400)
    with Client(gateway, phone) as client:
        for lines in ([f"{name}: {text}"], [f"{name}: {text}"] * 2):
            assert client.exchange(get("/", *lines)).status == 200
            request = upstream.last_request()
            assert text not in request.head.decode("latin-1") and name.lower() not in request.head.decode("latin-1").lower()
        # In trailers.
        body = b"2\r\nok\r\n0\r\n" + f"{name}: {text}\r\n\r\n".encode()
        assert client.exchange(get("/", "Transfer-Encoding: chunked", f"Trailer: {name}", method="POST") + body).status == 200
        assert text.encode() not in upstream.connections[-1].received


@pytest.mark.parametrize("name", SPELLINGS)
@pytest.mark.parametrize("spell", [lambda n: n.replace("-", "_"), lambda n: n.replace("-", ".", 1)], ids=["_", "."])
def test_elsewhere_no_other_spelling_passes(gateway, upstream, phone, name, spell):
    with Client(gateway, phone) as client:
        assert_denied(gateway, client.exchange(get("/", f"{spell(name)}: AAAA")), "header_refused", 400)


def test_a_configured_field_is_removed_on_every_listener(start_behind, edge):
    behind = start_behind("der-base64", section={"field": "X-Our-Phone"})
    text = value(behind.phone.identity, "der-base64")
    with EdgeConnection(behind.gateway, edge) as connection:
        assert connection.exchange(get("/certificate", f"X-Our-Phone: {text}")).status == 200
    assert behind.upstream.last_request().values("x-our-phone") == []


# Configuration.

BAD = {
    "no names": ({"clients.names": None}, "`names` is missing"),
    "optional edges": ({"clients.require": "optional"}, "`clients` are the proxies, which need certificates"),
    "forwarded to services": ({"forward_headers": ["x-ssl-client-cert"], "forwarded_certificate.format": "der-base64"}, "is the field of a `forwarded_certificate`"),
    "another spelling admitted": (
        {"unusual_headers": ["x_our_phone"], "forwarded_certificate.field": "X-Our-Phone"}, "for `x-our-phone`, which is protected"),
    "framing": ({"forwarded_certificate.field": "Host"}, "part of the message framing"),
    **{f"the field {name}": ({"forwarded_certificate.field": name}, "has another meaning than a client's certificate") for name in (
        "Authorization", "cookie", "Signature", "signature-input", "Content-Digest", "Attest-Proof-Counter", "X-Forwarded-For",
        "forwarded", "Accept", "accept-signature", "X-HTTP-Method-Override", "Proxy-Authorization")},
    "no authorities": ({"forwarded_certificate.authorities": None}, "`authorities` is missing"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_configuration_that_would_trust_too_much_is_refused(behind, case):
    changes, expected = BAD[case]
    conf = behind.gateway.conf
    for name, setting in changes.items():
        section, _, key = name.rpartition(".")
        place = {"": conf, "clients": conf["listeners"][0]["clients"],
                 "forwarded_certificate": conf["listeners"][0]["forwarded_certificate"]}[section]
        if key == "unusual_headers":
            place = conf["routes"][0]
        place.pop(key, None) if setting is None else place.update({key: setting})
    behind.gateway.write_conf()
    done = attestgate("check", "--config", behind.gateway.conf_path)
    assert done.returncode != 0 and expected in done.stderr + done.stdout, done.stderr


def test_check_warns_of_connections_on_which_clients_share_limits(behind):
    warning = "one that breaks rules ends the requests of others"
    assert warning in attestgate("check", "--config", behind.gateway.conf_path).stderr
    behind.gateway.conf["listeners"][0]["protocols"] = ["http/1.1"]
    behind.gateway.write_conf()
    assert warning not in attestgate("check", "--config", behind.gateway.conf_path).stderr


def test_check_tells_what_a_stated_certificate_would_get(behind, pki):
    def check(identity):
        return attestgate("check", "--config", behind.gateway.conf_path, "--client-certificate", identity.certificate)

    done = check(behind.phone.identity)
    assert done.returncode == 0 and "forwarded_certificate: accepted" in done.stdout
    done = check(pki.client("behind-foreign", issuer=pki.authority("behind-other")))
    assert done.returncode != 0 and "certificate_unknown_authority" in done.stdout + done.stderr
