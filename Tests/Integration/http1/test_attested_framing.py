"""The framing oracle over routes that ask for proofs, collected and streamed: the service sees the requests that were
authorised, in canonical form, or none that is complete."""

import os
import random

import pytest

from support import framing_cases, mutations, seeds
from support.attested_oracle import AttestedOracle
from support.oracle import DELIVERIES

# ATTESTGATE_SEED repeats a run, ATTESTGATE_CASES makes it a longer one.
SEED = seeds.seed()
COUNT = int(os.environ.get("ATTESTGATE_CASES", 25))

REFUSED = {**framing_cases.REFUSED, **framing_cases.BROKEN}


@pytest.fixture(scope="module", params=["collect", "stream"])
def oracle(request, pki, tmp_path_factory):
    made = AttestedOracle(tmp_path_factory.mktemp(request.param), pki, request.param)
    # Asked once, before anything is counted.
    assert made.pseudonym
    yield made
    made.stop()


def sample(cases):
    """Some of the cases, each with a way to deliver it."""
    print(f"seed {SEED}")
    chance = random.Random(SEED)
    chosen = list(cases.items()) if len(cases) <= COUNT else chance.sample(list(cases.items()), COUNT)
    for name, data in chosen:
        yield name, data, chance.choice(list(DELIVERIES))


def check(oracle, name, data, delivery):
    try:
        return oracle.check(data, delivery)
    except Exception as failure:
        raise AssertionError(f"seed {SEED}, {name}, {delivery}: {failure}") from failure


@pytest.mark.parametrize("is_right", [True, False], ids=["right digests", "wrong digests"])
def test_unambiguous_requests_are_forwarded_if_their_content_is_what_was_signed(oracle, is_right):
    oracle.is_right = is_right
    withheld = 0
    for name, (data, forwarded), delivery in sample(framing_cases.SERVED):
        reading = check(oracle, name, data, delivery)
        withheld += len(oracle.withheld)
        if is_right:
            seen = [(r.method, r.target, r.content) for r in reading.requests if r.target not in ("/before", "/behind")]
            assert seen == forwarded, name
    assert (withheld == 0) == is_right


def test_ambiguous_requests_are_refused(oracle):
    oracle.is_right = True
    for name, data, delivery in sample(REFUSED):
        assert check(oracle, name, data, delivery).end in ("refused", "unfinished"), name


def test_a_covered_field_that_no_signature_base_can_hold_is_refused(oracle):
    """Random changes rarely make one. The byte is the thirteenth: beyond the eight scanned at once."""
    oracle.is_right = True
    data = b"POST /p HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Type: text/plain;c\xa0\r\n\r\nhello"
    reading = check(oracle, "beyond ASCII", data, "in one write")
    assert (reading.answers, reading.requests) == ([("POST", 401)], [])


def test_an_early_end_completes_nothing(oracle):
    oracle.is_right = True
    for name, (data, forwarded), delivery in sample(framing_cases.EARLY_END):
        if delivery in ("before a request", "between two requests"):
            delivery = "in one write"
        reading = check(oracle, name, data, delivery)
        assert [r.target for r in reading.requests if r.target != "/before"] == [target for _, target, _ in forwarded], name


@pytest.mark.parametrize("is_right", [True, False], ids=["right digests", "wrong digests"])
def test_changed_requests_are_forwarded_as_they_were_meant_or_never_complete(oracle, is_right):
    oracle.is_right = is_right
    print(f"seed {SEED}")
    chance = random.Random(SEED)
    for index in range(2 * COUNT):
        data = mutations.mutate(chance)
        check(oracle, f"number {index}: {data!r}", data, chance.choice(list(DELIVERIES)))
