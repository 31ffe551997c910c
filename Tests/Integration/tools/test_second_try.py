"""The second try of scripts/test: the script itself, in a tree that has planted tests and a compiler that does nothing."""

import os
import shutil
import subprocess

import pytest

from support.paths import PATIENCE, REPOSITORY

PLUGINS = ["failed_tests", "random_order", "taking_turns"]

PLANTED = """
import os
import pathlib

import pytest


@pytest.mark.parametrize("name", ["a b [c::d]"])
def test_planted(name):
    tries = pathlib.Path(os.environ["TRIES"])
    tries.write_text(tries.read_text() + "i")
    assert len(tries.read_text()) > int(os.environ["FAILING_TRIES"])


@pytest.mark.parametrize("number", range(4))
def test_other(number):
    assert number >= int(os.environ["BROKEN"])
"""

# Builds nothing; its unit tests fail as often as planted, and write the report that the real one writes.
SWIFT = """#!/bin/sh
case "$*" in
    *--show-bin-path*) echo nowhere ;;
    test*)
        while [ $# -gt 0 ]; do [ "$1" = --xunit-output ] && report=${2%.xml}-swift-testing.xml; shift; done
        printf i >> "$UNIT_TRIES"
        [ "$(wc -c < "$UNIT_TRIES")" -gt "$FAILING_UNIT_TRIES" ] && failure= || failure='<failure/>'
        echo "<testsuite><testcase classname='A.B' name='c()'>$failure</testcase></testsuite>" > "$report"
        [ -z "$failure" ] ;;
esac
"""

FAILED = "Tests/Integration/test_planted.py::test_planted[a b [c::d]]"
LATE = "passed, but only on the second try: "


@pytest.fixture
def run(tmp_path):
    for folder in ["scripts", "bin", "Tests/Integration/support"]:
        (tmp_path / folder).mkdir(parents=True)
    for name in ["test", "failed-unit-tests"]:
        shutil.copy(REPOSITORY / "scripts" / name, tmp_path / "scripts")
    for path, text in {"scripts/install-packages": "#!/bin/sh\n", "bin/swift": SWIFT}.items():
        (tmp_path / path).write_text(text)
        (tmp_path / path).chmod(0o755)
    tests = tmp_path / "Tests" / "Integration"
    for name in ["pytest.ini", *(f"support/{name}.py" for name in ["__init__", "paths", *PLUGINS])]:
        shutil.copy(REPOSITORY / "Tests" / "Integration" / name, tests / name)
    (tests / "conftest.py").write_text(f"pytest_plugins = {[f'support.{name}' for name in PLUGINS]}\n")
    (tests / "test_planted.py").write_text(PLANTED)

    def run(part, failing=0, failing_units=0, broken=0):
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "ATTESTGATE"))}
        for name in ["tries", "unit-tries"]:
            (tmp_path / name).write_text("")
        return subprocess.run(
            ["scripts/test", *part], cwd=tmp_path, capture_output=True, text=True, timeout=2 * PATIENCE, env={
                **environment, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "TRIES": str(tmp_path / "tries"),
                "UNIT_TRIES": str(tmp_path / "unit-tries"), "FAILING_TRIES": str(failing),
                "FAILING_UNIT_TRIES": str(failing_units), "BROKEN": str(broken)})

    return run


def test_the_plugins_are_those_of_the_suite(request):
    assert all(request.config.pluginmanager.has_plugin(f"support.{name}") for name in PLUGINS)


def test_what_passes_on_the_second_try_is_named_in_the_last_line(run):
    done = run([], failing=1, failing_units=1)
    lines = done.stdout.splitlines()
    assert (done.returncode, lines[-1]) == (0, f"2 {LATE}^A\\.B/c\\(\\) {FAILED}"), done.stdout + done.stderr
    begun = [number for number, line in enumerate(lines) if line == "== second try of what failed"]
    assert [lines[number + 1].strip() for number in begun] == ["^A\\.B/c\\(\\)", FAILED]


def test_what_fails_twice_fails_the_run(run):
    done = run(["integration"], failing=2)
    assert done.returncode != 0 and LATE not in done.stdout and "== second try of what failed" in done.stdout


def test_many_failures_get_no_second_try(run):
    done = run(["integration"], broken=4)
    assert done.returncode != 0 and "second try" not in done.stdout and "4 failed" in done.stdout


def test_a_file_that_cannot_be_collected_gets_no_second_try(run, tmp_path):
    """Alone, the second of two files of the same name could be collected."""
    folder = tmp_path / "Tests" / "Integration" / "folder"
    folder.mkdir()
    (folder / "test_planted.py").write_text("def test_elsewhere(): pass\n")
    for failing in (0, 1):
        done = run(["integration"], failing=failing)
        assert done.returncode != 0 and "second try" not in done.stdout and "1 error" in done.stdout


def test_a_run_that_passes_names_nothing(run):
    done = run(["integration"])
    assert done.returncode == 0 and "second try" not in done.stdout, done.stdout + done.stderr
