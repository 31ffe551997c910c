"""Targets as browsers and other clients write them: taken where a route says so, forwarded byte for byte, and never ambiguous."""

import json
import re

import pytest

from support.client import Client, get
from support.command_line import curl
from support.denials import NothingForwarded, assert_denied
from support.http2_client import HTTP2Client

VERSIONS = pytest.mark.parametrize("client", [Client, HTTP2Client])
# What the WHATWG URL Standard leaves raw in a query, and RFC 3986 does not.
RAW = "[]{}|\\^`"

ROUTES = [
    {"name": "strict", "host": "localhost", "path": "/"},
    {"name": "common", "host": "localhost", "path": "/common", "targets": "common"},
    {"name": "guarded", "host": "localhost", "path": "/common/guarded", "targets": "common", "require": "device"},
    {"name": "matrix", "host": "localhost", "path": "/matrix", "path_characters": ["semicolon"]},
    {"name": "files", "host": "localhost", "path": "/files", "path_characters": ["encoded-slash"]},
    {"name": "both", "host": "localhost", "path": "/both", "targets": "common", "path_characters": ["semicolon", "encoded-slash"]},
    {"name": "below", "host": "localhost", "path": "/both/guarded", "require": "device"},
]


@pytest.fixture(scope="module")
def gateway(pki, shared_upstream, tmp_path_factory):
    from support.gateway import Gateway
    made = Gateway(tmp_path_factory.mktemp("targets"), pki, {"service": shared_upstream.address}, ROUTES)
    yield made.start()
    made.stop()


@pytest.fixture
def nothing_forwarded(gateway, upstream, phone):
    return NothingForwarded(gateway, upstream, phone)


def refused(gateway, response, part, byte, offset):
    entry = assert_denied(gateway, response, "request_malformed", 400)
    reason = {
        "path": "the path is not in normal form: it has //, ;, a dot segment, or a refused percent-encoding",
        "query": "the query is empty or holds a character that must be percent-encoded"}[part]
    assert entry["detail"] == f"{reason}: byte 0x{ord(byte):02x} at offset {offset} of the target"
    return entry


@VERSIONS
@pytest.mark.parametrize("target", [
    f"/common?a={RAW}&b='", "/common/Patient?identifier=urn:oid:1.2.276|42", "/common?_filter=name[x]{y}", "/common?",
    "/common/%7Euser/%41", "/common/%c3%a9/%3f", "/common/a[1]|b^c", "/common/%2E%2Ea", "/common?a=b|c?d|e"])
def test_a_common_target_is_forwarded_as_it_came(gateway, upstream, phone, client, target):
    with client(gateway, phone) as opened:
        assert opened.exchange(get(target)).status == 200
    assert upstream.last_request().target == target


@VERSIONS
@pytest.mark.parametrize("target, part, byte, offset", [
    ("/a?b=c|d", "query", "|", 6), ("/a?", "query", "?", 2), ("/a?[", "query", "[", 3), ("/%7Eb", "path", "%", 1),
    ("/a/b|c", "path", "|", 4), ("/a;b", "path", ";", 2), ("/a%3Bb", "path", "%", 2), ("/a%2Fb", "path", "%", 2), ("/a//b", "path", "/", 3),
    ("/a/../b", "path", ".", 3), ("/matrix/a|b", "path", "|", 9), ("/matrix/a;b?c|d", "query", "|", 13),
    ("/matrix/a%2Fb", "path", "%", 9), ("/files/a;b", "path", ";", 8), ("/files/a%2fb", "path", "%", 8),
    ("/common/a;b", "path", ";", 9), ("/common/a%3Bb", "path", "%", 9), ("/common/a%2Fb", "path", "%", 9)])
def test_a_refusal_names_the_byte_and_its_place_and_nothing_else(
        gateway, phone, nothing_forwarded, client, target, part, byte, offset):
    with nothing_forwarded, client(gateway, phone) as opened:
        response = opened.exchange(get(target))
        refused(gateway, response, part, byte, offset)
    body = json.loads(response.content)
    assert "0x" not in body["error_description"] and "offset" not in body["error_description"]


@VERSIONS
@pytest.mark.parametrize("target", [
    "/common?a=%00", '/common?a="b"', "/common?<a>", "/common?a=%", "/common?a=%zz", "/common/%25", "/common/%2e%2e/a",
    "/common/%5C", "/common/%00", "/common/%C0%AF", "/common/%FF", "/common//a", "/common/./a", "/common/{a}", "/common/`a",
    "/common/%0d%0aX:y"])
