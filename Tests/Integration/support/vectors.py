"""The files of docs/vectors, made by the independent client from fixed keys, challenges and times.

Signatures are random: those in the file stay as long as they sign what they should.
"""

import base64
import hashlib
import hmac
import json
import struct
import sys

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, utils

from support.paths import REPOSITORY
from support.platforms import APPS

sys.path.append(str(REPOSITORY / "Tests"))
from Independent import attested_client, cbor, enrolment, software_phone  # noqa: E402
from Independent.software_phone import sha256  # noqa: E402

# The keys of RFC 6979, appendix A.2.5, and of RFC 7515, appendix A.3.
HARDWARE_KEY = 0xC9AFA9D845BA75166B5C215767B1D6934E50C3DB36E89B127B8A622B120F6721
CERTIFICATE_KEY = int.from_bytes(base64.urlsafe_b64decode("jpsQnnGQmL-YBIffH1136cspYG6-0iY7X1fCE9-E9LI="), "big")
TIME = 1_763_720_010
CREATED = 1_763_720_000
ISSUED = 1_763_719_900
SECRET, STORE, EPOCH = bytes(range(32)), bytes(range(16)), bytes(range(16, 32))
ALGORITHMS = {"ios": "apple-attest", "android": "ecdsa-p256-sha256"}
SERVICE = "https://enrol.example.org"
NONCE = "AQEAAAAAawGriAdpD9qQexAfvUl8wlLZrksIhVj8ESckgBR-9E4zMEN-HS7KOV59BbwMd8BALsVs7Q"
JSON = ["Content-Type", "application/json"]


def path(platform):
    return REPOSITORY / "docs" / "vectors" / f"{platform}.json"


def challenge(issued=ISSUED):
    """As a gateway with this secret, store and epoch makes it, but for its random part."""
    info = b"attestgate challenge request" + bytes([16]) + STORE + bytes([16]) + EPOCH
    key = hmac.new(hmac.new(bytes(32), SECRET, hashlib.sha256).digest(), info + b"\x01", hashlib.sha256).digest()
    content = bytes([1, 1]) + struct.pack(">Q", issued) + bytes(range(16))
    return enrolment.base64url(content + hmac.new(key, content, hashlib.sha256).digest())


class Signer:
    """A key that signs. A signature that was made before is kept."""

    def __init__(self, number, before):
        self.key = ec.derive_private_key(number, ec.SECP256R1())
        self._before = before
        self._public = self.key.public_key()

    def sign(self, message):
        for signature in self._before:
            try:
                self._public.verify(signature, message, ec.ECDSA(hashes.SHA256()))
                return signature
            except InvalidSignature:
                pass
        made = self.key.sign(message, ec.ECDSA(hashes.SHA256()))
        self._before.append(made)
        return made


