"""Phones through a real nginx, HAProxy, Envoy, Caddy and Traefik, each with the configuration of its page: enrolled, proven, replayed,
revoked while connected; what a phone states of itself, or the proxy changes, is refused."""

import os
import pwd
import ssl
from contextlib import ExitStack, contextmanager, suppress

import pytest

from support import web_sockets
from support.client import Client, IncompleteResponse, get, tls_context
from support.denials import assert_denied, code_of
from support.edge import EDGE, FIELDS, stating, value
from support.http2_client import ConnectionOver, HTTP2Client, StreamReset
from support.real_edges import EDGES, EdgedGateway, LocalNginx
from support.recording_upstream import Held, RecordingUpstream
from support.waiting import eventually

IDENTITY = ["attest-device", "attest-app", "attest-platform", "attest-counter"]
# What proxies like to write in another way.
PATH, QUERY = "/a/b%20c/%C3%A4:@!$&'()*,=~-._", "identifier=urn:oid:1.2&a=b+c%2Fd&e=%26%7C(x)*!$,@/?~'"


@contextmanager
def behind(kind, directory, pki, change=(), **listener):
    """A gateway with a service behind a proxy."""
    with ExitStack() as ends:
        upstream = RecordingUpstream()
        ends.callback(upstream.close)
        made = EdgedGateway(directory, pki, upstream, kind, **listener)
        ends.callback(made.stop)
        made.start()
        made.edge = kind(directory / "edge", made, change)
        ends.callback(made.edge.stop)
        made.usual = made.new_phone()
        yield made


@pytest.fixture(scope="module", params=EDGES)
def shared(request, pki, tmp_path_factory):
    with behind(EDGES[request.param], tmp_path_factory.mktemp(request.param), pki) as made:
        yield made


@pytest.fixture
def edged(shared):
    shared.gateway.begin()
    shared.upstream.reset_behaviour()
    yield shared
    shared.upstream.upgrades = False
    assert shared.upstream.faults == [], "the gateway forwarded what is no canonical request"


@pytest.fixture
def phone(edged):
    return edged.usual


@pytest.fixture
def changed(edged, tmp_path):
    """Starts the proxy with another configuration; the gateway's phones are behind it then."""
    before, started = edged.edge, []

    def start(change):
        started.append(type(before)(tmp_path / "changed", edged, change))
        return started[-1]

    yield start
    for made in started:
        made.stop()


@contextmanager
def nothing_forwarded(edged):
    """Once all requests were answered with a denial, none is under way."""
    before = edged.upstream.byte_count
    yield
    assert edged.upstream.byte_count == before


def both(edge, identity):
    """A connection of each version."""
    return [Client(edge, identity), HTTP2Client(edge, identity)]


def assert_is(request, phone):
    """The service knows the request as that phone's."""
    assert request.values("client-cert") == [value(phone.identity)]
    for name in {*FIELDS.values()} - {"Client-Cert"}:
        assert request.values(name.lower()) == []


def test_the_page_names_the_certificate_of_the_tests(edged):
    assert edged.gateway.conf["listeners"][0]["clients"]["names"] == [EDGE]


def test_a_phone_enrols_proves_its_requests_and_is_refused_a_replay(edged):
    phone = edged.new_phone()
    for connection in both(edged.edge, phone.identity):
        for content in [None, b"hello", b"x" * 300_000]:
            data = phone.request("POST" if content else "GET", PATH, QUERY, content=content)
            assert connection.exchange(data).status == 200, edged.gateway.access()[-1]
            request = edged.upstream.last_request()
            assert request.target == f"{PATH}?{QUERY}"
            assert [name for name in IDENTITY if request.values(name)] == IDENTITY
            assert_is(request, phone)
        with nothing_forwarded(edged):
            response = connection.exchange(phone.again(data), "POST")
            assert_denied(edged.gateway, response, "counter_replayed", 401)
        # A refusal that says how to prove.
        assert response.values("accept-signature")
        connection.close()


def test_nginx_reaches_the_gateway_through_a_unix_socket(pki, tmp_path):
    user = pwd.getpwuid(os.getuid()).pw_name
    settings = {"address": f"unix:{tmp_path}/edge.sock", "socket": {"mode": "0666", "users": [user]}, "tls": None, "clients": None}
    with behind(LocalNginx, tmp_path / "gateway", pki, **settings) as edged:
        phone = edged.usual
        for connection in both(edged.edge, phone.identity):
            data = phone.request("POST", PATH, QUERY, content=b"hello")
            assert connection.exchange(data).status == 200
            assert_is(edged.upstream.last_request(), phone)
            with nothing_forwarded(edged):
                assert_denied(edged.gateway, connection.exchange(phone.again(data), "POST"), "counter_replayed", 401)
            connection.close()


