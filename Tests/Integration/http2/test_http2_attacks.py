"""What a client of HTTP/2 can do besides sending too much: names and fields that speak for others, windows that shrink, resets of what
was proven, farewells in the middle. None of it reaches a service, spends twice, or ends what others have."""

import random
import struct

import h2.errors
import h2.settings
import pytest

from support import seeds
from support.denials import assert_connection_refused, assert_denied
from support.exposition import scrape
from support.http2_client import ConnectionOver, HTTP2Client, StreamReset
from support.http2_frames import GOAWAY, SETTINGS, frame
from support.recording_upstream import Held, answering
from support.waiting import eventually

Codes = h2.errors.ErrorCodes
WINDOW = h2.settings.SettingCodes.INITIAL_WINDOW_SIZE


@pytest.fixture
def http2(gateway, phone):
    with HTTP2Client(gateway, phone) as client:
        yield client


# Fields that speak for others.

SPOOFED = [
    "client-cert", "client-cert-chain", "attest-device", "attest-app", "attest-platform", "attest-counter", "forwarded",
    "x-forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-forwarded-client-cert", "x-real-ip",
    "x-client-cert", "x-client-verify", "x-client-dn", "x-ssl-client-cert", "ssl-client-verify", "x-amzn-mtls-clientcert",
    "x-device-token", "zeta-user-info", "true-client-ip", "cf-connecting-ip", "remote-user", "x-internal-user",
]


@pytest.mark.parametrize("name", SPOOFED)
def test_an_identity_field_reaches_no_service(upstream, http2, name):
    # Once, twice, remembered by the table and named from there.
    for _ in range(2):
        assert http2.get("/", (name, "spoofed"), (name, "again"), ("x-own", "kept")).status == 200
        seen = upstream.last_request()
        assert seen.values("x-own") == ["kept"]
        assert all("spoofed" not in value and "again" not in value for _, value in seen.fields)


@pytest.mark.parametrize("name", SPOOFED[:8])
@pytest.mark.parametrize("spell", [str.upper, str.title, lambda name: name.replace("-", "_") + "_x", lambda name: name + "."])
def test_another_spelling_of_such_a_field_is_refused(gateway, http2, nothing_forwarded, name, spell):
    with nothing_forwarded:
        response = http2.get("/", (spell(name), "spoofed"))
        assert response.status == 400 and b"_" in response.content


@pytest.mark.parametrize("name", ["client-cert", "attest-device", "forwarded", "x-forwarded-for", "authorization", "cookie"])
def test_a_field_in_trailers_reaches_no_service(upstream, http2, name):
    number = http2.start("POST", "/", end=False)
    http2.send(number, b"x")
    http2.h2.send_headers(number, [(name, "spoofed")], end_stream=True)
    http2.flush()
    assert http2.response(number).status == 200
    assert b"spoofed" not in upstream.connections[-1].received


TRAILERS = {
    "a pseudo-header field": [(":path", "/other")], ":method": [(":method", "GET")], ":status": [(":status", "200")],
    "Host": [("host", "localhost")], "Content-Length": [("content-length", "1")], "upper case": [("X", "a")],
    "a field of one connection": [("connection", "close")], "Transfer-Encoding": [("transfer-encoding", "chunked")],
    "TE": [("te", "gzip")], "a line feed": [("x", "a\nb")], "white space": [("x", " a")],
}


@pytest.mark.parametrize("name", TRAILERS)
def test_forbidden_trailers_end_the_request_before_it_is_complete_at_the_service(gateway, upstream, phone, name):
    with HTTP2Client(gateway, phone) as http2:
        number = http2.start("POST", "/trailers", end=False)
        http2.send(number, b"content")
        connection = eventually(lambda: next(
            (c for c in upstream.connections if b"content" in c.received and not c.is_closed_by_gateway), None), "the content")
        http2.h2.send_headers(number, TRAILERS[name], end_stream=True)
        http2.flush()
        assert_denied(gateway, http2.response(number), "request_malformed", 400)
        eventually(lambda: connection.is_closed_by_gateway, "the request to be broken off")
    assert not bytes(connection.received).endswith(b"0\r\n\r\n") and connection.is_broken


# Windows.

def test_a_window_reduced_below_zero_stops_only_its_response(gateway, upstream, phone):
    data = random.Random(5).randbytes(300_000)
    upstream.answer = lambda request: answering(data if request.target == "/big" else b"small")
    with HTTP2Client(gateway, phone) as http2:
        http2.h2.increment_flow_control_window(1 << 24)
        http2.flush()
        number = http2.start("GET", "/big")
        http2.streams[number].is_read = False
        http2.pump_until(lambda: len(http2.streams[number].response.content if http2.streams[number].response else b"") >= 65_535)
        # It has used up what it had: now it is 65,535 below.
        http2.h2.update_settings({WINDOW: 0})
        http2.flush()
        http2.ping()
        # Up to zero, and nothing beyond.
        http2.h2.increment_flow_control_window(65_535, number)
        http2.flush()
        http2.ping()
        assert len(http2.streams[number].response.content) == 65_535
        other = http2.start("GET", "/small")
        http2.h2.increment_flow_control_window(1000, other)
        http2.flush()
        assert http2.response(other).content == b"small"
        assert not http2.streams[number].is_ended
        http2.h2.increment_flow_control_window(1 << 20, number)
        http2.flush()
        assert http2.response(number).content == data


