"""A device whose receipt says that too many keys were attested on it is shut out, and let in again when it says less."""

import json

import pytest

from support.client import Client, get
from support.denials import NothingForwarded, assert_denied
from support.enrolling_phone import AttestationAuthority, MTLSKey, error_of
from support.enrolment import Enrolling
from support.pki import attestgate
from support.receipts import ReceiptMaker

ROUTES = [
    {"name": "records", "host": "localhost", "path": "/", "require": "request-proof"},
    {"name": "device", "host": "localhost", "path": "/device", "require": "device"},
    {"name": "sentinel", "host": "localhost", "path": "/sentinel", "require": "device"},
    {"name": "certificate", "host": "localhost", "path": "/certificate", "require": "certificate"},
]


@pytest.fixture
def service(tmp_path, pki, upstream):
    enrolling = Enrolling(tmp_path, pki, upstream, app={"receipt": "required"})
    enrolling.gateway.conf["routes"] = [{**route, "upstream": "service"} for route in ROUTES]
    enrolling.start()
    yield enrolling
    enrolling.stop()


def set_ceiling(service, ceiling):
    app = service.gateway.conf["apps"][0]
    app.pop("maximum_risk", None)
    if ceiling is not None:
        app["maximum_risk"] = ceiling
    service.change()


def enrolled(service, risk, tmp_path, name):
    phone, mtls = service.phone(), MTLSKey()
    receipt = ReceiptMaker(service.authority).of_attestation(risk=risk)
    assert phone.initialize(receipt=receipt).status == 204
    identity = phone.identity(tmp_path, mtls, phone.bind(mtls), name)
    return phone, identity


def test_a_reloaded_ceiling_refuses_all_devices_above_it_at_every_level(service, upstream, pki, tmp_path):
    risky, risky_identity = enrolled(service, 9, tmp_path, "risky")
    calm, calm_identity = enrolled(service, 5, tmp_path, "calm")
    requester = risky.requesting(service.gateway, risky_identity)
    with Client(service.gateway, risky_identity) as client:
        assert client.exchange(get("/device")).status == 200
    proven = requester.request(path="/a")
    set_ceiling(service, 5)
    with NothingForwarded(service.gateway, upstream, None, connect=lambda: Client(service.gateway, calm_identity)):
        for path in ["/device", "/certificate"]:
            with Client(service.gateway, risky_identity) as client:
                entry = assert_denied(service.gateway, client.exchange(get(path)), "device_risky", 403)
                assert "9" in entry["detail"]
        with requester.connect() as client:
            assert_denied(service.gateway, client.exchange(proven), "device_risky", 403)
    risky.counter = requester.counter
    assert error_of(risky.bind(MTLSKey())) == (403, "integrity_check_error")
    assert calm.bind(MTLSKey()).status == 200

    set_ceiling(service, 9)
    with Client(service.gateway, risky_identity) as client:
        assert client.exchange(get("/device")).status == 200
    assert risky.bind(MTLSKey()).status == 200


def test_an_attestations_own_receipt_may_exceed_the_ceiling(service):
    set_ceiling(service, 5)
    phone = service.phone()
    receipt = ReceiptMaker(service.authority).of_attestation(risk=6)
    assert error_of(phone.initialize(receipt=receipt)) == (403, "integrity_check_error")


def test_a_software_phones_receipt_must_be_signed_by_its_own_authority(service, tmp_path):
    other = AttestationAuthority(tmp_path, "other root")
    for maker in [ReceiptMaker(other), ReceiptMaker(service.authority, marked=False)]:
        assert error_of(service.phone().initialize(receipt=maker.of_attestation())) == (403, "invalid_request")


def test_the_metric_outlives_a_restart(service, tmp_path):
    _, identity = enrolled(service, 9, tmp_path, "risky")
    service.gateway.conf["apps"][0]["maximum_risk"] = 5
    service.gateway.write_conf()
    service.gateway.halt()
    service.gateway.start()
    with Client(service.gateway, identity) as client:
        assert_denied(service.gateway, client.exchange(get("/device")), "device_risky", 403)
    assert attestgate("check", "--config", service.gateway.conf_path).returncode == 0
    assert json.loads(service.gateway.device_command("list", "--json"))["devices"][0]["state"] == "active"
