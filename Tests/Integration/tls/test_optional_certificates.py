"""Listeners where certificates are optional: one host serves everybody a public page, and its other pages those who have
presented a certificate. Nobody gains an identity, or loses one, after the handshake."""

import re
import ssl
import threading
from types import SimpleNamespace

import pytest

from support.client import Client, ended, get, session_of, tls_context
from support.command_line import curl, s_client, s_client_alert
from support.denials import NothingForwarded, assert_connection_refused, assert_denied
from support.exposition import scrape
from support.gateway import Gateway
from support.http2_client import HTTP2Client
from support.phone import Phone
from support.pki import CLIENT, attestgate
from support.recording_upstream import RecordingUpstream
from support.waiting import eventually
from support.web_sockets import handshake, switches

UNKNOWN_CA, EXPIRED, UNSUPPORTED, CERTIFICATE_REVOKED = 48, 45, 43, 44
REQUEST = get("/", "Connection: close")
CODE = "certificate_required"

ROUTES = [
    {"name": "public", "host": "localhost", "path": "/", "require": "nothing"},
    {"name": "mine", "host": "localhost", "path": "/mine"},
    {"name": "device", "host": "localhost", "path": "/device", "require": "device"},
    {"name": "proof", "host": "localhost", "path": "/proof", "require": "request-proof"},
    {"name": "sockets", "host": "localhost", "path": "/sockets", "require": "nothing", "websocket": "allowed"},
    {"name": "sockets-mine", "host": "localhost", "path": "/mine/sockets", "websocket": "allowed"},
]
PROTECTED = ["/mine", "/mine/7", "/device", "/proof", "/.well-known/attestgate/challenge"]


def start(start_gateway, upstream, routes=ROUTES, clients=None, **settings):
    return start_gateway(
        {"service": upstream.address}, routes, clients={"require": "optional", **(clients or {})}, **settings)


@pytest.fixture(scope="module")
def served(pki, tmp_path_factory):
    upstream = RecordingUpstream()
    gateway = Gateway(
        tmp_path_factory.mktemp("optional"), pki, {"service": upstream.address}, ROUTES, policy="intermediate",
        clients={"require": "optional"}).start()
    phone = Phone(gateway, pki.phone("optional-phone"))
    yield SimpleNamespace(gateway=gateway, upstream=upstream, phone=phone)
    gateway.stop()
    upstream.close()
    assert upstream.faults == []


@pytest.fixture
def gateway(served):
    served.gateway.begin()
    served.upstream.reset_behaviour()
    return served.gateway


@pytest.fixture
def nothing_forwarded(gateway, served, phone):
    return NothingForwarded(gateway, served.upstream, phone)


# One host, both kinds of pages.

def test_everybody_gets_the_public_page_and_nobody_else_s_identity(gateway, served):
    for identity in [None, served.phone.identity]:
        with Client(gateway, identity) as client:
            forged = [f"{name}: forged" for name in ["Attest-Device", "Attest-App", "Attest-Platform", "Attest-Counter"]]
            assert client.exchange(get("/page", *forged)).status == 200
        forwarded = served.upstream.last_request()
        assert not [name for name, _ in forwarded.fields if name.lower().startswith("attest-")]
    def entries():
        return [e for e in gateway.access() if e.get("route") == "public"]
    eventually(lambda: len(entries()) == 2, "both in the log")
    entries = entries()
    assert [e["decision"] for e in entries] == ["forwarded"] * 2
    # The device of a certificate is known, whatever the route requires.
    assert "device" not in entries[0] and entries[1]["device"]


def test_a_protected_page_of_the_same_host_asks_for_a_certificate_and_closes(gateway, served, nothing_forwarded):
    for path in PROTECTED:
        with nothing_forwarded, Client(gateway, None) as client:
            response = client.exchange(get(path))
            assert_denied(gateway, response, CODE, 403)
            assert response.value("connection") == "close"
            client.assert_closed()
    for method in ["POST", "HEAD"]:
        with nothing_forwarded, Client(gateway, None) as client:
            fields = ["Content-Length: 5"] if method == "POST" else []
            response = client.send(get("/mine", *fields, method=method)).read_response(method)
            assert_denied(gateway, response, CODE, 403, method=method)


