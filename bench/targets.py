"""The targets of attestgate, and how a run stands to each: reached, or what is known of how far it can go."""

import statistics
from dataclasses import dataclass
from typing import Callable

import markup
import report


@dataclass(frozen=True)
class Target:
    """`measured`: the figure of a run, none where it has not been measured; `bound`: in
    words, how far it can go; `peers`: whom the limit stands beside in a plot, each a server or a server and its variant."""

    row: str
    what: str
    limit: float
    measured: Callable
    bound: Callable = lambda found: ""
    peers: tuple = ()
    # Whether the figure is to be at least the limit, and not at most.
    is_least: bool = False
    digits: int = 2
    unit: str = ""

    def limit_of(self, found):
        return self.limit(found) if callable(self.limit) else self.limit

    def is_reached(self, found):
        value, limit = self.measured(found), self.limit_of(found)
        return value >= limit if self.is_least else value <= limit


def samples(found, row, server, variant=None):
    return found.results.get((row, server, variant))


def beside(row, *servers, variant=None):
    """Attestgate's figure of a row, in parts of the best one's of these servers: the largest of the ratios."""
    def measured(found):
        ours = samples(found, row, "attestgate", variant)
        theirs = [one for server in servers if (one := samples(found, row, server, variant))]
        return max(report.ratio_of(ours, one) for one in theirs) if ours and theirs else None
    return measured


def value(row):
    def measured(found):
        ours = samples(found, row, "attestgate")
        return statistics.median(sample["value"] for sample in ours) if ours else None
    return measured


def versions(row, other):
    """Attestgate's figure of a row, in parts of its own in another one."""
    def measured(found):
        ours, theirs = samples(found, row, "attestgate"), samples(found, other, "attestgate")
        return report.ratio_of(ours, theirs) if ours and theirs else None
    return measured


def attested(found):
    ours, kept = samples(found, "attested", "attestgate"), samples(found, "keepalive", "attestgate")
    if not ours or not kept:
        return None
    return report.attested_ratio(kept, ours)


def beside_verifier(name):
    """Requests a second, in those of a verifier behind nginx, whose row has its name."""
    def measured(found):
        ours = samples(found, "attested", "attestgate")
        theirs = samples(found, name, name)
        if not ours or not theirs:
            return None
        return statistics.median(
            mine["requests_per_second"] / other["requests_per_second"] for mine, other in zip(ours, theirs))
    return measured


def verifier_bound(name):
    """What a gateway would reach that does nothing for a request but to verify its signature."""
    def bound(found):
        ours, theirs = samples(found, "attested", "attestgate"), samples(found, name, name)
        ratio = statistics.median(
            other["value"] / mine["verification_microseconds"] for mine, other in zip(ours, theirs))
        return f"at best {ratio:.1f}, with bare verification alone"
    return bound


def added_latency(found):
    ours = samples(found, "attested-latency", "attestgate")
    return statistics.median(sample["added"] for sample in ours) if ours and sync(found) else None


def instructions(row):
    """Not of this run: the committed figure, which CI holds."""
    return lambda found: found.instructions.get(row)


def attested_instructions(found):
    """What is left of an attested request without a proxied one and the verification of an assertion."""
    parts = [found.instructions.get(row) for row in ("attested", "keepalive", "assertion")]
    return parts[0] - parts[1] - parts[2] if all(parts) else None


def sync(found):
    taken = (found.registry or {}).get("syncs")
    return statistics.median(one["p50"] for one in taken) if taken else None


def durable(found):
    return statistics.median(found.durable_throughput) if found.durable_throughput else None


def profiled(what, share):
    """What no run tells, for it takes a profile: where the work goes, in docs/performance.md."""
    return lambda found: f"by a profile {share:.2f} with {what} alone"


VERIFIERS = ("auth-request-python", "auth-request-swift")

