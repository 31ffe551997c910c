"""The GMS CA in production: its key under a passphrase, certificates by hand, revocation lists, revoked people."""

import base64
import fcntl
import hashlib
import hmac
import json
import os
import pty
import re
import sqlite3
import stat
import subprocess
import termios
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from support.denials import assert_handshake_refused
from support.paths import BINARY, ENVIRONMENT
from support.pki import attestgate, openssl

APP = "ABCDE12345.org.example.app"
CONF = """\
listeners:
  - address: 127.0.0.1:8443
    tls: {{certificate: {pki}/server.pem, key: {pki}/server.key}}
    clients: {{authorities: [{pki}/gms-ca.pem]}}
upstreams:
  records: {{servers: ["127.0.0.1:9000"]}}
routes:
  - {{name: records, host: localhost, path: /records, require: certificate, upstream: records}}
registry: {{path: {directory}/registry.db, secret: {directory}/secret}}
apps:
  - {{id: ABCDE12345.org.example.app, environment: development}}
"""
PASSPHRASE = "correct horse battery staple"
FAR = 4_000_000_000


class Authority:
    """A GMS CA as docs/operations/gms-ca.md has it made: an offline root above, the issuing key encrypted."""

    def __init__(self, directory, encryption=("-v2", "aes-256-cbc")):
        self.directory = directory
        self.root, self.certificate = directory / "root.pem", directory / "gms-ca.pem"
        self.key, self.passphrase_file = directory / "gms-ca.key", directory / "gms-ca.passphrase"
        write_private(self.passphrase_file, PASSPHRASE + "\n")
        openssl("ecparam", "-name", "secp384r1", "-genkey", "-noout", "-out", directory / "root.key")
        openssl(
            "req", "-x509", "-key", directory / "root.key", "-subj", "/CN=GMS root", "-days", "3650", "-out", self.root,
            "-addext", "basicConstraints=critical,CA:TRUE,pathlen:1", "-addext", "keyUsage=critical,keyCertSign,cRLSign")
        openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", directory / "plain.key")
        openssl(
            "pkcs8", "-topk8", *encryption, "-in", directory / "plain.key", "-out", self.key,
            "-passout", f"file:{self.passphrase_file}")
        os.chmod(self.key, 0o600)
        os.chmod(directory / "plain.key", 0o600)
        request, extensions = directory / "gms-ca.csr", directory / "gms-ca.ext"
        openssl("req", "-new", "-key", directory / "plain.key", "-subj", "/CN=GMS CA", "-out", request)
        extensions.write_text(
            "basicConstraints=critical,CA:TRUE,pathlen:0\nkeyUsage=critical,keyCertSign,cRLSign\n"
            "subjectKeyIdentifier=hash\nauthorityKeyIdentifier=keyid:always\n")
        openssl(
            "x509", "-req", "-in", request, "-CA", self.root, "-CAkey", directory / "root.key", "-CAcreateserial",
            "-days", "365", "-extfile", extensions, "-out", self.certificate)

    @property
    def options(self):
        return [*self.files, "--ca-passphrase-file", self.passphrase_file]

    @property
    def files(self):
        return ["--ca-certificate", self.certificate, "--ca-key", self.key]


def write_private(path, text):
    path.write_text(text)
    os.chmod(path, 0o600)


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path)


@pytest.fixture
def conf(pki, tmp_path):
    path = tmp_path / "attestgate.yaml"
    path.write_text(CONF.format(pki=pki.directory, directory=tmp_path))
    return path


class Issued:
    """A certificate by the GMS CA for a new key, known to the registry as enrolment leaves it."""

    names = iter(range(1_000_000))

    def __init__(self, directory, authority_options, pki):
        name = f"leaf-{next(self.names)}"
        self.key, self.certificate = directory / f"{name}.key", directory / f"{name}.pem"
        pki.generate_key(self.key, "P-256")
        done = attestgate(
            "pki", "issue", *authority_options, "--certificate-key", self.key, "--out", self.certificate)
        assert done.returncode == 0, done.stderr
        self.serial = openssl("x509", "-in", self.certificate, "-noout", "-serial").strip().split("=")[1]
        spki = base64.b64decode("".join(openssl("pkey", "-in", self.key, "-pubout").splitlines()[1:-1]))
        self.key_id = hashlib.sha256(spki[-65:]).digest()

    def record(self, store):
        with store:
            store.execute(
                "INSERT INTO issued_certificate VALUES (?, ?, ?)", (bytes.fromhex(self.serial), self.key_id, FAR))


