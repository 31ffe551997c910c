"""The wallet profile: client attestations for registered devices, and the statement for a federation."""

import base64
import json
import time
from types import SimpleNamespace

import pytest
from cryptography import x509
from jwcrypto import jwk, jws

from support.authorization_server import AuthorizationServer
from support.client import get, post
from support.client_attestations import WalletInstance, sign
from support.enrolling_phone import HardwareKey, b64url, error_of, sha256
from support.enrolment import REFUSED, Enrolling
from support.pki import attestgate, openssl
from support.platforms import PLATFORMS
from support.play_integrity import Console
from support.recording_upstream import RecordingUpstream
from support.software_phone import EnrollingGateway, run
from support.waiting import eventually

CLIENT = "https://wallet.example"
RESOURCE = "https://localhost"
STATEMENT = "/.well-known/openid-federation"


def new_key(path):
    openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", path)
    path.chmod(0o600)
    return path


class Federation:
    """What an operator of a federation signs for the provider."""

    def __init__(self, path):
        self.path, self.key = path, jwk.JWK.generate(kty="EC", crv="P-256", kid="f")

    def state(self, header=None, **change):
        claims = {
            "iss": CLIENT, "sub": CLIENT, "iat": int(time.time()), "exp": int(time.time()) + 3600,
            "jwks": {"keys": [self.key.export_public(as_dict=True)]}, "metadata": {"wallet_provider": {}}, **change}
        self.path.write_text(sign(
            self.key, claims, **{"typ": "entity-statement+jwt", "kid": "f", **(header or {})}) + "\n")
        return self.path.read_text().strip()


@pytest.fixture(scope="module")
def served(pki, tmp_path_factory):
    folder = tmp_path_factory.mktemp("wallets")
    federation = Federation(folder / "statement.jwt")
    statement = federation.state()
    wallet = {"client": CLIENT, "key": str(new_key(folder / "wallet.key")), "federation_statement": str(federation.path)}
    upstream = RecordingUpstream()
    enrolling = Enrolling(folder, pki, upstream, platforms=PLATFORMS, enrolment={"wallet": wallet}).start()
    yield SimpleNamespace(enrolling=enrolling, federation=federation, statement=statement, wallet=wallet)
    enrolling.stop()
    upstream.close()


@pytest.fixture(params=PLATFORMS)
def enrolling(served, request):
    with served.enrolling.phones_of(request.param):
        yield served.enrolling


def registered(enrolling):
    phone = enrolling.phone()
    assert phone.initialize().status == 204
    return phone


def assertion(phone, wallet, header=None, signer=None, hardware=None, thumbprint=None, nonce=None, signed=None, **change):
    """The request's JWT. `hardware`: another hardware key; `signed`: another nonce in what that signs."""
    nonce = nonce or phone.service.nonce()
    client_data = json.dumps(
        {"challenge": signed or nonce, "jwk_thumbprint": thumbprint or wallet.key.thumbprint()}, separators=(",", ":"))
    if phone.platform == "ios":
        phone.counter += 1
        signature, data = phone.assertion(client_data.encode(), phone.counter, key=hardware)
        integrity = b64url(data)
    else:
        signature, integrity = (hardware or phone.key).sign(client_data.encode()), None
    now = int(time.time())
    claims = {
        "iss": phone.tag, "iat": now, "exp": now + 3600, "nonce": nonce, "hardware_signature": b64url(signature),
        "integrity_assertion": integrity, "hardware_key_tag": phone.tag,
        "cnf": {"jwk": {**wallet.key.export_public(as_dict=True), "kid": wallet.key.thumbprint()}},
        "platform": "iOS" if phone.platform == "ios" else "Android", "wallet_solution_id": "Wallet-mobile",
        "wallet_solution_version": "1.1.0", **change}
    return sign(
        signer or wallet.key, claims, **{"typ": "wia-request+jwt", "kid": wallet.key.thumbprint(), **(header or {})})


def ask(phone, token):
    return phone.service.post("/wallet-instance-attestations", {"assertion": token})


def attestation_for(phone, wallet):
    response = ask(phone, assertion(phone, wallet))
    assert response.status == 200 and response.value("cache-control") == "no-store", response
    answer = json.loads(response.content)
    assert list(answer) == ["wallet_instance_attestation"]
    return answer["wallet_instance_attestation"]


