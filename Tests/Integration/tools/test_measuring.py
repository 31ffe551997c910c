"""What bench/soak, bench/micro and bench/instructions judge by: that growth is found, and noise is none."""

import copy
import random
import sys
import xml.etree.ElementTree as XML

import pytest

from support import seeds
from support.paths import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "bench"))
import instruction_report  # noqa: E402
import micro_report  # noqa: E402
import soak_report  # noqa: E402

MIB = 1024


def samples(count=300, start=150 * MIB, noise=200, grows=0.0, opens=0.0):
    """As of a gateway that settles in the first third. `grows`: KiB, `opens`: descriptors, from each sample to the next."""
    chance = random.Random(seeds.seed())
    return [{
        "seconds": 3.0 * number, "cpu_seconds": 0.3 * number, "rss_kib": start + 30 * MIB,
        "pss_kib": start + 10 * MIB + chance.randint(0, 5 * MIB),
        "pss_anonymous_kib":
            start + 2 * MIB * min(number, count // 3) / (count // 3) + chance.randint(-noise, noise) + grows * number,
        "descriptors": 60 + chance.randint(-2, 2) + opens * number} for number in range(count)]


def test_memory_that_settles_and_stays_is_flat():
    found = soak_report.judged(samples())
    assert found["is_flat"], found


def test_growing_memory_is_not_flat():
    # Half as much again as the bound, in as many samples as a third has.
    assert not soak_report.judged(samples(grows=1.5 * soak_report.GROWTH_KIB / 100))["is_flat"]


def test_leaked_descriptors_are_not_flat():
    assert not soak_report.judged(samples(opens=0.2))["is_flat"]


def test_too_few_samples_are_no_verdict():
    with pytest.raises(ValueError):
        soak_report.judged(samples(count=8))


def test_the_plot_is_a_picture_that_says_what_it_shows():
    series = samples()
    done = {"attested": 1000, "refused": 10, "connections": 100, "full": 5, "resumed": 5}
    root = XML.fromstring(soak_report.plot(soak_report.judged(series) | {"samples": series, "done": done}))
    namespace = "{http://www.w3.org/2000/svg}"
    assert len(root.findall(f"{namespace}polyline")) == 3
    assert "1,000 requests" in root.find(f"{namespace}desc").text


PARTS = {
    "head": {"instructions": 10_000, "allocations": 0.0, "bytes": 0.0, "openssl_allocations": 0.0, "openssl_bytes": 0.0},
    "counter": {"instructions": 1_300, "allocations": 0.1, "bytes": 100.0, "openssl_allocations": 0.0, "openssl_bytes": 0.0}}
REFERENCE = {"tolerance": micro_report.TOLERANCE, "parts": PARTS}


def changed(row, figure, value):
    parts = copy.deepcopy(PARTS)
    parts[row][figure] = value
    return parts


def test_costs_equal_to_the_reference_are_no_fault():
    assert micro_report.faults(PARTS, REFERENCE, True) == []
    assert micro_report.faults(changed("head", "instructions", 10_200), REFERENCE, True) == []


@pytest.mark.parametrize("row, figure, value", [
    ("head", "instructions", 10_400), ("head", "allocations", 1.0), ("head", "openssl_allocations", 1.0),
    ("counter", "allocations", 1.1)])
def test_more_instructions_or_one_allocation_is_a_fault(row, figure, value):
    fault, = micro_report.faults(changed(row, figure, value), REFERENCE, True)
    assert row in fault and figure in fault


def test_with_another_compiler_instructions_are_not_judged_but_allocations_are():
    assert micro_report.faults(changed("head", "instructions", 20_000), REFERENCE, False) == []
    assert micro_report.faults(changed("head", "allocations", 1.0), REFERENCE, False) != []


def test_a_part_that_the_reference_lacks_is_a_fault():
    assert micro_report.faults({"new": PARTS["head"]}, REFERENCE, True) != []


HERE, ELSEWHERE = {"openssl": "OpenSSL 3"}, {"openssl": "OpenSSL 4"}
COUNTED = {
    "tolerance": {"instructions": 0.05}, "instructions": {"keepalive": 30_000.0, "device": 40_000.0}, "calls": {"keepalive": 5.0},
    "peers": {"nginx": {"version": "1.22.1", "instructions": {"keepalive": 40_000.0}},
              "haproxy": {"version": "2.6.12", "instructions": {"keepalive": 50_000.0}}},
    "made_with": HERE}


@pytest.mark.parametrize("value, is_good", [(31_400, True), (31_600, False)])
def test_a_row_may_cost_as_much_more_as_the_tolerance(value, is_good):
    lines, verdict = instruction_report.judge({"instructions": {"keepalive": value}}, COUNTED, True)
    assert verdict == is_good
    assert lines[0].endswith("reference 30,000.0" + ("" if is_good else ": more than 5% above"))


def test_a_row_that_the_reference_lacks_is_a_fault():
    assert not instruction_report.judge({"instructions": {"post": 1}}, COUNTED, True)[1]


def test_counts_with_other_libraries_are_not_judged():
    assert instruction_report.judge({"instructions": {"keepalive": 60_000, "post": 1}}, COUNTED, False)[1]


def test_the_ratio_is_to_the_best_peer_of_the_row():
    assert instruction_report.table(COUNTED).splitlines() == [
        "| request | instructions | nginx 1.22.1 | HAProxy 2.6.12 | ratio to the best | system calls |",
        "| -- | -: | -: | -: | -: | -: |",
        "| `require: certificate` | 30,000 | 40,000 | 50,000 | 0.75 | 5.0 |",
        "| `require: device` | 40,000 |  |  |  |  |"]


def test_an_update_keeps_what_was_not_counted():
    peers = {"nginx": {"version": "1.22.1", "instructions": {"post": 41_000.0}}}
    new = instruction_report.updated(COUNTED, {"instructions": {"post": 32_000.0}}, peers, HERE)
    assert new["instructions"] == {"keepalive": 30_000, "post": 32_000, "device": 40_000} and new["calls"] == {"keepalive": 5}
    assert new["peers"]["nginx"]["instructions"] == {"keepalive": 40_000, "post": 41_000}
    assert new["peers"]["haproxy"] == COUNTED["peers"]["haproxy"]


def test_an_update_keeps_no_figure_of_other_libraries_or_of_another_peer():
    new = instruction_report.updated(COUNTED, {"instructions": {"post": 32_000.0}}, {}, ELSEWHERE)
    assert (new["instructions"], new["calls"], new["peers"]) == ({"post": 32_000}, {}, {})
    peers = {"nginx": {"version": "1.26.3", "instructions": {"post": 41_000.0}}}
    assert instruction_report.updated(COUNTED, {}, peers, HERE)["peers"]["nginx"] == peers["nginx"]


def test_the_page_shows_the_reference():
    page = instruction_report.PAGE.read_text()
    assert page.partition(instruction_report.BEGIN)[2].partition(instruction_report.END)[0].strip() == instruction_report.table(
        instruction_report.read())
