"""Who gets in to the administration by its page, and that nobody does by another page."""

import hashlib
import json
import signal
import ssl

import pytest

from support.administration_page import TOKEN, Page, serve_page
from support.client import Client, get
from support.exposition import Administration, scrape
from support.waiting import eventually


@pytest.fixture
def served(start_attested, tmp_path):
    """A gateway with a phone, device 1, and its page."""
    administration, port = serve_page(tmp_path)
    attested = start_attested(administration=administration)
    attested.page = Page(port)
    return attested


@pytest.fixture
def signed_in(served):
    assert served.page.sign_in()[:2] == (200, None)
    return served


def state(served):
    return json.loads(served.gateway.device_command("show", "1", "--json"))["state"]


def refused(served, reason):
    return scrape(served.gateway)("attestgate_administration_refused_total", reason=reason)


# Signing in and out.

def test_the_page_can_do_what_the_token_can(signed_in):
    page = signed_in.page
    assert page.ask("GET", "/status")[1]["generation"] == 1
    assert page.ask("GET", "/devices")[1]["devices"][0]["device"] == 1
    assert page.ask("POST", "/devices/1/revoke")[1]["state"] == "revoked"
    assert page.ask("POST", "/devices/1/restore")[1]["state"] == "active"
    assert page.ask("POST", "/reload")[1]["generation"] == 2
    # Sessions outlive reloads, and restarts.
    assert page.ask("GET", "/status")[0] == 200
    signed_in.gateway.halt().start()
    assert page.ask("GET", "/status")[1]["generation"] == 1


def test_the_cookie_can_be_neither_read_by_scripts_nor_sent_by_other_sites(served):
    status, _, fields = served.page.sign_in()
    parts = fields["set-cookie"].split("; ")
    assert status == 200 and parts[1:] == ["Path=/", "HttpOnly", "SameSite=Strict"]
    assert TOKEN not in parts[0] and TOKEN not in served.page.key and served.page.key not in parts[0]


@pytest.mark.parametrize("token", ["x" * 48, TOKEN[:-1], TOKEN + "x", "", None])
def test_a_wrong_token_opens_nothing_and_is_counted(served, token):
    assert served.page.sign_in(token)[:2] == (401, "token_required")
    assert refused(served, "token") == 1
    eventually(lambda: "the token is missing or wrong" in served.gateway.errors, "the log to tell of it")
    assert TOKEN not in served.gateway.errors and "x" * 48 not in served.gateway.errors


def test_a_token_in_the_target_or_a_form_is_not_taken(served):
    page = served.page
    assert page.code("POST", f"/session?token={TOKEN}", {}, attestgate_page="sign-in")[0] == 400
    assert page.code("GET", f"/devices?token={TOKEN}")[0] == 401
    assert page.code(
        "POST", "/session", {"token": TOKEN}, attestgate_page="sign-in",
        content_type="application/x-www-form-urlencoded") == (415, "media_type_unsupported")


def test_an_ended_session_is_refused(signed_in):
    page = signed_in.page
    status, _, fields = page.ask("POST", "/session/end")
    assert status == 200 and "Max-Age=0" in fields["set-cookie"]
    assert page.code("GET", "/devices") == (401, "session_required")
    assert page.code("POST", "/devices/1/revoke") == (401, "session_required")
    assert page.sign_in()[0] == 200 and page.ask("GET", "/devices")[0] == 200


def test_sessions_end_with_the_token(signed_in, tmp_path):
    (tmp_path / "token").write_text("an0ther-" * 8)
    assert signed_in.page.ask("POST", "/reload")[0] == 200
    assert signed_in.page.code("GET", "/devices") == (401, "session_required")


def test_a_session_is_refused_at_another_listener(start_attested, tmp_path):
    administration, port = serve_page(tmp_path)
    other, other_port = serve_page(tmp_path)
    administration["listeners"] += other["listeners"]
    start_attested(administration=administration)
    first, second = Page(port), Page(other_port)
    assert first.sign_in()[0] == 200 and second.sign_in()[0] == 200
    assert second.ask("GET", "/devices")[0] == 200
    name, value = first.cookie.split("=")
    second.cookie, second.key = f"{second.cookie.split('=')[0]}={value}", first.key
    assert second.code("GET", "/devices") == (401, "session_required")


