"""Certificates: the ordinary ones from `attestgate pki`, the odd ones from the openssl command line."""

import hashlib
import re
import subprocess
import time
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace

from support.paths import BINARY, ENVIRONMENT


@dataclass(frozen=True)
class Identity:
    """What a client proves itself with: leaf (and what is above it) and key, as PEM files."""

    certificate: Path
    key: Path


@dataclass(frozen=True)
class Authority:
    certificate: Path
    key: Path


CLIENT = "basicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature\nextendedKeyUsage=clientAuth\n"
SERVER = CLIENT.replace("clientAuth", "serverAuth") + "subjectAltName=DNS:localhost,IP:127.0.0.1\n"
AUTHORITY = "basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign,cRLSign\n"


def openssl(*arguments, **options):
    done = subprocess.run(["openssl", *map(str, arguments)], capture_output=True, text=True, **options)
    assert done.returncode == 0, f"openssl {' '.join(map(str, arguments))}:\n{done.stderr}"
    return done.stdout


def attestgate(*arguments, **options):
    """Runs the program to its end, and returns how it ended."""
    return subprocess.run(
        [BINARY, *map(str, arguments)], capture_output=True, text=True, env=ENVIRONMENT, timeout=60, **options)


def about_the_file(messages):
    """What `check` says about a conf file, without its word about this machine's limit of descriptors."""
    return re.sub(r"\n*[^\n]*: warning: this process can open \d+ files[^\n]*\n*\Z", "", messages)


def day(offset):
    return (datetime.now(timezone.utc) + timedelta(days=offset)).strftime("%Y%m%d%H%M%SZ")


