"""A registry that is put back as it was finds that out by itself: no proof passes twice, and nobody who was revoked is back."""

import base64
import json
import shutil
import subprocess

import pytest

from support.attested import OTHER_APP, ROUTES
from support.client import get
from support.denials import assert_denied
from support.gateway import APP, Gateway
from support.phone import Phone
from support.pki import attestgate
from support.postgresql import PostgreSQL
from support.waiting import eventually

APPS = [{"id": APP, "environment": "simulator", "counter": "window 1024"},
        {"id": OTHER_APP, "environment": "simulator", "counter": "strict"}]


@pytest.fixture
def make(pki, own_upstream, tmp_path):
    """Makes a gateway, its witness apart from its registry."""
    made = []

    def make(**registry):
        (tmp_path / "aside").mkdir()
        made.append(Gateway(
            tmp_path, pki, {"service": own_upstream.address}, ROUTES, apps=APPS,
            registry={**registry, "revocations": str(tmp_path / "aside" / "revocations")}))
        return made[-1]
    yield make
    for gateway in made:
        gateway.stop()


def state(gateway, phone):
    return json.loads(gateway.device_command("show", "--json", str(phone.number)))["state"]


def spend_and_put_back(gateway, pki, name, keep, put_back):
    """What has passed between does not pass again, and a phone that was revoked is not back; honest ones go on."""
    gateway.start()
    phone, thief = Phone(gateway, pki.phone(name)), Phone(gateway, pki.phone(f"{name}-thief"))
    with phone.connect() as client:
        assert client.exchange(phone.request(path="/a")).status == 200
    gateway.halt()
    keep()
    gateway.start()
    with phone.connect() as client:
        sent = [phone.request(path="/a") for _ in range(3)]
        for data in sent:
            assert client.exchange(data).status == 200
    gateway.device_command("revoke", str(thief.number))
    gateway.halt()
    assert "new epoch" not in gateway.errors
    put_back()
    gateway.start()
    assert gateway.errors.count("repeated all revocations and ends of bindings from the revocation journal, "
                                "and started a new epoch") == 1, gateway.errors
    assert state(gateway, thief) == "revoked"
    with phone.connect() as client:
        for data in sent:
            assert_denied(gateway, client.exchange(data), "challenge_required", 401)
        phone.kept = None
        assert client.exchange(phone.request(path="/a")).status == 200


def test_a_rolled_back_registry_file_lets_no_proof_pass_twice(make, pki, tmp_path):
    path = tmp_path / "registry.sqlite"
    gateway = make(path=str(path))
    spend_and_put_back(
        gateway, pki, "put-back", lambda: shutil.copy(path, tmp_path / "copy"), lambda: shutil.copy(tmp_path / "copy", path))


def test_an_older_file_under_a_newer_log_is_refused_until_the_log_is_removed(make, pki, tmp_path):
    path, log = tmp_path / "registry.sqlite", tmp_path / "registry.sqlite-wal"
    gateway = make(path=str(path))
    gateway.start()
    phone, thief = Phone(gateway, pki.phone("older")), Phone(gateway, pki.phone("older-thief"))
    gateway.halt()
    shutil.copy(path, tmp_path / "copy")
    gateway.start()
    sent = phone.request(path="/a")
    with phone.connect() as client:
        assert client.exchange(sent).status == 200
    gateway.device_command("revoke", str(thief.number))
    # What is in the log now is moved by the next start.
    gateway.crash()
    gateway.start()
    assert "registry: " not in gateway.errors
    gateway.device_command("restore", str(phone.number))
    gateway.crash()
    shutil.copy(tmp_path / "copy", path)
    for command in [["run"], ["device", "list"]]:
        done = attestgate(*command, "--config", gateway.conf_path)
        assert done.returncode == 1
        assert "older than its log" in done.stderr
    log.unlink()
    gateway.start()
    assert "started a new epoch" in gateway.errors
    assert state(gateway, thief) == "revoked"
    with phone.connect() as client:
        assert_denied(gateway, client.exchange(sent), "challenge_required", 401)
        phone.kept = None
        assert client.exchange(phone.request(path="/a")).status == 200


