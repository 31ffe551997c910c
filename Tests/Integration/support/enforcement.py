"""Gateways whose routes are enforced in each mode, and requests that come to them."""

import contextlib
import itertools
import re
import select
from collections import Counter
from types import SimpleNamespace

from support.attested import OTHER_APP, Attested
from support.client import Client, ended, get
from support.denials import code_of
from support.device_tokens import TokenIssuer
from support.enrolling_phone import MTLSKey
from support.enrolment import Enrolling
from support.exposition import scrape
from support.gateway import Gateway
from support.http2_client import HTTP2Client
from support.http2_web_sockets import connect as connect_stream
from support.paths import ENVIRONMENT
from support.phone import Phone, b64
from support.platforms import APPS
from support.ports import reserve_port
from support.receipts import ReceiptMaker
from support.recording_upstream import OK, RecordingUpstream
from support.web_sockets import accept_of, handshake, switching

PROTOCOLS = ["HTTP/1.1", "HTTP/2"]
# What `enforce` says -> how its routes are called.
MODES = {"always": "always", "observe": "observe", "0%": "none", "100%": "all"}
OBSERVING = {"observe", "0%"}
HALF = "50%"
# More than a device may hold of it with another request of this size.
CONTENT = 40_000
# The address whose connections are all taken.
CROWDED_SOURCE, CONNECTIONS = "127.0.0.9", 24

# What a client says that it is.
CLAIMS = [
    "Attest-Verdict: pass", "Attest-Device: " + 64 * "a", f"attest-app: {APPS['ios']}", "ATTEST-PLATFORM: ios", "Attest-Counter: 7",
    "Attest-Anything: else", "Client-Cert: :AAAA:", "client-cert-chain: :AAAA:"]
# What routes differ in, by kind.
KINDS = {
    "proof": {"require": "request-proof"},
    "device": {"require": "device"},
    "token": {"require": "request-proof", "device_token": "required"},
    "other": {"require": "request-proof", "apps": [OTHER_APP]},
    "little": {"require": "request-proof", "content_limit": 1000},
    "stream": {"require": "request-proof", "body": "stream"},
    "impatient": {"require": "request-proof", "content_idle": "300ms"},
    "rated": {"require": "request-proof", "rate": "1/m"},
    "reading": {"require": "request-proof", "methods": ["GET"]},
    "socket": {"require": "request-proof", "websocket": "allowed", "upstream": "sockets"},
    "crowded": {"require": "request-proof", "websocket": "allowed", "upstream": "crowded"},
    "shared": {"require": "request-proof", "upstream": "shared"},
    "busy": {"require": "request-proof", "upstream": "busy"},
    "mute": {"require": "request-proof", "upstream": "mute"},
    "dead": {"require": "request-proof", "upstream": "dead"},
    "big": {"require": "request-proof", "upstream": "big"},
    "policed": {"require": "request-proof", "policy": "recent", "apps": list(APPS.values())},
    "undecided": {"require": "request-proof", "policy": "asking"},
}
POLICIES = {
    "recent": {"ios": {"minimum_os": "17.4"}, "android": {"minimum_patch_level": "2026-01"}},
    "asking": {"pdp": "dead"},
}
# Requests that are held for as long as a gateway runs.
HOLDING = [
    {"name": "hold-shared", "path": "/hold/shared", "require": "certificate", "upstream": "shared"},
    {"name": "hold-busy", "path": "/hold/busy", "require": "certificate", "upstream": "busy"},
    {"name": "hold-socket", "path": "/hold/socket", "require": "certificate", "upstream": "sockets", "websocket": "allowed"},
    {"name": "hold-crowded", "path": "/hold/crowded", "require": "certificate", "upstream": "crowded", "websocket": "allowed"},
    {"name": "hold-content", "path": "/hold/content", "require": "request-proof", "content_limit": CONTENT, "content_idle": "1h"},
    {"name": "plain", "path": "/plain", "require": "certificate"},
]


def routes(*kinds, modes):
    return [
        {"host": "localhost", "content_limit": CONTENT, "name": f"{kind}-{name_of(mode)}", "path": f"/{name_of(mode)}/{kind}",
         "enforce": mode, **KINDS[kind]} for kind in kinds for mode in modes]


def name_of(mode):
    return MODES.get(mode, "half")


def holds(connection):
    """Answers nothing."""
    connection.read_request()
    connection.wait_for_end()


def talks(connection):
    """Answers more than lies on the way to a client."""
    connection.read_request()
    connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
    while True:
        connection.send(bytes(1 << 20))


def switches(connection):
    """Opens each WebSocket, and stays quiet."""
    head = connection.read_head()
    connection.upstream.requests.append(head)
    if not head.values("upgrade"):
        return connection.send(OK)
    connection.send(switching(accept=accept_of(head.values("sec-websocket-key")[0])))
    connection.wait_for_end()


