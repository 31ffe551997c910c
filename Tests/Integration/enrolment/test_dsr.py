"""The endpoints of gematik's Device Security Rating, by a client that was written from its API description: Tests/Independent."""

import base64
import json
import re
import shutil
import ssl
import sys
import time

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from jwcrypto import jwk, jws

from support import client as http
from support.client import Client
from support.deciding import PATIENT
from support.decision_points import OPA
from support.enrolment import Enrolling
from support.paths import REPOSITORY
from support.pki import Identity
from support.platforms import APPS, PLATFORMS, only
from support.software_phone import EnrollingGateway, run
from support.waiting import eventually

sys.path.append(str(REPOSITORY / "Tests"))
from Independent.android_phone import SIGNER, AndroidAuthority, AndroidPhone  # noqa: E402
from Independent.dsr_client import CardAuthority, DSRClient, base64text, base64url, der_of, without_none  # noqa: E402
from Independent.software_phone import Authority, SoftwarePhone, point, sha256  # noqa: E402

ISSUER = "DSR GMS 1.0.0"
AUTHORITIES = {"ios": Authority, "android": AndroidAuthority}
PHONES = {"ios": SoftwarePhone, "android": AndroidPhone}
UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"


class Service:
    """A gateway with the endpoints, the authorities that it trusts, and its key for device tokens. `like`: another one that
    has the same; `registry`: that of both; `point`: the decision point of the route `device`."""

    def __init__(self, directory, pki, upstream, like=None, registry=None, point=None, **enrolment):
        self.pki, self.directory = pki, directory
        directory.mkdir(exist_ok=True)
        self.cards = like.cards if like else CardAuthority()
        self.phones = like.phones if like else {platform: AUTHORITIES[platform]() for platform in PLATFORMS}
        for platform, authority in self.phones.items():
            (directory / f"{platform}.pem").write_bytes(authority.root_pem())
        (directory / "cards.pem").write_bytes(self.cards.pem())
        self.token_key = like.token_key if like else jwk.JWK.generate(kty="EC", crv="P-256")
        if like:
            (directory / "gateway").mkdir()
            shutil.copy(like.gateway.conf["registry"]["secret"], directory / "gateway" / "secret")
        key = directory / "tokens.key"
        key.touch(mode=0o600)
        key.write_bytes(self.token_key.export_to_pem(private_key=True, password=None))
        public = {**self.token_key.export_public(as_dict=True), "kid": self.token_key.thumbprint()}
        (directory / "jwks.json").write_text(json.dumps({"keys": [public]}))
        android = {
            "id": APPS["android"], "attestation_root": str(directory / "android.pem"),
            "signing_certificates": [SIGNER.hex()]}
        self.enrolling = Enrolling(
            directory, pki, upstream, devices=True, app={"attestation_root": str(directory / "ios.pem")}, apps=[android],
            enrolment={
                "profile": "dsr", "admission": "card", "card": {"authorities": [str(directory / "cards.pem")]},
                "device_tokens": {"issuer": ISSUER, "key": str(key)}, **enrolment},
            device_tokens={"issuer": ISSUER, "jwks": str(directory / "jwks.json"), "binding": "x5t"},
            **({"registry": registry} if registry else {}))
        self.gateway = self.enrolling.gateway
        for route in self.gateway.conf["routes"]:
            if route["name"] == "device":
                route["device_token"] = "required"
                if point:
                    route |= {"policy": "model", "profile": "dsr"}
        if point:
            self.gateway.conf["policies"] = {"model": {"pdp": "opa"}}
            self.gateway.conf["decision_points"] = {"opa": {
                "kind": "opa", "profile": "dsr", "url": point.url, "path": "/v1/data/reference/model/verdict", "timeout": PATIENT,
                "sends": ["method", "path", "device", "app", "platform", "posture", "subject"]}}

    @property
    def places(self):
        """Of both listeners."""
        return [("localhost", port) for port in (
            int(self.enrolling.provider.rsplit(":", 1)[1]), self.enrolling.devices_port)]

    def client(self, platform, card=None):
        package = APPS[platform].removeprefix("android:") if platform == "android" else None
        return DSRClient(
            *self.places, self.pki.server_authority.certificate,
            PHONES[platform](self.phones[platform], APPS[platform]), card or self.cards.card(number()), package)

    def devices(self):
        return self.enrolling.devices()

    def identity(self, client, name="device"):
        certificate, key = (self.directory / f"{name}.{suffix}" for suffix in ("pem", "key"))
        key.touch(mode=0o600)
        certificate.write_bytes(client.certificate.public_bytes(serialization.Encoding.PEM))
        key.write_bytes(client.pem())
        return Identity(certificate, key)

    def ask(self, client, path, token=None):
        """The answer of the gateway to a request with the client's certificate."""
        with Client(self.gateway, self.identity(client)) as connection:
            return connection.exchange(http.get(path, *([f"X-Device-Token: {token}"] if token else [])))


