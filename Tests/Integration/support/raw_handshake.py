"""First messages of TLS, byte by byte: what no library would send."""

import os
import socket

from support.paths import PATIENCE

CHANGE_CIPHER_SPEC, ALERT, HANDSHAKE, SERVER_HELLO = 20, 21, 22, 2
# RFC 8446 section 4.1.3: what makes a ServerHello a HelloRetryRequest.
RETRY = bytes.fromhex("cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c")


def counted(data, octets):
    return len(data).to_bytes(octets, "big") + data


def extension(number, content):
    return number.to_bytes(2, "big") + counted(content, 2)


def server_name(name, kind=0):
    """The content of the extension, well-formed but for what `name` is."""
    return counted(bytes([kind]) + counted(name, 2), 2)


def client_hello(names=None, has_share=True, tickets=()):
    """A ClientHello of TLS 1.3 in its record.

    `names`: the content of the extension server_name; None for no such. `tickets`: of sessions of which the client does
    not prove that it has them; a server notices that only if it can decrypt one.
    """
    extensions = b"" if names is None else extension(0, names)
    extensions += extension(43, counted(b"\x03\x04", 1))
    extensions += extension(10, counted(b"\x00\x1d", 2))
    extensions += extension(13, counted(b"\x04\x03\x08\x04", 2))
    # A client that guesses no group is asked for one.
    share = b"\x00\x1d" + counted(os.urandom(32), 2) if has_share else b""
    extensions += extension(51, counted(share, 2))
    if tickets:
        # The last extension (RFC 8446 section 4.2.11), each ticket with an age.
        offered = b"".join(counted(ticket, 2) + bytes(4) for ticket in tickets)
        binders = counted(bytes(32), 1) * len(tickets)
        extensions += extension(45, counted(b"\x01", 1)) + extension(41, counted(offered, 2) + counted(binders, 2))
    body = b"\x03\x03" + b"r" * 32 + b"\x00" + counted(b"\x13\x01", 2) + b"\x01\x00" + counted(extensions, 2)
    return b"\x16\x03\x01" + counted(bytes([1]) + counted(body, 3), 2)


class RawTLS:
    def __init__(self, gateway):
        self.socket = socket.create_connection(("127.0.0.1", gateway.port), timeout=PATIENCE)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)
        return self

    def _exactly(self, count):
        data = b""
        while len(data) < count:
            more = self.socket.recv(count - len(data))
            assert more, f"the connection ended after {data!r}"
            data += more
        return data

    def read(self):
        """- Returns: type and content of the next record that says anything (RFC 8446 appendix D.4)."""
        while True:
            head = self._exactly(5)
            content = self._exactly(int.from_bytes(head[3:], "big"))
            if head[0] != CHANGE_CIPHER_SPEC:
                return head[0], content

    def read_alert(self):
        """- Returns: the description of the fatal alert that comes next."""
        kind, content = self.read()
        assert kind == ALERT and len(content) == 2 and content[0] == 2, (kind, content)
        return content[1]

    def read_server_hello(self):
        """- Returns: whether it is a HelloRetryRequest."""
        kind, content = self.read()
        assert kind == HANDSHAKE and content[0] == SERVER_HELLO, (kind, content)
        return content[6:38] == RETRY
