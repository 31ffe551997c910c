"""Listeners of the administration that are for less than everything: what each level opens, and what it keeps shut."""

import json

import pytest

from support.administration_page import Page
from support.exposition import scrape
from support.pki import attestgate
from support.ports import uncommon_port
from support.waiting import eventually

LEVELS = ["metrics", "view", "admin"]
# The least level that opens each.
ENDPOINTS = {
    ("GET", "/metrics"): "metrics", ("GET", "/health/live"): "metrics", ("GET", "/health/ready"): "metrics",
    ("GET", "/status"): "view", ("GET", "/decisions"): "view", ("GET", "/devices"): "view", ("GET", "/devices/1"): "view",
    ("GET", "/reload"): "view", ("GET", "/certificates/revoked"): "view",
    ("GET", "/registry/export"): "admin", ("POST", "/devices/1/revoke"): "admin", ("POST", "/devices/1/restore"): "admin",
    ("POST", "/devices/1/approve"): "admin", ("POST", "/registry/renew-epoch"): "admin", ("POST", "/logs/reopen"): "admin",
    ("POST", "/certificates/revocation-list-number"): "admin", ("POST", "/reload"): "admin",
}


def token(level):
    return f"{level}-t0ken-" * 6


class Listeners:
    """A gateway with a phone, device 1, and a listener of each level."""

    def __init__(self, start_attested, tmp_path):
        self.pages, listeners = {}, []
        for level in LEVELS:
            path = tmp_path / f"{level}.token"
            path.write_text(token(level) + "\n")
            path.chmod(0o600)
            port = uncommon_port()
            self.pages[level] = Page(port)
            listeners.append({"address": f"127.0.0.1:{port}", "level": level, "token_file": str(path)})
        self.gateway = start_attested(
            administration={"socket": str(tmp_path / "admin.sock"), "listeners": listeners}).gateway

    def ask(self, level, method, path, bearer=None):
        return self.pages[level].code(
            method, path, authorization=f"Bearer {bearer or token(level)}", origin=None, sec_fetch_site=None)


@pytest.fixture
def listeners(start_attested, tmp_path):
    return Listeners(start_attested, tmp_path)


def test_a_level_opens_its_part_of_the_administration_and_no_more(listeners):
    for (method, path), least in ENDPOINTS.items():
        for level in LEVELS:
            answer = listeners.ask(level, method, path)
            if LEVELS.index(level) < LEVELS.index(least):
                assert answer == (403, "level_refused"), (level, method, path)
            else:
                assert answer[0] < 300 or answer[1] in ("device_revoked", "not_found"), (level, method, path, answer)


def test_a_change_refused_by_level_is_not_made_but_counted_and_audited(listeners):
    gateway = listeners.gateway
    for level in ["metrics", "view"]:
        assert listeners.ask(level, "POST", "/devices/1/revoke") == (403, "level_refused")
        assert listeners.ask(level, "POST", "/subjects/revoke") == (403, "level_refused")
        assert listeners.ask(level, "POST", "/upgrade") == (403, "level_refused")
    assert json.loads(gateway.device_command("show", "1", "--json"))["state"] == "active"
    assert scrape(gateway)("attestgate_administration_refused_total", reason="level") == 6

    def acts():
        return [json.loads(line) for line in gateway.errors.splitlines() if '"refusal":"level_refused"' in line]
    refused = eventually(lambda: len(acts()) == 6 and acts(), lambda: f"six acts: {acts()}")
    assert [each["act"] for each in refused] == ["device_revoke", "subject_revoke", "upgrade"] * 2
    assert {each["outcome"] for each in refused} == {"refused"}
    assert "the listener's level does not allow the request" in gateway.errors


def test_a_token_is_valid_only_at_its_own_listener(listeners):
    for level in LEVELS:
        for other in LEVELS:
            if other != level:
                assert listeners.ask(level, "GET", "/metrics", bearer=token(other)) == (401, "token_required")


def test_the_page_is_served_at_level_look_and_not_at_level_metrics(listeners):
    metrics, view = listeners.pages["metrics"], listeners.pages["view"]
    # As of any path that there is not: who has no token learns nothing.
    assert metrics.code("GET", "/") == (401, "token_required") and listeners.ask("metrics", "GET", "/") == (404, "not_found")
    assert view.ask("GET", "/")[0] == 200
    assert view.ask("GET", "/session")[1] == {"token_needed": True}
    status, session, fields = view.ask("POST", "/session", {"token": token("view")}, attestgate_page="sign-in")
    assert (status, session["level"]) == (200, "view")
    view.cookie, view.key = fields["set-cookie"].split(";")[0], session["key"]
    assert view.ask("GET", "/devices")[1]["devices"][0]["device"] == 1
    assert view.code("POST", "/devices/1/revoke") == (403, "level_refused")
    assert view.ask("POST", "/session/end")[0] == 200
    assert view.code("GET", "/devices") == (401, "session_required")


def test_check_warns_of_a_token_that_opens_more_elsewhere(listeners, tmp_path):
    (tmp_path / "metrics.token").write_text(token("admin"))
    done = attestgate("check", "--config", listeners.gateway.conf_path)
    assert done.returncode == 0 and done.stderr.count("its token also opens") == 1, done.stderr
    assert "metrics.token" in done.stderr and token("admin") not in done.stderr
