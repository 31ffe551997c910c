"""How the gateway starts, stops, and keeps what it holds of the system in bounds."""

import json
import os
import signal
import socket
import threading
from pathlib import Path

import pytest

from support.client import Client, IncompleteResponse, get
from support.exposition import ask
from support.gateway import Gateway
from support.pki import attestgate
from support.recording_upstream import OK
from support.waiting import eventually


@pytest.fixture
def held(own_upstream):
    """Makes the service hold its response back, or half of it, until `release` is set."""
    release = threading.Event()

    def hold(first, rest):
        def script(connection):
            connection.read_request()
            connection.send(first)
            release.wait(60)
            connection.send(rest)
        own_upstream.script = script
        return release

    yield hold
    release.set()


def is_stopping(gateway):
    """New connections are refused: the signal has been taken in by every worker."""
    try:
        socket.create_connection(("127.0.0.1", gateway.port), timeout=5).close()
        return False
    except ConnectionRefusedError:
        return True
    except ConnectionResetError:
        # Closed between the two halves of the connection's making.
        return False


def test_a_stopping_gateway_accepts_connections_for_the_delay_and_a_second_signal_ends_it(start_gateway, own_upstream, phone):
    gateway = start_gateway({"service": own_upstream.address}, workers=2, timeouts={"shutdown_delay": "1h"})
    gateway.signal()
    eventually(lambda: ask(gateway, "/health/ready") == (503, "text/plain", "the gateway is stopping\n"), "readiness to fail")
    assert ask(gateway, "/health/live")[0] == 200
    with Client(gateway, phone) as client:
        assert client.exchange(get("/")).status == 200
        done = attestgate("reload", "--config", gateway.conf_path)
        assert done.returncode == 1 and "the gateway is stopping" in done.stderr
        gateway.signal()
        assert gateway.wait() == 0
    assert gateway.errors.count("stopping: not ready, still accepting connections for 3600000 ms") == 1
    assert gateway.errors.count("stopping: finishing requests in flight") == 1


