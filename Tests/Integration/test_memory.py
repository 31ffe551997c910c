"""What a connection may hold at most, in each state that a peer can keep it in. `bench/memory` prints the figures."""

import pytest

from memory_states import KIB, STATES, TIMEOUTS, measure, serve

CONNECTIONS = 60
# Of the process, not of any connection: what the allocator keeps.
SLACK = 2 * KIB


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.name)
def test_no_connection_holds_more_than_its_bound(start_attested, own_upstream, state):
    own_upstream.script = serve
    attested = start_attested(timeouts=TIMEOUTS)
    held = measure(attested, state, CONNECTIONS)
    print(f"{state.name}: {held:.1f} KiB for each connection, at most {state.bound}")
    assert held < state.bound + SLACK / CONNECTIONS
