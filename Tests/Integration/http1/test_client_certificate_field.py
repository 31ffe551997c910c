"""A client's certificate in the fields of RFC 9440: in those of its own handshake, and of no client's making."""

import base64
import re
import ssl

import pytest
from support.client import Client, get, session_of, tls_context
from support.denials import NothingForwarded, assert_denied
from support.gateway import APP
from support.grpc_peer import GRPCClient, GRPCService
from support.http2_client import HTTP2Client
from support.phone import Phone
from support.pki import AUTHORITY, CLIENT
from support.proxy_header import Proxied, line
from support.recording_upstream import OK, Gone
from support.reloading import reload
from support.web_sockets import handshake

PEM = re.compile("-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----\n?", re.DOTALL)
VERSIONS = pytest.mark.parametrize("client", [Client, HTTP2Client])
TLS = pytest.mark.parametrize("policy, version", [
    ("modern", ssl.TLSVersion.TLSv1_3), ("intermediate", ssl.TLSVersion.TLSv1_2)], ids=["1.3", "1.2"])
EVIL = ["Client-Cert: :ZXZpbA==:", "client-cert-chain: :ZXZpbA==:", "CLIENT-CERT: evil", "Client-Cert-Anything: evil"]


def ders(*paths):
    """- Returns: all certificates of PEM files."""
    return [ssl.PEM_cert_to_DER_cert(text) for path in paths for text in PEM.findall(path.read_text())]


def item(der):
    """A byte sequence of RFC 8941."""
    return f":{base64.b64encode(der).decode()}:"


def fields(leaf, *chain):
    return [("Client-Cert", item(leaf))] + ([("Client-Cert-Chain", ", ".join(map(item, chain)))] if chain else [])


def stated(request):
    return [(name, value) for name, value in request.fields if re.search("client-cert", name, re.I)]


@pytest.fixture
def start(start_gateway, own_upstream):
    def started(value="rfc9440-with-chain", routes=None, **settings):
        service = {"servers": [own_upstream.address], "client_certificate": value}
        return start_gateway({"service": service}, routes, **settings)
    return started


@pytest.fixture(scope="session")
def under_intermediates(pki):
    """A phone's certificate three below the trusted root, which presents all of them but the root."""
    first = pki.authority("field-first", issuer=pki.root)
    second = pki.authority("field-second", issuer=first)
    above = [second.certificate, first.certificate]
    return pki.client("field-deep", issuer=second, extensions=CLIENT, above=above), [*above, pki.root.certificate]


@VERSIONS
@pytest.mark.parametrize("value", ["off", "rfc9440", "rfc9440-with-chain"])
def test_a_service_gets_the_certificate_that_its_upstream_asks_for(start, own_upstream, pki, phone, client, value):
    gateway = start(value)
    leaf = ders(phone.certificate)[0]
    expected = {"off": [], "rfc9440": fields(leaf), "rfc9440-with-chain": fields(leaf, *ders(pki.gms.certificate))}
    with client(gateway, phone) as opened:
        for _ in range(2):
            assert opened.exchange(get("/", *EVIL)).status == 200
            assert stated(own_upstream.last_request()) == expected[value]


@VERSIONS
def test_the_chain_is_the_verified_path_in_order(start, own_upstream, under_intermediates, client):
    identity, above = under_intermediates
    with client(start(), identity) as opened:
        assert opened.exchange(get("/")).status == 200
    assert stated(own_upstream.last_request()) == fields(ders(identity.certificate)[0], *ders(*above))


def test_the_chain_has_no_certificate_that_the_client_added(start, own_upstream, pki):
    stranger = pki.authority("field-stranger")
    identity = pki.client("field-added", above=[stranger.certificate])
    with Client(start(), identity) as client:
        assert client.exchange(get("/")).status == 200
    assert stated(own_upstream.last_request()) == fields(ders(identity.certificate)[0], *ders(pki.gms.certificate))


@TLS
def test_a_resumed_connection_has_leaf_and_chain_of_its_session(start, own_upstream, pki, under_intermediates, policy, version):
    identity, above = under_intermediates
    gateway = start(policy=policy)
    context = tls_context(pki, identity, maximum=version)
    with Client(gateway, identity, context=context) as client:
        session = session_of(client)
    expected = fields(ders(identity.certificate)[0], *ders(*above))
    with Client(gateway, identity, context=context, session=session) as client:
        assert client.socket.session_reused
        assert client.exchange(get("/", *EVIL)).status == 200
        assert stated(own_upstream.last_request()) == expected
    # A leaf whose chain was verified before.
    with Client(gateway, identity) as client:
        assert client.exchange(get("/")).status == 200
    assert [stated(request) for request in own_upstream.requests] == [expected] * 3