def test_a_rolled_back_postgresql_data_directory_lets_no_proof_pass_twice(make, pki):
    database = PostgreSQL()
    copy = database.directory / "copy"

    def replace(source, target):
        database.stop()
        shutil.rmtree(target, ignore_errors=True)
        subprocess.run(["cp", "-a", source, target], check=True)
        database.start()
    try:
        gateway = make(postgresql=database.conf)
        spend_and_put_back(
            gateway, pki, "put-back-pg", lambda: replace(database.data, copy), lambda: replace(copy, database.data))
        gateway.halt()
    finally:
        database.close()


def test_without_its_journal_the_gateway_starts_only_if_the_operator_accepts_the_loss(make, pki, tmp_path):
    gateway = make(path=str(tmp_path / "registry.sqlite"))
    gateway.start()
    phone = Phone(gateway, pki.phone("lost"))
    with phone.connect() as client:
        sent = phone.request(path="/a")
        assert client.exchange(sent).status == 200
    gateway.halt()
    (tmp_path / "aside" / "revocations").unlink()
    for command in [["run"], ["device", "list"]]:
        done = attestgate(*command, "--config", gateway.conf_path)
        assert done.returncode == 1
        assert "--accept-lost-revocations" in done.stderr
    gateway.arguments = ["--accept-lost-revocations"]
    gateway.start()
    assert "LOST, as accepted" in gateway.errors
    with phone.connect() as client:
        assert_denied(gateway, client.exchange(sent), "challenge_required", 401)
        phone.kept = None
        assert client.exchange(phone.request(path="/a")).status == 200
    gateway.halt()
    # Left in place, the flag does nothing.
    gateway.start()
    assert "registry: " not in gateway.errors


def test_a_command_without_a_gateway_keeps_the_journal(make, pki, tmp_path):
    gateway = make(path=str(tmp_path / "registry.sqlite"))
    gateway.start()
    phone = Phone(gateway, pki.phone("by-hand"))
    gateway.halt()
    done = attestgate("device", "revoke", "--config", gateway.conf_path, phone.number)
    assert done.returncode == 0, done.stderr
    lines = (tmp_path / "aside" / "revocations").read_text().splitlines()
    assert [line.split()[0] for line in lines] == ["attestgate", "revoked"]


def assert_an_export_of_before_revives_nobody(gateway, pki, tmp_path, name, lose):
    """`lose` takes the registry away, and leaves what lies outside."""
    gateway.start()
    kept, early = Phone(gateway, pki.phone(name)), Phone(gateway, pki.phone(f"{name}-early"))
    thief = Phone(gateway, pki.phone(f"{name}-thief"))
    gateway.device_command("revoke", str(early.number))
    with kept.connect() as client:
        sent = kept.request(path="/a")
    export = tmp_path / "export.jsonl"
    done = attestgate("registry", "export", "--config", gateway.conf_path, export)
    assert done.returncode == 0, done.stderr
    gateway.device_command("revoke", str(thief.number))
    with kept.connect() as client:
        assert client.exchange(sent).status == 200
    gateway.halt()
    lose()
    done = attestgate("registry", "import", "--config", gateway.conf_path, export)
    assert done.returncode == 0, done.stderr
    gateway.start()
    listed = json.loads(gateway.device_command("list", "--json"))["devices"]
    states = {device["key_id"]: device["state"] for device in listed}
    assert [states[base64.b64encode(phone.key.key_id).decode()] for phone in [kept, early, thief]] == ["active", "revoked", "revoked"]
    with kept.connect() as client:
        assert_denied(gateway, client.exchange(sent), "challenge_required", 401)
        kept.kept = None
        assert client.exchange(kept.request(path="/a")).status == 200
    gateway.halt()
    # The next start finds nothing more to do.
    gateway.start()
    assert "registry: " not in gateway.errors


def test_an_export_from_before_a_revocation_restores_no_device(make, pki, tmp_path):
    path = tmp_path / "registry.sqlite"

    def lose():
        for suffix in ["", "-wal", "-shm", ".lock"]:
            (tmp_path / f"registry.sqlite{suffix}").unlink(missing_ok=True)
    assert_an_export_of_before_revives_nobody(make(path=str(path)), pki, tmp_path, "imported", lose)