class Counts:
    """What the metrics of a gateway are to say once all its cells are through."""

    def __init__(self):
        self.denials, self.would_deny = Counter(), Counter()

    def differences(self, gateway):
        """Where the metrics say something else: what they say, and what it is to be."""
        metrics, found = scrape(gateway), Counts()
        for each in metrics.labels("attestgate_denials_total"):
            found.denials[each["code"]] += int(metrics("attestgate_denials_total", **each))
        for each in metrics.labels("attestgate_would_deny_total") if "attestgate_would_deny_total" in metrics.kinds else []:
            found.would_deny[each["route"], each["code"]] += int(metrics("attestgate_would_deny_total", **each))
        # The gateway may have ended one of the held connections itself.
        seen = {code: found.denials[code] for code in self.denials}
        return [each for each in [(seen, dict(self.denials)), (dict(+found.would_deny), dict(self.would_deny))] if each[0] != each[1]]


class World:
    """A gateway and the services behind it."""

    def received(self, path):
        """The request whose target begins with that path, of whichever service; None if there is none."""
        found = [
            each for service in self.services.values() for each in list(service.requests)
            if re.match(re.escape(path) + r"(?![\d-])", each.target)]
        assert len(found) <= 1, found
        return found[0] if found else None

    def came_to_none(self, path):
        """Whether no service got a byte of such a request."""
        sign = re.compile(re.escape(path).encode() + rb"(?![\d-])")
        return not any(
            sign.search(each.received) for service in self.services.values() for each in list(service.connections))