def test_a_client_that_presents_one_is_served_by_every_route(gateway, served):
    with served.phone.connect() as client:
        assert client.exchange(get("/mine")).status == 200
        assert client.exchange(get("/device")).status == 200
        assert "Attest-Device" in dict(served.upstream.last_request().fields)
        assert client.exchange(served.phone.request(path="/proof")).status == 200


def test_http_2_ends_with_goaway_after_what_is_in_flight(gateway, served):
    release = threading.Event()
    usual = served.upstream.answer

    def answer(request):
        if request.target == "/slow":
            release.wait(60)
        return usual
    served.upstream.answer = answer
    with HTTP2Client(gateway, None) as client:
        assert client.get("/page").status == 200
        slow = client.start("GET", "/slow")
        assert_denied(gateway, client.get("/mine"), CODE, 403)
        client.pump_until(lambda: client.going_away)
        code, last = client.going_away[-1]
        assert code == 0 and last == slow + 2
        release.set()
        assert client.response(slow).status == 200
        client.wait_for_end()
    with HTTP2Client(gateway, served.phone.identity) as client:
        assert client.get("/mine").status == 200
        assert client.get("/page").status == 200


def test_a_grpc_client_learns_it_by_its_status(gateway, served):
    with HTTP2Client(gateway, None) as client:
        response = client.get("/mine", ("content-type", "application/grpc"), ("te", "trailers"))
        assert response.status == 403 and response.value("grpc-status") == "7"
        assert response.value("attest-denial") == CODE


def test_curl_is_served_without_and_with_a_certificate(gateway, served):
    for protocol in ["--http1.1", "--http2"]:
        for path, identity, status in [
            ("/", None, b"200"), ("/mine", None, b"403"), ("/mine", served.phone.identity, b"200")]:
            done = curl(
                gateway, path, protocol, "--write-out", "%{http_code}", "--output", "/dev/null", identity=identity)
            assert (done.returncode, done.stdout) == (0, status), (protocol, path, done)


def test_an_unknown_path_and_method_are_answered_as_ever(start_gateway, own_upstream):
    gateway = start(start_gateway, own_upstream, [
        {"name": "public", "host": "localhost", "path": "/public", "require": "nothing", "methods": ["GET"]}])
    with Client(gateway, None) as client:
        assert_denied(gateway, client.exchange(get("/else")), "route_unknown", 404)
        assert_denied(gateway, client.exchange(get("/public", method="DELETE")), "method_refused", 405)
        assert_denied(gateway, client.exchange(get("/public", host="other.example")), "misdirected", 421)
        assert client.exchange(get("/public")).status == 200


# A certificate that is presented counts.

def test_a_wrong_certificate_is_refused_in_the_handshake_and_not_ignored(gateway, served, pki, nothing_forwarded):
    for name, options, code, alert in [
        ("optional-foreign", dict(issuer=pki.authority("optional-foreign-ca")), "certificate_unknown_authority", UNKNOWN_CA),
        ("optional-self-signed", dict(issuer=None), "certificate_unknown_authority", UNKNOWN_CA),
        ("optional-expired", dict(start=-30, end=-1), "certificate_expired", EXPIRED),
        ("optional-server", dict(extensions=CLIENT.replace("clientAuth", "serverAuth")), "certificate_unsuitable", UNSUPPORTED),
    ]:
        identity = pki.client(name, **options)
        for version in ["-tls1_2", "-tls1_3"]:
            with nothing_forwarded:
                assert s_client_alert(s_client(gateway, version, identity=identity, weak=True, send=REQUEST)) == alert
                assert_connection_refused(gateway, code)


def test_a_revoked_device_is_refused_on_the_public_page_too(start_gateway, own_upstream, pki):
    gateway = start(start_gateway, own_upstream)
    phone = Phone(gateway, pki.phone("optional-revoked"))
    with phone.connect() as client:
        assert client.exchange(get("/page")).status == 200
        gateway.device_command("revoke", str(phone.number))
        assert ended(client)
    with pytest.raises(ssl.SSLError, match="(?i)certificate.revoked"):
        with phone.connect() as client:
            client.send_while_open(get("/page")).read_to_end()
    with Client(gateway, None) as client:
        assert client.exchange(get("/page")).status == 200