def test_a_semicolon_in_the_query_is_the_proxys_to_keep(edged, phone):
    with Client(edged.edge, phone.identity) as client:
        response = client.exchange(phone.request(query="a=1;b=2"))
    if edged.edge.keeps_semicolons:
        assert response.status == 200 and edged.upstream.last_request().target == "/?a=1;b=2"
    else:
        assert_denied(edged.gateway, response, "proof_invalid", 401)


@pytest.mark.parametrize("path", ["/a//b", "/a/./b", "/a/../b", "/a/%2e%2e/b", "/a%2Fb", "/a%5Cb", "/%61", "/a%2fb", "/a;b", "/a%00b"])
def test_no_path_in_another_form_passes(edged, phone, path):
    """The proxy keeps it, for the gateway to refuse, refuses it itself, or changes what was proven."""
    with nothing_forwarded(edged):
        for connection in both(edged.edge, phone.identity):
            response = connection.exchange(phone.request(path=path))
            assert response.status == 400 or code_of(response) == "proof_invalid", response
            connection.close()


def test_content_without_a_length_and_with_an_expectation_passes(edged, phone):
    with Client(edged.edge, phone.identity) as client:
        assert client.exchange(phone.request("POST", content=b"hello" * 1000, chunked=True)).status == 200
        response = client.exchange(phone.request("POST", content=b"hello", sent={"fields": [("Expect", "100-continue")]}))
        while response.status == 100:
            response = client.read_response()
        assert response.status == 200


def test_a_refusal_before_the_end_of_the_content_reaches_the_phone(edged, phone):
    """And not the proxy's own answer, for a connection that was reset."""
    late = "a" * 78
    with nothing_forwarded(edged):
        for change, code, status in [({"nonce": late}, "challenge_required", 401), ({"content": b"x" * 3_000_000}, "too_large", 413)]:
            for connection in both(edged.edge, phone.identity):
                data = phone.request("POST", **{"content": b"x" * 1_000_000, **change})
                if isinstance(connection, Client):
                    connection.pump([data])
                    response = connection.read_response("POST")
                else:
                    response = connection.exchange(data)
                assert_denied(edged.gateway, response, code, status)
                connection.close()


def test_phones_at_once_keep_their_identities(edged, phone):
    phones = [phone, edged.new_phone()]
    before = len(edged.upstream.requests)
    connections = [[connection for connection in both(edged.edge, each.identity)] for each in phones]
    for _ in range(3):
        for number in range(2):
            for each, own in zip(phones, connections):
                assert own[number].exchange(each.request()).status == 200
                assert_is(edged.upstream.last_request(), each)
    begun = [
        (own[1], number) for each, own in zip(phones, connections)
        for number in own[1].begin_together([each.request(path=f"/{n}") for n in range(4)])]
    for connection, number in begun:
        response = connection.response(number)
        # Numbers may overtake each other on the proxy's connections.
        assert response.status == 200 or code_of(response) == "counter_replayed"
    requests = edged.upstream.requests[before:]
    pairs = {(each.values("client-cert")[0], each.values("attest-device")[0]) for each in requests}
    assert len(pairs) == 2 and {pair[0] for pair in pairs} == {value(each.identity) for each in phones}
    for own in connections:
        for connection in own:
            connection.close()


def test_a_resumed_session_keeps_its_phone(edged, phone):
    context = tls_context(edged.pki, phone.identity)
    # nginx says nothing of the end.
    context.options |= ssl.OP_IGNORE_UNEXPECTED_EOF
    with Client(edged.edge, None, context=context) as client:
        assert client.exchange(get("/certificate")).status == 200
        session = client.socket.session
        client.leave()
    with Client(edged.edge, None, context=context, session=session) as client:
        assert client.socket.session_reused
        assert client.exchange(phone.request()).status == 200
        assert_is(edged.upstream.last_request(), phone)


