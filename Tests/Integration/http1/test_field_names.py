"""Names of fields have letters, digits and hyphens: services take other characters for those, and so another field for ours."""

import pytest

from support.attacks import CHUNKED, REASONS, head
from support.client import Client, get
from support.denials import NothingForwarded, assert_denied
from support.gateway import Gateway
from support.http2_client import HTTP2Client
from support.pki import attestgate

VERSIONS = pytest.mark.parametrize("client", [Client, HTTP2Client])
# All that tokens have besides (RFC 9110 section 5.6.2).
OTHERS = "!#$%&'*+.^_`|~"
NAMES = [*(f"Attest{other}Device" for other in OTHERS), "X!Forwarded!For", "X-HTTP-Method~Override", "X~", "`X", "X-1."]


@VERSIONS
@pytest.mark.parametrize("name", NAMES)
def test_a_name_with_other_characters_is_refused_and_not_a_byte_forwarded(gateway, phone, nothing_forwarded, client, name):
    with nothing_forwarded, client(gateway, phone) as opened:
        entry = assert_denied(gateway, opened.exchange(get("/", f"{name}: admin")), "header_refused", 400)
        assert entry["detail"] == REASONS["fieldNameUnusual"]


@pytest.mark.parametrize("name", NAMES)
def test_a_trailer_with_such_a_name_completes_no_request(gateway, upstream, phone, name):
    requests = len(upstream.requests)
    with Client(gateway, phone) as client:
        data = head(CHUNKED) + f"5\r\nhello\r\n0\r\n{name}: admin\r\n\r\n".encode()
        assert_denied(gateway, client.exchange(data), "header_refused", 400)
    with HTTP2Client(gateway, phone) as http2:
        number = http2.start("POST", "/attack", end=False)
        http2.h2.send_data(number, b"hello")
        http2.h2.send_headers(number, [(name.lower(), "admin")], end_stream=True)
        http2.flush()
        assert_denied(gateway, http2.response(number), "header_refused", 400)
    assert len(upstream.requests) == requests and b"admin" not in upstream.received


@pytest.fixture
def admitting(start_gateway, own_upstream):
    """A gateway with two routes, of which one admits two unusual names."""
    own_upstream.unusual_names = ("x.custom", "soap!action")
    return start_gateway({"service": own_upstream.address}, [
        {"name": "all", "host": "localhost", "path": "/"},
        {"name": "old", "host": "localhost", "path": "/old", "unusual_headers": ["X.Custom", "soap!action"]}])


@VERSIONS
def test_a_route_admits_the_names_that_it_lists_in_any_case(admitting, own_upstream, phone, client):
    with client(admitting, phone) as opened:
        assert opened.exchange(get("/old", "x.CUSTOM: 1", "SOAP!Action: 2", "X-Ordinary: 3")).status == 200
    request = own_upstream.last_request()
    assert [request.values(name) for name in ["x.custom", "soap!action", "x-ordinary"]] == [["1"], ["2"], ["3"]]


@VERSIONS
@pytest.mark.parametrize("path, name", [
    ("/", "X.Custom"), ("/older", "X.Custom"), ("/old", "X!Custom"), ("/old", "X.Customs"), ("/old", "Attest!Device"),
    ("/old", "X!Forwarded!For")])
def test_it_admits_no_other_name_and_no_other_route_does(admitting, own_upstream, phone, client, path, name):
    with NothingForwarded(admitting, own_upstream, phone), client(admitting, phone) as opened:
        fields = ["X.Custom: 1"] if path == "/old" else []
        response = opened.exchange(get(path, *fields, f"{name}: admin"))
        entry = assert_denied(admitting, response, "header_refused", 400)
        assert entry["detail"] == REASONS["fieldNameUnusual"]


def test_no_trailer_has_an_unusual_name_even_if_a_route_lists_it(admitting, own_upstream, phone):
    with Client(admitting, phone) as client:
        data = head(CHUNKED, line="POST /old HTTP/1.1") + b"5\r\nhello\r\n0\r\nX.Custom: admin\r\n\r\n"
        assert_denied(admitting, client.exchange(data), "header_refused", 400)
    assert own_upstream.requests == [] and b"admin" not in own_upstream.received


@pytest.mark.parametrize("name, settings", [
    ("Attest!Device", {}), ("attest_anything", {}), ("X.Forwarded~For", {}), ("X_HTTP_Method_Override", {}), ("CF+Ray", {}),
    ("Content_Length", {}), ("X_User", {"strip_headers": ["X-User"]}), ("X-Custom", {}), ("X Custom", {})])
def test_check_refuses_a_name_that_can_be_read_as_a_protected_one(pki, tmp_path, name, settings):
    route = {"name": "all", "host": "localhost", "path": "/", "unusual_headers": [name]}
    made = Gateway(tmp_path, pki, {"service": "127.0.0.1:9"}, [route], **settings)
    made.write_conf()
    done = attestgate("check", "--config", made.conf_path)
    assert done.returncode != 0 and f"`{name}`" in done.stderr, done.stderr
