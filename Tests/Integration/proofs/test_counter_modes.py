"""What `counter: strict` and `counter: window N` promise, over HTTP/2 and through every change of them."""

from collections import Counter

import pytest

from support.denials import assert_denied, code_of
from support.exposition import scrape
from support.http2_client import HTTP2Client, send
from support.pki import attestgate
from support.recording_upstream import Held
from support.seeds import seeded

CODES = ("counter_late", "counter_replayed")


class Values:
    """The requests of one phone by their counters, each with one proof that is sent again and again; after a start of the gateway,
    whose challenges are others, with another one of the same counter."""

    def __init__(self, attested):
        self.attested, self.made, self.process = attested, {}, attested.gateway.process

    def __getitem__(self, value):
        if self.process is not self.attested.gateway.process:
            self.process = self.attested.gateway.process
            self.made = {value: self.attested.phone.again(data) for value, data in self.made.items()}
        if value not in self.made:
            self.made[value] = self.attested.phone.request(path=f"/{value}", counter=value)
        return self.made[value]

    def send(self, *values):
        """One after the other on one connection. - Returns: for each, why it was refused; None where it passed."""
        with HTTP2Client(self.attested.gateway, self.attested.phone.identity) as http2:
            return [code_of(http2.exchange(self[value])) for value in values]

    def expect(self, outcomes):
        """`outcomes`: from value to why it is refused, in the order in which they are sent."""
        assert dict(zip(outcomes, self.send(*outcomes))) == outcomes


def reload(attested):
    attested.gateway.write_conf()
    done = attestgate("reload", "--config", attested.gateway.conf_path)
    assert done.returncode == 0, done.stderr


def restart(attested):
    attested.gateway.halt()
    attested.gateway.start()


def crash(attested):
    attested.gateway.crash()
    attested.gateway.start()


CHANGES = {change.__name__: change for change in (reload, restart, crash)}


def change(attested, mode, how):
    attested.gateway.conf["apps"][0]["counter"] = mode
    how(attested)


def refusals(attested):
    """How often each of the two was said so far, by the metric and by the log."""
    metrics, log = scrape(attested.gateway), Counter(entry.get("denial") for entry in attested.gateway.access())
    counted = {labels["code"] for labels in metrics.labels("attestgate_denials_total")}
    return {code: (metrics("attestgate_denials_total", code=code) if code in counted else 0, log[code]) for code in CODES}


def test_accepted_values_are_replayed_through_crashes_restarts_and_changes_of_mode(start_attested):
    choose = seeded()
    attested = start_attested(counter="window 128")
    held = Held(attested.upstream)
    requests = [attested.phone.request(path=f"/{n}") for n in range(100)]
    choose.shuffle(requests)
    with HTTP2Client(attested.gateway, attested.phone.identity) as http2:
        numbers = [http2.begin(data) for data in requests]
        attested.upstream.wait_for_requests(100)
        for n in choose.sample(range(100), 100):
            held.release(f"/{n}")
        assert [http2.response(number).status for number in numbers] == [200] * 100
    stages = [
        ("window 128", crash), ("strict", reload), ("window 128", reload), ("window 1024", restart), ("window 1", crash),
        ("strict", restart), ("window 1024", reload)]
    with attested.nothing_forwarded_at_all():
        assert send(attested, requests) == ["counter_replayed"] * 100
        for mode, how in stages:
            change(attested, mode, how)
            if how is not reload:
                assert send(attested, requests) == ["challenge_required"] * 100, (mode, how)
                requests = [attested.phone.again(data) for data in requests]
            choose.shuffle(requests)
            assert send(attested, requests) == ["counter_replayed"] * 100, (mode, how)
    # Not for want of anything else: the next value passes.
    attested.upstream.reset_behaviour()
    assert send(attested, [attested.phone.request(path="/next")]) == [None]


def test_no_value_passes_twice_when_the_gateway_is_killed_in_the_midst_of_a_hundred(start_attested):
    choose = seeded()
    attested = start_attested(counter="window 1024", workers=2)
    upstream, phone = attested.upstream, attested.phone
    for part in range(5):
        requests = {f"/{part}-{n}": phone.request(path=f"/{part}-{n}") for n in range(100)}
        before = len(upstream.requests)
        with HTTP2Client(attested.gateway, phone.identity) as http2:
            numbers = dict(zip(requests, http2.begin_together(requests.values())))
            upstream.wait_for_requests(before + choose.randrange(1, 100))
            crash(attested)
            http2.wait_for_end()
            answered = [target for target, number in numbers.items() if http2.streams[number].is_ended]
        seen = {request.target for request in upstream.requests}
        outcomes = dict(zip(requests, send(attested, map(phone.again, requests.values()))))
        # What the service has seen was durable; what was durable and not seen any more is refused all the same.
        assert {outcomes[target] for target in seen & set(requests) | set(answered)} == {"counter_replayed"}
        assert set(outcomes.values()) <= {None, "counter_replayed"}
    times = Counter(request.target for request in upstream.requests)
    assert set(times.values()) == {1}


@pytest.mark.parametrize("reach", [1, 16, 1024])
def test_a_value_as_far_behind_as_the_window_reaches_passes_once_and_one_further_is_late(start_attested, reach):
    attested = start_attested(counter=f"window {reach}")
    values, highest = Values(attested), reach + 10
    last, beyond = highest - reach, highest - reach - 1
    outcomes = values.send(highest, last, beyond, last, beyond, highest)
    assert outcomes == [None, None, "counter_late", "counter_replayed", "counter_late", "counter_replayed"]
    for how in CHANGES.values():
        how(attested)
        values.expect({last: "counter_replayed", beyond: "counter_late", highest: "counter_replayed"})
    # The window moves with the highest.
    moved = highest + reach + 5
    values.expect({moved: None, moved - reach - 1: "counter_late", moved - reach: None})
    forwarded = [int(r.target[1:]) for r in attested.upstream.requests]
    assert forwarded == [highest, last, moved, moved - reach]