class PKI:
    """A development PKI in a directory, and ways to bend it."""

    def __init__(self, directory):
        self.directory = Path(directory)
        done = attestgate("pki", "init", "--directory", self.directory, "--host", "localhost", "--host", "127.0.0.1")
        assert done.returncode == 0, done.stderr
        # What each name stands for, so that no test gets another one's certificate.
        self.made = {}
        self.gms = Authority(self.directory / "gms-ca.pem", self.directory / "gms-ca.key")
        # The GMS CA admits no authority below it. This one does, and is trusted too.
        self.root = self.authority("root")
        self.server_ca = self.directory / "server-ca.pem"
        self.server_authority = Authority(self.server_ca, self.directory / "server-ca.key")
        self.server_certificate = self.directory / "server.pem"
        self.server_key = self.directory / "server.key"

    def phone(self, name="phone"):
        """An ordinary client certificate, issued the way the documentation says."""
        certificate, key = self.directory / f"{name}.pem", self.directory / f"{name}.key"
        if self._is_new(name, "phone"):
            self.generate_key(key, "P-256")
            done = attestgate(
                "pki", "issue", "--directory", self.directory, "--certificate-key", key, "--out", certificate)
            assert done.returncode == 0, done.stderr
        return Identity(certificate, key)

    def generate_key(self, path, kind):
        """`kind` is a curve, or RSA with its size: P-256, Ed25519, RSA-2048."""
        if kind.startswith("RSA-"):
            options = ["-algorithm", "RSA", "-pkeyopt", f"rsa_keygen_bits:{kind[4:]}"]
            if int(kind[4:]) > 8192:
                # Five small primes (RFC 8017 section 3.2) are found in seconds, two large ones in a minute.
                options += ["-pkeyopt", "rsa_keygen_primes:5"]
        elif kind.startswith("Ed"):
            options = ["-algorithm", kind]
        else:
            options = ["-algorithm", "EC", "-pkeyopt", f"ec_paramgen_curve:{kind}"]
        openssl("genpkey", *options, "-out", path)

    def authority(self, name, subject=None, issuer=None, kind="P-256", start=-1, end=30, extensions=AUTHORITY):
        """A further CA: its own root, or issued by `issuer`."""
        made = self._make(name, subject or f"/CN={name}", issuer, extensions, kind, "sha256", start, end)
        return Authority(made.certificate, made.key)

    def client(
        self, name, subject=None, issuer="gms", extensions=CLIENT, kind="P-256", digest="sha256", start=-1, end=30,
        above=(), key=None,
    ):
        """A client certificate that may be odd in any respect. `issuer` None makes it self-signed; `key` is a file, where it
        is to be of a key that another certificate has already."""
        issuer = self.gms if issuer == "gms" else issuer
        made = self._make(name, subject or f"/CN={name}", issuer, extensions, kind, digest, start, end, key)
        if above:
            # A client presents its leaf and the authorities above it in one file.
            chain = self.directory / f"{name}-chain.pem"
            chain.write_text("".join(path.read_text() for path in [made.certificate, *above]))
            return Identity(chain, made.key)
        return made

    def server(self, name, **options):
        """A certificate for a server on loopback, of the CA that clients trust."""
        return self.client(name, issuer=self.server_authority, extensions=SERVER, **options)

    def crl(self, path, authority, revoked=(), start=-1, end=30, extensions="", digest="sha256", form="PEM"):
        """Writes an authority's revocation list, as openssl makes it, in one step.

        `revoked`: (identity, reason) pairs. `start`, `end`: days from now. - Returns: its path.
        """
        path = Path(path)
        work = Path(f"{path}.ca")
        work.mkdir(exist_ok=True)
        lines = []
        for identity, reason in revoked:
            serial = openssl("x509", "-in", identity.certificate, "-noout", "-serial").strip().split("=")[1]
            lines.append(f"R\t{day(40)[2:]}\t{day(-1)[2:]},{reason}\t{serial}\tunknown\t/CN=it\n")
        (work / "index.txt").write_text("".join(lines))
        (work / "number").write_text(f"{time.time_ns():X}".rjust(20, "0") + "\n")
        (work / "ca.cnf").write_text(
            f"[ca]\ndefault_ca=it\n[it]\ndatabase={work}/index.txt\ncrlnumber={work}/number\nunique_subject=no\n"
            f"[extensions]\nauthorityKeyIdentifier=keyid\n{extensions}\n")
        made = work / "made.pem"
        openssl(
            "ca", "-gencrl", "-config", work / "ca.cnf", "-cert", authority.certificate, "-keyfile", authority.key,
            "-md", digest, "-crl_lastupdate", day(start), "-crl_nextupdate", day(end), "-crlexts", "extensions",
            "-out", made)
        if form == "DER":
            openssl("crl", "-in", made, "-outform", "DER", "-out", work / "made.der")
            made = work / "made.der"
        made.replace(path)
        return path

    def names(self, identity):
        """What logs call a certificate, in the openssl command's words."""
        lines = openssl(
            "x509", "-in", identity.certificate, "-noout", "-subject", "-issuer", "-serial", "-nameopt", "RFC2253")
        subject, issuer, serial = (line.split("=", 1)[1] for line in lines.splitlines())
        der = subprocess.run(
            ["openssl", "pkey", "-in", str(identity.key), "-pubout", "-outform", "DER"], capture_output=True, check=True)
        return SimpleNamespace(
            subject=subject, issuer=issuer, serial=serial, key_id=hashlib.sha256(der.stdout[-65:]).digest())

    def _is_new(self, name, what):
        is_new, known = name not in self.made, self.made.setdefault(name, what)
        assert known == what, f"two certificates are called {name}: {known} and {what}"
        return is_new

    def _make(self, name, subject, issuer, extensions, kind, digest, start, end, key=None):
        certificate, shared = self.directory / f"{name}.pem", key
        key = shared or self.directory / f"{name}.key"
        if not self._is_new(name, (subject, issuer, extensions, kind, digest, start, end, shared)):
            return Identity(certificate, key)
        if shared is None:
            self.generate_key(key, kind)
        request = self.directory / f"{name}.csr"
        openssl("req", "-new", "-key", key, "-subj", subject, "-out", request)
        # `openssl ca` and not `x509 -req`: only it can date a certificate at will.
        work = self.directory / f"{name}.ca"
        work.mkdir()
        (work / "index.txt").touch()
        conf = work / "ca.cnf"
        conf.write_text(
            "[ca]\ndefault_ca=it\n[it]\n"
            f"database={work}/index.txt\nnew_certs_dir={work}\nunique_subject=no\npolicy=any\nrand_serial=yes\n"
            "[any]\ncommonName=supplied\norganizationName=optional\n"
            f"[extensions]\n{extensions or 'subjectKeyIdentifier=hash'}\n")
        signing = ["-selfsign", "-keyfile", key] if issuer is None else ["-cert", issuer.certificate, "-keyfile", issuer.key]
        openssl(
            "ca", "-batch", "-notext", "-config", conf, "-in", request, "-out", certificate, "-md", digest,
            "-startdate", day(start), "-enddate", day(end), "-extensions", "extensions", *signing)
        return Identity(certificate, key)


class Lists:
    """The lists of the two authorities, and the gateway that reads them."""

    def __init__(self, directory, pki, **settings):
        self.directory, self.pki, self.settings = directory, pki, settings
        self.gms, self.root = directory / "gms.crl", directory / "root.crl"
        self.revoke()
        pki.crl(self.root, pki.root)

    def revoke(self, *identities, reason="keyCompromise", **options):
        """Writes the GMS CA's list again: these are on it, nobody else is."""
        self.pki.crl(self.gms, self.pki.gms, [(identity, reason) for identity in identities], **options)

    @property
    def clients(self):
        return {"crls": [str(self.gms), str(self.root)], **self.settings}
