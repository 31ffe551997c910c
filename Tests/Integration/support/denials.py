"""The denial table, read from its source, and what it means to be denied."""

import json
import re
import ssl
from dataclasses import dataclass

import pytest

from support.client import Client, get
from support.exposition import scrape
from support.paths import REPOSITORY
from support.waiting import eventually


@dataclass(frozen=True)
class Row:
    """One case of the table: its code, and its answer: a status, `alert` and its number, or a word."""

    case: str
    code: str
    answer: object


def read_table():
    source = (REPOSITORY / "Sources" / "Vocabulary" / "Denial.swift").read_text()
    numbers = {name: int(number) for name, number in re.findall(r"case (\w+) = (\d+)", source)}
    cases = re.findall(r"^    case (\w+)$", source.split("extension Denial")[0], re.MULTILINE)
    rows = {}
    pattern = r'case \.(\w+):\s+Row\(\s*code: "(\w+)", answer: \.(?:status\((\d+)\)|alert\(\.(\w+)\)|(close|fittingAlert|goAway))'
    for case, code, status, alert, other in re.findall(pattern, source):
        answer = int(status) if status else f"alert {numbers[alert]}" if alert else other
        rows[case] = Row(case, code, answer)
    assert set(rows) == set(cases), "the table is written in a way this test cannot read"
    return rows


TABLE = read_table()
STATUS_ROWS = {
    # Where a proxy terminates TLS, an alert is a 401.
    **{(row.code, 401): row for row in TABLE.values() if str(row.answer).startswith("alert")},
    **{(row.code, row.answer): row for row in TABLE.values()}}

# The cases that some test has provoked and seen answered as the table says.
exercised = set()


def assert_denied(gateway, response, code, status, method="GET", is_logged=True):
    """The response is that denial in every respect, and metrics and log say the same.

    They may do so a moment later: a request is counted and logged when what is left of its content was read over.
    """
    entry = assert_answered(gateway, response, code, status, method, is_logged)
    wait_for_count(gateway, 1, "attestgate_denials_total", code=code)
    return entry


def assert_answered(gateway, response, code, status, method="GET", is_logged=True):
    """The same without the metrics, for a test that asks for them once for many denials."""
    row = STATUS_ROWS[(code, status)]
    assert response.status == status, f"{response}\n{gateway.errors}"
    assert response.value("content-type") == "application/json"
    assert response.value("cache-control") == "no-store"
    assert re.fullmatch(r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT", response.value("date"))
    exercised.add(row.case)
    if method == "HEAD":
        assert int(response.value("content-length")) > 0
        return gateway.logged(denial=code, status=status)
    body = json.loads(response.content)
    further = ["violations"] if code == "policy_denied" else []
    assert list(body) == ["error", "error_description", *further, "error_uri", "trace_id"]
    assert body["error"] == code
    assert body["error_uri"] == f"urn:attestgate:denial:{code}"
    # What a decision point says follows.
    assert body["error_description"].endswith(".") or code == "policy_denied"
    assert re.fullmatch(r"[0-9a-f]{32}", body["trace_id"]) and int(body["trace_id"], 16) != 0
    if not is_logged:
        return None
    entry = gateway.logged(trace_id=body["trace_id"])
    assert (entry["denial"], entry["status"], entry["event"]) == (code, status, "request"), entry
    assert 0 <= entry["duration_us"] < 3_600_000_000, entry
    return entry


def assert_used_before_the_start(gateway, client, phone, *requests):
    """What passed before a gateway with a file started is refused for its challenge; signed again, for its counter."""
    for data in requests:
        assert_denied(gateway, client.exchange(data), "challenge_required", 401)
        assert_denied(gateway, client.exchange(phone.again(data)), "counter_replayed", 401)


def wait_for_count(gateway, count, name, **labels):
    eventually(lambda: scrape(gateway)(name, **labels) >= count, f"{name} {labels} to be {count}")


def assert_connection_refused(gateway, code, count=1):
    """The log tells of that many connections refused for this reason, and so do the metrics."""
    row, entry = assert_connection_ended(gateway, code, count)
    wait_for_count(gateway, count, "attestgate_denials_total", code=code)
    if row.answer not in ("close", "goAway") and row.case != "certificateExpired":
        wait_for_count(gateway, count, "attestgate_handshakes_total", result=code)
    return entry


def assert_connection_ended(gateway, code, count=1):
    """The same without the metrics. - Returns: the row, and the last line of the log about it."""
    row = next(row for row in TABLE.values() if row.code == code and not isinstance(row.answer, int))

    def entries():
        return [e for e in gateway.access() if e["event"] == "connection_refused" and e.get("denial") == code]

    eventually(lambda: len(entries()) >= count, lambda: f"{count} times {code} in {gateway.access()[-5:]}")
    exercised.add(row.case)
    return row, entries()[-1]


def assert_handshake_refused(gateway, identity, code, alert="certificate.revoked", count=1, **options):
    """A handshake ends with that alert, no session was resumed, and the log tells of `count` such refusals.

    - Returns: the last line of the log about it.
    """
    with pytest.raises(ssl.SSLError, match=f"(?i){alert}"):
        with Client(gateway, identity, **options) as client:
            assert not client.socket.session_reused
            # In TLS 1.3 a client may send before it hears that it is refused.
            client.send_while_open(get("/refused")).read_to_end()
    return assert_connection_refused(gateway, code, count=count)


def assert_closed(client):
    """The gateway ends the connection within a second."""
    client.socket.settimeout(1)
    try:
        while client.socket.recv(1024):
            pass
    except (ssl.SSLError, ConnectionError) as error:
        assert not isinstance(error, TimeoutError)


class NothingForwarded:
    """Proves that within the `with` block not one byte went to the upstream.

    Waiting a while would prove little. Instead an ordinary request is sent after the refused one: the gateway (of one
    worker) serves them in order, so whatever it had to forward of the first lies before the second in the record.
    """

    def __init__(self, gateway, upstream, identity, connect=None):
        """`connect`: how an ordinary connection is made, where that takes more than the identity."""
        self.gateway, self.upstream = gateway, upstream
        self.connect = connect or (lambda: Client(gateway, identity))

    def __enter__(self):
        self.before = self.upstream.byte_count
        return self

    def __exit__(self, kind, *_):
        if kind:
            return
        self.upstream.reset_behaviour()
        with self.connect() as client:
            response = client.exchange(get("/sentinel"))
        assert response.status == 200, response
        sentinel = self.upstream.last_request()
        assert sentinel.target == "/sentinel"
        forwarded = self.upstream.byte_count - self.before - len(sentinel.head)
        assert forwarded == 0, f"{forwarded} bytes were forwarded: {self.upstream.received[-2000:]!r}"


def code_of(response):
    """None for a request that passed."""
    return None if response.status == 200 else json.loads(response.content)["error"]
