"""Every metric moves when that happens which it counts, and the text of all of them is Prometheus'."""

import base64
import re
import resource
import socket
import time
from datetime import timezone

import pytest
from cryptography import x509

from support.client import Client, IncompleteResponse, get, tls_context
from support.command_line import favourite_exchange
from support.denials import assert_denied
from support.enrolment import Enrolling
from support.exposition import Difference, ask, promtool_objections, scrape
from support.gateway import APP
from support.http2_client import HTTP2Client
from support.paths import REPOSITORY
from support.pki import SERVER, attestgate
from support.ports import uncommon_port
from support.recording_upstream import RecordingUpstream
from support.waiting import eventually


@pytest.fixture
def counted(start_gateway, own_upstream):
    return start_gateway(
        {"service": own_upstream.address},
        [{"name": "records", "host": "localhost", "path": "/"},
         {"name": "read-only", "host": "localhost", "path": "/read", "methods": ["GET"]}],
        registry={"devices": 64}, workers=2, timeouts={"shutdown": "20s"})


def test_requests_are_counted_by_route_and_decision(counted, phone):
    before = scrape(counted)
    with Client(counted, phone, server_name=None) as client:
        for _ in range(3):
            assert client.exchange(get("/a")).status == 200
        assert client.exchange(get("/read")).status == 200
        assert client.exchange(b"POST /read HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n").status == 405
        assert client.exchange(get("/a", host="example.org")).status == 404
        assert client.exchange(get("/.well-known/attestgate/challenge")).status == 204
        during = Difference(before, scrape(counted))
        assert during("attestgate_connections") == 1
        assert during("attestgate_protocol_connections", protocol="HTTP/1.1") == 1
    with HTTP2Client(counted, phone) as client:
        # Nor does a request of another version go uncounted.
        assert client.get("/.well-known/attestgate/challenge").status == 204
        during = Difference(before, scrape(counted))
        assert during("attestgate_protocol_connections", protocol="HTTP/2") == 1
    more = Difference(before, scrape(counted))
    assert more("attestgate_requests_total", route="records", decision="forwarded") == 3
    assert more("attestgate_requests_total", route="read-only", decision="forwarded") == 1
    assert more("attestgate_requests_total", route="read-only", decision="denied") == 1
    assert more("attestgate_requests_total", route="_none", decision="denied") == 1
    assert more("attestgate_requests_total", route="_none", decision="answered") == 2
    assert more("attestgate_protocol_requests_total", protocol="HTTP/1.1") == 7
    assert more("attestgate_protocol_requests_total", protocol="HTTP/2") == 1
    assert more("attestgate_requests_total") == 8 == more("attestgate_worker_requests_total")
    assert more("attestgate_responses_total") == 8
    assert more("attestgate_responses_total", route="records", status="2xx") == 3
    assert more("attestgate_responses_total", route="read-only", status="4xx") == 1
    assert more("attestgate_route_denials_total", route="read-only", code="method_refused") == 1
    assert more("attestgate_route_denials_total", route="_none", code="route_unknown") == 1
    assert more("attestgate_app_denials_total", app="_none") == 2
    assert more("attestgate_route_duration_seconds_count", route="records") == 3
    assert more("attestgate_denials_total", code="method_refused") == 1
    assert more("attestgate_denials_total", code="route_unknown") == 1
    assert more("attestgate_denials_total") == 2
    assert more("attestgate_connections_total") == 2
    assert more("attestgate_upstream_responses_total", upstream="service") == 4
    durations = "attestgate_request_duration_seconds_count"
    assert (more(durations, phase="total"), more(durations, phase="upstream")) == (8, 4)
    assert more(durations, phase="upstream_end") == 4
    assert more("attestgate_request_duration_seconds_sum", phase="total") > 0
    assert more(durations, phase="handshake") == 2


def test_refused_connections_and_requests_are_told_apart(counted, phone):
    """The administration page counts both as refused, and both among all."""
    before = scrape(counted)
    with pytest.raises((OSError, IncompleteResponse)):
        with Client(counted, None) as client:
            client.exchange(get("/a"))
    with Client(counted, phone, server_name=None) as client:
        assert client.exchange(get("/a", host="example.org")).status == 404
    more = Difference(before, scrape(counted))
    assert more("attestgate_denials_total") == 2
    assert more("attestgate_route_denials_total") == 1 == more("attestgate_app_denials_total")


