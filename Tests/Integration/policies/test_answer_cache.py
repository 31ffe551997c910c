"""`cache`: an answer holds for the same question while nothing changes that is known of the device, and for nobody else's."""

import json

import pytest

from support.client import Client, get
from support.deciding import POLICY, assert_unavailable, denying, holding, questions, start_request, wait_for_questions
from support.decision_points import AuthZEN, DataAPI
from support.denials import code_of
from support.enrolling_phone import MTLSKey
from support.enrolment import Enrolling
from support.http2_client import HTTP2Client
from support.pki import attestgate
from support.postures import APP_STORE, shows
from support.waiting import at_some_pace, eventually

CACHED = {"cache": "1h"}


def ask(attested, *requests, phone=None):
    with (phone or attested.phone).connect() as client:
        return [code_of(client.exchange(data, data.split(b" ")[0].decode())) for data in requests]


@pytest.mark.parametrize("kind", [AuthZEN, DataAPI])
def test_the_same_question_is_asked_once(started, start_asking, kind):
    point = started(kind, lambda document: True)
    attested = start_asking(point, **CACHED)
    phone = attested.phone
    with questions(point, 1):
        # The path is not sent.
        assert ask(attested, phone.request(), phone.request(path="/records/2"), phone.request(query="a=b")) == [None] * 3
        with HTTP2Client(attested.gateway, phone.identity) as client:
            assert client.exchange(phone.request()).status == 200


def test_a_denial_is_kept_with_its_reasons(started, start_asking):
    point = started(DataAPI, lambda document: True)
    attested = start_asking(point, **CACHED)
    denying(point, "too_late", user="Not on a Sunday.")
    with questions(point, 1), attested.nothing_forwarded(), attested.phone.connect() as client:
        bodies = [json.loads(client.exchange(attested.phone.request()).content) for _ in range(2)]
    for body in bodies:
        del body["trace_id"]
    assert bodies[0] == bodies[1] and bodies[0]["violations"] == ["too_late"]
    assert bodies[0]["error_description"].endswith("Not on a Sunday.")


def test_without_a_cache_every_question_is_asked(started, start_asking):
    point = started(AuthZEN, lambda document: True)
    attested = start_asking(point)
    with questions(point, 3):
        assert ask(attested, *[get("/device/1")] * 3) == [None] * 3


@pytest.mark.parametrize("sends, one, other", [
    (["method"], get("/device/1"), get("/device/1", method="PUT")),
    (["path"], get("/device/1"), get("/device/2")),
    (["query"], get("/device/1?a=1"), get("/device/1?a=2")),
    (["query"], get("/device/1"), get("/device/1?a=1")),
    (["path", "query"], get("/device/1?2"), get("/device/1/?2")),
    (["route"], get("/device/1"), get("/certificate/1"))])
def test_another_question_is_asked_anew(started, start_asking, sends, one, other):
    point = started(DataAPI, lambda document: True)
    attested = start_asking(point, sends=sends, **CACHED)
    with questions(point, 2):
        assert ask(attested, one, other, one, other) == [None] * 4
    assert point.documents[0] != point.documents[1] or sends == ["route"]


def test_other_fields_are_another_question(started, start_asking):
    point = started(DataAPI, lambda document: True)
    attested = start_asking(point, headers=["x-a", "x-b"], sends=[], **CACHED)
    lines = [(), ("X-A: 1",), ("X-A: 2",), ("X-B: 1",), ("X-A: 1", "X-B: 1"), ("X-A: 1", "X-A: 1"), ("X-A: 1, 1",), ("X-A: 1x-b", )]
    with questions(point, len(lines)):
        for _ in range(2):
            assert ask(attested, *[get("/device/1", *each) for each in lines]) == [None] * len(lines)
    assert len({json.dumps(document) for document in point.documents}) == len(lines)


def test_no_attack_on_the_cache_takes_one_field_for_another(started, start_asking):
    """What is sent is joined with separators: no value can contain them."""
    point = started(DataAPI, lambda document: "admin" not in json.dumps(document))
    attested = start_asking(point, headers=["x-a", "x-b"], sends=["path", "query"], **CACHED)
    assert ask(attested, get("/device/1", "X-A: x-b admin")) == ["policy_denied"]
    assert ask(attested, get("/device/1", "X-A: x-b", "X-B: admin")) == ["policy_denied"]
    assert ask(attested, get("/device/1", "X-A: x-b")) == [None]
    assert ask(attested, get("/device/1?x-b")) == [None]
    assert ask(attested, get("/device/1", "X-B: ")) == [None]
    assert len(point.documents) == 5


def test_another_device_and_another_certificate_are_asked_about_anew(started, start_asking):
    point = started(AuthZEN, lambda document: True)
    attested = start_asking(point, **CACHED)
    other = attested.new_phone()
    with questions(point, 4):
        for _ in range(2):
            for phone in [attested.phone, other]:
                assert ask(attested, get("/device/1"), get("/certificate/1"), phone=phone) == [None] * 2


def test_the_network_is_part_of_the_question_where_it_is_sent(started, start_asking):
    point = started(DataAPI, lambda document: True)
    attested = start_asking(point, sends=["client_network"], **CACHED)

    def ask_from(source):
        with Client(attested.gateway, attested.phone.identity, source=source) as client:
            assert client.exchange(get("/device/1")).status == 200
    with questions(point, 2):
        # The first two are of one network.
        for source in ["127.0.0.7", "127.0.0.8", "127.0.9.7", "127.0.0.7"]:
            ask_from(source)


