"""Ports on loopback for what listens later, so that nobody else is given them meanwhile."""

import os
import random
import re
import socket
from pathlib import Path


def reserve_port():
    """A free port on loopback, kept for us: bound but not listening, so that only a SO_REUSEPORT listener of this
    user can share it and no other program is given it."""
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    holder.bind(("127.0.0.1", 0))
    return holder, holder.getsockname()[1]


def uncommon_port():
    """A free port for a listener that shares it with nobody, so that it cannot be kept. It is below the range from which
    the kernel assigns ports. None is given twice, by no process of a run: nothing may listen there yet."""
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    # Of pytest-xdist: gw0, gw1 and so on; none without it.
    process = int(re.sub(r"\D", "", os.environ.get("PYTEST_XDIST_WORKER", "")) or 0)
    own = range(lowest // 2 + process % PROCESSES, lowest, PROCESSES)
    for port in random.sample([port for port in own if port not in given], 100):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                given.add(port)
                return port
            except OSError:
                continue
    raise AssertionError("no port is free")


given = set()
PROCESSES = 16
