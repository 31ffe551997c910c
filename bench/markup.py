"""Markdown as the project's formatter leaves it: paragraphs of 100 columns, tables of which only the cells count."""

import textwrap

COLUMNS = 100


def paragraph(text):
    return textwrap.fill(text, COLUMNS, break_long_words=False, break_on_hyphens=False)


def table(head, rows):
    """A table, or nothing if it has no rows. A column whose head begins with `>` is of numbers."""
    if not rows:
        return ""
    rule = ["-:" if name.startswith(">") else "--" for name in head]
    shown = [name.removeprefix(">") for name in head]
    return "\n".join(f"| {' | '.join(row)} |" for row in [shown, rule, *rows])