class Modes(World):
    """A gateway with routes of each kind in each mode, and whom it knows."""

    def __init__(self, directory, pki, library):
        """`library`: what fails to digest the marker, for LD_PRELOAD."""
        self.pki, self.stack, self.directory = pki, contextlib.ExitStack(), directory
        self.number = itertools.count()
        self.counts = Counts()
        self.services = {name: RecordingUpstream() for name in ["service", "sockets", "held", "mute", "big"]}
        self.services["sockets"].upgrades = True
        scripts = {"sockets": switches, "held": holds, "mute": holds, "big": talks}
        for name, script in scripts.items():
            self.services[name].script = script
        self.holders = [reserve_port() for _ in range(4)]
        self.gateway = Gateway(directory, pki, self._upstreams(), self._routes(), **self._settings())
        self.gateway.environment = {**ENVIRONMENT, "LD_PRELOAD": str(library)}
        self.listeners = {"main": self.gateway}
        self._add_listeners()
        self.gateway.start()
        self._register()
        self._hold()

    def _upstreams(self):
        address = {name: [service.address] for name, service in self.services.items()}
        patient = {"response_timeout": "10m", "idle_connections": 0, "waiting": 0}
        return {
            "service": {"servers": address["service"], "client_certificate": "rfc9440-with-chain"},
            "sockets": {"servers": address["sockets"], **patient},
            "crowded": {"servers": address["sockets"], **patient, "connections": 2},
            "shared": {"servers": address["held"], **patient},
            "busy": {"servers": address["held"], **patient, "connections": 1},
            "mute": {"servers": address["mute"], "response_timeout": "300ms", "idle_connections": 0},
            "dead": {"servers": [f"127.0.0.1:{self.holders[0][1]}"]},
            "big": {"servers": address["big"], "idle_connections": 0},
        }

    def _routes(self):
        return [
            *routes(*KINDS, modes=MODES), *routes("proof", "other", "policed", "token", modes=[HALF]),
            *({"host": "localhost", **route} for route in HOLDING)]

    def _settings(self):
        self.fading = self.pki.authority("enforcement-fading")
        self.withdrawn = self.pki.client("enforcement-withdrawn", issuer=self.pki.root)
        crls = [
            self.pki.crl(self.directory / "gms.crl", self.pki.gms),
            self.pki.crl(self.directory / "root.crl", self.pki.root, [(self.withdrawn, "keyCompromise")]),
            self.pki.crl(self.directory / "fading.crl", self.fading, start=-3, end=-1)]
        authorities = [str(each.certificate) for each in (self.pki.gms, self.pki.root, self.fading)]
        return {
            "device_tokens": TokenIssuer(self.directory / "tokens").settings(),
            "clients": {"authorities": authorities, "crls": list(map(str, crls))},
            "limits": {
                "held_content": "1MiB", "tunnels_per_device": 1, "requests_per_device": 4,
                "connections_per_source": CONNECTIONS},
            "timeouts": {"content_idle": "1s", "keep_alive": "10m"},
            "apps": [
                {"id": app, "environment": "simulator", "counter": "strict"} for app in [*APPS.values(), OTHER_APP]],
            "policies": POLICIES,
            "decision_points": {"dead": {
                "kind": "opa", "url": f"http://127.0.0.1:{self.holders[0][1]}", "path": "/v1/data/a"}},
        }

    def _add_listeners(self):
        """Besides the main one: for pinned keys only, for clients without a certificate, behind a proxy."""
        main, pinned = self.gateway.conf["listeners"][0], self.pki.names(self.pki.phone("enforcement-pinned")).key_id
        for (_, port), (name, change) in zip(self.holders[1:], {
                "pins": {"clients": {**main["clients"], "pins": [b64(pinned)]}},
                "optional": {"clients": {**main["clients"], "require": "optional"}},
                "proxied": {"proxy_protocol": {"from": ["127.0.0.1"]}}}.items()):
            self.gateway.conf["listeners"].append({**main, "address": f"127.0.0.1:{port}", **change})
            self.listeners[name] = SimpleNamespace(port=port, pki=self.pki)

    def _register(self):
        self.first = {platform: self.new_phone(app) for platform, app in APPS.items()}
        self.other, self.greedy, self.talker, self.holder = (self.new_phone() for _ in range(4))
        revoked = self.new_phone()
        self.gateway.device_command("revoke", str(revoked.number))
        # After the start a handshake does not know of it, until the first of its requests.
        self.gateway.halt()
        self.gateway.start()
        self.revoked = {}
        for mode in MODES:
            for protocol in PROTOCOLS:
                kind = HTTP2Client if protocol == "HTTP/2" else Client
                self.revoked[mode, protocol] = self.stack.enter_context(kind(self.gateway, revoked.identity))
        self.barred = self.new_phone()
        self.gateway.device_command("revoke", str(self.barred.number))
        self.stranger = self.pki.phone("enforcement-stranger")
        # Senders, and whether they are enforced, by route and kind of sender.
        self.sides = {}

    def new_phone(self, app=None):
        identity = self.pki.phone(f"enforcement-{next(self.number)}")
        return Phone(self.gateway, identity, app or APPS["ios"])

    def _hold(self):
        greedy = self.stack.enter_context(HTTP2Client(self.gateway, self.greedy.identity))
        for _ in range(4):
            greedy.start(path="/hold/shared")
        # Every other one is of no other test.
        one, another = self.pki.phone("enforcement-busy"), self.pki.phone("enforcement-talking")
        self.stack.enter_context(Client(self.gateway, one)).send(get("/hold/busy"))
        self.services["held"].wait_for_requests(5)
        self.talkers, self.tunnels = {"/hold/socket": self.talker.identity, "/hold/crowded": another}, {}
        self.keep_tunnels()
        content = self.holder.request("POST", "/hold/content", content=bytes(CONTENT))
        self.stack.enter_context(Client(self.gateway, self.holder.identity)).send(content[:-1]).wait_until_delivered()
        for _ in range(CONNECTIONS):
            self.stack.enter_context(Client(self.gateway, one, source=CROWDED_SOURCE))

    def keep_tunnels(self):
        """One is open for each of them. On a slow machine the gateway may have ended it: nobody heard of revocations for a while."""
        for path, identity in self.talkers.items():
            if path in self.tunnels and not select.select([self.tunnels[path].socket], [], [], 0)[0]:
                continue
            tunnel = self.tunnels[path] = self.stack.enter_context(Client(self.gateway, identity))
            assert tunnel.send(handshake(path)).read_head().status == 101

    def on_side(self, path, is_enforced, kind, make):
        """A sender on which the route with that path is enforced, or is not: the first such one of those that `make` makes."""
        found = self.sides.setdefault((path.rsplit("/", 1)[0], kind), [])
        for number in itertools.count():
            if len(found) <= number:
                made = make()
                with Client(self.gateway, getattr(made, "identity", made)) as client:
                    response = client.exchange(get(f"{path}-side-{number}"))
                status = response.status
                if status == 200:
                    verdict = self.received(f"{path}-side-{number}").values("attest-verdict")[0]
                    self.counts.would_deny[path.split("/")[2] + "-half", verdict.split("code=")[1]] += 1
                else:
                    self.counts.denials[code_of(response)] += 1
                found.append((made, status != 200))
            if found[number][1] == is_enforced:
                return found[number][0]

    def stop(self):
        self.stack.close()
        self.gateway.stop()
        for service in self.services.values():
            service.close()
        for holder, _ in self.holders:
            holder.close()
        faults = [fault for service in self.services.values() for fault in service.faults]
        assert faults == [], "the gateway forwarded what is no canonical request"


