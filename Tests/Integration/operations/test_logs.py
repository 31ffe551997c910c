"""What the logs tell: every member moves, nothing tells more than it should, and rotation loses no line."""

import base64
import json
import os
import re
import signal
import ssl
import threading

import pytest

from support.client import Client, IncompleteResponse, get, post
from support.command_line import favourite_exchange
from support.exposition import scrape
from support.paths import REPOSITORY
from support.waiting import eventually
from support.web_sockets import handshake, switches

# Members of access log lines that a test has seen move.
moved = set()


@pytest.fixture(scope="module", autouse=True)
def every_member_moves(request):
    """Every log member changes in a test, in whatever order they run. Only all of them together can change every member."""
    ran = set()
    yield ran
    if ran != {name for name in vars(request.module) if name.startswith("test_")}:
        return
    source = (REPOSITORY / "Sources" / "Telemetry" / "LogForm.swift").read_text()
    body = source[source.index("enum Member"):source.index("var name")]
    names = [name.strip("`") for line in re.findall(r"case (.*)", body) for name in line.split(", ")]
    snake = {re.sub("([A-Z])", lambda match: "_" + match[1].lower(), name) for name in names}
    assert moved - {"time", "event"} == snake


@pytest.fixture(autouse=True)
def note_run(request, every_member_moves):
    every_member_moves.add(request.function.__name__)


def members_of(entry, *names):
    moved.update(names)
    return [entry[name] for name in names]


# Each member.

