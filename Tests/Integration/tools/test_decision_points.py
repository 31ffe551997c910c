"""The tests' own decision points keep to their protocols, and notice who does not."""

import http.client
import json
import ssl
import threading

import pytest

from support import decision_points, todo_scenario
from support.decision_points import EVALUATION, METADATA, MISBEHAVIOURS, OPA, SCHEMA, AuthZEN
from support.pki import Identity, openssl
from support.todo_scenario import TodoPolicy

TRACE = "0123456789abcdef0123456789abcdef"
QUESTION = {
    "subject": {"type": "device", "id": "d-1", "properties": {"platform": "ios", "posture": {"risk": 3, "levels": ["a"]}}},
    "action": {"name": "GET"}, "resource": {"type": "route", "id": "records"}, "context": {"client_network": "192.0.2.0/24"}}


class Asking:
    """A kept connection to a decision point."""

    def __init__(self, point, authority=None):
        context = None if authority is None else ssl.create_default_context(cafile=authority)
        self.connection = (
            http.client.HTTPConnection("127.0.0.1", point.port, timeout=30) if context is None
            else http.client.HTTPSConnection("localhost", point.port, timeout=30, context=context))

    def exchange(self, method, path, content=None, **fields):
        known = {"Content-Type": "application/json", "X-Request-ID": TRACE} if method == "POST" else {}
        fields = known | {name.replace("_", "-"): value for name, value in fields.items()}
        fields = {name: value for name, value in fields.items() if value is not None}
        self.connection.putrequest(method, path, skip_accept_encoding=True)
        if content is not None:
            fields["Content-Length"] = str(len(content))
        for name, value in fields.items():
            self.connection.putheader(name, value)
        self.connection.endheaders(content)
        answer = self.connection.getresponse()
        return answer.status, answer.headers, answer.read()

    def ask(self, path, document, **fields):
        status, headers, content = self.exchange("POST", path, json.dumps(document).encode(), **fields)
        assert status == 200 and headers["Content-Type"] == "application/json", content
        return json.loads(content)


@pytest.fixture
def careless():
    """A decision point whose clients make mistakes."""
    point = AuthZEN(lambda document: True, token="t")
    yield point
    point.go()


def ask_input(point, path, document):
    return Asking(point).ask(f"/v1/data/{path}", {"input": document})


# AuthZEN

def test_authzen_answers_by_a_function_and_keeps_the_questions(started):
    point = started(AuthZEN, lambda document: document["action"]["name"] == "GET")
    asking = Asking(point)
    assert asking.ask(EVALUATION, QUESTION) == {"decision": True}
    denied = QUESTION | {"action": {"name": "PUT"}}
    assert asking.ask(EVALUATION, denied) == {"decision": False}
    assert point.documents == [QUESTION, denied]
    assert point.asked[0].connection is point.asked[1].connection and point.asked[0].fields["x-request-id"] == TRACE
    point.decide = lambda document: (False, {"reason_user": {"en": "No"}})
    assert asking.ask(EVALUATION, QUESTION) == {"decision": False, "context": {"reason_user": {"en": "No"}}}


@pytest.mark.parametrize("change", [
    {"subject": None}, {"subject": {"type": "device"}}, {"subject": {"type": "device", "id": ""}}, {"action": {}},
    {"action": {"name": 7}}, {"resource": {"type": "route", "id": "r", "extra": 1}}, {"extra": {}}, {"context": []},
    {"context": {"a": None}}, {"context": {"a": {"b": [None]}}},
    {"subject": {"type": "device", "id": "d", "properties": {"app": None}}}])
def test_authzen_refuses_what_its_schema_does_not_admit(careless, change):
    document = {name: value for name, value in (QUESTION | change).items() if value is not None}
    status, _, _ = Asking(careless).exchange("POST", EVALUATION, json.dumps(document).encode(), Authorization="Bearer t")
    assert status == 400 and len(careless.faults) == 1 and careless.asked == []


@pytest.mark.parametrize("fields, content, path", [
    ({"Content_Type": "text/plain"}, None, EVALUATION), ({"X_Request_ID": None}, None, EVALUATION),
    ({"Authorization": None}, None, EVALUATION), ({"Authorization": "Bearer u"}, None, EVALUATION),
    ({"Cookie": "a=b"}, None, EVALUATION), ({"Attest_Device": "d"}, None, EVALUATION), ({}, b"{", EVALUATION),
    ({}, b'{"action":{"name":"a"},"action":{"name":"b"}}', EVALUATION), ({}, None, "/")])
def test_authzen_refuses_what_is_no_request_of_a_gateway(careless, fields, content, path):
    content = content or json.dumps(QUESTION).encode()
    status, _, _ = Asking(careless).exchange("POST", path, content, **{"Authorization": "Bearer t"} | fields)
    assert status == 400 and len(careless.faults) == 1 and careless.asked == []


