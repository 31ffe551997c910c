"""Single measurements: one load, one server, one number."""

import json
import os
import re
import signal
import subprocess
import time

import growth
import large
import latency
import workers
from peers import Failed, spawn
from processes import allocated


# Connections and devices of the attested row: one each, so that a strict counter is met in its order.
ATTESTED = 50
# Requests at a time on one connection of HTTP/2: what all servers admit by default.
PARALLEL = 50
# No core does as many a second, so that proofs made ahead last to the end.
ATTESTED_RATE_LIMIT = 25_000
# Certificates of the first-seen row: the load generator's most, and more than handshakes there are in a second.
FIRST_SEEN = 20_000
FIRST_SEEN_RATE_LIMIT = 4_000


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
        # What the rows of a full run need besides; `bench/run` sets it.
        self.large_file, self.large_requests = None, large.REQUESTS
        self.loads = latency.LOADS
        self.direct = self.reference = self.growth = None
        self.growth_rounds = 1

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

    def unix(self, server, variant):
        """What `keepalive` measures, with the service on a Unix socket."""
        return self._per_request(server, variant, "mtls", connections=50, path="/unix")

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

    def beside(self, server, _):
        """What `attested` measures, of what is built in another way or keeps its counters elsewhere."""
        return self._attested(server, server.variants[0], ATTESTED)

    def _attested(self, server, variant, connections, *arguments, fleet=None, rate=None):
        stock = int((rate * 1.1 if rate else ATTESTED_RATE_LIMIT) * (self.warmup + self.seconds)) + ATTESTED
        paced = ["--rate", rate] if rate else []
        sample = self._per_request(
            server, variant, "attested", connections, "--prepared", fleet or self.fleet, "--proofs", "ahead", "--stock", stock,
            *paced, *arguments, path="/attested")
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
        count = min(FIRST_SEEN, connections + round(FIRST_SEEN_RATE_LIMIT * (self.warmup + self.seconds)))
        # Each run of the load generator makes its own, so no server has seen one of them.
        sample = self._per_request(server, variant, "handshake", connections, "--devices", count)
        needed = connections + 1.2 * sample["requests_per_second"] * (self.warmup + self.seconds)
        if needed > count:
            raise Failed(f"{server.name}: {count} certificates do not last for {self.seconds:g} s: take fewer")
        return sample

    def resumed(self, server, variant):
        """CPU microseconds of the server for each resumed handshake and the one request that follows it."""
        return self._per_request(server, variant, "resumed", connections=20)

    def workers(self, server, variant):
        """CPU for each request with two workers, in parts of that with one."""
        return workers.compare(self, server, lambda: self.keepalive(server, variant))

    def attested_workers(self, server, variant):
        """The same of attested requests."""
        return workers.compare(self, server, lambda: self._attested(server, variant, ATTESTED))

    def two_loads(self, server, variant):
        """Requests a second with two load generators, in parts of those with one."""
        return workers.two_loads(self, server, variant)

    def download(self, server, variant):
        """CPU seconds of the server for each GB (10^9 bytes) that it hands on to clients."""
        return large.download(self, server, variant)

    def download_h2(self, server, variant):
        """The same over HTTP/2."""
        return large.download(self, server, variant, "--http2")

    def upload(self, server, variant):
        """CPU seconds of the server for each GB that it hands on to the service."""
        return large.upload(self, server, variant)

    def upload_h2(self, server, variant):
        """The same over HTTP/2."""
        return large.upload(self, server, variant, "--http2")

    def latency(self, server, variant):
        """The 99th percentile in microseconds, at 70 % of the server's full load."""
        return latency.measure(self, server, variant)

    def attested_latency(self, server, variant):
        """The same of attested requests."""
        return latency.measure_attested(self, server, variant)

    def devices_1k(self, server, variant):
        """CPU microseconds for each attested request of 50 devices, of so many that are registered."""
        return growth.measure(self, server, variant, 1_000)

    def devices_100k(self, server, variant):
        """The same."""
        return growth.measure(self, server, variant, 100_000)

    def devices_1m(self, server, variant):
        """The same."""
        return growth.measure(self, server, variant, 1_000_000)

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
        # A machine that is busy with other things may let a short time pass without anything: a longer one then.
        for seconds in (self.seconds, 4 * self.seconds):
            report = self._load(
                server, variant, mode, "--connections", connections, "--warmup", self.warmup, "--duration", seconds,
                *self._pids(server), *arguments, path=path)
            if report.get("requests") or report["errors"]:
                break
        if not report.get("requests") or "server_cpu_seconds" not in report:
            raise Failed(f"{server.name}: nothing was measured in mode {mode}: {report.get('reasons')}", status=1)
        spent = report["server_cpu_seconds_of_each"]
        charged = sum(spent[:server.charged])
        return {
            "value": charged / report["requests"] * 1e6,
            "requests": report["requests"],
            "requests_per_second": report["requests_per_second"],
            "value_of_each": [each / report["requests"] * 1e6 for each in spent],
            "server_share": charged / report["duration_seconds"],
            "load_share": report["own_cpu_seconds"] / report["duration_seconds"],
            "latency_microseconds": report["latency_microseconds"],
            **({"open_loop": report["open_loop"]} if "open_loop" in report else {}),
            **({"proofs": report["proofs"]} if "proofs" in report else {}),
        }

    def _load(self, server, variant, mode, *arguments, path="/bench"):
        return self._finished(
            self._spawn(server, variant, mode, *arguments, stderr=subprocess.DEVNULL, path=path), server, mode)

    def _pids(self, server):
        return [part for worker in server.workers for part in ("--server-pid", worker)]

    def _finished(self, process, server, mode):
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
            # By address: `localhost` is an IPv6 address first on an ordinary machine.
            [self.tool, "--mode", mode, "--certificates", self.certificates, "--quiet", "--json", "--address", f"127.0.0.1:{port}",
             *arguments, f"https://localhost:{port}{path}"],
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
    # Of CPU time: the default divisor of `openssl speed`.
    if process.returncode != 0 or len(rates) != 1 or float(rates[0]) <= 0:
        raise Failed(f"`openssl speed` does not tell how fast it verifies:\n{output}")
    return 1e6 / float(rates[0])
