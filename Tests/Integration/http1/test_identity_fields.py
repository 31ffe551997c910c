"""Nothing that a client says in a proxy's name reaches a service, however it is spelled."""

import random
import re

import pytest

from support.client import Client, get
from support.denials import NothingForwarded, assert_denied
from support.gateway import Gateway
from support.http2_client import HTTP2Client
from support.paths import REPOSITORY
from support.pki import attestgate
from test_forwarding import FORWARDED

# From the design: families are given with some of their members.
IDENTITY_FIELDS = [
    "Client-Cert", "Client-Cert-Chain", "Client-Cert-Anything", "Attest-Device", "Attest-App", "Attest-Platform",
    "Attest-Counter", "Attest-Subject", "Attest-Posture", "Attest-Anything", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto",
    "X-Forwarded-Client-Cert", "X-Forwarded-Anything", "Forwarded", "X-Real-IP", "X-Client-Cert",
    "X-Client-Cert-Subject", "X-Client-Certificate", "X-SSL-Client-Verify", "X-SSL-Client-S-DN", "X-SSL-Anything",
    "SSL-Client-Cert", "SSL-Client-Verify", "X-Amzn-Mtls-Clientcert", "X-Amzn-Mtls-Clientcert-Leaf", "X-Device-Token",
    "ZETA-User-Info", "ZETA-Anything",
    # Named by this gateway's conf file.
    "X-Internal-User",
    # The list of an audit.
    "Proxy", "X-Auth-Request-User", "X-Webauth-User", "X-Consumer-Username", "X-Authenticated-Userid", "X-Spiffe-Id",
    "X-Forwarded-User", "X-Original-Forwarded-For", "X-Host", "Front-End-Https", "True-Client-IP", "CF-Connecting-IP",
    "CF-Connecting-IPv6", "Fastly-Client-IP", "Fly-Client-IP", "CloudFront-Viewer-Address", "X-Azure-ClientIP",
    "X-Appengine-User-IP", "Client-IP", "X-Remote-User", "X-Goog-Authenticated-User-Email", "X-Amzn-Oidc-Identity",
    "X-MS-Client-Principal-Name", "Impersonate-User",
]
OVERRIDES = ["X-HTTP-Method-Override", "X-HTTP-Path-Override", "X-Override-Url", "X-Original-URL", "X-Rewrite-URL"]


@pytest.mark.parametrize("name", IDENTITY_FIELDS)
def test_an_identity_field_is_removed_in_every_spelling_and_number(upstream, connect, name):
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    mixed = "".join(random.Random(seed).choice([c.lower(), c.upper()]) for c in name)
    client = connect()
    for fields in [
        [name], [name.lower()], [name.upper()], [mixed], [name, name], [name, name.lower(), mixed, name.upper()],
    ]:
        data = get("/", "X-Before: 1", *(f"{spelling}: admin" for spelling in fields), "X-After: 2")
        assert client.exchange(data).status == 200
        assert upstream.last_request().untraced == (
            b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Before: 1\r\nX-After: 2\r\n" + FORWARDED + b"\r\n")


@pytest.mark.parametrize("name", IDENTITY_FIELDS)
def test_an_identity_field_that_connection_names_is_refused(connect, nothing_forwarded, name):
    with nothing_forwarded:
        assert connect().exchange(get("/", f"Connection: {name}", f"{name}: admin")).status == 400


@pytest.mark.parametrize("name", IDENTITY_FIELDS)
def test_an_identity_field_spelled_with_underscores_or_dots_is_refused(connect, nothing_forwarded, name):
    if "-" not in name:
        pytest.skip("the name has but one spelling")
    with nothing_forwarded:
        for spelling in [name.replace("-", "_"), name.replace("-", "_", 1), name.replace("-", ".")]:
            assert connect().exchange(get("/", f"{spelling}: admin")).status == 400


def test_forwarded_is_set_once_and_correctly(upstream, connect, gateway):
    host = f"LOCALHOST:{gateway.port}"
    data = get("/", 'Forwarded: for=10.0.0.1;proto=http;host="evil"', "forwarded: for=10.0.0.2", host=host)
    assert connect().exchange(data).status == 200
    assert upstream.last_request().values("forwarded") == [f'for=127.0.0.1;proto=https;host="{host.lower()}"']


def test_fields_that_only_resemble_identity_are_forwarded(upstream, connect):
    fields = ["Client: 1", "X-Forward: 2", "X-Client: 3", "XX-SSL-Client: 4", "Attest: 5", "ZETA: 6", "My-Client-Cert: 7",
              "X-Real-IPs: 8", "Authorization: Bearer x", "Cookie: a=b"]
    assert connect().exchange(get("/", *fields)).status == 200
    assert upstream.last_request().untraced == (
        b"GET / HTTP/1.1\r\nHost: localhost\r\n" + "".join(f"{f}\r\n" for f in fields).encode() + FORWARDED + b"\r\n")


@pytest.mark.parametrize("client", [Client, HTTP2Client])
def test_no_field_that_services_believe_passes_in_either_version(gateway, upstream, phone, client):
    with client(gateway, phone) as opened:
        for name in IDENTITY_FIELDS:
            assert opened.exchange(get("/", f"{name}: admin", f"{name}: root")).status == 200
            assert not re.search(b"admin|root", upstream.last_request().head), name


@pytest.mark.parametrize("client", [Client, HTTP2Client])
@pytest.mark.parametrize("name", OVERRIDES)
def test_a_field_that_overrides_method_or_target_is_refused_in_either_version(gateway, phone, nothing_forwarded, client, name):
    with nothing_forwarded, client(gateway, phone) as opened:
        assert_denied(gateway, opened.exchange(get("/", f"{name}: /admin")), "header_refused", 400)


@pytest.mark.parametrize("client", [Client, HTTP2Client])
def test_the_conf_file_passes_named_fields_on_and_no_others(start_gateway, own_upstream, phone, client):
    gateway = start_gateway({"service": own_upstream.address}, forward_headers=["X-Host", "X-Auth-Request-User", "X-Override-URL"])
    with client(gateway, phone) as opened:
        fields = ["X-Host: a", "x-auth-request-user: b", "X-Override-Url: /c", "X-Auth-Request-Email: d", "Proxy: e"]
        assert opened.exchange(get("/", *fields)).status == 200
        request = own_upstream.last_request()
        passed = [request.values(line.split(":")[0]) for line in fields]
        assert passed == [["a"], ["b"], ["/c"], [], []]
        with NothingForwarded(gateway, own_upstream, phone):
            assert_denied(gateway, opened.exchange(get("/", "X-Original-URL: /c")), "header_refused", 400)


@pytest.mark.parametrize("name", ["Attest-Device", "attest-anything", "Forwarded", "Client-Cert", "X-Request-Id", "Content-Length"])
def test_check_refuses_to_pass_on_the_gateway_s_own_fields(pki, tmp_path, name):
    made = Gateway(tmp_path, pki, {"service": "127.0.0.1:9"}, forward_headers=[name])
    made.write_conf()
    done = attestgate("check", "--config", made.conf_path)
    assert done.returncode != 0 and f"`{name}` is" in done.stderr, done.stderr


def test_every_protected_field_is_documented():
    source = (REPOSITORY / "Sources" / "Vocabulary" / "ProtectedFields.swift").read_text().split("meaningful")[0]
    page = (REPOSITORY / "docs" / "fields.md").read_text().lower()
    names = re.findall(r'"([a-z0-9*-]+)"', source)
    assert len(names) > 60
    assert [name for name in names if f"`{name}`" not in page.replace("\\*", "*")] == []
