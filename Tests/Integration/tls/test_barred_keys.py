"""The registry's word in the handshake: a key whose device was revoked, or whose binding has ended, gets no further than its
certificate, whether it comes with a session, with a known chain or as a stranger."""

import json
import socket
import ssl

import pytest

from support.client import Client, IncompleteResponse, get, tls_context
from support.denials import assert_denied, assert_handshake_refused
from support.enrolling_phone import MTLSKey
from support.enrolment import Enrolling
from support.exposition import scrape
from support.paths import PATIENCE
from test_verified_chains import come

VERSIONS = pytest.mark.parametrize(
    "version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["1.2", "1.3"])


def resumable(gateway, identity, version=None):
    """- Returns: a context, and a session that was resumed once already: the control of what is refused later."""
    context = tls_context(gateway.pki, identity, maximum=version)
    session = None
    for is_resumed in [False, True]:
        with Client(gateway, identity, context=context, session=session) as client:
            assert client.socket.session_reused == is_resumed
            assert client.exchange(get("/device")).status == 200
            session = client.socket.session
            client.leave()
    return context, session


def assert_ended(client):
    """The gateway ends the connection, though nothing is sent on it."""
    try:
        client.read_to_end()
    except IncompleteResponse:
        pass


def test_revocation_of_a_device_with_an_open_connection(start_attested):
    attested = start_attested()
    gateway, phone = attested.gateway, attested.phone
    bystander = attested.new_phone()
    with phone.connect() as opened, bystander.connect() as other:
        assert opened.exchange(phone.request(path="/a")).status == 200
        assert other.exchange(bystander.request(path="/a")).status == 200
        gateway.device_command("revoke", str(phone.number))
        assert_ended(opened)
        assert other.exchange(bystander.request(path="/a")).status == 200, "others are not touched"
    with attested.nothing_forwarded(bystander):
        entry = assert_handshake_refused(gateway, phone.identity, "device_revoked")
    names = attested.pki.names(phone.identity)
    assert entry["detail"] == (
        f"subject {names.subject}, issuer {names.issuer}, serial {names.serial}, key id {names.key_id.hex()}: "
        "its device has been revoked")
    assert scrape(gateway)("attestgate_handshakes_total", result="device_revoked") == 1


@VERSIONS
def test_a_revoked_device_cannot_resume_a_session(start_attested, version):
    attested = start_attested(policy="intermediate")
    gateway, phone = attested.gateway, attested.phone
    bystander = attested.new_phone()
    context, session = resumable(gateway, phone.identity, version)
    gateway.device_command("revoke", str(phone.number))
    with attested.nothing_forwarded(bystander):
        assert_handshake_refused(gateway, phone.identity, "device_revoked", context=context, session=session)
    # Restored, it has its session back.
    gateway.device_command("restore", str(phone.number))
    with Client(gateway, phone.identity, context=context, session=session) as client:
        assert client.socket.session_reused
        assert client.exchange(get("/device")).status == 200


def test_a_revoked_device_with_a_cached_chain_is_refused(start_attested):
    attested = start_attested()
    gateway, phone = attested.gateway, attested.phone
    bystander = attested.new_phone()

    def arrive():
        return come(gateway, phone.identity, path="/device")

    assert [arrive(), arrive()] == [False, True]
    gateway.device_command("revoke", str(phone.number))
    with attested.nothing_forwarded(bystander):
        assert_handshake_refused(gateway, phone.identity, "device_revoked")
    gateway.device_command("restore", str(phone.number))
    assert arrive(), "what was verified stays so"


def test_a_restored_device_connects_again(start_attested):
    attested = start_attested(workers=2)
    gateway, phone = attested.gateway, attested.phone
    for round in range(1, 4):
        with phone.connect() as client:
            assert client.exchange(phone.request(path="/a")).status == 200
        gateway.device_command("revoke", str(phone.number))
        assert_handshake_refused(gateway, phone.identity, "device_revoked", count=round)
        gateway.device_command("restore", str(phone.number))


def test_a_revoked_device_is_known_without_an_earlier_lookup(start_attested):
    """Since its start the gateway has seen only the revocation."""
    attested = start_attested()
    gateway, phone = attested.gateway, attested.phone
    bystander = attested.new_phone()
    gateway.halt()
    gateway.start()
    gateway.device_command("revoke", str(phone.number))
    with attested.nothing_forwarded(bystander):
        assert_handshake_refused(gateway, phone.identity, "device_revoked")


def test_after_a_start_a_revoked_device_is_refused_at_its_first_request_then_in_the_handshake(start_attested):
    attested = start_attested()
    gateway, phone = attested.gateway, attested.phone
    bystander = attested.new_phone()
    gateway.device_command("revoke", str(phone.number))
    gateway.halt()
    gateway.start()
    with attested.nothing_forwarded(bystander):
        with phone.connect() as client:
            assert_denied(gateway, client.exchange(get("/device")), "device_revoked", 403)
        assert_handshake_refused(gateway, phone.identity, "device_revoked")


class HalfResumed:
    """A handshake that resumes a session, up to the client's last flight: the gateway has let the session pass."""

    def __init__(self, gateway, context, session):
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname="localhost", session=session)
        self.plain = socket.create_connection(("127.0.0.1", gateway.port), timeout=PATIENCE)
        while True:
            try:
                self.tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                self.plain.sendall(self.outgoing.read())
                self.incoming.write(self.plain.recv(65536))
        assert self.tls.session_reused

    def exchange(self, data):
        """The last flight and a request. - Returns: all that comes."""
        self.tls.write(data)
        self.plain.sendall(self.outgoing.read())
        answer = b""
        while b"\r\n\r\n" not in answer or not answer.endswith(b"}"):
            received = self.plain.recv(65536)
            assert received, answer
            self.incoming.write(received)
            try:
                while True:
                    answer += self.tls.read(65536)
            except ssl.SSLWantReadError:
                continue
        return answer

    def close(self):
        self.plain.close()


