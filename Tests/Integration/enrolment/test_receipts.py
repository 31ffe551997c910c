"""Apple is asked for newer receipts of devices, as often as it makes sense, and what comes of it takes effect."""

import base64
import json
import re
import threading
import time
from datetime import datetime, timedelta, timezone

import pytest

from support.client import Client, get
from support.denials import assert_denied
from support.enrolling_phone import AttestationAuthority, MTLSKey, error_of
from support.enrolment import Enrolling
from support.exposition import scrape
from support.name_server import NameServer
from support.pki import CLIENT, SERVER, attestgate
from support.receipt_service import KEY_ID, TEAM, Answer, Hangup, ReceiptService, receipt
from support.receipts import ReceiptMaker
from support.waiting import eventually

SECOND, DAY = timedelta(seconds=1), timedelta(days=1)


def now():
    return datetime.now(timezone.utc)


def seconds(text):
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


class Asking:
    """A gateway that enrols and asks, and the service that it asks."""

    def __init__(self, directory, pki, upstream, app=None, identity="localhost", host="localhost", **receipts):
        directory.mkdir(parents=True, exist_ok=True)
        if identity == "localhost":
            identity = pki.server("receipt-service")
        self.apple = ReceiptService(directory, identity, host)
        section = {
            "team": TEAM, "key_id": KEY_ID, "key": str(self.apple.key_path), "base_url": self.apple.url,
            "authorities": str(pki.server_ca), "interval": "1d", "retry": "1s", "calls_per_minute": 6000, **receipts}
        self.enrolling = Enrolling(
            directory, pki, upstream, enrolment={"receipts": section},
            app=app or {"receipt": "required", "maximum_risk": 5})
        self.gateway = self.enrolling.gateway
        self.maker = ReceiptMaker(self.enrolling.authority)
        self.directory = directory
        self.count = 0

    def start(self):
        self.enrolling.start()
        return self

    def stop(self):
        self.enrolling.stop()
        self.apple.stop()

    def fresh(self, call, **fields):
        """The answer with a newer receipt of the same device."""
        return receipt(self.maker.make(call.app, call.leaf, **fields))

    def enrol(self, receipt=None, **fields):
        """A phone whose attestation has a receipt of these fields. - Returns: phone, identity."""
        phone, mtls = self.enrolling.phone(), MTLSKey()
        receipt = receipt or self.maker.of_attestation(**fields)
        answer = phone.initialize(receipt=receipt)
        assert answer.status == 204, answer
        self.count += 1
        return phone, phone.identity(self.directory, mtls, phone.bind(mtls), f"phone-{self.count}")

    def show(self, phone):
        return json.loads(self.gateway.device_command("show", "--json", phone.key.key_id.hex()))

    def receipt_of(self, phone):
        return self.show(phone)["receipt"]

    def wait_for(self, phone, outcome, **members):
        def settled():
            found = self.receipt_of(phone)
            return found if found["outcome"] == outcome and all(found[k] == v for k, v in members.items()) else None
        return eventually(settled, lambda: f"outcome {outcome} {members}: {self.receipt_of(phone)}\n{self.gateway.errors}")

    def wait_for_calls(self, count):
        eventually(lambda: len(self.apple.calls) >= count, lambda: f"{count} calls: {len(self.apple.calls)}\n{self.gateway.errors}")
        return self.apple.calls[:count]

    def results(self, result):
        return scrape(self.gateway)("attestgate_receipt_calls_total", result=result)


@pytest.fixture
def make(tmp_path, pki, upstream):
    made = []

    def make(app=None, **options):
        asking = Asking(tmp_path / str(len(made)), pki, upstream, app, **options)
        made.append(asking)
        return asking

    yield make
    for asking in made:
        asking.stop()


@pytest.fixture
def asking(make):
    return make().start()


# What comes of an answer.


