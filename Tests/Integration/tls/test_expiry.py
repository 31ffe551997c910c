"""A certificate that ends while its client is connected ends whatever rests on it: connections, whatever they are doing, and
sessions."""

import ssl
import time

import pytest

from support.attested import Attested
from support.client import Client, get, session_of, tls_context
from support.denials import NothingForwarded, assert_connection_refused, assert_denied
from support.phone import Phone
from support.recording_upstream import RecordingUpstream
from support.waiting import eventually

# What is under way while the certificate ends is not to end for another reason.
PATIENT = {"head": "5m", "content_idle": "5m", "keep_alive": "5m"}


class Expired:
    """What a client had before its certificate ended: connections, each at another point, and a session."""

    def __init__(self, attested, life):
        self.gateway, self.upstream = attested.gateway, attested.upstream
        self.identity = attested.pki.client(f"expires-in-{life}-{time.time_ns()}", end=life / 86_400)
        self.ends = time.time() + life
        self.context = tls_context(attested.pki, self.identity)
        self.clients = []

    def connect(self):
        """- Raises: OSError or AssertionError if the certificate ended before all was there."""
        gateway, identity = self.gateway, self.identity
        phone = Phone(gateway, identity)
        self.session = session_of(Client(gateway, identity, context=self.context), "/certificate")
        # The control: while the certificate is good, it is resumed.
        with Client(gateway, identity, context=self.context, session=self.session) as client:
            assert client.socket.session_reused
            self.session = session_of(client, "/certificate")
        for _ in range(4):
            self.clients.append(Client(gateway, identity, context=self.context))
            assert self.clients[-1].exchange(get("/certificate")).status == 200
        self.idle, self.asking, self.sending, self.proving = self.clients
        self.rest_of_head = get("/certificate/late")[5:]
        self.asking.send(get("/certificate/late")[:5]).wait_until_delivered()
        self.sending.send(get("/certificate/sent", "Content-Length: 4", method="POST") + b"ab")
        eventually(lambda: b"/certificate/sent" in self.upstream.received, "the content to be under way")
        proven = phone.request("POST", "/proven", content=b"abcd")
        self.proving.send(proven[:-2]).wait_until_delivered()
        assert time.time() < self.ends, "a slow machine"

    def close(self):
        for client in self.clients:
            client.close()


@pytest.fixture(scope="module")
def attested(pki, tmp_path_factory):
    upstream = RecordingUpstream()
    attested = Attested(tmp_path_factory.mktemp("expiry"), pki, upstream, timeouts=PATIENT)
    yield attested
    attested.gateway.stop()
    upstream.close()
    assert upstream.faults == []


@pytest.fixture(scope="module")
def expired(attested):
    # Short, so that the test is; longer if the machine was so slow that it ended before it was used.
    for life in (4, 12, 40):
        made = Expired(attested, life)
        try:
            made.connect()
            break
        except (OSError, AssertionError):
            made.close()
            if life == 40:
                raise
    eventually(lambda: time.time() > made.ends + 1, "the certificate to end", patience=60)
    yield made
    made.close()


@pytest.fixture
def nothing_forwarded(expired, phone):
    return NothingForwarded(expired.gateway, expired.upstream, phone)


def refusals(gateway):
    return [entry for entry in gateway.access() if entry.get("denial") == "certificate_expired"]


def test_an_idle_connection_ends_with_its_certificate(expired):
    expired.idle.assert_closed()
    entry = assert_connection_refused(expired.gateway, "certificate_expired")
    assert entry["event"] == "connection_refused"


def test_a_request_after_the_certificates_end_is_not_served(expired, nothing_forwarded):
    # The idle one's is there already.
    assert_connection_refused(expired.gateway, "certificate_expired")
    before = len(refusals(expired.gateway))
    with nothing_forwarded:
        # The connection ends in order, and unanswered: the next handshake says why.
        expired.asking.send(expired.rest_of_head)
        expired.asking.assert_closed()
    assert_connection_refused(expired.gateway, "certificate_expired", count=before + 1)


def test_a_request_in_flight_is_completed_and_none_follows(expired):
    """The service has begun with it: cutting it off would leave the result unknown."""
    expired.sending.send(b"cd")
    assert expired.sending.read_response().status == 200
    assert expired.upstream.last_request().content == b"abcd"
    expired.sending.assert_closed()


def test_a_proof_does_not_outlive_the_certificate_while_its_content_comes(expired, nothing_forwarded):
    """The service has received nothing of it."""
    with nothing_forwarded:
        response = expired.proving.send(b"cd").read_response()
        entry = assert_denied(expired.gateway, response, "proof_stale", 401)
    assert "the certificate expired while the content arrived" in entry["detail"]


def test_a_session_is_not_resumed_after_the_end(expired, nothing_forwarded):
    before = len(refusals(expired.gateway))
    with nothing_forwarded:
        # It is declined, so that the full handshake can say why.
        with pytest.raises(ssl.SSLError, match="(?i)certificate.expired"):
            with Client(expired.gateway, expired.identity, context=expired.context, session=expired.session) as client:
                assert not client.socket.session_reused
                client.exchange(get("/late"))
    assert_connection_refused(expired.gateway, "certificate_expired", count=before + 1)
