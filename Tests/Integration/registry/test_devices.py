"""Administering devices while the gateway runs, and what a revocation does."""

import base64
import json
import os
import stat
from datetime import datetime, timezone

from support.denials import assert_denied
from support.pki import attestgate
from support.waiting import eventually


def test_a_revoked_device_is_refused_at_every_level_and_restored_by_an_operator(start_attested):
    attested = start_attested()
    gateway, phone = attested.gateway, attested.phone
    bystander = attested.new_phone()
    gateway.device_command("revoke", str(phone.number))
    # So that the handshake does not know yet: test_barred_keys.py has the rest.
    gateway.halt()
    gateway.start()
    with attested.nothing_forwarded(bystander), phone.connect() as client:
        for path in ["/a", "/device", "/certificate", "/.well-known/attestgate/challenge"]:
            data = phone.request(path=path, nonce=bystander.challenge())
            assert_denied(gateway, client.exchange(data), "device_revoked", 403)
    gateway.device_command("restore", str(phone.number))
    with phone.connect() as client:
        assert client.exchange(phone.request(path="/a")).status == 200


def test_a_revocation_on_a_stopped_gateway_holds_when_it_starts(start_attested):
    attested = start_attested()
    gateway, phone = attested.gateway, attested.phone
    bystander = attested.new_phone()
    gateway.halt()
    gateway.device_command("revoke", str(phone.number))
    assert json.loads(gateway.device_command("show", str(phone.number), "--json"))["state"] == "revoked"
    gateway.start()
    with phone.connect() as client:
        data = phone.request(path="/a", nonce=bystander.challenge())
        assert_denied(gateway, client.exchange(data), "device_revoked", 403)


def test_the_socket_is_its_owners_alone(attested):
    status = os.stat(attested.gateway.conf["administration"]["socket"])
    assert stat.S_ISSOCK(status.st_mode) and stat.S_IMODE(status.st_mode) == 0o600
    for name in ["path", "secret"]:
        assert stat.S_IMODE(os.stat(attested.gateway.conf["registry"][name]).st_mode) == 0o600


def test_a_device_shows_its_used_counters(start_attested):
    attested = start_attested()
    gateway, phone = attested.gateway, attested.phone
    with phone.connect() as client:
        for _ in range(3):
            assert client.exchange(phone.request(path="/a")).status == 200
    shown = json.loads(gateway.device_command("show", str(phone.number), "--json"))
    assert (shown["counter"], shown["state"], shown["app_id"]) == (3, "active", phone.app)


def test_a_device_shows_the_day_of_its_last_request(start_attested):
    attested = start_attested()
    gateway, phone = attested.gateway, attested.phone

    def seen():
        return json.loads(gateway.device_command("show", str(phone.number), "--json"))["last_seen"]

    def today():
        return datetime.now(timezone.utc).strftime("%Y-%m-%d")
    begin = today()
    with phone.connect() as client:
        assert client.exchange(phone.request(path="/a")).status == 200
    eventually(lambda: seen() is not None, "the day to be written")
    assert begin <= seen() <= today()
    # What was seen last is written at the stop.
    other = attested.new_phone()
    with other.connect() as client:
        assert client.exchange(other.request(path="/a")).status == 200
    gateway.halt()
    listed = json.loads(gateway.device_command("list", "--seen-since", begin, "--json"))["devices"]
    assert {phone.number, other.number} <= {device["device"] for device in listed}


def test_a_device_is_registered_once(start_attested):
    attested = start_attested()
    done = attestgate(
        "device", "add", "--config", attested.gateway.conf_path, "--app-id", attested.phone.app,
        "--public-key", base64.b64encode(attested.phone.key.point).decode(),
        "--certificate-key", attested.phone.identity.key)
    assert done.returncode == 1 and "registered" in done.stderr
