"""What bench/run says of its samples: figures beside targets, tables, plots, and when it will be done. Nothing is measured."""

import json
import sys
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from support.paths import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "bench"))
import beside  # noqa: E402
import growth  # noqa: E402
import instruction_report  # noqa: E402
import large  # noqa: E402
import latency  # noqa: E402
import plots  # noqa: E402
import points  # noqa: E402
import publishing  # noqa: E402
import report  # noqa: E402
import tables  # noqa: E402
import targets  # noqa: E402
from timetable import Timetable, minutes  # noqa: E402

SVG = "{http://www.w3.org/2000/svg}"
MACHINE = {"cpu": "a processor", "cores": 2, "kernel": "6", "openssl": "OpenSSL 3", "nginx": "1", "haproxy": "2"}


def times(*values, **others):
    return [{"value": value, "requests_per_second": 1e6 / value if value else 0, **others} for value in values]


def loads(*p99s):
    def percentiles(p99):
        return {name: p99 / 2 for name in latency.PERCENTILES} | {"p99": p99}
    return [
        {"value": p99, "added": p99 - 100, "beside": "direct", "loads": [
            {"load": load, "rate": 1000 * load, "latency": percentiles(p99), "reference": percentiles(100), "unsent": 0}
            for load in latency.LOADS]}
        for p99 in p99s]


def found_with(results, **others):
    registry = {"place": "here", "counters": 10, "commits": 2, "traced": 40, "syncs": [{"p50": 200.0, "p99": 400.0}]}
    settings = {"rounds": 2, "seconds": 1, "idle_connections": 10}
    return publishing.Found(MACHINE, settings, ["attestgate", "nginx", "haproxy"], results, [], registry, **others)


RESULTS = {
    ("keepalive", "attestgate", None): times(8, 9),
    ("keepalive", "nginx", None): times(16, 18),
    ("keepalive", "haproxy", None): times(10, 12),
    ("attested", "attestgate", None): times(
        60, 61, verification_microseconds=40, proofs={"live": 0}, server_share=0.99, load_share=0.4),
    ("resumed", "attestgate", "tickets"): times(100, 100),
    ("resumed", "haproxy", "tickets"): times(400, 400),
    ("resumed", "haproxy", "cache"): times(125, 125),
    ("idle", "attestgate", None): times(22, 22),
    ("idle", "nginx", None): times(23, 23),
    ("workers", "attestgate", None): times(1.05, 1.06),
    ("two-loads", "attestgate", None): times(1.01, 1.0),
    ("download", "attestgate", None): times(1.5, megabytes_per_second=800, server_share=1.0, load_share=0.6),
    ("latency", "attestgate", None): loads(300, 340),
    ("latency", "nginx", None): loads(400, 340),
    ("latency", "envoy", None): loads(600, 680),
    ("attested-latency", "attestgate", None): loads(900, 940),
    ("attested-latency", "auth-request-swift", None): loads(800, 800),
    ("devices-1k", "attestgate", None): times(
        60, cold=30, devices=1000, idle_kib=9000, kib_each=0.5, registry_bytes=500_000, import_seconds=0.1),
}


@pytest.fixture
def found():
    return found_with(RESULTS)


def line_of(found, words):
    lines = [line for line in targets.table(found).splitlines() if words in line]
    assert len(lines) == 1, lines
    return lines[0]


def test_a_target_beside_several_is_judged_by_the_best_of_them(found):
    # 8 / 10 and 9 / 12: in each round beside the same round's.
    assert "| ≤ 0.85 | 0.78 | reached |" in line_of(found, "CPU per proxied request")


def test_a_missed_target_says_so(found):
    assert "**not reached** |" in line_of(found, "memory per idle connection")


def test_a_target_that_has_no_figure_is_not_reached_by_that(found):
    assert "not measured in this run" in line_of(found, "the same, beside Envoy")
    assert "not measured in this run" in line_of(found, "durable commits")


def test_a_run_without_any_target_does_not_speak_of_targets():
    assert targets.table(found_with({("upload", "nginx", None): times(1)})) == ""


def test_resumption_is_judged_beside_tickets(found):
    assert "| ≤ 0.45 | 0.25 | reached |" in line_of(found, "resumed")


def test_latency_is_judged_at_the_same_part_of_each_servers_full_load(found):
    # 300 / 400 and 340 / 340: nginx is the best peer.
    assert "| ≤ 1.00 | 0.88 | reached |" in line_of(found, "p99 at 70 % load, beside the best")
    assert "| ≤ 1.00 | 1.15 | **not reached** |" in line_of(found, "nginx with a verifier")


def test_instructions_are_those_that_are_committed(found):
    assert "not measured in this run" in line_of(found, "HTTP/2, one at a time")
    found.instructions = {"keepalive": 33_500, "http2": 42_000, "attested": 930_000, "assertion": 850_000}
    assert "| ≤ 33,000 | 33,500 | **not reached** |" in line_of(found, "proxied request over HTTP/1.1")
    assert "| ≤ 43,000 | 42,000 | reached |" in line_of(found, "HTTP/2, one at a time")
    assert "| ≤ 50,000 | 46,500 | reached |" in line_of(found, "verifying its assertion")


