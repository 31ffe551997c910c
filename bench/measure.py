"""Single measurements: one load, one server, one number."""

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

from peers import Failed, spawn


# Connections and devices of the attested row: one each, so that a strict counter is met in its order.
ATTESTED = 50
# Requests at a time on one connection of HTTP/2: what all servers admit unless told otherwise.
PARALLEL = 50
# No core does as many a second, so that proofs made ahead last to the end.
ATTESTED_RATE_LIMIT = 25_000
# Certificates of the first-seen row: the load generator's most, more than handshakes there are time for.
FIRST_SEEN = 20_000


class Meter:
    def __init__(self, tool, certificates, core, seconds, warmup, idle_connections, fleet=None):
        self.tool = tool
        self.certificates = certificates
        self.core = core
        self.seconds = seconds
        self.warmup = warmup
        self.idle_connections = idle_connections
        self.fleet = fleet
        self.failures = []

    def keepalive(self, server, variant):
        """CPU microseconds of the server for each request on kept connections."""
        return self._per_request(server, variant, "mtls", connections=50)

    def keepalive_h2(self, server, variant):
        """The same over HTTP/2."""
        return self._per_request(server, variant, "mtls", 50, "--http2")

    def parallel_h2(self, server, variant):
        """The same over one connection of HTTP/2, many at a time."""
        return self._per_request(server, variant, "mtls", 1, "--http2", "--parallel", PARALLEL)

    def balanced(self, server, variant):
        """The same where several servers are behind, and one of them is chosen for each request."""
        return self._per_request(server, variant, "mtls", connections=50, path="/balanced")

    def attested_h2(self, server, variant):
        """What `attested` measures, over HTTP/2."""
        return self._attested(server, variant, ATTESTED, "--http2")

    def attested_parallel_h2(self, server, variant):
        """The same over one connection of one device, many at a time."""
        return self._attested(server, variant, 1, "--http2", "--parallel", PARALLEL)

    def attested(self, server, variant):
        """The same with a proof in each request, made ahead, and a counter made durable; and what one bare verification of
        a signature takes on the server's core, right after."""
        sample = self._attested(server, variant, ATTESTED)
        return sample | {"verification_microseconds": verification(server.core, self.seconds)}

    def _attested(self, server, variant, connections, *arguments):
        stock = int(ATTESTED_RATE_LIMIT * (self.warmup + self.seconds))
        sample = self._per_request(
            server, variant, "attested", connections, "--prepared", self.fleet, "--proofs", "ahead", "--stock", stock,
            *arguments, path="/attested")
        # Refusals are cheap: their figure would be a good one.
        if self.failures:
            raise Failed(f"attested requests failed, so nothing was measured: {self.failures[-1]}", status=1)
        return sample

    def handshake(self, server, variant):
        """CPU microseconds of the server for each full handshake and the one request that follows it. The same 20
        certificates come again and again."""
        return self._per_request(server, variant, "handshake", connections=20)

    def first_seen(self, server, variant):
        """The same with certificates that come once."""
        connections = 20
        # Each run of the load generator makes its own, so no server has seen one of them.
        sample = self._per_request(server, variant, "handshake", connections, "--devices", FIRST_SEEN)
        needed = connections + 1.2 * sample["requests_per_second"] * (self.warmup + self.seconds)
        if needed > FIRST_SEEN:
            raise Failed(f"{server.name}: {FIRST_SEEN} certificates do not last for {self.seconds:g} s: take fewer")
        return sample

    def resumed(self, server, variant):
        """CPU microseconds of the server for each resumed handshake and the one request that follows it."""
        return self._per_request(server, variant, "resumed", connections=20)

    def idle(self, server, variant):
        """KiB that the server allocates for each idle connection."""
        return self._idle(server, variant)

    def idle_h2(self, server, variant):
        """The same of HTTP/2."""
        return self._idle(server, variant, "--http2")

    def _idle(self, server, variant, *arguments):
        server.stop()
        server.start()
        # What is allocated once, at the first request, is no connection's.
        self._load(server, variant, "mtls", "--connections", 10, "--warmup", 0, "--duration", 0.5, *arguments)
        time.sleep(0.5)
        before = allocated(server.worker)
        holder = self._spawn(
            server, variant, "idle", "--connections", self.idle_connections, "--hold", 60, *arguments,
            stderr=subprocess.PIPE)
        try:
            line = holder.stderr.readline()
            if not line.startswith(b"holding"):
                raise Failed(f"{server.name}: idle connections do not stand: {line.decode(errors='replace')}", status=1)
            time.sleep(0.5)
            growth = allocated(server.worker) - before
        finally:
            holder.send_signal(signal.SIGTERM)
            output, _ = holder.communicate(timeout=30)
        report = self._check(server, "idle", holder.returncode, output)
        return {"value": growth / self.idle_connections, "requests": report["requests"]}

    def _per_request(self, server, variant, mode, connections, *arguments, path="/bench"):
        report = self._load(
            server, variant, mode, "--connections", connections, "--warmup", self.warmup, "--duration", self.seconds,
            "--server-pid", server.worker, *arguments, path=path)
        if not report.get("requests") or "server_cpu_seconds" not in report:
            raise Failed(f"{server.name}: nothing was measured in mode {mode}: {report.get('reasons')}", status=1)
        return {
            "value": report["server_cpu_seconds"] / report["requests"] * 1e6,
            "requests": report["requests"],
            "requests_per_second": report["requests_per_second"],
            "server_share": report["server_cpu_seconds"] / report["duration_seconds"],
            "load_share": report["own_cpu_seconds"] / report["duration_seconds"],
            "latency_microseconds": report["latency_microseconds"],
            **({"proofs": report["proofs"]} if "proofs" in report else {}),
        }

    def _load(self, server, variant, mode, *arguments, path="/bench"):
        process = self._spawn(server, variant, mode, *arguments, stderr=subprocess.DEVNULL, path=path)
        try:
            output, _ = process.communicate(timeout=self.seconds + self.warmup + 120)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        return self._check(server, mode, process.returncode, output)

    def _spawn(self, server, variant, mode, *arguments, stderr, path="/bench"):
        port = server.ports[variant]
        return spawn(
            [self.tool, "--mode", mode, "--certificates", self.certificates, "--quiet", "--json", *arguments,
             f"https://localhost:{port}{path}"],
            self.core, stdout=subprocess.PIPE, stderr=stderr)

    def _check(self, server, mode, status, output):
        try:
            report = json.loads(output)
        except ValueError:
            raise Failed(f"the load generator gave no report for {server.name}, mode {mode} (exit code {status})")
        if status != 0:
            self.failures.append(
                f"{server.name}, {mode}: {report['errors'] or 'too few handshakes resumed'} {report['reasons']}")
        return report


