"""What a decision point learns of a request and of its client: what the conf file names, never a secret, and pseudonyms of its own."""

import contextlib
import json
import re
import sqlite3
import ssl
from types import SimpleNamespace

import pytest

from support.client import Client, get
from support.deciding import (
    PATIENT, PROTOCOLS, REQUESTS, RULE, assert_unavailable, connect, eventually_passes, policies, questions,
)
from support.decision_points import EVALUATION, AuthZEN, DataAPI
from support.denials import code_of
from support.gateway import Gateway
from support.pki import attestgate
from support.platforms import APPS, PLATFORMS
from support.recording_upstream import RecordingUpstream
from support.services import Services, names

FACTS = ["method", "route", "host", "device", "app", "platform", "posture", "subject", "client_network", "path", "query"]
DEFAULT = FACTS[:7]


@pytest.fixture(scope="module")
def services(pki):
    return Services(pki)


def reload(gateway):
    gateway.write_conf()
    return attestgate("reload", "--config", gateway.conf_path)


def several(points, require="device", **of_each):
    """A gateway with a route, a policy and a decision point of each name: its section."""
    return {
        "routes": [
            *({"name": name, "host": "localhost", "path": f"/{name}", "require": require, "policy": name} for name in points),
            {"name": "sentinel", "host": "localhost", "path": "/sentinel"}],
        "policies": {name: {"pdp": name} for name in points},
        "decision_points": {name: {"timeout": PATIENT, **section, **of_each} for name, section in points.items()}}


# Facts

@pytest.mark.parametrize("platform", PLATFORMS)
def test_by_default_it_learns_method_route_host_and_device(started, start_asking, platform):
    point = started(AuthZEN, lambda document: True)
    attested = start_asking(point)
    with attested.phones_of(platform), attested.phone.connect() as client:
        assert client.exchange(attested.phone.request(path="/records/patient-7", query="a=b")).status == 200
    [document] = point.documents
    [name] = attested.upstream.last_request().values("attest-device")
    posture = document["subject"]["properties"].pop("posture")
    assert document == {
        "subject": {"type": "device", "id": name, "properties": {"app": APPS[platform], "platform": platform}},
        "action": {"name": "GET"}, "resource": {"type": "route", "id": "records", "properties": {"host": "localhost"}}}
    assert posture.keys() == {"platform", "environment", "enrolled_at", "bound_at", "admission"}
    assert (posture["platform"], posture["environment"], posture["admission"]) == (platform, "simulator", "operator")
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", posture["enrolled_at"])


def test_each_fact_is_sent_alone(started, start_attested):
    point = started(DataAPI, lambda document: True)
    section = {"kind": "opa", "url": point.url, "path": RULE}
    attested = start_attested(**several({
        **{fact.replace("_", "-"): {**section, "sends": [fact]} for fact in FACTS}, "nothing": {**section, "sends": []}}))
    learnt = {}
    with attested.phone.connect() as client:
        for name in [*(fact.replace("_", "-") for fact in FACTS), "nothing"]:
            assert client.exchange(get(f"/{name}/1?a=b%20c&a")).status == 200, name
            learnt[name] = point.documents[-1]
    [device] = attested.upstream.last_request().values("attest-device")
    posture = learnt.pop("posture")
    assert posture.keys() == {"posture"} and posture["posture"]["admission"] == "operator"
    assert learnt == {
        "method": {"method": "GET"}, "route": {"route": "route"}, "host": {"host": "localhost"}, "device": {"device": device},
        "app": {"app": APPS["ios"]}, "platform": {"platform": "ios"}, "client-network": {"client_network": "127.0.0.0/24"},
        "path": {"path": "/path/1"}, "query": {"query": "a=b%20c&a"}, "nothing": {},
        # An operator has registered it, for nobody in particular.
        "subject": {}}


def test_the_host_is_sent_in_lower_case_and_without_its_port(started, start_asking):
    point = started(DataAPI, lambda document: document == {"host": "localhost"})
    attested = start_asking(point, sends=["host"])
    with attested.phone.connect() as client:
        assert client.exchange(get("/device/1", host=f"localhost:{attested.gateway.port}")).status == 200
        assert client.exchange(get("/device/1", host="LocalHost")).status == 200


