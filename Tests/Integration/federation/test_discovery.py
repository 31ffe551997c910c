"""Services that join, their RSD2 documents, and how apps find them."""

import hashlib
import json
import secrets
import uuid

import pytest

from support.federation import COURSES, Federating, LearningPlatform
from support.waiting import eventually


@pytest.fixture(scope="module")
def agent(shared_federation):
    made = shared_federation.agent()
    made.token_text = made.registered()["access_token"]
    return made


def ask(federation, path, content, token):
    return federation.post(path, token=token, json=content)


def speaking(federation, agent, *protocols):
    answer = ask(federation, "/protocol-discovery/protocol", list(protocols), agent.token_text)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_services_are_found_by_all_protocols_of_a_list(federation, agent):
    platforms = federation.platforms
    eventually(lambda: len(speaking(federation, agent, COURSES)) == 2, "both descriptions")
    found = speaking(federation, agent, COURSES, "org.ietf.oauth2")
    assert sorted(each["engineLink"] for each in found) == sorted(platform.url for platform in platforms)
    assert all(each["apis"][COURSES]["apiLink"] == "/courses" for each in found)
    assert speaking(federation, agent, COURSES, "org.example.other") == []
    assert speaking(federation, agent) == []
    described = ask(federation, "/protocol-discovery/service", [platforms[0].url, "https://other.example"], agent.token_text)
    assert [each["engineLink"] for each in described.json()] == [platforms[0].url]
    # Services may ask too.
    assert len(ask(federation, "/protocol-discovery/protocol", [COURSES], platforms[0].token).json()) == 2


def test_a_service_is_found_by_its_home_page_used_or_not(federation, agent):
    platform = federation.platforms[0]
    entry = {"name": "Learning", "link": platform.url, "token_endpoint": f"{platform.url}/token", "info": "Courses of a university"}
    used = federation.http.get("/service-discovery/user", headers={"Authorization": f"Bearer {agent.token_text}"})
    assert used.json() == []
    assert ask(federation, "/service-discovery", platform.url, agent.token_text).json() == entry
    agent.token(platform)
    used = federation.http.get("/service-discovery/user", headers={"Authorization": f"Bearer {agent.token_text}"})
    assert used.json() == [entry]
    assert ask(federation, "/service-discovery", "https://other.example", agent.token_text).status_code == 404


def test_discovery_is_for_callers_with_tokens(federation, agent):
    token = agent.token(federation.platforms[0])["access_token"]
    for path, content in ("/protocol-discovery/protocol", [COURSES]), ("/protocol-discovery/service", []), ("/service-discovery", "a"):
        for text in None, secrets.token_urlsafe(32), "x":
            answer = ask(federation, path, content, text)
            assert (answer.status_code, answer.json()["error"]) == (401, "invalid_token"), path
            assert answer.headers["WWW-Authenticate"].startswith("Bearer ")
    answer = federation.http.get("/service-discovery/user", headers={"Authorization": f"Bearer {token}"})
    assert (answer.status_code, answer.json()["error"]) == (401, "invalid_token")


def test_lists_that_are_none_or_too_long_are_refused(federation, agent):
    for content in [
            b"", b"{", b"[", b"1", b"null", b'{"a":"b"}', b"[1]", b'[""]', b'["a"],"b":["c"]', b'["a"]}{',
            json.dumps([f"org.example.{number}" for number in range(10_000)]).encode(),
            json.dumps([f"p{number}" for number in range(65)]).encode(), json.dumps(["x" * 2000]).encode()]:
        answer = federation.http.post(
            "/protocol-discovery/protocol", content=content,
            headers={"Authorization": f"Bearer {agent.token_text}", "Content-Type": "application/json"})
        assert answer.status_code in (400, 413) and answer.json()["error"] == "invalid_request", content[:40]


