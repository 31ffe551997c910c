"""W3C Trace Context: a client's trace is continued; whatever is no valid trace is ignored."""

import json
import re

import pytest

from support.client import Client, get, post

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
VALID = f"00-{TRACE}-{PARENT}-01"


def trace_of(request):
    """- Returns: trace id, parent id and flags that the service was given."""
    _, trace, parent, flags = request.values("traceparent")[0].split("-")
    return trace, parent, flags


def test_a_valid_trace_is_continued_under_an_id_of_our_own(gateway, upstream, connect):
    assert connect().exchange(get("/", f"Traceparent: {VALID}", "Tracestate: a=1", "tracestate: b=2")).status == 200
    request = upstream.last_request()
    trace, parent, flags = trace_of(request)
    assert (trace, flags) == (TRACE, "01") and parent != PARENT
    assert request.values("tracestate") == ["a=1", "b=2"]
    entry = gateway.logged(trace_id=TRACE, request_id=parent)
    assert entry["status"] == 200


@pytest.mark.parametrize("sent, received", [("00", "00"), ("01", "01"), ("03", "03"), ("ff", "03"), ("04", "00")])
def test_known_flags_are_kept_and_others_are_not(upstream, connect, sent, received):
    assert connect().exchange(get("/", f"traceparent: 00-{TRACE}-{PARENT}-{sent}")).status == 200
    assert trace_of(upstream.last_request())[::2] == (TRACE, received)


@pytest.mark.parametrize("value", [f"01-{TRACE}-{PARENT}-03", f"fe-{TRACE}-{PARENT}-01-what.will.be"])
def test_a_trace_of_a_later_version_is_continued_in_ours(upstream, connect, value):
    assert connect().exchange(get("/", f"traceparent: {value}", "tracestate: a=1")).status == 200
    assert trace_of(upstream.last_request())[::2] == (TRACE, "01")
    assert upstream.last_request().values("tracestate") == ["a=1"]


INVALID = {
    "empty": "",
    "upper case": f"00-{TRACE.upper()}-{PARENT}-01",
    "upper case in the flags": f"00-{TRACE}-{PARENT}-0A",
    "version ff": f"ff-{TRACE}-{PARENT}-01",
    "no version": f"{TRACE}-{PARENT}-01",
    "trace id 0": f"00-{'0' * 32}-{PARENT}-01",
    "parent id 0": f"00-{TRACE}-{'0' * 16}-01",
    "longer": VALID + "-00",
    "a hyphen longer": VALID + "-",
    "a later version that continues without a hyphen": f"01-{TRACE}-{PARENT}-01.x",
    "shorter": VALID[:-1],
    "no digits": f"00-{TRACE[:-1]}g-{PARENT}-01",
    "other separators": VALID.replace("-", "_"),
    "a list": f"{VALID}, {VALID}",
    "beyond ASCII": f"00-{TRACE[:-1]}\xe9-{PARENT}-01",
    "much too long": "0" * 4000,
}


@pytest.mark.parametrize("value", INVALID.values(), ids=INVALID.keys())
def test_an_invalid_trace_is_replaced_by_a_new_one(gateway, upstream, connect, value):
    assert connect().exchange(get("/", f"traceparent: {value}", "tracestate: a=1")).status == 200
    request = upstream.last_request()
    trace, parent, flags = trace_of(request)
    assert trace != TRACE and flags == "01"
    assert request.values("tracestate") == [], "tracestate says nothing without its traceparent"
    gateway.logged(trace_id=trace, request_id=parent)


def test_several_traces_are_no_trace(upstream, connect):
    for other in [VALID, f"00-{'1' * 32}-{PARENT}-01", ""]:
        data = get("/", f"traceparent: {VALID}", f"Traceparent: {other}", "tracestate: a=1")
        assert connect().exchange(data).status == 200
        assert trace_of(upstream.last_request())[0] not in (TRACE, "1" * 32)
        assert upstream.last_request().values("tracestate") == []


def test_two_requests_have_different_traces(upstream, connect):
    client = connect()
    assert client.exchange(get("/", f"traceparent: {VALID}")).status == 200
    for _ in range(2):
        assert client.exchange(get("/", "tracestate: a=1")).status == 200
        assert trace_of(upstream.last_request())[0] != TRACE
        assert upstream.last_request().values("tracestate") == []


def test_a_denial_names_the_clients_trace_and_the_log_has_a_request_id(gateway, connect):
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    client = connect(server_name=None)
    for _ in range(2):
        response = client.exchange(get("/", f"traceparent: 00-{trace}-{PARENT}-01", host="elsewhere"))
        assert json.loads(response.content)["trace_id"] == trace
    gateway.logged(trace_id=trace)

    def ids():
        return {e["request_id"] for e in gateway.access() if e.get("trace_id") == trace}
    from support.waiting import eventually
    eventually(lambda: len(ids()) == 2, lambda: f"two requests: {ids()}")
    assert all(re.fullmatch("[0-9a-f]{16}", each) for each in ids()) and PARENT not in ids()


def test_a_malformed_request_has_a_trace_of_its_own(connect):
    response = connect().exchange(get("/", f"traceparent: {VALID}", "Bad Name: x"))
    assert response.status == 400
    assert json.loads(response.content)["trace_id"] not in (TRACE, "0" * 32)


def test_a_resent_request_has_the_same_parent(start_gateway, own_upstream, phone):
    """A service that sees both sendings can tell that they are one request."""
    gateway = start_gateway({"service": own_upstream.address})
    seen = []

    def script(connection):
        seen.append(connection.read_request())
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        if len(seen) == 1:
            # A kept connection that turns out to be dead: it takes the request and ends.
            seen.append(connection.read_request())
    own_upstream.script = script
    with Client(gateway, phone) as client:
        assert client.exchange(get("/1")).status == 200
        assert client.exchange(get("/2")).status == 200
    assert [request.target for request in seen] == ["/1", "/2", "/2"]
    assert seen[1].values("traceparent") == seen[2].values("traceparent") != seen[0].values("traceparent")


def test_every_trace_can_be_configured_to_begin_at_the_gateway(start_gateway, own_upstream, phone):
    gateway = start_gateway({"service": own_upstream.address}, strip_headers=["Traceparent"])
    with Client(gateway, phone) as client:
        assert client.exchange(get("/", f"traceparent: {VALID}", "tracestate: a=1")).status == 200
    request = own_upstream.last_request()
    assert trace_of(request)[0] != TRACE and request.values("tracestate") == []


def test_the_connection_field_cannot_take_a_trace_away(connect, nothing_forwarded):
    with nothing_forwarded:
        for name in ["traceparent", "tracestate"]:
            assert connect().exchange(get("/", f"Connection: {name}", f"traceparent: {VALID}")).status == 400


def test_a_request_with_content_has_a_trace_too(upstream, connect):
    assert connect().exchange(post("/", b"content", f"traceparent: {VALID}")).status == 200
    assert trace_of(upstream.last_request())[0] == TRACE
