"""The interoperability scenarios of OpenID AuthZEN, through the gateway: what is published there is decided here."""

import pytest

from support.client import get
from support.deciding import PATIENT
from support.decision_points import EVALUATION, AuthZEN
from support.denials import code_of
from support.todo_scenario import MORTY, RICK, ROLES, TodoPolicy, decisions, gateway_decisions

ACTIONS = {
    "can_read_user": ("GET", "/users/{userID}"),
    "can_read_todos": ("GET", "/todos"),
    "can_create_todo": ("POST", "/todos"),
    "can_update_todo": ("PUT", "/users/{ownerID}/todos/{id}"),
    "can_delete_todo": ("DELETE", "/users/{ownerID}/todos/{id}"),
}
USER = {"type": "user", "id": "device"}
# As policies of the scenario know it: a service has the owner of a todo in its path.
APPLICATION = {
    "subject": USER,
    "templates": [
        {"path": "/users/{userID}", "action": {"GET": "can_read_user"}, "resource": {"type": "user", "id": "{userID}"}},
        {"path": "/todos", "action": {"GET": "can_read_todos", "POST": "can_create_todo"},
         "resource": {"type": "todo", "id": "=todo-1"}},
        {"path": "/users/{ownerID}/todos/{id}", "action": {"PUT": "can_update_todo", "DELETE": "can_delete_todo"},
         "resource": {"type": "todo", "id": "{id}"}},
    ]}
# Of the scenario for gateways, which know method and route alone.
GATEWAY = {
    "subject": {"type": "identity", "id": "device"}, "resource": {"type": "route", "id": "path-template"},
    "templates": [{"path": path} for path in ["/users/{userId}", "/todos", "/todos/{todoId}"]]}


@pytest.fixture(scope="module")
def scenario(start_shared):
    """A gateway that asks by both mappings, and the phones of five people."""
    policy = TodoPolicy({})
    points = {name: AuthZEN(policy) for name in ("application", "gateway")}
    sections = {
        name: {"kind": "authzen", "url": point.url, "path": EVALUATION, "timeout": PATIENT, "sends": ["path"],
               "mapping": {"application": APPLICATION, "gateway": GATEWAY}[name]}
        for name, point in points.items()}
    attested = start_shared(
        routes=[
            *({"name": name, "host": host, "path": "/", "require": "device", "policy": name}
              for name, host in (("application", "localhost"), ("gateway", "127.0.0.1"))),
            {"name": "sentinel", "host": "localhost", "path": "/sentinel"},
            {"name": "who", "host": "localhost", "path": "/who", "require": "device"}],
        policies={name: {"pdp": name} for name in points}, decision_points=sections)
    phones = {}
    for person in ROLES:
        phones[person] = phone = attested.new_phone()
        with phone.connect() as client:
            assert client.exchange(get("/who")).status == 200
        [name] = attested.upstream.last_request().values("attest-device")
        policy.people[name] = person
    yield attested, points, phones
    for point in points.values():
        point.stop()


def decide(attested, phone, method, path, host="localhost"):
    with phone.connect(server_name=None) as client:
        return code_of(client.exchange(get(path, host=host, method=method)))


def test_the_published_decisions_are_those_of_the_gateway(scenario):
    attested, points, phones = scenario
    rows = list(decisions())
    assert len(rows) == 40
    for person, action, kind, identifier, owner, expected in rows:
        method, template = ACTIONS[action]
        path = template.replace("{userID}", identifier).replace("{ownerID}", owner or "").replace("{id}", identifier)
        code = decide(attested, phones[person], method, path)
        assert code == (None if expected else "policy_denied"), (person, action, path)
        document = points["application"].documents[-1]
        assert document["action"] == {"name": action}
        assert (document["resource"]["type"], document["resource"]["id"]) == (kind, identifier)
        assert document["subject"]["type"] == "user"
        if owner is not None:
            assert document["resource"]["properties"]["ownerID"] == owner


def test_the_published_decisions_for_gateways_are_those_of_the_gateway(scenario):
    attested, points, phones = scenario
    rows = list(gateway_decisions())
    assert len(rows) == 25
    for person, method, template, expected in rows:
        path = template.replace("{userId}", "beth@the-smiths.com").replace("{todoId}", "7")
        code = decide(attested, phones[person], method, path, "127.0.0.1")
        assert code == (None if expected else "policy_denied"), (person, method, path)
        document = points["gateway"].documents[-1]
        assert document["action"] == {"name": method}
        assert (document["resource"]["type"], document["resource"]["id"]) == ("route", template)
        assert document["subject"]["type"] == "identity"


@pytest.mark.parametrize("path", [
    "/", "/users", "/users/", "/users/a/b", "/todos/", "/users//todos/1", "/users/a/todos/1/2", "/Todos"])
def test_a_path_that_no_template_has_is_denied_unasked(scenario, path):
    attested, points, phones = scenario
    before = len(points["application"].documents)
    code = decide(attested, phones[RICK], "GET", path)
    # Some are no path of a request.
    assert code in ("policy_denied", "request_malformed"), code
    assert len(points["application"].documents) == before


@pytest.mark.parametrize("owner", ["morty%40the-citadel.com", "morty@the-citadel.com"])
def test_no_spelling_of_an_owner_is_another_owner(scenario, owner):
    attested, points, phones = scenario
    assert decide(attested, phones[MORTY], "PUT", f"/users/{owner}/todos/1") is None
    assert points["application"].documents[-1]["resource"]["properties"]["ownerID"] == MORTY


@pytest.mark.parametrize("owner", [
    "morty@the-citadel.com%00", "morty@the-citadel.com%2F", "morty@the-citadel.com%20", "MORTY@the-citadel.com", "%FF",
    "%6D%6Frty@the-citadel.com", "rick@the-citadel.com%2F..%2Fmorty@the-citadel.com", "..%2Fmorty@the-citadel.com"])
def test_no_attack_makes_an_owner_of_another_text(scenario, owner):
    attested, points, phones = scenario
    assert decide(attested, phones[MORTY], "PUT", f"/users/{owner}/todos/1") in ("policy_denied", "request_malformed")


def test_a_stranger_has_no_role(scenario):
    attested, points, phones = scenario
    stranger = attested.new_phone()
    for method in ["GET", "POST"]:
        assert decide(attested, stranger, method, "/todos") == "policy_denied"
