"""Requests that two readers could take for different things, and what the gateway finds wrong with each.

Names are what the literature or the fault calls them; each is given with the `MessageFault` it must lead to.
"""

import re

from support.paths import REPOSITORY


def read_faults():
    """`MessageFault` and the reasons that the log gives for them, from its source."""
    source = (REPOSITORY / "Sources" / "HTTP" / "MessageFault.swift").read_text()
    return dict(re.findall(r'case \.(\w+): "(.*)"', source))


REASONS = read_faults()

PLACE = re.compile(r": byte 0x[0-9a-f]{2} at offset [0-9]+ of the target")


def is_reason(detail, fault):
    """Whether the log gives the fault as the reason: of a target with the byte and its place, and nothing else of it."""
    has_place = fault in ["pathSpelling", "querySpelling"]
    reason, place = detail[:len(REASONS[fault])], detail[len(REASONS[fault]):]
    return reason == REASONS[fault] and (PLACE.fullmatch(place) is not None if has_place else place == "")


KINDS = {
    "targetTooLong": ("too_large", 414), "headTooLarge": ("too_large", 431), "tooManyFields": ("too_large", 431),
    "trailerTooLarge": ("too_large", 431), "fieldNameUnusual": ("header_refused", 400),
    "connectionNamesField": ("header_refused", 400), "expectationUnknown": ("header_refused", 400),
    "fieldRepeated": ("header_refused", 400),
}


def denial(fault):
    """The code and status of the fault."""
    return KINDS.get(fault, ("request_malformed", 400))


def head(*lines, line="POST /attack HTTP/1.1", host="Host: localhost"):
    return "\r\n".join([line, *([host] if host else []), *lines, "", ""]).encode("latin-1")


def target(text):
    return head(line=f"GET {text} HTTP/1.1")


CHUNKED = "Transfer-Encoding: chunked"
SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"

