"""An OAuth authorization server from PyPI, Authlib, in a process of its own with TLS. It authenticates clients by their
attestations, whose signatures joserfc verifies: nothing of it is ours but the steps of the draft."""

import os
import subprocess

import httpx
import pytest

from support.openid_provider import PYTHON
from support.paths import PATIENCE
from support.ports import reserve_port

PROGRAM = """
import json, secrets, sys
from authlib.integrations.flask_oauth2 import AuthorizationServer
from authlib.oauth2.rfc6749 import ClientMixin, grants
from flask import Flask
from joserfc import jwk, jwt
certificate, key, port, keys, client_id = sys.argv[1:]
issuer, METHOD = f"https://localhost:{port}", "attest_jwt_client_auth"

class Client(ClientMixin):
    client_id = client_id
    def get_client_id(self): return client_id
    def get_allowed_scope(self, scope): return scope
    def check_endpoint_auth_method(self, method, endpoint): return method == METHOD
    def check_grant_type(self, grant_type): return grant_type == "client_credentials"

def attested(query_client, request):
    try:
        token = jwt.decode(request.headers["OAuth-Client-Attestation"], jwk.KeySet.import_key_set(json.load(open(keys))))
        assert token.header["typ"] == "oauth-client-attestation+jwt"
        jwt.JWTClaimsRegistry(exp={"essential": True}, sub={"essential": True}).validate(token.claims)
        own = jwk.ECKey.import_key(token.claims["cnf"]["jwk"])
        proof = jwt.decode(request.headers["OAuth-Client-Attestation-PoP"], own)
        assert proof.header["typ"] == "oauth-client-attestation-pop+jwt"
        jwt.JWTClaimsRegistry(aud={"essential": True, "value": issuer}, jti={"essential": True}).validate(proof.claims)
        return query_client(token.claims["sub"])
    except Exception as error:
        print(repr(error), file=sys.stderr, flush=True)

class Grant(grants.ClientCredentialsGrant):
    TOKEN_ENDPOINT_AUTH_METHODS = [METHOD]

application = Flask("tokens")
server = AuthorizationServer(
    application, lambda asked: Client() if asked == client_id else None, lambda token, request: None)
server.register_client_auth_method(METHOD, attested)
server.register_grant(Grant)
application.add_url_rule("/up", "up", lambda: "")
application.add_url_rule("/token", "token", lambda: server.create_token_response(), methods=["POST"])
application.run(host="127.0.0.1", port=int(port), ssl_context=(certificate, key), debug=False)
"""


class AuthorizationServer:
    """Issues access tokens to a client whose attester has these keys. Without the packages the test is skipped."""

    def __init__(self, pki, directory, keys, client_id):
        found = PYTHON.exists() and subprocess.run(
            [PYTHON, "-W", "ignore", "-c", "import authlib, flask, joserfc"], capture_output=True).returncode == 0
        if not found:
            pytest.skip("no Authlib; scripts/install-packages test installs it with oidc-provider-mock")
        identity = pki.server("authorization-server")
        holder, port = reserve_port()
        holder.close()
        self.issuer = f"https://localhost:{port}"
        (directory / "attester.json").write_bytes(keys)
        self.client = httpx.Client(base_url=self.issuer, verify=str(pki.server_ca), timeout=PATIENCE)
        self.log = directory / "authorization-server.log"
        self.output = open(self.log, "wb")
        self.process = subprocess.Popen(
            [PYTHON, "-W", "ignore", "-c", PROGRAM, identity.certificate, identity.key, str(port),
             directory / "attester.json", client_id],
            stdout=self.output, stderr=self.output, env={**os.environ, "PYTHONUNBUFFERED": "1"})

    def is_up(self):
        assert self.process.poll() is None, self.log.read_text()
        try:
            return self.client.get("/up").status_code == 200
        except httpx.TransportError:
            return False

    def ask(self, attestation, pop):
        return self.client.post("/token", data={"grant_type": "client_credentials", "scope": "records"}, headers={
            "OAuth-Client-Attestation": attestation, "OAuth-Client-Attestation-PoP": pop})

    def stop(self):
        self.client.close()
        self.process.terminate()
        self.process.wait(PATIENCE)
        self.output.close()