def test_what_a_template_makes_of_the_path_is_part_of_the_question(started, start_asking):
    point = started(AuthZEN, lambda document: document["resource"]["id"] != "7")
    attested = start_asking(
        point, mapping={"templates": [{"path": "/device/{id}", "resource": {"type": "record", "id": "{id}"}}]}, **CACHED)
    assert ask(attested, get("/device/1"), get("/device/7"), get("/device/1"), get("/device/7")) == [
        None, "policy_denied", None, "policy_denied"]
    assert [document["resource"]["id"] for document in point.documents] == ["1", "7"]


def test_a_failure_is_never_kept(started, start_asking):
    point = started(AuthZEN, lambda document: True)
    attested = start_asking(point, **CACHED)
    point.misbehave("status 500")
    with questions(point, 2), attested.phone.connect() as client:
        for _ in range(2):
            assert_unavailable(attested.gateway, client.exchange(get("/device/1")))
    point.behave()
    with questions(point, 1):
        assert ask(attested, get("/device/1"), get("/device/1")) == [None] * 2
    # What is known needs no decision point.
    point.go()
    assert ask(attested, get("/device/1")) == [None]


def test_an_answer_ends_with_its_time(started, start_asking):
    def attempt(seconds):
        point = started(AuthZEN, lambda document: True)
        attested = start_asking(point, cache=f"{seconds}s")
        with attested.phone.connect() as client:
            assert client.exchange(get("/device/1")).status == 200
            assert client.exchange(get("/device/1")).status == 200
            assert len(point.documents) == 1
            while len(point.documents) == 1:
                assert client.exchange(get("/device/1")).status == 200
    at_some_pace(attempt)


def test_a_revoked_device_is_refused_at_once_although_it_is_allowed(started, start_asking):
    point = started(AuthZEN, lambda document: True)
    attested = start_asking(point, **CACHED)
    phone = attested.new_phone()
    proof = phone.request()
    with questions(point, 1), phone.connect() as client:
        assert client.exchange(get("/device/1")).status == 200
    with questions(point, 0), attested.nothing_forwarded():
        attested.gateway.device_command("revoke", str(phone.number))
        for data in [get("/device/1"), proof]:
            try:
                with phone.connect() as client:
                    assert code_of(client.exchange(data)) == "device_revoked"
            except OSError:
                attested.gateway.logged(event="connection_refused", denial="device_revoked")


def test_a_reload_keeps_no_answer(started, start_asking):
    point = started(AuthZEN, lambda document: True)
    attested = start_asking(point, **CACHED)
    with questions(point, 2):
        assert ask(attested, get("/device/1")) == [None]
        attested.gateway.conf["decision_points"]["pdp"]["sends"] = ["method"]
        attested.gateway.write_conf()
        assert attestgate("reload", "--config", attested.gateway.conf_path).returncode == 0
        assert ask(attested, get("/device/1")) == [None]


def test_a_change_of_the_posture_is_asked_about_anew(started, tmp_path, pki, upstream):
    """An Android phone attests again whenever it binds a key: all its certificates then have other facts."""
    point = started(DataAPI, lambda document: True)
    enrolling = Enrolling(tmp_path, pki, upstream, platforms=["android"], enrolment={"rotation_overlap": "1h"})
    gateway = enrolling.gateway
    gateway.conf["routes"] = [{**POLICY, "name": "device", "path": "/", "require": "device", "upstream": "service"}]
    gateway.conf["policies"] = {"records": {"pdp": "pdp"}}
    gateway.conf["decision_points"] = {"pdp": {
        "kind": "opa", "url": point.url, "path": "/v1/data/a", "timeout": "10s", "sends": ["posture"], **CACHED}}
    enrolling.start()
    try:
        phone, mtls = enrolling.phone(), MTLSKey()
        identity = phone.identity(tmp_path, mtls, phone.enrol(mtls))
        with Client(gateway, identity) as client:
            for _ in range(2):
                assert client.exchange(get("/device/1")).status == 200
            assert len(point.documents) == 1
            before = point.documents[0]["posture"]
            assert before["patch_level"] == "2026-02"
            # Times are whole seconds.
            eventually(lambda: phone.bind(MTLSKey()).status == 200 and attested_at(gateway) != before["attested_at"], "another second")
            for _ in range(2):
                assert client.exchange(get("/device/1")).status == 200
        assert len(point.documents) == 2
        assert point.documents[1]["posture"] == {**before, "attested_at": attested_at(gateway)}
    finally:
        enrolling.stop()


def test_another_version_that_a_proof_states_is_asked_about_anew(started, start_asking):
    """What a proof states counts for its own request already."""
    point = started(DataAPI, lambda document: document["posture"].get("app_version") != "1.9")
    attested = start_asking(point, sends=["posture"], **CACHED)
    phone = attested.phone

    def ask_with(version):
        return ask(attested, phone.request(path="/records/1", **shows(APP_STORE, version)))
    with questions(point, 2):
        assert ask_with("2.1") == [None] and ask_with("1.9") == ["policy_denied"]
    # The denied proof was genuine: it is what is known of the device now.
    with questions(point, 0):
        assert ask(attested, phone.request(path="/records/1", **shows(APP_STORE, "1.9"))) == ["policy_denied"]
    with questions(point, 1):
        assert ask_with("2.1") == [None]


def attested_at(gateway):
    return json.loads(gateway.device_command("show", "1", "--json"))["posture"]["attested_at"]


def test_two_equal_questions_at_once_are_asked_twice_and_kept_once(started, start_asking):
    point = started(AuthZEN, lambda document: True)
    attested = start_asking(point, **CACHED)
    with HTTP2Client(attested.gateway, attested.phone.identity) as client:
        with holding(point):
            waiting = [start_request(client, get("/device/1")) for _ in range(2)]
            wait_for_questions(point, 2)
        assert [each().status for each in waiting] == [200, 200]
        with questions(point, 0):
            assert client.exchange(get("/device/1")).status == 200
