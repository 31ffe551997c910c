"""What a client's bytes ask for, read by the rules of docs/http.md: a second reading, written apart from the gateway's.

The gateway must forward exactly what is found here. Where the two differ, one of them is wrong.
"""

import re
from dataclasses import dataclass, field
from urllib.parse import unquote_to_bytes

# Of the gateway that is compared, and of its one route.
HOST = b"localhost"
HEAD_LIMIT, TARGET_LIMIT, FIELD_LIMIT, TRAILER_LIMIT, CONTENT_LIMIT = 16 * 1024, 8 * 1024, 100, 4 * 1024, 64 * 1024
# How much of a denied request is read over.
REST_LIMIT = 256 * 1024

METHODS = {b"GET", b"HEAD", b"POST", b"PUT", b"PATCH", b"DELETE", b"OPTIONS"}
TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
# RFC 9112 section 3, with one space each.
REQUEST_LINE = re.compile(rb"(" + TOKEN + rb") ([\x21-\x7e]+) HTTP/1\.([01])\Z")
# RFC 9112 section 5. Names without what servers behind may take for a hyphen.
FIELD_LINE = re.compile(rb"([\-0-9A-Za-z]+):[ \t]*([\t\x20-\x7e\x80-\xff]*?)[ \t]*\Z")
CHUNK_LINE = re.compile(rb"[0-9A-Fa-f]{1,15}\Z")
# RFC 9112 section 6.3.
LENGTH = re.compile(rb"(?:0|[1-9][0-9]{0,17})\Z")
# RFC 9110 section 4.2.2 and RFC 3986 section 3.2.2: host, and a port that is written in one way.
AUTHORITY = re.compile(
    rb"((?:[0-9A-Za-z\-]+(?:\.[0-9A-Za-z\-]+)*|\[[0-9A-Fa-f:.]{2,}\]))(?::([1-9][0-9]{0,4}))?\Z")
# RFC 3986 section 3.3 without `;` (and `%3B`, below), and section 3.4.
PATH = re.compile(rb"/(?:[A-Za-z0-9\-._~!$&'()*+,=:@/]|%[0-9A-F]{2})*\Z")
QUERY = re.compile(rb"(?:[A-Za-z0-9\-._~!$&'()*+,=:@/?;]|%[0-9A-Fa-f]{2})+\Z")
# Percent-encoded though it needs not, or though it means something else when it is decoded.
MISSPELLED = re.compile(rb"%(?:2[DEF5]|5[CF]|7[EF]|3[0-9B]|4[1-9A-F]|5[0-9A]|6[1-9A-F]|7[0-9A]|[01][0-9A-F])")
OF_ONE_CONNECTION = {
    b"connection", b"keep-alive", b"proxy-connection", b"proxy-authenticate", b"proxy-authorization", b"te", b"trailer",
    b"upgrade", b"http2-settings", b"transfer-encoding"}
OPTION = re.compile(rb"(?:" + TOKEN + rb")(?:[ \t]*,[ \t]*(?:" + TOKEN + rb"))*\Z")
OVERRIDES = {
    b"x-http-method-override", b"x-http-method", b"x-method-override", b"x-original-url", b"x-rewrite-url",
    b"x-original-method", b"x-original-uri", b"x-original-path", b"x-http-path-override", b"x-override-url"}
SINGLE = {
    b"content-type", b"authorization", b"date", b"if-match", b"if-modified-since", b"if-none-match", b"if-range",
    b"if-unmodified-since", b"origin", b"range", b"referer", b"user-agent"}
# A tab beside these is taken for a part of the value by some.
TABBED = re.compile(rb"(?i)(?:host|content-length|transfer-encoding):(?:[ ]*\t|.*\t[ \t]*\Z)")
# What only a proxy may say, and what the gateway answers or writes itself.
REMOVED = re.compile(
    rb"(?:content-length|expect|host|forwarded|proxy|front-end-https|(?:true-|fly-|incap-|x-|x-cluster-|proxy-|)client-ip"
    rb"|do-connecting-ip|ali-cdn-real-ip|x-(?:forwarded|real-ip|host|http-host-override|scheme|url-scheme|originating-ip"
    rb"|proxyuser-ip|nf-client-connection-ip|sucuri-clientip|client-verify|client-dn|anonymous-consumer|device-token)"
    rb"|(?:client-cert|attest-|ssl-client-|wl-proxy-|cf-|cloudfront-|fastly-|remote-|impersonate-|oidc-|shib-|sm-|iv-|tailscale-"
    rb"|zeta-|x-(?:forwarded-|original-|envoy-|akamai-|appengine-|azure-|vercel-|ssl-|client-cert|arr-|amzn-mtls-|spiffe-|remote-"
    rb"|auth-request-|webauth-|consumer-|credential-|authenticated-|authentik-|pomerium-|amzn-oidc-|ms-client-principal|ms-token-"
    rb"|goog-authenticated-user-|goog-iap-)).*)\Z", re.IGNORECASE)


