"""A gateway under valgrind, through all that it does from start to end: what it has lost of its memory then.

Definitely lost is what nothing refers to any more. What something still refers to at the end was kept, and goes with the process.
"""

import contextlib
import re
import shutil
import subprocess
from pathlib import Path

from support.attested import Attested
from support.client import Client, IncompleteResponse, get, post, tls_context
from support.collector import Collector
from support.enrolment import Enrolling
from support.exposition import ask
from support.gateway import Gateway
from support.http2_client import HTTP2Client
from support.http2_service import HTTP2Service, serve_well
from support.memory_states import echo
from support.paths import BINARY, PATIENCE
from support.phone import HardwareKey
from support.pki import attestgate
from support.ports import uncommon_port
from support.postgresql import PostgreSQL
from support.recording_upstream import RecordingUpstream
from support.web_sockets import handshake

OPTIONS = [
    "--tool=memcheck", "--leak-check=full", "--show-leak-kinds=definite", "--errors-for-leak-kinds=definite", "--num-callers=40",
    f"--suppressions={Path(__file__).with_name('leaks.supp')}",
    # OpenSSL's assembly and Swift's strings read whole words, the end of which nobody wrote; leaks are asked for here.
    "--undef-value-errors=no",
    # Threads take turns; the one that serves must not wait for long.
    "--fair-sched=yes",
]


class Watched:
    """Within the block, gateways that serve start under valgrind. Afterwards `reports` has what it said of each."""

    def __init__(self, directory):
        self.directory, self.reports = directory, []

    def __enter__(self):
        # Debian's valgrind gives up over the debugging information that Swift writes.
        stripped = self.directory / "attestgate"
        subprocess.run(["strip", "--strip-debug", "-o", stripped, BINARY], check=True)
        self.command = Gateway.command

        def command(gateway):
            return ["valgrind", *OPTIONS, f"--log-file={self.directory}/valgrind.%p", stripped, *self.command(gateway)[1:]]
        Gateway.command = command
        # Most of the program is translated before it serves.
        Gateway.patience = 10 * PATIENCE
        return self

    def __exit__(self, *_):
        Gateway.command, Gateway.patience = self.command, PATIENCE
        self.reports = [path.read_text(errors="replace") for path in sorted(self.directory.glob("valgrind.*"))]


def lost(report):
    """Octets that are definitely lost, but for what leaks.supp says."""
    assert "HEAP SUMMARY" in report, report
    if "All heap blocks were freed" in report:
        return 0
    return int(re.search(r"definitely lost: ([\d,]+) bytes", report)[1].replace(",", ""))


def faults(report):
    """Of other kinds: memory used that was freed, or beyond its end."""
    contexts = re.search(r"ERROR SUMMARY: \d+ errors from (\d+) contexts", report)
    # Foundation asks for a block of no bytes, which glibc permits. Valgrind 3.24 objects, and 3.19 takes no suppression of it.
    empty = re.findall(r"posix_memalign\(\) invalid size value: 0$", report, re.MULTILINE)
    return int(contexts[1]) - len(empty)


def serve(directory, pki, upstream, rounds=1, **settings):
    """What clients meet, a reload behind each round of it, a revocation, and an end in order."""
    attested = Attested(directory / "gateway", pki, upstream, **settings)
    gateway, phone = attested.gateway, attested.phone
    for _ in range(rounds):
        meet(attested, phone)
        refuse(attested, phone)
        break_off(gateway, phone)
        assert ask(gateway, "/metrics")[0] == 200
        done = attestgate("reload", "--config", gateway.conf_path)
        assert done.returncode == 0, done.stderr
    gateway.device_command("revoke", str(phone.number))
    meet_revoked(gateway, phone)
    gateway.halt()


def meet(attested, phone):
    """What is answered: after full handshakes and resumed ones, in both versions, with content collected and streamed."""
    gateway = attested.gateway
    context = tls_context(gateway.pki, phone.identity)
    session = None
    for _ in range(3):
        with Client(gateway, phone.identity, context, session=session) as client:
            assert client.exchange(get("/certificate")).status == 200
            assert client.exchange(phone.request(path="/a", query="b=c")).status == 200
            assert client.exchange(phone.request("POST", "/a", content=bytes(50_000))).status == 200
            assert client.exchange(phone.request("POST", "/stream/a", content=bytes(200_000), chunked=True)).status == 200
            session = client.socket.session
            client.leave()
    with HTTP2Client(gateway, phone.identity) as client:
        for _ in range(3):
            assert client.exchange(get("/certificate")).status == 200
            assert client.exchange(phone.request(path="/a")).status == 200
            assert client.exchange(phone.request("POST", "/stream/a", content=bytes(50_000))).status == 200


