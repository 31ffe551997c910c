"""Routes that require device tokens, which jwcrypto or the gateway has made; `attestgate verify device-token`; the issuer's JWK Set."""

import base64
import json
import subprocess
import time
from datetime import datetime, timezone

import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from jwcrypto import jwk, jws

from support.attested import Attested
from support.client import Client, get, post
from support.denials import code_of
from support.device_tokens import ISSUER, TokenIssuer, certificate_of, sha256, unpadded
from support.enrolment import Enrolling
from support.gateway import Gateway
from support.paths import BINARY, ENVIRONMENT, REPOSITORY
from support.pki import attestgate, openssl
from support.platforms import PLATFORMS
from support.waiting import eventually

GENUINE = REPOSITORY.parent / "shared" / "vectors" / "dsr"
ROUTES = [
    {"name": "records", "host": "localhost", "path": "/", "require": "request-proof", "device_token": "required"},
    {"name": "certificate", "host": "localhost", "path": "/certificate", "device_token": "required"},
    {"name": "sentinel", "host": "localhost", "path": "/sentinel"},
]


@pytest.fixture(scope="module")
def issuer(tmp_path_factory):
    return TokenIssuer(tmp_path_factory.mktemp("tokens"))


@pytest.fixture(scope="module")
def attested(tmp_path_factory, pki, shared_upstream, issuer):
    attested = Attested(
        tmp_path_factory.mktemp("token-gateway"), pki, shared_upstream, platforms=["ios", "android"], routes=ROUTES,
        device_tokens=issuer.settings())
    yield attested
    attested.gateway.stop()


@pytest.fixture
def gateway(attested):
    attested.gateway.begin()
    return attested


def ask(attested, token, path="/certificate", identity=None):
    fields = [f"X-Device-Token: {each}" for each in ([token] if isinstance(token, str) else token)]
    with Client(attested.gateway, identity or attested.phone.identity) as client:
        return client.exchange(get(path, *fields))


def test_a_token_for_the_certificate_passes_and_is_stripped(gateway, issuer):
    before = len(gateway.upstream.requests)
    assert ask(gateway, issuer.token(gateway.phone.identity)).status == 200
    assert gateway.upstream.requests[before].values("x-device-token") == []


def altered(token, place):
    return token[:place] + ("A" if token[place] != "A" else "B") + token[place + 1:]


def confused(issuer, claims):
    """HS256 with the public key as the secret."""
    secret = jwk.JWK(kty="oct", k=base64.urlsafe_b64encode(issuer.file.read_bytes()).decode().rstrip("="))
    return issuer.sign(claims, secret, alg="HS256")


def unsigned(issuer, claims):
    def part(value):
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")
    return f"{part({'typ': 'JWT', 'alg': 'none'})}.{part(claims)}."