def test_the_audit_log_names_the_operator_the_change_and_the_credential(signed_in):
    page, gateway = signed_in.page, signed_in.gateway
    page.ask("POST", "/devices/1/revoke")
    page.ask("POST", "/devices/77/revoke")
    page.ask("POST", "/devices/1/restore", cookie=None, attestgate_page=None, origin=None, sec_fetch_site=None,
             authorization=f"Bearer {TOKEN}")
    gateway.signal(signal.SIGHUP)
    page.ask("POST", "/session/end")

    def acts():
        lines = [json.loads(line) for line in gateway.errors.splitlines() if line.startswith('{"time"')]
        return [line for line in lines if line.get("event") == "administration_act" and line["act"] != "device_add"]
    entries = eventually(lambda: len(acts()) == 6 and acts(), lambda: f"six acts: {acts()}")
    at = f"at 127.0.0.1:{page.port}, from 127.0.0.1"
    session = f"session {page.cookie.split('.')[1][:8]}"
    def essence(act):
        return tuple(act.get(name) for name in ["act", "target", "outcome", "refusal", "by"])
    assert [essence(act) for act in entries if act["act"] != "reload"] == [
        ("sign_in", None, "done", None, f"the token {at}"),
        ("device_revoke", "1", "done", None, f"{session} {at}"),
        ("device_revoke", "77", "refused", "not_found", f"{session} {at}"),
        ("device_restore", "1", "done", None, f"the token {at}"),
        ("sign_out", None, "done", None, f"{session} {at}")]
    assert [essence(act) for act in entries if act["act"] == "reload"] == [("reload", None, "begun", None, "SIGHUP")]
    assert entries[0]["message"] == f"administration: sign in, {session}, by the token {at}"
    assert all(each not in gateway.errors for each in [TOKEN, page.key, page.cookie.split("=")[1]])


def test_a_change_completed_after_the_timeout_is_not_audited_as_refused(signed_in, tmp_path):
    page, gateway = signed_in.page, signed_in.gateway
    # Longer than the administration waits for the store.
    with gateway.traced(tmp_path / "trace", "-e", "trace=fdatasync,fsync", "-e", "inject=fdatasync,fsync:delay_enter=600s"):
        assert page.code("POST", "/devices/1/revoke") == (503, "store_unavailable")
    eventually(lambda: state(signed_in) == "revoked", "the disk to go on")
    entry, = [json.loads(line) for line in gateway.errors.splitlines() if '"act":"device_revoke"' in line]
    assert (entry["target"], entry["outcome"], entry["refusal"]) == ("1", "unknown", "store_unavailable")


@pytest.mark.parametrize("level", ["warning", "error"])
def test_the_audit_log_has_no_level(start_attested, tmp_path, level):
    administration, _ = serve_page(tmp_path)
    served = start_attested(administration=administration, log={"level": level})
    served.gateway.device_command("revoke", "1")
    eventually(lambda: '"act":"device_revoke"' in served.gateway.errors, "the act to be logged")
    assert '"level":"info"' not in served.gateway.errors


# Other pages.

CHANGES = [("POST", "/devices/1/revoke"), ("POST", "/reload"), ("POST", "/registry/renew-epoch")]
READS = [("GET", "/devices"), ("GET", "/decisions"), ("GET", "/status"), ("GET", "/metrics"), ("GET", "/nowhere")]


@pytest.mark.parametrize("origin", ["http://127.0.0.1:9", "https://evil.example", "null", "http://localhost"])
def test_a_foreign_origin_is_refused_with_cookie_and_key(signed_in, origin):
    for method, path in CHANGES + READS + [("GET", "/"), ("GET", "/page.js"), ("GET", "/session")]:
        assert signed_in.page.code(method, path, origin=origin) == (403, "origin_refused"), path
    assert signed_in.page.code("POST", "/session", {"token": TOKEN}, origin=origin) == (403, "origin_refused")
    assert state(signed_in) == "active" and refused(signed_in, "origin") == len(CHANGES + READS) + 4


def test_a_change_without_origin_is_refused(signed_in):
    for method, path in CHANGES:
        assert signed_in.page.code(method, path, origin=None) == (403, "origin_refused")
    assert state(signed_in) == "active"


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_request_that_the_browser_marks_as_cross_site_is_refused(signed_in, site):
    for method, path in CHANGES + READS:
        assert signed_in.page.code(method, path, sec_fetch_site=site) == (403, "origin_refused")
    # A link leads to the page, which shows nothing of the gateway without a session.
    assert signed_in.page.ask("GET", "/", sec_fetch_site=site)[0] == 200


def test_the_cookie_without_the_page_header_is_refused(signed_in):
    for method, path in CHANGES:
        assert signed_in.page.code(method, path, attestgate_page=None) == (401, "session_required")
    for method, path in READS:
        assert signed_in.page.code(method, path, attestgate_page=None) == (401, "token_required")
    assert state(signed_in) == "active"


@pytest.mark.parametrize("changes", [
    {"cookie": None}, {"cookie": "attestgate-1=x"}, {"attestgate_page": "none"}, {"attestgate_page": "0" * 64}])
