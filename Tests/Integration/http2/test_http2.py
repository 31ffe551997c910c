"""HTTP/2: what HTTP/1.1 promises, with many requests at once on one connection."""

import json
import random
import socket
import ssl
import subprocess
import time

import h2.errors
import pytest

from support import enrolling_phone
from support.client import Client, get, post, tls_context
from support.command_line import curl, s_client, s_client_alert
from support.denials import NothingForwarded, assert_connection_refused, assert_denied
from support.enrolling_phone import error_of
from support.enrolment import Enrolling
from support.gateway import APP, Gateway
from support.http2_client import HTTP2Client, StreamReset
from support.paths import BINARY, ENVIRONMENT, PATIENCE
from support.pki import attestgate

Codes = h2.errors.ErrorCodes


@pytest.fixture
def http2(gateway, phone):
    """A connection to the shared gateway."""
    with HTTP2Client(gateway, phone) as client:
        yield client


# The clients that everybody has.

def test_curl_uses_http_2_where_offered(gateway, upstream, phone):
    done = curl(gateway, "/a?b", "--http2", "--write-out", " %{http_version}", identity=phone)
    assert (done.returncode, done.stdout) == (0, b"ok 2"), done.stderr
    assert (upstream.last_request().method, upstream.last_request().target) == ("GET", "/a?b")
    assert gateway.logged(protocol="HTTP/2", status=200)["decision"] == "forwarded"


def test_an_http_2_client_without_a_certificate_gets_the_alert(gateway, upstream):
    # It sends on as soon as its own part of the handshake is done: a reset in answer to that would take the alert with it.
    for _ in range(20):
        done = curl(gateway, "/a", "--http2")
        assert done.returncode == 56 and b"alert certificate required" in done.stderr, done.stderr


def test_a_client_refused_in_its_handshake_is_closed_soon(start_gateway, own_upstream):
    gateway = start_gateway({"service": own_upstream.address})
    for sends_on in [False, True]:
        with socket.create_connection(("127.0.0.1", gateway.port), timeout=PATIENCE) as plain:
            outer, inner = ssl.MemoryBIO(), ssl.MemoryBIO()
            tls = tls_context(gateway.pki, None).wrap_bio(outer, inner, server_hostname="localhost")
            while True:
                try:
                    tls.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    plain.sendall(inner.read())
                    outer.write(plain.recv(65536))
            plain.sendall(inner.read())
            # The alert, and the end of what the gateway says; the connection lasts.
            while plain.recv(65536):
                pass
            with pytest.raises(OSError):
                while True:
                    plain.sendall(bytes(65536) if sends_on else b"x")
                    time.sleep(0 if sends_on else 0.1)


def test_curl_uploads_and_downloads_byte_for_byte(start_gateway, nginx, phone, tmp_path):
    gateway = start_gateway(
        {"nginx": nginx.address}, [{"name": "all", "host": "localhost", "path": "/", "content_limit": "64MiB"}])
    data = random.Random(7).randbytes(20_000_000)
    (tmp_path / "up").write_bytes(data)
    for framing in [[], ["--header", "Content-Length:"]]:
        done = curl(gateway, "/files/up", "--http2", "--fail", "--upload-file", tmp_path / "up", *framing, identity=phone)
        assert done.returncode == 0, done.stderr
        assert (nginx.files / "up").read_bytes() == data
        done = curl(gateway, "/files/up", "--http2", "--fail", identity=phone)
        assert done.returncode == 0 and done.stdout == data, done.stderr
        (nginx.files / "up").unlink()


def test_curl_gets_the_denial_of_its_upload(gateway, phone, tmp_path):
    (tmp_path / "up").write_bytes(bytes(4_000_000))
    for content in ["x", f"@{tmp_path / 'up'}"]:
        # Refused at the head, while the content is still under way.
        done = curl(
            gateway, "/a", "--http2", "-X", "PROPFIND", "--data-binary", content, "--write-out", "%{http_code}", identity=phone)
        assert done.returncode == 0 and done.stdout.endswith(b"405") and b"method_refused" in done.stdout, done


