"""Encrypted session tickets: a client resumes at every gateway with the same secret, where it is judged again."""

import os
import re
import secrets
import ssl
from base64 import b64decode, b64encode

import pytest

from support.client import Client, session_of, tls_context
from support.command_line import s_client, s_client_alert
from support.denials import NothingForwarded, assert_connection_refused
from support.gateway import Gateway
from support.exposition import scrape
from support.paths import ENVIRONMENT
from support.pki import Lists, attestgate
from support.preloaded import MovingClock
from support.raw_handshake import RawTLS, client_hello
from support.reloading import reload, revoke_and_reload

REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
REVOKED, ILLEGAL_PARAMETER = 44, 47


class SecretsFile:
    def __init__(self, path):
        self.path = path
        self.write(secrets.token_hex(32))

    def write(self, *lines):
        self.path.write_text("".join(f"{line}\n" for line in lines))
        self.path.chmod(0o600)

    @property
    def lines(self):
        return self.path.read_text().split()


@pytest.fixture
def shared(tmp_path):
    return SecretsFile(tmp_path / "session.secrets")


@pytest.fixture
def start(start_gateway, own_upstream, shared):
    """Starts gateways with the same secrets and no registry."""
    def start(file=shared, **settings):
        return start_gateway({"service": own_upstream.address}, session_secrets=str(file.path), **settings)
    return start


def resumes(gateway, phone, context, session):
    """- Returns: whether the session was resumed, and the next one."""
    with Client(gateway, phone, context=context, session=session) as client:
        is_resumed = client.socket.session_reused
        return is_resumed, session_of(client)


def first_session(gateway, phone):
    context = tls_context(gateway.pki, phone)
    is_resumed, session = resumes(gateway, phone, context, None)
    assert not is_resumed
    return context, session


def test_a_session_resumes_at_another_gateway_and_after_a_restart(start, phone):
    first, second = start(), start(workers=2)
    context, session = first_session(first, phone)
    for gateway in (second, first, second):
        is_resumed, session = resumes(gateway, phone, context, session)
        assert is_resumed
    assert scrape(second)("attestgate_handshakes_total", result="resumed") == 2
    first.signal()
    assert first.wait() == 0
    first.start()
    assert resumes(first, phone, context, session)[0]


def test_a_session_ends_an_hour_after_its_full_handshake_however_often_it_is_resumed(start, phone, tmp_path):
    """Resuming proves no possession of the certificate's key."""
    clock, kept, gateways = MovingClock(tmp_path), tmp_path / "session.pem", [start(), start()]
    for gateway in gateways:
        gateway.halt().environment = {**ENVIRONMENT, **clock.environment}
        gateway.start()
    assert "New, TLSv1.3" in s_client(gateways[0], "-sess_out", kept, identity=phone, send=REQUEST)
    for number in range(1, 4):
        clock.move(number * 1000)
        for gateway in gateways:
            # Without the certificate and its key.
            answer = s_client(gateway, "-sess_in", kept, "-sess_out", kept, send=REQUEST)
            assert "Reused, TLSv1.3" in answer and "HTTP/1.1 200" in answer
    clock.move(3700)
    for gateway in gateways:
        answer = s_client(gateway, "-sess_in", kept, identity=phone, send=REQUEST)
        assert "New, TLSv1.3" in answer and "HTTP/1.1 200" in answer


def test_a_session_resumes_at_another_gateway_of_a_registry(start_sharing, pki):
    gateways = [start_sharing() for _ in range(2)]
    phone = pki.client("of-two-gateways")
    context = tls_context(pki, phone)
    session = None
    for number, gateway in enumerate(gateways * 2):
        with Client(gateway, phone, context=context, session=session) as client:
            assert client.socket.session_reused == (number > 0)
            session = session_of(client, "/certificate")


