"""Request smuggling and its relatives: refused, closed, and nothing of it forwarded, however the bytes arrive."""

import pytest

from support import attacks
from support.client import Client
from support.denials import assert_denied
from support.paths import REPOSITORY

DELIVERIES = ["at once", "byte by byte", "with a request behind"]


@pytest.fixture(params=DELIVERIES)
def deliver(request, gateway, phone):
    """Sends an attack and returns the one response; the connection must be closed behind it, in order."""
    clients = []

    def send(data):
        client = Client(gateway, phone)
        clients.append(client)
        if request.param == "with a request behind":
            data += attacks.SMUGGLED
        # Long ones are sent in one write and byte by byte at their end only: where the limits are.
        if request.param == "byte by byte":
            start = max(0, len(data) - 600)
            client.send_while_open(data[:start])
            client.send_while_open(data[start:], bytewise=True)
        else:
            client.send_while_open(data)
        response = client.read_response()
        client.assert_closed()
        return response

    send.is_at_once = request.param == "at once"
    yield send
    for client in clients:
        client.close()


def assert_refused(gateway, response, fault, is_logged):
    code, status = attacks.denial(fault)
    assert response.value("connection") == "close"
    # The log is the same however the bytes arrive; waiting for it each time would take a minute.
    entry = assert_denied(gateway, response, code, status, is_logged=is_logged)
    assert entry is None or attacks.is_reason(entry["detail"], fault)


@pytest.mark.parametrize("name", attacks.HEADS)
def test_an_ambiguous_head_is_refused_and_not_a_byte_forwarded(name, gateway, deliver, nothing_forwarded):
    fault, data = attacks.HEADS[name]
    with nothing_forwarded:
        response = deliver(data)
    assert_refused(gateway, response, fault, deliver.is_at_once)


@pytest.mark.parametrize("name", attacks.CONTENTS)
def test_ambiguous_content_is_refused_and_no_request_completed(name, gateway, upstream, deliver):
    fault, data = attacks.CONTENTS[name]
    before = len(upstream.requests)
    response = deliver(data)
    assert_refused(gateway, response, fault, deliver.is_at_once)
    assert b"/smuggled" not in upstream.received
    assert len(upstream.requests) == before


def test_every_fault_of_a_request_has_its_attack():
    provoked = {fault for fault, _ in [*attacks.HEADS.values(), *attacks.CONTENTS.values()]}
    of_responses = {
        "statusLineMalformed", "contentImpossible", "interimResponsesRepeated", "headMissing", "protocolSwitched"}
    # What HTTP/1.1 has no way to say; the tests of its codec provoke them.
    of_http2 = {
        "pseudoFieldUnknown", "pseudoFieldRepeated", "pseudoFieldMissing", "pseudoFieldLate", "schemeUnsupported",
        "connectUnsupported", "fieldNameUpperCase", "fieldOfConnection", "contentLengthDisagrees", "trailersUnended",
        "fieldsInTunnel"}
    assert set(attacks.REASONS) - provoked == of_responses | of_http2
    pages = "".join(path.read_text() for path in (REPOSITORY / "Tests" / "HTTPTests" / "HTTP2").glob("*Tests.swift"))
    assert [fault for fault in of_http2 if f".{fault}" not in pages] == []
