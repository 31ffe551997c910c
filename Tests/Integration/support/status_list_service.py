"""A server that plays Google's list of revoked attestation keys: answers by a script, and keeps what it was asked. Written from
Google's "Verify hardware-backed key pairs with key attestation", not from the code."""

import json
import threading
import time
from dataclasses import dataclass

from support.posted_to import PostedTo

PATH = "/attestation/status"


def listing(*serials):
    """The list's JSON with these serials as it writes them: hexadecimal or decimal."""
    entries = {serial: {"status": "REVOKED", "reason": "KEY_COMPROMISE"} for serial in serials}
    return json.dumps({"entries": entries}).encode()


@dataclass
class Fetch:
    """One request for the list."""

    at: float
    fields: dict
    connection: object


class Answer:
    def __init__(self, status, content=b"", **fields):
        self.status, self.content, self.fields = status, content, fields


class StatusListService:
    """`script(fetch)` returns an `Answer`. Without one, `content` is served under an ETag, and 304 to who has it."""

    def __init__(self, identity=None, host="localhost", content=listing("1a2b", "3c4d", "5e6f")):
        self.host, self.content, self.fields = host, content, {}
        self.fetches, self.faults = [], []
        self.lock = threading.Lock()
        self.script = self.serve
        self.service = PostedTo(self._answer, identity)
        self.port = self.service.port

    @property
    def url(self):
        return f"{'http' if self.service.context is None else 'https'}://{self.host}:{self.port}{PATH}"

    @property
    def tag(self):
        return f'"{hash(self.content):x}"'

    def stop(self):
        self.service.close()
        assert self.faults == [], self.faults

    def serve(self, fetch):
        if fetch.fields.get("If-None-Match") == self.tag:
            return Answer(304, ETag=self.tag, **self.fields)
        return Answer(200, self.content, ETag=self.tag, Last_Modified="Fri, 27 Nov 2026 08:00:00 GMT", **self.fields)

    def _answer(self, handler):
        with self.lock:
            fetch = Fetch(time.time(), dict(handler.headers.items()), handler.connection)
            self.fetches.append(fetch)
            asked = (handler.command, handler.path, handler.headers["Host"], handler.headers.get("Content-Length"))
            if asked != ("GET", PATH, f"{self.host}:{self.port}", None):
                self.faults.append(asked)
            script = self.script
        answer = script(fetch)
        try:
            handler.send_response(answer.status)
            for name, value in answer.fields.items():
                handler.send_header(name.replace("_", "-"), value)
            if answer.status != 304:
                handler.send_header("Content-Length", str(len(answer.content)))
            handler.end_headers()
            handler.wfile.write(answer.content)
        except OSError:
            handler.close_connection = True
