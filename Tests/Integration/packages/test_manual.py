"""The manual pages, as a package has them: made from what the programs say of themselves."""

import json
import os
import pty
import re
import select
import shutil
import subprocess

import pytest

from support.paths import BINARY, ENVIRONMENT, PATIENCE, REPOSITORY

GENERATE = REPOSITORY / "packaging/man/generate"
TAIL = REPOSITORY / "packaging/man/attestgate.8.tail"
ENVIRONMENT = {**ENVIRONMENT, "SOURCE_DATE_EPOCH": "1790000000", "LC_ALL": "C.UTF-8"}
PROGRAMS = {"attestgate": "8", "attestgate-device": "1", "attestgate-load": "1"}


def said(*command, text=""):
    done = subprocess.run(
        list(map(str, command)), input=text, capture_output=True, text=True, env=ENVIRONMENT, timeout=PATIENCE)
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout


@pytest.fixture(scope="module")
def helps():
    return {name: said(BINARY.with_name(name), "--experimental-dump-help") for name in PROGRAMS}


@pytest.fixture(scope="module")
def pages(helps):
    pages = {name: said(GENERATE, "program", name, PROGRAMS[name], "0.1.0", *([TAIL] if name == "attestgate" else []), text=text)
             for name, text in helps.items()}
    pages["attestgate.yaml"] = said(GENERATE, "settings", "0.1.0", text=said(BINARY, "schema"))
    return pages


def read(page):
    """A page as a terminal shows it, without bold and with each run of blanks as one."""
    shown = said("groff", "-man", "-Tutf8", "-P-cbou", "-rLL=200n", text=page)
    return re.sub(r"\s+", " ", shown)


def arguments(command):
    yield from command.get("arguments", [])
    for inner in command.get("subcommands", []):
        if inner["commandName"] != "help":
            yield from arguments(inner)


@pytest.mark.skipif(not shutil.which("groff"), reason="groff is not installed")
def test_groff_reports_nothing_about_a_page(pages):
    for name, page in pages.items():
        done = subprocess.run(
            ["groff", "-man", "-Tutf8", "-ww", "-z"], input=page, capture_output=True, text=True, env=ENVIRONMENT)
        assert (name, done.returncode, done.stderr) == (name, 0, "")
        assert page.splitlines()[0].startswith(".TH ") and '"2026-09-21"' in page.splitlines()[0]


@pytest.mark.skipif(not shutil.which("groff"), reason="groff is not installed")
def test_a_program_s_page_has_each_of_its_options(pages, helps):
    for name, text in helps.items():
        page = read(pages[name])
        for argument in arguments(json.loads(text)["command"]):
            if argument.get("shouldDisplay", True) and "preferredName" in argument:
                option = argument["preferredName"]
                assert ("-" if option["kind"] == "short" else "--") + option["name"] in page, (name, argument)


@pytest.mark.skipif(not shutil.which("groff"), reason="groff is not installed")
def test_the_conf_file_s_page_has_each_setting_with_its_form(pages):
    page, schema = read(pages["attestgate.yaml"]), json.loads(said(BINARY, "schema"))
    for section in [schema, *schema["$defs"].values()]:
        for name, setting in section["properties"].items():
            text = re.sub(r"\s+", " ", setting["description"].replace("`", ""))
            assert f" {name} {text}" in page, name
    assert all(f" {path} " in page for path in schema["$defs"])


def test_the_same_source_gives_the_same_page(pages):
    again = said(GENERATE, "settings", "0.1.0", text=said(BINARY, "schema"))
    assert again == pages["attestgate.yaml"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_each_command(shell):
    script = said(BINARY, "--generate-completion-script", shell)
    for command in ["run", "check", "reload", "device", "registry", "verify"]:
        assert command in script
    if shutil.which(shell):
        said(shell, "-n", text=script)


def completed_by_bash(script, line, directory, expected):
    """What a tab offers."""
    words = line.split(" ")
    return said("bash", "--norc", "-c", f"""
        cd {directory} && . {script}
        COMP_LINE={line!r} COMP_POINT={len(line)} COMP_CWORD={len(words) - 1} COMP_TYPE=9 COMP_KEY=9 COMP_WORDS=({line})
        _attestgate attestgate {words[-1]!r} {words[-2]!r} && printf '%s\\n' "${{COMPREPLY[@]}}"
        """)


def completed_by_fish(script, line, directory, expected):
    return said("fish", "--no-config", "-c", f"cd {directory}; source {script}; complete -C {line!r}")


def completed_by_zsh(script, line, directory, expected):
    """What its own editor, in a terminal, makes of the line by a tab."""
    functions = directory / "functions"
    functions.mkdir(exist_ok=True)
    shutil.copy(script, functions / "_attestgate")
    ours, theirs = pty.openpty()
    shell = subprocess.Popen(
        ["zsh", "-f", "-i"], stdin=theirs, stdout=theirs, stderr=theirs, cwd=directory, start_new_session=True,
        env={**ENVIRONMENT, "TERM": "dumb", "HOME": str(directory), "ZDOTDIR": str(directory)})
    os.close(theirs)

    def read_until(end, output=b""):
        while end not in output:
            assert select.select([ours], [], [], PATIENCE)[0], output
            output += os.read(ours, 65536)
        return output
    try:
        # What it echoes of this line is not the prompt that follows.
        os.write(ours, b"fpath=($PWD/functions $fpath); autoload -Uz compinit; compinit -u -D; PS1='rea''dy '\n")
        read_until(b"ready \x1b[?2004h")
        os.write(ours, line.encode() + b"\t")
        return read_until(expected.encode()).decode()
    finally:
        shell.kill()
        shell.wait()
        os.close(ours)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_tab_completes_commands_choices_and_files(shell, tmp_path):
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    script = tmp_path / "script"
    script.write_text(said(BINARY, "--generate-completion-script", shell))
    (tmp_path / "gateway.yaml").touch()
    completed = globals()[f"completed_by_{shell}"]
    for line, expected in {
            "attestgate reop": "reopen-logs", "attestgate registry exp": "export", "attestgate run --role enr": "enrolment",
            "attestgate run --config gat": "gateway.yaml", "attestgate registry import --config gateway.yaml gat": "gateway.yaml"}.items():
        assert expected in completed(script, line, tmp_path, expected), f"{shell}: {line}"
