"""What a run prints and writes."""

import os
import platform
import statistics
import subprocess
from pathlib import Path

import markup

ROWS = {
    "keepalive": ("proxied keep-alive request", "us CPU"),
    "keepalive-h2": ("the same over HTTP/2, one at a time", "us CPU"),
    "parallel-h2": ("the same over HTTP/2, 50 at a time", "us CPU"),
    "balanced": ("over HTTP/1.1, one of two servers chosen", "us CPU"),
    "unix": ("the same as the first, with the service on a Unix socket", "us CPU"),
    "attested": ("attested request, durable counter", "us CPU"),
    "attested-postgresql": ("the same, registry in PostgreSQL", "us CPU"),
    "auth-request-python": ("what a user would build: nginx and a verifier in Python", "us CPU"),
    "auth-request-swift": ("the same, verifier in Swift", "us CPU"),
    "attested-h2": ("the same over HTTP/2, one at a time", "us CPU"),
    "attested-parallel-h2": ("the same over HTTP/2, 50 at a time", "us CPU"),
    "workers": ("CPU per request, two workers against one", "ratio"),
    "attested-workers": ("the same of attested requests", "ratio"),
    "two-loads": ("requests/s, two load generators against one", "ratio"),
    "handshake": ("full handshake, certificate seen before + 1 request", "us CPU"),
    "first-seen": ("full handshake, certificate never seen + 1 request", "us CPU"),
    "resumed": ("resumed handshake + 1 request", "us CPU"),
    "idle": ("idle connection, memory", "KiB"),
    "idle-h2": ("the same of HTTP/2", "KiB"),
    "download": ("large content, to clients", "s CPU/GB"),
    "download-h2": ("the same over HTTP/2", "s CPU/GB"),
    "upload": ("large content, to the service", "s CPU/GB"),
    "upload-h2": ("the same over HTTP/2", "s CPU/GB"),
    "latency": ("p99 at 70 % load", "us"),
    "attested-latency": ("the same of attested requests", "us"),
    "devices-1k": ("attested request, 1,000 devices", "us CPU"),
    "devices-100k": ("attested request, 100,000 devices", "us CPU"),
    "devices-1m": ("attested request, 1,000,000 devices", "us CPU"),
}
# Peers have nothing like it, or it says nothing of them.
ALONE = {row for row in ROWS if row.startswith(("attested", "auth-request", "devices", "two-loads"))}
# What the table calls them, where the name alone does not tell all.
NAMES = {"envoy": "envoy, with BoringSSL"}
# What takes longer than everybody has time for: with --full.
FULL = {row for row in ROWS if row.startswith(("download", "upload", "latency", "attested-latency", "devices"))}
# Measured once, for as many rounds as there are.
ONCE = {row for row in ROWS if row.startswith("devices")}
# A figure is shown with one digit behind the point, but for these.
DIGITS = {"ratio": 2, "s CPU/GB": 2}
# Already a ratio: a ratio of these would say nothing.
WITHOUT_RATIO = {"ratio"}
# Rows of other tables only.
ELSEWHERE = ONCE | {"two-loads"}


def first_line(*command, pick=""):
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=10)
    except OSError:
        return "absent"
    lines = [line for line in done.stdout.splitlines() if pick in line]
    return lines[0].strip() if lines else "unknown"


def machine():
    cpu = next(
        (line.split(":", 1)[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
         if line.startswith("model name")), platform.machine())
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "openssl": first_line("openssl", "version").split(" (")[0],
        "nginx": first_line("nginx", "-v", pick="version").rpartition("/")[2],
        "haproxy": first_line("haproxy", "-v").partition("version ")[2].split(" ")[0],
    }


def summarise(samples):
    """Median, and the distance from the least to the most in percent of it."""
    values = [sample["value"] for sample in samples]
    median = statistics.median(values)
    return median, abs((max(values) - min(values)) / median) * 100 if median else 0.0


def ratio_of(ours, theirs):
    """Median of the ratios within each round: measured close together, they drift together."""
    return statistics.median(mine["value"] / other["value"] for mine, other in zip(ours, theirs) if other["value"])


def rate(samples):
    """Requests a second, where as many were made as the server could answer."""
    rates = [sample["requests_per_second"] for sample in samples if "requests_per_second" in sample]
    return f"{statistics.median(rates):.0f}/s" if rates else ""


LEGEND = (
    "Cells: the median (least to most in percent of it), attestgate's share of a peer's (bold: of the best peer's), requests/s.")


