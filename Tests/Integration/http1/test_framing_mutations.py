"""The framing oracle over requests that were changed at random."""

import os
import random

import pytest

from support import mutations, seeds
from support.oracle import DELIVERIES, Oracle

# ATTESTGATE_SEED repeats a run, ATTESTGATE_MUTATIONS makes it a longer one.
SEED = seeds.seed()
COUNT = int(os.environ.get("ATTESTGATE_MUTATIONS", 1_000))


@pytest.fixture(scope="module")
def oracle(pki, phone, tmp_path_factory):
    made = Oracle(tmp_path_factory.mktemp("mutations"), pki, phone)
    yield made
    made.stop()


def test_mutated_requests_are_forwarded_as_intended(oracle):
    print(f"seed {SEED}")
    chance = random.Random(SEED)
    ends = {}
    for index in range(COUNT):
        data, delivery = mutations.mutate(chance), chance.choice(list(DELIVERIES))
        try:
            reading = oracle.check(data, delivery)
        except Exception as failure:
            raise AssertionError(f"seed {SEED}, number {index}, {delivery}: {data!r}: {failure}") from failure
        ends[reading.end] = ends.get(reading.end, 0) + 1
    # Otherwise the mutations are such that all of them end alike.
    assert set(ends) == {"open", "closed", "refused", "unfinished"} and all(
        count > COUNT / 50 for count in ends.values()), ends
