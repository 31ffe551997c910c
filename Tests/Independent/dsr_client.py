"""A client of gematik's Device Security Rating, written from the API description of its Geräte-Management-Service and its
documentation alone, with a health card in software."""

import base64
import datetime
import hashlib
import json
import secrets
import ssl
import tempfile
import time
import urllib.parse
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.x509.oid import NameOID

from .https import Connection
from .software_phone import point, sha256

CHALLENGE_PASSWORD = x509.ObjectIdentifier("1.2.840.113549.1.9.7")
FORM = "application/x-www-form-urlencoded"


def base64text(data):
    return base64.b64encode(data).decode()


def base64url(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def jws(header, claims, key):
    """A JWS in compact form; r and s take 32 bytes each on both curves."""
    signed = ".".join(base64url(json.dumps(part).encode()) for part in (header, claims))
    r, s = decode_dss_signature(key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
    return f"{signed}.{base64url(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}"


def der_of(certificate):
    return certificate.public_bytes(serialization.Encoding.DER)


class CardAuthority:
    """What issues health cards."""

    def __init__(self, name="GEM.EGK-CA10 TEST-ONLY", curve=ec.BrainpoolP256R1):
        self._key = ec.generate_private_key(curve())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.certificate = self._issue(self._name, self._key.public_key(), x509.BasicConstraints(True, 0))

    def pem(self):
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def card(self, number="X764228532", curve=ec.BrainpoolP256R1, days=(-1, 300), units=None):
        """A card of an insured person. `days`: from when to when it is valid."""
        key = ec.generate_private_key(curve())
        units = ["899077891", number] if units is None else units
        subject = x509.Name([
            x509.NameAttribute(NameOID.COUNTRY_NAME, "DE"),
            *(x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, unit) for unit in units),
            x509.NameAttribute(NameOID.COMMON_NAME, "Zacharias ZebraTEST-ONLY")])
        certificate = self._issue(subject, key.public_key(), x509.BasicConstraints(False, None), days)
        return HealthCard(number, key, certificate)

    def _issue(self, subject, key, constraints, days=(-1, 300)):
        now = datetime.datetime.now(datetime.timezone.utc)
        begin, end = (now + datetime.timedelta(days=number) for number in days)
        is_authority = constraints.ca
        usage = x509.KeyUsage(not is_authority, False, False, False, False, is_authority, is_authority, False, False)
        return (
            x509.CertificateBuilder().serial_number(x509.random_serial_number()).public_key(key).subject_name(subject)
            .issuer_name(self._name).not_valid_before(begin).not_valid_after(end)
            .add_extension(constraints, critical=True).add_extension(usage, critical=True).sign(self._key, hashes.SHA256()))


class HealthCard:
    """A card with its key, which signs registration tokens."""

    def __init__(self, number, key, certificate):
        self.number, self.key, self.certificate = number, key, certificate

    def sign(self, claims, **header):
        return jws({"alg": "BP256R1", "x5c": [base64text(der_of(self.certificate))], **header}, claims, self.key)


class DSRClient:
    """Registers one phone, and asks for device tokens."""

    def __init__(self, tls, mtls, authorities, phone, card, package=None):
        """`tls`, `mtls`: (host, port) of the two interfaces; `package`: of an Android app."""
        self._tls, self._mtls, self._authorities = tls, mtls, authorities
        self.phone, self.card, self.package = phone, card, package
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.certificate = None
        # What its app says of the phone.
        self.model = "iPhone14,2"
        self._open = self._connection(tls)
        self._closed = None

    @property
    def device(self):
        """The device identifier."""
        return base64text(sha256(point(self.key.public_key())))

    # Requests

    def nonce(self):
        answer = self._send(self._open, "GET", "/nonce")
        assert answer.status == 200 and answer.fields["content-type"].startswith("text/plain"), answer
        assert len(base64.b64decode(answer.content, validate=True)) == 64
        return answer.content.decode()

    def registration(self, nonce=None, request=None, **altered):
        """The claims of a registration token."""
        nonce = self.nonce() if nonce is None else nonce
        raw = base64.b64decode(nonce)
        claims = {
            "iss": "TrustSDK_1.0", "sub": self.device, "iat": int(time.time()), "nonce": nonce,
            "csr": base64text(request or self.request(raw))}
        if self.package:
            chain = self.phone._authority.attest(self.key.public_key(), self.package, sha256(raw, b"KEYPAIR_MTLS"))
            claims |= {
                "type": "android", "packageName": self.package, "integrityVerdict": "of Google",
                "attestCertChain": [base64text(certificate) for certificate in chain]}
        else:
            challenge = sha256(raw, b"INTEGRITY") + base64.b64decode(self.device)
            claims |= {
                "type": "iOS", "keyId": base64text(self.phone.key_id),
                "attestation": base64text(self.phone.attestation(sha256(challenge)))}
        return without_none(claims | altered)

    def request(self, raw, key=None, password=None):
        """A certification request with the challenge password of a nonce."""
        password = base64text(sha256(raw, b"CSR_MTLS")) if password is None else password
        subject = [x509.NameAttribute(CHALLENGE_PASSWORD, password)] if password else []
        return (
            x509.CertificateSigningRequestBuilder().subject_name(x509.Name(subject))
            .sign(key or self.key, hashes.SHA256()).public_bytes(serialization.Encoding.DER))

    def send_registration(self, token):
        return self._send(self._open, "POST", "/register-device", json.dumps({"token": token}).encode())

    def register(self):
        return self.keep(self.send_registration(self.card.sign(self.registration())))

    def keep(self, answer):
        """Takes the certificate from the answer to a registration."""
        assert answer.status == 201, answer
        self.certificate = x509.load_der_x509_certificate(base64.b64decode(answer.json()["cert"]))
        return self

    def attestation(self, nonce=None, **altered):
        """The claims of an attestation token."""
        nonce = self.nonce() if nonce is None else nonce
        challenge = sha256(base64.b64decode(nonce), b"1")
        claims = {
            "iss": "TrustSDK_1.0", "sub": self.device, "iat": int(time.time()), "nonce": nonce,
            "deviceAttributes": {"systemVersion": "17.1", "systemModel": self.model}}
        if self.package:
            key = ec.generate_private_key(ec.SECP256R1()).public_key()
            chain = self.phone._authority.attest(key, self.package, challenge)
            claims |= {
                "type": "ANDROID", "packageName": self.package, "integrityVerdict": "of Google",
                "attestCertChain": [base64text(certificate) for certificate in chain]}
        else:
            assertion = self.phone.assertion(sha256(challenge, base64.b64decode(self.device)))
            claims |= {"type": "IOS", "assertion": base64text(assertion)}
        return without_none(claims | altered)

    def sign(self, claims, key=None, **header):
        return jws({"alg": "ES256", "typ": "JWT", "x5c": [base64text(der_of(self.certificate))], **header},
                   claims, key or self.key)

    def attest(self, token=None, challenge=None):
        """Has the phone attested. - Returns: the answer, and the verifier of its code."""
        verifier = base64text(secrets.token_bytes(64))
        challenge = base64url(hashlib.sha256(verifier.encode()).digest()) if challenge is None else challenge
        body = {"token": token or self.sign(self.attestation()), "codeChallenge": challenge}
        return self._send(self.closed, "POST", "/device-attestation", json.dumps(body).encode()), verifier

    def token(self, code, verifier):
        form = urllib.parse.urlencode({"code": code, "code_verifier": verifier})
        return self._send(self.closed, "POST", "/device-token", form.encode(), FORM)

    def device_token(self):
        answer, verifier = self.attest()
        assert answer.status == 200 and answer.fields["content-type"].startswith("text/plain"), answer
        answer = self.token(answer.content.decode(), verifier)
        assert answer.status == 200, answer
        return answer.json()["token"]

    def registrations(self, user=None, **parameters):
        query = {"userIdentifier": self.card.number if user is None else user, **parameters}
        return self._send(self.closed, "GET", f"/device-registrations?{urllib.parse.urlencode(query)}")

    def deregister(self, device=None, user=None):
        query = urllib.parse.urlencode({
            "userIdentifier": self.card.number if user is None else user, "deviceIdentifier": device or self.device})
        return self._send(self.closed, "DELETE", f"/device-registrations?{query}")

    # Connections

    def go_to(self, tls, mtls):
        """Uses another instance of the service from now on."""
        self.close()
        self._tls, self._mtls, self._open, self._closed = tls, mtls, self._connection(tls), None

    @property
    def closed(self):
        """The connection with the client certificate."""
        if self._closed is None:
            self._closed = self._connection(self._mtls, self.pem())
        return self._closed

    def pem(self):
        """The certificate and its key."""
        return self.certificate.public_bytes(serialization.Encoding.PEM) + self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())

    def _connection(self, place, identity=None):
        context = ssl.create_default_context(cafile=self._authorities)
        if identity:
            with tempfile.TemporaryDirectory() as directory:
                path = Path(directory) / "both.pem"
                path.touch(mode=0o600)
                path.write_bytes(identity)
                context.load_cert_chain(path)
        return Connection(*place, context)

    def _send(self, connection, method, target, content=b"", kind="application/json"):
        fields = [("Host", "{}:{}".format(*(self._tls if connection is self._open else self._mtls)))]
        if content:
            fields += [("Content-Type", kind), ("Content-Length", str(len(content)))]
        return connection.send(method, target, fields, content)

    def close(self):
        for connection in (self._open, self._closed):
            if connection:
                connection.close()


def without_none(claims):
    return {name: value for name, value in claims.items() if value is not None}