class Stores(World, Attested):
    """A gateway whose registry cannot be written, as if the disk were full, and its phone."""

    def __init__(self, directory, pki):
        super().__init__(directory, pki, RecordingUpstream(), routes=routes("proof", modes=MODES))
        self.services, self.counts = {"service": self.upstream}, Counts()
        self.listeners = {"main": self.gateway}
        self.gateway.limit_files(0)

    def stop(self):
        self.gateway.limit_files(None)
        self.gateway.stop()
        self.upstream.close()


class Enrolled(World):
    """A gateway that enrols, and phones that it has enrolled: one with too much risk, one with an old system, one with another key."""

    def __init__(self, directory, pki, upstream):
        self.upstream, self.pki, self.counts = upstream, pki, Counts()
        self.enrolling = Enrolling(
            directory, pki, upstream, enrolment={"rotation_overlap": "0s"}, app={"receipt": "required"})
        self.gateway = self.enrolling.gateway
        self.gateway.conf["routes"] = [{"upstream": "service", **route} for route in routes("proof", modes=MODES)]
        self.listeners, self.services = {"main": self.gateway}, {"service": upstream}
        self.enrolling.start()
        self.risky = self._enrol("risky", 9, "18.0")[2]
        self.outdated = self._enrol("outdated", 1, "17.4.1")[2]
        phone, _, self.ended = self._enrol("ended", 1, "18.0")
        with Client(self.gateway, self.ended) as witness:
            assert witness.exchange(get("/.well-known/attestgate/challenge")).status == 204
            assert phone.bind(MTLSKey()).status == 200
            # Its connections are ended when its binding is.
            assert ended(witness)
        self.gateway.conf["apps"][0].update(maximum_risk=5, minimum_os="17.5")
        self.enrolling.change()

    def _enrol(self, name, risk, system):
        phone, mtls = self.enrolling.phone(), MTLSKey()
        receipt = ReceiptMaker(self.enrolling.authority).of_attestation(risk=risk)
        assert phone.initialize(receipt=receipt, os_version=system).status == 204
        return phone, mtls, phone.identity(self.enrolling.directory, mtls, phone.bind(mtls), name)

    def stop(self):
        self.enrolling.stop()


class Cell:
    """One row of the table on a route of one mode, over one protocol; and the one request that is for it."""

    def __init__(self, world, mode, protocol, kind="proof", platform="ios", is_enforced=None):
        self.world, self.mode, self.protocol, self.kind, self.platform = world, mode, protocol, kind, platform
        self.gateway = world.gateway
        # No other cell has it.
        self.path = f"/{name_of(mode)}/{kind}/{next(numbers)}"
        self.route = f"{kind}-{name_of(mode)}"
        self.is_enforced = is_enforced if is_enforced is not None else mode not in OBSERVING

    @property
    def phone(self):
        if self.mode != HALF:
            return self.world.first[self.platform]
        return self.world.on_side(
            self.path, self.is_enforced, self.platform, lambda: self.world.new_phone(APPS[self.platform]))

    @property
    def stranger(self):
        if self.mode != HALF:
            return self.world.stranger
        pki, number = self.world.pki, self.world.number
        return self.world.on_side(
            self.path, self.is_enforced, "stranger", lambda: pki.phone(f"enforcement-{next(number)}"))

    def connect(self, who=None, at="main", **options):
        identity = getattr(who, "identity", who)
        kind = HTTP2Client if self.protocol == "HTTP/2" else Client
        return kind(self.world.listeners[at], identity, **options)

    def ask(self, data, who=None, **options):
        with self.connect(who or self.phone, **options) as client:
            return client.exchange(data)

    def begin(self, data, who):
        """Sends a request but for its last byte. - Returns: the client, and what sends the rest and waits for the response."""
        client = self.connect(who)
        if self.protocol == "HTTP/1.1":
            client.send(data[:-1])
            return client, lambda rest=b"": client.send(rest).read_response()
        number = client.begin(data[:-1], end=False)

        def finish(rest=b""):
            client.send(number, rest, end=bool(rest))
            return client.response(number)
        return client, finish

    def open_socket(self, phone, version="13", proof=True):
        """Asks for a WebSocket."""
        method = "GET" if self.protocol == "HTTP/1.1" else "CONNECT"
        fields = phone.proof(method, self.path) if proof else []
        with self.connect(phone) as client:
            if self.protocol == "HTTP/1.1":
                lines = [f"{name}: {value}" for name, value in fields]
                return client.exchange(handshake(self.path, *lines, version=f"Sec-WebSocket-Version: {version}"))
            return client.response(connect_stream(client, self.path, fields, version=version))

    def spend(self, data, phone):
        """Has an earlier counter used."""
        with phone.connect() as client:
            assert client.exchange(data).status == 200


numbers = itertools.count()
