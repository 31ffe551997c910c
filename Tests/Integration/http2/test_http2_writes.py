"""What leaves on a connection of HTTP/2 leaves together: many answers that are there at the same time are few writes."""

import re
import threading
from pathlib import Path

from support.http2_client import HTTP2Client
from support.recording_upstream import OK
from support.waiting import eventually

MANY = 50
# libevent takes 32 events at a time to begin with. A write for each turn, and some for what else there is to say.
FEW = 8


def waiting_answers(port):
    """Connections to that port whose own end has received what it has not read."""
    def is_one(line):
        _, local, remote, _, queues = line.split()[:5]
        return int(remote.split(":")[1], 16) == port and int(queues.split(":")[1], 16) > 0
    return sum(is_one(line) for line in Path("/proc/net/tcp").read_text().splitlines()[1:])


def test_responses_ready_together_are_sent_in_few_writes(start_gateway, own_upstream, phone, tmp_path):
    gateway = start_gateway({"service": own_upstream.address})
    are_released = threading.Event()

    def answer(_):
        are_released.wait(60)
        return OK
    own_upstream.answer = answer
    with HTTP2Client(gateway, phone) as http2:
        numbers = [http2.start("GET", f"/{number}") for number in range(MANY)]
        own_upstream.wait_for_requests(MANY)
        with gateway.traced(tmp_path / "trace", "-e", "trace=write"):
            # All of them are ready in the same turn of its loop.
            with gateway.paused():
                are_released.set()
                eventually(lambda: waiting_answers(own_upstream.port) == MANY, "every answer to wait for the gateway")
            assert [http2.response(number).status for number in numbers] == [200] * MANY
        # Records of TLS; the log, and what wakes threads, is no such.
        writes = re.findall(r'write\(\d+, "\\27\\3\\3', (tmp_path / "trace").read_text())
        assert 1 <= len(writes) <= FEW, len(writes)
