"""Health and status: whether this gateway lives, should get connections, and how it fares."""

import json
import re
import socket
import threading

from support import ocsp
from support.administration_page import Page
from support.client import Client, get
from support.denials import TABLE
from support.exposition import ask, scrape
from support.paths import REPOSITORY
from support.pki import attestgate
from support.ports import uncommon_port
from support.waiting import eventually


def test_a_gateway_that_serves_is_live_and_ready(start_gateway, own_upstream):
    gateway = start_gateway({"service": own_upstream.address}, workers=2)
    eventually(lambda: ask(gateway, "/health/ready")[0] == 200, "the gateway to be ready")
    assert ask(gateway, "/health/ready") == (200, "text/plain", "ready\n")
    assert ask(gateway, "/health/live") == (200, "text/plain", "live\n")
    assert scrape(gateway)("attestgate_ready") == 1


def test_a_gateway_that_drains_is_live_and_not_ready(start_gateway, own_upstream, phone):
    gateway = start_gateway({"service": own_upstream.address})
    release = threading.Event()

    def slow(connection):
        connection.read_request()
        release.wait(30)
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    own_upstream.script = slow
    with Client(gateway, phone) as client:
        client.send(get("/a")).wait_until_delivered()
        eventually(lambda: any(c.received for c in own_upstream.connections), "the request to arrive")
        gateway.signal()
        eventually(lambda: ask(gateway, "/health/ready")[0] == 503, "the gateway to be not ready")
        assert ask(gateway, "/health/ready")[2] == "the gateway is stopping\n"
        assert ask(gateway, "/health/live")[0] == 200
        assert scrape(gateway)("attestgate_ready") == 0
        done = attestgate("status", "--config", gateway.conf_path)
        assert done.returncode == 1 and "no: the gateway is stopping" in done.stdout
        release.set()
        assert client.read_response().status == 200
    assert gateway.wait() == 0


def test_a_health_listener_tells_everybody_whether_it_is_ready_and_nothing_else(start_gateway, own_upstream, tmp_path, phone):
    port = uncommon_port()
    gateway = start_gateway(
        {"service": own_upstream.address}, registry={"devices": 64}, timeouts={"shutdown_delay": "1h"}, administration={
            "socket": str(tmp_path / "admin.sock"), "listeners": [{"address": f"0.0.0.0:{port}", "level": "health"}]})
    page = Page(port)

    def probe(method, path, **fields):
        return page.ask(method, path, **{"origin": None, "sec_fetch_site": None, **fields})[:2]
    # Probes name the address as they know it, or not at all.
    for fields in [{}, {"host": "10.1.2.3:9466"}, {"host": "gateway.internal"}]:
        assert probe("GET", "/health/ready", **fields) == (200, "ready\n")
        assert probe("GET", "/health/live", **fields) == (200, "live\n")
    others = ["/", "/metrics", "/status", "/devices", "/decisions", "/reload", "/registry/export", "/page.js", "/health", "/nothing"]
    for path in others:
        answers = {str(probe(method, path)) for method in ["GET", "POST"]}
        assert len(answers) == 1 and "not_found" in answers.pop(), path
    assert probe("POST", "/reload", origin="https://evil.example")[0] == 404
    assert probe("GET", "/metrics", authorization="Bearer " + "a" * 40)[0] == 404
    assert scrape(gateway)("attestgate_administration_refused_total", reason="level") == 0
    gateway.signal()
    eventually(lambda: probe("GET", "/health/ready") == (503, "not ready\n"), "the probe to fail, without the reason")
    assert probe("GET", "/health/live")[0] == 200
    gateway.signal()
    assert gateway.wait() == 0


def test_a_full_health_listener_keeps_no_operator_out(start_gateway, own_upstream, tmp_path):
    port = uncommon_port()
    gateway = start_gateway({"service": own_upstream.address}, administration={
        "socket": str(tmp_path / "admin.sock"), "listeners": [{"address": f"127.0.0.1:{port}", "level": "health"}]})
    held = [socket.create_connection(("127.0.0.1", port), timeout=10) for _ in range(100)]
    try:
        assert attestgate("status", "--config", gateway.conf_path).returncode == 0
        # The idle ones give way to a probe.
        eventually(lambda: answers(port), "a probe to be answered")
    finally:
        for each in held:
            each.close()


def answers(port):
    try:
        return Page(port).ask("GET", "/health/ready", origin=None)[0] == 200
    except OSError:
        return False


def test_status_shows_generation_workers_upstreams_and_certificates(start_attested):
    attested = start_attested(workers=2)
    gateway, phone = attested.gateway, attested.phone
    with phone.connect() as client:
        assert client.exchange(phone.request(path="/a")).status == 200
        done = attestgate("status", "--config", gateway.conf_path, "--json")
        assert (done.returncode, done.stderr) == (0, "")
        status = json.loads(done.stdout)
    assert status["process"] == gateway.process.pid and status["obstacles"] == []
    assert (status["generation"], "last_reload" in status) == (1, False)
    assert [worker["worker"] for worker in status["workers"]] == [0, 1]
    assert all(worker["up"] and worker["generation"] == 1 for worker in status["workers"])
    assert sum(worker["connections"] for worker in status["workers"]) == 1
    assert status["listeners"] == [f"127.0.0.1:{gateway.port}"]
    assert [u["speaks"] for u in status["upstreams"]] == ["http/1.1"]
    assert [(u["name"], u["busy"], u["idle"]) for u in status["upstreams"]] == [("service", 0, 1)]
    assert {c["role"] for c in status["certificates"]} == {"server", "authority"}
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", c["expires_at"]) for c in status["certificates"])
    assert status["registry"] == {
        "available": True, "counters_committed": 1, "counters_waiting": 0, "journal_complete": True,
        "devices": {"active": 1, "pending": 0, "revoked": 0}}
    assert {app["environment"] for app in status["apps"]} == {"simulator"}
    assert {app["counter"] for app in status["apps"]} == {"strict"}
    assert status["protocols"] == [{"listener": f"127.0.0.1:{gateway.port}", "names": ["h2", "http/1.1"]}]
    assert status["revocation_lists"] == status["ocsp_responses"] == []


