"""TLS to health services: who does not prove to be the service gets not one byte of a request."""

import contextlib
import re
import select
import socket
import ssl
import threading
import time

import pytest

from support.client import Client, IncompleteResponse, get, post
from support.denials import assert_denied
from support.exposition import scrape
from support.libssl_service import UPDATE_NOT_REQUESTED, UPDATE_REQUESTED, Ended, LibSSLService
from support.nginx import Nginx
from support.paths import PATIENCE
from support.pki import CLIENT, attestgate
from support.recording_upstream import OK, RecordingUpstream
from support.services import Services, names
from support.waiting import at_some_pace, eventually
from test_streamed_content import assert_never_complete

CLOSE = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"


@pytest.fixture(scope="session")
def services(pki):
    return Services(pki)


@pytest.fixture
def serve(services):
    """Starts services of a test's own."""
    with contextlib.ExitStack() as started:
        def start(*arguments, **options):
            service = services.start(*arguments, **options)
            started.callback(service.close)
            return service
        yield start


@pytest.fixture
def raw():
    """Starts services below TLS: a function of each connection."""
    with contextlib.ExitStack() as started:
        def start(script):
            service = RecordingUpstream()
            service.script = script
            started.callback(service.close)
            return service
        yield start


def is_reused(service):
    return [connection.is_resumed for connection in service.connections]


# MARK: who is believed

def test_an_authenticated_service_gets_the_request(start_gateway, services, serve, phone):
    service = serve()
    gateway = start_gateway({"service": services.settings(service)})
    with Client(gateway, phone) as client:
        assert client.exchange(post("/a", b"hello")).status == 200
        assert client.exchange(get("/b")).status == 200
    assert [(request.target, request.content) for request in service.requests] == [("/a", b"hello"), ("/b", b"")]
    assert len(service.connections) == 1, "the connection is kept"
    assert service.connections[0].version == "TLSv1.3"


def untrusted(services):
    return services.certificate("untrusted", issuer=services.strangers)


REFUSED = {
    "another authority's": (
        lambda s: s.certificate("stranger", issuer=s.strangers), "unable to get local issuer certificate.*CN=strangers"),
    "for another name": (
        lambda s: s.certificate("elsewhere", extensions=names("DNS:elsewhere.example", "IP:127.0.0.2")),
        "the server's certificate for 127.0.0.1 is refused: IP address mismatch"),
    "that names no host but in its subject": (
        lambda s: s.certificate("common-name", subject="/CN=127.0.0.1", extensions=names()),
        "IP address mismatch"),
    "that has expired": (lambda s: s.certificate("expired", start=-3, end=-1), "certificate has expired"),
    "that is not valid yet": (lambda s: s.certificate("early", start=1, end=3), "certificate is not yet valid"),
    "that is self-signed": (
        lambda s: s.pki.client("service-self-signed", issuer=None, extensions=names("IP:127.0.0.1")), "self.signed"),
    "for clients": (
        lambda s: s.certificate("client-only", extensions=CLIENT + "subjectAltName=IP:127.0.0.1\n"),
        "(unsupported|unsuitable) certificate purpose"),
    "signed with SHA-1": (
        lambda s: s.certificate("sha1", digest="sha1"), "too weak"),
}


@pytest.mark.parametrize("policy", ["modern", "intermediate"])
@pytest.mark.parametrize("name", REFUSED)
def test_a_service_with_a_certificate_gets_nothing(start_gateway, services, serve, phone, name, policy):
    make, reason = REFUSED[name]
    maximum = ssl.TLSVersion.TLSv1_2 if policy == "intermediate" else None
    service = serve(make(services), maximum=maximum, weak="SHA-1" in name)
    gateway = start_gateway({"service": services.settings(service, tls={"policy": policy})})
    with Client(gateway, phone) as client:
        entry = assert_denied(gateway, client.exchange(post("/", b"secret")), "upstream_unavailable", 502)
    assert re.search(reason, entry["detail"]) and f"TLS to {service.address}: " in entry["detail"], entry
    assert scrape(gateway)("attestgate_upstream_failures_total", upstream="service", kind="tls") == 1
    eventually(lambda: service.refusals, "the service to receive the alert")
    assert service.byte_count == 0 and "alert" in service.refusals[0], service.refusals


