"""What is sent to all three: the named attacks and edge cases of the integration tests, the corpus, and changes of them."""

import random

from support import attacks, framing_cases, mutations
from http1 import test_corpus

# Where the size decides, the three only differ in how they count.
ABOUT_SIZE = {"targetTooLong", "tooManyFields", "headTooLarge", "trailerTooLarge"}


def named():
    """Name -> the bytes of a connection."""
    cases = {}
    for name, (fault, data) in [*attacks.HEADS.items(), *attacks.CONTENTS.items()]:
        if fault not in ABOUT_SIZE:
            cases[name] = data
    for name, (data, _) in framing_cases.SERVED.items():
        cases[name] = data
    for name, data in [*framing_cases.REFUSED.items(), *framing_cases.BROKEN.items()]:
        cases[f"{name} (2)" if name in cases else name] = data
    for entry in test_corpus.ENTRIES:
        data = test_corpus.wire(entry)
        # Longer than what an nginx reads at once.
        if len(data) < 8000:
            cases[f"corpus: {entry['id']}"] = data
    return cases


def changed(seed, count):
    chance = random.Random(seed)
    return {f"seed {seed}, number {index}": mutations.mutate(chance) for index in range(count)}
