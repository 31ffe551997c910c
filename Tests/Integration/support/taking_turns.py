"""Tests in several processes on one machine (pytest-xdist): side by side, but for those marked `alone`.

Each test goes through one door, one after the other, into a room that many may share. Who must be alone keeps the door
shut, waits until the room is empty, and so waits no longer than for the tests that run.
"""

import fcntl
import shutil
import tempfile
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

from support import random_order


class Turns:
    def __init__(self, directory):
        self.door, self.room = (open(Path(directory) / name, "w") for name in ("door", "room"))

    @contextmanager
    def taken(self, is_alone):
        fcntl.flock(self.door, fcntl.LOCK_EX)
        fcntl.flock(self.room, fcntl.LOCK_EX if is_alone else fcntl.LOCK_SH)
        try:
            if not is_alone:
                fcntl.flock(self.door, fcntl.LOCK_UN)
            yield
        finally:
            fcntl.flock(self.room, fcntl.LOCK_UN)
            fcntl.flock(self.door, fcntl.LOCK_UN)


class Plugin:
    def __init__(self, config):
        self.directory = None
        # Of a process that runs tests for another one.
        given = getattr(config, "workerinput", {}).get("turns")
        self.turns = Turns(given) if given else None

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node):
        """Another process is about to begin."""
        self.directory = self.directory or tempfile.mkdtemp(prefix="turns-")
        node.workerinput["turns"] = self.directory

    def pytest_unconfigure(self):
        if self.directory:
            shutil.rmtree(self.directory)

    def pytest_collection_modifyitems(self, items):
        if not self.turns or random_order.is_asked_for():
            return
        # The longest files first, so that none of them is left over for the end. Before them who would have to wait for one.
        items.sort(key=lambda item: (not item.get_closest_marker("alone"), -item.path.stat().st_size))

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item):
        is_alone = item.get_closest_marker("alone") is not None
        with self.turns.taken(is_alone) if self.turns else nullcontext():
            yield


def pytest_configure(config):
    config.pluginmanager.register(Plugin(config))