def device(conf, *arguments):
    done = attestgate("device", *arguments, "--config", conf, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def add(conf, certificate_key, pki, directory):
    hardware = directory / f"hardware-{next(Issued.names)}.key"
    pki.generate_key(hardware, "P-256")
    public = "".join(openssl("pkey", "-in", hardware, "-pubout").splitlines()[1:-1])
    return device(
        conf, "add", "--app-id", APP, "--public-key", public, "--certificate-key", certificate_key)["device"]


def write_list(conf, out, options, *arguments):
    done = attestgate("pki", "crl", "--config", conf, *options, "--out", out, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def entries(path):
    """Serial number -> reason, as the openssl tool reads them."""
    text = openssl("crl", "-in", path, "-noout", "-text")
    return dict(re.findall(
        r"Serial Number: ([0-9A-F]+)\n.*\n\s+CRL entry extensions:\n\s+X509v3 CRL Reason Code: \n\s+(.+)", text))


def number(path):
    return int(openssl("crl", "-in", path, "-noout", "-crlnumber").strip().split("=")[1], 16)


def is_good(path, certificate, *trusted):
    """Whether the openssl tool finds the certificate good, and its authority's list too."""
    arguments = [argument for anchor in trusted for argument in ("-trusted", anchor)]
    try:
        openssl("verify", "-x509_strict", "-partial_chain", "-crl_check", *arguments, "-CRLfile", path, certificate)
        return True
    except AssertionError as failure:
        assert "certificate revoked" in str(failure), failure
        return False


def test_a_proxys_certificate_has_its_name(authority, pki, tmp_path):
    key, certificate = tmp_path / "edge.key", tmp_path / "edge.pem"
    pki.generate_key(key, "P-256")

    def issue(name):
        return attestgate(
            "pki", "issue", *authority.options, "--certificate-key", key, "--out", certificate, "--name", name)

    for name in ["", "Edge.internal", "edge..internal", "*.internal", "a,DNS:b", "edge.internal.", "a" * 65]:
        done = issue(name)
        assert done.returncode == 2 and "--name must be a DNS name" in done.stderr
    done = issue("edge.internal")
    assert done.returncode == 0, done.stderr
    text = openssl("x509", "-in", certificate, "-noout", "-subject", "-nameopt", "RFC2253", "-ext", "subjectAltName,extendedKeyUsage")
    assert "CN=edge.internal" in text and "DNS:edge.internal" in text and "TLS Web Client Authentication" in text


# The CA's key.


@pytest.mark.parametrize("encryption", [("-v2", "aes-256-cbc"), ("-scrypt",)])
def test_a_certificate_is_issued_by_an_encrypted_key_and_verifies_up_to_the_root(encryption, pki, tmp_path):
    authority = Authority(tmp_path, encryption)
    issued = Issued(tmp_path, authority.options, pki)
    openssl(
        "verify", "-x509_strict", "-purpose", "sslclient", "-CAfile", authority.root, "-untrusted", authority.certificate,
        issued.certificate)


def issue(authority, tmp_path, *options, **how):
    """Issues with these options of the CA. - Returns: how it ended."""
    key = tmp_path / "plain.key"
    return attestgate(
        "pki", "issue", *options, "--certificate-key", key, "--out", tmp_path / "out.pem", **how)


def test_the_passphrase_may_come_from_an_environment_variable(authority, tmp_path):
    options = [*authority.files, "--ca-passphrase-variable", "GMS_PASSPHRASE"]
    done = issue(authority, tmp_path, *options)
    assert (done.returncode, done.stdout) == (1, "")
    assert "the environment variable GMS_PASSPHRASE is not set" in done.stderr
    done = attestgate_with({"GMS_PASSPHRASE": PASSPHRASE}, "pki", "issue", *options, "--certificate-key",
                           tmp_path / "plain.key", "--out", tmp_path / "out.pem")
    assert done.returncode == 0, done.stderr


def attestgate_with(variables, *arguments):
    return subprocess.run(
        [BINARY, *map(str, arguments)], capture_output=True, text=True, env={**ENVIRONMENT, **variables}, timeout=60)


def test_an_encrypted_key_without_its_passphrase_is_refused_without_a_prompt(authority, tmp_path):
    assert_asks_nothing(
        [BINARY, "pki", "issue", *authority.files, "--certificate-key", tmp_path / "plain.key", "--out",
         tmp_path / "out.pem"])
    write_private(authority.passphrase_file, "correct horse\n")
    done = issue(authority, tmp_path, *authority.options)
    assert done.returncode == 1
    assert "cannot decrypt the private key with this passphrase" in done.stderr
    assert "horse" not in done.stderr
    write_private(authority.passphrase_file, PASSPHRASE)
    done = issue(authority, tmp_path, "--ca-certificate", authority.certificate, "--ca-key", tmp_path / "plain.key",
                 "--ca-passphrase-file", authority.passphrase_file)
    assert done.returncode == 1 and "but it is not encrypted" in done.stderr
    assert not (tmp_path / "out.pem").exists()


def assert_asks_nothing(command):
    """With a terminal of its own, where OpenSSL would ask, and wait for an answer."""
    ours, theirs = pty.openpty()

    def take_terminal():
        fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)

    process = subprocess.Popen(
        list(map(str, command)), stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
        preexec_fn=take_terminal, env=ENVIRONMENT)
    try:
        os.close(theirs)
        said = b""
        try:
            while chunk := os.read(ours, 4096):
                said += chunk
                assert b"phrase:" not in said, said
        except OSError:
            pass  # the other side is closed: it has ended
        assert process.wait(60) == 1
        assert b"it is encrypted, and there is no passphrase for it" in said.replace(b"\r\n", b" ")
    finally:
        process.kill()
        process.wait()
        os.close(ours)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o644])