TARGETS = [
    Target("keepalive", "CPU per proxied request, beside the better of nginx and HAProxy", 0.85,
           beside("keepalive", "nginx", "haproxy"), profiled("the kernel and OpenSSL", 0.79),
           peers=("nginx", "haproxy")),
    Target("keepalive", "the same, beside Envoy", 0.5, beside("keepalive", "envoy"), peers=("envoy",)),
    Target("instructions", "instructions per proxied request over HTTP/1.1", 33_000, instructions("keepalive"), digits=0),
    Target("instructions", "the same over HTTP/2, one at a time", 43_000, instructions("http2"), digits=0),
    Target("instructions", "the same over HTTP/2, 50 at a time", 36_000, instructions("parallel-http2"), digits=0),
    Target("instructions", "instructions per attested request beyond a proxied one and verifying its assertion", 50_000,
           attested_instructions, digits=0),
    Target("attested", "CPU per attested request, durable, beside that and one bare verification", report.ATTESTED_TARGET, attested,
           profiled("OpenSSL, the kernel and SQLite", 1.23)),
    Target("attested", "attested requests/s, beside nginx and a verifier in Python", report.VERIFIER_TARGET,
           beside_verifier("auth-request-python"), verifier_bound("auth-request-python"), is_least=True, digits=1),
    Target("attested", "attested requests/s, beside nginx and a verifier in Swift", report.VERIFIER_TARGET,
           beside_verifier("auth-request-swift"), verifier_bound("auth-request-swift"), is_least=True, digits=1),
    Target("first-seen", "CPU per full handshake, certificate never seen, beside HAProxy", 0.95, beside("first-seen", "haproxy"),
           peers=("haproxy",)),
    Target("handshake", "CPU per full handshake, certificate seen before, beside the better of nginx and HAProxy", 0.55,
           beside("handshake", "nginx", "haproxy"), peers=("nginx", "haproxy")),
    Target("resumed", "CPU per resumed handshake, beside the better of nginx and HAProxy with tickets", 0.45,
           beside("resumed", "nginx", "haproxy", variant="tickets"), profiled("OpenSSL's handshake and the kernel", 0.42),
           peers=(("nginx", "tickets"), ("haproxy", "tickets"))),
    Target("idle", "memory per idle connection, beside the better of nginx and HAProxy", 0.92,
           beside("idle", "nginx", "haproxy"), peers=("nginx", "haproxy")),
    Target("idle-h2", "memory per idle HTTP/2 connection", 24, value("idle-h2"), digits=1, unit=" KiB"),
    Target("attested-h2", "CPU per attested request over HTTP/2, beside HTTP/1.1", 1.0, versions("attested-h2", "attested")),
    Target("attested-parallel-h2", "the same, many at a time on one connection", 1.0, versions("attested-parallel-h2", "attested")),
    Target("latency", "p99 at 70 % load, beside the best of nginx, HAProxy and Envoy", 1.0,
           beside("latency", "nginx", "haproxy", "envoy"), peers=("nginx", "haproxy", "envoy")),
    Target("attested-latency", "the same, attested, beside the better of nginx with a verifier in Python or Swift", 1.0,
           beside("attested-latency", *VERIFIERS), peers=VERIFIERS),
    Target("attested-latency", "added p99 at 70 % load, attested, beside nginx without: at most 1 ms and two fsyncs",
           lambda found: 1000 + 2 * sync(found), added_latency, lambda found: f"one fsync takes {sync(found):.0f} us", digits=0,
           unit=" us"),
    Target("workers", "CPU per request, two workers beside one", 1.08, value("workers")),
    Target("durability", "durable commits beside none, throughput", 0.9, durable, is_least=True),
]
# What tests show, and no figure.
TESTED = ["counters after `kill -9` under load and after a loss of power: none twice, none lost"]


def table(found):
    """Every target with a figure of this run, or that it has none; nothing if the run has a figure of no target."""
    if all(target.measured(found) is None for target in TARGETS if target.row != "instructions"):
        return ""
    lines = []
    for target in TARGETS:
        measured = target.measured(found)
        sign = "≥" if target.is_least else "≤"
        if measured is None:
            known = "" if callable(target.limit) else f"{sign} {target.limit:,.{target.digits}f}{target.unit}"
            lines.append([target.what, known, "", "not measured in this run"])
            continue
        verdict = "reached" if target.is_reached(found) else "**not reached**"
        if not target.is_reached(found) and (bound := target.bound(found)):
            verdict += f"; {bound}"
        lines.append([
            target.what, f"{sign} {target.limit_of(found):,.{target.digits}f}{target.unit}",
            f"{measured:,.{target.digits}f}{target.unit}", verdict])
    lines += [[what, "", "", "tested"] for what in TESTED]
    return markup.table(["target", ">limit", ">measured", "result"], lines)