def test_a_stranger_with_a_self_signed_certificate_is_not_taken_for_a_client_without_one(start_gateway, own_upstream, pki):
    gateway = start(start_gateway, own_upstream, clients={"accept": ["issued", "registered"]})
    stranger = pki.client("optional-stranger", issuer=None)
    with Client(gateway, stranger) as client:
        assert_denied(gateway, client.exchange(get("/page")), "device_unknown", 401)
        client.assert_closed()
    with Client(gateway, None) as client:
        assert client.exchange(get("/page")).status == 200
    assert len(own_upstream.requests) == 1


# Sessions.

@pytest.mark.parametrize("maximum", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["1.2", "1.3"])
class TestSessions:
    def test_a_session_without_a_certificate_resumes_without_one(self, gateway, phone, maximum):
        context = tls_context(gateway.pki, None, maximum=maximum)
        with Client(gateway, None, context=context) as client:
            session = session_of(client)
        # The client has got a certificate since. The session has not.
        context.load_cert_chain(phone.certificate, phone.key)
        with Client(gateway, None, context=context, session=session) as client:
            assert client.socket.session_reused
            assert client.exchange(get("/page")).status == 200
            assert_denied(gateway, client.exchange(get("/mine")), CODE, 403)
        # After that denial it is forgotten: the client makes a full handshake, and presents its certificate.
        with Client(gateway, None, context=context, session=session) as client:
            assert not client.socket.session_reused
            assert client.exchange(get("/mine")).status == 200

    def test_a_session_that_was_made_before_the_denial_is_forgotten_too(self, gateway, phone, maximum):
        context = tls_context(gateway.pki, None, maximum=maximum)
        with Client(gateway, None, context=context) as client:
            assert client.exchange(get("/page")).status == 200
            session = client.socket.session
            assert_denied(gateway, client.exchange(get("/mine")), CODE, 403)
        context.load_cert_chain(phone.certificate, phone.key)
        with Client(gateway, None, context=context, session=session) as client:
            assert not client.socket.session_reused
            assert client.exchange(get("/mine")).status == 200

    def test_a_session_with_a_certificate_keeps_exactly_its_own(self, gateway, served, pki, maximum):
        context = tls_context(gateway.pki, served.phone.identity, maximum=maximum)
        with Client(gateway, None, context=context) as client:
            assert client.exchange(get("/device")).status == 200
            device = dict(served.upstream.last_request().fields)["Attest-Device"]
            session = session_of(client)
        other = pki.client("optional-other")
        context.load_cert_chain(other.certificate, other.key)
        with Client(gateway, None, context=context, session=session) as client:
            assert client.socket.session_reused
            assert client.exchange(get("/device")).status == 200
            assert dict(served.upstream.last_request().fields)["Attest-Device"] == device

    def test_no_session_without_a_certificate_is_resumed_where_one_is_demanded(
            self, start_gateway, own_upstream, pki, phone, maximum):
        gateway = start(start_gateway, own_upstream, [
            {"name": "page", "host": "localhost", "path": "/page", "require": "nothing"},
            {"name": "mine", "host": "localhost", "path": "/mine"}], policy="intermediate")
        context = tls_context(pki, None, maximum=maximum)
        with Client(gateway, None, context=context) as client:
            assert client.exchange(get("/page")).status == 200
            session = session_of(client, "/page")
        gateway.conf["listeners"][0]["clients"]["require"] = "always"
        del gateway.conf["routes"][0]
        gateway.write_conf()
        assert attestgate("reload", "--config", gateway.conf_path).returncode == 0
        with pytest.raises(ssl.SSLError, match="(?i)certificate.required|handshake.failure"):
            with Client(gateway, None, context=context, session=session) as client:
                assert not client.socket.session_reused
                client.send_while_open(get("/mine")).read_to_end()
        context.load_cert_chain(phone.certificate, phone.key)
        with Client(gateway, None, context=context, session=session) as client:
            assert not client.socket.session_reused
            assert client.exchange(get("/mine")).status == 200


