"""What a decision point is asked decides about a request: an allowed one is forwarded, a denied one is not, and its counter is not
spent."""

import json
import time

import pytest

from support.client import Client, IncompleteResponse, get
from support.deciding import (
    KINDS, PROTOCOLS, PROVEN, REQUESTS, ROUTES, allowing, assert_policy_denied, begin, connect, denying, holding, policies, questions,
    start_request, wait_for_questions,
)
from support.decision_points import Answer, AuthZEN, DataAPI
from support.denials import assert_denied, code_of
from support.exposition import scrape
from support.http2_client import ConnectionOver, HTTP2Client, StreamReset
from support.http2_service import HTTP2Service
from support.http2_web_sockets import connect as connect_stream
from support.platforms import PLATFORMS
from support.waiting import eventually
from support.web_sockets import accept_of, handshake, switching

both_protocols = pytest.mark.parametrize("protocol", PROTOCOLS)
ROUTE_OF = {"no content": "records", "collected": "records", "streamed": "stream", "device": "device", "certificate": "certificate"}
every_request = pytest.mark.parametrize("kind", REQUESTS)


@pytest.fixture(scope="module", params=KINDS, ids=lambda kind: kind.__name__)
def shared(request, start_shared):
    """A decision point of each protocol, and a gateway that asks it."""
    point = allowing(request.param)
    attested = start_shared(**policies(point))
    yield point, attested
    point.stop()


@pytest.fixture
def asking(shared):
    point, attested = shared
    assert attested.gateway.process.poll() is None, attested.gateway.errors
    point.behave()
    attested.gateway.begin()
    attested.upstream.reset_behaviour()
    yield point, attested
    point.behave()


def spent(gateway):
    """Counters that were committed."""
    metrics = scrape(gateway)
    return metrics("attestgate_counters_total") if "attestgate_counters_total" in metrics.kinds else 0


@both_protocols
@every_request
def test_an_allowed_request_is_forwarded_and_asked_about_once(asking, kind, protocol):
    point, attested = asking
    with questions(point, 1), connect(attested.gateway, attested.phone, protocol) as client:
        response = client.exchange(REQUESTS[kind](attested.phone))
    assert response.status == 200, response
    entry = attested.gateway.logged(decision="forwarded", protocol=protocol)
    assert "denial" not in entry and "simulated" not in entry


@both_protocols
@every_request
def test_a_denied_request_is_not_forwarded_and_its_proof_passes_once_it_is_allowed(asking, kind, protocol):
    point, attested = asking
    violations = [] if isinstance(point, AuthZEN) else ["too_late", "too_far"]
    denying(point, *violations, user="Not on a Sunday.", admin="rule 7")
    data = REQUESTS[kind](attested.phone)
    with connect(attested.gateway, attested.phone, protocol) as client:
        with attested.nothing_forwarded():
            entry = assert_policy_denied(attested.gateway, client.exchange(data), violations, "Not on a Sunday.")
        assert "policy records, by pdp" in entry["detail"] and "rule 7" in entry["detail"], entry
        assert "Sunday" not in entry["detail"]
        point.behave()
        assert client.exchange(data).status == 200
        if kind in PROVEN:
            assert code_of(client.exchange(data)) == "counter_replayed"


@both_protocols
@pytest.mark.parametrize("kind", PROVEN)
@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_wrong_proof_is_asked_about_by_nobody(asking, platform, kind, protocol):
    point, attested = asking
    method, path = ("GET" if kind == "no content" else "POST"), ("/stream/1" if kind == "streamed" else "/records/1")
    with attested.phones_of(platform), questions(point, 0), connect(attested.gateway, attested.phone, protocol) as client:
        content = None if method == "GET" else b"content"
        data = attested.phone.request(method, path, content=content, sent={"method": "PUT"})
        assert code_of(client.exchange(data)) == "proof_invalid"
        assert client.exchange(get("/records/1")).status == 401


