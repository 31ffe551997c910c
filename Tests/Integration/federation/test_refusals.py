"""What a federation refuses: each error of RFC 6749, 6750, 7009, 7523 and 7662, and attacks on assertions and tokens."""

import json
import secrets
import time

import pytest

from support.client import get
from support.enrolling_phone import MTLSKey, b64url, jws
from support.federation import ASSERTION_TYPE, BEARER, basic
from support.pki import attestgate


def error(answer):
    """- Returns: status and code. Every refusal has the form of RFC 6749 section 5.2."""
    assert answer.headers["Cache-Control"] == "no-store" and answer.headers["Content-Type"] == "application/json"
    body = answer.json()
    assert set(body) == {"error", "error_description"} and body["error_description"].endswith(".")
    return answer.status_code, body["error"]


@pytest.fixture(scope="module")
def agent(shared_federation):
    made = shared_federation.agent()
    made.instance = made.registered()
    return made


@pytest.fixture
def platform(federation):
    return federation.platforms[0]


# Assertions.


def hs256(agent, **claims):
    """Signed with HMAC, whose key is the public key: RFC 8725 section 2.1."""
    import hashlib
    import hmac

    header, payload, _ = agent.assertion(header={"alg": "HS256"}, **claims).split(".")
    key = agent.mtls.point
    return f"{header}.{payload}.{b64url(hmac.new(key, f'{header}.{payload}'.encode(), hashlib.sha256).digest())}"


def unsigned(agent, **claims):
    header, payload, _ = agent.assertion(header={"alg": "none"}, **claims).split(".")
    return f"{header}.{payload}."


NOW = int(time.time())
BAD_ASSERTIONS = {
    "no JWT": lambda agent: "a.b",
    "long": lambda agent: agent.assertion(note="x" * 9000),
    "alg none": unsigned,
    "alg HS256 with the public key": hs256,
    "alg RS256": lambda agent: agent.assertion(header={"alg": "RS256"}),
    "critical extension": lambda agent: agent.assertion(header={"crit": ["b64"]}),
    "no key": lambda agent: agent.assertion(header={"jwk": None}),
    "private key in the header": lambda agent: agent.assertion(header={"jwk": {**agent.mtls.jwk, "d": "AA"}}),
    "point that is not on the curve": lambda agent: agent.assertion(
        header={"jwk": {**agent.mtls.jwk, "y": agent.mtls.jwk["x"]}}),
    "signed by another key": lambda agent: agent.assertion(key=MTLSKey(), header={"jwk": agent.mtls.jwk}),
    "by a key that is not bound": lambda agent: agent.assertion(key=MTLSKey()),
    "in the name of another instance": lambda agent: agent.assertion(
        iss=b64url(secrets.token_bytes(32)), sub=b64url(secrets.token_bytes(32))),
    "iss of another than sub": lambda agent: agent.assertion(sub=b64url(secrets.token_bytes(32))),
    "no iss": lambda agent: agent.assertion(iss=None),
    "another audience": lambda agent: agent.assertion(aud="https://elsewhere.example"),
    "no audience": lambda agent: agent.assertion(aud=None),
    "audience in another spelling": lambda agent: agent.assertion(aud=agent.federating.url + "/"),
    "no exp": lambda agent: agent.assertion(exp=None),
    "expired": lambda agent: agent.assertion(exp=int(time.time()) - 1),
    "exp a year ahead": lambda agent: agent.assertion(exp=int(time.time()) + 31_536_000),
    "exp as text": lambda agent: agent.assertion(exp=str(int(time.time()) + 60)),
    "exp with a fraction": lambda agent: agent.assertion(exp=time.time() + 60.5),
    "iat in the future": lambda agent: agent.assertion(iat=int(time.time()) + 3600),
    "nbf in the future": lambda agent: agent.assertion(nbf=int(time.time()) + 3600),
    "no jti": lambda agent: agent.assertion(jti=None),
    "empty jti": lambda agent: agent.assertion(jti=""),
    "long jti": lambda agent: agent.assertion(jti="x" * 129),
    "cnf without jkt": lambda agent: agent.assertion(cnf={"x5t": "a"}),
    "malformed app version": lambda agent: agent.assertion(app_version="one"),
    "duplicate claim": lambda agent: jws(
        {"alg": "ES256", "jwk": agent.mtls.jwk}, '{"iss":"a","iss":"b"}', agent.mtls),
}


