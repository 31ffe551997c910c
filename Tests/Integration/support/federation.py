"""A gateway that enrols phones and serves a federation, its instances, and a small learning platform that belongs to it."""

import base64
import hashlib
import json
import secrets
import time
import uuid

import httpx

from support.enrolling_phone import MTLSKey, b64url, jws
from support.enrolment import Enrolling
from support.gateway import reserve_port
from support.paths import PATIENCE
from support.pki import attestgate
from support.posted_to import PostedTo
from support.waiting import eventually

ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
SCOPES = ["profile", "courses", "grades"]
COURSES = "org.example.courses"


class Federating:
    """`federation`: changes of that section; further settings as `Enrolling` takes them."""

    def __init__(self, directory, pki, upstream, federation=None, **settings):
        self.enrolling = Enrolling(directory, pki, upstream, **settings)
        self.pki, self.directory, self.gateway = pki, directory, self.enrolling.gateway
        self.holder, self.port = reserve_port()
        self.url = f"https://localhost:{self.port}"
        # As docs/federation/operating.md has it made.
        self.operator = secrets.token_hex(32)
        self.other_operator = secrets.token_hex(32)
        operators = directory / "operators"
        operators.write_text("# who may have services join\n" + "".join(
            f"{name} {hashlib.sha256(token.encode()).hexdigest()}\n"
            for name, token in (("university", self.operator), ("college", self.other_operator))))
        self.gateway.conf["federation"] = {
            "address": f"127.0.0.1:{self.port}", "url": self.url, "scopes": SCOPES, "operators": str(operators),
            "tls": {"certificate": str(pki.server_certificate), "key": str(pki.server_key)},
            "clients": {
                "authorities": [str(pki.gms.certificate)], "accept": ["issued", "registered"], "require": "optional"},
            "services": {"authorities": str(pki.server_ca), "interval": "1h", "retry": "1s", "timeout": "5s"},
            "requests_per_minute": 100_000, **(federation or {})}
        self.http = httpx.Client(base_url=self.url, verify=str(pki.server_ca), timeout=PATIENCE)

    def start(self):
        self.enrolling.start()
        return self

    def stop(self):
        self.http.close()
        self.enrolling.stop()
        self.holder.close()

    def change(self, **section):
        """Another conf file, served. Connections that are open keep the one before."""
        self.gateway.conf["federation"].update(section)
        self.gateway.write_conf()
        done = attestgate("reload", "--config", self.gateway.conf_path)
        assert done.returncode == 0, done.stderr
        self.http.close()
        self.http = httpx.Client(base_url=self.url, verify=str(self.pki.server_ca), timeout=PATIENCE)

    # Calls.

    def post(self, path, form=None, token=None, basic=None, **options):
        headers = options.pop("headers", {})
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        return self.http.post(path, data=form, headers=headers, auth=basic, **options)

    def introspect(self, service, token):
        """What the service learns of a token."""
        answer = self.post("/introspect", {"token": token}, basic=service.credentials)
        assert answer.status_code == 200, answer.text
        assert answer.headers["Cache-Control"] == "no-store"
        return answer.json()

    def is_active(self, service, token):
        return self.introspect(service, token)["active"]

    def agent(self):
        """An instance on an enrolled phone."""
        phone, mtls, _ = self.enrolling.enrolled()
        return Agent(self, phone, mtls)

    # Services.

    def join(self, operator=None, **members):
        return self.http.put(
            "/service-discovery/federation", json=members,
            headers={"Authorization": f"Bearer {operator or self.operator}"})

    def platform(self, approved=True, **change):
        return LearningPlatform(self, approved, **change)

    def command(self, *arguments):
        done = attestgate("service", *arguments, "--config", self.gateway.conf_path)
        assert done.returncode == 0, done.stderr
        return done.stdout