def test_a_grpc_call_is_denied_in_fields(asking):
    point, attested = asking
    violations = [] if isinstance(point, AuthZEN) else ["too_late"]
    denying(point, *violations, user="50% é")
    fields = [("Content-Type", "application/grpc")]
    for data in [
            attested.phone.request("POST", "/records.Records/Get", fields=fields, content=b"\0\0\0\0\0"),
            get("/device/records.Records/Get", "Content-Type: application/grpc", method="POST")]:
        with attested.nothing_forwarded(), HTTP2Client(attested.gateway, attested.phone.identity) as client:
            response = client.exchange(data)
            assert response.status == 403 and response.content == b""
            assert response.values("grpc-status") == ["7"] and response.values("attest-denial") == ["policy_denied"]
            message = response.values("grpc-message")[0]
            assert message.startswith("policy_denied: ") and "50%25 %C3%A9" in message, message
            assert all(code in message for code in violations), message


def test_a_grpc_call_without_a_decision_is_unavailable(asking):
    point, attested = asking
    point.misbehave("status 500")
    with attested.nothing_forwarded(), HTTP2Client(attested.gateway, attested.phone.identity) as client:
        data = attested.phone.request(
            "POST", "/records.Records/Get", fields=[("Content-Type", "application/grpc")], content=b"\0\0\0\0\0")
        response = client.exchange(data)
    assert response.values("grpc-status") == ["14"] and response.values("attest-denial") == ["policy_unavailable"]


# Content

@both_protocols
def test_content_is_collected_while_the_decision_is_awaited(asking, protocol):
    point, attested = asking
    data = attested.phone.request("POST", "/records/1", content=bytes(50_000))
    with connect(attested.gateway, attested.phone, protocol) as client:
        with holding(point), questions(point, 1):
            finish = begin(client, data)
            eventually(lambda: len(point.documents) > 0, "the question before the last byte")
            with attested.nothing_forwarded():
                pass
        assert finish().status == 200
    assert attested.upstream.last_request().content == bytes(50_000)


@both_protocols
def test_the_decision_is_awaited_after_the_content_is_collected(asking, protocol):
    point, attested = asking
    data = attested.phone.request("POST", "/records/1", content=bytes(50_000))
    with connect(attested.gateway, attested.phone, protocol) as client:
        with holding(point), questions(point, 1), attested.nothing_forwarded():
            response = start_request(client, data)
            if protocol == "HTTP/1.1":
                client.wait_until_delivered()
            else:
                client.ping()
        assert response().status == 200
    assert attested.upstream.last_request().content == bytes(50_000)


@both_protocols
def test_a_denial_comes_before_all_content_is_there(asking, protocol):
    point, attested = asking
    denying(point)
    data = attested.phone.request("POST", "/records/1", content=bytes(50_000))
    with attested.nothing_forwarded(), connect(attested.gateway, attested.phone, protocol) as client:
        if protocol == "HTTP/1.1":
            response = client.send(data[:-1]).read_response()
        else:
            response = client.response(client.begin(data[:-1], end=False))
        assert_policy_denied(attested.gateway, response)
    point.behave()
    with connect(attested.gateway, attested.phone, protocol) as client:
        assert client.exchange(data).status == 200, "its counter was not spent"


@both_protocols
def test_other_content_than_proven_is_refused_although_it_is_allowed(asking, protocol):
    point, attested = asking
    for is_held in [False, True]:
        data = attested.phone.request("POST", "/records/1", content=b"content", sent={"content": b"altered"})
        with attested.nothing_forwarded(), connect(attested.gateway, attested.phone, protocol) as client:
            if is_held:
                # Known before the decision: nothing has to wait for that.
                with holding(point):
                    response = client.exchange(data)
            else:
                response = client.exchange(data)
            assert_denied(attested.gateway, response, "body_digest_mismatch", 400)


@both_protocols
def test_of_streamed_content_nothing_is_forwarded_before_the_decision(asking, protocol):
    point, attested = asking
    data = attested.phone.request("POST", "/stream/1", content=bytes(50_000))
    with connect(attested.gateway, attested.phone, protocol) as client:
        with holding(point), questions(point, 1), attested.nothing_forwarded():
            finish = begin(client, data)
            eventually(lambda: point.asked and point.asked[-1].document, "the question")
        assert finish().status == 200
    assert attested.upstream.last_request().content == bytes(50_000)


# What happens meanwhile

