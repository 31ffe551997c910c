"""What could be taken for two different things, and what it is taken for here; named for the attack.

Each case is the bytes of a connection, with the method, target and content of every request that must reach the service.
`attacks` has more that lead to none, each with its fault.
"""

from support.attacks import CHUNKED, SMUGGLED, head
from support.client import get, post

INNER = ("GET", "/smuggled", b"")
LONG = f"Content-Length: {len(SMUGGLED)}"


def chunked(*parts, end=b"0\r\n\r\n", fields=(), line="POST /outer HTTP/1.1"):
    return head(CHUNKED, *fields, line=line) + b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + end


def outer(*fields, method="POST", version="1.1"):
    return head(*fields, line=f"{method} /outer HTTP/{version}")


# One reading each, and it is served: where it differs from what an attacker hopes for, it is because of that reading.
SERVED = {
    # CL.0: a reader that believes some methods to have no content takes it for the next request (RFC 9110 section 6.4).
    **{f"CL.0: a request in the content of {method}": (
        outer(LONG, method=method) + SMUGGLED, [(method, "/outer", SMUGGLED)])
        for method in ["GET", "HEAD", "DELETE", "OPTIONS", "PUT", "PATCH", "POST"]},
    # 0.CL: without a length there is no content (RFC 9112 section 6.3).
    "0.CL: a request behind a POST without a length": (outer() + SMUGGLED, [("POST", "/outer", b""), INNER]),
    "0.CL: a request behind Content-Length 0": (outer("Content-Length: 0") + SMUGGLED, [("POST", "/outer", b""), INNER]),
    "CL.TE: chunks in content of known length": (
        outer("Content-Length: 5") + b"0\r\n\r\n" + SMUGGLED, [("POST", "/outer", b"0\r\n\r\n"), INNER]),
    "TE.CL: a request in a chunk": (chunked(SMUGGLED), [("POST", "/outer", SMUGGLED)]),
    "TE.0: a request behind the last chunk": (chunked(b"hello") + SMUGGLED, [("POST", "/outer", b"hello"), INNER]),
    "TE.0: a request in a chunk of OPTIONS": (
        chunked(SMUGGLED, line="OPTIONS /outer HTTP/1.1"), [("OPTIONS", "/outer", SMUGGLED)]),
    "a chunk that holds the end of the chunks": (
        chunked(b"0\r\n\r\n" + SMUGGLED), [("POST", "/outer", b"0\r\n\r\n" + SMUGGLED)]),
    "chunk sizes in capitals and with zeros": (
        head(CHUNKED, line="POST /outer HTTP/1.1") + b"00A\r\n0123456789\r\n00\r\n\r\n", [("POST", "/outer", b"0123456789")]),
    "Transfer-Encoding in capitals": (
        head("TRANSFER-ENCODING: CHUNKED ", line="POST /outer HTTP/1.1") + b"0\r\n\r\n", [("POST", "/outer", b"")]),
    "trailers that speak for a proxy": (
        chunked(b"hello", end=b"0\r\nAttest-Device: me\r\nX-Forwarded-For: 10.0.0.1\r\nAuthorization: b\r\n\r\n",
                fields=["Trailer: Attest-Device, X-Forwarded-For, Authorization", "TE: trailers"]),
        [("POST", "/outer", b"hello")]),
    "a request behind trailers": (
        chunked(end=b"0\r\nX: a\r\n\r\n") + SMUGGLED, [("POST", "/outer", b""), INNER]),
    # RFC 9112 section 9.3: what is behind the last request is none.
    "a request behind Connection: close": (outer("Connection: close") + SMUGGLED, [("POST", "/outer", b"")]),
    "a request behind HTTP/1.0": (outer(method="GET", version="1.0") + SMUGGLED, [("GET", "/outer", b"")]),
    "a request behind HTTP/1.0 that asks to be kept": (
        outer("Connection: keep-alive", method="GET", version="1.0") + SMUGGLED, [("GET", "/outer", b""), INNER]),
    "a request behind HTTP/1.0 that asks for both": (
        outer("Connection: keep-alive, close", method="GET", version="1.0") + SMUGGLED, [("GET", "/outer", b"")]),
    "a request behind the content of HTTP/1.0 that asks to be kept": (
        outer("Connection: keep-alive", "Content-Length: 5", version="1.0") + b"hello" + SMUGGLED,
        [("POST", "/outer", b"hello"), INNER]),
    "a request in the content of HTTP/1.0": (outer(LONG, version="1.0") + SMUGGLED, [("POST", "/outer", SMUGGLED)]),
    "an expectation in HTTP/1.0": (
        outer("Expect: 100-continue", "Content-Length: 5", version="1.0") + b"hello", [("POST", "/outer", b"hello")]),
    # RFC 9110 section 7.8: nothing is switched on the client's word.
    "Upgrade: h2c": (
        outer("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA")
        + SMUGGLED, [("POST", "/outer", b""), INNER]),
    "Upgrade: h2c, and the preface behind it": (
        outer("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA")
        + b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + SMUGGLED, [("POST", "/outer", b"")]),
    "Upgrade: websocket without a key": (
        outer("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 777", method="GET") + SMUGGLED,
        [("GET", "/outer", b""), INNER]),
    "Upgrade: TLS/1.0": (outer("Connection: Upgrade", "Upgrade: TLS/1.0") + SMUGGLED, [("POST", "/outer", b""), INNER]),
    # RFC 9110 section 10.1.1: a client may send content without waiting; there is one reading whether it waits or not.
    "Expect, and the content at once": (
        outer("Expect: 100-continue", LONG) + SMUGGLED, [("POST", "/outer", SMUGGLED)]),
    "Expect, and no content": (
        outer("Expect: 100-continue", method="GET") + SMUGGLED, [("GET", "/outer", b""), INNER]),
    "Expect, and chunks": (
        chunked(b"hello", fields=["Expect: 100-Continue"]) + SMUGGLED, [("POST", "/outer", b"hello"), INNER]),
    # Denied by themselves, without being malformed: what is behind them is still where it was.
    "a request behind a method of nobody": (outer(method="BREW") + SMUGGLED, [INNER]),
    "a request behind TRACE": (outer(method="TRACE") + SMUGGLED, [INNER]),
    "a request behind a method in lower case": (outer(method="post") + SMUGGLED, [INNER]),
    "a request in the content of a method of nobody": (outer(LONG, method="BREW") + SMUGGLED, []),
    "a request in the content for a host of nobody": (
        head(LONG, line="POST /outer HTTP/1.1", host="Host: example.org") + SMUGGLED + get("/next"), [("GET", "/next", b"")]),
    "a request in chunks for a host of nobody": (
        head(CHUNKED, line="POST /outer HTTP/1.1", host="Host: example.org") + b"0\r\n\r\n" + SMUGGLED, []),
    "a denied request that waits for 100": (outer("Expect: 100-continue", LONG, method="BREW") + SMUGGLED, []),
    "a field that overrides the method": (outer("X-HTTP-Method-Override: DELETE", LONG) + SMUGGLED + get("/next"), [
        ("GET", "/next", b"")]),
    **{f"{name}, and a request behind": (outer(f"{name}: /admin", LONG) + SMUGGLED + get("/next"), [("GET", "/next", b"")])
       for name in ["X-HTTP-Path-Override", "X-Override-URL", "X-Original-Path"]},
    # Targets and fields.
    "fields that services believe": (outer(
        "Proxy: http://evil.example", "X-Auth-Request-User: root", "X-WebAuth-User: root", "X-Consumer-Username: root",
        "X-Authenticated-Userid: root", "X-SPIFFE-Id: root", "X-Forwarded-User: root", "X-Original-Forwarded-For: 10.0.0.1",
        "X-Host: evil.example", "Front-End-Https: off", "Fastly-Client-IP: 10.0.0.1", "CF-Connecting-IPv6: ::1"),
        [("POST", "/outer", b"")]),
    **{f"Host {host}": (head(line="GET /outer HTTP/1.1", host=f"Host: {host}") + SMUGGLED, [INNER])
       for host in ["localhost:443", "localhost:1", "LOCALHOST:80"]},
    "absolute-form that agrees with Host": (
        head(line="GET HTTPS://localhost/a?b HTTP/1.1") + SMUGGLED, [("GET", "/a?b", b""), INNER]),
    "a request as the value of a field": (
        outer("X: GET /smuggled HTTP/1.1", "Y: " + "0\\r\\n\\r\\n"), [("POST", "/outer", b"")]),
    "octets beyond ASCII in a value": (
        outer("X: \x85\xa0\u0130".encode("utf-8").decode("latin-1")), [("POST", "/outer", b"")]),
    "fields that end with space and tab": (outer("Content-Length:  5  ", "X:\t a \t") + b"hello", [("POST", "/outer", b"hello")]),
    "many requests in one write": (
        b"".join(get(f"/{n}") + post(f"/p{n}", b"x" * n) for n in range(20)),
        [r for n in range(20) for r in [("GET", f"/{n}", b""), ("POST", f"/p{n}", b"x" * n)]]),
}

