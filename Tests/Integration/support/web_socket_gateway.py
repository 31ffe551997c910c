"""The gateway, and the services behind it, of the tests of WebSockets: over HTTP/1.1 and over HTTP/2 they are the same."""

import pytest

from support.denials import NothingForwarded
from support.gateway import BRIEF, Gateway
from support.platforms import APPS
from support.recording_upstream import RecordingUpstream
from support.web_sockets import Service

ROUTES = [
    {"name": "chat", "host": "localhost", "path": "/", "websocket": "allowed"},
    {"name": "device", "host": "localhost", "path": "/device", "require": "device", "websocket": "allowed"},
    {"name": "proof", "host": "localhost", "path": "/proof", "require": "request-proof", "websocket": "allowed"},
    {"name": "raw", "host": "localhost", "path": "/raw", "upstream": "raw", "websocket": "allowed"},
    {"name": "sentinel", "host": "localhost", "path": "/sentinel", "upstream": "raw"},
    {"name": "ignored", "host": "localhost", "path": "/ignored", "upstream": "raw"},
]


def upstreams(service, raw):
    # A raw service has a script for a whole connection, so that none is to be used again.
    return {"service": service.address, "raw": {"servers": [raw.address], "idle_connections": 0}}


@pytest.fixture(scope="module")
def service():
    service = Service()
    yield service
    service.close()


@pytest.fixture(scope="module")
def shared_raw():
    upstream = RecordingUpstream()
    upstream.upgrades = True
    yield upstream
    upstream.close()


@pytest.fixture
def raw(shared_raw):
    shared_raw.reset_behaviour()
    shared_raw.faults.clear()
    yield shared_raw
    shared_raw.reset_behaviour()
    assert shared_raw.faults == []


@pytest.fixture
def start(start_gateway, service, shared_raw):
    def started(**settings):
        return start_gateway(
            upstreams(service, shared_raw), [dict(route) for route in ROUTES], **settings)
    return started


@pytest.fixture(scope="module")
def shared_gateway(pki, service, shared_raw, tmp_path_factory):
    made = Gateway(
        tmp_path_factory.mktemp("websocket"), pki, upstreams(service, shared_raw),
        [dict(route) for route in ROUTES], apps=[{"id": app, "environment": "simulator"} for app in APPS.values()])
    made.start()
    yield made
    made.stop(BRIEF)


@pytest.fixture
def gateway(shared_gateway):
    shared_gateway.begin()
    return shared_gateway


@pytest.fixture
def nothing_forwarded(gateway, raw, phone):
    return NothingForwarded(gateway, raw, phone)