def test_a_newer_receipt_is_asked_for_verified_and_kept(asking):
    not_before = now() + 3 * DAY
    asking.apple.script = lambda call: asking.fresh(call, risk=3, not_before=not_before)
    phone, _ = asking.enrol()
    found = asking.wait_for(phone, "refreshed", risk_metric=3, failures=0)
    assert seconds(found["next_at"]) >= int(not_before.timestamp())
    assert abs(seconds(found["created_at"]) - time.time()) < 60
    assert abs(seconds(found["asked_at"]) - time.time()) < 60
    call, = asking.apple.calls
    assert call.fields[6] == b"ATTEST", "the first one is exchanged"
    assert asking.results("refreshed") == 1
    status = asking.enrolling.status()["enrolment"]["receipts"]
    assert (status["calls"], status["refreshed"]) == (1, 1) and "paused" not in status
    # Nothing that was sent or got is in any log.
    text = asking.gateway.errors
    assert "receipts: outcome=refreshed device=" in text and "risk=3" in text
    for secret in [call.receipt, base64.b64encode(call.receipt)[:64].decode(), "eyJ"]:
        assert str(secret) not in text
    shown = asking.gateway.device_command("show", phone.key.key_id.hex())
    assert "risk metric" in shown and "refreshed" in shown


def test_the_next_exchange_is_of_the_newer_receipt(make):
    asking = make(interval="1s").start()
    made = []

    def answer(call):
        data = asking.maker.make(call.app, call.leaf, risk=len(made))
        made.append(data)
        return receipt(data)

    asking.apple.script = answer
    asking.enrol()
    first, second, third = asking.wait_for_calls(3)
    assert [second.receipt, third.receipt] == made[:2] and first.fields[6] == b"ATTEST"


def test_a_ceiling_applies_to_open_connections_as_receipts_change(make):
    asking = make(interval="1s").start()
    risk = [9]
    gate = threading.Event()

    def answer(call):
        gate.wait(30)
        return asking.fresh(call, risk=risk[0])

    asking.apple.script = answer
    phone, identity = asking.enrol()
    with Client(asking.gateway, identity) as client:
        assert client.exchange(get("/device")).status == 200
        gate.set()
        asking.wait_for(phone, "refreshed", risk_metric=9)
        assert_denied(asking.gateway, client.exchange(get("/device")), "device_risky", 403)
        assert error_of(phone.bind(MTLSKey())) == (403, "integrity_check_error")
        eventually(
            lambda: scrape(asking.gateway)("attestgate_receipt_devices_above_ceiling", app=phone.app) == 1, "one above")
        assert list(asking.enrolling.status()["enrolment"]["receipts"]["above_ceiling"].values()) == [1]
        assert "above maximum_risk" in asking.gateway.errors
        risk[0] = 5
        eventually(lambda: client.exchange(get("/device")).status == 200, "the device to be let in again")
    assert phone.bind(MTLSKey()).status == 200
    eventually(
        lambda: scrape(asking.gateway)("attestgate_receipt_devices_above_ceiling", app=phone.app) == 0, "none above")


def test_no_receipt_is_requested_before_field_19(asking):
    not_before = now() + 4 * SECOND
    phone, _ = asking.enrol(not_before=not_before)
    found = asking.wait_for(phone, "waiting")
    assert found["asked_at"] is None and asking.apple.calls == []
    assert seconds(found["next_at"]) >= int(not_before.timestamp())


def test_a_receipt_is_requested_once_field_19_has_passed(make):
    asking = make(interval="1s").start()
    not_before = now() + 3 * SECOND
    asking.enrol(not_before=not_before)
    call, = asking.wait_for_calls(1)
    assert call.at >= int(not_before.timestamp())


def test_304_keeps_receipt_and_metric_until_the_next_interval(asking):
    phone, _ = asking.enrol(risk=4)
    found = asking.wait_for(phone, "unchanged", risk_metric=4, failures=0)
    assert seconds(found["next_at"]) >= time.time() + 86_000
    assert asking.results("unchanged") == 1


def test_400_delays_the_device_alone_for_long(asking):
    asking.apple.script = lambda call: Answer(400, b"no receipt")
    phone, _ = asking.enrol()
    found = asking.wait_for(phone, "malformed", failures=1)
    assert seconds(found["next_at"]) >= time.time() + 43_000
    assert asking.results("malformed") == 1


