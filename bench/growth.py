"""What a request costs as devices grow: a registry with few of them, with many, and with very many."""

import base64
import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import points
from peers import AttestGate, Failed
from processes import cpu_seconds, allocated

# Devices that do make requests, of two kinds: those that warm the process, and those that it has not seen.
TOUCHED = 2_000
# Their requests a second: far below what the gateway can do, so that every device gets its turn.
RATE = 1_000
# Lines of one import: progress can be shown in between.
CHUNK = 100_000


class Growth:
    """What a registry of any size is made of, and where. One for a run: what is made of it costs time."""

    def __init__(self, built, directory, certificates, upstream_ports, core, place, say, touched=TOUCHED):
        self.built, self.directory, self.place, self.say = built, Path(directory) / "growth", place, say
        self.directory.mkdir()
        self.arguments = (certificates, upstream_ports, core)
        self.touched = touched
        self.fleets = {}

    def fleet(self, name):
        """Devices with keys. - Returns: their directory."""
        if name not in self.fleets:
            self.fleets[name] = self.directory / name
            command = [
                self.built / "attestgate-load", "--prepare", self.fleets[name], "--devices", self.touched,
                "--app-id", AttestGate.app]
            subprocess.run([str(part) for part in command], check=True, stdout=subprocess.DEVNULL)
        return self.fleets[name]

    def active(self, count):
        """How many of each kind make requests, of so many devices."""
        return min(self.touched, count // 4)

    @contextlib.contextmanager
    def gateway(self, count):
        """One of its own, which runs, with so many devices. - Yields: it, and seconds that the import took."""
        scratch = self.directory / str(count)
        scratch.mkdir()
        with tempfile.TemporaryDirectory(prefix="bench-registry-", dir=self.place) as registry:
            server = AttestGate(scratch, *self.arguments)
            server.registry = registry
            try:
                start = time.monotonic()
                self._register(server, count)
                taken = time.monotonic() - start
                server.start()
                yield server, taken
            finally:
                server.stop()
                shutil.rmtree(scratch, ignore_errors=True)

    def _register(self, server, count):
        known = [
            line for name in ("warm", "cold")
            for line in (self.fleet(name) / "registrations.jsonl").read_text().splitlines()[:self.active(count)]]
        done = 0
        for lines in chunks(registrations(known, count), CHUNK):
            path = server.directory / "registrations.jsonl"
            path.write_text("".join(line + "\n" for line in lines))
            server.import_devices(path)
            path.unlink()
            done += len(lines)
            self.say(f"    {done:,} of {count:,} devices registered")


def registrations(known, count):
    """As many lines of registrations as asked for: the known ones at even distances among others."""
    others = others_of(count - len(known))
    for number in range(count):
        # Bresenham's line: after each `number` lines, len(known) * number / count of the known ones have been.
        before, after = len(known) * number // count, len(known) * (number + 1) // count
        yield known[before] if after > before else next(others)


def others_of(count):
    """Registrations of devices that nobody has: both keys are points of the curve, which are verified to be that."""
    made = points.multiples(2 * count)
    for _ in range(count):
        keys = [base64.b64encode(points.encoded(next(made))).decode() for _ in range(2)]
        yield json.dumps({"app_id": AttestGate.app, "certificate_key": keys[0], "public_key": keys[1]})


def chunks(lines, size):
    chunk = []
    for line in lines:
        chunk.append(line)
        if len(chunk) == size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def once(meter, server, variant, fleet, count):
    """Each device of a fleet connects and makes one attested request. - Returns: CPU microseconds of the server for each."""
    before, failures = cpu_seconds(server.worker), len(meter.failures)
    # At fixed times, each the next device's: all at once would be more than the service has connections for.
    seconds = max(0.5, count / RATE)
    meter._load(
        server, variant, "attested", "--prepared", fleet, "--connections", count, "--rate", count / seconds, "--duration",
        seconds, "--warmup", 0, path="/attested")
    if len(meter.failures) > failures:
        raise Failed(meter.failures[-1], status=1)
    return (cpu_seconds(server.worker) - before) / count * 1e6


def measure(meter, server, variant, count):
    """- Returns: one sample for each repetition. Its value is of devices that were seen before; `cold` is what a device costs
    more that was not, since the start: its connection, its challenge and its request, beside the same again."""
    samples, active = [], meter.growth.active(count)
    with meter.growth.gateway(count) as (gateway, taken):
        files = sum(os.path.getsize(Path(gateway.registry) / name) for name in os.listdir(gateway.registry))
        for _ in range(meter.growth_rounds):
            gateway.stop()
            gateway.start()
            idle = allocated(gateway.worker)
            # Other devices first, for what a process does but once, and for the memory of so many connections.
            held, costs = [], []
            for fleet in ("warm", "cold", "cold"):
                costs.append(once(meter, gateway, variant, meter.growth.fleet(fleet), active))
                time.sleep(min(0.5, meter.seconds))
                held.append(allocated(gateway.worker))
            _, cold, again = costs
            hot = meter._attested(gateway, variant, 50, fleet=meter.growth.fleet("cold"))
            samples.append(hot | {
                "cold": cold - again, "first": cold, "devices": count, "import_seconds": taken, "registry_bytes": files,
                "idle_kib": idle, "kib_each": (held[1] - held[0]) / active})
    return samples
