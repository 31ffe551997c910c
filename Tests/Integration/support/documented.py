"""The blocks of code in the project's pages, and which of them are commands.

A block whose language is `sh` holds commands, one that is `console` commands behind `$ ` and what they print. Two comments may
stand right above:

    <!-- not run: REASON -->      it cannot be run where tests are, and why
    <!-- before: COMMANDS -->     what somebody who reads the page has done before

A block may also be the content of a file, of any language: <!-- file: PATH -->.
"""

import re
from dataclasses import dataclass

from support.paths import REPOSITORY

# The page that sets up what all others need: certificates, a running gateway, an enrolled software phone.
FIRST = REPOSITORY / "docs" / "getting-started.md"
PAGES = [FIRST, *(
    page for page in [
        REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md", *sorted(REPOSITORY.glob("docs/*.md")),
        *sorted(REPOSITORY.glob("docs/operations/*.md"))]
    if page != FIRST)]
LANGUAGES = {"", "sh", "console", "text", "yaml", "json", "swift", "java", "ini", "nginx", "haproxy", "mermaid"}
# How a line begins that somebody would type.
COMMAND = re.compile(
    r"(\$ )?(sudo |\()?((scripts|bench|Tests)/\S+|attestgate(-device|-load)?|swift|curl|openssl|systemctl|apt-get|psql|createdb|createuser"
    r"|install|cp|docker|podman|nginx|haproxy|python3|kill|cd|printf|echo|cat|umask|export)( |$)")
BLOCK = re.compile(
    r"(?m)(?P<comments>(?:^<!-- (?:(?!-->)[\s\S])*? -->\n+)*)^(?P<indent> *)```(?P<language>\S*)\n(?P<text>[\s\S]*?)^(?P=indent)```$")


@dataclass
class Block:
    page: str
    line: int
    language: str
    text: str
    # Why it is not run; None if it is.
    reason: str | None
    before: str
    # The file that it is the content of.
    file: str | None

    @property
    def is_commands(self):
        return self.language in ("sh", "console")

    def __str__(self):
        return f"{self.page}:{self.line}"

    def commands(self):
        """Pairs of commands and what they must print, None where anything will do."""
        if self.language == "sh":
            return [(self.text, None)]
        pairs = []
        for part in re.split(r"(?m)^\$ ", self.text)[1:]:
            command = re.match(r"(?:.*\\\n)*.*\n", part)[0]
            pairs.append((command, part[len(command):]))
        return pairs


def blocks(page):
    text, found = page.read_text(), []
    name = str(page.relative_to(REPOSITORY))
    for match in BLOCK.finditer(text):
        said = {"not run": [], "before": [], "file": []}
        for kind, value in re.findall(r"<!-- (not run|before|file): ([\s\S]*?) -->", match["comments"]):
            said[kind].append(value)
        found.append(Block(
            name, text.count("\n", 0, match.start("text")), match["language"], match["text"],
            " ".join(said["not run"]) or None, "\n".join(said["before"]), next(iter(said["file"]), None)))
    return found


def expression(printed):
    """What matches something printed at another time: numbers, dates, keys and ids are others, `...` is anything."""
    made = []
    for part in re.split(r"(\.\.\.|[\w+/=-]{16,}|\d+)", printed.strip()):
        if part == "...":
            made.append(r"[\s\S]*")
        elif re.fullmatch(r"\d+", part):
            made.append(r"\d+")
        elif len(part) >= 16 and re.fullmatch(r"[\w+/=-]+", part):
            made.append(r"\S+")
        else:
            made.append(re.escape(part))
    return re.compile("".join(made))
