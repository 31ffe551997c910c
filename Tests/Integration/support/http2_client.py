"""A client of HTTP/2 over mTLS that is in control of every frame, on top of python3-h2."""

import select
import socket

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import h2.settings
from hyperframe.frame import GoAwayFrame

from support.client import Response, tls_context
from support.denials import code_of
from support.paths import PATIENCE


class StreamReset(Exception):
    """The gateway reset a stream before its response was complete."""

    def __init__(self, code):
        super().__init__(f"RST_STREAM {h2.errors.ErrorCodes(code).name}")
        self.code = code


class ConnectionOver(Exception):
    """The gateway has ended the connection before what was waited for."""


class Stream:
    def __init__(self):
        self.response = None
        self.interim = []
        self.is_ended = False
        # END_STREAM stood on the response's HEADERS.
        self.is_ended_by_head = False
        # The code of RST_STREAM.
        self.reset = None
        # Whether the window is given back as content comes.
        self.is_read = True
        self.unread = 0


class HTTP2Client:
    """Every method that waits takes in what comes for all streams meanwhile."""

    def __init__(self, gateway, identity, context=None, session=None, server_name="localhost", protocols=("h2",),
                 settings=None, port=None, preface=True):
        plain = socket.create_connection(("127.0.0.1", port or gateway.port), timeout=PATIENCE)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        context = context or tls_context(gateway.pki, identity)
        context.set_alpn_protocols(list(protocols))
        if server_name is None:
            context.check_hostname = False
        try:
            self.socket = context.wrap_socket(plain, server_hostname=server_name, session=session)
        except BaseException:
            plain.close()
            raise
        # Ours may say what is wrong.
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(
            client_side=True, header_encoding="latin-1", validate_outbound_headers=False,
            normalize_outbound_headers=False))
        # The library takes the connection for over, where streams may well go on (RFC 9113 section 6.8).
        self.h2._frame_dispatch_table[GoAwayFrame] = self._going_away
        self.streams = {}
        # Codes and last streams of every GOAWAY.
        self.going_away = []
        self.is_over = False
        if settings:
            self.h2.local_settings.update(settings)
        if preface:
            self.h2.initiate_connection()
            self.flush()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    # Requests.

    def start(self, method="GET", path="/", fields=(), authority="localhost", end=True, pseudo=None):
        """Begins a request. - Returns: its stream.

        `pseudo`: the pseudo-header fields in place of the ordinary ones.
        """
        number = self.h2.get_next_available_stream_id()
        self.streams[number] = Stream()
        if pseudo is None:
            pseudo = [(":method", method), (":scheme", "https"), (":authority", authority), (":path", path)]
        self.h2.send_headers(number, [*pseudo, *fields], end_stream=end)
        self.flush()
        return number

    def begin(self, data, end=True):
        """Begins the request whose bytes in HTTP/1.1 these are, its content included. - Returns: its stream.

        `end`: whether nothing follows what it has of its content.
        """
        head, content = data.split(b"\r\n\r\n", 1)
        line, *lines = head.decode("latin-1").split("\r\n")
        method, path, _ = line.split(" ")
        fields, authority, is_chunked = [], None, False
        for line in lines:
            name, value = line.split(":", 1)
            name, value = name.lower(), value.strip()
            if name == "host":
                authority = value
            elif name == "transfer-encoding":
                content, is_chunked = unchunked(content), True
            elif name != "connection":
                fields.append((name, value))
        # What ends with the last chunk there ends with END_STREAM of a frame of its own.
        has_content = bool(content) or is_chunked
        number = self.start(method, path, fields, authority, end=not has_content)
        if has_content:
            self.send(number, content, end=end)
        return number

    def begin_together(self, requests):
        """Begins several in one write, so that the gateway finds them at once. - Returns: their streams."""
        written, self.send_bytes = [], lambda data: written.append(data)
        try:
            numbers = [self.begin(data) for data in requests]
        finally:
            del self.send_bytes
        self.send_bytes(b"".join(written))
        return numbers

    def exchange(self, data, method=None):
        return self.response(self.begin(data))

    def get(self, path="/", *fields, **options):
        return self.response(self.start("GET", path, fields, **options))

    def send(self, number, content=b"", end=False):
        """Sends content as the windows open; as far as the gateway wants it."""
        stream, view = self.streams[number], memoryview(content)
        while view:
            if stream.reset is not None or stream.is_ended:
                return
            room = min(self.h2.local_flow_control_window(number), self.h2.max_outbound_frame_size, len(view))
            # Below zero where the gateway's settings have taken some of it back (RFC 9113 section 6.9.2).
            if room <= 0:
                self.pump()
                continue
            self.h2.send_data(number, view[:room].tobytes())
            view = view[room:]
            self.flush()
        if end:
            self.h2.end_stream(number)
            self.flush()

    def reset(self, number, code=h2.errors.ErrorCodes.CANCEL):
        self.h2.reset_stream(number, code)
        self.flush()

    # Reading.

    def resets(self, numbers):
        return [self.streams[number].reset for number in numbers]

    def response(self, number):
        """Waits for the whole response. - Raises: StreamReset, ConnectionOver."""
        stream = self.streams[number]
        self.pump_until(lambda: stream.is_ended or stream.reset is not None)
        if not stream.is_ended:
            raise StreamReset(stream.reset)
        return stream.response

    def head(self, number):
        stream = self.streams[number]
        self.pump_until(lambda: stream.response or stream.reset is not None)
        if not stream.response:
            raise StreamReset(stream.reset)
        return stream.response

    def stop_reading(self, number):
        """Gives no window back for the content of that stream."""
        self.streams[number].is_read = False
        # Of that stream alone: the connection's window is for all.
        self.h2.increment_flow_control_window(1 << 24)
        self.flush()

    def read_on(self, number):
        stream = self.streams[number]
        stream.is_read = True
        if stream.unread:
            self.h2.acknowledge_received_data(stream.unread, number)
            stream.unread = 0
        self.flush()

    def pump_until(self, condition):
        while not condition():
            if self.is_over:
                raise ConnectionOver(f"the connection is over; GOAWAY: {self.going_away}")
            self.pump()

    def ping(self):
        """Waits for everything the gateway had to say to what was sent so far."""
        self.is_pinged = False
        self.h2.ping(b"12345678")
        self.flush()
        self.pump_until(lambda: self.is_pinged)

    def wait_for_end(self):
        """Until the gateway has closed."""
        while not self.is_over:
            self.pump()

    def flush(self):
        data = self.h2.data_to_send()
        if data:
            self.send_bytes(data)

    def send_bytes(self, data):
        try:
            self.socket.sendall(data)
        except OSError:
            # What the gateway had to say before may still be read.
            pass

    def pump_for(self, seconds):
        """- Returns: whether anything came within that time."""
        if not self.socket.pending() and not select.select([self.socket], [], [], seconds)[0]:
            return False
        self.pump()
        return True

    def pump(self):
        """Takes in what comes next."""
        try:
            data = self.socket.recv(65536)
        except socket.timeout:
            raise AssertionError("the gateway says nothing more") from None
        except OSError:
            data = b""
        if not data:
            self.is_over = True
            return
        try:
            events = self.h2.receive_data(data)
        except h2.exceptions.ProtocolError as error:
            raise AssertionError(f"the gateway broke the protocol: {error!r}") from error
        for event in events:
            self._take(event)
        self.flush()

    def _going_away(self, frame):
        self.going_away.append((h2.errors.ErrorCodes(frame.error_code), frame.last_stream_id))
        return [], []

    def _take(self, event):
        if isinstance(event, h2.events.PingAckReceived):
            self.is_pinged = True
        stream = self.streams.get(getattr(event, "stream_id", None))
        if stream is None:
            return
        if isinstance(event, h2.events.InformationalResponseReceived):
            stream.interim.append(int(dict(event.headers)[":status"]))
        elif isinstance(event, h2.events.ResponseReceived):
            fields = list(event.headers)
            assert fields[0][0] == ":status"
            stream.response = Response(int(fields[0][1]), fields[1:])
            stream.is_ended_by_head = event.stream_ended is not None
        elif isinstance(event, h2.events.TrailersReceived):
            stream.response.trailers = list(event.headers)
        elif isinstance(event, h2.events.DataReceived):
            stream.response.content += event.data
            if stream.is_read:
                if event.flow_controlled_length:
                    self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            else:
                stream.unread += event.flow_controlled_length
        elif isinstance(event, h2.events.StreamEnded):
            stream.is_ended = True
        elif isinstance(event, h2.events.StreamReset):
            stream.reset = event.error_code


def unchunked(content):
    whole = b""
    while content:
        size, content = content.split(b"\r\n", 1)
        size = int(size, 16)
        whole, content = whole + content[:size], content[size + 2:]
    return whole


def send(attested, requests, phone=None):
    """All at once on one connection, in this order. - Returns: for each, why it was refused; None where it passed."""
    with HTTP2Client(attested.gateway, (phone or attested.phone).identity) as http2:
        responses = [http2.response(number) for number in [http2.begin(data) for data in requests]]
    return [code_of(response) for response in responses]
