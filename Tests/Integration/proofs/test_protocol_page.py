"""The numbers in docs/protocol.md are right: authors of clients compare with them byte for byte."""

import base64
import hashlib
import re
import sys

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, utils

from support.denials import STATUS_ROWS
from support.paths import REPOSITORY
from support.phone import APP

sys.path.append(str(REPOSITORY / "Tests"))
from Independent import attested_client  # noqa: E402


def section(heading):
    page = (REPOSITORY / "docs" / "protocol.md").read_text()
    return page.split(f"## {heading}\n")[1].split("\n## ")[0]


def test_the_example_of_the_protocol_page_is_right():
    page = section("An example")
    key, request, base, digest, data = re.findall(r"```\n(.*?)\n```", page, re.DOTALL)
    point, key_id = (base64.b64decode(line) for line in key.splitlines())
    assert hashlib.sha256(point).digest() == key_id
    line, *fields = request.splitlines()
    method, target, _ = line.split(" ")
    path, query = target.split("?")
    fields = {name.lower(): value for name, value in (field.split(": ", 1) for field in fields)}
    content = b'{"dose":1}'
    assert int(fields["content-length"]) == len(content)
    assert fields["content-digest"] == f"sha-256=:{base64.b64encode(hashlib.sha256(content).digest()).decode()}:"
    parameters = fields["signature-input"].removeprefix("attest=")
    assert f'keyid="{base64.b64encode(key_id).decode()}"' in parameters
    assert base == "\n".join([
        f'"@method": {method}', f'"@authority": {fields["host"]}', f'"@path": {path}', f'"@query": ?{query}',
        f'"content-digest": {fields["content-digest"]}', f'"content-type": {fields["content-type"]}',
        f'"@signature-params": {parameters}'])
    client_data_hash = hashlib.sha256(base.encode()).digest()
    assert client_data_hash.hex() == digest
    authenticator_data, nonce = (bytes.fromhex(line) for line in data.splitlines())
    assert authenticator_data[:32] == hashlib.sha256(APP.encode()).digest()
    assert int.from_bytes(authenticator_data[33:37], "big") == 42
    assert nonce == hashlib.sha256(authenticator_data + client_data_hash).digest()
    assertion = base64.b64decode(fields["signature"].removeprefix("attest=:").removesuffix(":"))
    start = assertion.index(b"\x69signature") + len(b"\x69signature") + 2
    signature = assertion[start:start + assertion[start - 1]]
    assert assertion.endswith(authenticator_data)
    public = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), point)
    public.verify(signature, nonce, ec.ECDSA(hashes.SHA256()))


def test_the_example_from_android_is_right():
    _, _, base, *_ = re.findall(r"```\n(.*?)\n```", section("An example"), re.DOTALL)
    shown, = re.findall(r"```\n(.*?)\n```", section("The example from Android"), re.DOTALL)
    point, key_id, *proof = shown.splitlines()
    fields = dict(field.split(": ", 1) for field in proof)
    assert list(fields) == ["Attest-Proof-Counter", "Signature-Input", "Signature"]
    parameters = fields["Signature-Input"].removeprefix("attest=")
    lines = base.splitlines()[:-1] + [
        f'"attest-proof-counter": {fields["Attest-Proof-Counter"]}', f'"@signature-params": {parameters}']
    assert re.findall(r'"([^"]+)"', parameters.split(")")[0]) == [line.split('"')[1] for line in lines[:-1]]
    base = "\n".join(lines).encode()
    fixed = base64.b64decode(fields["Signature"].removeprefix("attest=:").removesuffix(":"))
    assert len(fixed) == 64
    der = utils.encode_dss_signature(*(int.from_bytes(half, "big") for half in [fixed[:32], fixed[32:]]))
    point, key_id = base64.b64decode(point), base64.b64decode(key_id)
    assert hashlib.sha256(point).digest() == key_id
    assert f'keyid="{base64.b64encode(key_id).decode()}"' in parameters
    ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), point).verify(der, base, ec.ECDSA(hashes.SHA256()))


def test_the_independent_client_makes_the_signature_base_of_the_example():
    page = section("An example")
    _, request, base, *_ = re.findall(r"```\n(.*?)\n```", page, re.DOTALL)
    line, *fields = request.splitlines()
    fields = dict(field.split(": ", 1) for field in fields)
    said = fields["Signature-Input"].removeprefix("attest=")
    created, key_id, nonce = re.search(r';created=(\d+);keyid="(.*?)";nonce="(.*?)";', said).groups()
    covered = re.findall(r'"([^"]+)"', said.split(")")[0])
    assert attested_client.parameters(covered, created, base64.b64decode(key_id), nonce) == said
    method, target, _ = line.split(" ")
    made = attested_client.signature_base(method, fields["Host"], target, list(fields.items()), covered, said)
    assert made == base


def test_the_page_says_what_to_do_after_every_denial():
    section_text = section("When it is refused")
    codes = {code for code, answer in STATUS_ROWS if isinstance(answer, int)}
    assert len(codes) > 25
    assert {code for code in codes if f"`{code}`" not in section_text} == set()
