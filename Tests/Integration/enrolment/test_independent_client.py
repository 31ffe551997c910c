"""A client that was written from docs/protocol.md and the pages it links is enrolled and served: Tests/Independent."""

import sys

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from support.enrolment import Enrolling
from support.paths import REPOSITORY
from support.platforms import APPS, PLATFORMS

sys.path.append(str(REPOSITORY / "Tests"))
from Independent.android_phone import SIGNER, AndroidAuthority, AndroidPhone  # noqa: E402
from Independent.attested_client import AttestedClient  # noqa: E402
from Independent.enrolment import Enrolment, Refused  # noqa: E402
from Independent.software_phone import Authority, SoftwarePhone  # noqa: E402

JSON = [("Content-Type", "application/json")]
AUTHORITIES = {"ios": Authority, "android": AndroidAuthority}
PHONES = {"ios": SoftwarePhone, "android": AndroidPhone}


def new_key():
    return ec.generate_private_key(ec.SECP256R1())


class Client:
    """The independent client, and where it goes."""

    def __init__(self, enrolling, pki, platform, authority):
        trusted = pki.server_authority.certificate
        self.phone = PHONES[platform](authority, APPS[platform])
        self.enrolment = Enrolment(enrolling.provider, trusted, self.phone)
        self.requests = AttestedClient("localhost", enrolling.gateway.port, trusted, self.phone)
        self.key = None

    def enrol(self):
        self.enrolment.initialize()
        self.bind(new_key())
        return self

    def bind(self, key):
        chain, ends = self.enrolment.bind(key)
        self.key, self.chain = key, chain
        self.requests.use(chain, key)
        return ends

    def close(self):
        self.enrolment.close()
        self.requests.close()


@pytest.fixture(params=PLATFORMS)
def platform(request):
    return request.param


@pytest.fixture(scope="module")
def authorities():
    return {platform: AUTHORITIES[platform]() for platform in PLATFORMS}


@pytest.fixture(scope="module")
def enrolling(pki, shared_upstream, tmp_path_factory, authorities):
    directory = tmp_path_factory.mktemp("independent")
    for platform, authority in authorities.items():
        (directory / f"{platform}.pem").write_bytes(authority.root_pem())
    android = {
        "id": APPS["android"], "attestation_root": str(directory / "android.pem"), "certificate_key": "attested", "counter": "strict",
        "signing_certificates": [SIGNER.hex()]}
    made = Enrolling(
        directory, pki, shared_upstream, app={"attestation_root": str(directory / "ios.pem"), "counter": "strict"}, apps=[android])
    made.gateway.conf["upstreams"]["images"] = {"servers": [shared_upstream.address]}
    made.gateway.conf["routes"].append(
        {"name": "images", "host": "localhost", "path": "/images", "require": "device", "upstream": "images"})
    made.start()
    yield made
    made.stop()


@pytest.fixture
def strange(enrolling, pki, platform, authorities):
    """A client of a phone that nobody has seen."""
    made = Client(enrolling, pki, platform, authorities[platform])
    yield made
    made.close()


@pytest.fixture
def client(strange):
    return strange.enrol()


def assert_refused(answer, status, code):
    assert (answer.status, answer.error()) == (status, code), answer


def test_the_client_enrols_and_is_served(client, upstream):
    for counter, (method, target, fields, content) in enumerate([
            ("GET", "/prescriptions/7", [], b""),
            ("GET", "/prescriptions/7?day=today&of=m%C3%BCller", [], b""),
            ("POST", "/prescriptions", JSON, b'{"dose":1}'),
            ("PUT", "/prescriptions/7", [*JSON, ("Authorization", "Bearer of-the-service")], bytes(range(256)) * 40)], start=2):
        assert client.requests.request(method, target, fields, content).status == 200
        seen = upstream.requests[-1]
        assert (seen.method, seen.target, seen.content) == (method, target, content)
        assert seen.values("attest-counter") == [str(counter)]


def test_services_cannot_link_a_phone_by_comparing_pseudonyms(client, upstream):
    names = []
    for target in ["/prescriptions/7", "/images/7", "/prescriptions/8", "/images/8"]:
        assert client.requests.request("GET", target).status == 200
        names += upstream.requests[-1].values("attest-device")
    assert names[0] == names[2] != names[1] == names[3]


def test_the_client_learns_what_is_wrong_with_a_request(client, upstream):
    requests = client.requests
    assert client.requests.request("POST", "/prescriptions", JSON, b'{"dose":1}').status == 200
    method, target, fields = proven = requests.prove("POST", "/prescriptions", JSON, b'{"dose":1}')
    before = len(upstream.requests)
    assert_refused(requests.send((method, "/prescriptions/7", fields), b'{"dose":1}'), 401, "proof_invalid")
    assert_refused(requests.send(proven, b'{"dose":9}'), 400, "body_digest_mismatch")
    assert_refused(requests.send(("GET", "/prescriptions", fields[:1])), 401, "proof_required")
    uncovered = requests.prove("GET", "/prescriptions")
    uncovered[2].append(("Content-Type", "text/plain"))
    assert_refused(requests.send(uncovered), 401, "proof_incomplete")
    assert len(upstream.requests) == before
    again = requests.prove("POST", "/prescriptions", JSON, b'{"dose":1}')
    assert requests.send(again, b'{"dose":1}').status == 200
    assert_refused(requests.send(again, b'{"dose":1}'), 401, "counter_replayed")
    assert_refused(requests.send(proven, b'{"dose":1}'), 401, "counter_late")
    assert len(upstream.requests) == before + 1


def test_the_client_corrects_its_challenge_and_clock_by_itself(client):
    client.requests.fetch_challenge()
    taken = client.requests.challenge
    client.requests.challenge = taken[:-4] + ("AAAA" if taken[-4:] != "AAAA" else "BBBB")
    assert client.requests.request("GET", "/").status == 200
    assert client.requests.challenge != taken
    client.requests.ahead = -3600
    assert client.requests.request("GET", "/").status == 200
    assert abs(client.requests.ahead) < 60


def test_the_client_renews_its_certificate_and_replaces_its_key(client):
    old_chain, old_key = client.chain, client.key
    first = client.bind(old_key)
    assert client.chain != old_chain
    assert client.requests.request("GET", "/").status == 200
    assert client.bind(new_key()) >= first
    assert client.requests.request("GET", "/").status == 200
    # The old key is good for rotation_overlap more.
    client.requests.use(old_chain, old_key)
    assert client.requests.request("GET", "/").status == 200


def test_the_client_learns_why_its_enrolment_is_refused(strange, enrolling, pki, platform):
    def refusal(call, *arguments, **claims):
        with pytest.raises(Refused) as failure:
            call(*arguments, **claims)
        assert failure.value.retry_after is None
        return failure.value.status, failure.value.code

    assert refusal(strange.enrolment.bind, new_key()) == (404, "not_found")
    foreign = Client(enrolling, pki, platform, AUTHORITIES[platform]())
    assert refusal(foreign.enrolment.initialize) == (403, "invalid_request")
    foreign.close()
    strange.enrol()
    assert refusal(strange.enrolment.initialize) == (403, "invalid_request")
    other = new_key()
    assert refusal(strange.enrolment.bind, other, exp=4_000_000_000) == (403, "invalid_request")
    assert refusal(strange.enrolment.bind, other, aud="https://elsewhere.example.org") == (403, "invalid_request")
    assert refusal(strange.enrolment.bind, other, sub="a claim that nobody knows") == (400, "bad_request")
    assert refusal(strange.enrolment.bind, other, nonce="of nobody") == (422, "validation_error")
    assert strange.enrolment.bind(other)
