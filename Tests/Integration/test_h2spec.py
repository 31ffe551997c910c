"""Every case of h2spec, over mTLS: the answer is the one demanded, or the one that docs/http.md gives the reason for."""

import json
import re
from types import SimpleNamespace

import pytest

from enrolment import Enrolling
from h2spec_cases import (
    ACKNOWLEDGED, CASES, CONTENT, Closes, ConnectionFault, GoesOn, Malformed, PORTION, Portions, RESPONSE_ENDED,
    SOURCES, Served, StreamFault, WINDOW)
from http2_frames import (
    ACK, Codes, DATA, GOAWAY, HEADERS, RST_STREAM, RawClient, SETTINGS, headers, settings, window)
from paths import REPOSITORY


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
def test_a_case_of_h2spec_ends_as_is_demanded_or_as_is_argued(gateway, service, phone, name):
    case = CASES[name]
    with RawClient(gateway, phone) as client:
        if case.greets:
            client.greet()
        take(client, case.sends)
        CHECKS[type(case.done)](client, service, case.done)


def test_the_enrolment_listener_ends_a_connection_with_the_same_codes(enrolment):
    """Whoever speaks there has no certificate, and other limits."""
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
    assert [each.code() for each in client.of(1, RST_STREAM)] == [Codes.PROTOCOL_ERROR] * expected.is_reset
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


# The page that argues.

PAGE = (REPOSITORY / "docs" / "http.md").read_text()


def argued():
    """From each case that the page gives a reason for to its row: source, what is done, the reason."""
    section = PAGE.split("### h2spec's cases\n", 1)[1].split("\n#", 1)[0]
    rows = {}
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("|") or cells[0] == "case" or not set(line) - set("|-"):
            continue
        names, source, done, reason = cells
        for name in re.findall("`([^`]+)`", names):
            assert name not in rows, f"{name} has two rows"
            rows[name] = source, done, reason
    return rows


def test_the_page_argues_each_difference_and_no_other():
    differing = {name: case for name, case in CASES.items() if case.done != case.demanded}
    rows = argued()
    assert set(rows) == set(differing)
    for name, (source, done, reason) in rows.items():
        assert SOURCES[differing[name].section].replace("9113, ", "") in source, name
        assert done == WORDS[type(differing[name].done)](differing[name].done), name
        assert len(reason) > 20, name


WORDS = {
    ConnectionFault: lambda done: f"GOAWAY, {done.code.name}", GoesOn: lambda done: "skipped",
    Closes: lambda done: "closed, without GOAWAY",
    Malformed: lambda done: "400" + ", then RST_STREAM, PROTOCOL_ERROR" * done.is_reset}


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
