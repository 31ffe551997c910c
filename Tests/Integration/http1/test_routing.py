"""Which request goes where."""

import pytest

from support.client import Client, get
from support.denials import assert_denied
from support.recording_upstream import RecordingUpstream


def named(name):
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(name), name.encode())


NAMES = ["root", "records", "deep", "write", "other-host", "ipv6"]


@pytest.fixture(scope="module")
def services():
    made = {name: RecordingUpstream() for name in NAMES}
    for name, upstream in made.items():
        upstream.answer = named(name)
    yield made
    for upstream in made.values():
        upstream.close()


@pytest.fixture
def client(start_gateway, services, phone):
    def route(name, path, host="localhost", **more):
        return {"name": name, "host": host, "path": path, "upstream": name, **more}

    gateway = start_gateway({name: upstream.address for name, upstream in services.items()}, [
        # Shortest first: the order in the file decides nothing.
        route("root", "/"), route("records", "/records", methods=["GET"]), route("deep", "/records/deep"),
        route("write", "/records", methods=["POST"]), route("other-host", "/records", host="records.example.org"),
        route("ipv6", "/", host="[::1]"),
    ])
    with Client(gateway, phone, server_name=None) as client:
        client.gateway = gateway
        yield client


@pytest.mark.parametrize("path, name", [
    ("/", "root"), ("/a", "root"), ("/records", "records"), ("/records/", "records"), ("/records/7", "records"),
    ("/records?x=/records/deep", "records"), ("/records-old", "root"), ("/recordsold", "root"), ("/record", "root"),
    ("/Records", "root"), ("/records/deep", "deep"), ("/records/deep/", "deep"), ("/records/deep/a", "deep"),
    ("/records/deeper", "records"), ("/a/records", "root")])
def test_the_longest_prefix_on_a_segment_boundary_wins(client, path, name):
    assert client.exchange(get(path)).content.decode() == name


@pytest.mark.parametrize("host, name", [
    ("localhost", "root"), ("LOCALHOST", "root"), ("LocalHost:PORT", "root"), ("records.example.org", None), ("[::1]", "ipv6"),
    ("[::1]:PORT", "ipv6")])
def test_the_host_is_compared_without_case_and_port(client, host, name):
    response = client.exchange(get("/", host=host.replace("PORT", str(client.gateway.port))))
    if name:
        assert response.content.decode() == name
    else:
        assert_denied(client.gateway, response, "route_unknown", 404)


@pytest.mark.parametrize("host", ["example.org", "localhost.example.org", "xlocalhost", "127.0.0.1", "[::2]"])
def test_an_unknown_host_has_no_routes(client, host):
    assert_denied(client.gateway, client.exchange(get("/records", host=host)), "route_unknown", 404)


def test_a_host_does_not_use_routes_of_another(client):
    assert client.exchange(get("/records/1", host="Records.Example.ORG")).content == b"other-host"


def test_routes_of_one_path_differ_by_method(client):
    assert client.exchange(get("/records/7")).content == b"records"
    assert client.exchange(get("/records/7", method="POST")).content == b"write"
    response = client.exchange(get("/records/7", method="DELETE"))
    assert_denied(client.gateway, response, "method_refused", 405)


def test_a_method_refused_on_the_longest_prefix_does_not_fall_back_to_a_shorter(client, services):
    before = services["root"].byte_count
    assert client.exchange(get("/records/7", method="PUT")).status == 405
    assert services["root"].byte_count == before


def test_allow_names_every_method_that_the_path_admits(client):
    # RFC 9110 section 10.2.1: the set of methods of the resource, and two routes may share it.
    response = client.exchange(get("/records/7", method="DELETE"))
    assert sorted(response.value("allow").split(", ")) == ["GET", "POST"]
