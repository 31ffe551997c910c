"""Keys of admission tokens that are fetched: rotated, found by metadata, and refused as they should be."""

import json

import pytest

from support.enrolling_phone import MTLSKey, error_of
from support.enrolment import REFUSED, Enrolling
from support.exposition import scrape
from support.issuer_service import KEYS, METADATA, IssuerService, key_set, new_key, token
from support.openid_provider import OpenIDProvider
from support.paths import PATIENCE
from support.pki import attestgate
from support.platforms import PLATFORMS, only
from support.status_list_service import Answer
from support.waiting import eventually

UNAVAILABLE = (503, "temporarily_unavailable")


class Admitting:
    """A gateway that fetches the keys of an issuer. `change`: of the section `token`; None leaves a key out."""

    def __init__(self, directory, pki, upstream, issuer, platform="ios", **change):
        self.issuer = issuer
        section = {
            "issuer": issuer.issuer, "jwks_uri": issuer.keys_url, "authorities": str(pki.server_ca), "retry": "1s", **change}
        self.section = {key: value for key, value in section.items() if value is not None}
        self.enrolling = Enrolling(
            directory, pki, upstream, enrolment={"admission": "token", "token": self.section},
            platforms=[platform])
        self.gateway = self.enrolling.gateway

    def status(self):
        return self.enrolling.status()["enrolment"]["issuer_keys"]

    def wait_for(self, **members):
        def settled():
            found = self.status()
            return found if all(found.get(name) == value for name, value in members.items()) else None
        return eventually(settled, lambda: f"{members}: {self.status()}\n{self.gateway.errors}")

    def wait_for_failure(self, text):
        eventually(
            lambda: text in (self.status().get("failure") or ""),
            lambda: f"{text}: {self.status()}\n{self.gateway.errors}")

    def bind(self, make):
        """- make: makes the token for a thumbprint. - Returns: the answer to a key binding with it."""
        phone, mtls = self.enrolling.phone(), MTLSKey()
        assert phone.initialize().status == 204
        return phone.bind(mtls, claims={"admission_token": make(mtls.thumbprint)})

    def bind_with(self, key, algorithm="ES256", header=None, **change):
        return self.bind(lambda thumbprint: token(
            key, algorithm, self.issuer.issuer, self.enrolling.provider, thumbprint, header, **change))


@pytest.fixture(params=PLATFORMS)
def platform(request):
    return request.param


@pytest.fixture
def admit(tmp_path, pki, own_upstream, platform):
    made = []

    def admit(*keys, start=True, **change):
        issuer = IssuerService(pki.server("issuer"), keys)
        admitting = Admitting(tmp_path / str(len(made)), pki, own_upstream, issuer, platform, **change)
        made.append(admitting)
        if start:
            admitting.enrolling.start()
        return admitting

    yield admit
    for admitting in made:
        admitting.enrolling.stop()
        admitting.issuer.stop()


def test_every_algorithm_is_accepted_from_a_fetched_key_set(admit):
    keys = {"ES256": new_key("e"), "RS256": new_key("r", "RSA"), "PS256": new_key("p", "RSA")}
    admitting = admit(*keys.values(), {"kty": "OKP", "crv": "Ed25519", "x": "AAAA", "kid": "o"})
    found = admitting.wait_for(state="current")
    assert found["source"] == admitting.issuer.keys_url and found["entries"] == 3 and found["age_seconds"] < PATIENCE
    for algorithm, key in keys.items():
        assert admitting.bind_with(key, algorithm).status == 200, algorithm
    metrics = scrape(admitting.gateway)
    assert metrics("attestgate_issuer_keys_stale") == 0
    assert metrics("attestgate_issuer_keys_fetches_total", result="updated") == 1
    assert "issuer keys: outcome=updated keys=3" in admitting.gateway.errors
    shown = attestgate("status", "--config", admitting.gateway.conf_path).stdout
    assert "current, 3 keys, confirmed" in shown


