"""Proofs over targets as clients write them: what a proof covers are the bytes on the wire, raw or encoded."""

import json

import pytest

from support.client import Client
from support.command_line import device_tool
from support.denials import assert_denied
from support.http2_client import HTTP2Client
from support.pki import attestgate
from support.platforms import APPS
from support.reloading import reload

SEARCH = "identifier=urn:oid:1.2.276|42&_filter=name[x]{y}^`\\'"


@pytest.fixture
def common(start_attested):
    """A gateway whose route for records takes common targets."""
    made = start_attested()
    made.gateway.conf["routes"][0].update(targets="common", path_characters=["encoded-slash", "semicolon"])
    made.gateway.write_conf()
    assert reload(made.gateway).returncode == 0
    return made


@pytest.mark.parametrize("client", [Client, HTTP2Client])
@pytest.mark.parametrize("path, query", [
    ("/Patient", SEARCH), ("/Patient/%7ea[1]|b", ""), ("/a%2fb;c=d", "e|f"), ("/Patient", "a=b?c|d")])
def test_a_proof_over_raw_characters_passes(common, own_upstream, client, path, query):
    with client(common.gateway, common.phone.identity) as opened:
        assert opened.exchange(common.phone.request(path=path, query=query)).status == 200
    assert own_upstream.last_request().target == path + (f"?{query}" if query else "")


@pytest.mark.parametrize("client", [Client, HTTP2Client])
@pytest.mark.parametrize("signed, sent", [
    (("/Patient", "identifier=1|42"), "/Patient?identifier=1%7C42"), (("/Patient", "identifier=1%7C42"), "/Patient?identifier=1|42"),
    (("/Patient", "identifier=1%7c42"), "/Patient?identifier=1%7C42"), (("/%7Ea", ""), "/~a"), (("/~a", ""), "/%7Ea"),
    (("/a%2Fb", ""), "/a%2fb"), (("/a|b", ""), "/a%7Cb")])
def test_a_proof_over_raw_characters_that_a_proxy_re_encoded_is_invalid(common, client, signed, sent):
    path, query = signed
    with common.nothing_forwarded(), client(common.gateway, common.phone.identity) as opened:
        data = common.phone.request(path=path, query=query, sent={"target": sent})
        assert_denied(common.gateway, opened.exchange(data), "proof_invalid", 401)


def test_a_raw_target_that_the_route_refuses_spends_no_counter(start_attested, own_upstream):
    attested = start_attested()
    with attested.phone.connect() as client:
        data = attested.phone.request(path="/Patient", query="a|b")
        entry = assert_denied(attested.gateway, client.exchange(data), "request_malformed", 400)
        assert entry["detail"].endswith(": byte 0x7c at offset 10 of the target")
    attested.gateway.conf["routes"][0]["targets"] = "common"
    attested.gateway.write_conf()
    assert reload(attested.gateway).returncode == 0
    with attested.phone.connect() as client:
        assert client.exchange(data).status == 200
    assert [request.target for request in own_upstream.requests] == ["/Patient?a|b"]


@pytest.mark.parametrize("version", ["--http1.1", "--http2"])
def test_the_device_tool_proves_a_fhir_search(common, own_upstream, pki, platform, tmp_path, version):
    directory = tmp_path / "device"
    made = device_tool("create", "--directory", directory, "--app-id", APPS[platform], "--json")
    assert made.returncode == 0, made.stderr.decode()
    device = json.loads(made.stdout)
    issued = attestgate(
        "pki", "issue", "--directory", pki.directory, "--certificate-key", device["certificate_key"],
        "--out", device["certificate"])
    assert issued.returncode == 0, issued.stderr
    common.gateway.device_command(
        "add", "--app-id", APPS[platform], "--public-key", device["public_key"],
        "--certificate-key", device["certificate_key"])
    target = "/Patient?identifier=urn:oid:1|42&name=[a]{b}"
    done = device_tool(
        "request", "--directory", directory, "--cacert", pki.server_ca,
        "--resolve", f"localhost:{common.gateway.port}:127.0.0.1", "--fail", *([version] if version == "--http2" else []),
        f"https://localhost:{common.gateway.port}{target}")
    assert (done.returncode, done.stdout) == (0, b"ok"), done.stderr
    assert own_upstream.last_request().target == target
