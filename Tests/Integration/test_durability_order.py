"""The order is proven by what the kernel saw: a counter's fdatasync returns before the first byte to the service.

No crash of a process shows whether commits are durable: the kernel keeps what a killed process wrote. A trace of system
calls does, and the same check fails when SQLite is forced to `synchronous=NORMAL`.
"""

import re

import pytest

from attested import Attested
from gateway import Gateway
from paths import BINARY

LINE = re.compile(r"(?P<thread>\d+)\s+(?P<text>.*)")
CALLS = "trace=pwrite64,write,writev,send,sendto,sendmsg,fdatasync,fsync"


def completed_calls(trace):
    """(name, what strace wrote of it) of each call, in the order in which they began, and of each end of a sync."""
    begun = {}
    for line in trace.splitlines():
        match = LINE.match(line)
        thread, text = match["thread"], match["text"]
        if resumed := re.match(r"<\.\.\. (\w+) resumed>(.*)", text):
            name, rest = resumed[1], begun.pop(thread, "") + resumed[2]
            if name in ("fdatasync", "fsync"):
                yield name, rest
        elif unfinished := re.match(r"(\w+)(\(.*) <unfinished \.\.\.>", text):
            begun[thread] = unfinished[2]
            # What leaves counts from the moment it is handed over; a sync only once it has returned.
            if unfinished[1] not in ("fdatasync", "fsync"):
                yield unfinished[1], unfinished[2]
        elif whole := re.match(r"(\w+)(\(.*)", text):
            yield whole[1], whole[2]


def assert_synced_before_forwarded(trace, count):
    """Between a request to the service and the one before it: a write to the log of the store, and its sync."""
    forwarded, is_written, is_synced = 0, False, False
    for name, text in completed_calls(trace):
        if name == "pwrite64" and "registry.sqlite-wal" in text:
            is_written, is_synced = True, False
        elif name in ("fdatasync", "fsync") and "registry.sqlite-wal" in text:
            assert text.endswith("= 0"), text
            is_synced = is_written
        elif '"GET /counted' in text or '"POST /stream/counted' in text:
            assert is_synced, f"request {forwarded} left before its counter was durable"
            forwarded, is_written, is_synced = forwarded + 1, False, False
    assert forwarded == count, f"{forwarded} of {count} requests are in the trace"


COLLECTED = {"path": "/counted"}
STREAMED = {"method": "POST", "path": "/stream/counted", "content": b"content"}


def trace_of(attested, path, count, request=COLLECTED):
    with attested.phone.connect() as client:
        assert client.exchange(attested.phone.request(path="/first")).status == 200
        with attested.gateway.traced(path, "-y", "-s", "64", "-e", CALLS):
            for _ in range(count):
                assert client.exchange(attested.phone.request(**request)).status == 200
    return path.read_text()


@pytest.mark.parametrize("request_of", [COLLECTED, STREAMED], ids=["collected", "streamed"])
def test_a_counter_is_durable_before_its_request_is_forwarded(start_attested, tmp_path, request_of):
    assert_synced_before_forwarded(trace_of(start_attested(), tmp_path / "trace", 20, request_of), 20)


def test_the_check_notices_commits_that_are_not_durable(pki, own_upstream, tmp_path, monkeypatch):
    monkeypatch.setattr(Gateway, "command", lambda self: [BINARY.parent / "attestgate-undurable", self.conf_path])
    attested = Attested(tmp_path / "undurable", pki, own_upstream)
    try:
        trace = trace_of(attested, tmp_path / "trace", 20)
    finally:
        attested.gateway.stop()
    with pytest.raises(AssertionError, match="left before its counter was durable"):
        assert_synced_before_forwarded(trace, 20)
