"""`attestgate device`: an operator's way to the registry, here without a gateway."""

import base64
import fcntl
import hashlib
import json
import os
import re
import sqlite3
import subprocess

import pytest

from support import least_conf
from support.paths import BINARY, ENVIRONMENT, PATIENCE
from support.pki import attestgate, openssl

APP = "ABCDE12345.org.example.app"
CONF = least_conf.CONF + """\
registry:
  path: {directory}/registry.db
  secret: {directory}/challenge.secret
apps:
  - id: ABCDE12345.org.example.app
    environment: development
administration:
  socket: {directory}/admin.sock
"""
MEMBERS = {
    "device", "key_id", "app_id", "platform", "environment", "state", "registered_at", "approved_at", "revoked_at",
    "last_seen", "counter", "subject", "shown_extensions", "bindings", "receipt", "os_version", "phone",
    "posture", "signals"}
DETAILS = ("bindings", "receipt", "os_version", "phone", "posture", "signals")
SPKI_LENGTH = 91


class Key:
    """A P-256 key in every form that the command takes."""

    def __init__(self, pki, directory, name):
        self.path = directory / f"{name}.key"
        pki.generate_key(self.path, "P-256")
        self.public_path = directory / f"{name}.pub"
        openssl("pkey", "-in", self.path, "-pubout", "-out", self.public_path)
        spki = base64.b64decode("".join(self.public_path.read_text().splitlines()[1:-1]))
        assert len(spki) == SPKI_LENGTH
        self.point = spki[-65:]
        self.spki64 = base64.b64encode(spki).decode()
        self.point64 = base64.b64encode(self.point).decode()
        self.digest = hashlib.sha256(self.point).digest()
        self.id = base64.b64encode(self.digest).decode()


@pytest.fixture
def new_key(pki, tmp_path):
    names = iter(range(1000))
    return lambda: Key(pki, tmp_path, f"key-{next(names)}")


@pytest.fixture
def conf(pki, tmp_path):
    path = tmp_path / "attestgate.yaml"
    path.write_text(CONF.format(pki=pki.directory, directory=tmp_path))
    return path


@pytest.fixture
def device(conf):
    """Runs a `device` command that must succeed. - Returns: what it prints, as JSON."""
    def run(command, *arguments):
        done = attestgate("device", command, "--config", conf, "--json", *arguments)
        assert (done.returncode, done.stderr) == (0, "")
        return json.loads(done.stdout)
    return run


@pytest.fixture
def refused(conf):
    """Runs a `device` command that must fail with status 1. - Returns: what it says."""
    def run(command, *arguments):
        done = attestgate("device", command, "--config", conf, *arguments)
        assert (done.returncode, done.stdout) == (1, "")
        return done.stderr
    return run


def add(device, new_key):
    hardware, certificate = new_key(), new_key()
    return device(
        "add", "--app-id", APP, "--public-key", hardware.point64, "--certificate-key", certificate.point64)


def test_a_device_is_added_shown_listed_revoked_and_restored(device, new_key):
    hardware, certificate = new_key(), new_key()
    added = device("add", "--app-id", APP, "--public-key", hardware.point64, "--certificate-key", certificate.point64)
    assert set(added) == MEMBERS
    assert (added["device"], added["key_id"], added["app_id"]) == (1, hardware.id, APP)
    assert (added["platform"], added["environment"], added["state"]) == ("ios", "development", "active")
    assert (added["counter"], added["revoked_at"]) == (0, None)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", added["registered_at"])
    assert added["bindings"] == [
        {"key_id": certificate.id, "created_at": added["registered_at"], "ended_at": None, "ends_at": None}]
    assert added["posture"] == {
        "platform": "ios", "environment": "development", "admission": "operator", "enrolled_at": added["registered_at"],
        "bound_at": added["registered_at"]}, "nothing attested it"
    assert device("show", "1") == added
    listed = {name: value for name, value in added.items() if name not in DETAILS}
    assert device("list") == {"devices": [listed], "next": None}
    revoked = device("revoke", hardware.id)
    assert revoked["state"] == "revoked" and revoked["revoked_at"]
    assert device("show", "1") == revoked
    assert device("restore", certificate.digest.hex()) == added