def test_404_delays_the_device_for_a_month(asking):
    asking.apple.script = lambda call: Answer(404)
    phone, _ = asking.enrol()
    found = asking.wait_for(phone, "unknown", failures=0)
    assert seconds(found["next_at"]) >= time.time() + 29 * 86_400
    assert asking.results("unknown") == 1


def test_401_stops_all_calls_and_raises_an_alarm_until_the_configuration_changes(asking):
    asking.apple.script = lambda call: Answer(401)
    first, _ = asking.enrol()
    asking.wait_for(first, "failed")
    eventually(
        lambda: scrape(asking.gateway)("attestgate_receipt_calls_paused", reason="token_refused") == 1, "the pause")
    second, _ = asking.enrol()
    assert asking.enrolling.status()["enrolment"]["receipts"]["paused"] == "token_refused"
    errors = [line for line in asking.gateway.errors.splitlines() if "paused=token_refused" in line]
    assert len(errors) == 1 and '"level":"error"' in errors[0] and "DeviceCheck" in errors[0]
    eventually(
        lambda: scrape(asking.gateway)("attestgate_receipt_oldest_overdue_seconds") >= 1, "the second one to be overdue")
    assert len(asking.apple.calls) == 1
    assert "PAUSED" in attestgate("status", "--config", asking.gateway.conf_path).stdout
    # A reload says that the cause has been repaired.
    asking.apple.script = lambda call: asking.fresh(call, risk=1)
    asking.enrolling.change(nonce_life="6m")
    asking.wait_for(second, "refreshed", risk_metric=1)


def test_429_pauses_all_calls_as_long_as_it_says_even_across_a_reload(asking):
    asking.apple.script = lambda call: Answer(429, Retry_After="4")
    first, _ = asking.enrol()
    first_call, = asking.wait_for_calls(1)
    eventually(lambda: asking.results("throttled") == 1, "the answer to be counted")
    asking.apple.script = lambda call: asking.fresh(call, risk=1)
    second, _ = asking.enrol()
    asking.enrolling.change(nonce_life="6m")
    for phone in [second, first]:
        asking.wait_for(phone, "refreshed", risk_metric=1)
    assert all(call.at >= first_call.at + 4 for call in asking.apple.calls[1:])
    assert "paused=throttled" in asking.gateway.errors
    assert re.search(r"outcome=failed device=.* throttled: status 429", asking.gateway.errors), asking.gateway.errors


@pytest.mark.parametrize("answers, reason", [
    pytest.param([Answer(500), Answer(503)], "server_error: status 503", id="server error"),
    pytest.param([Answer(200, b"no base64!"), Answer(200, b"")], "no_receipt: ", id="garbage"),
    pytest.param([Answer(200, b"A" * (1 << 20))], "too_large", id="huge"),
    pytest.param([Answer(204), Answer(418)], "unexpected_status: 418", id="unexpected status"),
])
def test_a_malformed_answer_is_retried(asking, answers, reason):
    script = iter(answers)
    asking.apple.script = lambda call: next(script, None) or asking.fresh(call, risk=2)
    phone, _ = asking.enrol(risk=1)
    found = asking.wait_for(phone, "refreshed", risk_metric=2)
    assert found["failures"] == 0
    assert asking.results("failed") == len(answers) and len(asking.apple.calls) == len(answers) + 1
    assert f": {asking.apple.host}:{asking.apple.port}: {reason}" in asking.gateway.errors


def test_a_redirect_is_not_followed(asking, tmp_path):
    elsewhere = ReceiptService(tmp_path)
    try:
        asking.apple.script = lambda call: Answer(307, Location=f"{elsewhere.url}/v1/attestationData")
        phone, _ = asking.enrol()
        asking.wait_for(phone, "failed")
        assert elsewhere.calls == []
    finally:
        elsewhere.stop()


def test_silence_ends_with_the_timeout(make):
    asking = make(timeout="500ms").start()
    gate = threading.Event()
    asking.apple.script = lambda call: gate.wait(30) and Answer(304)
    try:
        phone, _ = asking.enrol()
        asking.wait_for(phone, "failed")
        assert "timeout" in asking.gateway.errors
    finally:
        gate.set()


