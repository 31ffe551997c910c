"""Every row of the denial table on routes of every mode of enforcement, over both protocols: what may only be observed passes with
the verdict of its row and without an identity, everything else is refused, and nothing is counted twice or not at all."""

import re

import pytest

from support import denials, preloaded
from support.client import get
from support.denials import TABLE, assert_answered, assert_connection_ended
from support.enforcement import HALF, MODES, OBSERVING, PROTOCOLS, Cell, Enrolled, Modes, Stores
from support.http2_client import ConnectionOver
from support.paths import REPOSITORY
from support.phone import challenge_of
from support.platforms import PLATFORMS
from support.provocations import ELSEWHERE, ENDS, ROWS, not_taking
from support.recording_upstream import RecordingUpstream
from support.waiting import eventually

LINES = re.findall(r"(?m)^\| `(\w+)` \|.*\| (yes)? ?\|[^|]*\|$", (REPOSITORY / "docs" / "denials.md").read_text())
assert [code for code, _ in LINES] == [row.code for row in TABLE.values()], "the page has other rows, or another order"
SOFT = {case for case, (_, observed) in zip(TABLE, LINES) if observed}
# What the gateway states about a client that it has identified, by prefix: docs/fields.md.
IDENTITY = ("attest-", "client-cert")
PROVEN = {"attest-device", "attest-app", "attest-platform", "attest-counter"}
CELLS = [
    pytest.param(case, mode, protocol, platform, id=f"{case}-{mode}-{protocol}-{platform}")
    for case, row in ROWS.items() for mode in MODES for protocol in PROTOCOLS for platform in row.platforms]
# The devices of a share, and the others.
SHARES = [
    pytest.param(case, is_enforced, protocol, platform, id=f"{case}-{'' if is_enforced else 'not-'}in-{HALF}-{protocol}-{platform}")
    for case, row in ROWS.items() if case in SOFT and row.world == "modes"
    for is_enforced in (True, False) for protocol in PROTOCOLS for platform in row.platforms]


@pytest.fixture(scope="module")
def worlds(pki, tmp_path_factory):
    """The gateways, each started when it is needed first."""
    made, upstream = {}, RecordingUpstream()
    makers = {
        "modes": lambda directory: Modes(directory, pki, preloaded.failing_digests(tmp_path_factory.mktemp("library"))),
        "stores": lambda directory: Stores(directory, pki),
        "enrolled": lambda directory: Enrolled(directory, pki, upstream)}

    def world(name):
        if name not in made:
            made[name] = makers[name](tmp_path_factory.mktemp(name))
        assert made[name].gateway.process.poll() is None, f"an earlier test ended the gateway\n{made[name].gateway.errors}"
        made[name].gateway.begin()
        return made[name]
    yield world
    try:
        # Each request was counted once, and no other.
        for each in made.values():
            assert each.counts.differences(each.gateway) == []
    finally:
        for each in made.values():
            each.stop()
        upstream.close()


def identity_of(request):
    return {name.lower() for name, _ in request.fields if name.lower().startswith(IDENTITY)} - {"attest-verdict"}


def assert_passed(cell, response, code):
    """It came to the service with that verdict, and with nothing about who it is from."""
    assert response.status == 200, response
    request = cell.world.received(cell.path)
    assert request.values("attest-verdict") == [f"would-deny;code={code}"]
    assert identity_of(request) == set()
    # The proof is for the gateway, in any case.
    assert not request.values("signature") and not request.values("signature-input")
    entry = cell.gateway.logged(route=cell.route, decision="forwarded", would_deny=code, protocol=cell.protocol)
    assert "denial" not in entry
    cell.world.counts.would_deny[cell.route, code] += 1


def assert_refused(cell, response, row):
    entry = assert_answered(cell.gateway, response, row.code, row.answer, is_logged=ROWS[row.case].world != "stores")
    cell.world.counts.denials[row.code] += 1
    assert entry is None or "would_deny" not in entry
    if row.case == "upstreamTimeout":
        assert_identified(cell, cell.world.received(cell.path))
    elif cell.kind == "stream":
        assert cell.world.received(cell.path) is None, "it has become whole"
    else:
        assert cell.world.came_to_none(cell.path)


def assert_identified(cell, request):
    """What a service gets of a request with a valid proof."""
    assert request.values("attest-verdict") == ([] if cell.mode in ("always", "100%") else ["pass"])
    assert PROVEN <= identity_of(request)
    assert request.values("attest-app") == [cell.phone.app]


def assert_decided(cell, case):
    row = TABLE[case]
    response = ROWS[case].provoke(cell)
    if case not in SOFT or cell.is_enforced:
        return assert_refused(cell, response, row)
    assert_passed(cell, response, row.code)
    # An app that makes no proofs yet learns how to begin.
    if row.answer == 401 and case != "deviceUnknown":
        challenge_of(response)