def test_an_import_into_a_new_database_restores_no_revoked_device(make, pki, tmp_path):
    database = PostgreSQL()

    def lose():
        database.sql("DROP DATABASE attestgate")
        database.sql("CREATE DATABASE attestgate OWNER attestgate")
    try:
        gateway = make(postgresql=database.conf)
        assert_an_export_of_before_revives_nobody(gateway, pki, tmp_path, "imported-pg", lose)
        gateway.halt()
    finally:
        database.close()


def test_revocations_of_an_import_are_in_the_journal(make, pki, tmp_path):
    gateway = make(path=str(tmp_path / "registry.sqlite"))
    gateway.start()
    phone = Phone(gateway, pki.phone("moved"))
    gateway.device_command("revoke", str(phone.number))
    export = tmp_path / "export.jsonl"
    assert attestgate("registry", "export", "--config", gateway.conf_path, export).returncode == 0
    gateway.halt()
    # Another machine, which has neither registry nor journal.
    for path in [*tmp_path.glob("registry.sqlite*"), *(tmp_path / "aside").iterdir()]:
        path.unlink()
    done = attestgate("registry", "import", "--config", gateway.conf_path, "--accept-lost-revocations", export)
    assert done.returncode == 0, done.stderr
    lines = (tmp_path / "aside" / "revocations").read_text().splitlines()
    assert [line.split()[0] for line in lines] == ["attestgate", "revoked"]


def lost_file(tmp_path):
    path = tmp_path / "registry.sqlite"

    def lose(empty=False):
        for suffix in ["", "-wal", "-shm", ".lock"]:
            (tmp_path / f"registry.sqlite{suffix}").unlink(missing_ok=True)
        if empty:
            path.touch()

    def is_made():
        return (path.exists() and path.stat().st_size > 0) or (tmp_path / "registry.sqlite.lock").exists()
    return {"path": str(path)}, lose, is_made


def lost_database(database):
    def lose(empty=False):
        database.sql("DROP SCHEMA attestgate CASCADE", database="attestgate")
        if empty:
            database.sql("CREATE SCHEMA attestgate AUTHORIZATION attestgate", database="attestgate")

    def is_made():
        return "schema_version" in database.sql(
            "SELECT string_agg(relname, ' ') FROM pg_class", database="attestgate")
    return {"postgresql": database.conf}, lose, is_made


@pytest.fixture(params=["file", "database"])
def losing(request, tmp_path):
    """A registry's section, how it is lost, and whether it has been created again."""
    if request.param == "file":
        yield lost_file(tmp_path)
        return
    database = PostgreSQL()
    yield lost_database(database)
    database.close()


def assert_refused(gateway, flag, *command):
    done = attestgate(*(command or ["run"]), "--config", gateway.conf_path)
    assert done.returncode == 1, done.stdout
    assert flag in done.stderr, done.stderr


@pytest.mark.parametrize("empty", [False, True], ids=["missing", "empty"])
def test_a_lost_registry_is_recreated_only_if_the_operator_accepts_it(make, pki, losing, empty):
    section, lose, is_made = losing
    gateway = make(**section)
    gateway.start()
    Phone(gateway, pki.phone("gone"))
    thief = Phone(gateway, pki.phone("gone-thief"))
    gateway.device_command("revoke", str(thief.number))
    gateway.halt()
    lose(empty)
    assert_refused(gateway, "the registry is missing or empty")
    assert_refused(gateway, "--accept-lost-registry")
    if "path" in section:
        assert_refused(gateway, "the registry is missing or empty", "device", "list")
        assert_refused(gateway, "the registry is missing or empty", "registry", "export")
    else:
        assert_refused(gateway, "", "registry", "export")
    assert not is_made()
    gateway.arguments = ["--accept-lost-registry"]
    gateway.start()
    assert "created a new one WITHOUT DEVICES, as accepted" in gateway.errors
    assert json.loads(gateway.device_command("list", "--json"))["devices"] == []
    Phone(gateway, pki.phone("gone-again"))
    gateway.halt()
    # Left in place, the flag does nothing.
    gateway.start()
    assert "registry: " not in gateway.errors
    assert len(json.loads(gateway.device_command("list", "--json"))["devices"]) == 1


