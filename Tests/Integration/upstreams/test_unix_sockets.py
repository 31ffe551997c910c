"""Services on Unix sockets: everything that holds for services over TCP."""

import os
import socket

import pytest

from support import web_sockets
from support.client import Client, get, post
from support.denials import assert_denied
from support.exposition import scrape
from support.pki import attestgate
from support.recording_upstream import OK, RecordingUpstream
from support.waiting import eventually


@pytest.fixture
def serve(tmp_path):
    servers = []

    def serve(name, **options):
        servers.append(RecordingUpstream(path=tmp_path / name, **options))
        return servers[-1]
    yield serve
    for server in servers:
        if not server.closed.is_set():
            server.close()
        assert server.faults == []


def answer_to(gateway, phone, request=get("/")):
    with Client(gateway, phone) as client:
        return client.exchange(request)


def test_requests_with_content_reach_a_service_on_a_unix_socket_over_kept_connections(start_gateway, serve, phone):
    service = serve("http.sock")
    gateway = start_gateway({"service": service.address})
    with Client(gateway, phone) as client:
        for _ in range(3):
            assert client.exchange(post("/", b"content")).status == 200
    assert [request.content for request in service.requests] == [b"content"] * 3
    assert len(service.connections) == 1
    assert gateway.logged(server=service.address)
    assert scrape(gateway)("attestgate_upstream_server_requests_total", upstream="service", server=service.address) == 3


def test_an_absent_socket_is_a_failed_server_and_a_new_file_of_the_name_is_used(start_gateway, serve, phone, tmp_path):
    gateway = start_gateway({"service": f"unix:{tmp_path / 'late.sock'}"})
    assert_denied(gateway, answer_to(gateway, phone), "upstream_unavailable", 502)
    first = serve("late.sock")
    assert answer_to(gateway, phone).status == 200
    # The file of a service that is gone refuses connections.
    first.close()
    assert_denied(gateway, answer_to(gateway, phone), "upstream_unavailable", 502)
    os.unlink(tmp_path / "late.sock")
    second = serve("late.sock")
    assert answer_to(gateway, phone).status == 200
    assert len(second.requests) == 1


def test_a_server_over_tcp_takes_the_requests_of_a_dead_unix_socket(start_gateway, own_upstream, phone, tmp_path):
    servers = [f"unix:{tmp_path / 'dead.sock'}", own_upstream.address]
    gateway = start_gateway({"service": {"servers": servers}})
    for _ in range(4):
        assert answer_to(gateway, phone).status == 200


def test_health_checks_of_a_unix_socket_name_the_host_localhost(start_gateway, serve, phone):
    service = serve("checked.sock")
    service.is_checked = True
    start_gateway({"service": {"servers": [service.address], "health": {"path": "/health", "interval": "3s"}}})
    eventually(lambda: service.checks, "a health check")
    assert b"\r\nHost: localhost\r\n" in service.checks[0]


def test_a_web_socket_is_tunnelled_to_a_unix_socket(start_gateway, serve, phone):
    service = serve("tunnel.sock")
    service.upgrades = True
    service.script = web_sockets.switches()
    gateway = start_gateway(
        {"service": service.address},
        routes=[{"name": "all", "host": "localhost", "path": "/", "websocket": "allowed"}])
    with Client(gateway, phone) as client:
        client.send(web_sockets.handshake())
        assert client.read_response().status == 101
        client.send(b"bytes")
        assert client._exactly(5) == b"bytes"


@pytest.mark.parametrize("spelling", [
    "{folder}/{name}", "{folder}//{name}", "{folder}/./{name}", "{folder}/../{last}/{name}", "{links}/file", "{links}/folder/{name}"])
def test_the_administration_socket_is_no_service(own_upstream, tmp_path, start_gateway, spelling):
    gateway = start_gateway({"service": own_upstream.address})
    folder, name = os.path.split(gateway.conf["administration"]["socket"])
    links = tmp_path / "l"
    links.mkdir()
    os.symlink(f"{folder}/{name}", links / "file")
    os.symlink(folder, links / "folder")
    path = spelling.format(folder=folder, name=name, last=os.path.basename(folder), links=links)
    gateway.conf["upstreams"]["service"]["servers"] = [f"unix:{path}"]
    gateway.write_conf()
    done = attestgate("check", "--config", gateway.conf_path)
    assert done.returncode == 1
    assert "is the socket of the administration" in done.stderr


def test_a_reload_moves_a_service_from_tcp_to_a_unix_socket(start_gateway, own_upstream, serve, phone):
    gateway = start_gateway({"service": own_upstream.address})
    assert answer_to(gateway, phone).status == 200
    service = serve("moved.sock")
    gateway.conf["upstreams"]["service"]["servers"] = [service.address]
    gateway.write_conf()
    assert attestgate("reload", "--config", gateway.conf_path).returncode == 0
    service.answer = OK
    assert answer_to(gateway, phone).status == 200
    assert len(service.requests) == 1


def test_a_service_whose_backlog_is_full_is_busy_and_not_gone(start_gateway, tmp_path, phone):
    path = tmp_path / "full.sock"
    with socket.socket(socket.AF_UNIX) as service, socket.socket(socket.AF_UNIX) as waiting:
        service.bind(str(path))
        service.listen(0)
        waiting.connect(str(path))
        gateway = start_gateway({"service": f"unix:{path}"})
        response = answer_to(gateway, phone)
        assert_denied(gateway, response, "upstream_busy", 503)
        assert response.value("retry-after") == "1"