def test_a_session_from_before_the_setting_is_not_resumed(start, own_upstream, pki, phone):
    gateway = start("off")
    context = tls_context(pki, phone)
    with Client(gateway, phone, context=context) as client:
        session = session_of(client)
    gateway.conf["upstreams"]["service"]["client_certificate"] = "rfc9440"
    gateway.write_conf()
    assert reload(gateway).returncode == 0
    with Client(gateway, phone, context=context, session=session) as client:
        assert not client.socket.session_reused
        assert client.exchange(get("/")).status == 200
    assert stated(own_upstream.last_request()) == fields(ders(phone.certificate)[0])


def test_clients_of_one_upstream_connection_have_their_own(start, own_upstream, pki, phone):
    gateway = start("rfc9440")
    other = pki.phone("field-other")
    with Client(gateway, phone) as one, Client(gateway, other) as two:
        for _ in range(2):
            for client, identity in [(one, phone), (two, other)]:
                assert client.exchange(get("/")).status == 200
                assert stated(own_upstream.last_request()) == fields(ders(identity.certificate)[0])
    assert len(own_upstream.connections) == 1


def test_a_self_signed_certificate_has_no_chain(start, own_upstream, pki):
    gateway = start(
        routes=[{"name": "all", "host": "localhost", "path": "/", "require": "device"}],
        clients={"accept": ["issued", "registered"]})
    phone = Phone(gateway, pki.client("field-self-signed", issuer=None), APP)
    with phone.connect() as client:
        assert client.exchange(get("/", *EVIL)).status == 200
    assert stated(own_upstream.last_request()) == fields(ders(phone.identity.certificate)[0])


def test_the_fields_follow_a_proxy_s_client(start, own_upstream, phone):
    gateway = start("rfc9440", proxy_protocol={"from": ["127.0.0.1"]})
    with Proxied(gateway, phone, line("198.51.100.7")) as client:
        assert client.exchange(get("/", *EVIL)).status == 200
    assert stated(own_upstream.last_request()) == fields(ders(phone.certificate)[0])


def test_a_request_that_is_sent_again_has_them_too(start, own_upstream, phone):
    def one_answer_each(connection):
        connection.read_request()
        connection.send(OK)
        try:
            connection.read_request()
        except Gone:
            pass

    gateway = start("rfc9440")
    own_upstream.script = one_answer_each
    with Client(gateway, phone) as client:
        for path in ["/first", "/second"]:
            assert client.exchange(get(path)).status == 200
    assert [request.target for request in own_upstream.requests] == ["/first", "/second", "/second"]
    assert all(stated(request) == fields(ders(phone.certificate)[0]) for request in own_upstream.requests)


def test_a_handshake_of_a_web_socket_has_them_too(start, own_upstream, phone):
    own_upstream.upgrades = True
    gateway = start("rfc9440", [{"name": "all", "host": "localhost", "path": "/", "websocket": "allowed"}])
    with Client(gateway, phone) as client:
        assert client.exchange(handshake("/", *EVIL)).status == 200
    assert stated(own_upstream.last_request()) == fields(ders(phone.certificate)[0])


def test_a_call_of_grpc_has_them_too(start_gateway, pki, phone):
    service = GRPCService()
    gateway = start_gateway(
        {"service": {"servers": [service.address], "protocol": "h2", "client_certificate": "rfc9440-with-chain"}})
    with GRPCClient(gateway.port, pki, phone) as client:
        assert client.unary("Echo", b"hello", metadata=(("client-cert", "evil"),)) == b"hello"
    got = service.metadata("Echo")
    expected = fields(ders(phone.certificate)[0], *ders(pki.gms.certificate))
    assert [(name, got[name.lower()]) for name, _ in expected] == [(name, [value]) for name, value in expected]
    service.stop()


def padded(count, extensions=CLIENT):
    """Extensions of so many bytes more."""
    return extensions + f"1.2.3.4=DER:04:82:{count >> 8:02x}:{count & 255:02x}" + ":00" * count + "\n"


def test_a_chain_that_is_too_long_for_its_field_is_not_sent_in_part(start, own_upstream, pki):
    large = pki.authority("field-large", issuer=pki.root, extensions=padded(6000, AUTHORITY))
    identity = pki.client("field-below-large", issuer=large, extensions=CLIENT, above=[large.certificate])
    with Client(start(), identity) as client:
        assert client.exchange(get("/")).status == 200
    assert stated(own_upstream.last_request()) == fields(ders(identity.certificate)[0])


@VERSIONS
def test_a_certificate_that_is_too_large_for_its_field_gets_no_request_through(start, own_upstream, pki, phone, client):
    identity = pki.client("field-huge", extensions=padded(6000))
    gateway = start("rfc9440", [
        {"name": "all", "host": "localhost", "path": "/"}, {"name": "sentinel", "host": "localhost", "path": "/sentinel"}])
    with NothingForwarded(gateway, own_upstream, phone), client(gateway, identity) as opened:
        entry = assert_denied(gateway, opened.exchange(get("/")), "too_large", 431)
        assert entry["detail"] == "the client's certificate does not fit into Client-Cert"