class Refused(Exception):
    """No request, or one that could be taken for two different ones; nothing behind it can be read. The message says why."""


class Unfinished(Exception):
    """More bytes could make it a request."""


@dataclass
class Intended:
    """A request that is to reach the service."""

    method: str
    target: str
    fields: list
    content: bytes = b""


@dataclass
class Reading:
    requests: list = field(default_factory=list)
    # The methods and statuses of what is answered, in order; None for whichever status a refusal has.
    answers: list = field(default_factory=list)
    # "open", "closed" in order, "refused", or "unfinished".
    end: str = "open"
    why: str = ""
    # A request whose head may be forwarded, and whose content never comes to its end.
    broken: Intended | None = None


def read(data):
    """All that the bytes of one connection ask for."""
    reading, position = Reading(), 0
    while reading.end == "open" and position < len(data):
        try:
            position = _read_one(data, position, reading)
        except Unfinished:
            reading.end = "unfinished"
        except Refused as why:
            reading.end, reading.why = "refused", str(why)
            # A HEAD request that is recognised as one has no content in its denial either.
            reading.answers.append(("HEAD" if data.startswith(b"HEAD ", position) else "", None))
    return reading


def _read_one(data, start, reading):
    head = _Head(data, start)
    status = head.denial()
    if status is None:
        request = head.request()
        reading.broken = request
        request.content, position = head.content(data, head.end)
        reading.broken = None
        reading.requests.append(request)
    reading.answers.append((head.method.decode(), status or 200))
    if status is not None:
        # What is left of it must not be taken for a request: read over if it is known to be little and to come.
        if head.is_chunked or head.length > REST_LIMIT or head.awaits and head.length:
            reading.end = "closed"
            return len(data)
        _, position = head.content(data, head.end)
    if not head.persists:
        reading.end = "closed"
    return position


def _fields(lines):
    fields = []
    for line in lines:
        match = FIELD_LINE.match(line)
        if not match:
            raise Refused(f"field line {line!r}")
        fields.append((match[1], match[2]))
    return fields


