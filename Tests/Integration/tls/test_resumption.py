"""Resumed sessions: on every worker, with the identity of the first handshake, and never longer than it is good."""

import socket
import ssl
import struct
from types import SimpleNamespace

import pytest

from support.client import Client, get, session_of, tls_context
from support.command_line import s_client
from support.denials import NothingForwarded, assert_connection_refused
from support.gateway import Gateway
from support.ports import reserve_port
from support.waiting import eventually

REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


def test_openssl_resumes_on_every_worker(start_gateway, own_upstream, phone, tmp_path):
    gateway = start_gateway({"service": own_upstream.address}, workers=4)
    kept = tmp_path / "session.pem"
    assert "New, TLSv1.3" in s_client(gateway, "-sess_out", kept, identity=phone, send=REQUEST)
    for _ in range(12):
        output = s_client(gateway, "-sess_in", kept, "-sess_out", kept, identity=phone, send=REQUEST)
        assert "Reused, TLSv1.3" in output
        assert "HTTP/1.1 200 OK" in output
    assert len(own_upstream.requests) == 13


def test_a_resumed_session_still_has_its_identity(start_gateway, own_upstream, phone):
    gateway = start_gateway({"service": own_upstream.address}, workers=2)
    context = tls_context(gateway.pki, phone)
    with Client(gateway, phone, context=context) as client:
        session = session_of(client)
    for _ in range(10):
        # Each connection resumes what the one before was given.
        with Client(gateway, phone, context=context, session=session) as client:
            assert client.socket.session_reused
            session = session_of(client)


@pytest.mark.parametrize("suite", ["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"])
@pytest.mark.parametrize("groups", ["X25519", "P-521:X25519"], ids=["at once", "after a HelloRetryRequest"])
def test_a_service_gets_the_same_fields_from_a_resumed_client(attested, tmp_path, suite, groups):
    """Sessions keep no certificate: the fields come from the identity of the first handshake."""
    kept = tmp_path / "session.pem"
    request = REQUEST.replace(b"GET /", b"GET /device", 1)
    forwarded = []
    # Each connection but the first resumes what the one before was given.
    for count in range(3):
        offered = ["-sess_in", kept] if count else []
        output = s_client(
            attested.gateway, "-ciphersuites", suite, "-groups", groups, *offered, "-sess_out", kept,
            identity=attested.phone.identity, send=request)
        assert f"{'Reused' if count else 'New'}, TLSv1.3, Cipher is {suite}" in output
        assert "HTTP/1.1 200 OK" in output
        forwarded.append([field for field in attested.upstream.last_request().fields if field[0] != "traceparent"])
    assert "Attest-Device" in dict(forwarded[0])
    assert forwarded[1:] == forwarded[:1] * 2


def test_resumption_works_with_tls_1_2(start_gateway, own_upstream, phone):
    gateway = start_gateway({"service": own_upstream.address}, policy="intermediate", workers=2)
    context = tls_context(gateway.pki, phone, maximum=ssl.TLSVersion.TLSv1_2)
    with Client(gateway, phone, context=context) as client:
        session = session_of(client)
    for _ in range(6):
        with Client(gateway, phone, context=context, session=session) as client:
            assert client.socket.session_reused
            session = session_of(client)


@pytest.mark.parametrize("ending", ["closed", "reset"])
def test_a_client_that_lost_its_network_can_resume(start_gateway, own_upstream, phone, ending):
    """Phones leave networks without closing; their session must stay valid."""
    gateway = start_gateway({"service": own_upstream.address})
    context = tls_context(gateway.pki, phone)
    client = Client(gateway, phone, context=context)
    assert client.exchange(get("/")).status == 200
    session = client.socket.session
    # Freed, it would spoil the session on our side.
    connection = client.socket._sslobj
    if ending == "reset":
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    descriptors = gateway.descriptors()
    client.close()
    eventually(lambda: gateway.descriptors() < descriptors, "the gateway to notice")
    with Client(gateway, phone, context=context, session=session) as client:
        assert client.socket.session_reused
        assert client.exchange(get("/")).status == 200
    del connection


def test_a_session_from_before_a_restart_leads_to_a_full_handshake(start_gateway, own_upstream, phone):
    gateway = start_gateway({"service": own_upstream.address})
    context = tls_context(gateway.pki, phone)
    with Client(gateway, phone, context=context) as client:
        session = session_of(client)
    gateway.signal()
    assert gateway.wait() == 0
    gateway.start()
    with Client(gateway, phone, context=context, session=session) as client:
        assert not client.socket.session_reused
        assert client.exchange(get("/")).status == 200


def test_a_session_of_another_listener_leads_to_a_full_handshake(start_gateway, own_upstream, phone):
    first = start_gateway({"service": own_upstream.address})
    second = start_gateway({"service": own_upstream.address})
    context = tls_context(first.pki, phone)
    with Client(first, phone, context=context) as client:
        session = session_of(client)
    with Client(second, phone, context=context, session=session) as client:
        assert not client.socket.session_reused
        assert client.exchange(get("/")).status == 200


@pytest.fixture
def two_listeners(pki, own_upstream, tmp_path):
    """A gateway whose one listener trusts the GMS CA and the root, and whose other trusts the root alone but has the GMS
    CA in its own chain: end to end, the certificates of both are the same in the same order."""
    gateway = Gateway(tmp_path / "gateway", pki, {"service": own_upstream.address})
    wide = gateway.conf["listeners"][0]
    assert wide["clients"]["authorities"] == [str(pki.gms.certificate), str(pki.root.certificate)]
    chain = tmp_path / "chain.pem"
    chain.write_text(pki.server_certificate.read_text() + pki.gms.certificate.read_text())
    holder, port = reserve_port()
    gateway.conf["listeners"].append({
        "address": f"127.0.0.1:{port}", "tls": {**wide["tls"], "certificate": str(chain)},
        "clients": {"authorities": [str(pki.root.certificate)]}})
    try:
        with holder:
            yield gateway.start(), SimpleNamespace(port=port, pki=pki)
    finally:
        gateway.stop()


def test_a_session_is_not_resumed_on_a_listener_that_does_not_trust_its_client(two_listeners, own_upstream, pki, phone):
    wide, strict = two_listeners
    # The control: each listener resumes its own sessions.
    of_root = pki.client("of-root", issuer=pki.root)
    for listener, identity in [(strict, of_root), (wide, phone)]:
        context = tls_context(pki, identity)
        with Client(listener, identity, context=context) as client:
            assert not client.socket.session_reused
            session = session_of(client)
        with Client(listener, identity, context=context, session=session) as client:
            assert client.socket.session_reused
            session = session_of(client)
    # The phone's session, for which the strict listener demands a full handshake.
    with NothingForwarded(wide, own_upstream, phone):
        with pytest.raises(ssl.SSLError, match="(?i)unknown.ca"):
            with Client(strict, phone, context=context, session=session) as client:
                assert not client.socket.session_reused
                client.exchange(get("/strict"))
    assert_connection_refused(wide, "certificate_unknown_authority")