SMUGGLING_CODINGS = [
    "chunked, identity", "identity, chunked", "chunked, cow", "cow, chunked", ",chunked", "chunked,", "chunked,,", "chunked ;",
    "chunked;q=1", "'chunked'", "[chunked]", "chun ked", "\xa0chunked", "chunked\xa0", "chunked\x85", "ch\xfcnked",
    "chunked\x7f", "chunked\x00", "\x0cchunked", "xchunked", "chunkedx", "x-chunked", "gzip", "identity", "true", "1"]
HIDDEN_CODINGS = {
    "behind a bare LF": "X: a\nTransfer-Encoding: chunked", "behind a bare CR": "X: a\rTransfer-Encoding: chunked",
    "behind two CR": "X: a\r\r\nTransfer-Encoding: chunked", "behind LF CR": "X: a\n\rTransfer-Encoding: chunked",
    "with a vertical tab before the colon": "Transfer-Encoding\x0b: chunked",
    "with NUL before the colon": "Transfer-Encoding\x00: chunked",
    "with a line feed before the colon": "Transfer-Encoding\n: chunked",
    "with a folded colon": "Transfer-Encoding\r\n : chunked", "with a folded name": "Transfer-\r\n Encoding: chunked",
    "with octet A0 before the colon": "Transfer-Encoding\xa0: chunked",
    "with a space before the name": "X: a\r\n Transfer-Encoding: chunked",
    "with a byte order mark": "\xef\xbb\xbfTransfer-Encoding: chunked",
    "with two colons": ":Transfer-Encoding: chunked", "without a colon": "Transfer-Encoding chunked",
    "with an underscore": "Transfer_Encoding: chunked", "with a dot": "Transfer.Encoding: chunked",
    "named by Connection": "Connection: Transfer-Encoding\r\nTransfer-Encoding: chunked"}