def test_a_forwarded_request_with_all_its_phases(attested):
    phone = attested.phone
    with phone.connect() as client:
        for content in [b"first", b"second!"]:
            attested.upstream.answer = b"HTTP/1.1 201 Created\r\nContent-Length: 4\r\n\r\ndone"
            assert client.exchange(phone.request("POST", "/", content=content)).status == 201
    attested.upstream.reset_behaviour()
    first, second = (attested.gateway.logged(request_bytes=count, status=201) for count in (5, 7))
    moved.update(["time", "event"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", first["time"]) and first["event"] == "request"
    assert members_of(
        first, "client", "listener", "route", "method", "protocol", "decision", "status", "app", "upstream", "server") == [
            "127.0.0.0/24", f"127.0.0.1:{attested.gateway.port}", "records", "POST", "HTTP/1.1", "forwarded", 201, phone.app, "service", attested.upstream.address]
    assert members_of(first, "request_bytes", "response_bytes") == [5, 4]
    for entry in (first, second):
        for phase in members_of(entry, "verification_us", "commit_us", "upstream_us", "duration_us"):
            assert 0 < phase < 3_600_000_000, entry
        parts = entry["verification_us"] + entry["commit_us"] + entry["upstream_us"]
        assert parts <= entry["duration_us"], entry
    assert 0 < first["handshake_us"] < 3_600_000_000
    assert first["key_exchange"] == favourite_exchange()
    assert not {"handshake_us", "key_exchange"} & set(second), "a connection has one handshake"
    moved.update(["handshake_us", "key_exchange"])
    assert first["request_id"] != second["request_id"] and first["trace_id"] != second["trace_id"]
    moved.update(["request_id", "trace_id"])
    assert not {"denial", "fault", "detail", "aborted", "path", "query", "client_address", "user_agent"} & set(first)


def test_a_route_without_a_proof_has_neither_verification_nor_commit(attested):
    with attested.phone.connect() as client:
        assert client.exchange(get("/certificate/without-proof")).status == 200
    entry = attested.gateway.logged(route="certificate", decision="forwarded")
    assert "verification_us" not in entry and "commit_us" not in entry
    assert entry["upstream_us"] <= entry["duration_us"]


def test_device_ids_in_the_log_are_short_stable_and_unlinkable(attested):
    phone, other = attested.phone, attested.new_phone()
    names = []
    for index, each in enumerate([phone, other, phone]):
        trace = f"{index + 1:032x}"
        for path in ["/device", "/certificate"]:
            with each.connect() as client:
                assert client.exchange(get(path, f"traceparent: 00-{trace}-{'1' * 16}-01")).status == 200
                if path == "/device":
                    forwarded = attested.upstream.last_request().values("attest-device")[0]
            names.append(attested.gateway.logged(trace_id=trace, route=path[1:])["device"])
        assert re.fullmatch("[0-9a-f]{16}", names[-1])
        assert names[-1] not in forwarded and names[-1] not in each.key.key_id.hex()
    assert names == [names[0], names[0], names[2], names[2], names[0], names[0]] and names[0] != names[2]
    moved.add("device")


def test_a_refusal_logs_the_device_and_the_decision(attested):
    phone = attested.new_phone()
    with phone.connect() as client:
        assert client.exchange(get("/other")).status == 403
    entry = attested.gateway.logged(denial="app_refused")
    assert members_of(entry, "decision", "denial", "fault") == ["denied", "app_refused", "client"]
    assert "upstream" not in entry and "upstream_us" not in entry
    assert re.fullmatch("[0-9a-f]{16}", entry["device"]) and entry["app"] == phone.app


def test_a_refused_handshake_and_a_misdirected_request_log_the_requested_host(gateway, phone):
    with Client(gateway, phone) as client:
        assert client.exchange(get("/", host="elsewhere.example")).status == 421
    assert members_of(gateway.logged(denial="misdirected"), "server_name") == ["localhost"]
    with pytest.raises(ssl.SSLError):
        with Client(gateway, None) as client:
            client.exchange(get("/"))
    assert gateway.logged(denial="certificate_required")["server_name"] == "localhost"


def test_a_request_logs_its_virtual_host(start_gateway, own_upstream, pki, phone):
    gateway = start_gateway({"service": own_upstream.address})
    gateway.halt()
    listener = gateway.conf["listeners"][0]
    host = pki.client(
        "records-example", issuer=pki.server_authority,
        extensions="subjectAltName=DNS:records.example\nextendedKeyUsage=serverAuth\n")
    listener["hosts"] = [{
        "names": ["records.example"], "clients": listener["clients"],
        "tls": {"certificate": str(host.certificate), "key": str(host.key)}}]
    gateway.conf["routes"] = [
        {**gateway.conf["routes"][0], "name": name, "host": host}
        for name, host in [("own", "localhost"), ("records", "records.example")]]
    gateway.start()
    for name, route in [("localhost", "own"), ("records.example", "records")]:
        with Client(gateway, phone, server_name=name) as client:
            assert client.exchange(get("/", host=name)).status == 200
    assert members_of(gateway.logged(route="records"), "host") == ["records.example"]
    assert "host" not in gateway.logged(route="own"), "the listener's own"


def test_a_late_counters_distance_is_logged_and_not_sent(attested):
    phone = attested.new_phone()
    with phone.connect() as client:
        old = phone.request(path="/")
        later = [phone.request(path="/") for _ in range(3)]
        assert client.exchange(later[-1]).status == 200
        answer = client.exchange(old)
    assert answer.status == 401 and b"counter_late" in answer.content and b"behind the highest" not in answer.content
    detail = attested.gateway.logged(denial="counter_late")["detail"]
    behind, highest = re.fullmatch(r"(\d+) behind the highest, (\d+)", detail).groups()
    assert int(behind) == 3 and int(highest) == phone.counter


def test_a_refused_proof_logs_its_detail_and_duration(attested):
    with attested.phone.connect() as client:
        assert client.exchange(attested.phone.request(created=1_000_000_000)).status == 401
    entry = attested.gateway.logged(denial="proof_stale")
    assert "in the past" in members_of(entry, "detail")[0]
    assert entry["decision"] == "denied" and entry["verification_us"] >= 0 and "commit_us" not in entry


def test_a_replayed_counter_ends_before_the_commit(attested):
    with attested.phone.connect() as client:
        data = attested.phone.request(path="/replayed")
        assert client.exchange(data).status == 200
        assert client.exchange(data).status == 401
    entry = attested.gateway.logged(denial="counter_replayed")
    assert entry["decision"] == "denied" and "verification_us" in entry and "upstream" not in entry


def test_a_response_of_the_gateway_itself_is_logged_as_answered(attested):
    with attested.phone.connect() as client:
        assert client.exchange(get("/.well-known/attestgate/challenge")).status == 204
    entry = attested.gateway.logged(decision="answered")
    assert entry["status"] == 204 and "route" not in entry and "upstream" not in entry


def test_a_failed_service_was_forwarded_to_and_is_a_denial(start_gateway, own_upstream, phone):
    gateway = start_gateway({"service": own_upstream.address})

    def script(connection):
        connection.read_request()
        connection.send(b"nonsense\r\n\r\n")
    own_upstream.script = script
    with Client(gateway, phone) as client:
        assert client.exchange(post("/", b"x")).status == 502
    entry = gateway.logged(denial="upstream_unavailable")
    assert (entry["decision"], entry["fault"], entry["upstream"]) == ("forwarded", "upstream", "service")
    assert entry["upstream_us"] <= entry["duration_us"]


def test_a_client_that_leaves_is_logged(start_gateway, own_upstream, phone):
    gateway = start_gateway({"service": own_upstream.address}, log={"sample": 1_000_000})
    release = threading.Event()
    own_upstream.script = lambda connection: (connection.read_request(), release.wait(60))
    with Client(gateway, phone) as client:
        client.send(get("/"))
        own_upstream.wait_for_requests(0)
        eventually(lambda: own_upstream.byte_count > 0, "the request")
    try:
        entry = gateway.logged(aborted=True)
    finally:
        release.set()
    assert entry["decision"] == "forwarded" and "status" not in entry
    moved.add("aborted")


def test_a_request_that_an_observing_route_forwards_has_the_code_of_its_denial(start_attested):
    observed = {"name": "observed", "host": "localhost", "path": "/", "require": "request-proof", "enforce": "observe"}
    attested = start_attested(routes=[observed])
    with attested.phone.connect() as client:
        assert client.exchange(get("/")).status == 200
    entry = attested.gateway.logged(route="observed")
    assert members_of(entry, "decision", "would_deny") == ["forwarded", "proof_required"]
    assert "denial" not in entry and "fault" not in entry


def test_a_request_about_which_a_simulated_policy_says_otherwise_has_its_verdict(start_attested):
    attested = start_attested(
        policies={"strict": {"admission": ["token"], "simulate": "true"}},
        routes=[{"name": "all", "host": "localhost", "path": "/", "require": "device", "policy": "strict"}])
    with attested.phone.connect() as client:
        assert client.exchange(get("/")).status == 200
    entry = attested.gateway.logged(route="all", decision="forwarded")
    assert members_of(entry, "simulated") == ["strict: deny admission_low"]


def test_a_refused_handshake_has_its_duration(gateway, pki):
    with pytest.raises(Exception):
        with Client(gateway, pki.client("logs-foreign", issuer=None)) as client:
            client.exchange(get())
    entry = gateway.logged(event="connection_refused", denial="certificate_unknown_authority")
    assert 0 < entry["handshake_us"] < 3_600_000_000 and entry["client"] == "127.0.0.0/24"
    assert not {"request_id", "decision", "key_exchange"} & set(entry)


# Fields that are logged only where the conf file asks for them.

DISCLOSED = ["path", "query", "client_address", "user_agent", "requested_host"]


@pytest.mark.parametrize("fields", [[], *([field] for field in DISCLOSED), DISCLOSED])
def test_identifying_text_is_logged_only_on_request(start_gateway, own_upstream, phone, fields):
    gateway = start_gateway({"service": own_upstream.address}, log={"fields": fields})
    with Client(gateway, phone) as client:
        assert client.exchange(get('/patient"7?name=meyer', 'User-Agent: app/1.0 "x"\\ \xe9')).status == 400
    with Client(gateway, phone) as client:
        assert client.exchange(get("/patient/7?name='meyer", 'User-Agent: app/1.0 "x"\\ \xe9')).status == 200
    entry = gateway.logged(status=200)
    values = {"path": "/patient/7", "query": "name='meyer", "client_address": "127.0.0.1",
              "user_agent": 'app/1.0 "x"\\ \xe9', "requested_host": "localhost"}
    assert {name: entry.get(name) for name in DISCLOSED} == {
        name: values[name] if name in fields else None for name in DISCLOSED}
    # Of a head that cannot be read, nothing is logged.
    refused = gateway.logged(status=400)
    assert set(DISCLOSED) & set(refused) <= {"client_address"}
    moved.update(fields)


def test_the_host_of_an_unknown_route_is_logged_only_on_request(start_gateway, own_upstream, phone):
    name = "patient-4711." + "a" * 40 + ".example"
    for fields in ([], ["requested_host"]):
        gateway = start_gateway({"service": own_upstream.address}, log={"fields": fields})
        with Client(gateway, phone, server_name=None) as client:
            assert client.exchange(get("/", host=name)).status == 404
        entry = gateway.logged(denial="route_unknown")
        assert entry.get("requested_host") == (name if fields else None)
        assert fields or "patient-4711" not in json.dumps(entry)


def test_a_disclosed_text_is_cut_and_its_line_stays_whole(start_gateway, own_upstream, phone):
    gateway = start_gateway({"service": own_upstream.address}, log={"fields": DISCLOSED})
    with Client(gateway, phone) as client:
        data = get("/" + "p" * 3000 + "?" + "q" * 3000, "User-Agent: " + "\xe9" * 5000)
        assert client.exchange(data).status == 200
    entry = gateway.logged(status=200)
    assert (entry["path"], entry["query"], entry["user_agent"]) == ("/" + "p" * 1023, "q" * 1024, "\xe9" * 1024)


def test_no_log_contains_proofs_or_patient_data(start_attested):
    attested = start_attested(log={"level": "debug"})
    gateway, phone = attested.gateway, attested.phone
    fields = [("Authorization", "Bearer s3cr3t-t0ken"), ("Cookie", "session=c00kie"), ("X-Any", "wh4tever"),
              ("User-Agent", "secr3t-agent")]
    sent = []
    for change in [{}, {"created": 1}, {"nonce": "n0nsense"}, {"counter": 1}, {"keyid": os.urandom(32)},
                   {"assertion": b"n0 assertion"}, {"covered": ["@method"]}, {"digest": "sha-256=:AAAA:"}]:
        with phone.connect() as client:
            data = phone.request("POST", "/patient-4711/x", "name=meyer", fields, b"c0ntent of a record", **change)
            sent.append(client.exchange(data).status)
    assert sent[0] == 200 and set(sent[1:]) == {401, 403}, sent
    with phone.connect() as client:
        client.send(get("/patient-4711 ?name=meyer", "Authorization: Bearer s3cr3t-t0ken")).read_response()
    attested.gateway.stop()
    text = gateway.access_path.read_text() + gateway.errors
    assert text.count('"event":"request"') >= len(sent)
    secrets = ["patient", "meyer", "s3cr3t", "c00kie", "wh4tever", "secr3t", "c0ntent", "n0nsense", "n0 assertion",
               "127.0.0.1/", '"127.0.0.1"', phone.challenge(), phone.key.key_id.hex(),
               base64.b64encode(phone.key.key_id).decode(), "attest=", "Signature", "signature=",
               phone.identity.key.read_text().splitlines()[1],
               *(line.split()[-1] for line in open(gateway.conf["registry"]["secret"]) if line[:1] not in "#\n")]
    for secret in secrets:
        assert secret not in text, secret


# How much is logged.

def test_forwarded_requests_are_sampled_and_refusals_are_all_logged(start_gateway, own_upstream, phone):
    gateway = start_gateway({"service": own_upstream.address}, log={"sample": 1_000_000})
    with Client(gateway, phone, server_name=None) as client:
        for _ in range(200):
            assert client.exchange(get("/")).status == 200
        for _ in range(20):
            assert client.exchange(get("/", host="elsewhere")).status == 404
    gateway.stop()
    statuses = [entry["status"] for entry in gateway.access()]
    # Each of the 200 has one chance in a million.
    assert statuses.count(404) == 20 and statuses.count(200) <= 2


def test_a_sample_is_about_as_large_as_it_should_be(start_gateway, own_upstream, phone):
    gateway = start_gateway({"service": own_upstream.address}, log={"sample": 4})
    with Client(gateway, phone) as client:
        for _ in range(2000):
            assert client.exchange(get("/")).status == 200
    gateway.stop()
    # 500 are expected; ten standard deviations.
    assert 306 < len(gateway.access()) < 694


def test_a_flood_of_refusals_is_counted_instead_of_logged(start_gateway, own_upstream, phone):
    gateway = start_gateway({"service": own_upstream.address}, log={"refusals_per_second": 3})
    with Client(gateway, phone, server_name=None) as client:
        for _ in range(300):
            assert client.exchange(get("/", host="elsewhere")).status == 404
        assert client.exchange(get("/")).status == 200
    gateway.logged(event="suppressed")
    gateway.stop()
    entries = gateway.access()
    refusals = [entry for entry in entries if entry.get("denial")]
    suppressed = sum(entry["lines"] for entry in entries if entry["event"] == "suppressed")
    assert len(refusals) + suppressed == 300
    seconds = {entry["time"][:19] for entry in refusals}
    assert len(refusals) <= 3 * len(seconds)
    assert [entry["status"] for entry in entries if entry.get("status") == 200] == [200], "what passes is not bounded"
    moved.add("lines")


@pytest.mark.parametrize("level, levels", [
    ("debug", {"info", "warning"}), ("info", {"info", "warning"}), ("warning", {"warning"}), ("error", set())])
def test_the_level_filters_standard_error(start_gateway, own_upstream, pki, tmp_path, level, levels):
    # The list causes a warning; whether it is written depends on the level alone.
    ending = pki.crl(tmp_path / "gms.crl", pki.gms, start=-10, end=1)
    gateway = start_gateway(
        {"service": own_upstream.address}, log={"level": level},
        clients={"crls": [str(ending)], "crl_policy": "accept-stale"})
    if "warning" in levels:
        eventually(lambda: '"level":"warning"' in gateway.errors, "the warning")
    gateway.stop()
    assert {json.loads(line)["level"] for line in gateway.errors.splitlines()} == levels


# For people.

def test_the_console_form_has_one_line_for_each_event(start_gateway, own_upstream, phone):
    gateway = start_gateway(
        {"service": own_upstream.address}, log={"format": "console", "fields": ["user_agent"]})
    with Client(gateway, phone) as client:
        assert client.exchange(get("/", 'User-Agent: a "b" status=500\t\xe9')).status == 200
    gateway.stop()
    time = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d"
    lines = gateway.access_path.read_text().splitlines()
    assert len(lines) == 1
    assert re.fullmatch(
        time + r"\.\d{3}Z request client=127\.0\.0\.0/24 listener=127\.0\.0\.1:\d+ request_id=[0-9a-f]{16} trace_id=[0-9a-f]{32} route=all "
        r'method=GET protocol=HTTP/1\.1 user_agent="a \\"b\\" status=500\\u0009\\u00e9" decision=forwarded status=200 upstream=service '
        r"server=127\.0\.0\.1:\d+ "
        r"request_bytes=0 response_bytes=2 handshake_us=\d+ key_exchange=\w+ upstream_us=\d+ duration_us=\d+", lines[0]), lines[0]
    assert all(re.match(time + "Z info ", line) for line in gateway.errors.splitlines()), gateway.errors


# Rotation.

def test_rotation_under_load_loses_no_line(start_gateway, own_upstream, phone):
    gateway = start_gateway({"service": own_upstream.address}, workers=2)
    rounds, sent, failures = 5, [], []
    done = threading.Event()

    def load():
        try:
            while not done.is_set():
                with Client(gateway, phone) as client:
                    for _ in range(50):
                        assert client.exchange(get("/")).status == 200
                        sent.append(1)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=load) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for index in range(rounds):
            before = len(sent)
            eventually(
                lambda: failures or len(sent) > before + 100 and gateway.access_path.stat().st_size, "load")
            os.rename(gateway.access_path, f"{gateway.access_path}.{index}")
            gateway.signal(signal.SIGUSR1)
            eventually(gateway.access_path.exists, "the new file")
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert failures == []
    gateway.stop()
    assert gateway.errors.count("access log reopened") == rounds
    files = [gateway.access_path.parent / f"{gateway.access_path.name}.{index}" for index in range(rounds)]
    entries = [json.loads(line) for file in [*files, gateway.access_path] for line in file.read_text().splitlines()]
    assert len(entries) == len({entry["request_id"] for entry in entries}) == len(sent)
    assert all(file.stat().st_size for file in files)


def test_a_log_that_cannot_be_reopened_continues_in_the_old_file(start_gateway, own_upstream, phone):
    gateway = start_gateway({"service": own_upstream.address})
    moved_away = gateway.access_path.with_suffix(".old")
    with Client(gateway, phone, server_name=None) as client:
        assert client.exchange(get("/")).status == 200
        gateway.logged(status=200)
        os.rename(gateway.access_path, moved_away)
        gateway.access_path.mkdir()
        gateway.signal(signal.SIGUSR1)
        eventually(lambda: "access log not reopened" in gateway.errors, "the error")
        assert "Is a directory" in gateway.errors
        assert client.exchange(get("/", host="elsewhere")).status == 404
        eventually(lambda: '"status":404' in moved_away.read_text(), "the line in the old file")
    gateway.access_path.rmdir()


def test_the_signal_without_a_file_changes_nothing(start_gateway, own_upstream, phone):
    gateway = start_gateway({"service": own_upstream.address}, log={"access": "off"})
    gateway.signal(signal.SIGUSR1)
    eventually(lambda: "there is no access log file to reopen" in gateway.errors, "the notice")
    with Client(gateway, phone) as client:
        assert client.exchange(get("/")).status == 200


def test_refused_handshakes_are_reported_without_an_access_log(start_gateway, own_upstream, phone):
    gateway = start_gateway({"service": own_upstream.address}, log={"access": "off"})
    with pytest.raises(ssl.SSLError):
        with Client(gateway, None) as client:
            client.exchange(get("/"))
    with Client(gateway, phone) as client:
        assert client.exchange(get("/")).status == 200
        assert client.exchange(get("/", host="elsewhere.example")).status in (404, 421)

    def entries():
        return [json.loads(line) for line in gateway.errors.splitlines() if '"event"' in line]
    eventually(entries, "the line")
    gateway.stop()
    entry, = entries()
    assert (entry["event"], entry["denial"]) == ("connection_refused", "certificate_required")
    assert not gateway.access_path.exists()
    assert '"message":"stopped"' in gateway.errors


def test_lines_that_cannot_be_written_are_counted(start_gateway, own_upstream, phone):
    gateway = start_gateway({"service": own_upstream.address})
    with Client(gateway, phone) as client:
        assert client.exchange(get("/")).status == 200
        gateway.logged(status=200)
        gateway.limit_files(gateway.access_path.stat().st_size)
        assert client.exchange(get("/")).status == 200
        eventually(lambda: scrape(gateway)("attestgate_log_dropped_total") >= 1, "the line to be lost")
        gateway.limit_files(None)
        # The next block that can be written tells of it.
        assert client.exchange(get("/")).status == 200
        assert gateway.logged(event="log_dropped")["blocks"] >= 1
    moved.add("blocks")


def test_a_full_disk_does_not_prevent_a_start_and_lost_audit_lines_are_counted(start_attested):
    gateway = start_attested().gateway
    gateway.halt()
    command = gateway.command()
    gateway.command = lambda: ["/bin/sh", "-c", 'exec "$@" 2>/dev/full', "sh", *command]
    # The conf file has warnings, which are written before there is a log.
    gateway.start()
    before = scrape(gateway)("attestgate_error_log_dropped_total")
    gateway.device_command("revoke", "1")
    eventually(lambda: scrape(gateway)("attestgate_error_log_dropped_total") > before, "the act's line to be counted")


def test_a_full_disk_and_its_recovery_are_each_reported_once(start_gateway, own_upstream, phone):
    gateway = start_gateway({"service": own_upstream.address})
    with Client(gateway, phone) as client:
        for round in range(1, 3):
            assert client.exchange(get("/")).status == 200
            eventually(lambda: gateway.access_path.exists() and gateway.access_path.stat().st_size, "a line")
            lost = scrape(gateway)("attestgate_log_dropped_total")
            gateway.limit_files(gateway.access_path.stat().st_size)
            for number in range(1, 4):
                assert client.exchange(get("/")).status == 200
                eventually(lambda: scrape(gateway)("attestgate_log_dropped_total") >= lost + number, "the line to be lost")
            assert gateway.errors.count("access log: File too large: records are lost") == round
            assert gateway.errors.count("access log: can be written again") == round - 1
            gateway.limit_files(None)
            assert client.exchange(get("/")).status == 200
            eventually(lambda: gateway.errors.count("access log: can be written again") == round, "the message about the end")
    error, = {json.loads(line)["level"] for line in gateway.errors.splitlines() if "records are lost" in line}
    assert error == "error"


def test_a_line_truncated_by_a_full_disk_damages_no_other(start_gateway, own_upstream, phone):
    gateway = start_gateway({"service": own_upstream.address})
    with Client(gateway, phone, server_name=None) as client:
        assert client.exchange(get("/")).status == 200
        gateway.logged(status=200)
        whole = gateway.access_path.stat().st_size
        gateway.limit_files(whole + 50)
        assert client.exchange(get("/")).status == 200
        eventually(lambda: scrape(gateway)("attestgate_log_dropped_total") >= 1, "the line to be lost")
        assert gateway.access_path.stat().st_size == whole + 50
        gateway.limit_files(None)
        assert client.exchange(get("/", host="elsewhere")).status == 404
    gateway.stop()
    lines = gateway.access_path.read_text().splitlines()
    assert len(lines[1]) == 50 and lines[1].startswith('{"time"') and not lines[1].endswith("}")
    assert [json.loads(line).get("status") for line in lines[:1] + lines[2:]].count(404) == 1
    assert '"event":"log_dropped"' in lines[2] + lines[3]


def test_operators_find_a_device_by_its_id_in_the_log(attested):
    phone, content = attested.new_phone(), b"x" * 7_919
    with phone.connect() as client:
        assert client.exchange(phone.request("POST", "/a", content=content)).status == 200
        name = attested.gateway.logged(request_bytes=len(content))["device"]
        assert json.loads(attested.gateway.device_command("show", name, "--json"))["device"] == phone.number
        assert json.loads(attested.gateway.device_command("revoke", name.upper(), "--json"))["state"] == "revoked"
        # Cut off in the middle, before any answer.
        with pytest.raises(IncompleteResponse, match=r"cut off.* after b''"):
            client.read_to_end()


def test_a_tunnel_logs_what_ended_it(start_gateway, own_upstream, phone):
    gateway = start_gateway(
        {"service": own_upstream.address}, [{"name": "all", "host": "localhost", "path": "/", "websocket": "allowed"}])
    own_upstream.upgrades = True
    own_upstream.script = switches()
    with Client(gateway, phone) as client:
        assert client.send(handshake()).read_head().status == 101
        assert client.send(b"abc")._exactly(3) == b"abc"
    entry = gateway.logged(event="request", status=101)
    assert members_of(entry, "tunnel_end", "request_bytes", "response_bytes") == ["client", 3, 3]
    opening = gateway.logged(event="tunnel_opened", request_id=entry["request_id"])
    assert not {"tunnel_end", "request_bytes", "duration_us"} & set(opening)
