"""A client that sends exact bytes over TLS, and reads responses strictly."""

import contextlib
import fcntl
import re
import select
import socket
import ssl
import struct
import termios
from dataclasses import dataclass, field

from support.paths import PATIENCE
from support.waiting import eventually

STATUS_LINE = re.compile(rb"HTTP/1\.1 ([1-5][0-9][0-9]) [\t\x20-\x7e]*\Z")
FIELD_LINE = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+): ?([\t\x20-\x7e\x80-\xff]*)\Z")


class IncompleteResponse(Exception):
    """The connection ended before the response was complete, as a client can tell."""


@dataclass
class Response:
    status: int
    fields: list = field(default_factory=list)
    content: bytes = b""
    # Of HTTP/2.
    trailers: list = field(default_factory=list)

    def values(self, name):
        return [value for key, value in self.fields if key.lower() == name.lower()]

    def value(self, name):
        values = self.values(name)
        assert len(values) == 1, f"{name} stands {len(values)} times in {self.fields}"
        return values[0]


def context_trusting(authority):
    """A context by which an end without close_notify is an error (RFC 8446 section 6.1); Python's own take it for one in order."""
    context = ssl.create_default_context(cafile=str(authority))
    context.options &= ~ssl.OP_IGNORE_UNEXPECTED_EOF
    return context


def tls_context(pki, identity, weak=False, maximum=None):
    context = context_trusting(pki.server_ca)
    if maximum:
        context.maximum_version = maximum
    if weak:
        # Lets our own side present what the gateway is to refuse.
        context.set_ciphers("DEFAULT@SECLEVEL=0")
    if identity:
        context.load_cert_chain(identity.certificate, identity.key)
    return context


def forget_openssl_errors():
    """With OpenSSL 3.5, Python leaves some in the thread's queue, where the next connection would find them."""
    with contextlib.suppress(ssl.SSLError):
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).set_ciphers("none")