class _Head:
    def __init__(self, data, start):
        end = data.find(b"\r\n\r\n", start)
        if end < 0:
            if len(data) - start >= HEAD_LIMIT:
                raise Refused("a head without an end")
            raise Unfinished
        self.end = end + 4
        lines = data[start:end].split(b"\r\n")
        self._take_request_line(lines[0])
        self.fields = _fields(lines[1:])
        if any(TABBED.match(line) for line in lines[1:]):
            raise Refused("a tab")
        if self.end - start > HEAD_LIMIT or len(self.fields) > FIELD_LIMIT:
            raise Refused("size")
        self._take_host()
        self._take_framing()
        self._take_connection()
        for name in SINGLE:
            if len(self.values(name)) > 1:
                raise Refused("stands there twice")

    def values(self, name):
        return [value for key, value in self.fields if key.lower() == name]

    def _take_request_line(self, line):
        match = REQUEST_LINE.match(line)
        if not match or len(match[1]) > 20:
            raise Refused(f"request line {line[:100]!r}")
        self.method, target, self.is_1_0 = match[1], match[2], match[3] == b"0"
        if len(target) > TARGET_LIMIT:
            raise Refused("size")
        self.stated_authority = None
        absolute = re.match(rb"(?i)https://([^/]+)(/.*)", target)
        if absolute:
            self.stated_authority, target = absolute.groups()
        path, mark, query = target.partition(b"?")
        segments = path.split(b"/")
        if not PATH.match(path) or MISSPELLED.search(path) or b"" in segments[1:-1] or {b".", b".."} & set(segments):
            raise Refused(f"path {path[:100]!r}")
        try:
            unquote_to_bytes(path).decode()
        except UnicodeDecodeError:
            raise Refused("no UTF-8") from None
        if mark and (not QUERY.match(query) or b"%00" in query):
            raise Refused(f"query {query[:100]!r}")
        self.target = target

    def _take_host(self):
        hosts = self.values(b"host")
        match = AUTHORITY.match(hosts[0]) if len(hosts) == 1 and len(hosts[0]) <= 261 else None
        if not match or int(match[2] or 1) > 65535:
            raise Refused(f"Host {hosts}")
        if self.stated_authority not in (None, hosts[0]):
            raise Refused("the target's authority is another")
        self.authority, self.host, self.port = hosts[0], match[1].lower(), match[2]

    def _take_framing(self):
        lengths, codings = self.values(b"content-length"), self.values(b"transfer-encoding")
        if len(lengths) + len(codings) > 1:
            raise Refused("framed twice")
        self.is_chunked = bool(codings)
        if codings and (codings[0].lower() != b"chunked" or self.is_1_0):
            raise Refused(f"transfer coding {codings}")
        if lengths and not LENGTH.match(lengths[0]):
            raise Refused(f"Content-Length {lengths}")
        self.length = int(lengths[0]) if lengths else 0
        if self.is_1_0 and self.length and self.method in (b"GET", b"HEAD", b"DELETE"):
            raise Refused("content that HTTP/1.0 does not look for")

    def _take_connection(self):
        options = set()
        for value in self.values(b"connection"):
            if not OPTION.match(value):
                raise Refused(f"Connection {value!r}")
            options |= {option.strip(b" \t").lower() for option in value.split(b",")}
        if options - {b"close"} - OF_ONE_CONNECTION or b"transfer-encoding" in options:
            raise Refused(f"Connection names {options}")
        self.persists = (not self.is_1_0 or b"keep-alive" in options) and b"close" not in options
        expectations = self.values(b"expect")
        if len(expectations) > 1 or expectations and expectations[0].lower() != b"100-continue":
            raise Refused(f"expectation {expectations}")
        self.awaits = bool(expectations) and not self.is_1_0

    def denial(self):
        """The status with which a request is denied that can be read; None if it is to be forwarded."""
        # What every handshake of ours asks for. No port that bytes of ours name is the listener's, which is random.
        if self.host != HOST or self.port:
            return 421
        if any(name.lower() in OVERRIDES for name, _ in self.fields):
            return 400
        if self.method not in METHODS:
            return 405
        return 413 if self.length > CONTENT_LIMIT else None

    def request(self):
        """As the service is to see it, but for its content and its trace."""
        authority = self.authority.decode()
        fields = [("Host", authority)]
        for name, value in self.fields:
            if name.lower() not in OF_ONE_CONNECTION and not REMOVED.match(name):
                fields.append((name.decode(), value.decode("latin-1")))
        fields.append(("Forwarded", f'for=127.0.0.1;proto=https;host="{authority.lower()}"'))
        if self.is_chunked:
            fields.append(("Transfer-Encoding", "chunked"))
        elif self.length or self.method in (b"POST", b"PUT", b"PATCH"):
            fields.append(("Content-Length", str(self.length)))
        return Intended(self.method.decode(), self.target.decode(), fields)

    def content(self, data, position):
        """- Returns: the content, and where it ends."""
        if self.is_chunked:
            return _chunks(data, position)
        end = position + self.length
        if len(data) < end:
            raise Unfinished
        return data[position:end], end


def _line(data, position):
    end = data.find(b"\r\n", position)
    if end < 0:
        raise Unfinished
    return data[position:end], end + 2


def _chunks(data, position):
    content = b""
    while True:
        line, position = _line(data, position)
        if not CHUNK_LINE.match(line):
            raise Refused(f"chunk size {line[:100]!r}")
        size = int(line, 16)
        if size == 0:
            return content, _trailers(data, position)
        if len(data) < position + size:
            raise Unfinished
        content += data[position:position + size]
        position += size
        if data[position:position + 2] != b"\r\n":
            if b"\r\n".startswith(data[position:position + 2]):
                raise Unfinished
            raise Refused("a chunk does not end where it says")
        position += 2


def _trailers(data, position):
    """RFC 9110 section 6.5.1: dropped, but looked at. - Returns: where they end."""
    lines, start = [], position
    while True:
        line, position = _line(data, position)
        if not line:
            break
        lines += _fields([line])
        if position - start >= TRAILER_LIMIT:
            raise Refused("size")
    if {name.lower() for name, _ in lines} & {b"host", b"content-length", b"transfer-encoding"}:
        raise Refused("a trailer of framing or routing")
    return position
