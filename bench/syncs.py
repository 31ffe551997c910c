"""What the disk takes."""

import os
import time
from pathlib import Path


def bare_syncs(directory, count=300):
    """Microseconds that each took to make four more KiB of a file durable: what nothing durable can do without."""
    taken = []
    with open(Path(directory) / "bare", "wb", buffering=0) as file:
        for _ in range(count):
            start = time.perf_counter_ns()
            file.write(bytes(4096))
            os.fdatasync(file.fileno())
            taken.append((time.perf_counter_ns() - start) / 1000)
    taken.sort()
    return {"p50": taken[count // 2], "p99": taken[count * 99 // 100]}
