"""Behind load balancers that say where clients are: whose word counts, for what, and what becomes of any other."""

import itertools
import time

import pytest

from support.client import Client, get
from support.command_line import curl
from support.denials import NothingForwarded, assert_connection_refused
from support.enrolment import Enrolling
from support.exposition import scrape
from support.gateway import Gateway
from support.pki import attestgate
from support.proxy_header import LOCAL, Proxied, ask, binary, checked, line, raw, read_to_end, value
from support.waiting import eventually

# Every address of the loopback network is this machine's.
STRANGER = "127.0.0.2"
CLIENT, OTHER = "198.51.100.7", "203.0.113.9"
# By which the log shows which request was which.
paths = itertools.count()


@pytest.fixture
def start(start_gateway, own_upstream):
    def start(trusted=("127.0.0.1",), **settings):
        settings.setdefault("log", {"fields": ["client_address"]})
        made = start_gateway({"service": own_upstream.address}, proxy_protocol={"from": list(trusted)}, **settings)
        return made
    return start


def forwarded(upstream):
    return upstream.last_request().values("forwarded")[0]


def assert_refused(gateway, detail, count=1):
    entry = assert_connection_refused(gateway, "proxy_header_refused", count)
    assert entry["detail"] == detail, entry
    assert (entry["fault"], entry["client"]) == ("gateway", "127.0.0.0/24"), entry


# Whose address counts.

@pytest.mark.parametrize("bytewise", [False, True], ids=["at once", "byte by byte"])
@pytest.mark.parametrize("header, address, network", [
    (line(CLIENT), CLIENT, "198.51.100.0/24"), (line("2001:db8:1:2::7"), "2001:db8:1:2::7", "2001:db8:1::/48"),
    (binary(CLIENT), CLIENT, "198.51.100.0/24"), (binary("2001:db8:1:2::7"), "2001:db8:1:2::7", "2001:db8:1::/48"),
    (binary("::ffff:" + CLIENT), CLIENT, "198.51.100.0/24"), (checked(CLIENT), CLIENT, "198.51.100.0/24"),
    (binary(CLIENT, values=value(2, b"localhost") + value(0x20, bytes(600))), CLIENT, "198.51.100.0/24"),
    (LOCAL, "127.0.0.1", "127.0.0.0/24"), (b"PROXY UNKNOWN\r\n", "127.0.0.1", "127.0.0.0/24"),
    (binary(), "127.0.0.1", "127.0.0.0/24"),
], ids=["v1", "v1-IPv6", "v2", "v2-IPv6", "v2-mapped", "v2-checksum", "v2-values", "LOCAL", "UNKNOWN", "UNSPEC"])
def test_service_and_log_get_the_headers_address(
        shared, phone, header, address, network, bytewise):
    gateway, upstream = shared
    path = f"/{next(paths)}"
    with Proxied(gateway, phone, header, bytewise) as client:
        for _ in range(2):
            assert client.exchange(get(path, "X-Forwarded-For: 192.0.2.99", "Forwarded: for=192.0.2.99")).status == 200
            node = f'"[{address}]"' if ":" in address else address
            request = upstream.last_request()
            assert [v for k, v in request.fields if "forwarded" in k.lower()] == [
                f'for={node};proto=https;host="localhost"'], request.fields
    gateway.logged(path=path, client=network, client_address=address)


@pytest.fixture(scope="module")
def shared(pki, shared_upstream, tmp_path_factory):
    gateway = Gateway(
        tmp_path_factory.mktemp("proxied"), pki, {"service": shared_upstream.address},
        proxy_protocol={"from": ["127.0.0.1", "10.0.0.0/8", "2001:db8::/32"]}, log={"fields": ["client_address", "path"]})
    gateway.start()
    yield gateway, shared_upstream
    gateway.stop()


def test_headers_are_counted_by_result(start, phone):
    gateway = start()
    for header in [line(CLIENT), binary(OTHER), LOCAL]:
        assert ask(gateway, phone, header) == 200
    read_to_end(raw(gateway, b"GET / HTTP/1.1\r\n\r\n"))
    name = "attestgate_proxy_headers_total"
    eventually(lambda: scrape(gateway)(name, result="refused") == 1, "the refusal to be counted")
    metrics = scrape(gateway)
    assert (metrics(name, result="client"), metrics(name, result="own")) == (2, 1)
    assert metrics("attestgate_denials_total", code="proxy_header_refused") == 1


# Whose word counts for nothing.

