"""Simulated policies refuse nobody, delay nobody, and say exactly whom they would refuse."""

import json
import shutil
from collections import Counter

import pytest

from support.administration_page import TOKEN, serve_page
from support.client import get
from support.deciding import (
    PATIENT, REQUESTS, assert_policy_denied, assert_unavailable, denying, policies, questions, wait_for_questions,
)
from support.decision_points import EVALUATION, AuthZEN
from support.denials import code_of
from support.exposition import ask, scrape
from support.http2_client import HTTP2Client
from support.key_description import integer
from support.pki import attestgate
from support.platforms import PLATFORMS
from support.postures import Postures
from support.waiting import eventually

# Three postures of each platform, how many requests they send, and what a policy lacks of them.
RULE = {"ios": {"minimum_os": "17.4"}, "android": {"minimum_patch_level": "2026-02", "certificate_key": "attested"}}
FLEET = {
    ("ios", "new", 7): ({"os_version": "18.1"}, []),
    ("ios", "old", 3): ({"os_version": "16.0"}, ["os_outdated"]),
    ("ios", "silent", 2): ({}, ["os_outdated"]),
    ("android", "new", 5): ({}, []),
    ("android", "old", 2): ({"hardware": {706: integer(202_512)}}, ["patch_level_outdated"]),
    ("android", "unattested", 1): ({"attests_key": False}, ["certificate_key_unattested"]),
}
EXPECTED = Counter()
for (_, _, count), (_, lacks) in FLEET.items():
    EXPECTED["decisions"] += count
    EXPECTED["denied"] += count if lacks else 0
    EXPECTED.update({code: count for code in lacks})
CODES = {code: count for code, count in EXPECTED.items() if code not in ("decisions", "denied")}


def decisions(gateway, policy, simulated):
    """What the metrics say: decisions by outcome."""
    metrics = scrape(gateway)
    name, labels = "attestgate_policy_decisions_total", {"policy": policy, "simulated": simulated}
    if name not in metrics.kinds:
        return {}
    return {each["decision"]: int(metrics(name, **each)) for each in metrics.labels(name) if labels.items() <= each.items()}


def row_of(gateway, policy, simulated):
    """The policy's row in `/status`."""
    rows = json.loads(ask(gateway, "/status")[2])["policies"]
    found = [row for row in rows if (row["policy"], row["simulated"]) == (policy, simulated)]
    assert len(found) <= 1, rows
    return found[0] if found else None


def drive(postures):
    """Each phone sends its requests. - Returns: the codes of the denials, counted; None for those that passed."""
    outcomes = Counter()
    for (platform, name, count), (facts, _) in FLEET.items():
        phone = postures.phone(platform, name, **facts)
        for _ in range(count):
            outcomes[code_of(postures.ask(phone, phone.request(path="/proof/rule/1")))] += 1
    return outcomes


def test_whom_a_rule_would_refuse_is_exactly_whom_it_refuses(tmp_path, pki, upstream):
    administration, port = serve_page(tmp_path)
    postures = Postures(
        tmp_path, pki, upstream, {"rule": {**RULE, "simulate": "true"}}, settings={"administration": administration})
    gateway = postures.gateway
    try:
        # Nobody is refused, and an operator sees whom it would be.
        gateway.begin()
        assert drive(postures) == {None: EXPECTED["decisions"]}
        assert decisions(gateway, "rule", "true") == {
            "allow": EXPECTED["decisions"] - EXPECTED["denied"], "deny": EXPECTED["denied"]}
        assert decisions(gateway, "rule", "false") == {}
        metrics = scrape(gateway)
        for code, count in CODES.items():
            assert metrics("attestgate_policy_violations_total", policy="rule", violation=code, simulated="true") == count
        row = row_of(gateway, "rule", True)
        simulated = row["last_hour"]
        assert simulated == row["last_day"] == {
            "decisions": EXPECTED["decisions"], "denied": EXPECTED["denied"], "unavailable": 0, "violations": CODES}
        differing = {f"rule: deny {code}": count for code, count in CODES.items()}
        eventually(lambda: logged(gateway) == differing, lambda: f"{differing} in the log; there is {logged(gateway)}")
        assert not [entry for entry in gateway.access() if "denial" in entry]
        printed = attestgate("status", "--config", gateway.conf_path).stdout
        share = f"{100 * EXPECTED['denied'] / EXPECTED['decisions']:.1f} %"
        assert "simulated" in printed and f"{EXPECTED['decisions']}, {share}" in printed, printed
        assert_page_shows(tmp_path, port, "rule", "simulated", str(EXPECTED["decisions"]), *CODES)

        # Now it refuses.
        del gateway.conf["policies"]["rule"]["simulate"]
        postures.reload()
        outcomes = drive(postures)
        assert outcomes == {None: EXPECTED["decisions"] - EXPECTED["denied"], "policy_denied": EXPECTED["denied"]}
        enforced = row_of(gateway, "rule", False)["last_hour"]
        assert enforced == simulated, "the refused share is the simulated one"
        assert row_of(gateway, "rule", True)["last_hour"] == simulated
    finally:
        postures.stop()