numbers = iter(range(100_000_000, 200_000_000))


def number():
    """Of a person whom nobody knows."""
    return f"A{next(numbers)}"


@pytest.fixture(params=PLATFORMS)
def platform(request):
    return request.param


@pytest.fixture(scope="module")
def service(pki, shared_upstream, tmp_path_factory):
    made = Service(tmp_path_factory.mktemp("dsr"), pki, shared_upstream)
    made.enrolling.start()
    yield made
    made.enrolling.stop()


@pytest.fixture
def client(service, platform):
    made = service.client(platform)
    yield made
    made.close()


@pytest.fixture
def registered(client):
    return client.register()


def assert_refused(answer, code, status=400):
    """The error object of the API description."""
    assert answer.status == status, answer
    assert set(answer.json()) == {"errorCode", "description", "traceId"}, answer
    assert answer.json()["errorCode"] == code, answer
    assert re.fullmatch(UUID, answer.json()["traceId"])
    assert answer.fields["content-type"] == "application/json"


def claims_of(token):
    return json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))


# The whole flow


def test_a_phone_registers_is_attested_gets_a_token_is_served_and_deregistered(service, client, platform, upstream):
    client.register()
    assert point(client.certificate.public_key()) == point(client.key.public_key())
    token = client.device_token()
    verified = jws.JWS()
    verified.deserialize(token, service.token_key)
    claims = json.loads(verified.payload)
    assert (claims["iss"], claims["sub"], claims["type"]) == (ISSUER, client.device, platform.upper())
    assert claims["cnf"] == {"x5t#S256": base64url(sha256(der_of(client.certificate)))}
    assert re.fullmatch("[0-9a-f]{64}", claims["userIdentifier"])
    assert claims["deviceHealth"]["deviceAttributes"]["systemModel"] == client.model
    assert service.ask(client, "/device/1", token).status == 200
    assert service.ask(client, "/device/1").status == 401

    listed = client.registrations()
    assert listed.status == 200
    (entry,) = listed.json()
    created = entry.pop("createdAt")
    assert entry == {
        "userIdentifier": client.card.number, "deviceIdentifier": client.device, "deviceType": platform.upper()}
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", created)

    answer = client.deregister()
    assert (answer.status, answer.content) == (204, b"")
    client.close()
    with pytest.raises((ssl.SSLError, OSError)):
        service.ask(client, "/device/1", token)
    assert "deregistration decision=granted what=revoked" in service.gateway.error_path.read_text()


def test_opa_decides_about_the_device_token_as_in_the_reference_system(pki, shared_upstream, tmp_path, platform):
    point = OPA("model", data={"models": ["iPhone14,2"]})
    service = Service(tmp_path / "dsr", pki, shared_upstream, point=point)
    try:
        service.enrolling.start()
        client = service.client(platform)
        client.register()
        assert service.ask(client, "/device/1", client.device_token()).status == 200
        assert point.documents[-1]["deviceTokenPayload"]["sub"] == client.device
        client.model = "iPhone9,1"
        refused = service.ask(client, "/device/1", client.device_token())
        (field,) = refused.values("x-pep-result")
        assert (refused.status, field) == (403, refused.content.decode())
        result = json.loads(field)
        assert result["errorCode"] == "POLICY_DENIED"
        assert result["decision"]["result"]["violations"] == [{"errorCode": "device_system_model_not_match"}]
        client.close()
    finally:
        service.enrolling.stop()
        point.stop()


