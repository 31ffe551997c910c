"""Whether what is measured is durable: on a sample of requests, a counter's commit is on the disk before the first byte
leaves for the service, as the kernel saw it."""

import subprocess
import sys
import time
from pathlib import Path

from peers import Failed
from preparation import ROOT

sys.path.insert(0, str(ROOT / "Tests" / "Integration"))
from support.commit_order import CALLS, assert_synced_before_forwarded  # noqa: E402: it is where the tests are


def verify(meter, server, directory, count):
    """Traces the gateway as it is measured while one device makes requests, one after the other: so each has a commit of its own.

    - Throws: if a request left before its counter was durable."""
    path = Path(directory) / "trace"
    tracer = subprocess.Popen(
        ["strace", "-f", "-qq", "-y", "-s", "64", "-o", str(path), "-e", CALLS, "-p", str(server.worker)],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        await_attached(tracer, server.worker)
        report = meter._load(
            server, server.variants[0], "attested", "--prepared", meter.fleet, "--connections", 1, "--requests", count,
            "--duration", 60, path="/attested")
    finally:
        tracer.terminate()
        tracer.communicate(timeout=30)
    if report["requests"] != count:
        raise Failed(f"{report['requests']} of {count} attested requests were answered: {report['reasons']}", status=1)
    try:
        assert_synced_before_forwarded(path.read_text(), count, ['"GET /attested'])
    except AssertionError as fault:
        raise Failed(f"the counters of this run are not durable: {fault}", status=1)
    finally:
        path.unlink()


def await_attached(tracer, process):
    for _ in range(300):
        if tracer.poll() is not None:
            raise Failed(f"strace cannot trace the gateway: {tracer.stderr.read()}")
        threads = list(Path(f"/proc/{process}/task").iterdir())
        if all("TracerPid:\t0\n" not in (thread / "status").read_text() for thread in threads):
            return
        time.sleep(0.05)
    raise Failed("strace does not attach to the gateway")
