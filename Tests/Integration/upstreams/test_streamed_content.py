"""`body: stream`: content is forwarded as it comes, and a request whose content is not what its proof says is never complete."""

import hashlib
import random
import threading

import pytest

from support import strict
from support.client import IncompleteResponse, get
from support.denials import assert_denied, wait_for_count
from support.exposition import scrape
from support.phone import b64, content_digest
from support.recording_upstream import OK, Gone
from support.waiting import eventually
from test_streaming import BLOCK, MEGABYTE, Standstill

BOTH = pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunked"])
CONTENT = bytes(range(256)) * 10
OTHER = CONTENT[:-1] + b"x"


def connection_of(upstream, path):
    """The connection that a request came by, which need not be complete."""
    def find():
        return next((c for c in upstream.connections if path.encode() in c.received), None)
    return eventually(find, f"something of {path} to arrive")


def send_behind_head(client, upstream, path, data):
    """Sends the content when the head has arrived: a request that is refused at once need not reach the service at all."""
    end = data.index(b"\r\n\r\n") + 4
    client.send(data[:end])
    connection_of(upstream, path)
    return client.send_while_open(data[end:])


def assert_never_complete(upstream, path, content):
    """The service has a head and all of the content but its last byte at most, and then a connection that broke."""
    connection = connection_of(upstream, path)
    eventually(lambda: connection.is_closed_by_gateway, "the gateway to leave the service")
    assert connection.is_broken, "the end looks like one in order"
    assert path not in [request.target for request in upstream.requests]
    rest = bytes(connection.received[connection.consumed:])
    request, length = strict.parse_head(rest)
    assert request.target == path
    came = strict.parse_part(rest, length) if request.values("transfer-encoding") else rest[length:]
    assert content.startswith(came) and len(came) < max(1, len(content)), f"{len(came)} of {len(content)}"
    return came


@BOTH
@pytest.mark.parametrize("size", [1, 2, 1000, 32 * 1024, 32 * 1024 + 1, 300_000])
def test_correct_content_arrives_complete_with_its_framing(attested, chunked, size):
    content = random.Random(size).randbytes(size)
    with attested.phone.connect() as client:
        data = attested.phone.request("POST", "/stream/a", content=content, chunked=chunked)
        assert client.exchange(data).status == 200
        seen = attested.upstream.last_request()
        assert seen.content == content
        framed = [("Transfer-Encoding", "chunked")] if chunked else [("Content-Length", str(size))]
        assert [field for field in seen.fields if field[0] in ("Transfer-Encoding", "Content-Length")] == framed
        # The connection stays open, on both sides.
        assert client.exchange(attested.phone.request(path="/stream/b")).status == 200


@pytest.mark.parametrize("request_of", [
    dict(content=b""), dict(), dict(content=b"", chunked=True)], ids=["length 0", "none", "no chunks"])
def test_a_request_without_content_passes(attested, request_of):
    with attested.phone.connect() as client:
        assert client.exchange(attested.phone.request("POST", "/stream/a", **request_of)).status == 200
        assert attested.upstream.last_request().content == b""


def test_content_is_forwarded_before_all_of_it_arrived(attested):
    data = attested.phone.request("POST", "/stream/waiting", content=CONTENT)
    with attested.phone.connect() as client:
        client.send(data[:-1])
        connection = connection_of(attested.upstream, "/stream/waiting")
        eventually(lambda: connection.received.endswith(CONTENT[:-1]), "all but the last byte to arrive")
        client.send(data[-1:])
        assert client.read_response().status == 200
    assert attested.upstream.last_request().content == CONTENT
    entry = attested.gateway.logged(route="stream", decision="forwarded", request_bytes=len(CONTENT))
    assert "denial" not in entry and entry["upstream"] == "service"


def test_the_head_is_forwarded_before_any_content_arrived(attested):
    data = attested.phone.request("POST", "/stream/head", content=CONTENT)
    with attested.phone.connect() as client:
        client.send(data[:-len(CONTENT)])
        connection = connection_of(attested.upstream, "/stream/head")
        assert client.exchange(data[-len(CONTENT):], "POST").status == 200
        assert connection.requests[-1].content == CONTENT


