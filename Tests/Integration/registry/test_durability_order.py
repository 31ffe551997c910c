"""The order is proven by what the kernel saw: a counter's fdatasync returns before the first byte to the service.

No crash of a process shows whether commits are durable: the kernel keeps what a killed process wrote. A trace of system
calls does, and the same check fails when SQLite is forced to `synchronous=NORMAL`.
"""

import pytest

from support.attested import Attested
from support.commit_order import CALLS, assert_synced_before_forwarded, completed_calls
from support.gateway import Gateway
from support.paths import BINARY

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
    assert_synced_before_forwarded(trace_of(start_attested(), tmp_path / "trace", 100, request_of), 100)


def test_the_check_notices_commits_that_are_not_durable(pki, own_upstream, tmp_path, monkeypatch):
    monkeypatch.setattr(Gateway, "command", lambda self: [BINARY.parent / "attestgate-undurable", "normal", self.conf_path])
    attested = Attested(tmp_path / "undurable", pki, own_upstream)
    try:
        trace = trace_of(attested, tmp_path / "trace", 20)
    finally:
        attested.gateway.stop()
    with pytest.raises(AssertionError, match="left before its counter was durable"):
        assert_synced_before_forwarded(trace, 20)


def traced_from_the_start(monkeypatch, attested, path):
    """Starts the gateway under strace, has one request pass, and ends it. - Returns: its calls."""
    original = Gateway.command
    calls = CALLS + ",openat,rename,renameat,renameat2"
    with monkeypatch.context() as patch:
        # -D: the gateway is our child, and strace its.
        patch.setattr(Gateway, "command", lambda self: [
            "strace", "-D", "-f", "-qq", "-y", "-s", "64", "-o", str(path), "-e", calls, *original(self)])
        attested.gateway.start()
    with attested.phone.connect() as client:
        assert client.exchange(attested.phone.request(**COLLECTED)).status == 200
    attested.gateway.halt()
    calls = list(completed_calls(path.read_text()))
    forwarded = next(index for index, (_, text) in enumerate(calls) if '"GET /counted' in text)
    return calls[:forwarded]


def index_of(calls, what, start=0):
    found = next((index for index, (name, text) in enumerate(calls) if index >= start and what(name, text)), None)
    assert found is not None, f"not among {calls[start:]}"
    return found


def test_the_name_of_a_new_log_is_durable_before_a_request_is_forwarded(start_attested, tmp_path, monkeypatch):
    attested = start_attested()
    folder = str(attested.gateway.directory)
    attested.gateway.halt()
    calls = traced_from_the_start(monkeypatch, attested, tmp_path / "trace")
    made = index_of(calls, lambda name, text: name == "openat" and "registry.sqlite-wal" in text and "O_CREAT" in text)
    index_of(calls, lambda name, text: name in ("fsync", "fdatasync") and f"{folder}>" in text, made)
    attested.gateway.start()


def test_a_log_that_is_found_is_copied_and_its_copy_durable_before_a_request_is_forwarded(
        start_attested, tmp_path, monkeypatch):
    attested = start_attested()
    folder = str(attested.gateway.directory)
    with attested.phone.connect() as client:
        assert client.exchange(attested.phone.request(**COLLECTED)).status == 200
    attested.gateway.crash()
    calls = traced_from_the_start(monkeypatch, attested, tmp_path / "trace")
    synced = index_of(calls, lambda name, text: name == "fdatasync" and "registry.sqlite-wal.copy" in text)
    renamed = index_of(calls, lambda name, text: name.startswith("rename") and "registry.sqlite-wal.copy" in text, synced)
    index_of(calls, lambda name, text: name == "fsync" and f"{folder}>" in text, renamed)
    attested.gateway.start()