def test_a_phone_revoked_while_connected_is_refused(edged, phone):
    revoked = edged.new_phone()
    connections = both(edged.edge, revoked.identity)
    for connection in connections:
        assert connection.exchange(revoked.request()).status == 200
    last = revoked.request()
    edged.gateway.device_command("revoke", str(revoked.number))
    with nothing_forwarded(edged):
        for connection in connections:
            assert_denied(edged.gateway, connection.exchange(last), "device_revoked", 403)
            assert_denied(edged.gateway, connection.exchange(get("/certificate")), "device_revoked", 403)
            connection.close()
    with Client(edged.edge, phone.identity) as client:
        assert client.exchange(phone.request()).status == 200


# What a phone says of itself.

SPELLINGS = {
    "as the proxy": lambda name, text: [f"{name}: {text}"],
    "lower case": lambda name, text: [f"{name.lower()}: {text}"],
    "upper case": lambda name, text: [f"{name.upper()}: {text}"],
    "underscores": lambda name, text: [f"{name.replace('-', '_')}: {text}"],
    "dots": lambda name, text: [f"{name.replace('-', '.')}: {text}"],
    "twice": lambda name, text: [f"{name}: {text}"] * 2,
    "in two spellings": lambda name, text: [f"{name.replace('-', '_')}: {text}", f"{name}: {text}"],
    "empty, then not": lambda name, text: [f"{name}: ", f"{name}: {text}"],
    "a space before the colon": lambda name, text: [f"{name} : {text}"],
    "folded": lambda name, text: [f"X-Other: a\r\n {name}: {text}"],
    "named by Connection": lambda name, text: [f"{name}: {text}", f"Connection: {name}"],
    "in a trailer": lambda name, text: ["Transfer-Encoding: chunked", f"Trailer: {name}"],
    "all of them": lambda name, text: [f"{each}: {text}" for each in sorted({*FIELDS.values(), "X-Amzn-Mtls-Clientcert-Leaf"})],
}


@pytest.fixture(scope="module")
def other(shared):
    """Whom an attacker would like to be."""
    return shared.new_phone()


@pytest.mark.parametrize("case", SPELLINGS)
def test_a_phone_cannot_pass_for_another(edged, phone, other, case):
    name = edged.edge.field
    lines = SPELLINGS[case](name, value(other.identity, edged.edge.form))
    trailer = f"0\r\n{name}: {value(other.identity, edged.edge.form)}\r\n\r\n".encode() if case == "in a trailer" else b""
    before = len(edged.upstream.requests)

    def attempts():
        data = get("/certificate", *lines, method="POST" if trailer else "GET")
        yield lambda: Client(edged.edge, phone.identity), lambda client: client.exchange(data + trailer)
        if not trailer and case not in ("a space before the colon", "folded", "named by Connection"):
            yield lambda: HTTP2Client(edged.edge, phone.identity), lambda client: client.exchange(data)
        # The other phone's proof does not help.
        lines_of_proof = [] if trailer else lines
        yield lambda: Client(edged.edge, phone.identity), lambda client: client.exchange(stating(other.request(), *lines_of_proof))

    for connect, attempt in attempts():
        with connect() as client:
            try:
                response = attempt(client)
            except (OSError, AssertionError):
                # The proxy does not take it for a request.
                continue
            assert response.status in (200, 400, 403, 408), response
    for request in edged.upstream.requests[before:]:
        assert_is(request, phone)
        # A folded line is a part of another field.
        assert case == "folded" or value(other.identity, edged.edge.form)[40:80] not in request.head.decode("latin-1")
    with Client(edged.edge, phone.identity) as client:
        assert client.exchange(get("/certificate")).status == 200
        assert_is(edged.upstream.last_request(), phone)


