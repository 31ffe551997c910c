"""What a client with a certificate can do too much of in HTTP/2: it is bounded, told so, and the others are served."""

import struct
import time

import h2.errors
import pytest

from denials import assert_connection_refused
from exposition import scrape
from http2_client import HTTP2Client
from http2_frames import (
    CONTINUATION, DATA, HEAD, HEADERS, PING, PRIORITY, PUSH_PROMISE, RST_STREAM, SETTINGS, WINDOW_UPDATE, frame)
from waiting import eventually

Codes = h2.errors.ErrorCodes

OPEN, END = 0x4, 0x5


def get_then_reset(count):
    for n in range(count):
        yield frame(HEADERS, END, 2 * n + 1, HEAD) + frame(RST_STREAM, 0, 2 * n + 1, struct.pack(">I", 8))


def malformed(count):
    """Each makes the gateway reset a stream (CVE-2025-8671): an upper-case name."""
    for n in range(count):
        yield frame(HEADERS, OPEN, 2 * n + 1, HEAD + b"\x00\x01X\x01y")


def bomb():
    """A field of 3,000 octets that is remembered, then an octet for each of its repetitions."""
    yield frame(HEADERS, 0x1, 1, HEAD + b"\x40\x01x\x7f\xb9\x16" + b"y" * 3000)
    yield frame(CONTINUATION, 0x4, 1, b"\xbe" * 16_000)


FLOODS = {
    # CVE-2023-44487.
    "resets": get_then_reset(100_000),
    "provoked_resets": malformed(100_000),
    "settings": (frame(SETTINGS) for _ in range(100_000)),
    "pings": (frame(PING, 0, 0, bytes(8)) for _ in range(100_000)),
    "priorities": (frame(PRIORITY, 0, 1001, bytes(5)) for _ in range(100_000)),
    "window_updates": (frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1)) for _ in range(100_000)),
    "other_frames": (frame(0x42, 0, 0, b"x") for _ in range(100_000)),
    "empty_frames": (piece for n in range(100_000) for piece in [
        frame(HEADERS, OPEN, 1, HEAD) if n == 0 else frame(DATA, 0, 1)]),
    # CVE-2024-28182.
    "continuations": (piece for n in range(100_000) for piece in [
        frame(HEADERS, 0x1, 1, HEAD) if n == 0 else frame(CONTINUATION, 0, 1, b"\x00\x01x\x01y")]),
    "header_list": bomb(),
}


@pytest.mark.parametrize("kind", FLOODS)
def test_a_flood_is_ended_while_others_are_served(start_gateway, own_upstream, phone, kind):
    gateway = start_gateway({"service": own_upstream.address})
    with HTTP2Client(gateway, phone) as other:
        assert other.get("/before").status == 200
        before, cpu = gateway.resident_bytes(), gateway.cpu_seconds()
        with HTTP2Client(gateway, phone) as attacker:
            attacker.ping()
            frames, sent = FLOODS[kind], 0
            # In pieces, as no client waits for each of its frames.
            while not attacker.is_over and sent < 100_000:
                batch = b"".join(next(frames, b"") for _ in range(500))
                if not batch:
                    break
                sent += 500
                attacker.send_bytes(batch)
                assert sent < 60_000, "the flood goes on"
                attacker_reads(attacker)
        assert_connection_refused(gateway, "protocol_abused")
        assert other.get("/after").status == 200
        assert scrape(gateway)("attestgate_http2_faults_total", kind=kind) == 1
        spent, grown = gateway.cpu_seconds() - cpu, gateway.resident_bytes() - before
        print(f"{kind}: {sent} frames, {spent:.2f} s CPU, {grown >> 10} KiB")
        assert spent < 10 and grown < 32 << 20


def attacker_reads(attacker):
    """Takes what has come, whatever it is: the library would object to what it has not sent itself."""
    attacker.socket.settimeout(0.2)
    try:
        if attacker.socket.recv(65536) == b"":
            attacker.is_over = True
    except TimeoutError:
        pass
    except OSError:
        attacker.is_over = True


@pytest.mark.parametrize("frames, code", [
    (frame(SETTINGS, 0, 1), Codes.PROTOCOL_ERROR), (frame(PING, 0, 0, b"short"), Codes.FRAME_SIZE_ERROR),
    (frame(PUSH_PROMISE, 4, 1, bytes(4) + HEAD), Codes.PROTOCOL_ERROR), (frame(DATA, 0, 1, b"x"), Codes.PROTOCOL_ERROR),
    (frame(HEADERS, END, 2, HEAD), Codes.PROTOCOL_ERROR), (frame(HEADERS, END, 1, b"\xff\xff\xff\xff\xff\xff"), Codes.COMPRESSION_ERROR),
    (frame(WINDOW_UPDATE, 0, 0, bytes(4)), Codes.PROTOCOL_ERROR), (frame(HEADERS, END, 0, HEAD), Codes.PROTOCOL_ERROR),
], ids=["settings", "ping", "push", "data", "even", "hpack", "window", "zero"])
def test_a_connection_that_breaks_the_protocol_is_ended_with_the_code_that_fits(
        gateway, upstream, phone, nothing_forwarded, frames, code):
    count = sum(1 for e in gateway.access() if e.get("denial") == "protocol_broken")
    with nothing_forwarded, HTTP2Client(gateway, phone) as client:
        client.ping()
        client.send_bytes(frames)
        client.wait_for_end()
        assert [each for each, _ in client.going_away] == [code]
    assert code.name in assert_connection_refused(gateway, "protocol_broken", count=count + 1)["detail"]


def test_a_client_that_reads_nothing_is_ended(start_gateway, own_upstream, phone):
    gateway = start_gateway({"service": own_upstream.address}, timeouts={"content_idle": "1s"})
    content = bytes(1_000_000)
    own_upstream.answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(content), content)
    with HTTP2Client(gateway, phone) as client:
        client.ping()
        # Windows without an end, and nobody who reads the socket.
        client.h2.increment_flow_control_window((1 << 30))
        client.flush()
        for n in range(50):
            number = client.h2.get_next_available_stream_id()
            client.h2.send_headers(number, [
                (":method", "GET"), (":scheme", "https"), (":authority", "localhost"), (":path", f"/{n}")], end_stream=True)
            client.h2.increment_flow_control_window(1 << 30, number)
        client.flush()
        eventually(lambda: scrape(gateway)("attestgate_protocol_connections", protocol="HTTP/2") == 0, "its end")
    assert gateway.logged(denial="response_not_taken")
    assert gateway.resident_bytes() < 200 << 20
