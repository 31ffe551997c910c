"""The verifiers that `bench/run` measures attestgate against check what it checks: one that lets more pass would be cheaper."""

import base64
import hmac
import json
import os
import sys
import tempfile
import time
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from support.paths import REPOSITORY

sys.path += [str(REPOSITORY / "Tests"), str(REPOSITORY / "bench")]
import peers  # noqa: E402
from Independent.attested_client import AttestedClient  # noqa: E402
from Independent.software_phone import Authority, SoftwarePhone, point  # noqa: E402
from peers import auth_request  # noqa: E402

APP = auth_request.AuthRequest.app
MADE = {
    "python": (auth_request.Python, "interpreter", REPOSITORY / ".build" / "bench-venv" / "bin" / "python"),
    "swift": (auth_request.Swift, "binary", REPOSITORY / ".build" / "bench-verifier" / "release" / "verifier"),
}


class Phone:
    """A phone, the certificate it shows, and the client that was written from docs/protocol.md."""

    def __init__(self, pki, name, app=APP):
        self.identity = pki.phone(name)
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.simulated = SoftwarePhone(Authority(), app, self.key)
        self.app = app

    @property
    def registration(self):
        keys = {"public_key": self.key, "certificate_key": self.certificate_key}
        return json.dumps({"app_id": self.app} | {
            name: base64.b64encode(point(key.public_key())).decode() for name, key in keys.items()})

    @property
    def certificate_key(self):
        return serialization.load_pem_private_key(self.identity.key.read_bytes(), None)

    def client(self, service, shown=None):
        """`shown`: whose certificate it shows, where that is not its own."""
        shown = shown or self
        made = AttestedClient("localhost", service.ports["tickets"], service.certificates / "server-ca.pem", self.simulated)
        made.use(shown.identity.certificate.read_bytes(), shown.certificate_key)
        return made


@pytest.fixture(scope="module")
def phones(pki):
    made = {name: Phone(pki, f"verifier-{name}") for name in ("registered", "second", "stranger")}
    return made | {"elsewhere": Phone(pki, "verifier-elsewhere", "ABCDE12345.org.example.other")}


@pytest.fixture(scope="module", params=MADE)
def service(request, pki, phones):
    kind, name, program = MADE[request.param]
    if not program.exists():
        pytest.skip(f"{program.relative_to(REPOSITORY)} is not there: bench/run --only auth-request-{request.param} makes it")
    core = min(os.sched_getaffinity(0))
    started = []
    # Not pytest's: nginx started by root serves as another user, who must get in.
    with tempfile.TemporaryDirectory(prefix="attestgate-verifier-") as directory, pytest.MonkeyPatch.context() as patch:
        Path(directory).chmod(0o755)
        registrations = Path(directory) / "registrations.jsonl"
        registrations.write_text(
            "".join(phones[name].registration + "\n" for name in ("registered", "second", "elsewhere")))
        patch.setenv("PATH", os.environ["PATH"] + os.pathsep + "/usr/sbin")
        patch.setattr(kind, name, program)
        patch.setattr(kind, "registrations", registrations)
        try:
            for make, ports in ((peers.Origin, []), (kind, None)):
                server = make(directory, pki.directory, list(started[0].ports.values()) if ports is None else ports, core)
                started.append(server)
                server.start()
            yield started[-1]
        finally:
            for server in reversed(started):
                server.stop()


@pytest.fixture
def client(service, phones):
    made = phones["registered"].client(service)
    made.fetch_challenge()
    yield made
    made.close()


def proven(client, target="/attested?day=today", fields=()):
    return client.prove("GET", target, fields)


def assert_refused(answer, status=401):
    assert (answer.status, len(answer.content) < peers.BODY_BYTES) == (status, True), answer
    assert ("accept-signature" in answer.fields) == (status == 401)


def test_a_valid_proof_is_accepted_repeatedly_with_one_challenge(client):
    for target in ("/attested", "/attested?day=today", "/attested/a%20b?x=%2F"):
        answer = client.send(proven(client, target, [("Authorization", "Bearer of-the-service")]))
        assert (answer.status, len(answer.content)) == (200, peers.BODY_BYTES)


def test_without_a_proof_there_is_a_challenge(client):
    method, target, fields = proven(client)
    client.challenge = None
    assert_refused(client.send((method, target, fields[:1])))
    assert client.send(proven(client)).status == 200


