"""The Debian packages on a machine that is thrown away: installed, run by systemd, upgraded, removed, purged.

ATTESTGATE_PACKAGE names the package (scripts/package makes it, .ci/run calls both); attestgate-tools lies beside it."""

import os
import re
import shutil
import subprocess
import threading
from pathlib import Path

import pytest

from support import machine as machines
from support.documented import blocks
from support.paths import REPOSITORY
from support.waiting import eventually

PACKAGE = os.environ.get("ATTESTGATE_PACKAGE")
CONF = "/etc/attestgate/attestgate.yaml"
PKI = "/var/lib/attestgate/pki"
LEFT_BY_PACKING = re.compile(r"made|attestgate(-tools)?|files|debhelper-build-stamp|.*\.debhelper(\.log)?|.*\.substvars")
PAGE = REPOSITORY / "docs/operations/installing.md"

pytestmark = [
    pytest.mark.skipif(not PACKAGE, reason="ATTESTGATE_PACKAGE names no package; scripts/package makes one"),
    pytest.mark.skipif(bool(PACKAGE and machines.obstacle()), reason=f"no machine to throw away: {machines.obstacle()}")]


def first_start():
    """The commands that the page begins with: from the package to the first response."""
    block = next(block for block in blocks(PAGE) if block.is_commands)
    return block.text.replace("\\\n", "").splitlines()


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """- Returns: the package, and a newer version of it with another conf file."""
    path = Path(PACKAGE).absolute()
    work = tmp_path_factory.mktemp("newer") / "tree"
    subprocess.run(["dpkg-deb", "--raw-extract", path, work], check=True)
    control = work / "DEBIAN/control"
    control.write_text(re.sub(r"^Version: (.*)$", r"Version: \1+newer", control.read_text(), flags=re.MULTILINE))
    with (work / CONF[1:]).open("a") as conf:
        conf.write("# A newer version's.\n")
    (work / "DEBIAN/md5sums").unlink()
    newer = work.with_suffix(".deb")
    subprocess.run(["dpkg-deb", "--root-owner-group", "-Znone", "--build", work, newer], check=True, capture_output=True)
    return path, newer


def test_packages_are_reproducible(tmp_path):
    """Byte for byte: neither place, time, time zone, umask nor order of files is in the packages. The programs are those that
    scripts/package has compiled."""
    made = Path(PACKAGE).absolute().parent
    if not (made / "source/debian/rules").exists():
        pytest.skip("scripts/package has left no source beside the package")
    source = tmp_path / "another" / "place"
    source.parent.mkdir()
    shutil.copytree(
        made / "source", source, symlinks=True, copy_function=shutil.copy,
        ignore=lambda place, names: [n for n in names if Path(place) == made / "source/debian" and LEFT_BY_PACKING.fullmatch(n)])
    subprocess.run(
        ["sh", "-c", 'umask 077; exec dpkg-buildpackage --build=binary --no-sign --no-pre-clean --rules-file="$1"', "sh",
         f"debian/rules bin={made}/scratch/release build=:"],
        cwd=source, check=True, capture_output=True, env={**os.environ, "TZ": "Asia/Tokyo", "LC_ALL": "C.UTF-8"})
    packages = sorted(source.parent.glob("*.deb"))
    assert [package.name for package in packages] == sorted(package.name for package in made.glob("*.deb"))
    for package in packages:
        assert package.read_bytes() == (made / package.name).read_bytes(), f"diffoscope {package} {made / package.name}"


@pytest.fixture
def machine(tmp_path, package):
    """One on which nothing is installed, with a service on 127.0.0.1:9000."""
    machine = machines.Machine(tmp_path / "machine")
    try:
        machine.put(package[0], f"/root/{package[0].name}")
        machine.path("/srv/www").mkdir(parents=True)
        machine.path("/srv/www/index.html").write_text("what the service says\n")
        machine.run(
            "systemd-run", "--unit=service", "python3", "-m", "http.server", "--bind", "127.0.0.1", "--directory", "/srv/www", "9000")
        eventually(lambda: machine.shell("curl -s http://127.0.0.1:9000/", check=False).returncode == 0, "the service")
        yield machine
    finally:
        machine.close()


