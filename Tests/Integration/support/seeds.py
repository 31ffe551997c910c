"""Where chance comes from: ATTESTGATE_SEED repeats a run's choices."""

import os
import random


def seed():
    """The seed of whatever a test leaves to chance; printed, so that a failure can be repeated."""
    chosen = int(os.environ.get("ATTESTGATE_SEED") or random.randrange(1 << 32))
    print(f"seed {chosen}")
    return chosen


def seeded():
    """Random numbers from the seed."""
    return random.Random(seed())
