"""Libraries between a program and those that it calls, for LD_PRELOAD."""

import shutil
import subprocess

from support.paths import PATIENCE


def build(path, source, *options):
    """Compiles a library in C. - Returns: its path."""
    compiler = shutil.which("cc") or shutil.which("clang")
    subprocess.run(
        [compiler, "-shared", "-fPIC", *options, "-x", "c", "-o", path, "-"], input=source, text=True, timeout=PATIENCE, check=True)
    return path
