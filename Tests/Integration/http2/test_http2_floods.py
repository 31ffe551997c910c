"""What a client with a certificate can do too much of in HTTP/2: it is bounded and denied, and the others are served."""

import re
import ssl
import struct
import time
from dataclasses import dataclass
from pathlib import Path

import h2.errors
import pytest

from support.denials import assert_connection_refused
from support.exposition import scrape
from support.http2_client import HTTP2Client
from support.http2_frames import (
    CONTINUATION, DATA, GOAWAY, HEAD, HEADERS, PING, PRIORITY, PUSH_PROMISE, RST_STREAM, SETTINGS, WINDOW_UPDATE, frame)
from support.paths import PATIENCE, REPOSITORY
from support.waiting import eventually

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


def oversized(count):
    """A field of 3,000 octets that is remembered, then requests that name it as often as is just no bomb: 60,000 octets of 40."""
    yield frame(HEADERS, END | OPEN, 1, HEAD + b"\x40\x01x\x7f\xb9\x16" + b"y" * 3000)
    for n in range(1, count):
        yield frame(HEADERS, END | OPEN, 2 * n + 1, HEAD + b"\xbe" * 20)


def unwanted_fields(count):
    """Trailers of a stream that is gone: decoded for the table's state, 16,000 references each, and delivered to nobody."""
    yield frame(HEADERS, OPEN, 1, HEAD + b"\x40\x01x\x7f\xb9\x16" + b"y" * 3000) + frame(RST_STREAM, 0, 1, struct.pack(">I", 8))
    for _ in range(count):
        yield frame(HEADERS, END | OPEN, 1, b"\xbe" * 16_000)


@dataclass
class Flood:
    """What comes, and what the gateway takes of it: so many at once, and in each second."""

    kind: str
    frames: object
    burst: int
    rate: int = 0


N = 100_000
FLOODS = {
    # CVE-2023-44487; each element is a request and its reset.
    "resets": Flood("resets", lambda: get_then_reset(N), 200, 20),
    "provoked resets": Flood("provoked_resets", lambda: malformed(N), 40, 2),
    "requests that decode to too much": Flood("provoked_resets", lambda: oversized(N), 41, 2),
    "settings": Flood("settings", lambda: (frame(SETTINGS) for _ in range(N)), 20, 1),
    "pings": Flood("pings", lambda: (frame(PING, 0, 0, bytes(8)) for _ in range(N)), 100, 10),
    "priorities": Flood("priorities", lambda: (frame(PRIORITY, 0, 1001, bytes(5)) for _ in range(N)), 200, 10),
    "window updates": Flood(
        "window_updates", lambda: (frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1)) for _ in range(N)), 500, 50),
    "frames of unknown types": Flood("other_frames", lambda: (frame(0x42, 0, 0, b"x") for _ in range(N)), 100, 10),
    "empty frames": Flood("empty_frames", lambda: (
        frame(HEADERS, OPEN, 1, HEAD) if n == 0 else frame(DATA, 0, 1) for n in range(N)), 101, 10),
    "fields of a stream that is gone": Flood("empty_frames", lambda: unwanted_fields(N), 101, 10),
    # 64 are let pass: they may have been on their way when their request ended.
    "content of a stream that is gone": Flood("empty_frames", lambda: (
        frame(HEADERS, OPEN, 1, HEAD) + frame(RST_STREAM, 0, 1, struct.pack(">I", 8)) if n == 0 else frame(DATA, 0, 1, b"x")
        for n in range(N)), 165, 10),
    # CVE-2024-28182.
    "continuations": Flood("continuations", lambda: (
        frame(HEADERS, 0x1, 1, HEAD) if n == 0 else frame(CONTINUATION, 0, 1, b"\x00\x01x\x01y") for n in range(N)), 9),
    "header list": Flood("header_list", bomb, 2),
}
BATCH = 50
# Seconds of the process's CPU for each that was sent, and for the connections; of the debug build.
CPU_EACH, CPU_ALL = 0.002, 0.3
GROWTH = 8 << 20


