"""Listeners on Unix sockets: who may connect, who owns the file, and that it outlives reloads and upgrades."""

import grp
import json
import os
import pwd
import signal
import stat
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from support.client import Client, IncompleteResponse, get
from support.denials import assert_connection_refused, assert_denied
from support.edge import LocalConnection, stated
from support.gateway import Gateway
from support.paths import BINARY
from support.pki import attestgate
from support.reloading import reload
from support.taking_over import adopt_orphans, upgrade
from support.waiting import eventually

ME = pwd.getpwuid(os.getuid()).pw_name
# Asks through a Unix socket as another user, and says what came.
ASK_AS_ANOTHER = """
import os, socket, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
made = socket.socket(socket.AF_UNIX); made.settimeout(30); made.connect(sys.argv[1])
try:
    made.sendall(sys.argv[2].encode().decode("unicode_escape").encode("latin-1"))
    print(len(made.recv(65536)))
except ConnectionError:
    print(0)
"""


@pytest.fixture
def path():
    # Other users have to reach it, which they cannot below a folder of pytest's.
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield Path(folder) / "edge.sock"


@pytest.fixture
def local(start_attested, pki, path):
    """A gateway with a listener for a proxy of this machine, which speaks no TLS."""
    def local(socket=None, **section):
        attested = start_attested(
            upstream_settings={"client_certificate": "rfc9440", "forwarded": ["forwarded", "x-forwarded-for"]})
        attested.gateway.conf["listeners"].append({
            "address": f"unix:{path}", "socket": {"users": [ME], **(socket or {})},
            "forwarded_certificate": {
                "format": "rfc9440", "authorities": [str(pki.gms.certificate), str(pki.root.certificate)], **section}})
        attested.gateway.write_conf()
        done = reload(attested.gateway)
        assert done.returncode == 0, done.stderr
        return attested
    return local


def test_a_local_proxy_needs_no_tls(local, path):
    attested = local(address="x-forwarded-for")
    phone = attested.phone
    with LocalConnection(attested.gateway, path, stated(phone.identity)) as client:
        for _ in range(2):
            assert client.exchange(phone.request("POST", "/", content=b"hello")).status == 200
        request = attested.upstream.last_request()
        assert request.values("attest-app") and request.values("client-cert")
        # RFC 7239 section 6.3; there is no such word for X-Forwarded-For.
        assert request.values("forwarded")[0].startswith("for=unknown;") and not request.values("x-forwarded-for")
        assert client.exchange(get("/certificate", "X-Forwarded-For: 192.0.2.7")).status == 200
        request = attested.upstream.last_request()
        assert request.values("x-forwarded-for") == ["192.0.2.7"]
        with attested.nothing_forwarded():
            replayed = phone.request(counter=phone.counter)
            assert_denied(attested.gateway, client.exchange(replayed), "counter_replayed", 401)
    assert {entry["client"] for entry in attested.gateway.access() if entry.get("listener") == f"unix:{path}"} >= {
        "unix", "192.0.2.0/24"}


def test_a_local_proxys_request_without_a_certificate_is_refused(local, path):
    attested = local()
    with LocalConnection(attested.gateway, path) as client:
        assert_denied(attested.gateway, client.exchange(get("/certificate")), "certificate_required", 403)
        assert client.exchange(get("/certificate", stated(attested.phone.identity))).status == 200


@pytest.mark.parametrize("version", ["--http1.1", "--http2"])
def test_phones_speak_tls_through_a_socket(start_attested, path, version):
    attested = start_attested()
    listener = attested.gateway.conf["listeners"][0]
    attested.gateway.conf["listeners"].append({**listener, "address": f"unix:{path}"})
    attested.gateway.write_conf()
    assert reload(attested.gateway).returncode == 0
    identity = attested.phone.identity
    done = subprocess.run(
        ["curl", "-sS", version, "--unix-socket", path, "--cacert", attested.pki.server_ca, "--cert", identity.certificate,
         "--key", identity.key, "-o", "/dev/null", "-w", "%{http_code} %{http_version}", "https://localhost/certificate"],
        capture_output=True, text=True)
    assert done.stdout == f"200 {'2' if version == '--http2' else '1.1'}", done.stderr


