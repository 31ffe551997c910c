"""Every case of h2spec, over mTLS: the answer is the one demanded, or another one for a reason that stands here."""

import asyncio
import json
import re
import shutil
import socket
import ssl
from types import SimpleNamespace

import pytest

from support.client import tls_context
from support.enrolment import Enrolling
from support.h2spec_cases import (
    ACKNOWLEDGED, CASES, CONTENT, Closes, ConnectionFault, GoesOn, Malformed, PORTION, Portions, RESPONSE_ENDED,
    SOURCES, Served, StreamFault, WINDOW)
from support.http2_frames import (
    ACK, Codes, DATA, GOAWAY, HEADERS, RST_STREAM, RawClient, SETTINGS, headers, settings, window)


@pytest.fixture
def service(upstream):
    upstream.answer = lambda request: b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (
        len(CONTENT), b"" if request.method == "HEAD" else CONTENT)
    return upstream


@pytest.fixture
def enrolment(pki, own_upstream, tmp_path):
    enrolling = Enrolling(tmp_path / "enrolment", pki, own_upstream).start()
    yield SimpleNamespace(pki=pki, port=int(enrolling.provider.rsplit(":", 1)[1]))
    enrolling.stop()


@pytest.mark.parametrize("name", CASES)
def test_each_h2spec_case_ends_as_required_or_as_documented(gateway, service, phone, name):
    case = CASES[name]
    with RawClient(gateway, phone) as client:
        if case.greets:
            client.greet()
        take(client, case.sends)
        CHECKS[type(case.done)](client, service, case.done)


def test_the_enrolment_listener_ends_a_connection_with_the_same_codes(enrolment):
    """Clients of that listener have no certificate, and other limits."""
    for name, case in CASES.items():
        if isinstance(case.done, ConnectionFault) and RESPONSE_ENDED not in case.sends:
            with RawClient(enrolment, None) as client:
                client.greet()
                take(client, case.sends)
                client.wait_for_end()
                codes = [each.code() for each in client.frames if each.kind == GOAWAY]
                assert codes == [case.done.code], name


def take(client, steps):
    """In one piece as far as nothing is waited for, so that the gateway finds it so."""
    pending = b""
    for step in steps:
        if isinstance(step, bytes):
            pending += step
            continue
        client.send(pending)
        pending = b""
        client.wait({
            RESPONSE_ENDED: lambda each: each.stream == 1 and each.ends_stream(),
            ACKNOWLEDGED: lambda each: each.kind == SETTINGS and each.flags & ACK,
            PORTION: lambda each: each.stream == 1 and each.kind == DATA}[step])
    client.send(pending)


def ends_with_the_code(client, service, expected):
    client.wait_for_end()
    assert [each.code() for each in client.frames if each.kind == GOAWAY] == [expected.code]
    assert client.frames[-1].kind == GOAWAY


def resets_the_stream(client, service, expected):
    reset = client.wait(lambda each: each.kind == RST_STREAM)
    assert (reset.stream, reset.code()) == (1, expected.code)
    others_go_on(client)


def goes_on(client, service, expected):
    client.ping()
    assert not [each for each in client.frames if each.kind in (RST_STREAM, GOAWAY)]
    others_go_on(client)


def others_go_on(client):
    client.send(headers(401))
    head = client.wait(lambda each: each.stream == 401 and each.kind == HEADERS)
    assert head.fields[":status"] == "200"
    assert not [each for each in client.frames if each.kind == GOAWAY]


def closes(client, service, expected):
    client.wait_for_end()
    assert not [each for each in client.frames if each.kind in (RST_STREAM, GOAWAY)]


def response(client):
    """The whole one on stream 1: its fields, and its content."""
    if not any(each.ends_stream() for each in client.of(1)):
        client.wait(lambda each: each.stream == 1 and each.ends_stream())
    heads = client.of(1, HEADERS)
    assert len(heads) == 1
    return heads[0].fields, b"".join(each.payload for each in client.of(1, DATA))


def is_served(client, service, expected):
    fields, content = response(client)
    assert fields[":status"] == "200"
    assert content == (b"" if expected.method == "HEAD" else CONTENT)
    seen = service.last_request()
    assert (seen.method, seen.target, seen.content) == (expected.method, "/", expected.content)
    if expected.field:
        assert expected.field in [(name.lower(), value) for name, value in seen.fields]
    client.ping()
    assert not client.of(1, RST_STREAM)
    others_go_on(client)


def is_answered_400(client, service, expected):
    fields, content = response(client)
    assert fields[":status"] == "400" and json.loads(content)["error"] == "request_malformed"
    client.ping()
    assert [each.code() for each in client.of(1, RST_STREAM)] == [Codes.PROTOCOL_ERROR]
    assert client.of(1)[-1].kind == RST_STREAM
    others_go_on(client)


