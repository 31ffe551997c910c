"""conf/systemd: what the units leave a process to do, as systemd itself judges it. That they run so: test_package.py."""

import re
import shutil
import subprocess

import pytest

from support.paths import PATIENCE, REPOSITORY
from support.pki import attestgate

UNITS = {path.name: path.read_text() for path in sorted((REPOSITORY / "conf/systemd").glob("*.service"))}
ROLES = ["attestgate-enrolment.service", "attestgate-gateway.service", "attestgate.service"]
# Of 10; a unit without a sandbox has 9.6, and what is called safe ends at 2.
EXPOSURE = 1.7


def sandbox(text):
    """The settings from the first to the last that restricts the process."""
    return text.split("\nNoNewPrivileges=", 1)[1].split("\n[Install]", 1)[0]


def test_there_is_a_unit_for_each_role():
    assert sorted(UNITS) == sorted(["attestgate-backup.service", *ROLES])
    commands = {name: re.findall(r"^ExecStart=(.*)$", UNITS[name], re.MULTILINE) for name in ROLES}
    assert commands == {
        "attestgate.service": ["/usr/bin/attestgate run --config /etc/attestgate/attestgate.yaml"],
        "attestgate-gateway.service": ["/usr/bin/attestgate run --role gateway --config /etc/attestgate/attestgate.yaml"],
        "attestgate-enrolment.service": ["/usr/bin/attestgate run --role enrolment --config /etc/attestgate/enrolment.yaml"]}


def test_a_reload_of_each_unit_waits_for_its_result():
    commands = {name: re.findall(r"^ExecReload=(.*)$", UNITS[name], re.MULTILINE) for name in ROLES}
    assert commands == {
        "attestgate.service": ["/usr/bin/attestgate reload"],
        "attestgate-gateway.service": ["/usr/bin/attestgate reload"],
        "attestgate-enrolment.service": ["/usr/bin/attestgate reload --config /etc/attestgate/enrolment.yaml"]}
    assert "(default: /etc/attestgate/attestgate.yaml)" in " ".join(attestgate("reload", "--help").stdout.split())


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is not installed")
@pytest.mark.parametrize("name", UNITS)
def test_a_unit_confines_its_process(name):
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--no-pager", f"--threshold={EXPOSURE * 10:.0f}",
         REPOSITORY / "conf/systemd" / name], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout


def test_all_roles_have_the_same_confinement():
    assert len({sandbox(UNITS[name]) for name in ROLES}) == 1


def test_roles_that_share_a_machine_share_neither_user_nor_directory():
    """So the gateway's user can read no key of enrolment, whatever its unit says."""
    for key in ["User", "StateDirectory", "RuntimeDirectory", "LogsDirectory"]:
        gateway, enrolment = [
            set(re.findall(rf"^{key}=(.*)$", UNITS[name], re.MULTILINE)[0].split())
            for name in ["attestgate-gateway.service", "attestgate-enrolment.service"]]
        assert gateway.isdisjoint(enrolment), key


@pytest.mark.parametrize("name", UNITS)
def test_no_unit_runs_as_root_or_prints_memory(name):
    assert re.search(r"^User=attestgate(-enrolment)?$", UNITS[name], re.MULTILINE)
    assert "\nEnvironment=SWIFT_BACKTRACE=enable=no\n" in UNITS[name]
