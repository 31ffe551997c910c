"""`attestgate-device federation`: the agent of the built programs, on both platforms, with and without request proofs."""

import re

import pytest

from support.exposition import scrape
from support.federation import COURSES, Federating
from support.paths import REPOSITORY
from support.pki import attestgate
from support.platforms import PLATFORMS
from support.software_phone import EnrollingGateway
from support.waiting import eventually


@pytest.mark.parametrize("require", ["assertion", "request-proof"])
@pytest.mark.parametrize("platform", PLATFORMS)
def test_the_tool_is_an_agent(pki, own_upstream, tmp_path, platform, require):
    service = EnrollingGateway(tmp_path, pki, own_upstream, platforms=[platform])
    # Of this one only the section is used.
    federation = Federating(tmp_path / "federation", pki, own_upstream, federation={"require": require})
    federation.gateway, own = service.gateway, federation.gateway
    section = own.conf["federation"]
    service.gateway.halt()
    service.gateway.conf["federation"] = section
    service.gateway.start()
    learning = None
    try:
        learning = federation.platform()
        phone = service.phone("agent")
        phone.enrol()
        options = ["--proof"] if require == "request-proof" else []

        def call(command, *arguments, status=0):
            return phone.federation(federation, command, *options, *arguments, status=status)

        instance = call("register")
        token = call("token", "--service", learning.url, "--scope", "profile courses")
        app = call("app", "--parent", token["jti"], "--app", "org.example.reader", "--scope", "courses")
        assert learning.courses(app["access_token"])[1]["app"] == "org.example.reader"
        assert call("code", "--service", learning.url)["code"]
        of_instance = ["--token", instance["access_token"]]
        assert call("used", *of_instance) == [call("find", *of_instance, learning.url)]
        eventually(lambda: call("protocols", *of_instance, COURSES), "the description")
        assert call("token", "--service", "https://other.example", status=1)["error"] == "invalid_request"
        call("revoke", token["access_token"])
        assert not federation.is_active(learning, app["access_token"])
        if options:
            options = []
            assert call("register", status=1)["error"] == "proof_required"
    finally:
        service.stop()
        federation.http.close()
        federation.holder.close()
        federation.enrolling.holder.close()
        if learning:
            learning.stop()


def test_status_and_metrics_tell_of_the_federation(federation):
    agent = federation.agent()
    agent.registered()
    page = (REPOSITORY / "docs" / "federation" / "operating.md").read_text()
    documented = set(re.findall(r"^\| `(attestgate_federation_\w+)[`{]", page, re.MULTILINE))
    scraped = scrape(federation.gateway)
    assert {name for name in scraped.kinds if name.startswith("attestgate_federation_")} == documented
    eventually(lambda: federation.enrolling.status()["federation"]["services"] >= 2, "the services to be listed")
    status = federation.enrolling.status()["federation"]
    assert status["listener"] == f"127.0.0.1:{federation.port}" and status["url"] == federation.url
    assert status["services"] >= 2
    shown = attestgate("status", "--config", federation.gateway.conf_path).stdout
    assert re.search(r"^federation +127\.0\.0\.1:\d+, \d+ services, \d+ described$", shown, re.MULTILINE)
    check = attestgate("check", "--config", federation.gateway.conf_path)
    assert check.returncode == 0 and f"federation: {federation.url}" in check.stdout
    assert '"event":"federation"' in federation.gateway.errors
