"""Every command in README and docs/ is run as it stands, or says why it cannot be."""

import os
import re

import pytest

from support.documented import COMMAND, FIRST, LANGUAGES, PAGES, blocks
from support.documented_machine import Machine
from support.paths import REPOSITORY

# Starts the gateway of the installed conf file.
STARTING = REPOSITORY / "docs" / "operations" / "administration.md"
WITH_COMMANDS = [page for page in PAGES if any(block.is_commands and not block.reason for block in blocks(page))]


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    if os.geteuid() != 0:
        pytest.skip("mounts and a network of its own take root")
    made = Machine(tmp_path_factory.mktemp("machine"))
    made.pages = set()
    yield made
    made.stop()


def follow(machine, page):
    """Does what the page says, once."""
    if page in machine.pages:
        return
    machine.pages.add(page)
    for block in blocks(page):
        if block.file:
            machine.write(block.file, block.text)
            continue
        if not block.is_commands or block.reason:
            continue
        try:
            machine.run(block.before)
            for command, printed in block.commands():
                machine.run(command, printed)
        except AssertionError as fault:
            raise AssertionError(f"{block}: {fault}\n{machine.logs()}") from None


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=[str(page.relative_to(REPOSITORY)) for page in WITH_COMMANDS])
def test_the_commands_of_a_page_print_what_it_says(machine, page):
    # All pages need what the first one sets up.
    follow(machine, FIRST)
    if "/etc/attestgate/attestgate.yaml" in "".join(block.text for block in blocks(page) if block.is_commands):
        follow(machine, STARTING)
    follow(machine, page)


def test_every_command_on_a_page_is_marked_as_one():
    unknown = [f"{block}: {block.language}" for page in PAGES for block in blocks(page) if block.language not in LANGUAGES]
    assert unknown == [], "name one of the languages in documented.py"
    hidden = [f"{block}: {line}" for page in PAGES for block in blocks(page) if not block.language
              for line in block.text.splitlines() if COMMAND.match(line.strip())]
    assert hidden == [], "```sh for commands, ```console for commands with what they print, ```text for what is none"


def test_a_command_that_is_not_run_gives_the_reason(capsys):
    commands = [block for page in PAGES for block in blocks(page) if block.is_commands]
    left_out = [block for block in commands if block.reason]
    with capsys.disabled():
        print(f"\ndocumented commands: {len(commands) - len(left_out)} blocks are run, {len(left_out)} are not:")
        for block in left_out:
            print(f"  {block}: {block.reason}")
    assert [block for block in left_out if len(block.reason.split()) < 4] == []
    # Comments that no block of commands is below would be forgotten ones.
    written = sum(len(re.findall(r"(?m)^<!-- not run: ", page.read_text())) for page in PAGES)
    assert written == len(left_out)