def test_a_host_name_must_match_the_certificates_names(start_gateway, services, serve, phone):
    service = serve(services.certificate("common-name-only", subject="/CN=localhost", extensions=names("IP:127.0.0.1")))
    gateway = start_gateway({"service": services.settings(service, tls={"server_name": "localhost"})})
    with Client(gateway, phone) as client:
        entry = assert_denied(gateway, client.exchange(get("/")), "upstream_unavailable", 502)
    assert "the server's certificate for localhost is refused: hostname mismatch" in entry["detail"].replace("Hostname", "hostname")


def test_of_several_addresses_the_most_informative_failure_is_reported(start_gateway, services, serve, phone):
    # `localhost` is two addresses. At ::1 nobody listens, and that is tried last.
    service = serve(services.certificate("elsewhere-only", extensions=names("DNS:elsewhere.example")))
    server = f"localhost:{service.port}"
    gateway = start_gateway({"service": services.settings(server)})
    # The next request uses the other address.
    for count in [1, 2]:
        with Client(gateway, phone) as client:
            entry = assert_denied(gateway, client.exchange(post("/", b"secret")), "upstream_unavailable", 502)
        assert f"TLS to {server}: " in entry["detail"] and "hostname mismatch" in entry["detail"].lower(), entry
        metric = scrape(gateway)
        assert metric("attestgate_upstream_failures_total", upstream="service", kind="tls") == count
        assert metric("attestgate_upstream_server_failures_total", upstream="service", server=server, kind="tls") == count
        assert metric("attestgate_upstream_failures_total", upstream="service", kind="unreachable") == 0
    assert service.byte_count == 0


def test_a_server_name_is_sent_and_verified(start_gateway, services, serve, phone):
    service = serve(services.certificate("records", extensions=names("DNS:records.example.org")))
    asked = []
    service.tls.sni_callback = lambda sock, name, context: asked.append(name)
    gateway = start_gateway({"service": services.settings(service, tls={"server_name": "records.example.org"})})
    with Client(gateway, phone) as client:
        assert client.exchange(get("/")).status == 200
    assert asked == ["records.example.org"]


def test_a_literal_address_is_verified_and_no_name_is_sent(start_gateway, services, serve, phone):
    with contextlib.ExitStack() as stack:
        for host in ["127.0.0.1", "::1"]:
            service = serve(services.certificate("literals", extensions=names("IP:127.0.0.1", "IP:::1")), host=host)
            asked = []
            service.tls.sni_callback = lambda sock, name, context: asked.append(name)
            gateway = start_gateway({"service": services.settings(service)})
            client = stack.enter_context(Client(gateway, phone))
            assert client.exchange(get("/")).status == 200
            assert asked == [None]


# MARK: handshakes that do not come about