def test_a_replay_is_refused_also_after_a_restart(client, service, phones):
    sent = proven(client)
    assert client.send(sent).status == 200
    assert_refused(client.send(sent))
    service.stop()
    service.start()
    again = phones["registered"].client(service)
    assert_refused(again.send(sent))
    assert again.send(proven(client)).status == 200
    again.close()


def test_an_overtaken_counter_is_refused(client):
    early, late = proven(client), proven(client)
    assert client.send(late).status == 200
    assert_refused(client.send(early))


def test_a_proof_of_something_else_is_refused(client):
    method, target, fields = proven(client)
    assert_refused(client.send((method, target + "2", fields)))
    assert_refused(client.send(("HEAD", target, fields)))
    # Nothing was spent.
    assert client.send((method, target, fields)).status == 200


def test_an_assertion_of_another_key_is_refused(client, phones):
    claimed = client._phone
    stranger = SoftwarePhone(Authority(), APP, phones["second"].key)
    stranger.key_id, stranger.counter = claimed.key_id, claimed.counter + 10
    client._phone = stranger
    assert_refused(client.send(proven(client)))


def test_an_assertion_of_another_app_is_refused(client, phones):
    claimed = client._phone
    client._phone = SoftwarePhone(Authority(), "ABCDE12345.org.example.other", phones["registered"].key)
    client._phone.counter = claimed.counter + 10
    assert_refused(client.send(proven(client)), 403)


@pytest.mark.parametrize("age", [301, -120], ids=["stale", "of the future"])
def test_a_challenge_of_another_time_is_refused(client, service, age):
    client.challenge = challenge(service.secret.read_bytes(), time.time() - age)
    assert_refused(client.send(proven(client)))
    # The answer has brought a good one.
    assert client.send(proven(client)).status == 200


def test_a_challenge_of_another_gateway_is_refused(client, service):
    client.challenge = challenge(bytes(32), time.time())
    assert_refused(client.send(proven(client)))
    # Were the text wrong, the secret would not have been asked.
    client.challenge = challenge(service.secret.read_bytes(), time.time() - 10)
    assert client.send(proven(client)).status == 200


def challenge(secret, issued):
    content = b"\x01\x01" + int(issued).to_bytes(8, "big") + bytes(16)
    return base64.urlsafe_b64encode(content + hmac.digest(secret, content, "sha256")).decode().rstrip("=")


@pytest.mark.parametrize("ahead", [-301, 120])
def test_a_proof_of_another_time_is_refused(client, ahead):
    client.ahead = ahead
    assert_refused(client.send(proven(client)))


@pytest.mark.parametrize("shown", ["stranger", "second"])
def test_another_certificate_is_refused_whatever_its_names(client, service, phones, shown):
    other = phones["registered"].client(service, phones[shown])
    other.fetch_challenge()
    assert_refused(other.send(proven(client)), 403)
    method, target, fields = proven(client)
    mine = phones["registered"].identity.certificate.read_text().replace("\n", "%0A").replace(" ", "%20")
    assert_refused(other.send((method, target, [*fields, ("X-Client-Certificate", mine)])), 403)
    other.close()


def test_a_device_of_another_app_is_refused(service, phones):
    other = phones["elsewhere"].client(service)
    other.fetch_challenge()
    assert_refused(other.send(proven(other)), 403)
    other.close()


def test_a_proof_with_missing_components_is_refused(client):
    method, target, fields = proven(client)
    assert_refused(client.send((method, target, [*fields, ("Authorization", "Bearer of-another")])))


def test_content_is_refused(client):
    assert_refused(client.send(client.prove("POST", "/attested", (), b"hello"), b"hello"), 403)


@pytest.mark.parametrize("change", [
    lambda said: said.replace(";tag=", ";Tag="), lambda said: said + ";created=1", lambda said: said.replace('"@method" ', ""),
    lambda said: said + ", other=()", lambda said: said.replace("attest=(", "attest=( ")])
def test_a_malformed_input_is_refused(client, change):
    method, target, fields = proven(client)
    changed = [(name, change(value) if name == "Signature-Input" else value) for name, value in fields]
    assert_refused(client.send((method, target, changed)))
