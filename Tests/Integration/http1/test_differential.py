"""The same attacks at nginx and HAProxy: we are at least as strict on every row."""

import shutil
import subprocess
import sys

import pytest

from support import seeds
from support.paths import BINARY, ENVIRONMENT, REPOSITORY

SCRIPT = REPOSITORY / "Tests" / "Differential" / "run"
PATH = ENVIRONMENT["PATH"] + ":/usr/sbin"
MISSING = [name for name in ("nginx", "haproxy") if not shutil.which(name, path=PATH)]


@pytest.mark.skipif(bool(MISSING), reason=f"{' and '.join(MISSING)} is not installed")
def test_the_gateway_forwards_nothing_that_nginx_or_haproxy_refuses():
    done = subprocess.run(
        [sys.executable, SCRIPT, "--differing", "--changed", "100", "--seed", str(seeds.seed())], env={**ENVIRONMENT, "ATTESTGATE_BINARY": str(BINARY)},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    print(done.stdout)
    assert done.returncode == 0, "\n".join(line for line in done.stdout.splitlines() if line.startswith("LAXER")) or done.stdout
    # Else nothing was compared.
    assert "\nours: of " in done.stdout and "\nnginx: of " in done.stdout and "\nhaproxy: of " in done.stdout
