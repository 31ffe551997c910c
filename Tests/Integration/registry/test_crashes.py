"""kill -9 under full load, again and again: no proof passes twice, and nobody who is honest is refused.

A start on a file refuses earlier challenges, so each request is signed again with its counter: a used one is refused for that.

ATTESTGATE_SEED repeats a run's choices, ATTESTGATE_CRASHES makes it a longer one. What a power cut would take, which a crash
of a process leaves, is the matter of Tests/RegistrySQLiteTests/PowerCutTests.swift.
"""

import os
import random
import time

import pytest

from support import seeds
from support.attested import OTHER_APP
from support.crashing import ROUNDS_PER_CROWD, Crowd, Judgement
from support.gateway import APP
from support.waiting import eventually

SEED = seeds.seed()
CRASHES = int(os.environ.get("ATTESTGATE_CRASHES", 5))

# Replayed in each round, besides all of its own.
SAMPLE = 40


def kill_under_load(gateway, chance, stop):
    gateway.crash()


def kill_when_idle(gateway, chance, stop):
    """While it tidies: the journal is folded and the log moved into the file when nobody asks for anything."""
    stop.set()
    time.sleep(chance.uniform(0, 1.2))
    gateway.crash()


def kill_while_it_starts(gateway, chance, stop):
    """Once under load, and then again before it serves, or right after."""
    gateway.crash()
    gateway.start(until=lambda: True)
    time.sleep(chance.uniform(0, 0.4))
    gateway.crash()


@pytest.mark.parametrize("store", ["file", "database"])
def test_no_proof_passes_twice_however_often_the_gateway_is_killed(request, start_attested, own_upstream, store):
    print(f"seed {SEED}")
    chance = random.Random(SEED)
    # Neither proof nor challenge may end before the run does: each refusal is to be the counter's.
    attested = start_attested(
        workers=2, counter="window 1024", proof={"max_age": "3600s", "challenge_life": "3600s"},
        registry={"postgresql": request.getfixturevalue("database").conf} if store == "database" else {})
    gateway, challenge = attested.gateway, attested.phone.challenge()
    judgement = Judgement(own_upstream, chance, signs_again=store == "file")
    earlier, crowd = [], None
    for number in range(CRASHES):
        if number % ROUNDS_PER_CROWD == 0:
            crowd = Crowd(attested, APP, OTHER_APP, number, challenge, chance)
        since = {caller: len(caller.made) for caller in crowd.callers}
        # Signed, and not sent before the gateway is back.
        for caller in crowd.callers:
            caller.make()
        target = len(own_upstream.requests) + chance.randint(30, 250)
        kill = chance.choices([kill_under_load, kill_when_idle, kill_while_it_starts], [6, 2, 2])[0]
        print(f"round {number}: {kill.__name__} {target}")
        crowd.load_until(
            lambda: eventually(lambda: len(own_upstream.requests) >= target, "requests to pass"),
            lambda stop: kill(gateway, chance, stop))
        gateway.start()
        made = [proof for caller in crowd.callers for proof in caller.made[since[caller]:]]
        callers = list({proof.phone: None for proof in made + earlier})
        if store == "file":
            challenge = attested.phone.challenge()
            for caller in callers:
                caller.challenge = challenge
        judgement.replay(callers, made + chance.sample(earlier, min(SAMPLE, len(earlier))))
        earlier = [proof for proof in earlier + made if proof.is_acknowledged]
    print(f"{CRASHES} rounds, {len(own_upstream.requests)} requests passed, replays: {dict(judgement.answers)}")
    assert judgement.answers["used: counter_replayed"] >= 20 * CRASHES
    assert judgement.answers["held back: accepted"] == 4 * CRASHES
    assert (judgement.answers["earlier start: challenge_required"] > 20 * CRASHES) == (store == "file")
