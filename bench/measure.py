"""Single measurements: one load, one server, one number."""

import json
import signal
import subprocess
import time
from pathlib import Path

from peers import Failed, spawn


class Meter:
    def __init__(self, tool, certificates, core, seconds, warmup, idle_connections):
        self.tool = tool
        self.certificates = certificates
        self.core = core
        self.seconds = seconds
        self.warmup = warmup
        self.idle_connections = idle_connections
        self.failures = []

    def keepalive(self, server, variant):
        """CPU microseconds of the server for each request on kept connections."""
        return self._per_request(server, variant, "mtls", connections=50)

    def handshake(self, server, variant):
        """CPU microseconds of the server for each full handshake and the one request that follows it."""
        return self._per_request(server, variant, "handshake", connections=20)

    def resumed(self, server, variant):
        """CPU microseconds of the server for each resumed handshake and the one request that follows it."""
        return self._per_request(server, variant, "resumed", connections=20)

    def idle(self, server, variant):
        """KiB by which the server's proportional set size grows for each idle connection."""
        server.stop()
        server.start()
        # What is allocated once, at the first request, is no connection's.
        self._load(server, variant, "mtls", "--connections", 10, "--warmup", 0, "--duration", 0.5)
        time.sleep(0.5)
        before = proportional_set_size(server.worker)
        holder = self._spawn(
            server, variant, "idle", "--connections", self.idle_connections, "--hold", 60, stderr=subprocess.PIPE)
        try:
            line = holder.stderr.readline()
            if not line.startswith(b"holding"):
                raise Failed(f"{server.name}: idle connections do not stand: {line.decode(errors='replace')}", status=1)
            time.sleep(0.5)
            growth = proportional_set_size(server.worker) - before
        finally:
            holder.send_signal(signal.SIGTERM)
            output, _ = holder.communicate(timeout=30)
        report = self._check(server, "idle", holder.returncode, output)
        return {"value": growth / self.idle_connections, "requests": report["requests"]}

    def _per_request(self, server, variant, mode, connections):
        report = self._load(
            server, variant, mode, "--connections", connections, "--warmup", self.warmup, "--duration", self.seconds,
            "--server-pid", server.worker)
        if not report.get("requests") or "server_cpu_seconds" not in report:
            raise Failed(f"{server.name}: nothing was measured in mode {mode}: {report.get('reasons')}", status=1)
        return {
            "value": report["server_cpu_seconds"] / report["requests"] * 1e6,
            "requests": report["requests"],
            "requests_per_second": report["requests_per_second"],
            "server_share": report["server_cpu_seconds"] / report["duration_seconds"],
            "load_share": report["own_cpu_seconds"] / report["duration_seconds"],
            "latency_microseconds": report["latency_microseconds"],
        }

    def _load(self, server, variant, mode, *arguments):
        process = self._spawn(server, variant, mode, *arguments, stderr=subprocess.DEVNULL)
        try:
            output, _ = process.communicate(timeout=self.seconds + self.warmup + 60)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        return self._check(server, mode, process.returncode, output)

    def _spawn(self, server, variant, mode, *arguments, stderr):
        port = server.ports[variant]
        return spawn(
            [self.tool, "--mode", mode, "--certificates", self.certificates, "--quiet", "--json", *arguments,
             f"https://localhost:{port}/bench"],
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


def proportional_set_size(process):
    """In KiB: pages shared with others count in part."""
    for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1])
    raise Failed(f"no proportional set size of process {process}")
