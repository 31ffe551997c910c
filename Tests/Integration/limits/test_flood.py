"""Slow clients by the thousand: each ends in its denial, others are served meanwhile, and nothing of them stays behind."""

import json
import ssl
import threading

import pytest

from support import slow_clients
from support.attested import Attested
from support.client import Client, get, tls_context
from support.exposition import scrape
from support.flood import Flood, Kind, Service, allow_descriptors
from support.waiting import eventually

# How many of each kind.
SILENT, HELLOS, HEADS, CONTENTS, DEAF = 3_000, 3_000, 2_000, 1_000, 1_000
TOTAL = SILENT + HELLOS + HEADS + CONTENTS + DEAF
# Here a socket for each; there one more for each that is forwarded.
DESCRIPTORS = TOTAL + DEAF + 500
# A second time a part of them: what the process makes once for all is made then.
PART = 5
# For each of these: a fraction of what one alone takes that is not closed.
LEFT_PER_CONNECTION = 5_000
# For all of them, after both times. Without giving memory back it was 250 MB.
LEFT_IN_ALL = 120_000_000
# What is kept of a handshake for its resumption; docs/operations/limits.md says up to how many.
PER_SESSION = 8_000
# More than the kernel holds for a connection (net.ipv4.tcp_wmem), however fast it seemed.
LARGE = 16_000_000


class Honest:
    """A client that is no part of the flood: a request on its connection, or on a new one, whenever it is asked."""

    def __init__(self, attested, context, session):
        self.attested, self.context, self.session = attested, context, session
        self.kept = self.connect()
        self.count = 0

    def connect(self):
        return Client(self.attested.gateway, self.attested.phone.identity, self.context, session=self.session, source="127.0.0.9")

    def exchange(self):
        self.count += 1
        assert self.kept.exchange(self.attested.phone.request(path="/0")).status == 200
        if self.count % 10 == 0:
            with self.connect() as client:
                assert client.exchange(get("/certificate/0")).status == 200

    def close(self):
        self.kept.close()


@pytest.fixture
def service():
    made, stop = Service(), threading.Event()
    thread = threading.Thread(target=made.serve, args=[stop])
    thread.start()
    yield made
    stop.set()
    thread.join()


@pytest.fixture
def attested(pki, service, tmp_path):
    lacking = allow_descriptors(DESCRIPTORS)
    if lacking:
        print(lacking)
        pytest.skip(lacking)
    made = Attested(
        tmp_path / "flood", pki, service,
        # One phone stands for all.
        limits={"connections": 2 * TOTAL, "handshakes": 2 * TOTAL, "requests_per_device": 2 * TOTAL,
                "connections_per_client": 2 * TOTAL},
        upstream_settings={"connections": 2 * DEAF}, timeouts={"handshake": "8s", "head": "2s", "content_idle": "2s"})
    yield made
    made.gateway.stop()


def client_hello(context):
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing, server_hostname="localhost").do_handshake()
    return outgoing.read()


