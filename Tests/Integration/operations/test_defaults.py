"""What holds where the conf file says nothing: counters, the administration socket, the conf file's place, the journal."""

import json

import pytest

from support import gateway as gateways
from support.client import Client, get
from support.denials import assert_denied
from support.gateway import Gateway
from support.phone import Phone
from support.pki import attestgate
from support.waiting import eventually

ROUTES = [{"name": "records", "host": "localhost", "path": "/", "require": "request-proof"}]


class WithoutAdministration(Gateway):
    """Its conf file has no section `administration`, or `off`."""

    off = False

    def _conf(self, *arguments):
        conf = super()._conf(*arguments)
        del conf["administration"]
        return {**conf, "administration": "off"} if self.off else conf


class OffAdministration(WithoutAdministration):
    off = True


@pytest.fixture
def runtime(tmp_path, monkeypatch):
    """The directory that systemd has made, as it passes it to the process and to its ExecReload."""
    runtime = tmp_path / "run"
    runtime.mkdir()
    monkeypatch.setitem(gateways.ENVIRONMENT, "RUNTIME_DIRECTORY", f"{runtime}:/run/other")
    return runtime


def test_a_gateway_of_systemd_has_a_socket_without_a_section(start_gateway, own_upstream, phone, runtime):
    gateway = start_gateway({"service": own_upstream.address}, kind=WithoutAdministration)
    socket = runtime / "administration.socket"
    eventually(socket.is_socket, "the socket")
    assert socket.stat().st_mode & 0o777 == 0o600
    done = attestgate("status", "--config", gateway.conf_path, "--json")
    assert done.returncode == 0 and json.loads(done.stdout)["process"] == gateway.process.pid, done.stderr
    # As ExecReload does: the result is that of the command.
    done = attestgate("reload", "--config", gateway.conf_path)
    assert (done.returncode, done.stdout) == (0, f"generation 2 of {gateway.conf_path} is served\n"), done.stderr
    gateway.conf["workers"] = 7
    gateway.write_conf()
    done = attestgate("reload", "--config", gateway.conf_path)
    assert done.returncode == 1 and "not reloaded, nothing changed: workers: more threads require" in done.stderr
    with Client(gateway, phone) as client:
        assert client.exchange(get("/")).status == 200


def test_administration_off_has_no_socket_and_reload_says_so(start_gateway, own_upstream, phone, runtime):
    gateway = start_gateway({"service": own_upstream.address}, kind=OffAdministration)
    with Client(gateway, phone) as client:
        assert client.exchange(get("/")).status == 200
    assert list(runtime.iterdir()) == []
    done = attestgate("reload", "--config", gateway.conf_path)
    assert done.returncode == 1 and "there is no socket in `administration`" in done.stderr and "SIGHUP" in done.stderr


def test_without_a_runtime_directory_there_is_no_socket(start_gateway, own_upstream, phone):
    gateway = start_gateway({"service": own_upstream.address}, kind=WithoutAdministration)
    assert attestgate("status", "--config", gateway.conf_path).returncode == 1
    with Client(gateway, phone) as client:
        assert client.exchange(get("/")).status == 200


def test_commands_read_the_packaged_conf_file_unless_another_is_named(tmp_path):
    for command in [["check"], ["status"], ["reload"], ["device", "list"], ["registry", "renew-epoch"]]:
        done = attestgate(*command, cwd=tmp_path)
        assert done.returncode == 1 and "/etc/attestgate/attestgate.yaml" in done.stdout + done.stderr, (command, done)


def test_parallel_proofs_pass_by_default_each_once(start_gateway, own_upstream, pki):
    gateway = start_gateway({"service": own_upstream.address}, ROUTES, apps=[{"id": gateways.APP, "environment": "simulator"}])
    phone = Phone(gateway, pki.phone("by-default"))
    early, late = phone.request(path="/early"), phone.request(path="/late")
    with phone.connect() as client:
        for data in [late, early]:
            assert client.exchange(data).status == 200
        for data in [late, early]:
            assert_denied(gateway, client.exchange(data), "counter_replayed", 401)