# Requests within a request, by bytes that proxy and gateway might delimit differently. `{}` is the number of bytes of the inner one.
SMUGGLING = {
    "both lengths": ["Content-Length: {}", "Transfer-Encoding: chunked"],
    "both lengths, the other way": ["Transfer-Encoding: chunked", "Content-Length: {}"],
    "two lengths": ["Content-Length: 0", "Content-Length: {}"],
    "a list of lengths": ["Content-Length: 0, {}"],
    "a signed length": ["Content-Length: +0"],
    "a hexadecimal length": ["Content-Length: 0x0"],
    "a space before the colon": ["Transfer-Encoding : chunked", "Content-Length: {}"],
    "a tab": ["Transfer-Encoding:\tchunked", "Content-Length: {}"],
    "a vertical tab": ["Transfer-Encoding: \x0bchunked", "Content-Length: {}"],
    "quotes": ['Transfer-Encoding: "chunked"', "Content-Length: {}"],
    "another coding": ["Transfer-Encoding: xchunked", "Content-Length: {}"],
    "identity": ["Transfer-Encoding: identity", "Content-Length: 0"],
    "two codings": ["Transfer-Encoding: chunked, identity", "Content-Length: {}"],
    "two fields": ["Transfer-Encoding: chunked", "Transfer-Encoding: identity"],
    "folded": ["Transfer-Encoding:\r\n chunked", "Content-Length: {}"],
    "an underscore": ["Transfer_Encoding: chunked", "Content-Length: {}"],
    "no length": [],
    "an expectation": ["Expect: 100-continue", "Content-Length: {}"],
    "an upgrade": ["Connection: upgrade", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__", "Content-Length: {}"],
    "a WebSocket that is none": ["Connection: upgrade", "Upgrade: websocket", "Content-Length: {}"],
    "a line feed alone": ["X-Other: a\nTransfer-Encoding: chunked", "Content-Length: {}"],
    "a carriage return alone": ["X-Other: a\rTransfer-Encoding: chunked", "Content-Length: {}"],
}
SMUGGLING_HTTP2 = {
    "a shorter length": [("content-length", "0")],
    "a longer length": [("content-length", "100000")],
    "a coding": [("transfer-encoding", "chunked")],
    "a line in a value": [("x-other", "a\r\ntransfer-encoding: chunked")],
    "a line in a name": [("x-other: a\r\ntransfer-encoding", "chunked")],
    "a request in a value": [("x-other", "a\r\n\r\nGET /certificate/inner HTTP/1.1\r\nhost: localhost\r\nx-a: b")],
    "a connection": [("connection", "content-length")],
}


def inner(edged, other):
    """What an attacker would like the gateway to take for the proxy's next request."""
    return get("/certificate/inner", f"{edged.edge.field}: {value(other.identity, edged.edge.form)}")


def assert_nothing_smuggled(edged, phone, other, before):
    # Whatever is under way on the proxy's connections comes before what they carry now.
    for each in (phone, other):
        with Client(edged.edge, each.identity) as client:
            for _ in range(3):
                assert client.exchange(each.request(path="/own", content=b"own", method="POST")).status == 200
                assert_is(edged.upstream.last_request(), each)
    for request in edged.upstream.requests[before:]:
        # To the proxy the inner request may be one of the same phone.
        assert request.target == "/own" or request.values("client-cert") == [value(phone.identity)], "a request within a request"


@pytest.mark.parametrize("path", ["/certificate", "/refused//"], ids=["served", "refused early"])
def test_no_request_is_smuggled_through_the_proxy(edged, phone, other, path):
    before, within = len(edged.upstream.requests), inner(edged, other)
    for lines in SMUGGLING.values():
        for method, content in [("POST", within), ("POST", b"0\r\n\r\n" + within), ("GET", within)]:
            fields = [line.replace("{}", str(len(content))) for line in lines]
            with Client(edged.edge, phone.identity) as client, suppress(OSError, IncompleteResponse, AssertionError):
                client.send_while_open(get(path, *fields, method=method) + content)
                # Some wait for more. What counts is what the proxy's connections carry afterwards.
                client.socket.settimeout(0.02)
                client.read_response(method)
    assert_nothing_smuggled(edged, phone, other, before)


@pytest.mark.parametrize("case", SMUGGLING_HTTP2)
def test_no_request_is_smuggled_through_the_proxy_over_http2(edged, phone, other, case):
    before, within = len(edged.upstream.requests), inner(edged, other)
    for path in ("/certificate", "/refused//"):
        with HTTP2Client(edged.edge, phone.identity) as client, suppress(OSError, AssertionError, StreamReset, ConnectionOver):
            number = client.start("POST", path, SMUGGLING_HTTP2[case], end=False)
            client.send(number, b"0\r\n\r\n" + within, end=True)
            client.response(number)
    assert_nothing_smuggled(edged, phone, other, before)


def test_nobody_without_a_certificate_gets_through(edged):
    with nothing_forwarded(edged):
        try:
            with Client(edged.edge, None) as client:
                # nginx answers within TLS.
                assert client.exchange(get("/certificate")).status == 400
        except OSError:
            pass


def test_a_stranger_with_anothers_certificate_in_the_field_has_none(edged, changed, other):
    edge = changed(edged.edge.optional)
    text = value(other.identity, edge.form)
    with nothing_forwarded(edged):
        for connection in both(edge, None):
            for lines in [[], [f"{edge.field.lower()}: {text}"], [f"{edge.field.lower()}: {text}"] * 2]:
                response = connection.exchange(get("/certificate", *lines))
                assert_denied(edged.gateway, response, *edge.absent)
            connection.close()
    with Client(edge, other.identity) as client:
        assert client.exchange(get("/certificate")).status == 200


def test_services_see_the_phones_address(edged, phone):
    for source in ["127.0.0.3", "127.0.0.4"]:
        with Client(edged.edge, phone.identity, source=source) as client:
            assert client.exchange(get("/certificate", "X-Forwarded-For: 192.0.2.99")).status == 200
        assert edged.upstream.last_request().values("forwarded") == [f'for={source};proto=https;host="localhost"']


# What the proxy changes.

def test_a_request_that_the_proxy_changed_is_refused(edged, changed, phone):
    edge = changed(edged.edge.altering)
    with nothing_forwarded(edged):
        for connection in both(edge, phone.identity):
            response = connection.exchange(phone.request("POST", content=b"hello", fields=[("Authorization", "Bearer own")]))
            assert_denied(edged.gateway, response, *edge.altered)
            connection.close()


def test_a_path_that_the_proxy_rewrote_is_refused(edged, changed, phone):
    edge = changed(edged.edge.rewriting)
    with nothing_forwarded(edged):
        for connection in both(edge, phone.identity):
            assert_denied(edged.gateway, connection.exchange(phone.request(path="/own")), "proof_invalid", 401)
            connection.close()


def test_a_websocket_passes(edged, phone):
    edged.upstream.upgrades = True
    edged.upstream.script = web_sockets.switches()
    with Client(edged.edge, phone.identity) as client:
        response = client.exchange(web_sockets.handshake("/chat"))
        assert response.status == 101 and response.value("sec-websocket-accept") == web_sockets.accept_of()
        client.send(b"\x82\x80abcd")
        while len(client.buffer) < 6:
            client._more()
        assert client.buffer == b"\x82\x80abcd"


def test_a_phone_that_breaks_rules_does_not_end_the_requests_of_others(edged, phone):
    """Each of these counts against the connection that it comes on, which is the proxy's."""
    noisy, held = edged.new_phone(), Held(edged.upstream)
    with Client(edged.edge, phone.identity) as client:
        client.send(phone.request(path="/held"))
        eventually(lambda: "/held" in held.released, "the request to reach the service")
        for _ in range(8):
            with HTTP2Client(edged.edge, noisy.identity) as connection:
                numbers = connection.begin_together([get(f"/held/{n}//", f"X_Field: {n}") for n in range(50)])
                for number in numbers[::2]:
                    connection.reset(number)
                for number in numbers[1::2]:
                    assert connection.response(number).status == 400
        held.release("/held")
        assert client.read_response().status == 200


@pytest.mark.parametrize("name", [name for name, kind in EDGES.items() if kind.speaking_http2 is not None])
def test_a_proxy_may_speak_http2_to_the_gateway(pki, tmp_path, name):
    with behind(EDGES[name], tmp_path / name, pki, EDGES[name].speaking_http2, protocols=["h2", "http/1.1"]) as edged:
        phones = [edged.usual, edged.new_phone()]
        connections = [HTTP2Client(edged.edge, phone.identity) for phone in phones]
        begun = [
            (connection, number) for phone, connection in zip(phones, connections)
            for number in connection.begin_together([get(f"/certificate/{n}") for n in range(4)])]
        for connection, number in begun:
            assert connection.response(number).status == 200
        requests = edged.upstream.requests
        assert sorted(request.values("client-cert")[0] for request in requests) == sorted(
            value(phone.identity) for phone in phones for _ in range(4))
        for phone, connection in zip(phones, connections):
            for data in [phone.request("POST", content=b"hello"), phone.request("POST", content=b"hello", chunked=True)]:
                assert connection.exchange(data).status == 200
                assert_is(edged.upstream.last_request(), phone)
            connection.close()
        assert edged.gateway.logged(route="records")["protocol"] == "HTTP/2"
        assert edged.upstream.faults == []