def test_added_latency_may_take_two_of_the_disks_syncs(found):
    assert "| ≤ 1,400 us | 820 us | reached |" in line_of(found, "added p99")
    found.registry["syncs"] = [{"p50": 1.0, "p99": 2.0}]
    found.results = {**RESULTS, ("attested-latency", "attestgate", None): loads(1200, 1200)}
    assert "**not reached**; one fsync takes 1 us" in line_of(found, "added p99")


def test_durable_commits_are_judged_by_the_file_at_full_load(tmp_path, found):
    rows = [
        {"registry": store, "load": load, "pairs": [[{"requests_per_second": 100.0}, {"requests_per_second": rate}]]}
        for store, load, rate in (("file", 1, 95.0), ("file", 0.5, 50.0), ("postgresql", 1, 40.0))]
    found.durability = tmp_path / "durability.json"
    found.durability.write_text(json.dumps({"rows": rows}))
    assert "| ≥ 0.90 | 0.95 | reached |" in line_of(found, "durable commits")


def test_every_target_belongs_to_a_measured_row():
    assert {target.row for target in targets.TARGETS} - {"durability", "instructions"} <= set(report.ROWS)


def test_ratios_of_ratios_are_not_shown():
    results = {("workers", "attestgate", None): times(1.0), ("workers", "nginx", None): times(1.25)}
    assert "| 1.25 (0%), 800000/s |" in report.table(results, ["attestgate", "nginx"])


def test_added_latency_is_taken_within_each_round():
    shown = tables.latency({("latency", "nginx", None): loads(300, 200)})
    assert "| nginx | 70% | 700 | 125 (+75) | 125 (+75) | 250 (+150) |" in shown


def test_a_row_whose_server_was_not_busy_says_so():
    busy = {("keepalive", "attestgate", None): times(1, server_share=0.98, load_share=0.5)}
    assert "| keepalive | 98% | 50% | no |" in tables.saturation(busy)
    idle = {("keepalive", "attestgate", None): times(1, server_share=0.6, load_share=0.99)}
    assert "lower bounds" in tables.saturation(idle)


def test_tables_have_as_many_cells_in_each_line(found):
    for block in publishing.text(found).split("\n\n"):
        lines = [line for line in block.splitlines() if line.startswith("|")]
        assert len({line.count("|") for line in lines}) <= 1, block


# Plots.

def elements(svg, name):
    return list(ElementTree.fromstring(svg).iter(SVG + name))


def test_plots_are_well_formed_and_named(found):
    made = publishing.drawn(found)
    assert set(made) == set(plots.TITLES)
    for name, svg in made.items():
        assert ElementTree.fromstring(svg).find(SVG + "title").text == plots.TITLES[name]


def test_nothing_leaves_its_plot(found):
    for svg in publishing.drawn(found).values():
        root = ElementTree.fromstring(svg)
        width, height = float(root.get("width")), float(root.get("height"))
        for bar in root.iter(SVG + "rect"):
            x, y = float(bar.get("x", 0)), float(bar.get("y", 0))
            assert 0 <= x <= x + float(bar.get("width")) <= width and 0 <= y <= y + float(bar.get("height")) <= height
        for point in root.iter(SVG + "circle"):
            assert 0 <= float(point.get("cx")) <= width and 0 <= float(point.get("cy")) <= height


def test_a_bar_is_as_long_as_its_ratio_and_the_target_stands_where_it_is(found):
    svg = plots.ratios(found)
    bars = [float(bar.get("width")) for bar in elements(svg, "rect") if bar.get("height") == "12.0"]
    # The longest is attested latency beside nginx with a verifier, the shortest resumption beside HAProxy's tickets.
    shortest, longest = min(bars), max(bars)
    assert longest / shortest == pytest.approx(1.15 / 0.25, rel=0.01)
    start = next(float(bar.get("x")) for bar in elements(svg, "rect") if bar.get("height") == "12.0")
    lines = [float(line.get("x1")) for line in elements(svg, "line") if line.get("stroke") == "#c81e1e"]
    assert lines[0] - start == pytest.approx(0.85 / 0.25 * shortest, rel=0.01)


def test_higher_latency_is_drawn_higher(found):
    svg = plots.latency(found)
    heights = [float(circle.get("cy")) for circle in elements(svg, "circle")][:len(latency.PERCENTILES)]
    assert min(heights) == heights[latency.PERCENTILES.index("p99")]


def test_what_was_not_measured_is_not_drawn():
    assert publishing.drawn(found_with({})) == {}
    assert set(publishing.drawn(found_with({("idle", "nginx", None): times(1)}))) == set()


# Files.

