"""Routes that are not enforced on every device: what would be refused passes, without an identity and with a verdict.

Each row of the denial table on such routes: test_enforcement_modes.py.
"""

import json
import re

import pytest

from support import web_sockets
from support.client import Client, get
from support.exposition import ask, scrape
from support.phone import Phone
from support.pki import attestgate
from support.waiting import eventually

PATH = "/observed"
ROUTES = [
    {"name": "observed", "host": "localhost", "path": PATH, "require": "request-proof", "enforce": "observe"},
    {"name": "stream", "host": "localhost", "path": "/stream", "require": "request-proof", "enforce": "observe", "body": "stream"},
    {"name": "chat", "host": "localhost", "path": "/chat", "require": "request-proof", "enforce": "observe", "websocket": "allowed"},
    {"name": "none", "host": "localhost", "path": "/none", "require": "request-proof", "enforce": "0%"},
    {"name": "all", "host": "localhost", "path": "/all", "require": "request-proof", "enforce": "100%"},
    {"name": "half", "host": "localhost", "path": "/half", "require": "request-proof", "enforce": "50%"},
    {"name": "always", "host": "localhost", "path": "/", "require": "request-proof"},
]
IDENTITY = ["attest-device", "attest-app", "attest-platform", "attest-counter"]


@pytest.fixture
def observing(start_attested):
    return start_attested(routes=ROUTES)


@pytest.fixture
def passes(observing):
    """Sends a request, and expects it at the service with that verdict, and with an identity only where it is `pass`."""
    def passes(data, verdict, route="observed"):
        count = would_deny(observing, route, verdict)
        with observing.phone.connect() as client:
            assert client.exchange(data).status == 200
        request = observing.upstream.last_request()
        expected = "pass" if verdict == "pass" else f"would-deny;code={verdict}"
        assert request.values("attest-verdict") == [expected]
        assert [name for name in IDENTITY if request.values(name)] == (IDENTITY if verdict == "pass" else [])
        # The proof is for the gateway, in any case.
        assert not request.values("signature")
        entry = observing.gateway.logged(route=route, decision="forwarded", **(
            {} if verdict == "pass" else {"would_deny": verdict}))
        assert "denial" not in entry
        if verdict != "pass":
            assert would_deny(observing, route, verdict) == count + 1
        return request
    return passes


def would_deny(observing, route, code):
    found = scrape(observing.gateway)
    for labels in found.labels("attestgate_would_deny_total") if "attestgate_would_deny_total" in found.kinds else []:
        if labels == {"route": route, "code": code}:
            return found("attestgate_would_deny_total", **labels)
    return 0


def test_other_content_than_proven_passes_as_it_came_and_leaves_the_counter(observing, passes):
    data = observing.phone.request("POST", PATH, content=b"content", sent={"content": b"altered"})
    assert passes(data, "body_digest_mismatch").content == b"altered"
    # The counter was not spent: the genuine request passes.
    passes(observing.phone.request("POST", PATH, content=b"content", counter=observing.phone.counter), "pass")


def test_other_streamed_content_passes_whole_where_there_is_no_identity(observing, passes):
    data = observing.phone.request("POST", "/stream", content=b"content", sent={"content": b"altered"}, created=1)
    assert passes(data, "proof_stale", "stream").content == b"altered"


def test_streamed_content_behind_a_used_counter_passes_whole(observing, passes):
    data = observing.phone.request("POST", "/stream", content=b"x" * 5000)
    passes(data, "pass", "stream")
    assert passes(observing.phone.again(data), "counter_replayed", "stream").content == b"x" * 5000


def test_no_client_can_claim_a_verdict(observing):
    spellings = ["Attest-Verdict: pass", "attest-verdict: pass", "ATTEST-VERDICT: pass"]
    with observing.phone.connect() as client:
        assert client.exchange(get(PATH, *spellings)).status == 200
        assert observing.upstream.last_request().values("attest-verdict") == ["would-deny;code=proof_required"]
        # A route that is always enforced sends none.
        fields = [tuple(line.split(": ")) for line in spellings]
        assert client.exchange(observing.phone.request(path="/", fields=fields)).status == 200
        assert observing.upstream.last_request().values("attest-verdict") == []


def test_a_share_of_devices_is_enforced_and_stays_the_same_after_a_start_and_with_more(observing, pki):
    identities = [pki.phone(f"share-{number}") for number in range(24)]

    def enforced():
        found = set()
        for number, identity in enumerate(identities):
            with Client(observing.gateway, identity) as client:
                status = client.exchange(get("/half")).status
            assert status in (200, 401)
            if status == 401:
                found.add(number)
        return found

    half = enforced()
    assert 0 < len(half) < 24
    observing.gateway.halt()
    observing.gateway.start()
    assert enforced() == half
    route = next(route for route in observing.gateway.conf["routes"] if route["name"] == "half")
    route["enforce"] = "90%"
    observing.gateway.write_conf()
    assert attestgate("reload", "--config", observing.gateway.conf_path).returncode == 0
    assert enforced() > half
    # An enrolled phone with a key of the share is enforced too.
    route["enforce"] = "always"
    observing.gateway.write_conf()
    assert attestgate("reload", "--config", observing.gateway.conf_path).returncode == 0
    assert enforced() == set(range(24))