BAD = {
    "two fields": (lambda issuer, me, other: [issuer.token(me)] * 2, "more than one"),
    "no token at all": (lambda issuer, me, other: "abc", "not a JSON Web Signature"),
    "another issuer": (lambda issuer, me, other: issuer.token(me, iss="https://other.example"), "another issuer"),
    "another audience's certificate": (lambda issuer, me, other: issuer.token(other), "x5t#S256"),
    "no certificate": (lambda issuer, me, other: issuer.token(me, cnf=None), "x5t#S256"),
    "another key": (
        lambda issuer, me, other: issuer.token(me, key=jwk.JWK.generate(kty="EC", crv="P-256")), "does not verify"),
    "another kid": (lambda issuer, me, other: issuer.token(me, header={"kid": "2"}), "names no key"),
    "another type": (lambda issuer, me, other: issuer.token(me, header={"typ": "at+jwt"}), "typ"),
    "expired": (lambda issuer, me, other: issuer.token(me, exp=int(time.time()) - 1), "expired"),
    "too old": (lambda issuer, me, other: issuer.token(me, iat=int(time.time()) - 3600), "older"),
    "from the future": (lambda issuer, me, other: issuer.token(me, iat=int(time.time()) + 600), "future"),
    "no expiry": (lambda issuer, me, other: issuer.token(me, exp=None), "exp"),
    "no issue time": (lambda issuer, me, other: issuer.token(me, iat=None), "iat"),
    "symmetric algorithm": (lambda issuer, me, other: confused(issuer, issuer.claims(me)), "alg"),
    "no algorithm": (lambda issuer, me, other: unsigned(issuer, issuer.claims(me)), "alg"),
    "changed claims": (lambda issuer, me, other: altered(issuer.token(me), 150), ""),
    "changed signature": (lambda issuer, me, other: altered(issuer.token(me), -20), "does not verify"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_wrong_with_a_token_is_refused_and_logged(gateway, issuer, pki, case):
    make, reason = BAD[case]
    token = make(issuer, gateway.phone.identity, pki.phone("token-other"))
    with gateway.nothing_forwarded():
        response = ask(gateway, token)
        assert (response.status, code_of(response)) == (401, "device_token_invalid")
    entry = gateway.gateway.logged(denial="device_token_invalid")
    assert reason in entry["detail"]
    assert str(token) not in json.dumps(entry)


def test_the_field_is_found_in_every_case_of_its_letters(gateway, issuer):
    token = issuer.token(gateway.phone.identity)
    with Client(gateway.gateway, gateway.phone.identity) as client:
        assert client.exchange(get("/certificate", f"x-DEVICE-token: {token}")).status == 200
        assert code_of(client.exchange(get("/certificate"))) == "device_token_required"


@pytest.mark.parametrize("platform", ["ios", "android"])
def test_a_refused_token_spends_no_counter(gateway, issuer, platform):
    phone = gateway.first[platform]
    good = issuer.token(phone.identity)

    def sending(token):
        return phone.request(path="/a", counter=counter, sent={"fields": [("X-Device-Token", token)]})
    counter = phone.counter + 1
    phone.counter = counter
    with phone.connect() as client:
        for _ in range(2):
            assert code_of(client.exchange(sending(altered(good, -20)))) == "device_token_invalid"
        assert client.exchange(sending(good)).status == 200
        assert code_of(client.exchange(sending(good))) == "counter_replayed"


def test_a_token_that_was_accepted_ends_on_a_kept_connection(gateway, issuer):
    identity = gateway.phone.identity
    token = issuer.token(identity, exp=int(time.time()) + 3)
    with Client(gateway.gateway, identity) as client:
        def is_over():
            response = client.exchange(get("/certificate", f"X-Device-Token: {token}"))
            return code_of(response) == "device_token_invalid"
        eventually(is_over, lambda: "the token to end")
        # Another one is judged by itself.
        assert client.exchange(get("/certificate", f"X-Device-Token: {issuer.token(identity)}")).status == 200


@pytest.mark.parametrize("algorithm", ["RS256", "PS256"])
def test_keys_of_rsa_and_the_binding_by_sub_and_forwarded_tokens(tmp_path, pki, upstream, algorithm):
    issuer = TokenIssuer(tmp_path / "tokens", kty="RSA", size=2048)
    issuer.publish(issuer.key, alg=algorithm)
    attested = Attested(
        tmp_path / "gateway", pki, upstream, routes=ROUTES,
        device_tokens=issuer.settings(binding="sub", header="forward"))
    try:
        identity, other = attested.phone.identity, pki.phone("token-other")
        before = len(upstream.requests)
        token = issuer.token(identity, header={"alg": algorithm}, cnf={"x5t#S256": "A" * 43})
        assert ask(attested, token).status == 200
        assert upstream.requests[before].values("x-device-token") == [token]
        assert ask(attested, token, "/sentinel").status == 200
        assert upstream.requests[before + 1].values("x-device-token") == []
        assert code_of(ask(attested, token, identity=other)) == "device_token_invalid"
        # The key is for one algorithm only.
        wrong = {"alg": "PS256" if algorithm == "RS256" else "RS256"}
        assert code_of(ask(attested, issuer.token(identity, header=wrong))) == "device_token_invalid"
    finally:
        attested.gateway.stop()


def test_a_gateway_does_not_start_with_keys_that_verify_nothing(tmp_path, pki, upstream):
    issuer = TokenIssuer(tmp_path / "tokens")
    for text, reason in [
            ("{", "JSON"), ('{"keys":[]}', "no key"), (issuer.key.export(), "JWK Set"),
            (json.dumps({"keys": 10_000 * [issuer.key.export_public(as_dict=True)]}), "JSON")]:
        issuer.file.write_text(text)
        gateway = Gateway(tmp_path / "gateway", pki, {"service": upstream.address}, [
            {"name": "all", "host": "localhost", "path": "/", "device_token": "required"}], device_tokens=issuer.settings())
        gateway.write_conf()
        done = attestgate("check", "--config", gateway.conf_path)
        gateway.holder.close()
        assert done.returncode == 1 and reason in done.stderr and "jwks.json" in done.stderr, done.stderr


# The command.

def verify(token, jwks, *options):
    done = subprocess.run(
        [BINARY, "verify", "device-token", "--jwks", jwks, *map(str, options), "--json", "-"], input=token.encode(),
        capture_output=True, env=ENVIRONMENT, timeout=60)
    return done.returncode, json.loads(done.stdout) if done.stdout else done.stderr


def failed(report):
    return [step["step"] for step in report["steps"] if step["ok"] is False]


def rfc3339(seconds):
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def test_the_command_explains_a_token(issuer, pki):
    me, other = pki.phone("token-me"), pki.phone("token-other")
    token = issuer.token(me)
    options = ["--issuer", ISSUER, "--certificate"]
    for binding in ["x5t", "sub"]:
        status, report = verify(token + "\n", issuer.file, *options, me.certificate, "--binding", binding)
        assert status == 0 and report["accepted"] and report["claims"]["type"] == "IOS"
        status, report = verify(token, issuer.file, *options, other.certificate, "--binding", binding)
        assert status == 1 and failed(report) == ["binding"]
    assert failed(verify(token, issuer.file, "--issuer", "other")[1]) == ["issuer"]
    assert failed(verify(altered(token, -20), issuer.file)[1]) == ["signature"]
    assert failed(verify(token, issuer.file, "--at", rfc3339(time.time() + 601))[1]) == ["time"]
    assert failed(verify("abc", issuer.file)[1]) == ["form"]
    assert verify(token, me.certificate)[0] == 2
    assert verify(token, issuer.file, "--binding", "none")[0] == 2


@pytest.mark.skipif(not GENUINE.is_dir(), reason="no dsr in shared/vectors beside the project's folder")
def test_the_genuine_token_of_the_reference_system(pki):
    token = (GENUINE / "device-token.jwt").read_text().strip()
    jwks = GENUINE / "device-verify-jwks.json"
    issued = 1_692_798_300
    at = ["--issuer", "DSR GMS 1.0.0", "--at", rfc3339(issued)]
    assert verify(token, jwks, *at)[0] == 0
    for binding in ["x5t", "sub"]:
        options = ["--certificate", pki.phone("token-other").certificate, "--binding", binding]
        assert failed(verify(token, jwks, *at, *options)[1]) == ["binding"]
    assert failed(verify(token, jwks, "--at", rfc3339(issued + 3600))[1]) == ["time"]
    for place in range(0, len(token), 40):
        assert verify(altered(token, place), jwks, *at)[0] == 1


# The issuer.

def make_key(path):
    openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", path)
    path.chmod(0o600)
    return path


def published(enrolling):
    response = enrolling.service.exchange(get("/.well-known/jwks.json"))
    assert response.status == 200 and response.values("content-type") == ["application/json"]
    return jwk.JWKSet.from_json(response.content.decode())


def test_the_issuers_keys_are_published_and_rotate_by_a_reload(tmp_path, pki, upstream):
    keys = [make_key(tmp_path / f"{name}.key") for name in ["first", "second"]]
    enrolling = Enrolling(
        tmp_path, pki, upstream, enrolment={"device_tokens": {"issuer": ISSUER, "key": str(keys[0])}}).start()
    try:
        own = [jwk.JWK.from_pem(key.read_bytes()).thumbprint() for key in keys]
        assert [(key["kid"], key.thumbprint(), key.has_private) for key in published(enrolling)] == [(own[0], own[0], False)]
        enrolling.change(device_tokens={"issuer": ISSUER, "key": str(keys[1])})
        assert {key["kid"] for key in published(enrolling)} == set(own)
        assert enrolling.service.exchange(post("/.well-known/jwks.json", b"{}")).status == 405
    finally:
        enrolling.stop()


@pytest.fixture(scope="module")
def issuing(tmp_path_factory, pki, shared_upstream):
    """A gateway that issues tokens, and requires them."""
    directory = tmp_path_factory.mktemp("issuing")
    key = make_key(directory / "tokens.key")
    keys = directory / "jwks.json"
    keys.write_text(json.dumps({"keys": [jwk.JWK.from_pem(key.read_bytes()).export_public(as_dict=True)]}))
    made = Enrolling(
        directory, pki, shared_upstream, devices=True, platforms=PLATFORMS,
        enrolment={"device_tokens": {"issuer": ISSUER, "key": str(key), "life": "10m", "at_key_binding": True}},
        device_tokens={"issuer": ISSUER, "jwks": str(keys)})
    made.gateway.conf["routes"].append({
        "name": "tokens", "host": "localhost", "path": "/tokens", "require": "device", "device_token": "required",
        "upstream": "service"})
    made.start()
    yield made
    made.stop()


def renewed(device):
    response = device.send("POST", "/attestation", {"nonce": device.enrolling.service.nonce()})
    assert response.status == 200, response
    return json.loads(response.content)


def read(enrolling, token):
    """Header and claims of a token, whose signature the published keys verify."""
    signed = jws.JWS()
    signed.deserialize(token)
    signed.verify(published(enrolling).get_key(json.loads(signed.objects["protected"])["kid"]))
    return json.loads(signed.objects["protected"]), json.loads(signed.payload)


@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_token_is_issued_with_a_new_posture_and_with_a_key_binding(issuing, platform):
    with issuing.phones_of(platform):
        phone, mtls, response = issuing.enrolled()
        device = issuing.device(phone, mtls, response, f"issued-{platform}")
        other = issuing.device(*issuing.enrolled(), f"other-{platform}")
        answer = renewed(device)
        assert answer["posture"]["platform"] == platform
        for token in [answer["device_token"], json.loads(response.content)["device_token"]]:
            header, claims = read(issuing, token)
            assert (header["typ"], header["alg"]) == ("JWT", "ES256")
            assert (claims["iss"], claims["type"]) == (ISSUER, {"ios": "IOS", "android": "ANDROID"}[platform])
            assert claims["exp"] - claims["iat"] == 600 and "userIdentifier" not in claims
            assert claims["cnf"] == {"x5t#S256": unpadded(sha256(certificate_of(device.identity).public_bytes(Encoding.DER)))}
            assert claims["sub"] == base64.b64encode(sha256(mtls.point)).decode()
            part = "keyIdAttestation" if platform == "android" else "assertion"
            assert set(claims["deviceHealth"]) == {part, "deviceAttributes"}
            accepted = [code_of(ask(issuing, token, "/tokens", each.identity)) for each in (device, other)]
            assert accepted == [None, "device_token_invalid"]
        # The certificate is another one, but the key is the same.
        renewal = issuing.device(phone, mtls, device.bind(mtls), f"renewed-{platform}")
        issuing.gateway.conf["device_tokens"]["binding"] = "sub"
        issuing.change()
        try:
            assert code_of(ask(issuing, answer["device_token"], "/tokens", renewal.identity)) is None
            assert code_of(ask(issuing, answer["device_token"], "/tokens", other.identity)) == "device_token_invalid"
        finally:
            del issuing.gateway.conf["device_tokens"]["binding"]
            issuing.change()
        assert code_of(ask(issuing, answer["device_token"], "/tokens", renewal.identity)) == "device_token_invalid"


def test_without_an_issuer_no_answer_has_a_token(tmp_path, pki, shared_upstream):
    enrolling = Enrolling(tmp_path, pki, shared_upstream, devices=True).start()
    try:
        phone, mtls, response = enrolling.enrolled()
        assert set(json.loads(response.content)) == {"certificate_chain", "expires_at"}
        assert set(renewed(enrolling.device(phone, mtls, response))) == {"posture"}
    finally:
        enrolling.stop()


def test_a_key_that_a_reload_removes_ends_accepted_tokens_on_kept_connections(tmp_path, pki, upstream):
    issuer = TokenIssuer(tmp_path / "tokens")
    identity = pki.phone("kept-token")
    gateway = Gateway(
        tmp_path / "gateway", pki, {"service": upstream.address},
        [{"name": "all", "host": "localhost", "path": "/", "device_token": "required"}], device_tokens=issuer.settings())
    gateway.start()
    try:
        request = get("/", f"X-Device-Token: {issuer.token(identity)}")
        with Client(gateway, identity) as kept, Client(gateway, identity) as other:
            assert [kept.exchange(request).status for _ in range(3)] == [200] * 3
            assert other.exchange(get("/")).status == 401
            before = len(upstream.requests)
            issuer.publish(jwk.JWK.generate(kty="EC", crv="P-256", kid="1"))
            done = attestgate("reload", "--config", gateway.conf_path)
            assert done.returncode == 0, done.stderr
            for client in (kept, other):
                assert code_of(client.exchange(request)) == "device_token_invalid"
        with Client(gateway, identity) as client:
            assert code_of(client.exchange(request)) == "device_token_invalid"
        assert len(upstream.requests) == before
    finally:
        gateway.stop()