def test_the_federation_describes_itself(federation):
    own = federation.http.get("/services.txt").json()
    assert own["engineLink"] == federation.url and own["apis"]["org.ietf.oauth2"]["apiLink"] == "/token"


# Joining.


def members(**change):
    return {
        "service_uuid": str(uuid.uuid4()), "name": "Files", "mainurl": "https://files.example",
        "token_endpoint": "https://files.example/token", "rsdurl": "https://files.example/services.txt", **change}


def test_services_join_by_an_operator_only_and_well_formed(federation, agent):
    assert federation.join(operator=secrets.token_urlsafe(32), **members()).status_code == 401
    assert federation.join(operator=agent.token_text, **members()).status_code == 401
    assert federation.join(operator=federation.platforms[0].token, **members()).status_code == 401
    for change in [
            {"service_uuid": "x"}, {"service_uuid": str(uuid.uuid4()).upper()}, {"name": ""}, {"name": "x" * 300}, {"name": 1},
            {"name": "a\nb"}, {"mainurl": "http://files.example"}, {"mainurl": "https://127.0.0.1"}, {"rsdurl": "file:///etc/passwd"},
            {"rsdurl": "https://user@files.example/"}, {"token_endpoint": "https://files.example/\r\nX: y"}, {"other": "x"},
            {"mainurl": federation.platforms[0].url}, {"mainurl": f"{federation.url}/a"}, {"info": "x" * 2000}]:
        answer = federation.join(**members(**change))
        assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request"), change
    absent = members()
    del absent["rsdurl"]
    assert federation.join(**absent).status_code == 400


def test_an_operator_replaces_no_service_of_another(federation, agent):
    platform = federation.platforms[0]
    answer = federation.join(operator=federation.other_operator, **members(service_uuid=platform.id))
    assert (answer.status_code, answer.json()["error"]) == (400, "unauthorized_client")
    assert federation.introspect(platform, agent.token(platform)["access_token"])["active"] is True


def test_a_service_that_is_not_approved_is_nothing(federation, agent):
    platform = LearningPlatform(federation, approved=False)
    try:
        for answer in (
                federation.post("/introspect", {"token": "x"}, basic=platform.credentials),
                agent.derive(aud=platform.url)):
            assert answer.json()["error"] in ("invalid_client", "invalid_request")
        assert ask(federation, "/service-discovery", platform.url, agent.token_text).status_code == 404
        assert ask(federation, "/protocol-discovery/protocol", [COURSES], platform.token).status_code == 401
        assert platform.fetches == 0
        assert "waiting" in federation.command("list") and platform.id in federation.command("list")
        platform.approve()
        token = agent.token(platform)["access_token"]
        assert federation.is_active(platform, token)
        platform.await_description()
        # It gets another token, and stays approved; the old one is refused.
        old = platform.token
        again = federation.join(
            service_uuid=platform.id, name="Learning II", mainurl=platform.url, token_endpoint=f"{platform.url}/token",
            rsdurl=f"{platform.url}/services.txt").json()
        assert again["approved"] is True
        assert federation.post("/introspect", {"token": token}, basic=(platform.id, old)).status_code == 401
        platform.token = again["token"]
        assert federation.is_active(platform, token)
        # Removed, it is nothing again.
        federation.command("remove", platform.id)
        assert federation.post("/introspect", {"token": token}, basic=platform.credentials).status_code == 401
        assert agent.derive(aud=platform.url).status_code == 400
    finally:
        platform.stop()
        federation.command("remove", platform.id)


# RSD2 documents.


def text(content, **fields):
    return 200, content if isinstance(content, bytes) else json.dumps(content).encode(), {"Content-Type": "text/plain", **fields}


def with_link(platform, link, name="apiLink"):
    if name != "apiLink":
        return text(platform.describing(**{name: link}))
    return text(platform.describing(apis={COURSES: {"apiLink": link}}))