@pytest.mark.parametrize("case, mode, protocol, platform", CELLS)
def test_each_denial_in_each_mode(worlds, case, mode, protocol, platform):
    row = ROWS[case]
    assert_decided(Cell(worlds(row.world), mode, protocol, row.kind, platform), case)


@pytest.mark.parametrize("case, is_enforced, protocol, platform", SHARES)
def test_each_denial_on_both_sides_of_a_share(worlds, case, is_enforced, protocol, platform):
    row = ROWS[case]
    assert_decided(Cell(worlds(row.world), HALF, protocol, row.kind, platform, is_enforced), case)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("mode", MODES)
def test_a_device_is_identified_where_no_proof_is_wanted(worlds, mode, protocol):
    cell = Cell(worlds("modes"), mode, protocol, "device")
    assert cell.ask(get(cell.path)).status == 200
    request = cell.world.received(cell.path)
    assert request.values("attest-verdict") == ([] if cell.is_enforced else ["pass"])
    assert identity_of(request) & PROVEN == PROVEN - {"attest-counter"}


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_valid_request_passes_with_its_identity_in_each_mode(worlds, platform, mode, protocol):
    cell = Cell(worlds("modes"), mode, protocol, platform=platform)
    assert cell.ask(cell.phone.request("POST", cell.path, content=b"content")).status == 200
    request = cell.world.received(cell.path)
    assert request.content == b"content"
    assert_identified(cell, request)
    assert request.values("attest-counter") == [str(cell.phone.counter)] and request.values("client-cert")
    assert "would_deny" not in cell.gateway.logged(route=cell.route, decision="forwarded", protocol=protocol)


@pytest.mark.parametrize("is_enforced", [True, False], ids=["in", "not in"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_valid_request_passes_with_its_identity_on_both_sides_of_a_share(worlds, protocol, is_enforced):
    cell = Cell(worlds("modes"), HALF, protocol, is_enforced=is_enforced)
    assert cell.ask(cell.phone.request(path=cell.path)).status == 200
    assert_identified(cell, cell.world.received(cell.path))


@pytest.mark.parametrize("case, mode, protocol", [
    pytest.param(case, mode, protocol, id=f"{case}-{mode}-{protocol}")
    for case, end in ENDS.items() for mode in MODES for protocol in end.protocols])
def test_each_end_of_a_connection_in_each_mode(worlds, case, mode, protocol):
    cell = Cell(worlds(ENDS[case].world), mode, protocol)
    with pytest.raises((OSError, ConnectionOver)):
        ENDS[case].provoke(cell)
    assert_connection_ended(cell.gateway, TABLE[case].code)
    cell.world.counts.denials[TABLE[case].code] += 1
    assert cell.world.came_to_none(cell.path)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("mode", MODES)
def test_the_response_is_cut_off_in_every_mode(worlds, mode, protocol):
    """The service has the request by then, with all that it may know."""
    cell = Cell(worlds("modes"), mode, protocol, "big")
    with not_taking(cell):
        entry = cell.gateway.logged(route=cell.route, denial="response_not_taken", protocol=protocol)
    assert entry["decision"] == "forwarded" and "would_deny" not in entry
    denials.exercised.add("responseNotTaken")
    cell.world.counts.denials["response_not_taken"] += 1
    assert_identified(cell, cell.world.received(cell.path))


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("platform", PLATFORMS)
def test_no_other_streamed_content_than_proven_becomes_whole_behind_an_identity(worlds, platform, mode, protocol):
    cell = Cell(worlds("modes"), mode, protocol, "stream", platform)
    data = cell.phone.request("POST", cell.path, content=bytes(9000))
    client, finish = cell.begin(data, cell.phone)

    def forwarded():
        connections = cell.world.services["service"].connections
        return next((each for each in connections if f" {cell.path} ".encode() in each.received), None)
    with client:
        connection = eventually(forwarded, "a part of the content to be forwarded")
        assert_refused(cell, finish(b"x"), TABLE["bodyDigestMismatch"])
    eventually(lambda: connection.is_closed_by_gateway, "the end of the request")


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("mode", sorted(OBSERVING))
def test_a_route_that_asks_for_a_device_observes_one_that_is_unknown(worlds, mode, protocol):
    cell = Cell(worlds("modes"), mode, protocol, "device")
    assert_passed(cell, ROWS["deviceUnknown"].provoke(cell), "device_unknown")


@pytest.mark.parametrize("case", TABLE)
def test_no_row_is_left_out(case):
    assert (case in ROWS) + (case in ENDS) + (case in ELSEWHERE) == 1, "it has no provocation in support/provocations.py, and no reason"
