"""One app on a phone obtains tokens for a learning platform and for another app, which are revoked one by one. Built programs,
a real service, both stores."""

import json

import pytest
from cryptography.hazmat.primitives import serialization

from support.enrolling_phone import MTLSKey
from support.enrolment import admission_token
from support.federation import Agent
from support.pki import attestgate
from support.taking_over import adopt_orphans, upgrade


@pytest.mark.parametrize("store", ["file", "database"])
def test_an_agent_obtains_passes_on_and_revokes_tokens(start_federation, request, store):
    federation = start_federation(
        registry={"postgresql": request.getfixturevalue("database").conf} if store == "database" else {})
    platform = federation.platforms[0]
    agent = federation.agent()
    instance = agent.registered()
    service = agent.token(platform)
    assert service["token_type"] == "Bearer" and service["scope"] == "profile courses"

    # The platform lets the agent in, and knows the person by a pseudonym of its own.
    status, seen = platform.courses(service["access_token"])
    assert status == 200 and seen["app"] is None

    # Another app on the phone gets a narrower token.
    app = agent.app_token(service)
    assert platform.courses(app["access_token"]) == (200, {"student": seen["student"], "app": "org.example.reader"})
    narrower = agent.app_token(service, scope="profile")
    assert platform.courses(narrower["access_token"]) == (403, None)

    # One is revoked by its holder, and the others live.
    agent.revoke(app["access_token"], app["access_token"])
    assert not federation.is_active(platform, app["access_token"])
    assert federation.is_active(platform, service["access_token"]) and federation.is_active(platform, narrower["access_token"])

    # The operator sees them.
    shown = json.loads(federation.gateway.device_command("show", "1", "--json"))["federation_tokens"]
    assert {token["kind"] for token in shown} == {"instance", "service", "app"}
    assert [token["id"] for token in shown if token["revoked_at"]] == [app["jti"]]
    assert service["access_token"] not in json.dumps(shown)
    assert "service token" in federation.gateway.device_command("show", "1")

    # The instance is revoked, and with it all that it obtained.
    agent.revoke(instance["access_token"], instance["access_token"])
    for token in service, narrower:
        assert not federation.is_active(platform, token["access_token"])
    assert platform.courses(service["access_token"]) == (401, None)
    refused = agent.derive(aud=platform.url)
    assert (refused.status_code, refused.json()["error"]) == (400, "invalid_grant")


def test_the_tokens_of_a_revoked_device_are_refused_at_once(start_federation):
    federation = start_federation()
    platform, agent = federation.platforms[0], federation.agent()
    agent.registered()
    token = agent.token(platform)
    assert federation.is_active(platform, token["access_token"])
    federation.gateway.device_command("revoke", "1")
    assert not federation.is_active(platform, token["access_token"])
    refused = agent.register()
    assert (refused.status_code, refused.json()["error"]) == (401, "invalid_client")


def test_a_code_lets_the_platform_obtain_its_own_token(start_federation):
    federation = start_federation()
    platform, agent = federation.platforms[0], federation.agent()
    agent.registered()
    answer = agent.derive(path="/authorize", aud=platform.url, scope="courses")
    assert answer.status_code == 200, answer.text
    code = answer.json()["code"]
    first = federation.http.post(f"{platform.url}/login", content=code)
    assert first.status_code == 200, first.text
    token = first.json()["access_token"]
    assert platform.courses(token)[0] == 200
    # A second use of the code ends the token.
    assert federation.http.post(f"{platform.url}/login", content=code).json()["error"] == "invalid_grant"
    assert platform.courses(token) == (401, None)


def test_the_grant_is_known_to_its_service_by_its_jti(start_federation):
    federation = start_federation(platform_count=2)
    (platform, other), agent = federation.platforms, federation.agent()
    agent.registered()
    token = agent.token(platform)

    def validate(service):
        return federation.post("/token/validate", basic=service.credentials, json={"jti": token["jti"]})

    seen = federation.introspect(platform, token["access_token"])
    assert validate(platform).json() == {"sub": seen["sub"], "iat": seen["iat"]}
    assert validate(other).status_code == 404