@pytest.mark.parametrize("name", BAD_ASSERTIONS)
def test_bad_assertions_neither_register_nor_derive(federation, agent, platform, name):
    assert error(agent.register(assertion=BAD_ASSERTIONS[name](agent))) == (401, "invalid_client")
    assert "WWW-Authenticate" in agent.register(assertion=BAD_ASSERTIONS[name](agent)).headers
    assert error(agent.derive(BAD_ASSERTIONS[name](agent), aud=platform.url)) == (400, "invalid_grant")
    assert error(agent.derive(BAD_ASSERTIONS[name](agent), aud=platform.url, path="/authorize")) == (400, "invalid_grant")
    form = {
        "token": agent.instance["access_token"], "client_assertion_type": ASSERTION_TYPE,
        "client_assertion": BAD_ASSERTIONS[name](agent)}
    assert error(federation.post("/revoke", form)) == (401, "invalid_client")


def test_an_assertion_is_used_once(federation, agent, platform):
    assertion = agent.assertion()
    assert agent.derive(assertion, aud=platform.url).status_code == 200
    assert error(agent.derive(assertion, aud=platform.url)) == (400, "invalid_grant")
    assert error(agent.register(assertion=assertion)) == (401, "invalid_client")
    # Another jti is another assertion, and one jti may be used by two instances.
    other = federation.agent()
    jti = secrets.token_urlsafe(16)
    assert agent.register(assertion=agent.assertion(jti=jti)).status_code == 200
    assert other.register(assertion=other.assertion(jti=jti)).status_code == 200
    assert error(other.register(assertion=other.assertion(jti=jti))) == (401, "invalid_client")


def test_an_assertion_that_is_refused_for_its_scope_stays_unused(agent, platform):
    assertion = agent.assertion()
    assert error(agent.derive(assertion, aud=platform.url, scope="admin")) == (400, "invalid_scope")
    assert agent.derive(assertion, aud=platform.url, scope="courses").status_code == 200


def test_assertions_of_several_audiences_and_of_the_endpoint_are_taken(federation, agent):
    for audience in [["https://elsewhere.example", federation.url], f"{federation.url}/token"]:
        assert agent.register(assertion=agent.assertion(aud=audience)).status_code == 200


def test_assertions_without_exp_are_taken_for_half_an_hour_where_that_is_configured(start_federation):
    federation = start_federation(federation={"assertions_without_exp": "30m"})
    agent, now = federation.agent(), int(time.time())
    assert agent.register(assertion=agent.assertion(exp=None)).status_code == 200
    assert agent.register(assertion=agent.assertion(exp=None, iat=now - 29 * 60)).status_code == 200
    for claims in {"iat": now - 31 * 60}, {"iat": None}:
        assert error(agent.register(assertion=agent.assertion(exp=None, **claims))) == (401, "invalid_client")
    assert error(agent.register(assertion=agent.assertion(exp=now - 1))) == (401, "invalid_client")


# Requests.


def test_forms_that_are_none_are_refused(federation, agent):
    post = federation.http.post
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    assert error(post("/token", data={"grant_type": "password", "username": "a", "password": "b"})) == (
        400, "unsupported_grant_type")
    assert error(post("/token", data={"grant_type": "refresh_token"})) == (400, "unsupported_grant_type")
    for content in b"", b"grant_type=", b"a=b", b"grant_type=a&grant_type=b", b"grant_type=%zz", b"grant_type=%ff", b"&".join(
            b"%d=1" % number for number in range(40)):
        assert error(post("/token", content=content, headers=form)) == (400, "invalid_request"), content
    assert error(post("/token", data={"grant_type": BEARER})) == (400, "invalid_request")
    assert error(post("/token", json={"grant_type": BEARER})) == (415, "invalid_request")
    assert error(post("/token?grant_type=a", data={"grant_type": BEARER})) == (400, "invalid_request")
    assert error(post("/token", content=b"x" * 70_000, headers=form)) == (413, "invalid_request")
    assert error(federation.http.get("/token")) == (405, "invalid_request")
    assert federation.http.get("/token").headers["Allow"] == "POST"
    assert error(federation.http.get("/nothing")) == (404, "not_found")
    assert error(post("/token", data={"grant_type": "client_credentials"})) == (401, "invalid_client")
    assert error(post("/token", data={
        "grant_type": "client_credentials", "client_assertion_type": "other", "client_assertion": agent.assertion()})) == (
        401, "invalid_client")
    assert error(post("/token", data={
        "grant_type": "client_credentials", "client_assertion_type": ASSERTION_TYPE, "client_assertion": agent.assertion(),
        "client_id": "another"})) == (401, "invalid_client")