def test_a_client_revoked_at_the_other_gateway_is_refused(start, tmp_path, pki, own_upstream):
    lists = Lists(tmp_path, pki)
    first, second = start(clients=lists.clients), start(clients=lists.clients)
    phone, other = pki.client("revoked"), pki.client("not-revoked")
    kept = tmp_path / "session.pem"
    assert "New, TLSv1.3" in s_client(first, "-sess_out", kept, identity=phone, send=REQUEST)
    assert "Reused, TLSv1.3" in s_client(second, "-sess_in", kept, "-sess_out", kept, identity=phone, send=REQUEST)
    revoke_and_reload(second, lists, phone)
    with NothingForwarded(second, own_upstream, other):
        output = s_client(second, "-sess_in", kept, identity=phone, send=REQUEST)
        assert "Reused" not in output and s_client_alert(output) == REVOKED
    assert_connection_refused(second, "certificate_revoked")


def test_a_session_of_a_gateway_with_other_secrets_leads_to_a_full_handshake(start, tmp_path, phone):
    context, session = first_session(start(), phone)
    stranger = start(SecretsFile(tmp_path / "other"))
    assert not resumes(stranger, phone, context, session)[0]


def test_secrets_are_changed_without_a_full_handshake_and_old_ones_end(start, shared, phone):
    gateway, other = start(), start()
    context, session = first_session(gateway, phone)
    before, after = shared.lines[0], secrets.token_hex(32)

    def change(*lines):
        shared.write(*lines)
        for each in (gateway, other):
            done = reload(each)
            assert done.returncode == 0, done.stderr

    # The new one is read everywhere before anyone encrypts with it.
    for lines in [(before, after), (after, before)]:
        change(*lines)
        for each in (other, gateway):
            is_resumed, session = resumes(each, phone, context, session)
            assert is_resumed
    # This one was made with the new secret, and the old one is removed.
    old = first_session_with(before, start, shared, phone)
    change(after)
    assert resumes(gateway, phone, context, session)[0]
    assert not resumes(gateway, phone, *old)[0]


def test_tickets_of_the_file_end_with_the_setting(start, phone):
    gateway = start()
    context, session = first_session(gateway, phone)
    own_context, own = first_session(gateway, phone)
    # The control: a reload alone ends no session.
    assert reload(gateway).returncode == 0
    is_resumed, own = resumes(gateway, phone, own_context, own)
    assert is_resumed
    del gateway.conf["session_secrets"]
    gateway.write_conf()
    assert reload(gateway).returncode == 0
    assert not resumes(gateway, phone, context, session)[0]
    # Those of the process outlive a reload.
    context, session = first_session(gateway, phone)
    assert reload(gateway).returncode == 0
    assert resumes(gateway, phone, context, session)[0]


def first_session_with(secret, start, shared, phone):
    """A session by a gateway that was not reloaded: with the old secret."""
    file = SecretsFile(shared.path.with_name("old"))
    file.write(secret)
    return first_session(start(file), phone)


@pytest.mark.parametrize("place", ["name of the key", "start of the cipher", "content", "code", "cut", "longer"])
def test_a_changed_ticket_leads_to_a_full_handshake(start, tmp_path, phone, place):
    gateway = start()
    kept, changed = tmp_path / "session.pem", tmp_path / "changed.pem"
    assert "New, TLSv1.3" in s_client(gateway, "-sess_out", kept, identity=phone, send=REQUEST)
    changed.write_text(with_ticket(kept.read_text(), lambda ticket: {
        "name of the key": flipped(ticket, 3), "start of the cipher": flipped(ticket, 20),
        "content": flipped(ticket, 100), "code": flipped(ticket, -1), "cut": ticket[:-1],
        "longer": ticket + b"\0"}[place]))
    output = s_client(gateway, "-sess_in", changed, identity=phone, send=REQUEST)
    assert "New, TLSv1.3" in output and "HTTP/1.1 200 OK" in output
    # The control: the ticket as it was.
    assert "Reused, TLSv1.3" in s_client(gateway, "-sess_in", kept, identity=phone, send=REQUEST)