def test_nghttp_makes_requests_at_once(gateway, upstream, phone):
    done = subprocess.run(
        ["nghttp", "--no-verify-peer", f"--cert={phone.certificate}", f"--key={phone.key}", "--stat", "--null-out",
         *(f"https://localhost:{gateway.port}/{n}" for n in range(8))],
        capture_output=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    assert sorted(r.target for r in upstream.requests[-8:]) == [f"/{n}" for n in range(8)], done.stdout


def test_httpx_speaks_http_2(gateway, upstream, phone):
    httpx = pytest.importorskip("httpx")
    context = tls_context(gateway.pki, phone)
    with httpx.Client(http2=True, verify=context, trust_env=False) as client:
        response = client.post(f"https://localhost:{gateway.port}/x", content=b"hello", cookies={"a": "1", "b": "2"})
    assert (response.status_code, response.http_version, response.content) == (200, "HTTP/2", b"ok")
    assert upstream.last_request().content == b"hello"


def test_the_device_tool_proves_its_requests_over_http_2(attested, pki, tmp_path):
    directory, gateway = tmp_path / "device", attested.gateway
    done = device_tool("create", "--directory", directory, "--app-id", APP, "--json")
    description = json.loads(done.stdout)
    attestgate(
        "pki", "issue", "--directory", pki.directory, "--certificate-key", description["certificate_key"],
        "--out", description["certificate"])
    gateway.device_command(
        "add", "--app-id", APP, "--public-key", description["public_key"],
        "--certificate-key", description["certificate_key"])
    url = f"https://localhost:{gateway.port}/tool?x=y"
    for arguments in [[], ["-X", "POST", "-d", "content"]]:
        done = device_tool(
            "request", "--directory", directory, "--cacert", pki.server_ca, "--http2", "-i", *arguments, url)
        assert done.stdout.startswith(b"HTTP/2 200") and done.stdout.endswith(b"ok"), done
        assert attested.upstream.last_request().target == "/tool?x=y"


def device_tool(*arguments):
    done = subprocess.run(
        [BINARY.with_name("attestgate-device"), *map(str, arguments)], capture_output=True, timeout=PATIENCE,
        env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr.decode()
    return done


def test_a_phone_enrols_over_http_2(pki, own_upstream, tmp_path, monkeypatch):
    monkeypatch.setattr(enrolling_phone, "Client", HTTP2Client)
    enrolling = Enrolling(tmp_path / "enrolment", pki, own_upstream).start()
    try:
        enrolling.enrolled()
        assert error_of(enrolling.service.post("/nowhere", {}))[0] == 404
    finally:
        enrolling.stop()


# What is spoken.

@pytest.mark.parametrize("protocols, offered, chosen", [
    (["h2", "http/1.1"], "http/1.1,h2", "h2"), (["http/1.1", "h2"], "h2,http/1.1", "http/1.1"),
    (["http/1.1"], "h2,http/1.1", "http/1.1"), (["h2"], "http/1.1,h2", "h2")])
def test_the_conf_file_says_what_is_preferred(start_gateway, own_upstream, phone, protocols, offered, chosen):
    gateway = start_gateway({"service": own_upstream.address}, protocols=protocols)
    context = tls_context(gateway.pki, phone)
    context.set_alpn_protocols(offered.split(","))
    with Client(gateway, phone, context=context) as client:
        assert client.socket.selected_alpn_protocol() == chosen


def test_without_a_common_protocol_an_alert_is_sent_and_without_alpn_http_1_1_is_used(start_gateway, own_upstream, phone):
    gateway = start_gateway({"service": own_upstream.address}, protocols=["h2"])
    assert s_client_alert(s_client(gateway, "-alpn", "http/1.1", identity=phone)) == 120
    assert "supported: h2" in assert_connection_refused(gateway, "handshake_failed")["detail"]
    # RFC 9113 section 3.3: nobody takes silence for HTTP/2.
    for options in [["-tls1_3"], ["-tls1_3", "-servername", "localhost"]]:
        assert s_client_alert(s_client(gateway, *options, identity=phone)) == 120
    assert "no protocol" in assert_connection_refused(gateway, "handshake_failed", count=3)["detail"]
    assert own_upstream.byte_count == 0


def test_both_protocols_are_offered_by_default(start_gateway, own_upstream, phone):
    gateway = start_gateway({"service": own_upstream.address})
    del gateway.conf["listeners"][0]["protocols"]
    gateway.write_conf()
    gateway.halt()
    gateway.start()
    for offered, chosen in [(["http/1.1", "h2"], "h2"), (["http/1.1"], "http/1.1"), ([], None)]:
        context = tls_context(gateway.pki, phone)
        if offered:
            context.set_alpn_protocols(offered)
        with Client(gateway, phone, context=context) as client:
            assert client.socket.selected_alpn_protocol() == chosen


def test_the_http_2_preface_is_refused_as_an_http_1_1_request(gateway, upstream, phone, nothing_forwarded):
    with nothing_forwarded, Client(gateway, phone) as client:
        response = client.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").read_response()
        assert_denied(gateway, response, "request_malformed", 400)


def test_an_http_1_1_request_is_refused_as_an_http_2_preface(gateway, phone, nothing_forwarded):
    with nothing_forwarded:
        with HTTP2Client(gateway, phone, preface=False) as client:
            client.send_bytes(get("/x"))
            client.wait_for_end()
    assert "preface" in assert_connection_refused(gateway, "protocol_broken")["detail"]


def test_each_resumed_connection_negotiates_its_own_protocol(gateway, upstream, phone):
    context = tls_context(gateway.pki, phone)
    context.set_alpn_protocols(["h2"])
    with HTTP2Client(gateway, phone, context=context) as client:
        assert client.get("/").status == 200
        session = client.socket.session
    context.set_alpn_protocols(["http/1.1"])
    with Client(gateway, phone, context=context, session=session) as client:
        assert client.exchange(get("/")).status == 200
        assert client.socket.session_reused and client.socket.selected_alpn_protocol() == "http/1.1"


def test_http_2_is_served_over_tls_1_2_where_configured(start_gateway, own_upstream, phone):
    gateway = start_gateway({"service": own_upstream.address}, policy="intermediate")
    context = tls_context(gateway.pki, phone, maximum=ssl.TLSVersion.TLSv1_2)
    with HTTP2Client(gateway, phone, context=context) as client:
        assert client.get("/").status == 200
        # RFC 9113 section 9.2.2.
        assert client.socket.cipher()[0].startswith("ECDHE-")


# Requests as the service sees them.

def test_a_request_reaches_the_service_as_one_of_http_1_1(gateway, upstream, http2):
    http2.get("/a/b", ("user-agent", "t"), ("cookie", "a=1"), ("cookie", "b=2"), ("te", "trailers"), ("x-y", "z"))
    seen = upstream.last_request()
    fields = [(name.lower(), value) for name, value in seen.fields]
    assert (seen.method, seen.target) == ("GET", "/a/b")
    assert ("cookie", "a=1; b=2") in fields and ("x-y", "z") in fields and ("host", "localhost") in fields
    assert not {"te", "content-length", "transfer-encoding", "connection"} & {name for name, _ in fields}


@pytest.mark.parametrize("pieces, joined", [
    (["", "a=1"], "a=1"), (["a=1", ""], "a=1"), (["a=1", "", "", "b=2"], "a=1; b=2"), (["", ""], None), ([""], None)])
def test_empty_pieces_of_a_cookie_are_left_out(upstream, http2, pieces, joined):
    http2.get("/", *(("cookie", piece) for piece in pieces))
    assert upstream.last_request().values("cookie") == ([joined] if joined else [])


@pytest.mark.parametrize("fields", [[("X", "upper case")], [("connection", "close")], [("host", "other")]])
def test_a_refusal_of_a_malformed_head_request_has_no_content(gateway, http2, nothing_forwarded, fields):
    with nothing_forwarded:
        response = http2.response(http2.start("HEAD", "/", fields))
        assert_denied(gateway, response, "request_malformed", 400, method="HEAD")
        assert response.content == b""
        # Nor one whose method is not known to be HEAD has less than it should.
        assert_denied(gateway, http2.response(http2.start("GET", "/", fields)), "request_malformed", 400)


def test_content_without_a_length_is_forwarded_in_chunks(gateway, upstream, http2):
    number = http2.start("POST", "/", end=False)
    http2.send(number, b"a" * 70_000)
    http2.send(number, b"b" * 10, end=True)
    assert http2.response(number).status == 200
    seen = upstream.last_request()
    assert seen.content == b"a" * 70_000 + b"b" * 10
    assert ("transfer-encoding", "chunked") in [(name.lower(), value) for name, value in seen.fields]


def test_content_with_a_length_is_forwarded_with_it(gateway, upstream, http2):
    assert http2.exchange(post("/", b"hello")).status == 200
    assert ("content-length", "5") in [(n.lower(), v) for n, v in upstream.last_request().fields]


def test_trailers_are_read_and_dropped(gateway, upstream, http2):
    number = http2.start("POST", "/", end=False)
    http2.send(number, b"x")
    http2.h2.send_headers(number, [("x-late", "1")], end_stream=True)
    http2.flush()
    assert http2.response(number).status == 200
    assert upstream.last_request().content == b"x" and b"x-late" not in upstream.received.lower()


def test_expect_is_answered_before_the_content(gateway, upstream, http2):
    number = http2.start("POST", "/", [("expect", "100-continue"), ("content-length", "1")], end=False)
    http2.pump_until(lambda: http2.streams[number].interim)
    assert http2.streams[number].interim == [100]
    http2.send(number, b"x", end=True)
    assert http2.response(number).status == 200


@pytest.mark.parametrize("answer, status, content", [
    (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b""), (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", 304, b""),
    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close, x-hop\r\nX-Hop: 1\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
     200, b"abc"), (b"HTTP/1.1 200 OK\r\nKeep-Alive: x\r\nContent-Length: 0\r\n\r\n", 200, b"")])
def test_responses_have_no_fields_specific_to_http_1_1(gateway, upstream, http2, answer, status, content):
    upstream.answer = answer
    response = http2.get("/")
    assert (response.status, response.content) == (status, content)
    names = {name for name, _ in response.fields}
    assert names == {name.lower() for name in names}
    assert not names & {"connection", "transfer-encoding", "keep-alive", "x-hop"}


def test_a_response_cut_off_by_the_service_is_seen_to_be_broken(start_gateway, own_upstream, phone):
    gateway = start_gateway({"service": own_upstream.address})

    def cut(connection):
        connection.read_request()
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
        connection.socket.close()
    own_upstream.script = cut
    with HTTP2Client(gateway, phone) as http2:
        with pytest.raises(StreamReset) as end:
            http2.get("/")
        assert end.value.code == Codes.INTERNAL_ERROR
        # It was that stream's end alone.
        own_upstream.reset_behaviour()
        assert http2.get("/").status == 200


# Malformed requests.

@pytest.mark.parametrize("pseudo, fields", [
    ([(":method", "GET"), (":scheme", "https"), (":path", "/")], []),
    ([(":method", "GET"), (":scheme", "http"), (":authority", "localhost"), (":path", "/")], []),
    ([(":method", "GET"), (":scheme", "https"), (":authority", "localhost"), (":path", "/a/../b")], []),
    ([(":method", "GET"), (":scheme", "https"), (":authority", "localhost"), (":path", "/%61")], []),
    ([(":method", "GET"), (":scheme", "https"), (":authority", "u@localhost"), (":path", "/")], []),
    ([(":method", "CONNECT"), (":authority", "localhost")], []),
    (None, [("connection", "close")]), (None, [("transfer-encoding", "chunked")]), (None, [("X-Upper", "1")]),
    (None, [("upgrade", "h2c")]), (None, [("te", "gzip")]), (None, [("x", "a\r\nb: c")]), (None, [("x y", "1")]),
    (None, [("host", "example.org")]), (None, [("content-length", "5")]),
], ids=lambda case: repr(case)[-40:])
def test_malformed_requests_are_refused_and_the_connection_continues(gateway, upstream, phone, nothing_forwarded, pseudo, fields):
    with nothing_forwarded, HTTP2Client(gateway, phone) as http2:
        number = http2.start(pseudo=pseudo, fields=fields)
        assert_denied(gateway, http2.response(number), "request_malformed", 400)
        http2.ping()
        assert http2.streams[number].reset in (None, Codes.PROTOCOL_ERROR, Codes.NO_ERROR)
        assert not http2.going_away


def test_another_host_than_the_handshake_s_is_misdirected(gateway, upstream, phone, nothing_forwarded):
    # RFC 9113 section 9.1.1: so a client that coalesces connections opens one of its own.
    with nothing_forwarded, HTTP2Client(gateway, phone) as http2:
        assert_denied(gateway, http2.get("/", authority="example.org"), "misdirected", 421)


def test_content_that_is_not_as_long_as_announced_is_refused(gateway, upstream, phone, nothing_forwarded):
    with nothing_forwarded, HTTP2Client(gateway, phone) as http2:
        number = http2.start("POST", "/", [("content-length", "0")], end=False)
        http2.h2.send_data(number, b"x", end_stream=True)
        http2.flush()
        assert_denied(gateway, http2.response(number), "request_malformed", 400)


# Denials.

DENIED = {
    "route_unknown": get("/.well-known/attestgate/other", host="localhost"),
    "method_refused": b"DELETE /read HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "override": get("/a", "X-HTTP-Method-Override: DELETE"),
    "target_too_long": get("/" + "a" * 9000),
    "head_too_large": get("/a", *[f"X-{n}: {'b' * 200}" for n in range(90)]),
    "too_many_fields": get("/a", *[f"X-{n}: b" for n in range(101)]),
    "content_announced": post("/read", b"x" * 2000_000),
    "expectation": get("/a", "Expect: something"),
    "content_type_twice": get("/a", "Content-Type: a/b", "Content-Type: c/d"),
    "path": get("/a//b"),
    "query": get("/a?"),
    "proof_required": get("/proof/a"),
    "proof_malformed": get("/proof/a", "Signature-Input: attest=1", "Signature: attest=1"),
    "device_unknown": get("/device/a"),
}


@pytest.fixture(scope="module")
def denying(pki, shared_upstream, tmp_path_factory):
    made = Gateway(tmp_path_factory.mktemp("denying"), pki, {"service": shared_upstream.address}, [
        {"name": "all", "host": "localhost", "path": "/a"},
        {"name": "sentinel", "host": "localhost", "path": "/sentinel"},
        {"name": "read", "host": "localhost", "path": "/read", "methods": ["GET", "POST"], "content_limit": "1MiB"},
        {"name": "proof", "host": "localhost", "path": "/proof", "require": "request-proof"},
        {"name": "device", "host": "localhost", "path": "/device", "require": "device"}])
    made.start()
    yield made
    made.stop()


@pytest.mark.parametrize("case", DENIED)
def test_a_denial_is_the_same_in_every_protocol(denying, upstream, phone, case):
    def said(response):
        body = json.loads(response.content)
        body.pop("trace_id")
        fields = {name.lower(): value for name, value in response.fields}
        for name in ["date", "connection"]:
            fields.pop(name, None)
        challenge = fields.pop("accept-signature", None)
        return response.status, body, fields, bool(challenge)

    with NothingForwarded(denying, upstream, phone):
        with Client(denying, phone) as client:
            expected = said(client.send_while_open(DENIED[case]).read_response())
        with HTTP2Client(denying, phone) as client:
            assert said(client.exchange(DENIED[case])) == expected
    assert expected[0] >= 400
