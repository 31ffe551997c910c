"""The framing oracle over our own cases: the service sees the requests that were meant, in canonical form, or none."""

import pytest

from support import attacks, framing_cases
from support.oracle import DELIVERIES, Oracle


@pytest.fixture(scope="module")
def oracle(pki, phone, tmp_path_factory):
    made = Oracle(tmp_path_factory.mktemp("oracle"), pki, phone)
    yield made
    made.stop()


def check(oracle, data, delivery, forwarded):
    """`forwarded`: method, target and content of each, said apart from both readers."""
    reading = oracle.check(data, delivery)
    seen = [(r.method, r.target, r.content) for r in reading.requests if r.target not in ("/before", "/behind")]
    assert seen == forwarded, reading
    return reading


@pytest.mark.parametrize("delivery", DELIVERIES)
def test_unambiguous_requests_are_forwarded_unchanged_in_meaning(oracle, delivery):
    for name, (data, forwarded) in framing_cases.SERVED.items():
        try:
            reading = check(oracle, data, delivery, forwarded)
            assert delivery == "before a request" or reading.end != "unfinished"
        except AssertionError as failure:
            raise AssertionError(f"{name}: {failure}") from failure


@pytest.mark.parametrize("delivery", DELIVERIES)
@pytest.mark.parametrize("cases", ["REFUSED", "BROKEN"])
def test_ambiguous_requests_are_refused_and_nothing_behind_them_is_read(oracle, delivery, cases):
    for name, data in getattr(framing_cases, cases).items():
        try:
            reading = check(oracle, data, delivery, [])
            assert reading.end == "refused" or reading.end == "unfinished", reading
            assert all(request.target != "/behind" for request in reading.requests)
            assert (reading.broken is not None) == (cases == "BROKEN"), reading
        except AssertionError as failure:
            raise AssertionError(f"{name}: {failure}") from failure


@pytest.mark.parametrize("delivery", ["in one write", "byte by byte", "behind a request"])
def test_an_early_end_completes_nothing(oracle, delivery):
    for name, (data, forwarded) in framing_cases.EARLY_END.items():
        try:
            assert check(oracle, data, delivery, forwarded).end == "unfinished"
        except AssertionError as failure:
            raise AssertionError(f"{name}: {failure}") from failure


def test_attacks_do_not_harm_the_requests_before_them(oracle):
    # Alone, and with their exact faults, they are in `test_framing_attacks`.
    for name, (_, data) in [*attacks.HEADS.items(), *attacks.CONTENTS.items()]:
        try:
            reading = check(oracle, data, "between two requests", [])
            assert [request.target for request in reading.requests] == ["/before"]
        except AssertionError as failure:
            raise AssertionError(f"{name}: {failure}") from failure