def published(enrolling):
    response = enrolling.service.exchange(get("/.well-known/jwks.json"))
    assert response.status == 200
    return response.content


def read(enrolling, token):
    """Header and claims, verified by jwcrypto with the published keys."""
    parsed = jws.JWS()
    parsed.deserialize(token)
    parsed.verify(jwk.JWKSet.from_json(published(enrolling).decode()).get_key(parsed.jose_header["kid"]))
    return parsed.jose_header, json.loads(parsed.payload)


def test_a_registered_device_gets_a_client_attestation_for_its_key(enrolling):
    phone, wallet = registered(enrolling), WalletInstance(RESOURCE)
    for _ in range(2):
        header, claims = read(enrolling, attestation_for(phone, wallet))
        assert header["typ"] == "oauth-client-attestation+jwt" and header["alg"] == "ES256"
        assert abs(claims.pop("iat") - time.time()) < 60 and 3540 < claims.pop("exp") - time.time() <= 3600
        public = {name: value for name, value in wallet.key.export_public(as_dict=True).items() if name != "kid"}
        assert claims == {"sub": CLIENT, "cnf": {"jwk": public}}


def test_an_attestation_has_the_certificates_of_the_key(pki, tmp_path, upstream):
    key, chain = new_key(tmp_path / "wallet.key"), tmp_path / "wallet.pem"
    openssl("req", "-x509", "-new", "-key", key, "-subj", "/CN=wallet provider", "-days", "30", "-out", chain)
    wallet = {"client": CLIENT, "key": str(key), "certificate": str(chain)}
    enrolling = Enrolling(tmp_path, pki, upstream, enrolment={"wallet": wallet}).start()
    try:
        header, _ = read(enrolling, attestation_for(registered(enrolling), WalletInstance(RESOURCE)))
        first, = header["x5c"]
        certificate = x509.load_der_x509_certificate(base64.b64decode(first))
        assert jwk.JWK.from_pyca(certificate.public_key()).thumbprint() == header["kid"]
        # The certificate of another key is none of it.
        wallet["key"] = str(new_key(tmp_path / "other.key"))
        enrolling.gateway.conf["enrolment"]["wallet"] = wallet
        enrolling.gateway.write_conf()
        done = attestgate("check", "--config", enrolling.gateway.conf_path)
        assert done.returncode == 1 and "it is not of the key" in done.stderr and "wallet.pem" in done.stderr, done.stderr
    finally:
        enrolling.stop()


def other():
    return jwk.JWK.generate(kty="EC", crv="P-256")


