"""No row of the denial table without a test that provokes it."""

import pytest

import denials


def test_every_row_of_the_table_was_exercised(request):
    if not request.config.is_whole_suite:
        pytest.skip("only the whole suite can exercise the whole table")
    missing = sorted(set(denials.TABLE) - denials.exercised)
    assert missing == [], f"no test provoked these denials: {missing}"
