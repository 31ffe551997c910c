"""No row of the denial table without a test that provokes it: a run of the whole suite fails otherwise.

The tests may have run in several processes (pytest-xdist); what each has provoked comes together in the one that started them.
"""

import pytest

from support import denials


class Plugin:
    def __init__(self):
        # Whether all there is was run: only that can exercise the whole table.
        self.is_whole_suite = False
        self.missing = []

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config, items):
        modules = {item.path.name for item in items}
        everything = {path.name for path in config.rootpath.rglob("test_*.py")}
        self.is_whole_suite = modules == everything and not config.option.keyword and not getattr(config.option, "lf", False)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node):
        """Another process has ended. One that crashed tells nothing, and fails the run by that."""
        output = getattr(node, "workeroutput", {})
        denials.exercised.update(output.get("exercised", []))
        self.is_whole_suite = output.get("is_whole_suite", self.is_whole_suite)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session):
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput.update(exercised=sorted(denials.exercised), is_whole_suite=self.is_whole_suite)
            return
        if not self.is_whole_suite or session.config.option.collectonly:
            return
        self.missing = sorted(set(denials.TABLE) - denials.exercised)
        if self.missing and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter):
        if self.missing:
            terminalreporter.section("denials that no test has provoked", red=True)
            terminalreporter.line(" ".join(self.missing))


def pytest_configure(config):
    config.pluginmanager.register(Plugin())
