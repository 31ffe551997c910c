"""A corpus of requests, valid and not, from another server's tests: what is forwarded of them is canonical or nothing."""

import base64
import json
import re

import pytest

import strict
from client import Client, IncompleteResponse, get
from gateway import Gateway
from paths import REPOSITORY
from waiting import eventually

CORPUS = REPOSITORY.parent / "shared" / "corpora" / "http1-requests.json"
ENTRIES = json.loads(CORPUS.read_text())["requests"] if CORPUS.exists() else []


# What gunicorn refuses for reasons of its own, or because it does not rewrite what it is sent.
ADMITTED_HERE = {
    **dict.fromkeys(
        ["invalid-006", "invalid-007", "invalid-008", "invalid-010", "invalid-011", "invalid-012", "invalid-017",
         "invalid-limit_header_default_01"], "gunicorn's limits on lines and fields are lower, or set lower by its test"),
    "invalid-019": "X-Forwarded-* that contradict each other are both removed",
    **dict.fromkeys(
        ["invalid-rfc9110_field_value_ctl_bel_01", "invalid-rfc9110_field_value_ctl_del_01"],
        "the corpus spells the control character with a backslash"),
}


def for_localhost(data):
    """The same request for a host that has a route: else hardly any would get further than that."""
    changed, count = re.subn(rb"(?im)^Host:[^\r\n]*", b"Host: localhost", data)
    return changed if count else re.sub(rb"\A([^\r\n]*\r\n)", rb"\1Host: localhost\r\n", data)


@pytest.fixture(scope="module")
def corpus_gateway(pki, shared_upstream, tmp_path_factory):
    gateway = Gateway(
        tmp_path_factory.mktemp("corpus"), pki, {"service": shared_upstream.address},
        timeouts={"head": "100ms", "content_idle": "100ms", "keep_alive": "1s"})
    gateway.start()
    yield gateway
    gateway.stop()


@pytest.mark.skipif(not ENTRIES, reason="the corpus ../shared/corpora/http1-requests.json is not there")
@pytest.mark.parametrize("is_changed", [False, True], ids=["as it is", "for localhost"])
def test_what_is_forwarded_of_the_corpus_is_canonical(corpus_gateway, upstream, phone, is_changed):
    forwarded, mistaken = 0, {}
    for entry in ENTRIES:
        data = base64.b64decode(entry["request_base64"])
        if is_changed:
            data = for_localhost(data)
        before = len(upstream.connections), [len(c.received) for c in upstream.connections]
        with Client(corpus_gateway, phone) as client:
            client.send_while_open(data)
            # A last request ends the connection, where the one before left it open: no need to wait for a timeout.
            client.send_while_open(get("/end-of-entry", "Connection: close"))
            try:
                client.read_to_end()
            except IncompleteResponse:
                pass
        with Client(corpus_gateway, phone) as client:
            assert client.exchange(get("/sentinel")).status == 200
        requests = []
        for index, connection in enumerate(upstream.connections):
            start = before[1][index] if index < before[0] else 0
            # Raises if there is anything that is no canonical request.
            complete, rest = strict.parse_all(bytes(connection.received[start:]))
            requests += complete
            if rest:
                # Given up in the middle, as the connection tells: no request to the service.
                eventually(lambda: connection.is_closed_by_gateway, f"the upstream to be left after {entry['id']}")
        requests = [r for r in requests if r.target not in ("/end-of-entry", "/sentinel")]
        forwarded += len(requests)
        if entry["gunicorn"] != "accepts" and entry["id"] not in ADMITTED_HERE and requests:
            mistaken[entry["id"]] = requests
        assert upstream.faults == [], entry["id"]
    assert mistaken == {}
    if is_changed:
        assert forwarded > 0, "nothing at all was forwarded: the test proves nothing"