def test_an_untrusted_peer_that_sends_a_header_is_refused_as_no_tls(start, own_upstream, phone):
    gateway = start()
    with NothingForwarded(gateway, own_upstream, phone, lambda: Proxied(gateway, phone, line(OTHER))):
        for header in [line(CLIENT), binary(CLIENT), LOCAL, b"PROXY UNKNOWN\r\n"]:
            # To TLS they are what any other such bytes would be.
            assert ask(gateway, phone, header, source=STRANGER) is None
    entry = assert_connection_refused(gateway, "handshake_failed", 4)
    assert entry["client_address"] == STRANGER
    assert not any(e.get("client_address") == CLIENT for e in gateway.access())


def test_a_stranger_without_a_header_is_served_as_itself(start, own_upstream, phone):
    gateway = start()
    with Client(gateway, phone, source=STRANGER) as client:
        assert client.exchange(get("/")).status == 200
    assert forwarded(own_upstream).startswith(f"for={STRANGER};")


def test_a_network_is_trusted_to_its_last_address_and_no_further(start, own_upstream, phone):
    gateway = start(trusted=["127.0.1.0/24"])
    for source in ["127.0.1.0", "127.0.1.255"]:
        assert ask(gateway, phone, line(CLIENT), source=source) == 200
        assert forwarded(own_upstream).startswith(f"for={CLIENT};")
        assert ask(gateway, phone, b"", source=source) is None
    for source in ["127.0.0.255", "127.0.2.0"]:
        assert ask(gateway, phone, line(CLIENT), source=source) is None
        assert ask(gateway, phone, b"", source=source) == 200
        assert forwarded(own_upstream).startswith(f"for={source};")


def test_the_headers_address_does_not_make_a_peer_trusted(start, own_upstream, phone):
    gateway = start()
    # The first says that it comes from a trusted address: its second header is the client's, and so no TLS.
    assert ask(gateway, phone, line("127.0.0.1") + line(CLIENT)) is None
    assert_connection_refused(gateway, "handshake_failed")
    assert own_upstream.byte_count == 0


# What is no header.

REFUSED = [
    ("TLS at once", None, "the trusted proxy's connection does not begin with a PROXY header"),
    ("HTTP", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "the trusted proxy's connection does not begin with a PROXY header"),
    ("UDP", line(CLIENT).replace(b"TCP4", b"UDP4"), "PROXY header, version 1: the protocol is not TCP4, TCP6 or UNKNOWN"),
    ("two spaces", line(CLIENT).replace(b" ", b"  ", 3),
     "PROXY header, version 1: not two addresses and two ports, one space apart"),
    ("a leading zero", line(CLIENT).replace(b".7", b".07"), "PROXY header, version 1: no address of the family it names"),
    ("a port with a zero", line(CLIENT).replace(b" 443", b" 0443"),
     "PROXY header, version 1: no port from 0 to 65535 in plain decimal digits"),
    ("a line feed alone", line(CLIENT).replace(b"\r\n", b"\n"), "PROXY header, version 1: the line does not end with CRLF"),
    ("an endless line", b"PROXY UNKNOWN " + b"x" * 200, "PROXY header, version 1: no line end within 107 bytes"),
    ("version 3", binary(CLIENT).replace(b"QUIT\n\x21", b"QUIT\n\x31"), "PROXY header, version 2: another version"),
    ("a command", binary(CLIENT, command=2), "PROXY header, version 2: the command is neither LOCAL nor PROXY"),
    ("a datagram", binary(CLIENT).replace(b"\x21\x11", b"\x21\x12"),
     "PROXY header, version 2: the client's connection is not TCP over IPv4 or IPv6"),
    ("a Unix socket", binary(CLIENT).replace(b"\x21\x11", b"\x21\x31"),
     "PROXY header, version 2: the client's connection is not TCP over IPv4 or IPv6"),
    ("no addresses", binary(command=1).replace(b"\x21\x00", b"\x21\x11"),
     "PROXY header, version 2: too short for its addresses"),
    ("too long", binary(CLIENT, values=value(4, bytes(1100))), "PROXY header, version 2: longer than 1040 bytes"),
    ("a value beyond the end", binary(CLIENT, values=b"\x04\xff\xff"),
     "PROXY header, version 2: a type-length-value reaches beyond the header"),
    ("a wrong checksum", checked(CLIENT)[:-1] + b"\0", "PROXY header, version 2: the checksum is wrong"),
]