@pytest.mark.parametrize("length", [32, 33, 65])
@pytest.mark.parametrize("has_share", [True, False], ids=["at once", "after a HelloRetryRequest"])
def test_a_client_that_offers_many_tickets_is_refused(start, length, has_share):
    """Each costs an attempt to decrypt it: 1,600 of them cost more than two full handshakes."""
    gateway = start()

    def hello(count):
        return client_hello(tickets=[os.urandom(length) for _ in range(count)])

    def answered(count):
        with RawTLS(gateway) as raw:
            if not has_share:
                assert raw.send(client_hello(has_share=False, tickets=[os.urandom(length)])).read_server_hello()
            raw.send(hello(count))
            return raw.read_alert() if count > 8 else raw.read_server_hello()

    assert answered(8) is False, "a ServerHello"
    assert answered(9) == ILLEGAL_PARAMETER
    entry = assert_connection_refused(gateway, "handshake_failed")
    assert "too many session tickets" in entry["detail"]


def flipped(ticket, place):
    changed = bytearray(ticket)
    changed[place] ^= 1
    return bytes(changed)


def with_ticket(pem, change):
    """OpenSSL's SSL_SESSION (ssl/ssl_asn1.c) with another ticket: the octet string in the element [10]."""
    der = b64decode("".join(line for line in pem.splitlines() if not line.startswith("-")))

    def element(place):
        length, start = der[place + 1], place + 2
        if length & 0x80:
            start += length & 0x7f
            length = int.from_bytes(der[place + 2:start])
        return start, start + length

    def encoded(tag, content):
        size = len(content)
        length = bytes([size]) if size < 0x80 else bytes([0x82]) + size.to_bytes(2)
        return bytes([tag]) + length + content

    place, end = element(0)
    members = b""
    while place < end:
        inner, after = element(place)
        part = der[place:after]
        if der[place] == 0xaa:
            ticket = der[slice(*element(inner))]
            assert len(ticket) > 200, "a ticket that is encrypted"
            part = encoded(0xaa, encoded(4, change(ticket)))
        members += part
        place = after
    body = b64encode(encoded(0x30, members)).decode()
    lines = "\n".join(re.findall(".{1,64}", body))
    return f"-----BEGIN SSL SESSION PARAMETERS-----\n{lines}\n-----END SSL SESSION PARAMETERS-----\n"


def test_the_gateway_has_no_session_of_a_ticket(start, phone):
    gateway = start()
    for _ in range(3):
        first_session(gateway, phone)
    assert scrape(gateway)("attestgate_sessions") == 0


def test_a_session_of_tls_1_2_is_kept_and_known_in_its_process_alone(start, phone):
    first, second = start(policy="intermediate", workers=2), start(policy="intermediate")
    context = tls_context(first.pki, phone, maximum=ssl.TLSVersion.TLSv1_2)
    _, session = resumes(first, phone, context, None)
    assert scrape(first)("attestgate_sessions") == 1
    for gateway, is_resumed in [(first, True), (second, False)]:
        assert resumes(gateway, phone, context, session)[0] == is_resumed


@pytest.mark.parametrize("content", ["", "00" * 31, "0g" * 32, "\n".join(["00" * 32] * 3), "00" * 32 + " x"])
def test_a_malformed_file_is_refused_at_the_start_and_shows_nothing(tmp_path, pki, own_upstream, content):
    file = SecretsFile(tmp_path / "secrets")
    file.write(content)
    gateway = Gateway(tmp_path / "gateway", pki, {"service": own_upstream.address}, session_secrets=str(file.path))
    gateway.write_conf()
    done = attestgate("check", "--config", gateway.conf_path)
    assert done.returncode == 1
    text = done.stdout + done.stderr
    assert "session_secrets" in text and "one or two lines of 64 hexadecimal digits" in text
    assert "0000" not in text and "0g" not in text


def test_a_file_that_others_can_read_is_refused(tmp_path, pki, own_upstream, shared):
    shared.path.chmod(0o640)
    gateway = Gateway(tmp_path / "gateway", pki, {"service": own_upstream.address}, session_secrets=str(shared.path))
    gateway.write_conf()
    done = attestgate("check", "--config", gateway.conf_path)
    assert done.returncode == 1 and "must be 0600" in done.stdout + done.stderr