SIZES = [
    "0x5", "0X5", "x5", "5h", "5_0", "0_5", "+5", "-5", "5.0", "5e0", " 5", "5 ", "\t5", "5\t", "5\x0b", "5\x00", "\x005", "\"5\"",
    "5,", "5 5", "\xef\xbc\x95", "\xb5", "FFFFFFFFFFFFFFFB", "fffffffffffffffffffb", "10000000000000005", "100000005 ",
    "-0", "-1", "8000000000000005", "0" * 300 + "5"]
EXTENSIONS = [
    ";", ";a", ";a=b", " ;a=b", ";a=\"b\"", ";a=\"\r\n\"", ";\n", ";a\n", ";a=b\nGET /smuggled HTTP/1.1", "\n;a", "\r;a", ";\x00",
    ";a=\xff", ";a=" + "b" * 5000]

# Nothing of it may be taken for a request.
REFUSED = {
    # TE.TE: one reader believes the coding, the other does not (RFC 9112 section 6.1).
    **{f"TE.TE: {coding!r}": outer(f"Transfer-Encoding: {coding}") + b"0\r\n\r\n" + SMUGGLED for coding in SMUGGLING_CODINGS},
    **{f"TE.TE: {coding!r} behind chunked": outer(CHUNKED, f"Transfer-encoding: {coding}") + b"0\r\n\r\n" + SMUGGLED
       for coding in ("cow", "identity", "chunked", "")},
    **{f"CL.TE: a coding {how}": outer("Content-Length: 5", line) + b"0\r\n\r\n" + SMUGGLED
       for how, line in HIDDEN_CODINGS.items()},
    # Two lengths, or one of two readings (RFC 9110 section 8.6).
    **{f"CL.CL: {value!r}": outer(f"Content-Length: {value}") + b"hello" + SMUGGLED for value in [
        "5,5", "5, 0", "0,5", "5;", "5\x00", "\x0b5", "5\xa0", "0005", "0x5", "05", "5.", "5e0", "_5", "5_0", "--5", "\xd9\xa5",
        "9223372036854775813", "18446744073709551621", "99999999999999999999999", "NaN", "\"5\""]},
    "CL.CL: the second in other letters": outer("Content-Length: 5", "content-length: 0") + b"hello" + SMUGGLED,
    "CL.CL: the second behind other fields": outer("Content-Length: 0", *["X: a"] * 20, "Content-Length: 5") + b"hello",
    "CL.TE in HTTP/1.0": outer("Content-Length: 5", CHUNKED, version="1.0") + b"0\r\n\r\n" + SMUGGLED,
    "HTTP/1.0 with chunks, kept": outer("Connection: keep-alive", CHUNKED, version="1.0") + b"0\r\n\r\n" + SMUGGLED,
    # Lines (RFC 9112 section 2.2).
    "all lines end with LF": SMUGGLED.replace(b"\r\n", b"\n"),
    "all lines end with CR": SMUGGLED.replace(b"\r\n", b"\r"),
    "all lines end with LF CR": SMUGGLED.replace(b"\r\n", b"\n\r"),
    "all lines end with CR CR LF": SMUGGLED.replace(b"\r\n", b"\r\r\n"),
    "all lines end with octet 85": SMUGGLED.replace(b"\r\n", b"\x85"),
    "an empty line before": b"\r\n" + SMUGGLED,
    "a bare line feed before": b"\n" + SMUGGLED,
    "a space before": b" " + SMUGGLED,
    "NUL before": b"\0" + SMUGGLED,
    "obs-fold of Host": b"GET /smuggled HTTP/1.1\r\nHost:\r\n localhost\r\n\r\n",
    "obs-fold of Content-Length": outer("Content-Length:", " 5") + b"hello" + SMUGGLED,
    "obs-fold that hides Host": b"GET /smuggled HTTP/1.1\r\nX: a\r\n\tHost: localhost\r\n\r\n",
    "obs-fold of nothing": outer("X: a", " ", method="GET"),
    "obs-fold in the request line": b"GET /smuggled\r\n HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "space before the colon of Host": b"GET /smuggled HTTP/1.1\r\nHost : localhost\r\n\r\n",
    "space before the colon of Content-Length": outer("Content-Length : 5") + b"hello",
    # Names that CGI servers read as others.
    **{f"{name}, spelled otherwise": outer(f"{name}: root", "Content-Length: 5") + b"hello" + SMUGGLED for name in [
        *(f"Attest{other}Device" for other in "!#$%&'*+.^_`|~"), "X!Forwarded!For", "X-HTTP-Method~Override", "Content~Length",
        "Transfer!Encoding"]},
    # Host (RFC 9112 section 3.2).
    "Host twice, in other letters": outer("HOST: localhost"),
    "Host and a list": head(line="GET / HTTP/1.1", host="Host: localhost, localhost"),
    "Host with a tab within": head(line="GET / HTTP/1.1", host="Host: local\thost"),
    "Host with a path": head(line="GET / HTTP/1.1", host="Host: localhost/../evil"),
    "Host with a port of six digits": head(line="GET / HTTP/1.1", host="Host: localhost:000443"),
    "Host with an at sign": head(line="GET / HTTP/1.1", host="Host: localhost:443@evil.example"),
    "Host with a fragment": head(line="GET / HTTP/1.1", host="Host: localhost#evil.example"),
    "Host with NUL": head(line="GET / HTTP/1.1", host="Host: localhost\0.evil.example"),
    "HTTP/1.0 without Host": b"GET /smuggled HTTP/1.0\r\n\r\n",
    "absolute-form without Host": b"GET https://localhost/smuggled HTTP/1.1\r\n\r\n",
    "absolute-form with another Host": head(line="GET https://localhost/ HTTP/1.1", host="Host: evil.example"),
    "absolute-form in other letters than Host": head(line="GET https://LOCALHOST/ HTTP/1.1"),
    "absolute-form with a query for a path": head(line="GET https://localhost?/ HTTP/1.1"),
    "absolute-form with a backslash": head(line="GET https://localhost\\@evil.example/ HTTP/1.1"),
    "absolute-form of another scheme": head(line="GET ftp://localhost/ HTTP/1.1"),
    "network-path": head(line="GET //evil.example/ HTTP/1.1"),
    # The request line (RFC 9112 section 3).
    "HTTP/0.9": b"GET /smuggled\r\n\r\n", "HTTP/0.9 with a space": b"GET /smuggled \r\n\r\n",
    "HTTP/0.9 with fields": b"GET /smuggled\r\nHost: localhost\r\n\r\n",
    "a request line with two versions": head(line="GET /smuggled HTTP/1.1 HTTP/1.1"),
    "a request line in the target": head(line="GET /smuggled?a HTTP/1.1%0d%0aHost:x HTTP/1.1"),
    **{f"version {version!r}": head(line=f"GET /smuggled {version}") for version in [
        "HTTP/1", "HTTP/1.", "HTTP/.1", "HTTP/11", "HTTP/1.10", "HTTP/01.1", "HTTP/1.01", "HTTP/+1.1", "HTTP/1,1", "HTTP 1.1",
        "HTTP/1.1\0", "HTTP/1.1\t", "\0HTTP/1.1", "HTTPS/1.1", "Http/1.1", "HTTP/2", "HTTP/3.0", "HTTP/9.9", "ICE/1.0",
        "RTSP/1.0"]},
    **{f"method {method!r}": head(line=f"{method} /smuggled HTTP/1.1") for method in [
        "", " GET", "GET\0", "G\x00ET", "GET:", "G/ET", "GE\xcc", "(GET)", "GET,POST", "\"GET\"", "G" * 40]},
    "CONNECT": head(line="CONNECT localhost:22 HTTP/1.1"), "asterisk-form": head(line="OPTIONS * HTTP/1.1"),
    # Other protocols in clear.
    "the HTTP/2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]),
    "PROXY protocol, version 1": b"PROXY TCP4 10.0.0.1 10.0.0.2 1 443\r\n" + SMUGGLED,
    "PROXY protocol, version 2": b"\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c" + bytes(12) + SMUGGLED,
    "TLS within TLS": b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00" + SMUGGLED,
    "a frame of WebSocket": b"\x81\x05hello" + SMUGGLED,
    # Connection (RFC 9110 section 7.6.1).
    **{f"Connection: {value!r}": outer(f"Connection: {value}", "Content-Length: 5", "X-Location: here") + b"hello" + SMUGGLED
       for value in ["host", "close, Content-Length", "Transfer-Encoding", "X-Location", "Authorization", "Cookie", "Attest-Proof-Counter",
                     "Signature", "Content-Digest", "X-Forwarded-For", "", ",", "close,", "close;q=1", "\"close\"", "close close"]},
    **{f"Expect: {value!r}": outer(f"Expect: {value}", LONG) + SMUGGLED for value in [
        "", "100", "100-continue, 100-continue", "100-continue;a=b", "x 100-continue", "200-ok", "y"]},
    "Expect twice": outer("Expect: 100-continue", "Expect: 100-continue", LONG) + SMUGGLED,
}

