"""A gateway that enrols, with an authority for the phones that come to it."""

import json
import time
from contextlib import contextmanager

from support import client as http
from support.enrolling_phone import AttestationAuthority, EnrollingPhone, EnrolmentAddress, MTLSKey, b64url, jws, sha256
from support.gateway import Gateway, reserve_port
from support.key_attestation import KeyAttestationAuthority
from support.key_description import SIGNER
from support.pki import attestgate
from support.platforms import APPS, platform_of

ROUTES = [
    {"name": "records", "host": "localhost", "path": "/", "require": "request-proof"},
    {"name": "device", "host": "localhost", "path": "/device", "require": "device"},
]
REFUSED = (403, "invalid_request")
AUTHORITIES = {"ios": AttestationAuthority, "android": KeyAttestationAuthority}


class Enrolling:
    """`enrolment`: changes of that section; `devices`: whether there is a listener for enrolled devices; `app`: of the entries of the apps; `apps`: further entries; `like`: another one that it
    enrols for; `platforms`: whose apps there are, of which the first has the phones, unless `phones_of` says otherwise; further
    settings as `Gateway` takes them."""

    def __init__(
        self, directory, pki, upstream, enrolment=None, devices=False, app=None, apps=(), like=None, platforms=("ios",), **settings
    ):
        self.pki, self.upstream, self.directory = pki, upstream, directory
        directory.mkdir(parents=True, exist_ok=True)
        self.platform = platforms[0]
        self.authorities = like.authorities if like else {
            platform: AUTHORITIES[platform](directory)
            for platform in dict.fromkeys([*platforms, *(platform_of(entry["id"]) for entry in apps)])}
        self.holder, port = reserve_port()
        self.provider = like.provider if like else f"https://localhost:{port}"
        self.service = EnrolmentAddress(pki, port)
        section = {
            "address": f"127.0.0.1:{port}", "protocols": ["h2", "http/1.1"], "url": self.provider,
            "tls": {"certificate": str(pki.server_certificate), "key": str(pki.server_key)},
            "authority": {"certificate": str(pki.gms.certificate), "key": str(pki.gms.key)},
            "admission": "open", "requests_per_minute": 100_000, **(enrolment or {})}
        if devices:
            self.devices_holder, self.devices_port = reserve_port()
            section["devices"] = {
                "address": f"127.0.0.1:{self.devices_port}", "tls": section["tls"],
                "clients": {"authorities": [str(pki.gms.certificate)], "accept": ["issued", "registered"]}}
        apps = [
            *({**self.entry(platform), **(app or {})} for platform in platforms),
            *({**self.entry(platform_of(entry["id"])), **entry} for entry in apps)]
        self.gateway = Gateway(
            directory / "gateway", pki, {"service": upstream.address}, ROUTES, apps=apps, enrolment=section, **settings)

    def entry(self, platform):
        """The app of a platform in the conf file."""
        entry = {
            "id": APPS[platform], "environment": "simulator", "attestation_root": str(self.authorities[platform].path)}
        return entry if platform == "ios" else {**entry, "signing_certificates": [SIGNER.hex()]}

    @property
    def authority(self):
        return self.authorities[self.platform]

    @contextmanager
    def phones_of(self, platform):
        before, self.platform = self.platform, platform
        yield
        self.platform = before

    def start(self):
        # It is ready when enrolment is.
        self.gateway.start()
        return self

    def stop(self):
        self.gateway.stop()
        self.holder.close()
        if "devices" in self.gateway.conf["enrolment"]:
            self.devices_holder.close()

    def phone(self, app=None):
        app = app or APPS[self.platform]
        return EnrollingPhone(self.service, self.authorities[platform_of(app)], self.provider, app)

    def enrolled(self):
        """A phone that has a certificate. - Returns: the phone, its key, and the answer."""
        phone, mtls = self.phone(), MTLSKey()
        response = phone.enrol(mtls)
        assert response.status == 200, response
        return phone, mtls, response

    def change(self, **enrolment):
        """Another conf file, served."""
        self.gateway.conf["enrolment"].update(enrolment)
        self.gateway.write_conf()
        done = attestgate("reload", "--config", self.gateway.conf_path)
        assert done.returncode == 0, done.stderr

    def device(self, phone, mtls, response, name="device"):
        """The phone at the listener for enrolled devices, with the certificate of an answer."""
        return EnrolledPhone(self, phone, phone.identity(self.directory, mtls, response, name))

    def status(self):
        done = attestgate("status", "--config", self.gateway.conf_path, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def devices(self):
        return json.loads(self.gateway.device_command("list", "--json"))["devices"]


class EnrolledPhone:
    """A phone that has a certificate, at the listener for enrolled devices."""

    def __init__(self, enrolling, phone, identity):
        self.enrolling, self.own, self.identity = enrolling, phone, identity
        self.address = EnrolmentAddress(enrolling.pki, enrolling.devices_port)
        self.proving = phone.requesting(self.address, identity)
        self.id = b64url(phone.key.key_id)

    def connect(self):
        return self.proving.connect()

    def exchange(self, data):
        with self.connect() as client:
            return client.exchange(data)

    def get(self, path):
        return self.exchange(http.get(path))

    def request(self, method, path, body, **change):
        """The bytes of a request with JSON and a proof."""
        # One counter for proofs and for bindings.
        self.proving.counter = self.own.counter = max(self.proving.counter, self.own.counter)
        data = self.proving.request(
            method, path, fields=[("Content-Type", "application/json")], content=json.dumps(body).encode(), **change)
        self.own.counter = self.proving.counter
        return data

    def send(self, method, path, body, **change):
        return self.exchange(self.request(method, path, body, **change))

    def bind(self, mtls, **change):
        self.own.counter = max(self.proving.counter, self.own.counter)
        body = json.dumps({"assertion": self.own.token(mtls, **change)}).encode()
        return self.exchange(http.post("/key-binding", body, "Content-Type: application/json"))

    def instances(self):
        response = self.get("/instances")
        assert response.status == 200, response
        return json.loads(response.content)

    def revoke(self, instance, **change):
        return self.send("PATCH", f"/instances/{instance}", {"status": "REVOKED"}, **change)


def admission_token(issuer_key, mtls, audience, **change):
    now = int(time.time())
    claims = {
        "iss": "https://login.example", "aud": audience, "sub": "patient-1", "jti": b64url(sha256(mtls.point)),
        "exp": now + 300, "iat": now, "cnf": {"jkt": mtls.thumbprint}, **change}
    return jws({"alg": "ES256", "typ": "JWT", "kid": "1"}, claims, issuer_key)