def table(results, servers):
    """`results` maps (row, server, variant) to samples. A column for each server, a line for each row and variant."""
    lines = []
    for row, (label, unit) in ROWS.items():
        if row in ELSEWHERE:
            continue
        samples = {key[1:]: measured for key, measured in results.items() if key[0] == row and key[1] in servers}
        medians = {column: summarise(measured)[0] for column, measured in samples.items()}
        ours = next((measured for (server, _), measured in samples.items() if server == "attestgate"), None)
        best = min((median for (server, _), median in medians.items() if server != "attestgate"), default=None)
        name = label if unit == "ratio" else f"{label}, {unit}"

        def cell(server, variant):
            if (server, variant) not in samples:
                return ""
            median, spread = summarise(samples[server, variant])
            parts = [f"{median:.{DIGITS.get(unit, 1)}f} ({spread:.0f}%)"]
            if ours and server != "attestgate" and unit not in WITHOUT_RATIO:
                ratio = f"{ratio_of(ours, samples[server, variant]):.2f}"
                parts.append(f"**{ratio}**" if median == best else ratio)
            return ", ".join([*parts, *filter(None, [rate(samples[server, variant])])])
        for variant in dict.fromkeys(variant for _, variant in samples):
            lines.append([f"{name} ({variant})" if variant else name, *(cell(server, variant) for server in servers)])
    if not lines:
        return ""
    head = ["measured", *(f">{NAMES.get(server, server)}" for server in servers)]
    return markup.table(head, lines) + "\n\n" + markup.paragraph(LEGEND)


def versions(results, servers):
    """How HTTP/2 stands beside HTTP/1.1, for each server: the median of the ratios within each round."""
    lines = []
    for one, others in (("keepalive", ("keepalive-h2", "parallel-h2")), ("attested", ("attested-h2", "attested-parallel-h2")),
                        ("idle", ("idle-h2",)), ("download", ("download-h2",)), ("upload", ("upload-h2",))):
        for other in others:
            both = [(results.get((other, server, None)), results.get((one, server, None))) for server in servers]
            cells = [f"{ratio_of(*pair):.2f}" if all(pair) else "" for pair in both]
            if any(cells):
                lines.append([f"{other} / {one}", *cells])
    return markup.table(["HTTP/2 against HTTP/1.1", *(f">{server}" for server in servers)], lines)


# CPU of an attested request against a keep-alive one plus one bare verification, at most.
ATTESTED_TARGET = 1.2
# Requests a second of attestgate, at least, for one of nginx and a verifier.
VERIFIER_TARGET = 5


def attested_ratio(kept, samples):
    """CPU of attested requests in parts of that yardstick, both of the same rounds: the median over these."""
    return statistics.median(
        sample["value"] / (one["value"] + sample["verification_microseconds"]) for one, sample in zip(kept, samples))


def attested(results, counters, commits, place):
    """What stands beside the attested row. `counters` and `commits`: of the whole run, warm-ups included; `place`: the
    registry's directory and its file system."""
    samples = results.get(("attested", "attestgate", None))
    if not samples:
        return ""
    lines = [f"Registry in {place}."]
    rate = statistics.median(sample["requests_per_second"] for sample in samples)
    if commits:
        batch = counters / commits
        lines.append(
            f"Attested: {rate:.0f} requests/s, {rate / batch:.0f} commits/s of {batch:.1f} counters each "
            f"(mean over the run: {counters} counters in {commits} commits).")
    else:
        lines.append(f"Attested: {rate:.0f} requests/s; the gateway did not log its commits.")
    if live := sum(sample["proofs"]["live"] for sample in samples):
        lines.append(f"{live} proofs were not made ahead: the load generator took more CPU than it should.")
    verification = statistics.median(sample["verification_microseconds"] for sample in samples)
    kept = results.get(("keepalive", "attestgate", None))
    if kept is None:
        lines.append(f"One bare ECDSA P-256 verification: {verification:.1f} us; the yardstick takes the row keepalive too.")
        return markup.paragraph(" ".join(lines))
    yardsticks = [one["value"] + other["verification_microseconds"] for one, other in zip(kept, samples)]
    lines.append(
        f"Yardstick: keepalive {summarise(kept)[0]:.1f} + one bare ECDSA P-256 verification {verification:.1f} = "
        f"{statistics.median(yardsticks):.1f} us. Attested is **{attested_ratio(kept, samples):.2f}** "
        f"times that; the target is at most {ATTESTED_TARGET}.")
    return markup.paragraph(" ".join(lines))


def machine_line(facts):
    envoy = f", Envoy {facts['envoy']} (BoringSSL)" if "envoy" in facts else ""
    return (
        f"{facts['cpu']}, {facts['cores']} cores, Linux {facts['kernel']}, {facts['openssl']}, "
        f"nginx {facts['nginx']}, HAProxy {facts['haproxy']}{envoy}")
