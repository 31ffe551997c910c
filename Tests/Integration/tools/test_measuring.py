"""What bench/soak and bench/micro judge by: that growth is found, and noise is none."""

import copy
import random
import sys
import xml.etree.ElementTree as XML

import pytest

from support import seeds
from support.paths import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "bench"))
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
