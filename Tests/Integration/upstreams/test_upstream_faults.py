"""Every fault of a health service, in one table: what its client sees, what metrics and log say of it. Another client of the same
worker is served meanwhile, and nothing of it stays behind.

How many spellings a malformed answer has is in `test_response_attacks`; several servers are in `test_upstream_servers`.
"""

import contextlib
import re
import select
import socket
import threading
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Callable, Optional, Union

import pytest

from support.client import Client, IncompleteResponse, get, post
from support.denials import assert_denied
from support.exposition import scrape
from support.gateway import Gateway
from support.paths import PATIENCE
from support.recording_upstream import OK, RecordingUpstream
from support.waiting import eventually



@dataclass(frozen=True)
class Denied:
    code: str
    status: int


@dataclass(frozen=True)
class Cut:
    """A response that began well and cannot be taken for a whole one; the code is the log's."""

    code: str


@dataclass(frozen=True)
class Whole:
    status: int
    content: bytes


UNAVAILABLE, TIMEOUT = Denied("upstream_unavailable", 502), Denied("upstream_timeout", 504)
CUT, CUT_LATE = Cut("upstream_unavailable"), Cut("upstream_timeout")

# What a service says.
HALF = b"HTTP/1.1 200 OK\r\nContent-Le"
SIZED = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"
UNTIL_CLOSE = b"HTTP/1.1 200 OK\r\n\r\nnot all of it"
INTERIM = b"HTTP/1.1 102 Processing\r\n\r\n"
POISON = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison"
REFUSAL = b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno"
UPGRADE = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n"

BLOCK = bytes(100_000)
UPLOAD = get("/faulty", f"Content-Length: {1000 * len(BLOCK)}", method="POST")


# What it does when it has said that.

def close(connection):
    pass


def reset(connection):
    connection.reset()


def hang(connection):
    connection.wait_for_end()


def stall(connection):
    """Reads nothing, until the connection is no longer established (linux/tcp.h)."""
    eventually(lambda: connection.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] != 1, "the gateway to leave")


def say(data):
    def then(connection):
        connection.send(data)
        connection.wait_for_end()
    return then


def dribble(data):
    """Octet by octet, until nobody listens any more."""
    def then(connection):
        while True:
            connection.send(data)
            time.sleep(0.02)
    return then


def close_reading(connection):
    """In order: it listens until the other side has understood."""
    connection.socket.shutdown(socket.SHUT_WR)
    connection.wait_for_end()


def close_at_the_next_request(connection):
    connection.receive(1)


def reset_at_the_next_request(connection):
    connection.receive(1)
    connection.reset()


@dataclass
class Fault:
    """`sees`: by the client; `kind`: in `attestgate_upstream_failures_total`, None if the request has not failed."""

    name: str
    said: bytes
    then: Callable
    sees: Union[Denied, Cut, Whole]
    kind: Optional[str]
    request: bytes = get("/faulty")
    # Of a service that has the request's head; else it has read all of it.
    is_early: bool = False
    # Of a connection that has served a request before.
    is_kept: bool = False

    @property
    def is_cut(self):
        return isinstance(self.sees, Cut)

    @property
    def upstream(self):
        """By the path."""
        return {"faulty": "bad"}.get(name := re.search(rb"/(\w+)", self.request)[1].decode(), name)


