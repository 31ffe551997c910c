"""Policy decision points for tests: AuthZEN with decisions of a function, OPA's data API with decisions in Rego, and both as
they should not be. Written from the standards, not from the code."""

import importlib
import json
import re
import socket
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import jsonschema
import pytest

from support.paths import PATIENCE, REPOSITORY
from support.ports import uncommon_port
from support.posted_to import PostedTo

POLICIES = Path(__file__).parent / "policies"
SCHEMA = json.loads((Path(__file__).parent / "authzen-request.schema.json").read_text())
EVALUATION = "/access/v1/evaluation"
METADATA = "/.well-known/authzen-configuration"
# No other field may be sent to a decision point: a client's could be a secret.
FIELDS = {"host", "user-agent", "content-type", "content-length", "authorization", "x-request-id", "accept", "connection"}


@dataclass
class Asked:
    """A question: `document` is what is to be decided."""

    document: dict
    fields: dict
    path: str
    connection: object
    at: float = field(default_factory=time.time)


class Answer:
    """An answer: `content` bytes, or what becomes JSON. `cut` sends only so many bytes of it."""

    def __init__(self, status, content, cut=None, **fields):
        self.status, self.cut = status, cut
        self.content = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.fields = {"Content-Type": "application/json", **{name.replace("_", "-"): value for name, value in fields.items()}}


class Refused(Exception):
    """A question that is not as the protocol has it."""


NESTED = b'{"decision":true,"result":true,"x":' + b"[" * 100 + b"]" * 100 + b"}"
YES = b'{"decision":true,"result":true}'

