"""How the programs are linked: nothing can be written over the addresses of functions, and libraries are the system's."""

import os
import subprocess
from pathlib import Path

import pytest

from support.paths import BINARY, REPOSITORY

CHECK = REPOSITORY / "packaging/check-hardening"
PACKAGE = os.environ.get("ATTESTGATE_PACKAGE")


def faults(*programs):
    done = subprocess.run([CHECK, *programs], capture_output=True, text=True)
    lines = done.stderr.splitlines()
    assert (done.returncode == 0) == (lines == [])
    return [line.split(": ", 1)[1] for line in lines]


def test_every_build_has_full_relro():
    """Whatever its options; only a toolchain's own libraries may be searched for."""
    assert [fault for fault in faults(BINARY) if not fault.startswith("has a RUNPATH")] == []


def test_a_program_without_is_found(tmp_path):
    source = tmp_path / "program.c"
    source.write_text("int main(void) { return 0; }")
    made = subprocess.run(
        ["cc", "-no-pie", "-Wl,-z,norelro", "-Wl,-z,lazy", "-Wl,-rpath,/tmp", "-o", tmp_path / "program", source],
        capture_output=True)
    if made.returncode != 0:
        pytest.skip("there is no C compiler")
    assert [fault.split(":")[0] for fault in faults(tmp_path / "program")] == [
        "not RELRO", "not BIND_NOW", "not position-independent", "has a RUNPATH"]


@pytest.mark.skipif(not PACKAGE, reason="ATTESTGATE_PACKAGE names no package; scripts/package makes one")
def test_packaged_programs_have_full_relro_and_no_runpath(tmp_path):
    packages = Path(PACKAGE).absolute().parent.glob("*.deb")
    for package in packages:
        subprocess.run(["dpkg-deb", "--extract", package, tmp_path], check=True)
    programs = sorted(tmp_path.glob("usr/*bin/attestgate*"))
    assert programs and faults(*programs) == []
