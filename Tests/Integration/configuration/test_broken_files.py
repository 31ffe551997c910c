"""Conf files with the mistakes that operators make: what `attestgate check` says of each, to the letter.

The messages are in broken_confs.txt, so that they can be read one after the other: would a tired person repair the line by them?
After a change of messages ATTESTGATE_UPDATE_DOCS=1 writes the file again; review it then.
"""

import json
import os
import socket
import subprocess
from pathlib import Path

import jsonschema
import pytest

from support import broken_confs
from support.paths import BINARY, ENVIRONMENT, PATIENCE
from support.pki import about_the_file, attestgate
from support.ports import uncommon_port
from support.yaml_files import parsed

MESSAGES = Path(__file__).with_name("broken_confs.txt")
CASES = {**broken_confs.MISTAKES, **broken_confs.DOUBTS}


@pytest.fixture(scope="module")
def directory(pki, tmp_path_factory):
    directory = tmp_path_factory.mktemp("broken")
    broken_confs.make_files(directory, pki)
    return directory


@pytest.fixture(scope="module")
def say(directory):
    """Checks the conf file with one piece of it written differently. - Returns: the status and what was said."""
    def say(old="", new=""):
        assert old in broken_confs.CONF
        path = directory / "attestgate.yaml"
        path.write_text(broken_confs.CONF.replace(old, new, 1) if old else broken_confs.CONF)
        done = attestgate("check", "--config", path)
        return done.returncode, about_the_file(done.stderr).replace(f"{directory}/", "").rstrip("\n")
    return say


@pytest.fixture(scope="module")
def messages(say):
    if os.environ.get("ATTESTGATE_UPDATE_DOCS"):
        text = "\n\n\n".join(f"=== {name}\n{say(*piece)[1]}" for name, piece in CASES.items())
        MESSAGES.write_text(text + "\n")
    entries = MESSAGES.read_text().removeprefix("=== ").removesuffix("\n").split("\n\n\n=== ")
    return dict(entry.split("\n", 1) for entry in entries)


def test_a_correct_file_gives_no_message(say):
    assert say() == (0, "")


def test_exactly_these_mistakes_have_messages(messages):
    assert list(messages) == list(CASES)
    assert len(broken_confs.MISTAKES) >= 30


@pytest.mark.parametrize("name", broken_confs.MISTAKES)
def test_a_mistake_is_refused_with_its_line_and_the_expectation(say, messages, name):
    assert say(*broken_confs.MISTAKES[name]) == (1, messages[name])


@pytest.mark.parametrize("name", broken_confs.DOUBTS)
def test_a_warning_has_its_line_and_does_not_prevent_the_start(say, messages, name):
    assert say(*broken_confs.DOUBTS[name]) == (0, messages[name])


@pytest.mark.parametrize("name", CASES)
def test_every_message_has_a_line_its_text_and_a_caret(messages, name):
    for message in messages[name].split("\n\n"):
        heading, excerpt, mark, *_ = message.splitlines()
        file, line, column, severity, _ = heading.split(":", 4)
        assert file == "attestgate.yaml" and severity in (" error", " warning")
        assert excerpt.startswith(f"{line:>5} | ")
        # In the excerpt a place has the column that it has in the file.
        assert mark.expandtabs(1).index("^") == len("      | ") - 1 + int(column)


def test_misplaced_secrets_are_not_repeated(messages):
    for secret in ["correct horse", "dGhpcyBpcyBhIHNlY3JldCB0b2tlbg"]:
        assert any(secret in new for _, new in broken_confs.MISTAKES.values())
        assert all(secret not in message for message in messages.values())


def test_the_schema_refuses_wrong_forms_and_accepts_what_only_gets_a_warning():
    schema = jsonschema.Draft202012Validator(json.loads(attestgate("schema").stdout))

    def fits(old, new):
        try:
            return schema.is_valid(parsed(broken_confs.CONF.replace(old, new, 1)))
        except Exception:
            return False
    assert schema.is_valid(parsed(broken_confs.CONF))
    assert all(fits(*piece) for piece in broken_confs.DOUBTS.values())
    refused = [name for name, piece in broken_confs.MISTAKES.items() if not fits(*piece)]
    # The others are about what lies outside of the file, or about what holds between settings.
    assert len(refused) >= len(broken_confs.MISTAKES) // 2, refused


def test_run_reports_an_address_in_use_with_its_line(directory):
    port = uncommon_port()
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))
        other.listen()
        path = directory / "taken.yaml"
        path.write_text(broken_confs.CONF.replace("127.0.0.1:8443", f"127.0.0.1:{port}"))
        done = subprocess.run(
            [BINARY, "run", "--config", path], capture_output=True, text=True, env=ENVIRONMENT, timeout=PATIENCE)
    assert done.returncode == 1
    assert (
        f"\n{path}:2:14: error: listener 127.0.0.1:{port}: bind: Address already in use; "
        "`ss --listening --tcp --processes` shows the process\n"
        f"    2 |   - address: 127.0.0.1:{port}\n" in done.stderr), done.stderr


def test_run_reports_an_address_of_another_machine(directory):
    path = directory / "foreign.yaml"
    path.write_text(broken_confs.CONF.replace("127.0.0.1:8443", "192.0.2.1:8443"))
    done = subprocess.run([BINARY, "run", "--config", path], capture_output=True, text=True, env=ENVIRONMENT, timeout=PATIENCE)
    assert done.returncode == 1
    assert "bind: Cannot assign requested address; `ip address` shows the addresses of this machine\n" in done.stderr, done.stderr
