"""What docs/threat-model.md and docs/privacy.md claim, tests try: each line that names some names ones that are there."""

import re

import pytest

from paths import REPOSITORY
from test_http_page import named_tests


def rows(page):
    """The cells of the lines of tables whose last column is `tests`."""
    is_table = False
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else None
        if cells is None:
            is_table = False
        elif cells[-1] == "tests":
            is_table = True
        elif is_table and set(line) - set("|- "):
            yield cells


@pytest.mark.parametrize("name, least", [("threat-model", 30), ("privacy", 6)])
def test_each_promise_names_tests_that_are_there(name, least):
    known, found = named_tests(), list(rows((REPOSITORY / "docs" / f"{name}.md").read_text()))
    assert len(found) >= least
    for *promise, tests in found:
        names = re.findall(r"`(test_\w+)`", tests)
        # A parametrized test has its cases behind the name.
        assert names, promise
        assert [name for name in names if name not in known] == [], promise
