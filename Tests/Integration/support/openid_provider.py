"""oidc-provider-mock, an OpenID provider from PyPI made of Authlib, in a process of its own with TLS."""

import json
import os
import subprocess
import urllib.parse

import httpx
import pytest

from support.paths import PATIENCE, REPOSITORY
from support.ports import reserve_port

PYTHON = REPOSITORY / ".build" / "bench-venv" / "bin" / "python"
PROGRAM = """
import sys
from datetime import timedelta
import oidc_provider_mock
certificate, key, port = sys.argv[1:]
application = oidc_provider_mock.app(access_token_max_age=timedelta(minutes=10))
application.run(host="127.0.0.1", port=int(port), ssl_context=(certificate, key), debug=False, threaded=True)
"""


class OpenIDProvider:
    """Issues ID tokens with RS256 for whom the test logs in. Without the package the test is skipped."""

    # Only its metadata says.
    keys_url = None

    def __init__(self, pki, directory):
        found = PYTHON.exists() and subprocess.run(
            [PYTHON, "-W", "ignore", "-c", "import oidc_provider_mock"], capture_output=True).returncode == 0
        if not found:
            pytest.skip("no OpenID provider; scripts/install-packages test installs oidc-provider-mock")
        identity = pki.server("openid-provider")
        holder, self.port = reserve_port()
        holder.close()
        self.issuer = f"https://localhost:{self.port}"
        self.client = httpx.Client(base_url=self.issuer, verify=str(pki.server_ca), timeout=PATIENCE)
        self.output = open(directory / "openid-provider.log", "wb")
        self.process = subprocess.Popen(
            [PYTHON, "-W", "ignore", "-c", PROGRAM, identity.certificate, identity.key, str(self.port)],
            stdout=self.output, stderr=self.output, env={**os.environ, "PYTHONUNBUFFERED": "1"})

    def is_up(self):
        assert self.process.poll() is None, "the provider has ended"
        try:
            return self.client.get("/.well-known/openid-configuration").status_code == 200
        except httpx.TransportError:
            return False

    def id_token(self, subject, audience, **claims):
        """Logs the person in with the authorization code flow. `claims`: further ones of the person."""
        assert self.client.put(f"/users/{subject}", json=claims).status_code == 204
        query = {"client_id": audience, "redirect_uri": "https://app.example/done", "response_type": "code", "scope": "openid"}
        done = self.client.post("/oauth2/authorize", params=query, data={"sub": subject})
        assert done.status_code == 302, done.text
        code = urllib.parse.parse_qs(urllib.parse.urlsplit(done.headers["location"]).query)["code"][0]
        # Not in Authorization: the colons of an audience would end the name there.
        answer = self.client.post("/oauth2/token", data={
            "grant_type": "authorization_code", "code": code, "redirect_uri": query["redirect_uri"], "client_id": audience,
            "client_secret": "secret"})
        assert answer.status_code == 200, answer.text
        return json.loads(answer.text)["id_token"]

    def stop(self):
        self.client.close()
        self.process.terminate()
        self.process.wait(PATIENCE)
        self.output.close()
