"""What the kernel tells of a process."""

import re
import time
from pathlib import Path

from peers import Failed


def cpu_seconds(process):
    """Of a process with all its threads: what clock_getcpuclockid(3) makes of its id, the kernel's CPUCLOCK_SCHED."""
    return time.clock_gettime(~process << 3 | 2)


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
