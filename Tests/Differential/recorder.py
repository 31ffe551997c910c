"""A service that takes down what a proxy sends it, and answers as a lenient one would: it judges nothing."""

import re
import socket
import threading
from dataclasses import dataclass

from support.paths import PATIENCE

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"


@dataclass(frozen=True)
class Seen:
    """A request as the service takes it."""

    method: str
    target: str
    content: bytes

    def __str__(self):
        content = f" +{len(self.content)}" if self.content else ""
        return f"{self.method} {self.target[:24]}{content}"


class Connection:
    def __init__(self, peer):
        self.socket = peer
        self.received = b""
        self.requests = []
        # What stands behind them: the beginning of a request, or what a smuggler has achieved.
        self.rest = b""
        self.has_ended = False

    def serve(self):
        is_answered = False
        try:
            while data := self.socket.recv(65536):
                self.received += data
                self._read()
                if self.requests and not is_answered:
                    is_answered = True
                    self.socket.sendall(ANSWER)
                    self.socket.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        self.has_ended = True
        self.socket.close()

    def _read(self):
        self.requests, self.rest = [], self.received
        while (parsed := parse(self.rest)) is not None:
            request, length = parsed
            self.requests.append(request)
            self.rest = self.rest[length:]


def parse(data):
    """- Returns: the first request and its length; None if more is to come."""
    end = data.find(b"\r\n\r\n")
    if end < 0:
        return None
    lines = data[:end].decode("latin-1").split("\r\n")
    method, _, target = lines[0].partition(" ")
    # Absolute-form and origin-form are one target.
    target = re.sub(r"(?i)\Ahttps?://[^/?]*", "", target.rsplit(" ", 1)[0])
    fields = [(name.lower(), value.strip()) for name, _, value in (line.partition(":") for line in lines[1:])]
    position, content = end + 4, b""
    if any(name == "transfer-encoding" for name, _ in fields):
        while True:
            match = re.compile(rb"([0-9A-Fa-f]+)[^\r\n]*\r\n").match(data, position)
            if not match:
                return None
            size, position = int(match[1], 16), match.end()
            if size == 0:
                break
            if len(data) < position + size + 2:
                return None
            content, position = content + data[position:position + size], position + size + 2
        trailers = re.compile(rb"(?:[^\r\n]+\r\n)*\r\n").match(data, position)
        if not trailers:
            return None
        position = trailers.end()
    else:
        length = int(next((value for name, value in fields if name == "content-length" and value.isdigit()), 0))
        if len(data) < position + length:
            return None
        content, position = data[position:position + length], position + length
    return Seen(method, target, content), position


class Recorder:
    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port = self.listener.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        self.connections = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                peer, _ = self.listener.accept()
            except OSError:
                return
            peer.settimeout(PATIENCE * 4)
            connection = Connection(peer)
            self.connections.append(connection)
            threading.Thread(target=connection.serve, daemon=True).start()

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