def test_a_kept_connection_that_ends_without_an_answer_costs_no_failure(make):
    asking = make(interval="1s").start()
    hang_up = []

    def answer(call):
        if len(asking.apple.calls) == 2 and not hang_up:
            hang_up.append(call)
            raise Hangup
        return asking.fresh(call, risk=1)

    asking.apple.script = answer
    asking.enrol()
    asking.wait_for_calls(4)
    eventually(lambda: asking.results("refreshed") >= 3, "three answers")
    assert asking.results("failed") == 0 and len(hang_up) == 1


# Whom it is asked of.


@pytest.mark.parametrize("fault, reason", [
    ("stranger", "self-signed certificate in certificate chain|unable to get (local )?issuer certificate"),
    ("name", "IP address mismatch"), ("expired", "certificate has expired"), ("client", "unsuitable certificate purpose"),
])
def test_a_service_that_fails_authentication_gets_no_request(make, pki, fault, reason):
    identity = {
        "stranger": lambda: pki.client("apple-stranger", issuer=pki.authority("strange-authority"), extensions=SERVER),
        "name": lambda: pki.client(
            "apple-name", issuer=pki.server_authority, extensions=SERVER.replace("IP:127.0.0.1", "IP:127.0.0.2")),
        "expired": lambda: pki.server("apple-expired", start=-20, end=-10),
        "client": lambda: pki.client("apple-client", issuer=pki.server_authority, extensions=CLIENT + "subjectAltName=IP:127.0.0.1\n"),
    }[fault]()
    # By its one address: where a name has several, the next one is tried, and the message is about that one's failure.
    asking = make(identity=identity, host="127.0.0.1").start()
    phone, _ = asking.enrol()
    asking.wait_for(phone, "failed")
    assert asking.apple.calls == [] and asking.apple.faults == []
    assert re.search(f"outcome=failed .*: tls: .*({reason})", asking.gateway.errors), asking.gateway.errors


def test_a_name_is_resolved_when_needed_and_until_it_is_found(make, pki):
    nameserver = NameServer()
    try:
        identity = pki.client(
            "apple-named", issuer=pki.server_authority, extensions=SERVER.replace("DNS:localhost", "DNS:apple.test"))
        asking = make(identity=identity, host="apple.test")
        asking.gateway.conf["resolver"] = {
            "nameservers": [nameserver.address], "minimum_ttl": "1s", "timeout": "200ms", "attempts": 1}
        asking.start()
        phone, _ = asking.enrol()
        asking.wait_for(phone, "failed")
        assert "cannot be resolved" in asking.gateway.errors
        nameserver.addresses["apple.test"] = ["127.0.0.1"]
        asking.wait_for(phone, "unchanged")
        assert nameserver.asked("apple.test") > 0
    finally:
        nameserver.close()


def test_the_gateways_own_address_is_refused_as_a_receipt_service(make):
    asking = make()
    enrolment = asking.gateway.conf["enrolment"]
    enrolment["receipts"]["base_url"] = f"https://{enrolment['address']}"
    code, errors = check(asking)
    assert code == 1 and "enrolment" in errors, errors


def test_a_service_on_this_machine_may_be_called_without_tls(make):
    asking = make(identity=None).start()
    assert asking.apple.url.startswith("http://")
    phone, _ = asking.enrol()
    asking.wait_for(phone, "unchanged")


def test_one_connection_serves_call_after_call(make):
    asking = make(concurrency=1).start()
    asking.apple.script = lambda call: asking.fresh(call, risk=0)
    phones = [asking.enrol()[0] for _ in range(3)]
    for phone in phones:
        asking.wait_for(phone, "refreshed")
    assert len(asking.apple.calls) == 3 and len({id(call.connection) for call in asking.apple.calls}) == 1


# What is not taken.