def logged(gateway):
    """What the access log has of simulated policies, counted."""
    return Counter(entry["simulated"] for entry in gateway.access() if entry.get("route") == "proof-rule" and "simulated" in entry)


def assert_page_shows(tmp_path, port, *texts):
    """In the table of policies, if there is a browser."""
    if not shutil.which("chromedriver"):
        return
    pytest.importorskip("selenium")
    from support.browser import Browser
    browser = Browser(tmp_path / "browser")
    try:
        browser.driver.get(f"http://127.0.0.1:{port}/")
        browser.has("#sign-in", "Token of this listener")
        browser.type("#token", TOKEN)
        browser.click("#sign-in button")
        for text in texts:
            browser.has("#policy-table", text)
    finally:
        browser.close()


def test_a_second_policy_is_simulated_on_the_same_requests(tmp_path, pki, upstream):
    lax = {"ios": {"minimum_os": "16"}, "android": {"minimum_patch_level": "2025-12"}}
    postures = Postures(tmp_path, pki, upstream, {"rule": {**lax, "simulation": "strict"}}, further={"strict": RULE})
    gateway = postures.gateway
    try:
        outcomes = drive(postures)
        silent = next(count for (_, name, count) in FLEET if name == "silent")
        assert outcomes == {None: EXPECTED["decisions"] - silent, "policy_denied": silent}
        assert decisions(gateway, "strict", "true") == {
            "allow": EXPECTED["decisions"] - EXPECTED["denied"], "deny": EXPECTED["denied"]}
        assert decisions(gateway, "rule", "false") == {"allow": EXPECTED["decisions"] - silent, "deny": silent}
        # The log says where both differ.
        expected = Counter(CODES)
        expected["os_outdated"] -= silent
        differing = {f"strict: deny {code}": count for code, count in expected.items()}
        eventually(lambda: logged(gateway) == differing, lambda: f"{differing} in the log; there is {logged(gateway)}")
        assert all("simulated" not in entry for entry in gateway.access() if "denial" in entry)
    finally:
        postures.stop()


def test_a_simulated_policy_that_is_laxer_says_whom_it_would_let_pass(tmp_path, pki, upstream):
    postures = Postures(
        tmp_path, pki, upstream, {"rule": {**RULE, "simulation": "lax"}}, further={"lax": {"ios": {"minimum_os": "15"}}})
    try:
        old = postures.phone("ios", "old", os_version="16.0")
        assert_policy_denied(postures.gateway, postures.ask(old, get("/rule/1")), ["os_outdated"])
        assert postures.gateway.logged(denial="policy_denied")["simulated"] == "lax: allow"
    finally:
        postures.stop()


def test_a_simulated_policy_spends_no_counter_of_its_own_and_judges_what_a_proof_shows(tmp_path, pki, upstream):
    postures = Postures(tmp_path, pki, upstream, {"rule": {"ios": {"minimum_app_version": "2.1"}, "simulate": "true"}})
    try:
        phone = postures.phone("ios", "one", os_version="18")
        data = phone.request(path="/proof/rule/1")
        assert postures.ask(phone, data).status == 200
        assert code_of(postures.ask(phone, data)) == "counter_replayed"
        assert postures.gateway.logged(simulated="rule: deny app_outdated", decision="forwarded")
        # A wrong proof is refused as ever.
        wrong = phone.request(path="/proof/rule/1", sent={"method": "DELETE"})
        assert code_of(postures.ask(phone, wrong)) == "proof_invalid"
    finally:
        postures.stop()


# Decision points

@pytest.mark.parametrize("where", ["policy", "point", "second"])
def test_a_simulated_decision_point_is_asked_and_refuses_nobody(started, start_attested, where):
    point = started(AuthZEN, lambda document: True)
    attested = start_attested(platforms=PLATFORMS, **simulated_settings(point, where))
    denying(point, admin="rule 7")
    name = "other" if where == "second" else "records"
    for kind in REQUESTS:
        with attested.phone.connect() as client, questions(point, 1):
            assert client.exchange(REQUESTS[kind](attested.phone)).status == 200
        trace = point.asked[-1].fields["x-request-id"]
        entry = attested.gateway.logged(event="policy_simulated", simulated=name, trace_id=trace)
        assert entry["detail"].startswith("deny"), entry
        assert attested.gateway.logged(decision="forwarded", trace_id=trace)
    eventually(lambda: decisions(attested.gateway, name, "true") == {"deny": len(REQUESTS)}, "the count")
    assert decisions(attested.gateway, name, "false").get("deny", 0) == 0


def simulated_settings(point, where, **changes):
    settings = policies(point, **changes)
    if where == "policy":
        settings["policies"]["records"]["simulate"] = "true"
    elif where == "point":
        settings["decision_points"]["pdp"]["simulate"] = "true"
    else:
        settings["policies"] = {"records": {"simulation": "other"}, "other": {"pdp": "pdp"}}
    return settings