def test_a_client_that_leaves_before_the_decision_is_counted_as_such(counted, phone):
    before = scrape(counted)
    with Client(counted, phone) as client:
        client.send(b"POST /a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n").wait_until_delivered()
        client.socket.shutdown(2)
    eventually(
        lambda: Difference(before, scrape(counted))("attestgate_requests_total") == 1, "the request to be counted")


def test_handshakes_are_counted_by_result(counted, phone, pki):
    before = scrape(counted)
    context = tls_context(pki, phone)
    with Client(counted, phone, context=context) as client:
        assert client.exchange(get("/a")).status == 200
        session = client.socket.session
        client.leave()
    with Client(counted, phone, context=context, session=session) as client:
        assert client.exchange(get("/a")).status == 200
        assert client.socket.session_reused
    with pytest.raises((OSError, IncompleteResponse)):
        with Client(counted, None) as client:
            client.exchange(get("/a"))
    socket.create_connection(("127.0.0.1", counted.port)).close()
    counts = "attestgate_handshakes_total"
    eventually(lambda: Difference(before, scrape(counted))(counts, result="abandoned") == 1, "the leaving to be counted")
    more = Difference(before, scrape(counted))
    assert (more(counts, result="full"), more(counts, result="resumed")) == (1, 1)
    # A resumed handshake exchanges keys too, one that failed does not count.
    exchanges = "attestgate_key_exchanges_total"
    assert more(exchanges, group=favourite_exchange()) == 2 == more(exchanges)
    assert more(counts, result="certificate_required") == 1


def test_proofs_increase_the_metrics_of_verification_commits_and_registry(start_attested):
    attested = start_attested()
    gateway, phone = attested.gateway, attested.phone
    before = scrape(gateway)
    with phone.connect() as client:
        for _ in range(5):
            assert client.exchange(phone.request(path="/a")).status == 200
    more = Difference(before, scrape(gateway))
    durations = "attestgate_request_duration_seconds_count"
    assert (more(durations, phase="verification"), more(durations, phase="commit")) == (5, 5)
    assert more("attestgate_registry_counters_committed_total") == 5
    assert 1 <= more("attestgate_registry_commits_total") <= 5
    assert more("attestgate_registry_batch_size_sum") == 5
    assert more("attestgate_registry_batch_size_count") == more("attestgate_registry_commits_total")
    assert more("attestgate_registry_loads_total") >= 1
    assert scrape(gateway)("attestgate_app_simulator", app=APP) == 1
    gateway.halt()
    gateway.conf["apps"][0]["environment"] = "development"
    gateway.start()
    assert scrape(gateway)("attestgate_app_simulator", app=APP) == 0


def test_an_unwritable_store_shows_in_the_metrics(start_attested):
    attested = start_attested()
    gateway, phone = attested.gateway, attested.phone
    before = scrape(gateway)
    assert before("attestgate_registry_available") == 1
    with phone.connect() as client:
        assert client.exchange(phone.request(path="/a")).status == 200
        gateway.limit_files(1)
        eventually(
            lambda: client.exchange(phone.request(path="/a")).status == 503
            and scrape(gateway)("attestgate_registry_available") == 0, "the store to fail")
        more = Difference(before, scrape(gateway))
        assert more("attestgate_registry_available") == -1
        assert more("attestgate_registry_errors_total") >= 1
        assert more("attestgate_denials_total", code="store_unavailable") >= 1
        # A commit that failed is no durable counter.
        assert more("attestgate_registry_counters_committed_total") == 1
        # Health is about this process, not about its disk.
        assert ask(gateway, "/health/ready")[0] == 200
        gateway.limit_files(None)
        eventually(lambda: scrape(gateway)("attestgate_registry_available") == 1, "the store to recover")


