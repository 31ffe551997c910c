"""A gateway that has given up the files that its conf file does not lead to: it does all its work, and cannot leave."""

import platform

import pytest

from support.denials import assert_denied
from support.exposition import scrape
from support.pki import attestgate
from support.taking_over import adopt_orphans, has_ended, upgrade


def confine(gateway):
    gateway.halt()
    gateway.arguments = ["--sandbox", "required"]
    gateway.start()


@pytest.fixture
def confined(start_attested):
    attested = start_attested()
    try:
        confine(attested.gateway)
    except AssertionError:
        errors = attested.gateway.errors
        if "--sandbox required" not in errors:
            raise
        attested.gateway.process.returncode = 0
        pytest.skip(f"Linux {platform.release()}: {errors.strip().splitlines()[-1]}")
    assert "sandbox: Landlock" in attested.gateway.errors
    return attested


def test_a_confined_gateway_serves_reloads_reopens_logs_and_upgrades(confined):
    gateway, phone = confined.gateway, confined.phone
    assert scrape(gateway)("attestgate_sandboxed") == 1

    def serves():
        with phone.connect() as client:
            spent = phone.request()
            assert client.exchange(spent).status == 200
        with phone.connect() as client:
            assert_denied(gateway, client.exchange(spent), "counter_replayed", 401)
    serves()
    gateway.device_command("show", str(phone.number))
    assert attestgate("reload", "--config", gateway.conf_path).returncode == 0
    gateway.access_path.rename(gateway.access_path.with_suffix(".old"))
    assert attestgate("reopen-logs", "--config", gateway.conf_path).returncode == 0
    serves()
    assert gateway.access_path.exists()
    adopt_orphans()
    before = upgrade(gateway)
    serves()
    assert has_ended(gateway, before)
    assert "sandbox: inherited from the previous process" in gateway.errors
    assert scrape(gateway)("attestgate_sandboxed") == 1


@pytest.mark.parametrize("attempt", ["read", "write"])
def test_a_confined_gateway_cannot_open_other_files(confined, tmp_path, attempt):
    """A reload tries to open another file, with the rights of the tests' own user."""
    gateway, phone = confined.gateway, confined.phone
    outside = tmp_path / "outside"
    outside.mkdir()
    if attempt == "read":
        gateway.conf["listeners"][0]["tls"]["certificate"] = "/etc/profile"
    elif attempt == "write":
        gateway.conf["log"]["access"] = str(outside / "access.log")
    good = gateway.conf_path.read_text()
    gateway.write_conf()
    done = attestgate("reload", "--config", gateway.conf_path)
    gateway.conf_path.write_text(good)
    assert done.returncode == 1 and "Permission denied" in done.stderr, done.stderr
    assert not list(outside.iterdir())
    with phone.connect() as client:
        assert client.exchange(phone.request()).status == 200
