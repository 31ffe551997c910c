"""Enrolment, written from docs/enrolment.md alone."""

import base64
import hashlib
import json
import re
import ssl
import time

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from .https import Connection


class Refused(Exception):
    """An answer that says no: its status, its code, and whether waiting helps."""

    def __init__(self, answer):
        super().__init__(f"{answer.status} {answer.error()}: {answer.json()['error_description']}")
        self.status, self.code, self.retry_after = answer.status, answer.error(), answer.fields.get("retry-after")


def base64url(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def as_text(attestation):
    """An iPhone's attestation, or an Android phone's list of certificates, as JSON."""
    return [base64url(der) for der in attestation] if isinstance(attestation, list) else base64url(attestation)


def compact(value):
    """JSON in UTF-8 without white space, the members in the order that they have."""
    return json.dumps(value, separators=(",", ":")).encode()


def public_jwk(key):
    """The members in the order of their names, as RFC 7638 hashes them."""
    numbers = key.public_key().public_numbers()
    x, y = (base64url(number.to_bytes(32, "big")) for number in [numbers.x, numbers.y])
    return {"crv": "P-256", "kty": "EC", "x": x, "y": y}


def thumbprint(jwk):
    return base64url(hashlib.sha256(compact(jwk)).digest())


def initialization_hash(nonce, tag):
    """What `attestKey` or `setAttestationChallenge` gets where the app is configured with `client_data: nonce-and-tag`."""
    return hashlib.sha256((nonce + tag).encode()).digest()


def binding_client_data(nonce, key_thumbprint, **counter):
    return compact({"nonce": nonce, "jwk_thumbprint": key_thumbprint, **counter})


class Enrolment:
    """Turns a phone into a registered device, and renews its certificate."""

    def __init__(self, url, authorities, phone):
        self._url, self._phone = url, phone
        self._host, self._port = re.fullmatch(r"https://([^/:]+):(\d+)", url).groups()
        self._connection = Connection(self._host, int(self._port), ssl.create_default_context(cafile=authorities))
        self._tag = base64url(phone.tag)
        # By how much the service's clock is ahead of ours.
        self._ahead = 0

    def initialize(self):
        """Has the hardware key registered."""
        nonce = self._nonce()
        attestation = self._phone.attestation(initialization_hash(nonce, self._tag))
        self._send("POST", "/instance-initialization", {
            "nonce": nonce, "hardware_key_tag": self._tag, "key_attestation": as_text(attestation)})

    def bind(self, key, **altered):
        """Has a key certified: the first one, the same again to renew its certificate, or another that takes its place.

        `altered`: claims of the token that are to say something else. - Returns: the chain in PEM, leaf first, and the second
        at which it ends.
        """
        nonce, jwk = self._nonce(), public_jwk(key)
        name = thumbprint(jwk)
        now = int(time.time() + self._ahead)
        token = jwt(
            {"alg": "ES256", "kid": name, "typ": "rp-kb+jwt"},
            {"iss": f"{self._url}/instance/{name}", "aud": self._url, "iat": now, "exp": now + 300, "nonce": nonce,
             "hardware_key_tag": self._tag, **self._vouch(nonce, name, key), "cnf": {"jwk": jwk}, **altered},
            key)
        answer = self._send("POST", "/key-binding", {"assertion": token}).json()
        chain = [x509.load_der_x509_certificate(base64.b64decode(der)) for der in answer["certificate_chain"]]
        return b"".join(made.public_bytes(serialization.Encoding.PEM) for made in chain), answer["expires_at"]

    def _vouch(self, nonce, name, key):
        """The claims by which the hardware key vouches for the new one."""
        if self._phone.algorithm == "apple-attest":
            client_data_hash = hashlib.sha256(binding_client_data(nonce, name)).digest()
            signature, authenticator_data = self._phone.assertion_parts(client_data_hash)
            return {"hardware_signature": base64url(signature), "key_attestation": base64url(authenticator_data)}
        counter = self._phone.next_counter()
        chain = self._phone.attestation(initialization_hash(nonce, self._tag), key.public_key())
        return {
            "hardware_signature": base64url(self._phone.sign(binding_client_data(nonce, name, counter=counter))),
            "counter": counter, "mtls_key_attestation": as_text(chain)}

    def close(self):
        self._connection.close()

    def _nonce(self):
        return self._send("GET", "/nonce").json()["nonce"]

    def _send(self, method, path, content=None):
        fields, octets = [("Host", f"{self._host}:{self._port}")], b""
        if content is not None:
            octets = compact(content)
            fields += [("Content-Type", "application/json"), ("Content-Length", str(len(octets)))]
        answer = self._connection.send(method, path, fields, octets)
        self._ahead = answer.seconds() - time.time()
        if answer.status >= 400:
            raise Refused(answer)
        return answer


def jwt(header, claims, key):
    signed = f"{base64url(compact(header))}.{base64url(compact(claims))}"
    r, s = decode_dss_signature(key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
    return f"{signed}.{base64url(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}"
