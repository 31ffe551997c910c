"""A decision point that is slow, absent or lying: without a decision nothing is forwarded and no counter is spent, and requests
pass again once it decides."""

import threading

import pytest

from support.client import get
from support.deciding import (
    KINDS, PROTOCOLS, PROVEN, REQUESTS, allowing, assert_unavailable, connect, denying, eventually_passes, holding, policies,
    questions, start_request, wait_for_questions,
)
from support.decision_points import MISBEHAVIOURS, Answer, AuthZEN, DataAPI
from support.denials import code_of
from support.exposition import scrape
from support.http2_client import HTTP2Client
from support.pki import attestgate
from support.services import Services
from support.waiting import eventually

MIB = 1 << 20


@pytest.fixture(scope="module", params=KINDS, ids=lambda kind: kind.__name__)
def shared(request, start_shared):
    point = allowing(request.param)
    attested = start_shared(**policies(point))
    yield point, attested
    point.stop()


@pytest.fixture
def asking(shared):
    point, attested = shared
    assert attested.gateway.process.poll() is None, attested.gateway.errors
    attested.gateway.begin()
    yield point, attested
    point.behave()
    # An ejection by this test is not to end the next one.
    eventually_passes(attested.phone, get("/device/1"))


def refused_then_passing(point, attested, kind, misbehave, behave, protocol="HTTP/1.1"):
    """A request is refused without a decision, and passes unchanged afterwards. - Returns: the line of the log."""
    data = REQUESTS[kind](attested.phone)
    misbehave()
    with attested.nothing_forwarded(), connect(attested.gateway, attested.phone, protocol) as client:
        entry = assert_unavailable(attested.gateway, client.exchange(data))
    assert "policy records, by pdp: " in entry["detail"], entry
    behave()
    eventually_passes(attested.phone, data, protocol)
    return entry


@pytest.mark.parametrize("name", MISBEHAVIOURS)
def test_no_lie_is_a_decision(asking, name):
    point, attested = asking
    refused_then_passing(point, attested, "collected", lambda: point.misbehave(name), point.behave)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("kind", REQUESTS)
def test_no_request_passes_without_a_decision(asking, kind, protocol):
    point, attested = asking
    refused_then_passing(point, attested, kind, lambda: point.misbehave("status 500"), point.behave, protocol)


# What each protocol demands, and no more.
ANSWERS = {
    AuthZEN: {
        b'{"decision":true,"context":[1],"other":{"a":[null]}}': None,
        b'{"decision":true,"result":false}': None,
        b'{"decision":false,"context":"no"}': "policy_denied",
        b'{"decision":false,"context":{"reason_user":7,"reason_admin":["a"]}}': "policy_denied",
        b'{"Decision":true}': "policy_unavailable",
        b'{"context":{"decision":true}}': "policy_unavailable",
        b'{"decision":[true]}': "policy_unavailable",
        b'true': "policy_unavailable",
    },
    DataAPI: {
        b'{"result":true}': None,
        b'{"result":{"allow":true}}': None,
        b'{"result":{"allow":true,"violations":["x"]}}': None,
        b'{"result":false}': "policy_denied",
        # Of a rule that is not defined.
        b'{"decision_id":"1"}': "policy_denied",
        b'{}': "policy_denied",
        b'{"decision":true}': "policy_denied",
        b'{"result":{}}': "policy_unavailable",
        b'{"result":{"allow":"true"}}': "policy_unavailable",
        b'{"result":[true]}': "policy_unavailable",
        b'{"result":"true"}': "policy_unavailable",
    },
}


def test_an_answer_has_exactly_one_meaning(asking):
    point, attested = asking
    for content, code in ANSWERS[type(point)].items():
        point.script = lambda asked: Answer(200, content)
        with attested.phone.connect() as client:
            assert code_of(client.exchange(get("/device/1"))) == code, content


def test_texts_of_a_decision_point_can_neither_break_the_body_nor_the_log(asking):
    point, attested = asking
    wild = '"}\\\r\n\u2028\u202e</script>\x00 ' + "ä" * 1000
    denying(point, *[f"code-{number}" for number in range(100)], '"', "\\", "\n", "x" * 65, "", "ok", user=wild, admin=wild)
    with attested.phone.connect() as client:
        response = client.exchange(get("/device/1"))
    assert code_of(response) == "policy_denied" and len(response.content) < 3000
    text = response.content.decode()
    assert all(bad not in text for bad in ["\r", "\n", "\u2028", "\u202e", "\x00", "\\"])
    entry = attested.gateway.logged(denial="policy_denied")
    assert len(entry["detail"]) < 3000 and "\n" not in entry["detail"]


# Absent, dying, restarted

