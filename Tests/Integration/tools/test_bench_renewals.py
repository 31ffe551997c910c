"""bench/renewals: phones renew over mutual TLS beside a load, and each renewal succeeds. Its figures mean nothing here."""

import re
import subprocess
import sys

from support.paths import BINARY, ENVIRONMENT, PATIENCE, REPOSITORY


def test_a_small_storm_is_measured():
    done = subprocess.run(
        [sys.executable, REPOSITORY / "bench" / "renewals", "--built", BINARY.parent, "--phones", "12", "--seconds", "1",
         "--rounds", "2", "--rates", "certificate=50,attested=20", "--registry", REPOSITORY / ".build"],
        capture_output=True, text=True, env=ENVIRONMENT, timeout=4 * PATIENCE)
    assert done.returncode == 0, done.stderr
    assert len(re.findall(r"; 12 renewals in ", done.stderr)) == 4, done.stderr
    rows = [line.split(" | ") for line in done.stdout.splitlines() if line.startswith(("| certificate", "| attested"))]
    assert len(rows) == 2
    for row in rows:
        idle, storm, ratio = map(float, row[3:6])
        assert idle > 0 and storm > 0 and ratio > 0
