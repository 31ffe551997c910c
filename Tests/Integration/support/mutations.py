"""Valid requests, changed at random in the places where readers of HTTP differ."""

from support.attacks import CHUNKED, SMUGGLED, head
from support.client import get, post
from support.framing_cases import BROKEN, REFUSED, SERVED, chunked, outer

SEEDS = [
    get("/a/b?c=d", "Accept: */*", "X-Empty:", "User-Agent: phone"),
    get("/", "Connection: keep-alive", "Cookie: a=b; c=d") + get("/next"),
    post("/p", b"hello", "Content-Type: text/plain"),
    post("/p", SMUGGLED) + post("/q", b""),
    chunked(b"hello", b"0\r\n\r\n", SMUGGLED) + get("/next"),
    chunked(b"hello", end=b"0\r\nX-Trailer: a\r\nY: b\r\n\r\n", fields=["Trailer: X-Trailer"]) + get("/next"),
    outer("Expect: 100-continue", "Content-Length: 5") + b"hello" + get("/next"),
    outer("Connection: close, TE", "TE: trailers") + SMUGGLED,
    outer("Connection: keep-alive", "Content-Length: 4", version="1.0") + b"body" + SMUGGLED,
    head("Content-Length: 3", line="PUT https://localhost/a%20b HTTP/1.1") + b"abc" + get("/next"),
    outer("Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", method="GET"),
    outer("X-Forwarded-For: 10.0.0.1", "Attest-Device: me", "X-Real-IP: 10.0.0.1", method="HEAD") + get("/next"),
]

# One of these, put in somewhere, is what most attacks are made of.
PIECES = [
    b"\r", b"\n", b"\r\n", b"\n\n", b"\r\n\r\n", b"\r\n ", b"\n\r", b"\r\r\n", b" ", b"\t", b"\0", b"\x0b", b"\x0c", b"\x7f", b"\x80",
    b"\x85", b"\xa0", b"\xff", b":", b" :", b"::", b";", b",", b"=", b'"', b"/", b"//", b"\\", b"..", b"/../", b"/./", b"%", b"%2f", b"%2F",
    b"%00", b"%25", b"%0d%0a", b"?", b"#", b"@", b"*", b"_", b"!", b"~", b"`", b".", b"-", b"+", b"0", b"1", b"00", b"0x", b"f", b"0\r\n\r\n", b"5\r\n",
    b"HTTP/1.1", b" HTTP/1.0", b"GET ", b"HEAD ", b"http://", b"https://localhost", b"chunked", b"identity"]
LINES = [
    CHUNKED, "Transfer-Encoding: identity", "Transfer-Encoding: chunked, chunked", "transfer-encoding:\tchunked", "Content-Length: 5",
    "Content-Length: 0", "Content-Length: 44", "content-length : 5", "Content-Length: 5, 5", "Content-Length: 70000",
    "Content-Length: 300000", "Host: localhost", "Host: evil.example", "Host:", "Connection: close", "Connection: Host",
    "Connection: Content-Length", "Connection: upgrade, te", "Expect: 100-continue", "Expect: x", "X-HTTP-Method-Override: DELETE",
    "X_Y: a", "Attest!Device: me", "X~Y: a", "Proxy: a", "X-Host: a", "Host: localhost:8443", "X-Override-URL: /a", " folded", "\tfolded", "Upgrade: h2c", "Trailer: Content-Length", "Authorization: a", "Content-Type: a/b", "", ":", "X"]


def _insert(data, chance):
    place = chance.randrange(len(data) + 1)
    return data[:place] + chance.choice(PIECES) + data[place:]


def _insert_at_a_boundary(data, chance):
    """Beside a character that means something to the framing."""
    places = [place for place, octet in enumerate(data) if octet in b"\r\n: ;,/"] or [0]
    place = chance.choice(places) + chance.randrange(2)
    return data[:place] + chance.choice(PIECES) + data[place:]


def _remove(data, chance):
    place = chance.randrange(len(data))
    return data[:place] + data[place + chance.choice([1, 1, 1, 2, 5]):]


def _replace(data, chance):
    place = chance.randrange(len(data))
    return data[:place] + chance.choice(PIECES) + data[place + 1:]


def _flip(data, chance):
    place = chance.randrange(len(data))
    return data[:place] + bytes([data[place] ^ 1 << chance.randrange(8)]) + data[place + 1:]


def _change_number(data, chance):
    places = [place for place, octet in enumerate(data) if octet in b"0123456789"] or [0]
    place = chance.choice(places)
    return data[:place] + chance.choice([b"0", b"1", b"2", b"9", b"a", b"", b"12", b"fffffffff"]) + data[place + 1:]


def _change_case(data, chance):
    place = chance.randrange(len(data))
    end = place + chance.randrange(1, 12)
    return data[:place] + data[place:end].swapcase() + data[end:]


def _lines(data, chance, change):
    lines = data.split(b"\r\n")
    change(lines, chance.randrange(len(lines)))
    return b"\r\n".join(lines)


def _insert_line(data, chance):
    line = chance.choice(LINES).encode()
    return _lines(data, chance, lambda lines, place: lines.insert(place, line))


def _double_line(data, chance):
    return _lines(data, chance, lambda lines, place: lines.insert(chance.randrange(len(lines)), lines[place]))


def _drop_line(data, chance):
    return _lines(data, chance, lambda lines, place: lines.pop(place))


def _change_line_end(data, chance):
    parts = data.split(b"\r\n")
    place = chance.randrange(1, max(2, len(parts)))
    return b"\r\n".join(parts[:place]) + chance.choice([b"\n", b"\r", b"\n\r", b"\r\r\n", b""]) + b"\r\n".join(parts[place:])


def _cut(data, chance):
    return data[:chance.randrange(1, len(data) + 1)]


def _splice(data, chance):
    other = chance.choice(ALL)
    return data[:chance.randrange(len(data))] + other[chance.randrange(len(other)):]


WAYS = [
    _insert, _insert_at_a_boundary, _insert_at_a_boundary, _remove, _replace, _flip, _change_number, _change_number, _change_case,
    _insert_line, _insert_line, _double_line, _drop_line, _change_line_end, _cut, _splice]
# Long ones find nothing that short ones do not.
ALL = SEEDS + [data for cases in (SERVED, REFUSED, BROKEN) for case in cases.values()
               for data in [case[0] if isinstance(case, tuple) else case] if len(data) < 1000]


def mutate(chance):
    """Of the ordinary ones half the time, else of the named attacks; one change mostly, three at most."""
    data = chance.choice(chance.choice([SEEDS, ALL]))
    for _ in range(chance.choice([1, 1, 1, 2, 2, 3])):
        data = chance.choice(WAYS)(data, chance) or b"\r\n"
    return data
