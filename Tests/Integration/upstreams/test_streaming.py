"""Large content in both directions, and peers that are slow to take it: the gateway never holds much, nor loses any."""

import hashlib
import random
import threading
import time

import pytest

from support.client import Client, IncompleteResponse, get
from support.denials import assert_denied
from support.recording_upstream import OK, Gone
from support.waiting import eventually

MEGABYTE = 1_000_000
# What the gateway may grow by while one side does not read: some blocks, and what the allocator keeps.
GROWTH = 24 * MEGABYTE
BLOCK = hashlib.shake_128(b"block").digest(MEGABYTE)


def everything(prefix="/"):
    return [{"name": "all", "host": "localhost", "path": prefix, "content_limit": "1GiB"}]


class Standstill:
    """Tells when a count has not changed for a while. When that is decides nothing: the memory is looked at all along,
    and what was sent by then is compared with a bound that only a gateway without limits would exceed."""

    def __init__(self, gateway, progress):
        self.gateway, self.progress = gateway, progress
        self.bound = gateway.resident_bytes() + GROWTH
        self.last, self.since = -1, 0.0

    def check_memory(self):
        resident = self.gateway.resident_bytes()
        assert resident < self.bound, f"{resident} bytes after {self.progress()} were sent"

    def __call__(self):
        self.check_memory()
        now = self.progress()
        if now != self.last or now == 0:
            self.last, self.since = now, time.monotonic()
        return time.monotonic() > self.since + 0.5


def test_a_client_that_does_not_read_stops_its_upstream(start_gateway, own_upstream, phone):
    gateway = start_gateway({"service": own_upstream.address})
    total = 200
    sent = []

    def script(connection):
        if connection.read_request().target != "/large":
            return connection.send(OK)
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (total * MEGABYTE))
        for _ in range(total):
            connection.send(BLOCK)
            sent.append(MEGABYTE)
    own_upstream.script = script
    with Client(gateway, phone) as other, Client(gateway, phone, receive_buffer=65536) as client:
        standstill = Standstill(gateway, lambda: sum(sent))
        client.send(get("/large"))
        eventually(standstill, "the upstream to be stopped")
        assert sum(sent) < total * MEGABYTE / 2
        # Other clients of the same worker are unharmed meanwhile.
        assert other.exchange(get("/meanwhile")).status == 200
        client.read_head()
        for _ in range(total):
            assert client._exactly(MEGABYTE) == BLOCK
            standstill.check_memory()


def test_an_upstream_that_does_not_read_stops_its_client(start_gateway, own_upstream, phone):
    gateway = start_gateway({"service": own_upstream.address}, everything())
    total = 200
    may_read = threading.Event()
    digest = hashlib.sha256()

    def script(connection):
        head = connection.read_head()
        if head.target != "/large":
            return connection.send(OK)
        may_read.wait(60)
        data, left = connection.content_behind(head), total * MEGABYTE
        while True:
            digest.update(data)
            left -= len(data)
            if not left:
                return connection.send(OK)
            data = connection.socket.recv(MEGABYTE)
            if not data:
                return
    own_upstream.script = script
    with Client(gateway, phone) as client, Client(gateway, phone) as other:
        blocks = [get("/large", f"Content-Length: {total * MEGABYTE}", method="POST")] + [BLOCK] * total
        sent = [0]

        def each():
            for block in blocks:
                # In bites, so that what was sent when it stopped is known exactly enough.
                for start in range(0, len(block), 16_000):
                    sent[0] = sent[0] + len(block[start:start + 16_000])
                    yield block[start:start + 16_000]
        bites = each()
        standstill = Standstill(gateway, lambda: sent[0])
        # The bite that did not go is the first of the rest.
        whole = b"".join(blocks)
        gone = client.pump(bites, stop=standstill)
        assert gone < total * MEGABYTE / 2
        assert other.exchange(get("/meanwhile")).status == 200
        may_read.set()
        gone += client.pump([memoryview(whole)[gone:]], stop=lambda: standstill.check_memory())
        assert gone == len(whole)
        assert client.read_response().status == 200
        standstill.check_memory()
    expected = hashlib.sha256()
    for _ in range(total):
        expected.update(BLOCK)
    assert digest.digest() == expected.digest()


@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_content_of_any_size_arrives_whole_at_a_slow_upstream(start_gateway, own_upstream, phone, framing):
    """Sizes around those of the gateway's blocks, taken in small bites: no last piece may stay behind."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    gateway = start_gateway({"service": own_upstream.address}, everything())

    def script(connection):
        try:
            while True:
                request = connection.read_head()
                while len(connection.received) - connection.consumed < len(request.head) + 1:
                    connection.receive(chance.choice([1, 100, 4096]))
                request = connection.read_request()
                connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 32\r\n\r\n" + hashlib.sha256(request.content).digest())
        except Gone:
            pass
    own_upstream.script = script
    block = 32 * 1024
    sizes = [1, block - 1, block, block + 1, 2 * block, 3 * block - 12, 10 * block + 5, 100 * block, 8 * MEGABYTE]
    sizes += [chance.randrange(1, 40 * block) for _ in range(20)]
    with Client(gateway, phone) as client:
        for size in sizes:
            content = chance.randbytes(size)
            if framing == "length":
                client.send(get("/", f"Content-Length: {size}", method="POST") + content)
            else:
                client.send(get("/", "Transfer-Encoding: chunked", method="POST"))
                position = 0
                while position < size:
                    part = content[position:position + chance.choice([1000, 30_000, 200_000])]
                    client.send(b"%x\r\n%s\r\n" % (len(part), part))
                    position += len(part)
                client.send(b"0\r\n\r\n")
            response = client.read_response()
            assert (response.status, response.content) == (200, hashlib.sha256(content).digest()), f"size {size}"


def test_an_upload_may_take_longer_than_the_service_may_take_to_answer(start_gateway, own_upstream, phone):
    """The service's timeout begins when it has the request."""
    for limit in (300, 3_000, 10_000):
        # Short, so that the test is; longer if the machine was so slow that the answer came too late.
        gateway = start_gateway({"service": {"servers": [own_upstream.address], "response_timeout": f"{limit}ms"}})
        with Client(gateway, phone) as client:
            client.send(get("/", "Content-Length: 10", method="POST"))
            for _ in range(10):
                # The longer this takes the better, so it does not matter how precise it is.
                threading.Event().wait(0.3 * limit / 1_000)
                client.send_while_open(b"x")
            if client.read_response().status == 200:
                return
    pytest.fail("the time to answer begins before the request is complete")