def test_a_host_decides_by_its_own_demand(start_gateway, own_upstream, pki):
    """A request for a host must come on a connection for that host."""
    gateway = start(start_gateway, own_upstream, [
        {"name": "public", "host": "localhost", "path": "/", "require": "nothing"},
        {"name": "strict", "host": "strict.example", "path": "/"}])
    listener = gateway.conf["listeners"][0]
    listener["hosts"] = [{
        "names": ["strict.example"], "tls": listener["tls"].copy(),
        "clients": {**listener["clients"], "require": "always"}}]
    gateway.write_conf()
    assert attestgate("reload", "--config", gateway.conf_path).returncode == 0
    context = tls_context(pki, None)
    with Client(gateway, None, context=context) as client:
        assert client.exchange(get("/")).status == 200
        session = session_of(client)
    context.check_hostname = False
    with pytest.raises(ssl.SSLError, match="(?i)certificate.required"):
        with Client(gateway, None, context=context, session=session, server_name="strict.example") as client:
            assert not client.socket.session_reused
            client.send_while_open(get("/", host="strict.example")).read_to_end()
    with Client(gateway, None) as client:
        assert_denied(gateway, client.exchange(get("/", host="strict.example")), "misdirected", 421)


# Limits.

def test_clients_without_a_key_share_the_limit_of_connections_of_their_address(start_gateway, own_upstream, phone):
    gateway = start(start_gateway, own_upstream, limits={"connections_per_client": 2})

    def strange(address, **options):
        return Client(gateway, None, source=address, **options)
    with strange("127.0.0.2") as first, strange("127.0.0.2") as second:
        for client in [first, second]:
            assert client.exchange(get("/page")).status == 200
        with pytest.raises(Exception):
            with strange("127.0.0.2") as third:
                third.exchange(get("/page"))
        assert assert_connection_refused(gateway, "connection_limit")["detail"] == "connections of one client"
        # Others are not concerned: neither another address nor a key at this one.
        with strange("127.0.0.3") as other, Client(gateway, phone, source="127.0.0.2") as known:
            assert other.exchange(get("/page")).status == 200
            assert known.exchange(get("/mine")).status == 200
    def again():
        try:
            with strange("127.0.0.2") as client:
                return client.exchange(get("/page")).status == 200
        except Exception:
            return False
    eventually(again, "the places to be free")


def test_requests_in_flight_of_clients_without_a_key_are_limited_by_their_address(start_gateway, own_upstream, phone):
    release = threading.Event()

    def answer(request):
        if request.target.startswith("/held"):
            release.wait(60)
        return b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    own_upstream.answer = answer
    gateway = start(start_gateway, own_upstream, limits={"requests_per_device": 2})
    try:
        with HTTP2Client(gateway, None) as http2, Client(gateway, None) as same, Client(
                gateway, None, source="127.0.0.5") as other, Client(gateway, phone) as known:
            numbers = [http2.start("GET", f"/held/{number}") for number in range(2)]
            own_upstream.wait_for_requests(2)
            assert_denied(gateway, same.exchange(get("/page")), "device_request_limit", 429)
            assert other.exchange(get("/page")).status == 200
            assert known.exchange(get("/page")).status == 200
            release.set()
            assert [http2.response(number).status for number in numbers] == [200, 200]
    finally:
        release.set()


def test_streams_of_clients_without_a_key_are_limited_by_their_address(start_gateway, own_upstream):
    release = threading.Event()
    own_upstream.answer = lambda _: release.wait(60) and b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    gateway = start(start_gateway, own_upstream, limits={"streams_per_client": 1})
    try:
        with HTTP2Client(gateway, None) as first, HTTP2Client(gateway, None) as second:
            number = first.start("GET", "/page")
            own_upstream.wait_for_requests(1)
            refused = second.start("GET", "/page")
            second.pump_until(lambda: second.streams[refused].reset is not None)
            assert second.streams[refused].reset == 7
            release.set()
            assert first.response(number).status == 200
    finally:
        release.set()