def held_request(asking, client, kind, phone=None):
    """Sends a request, whose question is asked and not answered."""
    point, attested = asking
    before = len(point.documents)
    point.misbehave("slow")
    response = start_request(client, REQUESTS[kind](phone or attested.phone))
    wait_for_questions(point, before + 1)
    return response


# While streamed content of HTTP/1.1 waits for the decision, nothing is read of the connection: its end is noticed afterwards.
@pytest.mark.parametrize("kind, protocol", [
    pytest.param(kind, protocol, id=f"{kind}-{protocol}")
    for kind in REQUESTS for protocol in PROTOCOLS if (kind, protocol) != ("streamed", "HTTP/1.1")])
def test_of_a_client_that_leaves_meanwhile_nothing_is_forwarded_or_spent(asking, kind, protocol):
    point, attested = asking
    phone = attested.new_phone()
    data = REQUESTS[kind](phone)
    before = len(point.documents)
    with holding(point), connect(attested.gateway, phone, protocol) as client:
        start_request(client, data)
        wait_for_questions(point, before + 1)
        if protocol == "HTTP/2":
            client.reset(next(iter(client.streams)))
            client.ping()
        client.close()
        assert "decision" not in attested.gateway.logged(route=ROUTE_OF[kind], protocol=protocol, aborted=True)
    with attested.nothing_forwarded():
        pass
    with connect(attested.gateway, phone, protocol) as client:
        assert client.exchange(data).status == 200, "the counter was not spent"


@both_protocols
@pytest.mark.parametrize("kind", [kind for kind in REQUESTS if kind != "certificate"])
def test_the_connection_of_a_device_that_is_revoked_meanwhile_ends_and_nothing_is_forwarded(asking, kind, protocol):
    point, attested = asking
    phone = attested.new_phone()
    with attested.nothing_forwarded(), connect(attested.gateway, phone, protocol) as client:
        response = held_request(asking, client, kind, phone)
        attested.gateway.device_command("revoke", str(phone.number))
        point.behave()
        with pytest.raises((OSError, IncompleteResponse, ConnectionOver, StreamReset)):
            response()
        assert "decision" not in attested.gateway.logged(route=ROUTE_OF[kind], protocol=protocol, aborted=True)


def test_other_requests_are_served_while_one_waits_for_its_decision(asking):
    point, attested = asking
    with HTTP2Client(attested.gateway, attested.phone.identity) as client:
        waiting = held_request(asking, client, "no content")
        assert client.exchange(get("/sentinel")).status == 200
        with attested.phone.connect() as other:
            assert other.exchange(get("/sentinel")).status == 200
        point.behave()
        assert waiting().status == 200


def test_requests_of_a_connection_keep_their_order_over_http1(asking):
    point, attested = asking
    with attested.phone.connect() as client:
        held_request(asking, client, "no content")
        client.send(get("/sentinel"))
        point.behave()
        assert client.read_response().status == 200 and client.read_response().status == 200
    assert [request.target for request in attested.upstream.requests[-2:]] == ["/records/1", "/sentinel"]


# Tunnels

def open_socket(client, protocol, path="/socket"):
    if protocol == "HTTP/2":
        return client.head(connect_stream(client, path))
    return client.send(handshake(path)).read_head()


@pytest.fixture
def sockets(asking):
    point, attested = asking

    def serve(connection):
        head = connection.read_head()
        if not head.values("upgrade"):
            return connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        connection.send(switching(accept=accept_of(head.values("sec-websocket-key")[0])))
        connection.socket.sendall(connection.socket.recv(5))
        connection.wait_for_end()
    attested.upstream.upgrades = True
    attested.upstream.script = serve
    yield asking
    attested.upstream.reset_behaviour()
    attested.upstream.upgrades = False


@both_protocols
def test_a_web_socket_is_asked_about_as_a_get(sockets, protocol):
    """Over HTTP/2 it is CONNECT, for which routes match GET."""
    point, attested = sockets
    with connect(attested.gateway, attested.phone, protocol) as client:
        assert open_socket(client, protocol).status in (101, 200)
    question = point.documents[-1]
    assert question.get("method") == "GET" or question["action"]["name"] == "GET"


