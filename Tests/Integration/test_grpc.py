"""gRPC, end to end: grpcio's client and grpcio's service, and the gateway between them."""

import grpc
import pytest

from grpc_peer import GRPCClient, GRPCService, Requests, status_of
from services import Services
from waiting import eventually

Code = grpc.StatusCode
BOTH = ["h2c", "tls"]


@pytest.fixture(scope="module")
def services(pki):
    return Services(pki)


@pytest.fixture(params=BOTH)
def transport(request):
    return request.param


@pytest.fixture
def serve(services):
    """Starts gRPC services of a test's own."""
    started = []

    def start(transport="h2c", **options):
        service = GRPCService(services.ordinary if transport == "tls" else None, **options)
        started.append(service)
        return service
    yield start
    for service in started:
        service.stop()


def upstream(services, service, transport, **settings):
    settings = {"protocol": "h2", **settings}
    if transport == "tls":
        return services.settings(service.address, **settings)
    return {"servers": [service.address], **settings}


@pytest.fixture
def start(services, serve, start_gateway, pki, phone):
    """A service, a gateway in front of it and a client of that."""
    clients = []

    def start(transport="h2c", routes=None, upstream_settings=None, service=None, **settings):
        service = service or serve(transport)
        gateway = start_gateway(
            {"records": upstream(services, service, transport, **(upstream_settings or {}))},
            routes or [{"name": "all", "host": "localhost", "path": "/", "content_limit": "64MiB"}], **settings)
        client = GRPCClient(gateway.port, pki, phone)
        clients.append(client)
        return service, gateway, client
    yield start
    for client in clients:
        client.channel.close()


# The four kinds of calls.

def test_a_call_is_answered_with_its_metadata_and_trailers(start, transport):
    service, gateway, client = start(transport)
    metadata = (("x-text", "plain"), ("x-octets-bin", bytes(range(256))), ("x-text", "twice"))
    content, call = client.call("Echo", b"hello", metadata=metadata)
    assert content == b"hello"
    assert dict(call.initial_metadata())["x-initial-bin"] == bytes(range(256))
    assert dict(call.initial_metadata())["x-initial"] == "first"
    assert dict(call.trailing_metadata())["x-trailing"] == "last"
    assert dict(call.trailing_metadata())["x-trailing-bin"] == bytes(range(255, -1, -1))
    got = service.metadata("Echo")
    assert got["x-text"] == ["plain", "twice"] and got["x-octets-bin"] == [bytes(range(256))]
    assert got["forwarded"][0].startswith("for=127.0.0.1;proto=https")
    line = gateway.logged(protocol="HTTP/2", status=200)
    assert (line["decision"], line["method"], line["server"]) == ("forwarded", "POST", service.address)


def test_a_message_of_no_octets_is_one(start, transport):
    _, _, client = start(transport)
    assert client.unary("Echo", b"") == b""


def test_a_service_streams_to_its_client(start, transport):
    _, _, client = start(transport)
    got = list(client.down("Down", b"500 1000"))
    assert [int.from_bytes(message[:4], "big") for message in got] == list(range(500))
    assert all(len(message) == 1004 for message in got)


def test_a_client_streams_to_its_service(start, transport):
    _, _, client = start(transport)
    assert client.up("Up", iter([bytes(1000)] * 500)) == b"500 500000"


def test_both_speak_in_turn_on_one_call(start, transport):
    """Each message is answered before the next one is sent: nothing waits for the end, or for a block to be full."""
    _, _, client = start(transport)
    requests = Requests()
    answers = client.both("Both", requests)
    for number in range(100):
        requests.send(f"ping {number}".encode())
        assert next(answers) == f"ping {number}".encode()[::-1]
    requests.end()
    assert list(answers) == [] and answers.code() == Code.OK


@pytest.mark.parametrize("size", [4 << 20, 20 << 20])
def test_large_messages_go_both_ways(start, transport, size):
    _, _, client = start(transport)
    message = bytes(range(256)) * (size // 256)
    assert client.unary("Echo", message) == message
    assert client.up("Up", iter([message] * 2)) == f"2 {2 * size}".encode()
