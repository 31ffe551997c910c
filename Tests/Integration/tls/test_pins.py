"""Pinned keys: of all good certificates, those of these keys alone."""

import base64
import ssl

import pytest

from support.client import Client, ended, get, session_of, tls_context
from support.command_line import s_client, s_client_alert
from support.denials import NothingForwarded, assert_connection_refused
from support.reloading import reload

BAD_CERTIFICATE = 42


def pin(pki, identity):
    return base64.b64encode(pki.names(identity).key_id).decode()


def test_a_key_that_is_not_pinned_is_refused(start_gateway, own_upstream, pki, phone):
    gateway = start_gateway({"service": own_upstream.address}, clients={"pins": [pin(pki, phone)]})
    other = pki.phone("not-pinned")
    request = b"GET /refused HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    with NothingForwarded(gateway, own_upstream, phone):
        assert s_client_alert(s_client(gateway, identity=other, send=request)) == BAD_CERTIFICATE
    entry = assert_connection_refused(gateway, "certificate_not_pinned")
    assert entry["detail"].endswith(f"key id {pki.names(other).key_id.hex()}: its key is not pinned")


def test_a_pinned_but_invalid_certificate_is_refused(start_gateway, own_upstream, pki, phone):
    expired = pki.client("pinned-and-expired", start=-3, end=-1)
    foreign = pki.client("pinned-and-foreign", issuer=pki.authority("pinned-foreign"))
    pins = [pin(pki, identity) for identity in [phone, expired, foreign]]
    gateway = start_gateway({"service": own_upstream.address}, clients={"pins": pins})
    for identity, code in [(expired, "certificate_expired"), (foreign, "certificate_unknown_authority")]:
        with NothingForwarded(gateway, own_upstream, phone):
            s_client(gateway, identity=identity, send=b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert_connection_refused(gateway, code)


@pytest.mark.parametrize("registered", [False, True], ids=["issued", "issued-and-registered"])
def test_a_key_no_longer_pinned_loses_its_connections_and_sessions(start_gateway, own_upstream, pki, phone, registered):
    other = pki.phone("pinned-for-a-while")
    clients = {"pins": [pin(pki, phone), pin(pki, other)]}
    settings = {}
    if registered:
        clients["accept"] = ["issued", "registered"]
        settings["registry"] = {"devices": 64}
    gateway = start_gateway({"service": own_upstream.address}, clients=clients, **settings)
    context = tls_context(pki, other)
    with Client(gateway, other, context=context) as client:
        session = session_of(client)
    # The control.
    with Client(gateway, other, context=context, session=session) as client:
        assert client.socket.session_reused
        session = session_of(client)
    with Client(gateway, other) as barred, Client(gateway, phone) as kept:
        for client in [barred, kept]:
            assert client.exchange(get("/")).status == 200
        gateway.conf["listeners"][0]["clients"]["pins"].pop()
        gateway.write_conf()
        assert reload(gateway).returncode == 0
        assert ended(barred)
        assert kept.exchange(get("/")).status == 200
    with NothingForwarded(gateway, own_upstream, phone):
        with pytest.raises(ssl.SSLError, match="(?i)bad.certificate"):
            with Client(gateway, other, context=context, session=session) as client:
                assert not client.socket.session_reused
                client.exchange(get("/refused"))
    assert_connection_refused(gateway, "certificate_not_pinned")
