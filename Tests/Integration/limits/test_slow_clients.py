"""Slow clients by the hundred: each ends in its denial, others are served meanwhile, and nothing of them stays behind."""

import pytest

from support import slow_clients
from support.client import Client, get, tls_context
from support.exposition import scrape
from support.waiting import eventually

# Of each kind: three of handshakes, seven of requests. Thousands are in `test_flood`.
HANDSHAKES, REQUESTS = 50, 20
# What the allocator may keep of a second time beyond what it kept of the first: less than the blocks of the connections.
MARGIN = 8_000_000
# Of a connection in a debug build: TLS, and the blocks that it may hold.
PER_CONNECTION = 200_000
# What is kept of each handshake for its resumption, up to a number that docs/operations/limits.md says.
PER_SESSION = 8_000


class Siege:
    """A gateway that waits only for a moment, an ordinary client of it, and what it had before."""

    def __init__(self, gateway, phone, other):
        self.gateway, self.phone, self.other = gateway, phone, other
        self.context = tls_context(gateway.pki, phone)
        self.set_out()

    def set_out(self):
        self.serve_another()
        self.descriptors, self.memory = self.gateway.descriptors(), self.gateway.resident_bytes()
        self.most, self.sessions = 0, self.count_sessions()

    def count_sessions(self):
        return scrape(self.gateway)("attestgate_sessions")

    def serve_another(self):
        assert self.other.exchange(get("/other")).status == 200

    def open(self, kinds, count):
        made = []
        for _ in range(count):
            made += kinds(self.gateway, self.phone, self.context)
            self.serve_another()
        return made

    def outlast(self, slow):
        """Continues slowly until the gateway has ended every one."""
        left = list(slow)

        def are_ended():
            nonlocal left
            left = [one for one in left if not one.go_on()]
            self.serve_another()
            self.most = max(self.most, self.gateway.resident_bytes())
            return not left
        eventually(are_ended, lambda: f"the last {len(left)} of {len(slow)} to be ended")
        for one in slow:
            one.assert_denied()

    def assert_restored(self, count):
        eventually(
            lambda: self.gateway.descriptors() <= self.descriptors,
            lambda: f"{self.gateway.descriptors()} descriptors to become {self.descriptors}")
        sessions = self.count_sessions() - self.sessions
        kept = self.memory + PER_SESSION * sessions
        grown, most = self.gateway.resident_bytes() - kept, self.most - kept
        print(f"{count} connections, {sessions} sessions: {most} octets more at most, {grown} in the end")
        assert most < MARGIN + count * PER_CONNECTION
        assert grown < MARGIN

    def denials(self, code):
        return scrape(self.gateway)("attestgate_denials_total", code=code)


@pytest.fixture
def siege(start_gateway, own_upstream, phone, request):
    # Where handshakes are to come to their end, there is time for that on a slow machine.
    handshake = "1s" if "handshakes" in request.node.name else "1m"
    gateway = start_gateway(
        {"service": own_upstream.address}, limits={"connections_per_client": 1000},
        timeouts={"handshake": handshake, "head": "1s", "content_idle": "1s", "content_rate": "100KiB/s"})
    with Client(gateway, phone) as other:
        yield Siege(gateway, phone, other)


@pytest.mark.parametrize("kinds, count, code", [
    (slow_clients.half_open, HANDSHAKES, "handshake_timeout"), (slow_clients.stalled, REQUESTS, "request_timeout")],
    ids=["handshakes", "requests"])
def test_hundreds_that_stall_are_denied_in_time_and_leave_nothing(siege, kinds, count, code):
    # A first time, so that what is made once has been made, and the allocator holds what so many need.
    siege.outlast(siege.open(kinds, count))
    siege.set_out()
    before = siege.denials(code)
    slow = siege.open(kinds, count)
    siege.outlast(slow)
    siege.assert_restored(len(slow))
    assert siege.denials(code) == before + len(slow)


def test_hundreds_that_are_reset_leave_nothing(siege):
    def kinds(*arguments):
        return slow_clients.half_open(*arguments) + slow_clients.stalled(*arguments)
    for _ in range(2):
        siege.set_out()
        slow = siege.open(kinds, REQUESTS)
        for one in slow:
            slow_clients.reset(one)
            siege.serve_another()
    siege.assert_restored(len(slow))


@pytest.mark.parametrize("beginning, trickle", [(slow_clients.LONG, b"a"), (slow_clients.CHUNKED, b"1\r\na\r\n")],
                         ids=["length", "chunks"])
def test_endlessly_trickling_content_is_denied(siege, beginning, trickle):
    slow = slow_clients.Slow(siege.gateway, siege.phone, siege.context, beginning, trickle)
    siege.outlast([slow])
    siege.gateway.logged(denial="request_timeout", status=408)