# Well-formed in the head, so that a part may be forwarded; never the end.
BROKEN = {
    **{f"chunk size {size!r}": outer(CHUNKED) + size.encode("latin-1") + b"\r\nhello\r\n0\r\n\r\n" + SMUGGLED for size in SIZES},
    **{f"chunk extension {extension[:40]!r}": (
        outer(CHUNKED) + b"5" + extension.encode("latin-1") + b"\r\nhello\r\n0\r\n\r\n" + SMUGGLED) for extension in EXTENSIONS},
    **{f"last chunk with extension {extension[:40]!r}": (
        outer(CHUNKED) + b"5\r\nhello\r\n0" + extension.encode("latin-1") + b"\r\n\r\n" + SMUGGLED)
        for extension in EXTENSIONS},
    **{f"chunk ended by {end!r}": outer(CHUNKED) + b"5\r\nhello" + end + b"0\r\n\r\n" + SMUGGLED
       for end in [b"\n", b"\r", b"\n\r", b"\r\r\n", b"", b" \r\n", b"XX", b"\0\0"]},
    **{f"chunk size ended by {end!r}": outer(CHUNKED) + b"5" + end + b"hello\r\n0\r\n\r\n" + SMUGGLED
       for end in [b"\n", b"\r", b"\n\r", b"\r\r\n", b"", b"XX"]},
    **{f"no chunk, but {line!r}": outer(CHUNKED) + line + b"\r\n" + SMUGGLED
       for line in [b"", b"\r\n", b"hello", b"GET / HTTP/1.1", b"\0"]},
    **{f"trailer {line!r}": outer(CHUNKED) + b"5\r\nhello\r\n0\r\n" + line.encode("latin-1") + b"\r\n\r\n" + SMUGGLED for line in [
        "Content-Length: 5", "content-length: 0", "Transfer-Encoding: chunked", "Host: evil.example", "X", ": a", "X : a", " X: a",
        "X: a\r\n b", "X: a\n", "X: a\0", "X_Y: a", "X.Y: a", "X!Y: a", "X~: a", "`X: a", "GET /smuggled HTTP/1.1", "X: " + "a" * 5000]},
    "the last chunk is negative": outer(CHUNKED) + b"5\r\nhello\r\n-0\r\n\r\n" + SMUGGLED,
}