def test_the_device_is_one_like_all_others(service, registered, platform):
    entry = max(service.devices(), key=lambda entry: entry["device"])
    shown = json.loads(service.gateway.device_command("show", "--json", str(entry["device"])))
    assert (shown["platform"], shown["state"], shown["app_id"]) == (platform, "active", APPS[platform])
    assert shown["posture"].get("certificate_key_attested") == (True if platform == "android" else None)
    assert shown["subject"] and registered.card.number not in json.dumps(shown)
    assert registered.card.number not in service.gateway.error_path.read_text()


def test_a_lost_phone_is_removed_from_another_of_the_same_person(service, platform):
    card = service.cards.card(number())
    lost, kept = service.client(platform, card).register(), service.client("ios", card).register()
    assert [entry["deviceIdentifier"] for entry in kept.registrations().json()] == [lost.device, kept.device]
    assert kept.deregister(lost.device).status == 204
    assert [entry["deviceIdentifier"] for entry in kept.registrations().json()] == [kept.device]
    with pytest.raises((ssl.SSLError, OSError)):
        lost.registrations()
    for client in (lost, kept):
        client.close()


# The registration's token


def refused_registration(service, client, code, token, status=400):
    before = len(service.devices())
    assert_refused(client.send_registration(token), code, status)
    assert len(service.devices()) == before


def card_of(cards, kind):
    match kind:
        case "expired": return cards.card(days=(-10, -1))
        case "not-valid-yet": return cards.card(days=(1, 10))
        case "another-authority": return CardAuthority().card()
        case "another-authority-of-that-name": return CardAuthority(curve=ec.SECP256R1).card()
        case "another-curve": return cards.card(curve=ec.SECP256R1)
        case "brainpool-384": return cards.card(curve=ec.BrainpoolP384R1)


@only("ios")
@pytest.mark.parametrize(
    "kind", ["expired", "not-valid-yet", "another-authority", "another-authority-of-that-name", "another-curve"])
def test_a_card_is_refused_that_is(service, client, kind):
    card = card_of(service.cards, kind)
    refused_registration(service, client, "INVALID_TOKEN", card.sign(client.registration()))
    # What was refused spends nothing of the phone's.
    client.register()


@only("ios")
def test_x5c_of_two_cards_is_refused(service, client):
    other = service.cards.card(number())
    chain = [base64text(der_of(card.certificate)) for card in (client.card, other)]
    refused_registration(service, client, "INVALID_TOKEN", client.card.sign(client.registration(), x5c=chain))
    refused_registration(service, client, "INVALID_TOKEN", client.card.sign(client.registration(), x5c=[]))
    with_authority = [chain[0], base64text(der_of(service.cards.certificate))]
    refused_registration(service, client, "INVALID_TOKEN", client.card.sign(client.registration(), x5c=with_authority))


@only("ios")
def test_a_token_is_refused_that_another_card_has_signed(service, client):
    other = service.cards.card(number())
    token = other.sign(client.registration(), x5c=[base64text(der_of(client.card.certificate))])
    refused_registration(service, client, "JWT_INVALID_SIGNATURE", token)
    token = client.card.sign(client.registration())
    header, payload, signature = token.split(".")
    claims = json.loads(base64.urlsafe_b64decode(payload + "==")) | {"iss": "TrustSDK_2.0"}
    altered = ".".join([header, base64url(json.dumps(claims).encode()), signature])
    refused_registration(service, client, "JWT_INVALID_SIGNATURE", altered)


@only("ios")
@pytest.mark.parametrize("header, code", [
    ({"alg": "ES256"}, "INVALID_TOKEN"), ({"alg": "none"}, "INVALID_TOKEN"), ({"alg": None}, "INVALID_TOKEN"),
    ({"crit": ["exp"]}, "INVALID_TOKEN"), ({"x5c": None}, "INVALID_TOKEN"), ({"x5c": ["AAAA"]}, "INVALID_TOKEN")])
def test_a_header_of_another_kind_is_refused(service, client, header, code):
    refused_registration(service, client, code, client.card.sign(client.registration(), **header))


@only("ios")
@pytest.mark.parametrize("units", [[], ["899077891"], ["X764228532", "X764228533"], ["x764228532"]])
def test_a_card_that_names_not_one_person_is_refused(service, client, units):
    card = service.cards.card(units=units)
    refused_registration(service, client, "MISSING_USER_IDENTITY", card.sign(client.registration()))


