"""Gateways whose policies ask a decision point, and what is sent to them."""

import json
from contextlib import contextmanager

from support.client import get
from support.decision_points import EVALUATION, Answer, AuthZEN, DataAPI
from support.denials import assert_denied, code_of
from support.http2_client import HTTP2Client
from support.waiting import eventually

PROTOCOLS = ["HTTP/1.1", "HTTP/2"]
POLICY = {"host": "localhost", "policy": "records"}
ROUTES = [
    {**POLICY, "name": "records", "path": "/", "require": "request-proof", "content_limit": 100_000},
    {**POLICY, "name": "stream", "path": "/stream", "require": "request-proof", "body": "stream", "content_limit": "1MiB"},
    {**POLICY, "name": "device", "path": "/device", "require": "device"},
    {**POLICY, "name": "certificate", "path": "/certificate"},
    {**POLICY, "name": "socket", "path": "/socket", "require": "device", "websocket": "allowed"},
    {"host": "localhost", "name": "sentinel", "path": "/sentinel"},
]
# Requests that a policy decides about, by what their routes require and do with content.
REQUESTS = {
    "no content": lambda phone: phone.request(path="/records/1"),
    "collected": lambda phone: phone.request("POST", "/records/1", content=b"content"),
    "streamed": lambda phone: phone.request("POST", "/stream/1", content=b"content"),
    "device": lambda phone: get("/device/1"),
    "certificate": lambda phone: get("/certificate/1"),
}
PROVEN = ["no content", "collected", "streamed"]
# Longer than any answer takes: no test fails because the machine is slow.
PATIENT = "10s"
RULE = "/v1/data/health/allow"


def policies(point, routes=ROUTES, **changes):
    """Settings of a gateway whose policy `records` asks a decision point alone. `changes`: of the decision point's section."""
    kind, path = ("authzen", EVALUATION) if isinstance(point, AuthZEN) else ("opa", RULE)
    section = {"kind": kind, "url": point.url, "path": path, "timeout": PATIENT, **changes}
    return {
        "routes": routes, "policies": {"records": {"pdp": "pdp"}},
        "decision_points": {"pdp": {name: value for name, value in section.items() if value is not None}}}


def denying(point, *violations, user=None, admin=None):
    """A decision point denies from now on. AuthZEN has no violations."""
    reasons = {f"reason_{name}": text for name, text in (("user", user), ("admin", admin)) if text is not None}
    if isinstance(point, AuthZEN):
        point.script = lambda asked: Answer(200, {"decision": False, "context": reasons})
    else:
        point.script = lambda asked: Answer(200, {"result": {"allow": False, "violations": list(violations), **reasons}})


def allowing(kind):
    """A decision point that allows everything."""
    return kind(lambda document: True)


KINDS = [AuthZEN, DataAPI]


def connect(gateway, phone, protocol):
    return HTTP2Client(gateway, phone.identity) if protocol == "HTTP/2" else phone.connect()


def begin(client, data):
    """Sends a request but for its last byte. - Returns: what sends that, and waits for the response."""
    if not isinstance(client, HTTP2Client):
        client.send(data[:-1])
        return lambda: client.send(data[-1:]).read_response()
    number = client.begin(data[:-1], end=False)

    def finish():
        client.send(number, data[-1:], end=True)
        return client.response(number)
    return finish


def start_request(client, data):
    """Sends a request. - Returns: what waits for the response."""
    if not isinstance(client, HTTP2Client):
        client.send(data)
        return client.read_response
    number = client.begin(data)
    return lambda: client.response(number)


def wait_for_questions(point, count):
    eventually(lambda: len(point.documents) >= count, lambda: f"{count} questions; there are {point.documents}")
    assert len(point.documents) == count, point.documents


@contextmanager
def questions(point, count):
    """Exactly so many are asked within the block."""
    before = len(point.documents)
    yield
    wait_for_questions(point, before + count)


@contextmanager
def holding(point):
    """Within the block the decision point answers nothing; at its end it answers everything."""
    point.misbehave("slow")
    try:
        yield
    finally:
        point.behave()


def assert_policy_denied(gateway, response, violations=(), reason=None):
    """- Returns: the line of the log."""
    entry = assert_denied(gateway, response, "policy_denied", 403)
    body = json.loads(response.content)
    assert body["violations"] == list(violations), body
    assert body["error_description"].endswith("as it is now." if reason is None else f"as it is now. {reason}"), body
    return entry


def assert_unavailable(gateway, response):
    entry = assert_denied(gateway, response, "policy_unavailable", 503)
    assert 1 <= int(response.value("retry-after")) <= 60, response
    return entry


def eventually_passes(phone, make, protocol="HTTP/1.1"):
    """Sends the same request until it passes. - Returns: the denials before, which are those of a missing decision."""
    seen = []

    def passes():
        with connect(phone.gateway, phone, protocol) as client:
            code = code_of(client.exchange(make))
        if code is not None:
            assert code == "policy_unavailable", code
            seen.append(code)
        return code is None
    eventually(passes, lambda: f"the request to pass; {seen}")
    return seen