def test_devices_are_listed_by_conditions(device, new_key):
    devices = [add(device, new_key)["device"] for _ in range(3)]
    device("revoke", str(devices[1]))

    def listed(*options):
        return [entry["device"] for entry in device("list", *options)["devices"]]
    assert listed("--status", "active") == [devices[0], devices[2]]
    assert listed("--status", "revoked", "--platform", "ios") == [devices[1]]
    assert listed("--app", "ABCDE12345.org.example.app", "--limit", "2") == devices[:2]
    assert listed("--app", "ABCDE12345.org.example.other") == listed("--platform", "android") == []
    assert listed("--seen-since", "2020-01-01") == listed("--subject", "A" * 43 + "=") == []
    assert listed("--seen-before", "2020-01-01", "--status", "active") == [devices[0], devices[2]]


def test_a_pending_device_is_listed_and_approved(device, new_key, tmp_path):
    add(device, new_key)
    pending = add(device, new_key)
    assert device("list", "--pending") == {"devices": [], "next": None}
    # As enrolment leaves it.
    store = sqlite3.connect(tmp_path / "registry.db")
    with store:
        store.execute("DELETE FROM binding WHERE device = 2")
        store.execute("UPDATE device SET activated_at = NULL WHERE id = 2")
    store.close()
    listed = device("list", "--pending")["devices"]
    assert [(entry["device"], entry["state"], entry["approved_at"]) for entry in listed] == [(2, "pending", None)]
    approved = device("approve", pending["key_id"])
    assert (approved["state"], approved["bindings"]) == ("pending", [])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", approved["approved_at"])
    assert device("approve", "2") == approved


def test_a_fresh_epoch_is_drawn_on_the_file(device, conf, new_key, tmp_path):
    def epoch():
        store = sqlite3.connect(tmp_path / "registry.db")
        found = store.execute("SELECT epoch FROM store").fetchone()[0]
        store.close()
        return found
    command = ("registry", "renew-epoch", "--config", conf)
    done = attestgate(*command)
    assert (done.returncode, done.stdout) == (1, "")
    assert "registry.db: no such file" in done.stderr
    add(device, new_key)
    before = epoch()
    assert attestgate(*command).returncode == 0
    assert epoch() != before


def test_every_form_of_a_key_means_the_same_device(device, pki, new_key, tmp_path):
    for form in ["point64", "spki64", "path", "public_path", "certificate"]:
        hardware, certificate = new_key(), new_key()
        certificate.certificate = tmp_path / f"{form}.pem"
        done = attestgate(
            "pki", "issue", "--directory", pki.directory, "--certificate-key", certificate.path,
            "--out", certificate.certificate)
        assert done.returncode == 0, done.stderr
        added = device(
            "add", "--app-id", APP, "--public-key", hardware.spki64, "--certificate-key", getattr(certificate, form))
        assert added["key_id"] == hardware.id
        assert [binding["key_id"] for binding in added["bindings"]] == [certificate.id]
        for name in [hardware.id, hardware.digest.hex(), base64.urlsafe_b64encode(hardware.digest).decode().rstrip("=")]:
            # A key id may begin with what looks like an option.
            assert device("show", "--", name) == added


def test_a_long_list_comes_in_pages(device, conf, new_key):
    for _ in range(3):
        add(device, new_key)
    page = device("list", "--limit", "2")
    assert [entry["device"] for entry in page["devices"]] == [1, 2]
    assert page["next"] == 2
    page = device("list", "--after", "2", "--limit", "2")
    assert ([entry["device"] for entry in page["devices"]], page["next"]) == ([3], None)
    text = attestgate("device", "list", "--config", conf, "--limit", "2").stdout
    lines = text.splitlines()
    assert lines[0].split() == ["DEVICE", "STATE", "APP", "PLATFORM", "ENVIRONMENT", "COUNTER", "REGISTERED",
        "LAST", "SEEN", "KEY", "ID"]
    assert lines[1].split()[:3] == ["1", "active", APP]
    assert len({line.index("ios") for line in lines[1:3]}) == 1, "the columns are aligned"
    assert lines[-1] == "there are more: --after 2"


