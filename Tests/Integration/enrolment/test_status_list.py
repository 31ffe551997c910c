"""Google's list of revoked attestation keys is fetched, kept and refused as it should be."""

import hashlib
import json
import os
import stat
import threading
import time
from pathlib import Path

import pytest

from support.client import Client, get
from support.enrolment import Enrolling
from support.exposition import scrape
from support.name_server import NameServer
from support.paths import PATIENCE
from support.phone import Phone
from support.pki import SERVER, attestgate
from support.status_list_service import Answer, StatusListService, listing as listing_of
from support.waiting import eventually

ANDROID_APP = "android:org.example.app"
SIGNED = {"signing_certificates": ["ab" * 32]}


class Listing:
    """A gateway with an Android app, and the service that serves its list. `identity` None: without TLS."""

    def __init__(self, directory, pki, upstream, identity="localhost", host="localhost", file=None, **section):
        directory.mkdir(parents=True, exist_ok=True)
        if identity == "localhost":
            identity = pki.server("status-list-service")
        self.google = StatusListService(identity, host)
        self.file = file
        fetched = {"url": self.google.url, "authorities": str(pki.server_ca)}
        section = {"interval": "1h", "retry": "1s", **({"file": str(file)} if file else fetched), **section}
        if identity is None:
            section.pop("authorities", None)
        self.enrolling = Enrolling(
            directory, pki, upstream, enrolment={"android": {"status_list": section}}, apps=[{"id": ANDROID_APP, **SIGNED}])
        self.gateway = self.enrolling.gateway
        self.section = section

    @property
    def copy(self):
        return self.gateway.directory / "secret.status-list"

    def start(self):
        self.enrolling.start()
        return self

    def stop(self):
        self.enrolling.stop()
        self.google.stop()

    def change(self, **section):
        self.section.update(section)
        self.enrolling.change(android={"status_list": self.section})

    def status(self):
        return self.enrolling.status()["enrolment"]["status_list"]

    def count(self, result):
        return scrape(self.gateway)("attestgate_status_list_fetches_total", result=result)

    def wait_for(self, **members):
        def settled():
            found = self.status()
            return found if all(found.get(name) == value for name, value in members.items()) else None
        return eventually(settled, lambda: f"{members}: {self.status()}\n{self.gateway.errors}")

    def wait_for_count(self, result, count):
        eventually(
            lambda: self.count(result) >= count,
            lambda: f"{count} {result}: {self.count(result)}\n{self.gateway.errors}")


@pytest.fixture
def make(tmp_path, pki, upstream):
    made = []

    def make(**options):
        listing = Listing(tmp_path / str(len(made)), pki, upstream, **options)
        made.append(listing)
        return listing

    yield make
    for listing in made:
        listing.stop()


def check(listing):
    listing.gateway.write_conf()
    done = attestgate("check", "--config", listing.gateway.conf_path)
    return done.returncode, done.stderr


# What is taken.


def test_the_list_is_fetched_shown_and_kept(make):
    listing = make().start()
    found = listing.wait_for(state="current")
    assert found["source"] == listing.google.url and found["entries"] == 3 and found["age_seconds"] < PATIENCE
    assert "failure" not in found
    fetch, = listing.google.fetches
    assert "If-None-Match" not in fetch.fields and fetch.fields["Accept-Encoding"] == "identity"
    metrics = scrape(listing.gateway)
    assert metrics("attestgate_status_list_entries") == 3 and metrics("attestgate_status_list_stale") == 0
    assert metrics("attestgate_status_list_age_seconds") < PATIENCE
    assert metrics("attestgate_status_list_fetches_total") == metrics("attestgate_status_list_fetches_total", result="updated") == 1
    assert "status list: outcome=updated entries=3 added=3 removed=0" in listing.gateway.errors
    assert '"added":"3"' in listing.gateway.errors and '"event":"status_list"' in listing.gateway.errors
    assert "current, 3 entries, confirmed" in attestgate("status", "--config", listing.gateway.conf_path).stdout
    assert stat.S_IMODE(listing.copy.stat().st_mode) == 0o600
    assert listing.copy.read_bytes().endswith(listing.google.content)
    assert os.listdir(listing.copy.parent).count(listing.copy.name) == 1, "no draft is left"