@pytest.mark.parametrize("kind", PROVEN)
def test_an_absent_decision_point_is_none_until_it_comes_back(started, start_asking, kind):
    point = started(AuthZEN, lambda document: True)
    attested = start_asking(point)
    refused_then_passing(point, attested, kind, point.go, point.come_back)


def test_a_gateway_starts_without_its_decision_point(started, start_asking):
    point = started(AuthZEN, lambda document: True)
    point.go()
    attested = start_asking(point)
    refused_then_passing(point, attested, "no content", lambda: None, point.come_back)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_decision_point_that_dies_with_the_question_gives_no_decision(started, start_asking, protocol):
    point = started(AuthZEN, lambda document: True)
    attested = start_asking(point)
    for kind in REQUESTS:
        data = REQUESTS[kind](attested.phone)
        before = len(point.documents)
        point.released.clear()
        point.script = lambda asked: point.released.wait(30) and None
        with attested.nothing_forwarded(), connect(attested.gateway, attested.phone, protocol) as client:
            response = start_request(client, data)
            wait_for_questions(point, before + 1)
            point.go()
            assert_unavailable(attested.gateway, response())
        point.behave()
        point.come_back()
        eventually_passes(attested.phone, data, protocol)


def test_a_restart_of_the_decision_point_between_questions_is_not_noticed(started, start_asking):
    point = started(AuthZEN, lambda document: True)
    attested = start_asking(point)
    with attested.phone.connect() as client:
        for _ in range(5):
            assert client.exchange(attested.phone.request()).status == 200
            point.restart()
        assert client.exchange(attested.phone.request()).status == 200


def test_a_kept_connection_that_ends_with_the_question_is_replaced_once(started, start_asking):
    point = started(AuthZEN, lambda document: True)
    attested = start_asking(point)
    with attested.phone.connect() as client:
        assert client.exchange(attested.phone.request()).status == 200
        answers = iter([None])
        point.script = lambda asked: next(answers, Answer(200, b'{"decision":true}'))
        with questions(point, 2):
            assert client.exchange(attested.phone.request()).status == 200


# Slow

def test_a_late_answer_is_none(started, start_asking):
    point = started(AuthZEN, lambda document: True)
    attested = start_asking(point, timeout="200ms")
    entry = refused_then_passing(point, attested, "collected", lambda: point.misbehave("slow"), point.behave)
    # A timer counts from the time of the loop's turn, which may have begun a little earlier.
    assert entry["duration_us"] >= 150_000


def test_an_answer_that_comes_bit_by_bit_has_no_more_time(started, start_asking):
    point = started(AuthZEN, lambda document: True)
    attested = start_asking(point, timeout="200ms")

    def dribble(handler, answer):
        handler.send_response(200)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", "1000")
        handler.end_headers()
        while not point.released.wait(0.05):
            handler.wfile.write(b" ")
        handler.close_connection = True
    ordinary = point._send
    point._send = dribble

    def behave():
        point._send = ordinary
        point.behave()
    refused_then_passing(point, attested, "no content", lambda: None, behave)


def test_of_many_slow_questions_only_so_many_are_asked_and_wait(started, start_asking):
    point = started(AuthZEN, lambda document: True)
    attested = start_asking(point, connections=2, waiting=3)
    with HTTP2Client(attested.gateway, attested.phone.identity) as client:
        with holding(point):
            numbers = [client.begin(get("/device/1")) for _ in range(10)]
            client.pump_until(lambda: sum(client.streams[number].is_ended for number in numbers) == 5)
            client.ping()
            refused = [number for number in numbers if client.streams[number].is_ended]
            for number in refused:
                assert_unavailable(attested.gateway, client.response(number))
            assert len(point.documents) == 2
        rest = [number for number in numbers if number not in refused]
        assert [client.response(number).status for number in rest] == [200] * 5
    assert len(point.documents) == 5
    assert len({id(asked.connection) for asked in point.asked}) <= 2
    assert client.going_away == []


def test_one_client_cannot_take_the_places_of_all(started, start_asking):
    point = started(AuthZEN, lambda document: True)
    attested = start_asking(point, connections=2, waiting=30)
    other = attested.new_phone()
    with HTTP2Client(attested.gateway, attested.phone.identity) as client, HTTP2Client(attested.gateway, other.identity) as second:
        with holding(point):
            numbers = [client.begin(get("/device/1")) for _ in range(20)]
            client.pump_until(lambda: sum(client.streams[number].is_ended for number in numbers) == 4)
            client.ping()
            refused = [number for number in numbers if client.streams[number].is_ended]
            for number in refused:
                assert "too many questions" in assert_unavailable(attested.gateway, client.response(number))["detail"]
            waiting = second.begin(get("/device/1"))
            second.ping()
        assert second.response(waiting).status == 200
        assert [client.response(number).status for number in numbers if number not in refused] == [200] * 16


