"""Links between the project's own pages lead to a page that is there, and to a heading in it."""

import re

from support.paths import REPOSITORY

PAGES = [*REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/**/*.md"), *REPOSITORY.glob("bench/*.md")]


def prose(page):
    """Without what stands between fences or is code."""
    text = re.sub(r"(?ms)^ *```.*?^ *```$", "", page.read_text())
    return re.sub(r"`[^`\n]*`", lambda code: code[0].replace("(", " "), text)


def anchors(page):
    """As GitHub makes them of headings."""
    headings = re.findall(r"(?m)^#+ (.*)$", prose(page))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_link_has_a_target():
    links, broken = 0, []
    for page in PAGES:
        for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
            if re.match(r"[a-z]+:", target):
                continue
            links += 1
            name, _, anchor = target.partition("#")
            there = page.parent / name if name else page
            if not there.exists() or anchor and anchor not in anchors(there):
                broken.append(f"{page.relative_to(REPOSITORY)}: {target}")
    assert links > 50 and broken == []
