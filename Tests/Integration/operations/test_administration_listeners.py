"""The administration over TCP: for clients that show the token or an operator's certificate, and for no web page."""

import contextlib
import http.client
import json
import os
import signal
import socket
import ssl

import pytest

from support.client import Client, get
from support.exposition import CONTENT_TYPE, Metrics, scrape
from support.paths import PATIENCE
from support.pki import attestgate
from support.ports import uncommon_port
from support.waiting import eventually

TOKEN = "t0ken-" * 8


@pytest.fixture
def operators(pki):
    """An authority that no phone has a certificate of."""
    return pki.authority("operators")


def start(start_gateway, upstream, tmp_path, settings=(), **listener):
    token = tmp_path / "token"
    token.write_text(TOKEN + "\n")
    token.chmod(0o600)
    port = uncommon_port()
    gateway = start_gateway({"service": upstream.address}, registry={"devices": 64}, administration={
        "socket": str(tmp_path / "admin.sock"),
        "listeners": [{"address": f"127.0.0.1:{port}", **listener}]}, **dict(settings))
    gateway.administration_port = port
    return gateway


@pytest.fixture
def with_token(start_gateway, own_upstream, tmp_path):
    return start(start_gateway, own_upstream, tmp_path, token_file=str(tmp_path / "token"))


def ask(gateway, path="/metrics", method="GET", token=TOKEN, context=None, **fields):
    kind = http.client.HTTPSConnection if context else http.client.HTTPConnection
    options = {"context": context} if context else {}
    connection = kind("localhost", gateway.administration_port, timeout=PATIENCE, **options)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        connection.request(method, path, headers={**headers, **fields})
        response = connection.getresponse()
        content = response.read().decode()
        error = json.loads(content)["error"] if response.status >= 400 else None
        return response.status, error or content, response
    finally:
        connection.close()


def test_the_token_opens_metrics_status_and_devices(with_token):
    status, text, response = ask(with_token)
    assert (status, response.getheader("content-type")) == (200, CONTENT_TYPE)
    assert Metrics(text)("attestgate_generation") == 1
    assert json.loads(ask(with_token, "/status")[1])["generation"] == 1
    assert ask(with_token, "/health/ready")[:2] == (200, "ready\n")
    assert json.loads(ask(with_token, "/devices")[1])["devices"] == []
    assert json.loads(ask(with_token, "/reload", "POST", **{"Content-Length": "0"})[1])["generation"] == 2
    eventually(
        lambda: f"administration: reload, by the token at 127.0.0.1:{with_token.administration_port}, from 127.0.0.1"
        in with_token.errors, "the log to tell of it")


@pytest.mark.parametrize("token", [None, "x" * 48, TOKEN[:-1], TOKEN + "x", ""])
def test_without_the_token_every_request_is_refused(with_token, token):
    for method, path in [("GET", "/metrics"), ("GET", "/health/live"), ("GET", "/devices"), ("POST", "/reload"), ("GET", "/nowhere")]:
        status, error, response = ask(with_token, path, method, token)
        assert (status, error) == (401, "token_required")
        assert response.getheader("www-authenticate") == 'Bearer realm="attestgate"'
    assert json.loads(ask(with_token, "/status")[1])["generation"] == 1
    assert TOKEN not in with_token.errors


@pytest.mark.parametrize("credentials", [f"Basic {TOKEN}", TOKEN, f"Bearer  {TOKEN}", f"Bearer {TOKEN} x"])
def test_the_token_is_a_bearer_token(with_token, credentials):
    assert ask(with_token, token=None, Authorization=credentials)[:2] == (401, "token_required")


def test_the_scheme_may_be_written_in_any_case(with_token):
    assert ask(with_token, token=None, Authorization=f"bearer {TOKEN}")[0] == 200


def test_a_web_page_is_refused_even_with_the_token(with_token):
    port = with_token.administration_port
    # DNS rebinding: the page's own name leads here.
    for host in ["evil.example", f"evil.example:{port}", "localhost", "127.0.0.1", f"127.0.0.1:{port + 1}"]:
        assert ask(with_token, Host=host)[:2] == (421, "misdirected")
    assert ask(with_token, Host=f"127.0.0.1:{port}")[0] == 200
    assert ask(with_token, Origin="https://evil.example")[:2] == (403, "origin_refused")
    assert ask(with_token, Origin="null")[:2] == (403, "origin_refused")


def refused(gateway, reason):
    return scrape(gateway)("attestgate_administration_refused_total", reason=reason)