# Content that is not what the proof says.

@BOTH
@pytest.mark.parametrize("digest", [
    content_digest(OTHER), content_digest(CONTENT) + ", " + content_digest(OTHER, "sha-512"),
    content_digest(OTHER) + ", " + content_digest(CONTENT, "sha-512")], ids=["the only one", "one of two", "other of two"])
def test_a_mismatch_never_completes_a_request(start_attested, chunked, digest):
    attested = start_attested()
    phone, gateway = attested.phone, attested.gateway
    data = phone.request("POST", "/stream/wrong", content=CONTENT, chunked=chunked, digest=digest)
    with phone.connect() as client:
        response = send_behind_head(client, attested.upstream, "/stream/wrong", data).read_response()
        entry = assert_denied(gateway, response, "body_digest_mismatch", 400)
        assert (entry["decision"], entry["route"], entry["upstream"]) == ("partial", "stream", "service")
        assert_never_complete(attested.upstream, "/stream/wrong", CONTENT)
        wait_for_count(gateway, 1, "attestgate_requests_total", route="stream", decision="partial")
        assert scrape(gateway)("attestgate_requests_total", route="stream", decision="forwarded") == 0
        # The next request of the connection has nothing to do with it.
        assert client.exchange(phone.request("POST", "/stream/right", content=CONTENT)).status == 200
    with phone.connect() as client:
        # The counter was spent before the first byte went on.
        assert_denied(gateway, client.exchange(data), "counter_replayed", 401)


@BOTH
@pytest.mark.parametrize("sent", [b"x", b"xy", CONTENT[:-1], OTHER, CONTENT + b"x"])
def test_content_that_was_changed_on_its_way_never_arrives_whole(attested, chunked, sent):
    path = f"/stream/changed-{len(sent)}-{sent[-1]}-{chunked}"
    data = attested.phone.request("POST", path, content=CONTENT, chunked=chunked, sent={"content": sent})
    with attested.phone.connect() as client:
        response = send_behind_head(client, attested.upstream, path, data).read_response()
        assert_denied(attested.gateway, response, "body_digest_mismatch", 400)
    assert_never_complete(attested.upstream, path, sent)


def test_empty_chunked_content_must_match_the_proof(attested):
    data = attested.phone.request("POST", "/stream/empty", content=b"", chunked=True, digest=content_digest(b"x"))
    with attested.phone.connect() as client:
        response = send_behind_head(client, attested.upstream, "/stream/empty", data).read_response()
        assert_denied(attested.gateway, response, "body_digest_mismatch", 400)
    assert_never_complete(attested.upstream, "/stream/empty", b"")


def test_length_0_with_the_digest_of_something_reaches_no_service(attested):
    data = attested.phone.request("POST", "/stream/a", content=b"", digest=content_digest(b"x"))
    with attested.nothing_forwarded(), attested.phone.connect() as client:
        assert_denied(attested.gateway, client.exchange(data), "body_digest_mismatch", 400)


