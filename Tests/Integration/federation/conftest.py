"""Federations that end with their test."""

import pytest

from support.federation import Federating
from support.platforms import PLATFORMS
from support.recording_upstream import RecordingUpstream


@pytest.fixture
def start_federation(pki, own_upstream, tmp_path):
    started, platforms = [], []

    def start(platform_count=1, **settings):
        made = Federating(tmp_path / f"federation-{len(started)}", pki, own_upstream, **settings)
        started.append(made)
        made.start()
        made.platforms = [made.platform() for _ in range(platform_count)]
        platforms.extend(made.platforms)
        return made

    yield start
    for made in started:
        made.stop()
    for platform in platforms:
        platform.stop()


@pytest.fixture(scope="session")
def shared_federation(pki, tmp_path_factory):
    upstream = RecordingUpstream()
    made = Federating(tmp_path_factory.mktemp("federation"), pki, upstream, platforms=PLATFORMS)
    made.start()
    made.platforms = [made.platform(), made.platform()]
    yield made
    made.stop()
    for platform in made.platforms:
        platform.stop()
    upstream.close()


@pytest.fixture
def federation(shared_federation):
    """A federation with two services, shared by the tests that leave it as it is."""
    assert shared_federation.gateway.process.poll() is None, shared_federation.gateway.errors
    return shared_federation