class Agent:
    """The app on a phone that obtains tokens for others."""

    def __init__(self, federating, phone, mtls):
        self.federating, self.phone, self.mtls = federating, phone, mtls
        self.id = b64url(phone.key.key_id)

    def assertion(self, key=None, header=None, **change):
        """`change`: of its claims; None leaves one out."""
        now = int(time.time())
        key = key or self.mtls
        claims = {
            "iss": self.id, "sub": self.id, "aud": self.federating.url, "iat": now, "exp": now + 300,
            "jti": secrets.token_urlsafe(16), **change}
        made = {"alg": "ES256", "typ": "JWT", "jwk": key.jwk, **(header or {})}
        return jws(
            {name: value for name, value in made.items() if value is not None},
            {name: value for name, value in claims.items() if value is not None}, key)

    def register(self, scope=None, assertion=None, **options):
        form = {
            "grant_type": "client_credentials", "client_assertion_type": ASSERTION_TYPE,
            "client_assertion": assertion or self.assertion()}
        return self.federating.post("/token", {**form, **({"scope": scope} if scope else {})}, **options)

    def derive(self, assertion=None, grant_type=BEARER, path="/token", **parameters):
        form = {"grant_type": grant_type, "assertion": assertion or self.assertion(), **parameters}
        if path == "/authorize":
            del form["grant_type"]
        return self.federating.post(path, form)

    def registered(self, **options):
        answer = self.register(**options)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def token(self, service, scope="profile courses"):
        answer = self.derive(aud=service.url, scope=scope)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def app_token(self, parent, app="org.example.reader", scope="courses", **claims):
        """A token for another app, of a service's token."""
        answer = self.derive(self.assertion(azp=app, parent=parent["jti"], **claims), scope=scope)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def revoke(self, token, caller):
        answer = self.federating.post("/revoke", {"token": token}, token=caller)
        assert answer.status_code == 200, answer.text


class LearningPlatform:
    """A service with courses: it describes itself, exchanges codes, and asks the federation about each token it is shown."""

    def __init__(self, federating, approved=True, **change):
        self.federating = federating
        self.identity = federating.pki.server(f"platform-{secrets.token_hex(4)}")
        self.service = PostedTo(self._answer, self.identity)
        self.url = f"https://localhost:{self.service.port}"
        self.id = str(uuid.uuid4())
        self.description = self.describing()
        self.fetches = 0
        # What is served instead of the description: status, content, fields.
        self.script = None
        members = {
            "service_uuid": self.id, "name": "Learning", "mainurl": self.url, "token_endpoint": f"{self.url}/token",
            "rsdurl": f"{self.url}/services.txt", "info": "Courses of a university", **change}
        answer = federating.join(**members)
        assert answer.status_code == 201, answer.text
        self.token = answer.json()["token"]
        assert answer.json()["approved"] is False
        if approved:
            self.approve()

    def describing(self, **change):
        return {
            "engineName": "Learning", "engineLink": self.url, "homePageLink": self.url, "engineId": "1", "apis": {
                COURSES: {"apiLink": "/courses", "apiVersion": "2", "preferred": True, "transport": ["https"]},
                "org.ietf.oauth2": {"apiLink": f"{self.url}/token", "apiVersion": "1"}}, **change}

    @property
    def credentials(self):
        return (self.id, self.token)

    def approve(self):
        self.federating.command("approve", self.id)

    def await_description(self, count=1):
        eventually(lambda: self.fetches >= count, "the federation to fetch the description")

    def stop(self):
        self.service.close()

    # The service itself.

    def _answer(self, handler):
        status, content, fields = self._serve(handler)
        handler.send_response(status)
        for name, value in fields.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)

    def _serve(self, handler):
        length = int(handler.headers.get("Content-Length", 0))
        body = handler.rfile.read(length)
        if handler.path == "/services.txt":
            self.fetches += 1
            if self.script:
                return self.script
            return 200, json.dumps(self.description).encode(), {"Content-Type": "text/plain"}
        if handler.path == "/login":
            # The agent gives the code; the platform exchanges it for its token.
            answer = self.federating.post(
                "/token", {"grant_type": "authorization_code", "code": body.decode()}, basic=self.credentials)
            return answer.status_code, answer.content, {"Content-Type": "application/json"}
        if handler.path == "/courses":
            kind, _, token = handler.headers.get("Authorization", "").partition(" ")
            found = self.federating.introspect(self, token) if kind == "Bearer" else {"active": False}
            if not found["active"]:
                return 401, b"", {"WWW-Authenticate": "Bearer"}
            if "courses" not in found["scope"].split():
                return 403, b"", {}
            return 200, json.dumps({"student": found["sub"], "app": found.get("azp")}).encode(), {}
        return 404, b"", {}

    def courses(self, token):
        """What an app with the token sees: the status and the content."""
        with httpx.Client(verify=str(self.federating.pki.server_ca), timeout=PATIENCE) as client:
            answer = client.get(f"{self.url}/courses", headers={"Authorization": f"Bearer {token}"})
        return answer.status_code, answer.json() if answer.status_code == 200 else None


def basic(name, secret):
    return "Basic " + base64.b64encode(f"{name}:{secret}".encode()).decode()


__all__ = ["ASSERTION_TYPE", "BEARER", "COURSES", "SCOPES", "Agent", "Federating", "LearningPlatform", "MTLSKey", "basic"]
