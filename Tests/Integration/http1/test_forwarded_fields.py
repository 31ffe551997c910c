"""The fields that state a client's address, scheme and host: an upstream receives those that it asks for, and no client's own."""

import re

import pytest

from support.client import Client, get
from support.gateway import Gateway
from support.grpc_peer import GRPCClient, GRPCService
from support.http2_client import HTTP2Client
from support.pki import attestgate
from support.proxy_header import Proxied, line
from support.recording_upstream import OK, Gone
from support.web_sockets import handshake
from test_identity_fields import IDENTITY_FIELDS

VERSIONS = pytest.mark.parametrize("client", [Client, HTTP2Client])
ALL = ["forwarded", "x-forwarded-for", "x-forwarded-proto", "x-forwarded-host"]
EVIL = [f"{name}: evil" for name in ["Forwarded", "X-Forwarded-For", "X-Forwarded-Proto", "x-forwarded-HOST", "X-Forwarded-Port"]]


def stated(request):
    """What a service receives about the client, in the order of the fields."""
    return [(name, value) for name, value in request.fields if re.search("forward|client-cert", name, re.I)]


def expected(names, address="127.0.0.1", host="localhost"):
    node = f'"[{address}]"' if ":" in address else address
    values = {
        "forwarded": ("Forwarded", f'for={node};proto=https;host="{host}"'), "x-forwarded-for": ("X-Forwarded-For", address),
        "x-forwarded-proto": ("X-Forwarded-Proto", "https"), "x-forwarded-host": ("X-Forwarded-Host", host)}
    return [values[name] for name in ALL if name in names]


@pytest.fixture
def start(start_gateway, own_upstream):
    def started(names, routes=None, **settings):
        own_upstream.forwarded = 1 if "forwarded" in names else 0
        return start_gateway({"service": {"servers": [own_upstream.address], "forwarded": names}}, routes, **settings)
    return started


@VERSIONS
@pytest.mark.parametrize("names", [[], ALL, ALL[1:], ["x-forwarded-for"], ["x-forwarded-host", "forwarded"]])
def test_a_service_gets_the_fields_that_its_upstream_names_and_no_others(start, own_upstream, phone, client, names):
    gateway = start(names)
    with client(gateway, phone) as opened:
        for host in ["localhost", "LOCALHOST", f"localhost:{gateway.port}"]:
            assert opened.exchange(get("/", *EVIL, host=host)).status == 200
            assert stated(own_upstream.last_request()) == expected(names, host=host.lower())


@VERSIONS
def test_no_field_that_services_believe_passes_where_none_is_sent(start, own_upstream, phone, client):
    gateway = start([], strip_headers=["X-Internal-User"])
    with client(gateway, phone) as opened:
        for name in IDENTITY_FIELDS:
            assert opened.exchange(get("/", f"{name}: admin", f"{name.lower()}: root")).status == 200
            assert not re.search(b"admin|root", own_upstream.last_request().head), name


@pytest.mark.parametrize("address", ["198.51.100.7", "2001:db8:1:2::7"])
def test_the_address_is_that_of_a_trusted_proxy_s_header(start, own_upstream, phone, address):
    gateway = start(ALL, proxy_protocol={"from": ["127.0.0.1"]})
    with Proxied(gateway, phone, line(address)) as client:
        assert client.exchange(get("/", *EVIL)).status == 200
    assert stated(own_upstream.last_request()) == expected(ALL, address)


def test_a_request_that_is_sent_again_has_the_same_fields(start, own_upstream, phone):
    def one_answer_each(connection):
        connection.read_request()
        connection.send(OK)
        try:
            connection.read_request()
        except Gone:
            pass

    gateway = start(ALL)
    own_upstream.script = one_answer_each
    with Client(gateway, phone) as client:
        for path in ["/first", "/second"]:
            assert client.exchange(get(path, *EVIL)).status == 200
    assert [request.target for request in own_upstream.requests] == ["/first", "/second", "/second"]
    assert [stated(request) for request in own_upstream.requests] == [expected(ALL)] * 3


def test_a_handshake_of_a_web_socket_has_the_fields(start, own_upstream, phone):
    own_upstream.upgrades = True
    gateway = start(ALL, [{"name": "all", "host": "localhost", "path": "/", "websocket": "allowed"}])
    with Client(gateway, phone) as client:
        assert client.exchange(handshake("/", *EVIL)).status == 200
    assert stated(own_upstream.last_request()) == expected(ALL)


def test_a_call_of_grpc_has_the_fields(start_gateway, phone, pki):
    service = GRPCService()
    gateway = start_gateway({"service": {"servers": [service.address], "protocol": "h2", "forwarded": ALL}})
    with GRPCClient(gateway.port, pki, phone) as client:
        assert client.unary("Echo", b"hello", metadata=(("x-forwarded-for", "evil"),)) == b"hello"
    got = service.metadata("Echo")
    fields = expected(ALL, host=f"localhost:{gateway.port}")
    assert [(name, got[name.lower()]) for name, _ in fields] == [(name, [value]) for name, value in fields]
    service.stop()


def test_each_upstream_of_one_connection_gets_its_own(start_gateway, own_upstream, upstream, phone):
    own_upstream.forwarded = 0
    gateway = start_gateway(
        {"one": {"servers": [own_upstream.address], "forwarded": ["x-forwarded-for"]}, "other": upstream.address},
        [{"name": "one", "host": "localhost", "path": "/one", "upstream": "one"},
         {"name": "other", "host": "localhost", "path": "/", "upstream": "other"}])
    with Client(gateway, phone) as client:
        for _ in range(2):
            for path, service, names in [("/one", own_upstream, ["x-forwarded-for"]), ("/", upstream, ["forwarded"])]:
                assert client.exchange(get(path)).status == 200
                assert stated(service.last_request()) == expected(names)


def test_check_refuses_a_client_s_own_field_beside_the_gateway_s(pki, tmp_path):
    service = {"servers": ["127.0.0.1:9"], "forwarded": ["x-forwarded-for"]}
    made = Gateway(tmp_path, pki, {"service": service}, forward_headers=["X-Forwarded-For"])
    made.write_conf()
    done = attestgate("check", "--config", made.conf_path)
    assert done.returncode != 0 and "in `forwarded` of an upstream" in done.stderr, done.stderr
