"""Seeds for the target that reads Android's key attestations, with the genuine chains beside the repository if they are there.

    python3 Fuzz/key_attestation_seeds.py DIRECTORY
"""

import base64
import json
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY / "Tests" / "Integration"))

from support.key_description import integers, key_description, octets, root_of_trust  # noqa: E402

VECTORS = REPOSITORY.parent / "shared" / "vectors" / "android"
# What the first byte says; see the target. 4 stands for a remote chain, 8 for an attest key.
DESCRIPTION, CERTIFICATES, CHAIN, LIST = range(4)


def seeds():
    forms = {
        "tee": key_description(hardware={710: octets(b"brand")}), "strongbox": key_description(level=2),
        "attest-key": key_description(hardware={1: integers([7])}),
        "unlocked": key_description(hardware={704: root_of_trust(locked=0)})}
    for name, form in forms.items():
        yield f"description-{name}", bytes([DESCRIPTION, 0]) + form
        for kind in (0, 4, 8, 12):
            for choice in (0, 15, 48):
                yield f"chain-{name}-{kind}-{choice}", bytes([CHAIN | kind, choice]) + form
    text = {"entries": {"9408173275444922801": {"status": "REVOKED", "reason": "KEY_COMPROMISE"}, "C0": {"status": "SUSPENDED"}}}
    yield "list", bytes([LIST, 0]) + json.dumps(text).encode()
    if (VECTORS / "chains.json").exists():
        for vector in json.loads((VECTORS / "chains.json").read_text())["vectors"]:
            chain = [base64.b64decode(text) for text in vector["chain_der"]]
            framed = [len(der).to_bytes(2, "big") + der for der in chain]
            yield f"genuine-{vector['id']}", bytes([CERTIFICATES, 32]) + b"".join(framed)
            # One of Google's roots in place of the one that was sent.
            for root in (0, 1):
                last = root.to_bytes(2, "big")
                yield f"genuine-{vector['id']}-{root}", bytes([CERTIFICATES, 32]) + b"".join(framed[:-1]) + last


for name, content in seeds():
    (Path(sys.argv[1]) / f"seed-{name}").write_bytes(content)