def test_a_refused_client_is_logged_by_address_and_counted(with_token):
    gateway = with_token
    guess = "gue5s-" * 8
    for token in [None, guess]:
        assert ask(gateway, token=token)[0] == 401
    assert ask(gateway, Host="evil.example")[0] == 421
    assert ask(gateway, Origin="null")[0] == 403
    assert ask(gateway, "/nowhere")[0] == 404
    assert [refused(gateway, reason) for reason in ["token", "host", "origin", "handshake"]] == [2, 1, 1, 0]
    line = f"administration: refused 127.0.0.1 at 127.0.0.1:{gateway.administration_port}: "
    eventually(lambda: gateway.errors.count(line) == 4, lambda: f"four lines\n{gateway.errors}")
    assert gateway.errors.count(line + "the token is missing or wrong") == 2
    assert guess not in gateway.errors and TOKEN not in gateway.errors and "evil.example" not in gateway.errors


def crowd(gateway, stack, source="127.0.0.1", count=100):
    """More silent connections than the listener keeps open; those that it has closed already included."""
    before = refused(gateway, "connections")
    for _ in range(count):
        stack.enter_context(socket.create_connection(
            ("127.0.0.1", gateway.administration_port), timeout=PATIENCE, source_address=(source, 0)))
    eventually(lambda: refused(gateway, "connections") >= before + count - 64, "the listener to have taken them all")


def test_silent_connections_lock_no_operator_out(with_token):
    with contextlib.ExitStack() as stack:
        crowd(with_token, stack)
        for _ in range(3):
            assert ask(with_token, "/health/live")[0] == 200


def test_a_crowd_of_strangers_closes_no_connection_with_the_token(with_token):
    operator = http.client.HTTPConnection("localhost", with_token.administration_port, timeout=PATIENCE)
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with contextlib.closing(operator), contextlib.ExitStack() as stack:
        operator.request("GET", "/health/live", headers=headers)
        assert operator.getresponse().read() == b"live\n"
        opened = operator.sock
        crowd(with_token, stack)
        operator.request("GET", "/health/live", headers=headers)
        assert operator.getresponse().read() == b"live\n"
        assert operator.sock is opened


def test_a_crowd_displaces_its_own_connections_and_not_one_about_to_send_the_token(with_token):
    with contextlib.ExitStack() as stack:
        operator = stack.enter_context(socket.create_connection(
            ("127.0.0.1", with_token.administration_port), timeout=PATIENCE))
        crowd(with_token, stack, source="127.0.0.2")
        operator.sendall(
            f"GET /health/live HTTP/1.1\r\nHost: localhost:{with_token.administration_port}\r\n"
            f"Authorization: Bearer {TOKEN}\r\nConnection: close\r\n\r\n".encode())
        assert operator.recv(65536).startswith(b"HTTP/1.1 200 ")


# What changes while it serves.

NEXT = "an0ther-" * 8


class Kept:
    """A connection to the administration that is kept."""

    def __init__(self, gateway, context=None):
        kind = http.client.HTTPSConnection if context else http.client.HTTPConnection
        options = {"context": context} if context else {}
        self.connection = kind("localhost", gateway.administration_port, timeout=PATIENCE, **options)

    def ask(self, path="/health/live", method="GET", token=TOKEN):
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self.connection.request(method, path, headers=headers)
        opened = self.connection.sock
        response = self.connection.getresponse()
        self.was_kept = self.connection.sock is opened
        return response.status, response.read().decode()

    def has_ended(self):
        try:
            return self.connection.sock.recv(1) == b""
        except (ssl.SSLError, ConnectionResetError):
            return True

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.close()


def reload(gateway, token=TOKEN, context=None):
    return ask(gateway, "/reload", "POST", token, context, **{"Content-Length": "0"})[:2]


def test_a_new_token_is_valid_after_the_reload_and_the_old_one_is_refused(with_token, tmp_path):
    gateway = with_token
    with Kept(gateway) as kept, Kept(gateway) as operator, socket.create_connection(
            ("127.0.0.1", gateway.administration_port), timeout=PATIENCE) as half:
        assert kept.ask()[0] == 200 and kept.was_kept
        half.sendall(f"GET /devices HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\n".encode())
        # The control: a reload that changes nothing of the administration ends no connection.
        assert reload(gateway)[0] == 200
        assert kept.ask()[0] == 200 and kept.was_kept
        (tmp_path / "token").write_text(NEXT)
        # Who asks for the change is still answered, by the connection that the old token has opened.
        assert json.loads(operator.ask("/reload", "POST")[1])["generation"] == 3
        assert kept.has_ended()
        half.settimeout(PATIENCE)
        assert half.recv(1) == b"", "who had begun with the old token is answered nothing"
    for _ in range(3):
        assert ask(gateway)[:2] == (401, "token_required")
        assert ask(gateway, token=NEXT)[0] == 200


def until_end(connection):
    connection.settimeout(PATIENCE)
    received = b""
    with contextlib.suppress(ConnectionResetError):
        while part := connection.recv(4096):
            received += part
    return received