# The end comes too early: whatever was sent, no request more than those that are whole.
EARLY_END = {
    "within the request line": (b"GET /smug", []),
    "behind the request line": (b"GET /smuggled HTTP/1.1\r\n", []),
    "within the head": (SMUGGLED[:-6], []),
    "before the last line feed of the head": (SMUGGLED[:-1], []),
    "behind a request, within the next": (SMUGGLED + SMUGGLED[:-2], [INNER]),
    "before the content": (outer("Content-Length: 5"), []),
    "before the last octet of the content": (outer("Content-Length: 5") + b"hell", []),
    "while 100 is awaited": (outer("Content-Length: 5", "Expect: 100-continue"), []),
    "before the first chunk": (outer(CHUNKED), []),
    "within a chunk size": (outer(CHUNKED) + b"5", []),
    "behind CR of a chunk size": (outer(CHUNKED) + b"5\r", []),
    "within a chunk": (outer(CHUNKED) + b"5\r\nhell", []),
    "before the line end of a chunk": (outer(CHUNKED) + b"5\r\nhello", []),
    "behind a chunk": (outer(CHUNKED) + b"5\r\nhello\r\n", []),
    "behind the digit of the last chunk": (outer(CHUNKED) + b"5\r\nhello\r\n0", []),
    "before the empty line of the trailers": (outer(CHUNKED) + b"5\r\nhello\r\n0\r\n", []),
    "within a trailer": (outer(CHUNKED) + b"5\r\nhello\r\n0\r\nX: a", []),
    "before the last line feed of the trailers": (outer(CHUNKED) + b"5\r\nhello\r\n0\r\nX: a\r\n\r", []),
}