def test_a_revocation_in_the_middle_of_a_handshake_is_seen_by_the_request(start_attested):
    """The handshake checks for the last time before its end; a later revocation is seen by the request."""
    attested = start_attested()
    gateway, phone = attested.gateway, attested.phone
    bystander = attested.new_phone()
    context, session = resumable(gateway, phone.identity)
    with phone.connect() as witness:
        assert witness.exchange(get("/device")).status == 200
        half = HalfResumed(gateway, context, session)
        gateway.device_command("revoke", str(phone.number))
        # The gateway's one worker has heard of it.
        assert_ended(witness)
    with attested.nothing_forwarded(bystander):
        head, _, body = half.exchange(get("/device")).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 403 ") and json.loads(body)["error"] == "device_revoked"
        half.close()


# Bindings.


@pytest.fixture
def rotating(pki, own_upstream, tmp_path):
    """A gateway where a key is replaced at once by the next one."""
    made = Enrolling(tmp_path / "rotating", pki, own_upstream, enrolment={"rotation_overlap": "0s"})
    made.start()
    yield made
    made.stop()


def rotate(rotating, phone, directory, old):
    """Replaces the key. - Returns: the new certificate, once the old key's binding has ended."""
    key = MTLSKey()
    with Client(rotating.gateway, old) as witness:
        assert witness.exchange(get("/device")).status == 200
        new = phone.identity(directory, key, phone.bind(key), "new")
        # Its connections are ended when its binding is.
        assert_ended(witness)
    return new


def test_a_device_with_an_ended_binding_cannot_resume_a_session(rotating, own_upstream, tmp_path):
    gateway = rotating.gateway
    phone, mtls, response = rotating.enrolled()
    old = phone.identity(tmp_path, mtls, response, "old")
    context, session = resumable(gateway, old)
    assert come(gateway, old, path="/device"), "the control: its chain is known"
    new = rotate(rotating, phone, tmp_path, old)
    before = own_upstream.byte_count
    entry = assert_handshake_refused(gateway, old, "device_mismatch", context=context, session=session)
    assert entry["detail"].endswith(": the binding of its key has ended")
    assert_handshake_refused(gateway, old, "device_mismatch", count=2)
    assert own_upstream.byte_count == before
    # The device continues with its new key.
    with Client(gateway, new) as client:
        assert client.exchange(get("/device")).status == 200


def test_after_a_start_an_ended_binding_is_seen_by_the_first_request_too(rotating, own_upstream, tmp_path):
    gateway = rotating.gateway
    phone, mtls, response = rotating.enrolled()
    old = phone.identity(tmp_path, mtls, response, "old")
    rotate(rotating, phone, tmp_path, old)
    gateway.halt()
    gateway.start()
    before = own_upstream.byte_count
    with Client(gateway, old) as client:
        assert_denied(gateway, client.exchange(get("/device")), "device_mismatch", 403)
    assert_handshake_refused(gateway, old, "device_mismatch")
    assert own_upstream.byte_count == before


def test_a_device_with_an_ended_binding_is_reported_revoked_until_restored(rotating, tmp_path):
    gateway = rotating.gateway
    phone, mtls, response = rotating.enrolled()
    old = phone.identity(tmp_path, mtls, response, "old")
    new = rotate(rotating, phone, tmp_path, old)
    number = str(rotating.devices()[0]["device"])
    gateway.device_command("revoke", number)
    for count, identity in enumerate([old, new], 1):
        assert_handshake_refused(gateway, identity, "device_revoked", count=count)
    gateway.device_command("restore", number)
    assert_handshake_refused(gateway, old, "device_mismatch")
    with Client(gateway, new) as client:
        assert client.exchange(get("/device")).status == 200