def test_a_request_that_waits_for_a_connection_in_vain_is_unavailable(started, start_asking):
    point = started(AuthZEN, lambda document: True)
    attested = start_asking(point, connections=1, waiting=8, timeout="300ms")
    data = [attested.phone.request(path=f"/{number}") for number in range(3)]
    with attested.nothing_forwarded(), HTTP2Client(attested.gateway, attested.phone.identity) as client:
        point.misbehave("slow")
        numbers = [client.begin(each) for each in data]
        for number in numbers:
            assert code_of(client.response(number)) == "policy_unavailable"
        point.behave()
    for each in data:
        eventually_passes(attested.phone, each)


def test_requests_that_need_no_decision_are_served_while_all_questions_hang(started, start_asking):
    point = started(AuthZEN, lambda document: True)
    attested = start_asking(point, connections=1, waiting=1)
    with HTTP2Client(attested.gateway, attested.phone.identity) as client:
        with holding(point):
            numbers = [client.begin(get("/device/1")) for _ in range(2)]
            wait_for_questions(point, 1)
            for _ in range(20):
                assert client.exchange(get("/sentinel")).status == 200
        assert [client.response(number).status for number in numbers] == [200, 200]


# Memory

def test_memory_stays_bounded_under_huge_answers(started, start_asking):
    point = started(AuthZEN, lambda document: True)
    attested = start_asking(point)
    point.misbehave("10 MiB")

    def ask(count):
        with attested.phone.connect() as client:
            for _ in range(count):
                assert code_of(client.exchange(get("/device/1"))) == "policy_unavailable"
    ask(10)
    before = attested.gateway.resident_bytes()
    ask(60)
    growth = attested.gateway.resident_bytes() - before
    assert growth < 10 * MIB, f"{growth} bytes more after 60 answers"
    point.behave()
    eventually_passes(attested.phone, get("/device/1"))


def test_memory_stays_bounded_under_many_waiting_questions(started, start_asking):
    point = started(AuthZEN, lambda document: True)
    attested = start_asking(point, connections=1, waiting=200, sends=["path"])
    path = "/device/" + 4000 * "a"

    def hold(count):
        with HTTP2Client(attested.gateway, attested.phone.identity) as client:
            with holding(point):
                numbers = [client.begin(get(path)) for _ in range(count)]
                client.ping()
            assert {client.response(number).status for number in numbers} <= {200, 503, 429}
    hold(30)
    before = attested.gateway.resident_bytes()
    for _ in range(2):
        hold(30)
    growth = attested.gateway.resident_bytes() - before
    assert growth < 10 * MIB, f"{growth} bytes more"


# Ends

def test_a_gateway_ends_in_order_while_a_question_is_open(started, start_asking):
    point = started(AuthZEN, lambda document: True)
    attested = start_asking(point)
    with attested.phone.connect() as client:
        point.misbehave("slow")
        client.send(attested.phone.request())
        wait_for_questions(point, 1)
        attested.gateway.signal()
        point.behave()
        assert client.read_response().status == 200
    attested.gateway.wait()
    attested.gateway.stop()


def test_a_reload_while_a_question_is_open_changes_nothing_for_its_request(started, start_asking):
    point = started(AuthZEN, lambda document: True)
    attested = start_asking(point)
    with attested.phone.connect() as client:
        with holding(point):
            client.send(attested.phone.request())
            wait_for_questions(point, 1)
            attested.gateway.conf["decision_points"]["pdp"]["timeout"] = "9s"
            attested.gateway.write_conf()
            assert attestgate("reload", "--config", attested.gateway.conf_path).returncode == 0
        assert client.read_response().status == 200
    with attested.phone.connect() as client:
        assert client.exchange(attested.phone.request()).status == 200


def simulated(point, **changes):
    settings = policies(point, **changes)
    settings["policies"]["records"]["simulate"] = "true"
    return settings


@pytest.mark.parametrize("end", ["answer", "timeout", "death"])
def test_reloads_while_simulated_questions_are_open_leave_nothing_behind(started, start_attested, end):
    point = started(AuthZEN, lambda document: True)
    attested = start_attested(**simulated(point, timeout="1s" if end == "timeout" else "10s"))
    gateway = attested.gateway
    point.misbehave("slow")
    for number in range(3):
        with attested.phone.connect() as client:
            assert client.exchange(attested.phone.request()).status == 200
        wait_for_questions(point, number + 1)
        if end == "timeout" and number == 2:
            break
        gateway.conf["decision_points"]["pdp"]["waiting"] = 10 + number
        gateway.write_conf()
        assert attestgate("reload", "--config", gateway.conf_path).returncode == 0
    if end == "death":
        point.go()
        point.behave()
        point.come_back()
    elif end == "answer":
        point.behave()
    else:
        # Nothing waits for the questions of earlier generations.
        eventually(lambda: decisions(gateway).get("unavailable"), "the last question to time out")
    point.behave()
    allowed = decisions(gateway).get("allow", 0)
    with attested.phone.connect() as client:
        assert client.exchange(attested.phone.request()).status == 200
    eventually(lambda: decisions(gateway).get("allow", 0) > allowed, "the next decision")