@pytest.mark.parametrize("where", ["policy", "point", "second"])
def test_a_simulated_decision_point_that_hangs_or_is_absent_delays_nobody(started, start_attested, where):
    point = started(AuthZEN, lambda document: True)
    attested = start_attested(platforms=PLATFORMS, **simulated_settings(point, where))
    point.misbehave("slow")
    phone = attested.phone
    with HTTP2Client(attested.gateway, phone.identity) as client:
        # None of them is answered before the decision point is: by that nobody can have waited for it.
        for number in range(60):
            assert client.exchange(get("/device/1") if number % 2 else phone.request()).status == 200
        assert 1 <= len(point.documents) <= 32, "further questions are left out"
        asked = len(point.documents)
        point.behave()
        name = "other" if where == "second" else "records"
        eventually(lambda: decisions(attested.gateway, name, "true").get("allow", 0) >= asked, "the answers")
        point.go()
        assert client.exchange(phone.request()).status == 200
        entry = attested.gateway.logged(event="policy_simulated", simulated=name)
        assert entry["detail"].startswith("unavailable: "), entry
        eventually(lambda: decisions(attested.gateway, name, "true").get("unavailable") == 1, "the count")


def test_a_client_that_is_gone_changes_nothing_for_a_simulated_question(started, start_attested):
    point = started(AuthZEN, lambda document: True)
    attested = start_attested(platforms=PLATFORMS, **simulated_settings(point, "policy"))
    point.misbehave("slow")
    for _ in range(5):
        with attested.phone.connect() as client:
            assert client.exchange(get("/device/1")).status == 200
    wait_for_questions(point, 5)
    denying(point)
    point.released.set()
    eventually(lambda: sum(decisions(attested.gateway, "records", "true").values()) == 5, "the answers")
    with attested.phone.connect() as client:
        assert client.exchange(get("/device/1")).status == 200


def test_a_simulated_decision_point_is_not_asked_about_what_is_refused(started, start_attested):
    point = started(AuthZEN, lambda document: True)
    attested = start_attested(platforms=PLATFORMS, **simulated_settings(point, "policy"))
    with attested.phone.connect() as client, questions(point, 0):
        assert client.exchange(get("/records/1")).status == 401
        assert client.exchange(attested.phone.request(sent={"method": "PUT"})).status == 401


def test_the_real_decision_comes_first_and_the_simulated_one_has_no_say(started, start_attested):
    real, trial = started(AuthZEN, lambda document: True), started(AuthZEN, lambda document: True)
    settings = policies(real)
    settings["policies"] = {"records": {"pdp": "pdp", "simulation": "other"}, "other": {"pdp": "trial"}}
    settings["decision_points"]["trial"] = {"kind": "authzen", "url": trial.url, "path": EVALUATION, "timeout": PATIENT}
    attested = start_attested(platforms=PLATFORMS, **settings)
    phone = attested.phone
    with phone.connect() as client:
        denying(trial)
        assert client.exchange(phone.request()).status == 200
        attested.gateway.logged(event="policy_simulated", simulated="other")
        denying(real)
        trial.behave()
        before = len(trial.documents)
        with attested.nothing_forwarded():
            data = phone.request()
            assert_policy_denied(attested.gateway, client.exchange(data))
        real.misbehave("status 500")
        with attested.nothing_forwarded():
            assert_unavailable(attested.gateway, client.exchange(data))
        assert len(trial.documents) == before
        real.behave()
        assert client.exchange(data).status == 200


def test_no_answer_of_a_simulated_decision_point_costs_the_gateway_anything(started, start_attested):
    point = started(AuthZEN, lambda document: True)
    attested = start_attested(platforms=PLATFORMS, **simulated_settings(point, "point"))
    for name in ["10 MiB", "closes at once", "nested", "trailing bytes", "status 500"]:
        point.misbehave(name)
        with attested.phone.connect() as client:
            assert client.exchange(attested.phone.request()).status == 200, name
    eventually(lambda: decisions(attested.gateway, "records", "true") == {"unavailable": 5}, "the count")
    # What is decided without the decision point is real.
    assert decisions(attested.gateway, "records", "false") == {"allow": 5}


def test_what_is_simulated_is_cached_like_everything_else(started, start_attested):
    point = started(AuthZEN, lambda document: False)
    attested = start_attested(platforms=PLATFORMS, **simulated_settings(point, "policy", cache="1h"))
    with attested.phone.connect() as client:
        assert client.exchange(get("/device/1")).status == 200
        eventually(lambda: decisions(attested.gateway, "records", "true") == {"deny": 1}, "the answer")
        with questions(point, 0):
            assert client.exchange(get("/device/1")).status == 200
    eventually(lambda: decisions(attested.gateway, "records", "true") == {"deny": 2}, "the kept answer")
