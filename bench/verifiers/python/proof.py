"""Reads a request's proof and says whether it is good: all but the counter, which has to be spent besides.

Written from docs/protocol.md as somebody would who builds the checks into a service of their own. What it does not read it
refuses: members of other labels, extensions of assertions (iOS 27), content.
"""

import base64
import binascii
import hashlib
import hmac
import re
import secrets

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

REQUIRED = ("@method", "@authority", "@path", "@query")
IF_PRESENT = ("authorization", "content-type", "content-encoding")
TAG = "attestgate-request"
# Seconds, the gateway's defaults.
CHALLENGE_LIFE, PROOF_LIFE, TOLERANCE = 300, 300, 60
ECDSA = ec.ECDSA(hashes.SHA256())

_COMPONENT = r'"[@a-z0-9!#$%&\'*+.^_`|~-]+"'
_INPUT = re.compile(rf'attest=(\(({_COMPONENT}(?: {_COMPONENT})*)\)((?:;[a-z]+=(?:[0-9]{{1,15}}|"[ !#-\[\]-~]*"))+))')
_PARAMETER = re.compile(r';([a-z]+)=(?:([0-9]+)|"([^"]*)")')
_STRINGS, _NUMBERS = {"keyid", "nonce", "tag", "alg"}, {"created", "expires"}
_SIGNATURE = re.compile(r"attest=:([A-Za-z0-9+/]+={0,2}):")


class Refused(Exception):
    """`code` as in docs/denials.md. 401: a new proof may be accepted; 403: none is."""

    def __init__(self, code, status=401):
        super().__init__(code)
        self.code, self.status = code, status


class Challenges:
    """58 bytes: version, generation, time of issue, 16 random ones, HMAC-SHA-256 of all before."""

    def __init__(self, secret):
        self._secret = secret

    def issue(self, now):
        content = b"\x01\x01" + int(now).to_bytes(8, "big") + secrets.token_bytes(16)
        return base64.urlsafe_b64encode(content + hmac.digest(self._secret, content, "sha256")).rstrip(b"=").decode()

    def offer(self, now):
        """The value of Accept-Signature."""
        components = " ".join(f'"{name}"' for name in REQUIRED)
        return f'attest=({components});created;nonce="{self.issue(now)}";tag="{TAG}"'

    def issued(self, text, now):
        """When a good one was issued."""
        try:
            content = base64.urlsafe_b64decode(text + "==")
        except ValueError:
            raise Refused("challenge_required") from None
        if len(text) != 78 or len(content) != 58 or content[:2] != b"\x01\x01":
            raise Refused("challenge_required")
        if not hmac.compare_digest(hmac.digest(self._secret, content[:26], "sha256"), content[26:]):
            raise Refused("challenge_required")
        issued = int.from_bytes(content[2:10], "big")
        if not -TOLERANCE <= now - issued < CHALLENGE_LIFE:
            raise Refused("challenge_required")
        return issued


def check(method, authority, target, fields, device, app, challenges, now):
    """- Parameter fields: by their names in lower case. - Parameter app: SHA-256 of the app's id.
    - Returns: the assertion's counter, and when its challenge was issued."""
    said, signature = fields.get("signature-input"), fields.get("signature")
    if said is None or signature is None:
        raise Refused("proof_required")
    said, signature = _INPUT.fullmatch(said), _SIGNATURE.fullmatch(signature)
    if said is None or signature is None:
        raise Refused("proof_malformed")
    covered = said[2][1:-1].split('" "')
    parameters = _parameters(said[3])
    if parameters["tag"] != TAG or parameters.get("alg", "apple-attest") != "apple-attest":
        raise Refused("proof_malformed")
    if parameters["keyid"] != device.key_id:
        raise Refused("device_mismatch", 403)
    issued = challenges.issued(parameters["nonce"], now)
    created = int(parameters["created"])
    if not now - PROOF_LIFE <= created <= now + TOLERANCE or created < issued - TOLERANCE:
        raise Refused("proof_stale")
    if "expires" in parameters and now >= int(parameters["expires"]):
        raise Refused("proof_stale")
    base = _base(method, authority, target, fields, covered, said[1])
    return _counter(signature[1], hashlib.sha256(base).digest(), device, app), issued


def _parameters(text):
    found = {}
    for name, number, string in _PARAMETER.findall(text):
        if name in found or name not in (_NUMBERS if number else _STRINGS):
            raise Refused("proof_malformed")
        found[name] = number or string
    if not found.keys() >= {"created", "keyid", "nonce", "tag"}:
        raise Refused("proof_malformed")
    return found


def _base(method, authority, target, fields, covered, said):
    """RFC 9421 section 2.5."""
    path, mark, query = target.partition("?")
    if mark and not query or len(set(covered)) != len(covered):
        raise Refused("proof_malformed")
    if not set(REQUIRED) <= set(covered) or any(name in fields and name not in covered for name in IF_PRESENT):
        raise Refused("proof_incomplete")
    derived = {
        "@method": method, "@authority": authority.lower().removesuffix(":443"), "@path": path or "/", "@query": "?" + query}
    lines = []
    for name in covered:
        value = derived.get(name) if name[0] == "@" else fields.get(name)
        if value is None:
            raise Refused("proof_malformed")
        lines.append(f'"{name}": {value}')
    lines.append(f'"@signature-params": {said}')
    try:
        return "\n".join(lines).encode("ascii")
    except UnicodeEncodeError:
        raise Refused("proof_malformed") from None


def _counter(text, client_data_hash, device, app):
    try:
        signature, data = _assertion(binascii.a2b_base64(text, strict_mode=True))
    except (ValueError, IndexError):
        raise Refused("proof_malformed") from None
    if len(data) != 37:
        raise Refused("proof_malformed")
    if data[:32] != app:
        raise Refused("app_refused", 403)
    try:
        # ECDSA hashes what it signs once more.
        device.key.verify(signature, hashlib.sha256(data + client_data_hash).digest(), ECDSA)
    except InvalidSignature:
        raise Refused("proof_invalid") from None
    return int.from_bytes(data[33:], "big")


def _assertion(data):
    """A CBOR map of two byte strings, with lengths in their shortest form and nothing behind."""
    if data[0] != 0xA2:
        raise ValueError(data)
    found, at = {}, 1
    for _ in range(2):
        name, at = _string(data, at, 0x60)
        found[name], at = _string(data, at, 0x40)
    if at != len(data):
        raise ValueError(data)
    try:
        return found[b"signature"], found[b"authenticatorData"]
    except KeyError:
        raise ValueError(data) from None


def _string(data, at, kind):
    length, at = data[at] - kind, at + 1
    if length == 24:
        length, at = data[at], at + 1
        if length < 24:
            raise ValueError(data)
    elif length == 25:
        length, at = int.from_bytes(data[at:at + 2], "big"), at + 2
        if length < 256:
            raise ValueError(data)
    elif not 0 <= length < 24:
        raise ValueError(data)
    if at + length > len(data):
        raise ValueError(data)
    return data[at:at + length], at + length