CLAIMS = [
    ({"iss": None}, "INVALID_TOKEN_SYNTAX"), ({"iss": "SDK_1.0"}, "INVALID_TOKEN_ISSUER"),
    ({"iss": "TrustSDK_"}, "UNSUPPORTED_ISSUER_VERSION"), ({"iss": "TrustSDK_one"}, "UNSUPPORTED_ISSUER_VERSION"),
    ({"iat": None}, "INVALID_TOKEN_SYNTAX"), ({"iat": 1_700_000_000}, "TOKEN_EXPIRED"),
    ({"iat": 4_000_000_000}, "TOKEN_EXPIRED"), ({"iat": "1"}, "INVALID_TOKEN_SYNTAX"),
    ({"type": None}, "INVALID_TOKEN_SYNTAX"), ({"type": "WINDOWS"}, "UNKNOWN_DEVICE_TYPE"),
    ({"sub": None}, "INVALID_TOKEN_SYNTAX"), ({"sub": "AAAA"}, "INVALID_TOKEN"), ({"csr": None}, "INVALID_TOKEN_SYNTAX"),
    ({"csr": "AAAA"}, "CSR_INVALID"), ({"nonce": ""}, "NONCE_INVALID"), ({"nonce": None}, "INVALID_TOKEN_SYNTAX")]


@only("ios")
@pytest.mark.parametrize("altered, code", CLAIMS)
def test_a_claim_is_refused(service, client, altered, code):
    refused_registration(service, client, code, client.card.sign(without_none(client.registration() | altered)))


@only("ios")
def test_content_without_a_token_is_refused(service, client):
    for content in (b"{}", b'{"token":1}', b"[]", b"x"):
        assert_refused(client._send(client._open, "POST", "/register-device", content), "CONSTRAINT_VIOLATION")
    refused_registration(service, client, "INVALID_TOKEN", "a.b")


def test_a_nonce_is_used_once(service, client, platform):
    nonce = client.nonce()
    assert client.send_registration(client.card.sign(client.registration(nonce))).status == 201
    other = service.client(platform)
    refused_registration(service, other, "NONCE_INVALID", other.card.sign(other.registration(nonce)))
    other.close()


def test_a_nonce_of_another_service_is_refused(service, client, pki, upstream):
    for nonce in (base64text(bytes(64)), client.nonce()[:-8] + "AAAAAAA="):
        refused_registration(service, client, "NONCE_INVALID", client.card.sign(client.registration(nonce)))


def test_a_nonce_that_has_expired_is_refused(pki, shared_upstream, tmp_path):
    made = Service(tmp_path, pki, shared_upstream, nonce_life="10s")
    made.enrolling.start()
    try:
        client = made.client("ios")
        token = client.card.sign(client.registration())
        time.sleep(10.1)
        refused_registration(made, client, "NONCE_EXPIRED", token)
        client.close()
    finally:
        made.enrolling.stop()


def test_the_attestation_must_be_of_the_nonce(service, client):
    claims = client.registration()
    nonce = client.nonce()
    csr = base64text(client.request(base64.b64decode(nonce)))
    refused_registration(
        service, client, "NONCE_INVALID", client.card.sign(claims | {"nonce": nonce, "csr": csr}))


def test_a_csr_for_another_key_is_refused(service, client):
    nonce = client.nonce()
    raw, other = base64.b64decode(nonce), ec.generate_private_key(ec.SECP256R1())
    for csr in (client.request(raw, key=other), client.request(raw)[:-1] + b"\x00"):
        refused_registration(
            service, client, "CSR_INVALID", client.card.sign(client.registration(nonce, csr)))
    for password in ("", base64text(sha256(raw)), base64text(sha256(raw, b"CSR_MTLS")).rstrip("=")):
        refused_registration(
            service, client, "NONCE_INVALID",
            client.card.sign(client.registration(nonce, client.request(raw, password=password))))
    client.register()


def test_a_phone_that_is_attested_for_another_key_is_refused(service, client, platform):
    claims = client.registration()
    client.key = ec.generate_private_key(ec.SECP256R1())
    nonce = claims["nonce"]
    claims |= {"sub": client.device, "csr": base64text(client.request(base64.b64decode(nonce)))}
    code = "FINGERPRINT_COMPARISON_FAILURE" if platform == "android" else "NONCE_INVALID"
    refused_registration(service, client, code, client.card.sign(claims))