def test_the_older_spelling_of_the_grant_type_is_taken(agent, platform):
    answer = agent.derive(grant_type="urn:ietf:param:oauth:grant-type:jwt-bearer", aud=platform.url)
    assert answer.status_code == 200


def test_scopes_and_audiences_that_cannot_be_granted_are_refused(federation, agent, platform):
    for scope in "admin", "courses admin", "courses courses", "courses  grades", " courses", 'courses"', "x" * 2000:
        assert error(agent.derive(aud=platform.url, scope=scope)) == (400, "invalid_scope"), scope
    assert error(agent.register(scope="admin")) == (400, "invalid_scope")
    assert error(agent.derive()) == (400, "invalid_request")
    for url in "https://elsewhere.example", platform.url + "/", platform.url.upper():
        assert error(agent.derive(aud=url)) == (400, "invalid_request"), url
    # An app gets no more than the token that it is derived from, and its service's.
    token = agent.token(platform, scope="courses")
    child = {"azp": "org.example.reader", "parent": token["jti"]}
    assert error(agent.derive(agent.assertion(**child), scope="courses grades")) == (400, "invalid_scope")
    assert error(agent.derive(agent.assertion(**child), aud=federation.platforms[1].url)) == (400, "invalid_request")
    app = agent.app_token(token)
    for parent in app["jti"], agent.instance["jti"], b64url(secrets.token_bytes(32)):
        refused = agent.derive(agent.assertion(azp="org.example.reader", parent=parent))
        assert error(refused) == (400, "invalid_grant")
    assert error(agent.derive(agent.assertion(azp="org.example.reader"))) == (400, "invalid_grant")
    for claims in {"parent": "x"}, {"azp": 'a"b'}, {"azp": ""}:
        assert error(agent.derive(agent.assertion(**{**child, **claims}))) == (400, "invalid_grant")
    # A parent of another device.
    other = federation.agent()
    other.registered()
    assert error(other.derive(other.assertion(**child))) == (400, "invalid_grant")


def test_an_instance_that_is_not_registered_derives_nothing(federation, platform):
    assert error(federation.agent().derive(aud=platform.url)) == (400, "invalid_grant")


# Introspection and revocation.


def test_a_service_learns_of_its_own_tokens_only(federation, agent, platform):
    token, other = agent.token(platform), federation.platforms[1]
    seen = federation.introspect(platform, token["access_token"])
    now = int(time.time())
    assert {name: seen[name] for name in ("active", "aud", "iss", "jti", "scope", "token_type")} == {
        "active": True, "aud": platform.url, "iss": federation.url, "jti": token["jti"], "scope": "profile courses",
        "token_type": "Bearer"}
    assert now - 60 < seen["iat"] <= now + 1 and seen["exp"] == seen["iat"] + token["expires_in"]
    for unknown in token["access_token"] + "x", secrets.token_urlsafe(32), "x", agent.instance["access_token"], token["jti"]:
        assert federation.introspect(platform, unknown) == {"active": False}
    assert federation.introspect(other, token["access_token"]) == {"active": False}
    # The person is another at each service.
    elsewhere = federation.introspect(other, agent.token(other)["access_token"])
    assert elsewhere["sub"] != seen["sub"]
    form = {"token": token["access_token"]}
    for headers in (
            {}, {"Authorization": basic(platform.id, "wrong")}, {"Authorization": basic(other.id, platform.token)},
            {"Authorization": f"Bearer {agent.instance['access_token']}"}, {"Authorization": "Digest a"},
            {"Authorization": "Basic %%%"}, {"Authorization": basic(platform.id, secrets.token_urlsafe(32))}):
        assert error(federation.post("/introspect", form, headers=headers)) == (401, "invalid_client"), headers
    both = federation.post("/introspect", {**form, "client_secret": platform.token}, basic=platform.credentials)
    assert error(both) == (400, "invalid_request")
    assert error(federation.post("/introspect", {}, basic=platform.credentials)) == (400, "invalid_request")
    for answer in (
            federation.post("/introspect", form, token=platform.token),
            federation.post("/introspect", {**form, "client_id": platform.id, "client_secret": platform.token})):
        assert answer.json()["active"] is True