def test_a_session_without_cookie_or_key_is_refused(signed_in, changes):
    for method, path in CHANGES + READS:
        assert signed_in.page.code(method, path, **changes) == (401, "session_required")
    assert state(signed_in) == "active" and refused(signed_in, "session") == len(CHANGES + READS)


def test_two_session_cookies_are_refused(signed_in):
    cookie = signed_in.page.cookie
    assert signed_in.page.ask("GET", "/devices", cookie=f"other=1; {cookie}; last=2")[0] == 200
    for both in [f"{cookie}; {cookie}", f"{cookie.split('=')[0]}=x; {cookie}"]:
        assert signed_in.page.code("GET", "/devices", cookie=both) == (401, "session_required")


def test_another_host_is_refused_whatever_its_origin(signed_in):
    # A name that a page has resolved to this address: the browser takes both for the same origin.
    for host in ["evil.example", f"evil.example:{signed_in.page.port}"]:
        for method, path in CHANGES + READS + [("GET", "/")]:
            assert signed_in.page.code(method, path, host=host, origin=f"http://{host}") == (421, "misdirected")
    assert state(signed_in) == "active"


def test_the_token_opens_nothing_for_a_web_page(signed_in):
    for changes in [{}, {"cookie": None}, {"attestgate_page": None}]:
        answer = signed_in.page.code("POST", "/devices/1/revoke", authorization=f"Bearer {TOKEN}", **changes)
        assert answer == (401, "session_required")
    assert state(signed_in) == "active"


# What is answered.

def test_every_answer_restricts_what_browsers_may_do(signed_in):
    page = signed_in.page
    for path, changes in [
            ("/", {}), ("/page.js", {}), ("/icon.svg", {}), ("/devices", {}), ("/metrics", {}), ("/nowhere", {}),
            ("/devices", {"cookie": None}), ("/devices", {"origin": "null"}), ("/devices", {"host": "evil.example"})]:
        _, _, fields = page.ask("GET", path, **changes)
        assert fields["x-content-type-options"] == "nosniff" and fields["referrer-policy"] == "no-referrer"
        assert fields["x-frame-options"] == "DENY" and fields["cross-origin-resource-policy"] == "same-origin"
        assert fields["cache-control"] == "no-store"
        policy = dict(part.strip().split(" ", 1) for part in fields["content-security-policy"].split(";"))
        assert policy["default-src"] == "'none'" and policy["frame-ancestors"] == "'none'"
        assert "unsafe" not in fields["content-security-policy"]
        assert (policy.get("script-src") == "'self'") == (path == "/")
        assert not [name for name in fields if name.lower().startswith("access-control-")]


def test_before_signing_in_nothing_about_the_gateway_is_disclosed(served):
    page = served.page
    for path in ["/", "/page.css", "/page.js", "/icon.svg"]:
        status, text, _ = page.ask("GET", path)
        assert status == 200 and "0.1.0" not in text and "127.0.0.1" not in text
    assert page.ask("GET", "/session")[1] == {"token_needed": True}
    for method, path in CHANGES + READS:
        assert page.code(method, path)[0] == 401


def test_the_socket_serves_no_page(served):
    for path in ["/", "/page.js", "/session"]:
        connection = Administration(served.gateway)
        try:
            connection.request("GET", path)
            assert connection.getresponse().status == 404
        finally:
            connection.close()


# Certificates in place of a token.

@pytest.fixture
def certified(start_attested, tmp_path, pki):
    operators = pki.authority("page-operators")
    operator = pki.client("page-operator", issuer=operators)
    administration, port = serve_page(tmp_path, tls={
        "certificate": str(pki.server_certificate), "key": str(pki.server_key),
        "clients": {"authorities": [str(operators.certificate)]}})
    attested = start_attested(administration=administration)
    context = ssl.create_default_context(cafile=str(pki.server_ca))
    context.load_cert_chain(operator.certificate, operator.key)
    context.check_hostname = False
    attested.page, attested.operator = Page(port, context), operator
    return attested


def test_a_certificate_signs_in_by_itself_and_is_named_in_the_audit_log(certified):
    page = certified.page
    assert page.ask("GET", "/session")[1] == {"token_needed": False}
    status, _, fields = page.sign_in(None)
    assert status == 200 and fields["set-cookie"].startswith("__Host-attestgate-")
    assert fields["set-cookie"].endswith("; Path=/; HttpOnly; SameSite=Strict; Secure")
    assert page.ask("POST", "/devices/1/revoke")[1]["state"] == "revoked"
    thumbprint = hashlib.sha256(ssl.PEM_cert_to_DER_cert(certified.operator.certificate.read_text())).hexdigest()
    eventually(
        lambda: f"and the certificate {thumbprint} at 127.0.0.1:{page.port}" in certified.gateway.errors, "the operator to be named")


