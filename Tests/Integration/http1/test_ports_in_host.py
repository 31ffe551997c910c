"""Host names the listener's port, one that the operator lists, or none; services read one canonical authority in Forwarded."""

import pytest

from support.client import Client, get
from support.denials import NothingForwarded, assert_denied
from support.gateway import Gateway
from support.http2_client import HTTP2Client

VERSIONS = pytest.mark.parametrize("client", [Client, HTTP2Client])
LISTED = 9443


@pytest.fixture(scope="module")
def listing(pki, shared_upstream, tmp_path_factory):
    """A gateway whose listener has further ports."""
    made = Gateway(tmp_path_factory.mktemp("listing"), pki, {"service": shared_upstream.address})
    made.conf["listeners"][0]["ports"] = [443, LISTED]
    made.start()
    yield made
    made.stop()


def others(port):
    return [1, 80, 443, 8443, LISTED, 65535, port - 1, port + 1, port // 10]


@VERSIONS
def test_another_port_is_misdirected_and_not_a_byte_forwarded(gateway, phone, nothing_forwarded, client):
    with nothing_forwarded, client(gateway, phone) as opened:
        for port in others(gateway.port):
            for path in ["/", "/.well-known/attestgate/challenge"]:
                response = opened.exchange(get(path, host=f"localhost:{port}"))
                entry = assert_denied(gateway, response, "misdirected", 421)
                assert entry["detail"] == "Host has a port that is not the listener's"


def test_another_port_in_an_absolute_target_is_misdirected(gateway, phone, nothing_forwarded):
    with nothing_forwarded, Client(gateway, phone) as client:
        client.send(b"GET https://localhost:1/ HTTP/1.1\r\nHost: localhost:1\r\n\r\n")
        assert_denied(gateway, client.read_response(), "misdirected", 421)


@VERSIONS
@pytest.mark.parametrize("host, canonical", [
    ("localhost", "localhost"), ("LocalHost", "localhost"), ("localhost:PORT", "localhost:PORT"),
    ("LOCALHOST:PORT", "localhost:PORT"), ("localhost:443", "localhost"), ("Localhost:9443", "localhost:9443")])
def test_forwarded_has_the_canonical_authority_of_an_admitted_one(listing, upstream, phone, client, host, canonical):
    host, canonical = (text.replace("PORT", str(listing.port)) for text in (host, canonical))
    with client(listing, phone) as opened:
        assert opened.exchange(get("/", host=host)).status == 200
    request = upstream.last_request()
    assert request.values("host") == [host]
    assert request.values("forwarded") == [f'for=127.0.0.1;proto=https;host="{canonical}"']


@VERSIONS
def test_a_listener_with_further_ports_admits_no_others(listing, upstream, phone, client):
    with NothingForwarded(listing, upstream, phone), client(listing, phone) as opened:
        for port in set(others(listing.port)) - {443, LISTED}:
            assert_denied(listing, opened.exchange(get("/", host=f"localhost:{port}")), "misdirected", 421)


def test_a_proof_covers_the_authority_as_the_phone_wrote_it(attested):
    phone, port = attested.phone, attested.gateway.port
    with phone.connect() as client:
        for host, signed in [(f"LOCALHOST:{port}", f"localhost:{port}"), ("LOCALHOST", "localhost")]:
            data = phone.request(path="/a", sent={"host": host}, authority=signed)
            assert client.exchange(data).status == 200
            assert attested.upstream.last_request().values("host") == [host]
    with attested.nothing_forwarded(), phone.connect() as client:
        # Both are authorities of the listener, but one was signed and the other is sent.
        for host, signed in [("localhost", f"localhost:{port}"), (f"localhost:{port}", "localhost")]:
            response = client.exchange(phone.request(path="/a", sent={"host": host}, authority=signed))
            assert_denied(attested.gateway, response, "proof_invalid", 401)


def test_a_port_that_is_not_the_listener_s_spends_no_counter(attested):
    phone, port = attested.phone, attested.gateway.port
    with attested.nothing_forwarded(), phone.connect() as client:
        data = phone.request(path="/a", sent={"host": "localhost:1"}, authority=f"localhost:{port}")
        assert_denied(attested.gateway, client.exchange(data), "misdirected", 421)
    with phone.connect() as client:
        assert client.exchange(data.replace(b"localhost:1\r\n", b"localhost:%d\r\n" % port)).status == 200
