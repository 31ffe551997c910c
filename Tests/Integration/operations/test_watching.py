"""What operators watch a gateway by: the alerts and the dashboard in conf/ name metrics and labels that there are."""

import json
import re
import shutil
import subprocess

import pytest
import yaml

from support.enrolment import Enrolling
from support.exposition import scrape
from support.paths import PATIENCE, REPOSITORY
from support.ports import uncommon_port
from support.status_list_service import listing

RULES = REPOSITORY / "conf/prometheus/attestgate.rules.yaml"
DASHBOARD = REPOSITORY / "conf/grafana/attestgate.json"
ALERTS = REPOSITORY / "Tests/Integration/operations/alerts.yaml"

# Of Prometheus and of Grafana, and what PromQL itself calls so.
FOREIGN_LABELS = {"instance", "job", "le", "alertname", "alertstate"}
# The label `route` has it once a request has matched none.
NO_ROUTE = "_none"
# Prometheus' own, of each scrape.
SCRAPED = r"\bup\{job=~"


def rules():
    group, = yaml.safe_load(RULES.read_text())["groups"]
    return group["rules"]


def panels():
    return [panel for panel in json.loads(DASHBOARD.read_text())["panels"] if panel["type"] != "row"]


def expressions():
    for rule in rules():
        yield rule["alert"], rule["expr"]
    for panel in panels():
        for target in panel["targets"]:
            yield panel["title"], target["expr"]
    for annotation in json.loads(DASHBOARD.read_text())["annotations"]["list"]:
        yield annotation["name"], annotation["expr"]


@pytest.fixture
def enrolment_metrics(tmp_path, pki, upstream):
    """A scrape of a gateway that enrols, reads a status list and fetches an issuer's keys, in vain."""
    token = {"issuer": "https://localhost", "jwks_uri": f"https://localhost:{uncommon_port()}/keys", "authorities": str(pki.server_ca)}
    path = tmp_path / "status.json"
    path.write_bytes(listing("1a"))
    enrolling = Enrolling(
        tmp_path / "enrolling", pki, upstream,
        enrolment={"android": {"status_list": {"file": str(path)}}, "admission": "token", "token": token},
        apps=[{"id": "android:org.example.app", "signing_certificates": ["ab" * 32]}])
    try:
        yield scrape(enrolling.start().gateway)
    finally:
        enrolling.stop()


def test_every_watched_metric_and_label_exists(every_metric, enrolment_metrics):
    for where, expression in expressions():
        is_of_enrolment = re.search(r"attestgate_(status_list|issuer_keys)_", expression)
        assert_metrics_exist(enrolment_metrics if is_of_enrolment else every_metric, where, expression)


def assert_metrics_exist(metrics, where, expression):
    used = re.findall(r"((?:attestgate|process)_\w+)(?:\{([^}]*)\})?", expression)
    assert used or re.search(SCRAPED, expression), expression
    labels = set()
    for name, matchers in used:
        base = name.removesuffix("_bucket")
        assert base in metrics.kinds, f"{where}: {name}"
        known, kind = metrics.label_names(base), metrics.kinds[base]
        assert (base != name) == (kind == "histogram"), f"{name} is a {kind}"
        # A counter says something only by how it grows.
        if kind in ("counter", "histogram"):
            assert re.search(rf"(rate|increase|changes)\({name}", expression), expression
        for label in re.findall(r"(\w+)(?:=~|!=|!~|=)", matchers):
            assert label in known | FOREIGN_LABELS, f"{name} has no label {label}"
        labels |= known
    for group in re.findall(r"(?:by|on) \(([^)]*)\)", expression):
        assert set(group.replace(" ", "").split(",")) <= labels | FOREIGN_LABELS, expression


def test_watched_label_values_occur_in_a_scrape(start_attested, own_upstream):
    """Where a scrape has all values of a label from the start, those in the expressions are among them."""
    metrics = scrape(start_attested(tracing={"endpoint": "http://127.0.0.1:9"}).gateway)
    looked = 0
    for where, expression in expressions():
        for name, matchers in re.findall(r"((?:attestgate)_\w+)\{([^}]*)\}", expression):
            for label, operator, pattern in re.findall(r'(\w+)(=~|!=|=)"([^"$]*)"', matchers):
                values = {labels.get(label) for labels in metrics.labels(name)} - {None}
                wanted = set(pattern.split("|")) - {NO_ROUTE}
                if label in FOREIGN_LABELS or not values:
                    continue
                looked += 1
                assert wanted <= values, f"{where}: {name}: {label}: {wanted} of {values}"
    assert looked > 10


def test_the_dashboard_is_complete():
    dashboard = json.loads(DASHBOARD.read_text())
    assert len(panels()) > 20 and {variable["name"] for variable in dashboard["templating"]["list"]} == {"source", "instance"}
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(ids) == len(set(ids))
    taken = set()
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
        assert place["x"] + place["w"] <= 24 and not cells & taken, f"{panel['title']} lies upon another"
        taken |= cells
    for panel in panels():
        assert panel["title"] and panel["description"].endswith("."), panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert panel["datasource"]["uid"] == "${source}"
        for target in panel["targets"]:
            assert "$instance" in target["expr"], panel["title"]
    # Seconds have the unit s, so that nobody reads milliseconds.
    assert {panel["fieldConfig"]["defaults"]["unit"] for panel in panels() if "_seconds_bucket" in panel["targets"][0]["expr"]} == {"s"}


def test_every_alert_states_its_problem_and_severity():
    for rule in rules():
        assert rule["alert"].startswith("AttestGate") and rule["labels"]["severity"] in ("page", "ticket"), rule
        assert rule["annotations"]["summary"].endswith("."), rule


def promtool(*arguments):
    if not shutil.which("promtool"):
        pytest.skip("promtool is not installed")
    return subprocess.run(["promtool", *map(str, arguments)], capture_output=True, text=True, timeout=PATIENCE)


def test_prometheus_takes_the_rules():
    done = promtool("check", "rules", RULES)
    assert done.returncode == 0 and f"{len(rules())} rules found" in done.stdout, done


def test_every_alert_fires_for_its_cause_alone(tmp_path):
    """One of each: the series of alerts.yaml that are well are as many as those that are not."""
    expected = [{"labels": f'{{alertname="{rule["alert"]}"}}', "value": 1} for rule in rules()]
    text = ALERTS.read_text().replace("RULES", str(RULES)).replace("EXPECTED", json.dumps(expected))
    path = tmp_path / "alerts.yaml"
    path.write_text(text)
    done = promtool("test", "rules", path)
    assert done.returncode == 0, done.stdout + done.stderr