@both_protocols
def test_a_web_socket_is_asked_about_once(sockets, protocol):
    point, attested = sockets
    with questions(point, 1), connect(attested.gateway, attested.phone, protocol) as client:
        if protocol == "HTTP/2":
            number = connect_stream(client, "/socket")
            assert client.head(number).status == 200
            client.send(number, b"hello")
            client.pump_until(lambda: client.streams[number].response.content == b"hello")
        else:
            assert open_socket(client, protocol).status == 101
            client.send(b"hello")
            assert client._exactly(5) == b"hello"


@both_protocols
def test_a_denied_web_socket_is_not_opened(sockets, protocol):
    point, attested = sockets
    denying(point)
    before = attested.upstream.byte_count
    with connect(attested.gateway, attested.phone, protocol) as client:
        assert open_socket(client, protocol).status == 403
        attested.gateway.logged(denial="policy_denied", route="socket")
    with attested.nothing_forwarded():
        pass
    assert b"/socket" not in attested.upstream.received[before:]


# Subjects

def test_a_client_of_a_route_without_devices_is_asked_about_by_its_certificate(started, start_asking):
    point = started(AuthZEN, lambda document: True)
    attested = start_asking(point)
    stranger = attested.pki.phone("policies-stranger")
    names = []
    for identity in [stranger, attested.phone.identity]:
        with Client(attested.gateway, identity) as client:
            assert client.exchange(get("/certificate/1")).status == 200
        subject = point.documents[-1]["subject"]
        assert subject["type"] == "certificate", subject
        assert subject.get("properties", {}).keys() <= set(), "there is no device"
        names.append(subject["id"])
    with attested.phone.connect() as client:
        assert client.exchange(get("/device/1")).status == 200
    assert point.documents[-1]["subject"]["type"] == "device"
    names.append(point.documents[-1]["subject"]["id"])
    assert len(set(names)) == 3 and all(len(name) == 64 for name in names)


def test_decisions_are_counted_and_logged(started, start_asking):
    point = started(AuthZEN, lambda document: document["action"]["name"] == "GET")
    attested = start_asking(point)
    with attested.phone.connect() as client:
        for data in [get("/device/1"), get("/device/1"), get("/device/1", method="DELETE")]:
            client.exchange(data)
        point.misbehave("status 500")
        client.exchange(get("/device/1"))
    metrics = scrape(attested.gateway)
    for decision, count in [("allow", 2), ("deny", 1), ("unavailable", 1)]:
        assert metrics("attestgate_policy_decisions_total", policy="records", decision=decision, simulated="false") == count
    entry = attested.gateway.logged(denial="policy_unavailable")
    assert entry["status"] == 503 and "status 500" in entry["detail"]


def test_conditions_are_judged_first_and_what_they_refuse_is_asked_about_by_nobody(started, start_attested):
    point = started(AuthZEN, lambda document: True)
    settings = policies(point, [route for route in ROUTES if route["name"] != "certificate"])
    settings["policies"]["records"]["admission"] = ["token"]
    attested = start_attested(platforms=PLATFORMS, **settings)
    with questions(point, 0), attested.phone.connect() as client:
        for kind in [*PROVEN, "device"]:
            assert_policy_denied(attested.gateway, client.exchange(REQUESTS[kind](attested.phone)), ["admission_low"])


# Content that waits for `100 Continue`

EXPECT = [("Expect", "100-continue")]


def test_a_client_that_expects_to_be_told_is_told_while_content_is_collected(asking):
    point, attested = asking
    data = attested.phone.request("POST", "/records/1", content=b"content", fields=EXPECT)
    with attested.phone.connect() as client:
        with holding(point):
            client.send(data[:-7])
            assert client.read_head().status == 100
            client.send(data[-7:])
        assert client.read_response().status == 200


def test_no_client_sends_streamed_content_before_it_is_allowed(asking):
    point, attested = asking
    for answer, status in [(lambda: None, 100), (lambda: denying(point), 403), (lambda: point.misbehave("status 500"), 503)]:
        point.behave()
        answer()
        data = attested.phone.request("POST", "/stream/1", content=b"content", fields=EXPECT)
        with attested.phone.connect() as client:
            assert client.send(data[:-7]).read_head().status == status
            if status == 100:
                assert client.send(data[-7:]).read_response().status == 200


