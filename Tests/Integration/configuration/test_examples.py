"""conf/examples: each is taken as it stands, with the files it names in their places."""

import os
import re
import secrets
import shutil
import subprocess

import pytest
import yaml

from support.paths import BINARY, PATIENCE, REPOSITORY
from support.pki import attestgate, openssl

EXAMPLES = sorted((REPOSITORY / "conf/examples").glob("*.yaml"))
PLACES = ["/etc/attestgate", "/var/lib/attestgate", "/var/lib/attestgate-witness", "/var/log/attestgate", "/run/attestgate"]
HOSTS = {"records": "records.example.org", "images": "images.example.org"}


def make(pki, etc, name):
    """Makes the file of that name, of the kind that its name says."""
    path, stem = etc / name, name.rsplit(".", 1)[0]
    if name == "gms-ca.pem":
        path.write_bytes(pki.gms.certificate.read_bytes())
    elif name == "gms-ca.key":
        openssl("pkcs8", "-topk8", "-in", pki.gms.key, "-out", path, "-passout", "pass:correct horse")
    elif name == "gms-ca.crl":
        pki.crl(path, pki.gms)
    elif name.endswith("-ca.pem"):
        path.write_bytes(pki.authority(f"example-{stem}").certificate.read_bytes())
    elif name == "login.pem":
        pki.generate_key(etc / "login.key", "P-256")
        openssl("pkey", "-in", etc / "login.key", "-pubout", "-out", path)
    elif name.endswith(".p8"):
        pki.generate_key(path, "P-256")
    elif name.endswith((".pem", ".key")):
        extensions = f"extendedKeyUsage=serverAuth\nsubjectAltName=DNS:{HOSTS.get(stem, 'records.example.org')}\n"
        made = pki.client(f"example-{stem}", issuer=pki.server_authority, extensions=extensions)
        (etc / f"{stem}.pem").write_bytes(made.certificate.read_bytes())
        path = etc / f"{stem}.key"
        path.write_bytes(made.key.read_bytes())
    elif name.endswith(".passphrase"):
        path.write_text("correct horse\n")
    elif name.endswith((".password", ".token")):
        path.write_text(secrets.token_urlsafe(32) + "\n")
    else:
        # A file that the gateway makes for itself.
        return
    path.chmod(0o600)


@pytest.fixture
def installed(pki, tmp_path):
    """Installs an example below a directory. - Returns: its path there."""
    def install(example):
        text = example.read_text()
        for name in sorted(set(re.findall(r"/etc/attestgate/([\w.-]+)", text))):
            (tmp_path / "etc/attestgate").mkdir(parents=True, exist_ok=True)
            make(pki, tmp_path / "etc/attestgate", name)
        for place in PLACES:
            (tmp_path / place[1:]).mkdir(parents=True, exist_ok=True)
            text = text.replace(place + "/", f"{tmp_path}{place}/")
        conf = tmp_path / "etc/attestgate/attestgate.yaml"
        conf.write_text(text)
        return conf
    return install


def test_there_is_an_example_for_each_kind_of_set_up():
    assert [path.stem for path in EXAMPLES] == ["cluster", "enrolment", "load-balancer", "minimal", "two-services"]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_loads_and_only_foreign_host_names_and_this_machines_limit_are_warned_of(installed, example):
    done = attestgate("check", "--config", installed(example))
    assert done.returncode == 0, done.stderr
    assert ": ok (1 listener, " in done.stdout
    warnings = [line for line in done.stderr.splitlines() if ": warning: " in line]
    foreign = r"\S+:\d+ cannot be resolved now|this process can open \d+ files, and the configuration can require"
    assert [line for line in warnings if not re.search(foreign, line)] == []
    assert ": error: " not in done.stderr


def test_a_gateway_of_the_enrolment_example_opens_nothing_of_the_authority(installed):
    conf = installed(next(path for path in EXAMPLES if path.stem == "enrolment"))
    for name in ["gms-ca.key", "gms-ca.passphrase", "login.pem", "AuthKey_B1C2D3E4F5.p8", "enrolment.pem", "enrolment.key"]:
        (conf.parent / name).unlink()
    done = attestgate("check", "--config", conf, "--role", "gateway")
    assert done.returncode == 0, done.stderr
    assert attestgate("check", "--config", conf, "--role", "enrolment").returncode == 1


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_a_witness_is_never_in_the_directory_it_protects(example):
    registry = yaml.safe_load(example.read_text()).get("registry")
    if not registry:
        pytest.skip("it has no registry")
    watched = {os.path.dirname(path) for path in [registry.get("path"), registry["secret"]] if path}
    assert os.path.dirname(registry["revocations"]) not in watched


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_logrotate_uses_the_examples_socket_and_log(example):
    conf, snippet = yaml.safe_load(example.read_text()), (REPOSITORY / "conf/logrotate/attestgate").read_text()
    if "administration" in conf:
        assert re.findall(r"test ! -S (\S+)", snippet) == [conf["administration"]["socket"]]
    if "access" in conf.get("log", {}):
        assert re.findall(r"^(/\S+) \{", snippet, re.MULTILINE) == [conf["log"]["access"]]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_the_unit_makes_every_directory_that_an_example_writes_in(example):
    unit = (REPOSITORY / "conf/systemd/attestgate.service").read_text()
    roots = {"RuntimeDirectory": "/run", "StateDirectory": "/var/lib", "LogsDirectory": "/var/log"}
    made = {f"{root}/{name}" for key, root in roots.items()
            for line in re.findall(rf"^{key}=(.*)$", unit, re.MULTILINE) for name in line.split()}
    conf = yaml.safe_load(example.read_text())
    written = [conf.get("registry", {}).get(key) for key in ["path", "secret", "revocations"]]
    written += [conf.get("administration", {}).get("socket"), conf.get("log", {}).get("access")]
    assert {os.path.dirname(path) for path in written if path} <= made
    if any(int(listener["address"].rsplit(":", 1)[1]) < 1024 for listener in conf["listeners"]):
        assert "AmbientCapabilities=CAP_NET_BIND_SERVICE\n" in unit


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is not installed")
def test_systemd_takes_the_units(tmp_path):
    for unit in (REPOSITORY / "conf/systemd").iterdir():
        (tmp_path / unit.name).write_text(unit.read_text().replace("/usr/bin/attestgate", str(BINARY)))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *sorted(tmp_path.iterdir())], capture_output=True, text=True, timeout=PATIENCE)
    # It looks at units of this machine that these name, too: theirs are not our faults.
    assert [line for line in (done.stdout + done.stderr).splitlines() if "attestgate" in line] == []


def test_a_backup_may_be_made_twice_a_day():
    """The command as systemd hands it to the shell, %% being %."""
    unit = (REPOSITORY / "conf/systemd/attestgate-backup.service").read_text()
    command, = re.findall(r"^ExecStart=/bin/sh -c '(.*)'$", unit, re.MULTILINE)
    assert "$(date +%%F-%%H%%M%%S).jsonl" in command
