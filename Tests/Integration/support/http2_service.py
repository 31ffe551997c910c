"""A health service that speaks HTTP/2 frame by frame, as a test tells it: well, badly, or not at all."""

import socket
import ssl
import struct
import threading

import hpack

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, END_HEADERS, PADDED, ACK = 0x1, 0x4, 0x8, 0x1
NO_ERROR, PROTOCOL_ERROR, INTERNAL_ERROR, REFUSED_STREAM, CANCEL = 0, 1, 2, 7, 8
MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE = 3, 4

OK = [(":status", "200"), ("content-type", "text/plain")]


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def settings(**values):
    numbers = {"streams": MAX_CONCURRENT_STREAMS, "window": INITIAL_WINDOW_SIZE}
    return frame(SETTINGS, 0, 0, b"".join(struct.pack(">HI", numbers[name], value) for name, value in values.items()))


class Gone(Exception):
    """The gateway has closed the connection."""


class Request:
    def __init__(self, stream):
        self.stream, self.fields, self.content, self.is_complete, self.reset = stream, [], b"", False, None

    def value(self, name):
        return next((value for key, value in self.fields if key == name), None)

    @property
    def path(self):
        return self.value(":path")


class Connection:
    """One connection of the gateway. Reads on by itself only where a method says so."""

    def __init__(self, service, peer):
        self.service, self.socket = service, peer
        self.buffer, self.requests, self.order = b"", {}, []
        self.encoder, self.decoder = hpack.Encoder(), hpack.Decoder()
        # Codes of GOAWAY that came.
        self.going_away = []
        # Whether windows are given back.
        self.takes = True
        self.has_preface = False
        self.handed_out = 0
        # What the gateway takes of content, by stream; 0 is the connection.
        self.initial_window, self.window = 65_535, {0: 65_535}

    # What it says.

    def send(self, data):
        try:
            self.socket.sendall(data)
        except (OSError, ssl.SSLError):
            raise Gone from None

    def headers(self, stream, fields=OK, end=False):
        self.send(frame(HEADERS, END_HEADERS | (END_STREAM if end else 0), stream, self.encoder.encode(fields)))

    def data(self, stream, content=b"", end=False):
        self.send(frame(DATA, END_STREAM if end else 0, stream, content))

    def reset(self, stream, code):
        self.send(frame(RST_STREAM, 0, stream, struct.pack(">I", code)))

    def go_away(self, last, code=NO_ERROR):
        self.send(frame(GOAWAY, 0, 0, struct.pack(">II", last, code)))

    def answer(self, request, content=b"ok", trailers=None):
        self.headers(request.stream)
        self.data(request.stream, content, end=trailers is None)
        if trailers is not None:
            self.headers(request.stream, trailers, end=True)

    def room(self, stream):
        """Octets of content that it may send there."""
        return min(self.window[0], self.window.setdefault(stream, self.initial_window))

    def spend(self, stream, count):
        self.window[0] -= count
        self.window[stream] -= count

    def break_off(self):
        """A reset of TCP, not an end."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    # What it hears.

    def _exactly(self, count):
        while len(self.buffer) < count:
            try:
                data = self.socket.recv(65536)
            except (OSError, ssl.SSLError):
                data = b""
            if not data:
                raise Gone
            self.buffer += data
        data, self.buffer = self.buffer[:count], self.buffer[count:]
        return data

    def greet(self, **values):
        assert self._exactly(len(PREFACE)) == PREFACE
        self.has_preface = True
        self.send(settings(**values))

    def take_frame(self):
        head = self._exactly(9)
        length, kind, flags = int.from_bytes(head[:3], "big"), head[3], head[4]
        stream = int.from_bytes(head[5:], "big")
        payload = self._exactly(length)
        if kind == SETTINGS and not flags & ACK:
            for number, value in struct.iter_unpack(">HI", payload):
                if number == INITIAL_WINDOW_SIZE:
                    self.initial_window = value
            self.send(frame(SETTINGS, ACK, 0))
        elif kind == PING and not flags & ACK:
            self.send(frame(PING, ACK, 0, payload))
        elif kind == WINDOW_UPDATE:
            self.window[stream] = self.window.get(stream, self.initial_window) + int.from_bytes(payload, "big")
        elif kind == GOAWAY:
            self.going_away.append(int.from_bytes(payload[4:8], "big"))
        elif kind in (HEADERS, CONTINUATION):
            assert flags & END_HEADERS, "the gateway needs no CONTINUATION for what it forwards here"
            request = self.requests[stream] = Request(stream)
            request.fields = [(name, value) for name, value in self.decoder.decode(payload)]
            request.is_complete = bool(flags & END_STREAM)
            self.order.append(request)
            self.service.heard(request)
        elif kind == DATA:
            request = self.requests[stream]
            request.content += payload
            request.is_complete |= bool(flags & END_STREAM)
            if payload and self.takes:
                window = struct.pack(">I", len(payload))
                self.send(frame(WINDOW_UPDATE, 0, 0, window))
                if not request.is_complete:
                    self.send(frame(WINDOW_UPDATE, 0, stream, window))
        elif kind == RST_STREAM:
            self.requests[stream].reset = int.from_bytes(payload, "big")
            self.service.was_reset(self.requests[stream])
        return kind

    def next_request(self, complete=True):
        """The next one that was not returned yet."""
        while len(self.order) <= self.handed_out or complete and not (
                self.order[self.handed_out].is_complete or self.order[self.handed_out].reset is not None):
            self.take_frame()
        self.handed_out += 1
        return self.order[self.handed_out - 1]

    def listen(self):
        """Until the gateway has gone."""
        try:
            while True:
                self.take_frame()
        except Gone:
            pass


def serve_well(connection):
    connection.greet()
    while True:
        connection.answer(connection.next_request())


class HTTP2Service:
    """`script`: what becomes of each connection, a function of it; `requests`: all that came, on all of them."""

    def __init__(self, script=serve_well, tls=None, port=0):
        self.script, self.tls = script, tls
        self.requests, self.resets, self.connections, self.faults = [], [], [], []
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", port))
        self.port = self.listener.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def heard(self, request):
        with self.lock:
            self.requests.append(request)

    def was_reset(self, request):
        with self.lock:
            self.resets.append(request)

    def paths(self):
        with self.lock:
            return [request.path for request in self.requests]

    def _accept(self):
        while True:
            try:
                peer, _ = self.listener.accept()
            except OSError:
                return
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._serve, args=[peer], daemon=True).start()

    def _serve(self, peer):
        if self.tls:
            try:
                peer = self.tls.wrap_socket(peer, server_side=True)
            except (OSError, ssl.SSLError):
                return peer.close()
        connection = Connection(self, peer)
        with self.lock:
            self.connections.append(connection)
        try:
            self.script(connection)
        except Gone:
            pass
        except Exception as fault:  # reported at the end of the test
            self.faults.append(fault)
        finally:
            peer.close()

    def close(self):
        # close() alone leaves threads in accept() and recv(): they hold the sockets, or take those that get their numbers.
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for connection in self.connections:
            try:
                connection.socket.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        assert self.faults == [], self.faults
