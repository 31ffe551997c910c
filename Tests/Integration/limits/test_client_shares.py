"""No client takes all that others need of a service, however many requests its connections carry."""

import random
import threading

import h2.settings
import pytest

from support import seeds
from support.client import Client, get
from support.denials import assert_denied
from support.exposition import scrape
from support.http2_client import HTTP2Client
from support.waiting import eventually

BIG = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n" + bytes(1_000_000)


@pytest.fixture
def held(own_upstream):
    """Answers `/held...` when the test releases it."""
    release = threading.Event()

    def answer(request):
        if request.target.startswith("/held"):
            release.wait(60)
        return b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    own_upstream.answer = answer
    yield release
    release.set()


def assert_has_its_share(gateway, response):
    entry = assert_denied(gateway, response, "device_request_limit", 429)
    assert response.value("retry-after") == "1"
    return entry


def test_a_client_that_opens_no_window_leaves_a_service_to_the_others(start_gateway, own_upstream, pki, phone):
    """Each of its requests keeps a connection of the service for as long as it does not read."""
    own_upstream.answer = lambda request: BIG if request.target == "/big" else b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    gateway = start_gateway(
        {"service": {"servers": [own_upstream.address], "connections": 8, "idle_connections": 8, "waiting": 0}}, limits={"requests_per_device": 4})
    with HTTP2Client(gateway, phone) as greedy, HTTP2Client(gateway, pki.client("modest")) as other:
        greedy.h2.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 0})
        greedy.flush()
        greedy.ping()
        numbers = [greedy.start("GET", "/big") for _ in range(20)]
        for number in numbers[4:]:
            head = greedy.head(number)
            assert head.status == 429
        own_upstream.wait_for_requests(4)
        # What its connections are, or its streams, makes no difference.
        with Client(gateway, phone) as again:
            assert_has_its_share(gateway, again.exchange(get("/")))
        for _ in range(10):
            assert other.get("/").status == 200
        # It has its place back as soon as it reads, or leaves.
        greedy.reset(numbers[0])
        eventually(lambda: scrape(gateway)("attestgate_http2_streams", worker="0") <= 19, "the stream to end")
        with Client(gateway, phone) as again:
            assert again.exchange(get("/")).status == 200
    eventually(lambda: scrape(gateway)("attestgate_http2_streams", worker="0") == 0, "all to end")
    # Those, and the one of HTTP/1.1.
    assert scrape(gateway)("attestgate_denials_total", code="device_request_limit") == 17
    with Client(gateway, phone) as again:
        assert again.exchange(get("/")).status == 200


def test_waiting_requests_count_towards_the_share(start_gateway, own_upstream, phone, held):
    gateway = start_gateway(
        {"service": {"servers": [own_upstream.address], "connections": 1, "idle_connections": 1, "waiting": 100}}, limits={"requests_per_device": 3})
    with HTTP2Client(gateway, phone) as http2:
        numbers = [http2.start("GET", f"/held/{n}") for n in range(3)]
        assert_has_its_share(gateway, http2.get("/"))
        held.set()
        assert [http2.response(number).status for number in numbers] == [200] * 3
        assert http2.get("/").status == 200


def test_a_client_has_its_share_of_each_upstream(start_gateway, own_upstream, phone, held):
    routes = [{"name": name, "host": "localhost", "path": f"/{name}", "upstream": name} for name in ["held", "other"]]
    gateway = start_gateway(
        {"held": own_upstream.address, "other": own_upstream.address}, routes, limits={"requests_per_device": 1})
    with HTTP2Client(gateway, phone) as http2:
        number = http2.start("GET", "/held")
        own_upstream.wait_for_requests(1)
        assert_has_its_share(gateway, http2.get("/held/2"))
        assert http2.get("/other").status == 200
        held.set()
        assert http2.response(number).status == 200


def test_a_proof_refused_for_its_share_stays_valid(start_attested):
    attested = start_attested(counter="window 64", limits={"requests_per_device": 1})
    release = threading.Event()

    def answer(request):
        if request.target == "/first":
            release.wait(60)
        return b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    attested.upstream.answer = answer
    phone = attested.phone
    first, second = phone.request(path="/first"), phone.request(path="/second")
    with HTTP2Client(attested.gateway, phone.identity) as http2:
        number = http2.begin(first)
        attested.upstream.wait_for_requests(1)
        before = attested.upstream.byte_count
        assert_has_its_share(attested.gateway, http2.exchange(second))
        assert attested.upstream.byte_count == before
        release.set()
        assert http2.response(number).status == 200
        assert http2.exchange(second).status == 200
        assert_denied(attested.gateway, http2.exchange(second), "counter_replayed", 401)


def test_every_place_is_returned(start_gateway, own_upstream, phone):
    seed = seeds.seed()
    choose = random.Random(seed)
    gateway = start_gateway({"service": own_upstream.address}, limits={"requests_per_device": 2})
    with HTTP2Client(gateway, phone) as http2:
        for _ in range(100):
            ending = choose.randrange(4)
            if ending == 0:
                http2.get("/")
            elif ending == 1:
                http2.reset(http2.start("GET", "/"))
            elif ending == 2:
                number = http2.start("POST", "/", [("content-length", "1")], end=False)
                http2.send(number, b"too much")
                assert http2.response(number).status == 400
            else:
                assert http2.response(http2.start("GET", "/", [("x-http-method-override", "PUT")])).status == 400
            http2.ping()
        numbers = [http2.start("GET", f"/{n}") for n in range(2)]
        assert [http2.response(number).status for number in numbers] == [200, 200]