def plain_http(connection):
    connection.receive()
    connection.send(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")


def silent(connection):
    connection.receive()
    connection.wait_for_end()


def reset(connection):
    connection.receive()
    connection.reset()


def ends(connection):
    connection.receive()


def garbage(connection):
    connection.receive()
    connection.send(bytes(range(256)) * 64)


BROKEN = {
    "HTTP without TLS": (plain_http, "wrong version number|http"),
    "silence": (silent, "did not complete the handshake in time"),
    "a reset": (reset, "closed the connection during the handshake"),
    "an end": (ends, "closed the connection during the handshake"),
    "garbage": (garbage, "wrong version number"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_handshake_answered_by(start_gateway, services, raw, phone, name):
    script, reason = BROKEN[name]
    service = raw(script)
    gateway = start_gateway({"service": services.settings(
        service, connect_timeout="500ms" if name == "silence" else "30s")})
    with Client(gateway, phone) as client:
        entry = assert_denied(gateway, client.exchange(post("/", b"secret")), "upstream_unavailable", 502)
    assert re.search(reason, entry["detail"]), entry
    assert b"secret" not in service.received and b"HTTP" not in service.received


@pytest.mark.parametrize("maximum, policy, reason", [
    (ssl.TLSVersion.TLSv1_2, "modern", "protocol version"), (ssl.TLSVersion.TLSv1_1, "intermediate", "protocol")],
    ids=["TLS 1.2 for modern", "TLS 1.1 for intermediate"])
def test_a_service_without_a_version_of_ours(start_gateway, services, serve, phone, maximum, policy, reason):
    service = serve(maximum=maximum, weak=True)
    gateway = start_gateway({"service": services.settings(service, tls={"policy": policy})})
    with Client(gateway, phone) as client:
        entry = assert_denied(gateway, client.exchange(get("/")), "upstream_unavailable", 502)
    assert reason in entry["detail"], entry
    assert service.byte_count == 0


def test_a_policy_admits_tls_1_2(start_gateway, services, serve, phone):
    service = serve(maximum=ssl.TLSVersion.TLSv1_2)
    gateway = start_gateway({"service": services.settings(service, tls={"policy": "intermediate"})})
    with Client(gateway, phone) as client:
        assert client.exchange(get("/")).status == 200
    assert service.connections[0].version == "TLSv1.2"


# MARK: our certificate

VERSIONS = pytest.mark.parametrize("policy", ["modern", "intermediate"], ids=["TLS 1.3", "TLS 1.2"])


def only(policy):
    return ssl.TLSVersion.TLSv1_2 if policy == "intermediate" else None


@VERSIONS
def test_a_service_that_requests_a_certificate_gets_the_gateways(start_gateway, services, serve, phone, policy):
    service = serve(clients=True, maximum=only(policy))
    gateway = start_gateway({"service": services.settings(service, tls={**services.our_certificate, "policy": policy})})
    with Client(gateway, phone) as client:
        assert client.exchange(get("/")).status == 200
    assert service.connections[0].subject == ((("commonName", "the gateway"),),)


@VERSIONS
def test_a_service_that_refuses_the_gateway_is_reported_and_gets_no_complete_request(start_gateway, services, serve, phone, policy):
    service = serve(clients=True, maximum=only(policy))
    gateway = start_gateway({"service": services.settings(service, tls={"policy": policy})})
    with Client(gateway, phone) as client:
        entry = assert_denied(gateway, client.exchange(post("/", b"secret")), "upstream_unavailable", 502)
    assert "alert" in entry["detail"], entry
    assert service.requests == [] and service.byte_count == 0
    assert "did not return a certificate" in service.refusals[0]


# MARK: one server of several

@pytest.mark.parametrize("name", ["untrusted", "broken", "silent"])
def test_a_server_with_another_identity_fails_no_request(start_gateway, services, serve, raw, phone, name):
    def attempt(seconds):
        if name == "untrusted":
            bad = serve(untrusted(services))
        else:
            bad = raw(ends if name == "broken" else silent)
        good = serve()
        gateway = start_gateway({"service": services.settings(
            bad, good, connect_timeout=f"{seconds}s" if name == "silent" else "30s", ejection={"failures": 2, "for": "1h", "at_most": "1h"})})
        with Client(gateway, phone) as client:
            for number in range(8):
                assert client.exchange(post("/", b"%d" % number)).status == 200
        assert [request.content for request in good.requests] == [b"%d" % number for number in range(8)]
        metrics = scrape(gateway)
        assert metrics("attestgate_upstream_server_failures_total", server=bad.address, kind="tls") == 2
        assert metrics("attestgate_upstream_failures_total", upstream="service") == 0
        assert f"TLS to {bad.address}: " in gateway.logged(event="server_ejected")["detail"]
    at_some_pace(attempt)


def test_content_that_comes_during_a_handshake_goes_on_to_the_next_server(start_gateway, services, serve, raw, phone):
    """It waits for the handshake, so nothing was sent to that server."""
    def attempt(seconds):
        bad, good = raw(silent), serve()
        gateway = start_gateway({"service": services.settings(bad, good, connect_timeout=f"{seconds}s")})
        with Client(gateway, phone) as client:
            for number in range(2):
                client.send(b"POST /%d HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nhello" % number)
                eventually(lambda: bad.connections and bad.connections[0].received or good.requests, "a handshake to begin")
                assert client.send(b"world").read_response().status == 200
        assert [request.content for request in good.requests] == [b"helloworld"] * 2
        assert scrape(gateway)("attestgate_upstream_server_failures_total", server=bad.address, kind="tls") == 1
        assert len(bad.connections) == 1 and b"hello" not in bad.received
    at_some_pace(attempt)


def test_a_proof_is_sent_only_to_the_authenticated_server(start_attested, services, serve):
    attested, bad = start_attested(), serve(untrusted(services))
    gateway, phone = attested.gateway, attested.phone
    gateway.halt()
    attested.upstream.tls = services.context()
    gateway.conf["upstreams"]["service"] = services.settings(bad, attested.upstream)
    gateway.start()
    before = scrape(gateway)("attestgate_registry_counters_committed_total")
    with phone.connect() as client:
        for _ in range(4):
            assert client.exchange(phone.request("POST", "/a", content=b"hello")).status == 200
    assert scrape(gateway)("attestgate_registry_counters_committed_total") == before + 4
    assert len(attested.upstream.requests) == 4 and bad.byte_count == 0


def test_health_checks_ask_over_tls(start_gateway, services, serve, phone):
    bad, good = serve(untrusted(services)), serve()
    bad.is_checked = good.is_checked = True
    gateway = start_gateway({"service": services.settings(
        bad, good, health={"path": "/health", "interval": "2s", "timeout": "1900ms", "unhealthy_after": 1})})
    eventually(lambda: scrape(gateway)("attestgate_upstream_server_workers", server=bad.address, state="unhealthy"),
               "the check to fail")
    eventually(lambda: good.checks, "the good one to be asked")
    assert f"its health checks fail: TLS to {bad.address}: " in gateway.logged(event="server_unhealthy")["detail"]
    with Client(gateway, phone) as client:
        for _ in range(4):
            assert client.exchange(get("/")).status == 200
    assert len(good.requests) == 4 and bad.byte_count == 0


# MARK: sessions

@VERSIONS
def test_sessions_are_resumed(start_gateway, services, serve, phone, policy):
    service = serve(clients=True, maximum=only(policy))
    service.tls.num_tickets = 2
    service.answer = CLOSE
    gateway = start_gateway({"service": services.settings(service, tls={**services.our_certificate, "policy": policy})})
    with Client(gateway, phone) as client:
        for _ in range(4):
            assert client.exchange(post("/", b"hello")).status == 200
    assert is_reused(service) == [False, True, True, True]


def test_a_session_is_offered_only_to_the_server_that_issued_it(start_gateway, services, serve, phone):
    """Both could resume it: they have the same keys."""
    first, second = serve(), serve()
    second.tls = first.tls
    first.answer = second.answer = CLOSE
    gateway = start_gateway({"service": services.settings(first, second)})
    with Client(gateway, phone) as client:
        for _ in range(4):
            assert client.exchange(get("/")).status == 200
    assert is_reused(first) == is_reused(second) == [False, True]


def test_changed_authorities_invalidate_kept_sessions(start_gateway, services, serve, phone):
    """A service that was trusted, and whose session is kept, is not trusted after the reload."""
    service = serve()
    service.answer = CLOSE
    gateway = start_gateway({"service": services.settings(service)})
    with Client(gateway, phone) as client:
        for _ in range(2):
            assert client.exchange(get("/")).status == 200
    tls = gateway.conf["upstreams"]["service"]["tls"]
    tls["authorities"] = str(services.strangers.certificate)
    reload(gateway)
    before = service.byte_count
    with Client(gateway, phone) as client:
        assert_denied(gateway, client.exchange(get("/")), "upstream_unavailable", 502)
        assert service.byte_count == before
        tls["authorities"] = [str(services.strangers.certificate), str(services.authority.certificate)]
    reload(gateway)
    with Client(gateway, phone) as client:
        assert client.exchange(get("/")).status == 200
    assert is_reused(service)[-1] is False


def reload(gateway):
    gateway.write_conf()
    done = attestgate("reload", "--config", gateway.conf_path)
    assert done.returncode == 0, done.stderr


# MARK: the end of a connection

def answer_then(end, data):
    def script(connection):
        connection.read_request()
        connection.send(data)
        end(connection)
    return script


def close_notify(connection):
    connection.socket.unwrap()


def cut(connection):
    """The end of the TCP connection, without the end of TLS: what anybody on the way can do."""
    connection.socket.shutdown(socket.SHUT_RDWR)


UNFINISHED = {
    "chunked": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
    "length": b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhello",
    "until the end": b"HTTP/1.1 200 OK\r\n\r\nhello",
}


@VERSIONS
@pytest.mark.parametrize("framing", UNFINISHED)
def test_a_truncated_response_is_never_complete(start_gateway, services, serve, phone, framing, policy):
    service = serve(maximum=only(policy))
    service.script = answer_then(cut, UNFINISHED[framing])
    gateway = start_gateway({"service": services.settings(service, tls={"policy": policy})})
    with Client(gateway, phone) as client:
        with pytest.raises(IncompleteResponse):
            assert client.exchange(post("/", b"hello")).status == 502, "cut off, or refused before the first byte"
            raise IncompleteResponse
    assert gateway.logged(denial="upstream_unavailable")["fault"] == "upstream"


@VERSIONS
def test_content_until_the_end_ends_with_close_notify(start_gateway, services, serve, phone, policy):
    service = serve(maximum=only(policy))
    service.script = answer_then(close_notify, UNFINISHED["until the end"])
    gateway = start_gateway({"service": services.settings(service, tls={"policy": policy})})
    with Client(gateway, phone) as client:
        response = client.exchange(get("/"))
        assert (response.status, response.content) == (200, b"hello")


def test_a_complete_response_needs_no_close_notify(start_gateway, services, serve, phone):
    service = serve()
    service.script = answer_then(cut, CLOSE)
    gateway = start_gateway({"service": services.settings(service)})
    with Client(gateway, phone) as client:
        for _ in range(3):
            assert client.exchange(post("/", b"hello")).content == b"ok"


def test_a_finished_connection_is_closed_in_order(start_gateway, services, serve, phone):
    service = serve()
    endings = []

    def script(connection):
        connection.read_request()
        connection.send(CLOSE)
        # suppress_ragged_eofs is off: only close_notify is an end.
        endings.append(connection.socket.recv(1))
    service.script = script
    gateway = start_gateway({"service": services.settings(service)})
    with Client(gateway, phone) as client:
        assert client.exchange(get("/")).status == 200
    eventually(lambda: endings == [b""], lambda: f"close_notify, and not {endings}")


@pytest.mark.parametrize("beginning", [
    b"POST /half HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nhello",
    b"POST /half HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"])
def test_a_request_given_up_midway_does_not_end_in_order(start_gateway, services, serve, phone, beginning):
    service = serve()
    gateway = start_gateway({"service": services.settings(service)})
    with Client(gateway, phone) as client:
        client.send(beginning)
        eventually(lambda: b"hello" in service.received, "the beginning to arrive")
    connection = service.connections[0]
    eventually(lambda: connection.is_closed_by_gateway, "the gateway to leave the service")
    assert connection.is_broken and service.requests == []


# MARK: what TLS says unasked

@pytest.fixture
def serve_by_libssl(services):
    """Starts services of the test's own that say more than Python's can."""
    with contextlib.ExitStack() as started:
        def start(script, **options):
            service = LibSSLService(services.ordinary, script, **options)
            started.callback(service.close)
            return service
        yield start


def tell(session):
    session.send_ticket()
    session.update_key(UPDATE_NOT_REQUESTED)
    session.update_key(UPDATE_REQUESTED)


def test_tickets_and_key_updates_leave_an_unused_connection_in_use(start_gateway, services, serve_by_libssl, phone):
    sent = threading.Semaphore(0)

    def script(session):
        while True:
            session.read_request()
            session.write(OK)
            tell(session)
            sent.release()
    service = serve_by_libssl(script)
    gateway = start_gateway({"service": services.settings(service.address)})
    with Client(gateway, phone) as client:
        for _ in range(5):
            assert client.exchange(post("/")).status == 200
            assert sent.acquire(timeout=PATIENCE)
    assert len(service.sessions) == 1, "one connection served all of them"
    metrics = scrape(gateway)
    assert metrics("attestgate_upstream_connections", server=service.address, state="idle") == 1


def test_a_late_ticket_is_valid(start_gateway, services, serve_by_libssl, phone):
    sent = threading.Event()

    def script(session):
        session.read_request()
        session.write(OK)
        session.send_ticket()
        sent.set()
    service = serve_by_libssl(script)
    gateway = start_gateway({"service": services.settings(service.address)})
    with Client(gateway, phone) as client:
        for number in range(3):
            assert client.exchange(get("/")).status == 200
            assert sent.wait(PATIENCE)
            sent.clear()
            eventually(lambda: scrape(gateway)(
                "attestgate_upstream_connections", server=service.address, state="idle") == 0, "the connection's end")
    assert [session.is_reused for session in service.sessions] == [False, True, True]


def test_endless_tickets_delay_no_other_request(start_gateway, services, serve_by_libssl, own_upstream, phone):
    """One read of OpenSSL would last as long as they come and block the worker."""
    def script(session):
        session.read_request()
        session.flood_with_tickets()
    service = serve_by_libssl(script)
    gateway = start_gateway(
        {"service": services.settings(service.address), "others": own_upstream.address}, [
            {"name": "flood", "host": "localhost", "path": "/flood"},
            {"name": "others", "host": "localhost", "path": "/others", "upstream": "others"}])
    with Client(gateway, phone) as client, Client(gateway, phone) as other:
        client.send(get("/flood"))
        for _ in range(20):
            assert other.exchange(get("/others")).status == 200
        entry = assert_denied(gateway, client.read_response(), "upstream_unavailable", 502)
    assert "too many records without content" in entry["detail"], entry


def test_endless_tickets_end_an_idle_connection(start_gateway, services, serve_by_libssl, phone):
    ended = threading.Event()

    def script(session):
        session.read_request()
        session.write(OK)
        try:
            session.flood_with_tickets()
        finally:
            ended.set()
    service = serve_by_libssl(script)
    gateway = start_gateway({"service": services.settings(service.address)})
    with Client(gateway, phone) as client:
        assert client.exchange(get("/")).status == 200
        assert ended.wait(PATIENCE), "the gateway takes tickets for ever"


def test_an_unsolicited_response_answers_no_request(start_gateway, services, serve_by_libssl, phone):
    """Response queue poisoning, behind a ticket."""
    def script(session):
        session.read_request()
        session.write(OK)
        session.send_ticket()
        session.write(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nSTOLEN")
        session.read()
    service = serve_by_libssl(script)
    gateway = start_gateway({"service": services.settings(service.address)})
    with Client(gateway, phone) as client:
        for number in range(4):
            assert client.exchange(get("/")).content == b"ok"
            eventually(lambda: scrape(gateway)(
                "attestgate_upstream_connections", server=service.address, state="idle") == 0, "the connection's end")
    assert len(service.sessions) == 4


def test_key_updates_in_the_midst_of_content_lose_nothing(start_gateway, services, serve_by_libssl, phone):
    """In both directions at once: the service changes keys while it sends and receives."""
    size, block = 3_000_000, bytes(range(256)) * 64

    def script(session):
        data = session.read_request()
        got = len(data) - data.index(b"\r\n\r\n") - 4
        session.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        sent = 0
        while sent < size or got < size:
            if sent < size:
                part = block[:size - sent]
                session.write(part)
                sent += len(part)
                tell(session)
            if got < size:
                got += len(session.read(16384))
        session.wait_for_end()
    service = serve_by_libssl(script)
    gateway = start_gateway({"service": services.settings(service.address)}, [
        {"name": "all", "host": "localhost", "path": "/", "content_limit": size}])
    with Client(gateway, phone) as client:
        sender = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % size
        both_ways(client, sender + bytes(size), size)


def both_ways(client, data, size):
    """Sends all of it while reading an answer with so much content."""
    client.socket.setblocking(False)
    view, answer = memoryview(data), b""
    deadline = time.monotonic() + PATIENCE
    while view or b"\r\n\r\n" not in answer or len(answer) < answer.index(b"\r\n\r\n") + 4 + size:
        assert time.monotonic() < deadline, f"{len(view)} octets left to send, {len(answer)} received"
        try:
            if view:
                view = view[client.socket.send(view[:65536]):]
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            pass
        try:
            part = client.socket.recv(65536)
            assert part, "the answer is not whole"
            answer += part
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            select.select([client.socket], [client.socket] if view else [], [], 0.02)
    client.socket.settimeout(PATIENCE)


def test_a_service_may_not_renegotiate(start_gateway, services, serve_by_libssl, phone):
    """With TLS 1.2 it could change the parameters and its certificate within a connection."""
    faults = []

    def script(session):
        session.read_request()
        session.renegotiate()
        try:
            session.read()
        except Ended:
            faults.append(session.fault)
    service = serve_by_libssl(script, only_tls12=True)
    gateway = start_gateway({"service": services.settings(service.address, tls={"policy": "intermediate"})})
    with Client(gateway, phone) as client:
        assert_denied(gateway, client.exchange(post("/")), "upstream_unavailable", 502)
    assert faults == ["no renegotiation"]


# MARK: a real service

def test_nginx_sees_the_gateways_certificate_and_resumed_sessions(start_gateway, services, phone, tmp_path):
    nginx = Nginx(tmp_path / "nginx", services)
    big = bytes(range(256)) * 4096
    nginx.files.joinpath("big").write_bytes(big)
    try:
        gateway = start_gateway({"service": services.settings(nginx.address, tls=services.our_certificate)})
        with Client(gateway, phone) as client:
            assert client.exchange(get("/files/big")).content == big
            put = get("/files/put", f"Content-Length: {len(big)}", method="PUT") + big
            assert client.exchange(put).status == 201
            for _ in range(3):
                assert client.exchange(get("/close")).status == 200
        assert nginx.files.joinpath("put").read_bytes() == big
        # The first three share a connection, which nginx closes then; each one after it is opened with a session.
        paths, reused, verified, subjects = zip(*nginx.logged(5))
        assert paths == ("/files/big", "/files/put", "/close", "/close", "/close")
        assert reused == (".", ".", ".", "r", "r")
        assert set(verified) == {"SUCCESS"} and set(subjects) == {"CN=the gateway"}
    finally:
        nginx.stop()


# MARK: files

def test_authorities_change_under_load_without_a_failed_request(start_gateway, services, serve, phone):
    """The service changes its certificate; then the authority before goes."""
    service = serve()
    both = [str(services.authority.certificate), str(services.strangers.certificate)]
    gateway = start_gateway({"service": services.settings(service)}, workers=2)
    statuses, over = [], threading.Event()

    def ask():
        while not over.is_set():
            with Client(gateway, phone) as client:
                statuses.extend(client.exchange(post("/", b"hello")).status for _ in range(5))
    askers = [threading.Thread(target=ask) for _ in range(3)]
    for asker in askers:
        asker.start()
    try:
        tls = gateway.conf["upstreams"]["service"]["tls"]
        for authorities, identity in [(both, services.ordinary), (both, untrusted(services)), (both[1:], untrusted(services))]:
            tls["authorities"] = authorities
            reload(gateway)
            service.tls = services.context(identity)
            count = len(statuses)
            eventually(lambda: len(statuses) > count + 40, "requests after the reload")
    finally:
        over.set()
        for asker in askers:
            asker.join(PATIENCE)
    assert set(statuses) == {200}
    assert service.refusals == []


def test_tls_files_of_an_upstream_are_watched(start_gateway, services, serve, phone, tmp_path):
    service = serve(untrusted(services))
    service.answer = CLOSE
    authorities = tmp_path / "authorities.pem"
    authorities.write_bytes(services.authority.certificate.read_bytes())
    gateway = start_gateway(
        {"service": services.settings(service, tls={"authorities": str(authorities)})}, watch="1s")
    with Client(gateway, phone) as client:
        assert client.exchange(get("/")).status == 502
    authorities.write_bytes(services.strangers.certificate.read_bytes())

    def is_served():
        with Client(gateway, phone) as client:
            return client.exchange(get("/")).status == 200
    eventually(is_served, "the new authority to be trusted")


def test_upstream_certificates_have_an_expiry_metric_and_warning(start_gateway, services, phone, pki):
    ending = pki.client("gateway-ending", subject="/CN=ending", issuer=services.clients, extensions=CLIENT, end=3)
    gateway = start_gateway({"service": services.settings("127.0.0.1:9", tls={
        "certificate": str(ending.certificate), "key": str(ending.key)})})
    metrics, name = scrape(gateway), "attestgate_certificate_expiry_timestamp_seconds"
    roles = {labels["role"]: labels for labels in metrics.labels(name) if labels.get("upstream") == "service"}
    assert set(roles) == {"client", "authority"}
    assert roles["client"]["subject"] == "CN=ending" and roles["authority"]["subject"] == "CN=services"
    assert 2 * 86_400 < metrics(name, **roles["client"]) - time.time() <= 3 * 86_400
    assert metrics(name, **roles["authority"]) - time.time() > 14 * 86_400
    warning = re.compile("upstream service: the certificate of CN=ending ends in [23] days")
    eventually(lambda: warning.search(gateway.errors), "the warning")
    assert "CN=services ends" not in gateway.errors
    shown = attestgate("status", "--config", gateway.conf_path).stdout
    assert re.search(r"client +service +CN=ending", shown), shown


WRONG_FILES = {
    "a key of another certificate": (
        lambda s, tls, path: tls.update(certificate=str(s.gateway.certificate), key=str(s.ordinary.key)),
        "it must be the key of CN=the gateway"),
    "a certificate as the authority": (
        lambda s, tls, path: tls.update(authorities=str(s.ordinary.certificate)), "it is not a certification authority"),
    "an authority's file without one": (
        lambda s, tls, path: (path.write_text("nothing\n"), tls.update(authorities=str(path))), "find a certificate"),
    "an empty file": (
        lambda s, tls, path: (path.write_text(""), tls.update(authorities=str(path))), "it is empty"),
    "no file": (lambda s, tls, path: tls.update(authorities=str(path)), "No such file"),
    "an authority's file that is cut off": (
        lambda s, tls, path: (path.write_text(s.authority.certificate.read_text()[:-40]), tls.update(authorities=str(path))),
        "PEM"),
}


@pytest.mark.parametrize("name", WRONG_FILES)
def test_check_refuses(start_gateway, services, serve, phone, tmp_path, name):
    spoil, reason = WRONG_FILES[name]
    service = serve()
    gateway = start_gateway({"service": services.settings(service)})
    tls = gateway.conf["upstreams"]["service"]["tls"]
    spoil(services, tls, tmp_path / "file.pem")
    gateway.write_conf()
    done = attestgate("check", "--config", gateway.conf_path)
    assert done.returncode == 1 and reason in done.stderr, done.stderr
    file = tls["key"] if "key" in name else tls["authorities"]
    assert file in done.stderr, "the file is named"
    # A reload changes nothing.
    assert attestgate("reload", "--config", gateway.conf_path).returncode == 1
    with Client(gateway, phone) as client:
        assert client.exchange(get("/")).status == 200


# MARK: proofs

def test_streamed_content_is_whole_or_breaks_off(start_attested, services):
    """The same as in the clear: the last byte is held back until the digest matches, and no end is said before."""
    attested = start_attested()
    gateway, phone, upstream = attested.gateway, attested.phone, attested.upstream
    gateway.halt()
    upstream.tls = services.context()
    gateway.conf["upstreams"]["service"] = services.settings(upstream)
    gateway.start()
    content = bytes(range(256)) * 2000
    with phone.connect() as client:
        assert client.exchange(phone.request("POST", "/stream/a", content=content)).status == 200
        assert upstream.last_request().content == content
        data = phone.request("POST", "/stream/b", content=content)
        client.send_while_open(data[:-1] + bytes([data[-1] ^ 1]))
        assert_never_complete(upstream, "/stream/b", content)
    assert [request.target for request in upstream.requests] == ["/stream/a"]
