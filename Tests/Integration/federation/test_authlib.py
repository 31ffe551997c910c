"""Authlib, an independent OAuth client, at a federation: JWT bearer, private_key_jwt, introspection and revocation."""

import json
import subprocess

import pytest
from cryptography.hazmat.primitives import serialization

from support.openid_provider import PYTHON

PROGRAM = """
import json, secrets, sys, time
from authlib.integrations.httpx_client import AssertionClient, OAuth2Client
from authlib.oauth2.rfc7523 import PrivateKeyJWT
from joserfc.jwk import ECKey

given = json.load(sys.stdin)
url, ca, key, jwk, instance = (given[name] for name in ("url", "ca", "key", "jwk", "instance"))
endpoint = url + "/token"

# The instance, by private_key_jwt.
agent = OAuth2Client(instance, ECKey.import_key(key), token_endpoint_auth_method="private_key_jwt", verify=ca)
agent.register_client_auth_method(PrivateKeyJWT(endpoint, claims={"jti": secrets.token_urlsafe(16)}, headers={"jwk": jwk}, alg="ES256"))
own = agent.fetch_token(endpoint, grant_type="client_credentials")

# A token of a service, by a JWT as grant.
def assertion(scope, **claims):
    return AssertionClient(
        token_endpoint=endpoint, issuer=instance, subject=instance, audience=url, scope=scope, verify=ca, key=key,
        grant_type=AssertionClient.JWT_BEARER_GRANT_TYPE, header={"alg": "ES256", "jwk": jwk}, expires_at=int(time.time()) + 120,
        claims={"jti": secrets.token_urlsafe(16), **claims})

with assertion("profile courses", resource=given["service_url"]) as client:
    service = client.refresh_token()
with assertion("courses", azp="org.example.reader", parent=service["jti"]) as client:
    app = client.refresh_token()

# The service.
service_client = OAuth2Client(*given["credentials"], token_endpoint_auth_method="client_secret_basic", verify=ca)
def introspect(token):
    return service_client.introspect_token(url + "/introspect", token=token).json()
seen = [introspect(token["access_token"]) for token in (service, app)]
revoked = service_client.revoke_token(url + "/revoke", token=app["access_token"]).status_code
after = [introspect(token["access_token"])["active"] for token in (service, app)]

# Errors are understood.
try:
    with assertion("admin", resource=given["service_url"]) as client:
        client.refresh_token()
    error = None
except Exception as raised:
    error = getattr(raised, "error", str(raised))
print(json.dumps({"own": own, "service": service, "app": app, "seen": seen, "revoked": revoked, "after": after, "error": error}))
"""


def test_authlib_obtains_introspects_and_revokes_tokens(federation):
    found = PYTHON.exists() and subprocess.run(
        [PYTHON, "-W", "ignore", "-c", "import authlib.integrations.httpx_client"], capture_output=True).returncode == 0
    if not found:
        pytest.skip("no Authlib; scripts/install-packages test installs it with oidc-provider-mock")
    platform, agent = federation.platforms[0], federation.agent()
    key = agent.mtls.private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()).decode()
    done = subprocess.run(
        [PYTHON, "-W", "ignore", "-c", PROGRAM], capture_output=True, text=True, timeout=120, input=json.dumps({
            "url": federation.url, "ca": str(federation.pki.server_ca), "key": key, "jwk": agent.mtls.jwk, "instance": agent.id,
            "service_url": platform.url, "credentials": platform.credentials}))
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["own"]["cnf"] == {"jkt": agent.mtls.thumbprint}
    assert [token["scope"] for token in (result["service"], result["app"])] == ["profile courses", "courses"]
    assert [(seen["active"], seen.get("azp")) for seen in result["seen"]] == [(True, None), (True, "org.example.reader")]
    assert (result["revoked"], result["after"], result["error"]) == (200, [True, False], "invalid_scope")