def test_a_key_that_is_registered_is_refused(service, registered):
    refused_registration(
        service, registered, "DEVICE_ALREADY_REGISTERED", registered.card.sign(registered.registration()))
    # Of another person, too.
    other = service.cards.card(number())
    refused_registration(service, registered, "DEVICE_ALREADY_REGISTERED", other.sign(registered.registration()))


@only("ios")
def test_a_certificate_key_of_another_phone_is_refused(service, registered):
    other = service.client("ios")
    other.key = registered.key
    refused_registration(service, other, "DEVICE_ALREADY_REGISTERED", other.card.sign(other.registration()))
    other.close()


def test_a_phone_of_an_unknown_app_or_authority_is_refused(service, client, platform):
    strange = service.client(platform)
    strange.phone = PHONES[platform](AUTHORITIES[platform](), APPS[platform])
    refused_registration(
        service, strange, "INVALID_CERTIFICATE_CHAIN", strange.card.sign(strange.registration()))
    if platform == "ios":
        strange.phone = SoftwarePhone(service.phones["ios"], "TEAMID1234.org.example.other")
        refused_registration(service, strange, "INVALID_RP_ID", strange.card.sign(strange.registration()))
        refused_registration(
            service, client, "INVALID_KEY_ID", client.card.sign(client.registration(keyId=base64text(bytes(32)))))
    else:
        refused_registration(
            service, client, "INVALID_TOKEN", client.card.sign(client.registration(packageName="org.example.other")))
    strange.close()


@only("android")
def test_the_certificate_of_the_key_may_come_apart_from_the_chain(service, client):
    claims = client.registration()
    leaf, *chain = claims["attestCertChain"]
    token = client.card.sign(claims | {"attestCertChain": chain, "subjectCert": leaf})
    answer = client.send_registration(token)
    assert answer.status == 201, answer


def test_a_revoked_person_registers_no_phone(service, platform):
    client = service.client(platform)
    service.gateway.device_command("revoke", "--issuer", "urn:attestgate:card", "--subject", client.card.number)
    refused_registration(service, client, "INVALID_TOKEN", client.card.sign(client.registration()))
    client.close()


# Attestations and codes


def test_an_attestation_token_is_refused(service, registered, platform):
    other = service.client(platform).register()
    nonce = registered.nonce()

    def refused(code, token):
        answer, _ = registered.attest(token)
        assert_refused(answer, code)

    refused("UNSUITABLE_CLIENT_CERTIFICATE", other.sign(registered.attestation(nonce)))
    refused("JWT_INVALID_SIGNATURE", registered.sign(registered.attestation(nonce), key=other.key))
    refused("INVALID_TOKEN", registered.sign(registered.attestation(nonce, sub=other.device)))
    refused("INVALID_TOKEN", registered.sign(registered.attestation(nonce), alg="none"))
    refused("TOKEN_EXPIRED", registered.sign(registered.attestation(nonce, iat=int(time.time()) - 1801)))
    refused("UNKNOWN_DEVICE_TYPE", registered.sign(
        registered.attestation(nonce, type="IOS" if platform == "android" else "ANDROID")))
    claims = registered.attestation(registered.nonce())
    refused("INVALID_SIGNATURE_FOR_NONCE" if platform == "ios" else "NONCE_INVALID",
            registered.sign(claims | {"nonce": nonce}))
    answer, _ = registered.attest(challenge="short")
    assert_refused(answer, "CONSTRAINT_VIOLATION")
    # The nonce was spent by none of them.
    answer, _ = registered.attest(registered.sign(registered.attestation(nonce)))
    assert answer.status == 200
    refused("NONCE_INVALID", registered.sign(registered.attestation(nonce)))
    other.close()


@only("ios")
def test_an_assertion_counts_once(service, registered):
    claims = registered.attestation()
    registered.device_token()
    registered.phone.counter -= 1
    answer, _ = registered.attest(registered.sign(registered.attestation()))
    assert_refused(answer, "INVALID_COUNTER")