def test_a_request_delayed_past_a_change_of_token_is_not_executed(with_token, tmp_path):
    gateway = with_token
    address = ("127.0.0.1", gateway.administration_port)
    fields = f"Host: localhost:{address[1]}\r\nAuthorization: Bearer {TOKEN}\r\n"
    content = "Content-Type: application/json\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"
    with socket.create_connection(address, timeout=PATIENCE) as held, socket.create_connection(
            address, timeout=PATIENCE) as known:
        held.sendall(f"POST /devices HTTP/1.1\r\n{fields}{content}".encode())
        assert held.recv(25) == b"HTTP/1.1 100 Continue\r\n\r\n", "the old token has opened the head"
        # Half a head behind a request that has shown the token.
        known.sendall(f"GET /health/live HTTP/1.1\r\n{fields}\r\nGET /devices HTTP/1.1\r\n{fields}".encode())
        assert known.recv(4096).startswith(b"HTTP/1.1 200 ")
        (tmp_path / "token").write_text(NEXT)
        assert reload(gateway)[0] == 200
        held.sendall(b"{}")
        answer = until_end(held)
        # Carried out, it would be refused for what its content lacks.
        assert answer.startswith(b"HTTP/1.1 503 ") and b'"busy"' in answer
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            known.sendall(b"\r\n")
        assert b"HTTP/1.1 200 " not in until_end(known)


def test_a_bad_token_fails_the_reload_and_the_old_one_stays(with_token, tmp_path):
    (tmp_path / "token").write_text("s4ort")
    assert reload(with_token) == (422, "reload_failed")
    eventually(lambda: "at least 32" in with_token.errors, lambda: f"the reason in {with_token.errors}")
    assert ask(with_token)[0] == 200


def test_a_reload_that_fails_for_another_reason_keeps_the_token(with_token, tmp_path):
    gateway = with_token
    good, descriptors = list(gateway.conf["listeners"]), None
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = "127.0.0.1:%d" % taken.getsockname()[1]
        gateway.conf["listeners"] = [*good, {**good[0], "address": address}]
        gateway.write_conf()
        (tmp_path / "token").write_text(NEXT)
        for _ in range(3):
            assert reload(gateway) == (422, "reload_failed")
            eventually(lambda: gateway.connections() == 0, lambda: f"{gateway.connections()} connections to be closed")
            descriptors = descriptors or gateway.descriptors()
            assert gateway.descriptors() == descriptors, "what was made ready is let go of"
        assert f"{address}: " in gateway.errors and "in use" in gateway.errors
    assert ask(gateway, token=NEXT)[:2] == (401, "token_required")
    gateway.conf["listeners"] = good
    gateway.write_conf()
    assert reload(gateway)[0] == 200
    assert ask(gateway, token=NEXT)[0] == 200


def test_another_address_takes_a_restart(with_token):
    gateway = with_token
    gateway.conf["administration"]["listeners"][0]["address"] = f"127.0.0.1:{uncommon_port()}"
    gateway.write_conf()
    assert reload(gateway) == (422, "reload_failed")
    # The log has a thread of its own.
    reason = ("administration: another socket or address requires a restart, or `attestgate upgrade`; "
              "name the current socket with --socket")
    eventually(lambda: reason in gateway.errors, "the reason to be logged")
    assert ask(gateway)[0] == 200


def put(path, source):
    beside = path.with_suffix(".new")
    beside.touch(0o600)
    beside.write_bytes(source.read_bytes())
    beside.replace(path)


@pytest.mark.parametrize("trigger", ["watched", "SIGHUP"])
def test_a_reload_replaces_the_certificate_and_the_authorities_of_operators(
        start_gateway, own_upstream, tmp_path, pki, operators, trigger):
    certificate, key, authority = (tmp_path / name for name in ["listener.pem", "listener.key", "operators.pem"])
    for path, source in [
            (certificate, pki.server_certificate), (key, pki.server_key), (authority, operators.certificate)]:
        put(path, source)
    gateway = start(start_gateway, own_upstream, tmp_path, {"watch": "1s"} if trigger == "watched" else {}, tls={
        "certificate": str(certificate), "key": str(key), "clients": {"authorities": [str(authority)]}})
    successors = pki.authority("operators-to-come")
    then, now = pki.client("operator-then", issuer=operators), pki.client("operator-now", issuer=successors)
    server = pki.server("administration-to-come")

    def come_to(text):
        if trigger == "SIGHUP":
            gateway.signal(signal.SIGHUP)
        eventually(lambda: text in gateway.errors, lambda: f"{text}\n{gateway.errors}")

    with Kept(gateway, trusting(pki, then)) as kept:
        assert kept.ask(token=None)[0] == 200 and kept.was_kept
        for path, source in [
                (certificate, server.certificate), (key, server.key), (authority, successors.certificate)]:
            put(path, source)
        come_to("reloaded: generation 2")
        assert kept.has_ended()
    with pytest.raises(OSError):
        ask(gateway, token=None, context=trusting(pki, then))
    with Kept(gateway, trusting(pki, now)) as kept:
        assert kept.ask(token=None)[0] == 200
        assert kept.connection.sock.getpeercert(True) == ssl.PEM_cert_to_DER_cert(server.certificate.read_text())
        # One that does not fit: the last good ones stay, and so does who is connected.
        put(key, pki.server_key)
        come_to("error: administration listener")
        assert kept.ask(token=None)[0] == 200 and kept.was_kept
    assert ask(gateway, token=None, context=trusting(pki, now))[0] == 200