def test_the_next_fetch_is_conditional_and_304_confirms_the_list(make):
    listing = make(interval="1s").start()
    listing.wait_for_count("unchanged", 2)
    first, second = listing.google.fetches[:2]
    assert second.fields["If-None-Match"] == listing.google.tag
    assert second.fields["If-Modified-Since"] == "Fri, 27 Nov 2026 08:00:00 GMT"
    assert second.at - first.at >= 0.9
    assert listing.count("updated") == 1 and listing.status()["entries"] == 3
    assert len({id(fetch.connection) for fetch in listing.google.fetches}) == 1
    listing.google.content = listing_of("1a2b", "3c4d", "5e6f", "291469742163943797284930411742061593829")
    listing.wait_for(entries=4)
    assert "outcome=updated entries=4 added=1 removed=0" in listing.gateway.errors


def test_cache_control_shortens_the_interval(make):
    listing = make(interval="4s")
    listing.google.fields["Cache-Control"] = "public, max-age=1"
    listing.start()
    listing.wait_for_count("unchanged", 1)
    first, second = listing.google.fetches[:2]
    assert second.at - first.at < 4


@pytest.mark.parametrize("content, reason", [
    pytest.param(listing_of(), "it has no entries", id="empty"),
    pytest.param(b"<html>", "it is not JSON", id="no JSON"),
    pytest.param(b"{}", "it has no member `entries`", id="no entries"),
    pytest.param(b'{"entries":{"1a":{"reason":"x"}}}', "an entry has no status", id="no status"),
    pytest.param(listing_of("1a2b", "77", "88", "99"), "it has lost 2 of 3 entries", id="most lost"),
    pytest.param(b" " * (5 << 20), "it is longer than 4194304 bytes", id="huge"),
])
def test_a_list_that_cannot_be_right_is_not_taken(make, content, reason):
    listing = make(interval="2s").start()
    listing.wait_for(state="current", entries=3)
    kept, listing.google.content = listing.google.content, content
    listing.wait_for_count("refused", 2)
    found = listing.status()
    assert found["state"] == "current" and found["entries"] == 3 and reason in found["failure"], found
    line = next(line for line in listing.gateway.errors.splitlines() if "outcome=refused" in line)
    assert '"level":"error"' in line and reason in line
    assert listing.copy.read_bytes().endswith(kept)
    # The validators of the list in use are sent, not those of the refused one.
    assert len({fetch.fields.get("If-None-Match") for fetch in listing.google.fetches[1:]}) == 1
    listing.google.content = kept
    listing.wait_for_count("unchanged", 1)
    assert "failure" not in listing.status()


def test_failures_are_retried_and_a_redirect_is_not_followed(make, tmp_path):
    elsewhere = StatusListService()
    listing = make()
    answers = iter([Answer(500), Answer(404), Answer(302, Location=elsewhere.url), Answer(304)])
    listing.google.script = lambda fetch: next(answers, None) or listing.google.serve(fetch)
    try:
        listing.start()
        listing.wait_for(state="current")
        assert listing.count("failed") == 4 and elsewhere.fetches == []
        for reason in ["server_error: status 500", "unexpected_status: 404", "unexpected_status: 302", "unexpected_status: 304"]:
            assert f"{reason}; there is no list, so no Android phone can enrol" in listing.gateway.errors
    finally:
        elsewhere.stop()


def test_silence_ends_with_the_timeout(make):
    listing = make(timeout="300ms")
    gate = threading.Event()
    listing.google.script = lambda fetch: gate.wait(PATIENCE) and Answer(304)
    try:
        listing.start()
        listing.wait_for_count("failed", 1)
        assert "outcome=failed" in listing.gateway.errors and "timeout" in listing.gateway.errors
        assert listing.status()["state"] == "missing"
    finally:
        gate.set()


# What becomes of it.


def test_a_list_that_nobody_confirms_becomes_stale_and_current_again(make):
    listing = make(interval="1s", stale_after="3s").start()
    listing.wait_for(state="current")
    assert scrape(listing.gateway)("attestgate_status_list_stale") == 0
    listing.google.script = lambda fetch: Answer(503)
    found = listing.wait_for(state="stale")
    assert found["entries"] == 3 and found["age_seconds"] > 3 and "status 503" in found["failure"]
    assert scrape(listing.gateway)("attestgate_status_list_stale") == 1
    assert "STALE" in attestgate("status", "--config", listing.gateway.conf_path).stdout
    lines = [line for line in listing.gateway.errors.splitlines() if "state=stale" in line]
    assert len(lines) == 1 and '"level":"error"' in lines[0]
    listing.google.script = listing.google.serve
    listing.wait_for(state="current")
    eventually(lambda: "state=current" in listing.gateway.errors, "the line that it is current")


