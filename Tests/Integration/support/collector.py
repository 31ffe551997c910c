"""A stand-in for an OTLP collector: takes spans over HTTP as JSON, and holds them to the names and types of the protocol."""

import json
import re
import threading

from support.posted_to import PostedTo
from support.waiting import eventually

# opentelemetry-proto, trace/v1/trace.proto, as JSON: names in lowerCamelCase, ids in hexadecimal, 64-bit numbers as strings.
SPAN = {
    "traceId": lambda value: re.fullmatch("[0-9a-f]{32}", value) and int(value, 16),
    "spanId": lambda value: re.fullmatch("[0-9a-f]{16}", value) and int(value, 16),
    "parentSpanId": lambda value: re.fullmatch("[0-9a-f]{16}", value) and int(value, 16),
    "flags": lambda value: type(value) is int and 0 <= value < 1 << 10,
    "name": lambda value: type(value) is str and value,
    "kind": lambda value: type(value) is int and 1 <= value <= 5,
    "startTimeUnixNano": lambda value: type(value) is str and re.fullmatch(r"[1-9]\d{18}", value),
    "endTimeUnixNano": lambda value: type(value) is str and re.fullmatch(r"[1-9]\d{18}", value),
    "attributes": lambda value: type(value) is list,
    "status": lambda value: value == {"code": 2},
}
VALUES = {
    "stringValue": lambda value: type(value) is str,
    "intValue": lambda value: type(value) is str and re.fullmatch(r"-?\d+", value),
}


def attributes(entries):
    """The attributes of a list, each once, each of a known type."""
    found = {}
    for entry in entries:
        assert set(entry) == {"key", "value"} and len(entry["value"]) == 1, entry
        (kind, value), = entry["value"].items()
        assert VALUES[kind](value), entry
        assert entry["key"] not in found, entry
        found[entry["key"]] = value if kind == "stringValue" else int(value)
    return found


class Span:
    def __init__(self, members):
        assert set(members) <= set(SPAN) and set(SPAN) - set(members) <= {"parentSpanId", "status"}, members
        for name, value in members.items():
            assert SPAN[name](value), (name, value)
        self.trace, self.id, self.parent = members["traceId"], members["spanId"], members.get("parentSpanId")
        self.name, self.kind, self.flags = members["name"], members["kind"], members["flags"]
        self.start, self.end = int(members["startTimeUnixNano"]), int(members["endTimeUnixNano"])
        assert self.start <= self.end
        self.attributes = attributes(members["attributes"])
        self.failed = "status" in members


class Collector:
    """`script(number)` of a call, from 0, returns status, fields and content of its answer, or None to hang up."""

    def __init__(self, identity=None, port=0):
        self.spans, self.resources, self.faults, self.fields = [], [], [], []
        self.calls = 0
        self.lock = threading.Lock()
        self.script = lambda number: (200, {}, b"{}")
        self.service = PostedTo(self._serve, identity, port)
        self.port, self.url = self.service.port, self.service.url

    def _serve(self, handler):
        content = handler.rfile.read(int(handler.headers["Content-Length"]))
        with self.lock:
            number = self.calls
            self.calls += 1
        answer = self.script(number)
        if answer is None:
            handler.close_connection = True
            return
        status, fields, body = answer
        if status == 200:
            try:
                self._read(handler, content)
            except Exception as error:
                self.faults.append(repr(error))
        handler.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(body)), **fields}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(body)

    def _read(self, handler, content):
        assert handler.path == "/v1/traces", handler.path
        assert handler.headers["Content-Type"] == "application/json"
        message = json.loads(content)
        assert set(message) == {"resourceSpans"}
        for entry in message["resourceSpans"]:
            assert set(entry) == {"resource", "scopeSpans"} and set(entry["resource"]) == {"attributes"}
            resource = attributes(entry["resource"]["attributes"])
            for scope in entry["scopeSpans"]:
                assert set(scope) == {"scope", "spans"} and scope["scope"]["name"] == "attestgate", scope
                spans = [Span(members) for members in scope["spans"]]
                with self.lock:
                    self.spans += spans
                    self.resources.append(resource)
                    self.fields.append(dict(handler.headers))

    def trace(self, trace, count=1):
        """The spans of one trace, by name, once there are so many."""
        def find():
            with self.lock:
                found = [span for span in self.spans if span.trace == trace]
            return found if len(found) >= count else None
        return eventually(find, lambda: f"{count} spans of {trace}; faults: {self.faults}")

    def stop(self):
        self.service.close()
        assert self.faults == [], self.faults
