"""Routes that require client attestations, which jwcrypto has made, an implementation that is not ours."""

import json
import time
from types import SimpleNamespace

import pytest
from jwcrypto import jwk

from support.client import Client, get, post
from support.client_attestations import CLIENT_ID, ClientAttester, WalletInstance, fields
from support.denials import NothingForwarded, assert_denied
from support.gateway import Gateway
from support.http2_client import HTTP2Client
from support.phone import Phone
from support.pki import attestgate
from support.recording_upstream import RecordingUpstream
from support.waiting import eventually

CHALLENGES = "/.well-known/attestgate/attestation-challenge"
METADATA = "/.well-known/oauth-protected-resource"
ROUTES = [
    {"name": "wallets", "host": "localhost", "path": "/", "require": "client-attestation"},
    {"name": "open", "host": "localhost", "path": "/open", "require": "nothing"},
    {"name": "sentinel", "host": "localhost", "path": "/sentinel"},
]
INVALID, CHALLENGE, STALE = "invalid_client_attestation", "use_attestation_challenge", "use_fresh_attestation"
RESOURCE = "https://localhost/records"


@pytest.fixture(scope="module")
def served(pki, tmp_path_factory):
    folder = tmp_path_factory.mktemp("client-attestations")
    upstream = RecordingUpstream()
    attester = ClientAttester(folder)
    gateway = Gateway(
        folder / "gateway", pki, {"service": upstream.address}, ROUTES, clients={"require": "optional"},
        client_attestations=attester.settings(RESOURCE, clients=[CLIENT_ID])).start()
    yield SimpleNamespace(
        gateway=gateway, upstream=upstream, attester=attester, phone=Phone(gateway, pki.phone("wallet-phone")))
    gateway.stop()
    upstream.close()
    assert upstream.faults == []


@pytest.fixture
def gateway(served):
    served.gateway.begin()
    served.upstream.reset_behaviour()
    return served.gateway


@pytest.fixture
def wallet(served):
    return WalletInstance(RESOURCE)


@pytest.fixture
def nothing_forwarded(gateway, served):
    return NothingForwarded(gateway, served.upstream, served.phone.identity)


def test_a_key_that_a_reload_removes_ends_attestations_on_kept_connections(tmp_path, pki, upstream, wallet):
    attester = ClientAttester(tmp_path / "attester")
    gateway = Gateway(
        tmp_path / "gateway", pki, {"service": upstream.address}, ROUTES, clients={"require": "optional"},
        client_attestations=attester.settings(RESOURCE)).start()
    try:
        with Client(gateway, None) as kept:
            attestation = attester.attestation(wallet)
            assert kept.exchange(get("/a", *fields(attestation, wallet.pop(challenge_from(kept))))).status == 200
            before = len(upstream.requests)
            attester.file.write_text(ClientAttester(tmp_path / "next").file.read_text())
            done = attestgate("reload", "--config", gateway.conf_path)
            assert done.returncode == 0, done.stderr
            for shown in (attestation, attester.attestation(wallet)):
                response = kept.exchange(get("/a", *fields(shown, wallet.pop(challenge_from(kept)))))
                assert (response.status, json.loads(response.content)["error"]) == (401, INVALID)
        assert len(upstream.requests) == before
    finally:
        gateway.stop()


def challenge_from(client):
    response = client.exchange(post(CHALLENGES, b""))
    assert response.status == 200 and response.value("cache-control") == "no-store"
    assert response.value("content-type") == "application/json"
    answer = json.loads(response.content)
    assert list(answer) == ["attestation_challenge"]
    return answer["attestation_challenge"]


def test_a_client_with_attestation_and_proof_passes_and_its_fields_stay_here(gateway, served, wallet):
    with Client(gateway, None) as client:
        attestation = served.attester.attestation(wallet)
        for _ in range(2):  # The attestation serves again, each proof once.
            sent = fields(attestation, wallet.pop(challenge_from(client)))
            assert client.exchange(get("/a", *sent, "Attest-Client: forged", "DPoP: of the service")).status == 200
            forwarded = served.upstream.last_request()
            assert forwarded.values("attest-client") == [CLIENT_ID]
            assert [name for name, _ in forwarded.fields if name.lower().startswith("oauth-client")] == []
            assert forwarded.values("dpop") == ["of the service"]


def test_other_routes_forward_the_fields_and_state_no_client(gateway, served, wallet):
    with Client(gateway, None) as client:
        attestation = served.attester.attestation(wallet)
        pop = wallet.pop("of the service")
        assert client.exchange(get("/open", *fields(attestation, pop), "Attest-Client: forged")).status == 200
    forwarded = served.upstream.last_request()
    assert forwarded.values("oauth-client-attestation") == [attestation]
    assert forwarded.values("oauth-client-attestation-pop") == [pop]
    assert forwarded.values("attest-client") == []


