"""Writes the names of failed tests into the file ATTESTGATE_FAILED, for the second try of scripts/test."""

import os
from pathlib import Path

from support.paths import REPOSITORY

# pytest's names begin at the folder of pytest.ini, its arguments where it is started: in the repository.
FOLDER = Path(__file__).resolve().parents[1].relative_to(REPOSITORY)


# What scripts/test finds behind a name that has no second try.
UNCOLLECTED = " cannot be collected"


def pytest_runtest_logreport(report):
    write(report)


def pytest_collectreport(report):
    write(report, UNCOLLECTED)


def write(report, remark=""):
    """Runs in the process that hears of all tests."""
    path = os.environ.get("ATTESTGATE_FAILED")
    if path and report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        with Path(path).open("a") as failed:
            failed.write(f"{FOLDER}/{report.nodeid}{remark}\n")