VERIFICATION = re.compile(r"^ *256 bits ecdsa \(nistp256\) +[\d.]+s +[\d.]+s +[\d.]+ +([\d.]+)$", re.MULTILINE)


def verification(core, seconds):
    """CPU microseconds of one bare ECDSA P-256 verification by OpenSSL on that core."""
    process = spawn(
        ["openssl", "speed", "-seconds", max(1, round(min(seconds, 2))), "ecdsap256"], core, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, env=os.environ | {"LC_ALL": "C"})
    output = process.communicate(timeout=60)[0].decode()
    rates = VERIFICATION.findall(output)
    # Of CPU time, which is what `openssl speed` divides by unless told otherwise.
    if process.returncode != 0 or len(rates) != 1 or float(rates[0]) <= 0:
        raise Failed(f"`openssl speed` does not tell how fast it verifies:\n{output}")
    return 1e6 / float(rates[0])


def allocated(process):
    """KiB of memory that a process has allocated; what it shares with its own processes counts in part.

    Not of its program and libraries: the load generator has some of them mapped too, ours more than the peers', and as long as it holds
    the connections each process counts a smaller part of them.
    """
    rollup = Path(f"/proc/{process}/smaps_rollup").read_text()
    found = dict(re.findall(r"^(Pss_Anon|Pss_Shmem): +(\d+) kB$", rollup, re.MULTILINE))
    if len(found) == 2:
        return sum(map(int, found.values()))
    raise Failed(f"the kernel does not tell what process {process} has allocated")