@pytest.mark.parametrize("data, detail", [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_a_trusted_proxys_connection_without_a_valid_header_ends_without_a_word(
        shared, phone, data, detail):
    gateway, upstream = shared
    before = len([e for e in gateway.access() if e.get("denial") == "proxy_header_refused"])
    with NothingForwarded(gateway, upstream, phone, lambda: Proxied(gateway, phone, line(OTHER))):
        if data is None:
            assert ask(gateway, phone, b"") is None
        else:
            assert read_to_end(raw(gateway, data)) == b""
    assert_refused(gateway, detail, before + 1)


def test_a_second_header_belongs_to_the_client(start, own_upstream, phone):
    gateway = start()
    for first, second in [(line(CLIENT), line(OTHER)), (binary(CLIENT), LOCAL), (LOCAL, binary(OTHER))]:
        assert ask(gateway, phone, first + second) is None
    entry = assert_connection_refused(gateway, "handshake_failed", 3)
    assert own_upstream.byte_count == 0
    assert entry["client_address"] == "127.0.0.1" and gateway.access()[-2]["client_address"] == CLIENT


def test_plain_http_behind_a_header_is_refused_as_no_tls(start, own_upstream):
    gateway = start()
    answer = read_to_end(raw(gateway, line(CLIENT) + get("/")))
    assert not answer.startswith(b"HTTP/"), answer
    assert assert_connection_refused(gateway, "handshake_failed")["client_address"] == CLIENT
    assert own_upstream.byte_count == 0


# Time.

@pytest.mark.parametrize("data", [b"", b"P", line(CLIENT)[:-1], binary(CLIENT)[:15], binary(CLIENT)[:-1]],
                         ids=["nothing", "a byte", "all but LF", "all but the length", "all but a byte"])
def test_a_missing_header_ends_by_the_handshake_timeout(start, data):
    gateway = start(timeouts={"handshake": "300ms"})
    assert read_to_end(raw(gateway, data)) == b""
    assert_refused(gateway, "the PROXY header was not complete in time")


def test_the_handshake_timeout_runs_from_the_accept(start):
    gateway = start(timeouts={"handshake": "500ms"})
    with raw(gateway, b"") as plain, pytest.raises(OSError):
        for octet in b"PROXY UNKNOWN " + b"x" * 90:
            plain.sendall(bytes([octet]))
            time.sleep(0.05)
        # If each byte restarted the timeout, all of them would have been taken.
    assert_refused(gateway, "the PROXY header was not complete in time")


def test_a_header_in_time_leaves_the_handshake_no_more_than_the_rest(start):
    gateway = start(timeouts={"handshake": "300ms"})
    assert read_to_end(raw(gateway, line(CLIENT))) == b""
    assert assert_connection_refused(gateway, "handshake_timeout")["client_address"] == CLIENT


def test_a_slow_header_costs_no_processor_time(start):
    gateway = start(timeouts={"handshake": "60s"})
    with raw(gateway, binary(CLIENT)[:20]):
        eventually(lambda: gateway.connections() >= 1, "the connection")
        before = gateway.cpu_seconds()
        time.sleep(1)
        # A socket that stays readable would keep a processor busy.
        assert gateway.cpu_seconds() - before < 0.5


def test_a_disconnecting_proxy_counts_as_refused_only_within_a_header(start):
    gateway = start()
    raw(gateway, b"").close()
    eventually(lambda: scrape(gateway)("attestgate_handshakes_total", result="abandoned") == 1, "the leaving")
    raw(gateway, LOCAL).close()
    eventually(lambda: scrape(gateway)("attestgate_handshakes_total", result="abandoned") == 2, "the health check")
    raw(gateway, line(CLIENT)[:9]).close()
    assert_refused(gateway, "the trusted proxy closed the connection within the PROXY header")
    assert [e["event"] for e in gateway.access()] == ["connection_refused"]


# Limits.

def test_limits_of_one_address_are_those_of_the_headers_address(start, phone):
    gateway = start(workers=2, limits={"connections_per_source": 2})
    held = [Proxied(gateway, phone, line(CLIENT)) for _ in range(2)]
    assert all(client.exchange(get("/")).status == 200 for client in held)
    for header in [line(CLIENT), binary(CLIENT), binary("::ffff:" + CLIENT)]:
        assert ask(gateway, phone, header) is None
    entry = assert_connection_refused(gateway, "connection_limit", 3)
    assert entry["client_address"] == CLIENT
    # Others behind the same proxy have their own, the proxy itself too.
    for header in [line(OTHER), LOCAL]:
        assert ask(gateway, phone, header) == 200
    held.pop().close()
    eventually(lambda: ask(gateway, phone, line(CLIENT)) == 200, "room for one more")
    held.pop().close()


def test_a_proxy_may_have_more_connections_than_one_address(start, phone):
    gateway = start(limits={"connections_per_source": 1, "handshakes_per_source": 1})
    silent = [raw(gateway, b"") for _ in range(8)]
    eventually(lambda: gateway.connections() >= 8, "the connections")
    clients = [Proxied(gateway, phone, line(f"198.51.100.{number}")) for number in range(8)]
    assert all(client.exchange(get("/")).status == 200 for client in clients)
    for one in silent + clients:
        one.close()
    # Those that never said whose they are were counted for nobody, and taken from nobody.
    eventually(lambda: ask(gateway, phone, LOCAL) == 200, "the proxy itself to be served")
    eventually(lambda: ask(gateway, phone, line("198.51.100.1")) == 200, "its clients to be served")


def test_silent_connections_are_closed_for_new_ones(start, phone):
    gateway = start(limits={"handshakes": 5})
    silent = [raw(gateway, b"PRO") for _ in range(40)]
    assert ask(gateway, phone, line(CLIENT)) == 200
    entry = assert_connection_refused(gateway, "connection_limit", 35)
    assert entry["detail"] == "handshakes of the worker"
    for one in silent:
        one.close()


def test_the_rate_of_a_source_is_that_of_the_headers_address(start, phone):
    gateway = start(limits={"rate_per_source": "1/m burst 2"})
    statuses = [ask(gateway, phone, header) for header in [line(CLIENT), binary(CLIENT), line(CLIENT), line(OTHER), LOCAL]]
    assert statuses == [200, 200, 429, 200, 200]


# Loading another configuration.

def test_trusted_proxies_can_be_changed_by_a_reload(start, own_upstream, phone):
    gateway = start()
    with Proxied(gateway, phone, line(CLIENT)) as client:
        assert client.exchange(get("/")).status == 200
        gateway.conf["listeners"][0]["proxy_protocol"]["from"] = [STRANGER]
        gateway.write_conf()
        assert attestgate("reload", "--config", gateway.conf_path).returncode == 0
        # It is judged by what it came in under.
        assert client.exchange(get("/")).status == 200
        assert forwarded(own_upstream).startswith(f"for={CLIENT};")
    assert ask(gateway, phone, line(CLIENT)) is None
    assert ask(gateway, phone, b"") == 200
    assert ask(gateway, phone, line(OTHER), source=STRANGER) == 200
    assert forwarded(own_upstream).startswith(f"for={OTHER};")


def test_check_warns_of_a_listener_that_trusts_everybody(start):
    gateway = start(trusted=["0.0.0.0/0"])
    done = attestgate("check", "--config", gateway.conf_path)
    assert done.returncode == 0
    assert "warning: every client could claim any address" in done.stdout + done.stderr


# Enrolment.

def test_enrolment_knows_phones_by_the_headers_address(pki, own_upstream, tmp_path):
    enrolling = Enrolling(tmp_path, pki, own_upstream, enrolment={
        "requests_per_minute": 2, "connections_per_address": 4, "proxy_protocol": {"from": ["127.0.0.1"]}})
    # It is ready when enrolment is; nothing of the test's own connects without a header.
    enrolling.start()
    try:
        service, gateway = enrolling.service, enrolling.gateway

        def nonce(header, **options):
            return ask(service, None, header, "/nonce", **options)
        with Proxied(service, None, line(CLIENT)) as client:
            assert [client.exchange(get("/nonce")).status for _ in range(3)] == [200, 200, 503]
        assert nonce(line(OTHER)) == 200
        held = [Proxied(service, None, line("198.51.100.8")) for _ in range(4)]
        assert nonce(binary("198.51.100.8")) is None
        assert nonce(binary("198.51.100.9")) == 200
        for one in held:
            one.close()
        assert nonce(b"") is None and nonce(line(CLIENT), source=STRANGER) is None and nonce(b"", source=STRANGER) == 200
        refused = "attestgate_enrolment_proxy_headers_refused_total"
        eventually(lambda: scrape(gateway)(refused) == 1, "the refusal to be counted")
    finally:
        enrolling.stop()


# Those who send such headers.

def test_curl_sends_a_proxy_header(start, own_upstream, phone):
    gateway = start()
    done = curl(gateway, "/", "--haproxy-protocol", "--output", "/dev/null", "--write-out", "%{http_code}", identity=phone)
    assert done.stdout == b"200", done.stderr
    assert forwarded(own_upstream).startswith("for=127.0.0.1;")
    assert curl(gateway, "/", identity=phone).returncode != 0
    assert_refused(gateway, "the trusted proxy's connection does not begin with a PROXY header")