def test_requests_waiting_for_the_store_show_in_the_metrics(start_attested, tmp_path):
    attested = start_attested()
    gateway, phone = attested.gateway, attested.phone
    phone.challenge()
    request, waiting = phone.request(path="/a"), "attestgate_registry_waiting"
    stranger = attested.pki.phone("stranger-to-the-store")
    assert scrape(gateway)(waiting) == 0
    with phone.connect() as client, Client(gateway, stranger) as other:
        # A disk that does not write until it is no longer traced.
        with gateway.traced(
                tmp_path / "trace", "-e", "trace=fdatasync,fsync", "-e", "inject=fdatasync,fsync:delay_enter=600s"):
            client.send(request)
            eventually(lambda: scrape(gateway)(waiting, kind="counter") == 1, "the counter to wait")
            other.send(get("/a"))
            eventually(lambda: scrape(gateway)(waiting, kind="lookup") == 1, "the lookup to wait")
        # Nobody is kept waiting for more than five seconds: on a slow machine they are over.
        assert client.read_response().status in (200, 503)
    eventually(lambda: scrape(gateway)(waiting) == 0, "the store to go on")


def test_lost_log_lines_are_counted(start_gateway, own_upstream, phone):
    gateway = start_gateway({"service": own_upstream.address})
    before = scrape(gateway)
    with Client(gateway, phone) as client:
        gateway.limit_files(1)
        eventually(
            lambda: client.exchange(get("/a")).status == 200
            and Difference(before, scrape(gateway))("attestgate_log_dropped_total") >= 1, "lines to be lost")
        gateway.limit_files(None)


def test_reloads_are_counted_and_keep_the_counts(counted, phone):
    gateway, before = counted, scrape(counted)
    assert before("attestgate_last_reload_success") == 1
    with Client(gateway, phone) as old:
        assert old.exchange(get("/a")).status == 200
        gateway.conf["routes"][0]["path"] = "/new"
        gateway.conf["routes"].reverse()
        gateway.conf["routes"].append(dict(gateway.conf["routes"][0], name="third", path="/third"))
        gateway.write_conf()
        assert attestgate("reload", "--config", gateway.conf_path).returncode == 0
        with Client(gateway, phone) as new:
            assert new.exchange(get("/new")).status == 200
            assert new.exchange(get("/third")).status == 200
            # By the rules that it came in under, and counted where it was.
            assert old.exchange(get("/a")).status == 200
        more = Difference(before, scrape(gateway))
        assert more("attestgate_requests_total", route="records", decision="forwarded") == 3
        assert more("attestgate_requests_total", route="third", decision="forwarded") == 1
        assert more("attestgate_generation") == 1
        assert more("attestgate_worker_generation", worker="0") == 1
        assert more("attestgate_worker_retired_generations") == 1
        assert more("attestgate_reloads_total", result="success") == 1
        assert abs(more("attestgate_last_reload_timestamp_seconds") - time.time()) < 300
    gateway.conf["workers"] = 3
    gateway.write_conf()
    assert attestgate("reload", "--config", gateway.conf_path).returncode == 1
    more = Difference(before, scrape(gateway))
    assert more("attestgate_reloads_total", result="failure") == 1
    assert more("attestgate_last_reload_success") == -1
    assert more("attestgate_generation") == 1
    gateway.conf["workers"] = 2
    gateway.write_conf()
    assert attestgate("reload", "--config", gateway.conf_path).returncode == 0
    assert scrape(gateway)("attestgate_last_reload_success") == 1


def test_an_upstream_shows_its_connections_and_its_failures(start_gateway, phone):
    upstream = RecordingUpstream()
    gateway = start_gateway({"service": upstream.address})
    before = scrape(gateway)
    connections = "attestgate_upstream_connections"
    try:
        with Client(gateway, phone) as client:
            upstream.script = lambda connection: connection.read_request() and connection.wait_for_end()
            client.send(get("/b"))
            eventually(lambda: scrape(gateway)(connections, state="busy") == 1, "the request to be under way")
            assert scrape(gateway)("attestgate_buffer_blocks", state="used") >= 1
        eventually(lambda: scrape(gateway)(connections, state="busy") == 0, "the request to end")
        upstream.reset_behaviour()
        with Client(gateway, phone) as client:
            assert client.exchange(get("/a")).status == 200
        more = Difference(before, scrape(gateway))
        assert (more(connections, state="idle"), more(connections, state="busy")) == (1, 0)
    finally:
        upstream.close()
    # A connection that was kept may turn out to be dead once.
    with Client(gateway, phone) as client:
        assert_denied(gateway, client.exchange(get("/c")), "upstream_unavailable", 502)
    more = Difference(before, scrape(gateway))
    assert more("attestgate_upstream_failures_total", upstream="service", kind="unreachable") == 1
    # Blocks that were used are kept for the next.
    assert more("attestgate_buffer_blocks", state="idle") >= 1


