"""The command line: what it says, and the status it ends with."""

import os
import re
import stat
import subprocess
from pathlib import Path

import pytest

from support.least_conf import CONF
from support.paths import BINARY, REPOSITORY
from support.pki import about_the_file, attestgate, openssl


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
    assert (done.returncode, about_the_file(done.stderr)) == (0, "")
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


@pytest.mark.parametrize("command", ["check", "run"])
def test_an_unwritable_standard_error_ends_no_program(check, command):
    _, path = check("    path: /records", "    pth: /records")
    with open("/dev/full", "wb") as full:
        done = subprocess.run([BINARY, command, "--config", path], stdin=subprocess.DEVNULL, stderr=full)
    assert done.returncode == 1


def test_an_unwritable_standard_output_is_a_reported_failure():
    with open("/dev/full", "wb") as full:
        done = subprocess.run([BINARY, "schema"], stdin=subprocess.DEVNULL, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1 and "Error: " in done.stderr


def test_a_route_without_require_demands_the_most_and_so_needs_a_registry(check):
    done, path = check("    require: certificate\n", "")
    assert done.returncode == 1
    assert re.search(rf"{re.escape(str(path))}:\d+:\d+: error: .*require", done.stderr), done.stderr


BUILT = Path(BINARY).parent
UNKNOWN = [
    ("attestgate", "chexk", "Error: Unknown command 'chexk'. Did you mean 'check'?"),
    ("attestgate", "device lst --config a", "Error: Unknown command 'lst'. Did you mean 'list'?"),
    ("attestgate", "check --confg a", "Error: Unknown option '--confg'. Did you mean '--config'?"),
    ("attestgate", "device list --config a --aftr=3", "Error: Unknown option '--aftr'. Did you mean '--after'?"),
    ("attestgate-device", "enrl", "Error: Unknown command 'enrl'. Did you mean 'enrol'?"),
    ("attestgate-device", "request --directroy a", "Error: Unknown option '--directroy'. Did you mean '--directory'?"),
    ("attestgate-load", "--conections 2", "Error: Unknown option '--conections'. Did you mean '--connections'?"),
    ("attestgate-micro", "tme", "Error: Unknown command 'tme'. Did you mean 'time'?"),
]


@pytest.mark.parametrize("program, line, message", UNKNOWN)
def test_an_unknown_command_or_option_is_named_with_the_nearest_known_one(program, line, message):
    done = subprocess.run(
        [BUILT / program, *line.split()], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert done.stderr.splitlines()[0] == message and "\nUsage: " in done.stderr


def test_a_missing_conf_file_is_named(tmp_path):
    done = attestgate("check", "--config", tmp_path / "nowhere.yaml")
    assert done.returncode == 1
    assert "nowhere.yaml" in done.stderr


@pytest.mark.parametrize("old, line", [("{pki}/server.key", 5), ("{pki}/server.pem", 4), ("{pki}/gms-ca.pem", 7)])
def test_a_missing_file_is_reported_with_the_setting_that_names_it(check, pki, old, line):
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
def test_a_file_with_other_content_is_refused(check, pki, tmp_path, content, which):
    (tmp_path / "empty.pem").write_text(content)
    done, _ = check(f"{pki.directory}/{which}", str(tmp_path / "empty.pem"))
    assert done.returncode == 1
    assert "empty.pem" in done.stderr, "the file at fault is named"


def test_a_certificate_that_is_no_authority_is_refused(check, pki, phone):
    done, _ = check(f"{pki.directory}/gms-ca.pem", str(phone.certificate))
    assert done.returncode == 1
    assert "is not a certification authority" in done.stderr


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


def test_pki_init_creates_a_test_client(tmp_path):
    done = attestgate("pki", "init", "--directory", tmp_path, "--host", "localhost", "--client", "phone")
    assert done.returncode == 0 and f"wrote {tmp_path}/phone.key\n" in done.stdout
    assert stat.S_IMODE((tmp_path / "phone.key").stat().st_mode) == 0o600
    assert openssl("verify", "-CAfile", tmp_path / "gms-ca.pem", "-purpose", "sslclient", tmp_path / "phone.pem").endswith("OK\n")


@pytest.mark.parametrize("name", ["server", "gms-ca", "../phone", "Phone", "p" * 65])
def test_a_test_client_has_a_name_of_its_own(tmp_path, name):
    done = attestgate("pki", "init", "--directory", tmp_path, "--host", "localhost", f"--client={name}")
    assert done.returncode == 2 and "--client must be 1 to 64 of a-z, 0-9 and -" in done.stderr
    assert list(tmp_path.iterdir()) == []


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


def test_the_version_names_source_and_loaded_libraries():
    done = attestgate("--version")
    lines = dict(line.split(None, 1) for line in done.stdout.splitlines())
    assert list(lines) == ["attestgate", "commit", "Swift", "OpenSSL", "libevent", "nghttp2", "SQLite", "libpq"]
    # A working tree may hold anything.
    assert lines["commit"] == "unknown: built from a working tree"
    assert openssl("version").split()[1] == lines["OpenSSL"]
    tool = subprocess.run([BINARY.with_name("attestgate-device"), "--version"], capture_output=True, text=True, check=True)
    assert tool.stdout.strip() == lines["attestgate"]
    assert (REPOSITORY / "packaging/debian/changelog").read_text().startswith(f"attestgate ({lines['attestgate']})")


@pytest.mark.parametrize("command", [[], ["run"], ["check"], ["schema"], ["reload"], ["reopen-logs"], ["top"]])
def test_help_lists_the_exit_status(command):
    done = attestgate(*command, "--help")
    assert done.returncode == 0
    assert "Exit status" in done.stdout


@pytest.mark.parametrize("arguments", [["frobnicate"], ["run", "--config"], ["check", "--conf", "x"], ["pki", "init"]])
def test_wrong_usage_and_failure_have_different_exit_status(arguments):
    done = attestgate(*arguments)
    assert done.returncode not in (0, 1)
    assert "Usage:" in done.stderr


def test_nothing_needs_a_terminal_or_an_environment(check, pki):
    _, path = check()
    done = subprocess.run([BINARY, "check", "--config", path], env={}, stdin=subprocess.DEVNULL, capture_output=True)
    assert done.returncode == 0, done.stderr