def install(machine, path):
    machine.put(path, f"/root/{path.name}")
    # As an operator answers who presses return: his conf file stays.
    return machine.run(
        "apt-get", "install", "--yes", "--no-install-recommends", "-o", "Dpkg::Options::=--force-confold", f"./{path.name}")


def ask(machine):
    return machine.shell(first_start()[-1], check=False).stdout


@pytest.fixture
def installed(machine):
    for line in first_start()[:-1]:
        machine.shell(line.replace("apt install", "apt-get install --yes"))
    return machine


def edit(machine, old, new):
    text = machine.path(CONF).read_text()
    assert old in text
    machine.path(CONF).write_text(text.replace(old, new))


def test_the_first_answer_needs_at_most_five_commands(machine):
    lines = first_start()
    assert len(lines) <= 5
    for line in lines:
        done = machine.shell(line.replace("apt install", "apt-get install --yes"))
    assert done.stdout == "what the service says\n"
    # As its unit says, and as `systemd-analyze` has judged it.
    pid = machine.property("attestgate", "MainPID")
    status = machine.run("cat", f"/proc/{pid}/status").stdout
    user = machine.run("id", "--user", "attestgate").stdout.strip()
    assert re.search(rf"^Uid:\t{user}\t{user}\t{user}\t{user}$", status, re.MULTILINE)
    assert "\nNoNewPrivs:\t1\n" in status and "\nSeccomp:\t2\n" in status
    assert "\nCapEff:\t0000000000000400\n" in status, "CAP_NET_BIND_SERVICE, and nothing else"
    version = machine.run("attestgate", "--version").stdout
    assert re.search(r"^commit +[0-9a-f]{40}, 20..-..-..T..:..:..Z$", version, re.MULTILINE), version
    assert machine.run("attestgate-device", "--version", check=False).returncode != 0, "the tools are a package of their own"


def test_installed_files_belong_to_no_other_package(installed):
    modes = installed.run(
        "stat", "--format=%n %U %a", "/var/lib/attestgate", "/var/lib/attestgate-witness", "/var/log/attestgate",
        "/var/backups/attestgate", "/etc/attestgate/enrolment", "/var/lib/attestgate-enrolment", CONF).stdout.splitlines()
    assert modes == [
        "/var/lib/attestgate attestgate 700", "/var/lib/attestgate-witness attestgate 700", "/var/log/attestgate attestgate 750",
        "/var/backups/attestgate attestgate 700", "/etc/attestgate/enrolment attestgate-enrolment 700",
        "/var/lib/attestgate-enrolment attestgate-enrolment 700", f"{CONF} root 644"]
    assert installed.run("ls", "/etc/attestgate/enrolment", user="attestgate", check=False).returncode != 0
    for page in ["attestgate", "attestgate.yaml"]:
        assert installed.run("man", "--where", page).stdout


def test_phones_enrol_and_prove_themselves_within_the_sandbox(installed, package):
    """Registry, counters, reload, logs and backup by the unit, and nothing that its sandbox would forbid."""
    install(installed, next(package[0].parent.glob("attestgate-tools_*.deb")))
    app = "TEAMID1234.org.example.app"
    installed.run("attestgate-device", "ca", "init", "--directory", PKI, user="attestgate")
    edit(installed, "require: certificate", "require: request-proof")
    with installed.path(CONF).open("a") as conf:
        conf.write(f"""
apps: [{{id: {app}, environment: simulator, attestation_root: {PKI}/simulator-root.pem}}]
registry:
  path: /var/lib/attestgate/registry.sqlite
  secret: /var/lib/attestgate/challenge.secret
  revocations: /var/lib/attestgate-witness/registry.revocations
enrolment:
  address: 127.0.0.1:8444
  url: https://localhost:8444
  tls: {{certificate: {PKI}/server.pem, key: {PKI}/server.key}}
  authority: {{certificate: {PKI}/gms-ca.pem, key: {PKI}/gms-ca.key}}
  admission: open
log: {{access: /var/log/attestgate/access.log}}
""")
    installed.run("systemctl", "restart", "attestgate")
    installed.run(
        "attestgate-device", "enrol", "--enrolment", "https://localhost:8444", "--ca", f"{PKI}/server-ca.pem", "--directory", "phone",
        "--app-id", app)
    request = ["attestgate-device", "request", "--directory", "phone", "--cacert", f"{PKI}/server-ca.pem", "https://localhost:8443/"]
    assert installed.run(*request).stdout == "what the service says\n"
    installed.run("systemctl", "reload", "attestgate")
    eventually(lambda: "generation 2" in installed.property("attestgate", "StatusText"), "the reload")
    installed.run("logrotate", "--force", "/etc/logrotate.d/attestgate")
    assert installed.run(*request).stdout == "what the service says\n"
    for log in ["access.log.1", "access.log"]:
        eventually(lambda: installed.path(f"/var/log/attestgate/{log}").read_text().count('"status":200') == 1, log)
    assert installed.run("stat", "--format=%a", "/var/log/attestgate/access.log").stdout == "640\n"
    installed.run("systemctl", "start", "attestgate-backup.service")
    backup, = installed.path("/var/backups/attestgate").iterdir()
    assert app in backup.read_text()
    assert installed.run("attestgate", "device", "list", "--config", CONF).stdout.count(app) == 1
    installed.run("systemctl", "stop", "attestgate")
    assert installed.property("attestgate", "Result") == "success", installed.journal("attestgate")


