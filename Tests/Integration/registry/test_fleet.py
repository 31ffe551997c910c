"""Two gateways, one database, and whatever can be killed is: no proof passes twice at either, and nobody who is honest is refused.

ATTESTGATE_SEED repeats a run's choices, ATTESTGATE_FLEET_SECONDS makes it a longer one.
"""

import os
import random
import signal
import time
from collections import Counter

import pytest

from support import seeds
from support.attested import OTHER_APP
from support.crashing import ROUNDS_PER_CROWD, Crowd, Judgement
from support.fleet import Fleet, FleetCaller, Wanderer
from support.gateway import APP
from support.waiting import eventually

SEED = seeds.seed()
# 0: each fault once.
SECONDS = int(os.environ.get("ATTESTGATE_FLEET_SECONDS", 0))

# Replayed in each round, besides all of its own.
SAMPLE = 40


def a_gateway_is_killed(fleet, chance):
    gateway = chance.choice(fleet.gateways)
    gateway.crash()
    # The other one continues.
    fleet.await_requests(20)
    gateway.start()


def both_gateways_are_killed(fleet, chance):
    for gateway in fleet.gateways:
        gateway.crash()
    for gateway in fleet.gateways:
        gateway.start()


def a_gateway_is_killed_while_it_starts(fleet, chance):
    gateway = chance.choice(fleet.gateways)
    gateway.crash()
    gateway.start(until=lambda: True)
    time.sleep(chance.uniform(0, 0.4))
    gateway.crash()
    gateway.start()


def the_databases_processes_are_ended(fleet, chance):
    fleet.database.end_connections()


def the_database_crashes(fleet, chance):
    fleet.database.stop(signal.SIGQUIT)
    time.sleep(chance.uniform(0, 0.3))
    fleet.database.start()


def connections_are_cut(fleet, chance):
    for link in chance.sample(fleet.links, chance.randint(1, 2)):
        link.cut()


def answers_are_lost(fleet, chance):
    """What was committed meanwhile, its gateway never hears of."""
    links = chance.sample(fleet.links, chance.randint(1, 2))
    for link in links:
        link.hold_answers()
    time.sleep(chance.uniform(0, 0.3))
    for link in links:
        link.cut()


def answers_are_lost_and_the_gateway_is_killed(fleet, chance):
    index = chance.randrange(2)
    fleet.links[index].hold_answers()
    time.sleep(chance.uniform(0, 0.1))
    fleet.gateways[index].crash()
    fleet.links[index].cut()
    fleet.gateways[index].start()


def the_way_to_the_database_is_slow(fleet, chance):
    link = chance.choice(fleet.links)
    link.delay = chance.uniform(0.01, 0.1)
    fleet.await_requests(20)
    link.delay = 0


FAULTS = [
    a_gateway_is_killed, both_gateways_are_killed, a_gateway_is_killed_while_it_starts, the_databases_processes_are_ended,
    the_database_crashes, connections_are_cut, answers_are_lost, answers_are_lost_and_the_gateway_is_killed,
    the_way_to_the_database_is_slow,
]


@pytest.fixture
def fleet(pki, own_upstream, database, tmp_path):
    made = Fleet(tmp_path, pki, own_upstream, database)
    yield made
    made.close()


def faults(chance):
    """Each once; or at random, for so many seconds."""
    yield from chance.sample(FAULTS, len(FAULTS))
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        yield chance.choice(FAULTS)


def test_no_proof_passes_twice_at_either_gateway_whatever_is_killed(fleet, own_upstream):
    print(f"seed {SEED}")
    chance = random.Random(SEED)
    judgement = Judgement(own_upstream, chance)
    earlier, wanderers, everybody = [], [], []
    for rounds, fault in enumerate(faults(chance)):
        if rounds % ROUNDS_PER_CROWD == 0:
            crowd = Crowd(fleet, APP, OTHER_APP, rounds, fleet.challenge, chance, FleetCaller)
            for caller in everybody:
                caller.is_retired = True
            for caller in crowd.callers:
                caller.gateways = fleet.gateways
            everybody += crowd.callers
        since = {caller: len(caller.made) for caller in crowd.callers}
        # Signed, and not sent before everybody is back.
        for caller in crowd.callers:
            caller.make()
        target = len(own_upstream.requests) + chance.randint(20, 120)
        print(f"round {rounds}: {fault.__name__}", flush=True)
        wanderer = Wanderer(fleet, rounds, random.Random(chance.random())).start()

        def strike(stop):
            fault(fleet, chance)
            fleet.await_service()
        crowd.load_until(
            lambda: eventually(lambda: len(own_upstream.requests) >= target, "requests to pass"), strike)
        wanderer.join()
        wanderers.append(wanderer)
        made = [proof for caller in crowd.callers for proof in caller.made[since[caller]:]]
        callers = list({proof.phone: None for proof in made + earlier})
        judgement.replay(callers, made + chance.sample(earlier, min(SAMPLE, len(earlier))))
        earlier += [proof for proof in made if proof.is_acknowledged]
        for revoked in {wanderer, chance.choice(wanderers)}:
            for gateway in fleet.gateways:
                eventually(lambda: revoked.is_refused_at(gateway), "the revocation to be heard of")
    passed = sum((caller.passed for caller in everybody), Counter())
    refused = sum(caller.refused for caller in everybody)
    print(
        f"{rounds + 1} rounds, {len(own_upstream.requests)} requests passed, by gateway: {dict(passed)}, refused while"
        f" something failed: {refused}, replays: {dict(judgement.answers)}")
    seen = Counter(request.target for request in own_upstream.requests)
    assert not [target for target, count in seen.items() if count > 1]
    assert min(passed[0], passed[1]) >= 10 * rounds
    assert judgement.answers["used: counter_replayed"] >= 20 * rounds
    assert judgement.answers["held back: accepted"] == 4 * (rounds + 1)
