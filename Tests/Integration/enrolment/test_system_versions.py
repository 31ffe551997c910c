"""`minimum_os`: a phone whose attestation states an older system does not enrol, and its requests are refused."""

import json

import pytest

from support.client import Client, get
from support.denials import NothingForwarded, assert_denied
from support.enrolling_phone import MTLSKey, error_of
from support.enrolment import Enrolling
from support.pki import attestgate
from support.software_phone import EnrollingGateway

ROUTES = [
    {"name": "records", "host": "localhost", "path": "/", "require": "request-proof"},
    {"name": "device", "host": "localhost", "path": "/device", "require": "device"},
    {"name": "sentinel", "host": "localhost", "path": "/sentinel", "require": "device"},
    {"name": "certificate", "host": "localhost", "path": "/certificate", "require": "certificate"},
]
OUTDATED = (403, "os_outdated")


@pytest.fixture
def start(tmp_path, pki, upstream):
    started = []

    def start(**app):
        enrolling = Enrolling(tmp_path, pki, upstream, app=app)
        enrolling.gateway.conf["routes"] = [{**route, "upstream": "service"} for route in ROUTES]
        started.append(enrolling.start())
        return enrolling
    yield start
    for enrolling in started:
        enrolling.stop()


def demand(service, minimum, absence="accept"):
    app = service.gateway.conf["apps"][0]
    app.pop("minimum_os", None)
    app["absent_extensions"] = absence
    if minimum is not None:
        app["minimum_os"] = minimum
    service.change()


def enrolled(service, os_version, tmp_path, name):
    phone, mtls = service.phone(), MTLSKey()
    return phone, phone.identity(tmp_path, mtls, phone.enrol(mtls, os_version=os_version), name)


def status(service, identity, path="/device"):
    with Client(service.gateway, identity) as client:
        return client.exchange(get(path)).status


def test_a_phone_below_the_minimum_does_not_enrol(start):
    service = start(minimum_os="17.10")
    for version in ["17.4", "17.9.9", "9.3.5", "16", "17.x"]:
        assert error_of(service.phone().initialize(os_version=version)) == OUTDATED, version
    for version in ["17.10", "17.10.1", "18", "27.0"]:
        assert service.phone().initialize(os_version=version).status == 204, version
    assert len(service.devices()) == 4


@pytest.mark.parametrize("absence, answer", [("accept", 204), ("refuse", 403)])
def test_a_phone_that_states_no_version_follows_absent_extensions(start, absence, answer):
    service = start(minimum_os="17.4", absent_extensions=absence)
    response = service.phone().initialize()
    assert response.status == answer
    if answer == 403:
        assert error_of(response) == OUTDATED


def test_a_raised_minimum_refuses_enrolled_phones_at_every_level_from_the_reload_on(start, upstream, tmp_path):
    service = start()
    old, old_identity = enrolled(service, "17.4.1", tmp_path, "old")
    new, new_identity = enrolled(service, "17.10", tmp_path, "new")
    requester = old.requesting(service.gateway, old_identity)
    proven = requester.request(path="/a")
    assert status(service, old_identity) == 200

    demand(service, "17.5")
    with NothingForwarded(service.gateway, upstream, None, connect=lambda: Client(service.gateway, new_identity)):
        for path in ["/device", "/certificate"]:
            with Client(service.gateway, old_identity) as client:
                entry = assert_denied(service.gateway, client.exchange(get(path)), "os_outdated", 403)
                assert entry["detail"] == "its system version 17.4.1 is below `minimum_os`"
        with requester.connect() as client:
            assert_denied(service.gateway, client.exchange(proven), "os_outdated", 403)
    old.counter = requester.counter
    assert error_of(old.bind(MTLSKey())) == OUTDATED
    assert new.bind(MTLSKey()).status == 200

    # With the system updated, the same phone enrols again with a new key.
    updated, updated_identity = enrolled(service, "18.0", tmp_path, "updated")
    assert status(service, updated_identity) == 200
    assert status(service, old_identity) == 403

    demand(service, "17.4")
    assert status(service, old_identity) == 200
    # Nothing was spent by the refusals.
    with requester.connect() as client:
        assert client.exchange(proven).status == 200


def test_a_phone_without_a_version_is_refused_or_served_as_absent_extensions_says(start, tmp_path):
    service = start()
    _, identity = enrolled(service, None, tmp_path, "silent")
    demand(service, "17.4")
    assert status(service, identity) == 200
    demand(service, "17.4", absence="refuse")
    with Client(service.gateway, identity) as client:
        entry = assert_denied(service.gateway, client.exchange(get("/device")), "os_outdated", 403)
        assert "states no system version" in entry["detail"]
    demand(service, None, absence="refuse")
    assert status(service, identity) == 200


def test_the_version_is_shown_exported_and_outlives_a_restart(start, tmp_path):
    service = start()
    phone, identity = enrolled(service, "17.4", tmp_path, "phone")
    shown = json.loads(service.gateway.device_command("show", phone.key.key_id.hex(), "--json"))
    assert shown["os_version"] == "17.4"
    service.gateway.conf["apps"][0]["minimum_os"] = "17.5"
    service.gateway.write_conf()
    service.gateway.halt()
    service.gateway.start()
    with Client(service.gateway, identity) as client:
        assert_denied(service.gateway, client.exchange(get("/device")), "os_outdated", 403)


def test_a_minimum_that_is_no_version_is_refused(start):
    service = start()
    service.gateway.conf["apps"][0]["minimum_os"] = "iOS 17"
    service.gateway.write_conf()
    done = attestgate("check", "--config", service.gateway.conf_path)
    assert done.returncode != 0 and "is not a system version" in done.stderr


def test_a_software_phone_enrols_again_after_its_system_was_updated(pki, upstream, tmp_path):
    service = EnrollingGateway(tmp_path, pki, upstream, app={"minimum_os": "17.4"}, platforms=["ios"])
    try:
        phone = service.phone("phone")
        refused = phone.enrol("--os-version", "17.3.1", status=1)
        assert "403 os_outdated" in refused.stderr and "update it" in refused.stderr
        phone.enrol("--os-version", "17.4")
        assert phone.request() == (200, None)
        service.gateway.conf["apps"][0]["minimum_os"] = "18.0"
        service.gateway.write_conf()
        done = attestgate("reload", "--config", service.gateway.conf_path)
        assert done.returncode == 0, done.stderr
        assert phone.request() == (403, "os_outdated")
        # Without an update a new attestation states the same.
        assert "403 os_outdated" in phone.enrol("--os-version", "17.4", status=1).stderr
        phone.enrol("--rotate", "--os-version", "18.0")
        assert phone.request() == (200, None)
        # Nor is there a need to try before the update.
        other = service.phone("other")
        other.enrol("--os-version", "18.0")
        assert other.request() == (200, None)
        service.gateway.conf["apps"][0]["minimum_os"] = "19"
        service.gateway.write_conf()
        assert attestgate("reload", "--config", service.gateway.conf_path).returncode == 0
        assert other.request() == (403, "os_outdated")
        other.enrol("--rotate", "--os-version", "19.1")
        assert other.request() == (200, None)
    finally:
        service.stop()
