"""A private key that others can read or write is refused as other secrets are: by `check` and by `run`, wherever it is named."""

import pytest

from support.client import Client, get
from support.enrolment import Enrolling
from support.pki import attestgate

TOKEN = "a-token-for-the-administration-0123456789"


@pytest.fixture
def gateway(pki, own_upstream, tmp_path):
    """One that enrols and has every kind of key, not started."""
    enrolling = Enrolling(tmp_path / "gateway", pki, own_upstream)
    gateway = enrolling.gateway
    token = tmp_path / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    server = {"certificate": str(pki.server_certificate), "key": str(pki.server_key)}
    conf, ours = gateway.conf, pki.client("key-files-gateway")
    conf["listeners"][0]["hosts"] = [
        {"names": ["localhost"], "tls": dict(server), "clients": conf["listeners"][0]["clients"]}]
    conf["enrolment"]["tls"] = {**conf["enrolment"]["tls"], **server}
    conf["administration"]["listeners"] = [
        {"address": "127.0.0.1:9", "token_file": str(token), "tls": dict(server)}]
    conf["upstreams"]["secure"] = {"servers": ["127.0.0.1:10"], "tls": {
        "authorities": str(pki.server_ca), "certificate": str(ours.certificate), "key": str(ours.key)}}
    conf["routes"].append(
        {"name": "secure", "host": "localhost", "path": "/secure", "require": "certificate", "upstream": "secure"})
    yield gateway
    for holder in (gateway.holder, enrolling.holder):
        holder.close()


PLACES = {
    "listener": lambda conf: conf["listeners"][0]["tls"],
    "host": lambda conf: conf["listeners"][0]["hosts"][0]["tls"],
    "enrolment": lambda conf: conf["enrolment"]["tls"],
    "administration": lambda conf: conf["administration"]["listeners"][0]["tls"],
    "upstream": lambda conf: conf["upstreams"]["secure"]["tls"],
    "database": lambda conf: conf["registry"]["postgresql"]["tls"],
}


def name_database(conf, pki):
    ours = pki.client("key-files-database")
    del conf["registry"]["path"]
    conf["registry"]["postgresql"] = {"hosts": ["localhost"], "tls": {
        "authorities": str(pki.server_ca), "certificate": str(ours.certificate), "key": str(ours.key)}}


def run(gateway, command):
    gateway.write_conf()
    return attestgate(command, "--config", gateway.conf_path)


@pytest.mark.parametrize("command", ["check", "run"])
@pytest.mark.parametrize("place", PLACES)
def test_a_key_that_others_may_read_is_refused(gateway, pki, tmp_path, place, command):
    if place == "database":
        name_database(gateway.conf, pki)
    tls, copy = PLACES[place](gateway.conf), tmp_path / "open.key"
    with open(tls["key"], "rb") as key:
        copy.write_bytes(key.read())
    tls["key"] = str(copy)
    for mode in (0o644, 0o640, 0o602):
        copy.chmod(mode)
        done = run(gateway, command)
        assert done.returncode == 1, (oct(mode), done.stderr)
        assert "its mode must be 0600" in done.stderr and f"chmod 0600 {copy}" in done.stderr, done.stderr
        assert f"{gateway.conf_path}:" in done.stderr
        # Nothing else is wrong.
        assert done.stderr.count(" error: ") == 1, done.stderr


def test_the_same_files_with_mode_0600_are_accepted(gateway):
    done = run(gateway, "check")
    assert done.returncode == 0, done.stderr


def test_a_reload_refuses_a_key_that_was_opened_to_others(start_gateway, own_upstream, pki, phone, tmp_path):
    gateway = start_gateway({"service": own_upstream.address})
    copy = tmp_path / "open.key"
    copy.write_bytes(pki.server_key.read_bytes())
    copy.chmod(0o644)
    gateway.conf["listeners"][0]["tls"]["key"] = str(copy)
    gateway.write_conf()
    done = attestgate("reload", "--config", gateway.conf_path)
    assert done.returncode == 1 and f"chmod 0600 {copy}" in done.stderr, done.stderr
    with Client(gateway, phone) as client:
        assert client.exchange(get("/")).status == 200
    copy.chmod(0o600)
    assert attestgate("reload", "--config", gateway.conf_path).returncode == 0