def test_a_restart_continues_with_the_kept_list_and_its_age(make):
    listing = make(interval="10m").start()
    listing.wait_for(state="current")
    listing.gateway.crash()
    time.sleep(1)
    listing.gateway.start()
    found = listing.status()
    assert found["state"] == "current" and found["entries"] == 3 and found["age_seconds"] >= 1
    # It was confirmed lately, so nothing is asked; and the next fetch is conditional.
    assert len(listing.google.fetches) == 1
    listing.change(interval="1s")
    listing.wait_for_count("unchanged", 1)
    assert listing.google.fetches[1].fields["If-None-Match"] == listing.google.tag


@pytest.mark.parametrize("damage", [lambda text: text[:-2], lambda text: b"", lambda text: text.replace(b"https:", b"http:")])
def test_a_damaged_copy_or_one_of_another_service_is_not_used(make, damage):
    listing = make().start()
    listing.wait_for(state="current")
    listing.gateway.crash()
    listing.copy.write_bytes(damage(listing.copy.read_bytes()))
    listing.google.script = lambda fetch: Answer(503)
    listing.gateway.start()
    listing.wait_for_count("failed", 1)
    assert listing.status()["state"] == "missing" and "If-None-Match" not in listing.google.fetches[-1].fields
    listing.google.script = listing.google.serve
    listing.wait_for(state="current")


def test_a_reload_continues_with_the_list_and_another_url_begins_without(make, pki):
    listing = make().start()
    listing.wait_for(state="current")
    listing.change(retry="2s")
    assert listing.status()["state"] == "current" and len(listing.google.fetches) == 1
    other = StatusListService(pki.server("status-list-service"), content=listing_of("77"))
    try:
        listing.change(url=other.url)
        found = listing.wait_for(state="current", entries=1)
        assert found["source"] == other.url and "If-None-Match" not in other.fetches[0].fields
        # Without an app that demands a list there is none.
        listing.gateway.conf["apps"] = [app for app in listing.gateway.conf["apps"] if app["id"] != ANDROID_APP]
        listing.enrolling.change()
        assert "status_list" not in listing.enrolling.status()["enrolment"]
        assert not scrape(listing.gateway).labels("attestgate_status_list_stale")
    finally:
        other.stop()


# A file instead.


def replace(path, content, age=0):
    draft = path.with_suffix(".draft")
    draft.write_bytes(content)
    os.utime(draft, (time.time() - age,) * 2)
    draft.rename(path)


def test_a_file_is_read_when_it_changes_and_its_age_is_that_of_the_file(make, tmp_path):
    path = tmp_path / "status.json"
    replace(path, listing_of("1a", "2b", "3c"), age=60)
    listing = make(file=path, stale_after="2h").start()
    found = listing.status()
    assert found["state"] == "current" and found["entries"] == 3 and 60 <= found["age_seconds"] < 60 + PATIENCE
    assert found["source"] == str(path) and not listing.copy.exists()
    replace(path, listing_of("1a", "2b", "3c", "4d"))
    found = listing.wait_for(entries=4)
    assert found["age_seconds"] < PATIENCE
    for content, reason in [(listing_of("1a"), "it has lost 3 of 4 entries"), (b"{", "it is not JSON")]:
        replace(path, content)
        eventually(lambda: reason in listing.status().get("failure", ""), f"{reason}: {listing.status()}")
        assert listing.status()["entries"] == 4
    path.unlink()
    replace(path, listing_of("1a", "2b", "3c", "4d"), age=3 * 3600)
    listing.wait_for(state="stale")
    os.utime(path)
    listing.wait_for(state="current")
    assert listing.google.fetches == []


def test_a_file_without_a_list_is_warned_of_and_does_not_prevent_the_start(make, tmp_path):
    path = tmp_path / "status.json"
    replace(path, b'{"entries":{}}')
    listing = make(file=path)
    code, errors = check(listing)
    assert code == 0 and "it has no entries, so no Android phone can enrol" in errors and ": warning: " in errors, errors
    listing.start()
    assert listing.status()["state"] == "missing"
    replace(path, listing_of("1a"))
    listing.wait_for(state="current", entries=1)


# Phones that are enrolled.


def attest(listing, phone, serials):
    """Has the registry say of a device what an Android phone's attestation says: by a backup that is changed and put back."""
    gateway, backup = listing.gateway, listing.gateway.directory / "backup"
    done = attestgate("registry", "export", "--config", gateway.conf_path, backup)
    assert done.returncode == 0, done.stderr
    gateway.stop()
    lines = [json.loads(line) for line in backup.read_text().splitlines()]
    device, = [line["device"] for line in lines if line.get("device", {}).get("hardware_key") == phone.key.key_id.hex()]
    device["attestation"] = {
        "digest": "00" * 32, "phone": {
            "security_level": "tee", "boot_state": "verified", "bootloader_locked": 1, "boot_key": "07" * 32,
            "app_version": 1, "serials": [{"serial": serial} for serial in serials]}}
    *texts, _ = [json.dumps(line, separators=(",", ":")) + "\n" for line in lines]
    lines[-1]["end"]["sha256"] = hashlib.sha256("".join(texts).encode()).hexdigest()
    backup.write_text("".join([*texts, json.dumps(lines[-1], separators=(",", ":")) + "\n"]))
    for suffix in ["", "-wal", "-shm"]:
        Path(gateway.conf["registry"]["path"] + suffix).unlink(missing_ok=True)
    done = attestgate("registry", "import", "--config", gateway.conf_path, backup)
    assert done.returncode == 0, done.stderr
    gateway.start()