def forged(asking, call, kind, tmp_path):
    maker = asking.maker
    other = asking.enrolling.phone()
    leaf = asking.enrolling.authority._issue(
        "leaf", other.key.private, asking.enrolling.authority.intermediate, asking.enrolling.authority.intermediate_key)
    return {
        "key": lambda: maker.make(call.app, leaf, risk=0),
        "app": lambda: maker.make("TEAMID1234.org.example.other", call.leaf, risk=0),
        "authority": lambda: ReceiptMaker(AttestationAuthority(tmp_path, "stranger")).make(call.app, call.leaf, risk=0),
        "signer": lambda: ReceiptMaker(asking.enrolling.authority, marked=False).make(call.app, call.leaf, risk=0),
        "kind": lambda: maker.make(call.app, call.leaf, kind="ATTEST", risk=0),
        "expired": lambda: maker.make(
            call.app, call.leaf, risk=0, created=now() - 2 * DAY, expires=now() - DAY),
        "older": lambda: maker.make(call.app, call.leaf, risk=0, created=now() - DAY),
        "future": lambda: maker.make(call.app, call.leaf, risk=0, created=now() + DAY),
        "environment": lambda: maker.make(call.app, call.leaf, risk=0, environment="production"),
        "altered": lambda: maker.make(call.app, call.leaf, risk=3).replace(b"\x04\x013", b"\x04\x010"),
        "rubbish": lambda: b"rubbish",
    }[kind]()


FORGED = ["key", "app", "authority", "signer", "kind", "expired", "older", "future", "environment", "altered", "rubbish"]


def test_a_receipt_of_another_device_app_or_time_or_of_a_stranger_is_not_kept(make, tmp_path):
    asking = make(app={"receipt": "required", "maximum_risk": 9}).start()
    kinds = {}

    def answer(call):
        kinds.setdefault(call.fields[3], FORGED[len(kinds)])
        return receipt(forged(asking, call, kinds[call.fields[3]], tmp_path))

    asking.apple.script = answer
    phones = [asking.enrol(risk=9)[0] for _ in FORGED]
    for phone in phones:
        found = asking.wait_for(phone, "refused", risk_metric=9)
        assert found["failures"] == 1 and seconds(found["next_at"]) > time.time() + 40_000
    assert asking.results("refused") == len(FORGED) and asking.results("refreshed") == 0


def test_a_malformed_receipt_is_not_sent_to_apple(make):
    asking = make(app={"receipt": "optional"}).start()
    phone, _ = asking.enrol(receipt=b"a receipt")
    found = asking.wait_for(phone, "unverified")
    assert found["asked_at"] is None
    genuine, _ = asking.enrol()
    asking.wait_for(genuine, "unchanged")
    assert len(asking.apple.calls) == 1


def test_an_expired_receipt_is_exchanged_no_more(make):
    asking = make(interval="1s").start()
    phone, _ = asking.enrol(expires=now() + 2 * SECOND, not_before=now() + 3 * SECOND)
    found = asking.wait_for(phone, "expired")
    assert found["next_at"] is None and asking.apple.calls == []


# Who is asked, and how often.


def test_a_revoked_devices_receipt_is_not_requested(make):
    asking = make(interval="1s").start()
    revoked, _ = asking.enrol()
    asking.wait_for_calls(1)
    asking.gateway.device_command("revoke", str(asking.show(revoked)["device"]))
    leaf = asking.apple.calls[0].fields[3]
    before = sum(call.fields[3] == leaf for call in asking.apple.calls)
    asking.enrol()
    # At most one was under way; another device is asked about many times meanwhile.
    eventually(lambda: sum(call.fields[3] != leaf for call in asking.apple.calls) >= 3, "the other's calls")
    assert sum(call.fields[3] == leaf for call in asking.apple.calls) <= before + 1
    after = len(asking.apple.calls)
    asking.gateway.device_command("restore", str(asking.show(revoked)["device"]))
    eventually(lambda: any(call.fields[3] == leaf for call in asking.apple.calls[after:]), "the restored one's call")