@pytest.mark.parametrize("name", ["key", "passphrase_file"])
def test_a_key_or_passphrase_that_others_may_read_is_refused(name, mode, authority, tmp_path):
    path = getattr(authority, name)
    os.chmod(path, mode)
    done = issue(authority, tmp_path, *authority.options)
    assert done.returncode == 1
    assert f"{path}: can be read or written by other users" in done.stderr
    os.chmod(path, 0o400)
    assert issue(authority, tmp_path, *authority.options).returncode == 0


def test_a_key_that_is_no_file_is_refused_at_once(authority, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o600)
    for path, reason in [(pipe, "is not a regular file"), (tmp_path, "is not a regular file"), (tmp_path / "none", "No such file")]:
        done = issue(authority, tmp_path, "--ca-certificate", authority.certificate, "--ca-key", path)
        assert done.returncode == 1 and reason in done.stderr, done.stderr


def test_the_key_of_another_certificate_is_refused(authority, pki, tmp_path):
    done = issue(authority, tmp_path, "--ca-certificate", pki.gms.certificate, "--ca-key", tmp_path / "plain.key")
    assert done.returncode == 1 and "it is not the certificate's" in done.stderr
    done = issue(authority, tmp_path, "--directory", pki.directory, *authority.files)
    assert done.returncode == 2 and "--directory already names a CA" in done.stderr


