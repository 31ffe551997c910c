"""What a soak is judged by, and its plot."""

import statistics

# The first third is for what is allocated once. A bound in octets finds what grows by little: in twenty minutes a third has some
# 50,000 requests, so 10 octets that each of them leaves.
GROWTH_KIB = 512
# Connections come and go as the median is taken.
DESCRIPTORS = 2


def thirds(samples):
    count = len(samples) // 3
    return samples[count:2 * count], samples[-count:]


def judged(samples):
    """- Returns: medians of the middle and of the last third, and whether either figure has grown."""
    if len(samples) < 9:
        raise ValueError("too few samples for thirds")
    middle, last = (
        {name: statistics.median(sample[name] for sample in part) for name in part[0]} for part in thirds(samples))
    # The share in pages of programs and libraries depends on who else runs them.
    grown = last["pss_anonymous_kib"] - middle["pss_anonymous_kib"]
    descriptors = last["descriptors"] - middle["descriptors"]
    span = samples[-1]["seconds"] - samples[0]["seconds"]
    return {
        "seconds": span, "core_share": (samples[-1]["cpu_seconds"] - samples[0]["cpu_seconds"]) / span,
        "middle": middle, "last": last, "grown_kib": grown, "bound_kib": GROWTH_KIB, "grown_descriptors": descriptors,
        "is_flat": grown <= GROWTH_KIB and descriptors <= DESCRIPTORS}


def in_words(found):
    done, middle, last = found["done"], found["middle"], found["last"]
    return "\n".join([
        f"{found['seconds'] / 60:.1f} minutes, {found['core_share']:.0%} of a core: {done['attested']:,} requests with proofs, "
        f"{done['refused']:,} refused, {done['connections']:,} connections, {done['full']:,} bare handshakes in full and "
        f"{done['resumed']:,} resumed",
        "| median of | middle third | last third | grown | bound |", "|---|--:|--:|--:|--:|",
        line("allocated, KiB", middle["pss_anonymous_kib"], last["pss_anonymous_kib"], f"{found['bound_kib']:,.0f}"),
        line("PSS, KiB", middle["pss_kib"], last["pss_kib"]),
        line("RSS, KiB", middle["rss_kib"], last["rss_kib"]),
        line("descriptors", middle["descriptors"], last["descriptors"], DESCRIPTORS),
        "flat" if found["is_flat"] else "NOT FLAT"])


def line(name, middle, last, bound=""):
    return f"| {name} | {middle:,.0f} | {last:,.0f} | {last - middle:+,.0f} | {bound} |"


WIDTH, LEFT, RIGHT = 860, 70, 20
STYLE = """
    .paper { fill: #ffffff } text { fill: #1f2328; font-size: 14px } .small { fill: #57606a; font-size: 12px }
    .axis { stroke: #d0d7de; stroke-width: 1; fill: none } .rss { stroke: #9a6700; stroke-width: 1.5; fill: none }
    .pss { stroke: #1f6feb; stroke-width: 2; fill: none } .rss-name { fill: #9a6700 } .pss-name { fill: #1f6feb }
    @media (prefers-color-scheme: dark) {
      .paper { fill: #0d1117 } text { fill: #e6edf3 } .small { fill: #9198a1 } .axis { stroke: #30363d }
    }"""


def plot(found):
    """Memory above, descriptors below, over the same minutes. Both from zero: part of an axis makes any noise a mountain."""
    samples = found["samples"]
    end = max(sample["seconds"] for sample in samples)

    def panel(top, height, names, unit, scale):
        most = max(sample[name] for sample in samples for _, name in names) * scale * 1.15
        step = nice(most / 4)

        def y(value):
            return top + height - value / most * height
        parts = []
        for number in range(int(most / step) + 1):
            at = y(number * step)
            parts.append(f'<path class="axis" d="M{LEFT} {at:.1f}H{WIDTH - RIGHT}"/>')
            parts.append(f'<text class="small" x="{LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{number * step:g}</text>')
        parts.append(f'<text class="small" x="{LEFT}" y="{top - 8}">{unit}</text>')
        for kind, name in names:
            points = " ".join(f"{x(sample['seconds']):.1f},{y(sample[name] * scale):.1f}" for sample in samples)
            parts.append(f'<polyline class="{kind}" points="{points}"/>')
        return parts

    def x(seconds):
        return LEFT + seconds / end * (WIDTH - LEFT - RIGHT)
    minutes = nice(end / 60 / 8)
    ticks = [
        f'<text class="small" x="{x(number * minutes * 60):.1f}" y="450" text-anchor="middle">{number * minutes:g}</text>'
        for number in range(int(end / 60 / minutes) + 1)]
    done = found["done"]
    title = f"What attestgate holds during {found['seconds'] / 60:.0f} minutes of load"
    summary = (
        f"{done['attested']:,} requests with proofs, {done['refused']:,} refused ones and {done['connections']:,} connections. "
        f"The median of what is allocated is {found['middle']['pss_anonymous_kib'] / 1024:.1f} MiB in the middle third and "
        f"{found['last']['pss_anonymous_kib'] / 1024:.1f} MiB in the last.")
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} 480" role="img" aria-labelledby="title summary" '
        "font-family=\"system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif\">",
        f'  <title id="title">{title}</title>', f'  <desc id="summary">{summary}</desc>', f"  <style>{STYLE}\n  </style>",
        f'<rect class="paper" width="{WIDTH}" height="480"/>', f'<text x="{LEFT}" y="24">{title}</text>',
        f'<text class="small pss-name" x="{WIDTH - RIGHT - 50}" y="24" text-anchor="end">allocated</text>',
        f'<text class="small rss-name" x="{WIDTH - RIGHT}" y="24" text-anchor="end">RSS</text>',
        *panel(60, 220, [("rss", "rss_kib"), ("pss", "pss_anonymous_kib")], "MiB", 1 / 1024),
        *panel(330, 100, [("pss", "descriptors")], "descriptors", 1), *ticks,
        f'<text class="small" x="{(LEFT + WIDTH - RIGHT) / 2}" y="470" text-anchor="middle">minutes</text>', "</svg>"]) + "\n"


def nice(rough):
    """1, 2 or 5 times a power of ten, not below `rough`."""
    power = 1.0
    while power * 10 <= rough:
        power *= 10
    while power > rough:
        power /= 10
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
