"""Tokens of Google Play, made by jwcrypto."""

import base64
import json
import subprocess
import time

from jwcrypto import jwe, jwk, jws
from jwcrypto.common import base64url_encode

from support.paths import BINARY, ENVIRONMENT

NOW = 1_795_000_000
AT = "2026-11-18T11:06:40Z"
NONCE = bytes(range(32))
SIGNER = bytes([0xA5]) * 32
PACKAGE = "org.example.app"


def payload():
    return {
        "requestDetails": {
            "requestPackageName": PACKAGE, "nonce": base64.urlsafe_b64encode(NONCE).decode(),
            "timestampMillis": str(NOW * 1000)},
        "appIntegrity": {
            "appRecognitionVerdict": "PLAY_RECOGNIZED", "packageName": PACKAGE,
            "certificateSha256Digest": [base64url_encode(SIGNER)], "versionCode": "1042"},
        "deviceIntegrity": {
            "deviceRecognitionVerdict": ["MEETS_BASIC_INTEGRITY", "MEETS_DEVICE_INTEGRITY"],
            "deviceAttributes": {"sdkVersion": 36}},
        "accountDetails": {"appLicensingVerdict": "LICENSED"}}


class Console:
    """An app's keys as the Play Console gives them, and what Google does with them."""

    def __init__(self, folder):
        folder.mkdir(exist_ok=True)
        self.secret = jwk.JWK.generate(kty="oct", size=256)
        self.signer = jwk.JWK.generate(kty="EC", crv="P-256")
        self.decryption = folder / "decryption"
        self.decryption.write_text(base64.b64encode(base64.urlsafe_b64decode(self.secret.k + "=")).decode() + "\n")
        self.verification = folder / "verification"
        pem = self.signer.export_to_pem().decode()
        self.verification.write_text("".join(pem.split("\n")[1:-2]))
        for file in (self.decryption, self.verification):
            file.chmod(0o600)

    def sign(self, content, header=None, key=None):
        token = jws.JWS(content if isinstance(content, bytes) else json.dumps(content))
        header = header or {"alg": "ES256"}
        token.allowed_algs = ["ES256", "HS256"]
        token.add_signature(key or self.signer, None, json.dumps(header), None)
        return token.serialize(compact=True)

    def encrypt(self, content, header=None, key=None):
        token = jwe.JWE(content.encode(), json.dumps(header or {"alg": "A256KW", "enc": "A256GCM"}))
        token.allowed_algs = jwe.default_allowed_algs + ["RSA1_5"]
        token.add_recipient(key or self.secret)
        return token.serialize(compact=True)

    def token(self, content=None):
        return self.encrypt(self.sign(payload() if content is None else content))

    def fresh(self, bound, **change):
        """A token that was requested now for these bytes."""
        content = payload()
        content["requestDetails"] |= {
            "nonce": base64url_encode(bound), "timestampMillis": str(int(time.time()) * 1000)}
        for section, members in change.items():
            content[section] |= members
        return self.token(content)

    def verify(self, token, *further, nonce=NONCE, console=None, json_output=True):
        keys = console or self
        arguments = [
            BINARY, "verify", "play-integrity", "--decryption-key", keys.decryption, "--verification-key", keys.verification,
            "--app-id", f"android:{PACKAGE}", "--at", AT, "--nonce", base64.b64encode(nonce).decode(), *further]
        result = subprocess.run(
            [*map(str, arguments), *(["--json"] if json_output else []), "-"], input=token.encode(), capture_output=True,
            env=ENVIRONMENT, timeout=60)
        assert result.returncode in (0, 1), result.stderr
        return (result.returncode, json.loads(result.stdout)) if json_output else (result.returncode, result.stdout.decode())
