"""Logs as others keep them: logrotate with the file in conf/, and systemd's journal."""

import json
import os
import re
import shutil
import socket
import subprocess

import pytest

from support.client import Client, get
from support.gateway import Gateway
from support.paths import BINARY, ENVIRONMENT, PATIENCE, REPOSITORY
from support.pki import attestgate
from support.waiting import eventually

LOGROTATE = shutil.which("logrotate", path="/usr/sbin:/usr/bin")


@pytest.fixture
def rotate(tmp_path):
    """Runs logrotate by the file in conf/, with its paths and no others changed."""
    def rotate(gateway):
        text = (REPOSITORY / "conf/logrotate/attestgate").read_text()
        for there, here in [
                ("/var/log/attestgate/access.log", gateway.access_path), ("/usr/bin/attestgate", BINARY),
                ("/etc/attestgate/attestgate.yaml", gateway.conf_path),
                ("/run/attestgate/administration.socket", gateway.conf["administration"]["socket"])]:
            assert there in text
            text = text.replace(there, str(here))
        # It refuses directories that others may write to, and files that are not root's or one's own.
        gateway.directory.chmod(0o755)
        conf = tmp_path / "logrotate.conf"
        conf.write_text(text)
        conf.chmod(0o644)
        return subprocess.run(
            [LOGROTATE, "--force", "--state", tmp_path / "state", conf], capture_output=True, text=True, env=ENVIRONMENT,
            timeout=PATIENCE)
    return rotate


def test_logrotate_moves_the_log_and_every_line_is_in_one_of_the_two(start_gateway, own_upstream, phone, rotate):
    gateway = start_gateway({"service": own_upstream.address})
    with Client(gateway, phone) as client:
        for number in range(3):
            for _ in range(5):
                assert client.exchange(get("/")).status == 200
            eventually(lambda: gateway.access_path.exists() and gateway.access_path.stat().st_size, "lines")
            done = rotate(gateway)
            assert (done.returncode, done.stderr) == (0, ""), done
            eventually(lambda: gateway.errors.count("access log reopened") == number + 1, "the new file")
    gateway.stop()
    plain = [gateway.access_path, gateway.access_path.with_name("access.log.1")]
    lines = "".join(path.read_text() for path in plain)
    for path in gateway.directory.glob("access.log.*.gz"):
        lines += subprocess.run(["gzip", "-dc", path], capture_output=True, text=True, check=True).stdout
    ids = [entry["request_id"] for entry in map(json.loads, lines.splitlines())]
    assert len(ids) == len(set(ids)) == 15
    assert oct(gateway.access_path.stat().st_mode & 0o777) == "0o640"


def test_the_command_says_if_the_gateway_cannot_open_its_log(start_gateway, own_upstream, phone):
    gateway = start_gateway({"service": own_upstream.address})
    with Client(gateway, phone) as client:
        assert client.exchange(get("/")).status == 200
    gateway.logged(status=200)
    os.rename(gateway.access_path, gateway.access_path.with_suffix(".old"))
    gateway.access_path.mkdir()
    done = attestgate("reopen-logs", "--config", gateway.conf_path)
    assert done.returncode == 1 and "the old file is still in use" in done.stderr and "Is a directory" in done.stderr
    gateway.access_path.rmdir()
    done = attestgate("reopen-logs", "--config", gateway.conf_path)
    assert (done.returncode, done.stdout) == (0, "the access log is reopened\n")


def test_logrotate_needs_no_gateway(start_gateway, own_upstream, rotate):
    gateway = start_gateway({"service": own_upstream.address})
    gateway.stop()
    assert not os.path.exists(gateway.conf["administration"]["socket"])
    gateway.access_path.write_text("a line\n")
    done = rotate(gateway)
    assert (done.returncode, done.stderr) == (0, "")
    assert attestgate("reopen-logs", "--config", gateway.conf_path).returncode == 1


def test_without_a_file_there_is_nothing_to_open(start_gateway, own_upstream):
    gateway = start_gateway({"service": own_upstream.address}, log={"access": "off"})
    done = attestgate("reopen-logs", "--config", gateway.conf_path)
    assert done.returncode == 0 and "there is no access log file to reopen" in done.stdout


@pytest.mark.parametrize("is_journal", [True, False])
def test_lines_for_the_journal_begin_with_their_priority(pki, own_upstream, tmp_path, is_journal):
    """The journal's end of standard error is a socket; another stream by the variable of which is none of its own."""
    gateway = Gateway(tmp_path / "gateway", pki, {"service": own_upstream.address})
    gateway.write_conf()
    ours, theirs = socket.socketpair()
    status = os.fstat(theirs.fileno())
    stream = f"{status.st_dev}:{status.st_ino if is_journal else status.st_ino + 1}"
    gateway.environment = {**ENVIRONMENT, "JOURNAL_STREAM": stream}
    process = gateway.spawn(stderr=theirs)
    theirs.close()
    ours.settimeout(PATIENCE)
    text = b""
    while b"serving" not in text:
        text += ours.recv(4096)
    process.terminate()
    while more := ours.recv(4096):
        text += more
    assert process.wait(PATIENCE) == 0
    lines = text.decode().splitlines()
    for line in lines:
        prefix, rest = re.fullmatch(r"(<\d>)?(\{.*\})", line).groups()
        level = {"info": "<6>", "notice": "<5>", "warning": "<4>"}[json.loads(rest)["level"]]
        assert prefix == (level if is_journal else None), line
    assert any("stopped" in line for line in lines)
