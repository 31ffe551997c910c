"""Ports on loopback for what listens later, so that nobody else is given them meanwhile."""

import fcntl
import os
import random
import re
import socket
from contextlib import contextmanager
from pathlib import Path


def reserve_port():
    """A free port on loopback, kept for us: bound but not listening, so that only a SO_REUSEPORT listener of this
    user can share it and no other program is given it."""
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    holder.bind(("127.0.0.1", 0))
    port = holder.getsockname()[1]
    holders[port] = holder
    return holder, port


# By port; those that were closed too.
holders = {}

# Moves the descriptors that are the first arguments to 3 and so on, and becomes the command after `--`.
PASS = """
number=3
while [ "$1" != -- ]; do
    eval "exec $number<&$1 $1<&-"
    number=$((number + 1))
    shift
done
shift
LISTEN_PID=$$ exec "$@"
"""


@contextmanager
def passed_sockets(addresses):
    """Listening sockets for a program, as a service manager passes them (sd_listen_fds(3)): for those addresses whose
    ports are reserved.

    `addresses`: and how many sockets of each.
    Yields a function from the program's command to the arguments of Popen that pass them."""
    sockets = []
    try:
        for address, count in addresses:
            host, _, port = address.rpartition(":")
            holder = holders.get(int(port)) if port.isdigit() else None
            if host != "127.0.0.1" or holder is None or holder.fileno() < 0:
                continue
            for _ in range(count):
                made = socket.socket()
                made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
                made.bind((host, int(port)))
                made.listen(4096)
                # Above the numbers that they get, so that none is overwritten before it is moved.
                sockets.append(fcntl.fcntl(made, fcntl.F_DUPFD_CLOEXEC, 200))
                made.close()
        numbers = [str(number) for number in sockets]

        def pass_to(command, environment):
            if not sockets:
                return {"args": command, "env": environment}
            return {
                "args": ["bash", "-c", PASS, "bash", *numbers, "--", *command], "pass_fds": sockets,
                "env": {**environment, "LISTEN_FDS": str(len(sockets))}}
        yield pass_to
    finally:
        for number in sockets:
            os.close(number)


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
