"""Each rule of docs/http.md names its source, and cases or tests that are there."""

import re

import attacks
import framing_cases
from paths import REPOSITORY

PAGE = (REPOSITORY / "docs" / "http.md").read_text()
CASES = {
    *attacks.HEADS, *attacks.CONTENTS, *framing_cases.SERVED, *framing_cases.REFUSED, *framing_cases.BROKEN,
    *framing_cases.EARLY_END}


def rules():
    """The rows of the tables whose second column is the RFC: rule, RFC, what shows it."""
    is_rules = False
    for line in PAGE.splitlines():
        cells = [cell.strip(" ") for cell in line.strip("|").split("|")] if line.startswith("|") else None
        if cells is None or len(cells) != 3:
            is_rules = False
        elif cells[1] == "RFC":
            is_rules = True
        elif is_rules and set(line) - set("|-"):
            yield cells


def named_tests():
    return {name for path in (REPOSITORY / "Tests" / "Integration").glob("test_*.py")
            for name in re.findall(r"(?m)^def (test_\w+)\(", path.read_text())}


def test_each_rule_has_a_source_and_cases_that_are_there():
    known, rows = CASES | named_tests(), list(rules())
    assert len(rows) >= 45
    for rule, source, shown in rows:
        assert re.fullmatch(r"(\d{4}, [\d.A-Z]+(,? (and|to)? ?[\d.A-Z]+)*(; )?)+", source), f"{rule}: {source}"
        names = re.findall("`([^`]+)`", shown)
        assert names, rule
        assert not [name for name in names if name not in known], f"{rule}: {set(names) - known}"


def test_each_fault_of_a_request_has_its_rule():
    shown = {name for _, _, cells in rules() for name in re.findall("`([^`]+)`", cells)}
    faults = {fault for name, (fault, _) in [*attacks.HEADS.items(), *attacks.CONTENTS.items()] if name in shown}
    assert faults == {fault for fault, _ in [*attacks.HEADS.values(), *attacks.CONTENTS.values()]}