def test_authzen_learns_no_more_than_the_three_ids_that_it_demands(started, start_asking):
    point = started(AuthZEN, lambda document: True)
    attested = start_asking(point, sends=[])
    with attested.phone.connect() as client:
        assert client.exchange(get("/device/1?a=b", "X-Tenant: north")).status == 200
    [document] = point.documents
    assert document["subject"].keys() == {"type", "id"}
    assert (document["action"], document["resource"]) == ({"name": "GET"}, {"type": "route", "id": "device"})
    assert document.keys() == {"subject", "action", "resource"}


def test_authzen_learns_all_that_the_conf_file_names(started, start_asking):
    point = started(AuthZEN, lambda document: True)
    attested = start_asking(point, sends=FACTS, headers=["X-Tenant", "accept-language"])
    with attested.phone.connect() as client:
        assert client.exchange(get("/device/1?a=b", "x-tenant: north", "Accept-Language: de", "X-TENANT: south")).status == 200
    [document] = point.documents
    assert document["resource"]["properties"] == {"host": "localhost", "path": "/device/1", "query": "a=b"}
    assert document["context"] == {
        "client_network": "127.0.0.0/24", "headers": {"x-tenant": ["north", "south"], "accept-language": ["de"]}}


def test_the_network_of_a_client_is_cut(started, start_asking):
    point = started(DataAPI, lambda document: True)
    attested = start_asking(point, sends=["client_network"])
    for source in ["127.0.0.9", "127.0.7.9"]:
        with Client(attested.gateway, attested.phone.identity, source=source) as client:
            assert client.exchange(get("/device/1")).status == 200
    assert [document["client_network"] for document in point.documents] == ["127.0.0.0/24", "127.0.7.0/24"]


def test_the_action_is_the_method(started, start_asking):
    point = started(AuthZEN, lambda document: True)
    attested = start_asking(point)
    for method in ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]:
        with attested.phone.connect() as client:
            assert client.exchange(attested.phone.request(method, "/records/1"), method).status == 200
        assert point.documents[-1]["action"] == {"name": method}


# Secrets

SECRETS = [
    "Authorization", "Proxy-Authorization", "Cookie", "Cookie2", "Set-Cookie", "DPoP", "X-Auth-Token", "X-API-Key", "X-CSRF-Token",
    "Signature", "Signature-Input", "Accept-Signature", "Content-Digest", "Repr-Digest", "Attest-Proof-Counter", "Attest-Device",
    "Client-Cert", "X-Client-Cert", "X-Forwarded-Client-Cert", "Forwarded", "X-My-Secret", "X-Password", "X-Access-Token",
    "Sec-WebSocket-Key", "X-Amzn-Oidc-Data", "Ocp-Apim-Subscription-Key", "X-Functions-Key"]


@pytest.mark.parametrize("name", SECRETS)
def test_a_field_with_a_secret_cannot_be_sent(start_asking_conf, name):
    done = start_asking_conf(headers=[name])
    assert done.returncode == 1 and name in done.stderr, done.stderr


def test_a_field_that_others_state_about_clients_cannot_be_sent(start_asking_conf):
    for name in ["X-Forwarded-For", "X-Real-IP", "X-Auth-Request-User"]:
        assert start_asking_conf(headers=[name]).returncode == 1, name
    done = start_asking_conf(headers=["X-Tenant"], conf={"strip_headers": ["x-tenant"]})
    assert done.returncode == 1 and "strip_headers" in done.stderr, done.stderr
    assert start_asking_conf(headers=["X-Tenant", "Accept-Language"]).returncode == 0


@pytest.mark.parametrize("name", ["Host", "Connection", "Content-Length", "Transfer-Encoding", "TE", "Upgrade"])
def test_a_field_of_the_framing_cannot_be_sent(start_asking_conf, name):
    done = start_asking_conf(headers=[name])
    assert done.returncode == 1 and "framing" in done.stderr, done.stderr


def test_no_path_that_services_read_in_several_ways_passes_a_decision_about_paths(started, start_asking):
    """`/%61dmin` is `/admin` to a service that decodes it."""
    point = started(AuthZEN, lambda document: document["resource"]["id"] != "admin")
    routes = [
        {"name": "device", "host": "localhost", "path": "/", "require": "device", "policy": "records", "targets": "common"}]
    mapping = {"templates": [{"path": "/c/{id}", "resource": {"type": "record", "id": "{id}"}}]}
    attested = start_asking(point, routes=routes, mapping=mapping)
    with questions(point, 2), attested.phone.connect() as client:
        for path, code in [("/c/7", None), ("/c/admin", "policy_denied"), ("/c/%61dmin", "policy_denied"), ("/c/%37", "policy_denied")]:
            assert code_of(client.exchange(get(path))) == code, path
    entry = attested.gateway.logged(denial="policy_denied", detail="policy records, by pdp: the path can be read in several ways")
    assert entry["status"] == 403


