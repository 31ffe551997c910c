"""A gateway with conditions on devices, and enrolled phones of which different things are known."""

import contextlib
import json
import sqlite3
import struct

from support.client import Client, get
from support.deciding import assert_policy_denied
from support.denials import code_of
from support.enrolling_phone import MTLSKey, bind, cbor_bytes, cbor_map, cbor_text
from support.enrolment import Enrolling
from support.pki import attestgate
from support.platforms import PLATFORMS
from support.receipts import ReceiptMaker

# The phone that is as attestations of the tests are by themselves.
PLAIN = {"ios": {"os_version": "17.4"}, "android": {}}
# Validation categories of Apple's.
APP_STORE, TESTFLIGHT, DEVELOPMENT = 4, 2, 3


def shows(category=None, version=None):
    """What an assertion of iOS 27 shows of the app."""
    entries = [("apple_bundle_version_01", cbor_text(version))] if version is not None else []
    entries += [("apple_validation_category_01", cbor_bytes(struct.pack("<I", category)))] if category is not None else []
    return {"flags": 0xC0, "extensions": cbor_map(*entries)} if entries else {}


class Postures:
    """- policies: by name; each has the routes `/NAME` for devices and `/proof/NAME` for proofs.
    - further: policies without routes; ios: members of the iOS app's entry; settings: of the conf file; enrolment: of that section."""

    def __init__(self, directory, pki, upstream, policies, further=None, ios=None, settings=None, **enrolment):
        self.enrolling = Enrolling(directory, pki, upstream, enrolment=enrolment, platforms=PLATFORMS, **(settings or {}))
        self.directory, self.upstream, self.gateway = directory, upstream, self.enrolling.gateway
        for entry in self.gateway.conf["apps"]:
            if entry["id"].startswith("android:"):
                # What policies judge, enrolment is not to refuse.
                entry["boot"] = "any"
            else:
                entry.update(ios or {})
        self.gateway.conf["routes"] = [
            {"name": "sentinel", "host": "localhost", "path": "/sentinel", "require": "device", "upstream": "service"}]
        self.gateway.conf["policies"] = dict(further or {})
        for name, policy in policies.items():
            self.add(name, policy)
        self.enrolling.start()
        self.phones = {}

    def add(self, name, policy):
        apps = [entry["id"] for entry in self.gateway.conf["apps"]]
        sections = [platform for platform in PLATFORMS if platform in policy]
        if len(sections) == 1:
            # A policy is for one system where it has conditions for that alone.
            apps = [app for app in apps if app.startswith("android:") == (sections[0] == "android")]
        self.gateway.conf["policies"][name] = policy
        self.gateway.conf["routes"] += [
            {"name": f"{kind}-{name}", "host": "localhost", "path": path, "require": require, "policy": name, "apps": apps,
             "upstream": "service"}
            for kind, path, require in (("device", f"/{name}", "device"), ("proof", f"/proof/{name}", "request-proof"))]

    def reload(self):
        self.gateway.write_conf()
        done = attestgate("reload", "--config", self.gateway.conf_path)
        assert done.returncode == 0, done.stderr

    def phone(self, platform, name, attests_key=True, risk=None, **attested):
        """The phone with that name, enrolled when it is asked for first."""
        if (platform, name) not in self.phones:
            with self.enrolling.phones_of(platform):
                phone, mtls = self.enrolling.phone(), MTLSKey()
                if risk is not None:
                    attested["receipt"] = ReceiptMaker(self.enrolling.authority).of_attestation(risk=risk)
                response = phone.initialize(**attested)
                assert response.status == 204, response
                if attests_key:
                    bound = bind(phone, mtls, **attested)
                else:
                    bound = phone.bind(mtls, claims={"mtls_key_attestation": None})
                identity = phone.identity(self.directory, mtls, bound, f"{platform}-{name.replace(' ', '-')}")
                self.phones[platform, name] = phone.requesting(self.gateway, identity)
        return self.phones[platform, name]

    def ask(self, phone, data):
        with Client(self.gateway, phone.identity) as client:
            return client.exchange(data)

    def violations(self, phone, policy):
        """What the policy finds. - Returns: None for a request that passes."""
        response = self.ask(phone, get(f"/{policy}/1"))
        if response.status == 200:
            return None
        entry = assert_policy_denied(self.gateway, response, violations_of(response))
        assert entry["detail"] == f"policy {policy}: {', '.join(violations_of(response))}", entry
        return violations_of(response)

    def edit_store(self, statement, *values):
        """Changes the registry while nobody uses it."""
        self.gateway.halt()
        with contextlib.closing(sqlite3.connect(self.gateway.conf["registry"]["path"])) as store, store:
            assert store.execute(statement, values).rowcount > 0
        self.gateway.start()

    def stop(self):
        self.enrolling.stop()


def violations_of(response):
    assert code_of(response) == "policy_denied", response
    return json.loads(response.content)["violations"]
