"""ATTESTGATE_RANDOM_ORDER=1: files in random order, and their tests too. ATTESTGATE_SEED repeats an order."""

import os
import random

import pytest


def is_asked_for():
    return bool(os.environ.get("ATTESTGATE_RANDOM_ORDER"))


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config):
    # Processes of pytest-xdist inherit it: all must find one order.
    if is_asked_for():
        os.environ.setdefault("ATTESTGATE_SEED", str(random.randrange(1 << 32)))


def pytest_sessionstart(session):
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if is_asked_for() and reporter:
        reporter.write_line(f"random order, ATTESTGATE_SEED={os.environ['ATTESTGATE_SEED']}")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Before pytest itself, which then puts tests together that share a parametrized fixture of their module."""
    if not is_asked_for():
        return
    chance = random.Random(os.environ["ATTESTGATE_SEED"])
    files = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    order = list(files)
    chance.shuffle(order)
    for path in order:
        chance.shuffle(files[path])
    items[:] = [item for path in order for item in files[path]]
