"""Gateways that share a database judge a device by the same facts: what one of them learns, all of them know."""

import json
import shutil

import pytest

from support.client import Client, get
from support.deciding import PATIENT, RULE
from support.decision_points import DataAPI
from support.denials import code_of
from support.enrolling_phone import cbor_map, cbor_text
from support.gateway import BRIEF, Gateway
from support.postures import Postures
from support.waiting import eventually

SHOWS = {"flags": 0xC0, "extensions": cbor_map(("apple_bundle_version_01", cbor_text("2.1")))}
POLICIES = {"version": {"ios": {"minimum_app_version": "2.1"}}, "asked": {"pdp": "pdp"}, "open": {"admission": ["open"]}}


@pytest.fixture
def pair(started, pki, upstream, database, tmp_path):
    """Two gateways, the first of which enrols phones, and the decision point of both."""
    point = started(DataAPI, lambda document: True)
    registry, points = {"postgresql": database.conf}, {
        "pdp": {"kind": "opa", "url": point.url, "path": RULE, "timeout": PATIENT, "cache": "1h", "sends": ["posture"]}}
    postures = Postures(tmp_path / "one", pki, upstream, POLICIES, settings={"registry": registry, "decision_points": points})
    first = postures.gateway.conf
    (tmp_path / "other").mkdir()
    shutil.copy(first["registry"]["secret"], tmp_path / "other" / "secret")
    other = Gateway(
        tmp_path / "other", pki, {"service": upstream.address}, first["routes"], apps=first["apps"], registry=registry,
        policies=first["policies"], decision_points=points).start()
    yield postures, other, point
    other.stop(BRIEF)
    postures.stop()


def ask(gateway, phone, policy):
    with Client(gateway, phone.identity) as client:
        return code_of(client.exchange(get(f"/{policy}/1")))


def test_what_a_proof_shows_to_one_gateway_is_known_to_the_other(pair):
    postures, other, point = pair
    phone = postures.phone("ios", "one", os_version="17.4")
    for gateway in (postures.gateway, other):
        assert ask(gateway, phone, "version") == "policy_denied"
        assert ask(gateway, phone, "asked") is None
    assert postures.ask(phone, phone.request(path="/proof/open/1", **SHOWS)).status == 200
    assert ask(postures.gateway, phone, "version") is None, "at once where it was shown"
    eventually(lambda: ask(other, phone, "version") is None, "the other gateway to know")
    # No kept answer is about other facts.
    for gateway in (postures.gateway, other):
        assert ask(gateway, phone, "asked") is None
    assert [document["posture"].get("app_version") for document in point.documents] == [None, None, "2.1", "2.1"]


def test_a_device_that_is_revoked_at_one_gateway_is_refused_at_the_other_although_its_answer_is_kept(pair):
    postures, other, point = pair
    phone = postures.phone("ios", "one", os_version="17.4")
    assert ask(other, phone, "asked") is None
    shown = json.loads(postures.gateway.device_command("show", phone.key.key_id.hex(), "--json"))
    postures.gateway.device_command("revoke", str(shown["device"]))

    def is_refused():
        try:
            return ask(other, phone, "asked") == "device_revoked"
        except OSError:
            # Its handshake is refused.
            return True
    eventually(is_refused, "the other gateway to refuse")
    assert len(point.documents) == 1