def test_a_configured_host_is_admitted(start_gateway, own_upstream, tmp_path):
    gateway = start(
        start_gateway, own_upstream, tmp_path, token_file=str(tmp_path / "token"), hosts=["gateway.internal:9464"])
    assert ask(gateway, Host="gateway.internal:9464")[0] == 200
    assert ask(gateway, Host="gateway.internal")[:2] == (421, "misdirected")


def tls(pki, **clients):
    return {"certificate": str(pki.server_certificate), "key": str(pki.server_key), **clients}


def trusting(pki, identity=None):
    context = ssl.create_default_context(cafile=str(pki.server_ca))
    if identity:
        context.load_cert_chain(identity.certificate, identity.key)
    return context


def test_an_operators_certificate_is_admitted_and_a_phones_is_refused(
        start_gateway, own_upstream, tmp_path, pki, operators, phone):
    gateway = start(
        start_gateway, own_upstream, tmp_path,
        tls=tls(pki, clients={"authorities": [str(operators.certificate)]}))
    operator = pki.client("operator", issuer=operators)
    assert ask(gateway, token=None, context=trusting(pki, operator))[0] == 200
    for identity in [None, phone]:
        with pytest.raises(OSError):
            ask(gateway, token=TOKEN, context=trusting(pki, identity))
    assert refused(gateway, "handshake") == 2
    with pytest.raises((OSError, http.client.HTTPException)):
        ask(gateway, token=TOKEN)


def test_with_token_and_certificate_configured_both_are_required(start_gateway, own_upstream, tmp_path, pki, operators):
    gateway = start(
        start_gateway, own_upstream, tmp_path, token_file=str(tmp_path / "token"),
        tls=tls(pki, clients={"authorities": [str(operators.certificate)]}))
    operator = pki.client("operator-with-token", issuer=operators)
    assert ask(gateway, context=trusting(pki, operator))[0] == 200
    assert ask(gateway, token=None, context=trusting(pki, operator))[:2] == (401, "token_required")
    with pytest.raises(OSError):
        ask(gateway, context=trusting(pki))


def test_a_token_over_tls_needs_no_certificate(start_gateway, own_upstream, tmp_path, pki):
    gateway = start(start_gateway, own_upstream, tmp_path, token_file=str(tmp_path / "token"), tls=tls(pki))
    for _ in range(2):
        assert ask(gateway, context=trusting(pki))[0] == 200
    assert ask(gateway, token=None, context=trusting(pki))[:2] == (401, "token_required")


@pytest.mark.parametrize("text, mode, reason", [
    ("s4ort", 0o600, "at least 32"), (TOKEN, 0o644, "mode must be 0600"), ("a b " * 20, 0o600, "and no spaces"),
    ("\n", 0o600, "at least 32"), ("", 0o600, "is empty")])
def test_a_short_token_or_a_readable_token_file_is_refused_at_the_start(
        with_token, tmp_path, text, mode, reason):
    (tmp_path / "token").write_text(text)
    (tmp_path / "token").chmod(mode)
    done = attestgate("check", "--config", with_token.conf_path)
    assert done.returncode == 1 and reason in done.stderr, done.stderr
    assert not text.strip() or text.strip() not in done.stderr


def test_the_gateways_own_listener_administers_nothing(with_token, phone):
    with Client(with_token, phone) as client:
        for path in ["/metrics", "/status", "/devices", "/health/live"]:
            response = client.exchange(get(path, f"Authorization: Bearer {TOKEN}"))
            assert response.content == b"ok" or response.status == 404, response


def test_changes_are_logged_with_who_made_them(start_attested):
    gateway = start_attested().gateway
    gateway.device_command("revoke", "1")
    gateway.device_command("restore", "1")
    attestgate("device", "revoke", "--config", gateway.conf_path, "77")
    attestgate("reload", "--config", gateway.conf_path)
    user = os.getuid()
    for change in ["device add 1", "device revoke 1", "device restore 1", "device revoke 77 refused: not_found", "reload"]:
        eventually(lambda: f"administration: {change}, by user {user}" in gateway.errors, lambda: f"{change}\n{gateway.errors}")
    assert "device show" not in gateway.errors and "device list" not in gateway.errors
