"""Waiting for a condition, never for a time."""

import time

from support.paths import PATIENCE


def at_some_pace(attempt, paces=(1, 4, 16)):
    """Calls `attempt(seconds)`, where a time of the gateway is tested that the test itself has to keep meanwhile: short, so that
    the test is; longer if that failed, because the machine may have been too slow for it. What is wrong fails at each pace."""
    for pace in paces[:-1]:
        try:
            return attempt(pace)
        except Exception as failure:
            print(f"again, with more than {pace} s: {failure!r}")
    return attempt(paces[-1])


def eventually(condition, what, patience=PATIENCE):
    """Polls until `condition()` is true and returns what it returned; fails with `what` after a long while."""
    deadline, pause = time.monotonic() + patience, 0.001
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {patience:.0f} s in vain for: {what() if callable(what) else what}")
        time.sleep(pause)
        pause = min(2 * pause, 0.02)
