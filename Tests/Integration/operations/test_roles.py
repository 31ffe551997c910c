"""What a process does in its role, and which files it leaves alone."""

import json
import os
import socket
import subprocess

import pytest

from support.client import Client, get
from support.gateway import APP, Gateway, reserve_port
from support.paths import ENVIRONMENT, PATIENCE
from support.pki import attestgate


@pytest.fixture
def make(pki, own_upstream, tmp_path):
    """Makes gateways of a test's own, whose conf file has enrolment; they must end well with it."""
    made = []
    holder, port = reserve_port()

    def build():
        gateway = Gateway(
            tmp_path / f"gateway-{len(made)}", pki, {"service": own_upstream.address},
            registry={"devices": 100},
            apps=[{"id": APP, "environment": "simulator", "attestation_root": str(pki.root.certificate)}])
        gateway.conf["enrolment"] = {
            "address": f"127.0.0.1:{port}",
            "tls": {"certificate": str(pki.server_certificate), "key": str(pki.server_key)},
            "url": f"https://localhost:{port}", "admission": "open",
            "authority": {"certificate": str(pki.gms.certificate), "key": str(pki.gms.key)},
        }
        made.append(gateway)
        return gateway

    with holder:
        yield build
        for gateway in made:
            gateway.stop()


def opened_files(gateway, role, log):
    """The files that `check` opens in this role."""
    command = ["strace", "-f", "-qq", "-e", "trace=open,openat", "-o", log]
    check = [gateway.command()[0], "check", "--role", role, "--config", gateway.conf_path]
    done = subprocess.run([*command, *check], capture_output=True, text=True, env=ENVIRONMENT, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    return log.read_text()


def test_the_role_gateway_opens_no_file_of_enrolment(make, pki, tmp_path):
    gateway = make()
    own = tmp_path / "authority"
    own.mkdir()
    # Files of its own, since others are named for the listener too.
    for name, source in [("ca.pem", pki.gms.certificate), ("ca.key", pki.gms.key)]:
        descriptor = os.open(own / name, os.O_WRONLY | os.O_CREAT, 0o600)
        os.write(descriptor, source.read_bytes())
        os.close(descriptor)
    gateway.conf["enrolment"]["authority"] = {"certificate": str(own / "ca.pem"), "key": str(own / "ca.key")}
    gateway.write_conf()
    # The control: a process that enrols opens them.
    for role in ["both", "enrolment"]:
        assert str(own / "ca.key") in opened_files(gateway, role, tmp_path / "strace")
    assert str(own) not in opened_files(gateway, "gateway", tmp_path / "strace")


def test_the_role_gateway_serves_without_the_cas_key(make, pki, phone):
    gateway = make()
    gateway.arguments = ["--role", "gateway"]
    gateway.conf["enrolment"]["authority"]["key"] = "/nowhere/gms-ca.key"
    gateway.start()
    with Client(gateway, phone) as client:
        assert client.exchange(get("/")).status == 200
    done = attestgate("reload", "--config", gateway.conf_path)
    assert done.returncode == 0, done.stderr
    with Client(gateway, phone) as client:
        assert client.exchange(get("/")).status == 200


@pytest.mark.parametrize("role", ["both", "enrolment"])
def test_a_missing_ca_key_is_reported_with_its_setting(make, role):
    gateway = make()
    gateway.conf["enrolment"]["authority"]["key"] = "/nowhere/gms-ca.key"
    gateway.write_conf()
    line = next(
        number for number, text in enumerate(gateway.conf_path.read_text().splitlines(), 1) if "/nowhere" in text)
    done = attestgate("run", "--config", gateway.conf_path, "--role", role)
    assert done.returncode == 1
    assert f"{gateway.conf_path}:{line}:" in done.stderr and "No such file or directory" in done.stderr


def test_a_ca_key_that_others_may_read_is_refused(make, pki, tmp_path):
    gateway = make()
    key = tmp_path / "open.key"
    key.write_bytes(pki.gms.key.read_bytes())
    key.chmod(0o640)
    gateway.conf["enrolment"]["authority"]["key"] = str(key)
    gateway.write_conf()
    done = attestgate("check", "--config", gateway.conf_path)
    assert done.returncode == 1 and "its mode must be 0600" in done.stderr
    done = attestgate("check", "--config", gateway.conf_path, "--role", "gateway")
    assert done.returncode == 0, done.stderr


def test_the_role_enrolment_has_no_listener_for_requests_and_ends_in_order(make):
    gateway = make()
    gateway.arguments = ["--role", "enrolment"]
    # Nobody looks for the key of a listener that is not there.
    gateway.conf["listeners"][0]["tls"]["key"] = "/nowhere/server.key"
    gateway.start()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", gateway.port)).close()
    status = json.loads(attestgate("status", "--config", gateway.conf_path, "--json").stdout)
    assert status["generation"] == 1
    done = attestgate("reload", "--config", gateway.conf_path)
    assert done.returncode == 0, done.stderr
    assert gateway.device_command("list", "--json")
    gateway.halt()


def test_the_role_enrolment_without_the_section_is_refused(make):
    gateway = make()
    del gateway.conf["enrolment"]
    gateway.write_conf()
    done = attestgate("check", "--config", gateway.conf_path, "--role", "enrolment")
    assert done.returncode == 1 and "the role `enrolment` needs the section `enrolment`" in done.stderr


def test_an_unknown_role_is_a_wrong_command_line(make):
    gateway = make()
    gateway.write_conf()
    done = attestgate("run", "--config", gateway.conf_path, "--role", "registry")
    assert done.returncode == 2 and "'gateway', 'enrolment', 'federation' or 'both'" in done.stderr
