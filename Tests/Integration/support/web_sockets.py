"""WebSockets by Python's websockets, which is not ours: a service, and clients over mutual TLS. A raw service beside it, for what
no library would say."""

import asyncio
import base64
import hashlib
import random
import threading

import websockets
# The same in Debian 12's version and in Debian 13's, whose newer interface takes other arguments.
from websockets.legacy import client as asking, server as serving

from support.client import get, tls_context
from support.paths import PATIENCE
from support.waiting import eventually

KEY = "dGhlIHNhbXBsZSBub25jZQ=="
IDENTIFIER = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
# What no message of a test exceeds.
LARGEST = 1 << 25


class Traces:
    """What the traces of one test begin with: by it a test finds its lines in a log among those of others."""

    def __init__(self):
        self.prefix = ""

    def begin(self):
        self.prefix = f"{random.randrange(1, 1 << 64):016x}"

    def end(self):
        self.prefix = ""

    def field(self, names):
        """- Returns: that of a new trace, unless there is one among the names."""
        if not self.prefix or "traceparent" in names:
            return []
        return [("traceparent", f"00-{self.prefix}{random.randrange(1 << 64):016x}-{'b' * 16}-01")]

    def has(self, entry):
        return entry.get("trace_id", "").startswith(self.prefix)


traces = Traces()


def handshake(path="/", *fields, **replaced):
    """The bytes of a handshake. `replaced`: lines in place of the usual ones, by what they are; None for none."""
    lines = {
        "connection": "Connection: Upgrade", "upgrade": "Upgrade: websocket",
        "version": "Sec-WebSocket-Version: 13", "key": f"Sec-WebSocket-Key: {KEY}"}
    method = replaced.pop("method", "GET")
    host = replaced.pop("host", "localhost")
    lines.update(replaced)
    fields += tuple(": ".join(each) for each in traces.field([field.split(":")[0] for field in fields]))
    return get(path, *[line for line in lines.values() if line is not None], *fields, method=method, host=host)


def accept_of(key=KEY):
    return base64.b64encode(hashlib.sha1(key.encode() + IDENTIFIER).digest()).decode()


def switching(*fields, accept=None, upgrade="Upgrade: websocket", connection="Connection: Upgrade"):
    """The bytes of a 101."""
    lines = ["HTTP/1.1 101 Switching Protocols", upgrade, connection, f"Sec-WebSocket-Accept: {accept or accept_of()}", *fields]
    return "\r\n".join([line for line in lines if line is not None] + ["", ""]).encode()


def switches(*fields, then=b"", echo=True, **answer):
    """A script for a recording service: answers the handshake, says `then` in the same write, and sends back what comes."""
    def script(connection):
        head = connection.handshake = connection.read_head()
        # What a client says before is no part of a request.
        connection.early = connection.content_behind(head)
        connection.send(switching(*fields, **answer) + then)
        if connection.early and echo:
            connection.send(connection.early)
        while True:
            data = connection.receive()
            if echo:
                connection.send(data)
    return script


class Service:
    """Echoes messages; other things by path. Runs an event loop on a thread of its own."""

    def __init__(self, tls=None):
        self.tls = tls
        self.loop = asyncio.new_event_loop()
        self.opened = []
        # (code, reason) of each connection that has ended.
        self.closed = []
        # Octets of messages that a flood has handed over.
        self.sent = 0
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        self.server = self.call(self._start())
        self.address = "127.0.0.1:%d" % self.server.sockets[0].getsockname()[1]

    def call(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(PATIENCE)

    async def _start(self):
        return await serving.serve(
            self._serve, "127.0.0.1", 0, max_size=LARGEST, ping_interval=None, close_timeout=5, compression=None, ssl=self.tls,
            subprotocols=["records.v2"])

    async def _serve(self, socket):
        self.opened.append(socket)
        try:
            if socket.path.startswith("/flood"):
                await self._flood(socket, int(socket.path.rsplit("/", 1)[1]))
            elif socket.path.startswith("/bye"):
                await socket.close(4001, "as agreed")
            else:
                async for message in socket:
                    await socket.send(message)
        except websockets.ConnectionClosed:
            pass
        finally:
            await socket.wait_closed()
            self.closed.append((socket.close_code, socket.close_reason))

    async def _flood(self, socket, octets):
        piece = bytes(range(256)) * 256
        while self.sent < octets:
            await socket.send(piece)
            self.sent += len(piece)
        await socket.close()

    def close(self):
        async def stop():
            self.server.close()
            await self.server.wait_closed()
        self.call(stop())
        self.loop.call_soon_threadsafe(self.loop.stop)


def is_cut_off(service, closed):
    """Whether a connection of the service was, since so many had ended."""
    return 1006 in [code for code, _ in service.closed[closed:]]


class Phone:
    """Opens WebSockets to a gateway with one certificate."""

    def __init__(self, gateway, identity):
        self.gateway = gateway
        self.context = tls_context(gateway.pki, identity)

    def connect(self, path="/", fields=(), **options):
        options = {"ping_interval": None, "max_size": LARGEST, "compression": None, "close_timeout": 5, **options}
        return asking.connect(
            f"wss://localhost:{self.gateway.port}{path}", host="127.0.0.1", ssl=self.context, open_timeout=PATIENCE,
            extra_headers=[*fields, *traces.field([name for name, _ in fields])], **options)


def run(coroutine):
    """Runs it to its end, and never for ever."""
    return asyncio.run(asyncio.wait_for(coroutine, PATIENCE * 3))


async def until(condition, what):
    """`eventually`, where a loop must go on meanwhile."""
    await asyncio.get_running_loop().run_in_executor(None, eventually, condition, what)