@pytest.fixture
def start_asking_conf(pki, tmp_path, upstream):
    """- Returns: what `check` says of a decision point's section with changes."""
    def check(conf=None, **changes):
        """`conf`: further settings."""
        point = SimpleNamespace(url="http://127.0.0.1:9")
        settings = {**policies(point, **changes), **(conf or {})}
        gateway = Gateway(
            tmp_path / "gateway", pki, {"service": upstream.address}, apps=[{"id": APPS["ios"], "environment": "simulator"}], **settings)
        gateway.write_conf()
        return attestgate("check", "--config", gateway.conf_path)
    return check


@pytest.mark.parametrize("kind, more", [
    (AuthZEN, {}), (DataAPI, {}), (DataAPI, {"profile": "dsr"})], ids=["authzen", "opa", "dsr"])
def test_no_secret_is_in_any_question(started, start_asking, kind, more):
    result = {"allow": True} if more else True
    point = started(kind, lambda document: result)
    attested = start_asking(point, sends=FACTS, headers=["content-type", "user-agent", "x-note"], **more)
    for platform in PLATFORMS:
        with attested.phones_of(platform):
            for name in REQUESTS:
                ask_with_secrets(point, attested.phone, name)


def ask_with_secrets(point, phone, name):
    secrets = {
        "Authorization": "Bearer s3cret-token", "Cookie": "session=s3cret-cookie", "X-API-Key": "s3cret-key",
        "X-Note": "not secret", "User-Agent": "test", "Content-Type": "text/plain"}
    if name in ("device", "certificate"):
        data = get(f"/{name}/1", *[f"{field}: {value}" for field, value in secrets.items()])
    else:
        content = None if name == "no content" else b"s3cret-content"
        path = "/stream/1" if name == "streamed" else "/records/1"
        data = phone.request("POST" if content else "GET", path, fields=list(secrets.items()), content=content)
    before = len(point.asked)
    with phone.connect() as client:
        assert client.exchange(data).status == 200
    [asked] = point.asked[before:]
    said = json.dumps([asked.document, asked.fields, asked.path])
    assert "not secret" in said and "s3cret" not in said, said
    values = re.findall(rb"\r\n(?:Signature|Signature-Input|Content-Digest): ([^\r]+)", data)
    for value in [value.decode() for value in values] + [phone.kept or "no challenge", phone.key.key_id.hex()]:
        assert value not in said


# Pseudonyms

def test_the_name_of_a_device_is_the_one_that_its_service_knows_and_another_for_another_service(started, start_asking):
    point = started(AuthZEN, lambda document: True)
    attested = start_asking(point)
    other = RecordingUpstream()
    try:
        attested.gateway.conf["upstreams"]["other"] = {"servers": [other.address]}
        for name in ("device", "certificate"):
            [route] = [route for route in attested.gateway.conf["routes"] if route["name"] == name]
            attested.gateway.conf["routes"].append(
                {**route, "name": f"other-{name}", "path": f"/other-{name}", "upstream": "other"})
        assert reload(attested.gateway).returncode == 0
        identifiers = {}
        with attested.phone.connect() as client:
            for name in ["device", "other-device", "certificate", "other-certificate"]:
                assert client.exchange(get(f"/{name}/1")).status == 200
                identifiers[name] = point.documents[-1]["subject"]["id"]
        assert [identifiers["device"]] == attested.upstream.requests[0].values("attest-device")
        assert [identifiers["other-device"]] == other.requests[0].values("attest-device")
        assert len(set(identifiers.values())) == 4
        key = attested.pki.names(attested.phone.identity).key_id
        assert not {key.hex(), attested.phone.key.key_id.hex()} & set(identifiers.values())
    finally:
        other.close()


