"""A software phone of the built programs, and a gateway that it may enrol with."""

import base64
import json
from contextlib import contextmanager

from cryptography.hazmat.primitives import serialization

from support.command_line import device_tool
from support.enrolling_phone import MTLSKey
from support.gateway import Gateway, reserve_port
from support.pki import Identity
from support.platforms import APPS, PLATFORMS
from support.status_list_service import listing


def run(*arguments, status=0):
    done = device_tool(*arguments, text=True)
    assert done.returncode == status, f"{done.returncode}: {done.stdout}{done.stderr}"
    return done


ROOTS = {"ios": "simulator-root.pem", "android": "simulator-android-root.pem"}
# The serial number of `--alter attestation-revocation`.
REVOKED = "2c8cdddfd5e03bfc"
# What `attestgate-device` states of the app by itself.
ANDROID = {"signing_certificates": ["a5" * 32], "minimum_patch_level": "2026-01", "certificate_key": "attested"}


class EnrollingGateway:
    """A gateway that phones may enrol with. They are of the first platform, unless `phones_of` says otherwise."""

    def __init__(self, directory, pki, upstream, app=(), platforms=PLATFORMS, devices=False, routes=(), settings=(), **enrolment):
        """`devices`: whether there is a listener for enrolled devices; `routes`: further ones; `settings`: as `Gateway` takes them."""
        self.directory, self.pki, self.platform = directory, pki, platforms[0]
        for platform in platforms:
            run("ca", "init", "--platform", platform, "--directory", directory / "authority")
        if "android" in platforms:
            (directory / "status.json").write_bytes(listing(REVOKED))
            enrolment.setdefault("android", {"status_list": {"file": str(directory / "status.json")}})
        self.holder, self.port = reserve_port()
        self.url = f"https://localhost:{self.port}"
        if devices:
            self.devices_holder, self.devices_port = reserve_port()
            enrolment["devices"] = {
                "address": f"127.0.0.1:{self.devices_port}",
                "tls": {"certificate": str(pki.server_certificate), "key": str(pki.server_key)},
                "clients": {"authorities": [str(pki.gms.certificate)]}}
        self.gateway = Gateway(
            directory, pki, {"service": upstream.address},
            [{"name": "records", "host": "localhost", "path": "/", "require": "request-proof"},
             {"name": "device", "host": "localhost", "path": "/device", "require": "device"}, *routes], **dict(settings),
            apps=[{
                "id": APPS[platform], "environment": "simulator",
                "attestation_root": str(directory / "authority" / ROOTS[platform]),
                **(ANDROID if platform == "android" else {}), **dict(app)} for platform in platforms],
            enrolment={
                "address": f"127.0.0.1:{self.port}", "url": self.url, "admission": "open",
                "tls": {"certificate": str(pki.server_certificate), "key": str(pki.server_key)},
                "authority": {"certificate": str(pki.gms.certificate), "key": str(pki.gms.key)},
                "requests_per_minute": 10_000, **enrolment}).start()

    @contextmanager
    def phones_of(self, platform):
        before, self.platform = self.platform, platform
        yield
        self.platform = before

    def phone(self, name):
        return Phone(self, self.directory / f"{self.platform}-{name}", APPS[self.platform])

    def stop(self):
        self.gateway.stop()
        self.holder.close()
        if hasattr(self, "devices_holder"):
            self.devices_holder.close()


class Phone:
    def __init__(self, service, directory, app):
        self.service, self.directory, self.app = service, directory, app

    def create(self):
        """Makes its keys. - Returns: that of its certificate."""
        run("create", "--directory", self.directory, "--app-id", self.app)
        private = serialization.load_pem_private_key((self.directory / "certificate-key.pem").read_bytes(), None)
        return MTLSKey(private)

    @property
    def identity(self):
        return Identity(self.directory / "certificate.pem", self.directory / "certificate-key.pem")

    def enrol(self, *arguments, status=0):
        return run(
            "enrol", "--enrolment", self.service.url, "--resolve", f"localhost:{self.service.port}:127.0.0.1", "--ca",
            self.service.pki.server_ca, "--attestation-ca", self.service.directory / "authority", "--directory",
            self.directory, "--app-id", self.app, *arguments, status=status)

    @property
    def devices(self):
        """The options that lead to the listener for enrolled devices."""
        port = self.service.devices_port
        return "--devices", f"https://localhost:{port}", "--resolve", f"localhost:{port}:127.0.0.1"

    def renew(self, *arguments, status=0):
        return self.enrol(*self.devices, *arguments, status=status)

    def instances(self, command, *arguments, status=0):
        """- Returns: what the command of `attestgate-device instances` prints."""
        return run(
            "instances", command, *self.devices, "--cacert", self.service.pki.server_ca, "--directory", self.directory,
            *arguments, status=status)

    def federation(self, federation, command, *arguments, status=0):
        """- Returns: what the command of `attestgate-device federation` prints, as JSON if it is."""
        done = run(
            "federation", command, "--federation", federation.url, "--resolve", f"localhost:{federation.port}:127.0.0.1",
            "--cacert", self.service.pki.server_ca, "--directory", self.directory, *arguments, status=status)
        return json.loads(done.stdout) if done.stdout.startswith(("{", "[")) else done.stdout

    def request(self, *arguments):
        """- Returns: the status, and the denial."""
        port = self.service.gateway.port
        done = run(
            "request", "--directory", self.directory, "--cacert", self.service.pki.server_ca, "--resolve",
            f"localhost:{port}:127.0.0.1", "-i", *arguments, f"https://localhost:{port}/records/1")
        status = int(done.stdout.split(" ", 2)[1])
        return status, json.loads(done.stdout.split("\n\n", 1)[1])["error"] if status >= 400 else None

    def request_in_vain(self):
        """- Returns: what is said of a request whose handshake is refused."""
        port = self.service.gateway.port
        return run(
            "request", "--directory", self.directory, "--cacert", self.service.pki.server_ca, "--resolve",
            f"localhost:{port}:127.0.0.1", f"https://localhost:{port}/records/1", status=56).stderr

    def printed(self, *options):
        """What `device show` prints."""
        key_id = json.loads((self.directory / "enrolment").read_text())["hardware_key"]
        return self.service.gateway.device_command("show", *options, base64.b64decode(key_id).hex())

    @property
    def shown(self):
        return json.loads(self.printed("--json"))

    @property
    def number(self):
        return self.shown["device"]
