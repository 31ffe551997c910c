"""Clients that make a gateway hold memory, each of them a context manager that holds on until it is left."""

import select
import socket
import ssl
from contextlib import contextmanager

from support import http2_frames as frames
from support.client import Client, get, tls_context
from support.paths import PATIENCE

KIB = 1024
MIB = KIB * KIB

# SETTINGS_INITIAL_WINDOW_SIZE: no content of a response may be sent.
NO_WINDOW = frames.PREFACE + frames.settings((0x4, 0))
# What a client keeps in the gateway's table of fields, and names by one byte.
FILLER = b"\x40" + frames.string(b"x-filler") + frames.string(bytes(b"a" * 3900))
REFERENCE = b"\xbe"


def denied_requests(count, path=b"/nowhere"):
    """Requests for a path without a route, each with a head of 15 KiB; together they are 11 KB for 100."""
    def head(number):
        pseudo = b"\x82\x87\x04" + frames.string(path) + b"\x01\x09localhost"
        # The first brings the field, the others only name it.
        return pseudo + (FILLER if number == 0 else REFERENCE) + 2 * REFERENCE

    return b"".join(frames.headers(2 * number + 1, head(number)) for number in range(count))


def h2_socket(gateway, context, server_name="localhost"):
    plain = socket.create_connection(("127.0.0.1", gateway.port), timeout=PATIENCE)
    try:
        return context.wrap_socket(plain, server_hostname=server_name)
    except BaseException:
        plain.close()
        raise


def h2_context(pki, identity):
    context = tls_context(pki, identity)
    context.set_alpn_protocols(["h2"])
    return context


@contextmanager
def holding():
    """Sockets that are open within the block."""
    sockets = []
    try:
        yield sockets
    finally:
        for each in sockets:
            each.close()


def unread_denials(gateway, pki, identity, sockets, connections, streams=100):
    """The window attack: denials that wait for a window which never opens."""
    context = h2_context(pki, identity)
    for _ in range(connections):
        try:
            made = h2_socket(gateway, context)
            sockets.append(made)
            made.sendall(NO_WINDOW + denied_requests(streams))
        except OSError:
            # A gateway that defends itself closes.
            continue


def unread_answers(gateway, pki, identity, sockets, connections, path="/big", receive_buffer=8 * KIB):
    """Clients of HTTP/1.1 that read nothing of a large answer."""
    context = tls_context(pki, identity)
    for _ in range(connections):
        try:
            client = Client(gateway, identity, context, receive_buffer=receive_buffer)
            sockets.append(client)
            client.send(get(path))
        except OSError:
            continue


def silent(gateway, pki, identity, sockets, connections):
    """Clients that complete a handshake and say nothing."""
    context = tls_context(pki, identity)
    for _ in range(connections):
        try:
            sockets.append(h2_socket(gateway, context))
        except OSError:
            continue


def is_closed(connection, patience=0):
    """Whether the other side has ended the connection; what it had to say before is read over."""
    connection.setblocking(False)
    while connection.pending() or select.select([connection], [], [], patience)[0]:
        try:
            if not connection.recv(65536):
                return True
        except ssl.SSLWantReadError:
            # A message of TLS alone.
            continue
        except OSError:
            return True
    return False