BAD_DOCUMENTS = {
    "redirect": lambda platform: (302, b"", {"Location": "/elsewhere"}),
    "10 MiB": lambda platform: text(b'{"engineName":"' + b"x" * (10 << 20) + b'"}'),
    "HTML": lambda platform: (200, b"<html>", {"Content-Type": "text/html"}),
    "no JSON": lambda platform: text(b"engineName=Learning"),
    "array": lambda platform: text([]),
    "no apis": lambda platform: text({"engineName": "a", "engineLink": platform.url}),
    "apis as a list": lambda platform: text(platform.describing(apis=[])),
    "api without a link": lambda platform: text(platform.describing(apis={COURSES: {}})),
    "api as text": lambda platform: text(platform.describing(apis={COURSES: "/courses"})),
    "65 apis": lambda platform: text(platform.describing(apis={f"p{n}": {"apiLink": "/"} for n in range(65)})),
    "engine elsewhere": lambda platform: with_link(platform, "https://evil.example", "engineLink"),
    "engine without TLS": lambda platform: with_link(platform, platform.url.replace("https", "http"), "engineLink"),
    "home page elsewhere": lambda platform: with_link(platform, "https://evil.example", "homePageLink"),
    "link elsewhere": lambda platform: with_link(platform, "https://evil.example/courses"),
    "link under another name": lambda platform: with_link(platform, "https://evil.example/notes", "notes"),
    "link with another port": lambda platform: with_link(platform, "https://localhost:1/courses"),
    "link with an authority": lambda platform: with_link(platform, "//evil.example/courses"),
    "link with a script": lambda platform: with_link(platform, "javascript:alert(1)"),
    "link that climbs": lambda platform: with_link(platform, "../../courses"),
    "link that climbs in disguise": lambda platform: with_link(platform, "/a/%2e%2E/courses"),
    "link with a backslash": lambda platform: with_link(platform, "\\\\evil.example"),
    "link with a line end": lambda platform: with_link(platform, "/courses\r\nX: y"),
    "status 500": lambda platform: (500, b"", {}),
}


@pytest.fixture(scope="module")
def refetching(pki, shared_upstream, tmp_path_factory):
    """A federation that fetches each second."""
    made = Federating(
        tmp_path_factory.mktemp("refetching"), pki, shared_upstream, federation={"services": {
            "authorities": str(pki.server_ca), "interval": "1s", "retry": "1s", "timeout": "5s"}})
    made.start()
    made.platform_ = made.platform()
    made.agent_ = made.agent()
    made.agent_.token_text = made.agent_.registered()["access_token"]
    yield made
    made.stop()
    made.platform_.stop()


@pytest.mark.parametrize("name", BAD_DOCUMENTS)
def test_bad_documents_are_not_passed_on(refetching, name):
    federation, platform, agent = refetching, refetching.platform_, refetching.agent_
    platform.script = None
    eventually(lambda: len(speaking(federation, agent, COURSES)) == 1, "the good description")
    platform.script = BAD_DOCUMENTS[name](platform)
    if name in ("redirect", "status 500", "HTML"):
        # The fetch has failed, and the last description is kept.
        before = platform.fetches
        eventually(lambda: platform.fetches >= before + 2, "two fetches")
    else:
        eventually(lambda: speaking(federation, agent, COURSES) == [], "the description to go")
    assert "evil" not in json.dumps(speaking(federation, agent, COURSES))
    assert "services: " in federation.gateway.errors
    platform.script = None
    eventually(lambda: len(speaking(federation, agent, COURSES)) == 1, "the good description again")


def test_the_secrets_of_operators_and_services_are_nowhere(federation, agent):
    platform = federation.platforms[0]
    token = agent.token(platform)["access_token"]
    stored = b"".join(path.read_bytes() for path in (federation.directory / "gateway").iterdir() if path.is_file())
    for secret in federation.operator, platform.token, token, agent.token_text:
        assert secret.encode() not in stored
        assert hashlib.sha256(secret.encode()).hexdigest() not in federation.gateway.errors
