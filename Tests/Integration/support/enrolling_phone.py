"""A phone that enrols: attestations by an authority of its own, and tokens that bind keys. Written from docs/enrolment.md
and Apple's description of App Attest, not from the code, so that two readings of both are compared."""

import base64
import hashlib
import json
import secrets
import struct
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.x509.oid import NameOID

from support import client as http
from support.client import Client, tls_context
from support.gateway import APP
from support.phone import HardwareKey, Phone
from support.pki import Identity
from support.platforms import platform_of

NONCE_EXTENSION = x509.ObjectIdentifier("1.2.840.113635.100.8.2")
# The phone's system. Apple does not document it.
SYSTEM_EXTENSION = x509.ObjectIdentifier("1.2.840.113635.100.8.7")
# Apple's mark of certificates that sign receipts.
RECEIPT_SIGNER = x509.ObjectIdentifier("1.2.840.113635.100.12.15")
AAGUID = b"appattestdevelop"


def b64url(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def from_b64url(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def sha256(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def cbor_head(major, value):
    if value < 24:
        return bytes([major << 5 | value])
    if value < 256:
        return bytes([major << 5 | 24, value])
    return bytes([major << 5 | 25]) + struct.pack(">H", value)


def cbor_bytes(data):
    return cbor_head(2, len(data)) + data


def cbor_text(text):
    return cbor_head(3, len(text)) + text.encode()


def cbor_map(*entries):
    return cbor_head(5, len(entries)) + b"".join(cbor_text(name) + value for name, value in entries)


def system_value(version):
    """SEQUENCE { [1400] EXPLICIT OCTET STRING }: the version alone, as up to iOS 17."""
    text = b"\x04" + bytes([len(version)]) + version.encode()
    tagged = b"\xbf\x8a\x78" + bytes([len(text)]) + text
    return b"\x30" + bytes([len(tagged)]) + tagged


class AttestationAuthority:
    """What Apple is for phones that are sold: a root, and the intermediate that issues leafs."""

    def __init__(self, directory, name="attestation root"):
        self.root_key = ec.generate_private_key(ec.SECP256R1())
        self.root = self._issue(name, self.root_key, None, self.root_key, authority=1)
        self.intermediate_key = ec.generate_private_key(ec.SECP256R1())
        self.intermediate = self._issue(
            f"{name} intermediate", self.intermediate_key, self.root, self.root_key, authority=0)
        self.path = Path(directory) / f"{name.replace(' ', '-')}.pem"
        self.path.write_bytes(self.root.public_bytes(serialization.Encoding.PEM))

    def signer(self, key, marked=True):
        """The certificate of a key that signs receipts."""
        return self._issue(
            "receipt signer", key, self.intermediate, self.intermediate_key,
            extension=(RECEIPT_SIGNER, b"\x05\x00") if marked else None)

    def _issue(self, name, key, issuer, signer, authority=None, nonce=None, days=30, extension=None):
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        now = datetime.now(timezone.utc)
        builder = (
            x509.CertificateBuilder().subject_name(subject).issuer_name(issuer.subject if issuer else subject)
            .public_key(key.public_key()).serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=40)).not_valid_after(now + timedelta(days=days))
            .add_extension(x509.BasicConstraints(authority is not None, authority), critical=True))
        if authority is not None:
            usage = dict.fromkeys([
                "digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement",
                "encipher_only", "decipher_only"], False)
            builder = builder.add_extension(x509.KeyUsage(key_cert_sign=True, crl_sign=True, **usage), critical=True)
        if nonce is not None:
            value = b"\x30\x24\xa1\x22\x04\x20" + nonce
            builder = builder.add_extension(x509.UnrecognizedExtension(NONCE_EXTENSION, value), critical=False)
        if extension is not None:
            builder = builder.add_extension(x509.UnrecognizedExtension(*extension), critical=False)
        return builder.sign(signer, hashes.SHA256())

    def attest(self, key, client_data_hash, app=APP, days=3, key_id=None, counter=0, aaguid=AAGUID, receipt=b"a receipt",
               os_version=None):
        """An attestation object, as `attestKey(_:clientDataHash:)` returns it.

        `receipt`: its bytes, or what makes them of app, leaf and client data hash. `os_version`: what the leaf states, if anything."""
        credential = key_id or key.key_id
        cose = (b"\xa5\x01\x02\x03\x26\x20\x01\x21" + cbor_bytes(key.point[1:33]) + b"\x22" + cbor_bytes(key.point[33:]))
        data = (sha256(app.encode()) + b"\x40" + struct.pack(">I", counter) + aaguid
                + struct.pack(">H", len(credential)) + credential + cose)
        leaf = self._issue(
            "leaf", key.private, self.intermediate, self.intermediate_key, nonce=sha256(data, client_data_hash), days=days,
            extension=(SYSTEM_EXTENSION, system_value(os_version)) if os_version is not None else None)
        chain = [c.public_bytes(serialization.Encoding.DER) for c in (leaf, self.intermediate)]
        if callable(receipt):
            receipt = receipt(app, leaf, client_data_hash)
        statement = cbor_map(
            ("x5c", cbor_head(4, 2) + b"".join(cbor_bytes(c) for c in chain)), ("receipt", cbor_bytes(receipt)))
        return cbor_map(
            ("fmt", cbor_text("apple-appattest")), ("attStmt", statement), ("authData", cbor_bytes(data)))


class EnrolmentAddress:
    """Where a gateway's enrolment listener is, for `Client`."""

    def __init__(self, pki, port):
        self.pki, self.port = pki, port

    def connect(self):
        return Client(self, None, context=tls_context(self.pki, None))

    def exchange(self, data):
        with self.connect() as client:
            return client.exchange(data)

    def post(self, path, body, *fields):
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        fields = fields or ("Content-Type: application/json",)
        return self.exchange(http.post(path, content, *fields))

    def nonce(self):
        response = self.exchange(http.get("/nonce"))
        assert response.status == 200, response
        assert response.value("cache-control") == "no-store"
        assert response.value("content-type") == "application/json"
        return json.loads(response.content)["nonce"]


class MTLSKey:
    """`keypair_mTLS`: the key that a certificate is asked for."""

    def __init__(self, private=None):
        self.private = private or ec.generate_private_key(ec.SECP256R1())
        numbers = self.private.public_key().public_numbers()
        self.jwk = {
            "kty": "EC", "crv": "P-256", "x": b64url(numbers.x.to_bytes(32, "big")),
            "y": b64url(numbers.y.to_bytes(32, "big"))}
        self.point = b"\x04" + numbers.x.to_bytes(32, "big") + numbers.y.to_bytes(32, "big")
        # RFC 7638: members in lexicographic order, no white space.
        canonical = '{"crv":"P-256","kty":"EC","x":"%(x)s","y":"%(y)s"}' % self.jwk
        self.thumbprint = b64url(sha256(canonical.encode()))

    def sign(self, message):
        """ES256: r and s of 32 bytes each."""
        r, s = decode_dss_signature(self.private.sign(message, ec.ECDSA(hashes.SHA256())))
        return r.to_bytes(32, "big") + s.to_bytes(32, "big")


def jws(header, payload, key):
    """`header` and `payload` are dictionaries, or JSON text that no dictionary could be written as."""
    parts = [value if isinstance(value, str) else json.dumps(value) for value in (header, payload)]
    signed = ".".join(b64url(part.encode()) for part in parts)
    return f"{signed}.{b64url(key.sign(signed.encode()))}"


class EnrollingPhone:
    """One app installation that comes from nothing, on the platform that the app's id tells. Its counter rises with each
    assertion or binding, whatever becomes of it."""

    def __init__(self, service, authority, provider, app=APP):
        self.service, self.authority, self.provider, self.app = service, authority, provider, app
        self.platform = platform_of(app)
        self.own_key = self.key = HardwareKey()
        # An Android app chooses it.
        self.tag = b64url(self.key.key_id if self.platform == "ios" else secrets.token_bytes(20))
        self.counter = 0

    # Instance initialization.

    def initialization(self, nonce=None, form="nonce-and-tag", mtls=None, **change):
        """The body of a request. `change`: what `attest` takes, and members of the body (None: left out)."""
        nonce = nonce or self.service.nonce()
        hashed = {
            ("nonce-and-tag", "ios"): lambda: sha256(nonce.encode(), self.tag.encode()),
            ("nonce-and-tag", "android"): lambda: sha256(nonce.encode(), self.tag.encode()),
            ("nonce", "ios"): lambda: sha256(nonce.encode()),
            ("nonce", "android"): lambda: nonce.encode(),
            ("dsr", "ios"): lambda: sha256(sha256(from_b64url(nonce), b"INTEGRITY"), sha256(mtls.point)),
            ("dsr", "android"): lambda: sha256(from_b64url(nonce), b"KEYPAIR_MTLS"),
        }[form, self.platform]()
        is_one_key = (form, self.platform) == ("dsr", "android")
        self.key = HardwareKey(mtls.private) if is_one_key else self.own_key
        members = {name: change.pop(name) for name in list(change) if name in MEMBERS}
        digest = change.pop("client_data_hash", hashed)
        authority = change.pop("authority", self.authority)
        attestation = authority.attest(self.key, digest, **{"app": self.app, **change})
        body = {"nonce": nonce, "hardware_key_tag": self.tag, "key_attestation": as_text(attestation)}
        if form == "dsr" and not is_one_key:
            body["mtls_public_key"] = b64url(mtls.point)
        return {name: value for name, value in {**body, **members}.items() if value is not None}

    def initialize(self, **change):
        return self.service.post("/instance-initialization", self.initialization(**change))

    # Key binding.

    def client_data(self, nonce, thumbprint, counter):
        """What the hardware key signs."""
        counted = ',"counter":%d' % counter if self.platform == "android" else ""
        return ('{"nonce":"%s","jwk_thumbprint":"%s"%s}' % (nonce, thumbprint, counted)).encode()

    def proof(self, mtls, nonce, counter=None, signed_nonce=None, signed_thumbprint=None, key=None, mtls_chain=None, **assertion):
        """The claims that the hardware key vouches for. `signed_nonce`, `signed_thumbprint`: other client data; `mtls_chain`: of the
        certificate's key, in place of the right one; further ones as `assertion` takes them."""
        if counter is None:
            self.counter += 1
            counter = self.counter
        client_data = self.client_data(signed_nonce or nonce, signed_thumbprint or mtls.thumbprint, counter)
        if self.platform == "ios":
            signature, data = self.assertion(client_data, counter, key=key, **assertion)
            return {"hardware_signature": b64url(signature), "key_attestation": b64url(data)}
        assert not assertion, "options of assertions"
        if mtls_chain is None:
            mtls_chain = self.authority.attest(mtls, sha256(nonce.encode(), self.tag.encode()), app=self.app)
        return {
            "hardware_signature": b64url((key or self.key).sign(client_data)), "counter": counter,
            "mtls_key_attestation": as_text(mtls_chain)}

    def assertion(self, client_data, counter, app=None, key=None, extensions=b""):
        """Signature and authenticator data."""
        data = sha256((app or self.app).encode()) + b"\x40" + struct.pack(">I", counter) + extensions
        return (key or self.key).sign(sha256(data, sha256(client_data))), data

    def token(self, mtls, nonce=None, header=None, claims=None, signer=None, cnf=None, **proof):
        """The JWT. `header`, `claims`: members changed, None to leave one out. `proof`: what `proof` takes."""
        nonce = nonce or self.service.nonce()
        now = int(time.time())
        own = {
            "iss": f"{self.provider}/instance/{mtls.thumbprint}", "aud": self.provider, "iat": now, "exp": now + 300,
            "nonce": nonce, "hardware_key_tag": self.tag, **self.proof(mtls, nonce, **proof),
            "cnf": cnf or {"jwk": mtls.jwk}}
        head = {"alg": "ES256", "kid": mtls.thumbprint, "typ": "rp-kb+jwt"}

        def changed(members, changes):
            merged = {**members, **(changes or {})}
            return {name: value for name, value in merged.items() if value is not None}
        return jws(changed(head, header), changed(own, claims), signer or mtls)

    def bind(self, mtls, **change):
        return self.service.post("/key-binding", {"assertion": self.token(mtls, **change)})

    # Both, and what follows.

    def enrol(self, mtls, os_version=None, **change):
        response = self.initialize(**({"os_version": os_version} if os_version is not None else {}))
        assert response.status == 204, response
        return self.bind(mtls, **change)

    def identity(self, directory, mtls, response, name="enrolled"):
        """The certificate of an answer with its key, as files."""
        assert response.status == 200, response
        chain = json.loads(response.content)["certificate_chain"]
        certificate, key = Path(directory) / f"{name}.pem", Path(directory) / f"{name}.key"
        certificates = [x509.load_der_x509_certificate(base64.b64decode(text)) for text in chain]
        certificate.write_bytes(b"".join(c.public_bytes(serialization.Encoding.PEM) for c in certificates))
        key.write_bytes(mtls.private.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
        return Identity(certificate, key)

    def requesting(self, gateway, identity):
        """The same phone, to make requests at the gateway with that certificate."""
        phone = Phone(gateway, identity, self.app, register=False)
        phone.key, phone.counter = self.key, self.counter
        return phone


def bind(phone, mtls, **attested):
    """Binds a key, which an Android phone attests with that description."""
    if phone.platform == "ios":
        return phone.bind(mtls)
    nonce = phone.service.nonce()
    chain = phone.authority.attest(mtls, sha256(nonce.encode(), phone.tag.encode()), app=phone.app, **attested)
    return phone.bind(mtls, nonce=nonce, mtls_chain=chain)


def as_text(attestation):
    """An attestation of either platform as a member of JSON: on Android a list of certificates."""
    return [b64url(der) for der in attestation] if isinstance(attestation, list) else b64url(attestation)


MEMBERS = ["hardware_key_tag", "key_attestation", "mtls_public_key", "play_integrity_token", "extra"]


def error_of(response):
    """The code of a refusal, whose form is checked."""
    assert response.value("content-type") == "application/json", response
    assert response.value("cache-control") == "no-store", response
    body = json.loads(response.content)
    assert set(body) == {"error", "error_description"}, body
    return response.status, body["error"]
