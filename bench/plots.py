"""A run in pictures. Each function draws one, or returns nothing where the run has nothing for it."""

import statistics

import report
from drawing import COLOURS, FAINT, INK, TARGET, Drawing, Scale, colour, decades_around
from latency import PERCENTILES
from targets import TARGETS

TITLES = {
    "ratios": "CPU and memory of attestgate beside each peer",
    "latency": "Latency at parts of each server's full load",
    "devices": "CPU of an attested request as devices grow",
}
OURS = "attestgate"


def ratios(found):
    """A bar for each peer and row, as long as the ratio; a red line where a target is set against that peer."""
    groups = []
    for row, (label, unit) in report.ROWS.items():
        ours = next((one for (name, server, _), one in found.results.items() if (name, server) == (row, OURS)), None)
        peers = {
            (server, variant): report.ratio_of(ours, samples)
            for (name, server, variant), samples in found.results.items()
            if name == row and server != OURS and ours and unit not in report.WITHOUT_RATIO
            and any(sample["value"] for sample in samples)}
        if peers:
            groups.append((row, peers))
    if not groups:
        return ""
    bars = sum(len(peers) for _, peers in groups)
    drawing = Drawing(820, 96 + bars * 16 + len(groups) * 12, TITLES["ratios"])
    longest = max(max(ratio for _, peers in groups for ratio in peers.values()), 1.0) * 1.08
    scale = Scale(0, longest, 150, 740)
    drawing.text(20, 26, TITLES["ratios"] + ": shorter is better", size=15, weight="bold")
    servers = {server: colour(server) for _, peers in groups for server, _ in peers}
    drawing.key(20, 50, servers | {"target": TARGET})
    y, bottom = 70, 70 + bars * 16 + len(groups) * 12
    drawing.line(scale(1), 60, scale(1), bottom, INK, 1, "4 3")
    drawing.text(scale(1), bottom + 14, "as much as the peer", "middle", 11)
    for row, peers in groups:
        drawing.text(142, y + 8 * len(peers) + 4, row, "end")
        for (server, variant), ratio in peers.items():
            drawing.bar(scale(0), y + 2, scale(ratio) - scale(0), 12, colour(server))
            if (limit := limit_beside(row, server, variant)) is not None:
                drawing.line(scale(limit), y, scale(limit), y + 16, TARGET, 2)
            drawing.text(scale(ratio) + 5, y + 12, f"{ratio:.2f}" + (f" ({variant})" if variant else ""), size=11)
            y += 16
        y += 12
    return drawing.svg()


def limit_beside(row, server, variant):
    return next((
        target.limit for target in TARGETS
        if target.row == row and (server in target.peers or (server, variant) in target.peers)), None)


def latency(found):
    """A panel for each load: percentiles from left to right, time from below, each line ten times the one under it."""
    curves = {}
    for (row, server, _), samples in found.results.items():
        if row not in ("latency", "attested-latency"):
            continue
        name = f"{server}, attested" if row == "attested-latency" and server == OURS else server
        for number, first in enumerate(samples[0]["loads"]):
            loads = [sample["loads"][number] for sample in samples]
            panel = curves.setdefault(first["load"], {})
            panel[name] = percentiles(loads, "latency")
            # What stands in front of nothing, at the rate of attestgate.
            if name == OURS:
                panel["direct"] = percentiles(loads, "reference")
    if not curves:
        return ""
    drawing = Drawing(40 + 270 * len(curves) + 20, 340, TITLES["latency"])
    drawing.text(20, 26, TITLES["latency"], size=15, weight="bold")
    names = list(dict.fromkeys(name for panel in curves.values() for name in panel))
    drawing.key(20, 50, {name: colour(name, number) for number, name in enumerate(names)})
    values = [value for panel in curves.values() for line in panel.values() for value in line]
    scale = Scale(*decades_around(values), 290, 90, True)
    for panel_number, (load, panel) in enumerate(sorted(curves.items())):
        left = 70 + 270 * panel_number
        across = Scale(0, len(PERCENTILES) - 1, left, left + 220)
        drawing.text(left + 110, 78, f"{load:.0%} load", "middle", weight="bold")
        for decade in scale.decades:
            drawing.line(left, scale(decade), left + 220, scale(decade))
            drawing.text(left - 6, scale(decade) + 4, microseconds(decade), "end", 11)
        for number, percentile in enumerate(PERCENTILES):
            drawing.text(across(number), 308, percentile, "middle", 11)
        for name, line in panel.items():
            points = [(across(number), scale(value)) for number, value in enumerate(line)]
            drawing.curve(points, colour(name, names.index(name)), "5 4" if name == "direct" else "")
    return drawing.svg()


def percentiles(loads, which):
    return [max(statistics.median(load[which][name] for load in loads), 1) for name in PERCENTILES]


def microseconds(value):
    return f"{value:g} us" if value < 1000 else f"{value / 1000:g} ms" if value < 1e6 else f"{value / 1e6:g} s"


def devices(found):
    """A pair of bars for each size of the registry: a device that was seen before, and one that was not."""
    sizes = {
        samples[0]["devices"]: (
            statistics.median(sample["value"] for sample in samples), statistics.median(sample["cold"] for sample in samples))
        for (row, _, _), samples in found.results.items() if row.startswith("devices")}
    if not sizes:
        return ""
    drawing = Drawing(520, 300, TITLES["devices"])
    drawing.text(20, 26, TITLES["devices"], size=15, weight="bold")
    kinds = {"seen before": COLOURS[OURS], "more for one never seen": COLOURS["haproxy"]}
    drawing.key(20, 50, kinds)
    most = max(1.0, *(hot + max(cold, 0) for hot, cold in sizes.values()))
    scale = Scale(0, most * 1.1, 250, 75)
    drawing.line(50, scale(0), 500, scale(0), FAINT)
    for number, (count, (hot, cold)) in enumerate(sorted(sizes.items())):
        left = 80 + 140 * number
        top = hot + max(cold, 0)
        drawing.bar(left, scale(hot), 70, scale(0) - scale(hot), kinds["seen before"])
        drawing.bar(left, scale(top), 70, scale(hot) - scale(top), kinds["more for one never seen"])
        drawing.text(left + 35, scale(top) - 6, f"{hot:.0f} us {cold:+.0f}", "middle", 11)
        drawing.text(left + 35, 268, f"{count:,} devices", "middle")
    return drawing.svg()