class Client:
    def __init__(
        self, gateway, identity, context=None, session=None, receive_buffer=None, source=None, server_name="localhost",
    ):
        """`server_name`: which host the handshake asks for; None for none, so that requests may name any."""
        plain = socket.socket()
        plain.settimeout(PATIENCE)
        if receive_buffer:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        if source:
            plain.bind((source, 0))
        plain.connect(("127.0.0.1", gateway.port))
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        context = context or tls_context(gateway.pki, identity)
        if server_name is None:
            context.check_hostname = False
        try:
            self.prepare(plain)
            self.socket = context.wrap_socket(
                plain, server_hostname=server_name, suppress_ragged_eofs=False, session=session)
        except BaseException:
            plain.close()
            raise
        self.buffer = b""

    def prepare(self, plain):
        """What is done with the connection before TLS begins."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def leave(self):
        """Ends in order. OpenSSL, on our side, takes a session for unusable if its connection ends otherwise."""
        self.socket.unwrap()
        self.close()

    def send(self, data):
        self.socket.sendall(data)
        return self

    def send_bytewise(self, data):
        """Each byte in a TLS record and a segment of its own."""
        for index in range(len(data)):
            self.socket.sendall(data[index:index + 1])
        return self

    def wait_until_delivered(self):
        """What was sent lies at the gateway's end: its kernel has acknowledged all of it."""
        def pending():
            return struct.unpack("i", fcntl.ioctl(self.socket.fileno(), termios.TIOCOUTQ, bytes(4)))[0]

        eventually(lambda: pending() == 0, lambda: f"the last {pending()} octets to be acknowledged")
        return self

    def send_while_open(self, data, bytewise=False):
        """Sends what the gateway still takes: it may refuse before the last byte."""
        try:
            self.send_bytewise(data) if bytewise else self.send(data)
        except OSError:
            pass
        return self

    def pump(self, blocks, stop=lambda: False):
        """Sends the blocks as long as the gateway takes them, and until it has something to say or `stop()` is true.

        - Returns: how many octets it took. One thread does it all, for a TLS connection belongs to one.
        """
        sent = 0
        self.socket.setblocking(False)
        try:
            for block in blocks:
                view = memoryview(block)
                while view:
                    if stop() or self._has_answer():
                        return sent
                    try:
                        count = self.socket.send(view)
                        sent, view = sent + count, view[count:]
                    except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
                        select.select([self.socket], [self.socket], [], 0.02)
        except OSError:
            pass
        finally:
            self.socket.settimeout(PATIENCE)
        return sent

    def _has_answer(self):
        """Takes in what has come without waiting; a message of TLS alone is no answer."""
        try:
            data = self.socket.recv(65536)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return False
        self.buffer += data
        return True

    # Reading.

    def _more(self):
        try:
            data = self.socket.recv(65536)
        except (ssl.SSLEOFError, ConnectionResetError, BrokenPipeError) as error:
            forget_openssl_errors()
            raise IncompleteResponse(f"cut off ({error}) after {self.buffer[:300]!r}") from None
        except ssl.SSLError as error:
            if error.reason != "UNEXPECTED_EOF_WHILE_READING":
                raise
            raise IncompleteResponse(f"cut off after {self.buffer[:300]!r}") from None
        if not data:
            raise IncompleteResponse(f"closed after {self.buffer[:300]!r}")
        self.buffer += data

    def _line(self):
        while b"\r\n" not in self.buffer:
            self._more()
        line, self.buffer = self.buffer.split(b"\r\n", 1)
        return line

    def _exactly(self, count):
        parts, left = [], count
        while True:
            parts.append(self.buffer[:left])
            left -= len(parts[-1])
            self.buffer = self.buffer[len(parts[-1]):]
            if left == 0:
                return b"".join(parts)
            self._more()

    def read_head(self):
        line = self._line()
        match = STATUS_LINE.match(line)
        assert match, f"no status line: {line!r}"
        response = Response(int(match[1]))
        while line := self._line():
            match = FIELD_LINE.match(line)
            assert match, f"no field line: {line!r}"
            response.fields.append((match[1].decode(), match[2].decode("latin-1").strip()))
        return response

    def read_response(self, method="GET"):
        response = self.read_head()
        lengths, codings = response.values("content-length"), response.values("transfer-encoding")
        if method == "HEAD" or response.status in (204, 304) or response.status < 200:
            return response
        assert len(lengths) + len(codings) <= 1, f"framed twice: {response.fields}"
        if codings:
            assert codings == ["chunked"]
            while size := int(self._line(), 16):
                response.content += self._exactly(size)
                assert self._line() == b""
            assert self._line() == b"", "a trailer section"
        elif lengths:
            response.content = self._exactly(int(lengths[0]))
        else:
            response.content = self.read_to_end()
        return response

    def read_to_end(self):
        """- Returns: what still came before the gateway closed well (close_notify). - Raises: if it cut off."""
        try:
            while True:
                self._more()
        except IncompleteResponse as end:
            if not str(end).startswith("closed"):
                raise
        data, self.buffer = self.buffer, b""
        return data

    def assert_closed(self):
        rest = self.read_to_end()
        assert rest == b"", f"more came before the end: {rest[:300]!r}"

    def exchange(self, data, method=None):
        method = method or data.split(b" ", 1)[0].decode()
        return self.send(data).read_response(method)


def get(path="/", *fields, host="localhost", method="GET"):
    """The bytes of an ordinary request."""
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", *fields, "", ""]
    return "\r\n".join(lines).encode("latin-1")


def post(path="/", content=b"", *fields):
    return get(path, f"Content-Length: {len(content)}", *fields, method="POST") + content


def session_of(client, path="/"):
    """The session of a TLS 1.3 connection arrives with the first data. The connection ends in order."""
    assert client.exchange(get(path)).status == 200
    session = client.socket.session
    client.leave()
    return session


def ended(client):
    """Waits for the gateway to say something, or to end the connection, in order or not."""
    try:
        return client.socket.recv(1) == b""
    except (ssl.SSLError, ConnectionResetError):
        return True
