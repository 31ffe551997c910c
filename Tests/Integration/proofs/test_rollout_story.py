"""A fleet is brought under enforcement step by step, as docs/adoption/rollout.md says, while its phones send requests."""

import json
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from support.client import Client, get
from support.exposition import ask
from support.http2_client import HTTP2Client
from support.pki import attestgate
from support.waiting import eventually

PHONES = 40
# Of ten phones, three have an app that makes no proofs yet.
OLD = 3
ROUTE = {"name": "records", "host": "localhost", "path": "/", "require": "request-proof", "enforce": "observe"}


class Fleet:
    """Phones that send requests all the time."""

    def __init__(self, attested):
        self.attested = attested
        self.phones = [attested.new_phone() for _ in range(PHONES)]
        self.old = {phone.number for place, phone in enumerate(self.phones) if place % 10 < OLD}
        self.lock = threading.Lock()
        # Per phone: how often each status came in this step.
        self.seen = {}

    def send(self, phone):
        kind = HTTP2Client if phone.number % 2 else Client
        agent = "Records/1.0" if phone.number in self.old else "Records/2.0"
        with kind(self.attested.gateway, phone.identity) as client:
            for _ in range(3):
                if phone.number in self.old:
                    data = get("/", f"User-Agent: {agent}")
                else:
                    data = phone.request(fields=[("User-Agent", agent)])
                status = client.exchange(data).status
                with self.lock:
                    self.seen.setdefault(phone.number, Counter())[status] += 1

    def step(self, enforce):
        """Reloads with the value while requests are in flight. - Returns: the phones that were refused afterwards."""
        gateway = self.attested.gateway
        with ThreadPoolExecutor(4) as pool:
            flying = [pool.submit(self.send, phone) for phone in self.phones]
            gateway.conf["routes"][0]["enforce"] = enforce
            gateway.write_conf()
            assert attestgate("reload", "--config", gateway.conf_path).returncode == 0
            for each in flying:
                each.result()
            self.seen.clear()
            for each in [pool.submit(self.send, phone) for phone in self.phones]:
                each.result()
        assert {status for seen in self.seen.values() for status in seen} <= {200, 401}
        refused = {number for number, seen in self.seen.items() if seen[401]}
        # A phone is enforced or not: nobody sees both.
        assert all(len(seen) == 1 for seen in self.seen.values()), self.seen
        assert refused <= self.old, "a phone with valid proofs was refused"
        return refused


@pytest.mark.parametrize("platform", ["ios"], indirect=True)
def test_a_fleet_is_enforced_step_by_step_and_nobody_is_let_out_again(start_attested, capsys):
    fleet = Fleet(start_attested(routes=[ROUTE]))
    refused, table = set(), []
    for enforce in ["observe", "10%", "50%", "90%", "always"]:
        now = fleet.step(enforce)
        assert now >= refused, f"{enforce}: {refused - now} are not enforced any more"
        refused = now
        table.append(f"{enforce:>8}: {len(refused):2} of {PHONES} phones refused, {len(fleet.old)} make no proofs")
        if enforce == "observe":
            assert refused == set()
            # The operator sees whom enforcement would lock out.
            def share():
                rows = json.loads(ask(fleet.attested.gateway, "/status")[2])["observed_routes"]
                return {row["version"]: row["last_hour"]["passed"] / row["last_hour"]["requests"] for row in rows}
            eventually(lambda: share() == {"Records/1.0": 0, "Records/2.0": 1}, share)
    assert refused == fleet.old
    with capsys.disabled():
        print("\n" + "\n".join(table))