@pytest.mark.parametrize("kind", ["RSA-3072", "P-384"])
def test_a_share_has_senders_whose_keys_no_device_can_have(observing, pki, kind):
    next(route for route in observing.gateway.conf["routes"] if route["name"] == "half")["enforce"] = "99%"
    observing.gateway.conf["listeners"][0]["clients"]["keys"] = ["p256", "p384", "rsa3072"]
    observing.gateway.write_conf()
    assert attestgate("reload", "--config", observing.gateway.conf_path).returncode == 0
    # It is a keyed hash: one of five may be outside.
    statuses = []
    for number in range(5):
        with Client(observing.gateway, pki.client(f"share-{kind}-{number}", kind=kind)) as client:
            statuses.append(client.exchange(get("/half")).status)
    assert statuses.count(401) >= 3, statuses


def test_a_web_socket_opens_without_a_proof_and_survives_the_check_of_its_device(observing):
    observing.upstream.upgrades = True
    observing.upstream.script = web_sockets.switches()
    with observing.phone.connect() as client:
        client.send(web_sockets.handshake("/chat"))
        assert client.read_response().status == 101
        # Longer than the interval at which tunnels are judged.
        observing.gateway.device_command("list")
        client.send(b"bytes")
        assert client._exactly(5) == b"bytes"
    request = observing.upstream.connections[-1].handshake
    assert request.values("attest-verdict") == ["would-deny;code=proof_required"]


def test_the_table_shows_who_would_be_refused_by_route_app_and_version(observing, pki):
    with observing.phone.connect() as client:
        assert client.exchange(observing.phone.request(path=PATH, fields=[("User-Agent", "Records/4.2 (phone; x)")])).status == 200
        for _ in range(3):
            assert client.exchange(get(PATH, "User-Agent: Records/9.9")).status == 200
    stranger = Phone(observing.gateway, pki.phone("unbound"), register=False)
    with stranger.connect() as client:
        assert client.exchange(get(PATH, 'User-Agent: Old"App/1')).status == 200

    def rows():
        found = json.loads(ask(observing.gateway, "/status")[2])["observed_routes"]
        assert {row["route"] for row in found} <= {route["name"] for route in ROUTES}
        return {row.get("app"): row for row in found if row["route"] == "observed"}
    eventually(lambda: len(rows()) == 2, "both clients in the table")
    # What a client calls itself is known of its connection's first request.
    own, other = rows()[observing.phone.app], rows()[None]
    span = {"requests": 4, "passed": 1, "denials": {"proof_required": 3}}
    assert (own["version"], own["enforce"], own["last_hour"], own["last_day"]) == ("Records/4.2", "observe", span, span)
    assert (other["version"], other["last_hour"]["denials"]) == ("Old", {"device_unknown": 1})
    printed = attestgate("status", "--config", observing.gateway.conf_path).stdout
    assert re.search(r"observed +observe +\S+ +Records/4.2 +4, 25.0 % +4, 25.0 % +proof_required 75.0 %", printed), printed


def test_no_versions_that_one_client_invents_take_the_row_of_one_in_use(observing):
    def call(version):
        with observing.phone.connect() as client:
            assert client.exchange(get(PATH, f"User-Agent: {version}")).status == 200

    call("Records/4.2")
    for number in range(300):
        call(f"invented/{number}")
        if number % 50 == 0:
            call("Records/4.2")
            call("Records/4.3")

    def rows():
        found = json.loads(ask(observing.gateway, "/status")[2])["observed_routes"]
        return {row["version"]: row["last_hour"]["requests"] for row in found}
    eventually(lambda: sum(rows().values()) == 313, "all requests in the table")
    assert len(rows()) == 257
    assert (rows()["Records/4.2"], rows()["Records/4.3"], rows()["_others"]) == (7, 6, 46)


def test_check_warns_of_each_route_that_is_not_enforced(observing):
    done = attestgate("check", "--config", observing.gateway.conf_path)
    assert done.returncode == 0
    warnings = done.stderr + done.stdout
    for name, words in [
            ("observed", "observes only"), ("none", "observes only"), ("half", "is enforced on 50% of devices")]:
        assert f"warning: the route `{name}` {words}" in warnings
    assert "the route `always`" not in warnings and "the route `all`" not in warnings
    metrics = scrape(observing.gateway)
    ratios = {name: metrics("attestgate_route_enforcement_ratio", route=name) for name in ["observed", "none", "half", "all", "always"]}
    assert ratios == {"observed": 0, "none": 0, "half": 0.5, "all": 1, "always": 1}
