"""The example in docs/protocol.md is right: whoever writes a client compares with it byte for byte."""

import base64
import hashlib
import re

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from paths import REPOSITORY
from phone import APP


def test_the_example_of_the_protocol_page_is_right():
    page = (REPOSITORY / "docs" / "protocol.md").read_text().split("## An example")[1]
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