def comes_in_portions(client, service, expected):
    def lengths():
        return [len(each.payload) for each in client.of(1, DATA)]

    while len(lengths()) < len(expected.lengths):
        client.read()
    client.ping()
    assert lengths() == list(expected.lengths)
    client.send(window(1, 1000))
    assert response(client)[1] == CONTENT
    client.send(window(0, 1000) + settings((WINDOW, 65_535)))
    others_go_on(client)


CHECKS = {
    ConnectionFault: ends_with_the_code, StreamFault: resets_the_stream, GoesOn: goes_on, Closes: closes,
    Served: is_served, Malformed: is_answered_400, Portions: comes_in_portions}


# The cases that end otherwise than h2spec demands. It tests RFC 7540; the sections below are those of RFC 9113.

REASONS = {
    "section 3.4 lets GOAWAY be left out: a client that has not sent the preface does not speak HTTP/2":
        ["http2 3.5/2"],
    "section 8.1.1 lets a response precede the reset, so that the client learns why": [
        "http2 8.1/1", "http2 8.1.2/1", "http2 8.1.2.1/1", "http2 8.1.2.1/2", "http2 8.1.2.1/3", "http2 8.1.2.1/4",
        "http2 8.1.2.2/1", "http2 8.1.2.2/2", "http2 8.1.2.3/1", "http2 8.1.2.3/2", "http2 8.1.2.3/3", "http2 8.1.2.3/4",
        "http2 8.1.2.3/5", "http2 8.1.2.3/6", "http2 8.1.2.3/7", "http2 8.1.2.6/1", "http2 8.1.2.6/2"],
    "section 5.4.1 lets a stream error be a connection error: after a framing fault the next frame is not trusted":
        ["http2 4.2/2", "http2 6.3/2"],
    "section 5.4.1, the same: no client sends behind its own end by mistake":
        ["http2 5.1/5", "http2 5.1/6", "http2 6.1/2"],
    "section 5.4.1, the same: the limit of streams was announced, and acknowledged":
        ["http2 5.1.2/1", "http2 5.3.1/1", "http2 6.9/2"],
    "section 5.3.2: priorities have no meaning, so they cannot be wrong":
        ["http2 5.3.1/2"],
}


def test_each_difference_has_one_reason():
    argued = [name for names in REASONS.values() for name in names]
    assert sorted(argued) == sorted(name for name, case in CASES.items() if case.done != case.demanded)


def test_there_is_every_section_of_h2spec_with_as_many_cases_as_it_has():
    """Of its version 2.6."""
    counts = {}
    for case in CASES.values():
        counts.setdefault(case.section, []).append(int(case.name.rsplit("/", 1)[1]))
    assert all(numbers == list(range(1, len(numbers) + 1)) for numbers in counts.values())
    sizes = {suite: sum(len(n) for section, n in counts.items() if section.startswith(suite))
             for suite in ("generic", "http2", "hpack")}
    assert set(counts) == set(SOURCES)
    assert sizes == {"generic": 44, "http2": 95, "hpack": 8}


# The program itself, where it is installed. It presents no certificate, so a forwarder does.

@pytest.mark.skipif(not shutil.which("h2spec"), reason="h2spec is not installed")
def test_h2spec_itself_finds_fault_with_self_dependent_priorities_alone(start_gateway, service, pki, phone):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        gateway = start_gateway({"service": service.address}, ports=[port])
        output = asyncio.run(run_h2spec(listener, port, gateway, pki, phone))
    assert set(re.findall(r"× \d+: (.*)", output)) == {"Sends PRIORITY frame that depend on itself"}, output
    assert "146 tests, 145 passed, 0 skipped, 1 failed" in output


async def run_h2spec(listener, port, gateway, pki, phone):
    """- Returns: what it printed."""
    near, far = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), tls_context(pki, phone)
    near.load_cert_chain(pki.server_certificate, pki.server_key)
    for context in [near, far]:
        context.set_alpn_protocols(["h2"])

    async def copy(reader, writer):
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()

    async def forward(reader, writer):
        there = await asyncio.open_connection("127.0.0.1", gateway.port, ssl=far, server_hostname="localhost")
        await asyncio.gather(copy(reader, there[1]), copy(there[0], writer))

    async with await asyncio.start_server(forward, sock=listener, ssl=near):
        process = await asyncio.create_subprocess_exec(
            "h2spec", "--tls", "--insecure", "--host", "localhost", "--port", str(port), stdout=asyncio.subprocess.PIPE)
        return (await process.communicate())[0].decode()