# Recognised in the head: not one byte may be forwarded.
HEADS = {
    # Two framings.
    "CL.TE": ("contentLengthWithTransferEncoding", head("Content-Length: 6", CHUNKED) + b"0\r\n\r\nG"),
    "TE.CL": ("contentLengthWithTransferEncoding", head(CHUNKED, "Content-Length: 4") + b"5c\r\nGET /smuggled"),
    "CL.0 with TE": ("contentLengthWithTransferEncoding", head("Content-Length: 0", CHUNKED) + b"0\r\n\r\n"),
    "equal Content-Length twice": ("contentLengthRepeated", head("Content-Length: 5", "Content-Length: 5") + b"hello"),
    "different Content-Length": ("contentLengthRepeated", head("Content-Length: 0", "Content-Length: 44") + SMUGGLED),
    "Content-Length list": ("contentLengthMalformed", head("Content-Length: 5, 5") + b"hello"),
    "Content-Length +5": ("contentLengthMalformed", head("Content-Length: +5") + b"hello"),
    "Content-Length -5": ("contentLengthMalformed", head("Content-Length: -5") + b"hello"),
    "Content-Length 0x5": ("contentLengthMalformed", head("Content-Length: 0x5") + b"hello"),
    "Content-Length 5 5": ("contentLengthMalformed", head("Content-Length: 5 5") + b"hello"),
    "Content-Length 05": ("contentLengthMalformed", head("Content-Length: 05") + b"hello"),
    "Content-Length 5e0": ("contentLengthMalformed", head("Content-Length: 5e0") + b"hello"),
    "Content-Length empty": ("contentLengthMalformed", head("Content-Length: ")),
    "Content-Length 2^64+5": ("contentLengthMalformed", head("Content-Length: 18446744073709551621") + b"hello"),
    "Content-Length Arabic digit": ("contentLengthMalformed", head("Content-Length: \xd9\xa5") + b"hello"),
    "Content-Length after a tab": ("fieldValueMalformed", head("Content-Length:\t5") + b"hello"),
    "Content-Length before a tab": ("fieldValueMalformed", head("Content-Length: 5\t") + b"hello"),
    **{f"{method} of HTTP/1.0 with content": (
        "contentUnexpected", head("Content-Length: 5", line=f"{method} / HTTP/1.0") + b"hello")
        for method in ["GET", "DELETE"]},
    # Transfer codings but a single chunked.
    "TE xchunked": ("transferEncodingUnsupported", head("Transfer-Encoding: xchunked") + b"0\r\n\r\n"),
    "TE chunked, chunked": ("transferEncodingUnsupported", head("Transfer-Encoding: chunked, chunked") + b"0\r\n\r\n"),
    "TE chunked twice": ("transferEncodingUnsupported", head(CHUNKED, CHUNKED) + b"0\r\n\r\n"),
    "TE chunked, identity": ("transferEncodingUnsupported", head(CHUNKED, "Transfer-Encoding: identity") + b"0\r\n\r\n"),
    "TE gzip, chunked": ("transferEncodingUnsupported", head("Transfer-Encoding: gzip, chunked") + b"0\r\n\r\n"),
    "TE identity": ("transferEncodingUnsupported", head("Transfer-Encoding: identity", "Content-Length: 5") + b"hello"),
    "TE empty": ("transferEncodingUnsupported", head("Transfer-Encoding: ", "Content-Length: 5") + b"hello"),
    "TE quoted": ("transferEncodingUnsupported", head('Transfer-Encoding: "chunked"') + b"0\r\n\r\n"),
    "TE chunked with parameter": ("transferEncodingUnsupported", head("Transfer-Encoding: chunked;a=b") + b"0\r\n\r\n"),
    "TE after vertical tab": ("fieldValueMalformed", head("Transfer-Encoding: \x0bchunked") + b"0\r\n\r\n"),
    "TE after a tab": ("fieldValueMalformed", head("Transfer-Encoding:\tchunked") + b"0\r\n\r\n"),
    "TE before a tab": ("fieldValueMalformed", head("Transfer-Encoding: chunked \t") + b"0\r\n\r\n"),
    "TE with space before colon": ("spaceBeforeColon", head("Transfer-Encoding : chunked") + b"0\r\n\r\n"),
    "TE with tab before colon": ("spaceBeforeColon", head("Transfer-Encoding\t: chunked") + b"0\r\n\r\n"),
    "TE behind obs-fold": ("obsoleteLineFolding", head("X: a", " Transfer-Encoding: chunked") + b"0\r\n\r\n"),
    "TE folded": ("transferEncodingUnsupported", head("Transfer-Encoding:", "\tchunked") + b"0\r\n\r\n"),
    "TE in HTTP/1.0": ("transferEncodingUnsupported", head(CHUNKED, line="POST / HTTP/1.0") + b"0\r\n\r\n"),
    "TE spelled with underscore": ("fieldNameUnusual", head("Transfer_Encoding: chunked") + b"0\r\n\r\n"),
    "CL spelled with underscore": ("fieldNameUnusual", head("Content_Length: 5") + b"hello"),
    "CL dropped by Connection": ("connectionNamesField", head("Connection: Content-Length", "Content-Length: 5") + b"hello"),
    "TE dropped by Connection": ("connectionNamesField", head("Connection: Transfer-Encoding", CHUNKED) + b"0\r\n\r\n"),
    # Lines.
    "bare LF ends the request line": ("requestLineMalformed", b"GET / HTTP/1.1\nHost: localhost\r\n\r\n"),
    "bare LF ends a field": ("bareLineFeed", b"GET / HTTP/1.1\r\nHost: localhost\nX: a\r\n\r\n"),
    "bare LF ends the head": ("bareLineFeed", b"GET / HTTP/1.1\r\nHost: localhost\r\n\n"),
    "bare CR in a value": ("bareCarriageReturn", head("X: a\rTransfer-Encoding: chunked") + b"0\r\n\r\n"),
    "bare CR before the end": ("bareCarriageReturn", b"GET / HTTP/1.1\r\nHost: localhost\r\n\rX: a\r\n\r\n"),
    "empty line before the request": ("requestLineMalformed", b"\r\n" + SMUGGLED),
    "space before the first field": ("obsoleteLineFolding", b"GET / HTTP/1.1\r\n Host: localhost\r\n\r\n"),
    "NUL in a name": ("fieldNameMalformed", head("X\0Y: a")),
    "NUL in a value": ("fieldValueMalformed", head("X: a\0b")),
    "NUL in the target": ("requestLineMalformed", target("/a\0b")),
    "DEL in a value": ("fieldValueMalformed", head("X: a\x7fb")),
    "field without a colon": ("fieldNameMalformed", head("X-nothing@all")),
    "field without a name": ("fieldNameMalformed", head(": a")),
    **{f"field name {name}": ("fieldNameUnusual", head(f"{name}: root")) for name in [
        "X.Real.IP", "Attest!Device", "Attest~Device", "Attest`Device", "X!Forwarded!For", "X-HTTP-Method~Override", "Attest-Device'",
        "*Attest-Device", "Client#Cert", "Client$Cert", "Client%Cert", "X&Real&IP", "X+Real+IP", "X^Real^IP", "X|Real|IP", "X!"]},
    "Connection is no list": ("connectionMalformed", head("Connection: close now")),
    "Connection names Host": ("connectionNamesField", head("Connection: close, Host")),
    "Connection names Authorization": ("connectionNamesField", head("Connection: authorization", "Authorization: x")),
    "Connection names a field of unknown meaning": ("connectionNamesField", head("Connection: X-Location", "X-Location: here")),
    **{f"{name} twice": ("fieldRepeated", head(f"{name}: a", f"{name.lower()}: b")) for name in [
        "Date", "If-Match", "If-Modified-Since", "If-None-Match", "If-Range", "If-Unmodified-Since", "Origin", "Range", "Referer",
        "User-Agent"]},
    "two content types": ("fieldRepeated", head("Content-Type: a/b", "content-type: c/d")),
    "two authorizations": ("fieldRepeated", head("Authorization: a", "Authorization: a")),
    "unknown expectation": ("expectationUnknown", head("Expect: 200-ok", "Content-Length: 5")),
    # The request line.
    "HTTP/0.9": ("requestLineMalformed", b"GET /\r\n"),
    "HTTP/0.9 with a version": ("versionUnsupported", head(line="GET / HTTP/0.9")),
    "HTTP/1.2": ("versionUnsupported", head(line="GET / HTTP/1.2")),
    "HTTP/2.0": ("versionUnsupported", head(line="GET / HTTP/2.0")),
    "the HTTP/2 preface": ("versionUnsupported", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    "http/1.1 in lower case": ("versionUnsupported", head(line="GET / http/1.1")),
    "two spaces": ("requestLineMalformed", head(line="GET  / HTTP/1.1")),
    "tab for a space": ("requestLineMalformed", head(line="GET\t/ HTTP/1.1")),
    "a space in the target": ("versionUnsupported", head(line="GET /a b HTTP/1.1")),
    "a space behind the version": ("requestLineMalformed", head(line="GET / HTTP/1.1 ")),
    "asterisk-form": ("targetForm", head(line="OPTIONS * HTTP/1.1")),
    "authority-form": ("targetForm", head(line="CONNECT localhost:443 HTTP/1.1")),
    "absolute-form of http": ("targetForm", target("http://localhost/")),
    "absolute-form without a path": ("targetForm", target("https://localhost")),
    "absolute-form of another host": ("targetDisagreesWithHost", target("https://example.org/")),
    "absolute-form of another port": ("targetDisagreesWithHost", target("https://localhost:1/")),
    "absolute-form with user information": ("targetDisagreesWithHost", target("https://root@localhost/")),
    # One spelling of paths.
    **{f"path {path}": ("pathSpelling", target(path)) for path in [
        "//a", "/a//b", "/a/./b", "/a/../b", "/a/..", "/.", "/a;b", "/a%3Bb", "/%2e%2e/a", "/%2E/a", "/a%2fb", "/a%2Fb", "/a%5Cb",
        "/a\\b", "/a%00", "/a%0A", "/a%25b", "/a%41", "/a%7E", "/a%c3%a4", "/a%G0", "/a%", "/a%4", "/a#b", '/a"b', "/a|b"]},
    "path of raw UTF-8": ("requestLineMalformed", target("/\xc3\xa4")),
    **{f"query {query}": ("querySpelling", target(f"/a?{query}")) for query in [
        "", "a=%", "a=%zz", "a=%00", 'a="b"', "a#b", "a=<b>", "a=b\\c"]},
    # Host.
    "Host after a tab": ("fieldValueMalformed", head(host="Host:\tlocalhost")),
    "no Host": ("hostMissing", head(host=None)),
    "Host twice": ("hostRepeated", head("Host: localhost")),
    "Host twice, the second another": ("hostRepeated", head("Host: example.org")),
    **{f"Host {host!r}": ("hostMalformed", head(host=f"Host: {host}")) for host in [
        "", "local host", "localhost:", "localhost:0", "localhost:65536", "localhost:44a", "root@localhost", "localhost.",
        "localhost/", "local,host", "[::1", "[::g]", "local\xe4host", ".localhost", "a..b", "localhost, example.org"]},
    # Size.
    "a target beyond the limit": ("targetTooLong", target("/" + "a" * 8192)),
    "a target without an end": ("targetTooLong", b"GET /" + b"a" * 9000),
    "too many fields": ("tooManyFields", head(*(f"X{n}: a" for n in range(120)))),
    "a head beyond the limit": ("headTooLarge", head("X: " + "a" * 17000)),
    # More than any buffer, so that the limit is met before what may stand behind is seen.
    "a head without an end": ("headTooLarge", b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 60000),
}

# Recognised in the content, behind a head that is well-formed: no upstream may ever see a complete request.
CONTENTS = {
    **{f"chunk size {size!r}": ("chunkMalformed", head(CHUNKED) + size.encode() + b"\r\nhello\r\n0\r\n\r\n") for size in [
        "0x5", "+5", "-5", "5 ", " 5", "", "5;a=b", "5;", "g", "5\t", "00000000000000005", "10000000000000005", "5\n"]},
    "chunk size ends with bare LF": ("chunkMalformed", head(CHUNKED) + b"5\nhello\r\n0\r\n\r\n"),
    "chunk size ends with bare CR": ("chunkMalformed", head(CHUNKED) + b"5\rhello\r\n0\r\n\r\n"),
    "chunk longer than it says": ("chunkMalformed", head(CHUNKED) + b"4\r\nhello\r\n0\r\n\r\n"),
    "chunk ends with bare LF": ("chunkMalformed", head(CHUNKED) + b"5\r\nhello\n0\r\n\r\n"),
    "chunk extension on the last": ("chunkMalformed", head(CHUNKED) + b"5\r\nhello\r\n0;a=b\r\n\r\n"),
    "smuggled in a chunk extension": ("chunkMalformed", head(CHUNKED) + b"5;\n" + SMUGGLED),
    "trailer with a bare LF": ("bareLineFeed", head(CHUNKED) + b"5\r\nhello\r\n0\r\nX: a\n\r\n"),
    "trailer with a space before the colon": ("spaceBeforeColon", head(CHUNKED) + b"5\r\nhello\r\n0\r\nX : a\r\n\r\n"),
    "trailer folded": ("obsoleteLineFolding", head(CHUNKED) + b"5\r\nhello\r\n0\r\nX: a\r\n b\r\n\r\n"),
    "trailer ends with bare LF": ("bareLineFeed", head(CHUNKED) + b"5\r\nhello\r\n0\r\n\n"),
    **{f"trailer {name}": ("fieldNameUnusual", head(CHUNKED) + f"0\r\n{name}: a\r\n\r\n".encode())
       for name in ["X_Y", "Attest!Device", "X~", "`X"]},
    "content length in a trailer": (
        "trailerNamesFraming", head(CHUNKED) + b"0\r\nContent-Length: 5\r\n\r\n"),
    "host in a trailer": ("trailerNamesFraming", head(CHUNKED) + b"0\r\nHost: other\r\n\r\n"),
    "trailer beyond the limit": ("trailerTooLarge", head(CHUNKED) + b"0\r\nX: " + b"a" * 5000 + b"\r\n\r\n"),
}