def test_the_text_output_shows_a_device_with_its_bindings(device, conf, new_key):
    added = add(device, new_key)
    done = attestgate("device", "show", "--config", conf, "1")
    assert (done.returncode, done.stderr) == (0, "")
    shown = dict(re.split(r"  +", line, maxsplit=1) for line in done.stdout.splitlines())
    assert (shown["device"], shown["state"], shown["key id"]) == ("1", "active", added["key_id"])
    assert shown["certificate key"].startswith(added["bindings"][0]["key_id"])


def test_a_key_is_registered_once_and_bound_once(device, refused, new_key):
    hardware, certificate = new_key(), new_key()
    keys = ["--public-key", hardware.point64, "--certificate-key", certificate.point64]
    device("add", "--app-id", APP, *keys)
    assert "hardware key is already registered" in refused("add", "--app-id", APP, *keys)
    keys[1] = new_key().point64
    assert "is or was bound" in refused("add", "--app-id", APP, *keys)
    assert len(device("list")["devices"]) == 1


def test_an_app_that_is_not_configured_is_refused(refused, new_key):
    keys = ["--public-key", new_key().point64, "--certificate-key", new_key().point64]
    app = "ABCDE12345.org.example.other"
    assert f"the app `{app}` is not configured" in refused("add", "--app-id", app, *keys)
    assert "`development`" in refused("add", "--app-id", APP, "--environment", "production", *keys)


def test_a_key_off_the_curve_is_refused(refused, pki, new_key, tmp_path):
    good = new_key()
    off = base64.b64encode(good.point[:-1] + bytes([good.point[-1] ^ 1])).decode()
    compressed = base64.b64encode(bytes([2 + good.point[-1] % 2]) + good.point[1:33]).decode()
    pki.generate_key(tmp_path / "p384.key", "P-384")
    (tmp_path / "empty.pem").write_text("")
    for public, certificate, word in [
        (off, good.point64, "P-256"), (compressed, good.point64, "point"), ("!", good.point64, "base64"),
        (good.point64, off, "P-256"), (good.point64, tmp_path / "p384.key", "P-256"),
        (good.point64, tmp_path / "empty.pem", "PEM"), (good.point64, tmp_path / "nowhere.pem", "base64"),
        (good.point64, tmp_path, "be read"),
    ]:
        said = refused("add", "--app-id", APP, "--public-key", public, "--certificate-key", certificate)
        assert word in said, said


def test_an_unknown_device_is_refused(device, refused, new_key):
    add(device, new_key)
    for command in ["show", "revoke", "restore"]:
        for name in ["7", new_key().id]:
            assert "no such device" in refused(command, "--", name)


def test_the_app_id_tells_the_platform(conf, device, refused, new_key):
    conf.write_text(conf.read_text().replace(
        f"- id: {APP}", f"- id: android:org.example.app\n    environment: production\n  - id: {APP}"))
    android = "android:org.example.app"
    for app, arguments, platform in [
        (android, (), "android"), (android, ("--platform", "android"), "android"), (APP, (), "ios"),
        (APP, ("--platform", "macos"), "macos"),
    ]:
        added = device(
            "add", "--app-id", app, "--public-key", new_key().point64, "--certificate-key", new_key().point64, *arguments)
        assert (added["app_id"], added["platform"]) == (app, platform)
        assert device("show", str(added["device"])) == added
    keys = ("--public-key", new_key().point64, "--certificate-key", new_key().point64)
    for app, platform in [(android, "ios"), (APP, "android")]:
        said = refused("add", "--app-id", app, *keys, "--platform", platform)
        assert f"the platform {platform} is not that of the app `{app}`" in said
        line = json.dumps({"app_id": app, "public_key": keys[1], "certificate_key": keys[3], "platform": platform})
        assert "devices:1: The member 'platform'" in refused("import", write(conf.parent / "devices", line))