def test_what_no_setting_admits_is_refused_on_a_common_route(gateway, phone, nothing_forwarded, client, target):
    with nothing_forwarded, client(gateway, phone) as opened:
        entry = assert_denied(gateway, opened.exchange(get(target)), "request_malformed", 400)
        assert re.search(r": byte 0x[0-9a-f]{2} at offset \d+ of the target\Z", entry["detail"]), entry


@VERSIONS
@pytest.mark.parametrize("target", [
    "/matrix/a;version=2/b", "/matrix/;v", "/files/a%2Fb", "/files/urn%3Aoid%2F1", "/files/a%2F", "/both/a;b%2Fc/d;e?f|g",
    "/both/a%2fb", "/matrix/a%3Bb/c"])
def test_a_path_character_is_forwarded_where_the_route_lists_it(gateway, upstream, phone, client, target):
    with client(gateway, phone) as opened:
        assert opened.exchange(get(target)).status == 200
    assert upstream.last_request().target == target


@VERSIONS
@pytest.mark.parametrize("target", [
    # Dot and empty segments.
    "/matrix/..;/a", "/matrix/..;a=b/c", "/matrix/;a/b", "/matrix/.;/a", "/files/..%2Fa", "/files/a%2F..%2Fb", "/files/%2Fa",
    "/files/a%2F/b", "/files/a%2F%2Fb", "/both/%2e%2e%2fa", "/both/a;b%2F..%2Fc", "/both/..%2f..;/a",
    # The prefix of a route in disguise: to the gateway one route, to some service another.
    "/both/guarded;a/b", "/both/guarded%2Fb", "/both/%67uarded/b", "/both/guarded;a%2Fb", "/both/x/..;/guarded",
    "/both/guarded%3Ba/b", "/matrix/..%3B/a",
    "/common/%67uarded", "/common/guarde%64/a", "/common/%67uarded?a|b"])
def test_no_spelling_leads_around_a_route(gateway, phone, nothing_forwarded, client, target):
    with nothing_forwarded, client(gateway, phone) as opened:
        entry = assert_denied(gateway, opened.exchange(get(target)), "request_malformed", 400)
        assert " at offset " in entry["detail"]


@VERSIONS
def test_an_encoded_slash_is_no_separator_of_routes(gateway, phone, nothing_forwarded, client):
    with nothing_forwarded, client(gateway, phone) as opened:
        # As bytes they are paths of the route `/`, which admits none of it.
        for target in ["/files%2Fa", "/matrix;a", "/both%2Fa"]:
            entry = assert_denied(gateway, opened.exchange(get(target)), "request_malformed", 400)
            assert entry["route"] == "strict"


@VERSIONS
def test_a_refused_target_of_a_route_leaves_the_connection_open(gateway, upstream, phone, client):
    with client(gateway, phone) as opened:
        refused(gateway, opened.exchange(get("/a?b|c")), "query", "|", 4)
        assert opened.exchange(get("/common?b|c")).status == 200
    assert upstream.last_request().target == "/common?b|c"


@pytest.mark.parametrize("version", ["--http1.1", "--http2"])
@pytest.mark.parametrize("target, status", [
    ("/common/Patient?identifier=urn:oid:1|42&name=[a]{b}", b"200"), ("/common/a/../b?c|d", b"400"), ("/a?b|c", b"400"),
    ("/both/a;b%2fc?d|e", b"200")])
def test_curl_sends_what_it_was_given(gateway, upstream, phone, version, target, status):
    done = curl(
        gateway, target, version, "--globoff", "--path-as-is", "--output", "/dev/null", "--write-out", "%{http_code}",
        identity=phone)
    assert (done.returncode, done.stdout) == (0, status), done.stderr
    if status == b"200":
        assert upstream.last_request().target == target


def test_the_log_and_the_service_see_the_query_as_it_was_sent(start_gateway, own_upstream, phone):
    gateway = start_gateway(
        {"service": own_upstream.address}, [{"name": "all", "host": "localhost", "path": "/", "targets": "common"}],
        log={"fields": ["query"]})
    query = f"a={RAW}"
    with Client(gateway, phone) as client:
        assert client.exchange(get(f"/a?{query}")).status == 200
    assert gateway.logged(status=200)["query"] == query