def test_random_content_in_random_pieces_arrives_complete_or_never_ends(start_attested):
    """By chance: sizes around those of the gateway's blocks, cut anywhere, taken in bites, every other one wrong."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    attested = start_attested()
    phone, upstream = attested.phone, attested.upstream

    def script(connection):
        while True:
            try:
                request = connection.read_request()
            except Gone:
                return
            connection.reads = 0
            connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 32\r\n\r\n" + hashlib.sha256(request.content).digest())
    upstream.script = script
    block = 32 * 1024
    sizes = [1, 2, block - 13, block - 12, block - 11, block, block + 1, 3 * block] + [
        chance.randrange(1, 8 * block) for _ in range(12)]
    with phone.connect() as client:
        for number, size in enumerate(sizes * 2):
            content, chunked, is_right = chance.randbytes(size), chance.random() < 0.5, number % 2 == 0
            path = f"/stream/{number}-"
            proof = phone.proof("POST", path, content=content, digest=content_digest(content if is_right else b""))
            framing = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {size}"
            client.send(get(path, *[f"{name}: {value}" for name, value in proof], framing, method="POST"))
            connection_of(upstream, path)
            position = 0
            while position < size:
                part = content[position:position + chance.choice([1, 2, 1000, 20_000, 100_000])]
                client.send(b"%x\r\n%s\r\n" % (len(part), part) if chunked else part)
                position += len(part)
            if chunked:
                client.send(b"0\r\n\r\n")
            response = client.read_response()
            if is_right:
                assert (response.status, response.content) == (200, hashlib.sha256(content).digest()), f"size {size}"
            else:
                assert response.status == 400, f"size {size}"
                assert_never_complete(upstream, path, content)


# What is decided before: nothing of it is forwarded.

def test_nothing_of_a_request_without_a_good_proof_is_forwarded(attested):
    phone = attested.phone
    used = phone.request("POST", "/stream/used", content=CONTENT)
    with phone.connect() as client:
        assert client.exchange(used).status == 200
    cases = [
        (used, "counter_replayed"), (phone.request("POST", "/stream/a", content=CONTENT, app="TEAMID1234.org.evil"), "proof_invalid"),
        (phone.request("POST", "/stream/a", content=CONTENT, created=1), "proof_stale"),
        (get("/stream/a", f"Content-Length: {len(CONTENT)}", method="POST") + CONTENT, "proof_required")]
    for data, code in cases:
        with attested.nothing_forwarded(), phone.connect() as client:
            assert_denied(attested.gateway, client.exchange(data), code, 401)


def test_nothing_is_forwarded_if_the_counter_cannot_be_made_durable(start_attested):
    attested = start_attested()
    phone, gateway = attested.phone, attested.gateway
    with phone.connect() as client:
        assert client.exchange(phone.request(path="/a")).status == 200
        gateway.limit_files(0)
        try:
            with attested.nothing_forwarded_at_all():
                data = phone.request("POST", "/stream/a", content=CONTENT)
                assert client.exchange(data, "POST").status == 503
                # Content that comes behind the refusal is read over.
                assert client.exchange(phone.request("POST", "/stream/a", content=CONTENT), "POST").status == 503
        finally:
            gateway.limit_files(None)


def test_content_is_requested_once_the_counter_is_committed(attested):
    phone = attested.phone
    fields = [("Expect", "100-continue")]
    good = phone.request("POST", "/stream/invited", content=CONTENT, fields=fields)
    head, body = good[:-len(CONTENT)], good[-len(CONTENT):]
    with phone.connect() as client:
        client.send(head)
        assert client.read_head().status == 100
    # Never complete, and nevertheless counted.
    assert_never_complete(attested.upstream, "/stream/invited", CONTENT)
    with attested.nothing_forwarded(), phone.connect() as client:
        client.send(head)
        assert client.read_response().status == 401, "a counter that is spent, and no invitation"
    good = phone.request("POST", "/stream/a", content=CONTENT, fields=fields)
    with phone.connect() as client:
        assert client.send(good[:-len(CONTENT)]).read_head().status == 100
        assert client.send(body).read_response().status == 200
        assert attested.upstream.last_request().content == CONTENT


@BOTH
def test_content_beyond_the_limit_ends_the_request(attested, chunked):
    phone = attested.phone
    data = phone.request("POST", "/stream/little/1", content=bytes(1001), chunked=chunked)
    if chunked:
        with phone.connect() as client:
            response = send_behind_head(client, attested.upstream, "/stream/little/1", data).read_response()
            entry = assert_denied(attested.gateway, response, "too_large", 413)
            assert entry["decision"] == "partial"
        assert_never_complete(attested.upstream, "/stream/little/1", bytes(1001))
    else:
        with attested.nothing_forwarded(), phone.connect() as client:
            assert_denied(attested.gateway, client.send_while_open(data).read_response(), "too_large", 413)
    with phone.connect() as client:
        assert client.exchange(phone.request("POST", "/stream/little/2", content=bytes(1000), chunked=chunked)).status == 200


# Ends before the end.

@BOTH
def test_a_client_that_goes_away_midway_completes_nothing(start_attested, chunked):
    attested = start_attested()
    client = attested.phone.connect()
    # All of the content, but not the end.
    data = attested.phone.request("POST", "/stream/left", content=CONTENT, chunked=chunked)
    client.send(data[:-5 if chunked else -1])
    connection = connection_of(attested.upstream, "/stream/left")
    eventually(lambda: CONTENT[-10:-1] in connection.received, "the content to arrive")
    client.close()
    assert_never_complete(attested.upstream, "/stream/left", CONTENT)
    entry = attested.gateway.logged(route="stream", aborted=True)
    assert entry["decision"] == "partial" and "status" not in entry


def test_a_client_that_stalls_midway_completes_nothing(start_attested):
    attested = start_attested(timeouts={"content_idle": "500ms"})
    with attested.phone.connect() as client:
        client.send(attested.phone.request("POST", "/stream/stalled", content=CONTENT)[:-1])
        entry = assert_denied(attested.gateway, client.read_response(), "request_timeout", 408)
        assert entry["decision"] == "partial"
    assert_never_complete(attested.upstream, "/stream/stalled", CONTENT)


@pytest.mark.parametrize("rest", [b"5\r\nhelloX", b"0\r\nContent-Length: 5\r\n\r\n", b"0\r\nHost: evil\r\n\r\n", b"zz\r\n"])
def test_malformed_chunks_complete_no_request(start_attested, rest):
    attested = start_attested()
    data = attested.phone.request("POST", "/stream/broken", content=CONTENT, chunked=True)
    with attested.phone.connect() as client:
        response = send_behind_head(client, attested.upstream, "/stream/broken", data[:-5] + rest).read_response()
        assert_denied(attested.gateway, response, "request_malformed", 400)
    assert_never_complete(attested.upstream, "/stream/broken", CONTENT + b"hello")


def test_trailers_are_dropped_and_prove_nothing(attested):
    phone = attested.phone
    trailers = f"0\r\nAttest-Device: me\r\nContent-Digest: {content_digest(OTHER)}\r\nX-Forwarded-For: 1.1.1.1\r\n\r\n".encode()
    with phone.connect() as client:
        data = phone.request("POST", "/stream/a", content=CONTENT, chunked=True)
        assert client.exchange(data[:-5] + trailers).status == 200
        seen = attested.upstream.last_request()
        assert seen.content == CONTENT and ("Attest-Device", "me") not in seen.fields
        # A digest that comes behind the content is not the one that was signed.
        data = phone.request("POST", "/stream/trailer", content=OTHER, chunked=True, digest=content_digest(CONTENT))
        assert send_behind_head(client, attested.upstream, "/stream/trailer", data[:-5] + trailers).read_response().status == 400
    assert_never_complete(attested.upstream, "/stream/trailer", OTHER)


# Services that do not wait for the end.

@pytest.mark.parametrize("content", [CONTENT, OTHER], ids=["right", "wrong"])
def test_an_early_answer_is_passed_on_and_its_request_is_never_complete(start_attested, content):
    """A service that has answered gets no more of the content."""
    attested = start_attested()
    phone = attested.phone

    def script(connection):
        connection.read_head()
        connection.send(OK)
        connection.wait_for_end()
    attested.upstream.script = script
    data = phone.request("POST", "/stream/early", content=CONTENT, sent={"content": content})
    with phone.connect() as client:
        client.send(data[:-10])
        assert client.read_response().content == b"ok"
        client.send_while_open(data[-10:])
        entry = attested.gateway.logged(route="stream", status=200, request_bytes=len(CONTENT))
        assert entry["decision"] == "partial" and "denial" not in entry
    assert_never_complete(attested.upstream, "/stream/early", content)


@BOTH
def test_a_mismatch_cuts_off_a_response_that_has_begun(start_attested, chunked):
    attested = start_attested()

    def script(connection):
        connection.read_head()
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe")
        connection.wait_for_end()
    attested.upstream.script = script
    with attested.phone.connect() as client:
        data = attested.phone.request("POST", "/stream/begun", content=CONTENT, chunked=chunked, digest=content_digest(OTHER))
        client.send(data[:-10])
        assert client.read_head().status == 200
        client.send_while_open(data[-10:])
        with pytest.raises(IncompleteResponse):
            client._exactly(5)
    assert_never_complete(attested.upstream, "/stream/begun", CONTENT)
    entry = attested.gateway.logged(route="stream", denial="body_digest_mismatch")
    assert (entry["decision"], entry["status"]) == ("partial", 200)


def test_a_request_whose_counter_is_spent_is_not_sent_again(start_attested):
    attested = start_attested()

    def script(connection):
        connection.read_request()
        connection.send(OK)
        # Takes the second one, and goes without a word.
        connection.read_head()
        connection.reset()
    attested.upstream.script = script
    with attested.phone.connect() as client:
        assert client.exchange(attested.phone.request(path="/stream/a")).status == 200
        data = attested.phone.request("PUT", "/stream/once", content=CONTENT)
        client.send(data[:-1])
        assert_denied(attested.gateway, client.read_response(), "upstream_unavailable", 502)
        client.send_while_open(data[-1:])
    assert sum(b"PUT /stream/once" in c.received for c in attested.upstream.connections) == 1
    assert attested.upstream.byte_count and [r.target for r in attested.upstream.requests] == ["/stream/a"]


# Back-pressure.

def test_a_service_that_does_not_read_stops_its_client(start_attested):
    attested = start_attested()
    phone, gateway = attested.phone, attested.gateway
    total = 100
    may_read = threading.Event()
    digest = hashlib.sha256()
    for _ in range(total):
        digest.update(BLOCK)

    def script(connection):
        head = connection.read_head()
        if head.target != "/stream/large":
            return connection.send(OK)
        may_read.wait(60)
        received, data, left = hashlib.sha256(), connection.content_behind(head), total * MEGABYTE
        while True:
            received.update(data)
            left -= len(data)
            if not left:
                assert received.digest() == digest.digest()
                return connection.send(OK)
            data = connection.socket.recv(MEGABYTE)
    attested.upstream.script = script
    proof = phone.proof("POST", "/stream/large", content=b"x", digest=f"sha-256=:{b64(digest.digest())}:")
    head = get(
        "/stream/large", *[f"{name}: {value}" for name, value in proof], f"Content-Length: {total * MEGABYTE}", method="POST")
    with phone.connect() as client, phone.connect() as other:
        sent = [0]

        def bites():
            for block in [head] + [BLOCK] * total:
                for start in range(0, len(block), 16_000):
                    sent[0] += len(block[start:start + 16_000])
                    yield block[start:start + 16_000]
        standstill = Standstill(gateway, lambda: sent[0])
        gone = client.pump(bites(), stop=standstill)
        assert gone < total * MEGABYTE / 2
        # Other requests of the same worker are unharmed meanwhile.
        assert other.exchange(phone.request(path="/meanwhile")).status == 200
        may_read.set()
        whole = memoryview(head + BLOCK * total)
        gone += client.pump([whole[gone:]], stop=lambda: standstill.check_memory())
        assert gone == len(whole)
        assert client.read_response().status == 200
        standstill.check_memory()


def test_a_client_that_does_not_read_stops_its_service(start_attested):
    attested = start_attested()
    phone, gateway = attested.phone, attested.gateway
    total, sent = 100, []

    def script(connection):
        if connection.read_request().target != "/stream/large":
            return connection.send(OK)
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (total * MEGABYTE))
        for _ in range(total):
            connection.send(BLOCK)
            sent.append(MEGABYTE)
    attested.upstream.script = script
    with phone.connect() as other, phone.connect(receive_buffer=65536) as client:
        standstill = Standstill(gateway, lambda: sum(sent))
        client.send(phone.request("POST", "/stream/large", content=CONTENT))
        eventually(standstill, "the service to be stopped")
        assert sum(sent) < total * MEGABYTE / 2
        assert other.exchange(phone.request(path="/meanwhile")).status == 200
        client.read_head()
        for _ in range(total):
            assert client._exactly(MEGABYTE) == BLOCK
            standstill.check_memory()
