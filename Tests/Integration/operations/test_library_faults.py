"""A call of OpenSSL that fails: the request is denied with `internal_error`, and nothing of it is forwarded."""

import pytest

from support import preloaded
from support.client import get
from support.denials import assert_denied
from support.paths import ENVIRONMENT
from support.preloaded import MARKER


@pytest.fixture(scope="module")
def faults(tmp_path_factory):
    return preloaded.failing_digests(tmp_path_factory.mktemp("faults"))


@pytest.fixture
def failing(start_attested, faults):
    attested = start_attested()
    attested.gateway.halt().environment = {**ENVIRONMENT, "LD_PRELOAD": str(faults)}
    attested.gateway.start()
    return attested


@pytest.mark.parametrize("request_of", [
    lambda phone: phone.request(path=f"/{MARKER}"),
    lambda phone: phone.request("POST", path="/a", content=f"1234 {MARKER}".encode()),
    lambda phone: phone.request("POST", path="/a", content=f"{MARKER} {MARKER}".encode(), chunked=True),
], ids=["the proof", "content", "chunked content"])
def test_what_cannot_be_digested_is_denied(failing, request_of):
    gateway, phone = failing.gateway, failing.phone
    with failing.nothing_forwarded(), phone.connect() as client:
        entry = assert_denied(gateway, client.exchange(request_of(phone)), "internal_error", 500)
        assert entry["detail"]
    with phone.connect() as client:
        assert client.exchange(phone.request(path="/a")).status == 200


def test_an_error_while_content_is_streamed_ends_the_request_unfinished(failing):
    gateway, phone, upstream = failing.gateway, failing.phone, failing.upstream
    content = b"begin " + MARKER.encode()
    data = phone.request("POST", path="/stream", content=content)
    with phone.connect() as client:
        assert_denied(gateway, client.exchange(data), "internal_error", 500)
    assert MARKER.encode() not in upstream.received
    with phone.connect() as client:
        assert client.exchange(get("/certificate")).status == 200
        assert_denied(gateway, client.exchange(data), "counter_replayed", 401)
