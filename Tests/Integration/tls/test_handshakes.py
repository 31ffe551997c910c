"""Handshakes that fail for other reasons than the certificate, and connections there is no room for."""

import socket
import ssl

import pytest

from support.client import Client, get, tls_context
from support.command_line import curl, curl_alert, s_client, s_client_alert
from support.denials import NothingForwarded, assert_connection_refused
from support.exposition import scrape
from support.paths import PATIENCE
from support.waiting import eventually


def plain_connection(gateway):
    return socket.create_connection(("127.0.0.1", gateway.port), timeout=PATIENCE)


def read_until_closed(plain):
    data = b""
    try:
        while more := plain.recv(4096):
            data += more
    except ConnectionResetError:
        pass
    return data


def test_plain_http_on_the_tls_port_is_closed_without_an_answer(gateway, nothing_forwarded):
    with nothing_forwarded, plain_connection(gateway) as plain:
        plain.sendall(get("/plain"))
        assert b"HTTP" not in read_until_closed(plain)
    assert_connection_refused(gateway, "handshake_failed")


def test_rubbish_on_the_tls_port_is_closed(gateway, nothing_forwarded):
    with nothing_forwarded, plain_connection(gateway) as plain:
        plain.sendall(bytes(range(256)) * 8)
        assert b"HTTP" not in read_until_closed(plain)
    assert_connection_refused(gateway, "handshake_failed")


def test_tls_1_2_is_refused_with_an_alert_of_the_protocol_version(gateway, phone, nothing_forwarded):
    before = len([e for e in gateway.access() if e.get("denial") == "handshake_failed"])
    with nothing_forwarded:
        # RFC 8446 section 4.2.1.
        assert s_client_alert(s_client(gateway, "-tls1_2", identity=phone)) == 70
        assert curl_alert(curl(gateway, "/old", "--tls-max", "1.2", identity=phone)) == 70
    assert_connection_refused(gateway, "handshake_failed", count=before + 2)


def test_no_common_key_exchange_is_refused_with_handshake_failure(gateway, phone, nothing_forwarded):
    with nothing_forwarded:
        assert s_client_alert(s_client(gateway, "-groups", "P-521", identity=phone)) == 40
        assert curl_alert(curl(gateway, "/curve", "--curves", "P-521", identity=phone)) == 40
    assert_connection_refused(gateway, "handshake_failed")


def test_a_client_with_only_another_protocol_gets_its_alert(gateway, phone, nothing_forwarded):
    # RFC 7301 section 3.2. A client that offers HTTP/1.1 too gets that.
    with nothing_forwarded:
        assert s_client_alert(s_client(gateway, "-alpn", "h3", identity=phone)) == 120


def test_tls_1_2_is_served_where_the_conf_file_admits_it(start_gateway, own_upstream, phone):
    gateway = start_gateway({"service": own_upstream.address}, policy="intermediate")
    context = tls_context(gateway.pki, phone, maximum=ssl.TLSVersion.TLSv1_2)
    with Client(gateway, phone, context=context) as client:
        assert client.exchange(get("/")).status == 200
        assert client.socket.version() == "TLSv1.2"
    # And there, too, nobody without a certificate: TLS 1.2 has no alert of its own for that.
    assert s_client_alert(s_client(gateway, "-tls1_2")) == 40
    assert_connection_refused(gateway, "certificate_required")


@pytest.mark.parametrize("beginning", [b"", b"\x16\x03\x01", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"])
def test_a_handshake_that_is_not_finished_in_time_is_closed(start_gateway, own_upstream, beginning):
    gateway = start_gateway({"service": own_upstream.address}, timeouts={"handshake": "300ms"})
    with plain_connection(gateway) as plain:
        plain.sendall(beginning)
        assert read_until_closed(plain) == b""
    assert_connection_refused(gateway, "handshake_timeout")
    assert own_upstream.connections == []


def test_a_trickling_handshake_does_not_move_its_deadline(start_gateway, own_upstream):
    gateway = start_gateway({"service": own_upstream.address}, timeouts={"handshake": "300ms"})
    with plain_connection(gateway) as plain:
        plain.sendall(b"\x16\x03\x01\x3f\xff")
        plain.settimeout(0.05)

        def is_closed():
            try:
                plain.sendall(b"\x00")
                return plain.recv(1) == b""
            except TimeoutError:
                return False
            except OSError:
                return True
        eventually(is_closed, "the gateway to lose patience")
    assert_connection_refused(gateway, "handshake_timeout")


def test_a_connection_beyond_the_limit_is_closed_and_the_others_are_served(start_gateway, own_upstream, phone):
    gateway = start_gateway({"service": own_upstream.address}, limits={"connections": 2})
    with Client(gateway, phone) as first, Client(gateway, phone) as second:
        # Both are in use: idle ones would give way.
        for client in (first, second):
            assert client.exchange(get("/") + b"GET /second HTTP/1.1\r\n").status == 200
        before = own_upstream.byte_count
        with pytest.raises((ssl.SSLError, OSError)):
            Client(gateway, phone)
        done = curl(gateway, "/third", identity=phone)
        assert done.returncode != 0
        output = s_client(gateway, identity=phone)
        assert "SSL alert" not in output and "BEGIN CERTIFICATE" not in output
        assert own_upstream.byte_count == before
        assert_connection_refused(gateway, "connection_limit", count=3)
        metrics = scrape(gateway)
        assert metrics("attestgate_connections_limited_total", limit="connections") >= 3
        assert metrics("attestgate_connections_limited_total") == metrics("attestgate_connections_limited_total", limit="connections")
        for client in (first, second):
            assert client.exchange(b"Host: localhost\r\n\r\n", "GET").status == 200

    def room():
        try:
            with Client(gateway, phone) as client:
                return client.exchange(get("/room")).status == 200
        except OSError:
            return False
    eventually(room, "room after two clients have left")


def test_the_reason_of_a_refusal_reaches_a_client_that_has_sent_its_request_already(gateway, upstream):
    """A TLS 1.3 client sends its request along with its last handshake message. Closing over that unread would reset
    the connection, and the alert with it."""
    for _ in range(30):
        with Client(gateway, None) as client:
            client.send_while_open(get("/early") * 100)
            with pytest.raises(ssl.SSLError, match="(?i)certificate.required"):
                client.socket.recv(1)


def test_a_flood_of_failed_handshakes_affects_no_other_client(gateway, upstream, phone):
    with Client(gateway, phone) as client:
        for _ in range(100):
            with plain_connection(gateway) as plain:
                plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert client.exchange(get("/unharmed")).status == 200
    with NothingForwarded(gateway, upstream, phone):
        pass
