"""A client whose chain was verified before is not verified again; and all checks that can change are repeated."""

import base64
import re
import ssl
import subprocess
import time

import pytest

from support.client import Client, get, tls_context
from support.command_line import s_client, s_client_alert
from support.denials import NothingForwarded, assert_connection_refused
from support.exposition import scrape
from support.pki import Identity, Lists
from support.reloading import reload, revoke_and_reload
from support.waiting import eventually
from test_pins import pin

REQUEST = b"GET /refused HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
REVOKED, EXPIRED, BAD_CERTIFICATE, UNKNOWN_CA, DECRYPT_ERROR = 44, 45, 42, 48, 51


def chains(gateway):
    """- Returns: how many chains were known, and how many were verified, so far."""
    metrics = scrape(gateway)
    return tuple(int(metrics("attestgate_client_chains_total", cache=cache)) for cache in ["hit", "miss"])


def come(gateway, identity, path="/", **options):
    """A full handshake and a request. - Returns: whether the chain was known, or had to be verified."""
    hits, misses = chains(gateway)
    with Client(gateway, identity, **options) as client:
        assert client.exchange(get(path)).status == 200
        assert not client.socket.session_reused
    after = chains(gateway)
    assert after in [(hits + 1, misses), (hits, misses + 1)]
    return after[0] > hits


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["1.2", "1.3"])
def test_a_chain_is_verified_once(start_gateway, own_upstream, pki, phone, version):
    gateway = start_gateway({"service": own_upstream.address}, policy="intermediate")
    other = pki.phone("comes-once")
    recognised = [
        come(gateway, identity, context=tls_context(pki, identity, maximum=version))
        for identity in [phone, phone, other, phone]]
    assert recognised == [False, True, False, True]


def test_each_worker_verifies_for_itself(start_gateway, own_upstream, phone):
    gateway = start_gateway({"service": own_upstream.address}, workers=2)
    for _ in range(30):
        come(gateway, phone)
    hits, misses = chains(gateway)
    assert 1 <= misses <= 2 and hits + misses == 30


def known_for_seconds(gateway, lives, make):
    """- Returns: the identity that `make` gives for one of the lives, its chain known, when that life is over."""
    for life in lives:
        # Short, so that the test is; longer if the machine was so slow that it expired before it was used.
        identity = make(life)
        ends = time.time() + life
        try:
            come(gateway, identity)
            assert come(gateway, identity), "the control: the chain is known"
            break
        except (OSError, AssertionError):
            continue
    else:
        pytest.fail("nothing lived long enough to be used")
    eventually(lambda: time.time() > ends + 1, "the end of the life", patience=60)
    return identity


def test_a_cached_chain_past_its_not_after(start_gateway, own_upstream, pki, phone):
    gateway = start_gateway({"service": own_upstream.address})
    identity = known_for_seconds(
        gateway, (4, 12, 40), lambda life: pki.client(f"cached-for-{life}-{time.time_ns()}", end=life / 86_400))
    with NothingForwarded(gateway, own_upstream, phone):
        assert s_client_alert(s_client(gateway, identity=identity, send=REQUEST)) == EXPIRED
    assert_connection_refused(gateway, "certificate_expired")


def test_a_chain_is_evicted_when_its_authority_expires(start_gateway, own_upstream, pki, phone):
    """The leaf is good for a month, and what issued it for seconds."""
    def below_one_that_ends(life):
        issuing = pki.authority(f"ends-in-{life}-{time.time_ns()}", issuer=pki.root, end=life / 86_400)
        return pki.client(f"below-{issuing.certificate.stem}", issuer=issuing, above=[issuing.certificate])
    gateway = start_gateway({"service": own_upstream.address})
    identity = known_for_seconds(gateway, (5, 15, 45), below_one_that_ends)
    with NothingForwarded(gateway, own_upstream, phone):
        assert s_client_alert(s_client(gateway, identity=identity, send=REQUEST)) == EXPIRED


def test_a_cached_chain_that_a_new_list_names(start_gateway, own_upstream, pki, phone, tmp_path):
    lists = Lists(tmp_path, pki)
    gateway = start_gateway({"service": own_upstream.address}, clients=lists.clients)
    identity = pki.phone("cached-and-revoked")
    assert [come(gateway, identity) for _ in range(2)] == [False, True]
    revoke_and_reload(gateway, lists, identity)
    with NothingForwarded(gateway, own_upstream, phone):
        assert s_client_alert(s_client(gateway, identity=identity, send=REQUEST)) == REVOKED
    assert_connection_refused(gateway, "certificate_revoked")