def test_a_pseudonym_outlives_restarts_and_is_one_for_a_person_and_another_for_a_device(started, start_asking):
    point = started(DataAPI, lambda document: True)
    attested = start_asking(point, sends=["device", "subject"])
    gateway = attested.gateway
    others = [attested.new_phone(), attested.new_phone()]
    gateway.halt()
    set_subject(gateway, bytes(range(32)), *[phone.number for phone in [attested.phone, others[0]]])
    gateway.start()
    for phone in [attested.phone, *others]:
        with phone.connect() as client:
            assert client.exchange(get("/device/1")).status == 200
    mine, other, stranger = point.documents
    assert mine["subject"] == other["subject"] and mine["device"] != other["device"]
    assert "subject" not in stranger and bytes(range(32)).hex() not in json.dumps(mine)
    assert mine["subject"] not in (mine["device"], other["device"])
    gateway.halt()
    gateway.start()
    with attested.phone.connect() as client:
        assert client.exchange(get("/device/1")).status == 200
    assert point.documents[-1] == mine


def set_subject(gateway, subject, *numbers):
    """As admission with a token leaves it."""
    with contextlib.closing(sqlite3.connect(gateway.conf["registry"]["path"])) as store, store:
        for number in numbers:
            assert store.execute("UPDATE device SET subject = ? WHERE id = ?", (subject, number)).rowcount == 1


# Tracing

@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_request_id_is_the_trace_of_the_denial(started, start_asking, protocol):
    point = started(AuthZEN, lambda document: False)
    attested = start_asking(point)
    seen = []
    with connect(attested.gateway, attested.phone, protocol) as client:
        for _ in range(3):
            seen.append(json.loads(client.exchange(attested.phone.request()).content)["trace_id"])
    assert [asked.fields["x-request-id"] for asked in point.asked] == seen and len(set(seen)) == 3
    assert attested.gateway.logged(denial="policy_denied", trace_id=seen[-1])


# The token

def test_the_token_is_read_from_its_file_and_anew_at_a_reload(started, start_asking, tmp_path):
    file = tmp_path / "token"
    file.write_text("first-token\n")
    file.chmod(0o600)
    point = started(AuthZEN, lambda document: True, token="first-token")
    attested = start_asking(point, token_file=str(file))
    with attested.phone.connect() as client:
        assert client.exchange(get("/device/1")).status == 200
    file.write_text("second-token")
    point.token = "second-token"
    assert reload(attested.gateway).returncode == 0
    with attested.phone.connect() as client:
        assert client.exchange(get("/device/1")).status == 200
    said = attested.gateway.access_path.read_text() + attested.gateway.errors
    assert "first-token" not in said and "second-token" not in said


@pytest.mark.parametrize("content, mode", [("", 0o600), ("two words", 0o600), ("a\nb", 0o600), ("token", 0o644)])
def test_a_file_without_a_secret_token_is_refused(start_asking_conf, tmp_path, content, mode):
    file = tmp_path / "token"
    file.write_text(content)
    file.chmod(mode)
    done = start_asking_conf(token_file=str(file))
    assert done.returncode == 1 and str(file) in done.stderr, done.stderr


def test_a_decision_point_that_wants_another_token_gives_no_decision(started, start_asking):
    point = AuthZEN(lambda document: True, token="wanted")
    attested = start_asking(point)
    with attested.phone.connect() as client:
        assert_unavailable(attested.gateway, client.exchange(get("/device/1")))
    assert point.faults == ["Authorization"]
    point.go()


# TLS

def secure(point, services, **changes):
    return policies(point, tls={"authorities": str(services.authority.certificate), **changes})


def test_a_decision_point_of_a_private_authority_is_asked_over_tls(started, start_attested, services):
    point = started(AuthZEN, lambda document: True, identity=services.ordinary)
    attested = start_attested(**secure(point, services))
    with attested.phone.connect() as client:
        for _ in range(3):
            assert client.exchange(get("/device/1")).status == 200
    assert point.asked[0].connection is point.asked[-1].connection


def test_a_decision_point_gets_the_gateways_certificate(started, start_attested, services):
    point = started(AuthZEN, lambda document: True, identity=services.ordinary)
    point.service.context.verify_mode = ssl.CERT_REQUIRED
    point.service.context.load_verify_locations(services.clients.certificate)
    attested = start_attested(**secure(point, services, **services.our_certificate))
    with attested.phone.connect() as client:
        assert client.exchange(get("/device/1")).status == 200
    attested = start_attested(**secure(point, services))
    with attested.phone.connect() as client:
        assert_unavailable(attested.gateway, client.exchange(get("/device/1")))