# Routes that only observe

@pytest.fixture(scope="module")
def observing(start_shared):
    point = allowing(AuthZEN)
    settings = policies(point)
    settings["routes"] = [
        {**route, **({"enforce": "observe"} if route.get("require") in ("device", "request-proof") else {})}
        for route in settings["routes"]]
    attested = start_shared(**settings)
    yield point, attested
    point.stop()


@both_protocols
@pytest.mark.parametrize("kind", [*PROVEN, "device"])
def test_where_denials_are_observed_a_denied_request_passes_without_an_identity(observing, kind, protocol):
    point, attested = observing
    attested.gateway.begin()
    denying(point)
    data = REQUESTS[kind](attested.phone)
    with connect(attested.gateway, attested.phone, protocol) as client:
        assert client.exchange(data).status == 200
        request = attested.upstream.last_request()
        assert request.values("attest-verdict") == ["would-deny;code=policy_denied"]
        assert request.values("attest-device") == [] and request.values("attest-counter") == []
        assert request.content == (b"content" if kind in ("collected", "streamed") else b"")
        point.behave()
        # Its counter was not spent.
        assert client.exchange(data).status == 200
    assert attested.upstream.last_request().values("attest-verdict") == ["pass"]
    assert attested.upstream.last_request().values("attest-device") != []


@both_protocols
def test_where_denials_are_observed_content_goes_on_after_the_denial(observing, protocol):
    point, attested = observing
    data = attested.phone.request("POST", "/records/1", content=bytes(50_000))
    with connect(attested.gateway, attested.phone, protocol) as client:
        with questions(point, 1):
            denying(point)
            finish = begin(client, data)
        assert finish().status == 200
    request = attested.upstream.last_request()
    assert request.content == bytes(50_000) and request.values("attest-verdict") == ["would-deny;code=policy_denied"]


@both_protocols
@pytest.mark.parametrize("kind", [*PROVEN, "device"])
def test_where_denials_are_observed_no_request_passes_without_a_decision(observing, kind, protocol):
    point, attested = observing
    point.misbehave("status 500")
    with attested.nothing_forwarded(), connect(attested.gateway, attested.phone, protocol) as client:
        assert code_of(client.exchange(REQUESTS[kind](attested.phone))) == "policy_unavailable"


@both_protocols
@pytest.mark.parametrize("answer", ["allow", "deny"])
def test_no_late_answer_forwards_an_observed_request_again(observing, answer, protocol):
    """Its content is not what was proven: it passes before the decision point answers, which it does before the service."""
    point, attested = observing
    point.behave()
    data = attested.phone.request("POST", "/records/1", content=b"content", sent={"content": b"altered"})
    number = 0

    def answer_late(request):
        nonlocal number
        if request.target == "/records/1":
            point.decide = lambda document: answer == "allow"
            point.behave()
            # By this answer the one before has come.
            with attested.phone.connect() as other:
                assert other.exchange(get("/device/1")).status == 200
        elif request.target == "/sentinel":
            number += 1
        return b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n%d" % number

    before, asked = len(attested.upstream.requests), len(point.documents)
    attested.upstream.answer = answer_late
    point.misbehave("slow")
    with connect(attested.gateway, attested.phone, protocol) as client:
        finish = begin(client, data)
        wait_for_questions(point, asked + 1)
        assert finish().content == b"0"
        # What would follow the response is what the next requests would get.
        for expected in [b"1", b"2", b"3"]:
            assert client.exchange(get("/sentinel")).content == expected
    attested.upstream.reset_behaviour()
    point.decide = lambda document: True
    [first] = [request for request in attested.upstream.requests[before:] if request.target == "/records/1"]
    assert first.content == b"altered" and first.values("attest-verdict") == ["would-deny;code=body_digest_mismatch"]


# Forms of questions and answers

