"""What docs/privacy.md promises, of all that is written about one life of a phone: logs, spans, metrics, what programs say."""

import base64
import json
import os
import signal
import time

import pytest
from cryptography.hazmat.primitives import serialization

from support.client import Client, get
from support.collector import Collector
from support.enrolling_phone import MTLSKey, b64url, from_b64url, sha256
from support.enrolment import Enrolling, admission_token
from support.exposition import ask
from support.taking_over import adopt_orphans, upgrade
from support.waiting import eventually

SUBJECT, LOGIN = "patient-4711-erika", "https://login.example"


@pytest.fixture
def collector():
    made = Collector()
    yield made
    made.stop()


@pytest.fixture
def enrolling(pki, own_upstream, tmp_path, collector):
    adopt_orphans()
    issuer = MTLSKey()
    path = tmp_path / "issuer.pem"
    path.write_bytes(issuer.private.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo))
    made = Enrolling(
        tmp_path / "enrolment", pki, own_upstream, log={"level": "debug"},
        tracing={"endpoint": collector.url, "interval": "100ms"},
        enrolment={"admission": "token", "token": {"issuer": LOGIN, "keys": [str(path)]}}).start()
    made.issuer = issuer
    yield made
    made.stop()


class Secrets:
    """What must stand nowhere, in each spelling that it may have."""

    def __init__(self):
        self.spellings = {}

    def add(self, name, value):
        if isinstance(value, str):
            return self.spellings.setdefault(value, name)
        for spelling in (value.hex(), value.hex().upper(), b64url(value), base64.b64encode(value).decode()):
            self.spellings[spelling] = name

    def found_in(self, text):
        return sorted({name for spelling, name in self.spellings.items() if spelling in text})


def test_no_output_proves_or_names_a_phone(enrolling, collector, tmp_path):
    gateway, secrets, written = enrolling.gateway, Secrets(), []
    secrets.add("the subject", SUBJECT)
    for line in open(gateway.conf["registry"]["secret"]):
        if line.strip() and line[0] != "#":
            secrets.add("the gateway's secret", line.split()[-1])
    phone, mtls = enrolling.phone(), MTLSKey()
    secrets.add("the hardware key", phone.key.point)
    secrets.add("the key id", phone.key.key_id)
    secrets.add("the mTLS key", mtls.point)
    secrets.add("the mTLS key's id", sha256(mtls.point))
    secrets.add("the mTLS key's thumbprint", mtls.thumbprint)

    def post(path, body):
        """Good, and broken in each of its members."""
        answers = [enrolling.service.post(path, body)]
        for name, value in body.items():
            answers.append(enrolling.service.post(path, {**body, name: value[:-4] + "AAAA"}))
            answers.append(enrolling.service.post(path, {**body, name: value[:40]}))
        answers.append(enrolling.service.post(path, json.dumps(body).encode()[:-3]))
        return answers

    # It enrols, and so does somebody who has only heard of it.
    body = phone.initialization()
    for name, value in body.items():
        secrets.add(f"{name} of the initialization", value)
    assert [answer.status for answer in post("/instance-initialization", body)][0] == 204
    login = admission_token(enrolling.issuer, mtls, enrolling.provider, sub=SUBJECT)
    nonce = enrolling.service.nonce()
    binding = phone.token(mtls, nonce=nonce, claims={"admission_token": login})
    for name, value in [("the nonce", nonce), ("the admission token", login), ("the binding token", binding)]:
        secrets.add(name, value)
        # Of a token each part by itself.
        for part in value.split("."):
            secrets.add(f"a part of {name}", part)
    answers = post("/key-binding", {"assertion": binding})
    assert answers[0].status == 200
    for text in json.loads(answers[0].content)["certificate_chain"][:1]:
        secrets.add("the certificate", text)
    identity = phone.identity(tmp_path, mtls, answers[0])
    key = identity.key.read_text().splitlines()[1]
    secrets.add("the phone's private key", key)

    # It asks, well and badly, before and after another process has taken over.
    requesting = phone.requesting(gateway, identity)

    def ask_for(status, **change):
        with requesting.connect() as client:
            data = requesting.request(
                "POST", f"/records/{SUBJECT}", f"name={SUBJECT}", [("Authorization", f"Bearer {SUBJECT}")],
                f"content of {SUBJECT}".encode(), **change)
            head = data.split(b"\r\n\r\n")[0].decode("latin-1")
            for line in head.splitlines():
                if line.lower().startswith(("signature", "content-digest")):
                    secrets.add("a proof's field", line.partition(": ")[2])
            assert client.exchange(data).status == status
        return data

    secrets.add("a challenge", requesting.challenge())
    proven = ask_for(200)
    upgrade(gateway)
    # It takes over what it knows, and the secret; a proof from before the upgrade is spent.
    with requesting.connect() as client:
        assert client.exchange(proven).status == 401
    ask_for(200)
    ask_for(401, nonce="AAAA")
    ask_for(401, created=int(time.time()) - 4_000)
    ask_for(401, counter=1)
    ask_for(401, assertion=b"nonsense")
    ask_for(401, digest="sha-256=:AAAA:")
    ask_for(403, keyid=os.urandom(32))
    with requesting.connect() as client:
        assert client.exchange(get(f"/{SUBJECT}/../x")).status == 400
        client.leave()
    # Operators look at it, bar the person it belongs to, and ask for what the gateway counts.
    listed = json.loads(gateway.device_command("list", "--json"))["devices"]
    assert [from_b64url(b64url(base64.b64decode(device["key_id"]))) for device in listed] == [phone.key.key_id]
    written += [ask(gateway, path)[2] for path in ("/metrics", "/status", "/health")]
    eventually(lambda: collector.spans, "spans")
    # It is revoked, which the handshake tells; and the process is killed as by a fault of its own.
    gateway.device_command("revoke", str(listed[0]["device"]))
    with pytest.raises((OSError, AssertionError)):
        with Client(gateway, identity) as client:
            client.exchange(get("/"))
    refused = gateway.logged(event="connection_refused")
    gateway.crash(signal.SIGSEGV)
    gateway.start()
    with collector.lock:
        written += [json.dumps(span.attributes) + span.name for span in collector.spans]
        written += [json.dumps(resource) for resource in collector.resources]
    access = [json.dumps(entry) for entry in gateway.access() if entry != refused]
    assert len(access) >= 9
    for text in [gateway.errors, *access, *written]:
        assert secrets.found_in(text) == []
    # The one line that is to say whose phone it was.
    assert secrets.found_in(json.dumps(refused)) == ["the mTLS key's id"]