def test_an_upload_may_pause_longer_than_the_service_after_an_early_response(start_gateway, own_upstream, phone):
    """A service that answers while it reads waits for the client."""
    def script(connection):
        head = connection.read_head()
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n")
        seen = 0
        while seen < 10:
            content = connection.content_behind(head)
            connection.send(content[seen:])
            seen = len(content)
            if seen < 10:
                connection.receive()
    own_upstream.script = script
    for limit in (300, 3_000, 10_000):
        # Short, so that the test is; longer if the machine was so slow that the service was late.
        gateway = start_gateway({"service": {"servers": [own_upstream.address], "content_timeout": f"{limit}ms"}})
        with Client(gateway, phone) as client:
            client.send(get("/", "Content-Length: 10", method="POST") + b"he")
            assert client.read_head().status == 200
            assert client._exactly(2) == b"he"
            for part in (b"llo ", b"back"):
                # The longer this takes the better.
                threading.Event().wait(2 * limit / 1_000)
                client.send_while_open(part)
            try:
                assert client._exactly(8) == b"llo back"
                return
            except IncompleteResponse:
                pass
    pytest.fail("the service's time runs while it waits for the client")


def test_a_service_that_takes_no_content_any_more_is_upstream_timeout(start_gateway, own_upstream, phone):
    gateway = start_gateway({"service": {"servers": [own_upstream.address], "response_timeout": "500ms"}}, everything())
    ended = threading.Event()

    def script(connection):
        connection.read_head()
        ended.wait(60)
    own_upstream.script = script
    with Client(gateway, phone) as client:
        client.pump([get("/", f"Content-Length: {100 * MEGABYTE}", method="POST"), *[BLOCK] * 100])
        assert_denied(gateway, client.read_response(), "upstream_timeout", 504)
    ended.set()


def test_a_client_that_takes_nothing_is_cut_off_and_others_are_served(start_gateway, own_upstream, phone):
    gateway = start_gateway({"service": own_upstream.address}, timeouts={"content_idle": "500ms"})
    total = 100

    def script(connection):
        request = connection.read_request()
        if request.target != "/large":
            return connection.send(OK)
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (total * MEGABYTE))
        for _ in range(total):
            connection.send(BLOCK)
    own_upstream.script = script
    with Client(gateway, phone, receive_buffer=65536) as slow, Client(gateway, phone) as other:
        slow.send(get("/large"))

        def is_cut_off():
            assert other.exchange(get("/other")).status == 200
            return any(entry.get("aborted") for entry in gateway.access())
        eventually(is_cut_off, "the slow client to be cut off")
        slow.read_head()
        with pytest.raises(IncompleteResponse):
            slow._exactly(total * MEGABYTE)
        large = next(c for c in own_upstream.connections if c.requests[0].target == "/large")
        eventually(lambda: large.is_closed_by_gateway, "the upstream to be left")


def test_a_disconnected_clients_upstream_request_is_aborted(start_gateway, own_upstream, phone):
    gateway = start_gateway({"service": own_upstream.address})

    def script(connection):
        connection.read_request()
        connection.wait_for_end()
    own_upstream.script = script
    client = Client(gateway, phone)
    client.send(get("/"))
    own_upstream.wait_for_requests(1)
    client.close()
    eventually(lambda: own_upstream.connections[0].is_closed_by_gateway, "the upstream to be left")
    assert gateway.logged(aborted=True)["event"] == "request"


@pytest.mark.parametrize("beginning", [
    get("/", "Content-Length: 1000", method="POST") + b"hello",
    get("/", "Transfer-Encoding: chunked", method="POST") + b"5\r\nhello\r\n"], ids=["length", "chunked"])
def test_an_aborted_request_does_not_close_its_connection_in_order(start_gateway, own_upstream, phone, beginning):
    """Some services take the end of the connection for the end of the content."""
    gateway = start_gateway({"service": own_upstream.address})
    client = Client(gateway, phone)
    client.send(beginning)
    eventually(lambda: own_upstream.connections and b"hello" in own_upstream.connections[0].received, "the content to arrive")
    client.close()
    eventually(lambda: own_upstream.connections[0].is_closed_by_gateway, "the upstream to be left")
    assert own_upstream.connections[0].is_broken and own_upstream.requests == []