def kinds(attested, context, part, source):
    phone, hello = attested.phone, client_hello(context)

    def cut_content():
        # Proven, and but for its last octets complete.
        return phone.request("POST", "/content", content=b"x" * 1_000)[:-10]
    deaf = get(f"/certificate/{LARGE}")
    half = slow_clients.HALF_HELLO
    return [
        Kind("silent", SILENT // part, lambda: b"", has_tls=False, source=source),
        Kind("half a hello", HELLOS // part // 3, lambda: half, has_tls=False, source=source),
        Kind("half a hello, and an octet now and then", HELLOS // part // 3, lambda: half, has_tls=False, trickle=b"\0", source=source),
        Kind("a hello, and no more", HELLOS // part // 3, lambda: hello, has_tls=False, source=source),
        Kind("half a head", HEADS // part // 2, lambda: slow_clients.HEAD, source=source),
        Kind("half a head, and an octet now and then", HEADS // part // 2, lambda: slow_clients.HEAD, trickle=b"a", source=source),
        Kind("content that stops behind a proof", CONTENTS // part, cut_content, source=source),
        Kind("a response that nobody reads", DEAF // part, lambda: deaf, reads=False, receive_buffer=4096, source=source)]


class Siege:
    def __init__(self, attested):
        self.attested, self.gateway = attested, attested.gateway
        self.context = tls_context(attested.pki, attested.phone.identity)
        # A certificate is verified once; after that sessions are resumed.
        with Client(self.gateway, attested.phone.identity, self.context) as client:
            assert client.exchange(get("/certificate/0")).status == 200
            self.session = client.socket.session
            client.leave()
        self.honest = Honest(attested, self.context, self.session)
        self.most = 0

    def meanwhile(self):
        self.honest.exchange()
        if self.honest.count % 10 == 0:
            self.most = max(self.most, self.gateway.descriptors())

    def lay(self, part, source):
        deaf = self.denials("response_not_taken") + DEAF // part
        flood = Flood(self.gateway, self.context, self.session, self.meanwhile)
        try:
            for kind in kinds(self.attested, self.context, part, source):
                flood.open(kind)
            flood.until_ended()
            flood.until(lambda: self.denials("response_not_taken") >= deaf, "those that do not read to be cut off")
            for client in flood.clients:
                self.check(client)
            return flood.late
        finally:
            flood.close()

    def denials(self, code):
        return scrape(self.gateway)("attestgate_denials_total", code=code)

    @staticmethod
    def check(client):
        if not client.kind.has_tls:
            # A client without keys can only receive the end of the connection.
            assert client.end, client.kind
            assert bool(client.received) == (client.kind.name == "a hello, and no more"), (client.kind, client.received)
        elif client.kind.reads:
            head, _, content = client.received.partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 408 ") and json.loads(content)["error"] == "request_timeout", client.received
            assert client.end == "closed"
        else:
            assert client.drain() < LARGE, "a client that does not read has received the whole response"


@pytest.mark.alone
def test_thousands_of_stalled_clients_get_denials_and_harm_no_other(attested):
    siege, gateway = Siege(attested), attested.gateway
    start, sessions_at_start = gateway.proportional_bytes(), scrape(gateway)("attestgate_sessions")
    for part in (1, PART):
        heads, contents, deaf = HEADS // part, CONTENTS // part, DEAF // part
        handshakes = SILENT // part + 3 * (HELLOS // part // 3)
        before, descriptors, memory = scrape(gateway), gateway.descriptors(), gateway.proportional_bytes()
        served, siege.most = siege.honest.count, 0
        late = siege.lay(part, f"127.0.1.{part}")
        eventually(lambda: gateway.descriptors() <= descriptors,
                   lambda: f"{gateway.descriptors()} descriptors to become {descriptors}")
        after = scrape(gateway)

        def more(name, **labels):
            return after(name, **labels) - before(name, **labels)
        assert more("attestgate_denials_total", code="handshake_timeout") == handshakes + late
        assert more("attestgate_denials_total", code="request_timeout") == heads + contents
        assert more("attestgate_denials_total", code="response_not_taken") == deaf
        assert more("attestgate_denials_total") == handshakes + heads + contents + deaf + late, "nobody was denied for another reason"
        assert more("attestgate_connections_limited_total") == 0
        served = siege.honest.count - served
        assert served > 10, "the flood was over before anybody else could be harmed"
        sessions = more("attestgate_sessions")
        assert after("attestgate_connections") == 1 and after("attestgate_buffer_blocks", state="used") <= 2
        grown = gateway.proportional_bytes() - memory - PER_SESSION * max(0, sessions)
        print(f"{TOTAL // part} clients, {siege.most} descriptors at once, {served} honest requests; "
              f"{sessions:.0f} sessions more, {grown} octets more beyond them")

    def grown_again():
        return gateway.proportional_bytes() - memory - PER_SESSION * max(0, sessions)
    eventually(lambda: grown_again() < LEFT_PER_CONNECTION * TOTAL // PART,
               lambda: f"{grown_again()} octets to become fewer than a connection's for each")

    def left():
        sessions = scrape(gateway)("attestgate_sessions") - sessions_at_start
        return gateway.proportional_bytes() - start - PER_SESSION * max(0, sessions)
    # What all of them together have left behind, once the allocator has given memory back.
    eventually(lambda: left() < LEFT_IN_ALL, lambda: f"{left()} octets to become fewer than {LEFT_IN_ALL}")
    siege.honest.close()