@pytest.mark.parametrize("value", ['"}\\', "a\tb", "\x80\xff", "ä", "\u00e4\u00f6", "x" * 8000, "</script>"])
def test_odd_field_values_are_sent_as_json_text(started, start_asking, value):
    point = started(DataAPI, lambda document: True)
    attested = start_asking(point, headers=["x-note"], sends=[])
    with attested.phone.connect() as client:
        assert client.exchange(get("/device/1", f"X-Note: {value}")).status == 200
    [document] = point.documents
    assert document.keys() == {"headers"} and len(document["headers"]["x-note"]) == 1
    if value.isascii():
        assert document["headers"]["x-note"] == [value]


def test_a_long_question_is_asked_whole(started, start_asking):
    point = started(DataAPI, lambda document: True)
    attested = start_asking(point, headers=[f"x-{number}" for number in range(4)], sends=["path", "query"])
    path, query, values = "/device/" + 3500 * "a", 3500 * "b", [f"{number}" * 2000 for number in range(4)]
    with attested.phone.connect() as client:
        response = client.exchange(get(f"{path}?{query}", *[f"X-{number}: {value}" for number, value in enumerate(values)]))
    assert response.status == 200, response
    assert point.documents == [
        {"path": path, "query": query, "headers": {f"x-{number}": [value] for number, value in enumerate(values)}}]


@pytest.mark.parametrize("fields, code", [
    ({"Content_Type": "application/json; charset=utf-8"}, None), ({"Content_Type": "Application/JSON"}, None),
    ({"Connection": "close"}, None), ({"X_Extra": "x" * 2000}, None), ({"Content_Type": "application/json+x"}, "policy_unavailable"),
    ({"Content_Type": "application/problem+json"}, "policy_unavailable")])
def test_the_fields_of_an_answer_may_be_those_of_http(asking, fields, code):
    point, attested = asking
    point.script = lambda asked: Answer(200, b'{"decision":true,"result":true}', **fields)
    with attested.phone.connect() as client:
        for _ in range(2):
            assert code_of(client.exchange(attested.phone.request())) == code


def test_an_answer_may_come_in_chunks(asking):
    point, attested = asking
    ordinary = point._send

    def in_chunks(handler, answer):
        handler.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                            b"Transfer-Encoding: chunked\r\n\r\n8\r\n{\"decisi\r\n")
        handler.wfile.write(b"17\r\non\":true,\"result\":true}\r\n0\r\n\r\n")
    point._send = in_chunks
    try:
        with attested.phone.connect() as client:
            assert client.exchange(attested.phone.request()).status == 200
            assert client.exchange(attested.phone.request()).status == 200
    finally:
        point._send = ordinary


def test_a_decision_point_is_asked_over_http2_on_one_connection(start_attested):
    heard = []

    def serve(connection):
        connection.greet()
        while True:
            request = connection.next_request()
            heard.append(request)
            connection.headers(request.stream, [(":status", "200"), ("content-type", "application/json")])
            connection.data(request.stream, b'{"result":%s}' % (b"true" if len(heard) < 4 else b"false"), end=True)
    service = HTTP2Service(serve)
    try:
        attested = start_attested(platforms=PLATFORMS, routes=ROUTES, policies={"records": {"pdp": "pdp"}}, decision_points={"pdp": {
            "kind": "opa", "url": f"http://{service.address}", "path": "/v1/data/a", "protocol": "h2", "timeout": "10s"}})
        with attested.phone.connect() as client:
            for _ in range(3):
                assert client.exchange(attested.phone.request()).status == 200
            assert code_of(client.exchange(attested.phone.request())) == "policy_denied"
        assert len(service.connections) == 1
        assert json.loads(heard[0].content)["input"]["route"] == "records"
        assert heard[0].value("content-type") == "application/json" and heard[0].value(":method") == "POST"
    finally:
        service.close()


@pytest.mark.parametrize("identifier, kinds", [
    ("subject", ["device", "certificate"]), ("device", ["certificate"]), ("app", ["certificate"])])
def test_who_has_no_such_id_is_denied_unasked(started, start_asking, identifier, kinds):
    point = started(AuthZEN, lambda document: True)
    attested = start_asking(point, mapping={"subject": {"type": "user", "id": identifier}})
    with questions(point, 0), attested.phone.connect() as client:
        for kind in kinds:
            entry = assert_policy_denied(attested.gateway, client.exchange(REQUESTS[kind](attested.phone)))
            assert "the subject of the mapping is not known" in entry["detail"]


