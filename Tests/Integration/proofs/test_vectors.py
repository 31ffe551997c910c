"""The files of docs/vectors are what the independent client makes.

ATTESTGATE_UPDATE_DOCS=1 writes them.
"""

import os

import pytest

from support.platforms import PLATFORMS
from support.vectors import Vectors, stored, write


@pytest.mark.parametrize("platform", PLATFORMS)
def test_the_independent_client_makes_the_vectors(platform):
    if os.environ.get("ATTESTGATE_UPDATE_DOCS"):
        write(platform)
    before = stored(platform)
    # Every signature of the file that is right was kept, so that the two are equal.
    assert Vectors(platform, before).file() == before
    assert len({request["name"] for request in before["requests"]}) == len(before["requests"])