def test_tokens_are_revoked_by_their_own_people_only(federation, agent, platform):
    token, other = agent.token(platform)["access_token"], federation.agent()
    foreign = other.registered()["access_token"]
    for answer in (
            federation.post("/revoke", {"token": token}, token=foreign),
            federation.post("/revoke", {"token": token}, basic=federation.platforms[1].credentials)):
        assert error(answer) == (400, "unauthorized_client")
    assert error(federation.post("/revoke", {"token": token})) == (401, "invalid_token")
    assert error(federation.post("/revoke", {"token": token}, token=secrets.token_urlsafe(32))) == (401, "invalid_token")
    assert error(federation.post("/revoke", {}, token=foreign)) == (400, "invalid_request")
    assert federation.is_active(platform, token)
    for unknown in secrets.token_urlsafe(32), "x":
        answer = federation.post("/revoke", {"token": unknown, "token_type_hint": "other"}, token=foreign)
        assert (answer.status_code, answer.content) == (200, b"")
    # The service itself may, and so may the instance with an assertion.
    assert federation.post("/revoke", {"token": token}, basic=platform.credentials).status_code == 200
    assert not federation.is_active(platform, token)
    second = agent.token(platform)["access_token"]
    form = {"token": second, "client_assertion_type": ASSERTION_TYPE, "client_assertion": agent.assertion()}
    assert federation.post("/revoke", form).status_code == 200
    assert not federation.is_active(platform, second)


def test_a_revoked_parent_has_no_more_children(agent, platform):
    token = agent.token(platform)
    agent.revoke(token["access_token"], agent.instance["access_token"])
    refused = agent.derive(agent.assertion(azp="org.example.reader", parent=token["jti"]))
    assert error(refused) == (400, "invalid_grant")


def test_a_code_is_for_its_service_and_no_token(federation, agent, platform):
    code = agent.derive(path="/authorize", aud=platform.url).json()["code"]
    form = {"grant_type": "authorization_code", "code": code}
    assert error(federation.post("/token", form)) == (401, "invalid_client")
    assert error(federation.post("/token", form, basic=federation.platforms[1].credentials)) == (400, "invalid_grant")
    assert not federation.is_active(platform, code)
    for other in secrets.token_urlsafe(32), "x", agent.token(platform)["access_token"]:
        answer = federation.post("/token", {**form, "code": other}, basic=platform.credentials)
        assert error(answer) == (400, "invalid_grant")
    assert error(agent.derive(agent.assertion(azp="a.b"), path="/authorize", aud=platform.url)) == (400, "invalid_grant")
    assert federation.post("/token", form, basic=platform.credentials).status_code == 200


def test_tokens_expire(start_federation):
    federation = start_federation(federation={"service_life": "1s", "code_life": "1s"})
    platform, agent = federation.platforms[0], federation.agent()
    agent.registered()
    token = agent.token(platform)
    code = agent.derive(path="/authorize", aud=platform.url).json()["code"]
    assert token["expires_in"] == 1
    time.sleep(1.5)
    assert not federation.is_active(platform, token["access_token"])
    answer = federation.post("/token", {"grant_type": "authorization_code", "code": code}, basic=platform.credentials)
    assert error(answer) == (400, "invalid_grant")


# Who is let in.


def test_excluded_versions_of_an_app_get_no_token(start_federation):
    federation = start_federation()
    agent = federation.agent()
    app = federation.enrolling.gateway.conf["apps"][0]["id"]
    federation.change(minimum_versions=[{"app": app, "version": "2.1"}])
    for version in None, "2.0.9", "1":
        assert error(agent.register(assertion=agent.assertion(app_version=version))) == (401, "invalid_client")
    assert agent.register(assertion=agent.assertion(app_version="2.1")).status_code == 200
    assert error(agent.derive(agent.assertion(app_version="2.0"), aud=federation.platforms[0].url)) == (401, "invalid_client")