def test_the_ca_of_the_conf_file_issues_and_signs_lists(authority, conf, pki, tmp_path):
    done = attestgate("pki", "crl", "--config", conf, "--out", tmp_path / "gms.crl")
    assert done.returncode == 1 and "there is no `enrolment.authority`" in done.stderr
    with open(conf, "a") as text:
        text.write(
            "enrolment:\n"
            "  address: 127.0.0.1:8444\n"
            f"  tls: {{certificate: {pki.server_certificate}, key: {pki.server_key}}}\n"
            "  url: https://localhost:8444\n"
            "  admission: open\n"
            "  authority:\n"
            f"    certificate: {authority.certificate}\n"
            f"    key: {authority.key}\n"
            f"    passphrase_file: {authority.passphrase_file}\n")
    issued = Issued(tmp_path, ["--config", conf], pki)
    openssl("verify", "-CAfile", authority.root, "-untrusted", authority.certificate, issued.certificate)
    add(conf, issued.certificate, pki, tmp_path)
    write_list(conf, tmp_path / "gms.crl", [])
    assert is_good(tmp_path / "gms.crl", issued.certificate, authority.certificate)
    # An option says otherwise, and to `issue` one of the two.
    write_list(conf, tmp_path / "other.crl", ["--directory", pki.directory])
    assert "AttestGate development GMS CA" in openssl("crl", "-in", tmp_path / "other.crl", "-noout", "-issuer")
    done = issue(authority, tmp_path, "--config", conf, "--directory", pki.directory)
    assert done.returncode == 2


# Revocation lists.


def test_a_list_names_revoked_devices_and_ended_bindings_and_no_others(authority, conf, pki, tmp_path):
    held, ended, replaced, good, foreign = (Issued(tmp_path, authority.options, pki) for _ in range(5))
    numbers = [add(conf, issued.certificate, pki, tmp_path) for issued in [held, ended, replaced, good, foreign]]
    store = sqlite3.connect(tmp_path / "registry.db")
    for issued in [held, ended, replaced, good]:
        issued.record(store)
    with store:
        store.execute("UPDATE binding SET ended_at = 1700000000 WHERE key = ?", (ended.key_id,))
        store.execute("UPDATE binding SET ends_at = 1700000000 WHERE key = ?", (replaced.key_id,))
    store.close()
    # No list names one that an operator imported.
    for issued in [numbers[0], numbers[4]]:
        device(conf, "revoke", str(issued))
    out = tmp_path / "gms.crl"
    said = write_list(conf, out, authority.options)
    assert re.fullmatch(rf"wrote {out}: list \d+, 3 revoked, good until \d{{4}}-.*Z\n", said)
    assert entries(out) == {
        held.serial: "Certificate Hold", ended.serial: "Cessation Of Operation", replaced.serial: "Superseded"}
    for issued in [held, ended, replaced, good]:
        assert is_good(out, issued.certificate, authority.certificate) == (issued is good)
    first = number(out)
    device(conf, "restore", str(numbers[0]))
    write_list(conf, out, authority.options)
    assert number(out) > first
    assert set(entries(out)) == {ended.serial, replaced.serial}
    assert is_good(out, held.certificate, authority.certificate)
    assert stat.S_IMODE(os.stat(out).st_mode) == 0o644
    assert [path.name for path in tmp_path.iterdir() if "gms.crl" in path.name] == ["gms.crl"], "nothing is left over"


def test_a_failed_list_leaves_the_old_one(authority, conf, pki, tmp_path):
    out = tmp_path / "gms.crl"
    done = attestgate("pki", "crl", "--config", conf, *authority.options, "--out", out)
    assert done.returncode == 1 and "registry.db: no such file" in done.stderr
    add(conf, Issued(tmp_path, authority.options, pki).certificate, pki, tmp_path)
    write_list(conf, out, authority.options)
    before = out.read_bytes()
    write_private(authority.passphrase_file, "wrong\n")
    for options, arguments, status in [
            (authority.options, [], 1),
            (["--directory", pki.directory], ["--life", "8d"], 2),
            (["--directory", pki.directory], ["--life", "59m"], 2),
            (["--directory", pki.directory], ["--life", "0h"], 2)]:
        done = attestgate("pki", "crl", "--config", conf, *options, "--out", out, *arguments)
        assert done.returncode == status, done.stderr
        assert out.read_bytes() == before
    done = attestgate(
        "pki", "crl", "--config", conf, "--directory", pki.directory, "--out", tmp_path / "no" / "gms.crl")
    assert done.returncode == 1 and "No such file or directory" in done.stderr


