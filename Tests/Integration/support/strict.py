"""A strict reader of HTTP/1.1 requests, written apart from the gateway's: it admits only what the gateway is to forward.

Anything that two readers could take for two different things is `NotCanonical`.
"""

import re
from dataclasses import dataclass, field

REQUEST_LINE = re.compile(rb"(GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS) (/[!-~]*) HTTP/1\.1\Z")
FIELD_LINE = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+): ((?:[\x21-\x7e\x80-\xff](?:[\t\x20-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?)?)\Z")
# What servers behind do not take for anything else.
NAME = re.compile(rb"[\-0-9A-Za-z]+\Z")
CHUNK_LINE = re.compile(rb"[0-9a-f]{1,8}\Z")
# W3C Trace Context section 3.2, version 00.
TRACEPARENT = re.compile(rb"traceparent: 00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-0[0-3]\Z")
# How the gateway asks a service for a WebSocket, where that is expected.
UPGRADE = [("Connection", "Upgrade"), ("Upgrade", "websocket")]
HOP_BY_HOP = {b"connection", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"upgrade", b"expect"}


class NotCanonical(Exception):
    """The bytes are no request that the gateway may have written."""


class Incomplete(Exception):
    """More bytes could make it a request."""


@dataclass
class Request:
    method: str
    target: str
    fields: list = field(default_factory=list)
    content: bytes = b""
    head: bytes = b""
    # The same without the traceparent line, which is another one each time.
    untraced: bytes = b""

    def values(self, name):
        return [value for key, value in self.fields if key.lower() == name.lower()]


def parse_head(data, upgrades=False, unusual=(), forwarded=1):
    """`unusual`: names, in lower case, that may have other characters. `forwarded`: how often Forwarded stands. - Returns: the request without its content, and where the
    content starts.
    """
    end = data.find(b"\r\n\r\n")
    if end < 0:
        raise Incomplete
    head = bytes(data[:end + 4])
    lines = head[:-4].split(b"\r\n")
    match = REQUEST_LINE.match(lines[0])
    if not match or b"#" in match[2]:
        raise NotCanonical(f"request line {lines[0]!r}")
    request = Request(match[1].decode(), match[2].decode(), head=head)
    for line in lines[1:]:
        match = FIELD_LINE.match(line)
        if not match or not NAME.match(match[1]) and match[1].decode().lower() not in unusual:
            raise NotCanonical(f"field line {line!r}")
        request.fields.append((match[1].decode(), match[2].decode("latin-1")))
    if not request.fields or request.fields[0][0] != "Host" or len(request.values("host")) != 1:
        raise NotCanonical("Host does not stand first, once")
    if len(request.values("forwarded")) != forwarded:
        raise NotCanonical(f"Forwarded does not stand {forwarded} times")
    traces = [line for line in lines[1:] if line.lower().startswith(b"traceparent:")]
    if len(traces) != 1 or not TRACEPARENT.match(traces[0]):
        raise NotCanonical(f"traceparent {traces}")
    request.untraced = head.replace(traces[0] + b"\r\n", b"")
    of_connection = [(name, value) for name, value in request.fields if name.lower().encode() in HOP_BY_HOP]
    if of_connection and not (upgrades and of_connection == UPGRADE and request.values("sec-websocket-key")):
        raise NotCanonical(f"{of_connection} concern one connection only")
    return request, len(head)


def parse_request(data, upgrades=False, unusual=(), forwarded=1):
    """- Returns: the first request of the bytes, and how long it is."""
    request, position = parse_head(data, upgrades, unusual, forwarded)
    lengths, codings = request.values("content-length"), request.values("transfer-encoding")
    if len(lengths) + len(codings) > 1:
        raise NotCanonical("framed twice")
    if codings:
        if codings != ["chunked"]:
            raise NotCanonical(f"transfer coding {codings}")
        request.content, position = parse_chunks(data, position)
    elif lengths:
        if not re.fullmatch(r"0|[1-9][0-9]*", lengths[0]):
            raise NotCanonical(f"Content-Length {lengths[0]!r}")
        end = position + int(lengths[0])
        if len(data) < end:
            raise Incomplete
        request.content, position = bytes(data[position:end]), end
    return request, position


def parse_chunks(data, position):
    content = []
    while True:
        end = data.find(b"\r\n", position)
        if end < 0:
            raise Incomplete
        line = bytes(data[position:end])
        if not CHUNK_LINE.match(line):
            raise NotCanonical(f"chunk size {line!r}")
        size, position = int(line, 16), end + 2
        if len(data) < position + size + 2:
            raise Incomplete
        if data[position + size:position + size + 2] != b"\r\n":
            # After the last chunk this also refuses a trailer section: the gateway forwards none.
            raise NotCanonical("a chunk does not end where it says")
        content.append(bytes(data[position:position + size]))
        position += size + 2
        if size == 0:
            return b"".join(content), position


def parse_part(data, position):
    """- Returns: the content of chunks that have no end."""
    content = b""
    while position < len(data):
        end = data.find(b"\r\n", position)
        if end < 0:
            return content
        size, position = int(data[position:end], 16), end + 2
        if size == 0:
            raise NotCanonical("the chunks have an end")
        content += bytes(data[position:position + size])
        position += size + 2
    return content


def parse_all(data):
    """- Returns: all complete requests of a connection, and the beginning of another."""
    requests, position = [], 0
    while position < len(data):
        try:
            request, length = parse_request(data[position:])
        except Incomplete:
            break
        requests.append(request)
        position += length
    return requests, data[position:]