def test_devices_without_a_person_are_refused_where_one_is_required(start_federation):
    agent = start_federation(federation={"person": "required"}).agent()
    assert error(agent.register()) == (403, "access_denied")


def test_request_proofs_are_required_where_they_are_configured(start_federation):
    federation = start_federation(federation={"require": "request-proof"})
    phone, mtls, response = federation.enrolling.enrolled()
    agent = type(federation.agent())(federation, phone, mtls)
    identity = phone.identity(federation.directory, mtls, response)
    address = type("Address", (), {"pki": federation.pki, "port": federation.port})()
    proving = phone.requesting(address, identity)

    def send(path, form, **change):
        import urllib.parse

        data = proving.request(
            "POST", path, fields=[("Content-Type", "application/x-www-form-urlencoded")],
            content=urllib.parse.urlencode(form).encode(), **change)
        with proving.connect() as client:
            return client.exchange(data), data

    def form(**claims):
        return {
            "grant_type": "client_credentials", "client_assertion_type": ASSERTION_TYPE,
            "client_assertion": agent.assertion(**claims)}

    # The assertion alone, without a certificate and without a proof, is not enough.
    refused = agent.register()
    assert (refused.status_code, refused.json()["error"]) == (403, "certificate_required")
    context = __import__("ssl").create_default_context(cafile=str(federation.pki.server_ca))
    context.load_cert_chain(identity.certificate, identity.key)
    with type(federation.http)(base_url=federation.url, verify=context) as client:
        refused = client.post("/token", data=form())
        assert (refused.status_code, refused.json()["error"]) == (401, "proof_required")
        assert "Accept-Signature" in refused.headers
        assert client.get("/.well-known/attestgate/challenge").status_code == 204
    answer, data = send("/token", form())
    assert answer.status == 200, answer
    token = json.loads(answer.content)["access_token"]
    # A proof is used once.
    with proving.connect() as client:
        assert json.loads(client.exchange(data).content)["error"] == "counter_replayed"
    # The token alone, as a thief has it, opens nothing.
    assert federation.http.get("/service-discovery/user", headers={"Authorization": f"Bearer {token}"}).status_code == 403
    # And a proof of another phone does not fit.
    other, other_mtls, other_response = federation.enrolling.enrolled()
    stranger = other.requesting(address, other.identity(federation.directory, other_mtls, other_response, "other"))
    data = stranger.request("GET", "/service-discovery/user", fields=[("Authorization", f"Bearer {token}")])
    with stranger.connect() as client:
        refused = client.exchange(data)
    assert (refused.status, json.loads(refused.content)["error"]) == (401, "invalid_token")
    data = proving.request("GET", "/service-discovery/user", fields=[("Authorization", f"Bearer {token}")])
    with proving.connect() as client:
        assert client.exchange(data).status == 200
    with proving.connect() as client:
        assert client.exchange(get("/services.txt")).status == 200


def test_too_many_requests_are_refused(start_federation):
    federation = start_federation(platform_count=0, federation={"requests_per_minute": 5})
    answers = [federation.http.get("/services.txt") for _ in range(8)]
    assert [answer.status_code for answer in answers] == 5 * [200] + 3 * [503]
    assert answers[-1].json()["error"] == "temporarily_unavailable" and int(answers[-1].headers["Retry-After"]) > 0


def test_the_roles_open_only_their_own_files(start_federation):
    federation = start_federation(platform_count=0)
    gateway = federation.gateway
    gateway.halt()
    for name, key in ("listeners", "clients"), ("enrolment", "authority"):
        section = gateway.conf[name][0] if name == "listeners" else gateway.conf[name]
        section[key] = {**section[key], **(
            {"authorities": ["/nowhere.pem"]} if name == "listeners" else {"key": "/nowhere.key"})}
    gateway.write_conf()
    gateway.arguments = ["--role", "federation"]
    gateway.start()
    assert federation.http.get("/services.txt").status_code == 200
    gateway.halt()
    gateway.conf["federation"]["tls"]["key"] = "/nowhere.key"
    gateway.write_conf()
    check = attestgate("check", "--config", gateway.conf_path)
    assert check.returncode == 1 and "federation" in check.stderr + check.stdout