def test_a_blocked_loop_shows_in_the_metrics(counted):
    before = scrape(counted)
    assert len(before.labels("attestgate_worker_up")) == 2 == before("attestgate_worker_up")
    with counted.paused():
        time.sleep(1.2)
    # Timers of half a second were due more than half a second ago.
    eventually(
        lambda: Difference(before, scrape(counted))("attestgate_loop_lag_seconds_sum") >= 0.5, "the loops to be late")


def test_running_out_of_descriptors_is_counted(start_gateway, own_upstream, phone):
    gateway = start_gateway({"service": own_upstream.address})
    before = scrape(gateway)
    with Client(gateway, phone) as client:
        assert client.exchange(get("/a")).status == 200
        old = resource.prlimit(gateway.process.pid, resource.RLIMIT_NOFILE)
        # The client's, and the service's: the administration has closed the scrape's.
        eventually(lambda: gateway.connections() == 2, "the scrape's connection to be closed")
        resource.prlimit(gateway.process.pid, resource.RLIMIT_NOFILE, (gateway.lowest_free_descriptor(), old[1]))
        with socket.create_connection(("127.0.0.1", gateway.port)):
            eventually(lambda: any(e["event"] == "accept_paused" for e in gateway.access()), "accepting to pause")
            resource.prlimit(gateway.process.pid, resource.RLIMIT_NOFILE, old)
    assert Difference(before, scrape(gateway))("attestgate_accept_pauses_total") >= 1


def test_certificate_expiry_is_a_metric(counted):
    metrics = scrape(counted)
    name = "attestgate_certificate_expiry_timestamp_seconds"
    roles = {labels["role"] for labels in metrics.labels(name)}
    assert roles == {"server", "authority"}
    for labels in metrics.labels(name):
        assert metrics(name, **labels) > time.time()
        assert labels["listener"] == f"127.0.0.1:{counted.port}" and "=" in labels["subject"]


def test_every_loaded_certificate_has_an_expiry_metric_and_warning(pki, own_upstream, tmp_path):
    """Listeners of all kinds, what stands above their certificates, all that stands in one file, and what is trusted."""
    def bundle(name, *certificates):
        path = tmp_path / name
        path.write_text("".join(certificate.read_text() for certificate in certificates))
        return str(path)

    issuing = pki.authority("metric-issuing", issuer=pki.server_authority, end=20)
    server = pki.client("metric-server", issuer=issuing, extensions=SERVER, end=10)
    intermediate = pki.authority("metric-intermediate", issuer=pki.root, end=9)
    operators = pki.authority("metric-operators", end=8)
    administration = pki.server("metric-administration", end=7)
    enrolment_server = pki.server("metric-enrolment", end=6)
    port = uncommon_port()
    address = f"127.0.0.1:{port}"
    enrolling = Enrolling(
        tmp_path / "enrolling", pki, own_upstream,
        enrolment={"tls": {"certificate": str(enrolment_server.certificate), "key": str(enrolment_server.key)}},
        clients={"authorities": [bundle("authorities.pem", pki.gms.certificate, intermediate.certificate)]},
        administration={"socket": str(tmp_path / "admin.sock"), "listeners": [{
            "address": address, "tls": {
                "certificate": str(administration.certificate), "key": str(administration.key),
                "clients": {"authorities": [str(operators.certificate)]}}}]})
    gateway = enrolling.gateway
    gateway.conf["listeners"][0]["tls"].update(
        certificate=bundle("server.pem", server.certificate, issuing.certificate), key=str(server.key))
    main, enrolment = gateway.conf["listeners"][0]["address"], gateway.conf["enrolment"]["address"]
    expected = {
        (main, "server"): [server.certificate, issuing.certificate],
        (main, "authority"): [pki.gms.certificate, intermediate.certificate],
        (enrolment, "server"): [enrolment_server.certificate], (enrolment, "issuer"): [pki.gms.certificate],
        (enrolment, "attestation"): [enrolling.authority.path],
        (address, "server"): [administration.certificate], (address, "authority"): [operators.certificate]}
    ends = {
        (listener, role, certificate.subject.rfc4514_string()): certificate.not_valid_after.replace(tzinfo=timezone.utc).timestamp()
        for (listener, role), paths in expected.items()
        for certificate in [x509.load_pem_x509_certificate(path.read_bytes()) for path in paths]}
    try:
        enrolling.start()
        metrics, name = scrape(gateway), "attestgate_certificate_expiry_timestamp_seconds"
        assert ends == {
            (labels["listener"], labels["role"], labels["subject"]): metrics(name, **labels) for labels in metrics.labels(name)}
        for (listener, _, subject), end in ends.items():
            said = f"listener {listener}: the certificate of {subject} ends in "
            if end - time.time() < 14 * 86_400:
                eventually(lambda: said in gateway.errors, lambda: f"{said}\n{gateway.errors}")
            else:
                assert said not in gateway.errors
    finally:
        enrolling.stop()