def test_a_cached_chain_with_a_key_no_longer_pinned_is_refused(start_gateway, own_upstream, pki, phone):
    identity = pki.phone("cached-and-pinned")
    gateway = start_gateway(
        {"service": own_upstream.address}, clients={"pins": [pin(pki, phone), pin(pki, identity)]})
    assert [come(gateway, identity) for _ in range(2)] == [False, True]
    gateway.conf["listeners"][0]["clients"]["pins"].pop()
    gateway.write_conf()
    assert reload(gateway).returncode == 0
    with NothingForwarded(gateway, own_upstream, phone):
        assert s_client_alert(s_client(gateway, identity=identity, send=REQUEST)) == BAD_CERTIFICATE


def test_a_cached_chain_of_an_authority_that_is_trusted_no_more(start_gateway, own_upstream, pki, phone):
    gateway = start_gateway({"service": own_upstream.address})
    identity = pki.client("cached-of-root", issuer=pki.root)
    assert [come(gateway, identity) for _ in range(2)] == [False, True]
    gateway.conf["listeners"][0]["clients"]["authorities"] = [str(pki.gms.certificate)]
    gateway.write_conf()
    assert reload(gateway).returncode == 0
    with NothingForwarded(gateway, own_upstream, phone):
        assert s_client_alert(s_client(gateway, identity=identity, send=REQUEST)) == UNKNOWN_CA


def scalar_of(identity):
    """The private key's 32 octets, and the DER of the whole key."""
    der = subprocess.run(
        ["openssl", "pkey", "-in", identity.key, "-outform", "DER"], capture_output=True, check=True).stdout
    return re.search(rb"\x02\x01\x01\x04\x20(.{32})", der, re.DOTALL)[1], der


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["1.2", "1.3"])
def test_a_cached_chain_without_its_key_is_refused(start_gateway, own_upstream, pki, phone, version):
    gateway = start_gateway({"service": own_upstream.address}, policy="intermediate")
    victim, thief = pki.phone("robbed"), pki.phone("thief")
    assert [come(gateway, victim) for _ in range(2)] == [False, True]
    # The thief's private key, which says of itself that it belongs to the victim's public key: our side believes it.
    stolen, der = scalar_of(victim)
    forged = der.replace(stolen, scalar_of(thief)[0])
    key = pki.directory / f"forged-{version.name}.key"
    key.write_text(f"-----BEGIN EC PRIVATE KEY-----\n{base64.encodebytes(forged).decode()}-----END EC PRIVATE KEY-----\n")
    forgery = Identity(victim.certificate, key)
    with NothingForwarded(gateway, own_upstream, phone):
        with pytest.raises(ssl.SSLError, match="(?i)decrypt.error"):
            with Client(gateway, forgery, context=tls_context(pki, forgery, maximum=version)) as client:
                client.send_while_open(get("/refused")).read_to_end()
    assert_connection_refused(gateway, "handshake_failed")


def test_a_certificate_that_resembles_a_cached_one_is_verified(start_gateway, own_upstream, pki, phone):
    """The same bytes except the signature, which an attacker cannot have."""
    gateway = start_gateway({"service": own_upstream.address})
    identity = pki.phone("resembled")
    assert [come(gateway, identity) for _ in range(2)] == [False, True]
    der = ssl.PEM_cert_to_DER_cert(identity.certificate.read_text())
    certificate = pki.directory / "resembling.pem"
    certificate.write_text(ssl.DER_cert_to_PEM_cert(der[:-1] + bytes([der[-1] ^ 1])))
    with NothingForwarded(gateway, own_upstream, phone):
        output = s_client(gateway, identity=Identity(certificate, identity.key), send=REQUEST)
        assert s_client_alert(output) == UNKNOWN_CA


def test_a_known_leaf_needs_no_intermediates(start_gateway, own_upstream, pki, phone):
    """Its path to the root was verified; the certificates sent again do not matter."""
    gateway = start_gateway({"service": own_upstream.address})
    issuing = pki.authority("issuing-seen-once", issuer=pki.root)
    whole = pki.client("of-issuing-seen-once", issuer=issuing, above=[issuing.certificate])
    alone = Identity(pki.directory / "of-issuing-seen-once.pem", whole.key)
    # The control: nobody has seen a path yet.
    with NothingForwarded(gateway, own_upstream, phone):
        assert s_client_alert(s_client(gateway, identity=alone, send=REQUEST)) == UNKNOWN_CA
    assert [come(gateway, identity) for identity in [whole, alone, whole]] == [False, True, True]
