"""PROXY headers as proxies send them, written from HAProxy's proxy-protocol.txt and not from the code; and connections that
begin with one."""

import ipaddress
import socket
import struct

from support.client import Client, get
from support.paths import PATIENCE

SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
HERE = "192.0.2.1"


def line(source, port=56324):
    """Version 1."""
    version = ipaddress.ip_address(source).version
    here = HERE if version == 4 else "2001:db8::1"
    return f"PROXY TCP{version} {source} {here} {port} 443\r\n".encode()


def binary(source=None, port=56324, values=b"", command=1):
    """Version 2; without an address, of nobody."""
    if source is None:
        family, rest = 0, b""
    else:
        address = ipaddress.ip_address(source)
        here = ipaddress.ip_address(HERE if address.version == 4 else "2001:db8::1")
        family = 0x11 if address.version == 4 else 0x21
        rest = address.packed + here.packed + struct.pack(">HH", port, 443)
    rest += values
    return SIGNATURE + struct.pack(">BBH", 0x20 | command, family, len(rest)) + rest


LOCAL = binary(command=0)


def value(kind, data):
    return struct.pack(">BH", kind, len(data)) + data


def checked(source):
    """Version 2 with a checksum: CRC-32C (RFC 4960 appendix B) of the header in which it is zero."""
    header = binary(source, values=value(3, bytes(4)))
    return header[:-4] + struct.pack(">I", crc32c(header))


def crc32c(data):
    remainder = 0xFFFFFFFF
    for octet in data:
        remainder ^= octet
        for _ in range(8):
            remainder = remainder >> 1 ^ (0x82F63B78 if remainder & 1 else 0)
    return remainder ^ 0xFFFFFFFF


class Proxied(Client):
    """A client behind a proxy: these bytes come before TLS begins."""

    def __init__(self, gateway, identity, header, bytewise=False, **options):
        self.header, self.bytewise = header, bytewise
        super().__init__(gateway, identity, **options)

    def prepare(self, plain):
        for part in [self.header] if not self.bytewise else [self.header[at:at + 1] for at in range(len(self.header))]:
            plain.sendall(part)


def ask(gateway, identity, header, path="/", **options):
    """One request on a connection of its own. - Returns: its status; None if there was no connection to send it on."""
    try:
        with Proxied(gateway, identity, header, **options) as client:
            return client.exchange(get(path)).status
    except OSError:
        return None


def raw(gateway, data, source=None):
    """Bytes without TLS."""
    plain = socket.create_connection(("127.0.0.1", gateway.port), PATIENCE, (source, 0) if source else None)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    plain.sendall(data)
    return plain


def read_to_end(plain):
    """- Returns: what came until the connection ended, however it did."""
    received = b""
    with plain:
        try:
            while data := plain.recv(65536):
                received += data
        except ConnectionResetError:
            pass
    return received