FAULTS = [
    # It cannot be reached: further upstreams of the gateway.
    Fault("refuses the connection", b"", close, UNAVAILABLE, "unreachable", get("/refusing")),
    Fault("does not accept the connection", b"", close, TIMEOUT, "connect_timeout", get("/full")),
    # Before there is a head.
    Fault("closes without an answer", b"", close, UNAVAILABLE, "disconnected"),
    Fault("resets without an answer", b"", reset, UNAVAILABLE, "disconnected"),
    Fault("closes when it has the content", b"", close, UNAVAILABLE, "disconnected", post("/faulty", b"hello")),
    Fault("closes in the middle of the head", HALF, close, UNAVAILABLE, "disconnected"),
    Fault("resets in the middle of the head", HALF, reset, UNAVAILABLE, "disconnected"),
    Fault("closes after an interim response", INTERIM, close, UNAVAILABLE, "disconnected"),
    Fault("sends garbage", b"\x00\x01\x02 what is this\r\n\r\n", hang, UNAVAILABLE, "malformed"),
    Fault("speaks TLS", b"\x15\x03\x01\x00\x02\x02\x46\r\n", hang, UNAVAILABLE, "malformed"),
    Fault("sends a head without an end", b"HTTP/1.1 200 OK\r\nX: " + b"a" * 40_000, hang, UNAVAILABLE, "malformed"),
    Fault("sends interim responses without an end", INTERIM * 17, hang, UNAVAILABLE, "malformed"),
    Fault("switches protocols unasked", UPGRADE, hang, UNAVAILABLE, "unexpected_upgrade"),
    Fault("says two lengths", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 6\r\n\r\npoison", hang, UNAVAILABLE,
          "malformed"),
    Fault("never answers", b"", hang, TIMEOUT, "response_timeout"),
    Fault("stops in the middle of the head", HALF, hang, TIMEOUT, "response_timeout"),
    Fault("sends its head octet by octet", HALF + b"ngth: 2\r\nX: ", dribble(b"a"), TIMEOUT, "response_timeout"),
    Fault("stops after an interim response", INTERIM, hang, TIMEOUT, "response_timeout"),
    # Behind the head: the client has it, and must not take the rest for a whole.
    Fault("closes in the middle of the content", SIZED, close, CUT, "disconnected"),
    Fault("resets in the middle of the content", SIZED, reset, CUT, "disconnected"),
    Fault("closes before the last chunk", CHUNKED, close, CUT, "disconnected"),
    Fault("closes within a chunk", CHUNKED + b"50\r\nhello", close, CUT, "disconnected"),
    Fault("resets content that lasts until it closes", UNTIL_CLOSE, reset, CUT, "disconnected"),
    Fault("sends garbage for a chunk", CHUNKED, say(b"0x5\r\nhello\r\n"), CUT, "malformed"),
    Fault("sends chunk sizes beyond all numbers", CHUNKED, say(b"f" * 17 + b"\r\n"), CUT, "malformed"),
    Fault("stops in the middle of the content", SIZED, hang, CUT_LATE, "response_timeout"),
    Fault("stops between chunks", CHUNKED, hang, CUT_LATE, "response_timeout"),
    # It says less than it sends; what is behind the end is for nobody.
    Fault("sends more than it says", OK + POISON, hang, Whole(200, b"ok"), None),
    Fault("sends content with HEAD", POISON, hang, Whole(200, b""), None, get("/faulty", method="HEAD")),
    Fault("sends content with 204", b"HTTP/1.1 204 No Content\r\n\r\n" + POISON, hang, Whole(204, b""), None),
    # It closes a kept connection at the worst moment: what is on its way there is sent once more, if that does no harm.
    Fault("closes a kept connection at the next request", b"", close_at_the_next_request, Whole(200, b"ok"), None, is_kept=True),
    Fault("resets a kept connection at the next request", b"", reset_at_the_next_request, Whole(200, b"ok"), None, is_kept=True),
    Fault("closes a kept connection at what may not be repeated", b"", close_at_the_next_request, UNAVAILABLE, "disconnected",
          post("/faulty", b"hello"), is_kept=True),
    # While the request is still under way.
    Fault("takes no content", b"", stall, TIMEOUT, "response_timeout", UPLOAD, is_early=True),
    Fault("answers early, and stops when it has all", SIZED, hang, CUT_LATE, "response_timeout", post("/faulty", b"hello"),
          is_early=True),
    Fault("resets in the middle of the upload", b"", reset, UNAVAILABLE, "disconnected", UPLOAD, is_early=True),
    Fault("refuses in the middle of the upload", REFUSAL, close_reading, Whole(413, b"no"), None, UPLOAD, is_early=True),
]