def test_the_same_over_http_2_and_with_a_certificate(gateway, served, wallet):
    with HTTP2Client(gateway, served.phone.identity) as client:
        response = client.get("/.well-known/attestgate/attestation-challenge")
        assert_denied(gateway, response, "method_refused", 405)
        assert response.value("allow") == "POST"
    with Client(gateway, served.phone.identity) as client:
        challenge = challenge_from(client)
        sent = fields(served.attester.attestation(wallet), wallet.pop(challenge))
        assert client.exchange(get("/a", *sent)).status == 200


def test_the_metadata_of_the_resource_name_the_endpoint(gateway):
    with Client(gateway, None) as client:
        response = client.exchange(get(METADATA + "/records"))
        assert response.status == 200 and response.value("content-type") == "application/json"
        assert json.loads(response.content) == {
            "resource": RESOURCE, "challenge_endpoint": "https://localhost" + CHALLENGES,
            "client_attestation_pop_methods_supported": ["attestation_pop_jwt", "dpop_combined"],
            "client_attestation_signing_alg_values_supported": ["ES256", "RS256", "PS256"],
            "client_attestation_pop_signing_alg_values_supported": ["ES256"],
            "dpop_signing_alg_values_supported": ["ES256"]}
        assert client.exchange(get(METADATA + "/records", method="HEAD"), "HEAD").status == 200
        assert_denied(gateway, client.exchange(get(METADATA)), INVALID, 401)


def test_a_refused_client_gets_what_it_needs_for_the_next_request(gateway, served, wallet, nothing_forwarded):
    with nothing_forwarded, Client(gateway, None) as client:
        attestation = served.attester.attestation(wallet)
        response = client.exchange(get("/a", *fields(attestation, wallet.pop(None))))
        assert_denied(gateway, response, CHALLENGE, 401)
        assert response.value("www-authenticate") == (
            f'Bearer error="{CHALLENGE}", resource_metadata="https://localhost{METADATA}/records"')
    with Client(gateway, None) as client:
        challenge = response.value("oauth-client-attestation-challenge")
        assert client.exchange(get("/a", *fields(attestation, wallet.pop(challenge)))).status == 200


def test_a_proof_is_accepted_once(gateway, served, wallet, nothing_forwarded):
    with Client(gateway, None) as client:
        attestation = served.attester.attestation(wallet)
        challenge = challenge_from(client)
        used = fields(attestation, wallet.pop(challenge, jti="1"))
        assert client.exchange(get("/a", *used)).status == 200
    with nothing_forwarded:
        for again in [used, fields(attestation, wallet.pop(challenge, jti="1"))]:
            with Client(gateway, None) as client:
                assert_denied(gateway, client.exchange(get("/a", *again)), INVALID, 401)
    # An id is of one key.
    other = WalletInstance(RESOURCE)
    with Client(gateway, None) as client:
        sent = fields(served.attester.attestation(other), other.pop(challenge, jti="1"))
        assert client.exchange(get("/a", *sent)).status == 200


def altered(token, place):
    return token[:place] + ("A" if token[place] != "A" else "B") + token[place + 1:]


def now(seconds=0):
    return int(time.time()) + seconds


def bad(code, reason, attestation=lambda attester, me: attester.attestation(me), pop=lambda me, nonce: me.pop(nonce)):
    return SimpleNamespace(code=code, reason=reason, attestation=attestation, pop=pop)


def other_key():
    return jwk.JWK.generate(kty="EC", crv="P-256")