def test_a_code_is_good_once_for_one_certificate_and_one_verifier(service, registered, platform):
    other = service.client(platform).register()
    answer, verifier = registered.attest()
    code = answer.content.decode()
    # An app that decodes and encodes it as base64 does not alter it.
    assert base64.b64encode(base64.b64decode(code)).decode() == code
    unknown = "DEVICE_ATTESTATION_SESSION_NOT_FOUND"
    assert_refused(registered.token(code, verifier + "x"), unknown)
    assert_refused(other.token(code, verifier), unknown)
    assert_refused(registered.token(code[:-1] + ("0" if code[-1] != "0" else "1"), verifier), unknown)
    assert_refused(registered.token("zz", verifier), unknown)
    assert_refused(registered.token("", verifier), "CONSTRAINT_VIOLATION")
    assert_refused(registered.token(code, ""), "CONSTRAINT_VIOLATION")
    assert registered.token(code, verifier).status == 200
    assert_refused(registered.token(code, verifier), unknown)
    other.close()


def test_a_token_of_one_phone_is_refused_from_another(service, registered, platform):
    other = service.client(platform).register()
    assert service.ask(other, "/device/1", registered.device_token()).status == 401
    other.close()


def test_gateways_of_one_store_share_nonces_and_codes(pki, shared_upstream, tmp_path, database):
    registry = {"postgresql": database.conf}
    first = Service(tmp_path / "first", pki, shared_upstream, registry=registry)
    first.enrolling.start()
    second = Service(tmp_path / "second", pki, shared_upstream, like=first, registry=registry)
    second.enrolling.start()
    client = first.client("ios")
    nonce = client.nonce()
    client.go_to(*second.places)
    token = client.card.sign(client.registration(nonce))
    client.keep(client.send_registration(token))
    used = client.nonce()
    answer, verifier = client.attest(client.sign(client.attestation(used)))
    client.go_to(*first.places)
    assert_refused(client.attest(client.sign(client.attestation(used)))[0], "NONCE_INVALID")
    assert_refused(client.send_registration(client.card.sign(client.registration(nonce))), "NONCE_INVALID")
    assert client.token(answer.content.decode(), verifier).status == 200
    client.go_to(*second.places)
    assert_refused(client.token(answer.content.decode(), verifier), "DEVICE_ATTESTATION_SESSION_NOT_FOUND")
    client.close()
    for service in (first, second):
        service.enrolling.stop()


# Ownership


def test_another_person_sees_and_removes_nothing(service, registered, platform):
    other = service.client(platform).register()
    assert (other.registrations(user=registered.card.number).status, other.registrations(
        user=registered.card.number).json()) == (200, [])
    for device, user in [
            (registered.device, None), (registered.device, registered.card.number), (None, registered.card.number),
            (base64text(bytes(32)), None), ("x", None)]:
        assert_refused(other.deregister(device, user), "DEVICE_REGISTRATION_NOT_FOUND", 404)
    assert len(registered.registrations().json()) == 1
    assert_refused(registered._send(registered.closed, "GET", "/device-registrations"), "CONSTRAINT_VIOLATION")
    assert_refused(registered._send(
        registered.closed, "DELETE", f"/device-registrations?userIdentifier={registered.card.number}"),
        "CONSTRAINT_VIOLATION")
    other.close()


def test_an_unknown_registration_may_be_400_as_in_the_code_of_the_reference(pki, shared_upstream, tmp_path):
    made = Service(tmp_path, pki, shared_upstream, unknown_registration=400)
    made.enrolling.start()
    try:
        client = made.client("ios").register()
        assert_refused(client.deregister(base64text(bytes(32))), "DEVICE_REGISTRATION_NOT_FOUND")
        client.close()
    finally:
        made.enrolling.stop()


@only("ios")
@pytest.mark.parametrize("method, path, of_all, of_devices", [
    ("GET", "/nonce", True, True), ("POST", "/register-device", True, False), ("POST", "/device-attestation", False, True),
    ("POST", "/device-token", False, True), ("GET", "/device-registrations?userIdentifier=A", False, True),
    ("POST", "/instance-initialization", False, False), ("POST", "/key-binding", False, False),
    ("POST", "/attestation", False, False), ("GET", "/instances", False, True)])