def test_the_schema_admits_the_least_that_the_standard_demands():
    AuthZEN.validator.check_schema(SCHEMA)
    least = {"subject": {"type": "a", "id": "b"}, "action": {"name": "c"}, "resource": {"type": "d", "id": "e"}}
    assert AuthZEN.validator.is_valid(least) and AuthZEN.validator.is_valid(QUESTION)


def test_authzen_describes_itself_over_tls(started, tmp_path):
    certificate, key = tmp_path / "point.pem", tmp_path / "point.key"
    openssl(
        "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1", "-subj", "/CN=point",
        "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", certificate)
    point = started(AuthZEN, lambda document: True, identity=Identity(certificate, key))
    status, _, content = Asking(point, certificate).exchange("GET", METADATA)
    assert status == 200 and json.loads(content) == {
        "policy_decision_point": point.url, "access_evaluation_endpoint": f"{point.url}{EVALUATION}"}
    point.metadata = {"access_evaluation_endpoint": "https://elsewhere.example/"}
    assert json.loads(Asking(point, certificate).exchange("GET", METADATA)[2])["access_evaluation_endpoint"].startswith(
        "https://elsewhere")
    assert Asking(point, certificate).ask(EVALUATION, QUESTION) == {"decision": True}


# The Todo scenario

def test_the_policy_of_the_todo_scenario_decides_as_published():
    policy, rows = TodoPolicy(), list(todo_scenario.decisions())
    assert len(rows) == 40 and sum(row[-1] for row in rows) == 26
    for person, action, kind, identifier, owner, expected in rows:
        resource = {"type": kind, "id": identifier} | ({} if owner is None else {"properties": {"ownerID": owner}})
        document = {"subject": {"type": "user", "id": person}, "action": {"name": action}, "resource": resource}
        assert AuthZEN.validator.is_valid(document)
        assert policy(document) is expected, document


def test_the_policy_of_the_gateway_scenario_decides_as_published():
    rows = list(todo_scenario.gateway_decisions())
    policy = TodoPolicy({f"pseudonym of {person}": person for person in todo_scenario.ROLES})
    assert len(rows) == 25 and sum(row[-1] for row in rows) == 19
    for person, method, route, expected in rows:
        document = {
            "subject": {"type": "identity", "id": f"pseudonym of {person}"}, "action": {"name": method},
            "resource": {"type": "route", "id": route}}
        assert policy(document) is expected, document
    assert policy(document | {"subject": {"type": "identity", "id": "stranger"}}) is False


# OPA

@pytest.mark.parametrize("document, expected", [
    ({"platform": "ios", "posture": {"os_version": "17.4"}}, []),
    ({"platform": "ios", "posture": {"os_version": "17.10.1"}}, []),
    ({"platform": "ios", "posture": {"os_version": "17.3"}}, ["os_outdated"]),
    ({"platform": "ios", "posture": {}}, ["os_outdated"]),
    ({"platform": "android", "posture": {"boot": "verified"}}, []),
    ({"platform": "android", "posture": {"boot": "failed"}}, ["boot_unverified"]),
    ({"platform": "android", "posture": {}}, ["boot_unverified"]),
    ({"platform": "ios", "method": "DELETE", "posture": {"os_version": "16"}}, ["os_outdated", "write_refused"]),
    ({"method": "DELETE", "subject": "p"}, ["posture_unknown"])])
def test_opa_decides_by_posture_in_rego(started, document, expected):
    point = started(OPA, "records")
    verdict = ask_input(point, "health/records/verdict", document)["result"]
    assert verdict["allow"] is (expected == []) and sorted(verdict["violations"]) == expected
    assert ask_input(point, "health/records/allow", document)["result"] is (expected == [])
    assert point.documents == [document, document]


def test_an_undefined_rule_of_opa_has_no_result(started):
    point = started(OPA, "records")
    assert ask_input(point, "health/records/only_get", {"method": "GET"}).keys() == {"decision_id", "result"}
    assert ask_input(point, "health/records/only_get", {"method": "PUT"}).keys() == {"decision_id"}
    assert ask_input(point, "no/such/rule", {}).keys() == {"decision_id"}


REFERENCE = {"listed_addresses": ["192.0.2.7"], "tenants": ["north"], "least_patch_level": "2026-01-01"}
IPHONE = {"type": "IOS", "deviceHealth": {"deviceAttributes": {"systemVersion": "17.4"}}}


def android(patch, level):
    return {"type": "ANDROID", "deviceHealth": {
        "deviceAttributes": {"build": {"version": {"securityPatch": patch}}},
        "keyIdAttestation": {"attestationSecurityLevel": level}}}


