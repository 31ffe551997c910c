"""Spans: what a collector is sent, by whose decision, and that a collector in trouble troubles no request."""

import json
import re
import signal
import socket
import uuid

import pytest

from support.client import Client, get
from support.collector import Collector
from support.exposition import scrape
from support.paths import REPOSITORY
from support.ports import reserve_port
from support.waiting import eventually

PARENT = "b7ad6b7169203331"


def traced(trace, flags="01"):
    return f"traceparent: 00-{trace}-{PARENT}-{flags}"


@pytest.fixture
def collector():
    collector = Collector()
    yield collector
    collector.stop()


def settings(collector, **further):
    return {"tracing": {"endpoint": collector.url, "interval": "100ms", **further}}


@pytest.fixture
def start(start_gateway, own_upstream):
    def start(collector, gateway=None, **further):
        return start_gateway({"service": own_upstream.address}, **settings(collector, **further), **(gateway or {}))
    return start


def spans(gateway, result):
    return scrape(gateway)("attestgate_spans_total", result=result)


# Content of spans.

def test_a_proven_request_has_a_span_and_one_for_each_of_its_phases(start_attested, collector):
    attested = start_attested(**settings(collector))
    trace, phone = uuid.uuid4().hex, attested.phone
    with phone.connect() as client:
        attested.upstream.answer = b"HTTP/1.1 201 Created\r\nContent-Length: 4\r\n\r\ndone"
        assert client.exchange(phone.request("POST", "/patients/4711", content=b"secret", fields=[tuple(traced(trace).split(": "))])).status == 201
    attested.upstream.reset_behaviour()
    given = attested.upstream.last_request().values("traceparent")[0].split("-")
    entry = attested.gateway.logged(trace_id=trace)
    found = collector.trace(trace, 4)
    server, = (span for span in found if span.kind == 2)
    upstream, = (span for span in found if span.kind == 3)
    phases = {span.name: span for span in found if span.kind == 1}
    assert set(phases) == {"verify proof", "commit counter"} and len(found) == 4
    assert (server.name, server.parent, server.failed) == ("POST records", PARENT, False)
    # Sampled; the parent is known to be in another process.
    assert server.flags == 0x301
    assert all(span.parent == server.id and span.flags == 0x101 for span in [upstream, *phases.values()])
    assert len({span.id for span in found}) == 4
    # The service's own span hangs below ours, and the log leads to it.
    assert upstream.id == given[2] == entry["request_id"] and given[3] == "01"
    host, port = attested.upstream.address.split(":")
    assert upstream.attributes == {
        "http.request.method": "POST", "http.response.status_code": 201, "attestgate.upstream": "service",
        "server.address": host, "server.port": int(port)}
    assert server.attributes == {
        "http.request.method": "POST", "http.response.status_code": 201, "http.route": "records", "url.scheme": "https",
        "network.protocol.name": "http", "network.protocol.version": "1.1", "http.request.body.size": 6,
        "http.response.body.size": 4, "attestgate.decision": "forwarded", "attestgate.request_id": entry["request_id"],
        "attestgate.listener": entry["listener"], "attestgate.device": entry["device"], "attestgate.app": phone.app,
        "attestgate.upstream": "service"}
    # Times are those of the log, whole microseconds of which it has.
    for span, member in [
            (server, "duration_us"), (phases["verify proof"], "verification_us"), (phases["commit counter"], "commit_us"),
            (upstream, "upstream_us")]:
        assert (span.end - span.start) // 1000 == entry[member], member
        assert server.start <= span.start
    assert phases["verify proof"].end <= phases["commit counter"].start < upstream.start


def test_a_refusal_has_its_code_and_nothing_that_names_a_patient(start_attested, collector):
    attested = start_attested(**settings(collector))
    trace = uuid.uuid4().hex
    with attested.phone.connect() as client:
        answer = client.exchange(get("/patients/4711?name=Doe", traced(trace), "User-Agent: secret-agent"))
        assert answer.status == 401
    span, = (span for span in collector.trace(trace) if span.kind == 2)
    assert (span.name, span.failed) == ("GET records", False)
    assert span.attributes["error.type"] == span.attributes["attestgate.denial"] == "proof_required"
    assert span.attributes["attestgate.decision"] == "denied" and span.attributes["attestgate.fault"] == "client"
    # The gateway's own address is no secret.
    assert span.attributes.pop("attestgate.listener") == f"127.0.0.1:{attested.gateway.port}"
    text = json.dumps([span.attributes, span.name])
    for secret in ["patients", "Doe", "secret-agent", "127.0.0.", attested.phone.key.key_id.hex()]:
        assert secret not in text


def test_a_failed_upstream_marks_both_spans_as_errors(start_gateway, collector, phone):
    holder, port = reserve_port()
    gateway = start_gateway({"service": f"127.0.0.1:{port}"}, **settings(collector))
    trace = uuid.uuid4().hex
    with Client(gateway, phone) as client:
        assert client.exchange(get("/", traced(trace))).status == 502
    found = collector.trace(trace, 2)
    assert {span.kind for span in found} == {2, 3}
    for span in found:
        assert span.failed and span.attributes["error.type"] == "upstream_unavailable"
    holder.close()