# Who may connect.

def test_the_file_has_its_mode_and_owner_and_a_reload_changes_them(local, path):
    if os.getuid() != 0:
        pytest.skip("only root gives files away")
    attested = local({"mode": "0606", "owner": "nobody", "group": "65534"})
    status = path.stat()
    assert stat.S_IMODE(status.st_mode) == 0o606 and (status.st_uid, status.st_gid) == (65534, 65534)
    attested.gateway.conf["listeners"][1]["socket"].update({"mode": "0600", "owner": "root"})
    attested.gateway.write_conf()
    assert reload(attested.gateway).returncode == 0
    status = path.stat()
    assert stat.S_IMODE(status.st_mode) == 0o600 and status.st_uid == 0
    with LocalConnection(attested.gateway, path, stated(attested.phone.identity)) as client:
        assert client.exchange(get("/certificate")).status == 200


def test_another_user_is_refused_before_a_byte(local, path):
    if os.getuid() != 0:
        pytest.skip("only root acts as another user")
    attested = local({"mode": "0666"})
    request = get("/certificate", stated(attested.phone.identity)).decode()
    with attested.nothing_forwarded_at_all():
        done = subprocess.run(
            [sys.executable, "-c", ASK_AS_ANOTHER, path, request.encode("unicode_escape").decode()],
            capture_output=True, text=True)
        assert done.stdout == "0\n", done.stderr
        assert_connection_refused(attested.gateway, "peer_refused")


def test_a_proxy_of_another_container_is_known_by_its_user(start_attested, pki, path):
    """A process outside the gateway's PID namespace has the number 0 there."""
    if os.getuid() != 0:
        pytest.skip("namespaces are for root to make")
    attested = start_attested()
    gateway = attested.gateway
    gateway.halt()
    gateway.conf["listeners"].append({
        "address": f"unix:{path}", "socket": {"users": [ME]},
        "forwarded_certificate": {
            "format": "rfc9440", "authorities": [str(pki.gms.certificate), str(pki.root.certificate)]}})
    # Signals are for the gateway, which is a child of unshare.
    outer = gateway.command
    gateway.command = lambda: [
        "unshare", "--pid", "--fork", "--kill-child", "bash", "-c", 'LISTEN_PID=$$ exec "$@"', "bash", *outer()]
    gateway.signal = lambda number=signal.SIGTERM: os.kill(children(gateway.process.pid)[0], number)
    gateway.start()
    with LocalConnection(gateway, path, stated(attested.phone.identity)) as client:
        assert client.exchange(get("/certificate")).status == 200