def texts(value):
    """All texts in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, dict)):
        for element in value.values() if isinstance(value, dict) else value:
            yield from texts(element)


def signatures(value):
    """All signatures in DER that a file has, bare or in an assertion."""
    found = []
    for text in texts(value):
        if text.startswith("a269") and bytes.fromhex(text)[:11] == b"\xa2\x69signature":
            data = bytes.fromhex(text)
            found.append(data[13:13 + data[12]])
        elif text.startswith("30") and len(text) < 150 and set(text) <= set("0123456789abcdef"):
            found.append(bytes.fromhex(text))
        elif text.startswith("ey") and text.count(".") == 2:
            numbers = base64.urlsafe_b64decode(text.split(".")[2] + "==")
            found.append(utils.encode_dss_signature(*(int.from_bytes(half, "big") for half in [numbers[:32], numbers[32:]])))
    return found


class Vectors:
    def __init__(self, platform, before):
        self.platform, self.app = platform, APPS[platform]
        made = signatures(before or {})
        self.hardware, self.certificate = Signer(HARDWARE_KEY, made), Signer(CERTIFICATE_KEY, made)
        self.point = software_phone.point(self.hardware.key.public_key())
        self.key_id = sha256(self.point)

    def signed(self, message, counter, app=None):
        """What the platform signs a message with: an assertion, or a signature in DER."""
        if self.platform == "android":
            return self.hardware.sign(message)
        data = sha256((app or self.app).encode()) + b"\x40" + counter.to_bytes(4, "big")
        signature = self.hardware.sign(sha256(data, sha256(message)))
        return cbor.encode({"signature": signature, "authenticatorData": data})

    def request(self, name, method, url, fields=(), content="", counter=42, **change):
        """`change`: created, nonce, key_id or app of the proof, where they are wrong; the verdict is then `verdict`."""
        fields = [list(field) for field in fields]
        authority, _, rest = url.removeprefix("https://").partition("/")
        proof, covered = [], list(attested_client.ALWAYS)
        if content:
            proof.append(["Content-Digest", attested_client.content_digest(content.encode())])
            covered.append("content-digest")
        names = {name.lower() for name, _ in fields}
        covered += [name for name in attested_client.IF_PRESENT if name in names]
        if self.platform == "android":
            proof.append(["Attest-Proof-Counter", str(counter)])
            covered.append("attest-proof-counter")
        covered += [name for name in ["x-location"] if name in names]
        created = change.pop("created", CREATED)
        said = attested_client.parameters(
            covered, created, change.pop("key_id", self.key_id), change.pop("nonce", challenge()))
        said = said.replace(";tag=", f';alg="{ALGORITHMS[self.platform]}";tag=')
        base = attested_client.signature_base(method, authority, "/" + rest, [*fields, *proof], covered, said)
        signature = self.signed(base.encode(), counter, change.pop("app", None))
        sent = signature
        if self.platform == "android":
            sent = b"".join(number.to_bytes(32, "big") for number in utils.decode_dss_signature(signature))
        proof += [["Signature-Input", f"attest={said}"], ["Signature", f"attest=:{attested_client.base64text(sent)}:"]]
        return {
            "name": name, "method": method, "url": url, "fields": fields, "content": content, "counter": counter,
            "created": created, "signature_base": base, "signature": signature.hex(), "proof": proof,
            "verdict": change.pop("verdict", "verified"), **change}

    def altered(self, name, verdict, change):
        """The first request, changed after it was proven."""
        made = self.request(name, "POST", "https://api.example.org/prescriptions?day=today", [JSON], '{"dose":1}')
        del made["signature_base"], made["signature"]
        change(made)
        return {**made, "verdict": verdict}

    def requests(self):
        def without(field):
            return lambda made: made["proof"].remove(next(each for each in made["proof"] if each[0] == field))

        def another(field, old, new):
            def change(made):
                line = next(each for each in made["proof"] if each[0] == field)
                line[1] = line[1].replace(old, new, 1)
            return change
        first = ("POST", "https://api.example.org/prescriptions?day=today", [JSON], '{"dose":1}')
        foreign = challenge()[:-4] + "AAAA"
        yield self.request("a request with content", *first)
        yield self.request("no query, no content", "GET", "https://api.example.org/")
        yield self.request(
            "fields, percent-encoding, a port", "PUT", "https://API.example.org:8443/a%20b?c=d%C3%BC&e",
            [JSON, ["Content-Encoding", "identity"], ["Authorization", "Bearer abc"], ["X-Other", "uncovered"]], "[]", 43)
        # Where the route has `targets: common`.
        yield self.request(
            "raw characters in the query", "GET", "https://api.example.org/Patient?identifier=urn:oid:1|42")
        yield self.request(
            "a field that the challenge asks for, in two lines", "GET", "https://api.example.org/location",
            [["X-Location", "52.5, 13.4"], ["X-Location", " 3m "]], counter=4294967295)
        yield self.request("too old", *first, created=TIME - 301, verdict="proof_stale")
        yield self.request("from the future", *first, created=TIME + 61, verdict="proof_stale")
        yield self.request("an old challenge", *first, nonce=challenge(TIME - 300), verdict="challenge_required")
        yield self.request("another gateway's challenge", *first, nonce=foreign, verdict="challenge_required")
        yield self.request("another key", *first, key_id=sha256(b"another"), verdict="device_mismatch")
        yield self.altered("another path", "proof_invalid", lambda made: made.update(
            url="https://api.example.org/prescriptions/7?day=today"))
        yield self.altered("another host", "proof_invalid", lambda made: made.update(
            url="https://www.example.org/prescriptions?day=today"))
        yield self.altered("other content", "body_digest_mismatch", lambda made: made.update(content='{"dose":9}'))
        yield self.altered("no signature", "proof_required", without("Signature"))
        yield self.altered("no digest", "proof_incomplete", without("Content-Digest"))
        yield self.altered("an uncovered field", "proof_incomplete", lambda made: made["fields"].append(
            ["Authorization", "Bearer abc"]))
        yield self.altered("another spelling", "proof_malformed", another("Signature-Input", ";keyid", "; keyid"))
        yield self.altered("another parameter", "proof_malformed", another("Signature-Input", ";keyid", ";x=1;keyid"))
        yield self.altered("another time", "proof_invalid", another("Signature-Input", f"={CREATED}", f"={CREATED + 1}"))
        if self.platform == "ios":
            yield self.request("another app", *first, app="TEAMID1234.org.example.other", verdict="proof_invalid")
        else:
            yield self.altered("no counter", "proof_incomplete", without("Attest-Proof-Counter"))
            yield self.altered("another counter", "proof_invalid", another("Attest-Proof-Counter", "42", "43"))
            yield self.altered("a counter with a zero", "proof_malformed", another("Attest-Proof-Counter", "42", "042"))
            yield self.altered("counter 0", "proof_malformed", another("Attest-Proof-Counter", "42", "0"))

    def binding(self):
        """A key-binding token, and what each form of client data attests."""
        jwk = enrolment.public_jwk(self.certificate.key)
        name = enrolment.thumbprint(jwk)
        point = software_phone.point(self.certificate.key.public_key())
        decoded = base64.urlsafe_b64decode(NONCE + "=" * (-len(NONCE) % 4))
        tag = enrolment.base64url(self.key_id if self.platform == "ios" else bytes(range(16)))
        client_data = {"nonce": NONCE, "jwk_thumbprint": name}
        if self.platform == "android":
            client_data["counter"] = 44
        client_data = enrolment.compact(client_data)
        signature = self.signed(client_data, 44)
        claims = {
            "iss": f"{SERVICE}/instance/{name}", "aud": SERVICE, "iat": CREATED, "exp": CREATED + 300, "nonce": NONCE,
            "hardware_key_tag": tag}
        if self.platform == "android":
            forms = {"nonce": NONCE.encode(), "dsr": sha256(decoded, b"KEYPAIR_MTLS")}
            claims |= {"hardware_signature": enrolment.base64url(signature), "counter": 44}
        else:
            forms = {"nonce": sha256(NONCE.encode()), "dsr": sha256(sha256(decoded, b"INTEGRITY"), sha256(point))}
            der, data = signature[13:13 + signature[12]], signature[-37:]
            claims |= {"hardware_signature": enrolment.base64url(der), "key_attestation": enrolment.base64url(data)}
        claims["cnf"] = {"jwk": {name: jwk[name] for name in ["kty", "crv", "x", "y"]}}
        header = {"alg": "ES256", "kid": name, "typ": "rp-kb+jwt"}
        text = ".".join(enrolment.base64url(enrolment.compact(part)) for part in [header, claims])
        numbers = utils.decode_dss_signature(self.certificate.sign(text.encode()))
        return {
            "service": SERVICE, "nonce": NONCE, "hardware_key_tag": tag, "counter": 44, "iat": CREATED,
            "certificate_key": point.hex(), "thumbprint": name,
            "client_data": client_data.decode(), "client_data_hash": sha256(client_data).hex(),
            "signature": signature.hex(),
            "token": f"{text}.{enrolment.base64url(b''.join(number.to_bytes(32, 'big') for number in numbers))}",
            "attested": {"nonce-and-tag": enrolment.initialization_hash(NONCE, tag).hex()} | {
                form: data.hex() for form, data in forms.items()},
        }

    def attestation(self):
        """What the platform says of the hardware key, as far as it does not depend on an authority."""
        if self.platform == "android":
            return {}
        phone = software_phone.SoftwarePhone(None, self.app, self.hardware.key)
        data = phone.attested_data()
        client_data_hash = enrolment.initialization_hash(NONCE, enrolment.base64url(self.key_id))
        return {"attestation": {
            "rp_id_hash": sha256(self.app.encode()).hex(), "client_data_hash": client_data_hash.hex(),
            "authenticator_data": data.hex(),
            "leaf_extension": software_phone.extension_value(sha256(data, client_data_hash)).hex()}}

    def file(self):
        return {
            "platform": self.platform, "app": self.app,
            "key": {"private": f"{HARDWARE_KEY:064x}", "point": self.point.hex(),
                    "keyid": attested_client.base64text(self.key_id)},
            "gateway": {"challenge_secret": SECRET.hex(), "generation": 1, "store": STORE.hex(), "epoch": EPOCH.hex(),
                        "time": TIME, "demanded_components": []},
            "accept_signature": self.accept_signature(),
            "requests": list(self.requests()),
            **self.attestation(),
            "key_binding": self.binding(),
        }

    def accept_signature(self):
        covered = [*attested_client.ALWAYS, *(["attest-proof-counter"] if self.platform == "android" else []), "x-location"]
        names = " ".join(f'"{name}"' for name in covered)
        algorithm = f';alg="{ALGORITHMS[self.platform]}"' if self.platform == "android" else ""
        return f'attest=({names});created;nonce="{challenge()}"{algorithm};tag="attestgate-request"'


def stored(platform):
    return json.loads(path(platform).read_text()) if path(platform).exists() else None


def write(platform):
    made = Vectors(platform, stored(platform)).file()
    path(platform).parent.mkdir(exist_ok=True)
    path(platform).write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n")