def test_written_results_are_read_back(tmp_path, found):
    path = publishing.write(found, tmp_path)
    again = publishing.read(path)
    assert publishing.text(again) == publishing.text(found)
    assert {file.suffix for file in tmp_path.iterdir()} == {".json", ".md", ".svg"}


def test_publishing_replaces_its_part_of_the_page_and_older_plots(tmp_path, found):
    page = tmp_path / "performance.md"
    page.write_text(f"before\n{publishing.BEGIN}\nold \\1\n{publishing.END}\nafter\n")
    (tmp_path / "performance").mkdir()
    (tmp_path / "performance" / "gone.svg").write_text("")
    for _ in range(2):
        publishing.publish(found, tmp_path / "performance")
    text = page.read_text()
    assert text.startswith(f"before\n{publishing.BEGIN}\n") and text.endswith(f"\n{publishing.END}\nafter\n")
    assert "old \\1" not in text and text.count("| target |") == 1
    names = {file.name for file in (tmp_path / "performance").iterdir()}
    assert names == {"results.md", *(f"{name}.svg" for name in plots.TITLES)}


# Time.

def chosen(**others):
    return SimpleNamespace(**{
        "rounds": 3, "seconds": 2.5, "warmup": 1, "idle_connections": 1000, "touched": 2000, "large_bytes": large.BYTES,
        "large_requests": large.REQUESTS, "loads": latency.LOADS, "device_counts": {"devices-1k": 1000},
        "only": [row for row in report.ROWS if row not in report.FULL], **others})


# More than there are, for those that are still to come.
SERVERS = [
    SimpleNamespace(name=name, variants=["one", "two"], rows=None) for name in ("attestgate", "nginx", "haproxy", "envoy")]
BESIDE = list(beside.KINDS.values())


def test_a_run_is_planned_for_less_than_a_quarter_of_an_hour():
    assert Timetable(chosen(), SERVERS + BESIDE).expected < 15 * 60


def test_a_quick_run_is_planned_for_less_than_ninety_seconds_and_leaves_out_only_very_many_devices():
    rows = [row for row in report.ROWS if row not in ("devices-100k", "devices-1m")]
    quick = chosen(
        rounds=1, seconds=0.3, warmup=0.1, idle_connections=100, touched=100, large_bytes=4 << 20, large_requests=8,
        loads=(latency.TARGET_LOAD,),
        only=rows)
    table = Timetable(quick, SERVERS[:3] + BESIDE)
    assert {row for _, row, _, _ in table.steps} == set(rows)
    assert table.expected < 90


def test_every_second_round_is_reversed_and_rows_measured_alone_have_no_peers():
    steps = Timetable(chosen(rounds=2, only=["keepalive", "attested", "devices-1k"]), SERVERS[:2]).steps
    assert [(number, row, server.name) for number, row, server, _ in steps] == [
        (0, "keepalive", "attestgate"), (0, "keepalive", "nginx"), (0, "attested", "attestgate"), (0, "devices-1k", "attestgate"),
        (1, "keepalive", "nginx"), (1, "keepalive", "attestgate"), (1, "attested", "attestgate")]


def test_verifiers_have_a_row_each_and_share_that_of_attested_latency():
    steps = Timetable(chosen(rounds=1, only=["attested", *beside.KINDS, "attested-latency"]), SERVERS + BESIDE).steps
    assert [(row, server.name) for _, row, server, _ in steps] == [
        ("attested", "attestgate"), ("attested-postgresql", "attestgate-postgresql"),
        ("auth-request-python", "auth-request-python"), ("auth-request-swift", "auth-request-swift"),
        ("attested-latency", "attestgate"), ("attested-latency", "auth-request-python"),
        ("attested-latency", "auth-request-swift")]
    assert beside.needed(["attested-latency"]) == ["auth-request-python", "auth-request-swift"]
    assert beside.needed(["attested"]) == []


def test_the_remaining_time_counts_down_to_zero():
    table = Timetable(chosen(rounds=1), SERVERS)
    for _ in table.steps:
        table.finished()
    assert table.remaining == 0
    assert (minutes(42), minutes(600)) == ("42 s", "10 min")


# Devices.

def test_points_are_the_multiples_of_the_generator():
    made = list(points.multiples(3000))
    for number in (1, 2, 3, 1023, 1024, 1025, 2048, 2049, 3000):
        numbers = ec.derive_private_key(number, ec.SECP256R1()).public_key().public_numbers()
        assert made[number - 1] == (numbers.x, numbers.y), number
    assert len(set(made)) == len(made)


def test_known_devices_stand_at_even_distances_among_the_others():
    lines = list(growth.registrations(["a", "b", "c", "d"], 100))
    assert len(lines) == 100
    assert [number for number, line in enumerate(lines) if line in "abcd"] == [24, 49, 74, 99]
    others = [json.loads(line) for line in lines if len(line) > 1]
    assert len({key for line in others for key in (line["public_key"], line["certificate_key"])}) == 2 * 96
    assert list(map(len, growth.chunks(lines, 30))) == [30, 30, 30, 10]
