"""What a run has before it: every measurement in order, and how long each takes."""

import time

import beside
import report

# Of a load: to start, to connect, to make certificates, and to end.
START = 0.5


class Timetable:
    def __init__(self, chosen, servers):
        """`servers`: for each its name, its variants, and its rows if it does not take part in all."""
        self.chosen = chosen
        self.steps = list(self._plan(servers))
        self.estimates = [self.seconds(row) for _, row, _, _ in self.steps]
        self.expected = sum(self.estimates)
        self.start, self.done = time.monotonic(), 0

    def _plan(self, servers):
        """Every other round goes backwards, so that a drift of the machine cancels out."""
        for number in range(self.chosen.rounds):
            for row in self.chosen.only:
                if row in report.ONCE and number > 0:
                    continue
                for server in servers if number % 2 == 0 else servers[::-1]:
                    if not takes_part(server, row):
                        continue
                    variants = server.variants if row == "resumed" else server.variants[:1]
                    for variant in variants:
                        yield number, row, server, variant

    def seconds(self, row):
        chosen = self.chosen
        load = chosen.seconds + chosen.warmup + START
        # Proofs are made ahead, and what a verification takes is measured after.
        attested = load + (chosen.seconds + chosen.warmup) * 0.7
        if row in report.ONCE:
            devices = chosen.device_counts[row]
            return devices / 4_000 + chosen.rounds * (attested + chosen.touched * 0.006 + 2)
        if row.startswith("idle"):
            return 4 * START + chosen.idle_connections / 400
        if row.startswith(("download", "upload")):
            return START + chosen.large_requests * chosen.large_bytes / 400e6
        return {
            "attested": attested + 2, "attested-h2": attested, "attested-parallel-h2": attested, "workers": 2 * load,
            "attested-workers": 2 * attested, "two-loads": 2 * load + START,
            "latency": (1 + 2 * len(chosen.loads)) * load,
            "attested-latency": (1 + len(chosen.loads)) * attested + len(chosen.loads) * load}.get(row, load)

    def finished(self):
        """One more step is done."""
        self.done += 1

    @property
    def remaining(self):
        """Seconds, as far as the steps that are done tell: a slow machine stays slow."""
        planned, spent = sum(self.estimates[:self.done]), time.monotonic() - self.start
        return sum(self.estimates[self.done:]) * (spent / planned if planned else 1)


def takes_part(server, row):
    if server.rows is not None:
        return row in server.rows
    return row not in beside.KINDS and (row not in report.ALONE or server.name == "attestgate")


def minutes(seconds):
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