def test_requests_in_flight_finish_after_the_delay(start_gateway, own_upstream, held, phone):
    gateway = start_gateway({"service": own_upstream.address}, timeouts={"shutdown_delay": "100ms"})
    release = held(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello", b"world")
    with Client(gateway, phone) as client:
        client.send(get("/"))
        client.read_head()
        gateway.signal()
        eventually(lambda: is_stopping(gateway), "the delay to end")
        assert gateway.process.poll() is None
        release.set()
        assert client._exactly(10) == b"helloworld"
    assert gateway.wait() == 0


def test_a_response_in_flight_is_completed_before_the_end(start_gateway, own_upstream, held, phone):
    gateway = start_gateway({"service": own_upstream.address}, workers=2)
    release = held(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello", b"world")
    with Client(gateway, phone) as client:
        client.send(get("/"))
        head = client.read_head()
        gateway.signal()
        eventually(lambda: is_stopping(gateway), "the gateway to stop listening")
        assert gateway.process.poll() is None
        release.set()
        assert client._exactly(10) == b"helloworld"
        assert head.status == 200
        client.assert_closed()
    assert gateway.wait() == 0


def test_a_response_that_begins_after_the_signal_says_close(start_gateway, own_upstream, held, phone):
    gateway = start_gateway({"service": own_upstream.address})
    release = held(b"", OK)
    with Client(gateway, phone) as client:
        client.send(get("/"))
        own_upstream.wait_for_requests(1)
        gateway.signal()
        eventually(lambda: is_stopping(gateway), "the gateway to stop listening")
        release.set()
        response = client.read_response()
        assert (response.content, response.value("connection")) == (b"ok", "close")
        client.assert_closed()
    assert gateway.wait() == 0


def test_an_unused_connection_is_closed_on_the_signal(start_gateway, own_upstream, phone):
    gateway = start_gateway({"service": own_upstream.address}, workers=2)
    with Client(gateway, phone) as used, Client(gateway, phone) as fresh:
        assert used.exchange(get("/")).status == 200
        with socket.create_connection(("127.0.0.1", gateway.port)):
            gateway.signal(signal.SIGINT)
            used.assert_closed()
            fresh.assert_closed()
            assert gateway.wait() == 0


def test_a_second_signal_ends_at_once(start_gateway, own_upstream, held, phone):
    gateway = start_gateway({"service": own_upstream.address})
    held(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello", b"world")
    with Client(gateway, phone) as client:
        client.send(get("/"))
        client.read_head()
        gateway.signal()
        eventually(lambda: is_stopping(gateway), "the gateway to stop listening")
        gateway.signal()
        assert gateway.wait() == 0
        with pytest.raises(IncompleteResponse):
            client._exactly(10)


def test_requests_in_flight_get_at_most_the_shutdown_time(start_gateway, own_upstream, held, phone):
    gateway = start_gateway({"service": own_upstream.address}, timeouts={"shutdown": "1s"})
    held(b"", OK)
    with Client(gateway, phone) as client:
        client.send(get("/"))
        own_upstream.wait_for_requests(1)
        gateway.signal()
        assert gateway.wait() == 0


def test_a_signal_right_after_the_start_ends_the_process_in_order(pki, own_upstream, tmp_path):
    for attempt in range(10):
        gateway = Gateway(tmp_path / f"gateway-{attempt}", pki, {"service": own_upstream.address}, workers=8)
        # It binds the address itself: who can connect knows that it watches signals. Not all workers may serve yet.
        gateway.passes_sockets = False
        gateway.holder.close()
        gateway.start(until=gateway.listens)
        gateway.signal()
        assert gateway.wait() == 0
        gateway.stop()


def test_repeated_signals_do_no_harm(start_gateway, own_upstream, phone):
    """However many signals it receives, it ends with status 0 and a whole log."""
    for _ in range(10):
        gateway = start_gateway({"service": own_upstream.address}, workers=4)
        with Client(gateway, phone) as client:
            assert client.exchange(get("/")).status == 200
            while gateway.process.poll() is None:
                gateway.signal()
        assert gateway.wait() == 0
        assert [entry["status"] for entry in gateway.access() if "status" in entry] == [200]


def test_a_stop_during_a_reload_ends_in_order(start_gateway, own_upstream):
    """Its thread may be in the middle of a certificate."""
    for _ in range(8):
        gateway = start_gateway({"service": own_upstream.address})
        gateway.signal(signal.SIGHUP)
        gateway.stop()


def test_the_last_line_of_the_access_log_is_written(start_gateway, own_upstream, phone):
    gateway = start_gateway({"service": own_upstream.address}, workers=2)
    for _ in range(20):
        with Client(gateway, phone) as client:
            assert client.exchange(get("/")).status == 200
    gateway.signal()
    assert gateway.wait() == 0
    assert len([e for e in gateway.access() if e.get("status") == 200]) == 20


def test_an_address_in_use_is_reported_and_ends_with_status_1(pki, own_upstream, tmp_path):
    gateway = Gateway(tmp_path / "gateway", pki, {"service": own_upstream.address})
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        gateway.conf["listeners"][0]["address"] = f"127.0.0.1:{port}"
        gateway.conf_path.write_text(json.dumps(gateway.conf))
        done = attestgate("run", "--config", gateway.conf_path)
    assert done.returncode == 1
    assert f"listener 127.0.0.1:{port}: bind: Address already in use" in done.stderr


def test_a_second_process_on_the_same_address_is_refused_unless_it_is_meant(gateway, pki, own_upstream, tmp_path):
    second = Gateway(tmp_path / "second", pki, {"service": own_upstream.address})
    second.conf["listeners"][0]["address"] = f"127.0.0.1:{gateway.port}"
    second.conf_path.write_text(json.dumps(second.conf))
    done = attestgate("run", "--config", second.conf_path)
    assert done.returncode == 1
    assert f"listener 127.0.0.1:{gateway.port}: bind: Address already in use" in done.stderr


def test_a_log_without_a_reader_does_not_prevent_the_end(pki, own_upstream, phone, tmp_path):
    gateway = Gateway(tmp_path / "gateway", pki, {"service": own_upstream.address})
    gateway.conf["log"]["access"] = str(tmp_path / "pipe")
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        gateway.start()
        with Client(gateway, phone) as client:
            for _ in range(1_000):  # some 200 KB of lines, more than a pipe holds
                assert client.exchange(get()).status == 200
        gateway.stop()
    finally:
        os.close(reader)


def test_a_log_that_cannot_be_opened_is_reported_and_ends_with_status_1(pki, own_upstream, tmp_path):
    gateway = Gateway(tmp_path / "gateway", pki, {"service": own_upstream.address})
    gateway.conf["log"]["access"] = str(tmp_path / "nowhere" / "access.log")
    gateway.conf_path.write_text(json.dumps(gateway.conf))
    done = attestgate("run", "--config", gateway.conf_path)
    assert done.returncode == 1
    assert "nowhere/access.log" in done.stderr and "No such file or directory" in done.stderr


def test_core_dumps_are_disabled(start_gateway, own_upstream):
    """Keys and passphrases are in memory."""
    gateway = start_gateway({"service": own_upstream.address})
    limits = Path(f"/proc/{gateway.process.pid}/limits").read_text().splitlines()
    assert next(line.split()[4:6] for line in limits if line.startswith("Max core file size")) == ["0", "0"]


def test_no_descriptor_is_left_behind(start_gateway, own_upstream, phone, pki):
    gateway = start_gateway({"service": {"servers": [own_upstream.address], "idle_connections": 0}})
    foreign = pki.client("leaks", issuer=None)
    endings = ["in order", "after a request", "in the middle of a head", "in the middle of content", "refused", "plain"]

    def visit(ending):
        try:
            if ending == "plain":
                with socket.create_connection(("127.0.0.1", gateway.port)) as plain:
                    plain.sendall(b"nonsense\r\n\r\n")
                return
            with Client(gateway, foreign if ending == "refused" else phone) as client:
                if ending == "after a request":
                    assert client.exchange(get("/")).status == 200
                elif ending == "in the middle of a head":
                    client.send(b"GET / HT")
                elif ending == "in the middle of content":
                    client.send(get("/", "Content-Length: 10", method="POST") + b"hello")
        except OSError:
            assert ending == "refused"

    for ending in endings:
        visit(ending)
    own_upstream.wait_for_requests(1)
    settled = {"count": -1}

    def is_quiet():
        before, settled["count"] = settled["count"], gateway.descriptors()
        return before == settled["count"] and all(c.is_closed_by_gateway for c in own_upstream.connections)
    eventually(is_quiet, "the first connections to be gone")
    start = settled["count"]
    for index in range(500):
        visit(endings[index % len(endings)])
    eventually(lambda: gateway.descriptors() <= start, lambda: f"{gateway.descriptors()} descriptors to become {start}")