def decisions(gateway):
    """Simulated decisions by outcome."""
    metrics = scrape(gateway)
    name = "attestgate_policy_decisions_total"
    return {each["decision"]: metrics(name, **each) for each in metrics.labels(name)} if name in metrics.kinds else {}


def test_a_gateway_ends_while_a_simulated_question_is_open(started, start_attested):
    point = started(AuthZEN, lambda document: True)
    attested = start_attested(**simulated(point))
    point.misbehave("slow")
    with attested.phone.connect() as client:
        assert client.exchange(attested.phone.request()).status == 200
    wait_for_questions(point, 1)
    attested.gateway.stop()


def test_a_reload_while_metadata_are_awaited_changes_nothing(started, start_attested, pki):
    services = Services(pki)
    point = started(AuthZEN, lambda document: True, identity=services.ordinary)
    described, came, released = point.described, threading.Event(), threading.Event()

    def late(path):
        came.set()
        released.wait(30)
        return described(path)
    point.described = late
    settings = policies(point, path=None, tls={"authorities": str(services.authority.certificate)})
    attested = start_attested(**settings)
    gateway = attested.gateway
    assert came.wait(30)
    for number in range(2):
        gateway.conf["decision_points"]["pdp"]["waiting"] = 10 + number
        gateway.write_conf()
        assert attestgate("reload", "--config", gateway.conf_path).returncode == 0
    with attested.phone.connect() as client:
        assert_unavailable(gateway, client.exchange(attested.phone.request()))
    released.set()
    eventually_passes(attested.phone, attested.phone.request())


def test_a_decision_point_that_is_removed_by_a_reload_still_answers_what_it_was_asked(started, start_asking):
    point = started(AuthZEN, lambda document: True)
    attested = start_asking(point)
    gateway = attested.gateway
    with attested.phone.connect() as client:
        with holding(point):
            client.send(attested.phone.request("POST", "/records/1", content=b"content"))
            wait_for_questions(point, 1)
            del gateway.conf["decision_points"]
            gateway.conf["policies"] = {"records": {"admission": ["operator"]}}
            gateway.conf["routes"] = [route for route in gateway.conf["routes"] if route["name"] != "certificate"]
            gateway.write_conf()
            assert attestgate("reload", "--config", gateway.conf_path).returncode == 0
        assert client.read_response().status == 200
    with questions(point, 0), attested.phone.connect() as client:
        assert client.exchange(attested.phone.request()).status == 200


def test_no_descriptor_is_lost_by_any_misbehaviour(started, start_asking):
    point = started(AuthZEN, lambda document: True)
    attested = start_asking(point)

    def misbehave_once():
        with attested.phone.connect() as client:
            for name in MISBEHAVIOURS:
                point.misbehave(name)
                assert code_of(client.exchange(get("/device/1"))) == "policy_unavailable", name
        point.restart()
        point.behave()
        eventually_passes(attested.phone, get("/device/1"))
    misbehave_once()
    before = attested.gateway.descriptors()
    for _ in range(3):
        misbehave_once()
    eventually(
        lambda: attested.gateway.descriptors() <= before,
        lambda: f"{before} descriptors; there are {attested.gateway.descriptors()}")


def test_each_worker_asks_by_itself(started, start_attested):
    point = started(AuthZEN, lambda document: True)
    settings = policies(point)
    attested = start_attested(workers=3, **settings)
    for _ in range(12):
        with attested.phone.connect() as client:
            assert client.exchange(attested.phone.request()).status == 200
    assert len(point.documents) == 12
    point.misbehave("status 500")
    for _ in range(12):
        with attested.phone.connect() as client:
            assert code_of(client.exchange(get("/device/1"))) == "policy_unavailable"


# Health

def test_a_decision_point_that_fails_its_checks_is_reported_and_asked_all_the_same(started, start_asking):
    """It is the only one: whether it decides is seen by asking it."""
    point = started(DataAPI, lambda document: True)
    point.described = lambda path: Answer(503, b"{}")
    attested = start_asking(point, health={"path": "/health", "interval": "1s", "timeout": "900ms"})
    assert "status 503" in attested.gateway.logged(event="server_unhealthy")["detail"]
    with questions(point, 1), attested.phone.connect() as client:
        assert client.exchange(get("/device/1")).status == 200
    point.described = lambda path: Answer(200, b"{}")
    attested.gateway.logged(event="server_healthy")