BAD = {
    "no jwt": (lambda phone, me: "abc", (400, "bad_request")),
    "another type": (lambda phone, me: assertion(phone, me, header={"typ": "rp-kb+jwt"}), REFUSED),
    "another algorithm": (lambda phone, me: assertion(phone, me, signer=jwk.JWK.generate(kty="oct", size=256),
                                                      header={"alg": "HS256"}), REFUSED),
    "another key id": (lambda phone, me: assertion(phone, me, header={"kid": other().thumbprint()}), REFUSED),
    "signed by another key": (lambda phone, me: assertion(phone, me, signer=other()), REFUSED),
    "hardware signature of another device": (lambda phone, me: assertion(phone, me, hardware=HardwareKey()), REFUSED),
    "hardware signature for another key": (lambda phone, me: assertion(phone, me, thumbprint=other().thumbprint()), REFUSED),
    "hardware signature for another nonce": (
        lambda phone, me: assertion(phone, me, signed=phone.service.nonce()), REFUSED),
    "nonce of nobody": (lambda phone, me: assertion(phone, me, nonce="A" * 78), REFUSED),
    "expired": (lambda phone, me: assertion(phone, me, exp=int(time.time()) - 1), REFUSED),
    "from the future": (lambda phone, me: assertion(phone, me, iat=int(time.time()) + 120), REFUSED),
    "private key": (lambda phone, me: assertion(phone, me, cnf={"jwk": me.key.export(as_dict=True)}), REFUSED),
    "no key": (lambda phone, me: assertion(phone, me, cnf=None), (400, "bad_request")),
    "no expiry": (lambda phone, me: assertion(phone, me, exp=None), (400, "bad_request")),
    "unknown platform": (lambda phone, me: assertion(phone, me, platform="Symbian"), (422, "validation_error")),
    "unknown device": (
        lambda phone, me: assertion(phone, me, hardware_key_tag=b64url(b"x" * 32)), (404, "not_found")),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_wrong_with_a_request_is_refused(enrolling, case):
    make, refusal = BAD[case]
    phone, wallet = registered(enrolling), WalletInstance(RESOURCE)
    assert error_of(ask(phone, make(phone, wallet))) == refusal
    assert attestation_for(phone, wallet), "and nothing of it is left"


def test_a_request_is_good_once_and_not_after_revocation(enrolling):
    phone, wallet = registered(enrolling), WalletInstance(RESOURCE)
    token = assertion(phone, wallet)
    assert ask(phone, token).status == 200
    assert error_of(ask(phone, token)) == REFUSED
    enrolling.gateway.device_command("revoke", phone.key.key_id.hex())
    assert error_of(ask(phone, assertion(phone, wallet))) == REFUSED


def test_the_statement_for_a_federation_is_served_until_it_expires(served):
    enrolling, federation = served.enrolling, served.federation
    response = enrolling.service.exchange(get(STATEMENT))
    assert response.status == 200 and response.content.decode() == served.statement
    assert response.value("content-type") == "application/entity-statement+jwt"
    federation.state(exp=int(time.time()) - 1)
    enrolling.change()
    assert error_of(enrolling.service.exchange(get(STATEMENT))) == (503, "temporarily_unavailable")
    statement = federation.state(exp=int(time.time()) + 3)
    enrolling.change()
    # It expires while it is served.
    eventually(lambda: enrolling.service.exchange(get(STATEMENT)).status == 503, lambda: "the statement to expire")
    statement = federation.state()
    enrolling.change()
    assert enrolling.service.exchange(get(STATEMENT)).content.decode() == statement


@pytest.mark.parametrize("change, reason", [
    ({"sub": "https://other.example"}, "equal sub"), ({"exp": None}, "exp"), ({"jwks": {"keys": []}}, "jwks"),
    ({"jwks": {"keys": [other().export_public(as_dict=True)]}}, "no key in its jwks has signed it"),
    ({"header": {"typ": "JWT"}}, "entity-statement+jwt"),
])
def test_a_statement_that_is_none_is_refused_at_the_start(served, tmp_path, change, reason):
    bad = Federation(tmp_path / "bad.jwt")
    bad.state(**change)
    conf = served.enrolling.gateway.conf
    before = conf["enrolment"]["wallet"]
    try:
        conf["enrolment"]["wallet"] = {**before, "federation_statement": str(bad.path)}
        served.enrolling.gateway.write_conf()
        done = attestgate("check", "--config", served.enrolling.gateway.conf_path)
        assert done.returncode == 1 and reason in done.stderr and "bad.jwt" in done.stderr, done.stderr
    finally:
        conf["enrolment"]["wallet"] = before
        served.enrolling.gateway.write_conf()


def test_without_the_profile_there_are_no_such_endpoints(pki, tmp_path, upstream):
    enrolling = Enrolling(tmp_path, pki, upstream).start()
    try:
        for request in [get(STATEMENT), post("/wallet-instance-attestations", b"{}"), get("/.well-known/jwks.json")]:
            assert error_of(enrolling.service.exchange(request)) == (404, "not_found")
    finally:
        enrolling.stop()


@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_device_that_waits_for_approval_gets_none(pki, tmp_path, upstream, platform):
    wallet = {"client": CLIENT, "key": str(new_key(tmp_path / "wallet.key"))}
    enrolling = Enrolling(
        tmp_path, pki, upstream, platforms=[platform], enrolment={"wallet": wallet, "admission": "approval"}).start()
    try:
        phone, wallet = registered(enrolling), WalletInstance(RESOURCE)
        assert error_of(ask(phone, assertion(phone, wallet))) == REFUSED
        enrolling.gateway.device_command("approve", phone.key.key_id.hex())
        assert attestation_for(phone, wallet)
    finally:
        enrolling.stop()


def test_an_android_wallet_shows_a_token_of_google_play_where_the_app_demands_it(pki, tmp_path, upstream):
    console = Console(tmp_path / "console")
    enrolling = Enrolling(tmp_path, pki, upstream, platforms=["android"], app={"play_integrity": {
        "decryption_key": str(console.decryption), "verification_key": str(console.verification),
        "device": "MEETS_DEVICE_INTEGRITY", "each_binding": "true"}}, enrolment={
            "wallet": {"client": CLIENT, "key": str(new_key(tmp_path / "wallet.key"))}}).start()
    try:
        phone, wallet = enrolling.phone(), WalletInstance(RESOURCE)
        nonce = phone.service.nonce()
        token = console.fresh(sha256(nonce.encode(), phone.tag.encode()))
        assert phone.initialize(nonce=nonce, play_integrity_token=token).status == 204
        assert error_of(ask(phone, assertion(phone, wallet))) == (400, "bad_request")

        def shown(**change):
            nonce = phone.service.nonce()
            data = f'{{"challenge":"{nonce}","jwk_thumbprint":"{change.pop("key", wallet).key.thumbprint()}"}}'
            return assertion(phone, wallet, nonce=nonce, integrity_assertion=console.fresh(sha256(data.encode()), **change))
        assert error_of(ask(phone, shown(key=WalletInstance(RESOURCE)))) == REFUSED
        weak = {"deviceRecognitionVerdict": ["MEETS_BASIC_INTEGRITY"]}
        assert error_of(ask(phone, shown(deviceIntegrity=weak))) == (403, "integrity_check_error")
        assert ask(phone, shown()).status == 200
    finally:
        enrolling.stop()


# What the attestations are for.

def test_an_authorization_server_accepts_the_attestation_in_a_token_request(enrolling, pki, tmp_path):
    server = AuthorizationServer(pki, tmp_path, published(enrolling), CLIENT)
    try:
        eventually(server.is_up, lambda: "the authorization server")
        wallet = WalletInstance(server.issuer)
        attestation = attestation_for(registered(enrolling), wallet)
        answer = server.ask(attestation, wallet.pop(None))
        assert answer.status_code == 200 and answer.json()["access_token"], (answer.text, server.log.read_text())
        for refused in [WalletInstance(server.issuer).pop(None), wallet.pop(None, aud="https://other.example")]:
            assert server.ask(attestation, refused).json()["error"] == "invalid_client"
    finally:
        server.stop()


@pytest.mark.parametrize("platform", PLATFORMS)
def test_the_software_phone_obtains_one_and_calls_a_route_with_it(pki, tmp_path, platform):
    upstream = RecordingUpstream()
    key = new_key(tmp_path / "wallet.key")
    jwks = tmp_path / "jwks.json"
    public = jwk.JWK.from_pem(key.read_bytes())
    jwks.write_text(json.dumps({"keys": [{**public.export_public(as_dict=True), "kid": public.thumbprint()}]}))
    (tmp_path / "gateway").mkdir()
    service = EnrollingGateway(
        tmp_path / "gateway", pki, upstream, platforms=[platform], wallet={"client": CLIENT, "key": str(key)},
        settings={
            "clients": {"authorities": [str(pki.gms.certificate)], "require": "optional"},
            "client_attestations": {"jwks": str(jwks), "resource": RESOURCE}},
        routes=[{"name": "wallets", "host": "localhost", "path": "/wallet", "require": "client-attestation"}])
    try:
        phone = service.phone("wallet")
        phone.enrol()
        port = service.gateway.port

        def request(*options, status=0):
            return run(
                "wallet", "--enrolment", service.url, "--resolve", f"localhost:{service.port}:127.0.0.1", "--resolve",
                f"localhost:{port}:127.0.0.1", "--cacert", pki.server_ca, "--directory", phone.directory, *options,
                status=status)
        done = request("--resource", RESOURCE, f"https://localhost:{port}/wallet/1", "--include")
        assert done.stdout.startswith("HTTP/1.1 200"), done.stdout
        assert upstream.last_request().values("attest-client") == [CLIENT]
        # Without a URL it prints the attestation.
        assert request().stdout.strip().count(".") == 2
        refused = request("--resource", "https://other.example", f"https://localhost:{port}/wallet/1", "--include")
        assert "invalid_client_attestation" in refused.stdout
    finally:
        service.stop()
        upstream.close()