def test_tokens_survive_a_restart_and_a_backup(start_federation):
    federation = start_federation()
    platform, agent = federation.platforms[0], federation.agent()
    agent.registered()
    token, gone = agent.token(platform), agent.token(platform)
    agent.revoke(gone["access_token"], gone["access_token"])
    federation.gateway.halt()
    backup = federation.directory / "backup"
    done = attestgate("registry", "export", str(backup), "--config", federation.gateway.conf_path)
    assert done.returncode == 0 and "1 service, 3 federation tokens" in done.stdout, done.stderr + done.stdout
    path = federation.directory / "gateway" / "registry.sqlite"
    for file in path.parent.glob("registry.sqlite*"):
        file.rename(file.with_name(f"old-{file.name}"))
    done = attestgate(
        "registry", "import", "--accept-lost-revocations", str(backup), "--config", federation.gateway.conf_path)
    assert done.returncode == 0, done.stderr
    federation.gateway.start()
    assert federation.is_active(platform, token["access_token"])
    assert not federation.is_active(platform, gone["access_token"])
    # Which assertions were used since the backup is not known: none is taken until all of them have expired.
    refused = agent.derive(aud=platform.url)
    assert (refused.status_code, refused.json()["error"]) == (400, "invalid_grant")


def test_a_reload_changes_what_is_granted_and_keeps_tokens(start_federation):
    federation = start_federation()
    platform, agent = federation.platforms[0], federation.agent()
    agent.registered()
    token = agent.token(platform)
    federation.change(scopes=["profile"])
    assert agent.registered()["scope"] == "profile"
    assert federation.is_active(platform, token["access_token"])
    # The new instance has less to pass on.
    assert agent.derive(aud=platform.url, scope="courses").json()["error"] == "invalid_scope"
    platform.await_description()


def test_a_person_is_one_at_a_service_on_every_device(start_federation, tmp_path):
    issuer = MTLSKey()
    path = tmp_path / "issuer.pem"
    path.write_bytes(issuer.private.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo))
    federation = start_federation(
        platform_count=2, federation={"person": "required"},
        enrolment={"admission": "token", "token": {"issuer": "https://login.example", "keys": [str(path)]}})

    def agent(person):
        phone, mtls = federation.enrolling.phone(), MTLSKey()
        assert phone.initialize().status == 204
        token = admission_token(issuer, mtls, federation.enrolling.provider, sub=person)
        assert phone.bind(mtls, claims={"admission_token": token}).status == 200
        made = Agent(federation, phone, mtls)
        made.instance = made.registered()["access_token"]
        return made

    first, second, stranger = agent("student-1"), agent("student-1"), agent("student-2")

    def seen(agent, platform):
        return federation.introspect(platform, agent.token(platform)["access_token"])["sub"]

    platform, other = federation.platforms
    assert seen(first, platform) == seen(second, platform)
    assert len({seen(first, platform), seen(stranger, platform), seen(first, other)}) == 3

    def used(agent):
        answer = federation.http.get("/service-discovery/user", headers={"Authorization": f"Bearer {agent.instance}"})
        return {entry["link"] for entry in answer.json()}

    assert used(second) == used(first) == {platform.url, other.url} and used(stranger) == {platform.url}
    # A person who is barred loses everything on every device.
    done = attestgate(
        "device", "revoke", "--subject", "student-1", "--issuer", "https://login.example", "--config",
        federation.gateway.conf_path)
    assert done.returncode == 0, done.stderr
    for revoked in first, second:
        assert revoked.derive(aud=platform.url).json()["error"] == "invalid_grant"
    assert stranger.derive(aud=platform.url).status_code == 200


def test_an_upgrade_hands_over_the_federation(start_federation):
    adopt_orphans()
    federation = start_federation()
    platform, agent = federation.platforms[0], federation.agent()
    agent.registered()
    token = agent.token(platform)
    upgrade(federation.gateway)
    federation.change(name="Another")
    assert federation.is_active(platform, token["access_token"])
    assert federation.is_active(platform, agent.token(platform)["access_token"])
    assert federation.http.get("/services.txt").json()["engineName"] == "Another"
