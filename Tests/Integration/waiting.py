"""Waiting for a condition, never for a time."""

import time

from paths import PATIENCE


def eventually(condition, what, patience=PATIENCE):
    """Polls until `condition()` is true and returns what it returned; fails with `what` after a long while."""
    deadline = time.monotonic() + patience
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {patience:.0f} s in vain for: {what() if callable(what) else what}")
        time.sleep(0.01)