@only("ios")
def test_a_token_by_another_key_algorithm_or_form_is_refused(admit):
    known, rsa = new_key("e"), new_key("r", "RSA")
    limited = {**json.loads(new_key("l", "RSA").export_public()), "alg": "PS256"}
    admitting = admit(known, rsa, limited)
    admitting.wait_for(state="current")
    forged = new_key("e")
    assert error_of(admitting.bind_with(forged)) == REFUSED
    assert error_of(admitting.bind_with(known, header={"kid": "unknown"})) == REFUSED, "fetched less than a minute ago"
    assert error_of(admitting.bind_with(known, header={"kid": "r"})) == REFUSED
    assert error_of(admitting.bind_with(rsa, "RS256", header={"kid": "l"})) == REFUSED
    assert error_of(admitting.bind_with(rsa, "RS512")) == REFUSED
    for change in [
        {"iss": "https://other.example"}, {"aud": "https://other.example"}, {"aud": []}, {"exp": 1}, {"nbf": 4_000_000_000},
        {"iat": 4_000_000_000}, {"cnf": None}, {"cnf": {"jkt": "a" * 43}},
    ]:
        assert error_of(admitting.bind_with(known, **change)) == REFUSED, change
    assert admitting.issuer.count() == 1
    assert admitting.bind_with(known, aud=["account", admitting.enrolling.provider]).status == 200


def test_metadata_names_the_keys_of_its_issuer_alone(admit):
    key = new_key("e")
    admitting = admit(key, jwks_uri=None, discovery=True)
    assert admitting.wait_for(state="current")["source"] == admitting.issuer.issuer
    assert [path for path, _ in admitting.issuer.fetches] == [METADATA, KEYS]
    assert admitting.bind_with(key).status == 200


@only("ios")
@pytest.mark.parametrize("change, reason", [
    ({"issuer": "https://other.example"}, "the metadata is of another issuer"),
    ({"jwks_uri": "http://localhost:1/keys"}, "jwks_uri of the metadata is not an https URL"),
    ({"jwks_uri": "https://169.254.169.254/latest"}, "jwks_uri is at an address instead of a name"),
    ({"jwks_uri": None}, "jwks_uri of the metadata is not an https URL"),
])
def test_metadata_is_refused_that_names(admit, change, reason):
    key = new_key("e")
    admitting = admit(key, jwks_uri=None, discovery=True, start=False)
    admitting.issuer.describe(**change)
    admitting.enrolling.start()
    admitting.wait_for_failure(reason)
    assert admitting.status()["state"] == "missing" and admitting.issuer.count() == 0
    assert error_of(admitting.bind_with(key)) == UNAVAILABLE


@only("ios")
def test_metadata_leads_to_no_address_of_the_gateway_itself(admit):
    key = new_key("e")
    admitting = admit(key, jwks_uri=None, discovery=True, start=False)
    admitting.issuer.describe(jwks_uri=f"{admitting.enrolling.provider}/nonce")
    admitting.enrolling.start()
    eventually(
        lambda: "is the address of" in admitting.gateway.errors and admitting.status().get("failure"),
        lambda: admitting.gateway.errors)
    assert admitting.status()["state"] == "missing"


@only("ios")
@pytest.mark.parametrize("answer, reason", [
    (Answer(302, Location="https://localhost/"), "unexpected_status: 302"), (Answer(503), "server_error: status 503"),
    (Answer(200, b"<html>"), "the text is not JSON"), (Answer(200, b"{}"), "it is not a JWK Set"),
    (Answer(200, key_set()), "it has no key for ES256, RS256 or PS256"),
    (Answer(200, key_set(*[{"kty": "x"}] * 9_000)), "the keys are longer than 65536 bytes"),
    (Answer(200, json.dumps({"keys": [{}] * 10_000}).encode()), "too many members"),
    (Answer(200, key_set(new_key("w", "RSA", size=1024))), "not an odd modulus of 2048"),
])
def test_keys_are_refused_from_an_answer(admit, answer, reason):
    key = new_key("e")
    admitting = admit(key, start=False)
    before = admitting.issuer.pages[KEYS]
    admitting.issuer.pages[KEYS] = answer
    admitting.enrolling.start()
    admitting.wait_for_failure(reason)
    refused = admitting.bind_with(key)
    assert error_of(refused) == UNAVAILABLE and refused.value("retry-after") == "60"
    admitting.issuer.pages[KEYS] = before
    admitting.wait_for(state="current")
    assert admitting.bind_with(key).status == 200