def test_a_phone_whose_key_was_revoked_after_it_enrolled_is_refused_until_it_is_listed_no_more(make, tmp_path, pki):
    path = tmp_path / "status.json"
    others = ["77", "78", "79"]
    replace(path, listing_of(*others))
    listing = make(file=path).start()
    revoked, other = [Phone(listing.gateway, pki.phone(f"listed-{name}"), ANDROID_APP) for name in ["one", "two"]]
    # The list has the second certificate in decimal.
    attest(listing, revoked, ["1f", f"{6681152659205225093:x}"])

    def outcome(client):
        response = client.exchange(get("/device"))
        return response.status, json.loads(response.content)["error"] if response.status != 200 else None

    with Client(listing.gateway, revoked.identity) as client, Client(listing.gateway, other.identity) as healthy:
        assert outcome(client) == outcome(healthy) == (200, None)
        replace(path, listing_of(*others, "6681152659205225093"))
        eventually(lambda: outcome(client) == (403, "device_risky"), "the refusal on the open connection")
        assert outcome(healthy) == (200, None)
        eventually(
            lambda: scrape(listing.gateway)("attestgate_status_list_revoked_devices") == 1, "the count of the review")
    assert "outcome=listed device=" in listing.gateway.errors and f"app={ANDROID_APP}" in listing.gateway.errors
    listing.gateway.crash()
    listing.gateway.start()
    with Client(listing.gateway, revoked.identity) as client:
        assert outcome(client) == (403, "device_risky"), "the registry keeps it"
        replace(path, listing_of(*others))
        eventually(lambda: outcome(client) == (200, None), "the release")
    assert "outcome=released device=" in listing.gateway.errors


# Where it comes from.


def test_a_service_that_fails_authentication_gets_no_request(make, pki):
    stranger = pki.client("status-list-stranger", issuer=pki.authority("strange-authority"), extensions=SERVER)
    listing = make(identity=stranger, host="127.0.0.1").start()
    listing.wait_for_count("failed", 1)
    assert listing.google.fetches == [] and "tls: " in listing.gateway.errors


def test_a_service_on_this_machine_may_be_called_without_tls(make):
    listing = make(identity=None).start()
    assert listing.google.url.startswith("http://")
    listing.wait_for(state="current")


def test_a_name_is_resolved_when_needed_and_until_it_is_found(make, pki):
    nameserver = NameServer()
    try:
        identity = pki.client(
            "google-named", issuer=pki.server_authority, extensions=SERVER.replace("DNS:localhost", "DNS:google.test"))
        listing = make(identity=identity, host="google.test")
        listing.gateway.conf["resolver"] = {
            "nameservers": [nameserver.address], "minimum_ttl": "1s", "timeout": "200ms", "attempts": 1}
        listing.start()
        listing.wait_for_count("failed", 1)
        assert "status list: google.test" in listing.gateway.errors and "cannot be resolved" in listing.gateway.errors
        nameserver.addresses["google.test"] = ["127.0.0.1"]
        listing.wait_for(state="current")
    finally:
        nameserver.close()


def test_the_gateways_own_address_and_a_copy_that_cannot_be_made_are_refused(make, tmp_path):
    listing = make()
    assert check(listing)[0] == 0
    enrolment = listing.gateway.conf["enrolment"]
    listing.section["url"] = f"https://{enrolment['address']}/status"
    code, errors = check(listing)
    assert code == 1 and "enrolment" in errors, errors
    listing.section.update(url=listing.google.url, copy=str(tmp_path / "missing" / "list"))
    code, errors = check(listing)
    assert code == 1 and "its directory: No such file or directory" in errors, errors


def test_an_app_in_production_demands_the_list_of_google_itself(make):
    """Read, not asked. It has to be found by name, which takes a network."""
    listing = make()
    listing.gateway.conf["enrolment"].pop("android")
    listing.gateway.conf["apps"][-1] = {"id": ANDROID_APP, "environment": "production", **SIGNED}
    code, errors = check(listing)
    assert code == 0, errors