def children(process):
    return [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def test_check_warns_of_an_owner_that_this_user_cannot_set(pki, tmp_path):
    if os.getuid() != 0:
        pytest.skip("only root becomes another user")
    gateway = Gateway(tmp_path / "unprivileged", pki, {"service": "127.0.0.1:9"})
    gateway.conf["listeners"][0].update(address="unix:/tmp/edge.sock", socket={"group": "daemon"})
    gateway.write_conf()
    gateway.holder.close()
    warning = "cannot give the socket to the `owner` and `group`"
    assert warning not in attestgate("check", "--config", gateway.conf_path).stderr
    # Its files are this user's there, too.
    done = subprocess.run(
        ["unshare", "--user", "--map-user=1", "--map-group=2", BINARY, "check", "--config", gateway.conf_path],
        capture_output=True, text=True)
    if done.stderr.startswith("unshare"):
        pytest.skip(done.stderr)
    assert warning in done.stderr and done.returncode == 0, done.stderr


# The file.

def test_the_file_of_a_dead_gateway_is_replaced_and_that_of_a_living_one_is_not(local, pki, path, tmp_path):
    attested = local()
    gateway = attested.gateway
    other = Gateway(tmp_path / "other", pki, {"service": attested.upstream.address})
    other.conf["listeners"].append(gateway.conf["listeners"][1])
    other.write_conf()
    done = other.run()
    assert done.returncode != 0 and f"{path}: another process listens on it" in done.stderr
    gateway.crash()
    assert path.exists()
    gateway.start()
    with LocalConnection(gateway, path, stated(attested.phone.identity)) as client:
        assert client.exchange(get("/certificate")).status == 200
    gateway.halt()
    assert not path.exists()
    gateway.start()


def test_a_reload_removes_a_socket_and_its_file(local, path):
    attested = local()
    connection = LocalConnection(attested.gateway, path, stated(attested.phone.identity))
    assert connection.exchange(get("/certificate")).status == 200
    removed = attested.gateway.conf["listeners"].pop()
    attested.gateway.write_conf()
    assert reload(attested.gateway).returncode == 0
    assert not path.exists()
    attested.gateway.conf["listeners"].append(removed)
    attested.gateway.write_conf()
    assert reload(attested.gateway).returncode == 0
    with LocalConnection(attested.gateway, path, stated(attested.phone.identity)) as client:
        assert client.exchange(get("/certificate")).status == 200
    connection.close()


def test_a_refused_reload_leaves_no_file(local, path, tmp_path):
    attested = local()
    attested.gateway.conf["listeners"].append(
        {**attested.gateway.conf["listeners"][1], "address": f"unix:{tmp_path}/new.sock"})
    attested.gateway.conf["listeners"].append(
        {**attested.gateway.conf["listeners"][1], "address": f"unix:{tmp_path}/no/such/folder.sock"})
    attested.gateway.write_conf()
    done = reload(attested.gateway)
    assert done.returncode != 0 and "folder.sock" in done.stderr
    assert not (tmp_path / "new.sock").exists() and path.exists()
    with LocalConnection(attested.gateway, path, stated(attested.phone.identity)) as client:
        assert client.exchange(get("/certificate")).status == 200


def test_an_upgrade_loses_no_connection_through_a_socket(local, path):
    adopt_orphans()
    attested = local()
    gateway, faults, stop = attested.gateway, [], threading.Event()

    def ask():
        while not stop.is_set():
            try:
                with LocalConnection(gateway, path, stated(attested.phone.identity)) as client:
                    answered = client.exchange(get("/certificate"))
                    if answered.status != 200:
                        faults.append(answered)
            except (OSError, IncompleteResponse) as fault:
                faults.append(fault)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(2):
        upgrade(gateway)
    stop.set()
    for thread in threads:
        thread.join()
    assert faults == []
    assert path.exists()
    gateway.halt()
    assert not path.exists()
    gateway.start()


def test_a_confined_gateway_makes_and_removes_its_socket(start_attested, path):
    attested = start_attested(arguments=["--sandbox", "best-effort"])
    gateway = attested.gateway
    gateway.conf["listeners"].append({**gateway.conf["listeners"][0], "address": f"unix:{path}"})
    gateway.halt()
    gateway.start()
    with LocalConnection(gateway, path, identity=attested.phone.identity) as client:
        assert client.exchange(get("/certificate")).status == 200
    # The sandbox lets a reload look up names that it has not seen.
    gateway.conf["listeners"][1]["socket"] = {"users": [ME, "daemon"], "group": grp.getgrgid(os.getgid()).gr_name}
    gateway.write_conf()
    done = reload(gateway)
    assert done.returncode == 0, done.stderr
    with LocalConnection(gateway, path, identity=attested.phone.identity) as client:
        assert client.exchange(get("/certificate")).status == 200
    gateway.halt()
    assert not path.exists()
    gateway.start()


# Proxies that are known by their address.

def test_only_proxies_of_the_networks_connect_and_need_no_certificate(start_attested, pki):
    attested = start_attested()
    gateway = attested.gateway
    listener = gateway.conf["listeners"][0]
    del listener["clients"]
    listener["forwarded_certificate"] = {
        "format": "pem-urlencoded", "trust": "network", "networks": ["127.0.0.1"], "authorities": [str(pki.gms.certificate)]}
    gateway.halt()
    gateway.start()
    assert "everybody in these networks can state any client's certificate" in gateway.errors
    with Client(gateway, None) as client:
        assert client.exchange(get("/certificate", stated(attested.phone.identity, "pem-urlencoded"))).status == 200
        assert_denied(gateway, client.exchange(get("/certificate")), "certificate_required", 403)
    with attested.nothing_forwarded_at_all():
        with pytest.raises((OSError, IncompleteResponse)):
            with Client(gateway, None, source="127.0.0.2") as client:
                client.exchange(get("/certificate", stated(attested.phone.identity, "pem-urlencoded")))
        assert_connection_refused(gateway, "peer_refused")


# Configuration.

BAD = {
    "a socket of TCP": ({"socket": {}}, {}, "`socket` has no effect"),
    "no TLS over TCP": ({"tls": None}, {}, "`tls` is missing"),
    "no rules for clients": ({"clients": None}, {}, "`clients` is missing"),
    "no TLS and no users": (
        {"address": "unix:/tmp/a.sock", "tls": None, "clients": None}, {}, "the proxies must be known as users of the socket"),
    "no TLS, and any client": ({"address": "unix:/tmp/a.sock", "tls": None}, None, "`tls` is missing"),
    "networks of a socket": (
        {"address": "unix:/tmp/a.sock", "socket": {"users": [ME]}}, {"trust": "network", "networks": ["10.0.0.0/8"]},
        "a Unix socket has no networks"),
    "networks without trust": ({}, {"networks": ["10.0.0.0/8"]}, "`networks` has no effect without `trust: network`"),
    "trust without networks": ({}, {"trust": "network"}, "`networks` is missing"),
    "certificates of trusted networks": (
        {}, {"trust": "network", "networks": ["10.0.0.0/8"]}, "`clients` has no effect: the proxies are known otherwise"),
    "PROXY headers": (
        {"address": "unix:/tmp/a.sock", "proxy_protocol": {"from": ["10.0.0.0/8"]}}, None, "has no peers with addresses"),
    "a mode for everybody's programs": ({"address": "unix:/tmp/a.sock", "socket": {"mode": "0777"}}, None, "is no mode of a socket"),
    "a mode as a number": ({"address": "unix:/tmp/a.sock", "socket": {"mode": 660}}, None, "is no mode"),
    "an unknown user": ({"address": "unix:/tmp/a.sock", "socket": {"users": ["no-such-user"]}}, None, "there is no user no-such-user"),
    "a relative path": ({"address": "unix:a.sock"}, None, "has no absolute path"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_listener_that_nobody_protects_is_refused(pki, tmp_path, case):
    changes, section, expected = BAD[case]
    gateway = Gateway(tmp_path / "bad", pki, {"service": "127.0.0.1:9"})
    listener = gateway.conf["listeners"][0]
    if section is not None:
        listener["forwarded_certificate"] = {"format": "rfc9440", "authorities": [str(pki.gms.certificate)], **section}
    for key, value in changes.items():
        listener.pop(key, None) if value is None else listener.update({key: value})
    gateway.write_conf()
    gateway.holder.close()
    done = attestgate("check", "--config", gateway.conf_path)
    assert done.returncode != 0 and expected in done.stderr, json.dumps(listener) + done.stderr


def test_the_gateway_is_no_service_of_its_own(pki, tmp_path):
    gateway = Gateway(tmp_path / "own", pki, {"service": f"unix:{tmp_path}/edge.sock"})
    gateway.conf["listeners"][0]["address"] = f"unix:{tmp_path}/edge.sock"
    gateway.write_conf()
    gateway.holder.close()
    done = attestgate("check", "--config", gateway.conf_path)
    assert done.returncode != 0 and "the gateway itself" in done.stderr
