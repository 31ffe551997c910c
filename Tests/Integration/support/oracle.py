"""The framing oracle: exact bytes in over TLS, and the service sees the requests that were meant, or none.

What was meant is read by `intended`, what the service sees by `strict`; neither knows the gateway's code.
"""

import socket

from support import intended, strict
from support.client import Client, IncompleteResponse, get, post, tls_context
from support.gateway import Gateway
from support.recording_upstream import OK, RecordingUpstream
from support.waiting import eventually

# In front of an attack, and behind it. The one in front has content, so that its end has to be found.
BEFORE = post("/before", b"GET /inner HTTP/1.1\r\nHost: localhost\r\n\r\n", "Content-Type: text/plain")
BEHIND = get("/behind", "Accept: */*")

DELIVERIES = {
    "in one write": (b"", b""), "byte by byte": (b"", b""), "behind a request": (BEFORE, b""),
    "before a request": (b"", BEHIND), "between two requests": (BEFORE, BEHIND)}

# How much of the end of a long one comes byte by byte: there the limits are.
BYTEWISE = 600


class Oracle:
    """A gateway that forwards whatever it admits, a service behind it, and what compares the two."""

    def __init__(self, directory, pki, phone, **route):
        """`route`: further members of the one that all requests take."""
        self.upstream = RecordingUpstream()
        # So that whatever the service was sent is known when its connection has ended.
        self.upstream.answer = OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
        self.gateway = Gateway(
            directory, pki, {"service": self.upstream.address},
            [{"name": "all", "host": "localhost", "path": "/", "content_limit": intended.CONTENT_LIMIT, **route},
             {"name": "sentinel", "host": "localhost", "path": "/sentinel"}],
            limits={
                "head": intended.HEAD_LIMIT, "target": intended.TARGET_LIMIT, "fields": intended.FIELD_LIMIT,
                "requests_per_connection": 1_000_000_000})
        self.gateway.start()
        self.phone, self.context = phone, tls_context(pki, phone)
        self.sentinel = self._client()
        self.seen = 0

    def _client(self):
        return Client(self.gateway, self.phone, self.context)

    def stop(self):
        self.sentinel.close()
        self.gateway.stop()
        self.upstream.close()

    def check(self, data, delivery="in one write"):
        """Sends the bytes over a connection of their own, and compares. - Returns: what they ask for."""
        before, behind = DELIVERIES[delivery]
        data = self.prepare(before + data + behind)
        reading = self.read(data)
        with self._client() as client:
            if delivery == "byte by byte":
                start = max(0, len(data) - BYTEWISE)
                client.send_while_open(data[:start]).send_while_open(data[start:], bytewise=True)
            else:
                client.send_while_open(data)
            self._check_answers(client, reading)
        self._check_forwarded(reading)
        return reading

    # What an oracle over other routes does differently.

    def prepare(self, data):
        """The bytes as they are sent."""
        return data

    def read(self, data):
        """What is meant by them, as the service is to see it."""
        return intended.read(data)

    def parts(self, reading):
        """The requests of which a part may be forwarded."""
        return [reading.broken] if reading.broken else []

    def _check_answers(self, client, reading):
        for method, status in reading.answers:
            response = self._final_response(client, method)
            assert response.status == status or status is None and response.status in (400, 414, 431), (
                f"{response.status} in place of {status or 'a refusal'}: {reading}")
        if reading.end in ("open", "unfinished"):
            # Nothing more comes; what was answered already stays so. The TLS object is to live on, so below it.
            socket.socket.shutdown(client.socket, socket.SHUT_WR)
        try:
            more = client.read_to_end()
        except IncompleteResponse as end:
            # A client that leaves in the middle receives no close_notify.
            assert reading.end == "unfinished", end
            more = client.buffer
        if reading.broken:
            more = more.removeprefix(b"HTTP/1.1 100 Continue\r\n\r\n")
        # One that stops in the middle of a line may be refused for what it has said so far.
        is_refusal = reading.end == "unfinished" and more.startswith(b"HTTP/1.1 4") and more.count(b"HTTP/1.1 ") == 1
        assert more == b"" or is_refusal, f"more was answered: {more!r}: {reading}"

    def _final_response(self, client, method):
        while True:
            response = client.read_response(method)
            if response.status != 100:
                return response

    def _check_forwarded(self, reading):
        # The gateway has one worker, and has closed the client's connection: nothing of it can come after this.
        assert self.sentinel.exchange(get("/sentinel")).status == 200
        eventually(lambda: self._arrived("/sentinel"), "the service to have read the sentinel")
        connections, self.seen = self.upstream.connections[self.seen:], len(self.upstream.connections)
        eventually(lambda: all(c.is_closed_by_gateway for c in connections), "all connections to the service to end")
        assert self.upstream.faults == []
        requests = [request for c in connections for request in c.requests if request.target != "/sentinel"]
        assert len(requests) == len(reading.requests), f"forwarded were {requests}: {reading}"
        for request, meant in zip(requests, reading.requests):
            compare(request, meant)
            assert request.content == meant.content
        rests = [rest for c in connections if (rest := bytes(c.received[c.consumed:]))]
        parts = self.parts(reading)
        assert len(rests) <= len(parts), f"half a request was forwarded: {rests}: {reading}"
        for rest in rests:
            head = strict.parse_head(rest)[0]
            compare(head, next((part for part in parts if part.target == head.target), parts[0]))

    def _arrived(self, target):
        return any(r.target == target for c in self.upstream.connections[self.seen:] for r in c.requests)


def compare(request, meant):
    """The head as it was forwarded with the one that was meant. The trace, which is another one each time, is `strict`'s."""
    fields = [(name, value) for name, value in request.fields if name != "traceparent"]
    assert (request.method, request.target) == (meant.method, meant.target)
    assert fields == meant.fields
