"""The command line: what it says, and the status it ends with."""

import os
import re
import stat
import subprocess

import pytest

from least_conf import CONF
from paths import BINARY
from pki import attestgate, openssl


@pytest.fixture
def check(pki, tmp_path):
    """Checks a conf file, `old` replaced by `new`. - Returns: the process, and the path of the file."""
    def run(old="", new="", command="check"):
        text = CONF.format(pki=pki.directory)
        assert old in text
        path = tmp_path / "attestgate.yaml"
        path.write_text(text.replace(old, new, 1) if old else text)
        return attestgate(command, "--config", path), path
    return run


def test_a_good_conf_file_is_ok(check):
    done, path = check()
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{path}: ok (1 listener, 1 route, 1 upstream, ")


BROKEN = {
    "unknown key": ("    path: /records", "    pth: /records", 14, 5, "pth"),
    "wrong type": ("    servers: [127.0.0.1:9000]", "    servers: 9000", 10, 14, "servers"),
    "unit missing": ("    servers: [127.0.0.1:9000]", "    servers: [127.0.0.1:9000]\n    idle_timeout: 60", 11, 19, "60"),
    "unknown upstream": ("    upstream: records", "    upstream: recrods", 16, 15, "recrods"),
    "no YAML": ("  - name: records", "  - name: [records", None, None, "yaml"),
    "a level without registry and apps": ("    require: certificate", "    require: device", 15, 14, "device"),
    "the highest level without them": ("    require: certificate", "    require: request-proof", 15, 14, "registry"),
    "plaintext to elsewhere": ("[127.0.0.1:9000]", "[192.0.2.1:9000]", 10, 15, "plaintext"),
}


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize("command", ["check", "run"])
def test_a_broken_conf_file_is_refused_with_its_place(check, name, command):
    old, new, line, column, word = BROKEN[name]
    done, path = check(old, new, command)
    assert (done.returncode, done.stdout) == (1, "")
    place = rf"{line}:{column}" if line else r"\d+:\d+"
    assert re.search(rf"{re.escape(str(path))}:{place}: error: ", done.stderr), done.stderr
    assert word in done.stderr


def test_a_route_without_require_demands_the_most_and_so_needs_a_registry(check):
    done, path = check("    require: certificate\n", "")
    assert done.returncode == 1
    assert re.search(rf"{re.escape(str(path))}:\d+:\d+: error: .*require", done.stderr), done.stderr


def test_a_missing_conf_file_is_named(tmp_path):
    done = attestgate("check", "--config", tmp_path / "nowhere.yaml")
    assert done.returncode == 1
    assert "nowhere.yaml" in done.stderr


@pytest.mark.parametrize("old, line", [("{pki}/server.key", 5), ("{pki}/server.pem", 4), ("{pki}/gms-ca.pem", 7)])
def test_a_missing_file_is_named_with_the_place_that_asks_for_it(check, pki, old, line):
    done, path = check(old.format(pki=pki.directory), "/nowhere/file.pem")
    assert done.returncode == 1
    assert f"{path}:{line}:" in done.stderr and "/nowhere/file.pem" in done.stderr


def test_an_unreadable_key_is_refused(check, pki, tmp_path):
    key = tmp_path / "secret.key"
    key.write_bytes(pki.server_key.read_bytes())
    key.chmod(0)
    if os.access(key, os.R_OK):
        # root reads everything; a directory in its place is unreadable for everybody.
        key.unlink()
        key.mkdir()
    done, path = check(str(pki.server_key), str(key))
    assert done.returncode == 1
    assert f"{path}:5:" in done.stderr and "secret.key" in done.stderr


def test_a_key_of_another_certificate_is_refused(check, pki, phone):
    done, _ = check(str(pki.server_key), str(phone.key))
    assert done.returncode == 1
    assert "it must be the key of CN=localhost" in done.stderr


@pytest.mark.parametrize("content", ["", "no certificate at all\n"], ids=["empty", "without PEM"])
@pytest.mark.parametrize("which", ["gms-ca.pem", "server.pem", "server.key"])
def test_a_file_without_what_it_should_hold_is_refused(check, pki, tmp_path, content, which):
    (tmp_path / "empty.pem").write_text(content)
    done, _ = check(f"{pki.directory}/{which}", str(tmp_path / "empty.pem"))
    assert done.returncode == 1
    assert "empty.pem" in done.stderr, "the file at fault is named"


def test_an_authority_that_is_none_is_refused(check, pki, phone):
    done, _ = check(f"{pki.directory}/gms-ca.pem", str(phone.certificate))
    assert done.returncode == 1
    assert "no certification authority" in done.stderr


def test_an_unknown_name_of_a_server_is_warned_of(check):
    done, _ = check("[127.0.0.1:9000]", "[does-not-exist.invalid:9000]\n    plaintext: accepted")
    assert done.returncode == 0
    assert "warning: does-not-exist.invalid:9000 cannot be resolved now" in done.stderr


def test_pki_init_writes_keys_for_their_owner_alone(pki):
    for path in pki.directory.glob("*.key"):
        if path.name in ("gms-ca.key", "server-ca.key", "server.key"):
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert openssl("verify", "-CAfile", pki.server_ca, "-purpose", "sslserver", pki.server_certificate).endswith("OK\n")


@pytest.mark.parametrize("present", [
    "gms-ca.pem", "gms-ca.key", "server-ca.pem", "server-ca.key", "server.pem", "server.key"])
def test_pki_init_never_overwrites(tmp_path, present):
    (tmp_path / present).write_text("precious")
    done = attestgate("pki", "init", "--directory", tmp_path, "--host", "localhost")
    assert done.returncode == 1
    assert present in done.stderr
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [(present, "precious")]


def test_pki_issue_never_overwrites(pki, phone):
    before = phone.certificate.read_bytes()
    done = attestgate(
        "pki", "issue", "--directory", pki.directory, "--certificate-key", phone.key, "--out", phone.certificate)
    assert done.returncode == 1
    assert phone.certificate.read_bytes() == before


def test_pki_issue_takes_a_public_key(pki, tmp_path, phone):
    openssl("pkey", "-in", phone.key, "-pubout", "-out", tmp_path / "public.pem")
    done = attestgate(
        "pki", "issue", "--directory", pki.directory, "--certificate-key", tmp_path / "public.pem",
        "--out", tmp_path / "issued.pem")
    assert done.returncode == 0, done.stderr
    assert openssl("verify", "-CAfile", pki.gms.certificate, "-purpose", "sslclient", tmp_path / "issued.pem")


@pytest.mark.parametrize("kind", ["P-384", "P-224", "RSA-2048"])
def test_pki_issue_refuses_a_key_that_is_not_on_p256(pki, tmp_path, kind):
    pki.generate_key(tmp_path / "key.pem", kind)
    done = attestgate(
        "pki", "issue", "--directory", pki.directory, "--certificate-key", tmp_path / "key.pem",
        "--out", tmp_path / "issued.pem")
    assert done.returncode == 1
    assert "the key is not on P-256" in done.stderr
    assert not (tmp_path / "issued.pem").exists()


@pytest.mark.parametrize("days", ["0", "-1", "826", "soon"])
def test_pki_issue_refuses_an_impossible_lifetime(pki, tmp_path, phone, days):
    done = attestgate(
        "pki", "issue", "--directory", pki.directory, "--certificate-key", phone.key, "--out", tmp_path / "x.pem",
        f"--days={days}")
    assert done.returncode not in (0, 1)
    assert not (tmp_path / "x.pem").exists()


@pytest.mark.parametrize("command", [["run"], ["check"]])
def test_help_tells_the_exit_status(command):
    done = attestgate(*command, "--help")
    assert done.returncode == 0
    assert "Exit status" in done.stdout


@pytest.mark.parametrize("arguments", [["frobnicate"], ["run"], ["check", "--conf", "x"], ["pki", "init"]])
def test_wrong_usage_is_told_apart_from_failure(arguments):
    done = attestgate(*arguments)
    assert done.returncode not in (0, 1)
    assert "Usage:" in done.stderr


def test_nothing_needs_a_terminal_or_an_environment(check, pki):
    _, path = check()
    done = subprocess.run([BINARY, "check", "--config", path], env={}, stdin=subprocess.DEVNULL, capture_output=True)
    assert done.returncode == 0, done.stderr
