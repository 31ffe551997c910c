"""Clients that send what is allowed in the way that costs most: it is served as if it had come in an ordinary way."""

import hashlib
import threading

from client import Client, get
from recording_upstream import OK


def test_requests_sent_ahead_in_one_go_are_all_answered(start_gateway, own_upstream, phone):
    """OpenSSL takes more from the socket than the request at hand. What it holds makes no socket readable, so nobody but
    the gateway itself can remember it."""
    gateway = start_gateway({"service": own_upstream.address})
    # The sizes of the TLS records: a short one, so that the others lie across the ends of what OpenSSL reads at once.
    records = [200, 16_384, 16_384]
    count = 4
    pad = sum(records) // count - len(get("/1", "X-Pad: "))
    ahead = b"".join(get(f"/{index}", "X-Pad: " + "a" * pad) for index in range(1, count + 1))
    assert len(ahead) == sum(records)
    may_answer = threading.Event()

    def answer(request):
        if request.target == "/0":
            may_answer.wait(60)
        return OK
    own_upstream.answer = answer
    with Client(gateway, phone) as client:
        client.send(get("/0"))
        own_upstream.wait_for_requests(1)
        with gateway.paused():
            position = 0
            for size in records:
                client.send(ahead[position:position + size])
                position += size
            client.wait_until_delivered()
        # They came while the first was under way: what makes room for them is the service's answer, nothing of the client.
        may_answer.set()
        for index in range(count + 1):
            response = client.read_response()
            assert (response.status, response.content) == (200, b"ok"), f"request {index}"
    assert [request.target for request in own_upstream.requests] == [f"/{index}" for index in range(count + 1)]


def test_chunks_of_one_byte_reach_the_service_in_few_pieces(start_gateway, own_upstream, phone):
    gateway = start_gateway({"service": own_upstream.address})
    content = hashlib.shake_128(b"chunks").digest(20_000)

    def script(connection):
        # Only then parsed: parsing anew for each piece would hold up the reading that is counted.
        while not connection.received.endswith(b"0\r\n\r\n"):
            connection.receive()
        connection.read_request()
        connection.send(OK)
    own_upstream.script = script
    with Client(gateway, phone) as client:
        chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in content)
        response = client.exchange(get("/", "Transfer-Encoding: chunked", method="POST") + chunks + b"0\r\n\r\n")
        assert response.status == 200
    assert own_upstream.last_request().content == content
    assert own_upstream.connections[0].reads < 1_000