@only("ios")
def test_a_rotated_key_is_fetched_by_the_interval_and_the_old_one_forgotten(admit):
    old, new = new_key("old"), new_key("new")
    admitting = admit(old, interval="1s", stale_after="1h")
    admitting.wait_for(state="current")
    assert admitting.bind_with(old).status == 200
    admitting.issuer.publish(old, new, ETag='"2"')
    admitting.wait_for(entries=2)
    assert admitting.bind_with(new).status == 200
    count = admitting.issuer.count()
    eventually(
        lambda: scrape(admitting.gateway)("attestgate_issuer_keys_fetches_total", result="unchanged") > 0,
        lambda: admitting.gateway.errors)
    assert admitting.issuer.count() > count
    assert any(fields.get("If-None-Match") == '"2"' for _, fields in admitting.issuer.fetches)
    admitting.issuer.publish(new)
    admitting.wait_for(entries=1)
    assert error_of(admitting.bind_with(old)) == REFUSED


@only("ios")
def test_stale_keys_accept_no_token_until_they_are_confirmed(admit):
    key = new_key("e")
    admitting = admit(key, interval="1s", stale_after="3s")
    admitting.wait_for(state="current")
    before = admitting.issuer.pages[KEYS]
    admitting.issuer.pages[KEYS] = Answer(500)
    admitting.wait_for(state="stale")
    refused = admitting.bind_with(key)
    assert error_of(refused) == UNAVAILABLE and refused.value("retry-after") == "60"
    assert scrape(admitting.gateway)("attestgate_issuer_keys_stale") == 1
    admitting.issuer.pages[KEYS] = before
    admitting.wait_for(state="current")
    assert admitting.bind_with(key).status == 200


@only("ios")
def test_a_reload_changes_where_the_keys_are(admit, tmp_path):
    fetched, own = new_key("e"), new_key("own")
    admitting = admit(fetched)
    admitting.wait_for(state="current")
    path = tmp_path / "issuer.pem"
    path.write_bytes(own.export_to_pem())
    admitting.enrolling.change(token={"issuer": admitting.issuer.issuer, "keys": [str(path)]})
    assert "issuer_keys" not in admitting.enrolling.status()["enrolment"]
    assert admitting.bind_with(own).status == 200
    assert error_of(admitting.bind_with(fetched)) == REFUSED


@only("ios")
def test_check_refuses_an_issuer_at_an_address_of_the_gateway(admit):
    admitting = admit(new_key("e"), start=False)
    admitting.section["jwks_uri"] = f"https://127.0.0.1:{admitting.enrolling.provider.rsplit(':', 1)[1]}/keys"
    admitting.gateway.write_conf()
    done = attestgate("check", "--config", admitting.gateway.conf_path)
    assert done.returncode != 0 and "is the address of" in done.stderr, done.stderr


@pytest.fixture
def provider(pki, tmp_path):
    made = OpenIDProvider(pki, tmp_path)
    eventually(made.is_up, lambda: (tmp_path / "openid-provider.log").read_text())
    yield made
    made.stop()


@pytest.fixture
def admitting(provider, tmp_path, pki, own_upstream, platform):
    made = Admitting(tmp_path / "gateway", pki, own_upstream, provider, platform, jwks_uri=None, discovery=True)
    made.enrolling.start()
    yield made
    made.enrolling.stop()


def test_a_person_who_logs_in_at_a_provider_is_admitted(provider, admitting):
    admitting.wait_for(state="current")

    def log_in(thumbprint, **claims):
        return provider.id_token("erika", admitting.enrolling.provider, jti=thumbprint, cnf={"jkt": thumbprint}, **claims)

    assert admitting.bind(log_in).status == 200
    assert error_of(admitting.bind(lambda _: log_in("a" * 43))) == REFUSED
    assert error_of(admitting.bind(lambda thumbprint: provider.id_token(
        "erika", admitting.enrolling.provider, jti=thumbprint))) == REFUSED, "no cnf"
    assert error_of(admitting.bind(lambda thumbprint: provider.id_token(
        "erika", "another-client", jti=thumbprint, cnf={"jkt": thumbprint}))) == REFUSED