def test_calls_respect_the_rate_and_the_concurrency_limit(make):
    asking = make(calls_per_minute=300, concurrency=2).start()
    both = threading.Barrier(2)

    def answer(call):
        # Two are under way before either is answered.
        both.wait(30)
        return asking.fresh(call, risk=0)

    asking.apple.script = answer
    for _ in range(8):
        asking.enrol()
    calls = asking.wait_for_calls(8)
    times = sorted(call.at for call in calls)
    # Five a second at most. They are seen with a delay that differs: what is counted is the whole.
    assert times[-1] - times[0] >= 7 * 0.2 - 0.1
    assert asking.apple.most_under_way == 2


def test_a_crash_keeps_the_schedule(make):
    asking = make(retry="60s").start()
    asking.apple.script = lambda call: asking.fresh(call, risk=9)
    done, identity = asking.enrol()
    before = asking.wait_for(done, "refreshed", risk_metric=9)
    gate = threading.Event()
    asking.apple.script = lambda call: gate.wait(30) and Answer(304)
    hanging, _ = asking.enrol()
    asking.wait_for_calls(2)
    asking.gateway.crash()
    gate.set()
    asking.apple.script = lambda call: asking.fresh(call, risk=0)
    asking.gateway.start()
    later, _ = asking.enrol()
    asking.wait_for(later, "refreshed", risk_metric=0)
    # Neither the one that is not due, nor the one whose call was under way: nobody knows how it ended.
    assert len(asking.apple.calls) == 3
    assert asking.receipt_of(done) == before
    assert seconds(asking.receipt_of(hanging)["next_at"]) > time.time() + 60
    with Client(asking.gateway, identity) as client:
        assert_denied(asking.gateway, client.exchange(get("/device")), "device_risky", 403)


def test_a_reload_releases_claims_in_flight(asking):
    gate = threading.Event()
    asking.apple.script = lambda call: gate.wait(30) and Answer(304)
    try:
        phone, _ = asking.enrol()
        asking.wait_for_calls(1)
        asking.apple.script = lambda call: asking.fresh(call, risk=1)
        asking.enrolling.change(nonce_life="6m")
        asking.wait_for(phone, "refreshed", risk_metric=1)
    finally:
        gate.set()


# The configuration.


def check(asking):
    asking.gateway.write_conf()
    done = attestgate("check", "--config", asking.gateway.conf_path)
    return done.returncode, done.stderr


def test_a_key_that_others_can_read_or_of_another_curve_is_refused(make, pki):
    asking = make()
    assert check(asking)[0] == 0
    asking.apple.key_path.chmod(0o644)
    assert check(asking)[0] == 1
    other = asking.directory / "other.p8"
    pki.generate_key(other, "P-384")
    other.chmod(0o600)
    asking.gateway.conf["enrolment"]["receipts"]["key"] = str(other)
    code, errors = check(asking)
    assert code == 1 and "P-256" in errors


def test_apples_own_service_is_trusted_by_debians_authorities(make):
    """Read, not asked. It has to be found by name, which takes a network."""
    asking = make()
    asking.gateway.conf["enrolment"]["receipts"].pop("authorities")
    code, errors = check(asking)
    assert code == 0, errors
    asking.gateway.conf["enrolment"]["receipts"]["authorities"] = str(asking.apple.key_path)
    code, errors = check(asking)
    assert code == 1 and "authorities" in errors


def test_an_unresolvable_name_is_warned_of(make):
    asking = make(host="localhost")
    assert "cannot be resolved now" not in check(asking)[1]
    asking.gateway.conf["enrolment"]["receipts"]["base_url"] = "https://does-not-exist.invalid"
    code, errors = check(asking)
    assert code == 0 and "warning: does-not-exist.invalid:443 cannot be resolved now" in errors, errors


def test_every_certificate_in_the_operators_file_must_be_an_authority(make, pki):
    asking = make()
    own = asking.directory / "own.pem"
    own.write_text(pki.server_ca.read_text() + pki.server_certificate.read_text())
    asking.gateway.conf["enrolment"]["receipts"]["authorities"] = str(own)
    code, errors = check(asking)
    assert code == 1 and "own.pem: cannot trust CN=localhost: it is not a certification authority" in errors
