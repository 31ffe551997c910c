"""Every suite of this directory runs for each platform: with phones of that platform, whose promises are the same."""

import pytest

from support.platforms import PLATFORMS


@pytest.fixture(params=PLATFORMS)
def platform(request):
    return request.param


@pytest.fixture
def attested(attested, platform):
    with attested.phones_of(platform):
        yield attested


@pytest.fixture
def start_attested(start_attested, platform):
    def start(**settings):
        return start_attested(platforms=[platform], **settings)
    return start