def refuse(attested, phone):
    replayed = phone.request(path="/a")
    requests = [
        (401, get("/a")), (401, phone.request(path="/a", key=HardwareKey())), (401, phone.request(path="/a", nonce="A" * 78)),
        (401, phone.request(path="/a", covered=["@method", "@path"])), (200, replayed), (401, replayed),
        (400, phone.request("POST", "/a", content=b"some", sent={"content": b"same"})), (403, phone.request(path="/other/a"))]
    for kind in (Client, HTTP2Client):
        for status, data in requests:
            with kind(attested.gateway, phone.identity) as client:
                response = client.exchange(data)
                assert response.status in (status, 401), response


def break_off(gateway, phone):
    """Connections that end in the middle of something."""
    with Client(gateway, phone.identity) as client:
        client.send(b"GET / HTTP/1.1\r\nHo")
    with Client(gateway, phone.identity) as client:
        client.send(phone.request("POST", "/a", content=bytes(50_000))[:-1])
    with Client(gateway, phone.identity) as client:
        client.send(b"\0\0\0 no HTTP\r\n\r\n").read_to_end()
    with HTTP2Client(gateway, phone.identity) as client:
        client.start("POST", "/certificate", end=False)
    # Without a certificate: the alert may come as the request is sent, or after.
    with contextlib.suppress(OSError, IncompleteResponse), Client(gateway, None) as client:
        client.exchange(get("/certificate"))


def meet_revoked(gateway, phone):
    with contextlib.suppress(OSError, IncompleteResponse), Client(gateway, phone.identity) as client:
        assert client.exchange(get("/certificate")).status == 403


def share(directory, pki, upstream):
    """The same with the registry in a database."""
    database = PostgreSQL()
    try:
        serve(directory, pki, upstream, registry={"postgresql": database.conf})
    finally:
        database.close()


def pass_on(directory, pki, upstream):
    """What lies behind: a service of HTTP/2, one that echoes WebSockets, one that is not there, and a collector of spans."""
    service, tunnels, collector = HTTP2Service(serve_well), RecordingUpstream(), Collector()
    tunnels.upgrades, tunnels.script = True, echo
    upstreams = {
        "service": {"servers": [service.address], "protocol": "h2"},
        "tunnels": {"servers": [tunnels.address], "idle_connections": 0},
        "nobody": {"servers": [f"127.0.0.1:{uncommon_port()}"]}}
    routes = [
        {"name": "all", "host": "localhost", "path": "/"},
        {"name": "tunnel", "host": "localhost", "path": "/tunnel", "upstream": "tunnels", "websocket": "allowed"},
        {"name": "nobody", "host": "localhost", "path": "/nobody", "upstream": "nobody"}]
    gateway = Gateway(
        directory / "behind", pki, upstreams, routes, tracing={"endpoint": collector.url, "interval": "100ms", "sample": 1})
    gateway.start()
    phone = pki.phone()
    for _ in range(3):
        with Client(gateway, phone) as client:
            for _ in range(3):
                assert client.exchange(get("/a")).status == 200
                assert client.exchange(post("/a", bytes(50_000))).status == 200
            assert client.exchange(get("/nobody")).status == 502
        with Client(gateway, phone) as client:
            assert client.send(handshake("/tunnel")).read_head().status == 101
            message = b"\x82\x7e\x13\x88" + bytes(5000)
            assert client.send(message)._exactly(len(message)) == message
    gateway.halt()
    for part in (service, tunnels):
        part.close()
    collector.stop()


def enrol(directory, pki, upstream):
    """A gateway that enrols: a phone that becomes registered, one that is refused, and an end in order."""
    enrolling = Enrolling(directory / "enrolment", pki, upstream).start()
    try:
        phone, mtls, response = enrolling.enrolled()
        identity = phone.identity(directory, mtls, response)
        with Client(enrolling.gateway, identity) as client:
            assert client.exchange(get("/device")).status == 200
        assert enrolling.phone().initialize(counter=1).status != 204
        assert enrolling.service.post("/key-binding", b"{").status == 400
        enrolling.gateway.halt()
    finally:
        enrolling.holder.close()


def installed():
    return all(shutil.which(tool) for tool in ("valgrind", "strip"))