def test_a_gateway_s_unit_cannot_read_the_key_of_the_authority_whatever_its_mode(installed):
    installed.run("systemctl", "disable", "--now", "attestgate")
    installed.path("/etc/attestgate/gms-ca.key").write_text("secret")
    installed.path("/etc/attestgate/enrolment/gms-ca.key").write_text("secret")
    installed.run("chmod", "-R", "a+rwX", "/etc/attestgate")
    installed.run("systemctl", "start", "attestgate-gateway")
    assert ask(installed) == "what the service says\n"
    pid = installed.property("attestgate-gateway", "MainPID")
    for path in ["/etc/attestgate/gms-ca.key", "/etc/attestgate/enrolment/gms-ca.key"]:
        assert installed.run("cat", path).stdout == "secret"
        # By root, in what the process sees as its files.
        within = installed.run("nsenter", "--target", pid, "--mount", "cat", path, check=False)
        assert "secret" not in within.stdout
    # One process has these addresses, and it is another unit's: the first gives way.
    installed.run("systemctl", "start", "attestgate")
    assert installed.property("attestgate-gateway", "ActiveState") == "inactive"


def test_enrolment_runs_beside_a_gateway_as_a_user_of_its_own(installed):
    home, own = "/var/lib/attestgate-enrolment", "/etc/attestgate/enrolment"
    installed.run("systemctl", "disable", "--now", "attestgate")
    installed.run("systemctl", "start", "attestgate-gateway")
    installed.run("attestgate", "pki", "init", "--directory", f"{home}/pki", "--host", "localhost", user="attestgate-enrolment")
    text = installed.path(CONF).read_text().replace("/var/lib/attestgate/", f"{home}/").replace(
        "/run/attestgate/", "/run/attestgate-enrolment/")
    installed.path("/etc/attestgate/enrolment.yaml").write_text(text + f"""
apps: [{{id: TEAMID1234.org.example.app, environment: production}}]
registry:
  path: {home}/registry.sqlite
  secret: {home}/challenge.secret
  revocations: /var/lib/attestgate-enrolment-witness/registry.revocations
enrolment:
  address: 127.0.0.1:8444
  url: https://localhost:8444
  tls: {{certificate: {home}/pki/server.pem, key: {home}/pki/server.key}}
  authority: {{certificate: {home}/pki/gms-ca.pem, key: {own}/gms-ca.key}}
  admission: open
""")
    installed.run("install", "-o", "attestgate-enrolment", "-m", "0600", f"{home}/pki/gms-ca.key", f"{own}/gms-ca.key")
    installed.run("systemctl", "start", "attestgate-enrolment")
    nonce = installed.shell(f"curl --silent --fail --cacert {home}/pki/server-ca.pem https://localhost:8444/nonce").stdout
    assert '"nonce"' in nonce
    assert ask(installed) == "what the service says\n"
    assert installed.run("cat", f"{own}/gms-ca.key", user="attestgate", check=False).returncode != 0