def test_the_rate_of_an_address_holds_for_clients_without_a_key(start_gateway, own_upstream):
    gateway = start(start_gateway, own_upstream, limits={"rate_per_source": "1/m burst 2"})
    for status in [200, 200, 429]:
        with Client(gateway, None, source="127.0.0.7") as client:
            assert client.exchange(get("/page")).status == status
    with Client(gateway, None, source="127.0.0.8") as client:
        assert client.exchange(get("/page")).status == 200


# WebSockets, records.

def test_a_web_socket_needs_no_certificate_where_its_route_needs_none(start_gateway, own_upstream):
    gateway = start(start_gateway, own_upstream, limits={"tunnels_per_device": 1})
    own_upstream.script, own_upstream.upgrades = switches(), True
    with Client(gateway, None) as client:
        client.send(handshake("/sockets"))
        assert client.read_head().status == 101
        client.send(b"12345")
        assert client._exactly(5) == b"12345"
        # Without a device or a key the address holds it.
        with Client(gateway, None) as second:
            assert_denied(gateway, second.exchange(handshake("/sockets")), "device_tunnel_limit", 429)
        with Client(gateway, None, source="127.0.0.5") as other:
            other.send(handshake("/sockets"))
            assert other.read_head().status == 101
    with Client(gateway, None) as client:
        assert_denied(gateway, client.exchange(handshake("/mine/sockets")), CODE, 403)
        client.assert_closed()


def test_log_metrics_and_decisions_are_right_without_a_certificate(gateway, served, phone):
    before = scrape(gateway)
    with Client(gateway, None) as client:
        assert client.exchange(get("/page")).status == 200
        assert_denied(gateway, client.exchange(get("/mine")), CODE, 403)
    with Client(gateway, phone) as client:
        assert client.exchange(get("/page")).status == 200

    def grown(name, **labels):
        return scrape(gateway)(name, **labels) - before(name, **labels)
    entry = gateway.logged(route="public", status=200)
    assert entry["client"] == "127.0.0.0/24" and "device" not in entry and "denial" not in entry
    entry = gateway.logged(route="mine", status=403)
    assert (entry["decision"], entry["denial"]) == ("denied", CODE) and "upstream" not in entry
    eventually(lambda: grown("attestgate_handshakes_total", result="full") == 2, "both handshakes")
    assert grown("attestgate_client_chains_total", worker="0", cache="none") == 1
    assert sum(grown("attestgate_client_chains_total", worker="0", cache=cache) for cache in ["hit", "miss"]) == 1
    assert grown("attestgate_handshakes_total", result=CODE) == 0
    assert grown("attestgate_denials_total", code=CODE) == 1


# The conf file.

def test_a_route_without_a_certificate_needs_a_listener_that_demands_none(pki, tmp_path, own_upstream):
    gateway = Gateway(tmp_path / "checked", pki, {"service": own_upstream.address}, ROUTES[:1])
    gateway.write_conf()
    done = attestgate("check", "--config", gateway.conf_path)
    assert done.returncode == 1
    assert re.search(r"attestgate\.yaml:\d+:\d+: error: `require: nothing` has no effect", done.stderr), done.stderr
    assert "did you mean `certificate`?" in done.stderr
    gateway.conf["listeners"][0]["clients"]["require"] = "optional"
    gateway.write_conf()
    done = attestgate("check", "--config", gateway.conf_path)
    assert done.returncode == 0, done.stderr


def test_check_says_that_a_wrong_certificate_is_refused_where_none_is_demanded(pki, tmp_path, own_upstream):
    gateway = Gateway(tmp_path / "checked", pki, {"service": own_upstream.address}, ROUTES[:1], clients={"require": "optional"})
    gateway.write_conf()
    foreign = pki.client("optional-foreign", issuer=pki.authority("optional-foreign-ca"))
    done = attestgate("check", "--config", gateway.conf_path, "--client-certificate", foreign.certificate)
    assert done.returncode == 1 and "refused with certificate_unknown_authority" in done.stdout