@pytest.mark.parametrize("what", ["stranger", "name", "expired"])
def test_a_decision_point_with_a_wrong_certificate_is_not_asked(started, start_attested, services, what):
    identity = {
        "stranger": lambda: services.certificate("pdp-stranger", issuer=services.strangers),
        "name": lambda: services.certificate("pdp-name", extensions=names("DNS:elsewhere.example")),
        "expired": lambda: services.certificate("pdp-expired", start=-3, end=-1)}[what]()
    point = started(AuthZEN, lambda document: True, identity=identity)
    attested = start_attested(**secure(point, services))
    data = attested.phone.request()
    with attested.nothing_forwarded(), attested.phone.connect() as client:
        assert_unavailable(attested.gateway, client.exchange(data))
    assert point.asked == []
    # With the right one the same proof passes.
    point.go()
    point.identity = services.ordinary
    point.come_back()
    eventually_passes(attested.phone, data)


# Discovery

def test_the_path_is_found_in_metadata(started, start_attested, services):
    point = started(AuthZEN, lambda document: True, identity=services.ordinary)
    settings = secure(point, services)
    del settings["decision_points"]["pdp"]["path"]
    attested = start_attested(**settings)
    eventually_passes(attested.phone, attested.phone.request())
    assert point.asked[-1].path == EVALUATION


def test_the_token_is_not_sent_for_metadata(started, start_attested, services, tmp_path):
    (tmp_path / "token").write_text("t0ken")
    (tmp_path / "token").chmod(0o600)
    point = started(AuthZEN, lambda document: True, identity=services.ordinary, token="t0ken")
    settings = secure(point, services)
    del settings["decision_points"]["pdp"]["path"]
    settings["decision_points"]["pdp"]["token_file"] = str(tmp_path / "token")
    attested = start_attested(**settings)
    eventually_passes(attested.phone, get("/device/1"))


WRONG = {
    "another-url": lambda url: {"policy_decision_point": "https://elsewhere.example"},
    "slash": lambda url: {"policy_decision_point": url + "/"},
    "no-url": lambda url: {"policy_decision_point": None},
    "another-origin": lambda url: {"access_evaluation_endpoint": "https://elsewhere.example/access/v1/evaluation"},
    "another-port": lambda url: {"access_evaluation_endpoint": "https://localhost:1/access/v1/evaluation"},
    "plaintext": lambda url: {"access_evaluation_endpoint": url.replace("https", "http") + EVALUATION},
    "user": lambda url: {"access_evaluation_endpoint": url.replace("//", "//user@") + EVALUATION},
    "relative": lambda url: {"access_evaluation_endpoint": EVALUATION},
    "no-path": lambda url: {"access_evaluation_endpoint": url},
    "number": lambda url: {"access_evaluation_endpoint": 7},
    "injection": lambda url: {"access_evaluation_endpoint": url + "/a HTTP/1.1\r\nX: y"},
}


def test_wrong_metadata_are_no_path_until_they_are_right(started, start_attested, services):
    points = {name: started(AuthZEN, lambda document: True, identity=services.ordinary) for name in WRONG}
    for name, point in points.items():
        point.metadata = WRONG[name](point.url)
    attested = start_attested(**several({
        name: {"kind": "authzen", "url": point.url, "tls": {"authorities": str(services.authority.certificate)}}
        for name, point in points.items()}))
    with attested.nothing_forwarded(), attested.phone.connect() as client:
        for name in points:
            entry = assert_unavailable(attested.gateway, client.exchange(get(f"/{name}/1")))
            assert "metadata" in entry["detail"]
    for point in points.values():
        point.metadata = {}
    for name in points:
        eventually_passes(attested.phone, get(f"/{name}/1"))
    assert all(len(point.documents) == 1 for point in points.values())


def test_metadata_are_not_read_over_http(start_asking_conf):
    done = start_asking_conf(kind="authzen", path=None, url="http://127.0.0.1:9")
    assert done.returncode == 1 and "metadata are read from an https URL only" in done.stderr


def test_a_decision_point_elsewhere_is_asked_over_tls_only(start_asking_conf):
    for url in ["http://pdp.internal:8181", "http://192.0.2.1:8181"]:
        assert start_asking_conf(url=url).returncode == 1, url
    assert start_asking_conf(url="https://192.0.2.1:8181").returncode == 1, "no authorities"
