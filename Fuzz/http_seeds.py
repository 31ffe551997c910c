"""Seeds for the targets that read HTTP: every framing case of the tests, and the corpus beside the repository if it is there.

    python3 Fuzz/http_seeds.py TARGET DIRECTORY
"""

import base64
import hashlib
import json
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY / "Tests" / "Integration"))

from support import framing_cases  # noqa: E402

CORPUS = REPOSITORY.parent / "shared" / "corpora" / "http1-requests.json"
# What the first byte (of FuzzContentDecoder: the first two) says; see the targets.
STEPS = (1, 7)
# All forms of targets admitted.
FORMS = 7 << 5
TARGETS = ["/a;b/c?d|e", "/a%2Fb%2f", "/%7e/[b]|c^?", "/a;b%2Fc/d;e"]
STRICT_CHUNKS, LAX_CHUNKS = 6, 7
RESPONSES = [
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x\r\nhello\r\n0\r\n\r\n",
    b"HTTP/1.1 200 \r\nContent-Length: 5\r\nConnection: close, x\r\n\r\nhello", b"HTTP/1.0 200\r\n\r\nhello",
    b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n",
    b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n"]


def connections():
    """The bytes of whole connections."""
    for cases in (framing_cases.SERVED, framing_cases.EARLY_END):
        yield from (data for data, _ in cases.values())
    for cases in (framing_cases.REFUSED, framing_cases.BROKEN):
        yield from cases.values()
    if CORPUS.exists():
        yield from (base64.b64decode(entry["request_base64"]) for entry in json.loads(CORPUS.read_text())["requests"])


def seeds(target):
    if target == "FuzzResponseHead":
        heads = [data.partition(b"\r\n")[2] for data in connections()]
        for data in [*RESPONSES, *(b"HTTP/1.1 200 OK\r\n" + fields for fields in heads)]:
            yield bytes([STEPS[0]]) + data
    elif target == "FuzzContentDecoder":
        for data in connections():
            _, end, content = data.partition(b"\r\n\r\n")
            if end and content:
                yield bytes([STRICT_CHUNKS, 1]) + content
                yield bytes([LAX_CHUNKS, 2]) + content
    else:
        for data in connections():
            yield from (bytes([step]) + data for step in STEPS)
        if target == "FuzzRequestHead":
            for text in TARGETS:
                yield bytes([FORMS + 7]) + f"GET {text} HTTP/1.1\r\nHost: a\r\n\r\n".encode()


target, directory = sys.argv[1:]
for seed in seeds(target):
    name = "seed-" + hashlib.sha256(seed).hexdigest()[:16]
    Path(directory, name).write_bytes(seed)
