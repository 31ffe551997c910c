"""What a decision point is asked decides about a request: an allowed one is forwarded, a denied one is not, and its counter is not
spent."""

import pytest

from support.client import Client, IncompleteResponse, get
from support.deciding import (
    KINDS, PROTOCOLS, PROVEN, REQUESTS, allowing, assert_policy_denied, begin, connect, denying, holding, policies, questions,
    start_request, wait_for_questions,
)
from support.decision_points import AuthZEN
from support.denials import assert_denied, code_of
from support.exposition import scrape
from support.http2_client import ConnectionOver, HTTP2Client, StreamReset
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