def test_settings_that_overflow_the_window_of_a_stream_end_it(start_gateway, own_upstream, phone):
    """What was given to the stream and what the settings add are more than 2^31 - 1."""
    gateway = start_gateway({"service": own_upstream.address})
    held = Held(own_upstream)
    with HTTP2Client(gateway, phone) as http2, HTTP2Client(gateway, phone) as other:
        number = http2.start("GET", "/held")
        own_upstream.wait_for_requests(1)
        http2.h2.increment_flow_control_window((1 << 31) - 1 - 65_535, number)
        http2.flush()
        http2.ping()
        http2.send_bytes(frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 65_536)))
        http2.pump_until(lambda: http2.streams[number].reset is not None)
        assert http2.streams[number].reset == Codes.FLOW_CONTROL_ERROR
        held.release("/after")
        assert http2.get("/after").status == other.get("/after").status == 200
    held.release("/held")


# Resets, farewells and ends in the middle.

def test_attested_requests_reset_at_once_use_their_counters_once_and_are_bounded(start_attested):
    """Rapid reset with proofs (CVE-2023-44487): each costs a verification, and may cost a counter."""
    seed = seeds.seed()
    choose = random.Random(seed)
    attested = start_attested(counter="window 1024")
    gateway, phone = attested.gateway, attested.phone
    requests = [phone.request(path=f"/{n}") for n in range(600)]
    cpu, sent = gateway.cpu_seconds(), 0
    with HTTP2Client(gateway, phone.identity) as http2:
        http2.ping()
        for data in requests:
            number = http2.begin(data)
            http2.reset(number)
            sent += 1
            if choose.random() < 0.1:
                http2.pump_for(0)
            if http2.is_over:
                break
        with pytest.raises((ConnectionOver, AssertionError)):
            while True:
                http2.ping()
    # 200 at once and 20 a second are admitted, each verified at most once.
    assert_connection_refused(gateway, "protocol_abused")
    spent = gateway.cpu_seconds() - cpu
    print(f"{sent} sent, {spent:.2f} s CPU")
    assert spent < 0.5 + 0.01 * sent
    # Each passes once, then or now, whatever became of it.
    statuses = []
    with HTTP2Client(gateway, phone.identity) as http2:
        for data in requests[:300]:
            statuses.append(http2.exchange(data).status)
    assert set(statuses) <= {200, 401}
    targets = [request.target for request in attested.upstream.requests]
    assert len(targets) == len(set(targets)), "a proof has passed twice"
    with attested.nothing_forwarded(), HTTP2Client(gateway, phone.identity) as http2:
        assert {http2.exchange(data).status for data in choose.sample(requests[:300], 60)} == {401}
    eventually(lambda: scrape(gateway)("attestgate_http2_streams", worker="0") == 0, "all to end")


def test_a_client_that_sends_goaway_gets_the_responses_it_requested(start_gateway, own_upstream, phone):
    gateway = start_gateway({"service": own_upstream.address})
    held = Held(own_upstream)
    with HTTP2Client(gateway, phone) as http2:
        numbers = [http2.start("GET", f"/{n}") for n in range(5)]
        own_upstream.wait_for_requests(5)
        http2.send_bytes(frame(GOAWAY, 0, 0, struct.pack(">II", 0, 0)))
        for n in reversed(range(5)):
            held.release(f"/{n}")
        for n, number in enumerate(numbers):
            assert http2.response(number).content == f"/{n}".encode()
        # Nothing more is expected of it.
        http2.wait_for_end()
    assert not [entry for entry in gateway.access() if entry["event"] == "connection_refused"]


def test_a_revocation_ends_open_streams_and_uses_no_further_counter(start_attested):
    attested = start_attested(counter="window 1024")
    held = Held(attested.upstream)
    gone, stays = attested.new_phone(), attested.new_phone()
    with HTTP2Client(attested.gateway, gone.identity) as http2, HTTP2Client(attested.gateway, stays.identity) as other:
        numbers = [http2.begin(gone.request(path=f"/{n}")) for n in range(10)]
        kept = other.begin(stays.request(path="/kept"))
        attested.upstream.wait_for_requests(11)
        before = len(attested.upstream.requests)
        attested.gateway.device_command("revoke", str(gone.number))
        with pytest.raises((ConnectionOver, StreamReset, AssertionError)):
            for number in numbers:
                http2.response(number)
        with pytest.raises((ConnectionOver, StreamReset, AssertionError, OSError)):
            assert http2.response(http2.begin(gone.request(path="/late"))).status != 200
            raise ConnectionOver
        held.release("/kept")
        assert other.response(kept).status == 200
        for n in range(10):
            held.release(f"/{n}")
    assert len(attested.upstream.requests) == before
    eventually(lambda: scrape(attested.gateway)("attestgate_http2_streams", worker="0") == 0, "all to end")
