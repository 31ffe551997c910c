"""Clients that send what is allowed in the way that costs most: it is served as if it had come in an ordinary way."""

import hashlib
import select
import socket
import subprocess
import threading

import pytest

from support.client import Client, IncompleteResponse, get
from support.exposition import scrape
from support.paths import PATIENCE
from support.recording_upstream import OK
from support.waiting import eventually


def test_pipelined_requests_in_one_write_are_all_answered(start_gateway, own_upstream, phone):
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
        # Only then parsed: parsing again for each piece would hold up the reading that is counted.
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


class KeyUpdater:
    """openssl s_client, which asks for key updates at a command, behind a relay that can stop to take what comes back."""

    def __init__(self, gateway, identity):
        self.takes_answers = True
        listener = socket.create_server(("127.0.0.1", 0))
        # s_client obeys one command per read, so each read must give it one: messages, not a stream.
        self.commands, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.output_path = gateway.directory / "s_client.log"
        with listener, theirs, open(self.output_path, "wb") as output:
            self.process = subprocess.Popen(
                ["openssl", "s_client", "-connect", "127.0.0.1:%d" % listener.getsockname()[1], "-servername", "localhost",
                 "-CAfile", gateway.pki.server_ca, "-cert", identity.certificate, "-key", identity.key],
                stdin=theirs, stdout=output, stderr=subprocess.STDOUT)
            listener.settimeout(PATIENCE)
            self.near, _ = listener.accept()
        self.far = socket.socket()
        # Little room here, so that less fills the gateway's.
        self.far.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        # As over a network: with the segments of a loopback the kernel would hold megabytes.
        self.far.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 1400)
        self.far.connect(("127.0.0.1", gateway.port))
        self.relay = threading.Thread(target=self._relay)
        self.relay.start()

    def _relay(self):
        ends = {self.near: self.far, self.far: self.near}
        try:
            while True:
                for end in select.select(list(ends) if self.takes_answers else [self.near], [], [], 0.05)[0]:
                    data = end.recv(65536)
                    if not data:
                        return
                    ends[end].sendall(data)
        except OSError:
            pass

    def is_connected(self):
        """It is said at the end of the handshake: nothing that is needed comes from the gateway after that."""
        return b"Verify return code: 0" in self.output_path.read_bytes()

    def ask(self, count):
        """As many as are taken: a client that cannot send any more reads no commands either."""
        self.commands.setblocking(False)
        try:
            for _ in range(count):
                self.commands.send(b"K\n")
        except BlockingIOError:
            pass

    def close(self):
        self.process.kill()
        self.process.wait()
        self.commands.close()
        for end in (self.near, self.far):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        self.relay.join()
        self.near.close()
        self.far.close()


@pytest.fixture
def key_updater(start_gateway, own_upstream, phone, takes_answers):
    # Where nobody takes the answers the kernel may have no room for them before there are too many: then it is the time that ends.
    gateway = start_gateway(
        {"service": own_upstream.address}, timeouts={"keep_alive": "300s" if takes_answers else "5s"})
    updater = KeyUpdater(gateway, phone)
    yield gateway, updater
    updater.close()


@pytest.mark.parametrize("takes_answers", [True, False])
def test_key_updates_without_end_end_the_connection(key_updater, phone, takes_answers):
    """Each costs work without a request; nor may the answers pile up for a client that reads none."""
    gateway, updater = key_updater
    eventually(updater.is_connected, lambda: f"the handshake: {updater.output_path.read_text()}")
    updater.takes_answers = takes_answers
    connections = lambda: scrape(gateway)("attestgate_connections")
    assert connections() == 1

    def has_ended():
        updater.ask(1_000)
        return connections() == 0
    eventually(has_ended, "the gateway to end the connection", patience=2 * PATIENCE)
    with Client(gateway, phone) as other:
        assert other.exchange(get("/other")).status == 200


def test_a_refused_client_cannot_extend_its_time_with_single_bytes(gateway, connect):
    """The rest of its content is skipped so that the connection can continue, but only for a limited time."""
    client = connect()
    client.send(get("/", "X-Original-URL: /b", "Content-Length: 200", method="POST"))
    assert client.read_response().status == 400
    sent = 0
    with pytest.raises((OSError, IncompleteResponse)):
        while sent < 100:
            client.send(b"x")
            sent += 1
            client.socket.settimeout(0.1)
            try:
                client._more()
            except TimeoutError:
                continue