def test_a_reason_in_several_languages_is_told_in_english(asking):
    point, attested = asking
    reasons = {"de": "Nicht am Sonntag.", "en": "Not on a Sunday."}
    if isinstance(point, AuthZEN):
        point.script = lambda asked: Answer(200, {"decision": False, "context": {"reason_user": reasons, "reason_admin": reasons}})
        with attested.phone.connect() as client:
            assert_policy_denied(attested.gateway, client.exchange(attested.phone.request()), [], "Not on a Sunday.")


def test_a_denied_head_request_has_the_length_and_no_content(asking):
    point, attested = asking
    denying(point, user="Not on a Sunday.")
    with attested.phone.connect() as client:
        get_response = client.exchange(get("/device/1"))
        head_response = client.exchange(get("/device/1", method="HEAD"), "HEAD")
        assert head_response.value("content-length") == str(len(get_response.content)) == get_response.value("content-length")
        assert client.exchange(get("/sentinel")).status == 200


# Places

@both_protocols
def test_places_of_requests_and_tunnels_are_free_again_after_each_outcome(started, start_asking, protocol):
    """Of a device that may have one tunnel and two requests at a time."""
    point = started(DataAPI, lambda document: True)
    attested = start_asking(point, more={"limits": {"tunnels_per_device": 1, "requests_per_device": 2}})
    attested.upstream.upgrades = True
    phone = attested.phone

    def each_outcome():
        denying(point)
        yield "policy_denied"
        point.misbehave("status 500")
        yield "policy_unavailable"

    def exchange(data):
        with connect(attested.gateway, phone, protocol) as client:
            return code_of(client.exchange(data))
    for code in each_outcome():
        for _ in range(5):
            assert exchange(get("/device/1")) == exchange(phone.request("POST", "/records/1", content=b"x")) == code
            with connect(attested.gateway, phone, protocol) as client:
                assert open_socket(client, protocol).status in (403, 503)
    # Clients that leave while the question is open.
    for _ in range(5):
        before = len(point.documents)
        with holding(point), connect(attested.gateway, phone, protocol) as client:
            start_request(client, get("/device/1"))
            wait_for_questions(point, before + 1)
    for _ in range(5):
        before = len(point.documents)
        with holding(point), connect(attested.gateway, phone, protocol) as client:
            client.send(handshake("/socket")) if protocol == "HTTP/1.1" else connect_stream(client, "/socket")
            wait_for_questions(point, before + 1)
    assert exchange(get("/device/1")) is None

    def serve(connection):
        head = connection.read_head()
        connection.send(switching(accept=accept_of(head.values("sec-websocket-key")[0])))
        connection.wait_for_end()
    attested.upstream.script = serve
    with connect(attested.gateway, phone, protocol) as client:
        assert open_socket(client, protocol).status == (101 if protocol == "HTTP/1.1" else 200)


@both_protocols
@pytest.mark.parametrize("path", ["/records/1", "/stream/1"])
def test_the_wait_for_a_decision_is_no_pause_of_the_client(started, start_attested, protocol, path):
    point = started(AuthZEN, lambda document: True)
    routes = [{**route, **({"content_idle": "500ms"} if "request-proof" in route.values() else {})} for route in ROUTES]
    settings = policies(point, routes)
    attested = start_attested(platforms=PLATFORMS, **settings)
    with connect(attested.gateway, attested.phone, protocol) as client:
        with holding(point):
            response = start_request(client, attested.phone.request("POST", path, content=bytes(50_000)))
            wait_for_questions(point, 1)
            # Three pauses.
            time.sleep(1.5)
        assert response().status == 200


def test_the_time_of_the_decision_is_in_the_log(started, start_asking):
    point = started(AuthZEN, lambda document: True)
    attested = start_asking(point)
    with attested.phone.connect() as client:
        with holding(point):
            response = start_request(client, get("/device/1"))
            wait_for_questions(point, 1)
            time.sleep(0.2)
        assert response().status == 200
    assert attested.gateway.logged(route="device", decision="forwarded")["duration_us"] >= 200_000