def test_a_list_has_the_requested_life(authority, conf, pki, tmp_path):
    add(conf, Issued(tmp_path, authority.options, pki).certificate, pki, tmp_path)
    for arguments, hours in [([], 24), (["--life", "7d"], 168), (["--life", "1h"], 1)]:
        write_list(conf, tmp_path / "gms.crl", authority.options, *arguments)
        text = openssl("crl", "-in", tmp_path / "gms.crl", "-noout", "-lastupdate", "-nextupdate")
        begin, end = (
            datetime.strptime(line.split("=")[1], "%b %d %H:%M:%S %Y GMT") for line in text.strip().splitlines())
        assert end - begin == timedelta(hours=hours, minutes=5), "five minutes are for clocks that are behind"


def test_a_running_gateway_is_asked_for_the_list(start_attested, pki, tmp_path):
    attested = start_attested()
    gateway, phone = attested.gateway, attested.phone
    other = attested.new_phone()
    gateway.halt()
    store = sqlite3.connect(gateway.conf["registry"]["path"])
    serials = []
    with store:
        for each in [phone, other]:
            serial = openssl("x509", "-in", each.identity.certificate, "-noout", "-serial").strip().split("=")[1]
            spki = base64.b64decode("".join(openssl("pkey", "-in", each.identity.key, "-pubout").splitlines()[1:-1]))
            store.execute("INSERT INTO issued_certificate VALUES (?, ?, ?)",
                          (bytes.fromhex(serial), hashlib.sha256(spki[-65:]).digest(), FAR))
            serials.append(serial)
        # More than a page of others.
        key = hashlib.sha256(spki[-65:]).digest()
        for count in range(1, 2_500):
            store.execute("INSERT INTO issued_certificate VALUES (?, ?, ?)", (b"\x02" + count.to_bytes(16, "big"), key, FAR))
    store.close()
    gateway.start()
    out = tmp_path / "gms.crl"
    options = ["--directory", pki.directory]
    write_list(gateway.conf_path, out, options)
    assert entries(out) == {}
    gateway.device_command("revoke", str(phone.number))
    write_list(gateway.conf_path, out, options)
    assert entries(out) == {serials[0]: "Certificate Hold"}
    assert not is_good(out, phone.identity.certificate, pki.gms.certificate)
    assert is_good(out, other.identity.certificate, pki.gms.certificate)
    gateway.device_command("revoke", str(other.number))
    write_list(gateway.conf_path, out, options)
    assert len(entries(out)) == 2_501
    assert re.search(r"administration: revocation list \d+ begun, by user \d+", gateway.errors)


# People.


def pseudonym(secret_path, issuer, subject):
    """As the registry knows people: written from docs/operations/devices.md, not from the code."""
    secret = bytes.fromhex(re.search(r"^pseudonyms (\w+)$", secret_path.read_text(), re.M)[1])
    extracted = hmac.digest(bytes(32), secret, "sha256")
    key = hmac.digest(extracted, b"attestgate subject\x01", "sha256")
    issuer = issuer.encode()
    return hmac.digest(key, str(len(issuer)).encode() + b":" + issuer + subject.encode(), "sha256")


ISSUER = "https://login.example.org"


def admit(store_path, secret_path, numbers, subject):
    store = sqlite3.connect(store_path)
    with store:
        for each in numbers:
            store.execute(
                "UPDATE device SET subject = ? WHERE id = ?", (pseudonym(secret_path, ISSUER, subject), each))
    store.close()


