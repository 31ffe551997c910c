"""Where things lie: the repository, and the program under test."""

import os
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]
BINARY = Path(os.environ.get("ATTESTGATE_BINARY", REPOSITORY / ".build" / "debug" / "attestgate")).absolute()

# The longest that anything is waited for. Nothing is expected to take so long: it only turns a hang into a failure.
PATIENCE = 30.0

# Printing backtraces would show memory, keys included, and takes minutes on a debug build.
ENVIRONMENT = {**os.environ, "SWIFT_BACKTRACE": "enable=no"}
