"""What a connection may hold at most, in each state that a peer can keep it in. `bench/memory` prints the figures."""

import ssl

import pytest

from support.client import Client, get, tls_context
from support.memory_states import KIB, STATES, TIMEOUTS, measure, serve
from support.pki import Identity

CONNECTIONS = 60
# Of the process, not of any connection: what the allocator keeps.
SLACK = 2 * KIB


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.name)
def test_no_connection_holds_more_than_its_bound(start_attested, own_upstream, state):
    own_upstream.script = serve
    attested = start_attested(timeouts=TIMEOUTS)
    held = measure(attested, state, CONNECTIONS)
    print(f"{state.name}: {held:.1f} KiB for each connection, at most {state.bound}")
    assert held < state.bound + SLACK / CONNECTIONS


def with_certificates_behind(phone, pki, count):
    """The phone's identity, and so many certificates behind its own that prove nothing."""
    path = pki.directory / f"phone-and-{count}.pem"
    path.write_text(phone.certificate.read_text() + count * pki.server_ca.read_text())
    return Identity(path, phone.key)


def test_certificates_behind_a_clients_own_are_not_kept(start_attested, own_upstream, pki):
    """OpenSSL would keep them decoded, some 5 KiB each, as long as connection and session live."""
    own_upstream.script = serve
    attested = start_attested(timeouts=TIMEOUTS)
    [idle] = [state for state in STATES if state.name == "idle"]
    held = measure(attested, idle, CONNECTIONS, with_certificates_behind(attested.phone.identity, pki, 20))
    print(f"{held:.1f} KiB for each connection, at most {idle.bound}")
    assert held < idle.bound + SLACK / CONNECTIONS


def test_more_certificates_than_the_limit_are_refused(gateway, upstream, phone, pki):
    many = with_certificates_behind(phone, pki, 60)
    assert len(ssl.PEM_cert_to_DER_cert(pki.server_ca.read_text())) * 60 > 16 * KIB
    with pytest.raises((ssl.SSLError, OSError)):
        with Client(gateway, many, context=tls_context(pki, many)) as client:
            client.exchange(get("/"))
    with Client(gateway, phone) as client:
        assert client.exchange(get("/")).status == 200
