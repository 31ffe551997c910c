"""Behind real load balancers: phones are known by their own addresses, through whichever way the load balancer says them."""

import pytest

from support.client import Client, get
from support.exposition import scrape
from support.load_balancers import HAProxy, Nginx
from support.waiting import eventually

# Every address of the loopback network is this machine's; the load balancer connects from 127.0.0.1.
PHONES = ["127.0.0.3", "127.0.0.4"]


@pytest.fixture
def start(start_gateway, own_upstream):
    def start(**settings):
        return start_gateway(
            {"service": own_upstream.address}, proxy_protocol={"from": ["127.0.0.1"]},
            log={"fields": ["client_address"]}, **settings)
    return start


@pytest.fixture
def balance(tmp_path, request):
    def balance(kind, gateway, options=""):
        made = kind(tmp_path / "balancer", gateway, options)
        request.addfinalizer(made.stop)
        return made
    return balance


@pytest.mark.parametrize("kind, options", [
    (HAProxy, "send-proxy"), (HAProxy, "send-proxy-v2"),
    (HAProxy, "send-proxy-v2 proxy-v2-options crc32c,authority,ssl,unique-id"), (Nginx, ""),
], ids=["haproxy v1", "haproxy v2", "haproxy v2 with checksum and values", "nginx v1"])
def test_phones_behind_a_load_balancer_keep_their_own_addresses(start, balance, own_upstream, phone, kind, options):
    gateway = start(limits={"connections_per_source": 1})
    balancer = balance(kind, gateway, options)
    clients = [Client(balancer, phone, source=source) for source in PHONES]
    for _ in range(2):
        for client, source in zip(clients, PHONES):
            assert client.exchange(get("/", "X-Forwarded-For: 192.0.2.99")).status == 200
            assert own_upstream.last_request().values("forwarded") == [f'for={source};proto=https;host="localhost"']
            assert own_upstream.last_request().values("x-forwarded-for") == []
    # And limited by them: the second connection of one of them is closed.
    with pytest.raises(OSError):
        Client(balancer, phone, source=PHONES[0])
    entry = gateway.logged(denial="connection_limit")
    assert (entry["client_address"], entry["detail"]) == (PHONES[0], "connections or handshakes of one address")
    for client in clients:
        client.close()


def test_health_checks_of_a_load_balancer_are_no_refusals(start, balance, phone):
    gateway = start()
    balancer = balance(HAProxy, gateway, "send-proxy-v2 check check-send-proxy inter 50ms")
    eventually(lambda: scrape(gateway)("attestgate_proxy_headers_total", result="own") >= 3, "health checks")
    with Client(balancer, phone, source=PHONES[0]) as client:
        assert client.exchange(get("/")).status == 200
    gateway.logged(event="request", client_address=PHONES[0])
    assert [e for e in gateway.access() if e["event"] != "request"] == []
    assert scrape(gateway)("attestgate_denials_total") == 0


def test_a_load_balancer_that_says_nothing_is_not_served(start, balance, phone):
    gateway = start()
    balancer = balance(HAProxy, gateway)
    with pytest.raises(OSError):
        Client(balancer, phone)
    gateway.logged(denial="proxy_header_refused", detail="the trusted proxy's connection does not begin with a PROXY header")