def test_each_endpoint_is_only_at_its_listener(service, registered, method, path, of_all, of_devices):
    content = b"{}" if method == "POST" else b""
    kind = "application/x-www-form-urlencoded" if path == "/device-token" else "application/json"
    for connection, exists in [(registered._open, of_all), (registered.closed, of_devices)]:
        answer = registered._send(connection, method, path, content, kind)
        assert (answer.status == 404) == (not exists), (path, answer)


@only("ios")
def test_methods_forms_and_queries_of_another_kind_are_refused(registered):
    def ask(method, path, content=b"", kind="application/json"):
        return registered._send(registered.closed, method, path, content, kind)

    answer = ask("PUT", "/device-registrations?userIdentifier=A")
    assert (answer.status, answer.fields["allow"]) == (405, "GET, DELETE")
    assert ask("POST", "/device-token", b"{}").status == 415
    assert ask("POST", "/device-attestation", b"token=a", "application/x-www-form-urlencoded").status == 415
    assert ask("GET", "/nonce?a=b").status == 400
    assert ask("DELETE", "/device-registrations?userIdentifier=A", b"{}").status == 400


def test_a_certificate_without_a_registration_is_refused(service, client, pki):
    client.certificate = x509.load_pem_x509_certificate(pki.client("dsr-stranger").certificate.read_bytes())
    client.key = serialization.load_pem_private_key(pki.client("dsr-stranger").key.read_bytes(), None)
    answer, _ = client.attest()
    assert_refused(answer, "DEVICE_REGISTRATION_NOT_FOUND")


def test_the_trace_of_a_refusal_is_in_the_log(service, client):
    traces = []

    def is_logged():
        # Of many refusals in one second some are left out.
        traces.append(client.send_registration("a.b").json()["traceId"])
        log = service.gateway.error_path.read_text()
        return any(f"trace={trace}" in log for trace in traces)

    eventually(is_logged, "the log to have a trace")


# The software phone of this project


DSR = "--profile", "dsr"


@pytest.fixture(scope="module")
def programs(pki, shared_upstream, tmp_path_factory):
    directory = tmp_path_factory.mktemp("dsr-programs")
    run("card", "--directory", directory / "first", "--number", "X123456789")
    key = directory / "tokens.key"
    key.touch(mode=0o600)
    key.write_bytes(jwk.JWK.generate(kty="EC", crv="P-256").export_to_pem(private_key=True, password=None))
    made = EnrollingGateway(
        directory, pki, shared_upstream, devices=True, profile="dsr", admission="card",
        card={"authorities": [str(directory / "first" / "card-authority.pem")]},
        device_tokens={"issuer": ISSUER, "key": str(key)})
    yield made
    made.stop()


def test_the_software_phone_is_such_a_client(programs, platform):
    card = programs.directory / "first"
    with programs.phones_of(platform):
        phone, other = programs.phone("dsr"), programs.phone("dsr-other")
        for made in (phone, other):
            made.enrol(*DSR, "--card", card)
        # Its requests have proofs as all others.
        assert phone.request() == (200, None)
        authority = () if platform == "ios" else ("--attestation-ca", programs.directory / "authority")
        claims = claims_of(phone.instances("attest", *DSR, *authority).stdout.strip())
        assert (claims["iss"], claims["type"]) == (ISSUER, platform.upper())
        user = "--user", "X123456789"
        listed = [entry["deviceIdentifier"] for entry in json.loads(phone.instances("list", *DSR, *user).stdout)]
        assert listed[-2] == claims["sub"] and len(listed) >= 2
        phone.instances("revoke", *DSR, *user, listed[-1])
        assert len(json.loads(phone.instances("list", *DSR, *user).stdout)) == len(listed) - 1
        assert "registered already" in phone.enrol(*DSR, "--card", card, status=1).stderr


@only("ios")
def test_a_card_of_an_authority_that_is_not_trusted_registers_nothing(programs, tmp_path, platform):
    run("card", "--directory", tmp_path / "foreign")
    refused = programs.phone("foreign").enrol(*DSR, "--card", tmp_path / "foreign", status=1)
    assert "INVALID_TOKEN" in refused.stderr
    done = run("card", "--directory", tmp_path / "foreign", status=1)
    assert "already exists" in done.stderr
    run("card", "--directory", tmp_path / "odd", "--number", "1234567890", status=2)
    run("enrol", "--profile", "dsr", "--enrolment", programs.url, "--directory", tmp_path / "a", status=2)