@pytest.mark.parametrize("request_input, payload, device, security", [
    ({"clientIP": "192.0.2.8", "headers": {"X-Tenant": ["north"]}, "query": {"form": ["json"]}}, IPHONE, [], []),
    ({"clientIP": "192.0.2.7", "headers": {}}, IPHONE, [], ["client_address_listed"]),
    ({"headers": {"X-Tenant": ["north", "south"]}}, IPHONE, [], ["tenant_not_match"]),
    ({"headers": {}, "query": {"form": ["json", "xml"]}}, IPHONE, [], ["form_not_match"]),
    ({"headers": {}}, {"type": "IOS", "deviceHealth": {"deviceAttributes": {"systemVersion": "15.1"}}},
     ["device_system_version_not_match"], []),
    ({"headers": {}}, android("2026-01-01", 2), [], []),
    ({"headers": {}}, android("2025-12-01", 0), ["device_patch_level_not_match", "device_security_level_not_match"], []),
    ({"headers": {}}, None, ["device_token_invalid"], [])])
def test_the_reference_policy_names_what_is_wrong_with_device_and_request(started, request_input, payload, device, security):
    point = started(OPA, "reference", data=REFERENCE)
    document = {"request": request_input, "deviceTokenValid": payload is not None}
    document |= {} if payload is None else {"deviceTokenPayload": payload}
    verdict = ask_input(point, "reference/api/verdict", document)["result"]
    assert verdict.keys() == {"allow", "device", "security"} and verdict["allow"] is (device == security == [])
    for part, expected in (("device", device), ("security", security)):
        assert verdict[part]["allow"] is (expected == [])
        assert sorted(violation["errorCode"] for violation in verdict[part]["violations"]) == expected


def test_opa_refuses_what_is_no_input():
    point = OPA("records")
    for path, content in [
            ("/v1/data/health/records/allow", {}), ("/v1/data/health/records/allow", {"input": 7}), ("/v1/data/", {"input": {}}),
            ("/v1/data/health/records/allow", {"input": {}, "x": 1}), ("/v1/policies/health", {"input": {}}),
            ("/v1/data/health/records/allow?pretty=true", {"input": {}})]:
        assert Asking(point).exchange("POST", path, json.dumps(content).encode())[0] == 400
    assert len(point.faults) == 6 and point.asked == []
    point.go()


def test_without_rego_a_test_is_skipped_with_the_reason(monkeypatch):
    def missing(name):
        raise ImportError(f"No module named '{name}'")
    monkeypatch.setattr(decision_points.importlib, "import_module", missing)
    with pytest.raises(pytest.skip.Exception, match="no Rego: No module named 'regopy'"):
        OPA("records")


# Misbehaviour

@pytest.mark.parametrize("name", MISBEHAVIOURS)
def test_no_misbehaviour_is_a_decision_and_it_ends(started, name):
    point = started(AuthZEN, lambda document: True)
    point.misbehave(name)
    try:
        status, headers, content = Asking(point).exchange("POST", EVALUATION, json.dumps(QUESTION).encode())
    except (http.client.HTTPException, OSError):
        assert name.startswith("closes")
    else:
        assert not name.startswith("closes")
        decided = None
        if status == 200 and headers["Content-Type"] == "application/json" and len(content) <= 64 << 10:
            # Python's reader takes what has a member twice, and any depth.
            try:
                decided = json.loads(content).get("decision") if content.count(b"decision") == 1 else None
            except (ValueError, AttributeError):
                decided = None
        assert decided is not True or name == "nested"
    assert point.documents == [QUESTION]
    point.behave()
    assert Asking(point).ask(EVALUATION, QUESTION) == {"decision": True}


def test_a_slow_decision_point_answers_when_it_is_released(started):
    point = started(AuthZEN, lambda document: True)
    point.misbehave("slow")
    answers = []
    thread = threading.Thread(target=lambda: answers.append(Asking(point).ask(EVALUATION, QUESTION)))
    thread.start()
    while not point.documents:
        thread.join(0.01)
    assert answers == []
    point.behave()
    thread.join()
    assert answers == [{"decision": True}]


def test_a_decision_point_goes_and_comes_back_on_its_port(started):
    point = started(AuthZEN, lambda document: True)
    asking = Asking(point)
    asking.ask(EVALUATION, QUESTION)
    point.go()
    with pytest.raises((http.client.HTTPException, OSError)):
        asking.ask(EVALUATION, QUESTION)
    with pytest.raises(OSError):
        Asking(point).ask(EVALUATION, QUESTION)
    point.come_back()
    assert Asking(point).ask(EVALUATION, QUESTION) == {"decision": True}
    point.restart()
    assert Asking(point).ask(EVALUATION, QUESTION) == {"decision": True}
    assert len(point.documents) == 3
