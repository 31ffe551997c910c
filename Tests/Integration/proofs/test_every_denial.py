"""A run of the whole suite fails if some row of the denial table was provoked by no test, in however many processes it ran."""

import subprocess
import sys

import pytest

from support import denials
from support.paths import ENVIRONMENT, PATIENCE, REPOSITORY

SUITE = {
    "test_a.py": "from support import denials\ndef test_one(): denials.exercised.update(sorted(denials.TABLE)[::2])\n",
    "test_b.py": "from support import denials\ndef test_other(): denials.exercised.update(sorted(denials.TABLE)[LEFT_OUT::2])\n",
}
PROCESSES = [["-p", "no:xdist"], ["-n", "2", "--dist", "loadfile"]]


@pytest.fixture
def run(tmp_path):
    def run(left_out, *arguments):
        for name, text in SUITE.items():
            (tmp_path / name).write_text(text.replace("LEFT_OUT", str(1 + 2 * left_out)))
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "support.every_denial", "--rootdir", tmp_path, *arguments],
            # No bytecode: Python takes that of a file of the same size that was written in the same second.
            cwd=tmp_path, env={
                **ENVIRONMENT, "PYTHONPATH": str(REPOSITORY / "Tests" / "Integration"), "PYTEST_ADDOPTS": "",
                "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True, text=True, timeout=2 * PATIENCE)
    return run


@pytest.mark.parametrize("processes", PROCESSES, ids=["one process", "two processes"])
def test_the_whole_table_must_be_provoked(run, processes):
    done = run(0, *processes)
    assert done.returncode == 0, done.stdout + done.stderr
    done = run(1, *processes)
    assert done.returncode == 1 and "2 passed" in done.stdout, done.stdout + done.stderr
    assert f"\n{sorted(denials.TABLE)[1]}\n" in done.stdout


@pytest.mark.parametrize("processes", PROCESSES, ids=["one process", "two processes"])
def test_a_partial_run_need_not_provoke_the_whole_table(run, processes):
    for part in (["-k", "one"], ["test_a.py"]):
        done = run(1, *processes, *part)
        assert done.returncode == 0, done.stdout + done.stderr