def test_a_used_value_below_the_window_stays_refused(start_attested):
    """Its bit is no longer stored, so it counts as used."""
    attested = start_attested(counter="window 1024")
    values = Values(attested)
    values.expect({1: None, 2: None, 1026: None})
    values.expect({2: "counter_replayed", 1: "counter_late"})
    for how in CHANGES.values():
        how(attested)
        values.expect({2: "counter_replayed", 1: "counter_late"})
    # Beyond the whole window at once.
    values.expect({5000: None, 1026: "counter_late", 3975: "counter_late", 3976: None})
    values.expect({5001: None, 5002: None, 4999: None})
    values.expect({value: "counter_replayed" for value in (4999, 5000, 5001, 5002)})


@pytest.mark.parametrize("how", CHANGES)
def test_a_change_of_mode_accepts_only_unused_values_and_none_twice(start_attested, how):
    attested, how = start_attested(), CHANGES[how]
    values = Values(attested)
    values.expect({1: None, 10: None, 9: "counter_late"})
    # What strict had skipped was never used: it passes, once, as far as the window reaches.
    change(attested, "window 4", how)
    values.expect({9: None, 6: None, 5: "counter_late", 1: "counter_replayed", 10: "counter_replayed"})
    change(attested, "window 8", how)
    values.expect({9: "counter_replayed", 5: None, 2: None, 1: "counter_replayed"})
    change(attested, "window 2", how)
    values.expect({7: "counter_late", 8: None, 6: "counter_replayed", 5: "counter_replayed"})
    change(attested, "strict", how)
    values.expect({7: "counter_late", 10: "counter_replayed", 11: None, 12: None})
    change(attested, "window 1024", how)
    values.expect({7: None, 3: None})
    with attested.nothing_forwarded_at_all():
        used = [1, 2, 3, 5, 6, 7, 8, 9, 10, 11, 12]
        values.expect({value: "counter_replayed" for value in used})
    forwarded = Counter(r.target for r in attested.upstream.requests)
    assert forwarded == Counter(f"/{value}" for value in used)


def test_a_connection_keeps_its_counter_mode_and_no_value_passes_in_two_modes(start_attested):
    attested = start_attested(counter="window 16")
    values = Values(attested)
    with HTTP2Client(attested.gateway, attested.phone.identity) as before:
        assert code_of(before.exchange(values[20])) is None
        attested.gateway.conf["apps"][0]["counter"] = "strict"
        held = Held(attested.upstream)
        under_way = before.begin(values[19])
        attested.upstream.wait_for_requests(2)
        reload(attested)
        with HTTP2Client(attested.gateway, attested.phone.identity) as after:
            assert code_of(after.exchange(values[18])) == "counter_late"
            assert code_of(after.exchange(values[19])) == "counter_replayed"
        for value in (17, 19):
            held.release(f"/{value}")
        assert code_of(before.response(under_way)) is None
        assert code_of(before.exchange(values[17])) is None
    values.expect({17: "counter_replayed", 16: "counter_late"})


def test_in_strict_mode_overtaken_values_are_late_and_rising_ones_pass(start_attested):
    choose = seeded()
    attested = start_attested()
    values = list(range(1, 101))
    choose.shuffle(values)
    known = Values(attested)
    requests = [known[value] for value in values]
    leading = [value for place, value in enumerate(values) if value == max(values[:place + 1])]
    expected = [None if value in leading else "counter_late" for value in values]
    assert send(attested, requests) == expected
    assert [int(r.target[1:]) for r in sorted(attested.upstream.requests, key=lambda r: int(r.target[1:]))] == leading
    # Again: what passed is known to have been used, of the others it is known that they were not.
    expected = ["counter_replayed" if value in leading else "counter_late" for value in values]
    with attested.nothing_forwarded_at_all():
        assert send(attested, requests) == expected
        crash(attested)
        assert send(attested, map(attested.phone.again, requests)) == expected


@pytest.mark.parametrize("mode, outcomes", [
    # Of the values 1 to 13: R is counter_replayed, L counter_late, + passes.
    ("strict", "RLRLLLRLLRR++"),
    ("window 5", "RLRLL+R++RR++"),
])
def test_unused_values_pass_within_the_window_only(start_attested, mode, outcomes):
    used = [1, 3, 7, 10, 11]
    values = Values(start_attested(counter=mode))
    assert values.send(*used) == [None] * len(used)
    words = {"R": "counter_replayed", "L": "counter_late", "+": None}
    values.expect({value: words[outcome] for value, outcome in enumerate(outcomes, 1)})


def test_late_and_replayed_are_distinguished_in_answer_log_and_metric(start_attested):
    attested = start_attested(counter="window 2")
    values = Values(attested)
    values.expect({10: None, 8: None})
    before = refusals(attested)
    assert before == {"counter_late": (0, 0), "counter_replayed": (0, 0)}
    with HTTP2Client(attested.gateway, attested.phone.identity) as http2:
        for value, code in [(7, "counter_late"), (8, "counter_replayed"), (10, "counter_replayed")]:
            response = http2.exchange(values[value])
            entry = assert_denied(attested.gateway, response, code, 401)
            assert (entry["protocol"], entry["decision"]) == ("HTTP/2", "denied")
            # A client that may repeat the request needs nothing else to do so.
            assert response.value("accept-signature")
    assert refusals(attested) == {"counter_late": (1, 1), "counter_replayed": (2, 2)}