class Scene:
    """One worker before a bad service and a good one, and a client of the good one."""

    def __init__(self, directory, pki, phone, refusing, full):
        self.phone, self.bad, self.good = phone, RecordingUpstream(), RecordingUpstream()
        moment = {"connect_timeout": "300ms", "response_timeout": "300ms"}
        services = {"good": ("/", [self.good.address], {}), "bad": ("/faulty", [self.bad.address], moment),
                    "refusing": ("/refusing", [refusing], moment), "full": ("/full", [full], moment)}
        self.gateway = Gateway(
            directory, pki, {name: {"servers": servers, **times} for name, (_, servers, times) in services.items()},
            [{"name": name, "host": "localhost", "path": path, "upstream": name, "content_limit": "1GiB"}
             for name, (path, _, _) in services.items()],
            timeouts={"keep_alive": "600s"}).start()
        self.other, self.served = Client(self.gateway, phone), 0
        self.serve_another()
        self.is_heard = threading.Event()

    def close(self):
        self.other.close()
        self.gateway.stop()
        self.bad.close()
        self.good.close()

    def serve_another(self):
        assert self.other.exchange(get("/other")).content == b"ok"
        self.served += 1

    def await_answer(self, victim):
        """Others are served until something has come for the victim, and a little longer."""
        self.served = 0
        while self.served < 3 or not (victim.buffer or select.select([victim.socket], [], [], 0)[0]):
            self.serve_another()

    def set_up(self, fault):
        self.is_heard.clear()

        def script(connection):
            if fault.is_kept:
                connection.read_request()
                connection.send(OK)
            else:
                connection.read_head() if fault.is_early else connection.read_request()
                connection.send(fault.said)
            if fault.is_cut:
                self.is_heard.wait(PATIENCE)
            fault.then(connection)
        self.bad.script = script

    def figures(self):
        metrics = scrape(self.gateway)
        return {
            "descriptors": self.gateway.descriptors(), "sockets": self.gateway.connections(),
            "blocks": metrics("attestgate_buffer_blocks", state="used"), "clients": metrics("attestgate_connections"),
            "to services": metrics("attestgate_upstream_connections")}

    def assert_restored(self, before):
        # The service leaves, too, as far as it is still there.
        for connection in self.bad.connections:
            with contextlib.suppress(OSError):
                connection.socket.shutdown(socket.SHUT_RDWR)
        self.bad.connections.clear()
        eventually(lambda: all(now <= before[name] for name, now in self.figures().items()),
                   lambda: f"{self.figures()} to become {before}")

    def failures(self):
        """Upstream, kind -> how many requests failed so."""
        metrics, name = scrape(self.gateway), "attestgate_upstream_failures_total"
        return Counter({(each["upstream"], each["kind"]): metrics(name, **each) for each in metrics.labels(name)})


