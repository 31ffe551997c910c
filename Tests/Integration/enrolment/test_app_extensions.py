"""What an assertion says about the app since iOS 27: judged for every request, and never to be left out again."""

import json
import struct

import pytest

from support.attested import OTHER_APP
from support.client import get
from support.denials import assert_denied
from support.enrolling_phone import cbor_bytes, cbor_map, cbor_text
from support.pki import attestgate

APP_STORE, DEVELOPMENT = 4, 3
CATEGORY, VERSION = "apple_validation_category_01", "apple_bundle_version_01"


def shows(category=None, version=None):
    """What `assertion()` takes, to show these: flags and one CBOR map, as iOS 27 sends them; nothing, as those before."""
    entries = []
    if version is not None:
        entries.append((VERSION, cbor_text(version)))
    if category is not None:
        # Little-endian, unlike everything else in authenticator data.
        entries.append((CATEGORY, cbor_bytes(struct.pack("<I", category))))
    return {"flags": 0xC0, "extensions": cbor_map(*entries)} if entries else {}


IOS_26, IOS_27 = shows(), shows(APP_STORE, "2.1")


def passes(phone, **proof):
    with phone.connect() as client:
        response = client.exchange(phone.request(path="/a", **proof))
    assert response.status == 200, response


def refused(attested, phone, **proof):
    """It is refused, and nothing of it comes to the service. - Returns: what the log says of it."""
    with attested.nothing_forwarded(), phone.connect() as client:
        response = client.exchange(phone.request("POST", "/a", content=b"secret", **proof))
        return assert_denied(attested.gateway, response, "app_refused", 403)["detail"]


def shown(attested, phone):
    return json.loads(attested.gateway.device_command("show", str(phone.number), "--json"))["shown_extensions"]


@pytest.mark.parametrize("before, after, missing", [
    (IOS_27, IOS_26, "validation category"), (IOS_27, shows(version="2.1"), "validation category"),
    (IOS_27, shows(category=APP_STORE), "bundle version"), (shows(version="1"), IOS_26, "bundle version"),
    (shows(category=APP_STORE), shows(version="1"), "validation category"),
], ids=["both", "the category", "the version", "the only version", "one for the other"])
def test_an_assertion_without_extensions_that_its_key_showed_before_is_refused(attested, before, after, missing):
    phone = attested.new_phone()
    passes(phone, **IOS_26)
    passes(phone, **before)
    detail = refused(attested, phone, **after)
    assert detail == f"the {missing} is absent, but the key has shown it before"
    # The counter that was refused is not spent.
    passes(phone, counter=phone.counter, **IOS_27)
    # And nobody else is held to what this key has shown.
    passes(attested.new_phone(), **IOS_26)


@pytest.mark.parametrize("end", ["halt", "crash"])
def test_an_assertion_of_an_older_system_is_refused_after_a_restart_too(start_attested, end):
    attested = start_attested()
    phone = attested.phone
    passes(phone, **IOS_27)
    getattr(attested.gateway, end)()
    attested.gateway.start()
    assert "the key has shown it before" in refused(attested, phone, **IOS_26)
    assert shown(attested, phone) == [CATEGORY, VERSION]
    passes(phone, **IOS_27)


def test_a_restored_device_must_show_the_extensions_it_showed_before(attested):
    phone = attested.new_phone()
    passes(phone, **IOS_27)
    for command in ["revoke", "restore"]:
        attested.gateway.device_command(command, str(phone.number))
    assert "the key has shown it before" in refused(attested, phone, **IOS_26)


def test_routes_without_proofs_neither_record_nor_require_extensions(attested):
    phone = attested.new_phone()
    passes(phone, **IOS_27)
    with phone.connect() as client:
        assert client.exchange(get("/device")).status == 200


def test_the_apps_policy_is_held_against_every_request(start_attested):
    attested = start_attested(app={"validation_categories": ["app-store"], "minimum_bundle_version": "2.1"})
    for proof in [IOS_26, shows(APP_STORE, "2.1"), shows(APP_STORE, "2.1.0"), shows(APP_STORE, "2.10")]:
        passes(attested.new_phone(), **proof)
    phone = attested.phone
    for proof, detail in [
            (shows(DEVELOPMENT, "2.1"), "the validation category is not admitted: 3"),
            (shows(77, "2.1"), "the validation category is not admitted: 77"),
            (shows(APP_STORE, "2.0.9"), "the bundle version is not admitted"),
            (shows(APP_STORE, "3.0-beta"), "the bundle version is malformed")]:
        assert refused(attested, phone, **proof) == detail
        # Neither is the counter spent, nor what was shown remembered.
        passes(phone, counter=phone.counter, **IOS_26)
    assert shown(attested, phone) == []
    # Another app has its own policy.
    other = attested.new_phone(app=OTHER_APP)
    with other.connect() as client:
        assert client.exchange(other.request(path="/other", **shows(DEVELOPMENT, "1"))).status == 200


def test_an_assertion_without_extensions_is_refused_where_they_are_required(start_attested):
    attested = start_attested(app={"minimum_bundle_version": "2.1", "absent_extensions": "refuse"})
    assert refused(attested, attested.phone, **IOS_26) == "the bundle version is absent"
    passes(attested.phone, **shows(version="2.1"))


def test_unsigned_extensions_are_not_judged(start_attested):
    attested = start_attested(app={"minimum_bundle_version": "2.1"})
    phone = attested.phone
    with attested.nothing_forwarded(), phone.connect() as client:
        stranger = attested.new_phone(register=False)
        response = client.exchange(phone.request(path="/a", key=stranger.key, **shows(version="1")))
        assert_denied(attested.gateway, response, "proof_invalid", 401)


def test_a_reload_that_raises_the_minimum_refuses_enrolled_devices_below_it(start_attested):
    attested = start_attested()
    phone = attested.phone
    passes(phone, **IOS_27)
    attested.gateway.conf["apps"][0]["minimum_bundle_version"] = "3"
    attested.gateway.write_conf()
    done = attestgate("reload", "--config", attested.gateway.conf_path)
    assert done.returncode == 0, done.stderr
    assert refused(attested, phone, **IOS_27) == "the bundle version is not admitted"
    passes(phone, **shows(APP_STORE, "3"))