def test_a_newer_version_takes_over_without_a_failed_request_and_keeps_conf_file_user_and_data(installed, package):
    edit(installed, "require: certificate", "require: certificate\n    methods: [GET]")
    edited = installed.path(CONF).read_text()
    kept = installed.run("sha256sum", f"{PKI}/server.key").stdout, installed.run("id", "attestgate").stdout
    before = installed.property("attestgate", "MainPID")
    # One after the other on new connections, until the first file is removed; the second one lists the exit statuses.
    question = first_start()[-1]
    asking = threading.Thread(target=installed.shell, args=[
        f"touch /root/asking; while [ -e /root/asking ]; do ({question}) >/dev/null; echo $? >>/root/answers; done"])
    asking.start()
    try:
        eventually(lambda: installed.path("/root/answers").exists(), "the first answer")
        install(installed, package[1])
        since = len(installed.path("/root/answers").read_text().splitlines())
        eventually(lambda: len(installed.path("/root/answers").read_text().splitlines()) > since + 3, "answers of the newer one")
    finally:
        installed.path("/root/asking").unlink(missing_ok=True)
        asking.join()
    assert set(installed.path("/root/answers").read_text().split()) == {"0"}
    assert "+newer" in installed.run("dpkg-query", "--show", "attestgate").stdout
    assert installed.path(CONF).read_text() == edited
    assert (installed.run("sha256sum", f"{PKI}/server.key").stdout, installed.run("id", "attestgate").stdout) == kept
    pid = installed.property("attestgate", "MainPID")
    assert pid not in (before, "0") and f"upgraded: process {pid} serves" in installed.journal("attestgate")
    assert installed.property("attestgate", "NRestarts") == "0"
    # The one before has ended, and the service manager looks after the one that is there.
    eventually(lambda: installed.run("test", "-e", f"/proc/{before}", check=False).returncode == 1, "the one before to end")
    installed.run("systemctl", "reload", "attestgate")
    eventually(lambda: "generation 2" in installed.property("attestgate", "StatusText"), "the reload")
    installed.run("kill", "-9", pid)
    eventually(lambda: installed.property("attestgate", "MainPID") not in (pid, "0"), "another one to be started")
    eventually(lambda: ask(installed) == "what the service says\n", "it to serve")


def test_a_newer_version_that_refuses_the_conf_file_leaves_the_one_before_at_work(installed, package):
    edit(installed, "require: certificate", "requires: certificate")
    before = installed.property("attestgate", "MainPID")
    done = install(installed, package[1])
    assert "did you mean `require`?" in done.stdout + done.stderr
    assert "attestgate.service still runs the previous version" in done.stdout + done.stderr
    assert installed.property("attestgate", "MainPID") == before
    assert ask(installed) == "what the service says\n"


def test_an_upgrade_starts_nothing_that_was_stopped(machine, package):
    install(machine, package[0])
    install(machine, package[1])
    for unit in ["attestgate", "attestgate-gateway", "attestgate-enrolment", "attestgate-backup.timer"]:
        assert machine.property(unit, "ActiveState") == "inactive"
        assert machine.run("systemctl", "is-enabled", unit, check=False).stdout.strip() == "disabled"


def test_removing_keeps_the_data_and_purging_leaves_nothing_personal(installed):
    installed.path("/etc/attestgate/own.pem").write_text("the operator's")
    installed.path("/var/backups/attestgate/own.jsonl").write_text("the operator's")
    installed.path("/var/lib/attestgate-witness/registry.revocations").write_text("journal")
    installed.path("/var/log/attestgate/access.log").write_text("{}\n")
    pid = installed.property("attestgate", "MainPID")
    installed.run("apt-get", "remove", "--yes", "attestgate")
    assert installed.run("test", "-e", f"/proc/{pid}", check=False).returncode == 1
    assert not shutil.which("attestgate", path=str(installed.path("/usr/bin")))
    for path in [CONF, f"{PKI}/server.key", "/var/log/attestgate/access.log"]:
        assert installed.path(path).exists()
    installed.run("apt-get", "purge", "--yes", "attestgate")
    for path in [CONF, "/etc/logrotate.d/attestgate", "/var/lib/attestgate", "/var/lib/attestgate-witness", "/var/log/attestgate"]:
        assert not installed.path(path).exists(), path
    assert installed.path("/etc/attestgate/own.pem").exists()
    assert installed.path("/var/backups/attestgate/own.jsonl").exists()
    assert installed.run("id", "attestgate").returncode == 0