BAD = {
    "proof for a foreign audience": bad(INVALID, "aud", pop=lambda me, nonce: me.pop(nonce, aud="https://other.example")),
    "proof for two audiences": bad(INVALID, "aud", pop=lambda me, nonce: me.pop(nonce, aud=[RESOURCE, "https://o.example"])),
    "proof without audience": bad(INVALID, "aud", pop=lambda me, nonce: me.pop(nonce, aud=None)),
    "wrong challenge": bad(CHALLENGE, "not of this process", pop=lambda me, nonce: me.pop(altered(nonce, 40))),
    "challenge of other form": bad(CHALLENGE, "not of this process", pop=lambda me, nonce: me.pop("5c1a9e10")),
    "challenge that is no text": bad(INVALID, "challenge", pop=lambda me, nonce: me.pop(7)),
    "proof without id": bad(INVALID, "jti", pop=lambda me, nonce: me.pop(nonce, jti=None)),
    "proof with a long id": bad(INVALID, "jti", pop=lambda me, nonce: me.pop(nonce, jti="j" * 256)),
    "proof without time": bad(INVALID, "iat", pop=lambda me, nonce: me.pop(nonce, iat=None)),
    "old proof": bad(INVALID, "iat", pop=lambda me, nonce: me.pop(nonce, iat=now(-301))),
    "proof from the future": bad(INVALID, "iat", pop=lambda me, nonce: me.pop(nonce, iat=now(120))),
    "proof of another key": bad(INVALID, "does not verify", pop=lambda me, nonce: me.pop(nonce, key=other_key())),
    "proof of another type": bad(INVALID, "typ", pop=lambda me, nonce: me.pop(nonce, header={"typ": "JWT"})),
    "changed proof": bad(INVALID, "does not verify", pop=lambda me, nonce: altered(me.pop(nonce), -20)),
    "expired attestation": bad(STALE, "expired", lambda attester, me: attester.attestation(me, exp=now(-1))),
    "old attestation": bad(STALE, "maximum_age", lambda attester, me: attester.attestation(me, iat=now(-86_401))),
    "attestation from the future": bad(INVALID, "future", lambda attester, me: attester.attestation(me, iat=now(120))),
    "attestation not valid yet": bad(INVALID, "future", lambda attester, me: attester.attestation(me, nbf=now(120))),
    "attestation without expiry": bad(INVALID, "exp", lambda attester, me: attester.attestation(me, exp=None)),
    "attestation without client": bad(INVALID, "sub", lambda attester, me: attester.attestation(me, sub=None)),
    "client id with a line end": bad(INVALID, "sub", lambda attester, me: attester.attestation(me, sub="a\r\nX: y")),
    "another client": bad(INVALID, "clients", lambda attester, me: attester.attestation(me, sub="https://other.example")),
    "attestation of another key": bad(
        INVALID, "does not verify", lambda attester, me: attester.attestation(WalletInstance(RESOURCE))),
    "attestation without key": bad(INVALID, "cnf", lambda attester, me: attester.attestation(me, cnf=None)),
    "attestation with a private key": bad(
        INVALID, "cnf", lambda attester, me: attester.attestation(me, cnf={"jwk": me.key.export(as_dict=True)})),
    "attestation of another type": bad(
        INVALID, "typ", lambda attester, me: attester.attestation(me, header={"typ": "JWT"})),
    "attestation of another attester": bad(
        INVALID, "does not verify", lambda attester, me: attester.attestation(me, key=other_key())),
    "unknown key of the attester": bad(INVALID, "kid", lambda attester, me: attester.attestation(me, header={"kid": "12"})),
    "changed attestation": bad(INVALID, "", lambda attester, me: altered(attester.attestation(me), -100)),
    "long attestation": bad(INVALID, "compact form", lambda attester, me: attester.attestation(me, x="x" * 8192)),
    "no attestation": bad(INVALID, "compact form", lambda attester, me: "a.b.c"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_wrong_is_refused_with_the_draft_s_code_and_logged(gateway, served, wallet, nothing_forwarded, case):
    one = BAD[case]
    attestation = one.attestation(served.attester, wallet)
    with nothing_forwarded, Client(gateway, None) as client:
        pop = one.pop(wallet, challenge_from(client))
        assert_denied(gateway, client.exchange(get("/a", *fields(attestation, pop))), one.code, 401)
    entry = gateway.logged(denial=one.code)
    assert one.reason in entry["detail"]
    assert attestation not in json.dumps(entry) and pop not in json.dumps(entry)


def test_fields_that_are_absent_or_repeated_are_refused(gateway, served, wallet, nothing_forwarded):
    with nothing_forwarded, Client(gateway, None) as client:
        attestation, pop = fields(served.attester.attestation(wallet), wallet.pop(challenge_from(client)))
        for sent in [[], [attestation], [pop], [attestation, attestation, pop], [attestation, pop, pop]]:
            assert_denied(gateway, client.exchange(get("/a", *sent)), INVALID, 401)
    with Client(gateway, None) as client:  # A refusal uses no proof up. Names have any case.
        sent = [line.replace("OAuth-Client", "oauth-CLIENT") for line in (attestation, pop)]
        assert client.exchange(get("/a", *sent)).status == 200


# The DPoP proof in place of the other.

def combined(attestation, dpop, *further):
    return [f"OAuth-Client-Attestation: {attestation}", f"DPoP: {dpop}", *further]


def test_a_dpop_proof_serves_as_proof_of_possession_and_reaches_the_service(gateway, served, wallet):
    url = f"https://localhost:{gateway.port}/a"
    with Client(gateway, None) as client:
        challenge = challenge_from(client)
        attestation = served.attester.attestation(wallet)
        host = f"localhost:{gateway.port}"
        dpop = wallet.dpop(challenge, "GET", url, token="token")
        sent = combined(attestation, dpop, "Authorization: DPoP token")
        assert client.exchange(get("/a?query=1", *sent, host=host)).status == 200
        assert served.upstream.last_request().values("dpop") == [dpop]
        assert_denied(gateway, client.exchange(get("/a", *sent, host=host)), INVALID, 401)
        for wrong in [
                wallet.dpop(challenge, "POST", url, token="token"),
                wallet.dpop(challenge, "GET", url + "/b", token="token"),
                wallet.dpop(challenge, "GET", url, token="other"), wallet.dpop(challenge, "GET", url),
                wallet.dpop(challenge, "GET", url, token="token", key=other_key()),
                WalletInstance(RESOURCE).dpop(challenge, "GET", url, token="token")]:
            sent = combined(attestation, wrong, "Authorization: DPoP token")
            assert_denied(gateway, client.exchange(get("/a", *sent, host=host)), INVALID, 401)
        sent = combined(attestation, wallet.dpop(None, "GET", url))
        assert_denied(gateway, client.exchange(get("/a", *sent, host=host)), CHALLENGE, 401)


# Challenges are of one process.

def test_no_worker_accepts_a_proof_again_nor_after_a_reload_or_a_restart(tmp_path, pki, upstream):
    attester, wallet = ClientAttester(tmp_path), WalletInstance(RESOURCE)
    gateway = Gateway(
        tmp_path / "gateway", pki, {"service": upstream.address}, ROUTES, clients={"require": "optional"}, workers=2,
        client_attestations=attester.settings(RESOURCE)).start()
    try:
        with Client(gateway, None) as client:
            challenge = challenge_from(client)
            used = fields(attester.attestation(wallet), wallet.pop(challenge))
            assert client.exchange(get("/a", *used)).status == 200
        for _ in range(16):  # Connections are spread over the workers.
            with Client(gateway, None) as client:
                assert_denied(gateway, client.exchange(get("/a", *used)), INVALID, 401)
        done = attestgate("reload", "--config", gateway.conf_path)
        assert done.returncode == 0, done.stderr
        with Client(gateway, None) as client:
            assert_denied(gateway, client.exchange(get("/a", *used)), INVALID, 401)
            kept = fields(attester.attestation(wallet), wallet.pop(challenge))
            assert client.exchange(get("/a", *kept)).status == 200
        gateway.stop()
        gateway.start()
        with Client(gateway, None) as client:
            assert_denied(gateway, client.exchange(get("/a", *used)), CHALLENGE, 401)
    finally:
        gateway.stop()


def test_an_aging_challenge_is_replaced_in_a_response_and_then_expires(tmp_path, pki, upstream):
    attester, wallet = ClientAttester(tmp_path), WalletInstance(RESOURCE)
    gateway = Gateway(
        tmp_path / "gateway", pki, {"service": upstream.address}, ROUTES, clients={"require": "optional"},
        proof={"challenge_life": "10s"}, client_attestations=attester.settings(RESOURCE)).start()
    upstream.answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nOAuth-Client-Attestation-Challenge: the service's\r\n\r\n"
    try:
        with Client(gateway, None) as client:
            attestation = attester.attestation(wallet)

            def ask(challenge):
                return client.exchange(get("/a", *fields(attestation, wallet.pop(challenge))))

            def given(challenge):
                response = ask(challenge)
                assert response.status == 200
                return response.values("oauth-client-attestation-challenge")
            first = challenge_from(client)
            assert given(first) == [], "the service's is none of ours"
            second, = eventually(lambda: given(first), lambda: "a new challenge")
            assert given(second) == []
            eventually(lambda: ask(first).status == 401, lambda: "the first to expire")
            assert_denied(gateway, ask(first), CHALLENGE, 401)
            # Other routes forward what the service sends.
            assert len(client.exchange(get("/open")).values("oauth-client-attestation-challenge")) == 1
    finally:
        gateway.stop()


def test_a_gateway_does_not_start_with_keys_that_verify_nothing(tmp_path, pki, upstream):
    attester = ClientAttester(tmp_path)
    attester.file.write_text(json.dumps({"keys": []}))
    gateway = Gateway(
        tmp_path / "gateway", pki, {"service": upstream.address}, ROUTES, clients={"require": "optional"},
        client_attestations=attester.settings(RESOURCE))
    gateway.write_conf()
    done = attestgate("check", "--config", gateway.conf_path)
    gateway.holder.close()
    assert done.returncode == 1 and "no key" in done.stderr and "attester.json" in done.stderr, done.stderr