@pytest.fixture(scope="module")
def scene(pki, phone, tmp_path_factory):
    # Bound and not listening: nobody else can take the port meanwhile.
    with socket.socket() as nobody, socket.create_server(("127.0.0.1", 0), backlog=0) as full, ExitStack() as waiting:
        nobody.bind(("127.0.0.1", 0))
        # Once its queue is full the kernel answers further connections with silence.
        with contextlib.suppress(TimeoutError):
            while True:
                one = waiting.enter_context(socket.socket())
                one.settimeout(0.5)
                one.connect(full.getsockname())
        made = Scene(
            tmp_path_factory.mktemp("scene"), pki, phone, *("127.0.0.1:%d" % s.getsockname()[1] for s in (nobody, full)))
        yield made
        made.close()


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_each_upstream_fault_gives_its_denial_and_affects_no_other_request(scene, phone, fault):
    gateway = scene.gateway
    scene.set_up(fault)
    before, failed, lines = scene.figures(), scene.failures(), len(gateway.access())
    with Client(gateway, phone) as victim:
        if fault.is_kept:
            assert victim.exchange(get("/faulty")).status == 200
        if fault.request is UPLOAD:
            victim.pump([fault.request, *[BLOCK] * 1000], stop=lambda: scene.serve_another() or False)
        else:
            victim.send(fault.request)
        scene.await_answer(victim)
        if fault.is_cut:
            assert victim.read_head().status == 200
            scene.is_heard.set()
            with pytest.raises(IncompleteResponse):
                victim.read_to_end()
                raise AssertionError("the response came to an end in order")
        elif isinstance(fault.sees, Denied):
            assert_denied(gateway, victim.read_response(), fault.sees.code, fault.sees.status)
        else:
            response = victim.read_response(fault.request.split(b" ")[0].decode())
            assert (response.status, response.content) == (fault.sees.status, fault.sees.content)
            if not fault.is_early:
                # Of what came behind, the next request gets nothing.
                scene.bad.script = None
                assert victim.exchange(get("/faulty")).content == b"ok"
    entries = eventually(
        lambda: [e for e in gateway.access()[lines:] if "denial" in e] or not fault.kind,
        "the fault to be logged")
    if fault.kind:
        entry, = entries
        assert (entry["decision"], entry["fault"], entry["upstream"]) == ("forwarded", "upstream", fault.upstream), entry
        if fault.is_cut:
            assert (entry["denial"], entry["status"], entry["aborted"]) == (fault.sees.code, 200, True), entry
    assert scene.failures() - failed == Counter({(fault.upstream, fault.kind): 1} if fault.kind else {})
    scene.assert_restored(before)


CLOSINGS = ["with the answer", "after the answer", "on the next request", "by a reset"]


@pytest.mark.parametrize("when", CLOSINGS)
def test_a_service_that_closes_at_the_worst_moment_fails_nothing_idempotent(start_gateway, own_upstream, phone, when):
    gateway = start_gateway({"service": {"servers": [own_upstream.address]}})

    def script(connection):
        connection.read_request()
        connection.send(OK)
        if when == "after the answer":
            connection.socket.shutdown(socket.SHUT_WR)
            connection.wait_for_end()
        elif when == "on the next request":
            connection.receive(1)
        elif when == "by a reset":
            connection.reset()
    own_upstream.script = script
    with Client(gateway, phone) as client:
        for number in range(40):
            assert client.exchange(get(f"/{number}")).status == 200
    # One that was read in part was not carried out here; the service tells of those that were.
    assert len({r.target for r in own_upstream.requests}) == 40


def test_ten_gigabytes_cost_a_block_of_memory_and_go_at_the_clients_rate(scene, phone):
    gateway, sent = scene.gateway, []

    def script(connection):
        connection.read_request()
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10000000000\r\n\r\n")
        block = bytes(1_000_000)
        with contextlib.suppress(OSError):
            for _ in range(10_000):
                connection.send(block)
                sent.append(len(block))
    scene.bad.script = script
    before, memory = scene.figures(), gateway.resident_bytes()
    with Client(gateway, phone, receive_buffer=65536) as slow:
        slow.send(get("/faulty"))
        slow.read_head()
        taken, scene.served = 0, 0
        while taken < 20_000_000:
            slow._more()
            taken, slow.buffer = taken + len(slow.buffer), b""
            # Sockets hold some megabytes; the gateway holds next to nothing.
            assert gateway.resident_bytes() < memory + 24_000_000
            if taken > scene.served * 1_000_000:
                scene.serve_another()
        assert sum(sent) < taken + 40_000_000
        blocks = scrape(gateway)("attestgate_buffer_blocks", state="used")
        assert blocks <= before["blocks"] + 3, "the head, what came of the service, what goes to the client"
    # The client has left: so does the gateway.
    gateway.logged(route="bad", status=200, aborted=True)
    scene.assert_restored(before)