def test_spans_identify_their_process(start, collector, phone):
    gateway = start(collector, service_name="gateway-a")
    trace = uuid.uuid4().hex
    with Client(gateway, phone) as client:
        assert client.exchange(get("/", traced(trace))).status == 200
    collector.trace(trace, 2)
    resource = collector.resources[0]
    assert resource["service.name"] == "gateway-a" and resource["process.pid"] == gateway.process.pid
    assert resource["host.name"] == socket.gethostname()
    assert uuid.UUID(resource["service.instance.id"]).version == 4
    assert {"service.version", "telemetry.sdk.name", "telemetry.sdk.language", "telemetry.sdk.version"} < set(resource)


# Which.

def test_a_client_decides_over_its_own_traces(start, collector, own_upstream, phone):
    gateway = start(collector)
    with Client(gateway, phone) as client:
        traces = {flags: uuid.uuid4().hex for flags in ["00", "02", "01", "03"]}
        for flags, trace in traces.items():
            assert client.exchange(get("/", traced(trace, flags))).status == 200
            assert own_upstream.last_request().values("traceparent")[0].endswith(f"-{flags}")
    for flags in ["01", "03"]:
        collector.trace(traces[flags], 2)
    assert {span.trace for span in collector.spans} == {traces["01"], traces["03"]}


def test_traces_that_begin_here_are_sampled_and_the_service_is_notified(
        start, collector, own_upstream, phone):
    gateway = start(collector, sample=4, requests_per_second=100_000)
    flags_by_trace = {}
    with Client(gateway, phone) as client:
        for _ in range(200):
            assert client.exchange(get("/")).status == 200
            _, trace, _, flags = own_upstream.last_request().values("traceparent")[0].split("-")
            flags_by_trace[trace] = flags
    recorded = {trace for trace, flags in flags_by_trace.items() if flags == "01"}
    # Of 200 at chance 1/4: fewer than 12 or more than 100 come once in 10^12 runs.
    assert 12 < len(recorded) < 100 and set(flags_by_trace.values()) == {"00", "01"}
    eventually(lambda: {span.trace for span in collector.spans} >= recorded, "all that were recorded")
    assert {span.trace for span in collector.spans} == recorded


def test_without_tracing_a_new_trace_is_marked_sampled(start_gateway, own_upstream, phone):
    gateway = start_gateway({"service": own_upstream.address})
    with Client(gateway, phone) as client:
        assert client.exchange(get("/")).status == 200
    assert own_upstream.last_request().values("traceparent")[0].endswith("-01")
    assert "attestgate_spans" not in scrape(gateway).text


def test_recorded_requests_per_second_are_limited(start, collector, phone):
    gateway = start(collector, requests_per_second=1)
    with Client(gateway, phone) as client:
        for _ in range(50):
            assert client.exchange(get("/")).status == 200
    eventually(lambda: spans(gateway, "exported") + spans(gateway, "rate_limited") * 2 >= 100, "all to be counted")
    # However slow this machine is: some second had two requests, unless each took one.
    dropped = spans(gateway, "rate_limited")
    assert 0 < dropped < 50 and spans(gateway, "exported") == 2 * (50 - dropped)


# To whom.

def test_the_collector_is_authenticated_before_it_gets_the_token(start, pki, phone, tmp_path):
    collector = Collector(pki.server("collector"))
    token = tmp_path / "token"
    token.write_text("s3cret-token\n")
    token.chmod(0o600)
    gateway = start(collector, authorities=str(pki.server_authority.certificate), token_file=str(token))
    trace = uuid.uuid4().hex
    with Client(gateway, phone) as client:
        assert client.exchange(get("/", traced(trace))).status == 200
    collector.trace(trace, 2)
    assert collector.fields[0]["Authorization"] == "Bearer s3cret-token"
    assert "s3cret" not in gateway.errors + gateway.access_path.read_text()
    collector.stop()


def test_a_collector_of_another_authority_gets_nothing(start, pki, phone):
    collector = Collector(pki.server("collector-stranger"))
    gateway = start(collector, authorities=str(pki.gms.certificate))
    with Client(gateway, phone) as client:
        assert client.exchange(get("/", traced(uuid.uuid4().hex))).status == 200
    eventually(lambda: "tracing: localhost" in gateway.errors, lambda: f"the warning in {gateway.errors}")
    assert "certificate" in gateway.errors and collector.calls == 0
    collector.stop()