# What a decision point may do instead of deciding. Nothing of it is a decision, though most of it contains one.
MISBEHAVIOURS = {
    "text for Boolean": lambda: Answer(200, b'{"decision":"true","result":"true"}'),
    "number for Boolean": lambda: Answer(200, b'{"decision":1,"result":1}'),
    "null": lambda: Answer(200, b'{"decision":null,"result":null}'),
    "nothing": lambda: Answer(200, b""),
    "another object": lambda: Answer(200, b"[true]"),
    "truncated": lambda: Answer(200, YES[:-1]),
    "trailing bytes": lambda: Answer(200, YES + YES),
    "a member twice": lambda: Answer(200, b'{"decision":true,"decision":true,"result":true,"result":true}'),
    "not UTF-8": lambda: Answer(200, b'{"decision":true,"result":true,"x":"\xff"}'),
    "nested": lambda: Answer(200, NESTED),
    "10 MiB": lambda: Answer(200, YES[:-1] + b',"x":"' + b"x" * (10 << 20) + b'"}'),
    "wrong content type": lambda: Answer(200, YES, Content_Type="text/html"),
    "no content type": lambda: Answer(200, YES, Content_Type=None),
    "redirect": lambda: Answer(307, YES, Location=EVALUATION),
    "status 201": lambda: Answer(201, YES),
    "status 400": lambda: Answer(400, YES),
    "status 401": lambda: Answer(401, YES),
    "status 403": lambda: Answer(403, YES),
    "status 500": lambda: Answer(500, YES),
    "closes at once": lambda: None,
    "closes in the middle": lambda: Answer(200, YES, cut=len(YES) // 2),
}


class DecisionPoint:
    """What both kinds share. `script(asked)` returns the `Answer`, or None to hang up.

    - decide: is given the document of a question.
    - token: what a question must have as `Authorization: Bearer`; None for no such field."""

    def __init__(self, decide, identity=None, token=None, port=0):
        self.decide, self.token, self.identity = decide, token, identity
        self.asked, self.faults = [], []
        # Whether questions are about requests, which have a trace.
        self.is_traced = True
        self.lock = threading.Lock()
        self.released = threading.Event()
        self.connections = set()
        self.script = self.respond
        # Below those that the kernel assigns, so that it is free when the decision point comes back.
        self._start(port or uncommon_port())

    def _start(self, port):
        self.service = PostedTo(self._serve, self.identity, port)
        self.port, self.url = self.service.port, self.service.url

    # What tests do with it.

    def behave(self):
        """It decides again; what is slow answers."""
        self.script = self.respond
        self.released.set()

    def misbehave(self, name):
        """- Parameter name: one of `MISBEHAVIOURS`, or `slow`, until `behave`."""
        if name == "slow":
            self.released.clear()
            self.script = self._respond_late
        else:
            self.script = lambda asked: MISBEHAVIOURS[name]()

    def go(self):
        """Nobody listens any more, and every connection ends."""
        self.released.set()
        self.service.close()
        with self.lock:
            connections, self.connections = self.connections, set()
        for connection in connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def come_back(self):
        self._start(self.port)

    def restart(self):
        self.go()
        self.come_back()

    def stop(self):
        self.go()
        assert self.faults == [], self.faults

    @property
    def documents(self):
        with self.lock:
            return [asked.document for asked in self.asked]

    # Serving.

    def _serve(self, handler):
        with self.lock:
            self.connections.add(handler.connection)
        content = handler.rfile.read(int(handler.headers.get("Content-Length", 0)))
        try:
            asked = self._read(handler, content)
        except Refused as fault:
            with self.lock:
                self.faults.append(str(fault))
            return self._send(handler, Answer(400, {"message": str(fault)}))
        if isinstance(asked, Asked):
            with self.lock:
                self.asked.append(asked)
                script = self.script
            asked = script(asked)
        self._send(handler, asked)

    def _read(self, handler, content):
        fields = {name.lower(): value for name, value in handler.headers.items()}
        self._demand(len(fields) == len(handler.headers.items()), f"a field is there twice: {handler.headers.items()}")
        self._demand(fields.keys() <= FIELDS, f"fields {sorted(fields.keys() - FIELDS)}")
        # Metadata are public.
        bearer = None if self.token is None or handler.command == "GET" else f"Bearer {self.token}"
        self._demand(fields.get("authorization") == bearer, "Authorization")
        if handler.command == "GET":
            return self.described(handler.path)
        self._demand(fields.get("content-type") == "application/json", "Content-Type")
        if self.is_traced:
            self._demand(re.fullmatch("[0-9a-f]{32}", fields.get("x-request-id", "")), "X-Request-ID")
        document = self.read(handler.path, read_json(content))
        return Asked(document, fields, handler.path, handler.connection)

    def _demand(self, condition, text):
        if not condition:
            raise Refused(text)

    def described(self, path):
        raise Refused(f"GET {path}")

    def _respond_late(self, asked):
        self.released.wait(PATIENCE)
        return self.respond(asked)

    def _send(self, handler, answer):
        if answer is None or answer.cut is not None:
            handler.close_connection = True
        if answer is None:
            return
        try:
            handler.send_response(answer.status)
            for name, value in {"Content-Length": str(len(answer.content)), **answer.fields}.items():
                if value is not None:
                    handler.send_header(name, value)
            handler.end_headers()
            handler.wfile.write(answer.content[:answer.cut])
        except OSError:
            handler.close_connection = True


def read_json(content):
    """JSON in which no name of an object occurs twice."""
    def members(pairs):
        if len({name for name, _ in pairs}) != len(pairs):
            raise Refused(f"a member is there twice: {[name for name, _ in pairs]}")
        return dict(pairs)
    try:
        return json.loads(content.decode(), object_pairs_hook=members)
    except ValueError as error:
        raise Refused(f"no JSON: {error}") from None


class AuthZEN(DecisionPoint):
    """`decide(document)` returns a Boolean, or that and the context of the answer."""

    validator = jsonschema.Draft202012Validator(SCHEMA)
    # Replaces members of the metadata.
    metadata = {}

    def read(self, path, document):
        self._demand(path == EVALUATION, path)
        if errors := [f"{error.json_path}: {error.message}" for error in self.validator.iter_errors(document)]:
            raise Refused("; ".join(errors))
        return document

    def respond(self, asked):
        decision = self.decide(asked.document)
        decision, context = decision if isinstance(decision, tuple) else (decision, None)
        return Answer(200, {"decision": decision} | ({} if context is None else {"context": context}))

    def described(self, path):
        self._demand(path == METADATA, path)
        metadata = {"policy_decision_point": self.url, "access_evaluation_endpoint": self.url + EVALUATION}
        return Answer(200, metadata | self.metadata)


class DataAPI(DecisionPoint):
    """OPA's data API. `decide(input)` returns the result."""

    def read(self, path, content):
        self._demand(re.fullmatch(r"/v1/data(/[a-z_]+)+", path), path)
        self._demand(isinstance(content, dict) and content.keys() == {"input"}, f"members {content}")
        self._demand(isinstance(content["input"], dict), "input")
        return content["input"]

    def respond(self, asked):
        return Answer(200, {"result": self.decide(asked.document)})


class OPA(DataAPI):
    """Decides in Rego. Policies are files in `policies`; `data` is the document that they have as `data`."""

    def __init__(self, *policies, data=None, **options):
        rego = required_rego()
        self.interpreter = rego.Interpreter()
        for policy in policies:
            self.interpreter.add_module(policy, (POLICIES / f"{policy}.rego").read_text())
        if data is not None:
            self.interpreter.add_data(data)
        self.evaluating = threading.Lock()
        super().__init__(None, **options)

    def respond(self, asked):
        with self.evaluating:
            self.interpreter.set_input(asked.document)
            name = asked.path.removeprefix("/v1/").replace("/", ".")
            # By itself a result that is false would be none.
            found = self.interpreter.query(f"result := {name}").results
        bindings = found[0].bindings if found else {}
        answer = {"decision_id": f"{len(self.asked)}"}
        return Answer(200, answer | ({"result": bindings["result"]} if "result" in bindings else {}))


def required_rego():
    """The module `regopy`, which `scripts/install-packages` installs from PyPI. Without it the test is skipped."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    place = str(REPOSITORY / ".build" / "bench-venv" / "lib" / version / "site-packages")
    if place not in sys.path:
        # Last: everything else comes from Debian.
        sys.path.append(place)
    try:
        return importlib.import_module("regopy")
    except ImportError as error:
        pytest.skip(f"no Rego: {error}; scripts/install-packages test installs regopy")