def write(path, text):
    path.write_text(text + "\n")
    return path


def test_only_adding_makes_a_registry(refused, tmp_path):
    assert f"{tmp_path}/registry.db: no such file" in refused("list")
    assert not (tmp_path / "registry.db").exists()


def test_a_registry_in_use_is_untouched_when_no_gateway_answers(device, refused, new_key, tmp_path):
    add(device, new_key)
    with open(tmp_path / "registry.db.lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert f"in use by another process, but no gateway answers at {tmp_path}/admin.sock" in refused("revoke", "1")
    assert device("show", "1")["state"] == "active"


def test_commands_that_meet_wait_for_each_other(conf, device, new_key):
    for _ in range(4):
        add(device, new_key)
    commands = [
        subprocess.Popen(
            [BINARY, "device", "revoke", "--config", conf, str(number)], stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=ENVIRONMENT)
        for number in range(1, 5)]
    for command in commands:
        _, said = command.communicate(timeout=PATIENCE)
        assert (command.returncode, said) == (0, b"")
    assert {entry["state"] for entry in device("list")["devices"]} == {"revoked"}


def test_a_conf_file_without_a_registry_is_refused(conf, refused):
    text = conf.read_text()
    conf.write_text(text[:text.index("registry:")])
    assert "no section `registry`" in refused("list")


def test_the_file_is_readable_by_its_owner_alone(device, new_key, tmp_path):
    add(device, new_key)
    for path in tmp_path.glob("registry.db*"):
        assert path.stat().st_mode & 0o777 == 0o600, path


def test_a_registry_in_another_users_directory_is_made_with_a_warning(conf, new_key, tmp_path):
    """The gateway's user could not open what root created."""
    if os.geteuid() != 0:
        pytest.skip("only root can give a directory away")
    home = tmp_path / "home"
    home.mkdir()
    os.chown(home, 65534, 65534)
    conf.write_text(conf.read_text().replace(f"{tmp_path}/registry.db", f"{home}/registry.db"))
    hardware, certificate = new_key(), new_key()
    keys = ["--public-key", hardware.point64, "--certificate-key", certificate.point64]
    done = attestgate("device", "add", "--config", conf, "--app-id", APP, *keys)
    assert done.returncode == 0 and f"warning: {home}/ belongs to uid 65534, but this process has uid 0: " in done.stderr
    # Nothing is created now.
    assert attestgate("device", "show", "--config", conf, "1").stderr == ""


@pytest.mark.parametrize("arguments", [
    [], ["frobnicate"], ["list", "--config"], ["show"], ["show", "nonsense"], ["show", "0"], ["show", "-1"], ["revoke", "1", "2"],
    ["list", "--status", "activve"], ["list", "--platform", "linux"], ["list", "--app", "x"], ["list", "--subject", "x"],
    ["list", "--seen-before", "27.11.2026"], ["list", "--seen-since", "2026-02-30"], ["list", "--seen-since", ""],
    ["list", "--pending", "--status", "active"], ["list", "--limit", "0"], ["list", "--limit", "10001"], ["list", "--after=-1"], ["list", "--limit", "x"],
    ["add"], ["add", "--app-id", "x", "--public-key", "x", "--certificate-key", "x"],
    ["add", "--app-id", APP, "--public-key", "x"],
    ["add", "--app-id", APP, "--public-key", "x", "--certificate-key", "x", "--platform", "iOS"],
    ["add", "--app-id", APP, "--public-key", "x", "--certificate-key", "x", "--environment", "test"],
])
def test_wrong_usage_has_its_own_exit_status(conf, arguments):
    config = [] if arguments in ([], ["list"], ["frobnicate"]) else ["--config", conf]
    done = attestgate("device", *arguments, *config)
    if not arguments:
        # Help is what was asked for.
        assert (done.returncode, "SUBCOMMANDS" in done.stdout) == (0, True)
        return
    assert (done.returncode, done.stdout) == (2, "")
    assert "Usage:" in done.stderr