def test_an_expired_certificate_of_the_administration_is_warned_of(start_gateway, own_upstream, pki, tmp_path):
    expired, token = pki.server("metric-expired", start=-3, end=-1), tmp_path / "token"
    token.touch(0o600)
    token.write_text("t0ken-" * 8)
    address = f"127.0.0.1:{uncommon_port()}"
    gateway = start_gateway({"service": own_upstream.address}, administration={
        "socket": str(tmp_path / "admin.sock"), "listeners": [{
            "address": address, "token_file": str(token),
            "tls": {"certificate": str(expired.certificate), "key": str(expired.key)}}]})
    checked = attestgate("check", "--config", gateway.conf_path)
    assert checked.returncode == 0 and f"warning: administration listener {address}: {expired.certificate}: " in checked.stderr
    assert "the certificate of CN=metric-expired has expired" in checked.stderr
    said = f"listener {address}: the certificate of CN=metric-expired has ended"
    eventually(lambda: said in gateway.errors, lambda: f"{said}\n{gateway.errors}")
    assert scrape(gateway)("attestgate_certificate_expiry_timestamp_seconds", listener=address) < time.time()


def test_the_process_is_described_as_prometheus_libraries_do(counted):
    metrics = scrape(counted)
    assert abs(metrics("process_start_time_seconds") - time.time()) < 300
    assert abs(metrics("process_open_fds") - counted.descriptors()) <= 2
    assert 1 << 20 < metrics("process_resident_memory_bytes") < metrics("process_virtual_memory_bytes")
    assert metrics("process_max_fds") >= metrics("process_open_fds")
    assert metrics("process_cpu_seconds_total") > 0
    assert len(metrics.labels("attestgate_build_info")) == 1


def test_the_text_is_prometheus_own(counted, phone):
    with Client(counted, phone) as client:
        assert client.exchange(get("/a")).status == 200
    metrics = scrape(counted)
    for name, kind in metrics.kinds.items():
        assert name.startswith(("attestgate_", "process_")), name
        assert name.endswith("_total") == (kind == "counter"), name
    objections = promtool_objections(metrics.text)
    if objections is None:
        pytest.skip("promtool is not installed")
    assert objections == (0, ""), objections


def test_metrics_and_status_identify_no_person(start_attested):
    attested = start_attested()
    gateway, phone = attested.gateway, attested.phone
    with phone.connect() as client:
        assert client.exchange(phone.request(path="/a/patient-4711", query="name=Erika")).status == 200
        assert client.exchange(get("/b/patient-4712")).status == 401
    texts = ask(gateway, "/metrics")[2] + ask(gateway, "/status")[2]
    for secret in [
        # Not its number alone, which some figure may have by chance.
        "patient", "Erika", "/a/", phone.key.key_id.hex(), base64.b64encode(phone.key.key_id).decode(),
        base64.urlsafe_b64encode(phone.key.key_id).decode().rstrip("="), str(gateway.directory), str(attested.pki.directory),
    ]:
        assert secret not in texts, secret


def test_every_metric_is_documented_and_every_documented_one_exists(every_metric):
    page = (REPOSITORY / "docs" / "operations" / "metrics.md").read_text()
    found = re.findall(r"`((?:attestgate|process)_\w+)(?:\{([\w,]+)\})?`", page)
    documented = {name: set(labels.split(",")) - {""} for name, labels in found}
    assert documented == {name: every_metric.label_names(name) for name in every_metric.kinds}


def test_the_name_of_a_metric_says_whether_it_is_a_counter(every_metric):
    for name, kind in every_metric.kinds.items():
        assert (kind == "counter") == name.endswith("_total"), name