def test_status_shows_counter_modes_protocols_and_what_is_stale(start_attested, pki, tmp_path):
    fresh, stale = pki.crl(tmp_path / "gms.crl", pki.gms), pki.crl(tmp_path / "root.crl", pki.root, start=-9, end=-1)
    attested = start_attested(
        counter="window 64", clients={"crls": [str(fresh), str(stale)], "crl_policy": "accept-stale"}, protocols=["http/1.1"])
    gateway = attested.gateway
    stapled = ocsp.Stapled(tmp_path, pki)
    stapled.write()
    gateway.conf["listeners"][0]["tls"].update(stapled.tls)
    gateway.write_conf()
    assert attestgate("reload", "--config", gateway.conf_path).returncode == 0
    status = json.loads(ask(gateway, "/status")[2])
    assert [app["counter"] for app in status["apps"]] == ["window 64", "strict"]
    assert status["protocols"][0]["names"] == ["http/1.1"]
    assert sorted(entry["stale"] for entry in status["revocation_lists"]) == [False, True]
    response, = status["ocsp_responses"]
    assert not response["stale"] and response["listener"] == f"127.0.0.1:{gateway.port}"
    assert "epoch_changed_at" not in status["registry"]
    assert attestgate("registry", "renew-epoch", "--config", gateway.conf_path).returncode == 0
    shown = attestgate("status", "--config", gateway.conf_path).stdout
    assert re.search(r"^epoch changed  +20\d\d-", shown, re.MULTILINE)
    assert re.search(r"^devices  +1 active, 0 pending, 0 revoked$", shown, re.MULTILINE)
    assert re.search(r"^revocation journal  +complete$", shown, re.MULTILINE)
    assert "counter: window 64" in shown and f"127.0.0.1:{gateway.port}: http/1.1" in shown
    assert re.search(r"STALE +revocation list", shown) and re.search(r"fresh +OCSP response", shown)


def test_status_remembers_why_a_reload_failed(start_gateway, own_upstream):
    gateway = start_gateway({"service": own_upstream.address})
    good = gateway.conf["workers"]
    gateway.conf["workers"] = 7
    gateway.write_conf()
    assert attestgate("reload", "--config", gateway.conf_path).returncode == 1
    shown = attestgate("status", "--config", gateway.conf_path)
    assert shown.returncode == 0, shown.stderr
    lines = dict(re.split(r"  +", line, maxsplit=1) for line in shown.stdout.splitlines() if "  " in line)
    assert lines["last reload"].endswith("failed: workers: more threads require a restart, or `attestgate upgrade`")
    gateway.conf["workers"] = good
    gateway.write_conf()
    assert attestgate("reload", "--config", gateway.conf_path).returncode == 0
    status = json.loads(ask(gateway, "/status")[2])
    assert status["last_reload"]["succeeded"] and "reason" not in status["last_reload"]
    assert status["generation"] == 2


def test_without_a_gateway_the_command_reports_it(tmp_path):
    conf = tmp_path / "attestgate.yaml"
    conf.write_text(f"administration:\n  socket: {tmp_path}/admin.sock\n")
    done = attestgate("status", "--config", conf)
    assert done.returncode == 1 and "is not reachable: no gateway runs with this socket" in done.stderr
    conf.write_text("workers: auto\n")
    done = attestgate("status", "--config", conf)
    assert done.returncode == 1 and "no administration socket can be read" in done.stderr
    done = attestgate("reload", "--config", tmp_path / "nope.yaml")
    assert done.returncode == 1 and "nope.yaml" in done.stderr and "administration socket" not in done.stderr
    conf.write_text(f"administration:\n\tsocket: {tmp_path}/admin.sock\n")
    done = attestgate("status", "--config", conf)
    assert done.returncode == 1 and f"{conf}:2:1: error: " in done.stderr, "why no socket is found there"
    assert "so the gateway was not contacted and is unchanged. Repair the errors first, or say --socket" in done.stderr


def test_the_troubleshooting_page_quotes_existing_lines_and_denials():
    page = (REPOSITORY / "docs/operations/trouble.md").read_text()
    listing = (REPOSITORY / "Sources/attestgate/Status.swift").read_text()
    items = re.findall(r"^- ((?:`[^`]+`(?:, )?)+):", page, re.MULTILINE)
    names = {name for item in items for name in re.findall(r"`([^`]+)`", item)}
    lines = {name for name in names if f'"{name}"' in listing}
    codes = {row.code for row in TABLE.values()}
    assert len(lines) > 8 and len(names & codes) > 10 and names <= lines | codes, names - lines - codes