def test_with_a_certificate_alone_no_page_changes_anything(certified):
    page = certified.page
    # The control: what is no browser needs no session.
    assert page.ask("GET", "/devices", sec_fetch_site=None)[0] == 200
    assert page.code("POST", "/devices/1/revoke") == (401, "session_required")
    assert page.code("POST", "/devices/1/revoke", origin="https://evil.example") == (403, "origin_refused")
    assert page.code("GET", "/devices", sec_fetch_site="cross-site") == (403, "origin_refused")
    assert state(certified) == "active"


# What is decided.

def test_decisions_are_shown_with_reasons_and_never_with_paths(signed_in):
    phone, page = signed_in.phone, signed_in.page
    before = page.ask("GET", "/decisions?after=0")[1]
    with phone.connect() as client:
        assert client.exchange(phone.request("GET", "/patients/4711", "name=secret")).status == 200
        assert client.exchange(phone.request("GET", "/patients/4711", "name=secret", created=1_000_000_000)).status == 401
    answer = page.ask("GET", f"/decisions?after={before['last']}")[1]
    # Before them the phone has fetched its challenge.
    assert [each["decision"] for each in answer["decisions"]] == ["answered", "forwarded", "denied"]
    good, bad = answer["decisions"][1:]
    assert (bad["denial"], bad["status"], bad["fault"], bad["route"], bad["method"]) == (
        "proof_stale", 401, "client", "records", "GET")
    assert bad["sentence"] and "in the past" in bad["detail"] and bad["device_number"] == 1
    assert good["upstream"] == "service" and good["server"] == signed_in.upstream.address
    logged = signed_in.gateway.logged(trace_id=bad["trace_id"])
    assert {name: bad[name] for name in ["device", "client", "route", "app", "protocol"]} == {
        name: logged[name] for name in ["device", "client", "route", "app", "protocol"]}
    assert "patients" not in json.dumps(answer) and "secret" not in json.dumps(answer)
    assert answer["last"] == bad["number"] == good["number"] + 1
    # What is known already is not shown again; what cannot be known yet stands for nothing.
    assert page.ask("GET", f"/decisions?after={bad['number']}")[1]["decisions"] == []
    assert page.ask("GET", "/decisions?after=999999")[1]["last"] == bad["number"]
    assert len(page.ask("GET", "/decisions?after=999999")[1]["decisions"]) == 3


def test_refusals_in_handshakes_and_of_unknown_clients_are_shown(signed_in, pki):
    with pytest.raises(ssl.SSLError):
        with Client(signed_in.gateway, None) as client:
            client.exchange(get("/"))
    refused = eventually(lambda: [
        each for each in signed_in.page.ask("GET", "/decisions")[1]["decisions"]
        if each.get("denial") == "certificate_required"], "the refusal to be shown")
    assert refused[0]["event"] == "connection_refused" and refused[0]["client"] == "127.0.0.0/24" and "status" not in refused[0]


def test_stored_decisions_are_bounded_and_omissions_are_counted(signed_in):
    phone, page = signed_in.phone, signed_in.page
    page.ask("GET", "/decisions")
    with phone.connect() as client:
        for _ in range(300):
            assert client.exchange(get("/")).status == 401
    answer = page.ask("GET", "/decisions")[1]
    assert answer["left_out"] == 44 and len(answer["decisions"]) >= 256
    assert [each["number"] for each in answer["decisions"]] == sorted(each["number"] for each in answer["decisions"])


def test_without_an_access_log_the_page_still_knows_devices(start_attested, tmp_path):
    administration, port = serve_page(tmp_path)
    served = start_attested(administration=administration, log={"access": "off"})
    page = Page(port)
    page.sign_in()
    page.ask("GET", "/decisions")
    with served.phone.connect() as client:
        assert client.exchange(served.phone.request(created=1_000_000_000)).status == 401
    decision = page.ask("GET", "/decisions")[1]["decisions"][-1]
    assert decision["denial"] == "proof_stale" and decision["device_number"] == 1 and len(decision["device"]) == 16


def test_decisions_of_all_workers_stand_in_one_order(start_attested, tmp_path):
    administration, port = serve_page(tmp_path)
    served = start_attested(administration=administration, workers=3)
    page = Page(port)
    page.sign_in()
    page.ask("GET", "/decisions")
    for _ in range(30):
        with served.phone.connect() as client:
            assert client.exchange(get("/")).status == 401
    answer = page.ask("GET", "/decisions")[1]
    assert len(answer["decisions"]) == answer["last"] == 30 and answer["silent_workers"] == []
    times = [each["time"] for each in answer["decisions"]]
    assert times == sorted(times)
    # The control: there was something to put in order.
    samples = scrape(served.gateway)
    assert sum(samples("attestgate_worker_requests_total", worker=str(worker)) > 0 for worker in range(3)) > 1