def test_a_reload_begins_to_export_and_changes_where_to(start_gateway, own_upstream, collector, phone):
    gateway = start_gateway({"service": own_upstream.address})
    other = Collector()
    for number, (place, count) in enumerate([(collector, 2), (other, 2), (None, 0)]):
        gateway.conf.pop("tracing", None)
        if place:
            gateway.conf.update(settings(place))
        gateway.write_conf()
        gateway.signal(signal.SIGHUP)
        eventually(lambda: f"reloaded: generation {number + 2}" in gateway.errors, "the reload")
        trace = uuid.uuid4().hex
        with Client(gateway, phone) as client:
            assert client.exchange(get("/", traced(trace))).status == 200
        if place:
            place.trace(trace, count)
    assert len(collector.spans) == len(other.spans) == 2
    other.stop()


# In trouble.

@pytest.mark.parametrize("status, fields", [
    (429, {}), (502, {}), (503, {}), (504, {}), (503, {"Retry-After": "1"}), (None, {})])
def test_a_retryable_export_is_retried_and_arrives_once(start, collector, phone, status, fields):
    gateway = start(collector)
    collector.script = lambda number: (
        (None if status is None else (status, fields, b"{}")) if number < (2 if status is None else 1) else (200, {}, b"{}"))
    trace = uuid.uuid4().hex
    with Client(gateway, phone) as client:
        assert client.exchange(get("/", traced(trace))).status == 200
    collector.trace(trace, 2)
    eventually(lambda: "accepts spans again" in gateway.errors, lambda: gateway.errors)
    assert len(collector.spans) == 2
    # They leave the memory a moment after the message.
    eventually(lambda: scrape(gateway)("attestgate_spans_waiting_bytes") == 0, "no span to wait")
    metrics = scrape(gateway)
    assert metrics("attestgate_spans_total", result="exported") == 2
    assert metrics("attestgate_span_exports_total", result="failed") == 1
    assert gateway.errors.count("spans wait") == 1


@pytest.mark.parametrize("status", [400, 401, 404, 413, 500, 301])
def test_permanently_refused_spans_are_dropped_and_reported_once(start, collector, phone, status):
    gateway = start(collector)
    collector.script = lambda number: (status, {"Location": "http://127.0.0.1:1/"}, b"{}")
    with Client(gateway, phone) as client:
        for count in [1, 2]:
            assert client.exchange(get("/", traced(uuid.uuid4().hex))).status == 200
            eventually(lambda: spans(gateway, "refused") == 2 * count, "them to be dropped")
    assert collector.calls == 2
    assert gateway.errors.count(f"status {status}: spans are dropped") == 1


def test_partially_accepted_spans_are_counted_and_not_resent(start, collector, phone):
    gateway = start(collector)
    collector.script = lambda number: (
        200, {}, b'{"partialSuccess":{"rejectedSpans":"1","errorMessage":"too old"}}')
    trace = uuid.uuid4().hex
    with Client(gateway, phone) as client:
        assert client.exchange(get("/", traced(trace))).status == 200
    collector.trace(trace, 2)
    eventually(lambda: spans(gateway, "rejected") == 1, "the count")
    assert spans(gateway, "exported") == 1 and collector.calls == 1


def test_a_silent_collector_delays_no_request_and_memory_stays_bounded(start, own_upstream, phone):
    """It accepts and reads nothing: the queue is bounded, the rest is dropped, and requests continue."""
    silent = socket.create_server(("127.0.0.1", 0))

    class Silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"

    gateway = start(Silent, queue="64KiB", requests_per_second=1_000_000, timeout="1m")
    with Client(gateway, phone) as client:
        for _ in range(300):
            assert client.exchange(get("/")).status == 200
    metrics = scrape(gateway)
    waiting, dropped = metrics("attestgate_spans_waiting_bytes"), spans(gateway, "queue_full")
    assert 0 < waiting <= 64 * 1024
    # Each request has two spans, of which none has gone.
    assert 0 < dropped < 600 and spans(gateway, "exported") == 0
    silent.close()


def test_the_last_spans_are_sent_before_the_process_ends(start, collector, phone):
    gateway = start(collector, interval="1m")
    trace = uuid.uuid4().hex
    with Client(gateway, phone) as client:
        assert client.exchange(get("/", traced(trace))).status == 200
    assert collector.spans == []
    gateway.stop()
    assert len(collector.trace(trace, 2)) == 2


def test_an_unreachable_collector_does_not_delay_the_end(start, phone):
    collector = Collector()
    collector.stop()
    gateway = start(collector)
    with Client(gateway, phone) as client:
        assert client.exchange(get("/", traced(uuid.uuid4().hex))).status == 200
    eventually(lambda: "spans wait" in gateway.errors, "the first failure")
    gateway.stop()


def test_the_page_names_every_attribute():
    page = (REPOSITORY / "docs/operations/tracing.md").read_text()
    source = "".join(path.read_text() for path in (REPOSITORY / "Sources/Gateway/Tracing").glob("*.swift"))
    names = set(re.findall(r'attribute\("([a-z_.]+)"', source))
    assert len(names) > 15 and [name for name in sorted(names) if f"`{name}`" not in page] == []
