"""A client that asks too often has to wait, and nobody else has; what is refused reaches no service and costs no counter."""

import pytest

from support.client import Client, get, post
from support.denials import assert_denied
from support.exposition import scrape
from support.pki import attestgate

# One more comes so late that no test waits for it.
SLOW = "1/m burst 3"
BURST, WINDOW = 3, 180


def reload(gateway, **limits):
    gateway.conf["limits"] = limits
    gateway.write_conf()
    done = attestgate("reload", "--config", gateway.conf_path)
    assert done.returncode == 0, done.stderr


def assert_limited(gateway, response, rate):
    """It is denied, and says for how long and by which rate."""
    entry = assert_denied(gateway, response, "rate_limited", 429)
    assert entry["detail"] == rate and entry["decision"] == "denied", entry
    wait = int(response.value("retry-after"))
    assert 1 <= wait <= 60
    assert response.value("ratelimit-policy") == f'"{rate}";q={BURST};w={WINDOW}'
    assert response.value("ratelimit") == f'"{rate}";r=0;t={wait}'
    assert scrape(gateway)("attestgate_rate_limited_total", rate=rate) >= 1


def ask(client, count, data=None):
    for _ in range(count):
        assert client.exchange(data or get("/")).status == 200


@pytest.fixture
def limited(start_gateway, own_upstream):
    # The kernel spreads connections over the workers: what one lets through, no other does again.
    return start_gateway({"service": own_upstream.address}, workers=3, limits={"rate_per_source": SLOW})


def test_a_source_is_limited_over_all_its_connections_and_all_workers(limited, own_upstream, phone):
    for _ in range(BURST):
        with Client(limited, phone) as client:
            ask(client, 1)
    before = own_upstream.byte_count
    for _ in range(8):
        with Client(limited, phone) as client:
            assert_limited(limited, client.exchange(get("/")), "source")
    assert own_upstream.byte_count == before


def test_a_rate_refusal_keeps_the_connection_and_skips_the_content(limited, phone):
    with Client(limited, phone) as client:
        ask(client, BURST, post("/", b"content"))
        for _ in range(3):
            assert_limited(limited, client.exchange(post("/", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")), "source")


def test_rates_apply_without_a_route_or_a_challenge(limited, phone):
    with Client(limited, phone, server_name=None) as client:
        for _ in range(BURST):
            assert client.exchange(get("/", host="nowhere")).status == 404
        assert_limited(limited, client.exchange(get("/", host="nowhere")), "source")


def test_a_reload_does_not_refill_buckets(limited, phone):
    with Client(limited, phone) as client:
        ask(client, BURST)
    reload(limited, rate_per_source=SLOW)
    with Client(limited, phone) as client:
        assert_limited(limited, client.exchange(get("/")), "source")
    reload(limited)
    with Client(limited, phone) as client:
        ask(client, BURST + 1)


@pytest.fixture
def devices(start_attested):
    return start_attested(limits={"rate_per_device": SLOW})


def test_a_device_is_limited_and_no_other_from_the_same_address(devices):
    for phone in (devices.phone, devices.new_phone()):
        with phone.connect() as client:
            # Its challenge is the first.
            phone.challenge()
            ask(client, 1, phone.request())
            ask(client, 1, get("/certificate"))
            with devices.nothing_forwarded(devices.new_phone()):
                assert_limited(devices.gateway, client.exchange(phone.request()), "device")
                assert_limited(devices.gateway, client.exchange(get("/certificate")), "device")


def test_a_limited_request_costs_no_counter(devices):
    phone = devices.phone
    with phone.connect() as client:
        phone.challenge()
        ask(client, BURST - 1, get("/certificate"))
        data = phone.request()
        assert_limited(devices.gateway, client.exchange(data), "device")
    reload(devices.gateway)
    with phone.connect() as client:
        ask(client, 1, data)


def test_a_claimed_key_id_does_not_use_its_owners_rate(devices):
    victim, attacker = devices.phone, devices.new_phone()
    victim.challenge()
    with attacker.connect() as client:
        for _ in range(BURST):
            response = client.exchange(victim.request())
            assert_denied(devices.gateway, response, "device_mismatch", 403)
        # It was the attacker's own.
        assert_limited(devices.gateway, client.exchange(victim.request()), "device")
    with victim.connect() as client:
        # Its challenge was the first.
        for _ in range(BURST - 1):
            ask(client, 1, victim.request())


def test_a_route_is_limited_over_all_clients_and_other_routes_are_not(devices):
    first, second = devices.phone, devices.new_phone()
    devices.gateway.conf["routes"][0]["rate"] = SLOW
    reload(devices.gateway)
    with first.connect() as client:
        for _ in range(BURST - 1):
            ask(client, 1, first.request())
    with second.connect() as client:
        ask(client, 1, second.request())
        data = second.request(content=b"content", method="POST")
        assert_limited(devices.gateway, client.exchange(data), "route")
        ask(client, 1, get("/certificate"))
    del devices.gateway.conf["routes"][0]["rate"]
    reload(devices.gateway)
    with second.connect() as client:
        # No counter was spent.
        ask(client, 1, data)


def test_a_request_refused_for_another_reason_does_not_use_the_routes_rate(devices):
    phone, stranger = devices.phone, devices.new_phone()
    devices.gateway.conf["routes"][0]["rate"] = SLOW
    reload(devices.gateway)
    with stranger.connect() as client:
        for _ in range(BURST + 1):
            assert client.exchange(get("/")).status == 401
    with phone.connect() as client:
        for _ in range(BURST):
            ask(client, 1, phone.request())
        assert_limited(devices.gateway, client.exchange(phone.request()), "route")