def test_check_says_which_defaults_were_others(pki, tmp_path):
    gateway = WithoutAdministration(
        tmp_path / "gateway", pki, {"service": "127.0.0.1:9"}, ROUTES, apps=[{"id": gateways.APP, "environment": "simulator"}])
    gateway.write_conf()
    done = attestgate("check", "--config", gateway.conf_path)
    ok, counter, administration = done.stdout.splitlines()
    assert done.returncode == 0 and ": ok (" in ok
    assert counter == f"note: `counter` of {gateways.APP} is `window 1024`, which was `strict` in earlier versions"
    assert administration.startswith("note: without `administration` a gateway under systemd has a socket")
    gateway.conf["apps"][0]["counter"], gateway.conf["administration"] = "strict", "off"
    gateway.write_conf()
    assert len(attestgate("check", "--config", gateway.conf_path).stdout.splitlines()) == 1
    gateway.holder.close()


@pytest.fixture
def moved_away(start_gateway, own_upstream, pki, tmp_path):
    """A gateway that has stopped, whose `registry.sqlite*` somebody has moved away."""
    gateway = start_gateway({"service": own_upstream.address}, ROUTES)
    Phone(gateway, pki.phone("moved-away"))
    gateway.halt()
    (tmp_path / "away").mkdir()
    for path in gateway.directory.glob("registry.sqlite*"):
        path.rename(tmp_path / "away" / path.name)
    return gateway


def assert_refused_as_lost(gateway, evidence):
    checked = attestgate("check", "--config", gateway.conf_path)
    assert checked.returncode == 0 and "`run` will refuse to start" in checked.stderr, checked.stderr
    done = gateway.run()
    assert done.returncode == 1
    for said in [
            f"registry.sqlite: the registry is missing or empty, but according to {gateway.directory / evidence} there was one",
            "restore a backup with `attestgate registry import`", "--accept-lost-registry"]:
        assert said in done.stderr, done.stderr
    assert not list(gateway.directory.glob("registry.sqlite*"))


def test_moving_the_registry_away_leaves_its_journal_and_stops_the_start(moved_away, tmp_path):
    assert {path.name for path in moved_away.directory.glob("secret*")} >= {"secret", "secret.revocations"}
    assert_refused_as_lost(moved_away, "secret.revocations")
    # Back in its place, everything is as before.
    for path in (tmp_path / "away").iterdir():
        path.rename(moved_away.directory / path.name)
    moved_away.start()
    assert "moved-away" not in moved_away.errors and len(json.loads(moved_away.device_command("list", "--json"))["devices"]) == 1


def test_a_secret_without_registry_and_journal_stops_the_start_until_the_loss_is_accepted(moved_away):
    for path in moved_away.directory.glob("secret.revocations*"):
        path.unlink()
    assert_refused_as_lost(moved_away, "secret")
    moved_away.arguments = ["--accept-lost-registry"]
    moved_away.start()
    assert json.loads(moved_away.device_command("list", "--json"))["devices"] == []


def test_a_journal_of_an_earlier_version_stays_in_use_and_is_warned_of(start_gateway, own_upstream, pki):
    gateway = start_gateway({"service": own_upstream.address}, ROUTES)
    Phone(gateway, pki.phone("earlier"))
    gateway.halt()
    for suffix in ["", ".mark", ".lock"]:
        (gateway.directory / f"secret.revocations{suffix}").rename(gateway.directory / f"registry.sqlite.revocations{suffix}")
    gateway.start()
    assert not (gateway.directory / "secret.revocations").exists()
    assert "would be moved together with the registry's files" in gateway.errors
    assert "registry: " not in gateway.errors.replace("registry: 0 counters", "")
    # Moved as the warning says, it is used from there.
    gateway.halt()
    for suffix in ["", ".mark"]:
        (gateway.directory / f"registry.sqlite.revocations{suffix}").rename(gateway.directory / f"secret.revocations{suffix}")
    gateway.start()
    eventually(lambda: gateway.listens(), "the gateway to serve")
    assert "would be moved" not in gateway.errors
