"""Gateways that ask decision points. All must end well with their test."""

import pytest

from support.attested import Attested
from support.deciding import policies
from support.gateway import BRIEF
from support.platforms import PLATFORMS
from support.recording_upstream import RecordingUpstream


@pytest.fixture
def start_asking(start_attested):
    """Starts a gateway that asks a decision point."""
    def start(point, platforms=PLATFORMS, app=None, policy=None, more=None, **changes):
        """`policy`: further members of the policy; `more`: further settings; `changes`: of the decision point's section."""
        settings = policies(point, **changes)
        settings["policies"]["records"].update(policy or {})
        return start_attested(platforms=platforms, app=app, **{**settings, **(more or {})})
    return start


@pytest.fixture(scope="module")
def start_shared(pki, tmp_path_factory):
    """Starts gateways for all tests of a file."""
    made = []

    def start(**settings):
        upstream = RecordingUpstream()
        made.append((Attested(tmp_path_factory.mktemp("policies"), pki, upstream, platforms=PLATFORMS, **settings), upstream))
        return made[-1][0]
    yield start
    for attested, upstream in made:
        attested.gateway.stop(BRIEF)
        upstream.close()
        assert upstream.faults == [], "the gateway forwarded what is no canonical request"
