"""What the kernel tells of a process."""

import time
from pathlib import Path

from peers import Failed


def cpu_seconds(process):
    """Of a process with all its threads: what clock_getcpuclockid(3) makes of its id, the kernel's CPUCLOCK_SCHED."""
    return time.clock_gettime(~process << 3 | 2)


def proportional_set_size(process):
    """In KiB: pages shared with others count in part."""
    for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1])
    raise Failed(f"no proportional set size of process {process}")