@pytest.mark.parametrize("name", FLOODS)
def test_a_flood_is_ended_while_others_are_served(start_gateway, own_upstream, phone, name):
    flood = FLOODS[name]
    gateway = start_gateway({"service": own_upstream.address})
    with HTTP2Client(gateway, phone) as other:
        assert other.get("/before").status == 200
        before, cpu = gateway.resident_bytes(), gateway.cpu_seconds()
        with HTTP2Client(gateway, phone) as attacker:
            attacker.ping()
            frames, sent, began = flood.frames(), 0, time.monotonic()
            # In pieces, as no client waits for each of its frames.
            while not attacker.is_over:
                batch = [piece for piece in (next(frames, None) for _ in range(BATCH)) if piece]
                if not batch:
                    attacker.wait_for_end()
                    break
                attacker.send_bytes(b"".join(batch))
                sent += len(batch)
                attacker_reads(gateway, attacker)
                # However slow the machine is: what is taken is counted, and two batches may be on their way.
                most = flood.burst + flood.rate * (time.monotonic() - began) + 2 * BATCH
                assert sent <= most, f"{sent} were sent, and the connection is still open; at most {most:.0f} are taken"
        assert_connection_refused(gateway, "protocol_abused")
        assert other.get("/after").status == 200
        assert scrape(gateway)("attestgate_http2_faults_total", kind=flood.kind) == 1
        spent, grown = gateway.cpu_seconds() - cpu, gateway.resident_bytes() - before
        print(f"{name}: {sent} sent, {spent:.2f} s CPU, {grown >> 10} KiB")
        assert spent < CPU_ALL + CPU_EACH * sent and grown < GROWTH


def test_the_page_states_every_frame_limit():
    source = (REPOSITORY / "Sources" / "HTTP" / "HTTP2" / "HTTP2Framing.swift").read_text()
    section = (REPOSITORY / "docs" / "operations" / "limits.md").read_text().split("### Too much of a frame\n")[1]
    rows = {kind: (rate, burst) for kind, rate, burst in re.findall(
        r"(?m)^- `(\w+)`: (?:(\d+)/s, burst )?([^;]+);", section.split("\n#")[0])}
    assert {flood.kind for flood in FLOODS.values()} <= set(rows)
    for name, rate, burst in re.findall(r"var (\w+) = Rate\((\d+), per: \.seconds\(1\), burst: (\d+)\)", source):
        assert rows.pop(re.sub("([A-Z])", lambda letter: "_" + letter[0].lower(), name)) == (rate, burst)
    assert f"var continuations = {rows['continuations'][1]}\n" in source
    assert "var headerBlock = 64 * 1024\n" in source and rows["header_block"] == ("", str(64 * 1024))
    assert "var windowUpdatesPerData = 8\n" in source
    assert set(rows) == {"continuations", "header_block", "header_list", "outbound_frames"}


def attacker_reads(gateway, attacker):
    """Waits until the gateway has taken what was sent, and takes what has come, whatever it is: the library would object to what
    it has not sent itself. The connection is over with its GOAWAY."""
    eventually(lambda: unread(gateway, attacker.socket) == 0, "the gateway to take what was sent")
    attacker.socket.setblocking(False)
    came = b""
    try:
        while data := attacker.socket.recv(65536):
            came += data
        attacker.is_over = True
    except ssl.SSLWantReadError:
        pass
    except OSError:
        attacker.is_over = True
    finally:
        attacker.socket.settimeout(PATIENCE)
    while came:
        attacker.is_over |= came[3] == GOAWAY
        came = came[9 + int.from_bytes(came[:3]):]


def unread(gateway, client):
    """How many octets of a client's lie at the gateway's end; none where the connection is gone."""
    near, far = f":{gateway.port:04X}", f":{client.getsockname()[1]:04X}"
    for words in map(str.split, Path("/proc/net/tcp").read_text().splitlines()[1:]):
        if words[1].endswith(near) and words[2].endswith(far):
            return int(words[4].split(":")[1], 16)
    return 0


@pytest.mark.parametrize("frames, code", [
    (frame(SETTINGS, 0, 1), Codes.PROTOCOL_ERROR), (frame(PING, 0, 0, b"short"), Codes.FRAME_SIZE_ERROR),
    (frame(PUSH_PROMISE, 4, 1, bytes(4) + HEAD), Codes.PROTOCOL_ERROR), (frame(DATA, 0, 1, b"x"), Codes.PROTOCOL_ERROR),
    (frame(HEADERS, END, 2, HEAD), Codes.PROTOCOL_ERROR), (frame(HEADERS, END, 1, b"\xff\xff\xff\xff\xff\xff"), Codes.COMPRESSION_ERROR),
    (frame(WINDOW_UPDATE, 0, 0, bytes(4)), Codes.PROTOCOL_ERROR), (frame(HEADERS, END, 0, HEAD), Codes.PROTOCOL_ERROR),
], ids=["settings", "ping", "push", "data", "even", "hpack", "window", "zero"])
def test_a_protocol_violation_ends_the_connection_with_its_code(
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
