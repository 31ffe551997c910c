"""The first message of a TLS client, octet by octet, and what a server makes of it: for clients that no library is."""

import os
import socket
import struct

from support.paths import PATIENCE


def vector(width, content):
    return len(content).to_bytes(width) + content


def extension(number, content):
    return struct.pack("!H", number) + vector(2, content)


def client_hello(suites, compressions=(0,), groups=(29, 23), signatures=(0x0403, 0x0804, 0x0401), tls13=False):
    """Of TLS 1.2 (RFC 5246 section 7.4.1.2), or 1.3 without a key share: the server asks for one."""
    extensions = [
        extension(10, vector(2, b"".join(struct.pack("!H", group) for group in groups))),
        extension(11, vector(1, b"\0")),
        extension(13, vector(2, b"".join(struct.pack("!H", scheme) for scheme in signatures))),
    ]
    if tls13:
        extensions += [extension(43, vector(1, b"\x03\x04")), extension(51, vector(2, b""))]
    body = b"\x03\x03" + os.urandom(32) + vector(1, b"")
    body += vector(2, b"".join(struct.pack("!H", suite) for suite in suites)) + vector(1, bytes(compressions))
    body += vector(2, b"".join(extensions))
    return b"\x16\x03\x01" + vector(2, b"\x01" + vector(3, body))


class ServerHello:
    def __init__(self, body):
        self.suite, self.compression = struct.unpack_from("!HB", body, 2 + 32 + 1 + body[34])


def answer(gateway, hello):
    """- Returns: the number of the alert, or the ServerHello."""
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=PATIENCE) as plain:
        plain.sendall(hello)
        stream = plain.makefile("rb")
        kind, _, length = struct.unpack("!BHH", stream.read(5))
        content = stream.read(length)
        if kind == 21:
            return content[1]
        assert (kind, content[0]) == (22, 2), f"no ServerHello: {content!r}"
        return ServerHello(content[4:])