def test_a_subject_is_revoked_on_the_file_with_all_devices_and_barred(conf, pki, tmp_path):
    issued = [Issued(tmp_path, ["--directory", pki.directory], pki) for _ in range(3)]
    numbers = [add(conf, each.certificate, pki, tmp_path) for each in issued]
    secret = tmp_path / "secret"
    # It was made with the registry.
    secret.unlink()
    done = attestgate("device", "revoke", "--config", conf, "--subject", "patient-7", "--issuer", ISSUER)
    assert done.returncode == 1 and "secret: there is no such file" in done.stderr
    write_private(secret, f"challenge 1 {'11' * 32}\npseudonyms {'22' * 32}\n")
    admit(tmp_path / "registry.db", secret, numbers[:2], "patient-7")
    admit(tmp_path / "registry.db", secret, numbers[2:], "patient-8")
    for subject, issuer in [("patient-9", ISSUER), ("patient-7", ISSUER + "/")]:
        done = attestgate("device", "revoke", "--config", conf, "--subject", subject, "--issuer", issuer)
        assert (done.returncode, done.stdout) == (0, "no device to revoke; the subject is barred\n")
    revoked = device(conf, "revoke", "--subject", "patient-7", "--issuer", ISSUER)
    assert [(each["device"], each["state"]) for each in revoked["devices"]] == [(each, "revoked") for each in numbers[:2]]
    assert device(conf, "show", str(numbers[2]))["state"] == "active"
    store = sqlite3.connect(tmp_path / "registry.db")
    barred = {row[0] for row in store.execute("SELECT subject FROM revoked_subject")}
    store.close()
    assert pseudonym(secret, ISSUER, "patient-7") in barred and len(barred) == 3
    # From standard input, so that nobody sees it in the list of processes.
    done = attestgate(
        "device", "revoke", "--config", conf, "--subject", "-", "--issuer", ISSUER, "--json", input="patient-8\n")
    assert [each["device"] for each in json.loads(done.stdout)["devices"]] == numbers[2:]


def test_the_issuer_of_a_subject_is_that_of_the_conf_file_if_none_is_named(conf, pki, tmp_path):
    done = attestgate("device", "revoke", "--config", conf, "--subject", "patient-7")
    assert done.returncode == 1 and "there is no `enrolment.token.issuer`: name one with --issuer" in done.stderr
    issued = Issued(tmp_path, ["--directory", pki.directory], pki)
    number = add(conf, issued.certificate, pki, tmp_path)
    secret = tmp_path / "secret"
    write_private(secret, f"challenge 1 {'11' * 32}\npseudonyms {'22' * 32}\n")
    admit(tmp_path / "registry.db", secret, [number], "patient-7")
    server = {"certificate": str(pki.server_certificate), "key": str(pki.server_key)}
    enrolment = {
        "address": "127.0.0.1:1", "url": "https://enrol.example.org", "tls": server, "admission": "token",
        "authority": {"certificate": str(pki.gms.certificate), "key": str(pki.gms.key)},
        "token": {"issuer": ISSUER, "keys": [str(tmp_path / "login.pem")]}}
    # JSON is YAML.
    conf.write_text(f"{conf.read_text()}enrolment: {json.dumps(enrolment)}\n")
    revoked = device(conf, "revoke", "--subject", "patient-7")
    assert [(each["device"], each["state"]) for each in revoked["devices"]] == [(number, "revoked")]


def test_a_subject_is_revoked_through_the_socket_and_its_open_connections_end(start_attested):
    attested = start_attested()
    gateway, phone = attested.gateway, attested.phone
    other = attested.new_phone()
    gateway.halt()
    secret = Path(gateway.conf["registry"]["secret"])
    admit(gateway.conf["registry"]["path"], secret, [phone.number], "patient-7")
    gateway.start()
    with phone.connect() as client:
        assert client.exchange(phone.request(path="/a")).status == 200
        said = gateway.device_command("revoke", "--subject", "patient-7", "--issuer", ISSUER)
        assert str(phone.number) in said and "revoked" in said
    assert_handshake_refused(gateway, phone.identity, "device_revoked")
    with other.connect() as client:
        assert client.exchange(other.request(path="/a")).status == 200
    assert f"administration: subject revoke: devices [{phone.number}], by user" in gateway.errors
    assert "patient-7" not in gateway.errors and ISSUER not in gateway.errors


@pytest.mark.parametrize("arguments", [
    ["--issuer", "a"], ["3", "--subject", "a"], ["3", "--subject", "a", "--issuer", "b"], []])
def test_revoke_requires_exactly_one_device_or_subject(arguments, conf):
    done = attestgate("device", "revoke", "--config", conf, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
