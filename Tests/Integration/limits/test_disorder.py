"""Clients and services that do anything at any moment, many at once: the gateway outlives them and loses nothing."""

import random
import socket
import threading

import pytest

from support import seeds
from support.client import Client, IncompleteResponse, get, post, tls_context
from support.recording_upstream import OK
from support.waiting import eventually

# ATTESTGATE_SEED repeats a run; the order in which threads meet is the system's.
SEED = seeds.seed()
THREADS, VISITS = 8, 120


def served(gateway, phone, request):
    try:
        with Client(gateway, phone) as client:
            return client.exchange(request).status == 200
    except IncompleteResponse:
        return False


def misbehave(connection, chance):
    """One connection of a service that cannot be relied upon."""
    while True:
        what = chance.randrange(12)
        if what == 0:
            return connection.reset()
        connection.read_head()
        if what == 1:
            return connection.reset()
        if what == 2:
            # An answer before the content was read.
            connection.send(OK)
            return None
        request = connection.read_request()
        size = chance.choice([0, 1, 100, 40_000, 300_000])
        content = chance.randbytes(size) if request.method != "HEAD" else b""
        if what == 3:
            return connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n" + content)
        if what == 4:
            connection.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffff\r\n" + content[:1000])
            return connection.reset()
        if what == 5:
            return connection.send(b"rubbish\r\n\r\n")
        if what == 6:
            return connection.send(b"HTTP/1.1 200 OK\r\n\r\n" + content)
        if what == 7 and request.method != "HEAD":
            chunk = b"%x\r\n%s\r\n" % (size, content) if size else b""
            connection.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk + b"0\r\n\r\n")
        else:
            connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + content)


def visit(gateway, phone, context, chance):
    """One visit of a client that cannot be relied upon either."""
    try:
        if chance.randrange(10) == 0:
            with socket.create_connection(("127.0.0.1", gateway.port)) as plain:
                return plain.sendall(chance.randbytes(chance.randrange(1, 2000)))
        with Client(gateway, phone, context=context) as client:
            for _ in range(chance.randrange(1, 6)):
                content = chance.randbytes(chance.choice([1, 1000, 100_000]))
                method = chance.choice(["GET", "HEAD", "POST", "PUT", "DELETE"])
                data, count = chance.choice([
                    lambda: (get("/a", method=method), 1), lambda: (post("/a", content), 1),
                    lambda: (get("/a") * 20, 20),
                    lambda: (get("/a", "Transfer-Encoding: chunked", method="POST")
                             + b"%x\r\n%s\r\n0\r\n\r\n" % (len(content), content), 1),
                ])()
                if chance.randrange(4) == 0:
                    # Gone in the middle of what it says.
                    return client.send(data[:chance.randrange(len(data))])
                client.send(data)
                if chance.randrange(6) == 0:
                    # Gone without listening.
                    return None
                for _ in range(count):
                    client.read_response("HEAD" if data.startswith(b"HEAD") else "GET")
    except (OSError, IncompleteResponse):
        pass


@pytest.mark.parametrize("workers", [1, 3])
def test_random_faults_of_clients_and_services_leave_the_gateway_in_order(start_gateway, own_upstream, phone, workers):
    print(f"seed {SEED}")
    gateway = start_gateway(
        {"service": {"servers": [own_upstream.address], "response_timeout": "2s", "idle_timeout": "1s"}}, workers=workers,
        timeouts={"content_idle": "2s", "head": "2s", "keep_alive": "2s"})
    numbers = iter(range(SEED, SEED + 1_000_000))
    own_upstream.script = lambda connection: misbehave(connection, random.Random(next(numbers)))
    context = tls_context(gateway.pki, phone)
    failures = []

    def visits(index):
        chance = random.Random(SEED + index)
        try:
            for _ in range(VISITS):
                visit(gateway, phone, context, chance)
        except AssertionError as failure:
            failures.append(failure)
    threads = [threading.Thread(target=visits, args=[index]) for index in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert gateway.process.poll() is None, f"seed {SEED}: the gateway ended\n{gateway.errors}"
    assert failures == []
    own_upstream.script = None
    # Connections to the service that were kept may misbehave once more each; when they are used up, all is well.
    for request in (get("/after"), post("/after", b"hello")):
        eventually(lambda: served(gateway, phone, request), "the gateway to serve as if nothing had been")
    eventually(
        lambda: gateway.connections() == 0, lambda: f"the last {gateway.connections()} connections to be closed")
    assert own_upstream.faults == []
