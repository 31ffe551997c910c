"""The gateway as the reference system's enforcement point: device tokens, a decision by OPA, and refusals in its form."""

import json

import pytest

from support.client import Client, get
from support.decision_points import Answer, DataAPI
from support.device_tokens import TokenIssuer

MODEL = {"deviceHealth": {"deviceAttributes": {"systemModel": "iPhone14,2"}}}
FACTS = ["method", "route", "device", "app", "platform", "posture", "subject"]
COMMON = {"host": "localhost", "require": "device", "policy": "records"}


def is_admitted(document):
    """Allows what a device token states of one model."""
    attributes = document.get("deviceTokenPayload", {}).get("deviceHealth", {}).get("deviceAttributes", {})
    allows = attributes.get("systemModel") == "iPhone14,2"
    violations = [] if allows else [{"errorCode": "device_system_model_not_match", "errorDescription": "Gerät ungültig"}]
    part = {"allow": allows, "violations": violations}
    return {"allow": allows, "device": part, "security": {"allow": True, "violations": []}}


@pytest.fixture
def issuer(tmp_path):
    return TokenIssuer(tmp_path / "tokens")


@pytest.fixture
def reference(started, start_asking, issuer):
    """Starts a gateway with the role of the reference's; returns it with its decision point."""
    def start(device_token="required", **changes):
        point = started(DataAPI, is_admitted)
        routes = [
            {**COMMON, "name": "records", "path": "/", "profile": "dsr", "device_token": device_token},
            {**COMMON, "name": "own", "path": "/own", "device_token": device_token},
            {"name": "sentinel", "host": "localhost", "path": "/sentinel"}]
        more = {"routes": routes, "device_tokens": issuer.settings()}
        changes = {"profile": "dsr", "sends": FACTS, **changes}
        return start_asking(point, platforms=["ios"], more=more, **changes), point
    return start


def ask(attested, token=None, path="/records/1"):
    fields = [] if token is None else [f"X-Device-Token: {token}"]
    with Client(attested.gateway, attested.phone.identity) as client:
        return client.exchange(get(path, *fields))


def result_of(response, status=403):
    """- Returns: the refusal of the reference's form, which is content and field."""
    assert response.status == status, response
    field, = response.values("x-pep-result")
    assert field.encode() == response.content and field.isascii()
    return json.loads(field)


def test_the_claims_of_the_token_are_what_is_decided_about(reference, issuer):
    attested, point = reference()
    claims = issuer.claims(attested.phone.identity, userIdentifier="TEST KVNR", **MODEL)
    assert ask(attested, issuer.sign(claims)).status == 200
    document, = point.documents
    assert document["deviceTokenValid"] is True and document["deviceTokenPayload"] == claims


def test_a_policy_denial_has_the_form_of_the_reference(reference, issuer):
    attested, _ = reference()
    with attested.nothing_forwarded():
        result = result_of(ask(attested, issuer.token(attested.phone.identity)))
    assert (result["errorCode"], result["description"]) == ("POLICY_DENIED", "Policy denied")
    decision = result["decision"]["result"]
    assert decision["allow"] is False and decision["violations"] == [{"errorCode": "device_system_model_not_match"}]
    assert decision["reason_user"] == "Gerät ungültig"
    # Its denial is the same row as elsewhere.
    assert attested.gateway.logged(denial="policy_denied")["status"] == 403


@pytest.mark.parametrize("token", [None, "abc"])
def test_a_missing_or_bad_token_is_403_with_the_reason_in_a_field(reference, token):
    attested, point = reference()
    with attested.nothing_forwarded():
        assert result_of(ask(attested, token)) == {"errorCode": "ACCESS_DENIED", "description": "Access denied"}
        # Everywhere else it is 401.
        assert ask(attested, token, "/own/1").status == 401
    assert point.documents == []


def test_an_unavailable_decision_point_is_an_error_of_the_server(reference, issuer):
    attested, point = reference()
    point.script = lambda asked: Answer(500, {})
    with attested.nothing_forwarded():
        result = result_of(ask(attested, issuer.token(attested.phone.identity)), 500)
    assert result == {"errorCode": "INTERNAL_SERVER_ERROR", "description": "Internal server error"}


def test_other_refusals_keep_their_form(reference, pki):
    attested, _ = reference()
    with Client(attested.gateway, pki.phone("stranger")) as client:
        response = client.exchange(get("/records/1"))
    assert response.status == 401 and response.values("x-pep-result") == []
    assert json.loads(response.content)["error"] == "device_unknown"


def test_an_optional_token_may_be_absent_but_not_invalid(reference, issuer):
    attested, point = reference("optional")
    point.script = lambda asked: Answer(200, {"result": {"allow": True}})
    assert ask(attested).status == 200
    # Without a token, what the registry knows takes its place.
    assert point.documents[-1]["deviceTokenPayload"]["type"] == "IOS"
    with attested.nothing_forwarded():
        assert result_of(ask(attested, "abc"))["errorCode"] == "ACCESS_DENIED"
    claims = issuer.claims(attested.phone.identity)
    assert ask(attested, issuer.sign(claims)).status == 200
    assert point.documents[-1]["deviceTokenPayload"] == claims


def test_the_answer_for_one_token_is_not_kept_for_another(reference, issuer):
    attested, point = reference("optional", cache="1h")
    good, bad = issuer.token(attested.phone.identity, **MODEL), issuer.token(attested.phone.identity)
    assert [ask(attested, token).status for token in (good, good, bad, None, good)] == [200, 200, 403, 403, 200]
    # The question about the good token comes again, because another one took its place.
    assert len(point.documents) <= 4


def test_a_decision_point_that_is_not_sent_all_facts_is_not_sent_the_claims(reference, issuer):
    attested, point = reference(sends=["method", "route", "platform"])
    point.script = lambda asked: Answer(200, {"result": {"allow": True}})
    assert ask(attested, issuer.token(attested.phone.identity, userIdentifier="TEST KVNR")).status == 200
    assert point.documents[-1]["deviceTokenPayload"] == {"type": "IOS"}