def test_a_gateway_whose_database_is_emptied_makes_no_tables(make, pki):
    database = PostgreSQL()
    try:
        section, lose, is_made = lost_database(database)
        gateway = make(**section)
        gateway.start()
        phone = Phone(gateway, pki.phone("emptied"))
        lose()
        eventually(lambda: "cannot be reopened" in gateway.errors and "the registry is missing or empty" in gateway.errors,
                   lambda: gateway.errors)
        with phone.connect() as client:
            assert_denied(gateway, client.exchange(get("/.well-known/attestgate/challenge")), "store_unavailable", 503)
        assert not is_made()
        gateway.halt()
        assert not is_made()
    finally:
        database.close()


def test_a_lost_secret_is_recreated_beside_devices_only_if_accepted(make, pki, losing, tmp_path):
    section, _, _ = losing
    gateway = make(**section)
    gateway.start()
    gateway.halt()
    secret = tmp_path / "secret"
    # Nobody has a name yet; but other gateways may use the database, with the previous secret.
    first = secret.read_text()
    secret.unlink()
    if "postgresql" in section:
        assert_refused(gateway, "copy it from another gateway")
        secret.write_text(first)
        secret.chmod(0o600)
    gateway.start()
    phone = Phone(gateway, pki.phone("named"))
    kept = secret.read_text()
    secret.unlink()
    # A reload makes none either.
    done = attestgate("reload", "--config", gateway.conf_path)
    assert done.returncode == 1 and "the file is missing: restore it" in done.stderr, done.stderr
    gateway.halt()
    assert_refused(gateway, "--accept-new-secret")
    assert not secret.exists()
    if "postgresql" not in section:
        done = attestgate("check", "--config", gateway.conf_path)
        assert done.returncode == 0 and f"warning: the secret {secret} is missing, but the registry exists" in done.stderr
    # Nor is it used with another one.
    changed = kept[:kept.index("pseudonyms ")] + "pseudonyms " + "5" * 64 + "\n"
    secret.write_text(changed)
    secret.chmod(0o600)
    assert_refused(gateway, f"{secret}: the registry")
    assert_refused(gateway, "uses another secret: services would see every device as a new one")
    secret.write_text(kept)
    secret.chmod(0o600)
    gateway.start()
    with phone.connect() as client:
        assert client.exchange(phone.request(path="/a")).status == 200
    secret.write_text(changed)
    done = attestgate("reload", "--config", gateway.conf_path)
    assert done.returncode == 1 and "the line `pseudonyms` has changed" in done.stderr, done.stderr
    gateway.halt()
    secret.unlink()
    gateway.arguments = ["--accept-new-secret"]
    gateway.start()
    made = f"registry: created a new secret, {secret}, as accepted: "
    eventually(lambda: made in gateway.errors, lambda: f"the notice\n{gateway.errors}")
    assert secret.read_text() != kept


def test_an_import_without_a_journal_is_refused_until_the_stated_loss_is_accepted(make, pki, losing, tmp_path):
    section, lose, is_made = losing
    gateway = make(**section)
    gateway.start()
    thief = Phone(gateway, pki.phone("journal-gone"))
    export = tmp_path / "export.jsonl"
    assert attestgate("registry", "export", "--config", gateway.conf_path, export).returncode == 0
    gateway.device_command("revoke", str(thief.number))
    gateway.halt()
    lose()
    journal = tmp_path / "aside" / "revocations"
    journal.rename(tmp_path / "journal")
    done = attestgate("registry", "import", "--config", gateway.conf_path, export)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"there is no revocation journal at {journal}" in done.stderr and "--accept-lost-revocations" in done.stderr
    assert not is_made()
    done = attestgate("registry", "import", "--config", gateway.conf_path, "--accept-lost-revocations", export)
    assert done.returncode == 0, done.stderr
    assert "is NOT revoked: repeat it" in done.stderr and "repeated all" not in done.stderr
    gateway.start()
    assert "repeated all" not in gateway.errors
    listed = json.loads(gateway.device_command("list", "--json"))["devices"]
    assert [device["state"] for device in listed] == ["active"]
