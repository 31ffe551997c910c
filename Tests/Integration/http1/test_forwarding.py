"""What the service behind sees: the request that the gateway writes, byte for byte as promised, and what comes back."""

import pytest

from support.client import Client, get, post
from support.recording_upstream import OK
from support.waiting import eventually

FORWARDED = b'Forwarded: for=127.0.0.1;proto=https;host="localhost"\r\n'


def forwarded(upstream, connect, data, **options):
    """Sends a request and returns the very bytes of the head that the service received."""
    client = connect(**options)
    assert client.exchange(data).status == 200
    return upstream.last_request().untraced


def test_a_get_request_is_forwarded_byte_for_byte(upstream, connect):
    data = get("/a/b/%C3%A4?x=1&y=%2F?z", "Accept: */*", "user-agent:  curl \t", "X-Empty:", "ACCEPT: text/html")
    assert forwarded(upstream, connect, data) == (
        b"GET /a/b/%C3%A4?x=1&y=%2F?z HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\nuser-agent: curl\r\nX-Empty: \r\n"
        b"ACCEPT: text/html\r\n" + FORWARDED + b"\r\n")


def test_host_comes_first_as_the_client_wrote_it(upstream, connect, gateway):
    port = gateway.port
    head = forwarded(upstream, connect, b"GET / HTTP/1.1\r\nX: a\r\nHOST:LocalHost:%d\r\nY: b\r\n\r\n" % port)
    assert head == (
        b"GET / HTTP/1.1\r\nHost: LocalHost:%d\r\nX: a\r\nY: b\r\n"
        b'Forwarded: for=127.0.0.1;proto=https;host="localhost:%d"\r\n\r\n' % (port, port))


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "OPTIONS", "HEAD"])
def test_each_method_is_forwarded(upstream, connect, method):
    upstream.answer = b"HTTP/1.1 204 No Content\r\n\r\n"
    client = connect()
    assert client.exchange(get("/", method=method)).status == 204
    length = b"Content-Length: 0\r\n" if method in ("PUT", "PATCH") else b""
    assert upstream.last_request().untraced == (
        method.encode() + b" / HTTP/1.1\r\nHost: localhost\r\n" + FORWARDED + length + b"\r\n")


@pytest.mark.parametrize("field", [
    "Connection: keep-alive", "Keep-Alive: timeout=5", "Proxy-Connection: keep-alive", "TE: trailers", "Trailer: X-T",
    "Upgrade: websocket", "HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA", "Proxy-Authorization: Basic cm9vdDpyb290",
    "Proxy-Authenticate: Basic"])
def test_a_hop_by_hop_field_is_not_forwarded(upstream, connect, field):
    name, value = field.split(":", 1)
    for spelling in [name, name.upper(), name.lower()]:
        head = forwarded(upstream, connect, get("/", f"{spelling}:{value}", "X: kept"))
        assert head == b"GET / HTTP/1.1\r\nHost: localhost\r\nX: kept\r\n" + FORWARDED + b"\r\n"


def test_an_upgrade_is_not_forwarded_and_opens_no_tunnel(upstream, connect):
    client = connect()
    data = get("/", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==")
    assert client.exchange(data).status == 200
    assert upstream.last_request().values("upgrade") == []
    # What follows is read as a request, not passed on blindly.
    assert client.exchange(b"\x81\x05hello\r\n\r\n", "GET").status == 400


def test_content_of_known_length_keeps_it(upstream, connect):
    client = connect()
    assert client.exchange(post("/", b"hello", "Content-Type: text/plain")).status == 200
    request = upstream.last_request()
    assert request.untraced == (
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n" + FORWARDED + b"Content-Length: 5\r\n\r\n")
    assert request.content == b"hello"


def test_a_post_without_content_has_content_length_0(upstream, connect):
    for data in [get("/", method="POST"), get("/", "Content-Length: 0", method="POST")]:
        head = forwarded(upstream, connect, data)
        assert head == b"POST / HTTP/1.1\r\nHost: localhost\r\n" + FORWARDED + b"Content-Length: 0\r\n\r\n"


def chunked(*chunks, trailer=b""):
    sizes = [b"%X\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks]
    return get("/", "transfer-encoding: Chunked", method="POST") + b"".join(sizes) + b"0\r\n" + trailer + b"\r\n"


@pytest.mark.parametrize("is_bytewise", [False, True], ids=["at once", "byte by byte"])
def test_chunked_content_is_rechunked_and_trailers_are_dropped(upstream, connect, is_bytewise):
    data = chunked(b"hello", b" ", b"w" * 26 + b"orld", trailer=b"X-Trailer: 1\r\nAttest-Device: me\r\n")
    client = connect()
    (client.send_bytewise if is_bytewise else client.send)(data)
    assert client.read_response().status == 200
    request = upstream.last_request()
    assert request.untraced == (
        b"POST / HTTP/1.1\r\nHost: localhost\r\n" + FORWARDED + b"Transfer-Encoding: chunked\r\n\r\n")
    assert request.content == b"hello " + b"w" * 26 + b"orld"
    # The strict reader refuses trailers, sizes in capitals and extensions; and the client's connection stays open.
    assert client.exchange(get("/next")).status == 200


def test_a_content_length_of_leading_content_only_is_never_read_past(upstream, connect):
    client = connect()
    client.send(post("/first", b"GET /inner HTTP/1.1\r\nHost: localhost\r\n\r\n") + get("/second"))
    assert [client.read_response().status for _ in range(2)] == [200, 200]
    assert [r.target for r in upstream.requests[-2:]] == ["/first", "/second"]


def test_an_expectation_is_answered_here_and_not_forwarded(upstream, connect):
    client = connect()
    client.send(get("/", "Content-Length: 5", "expect: 100-Continue", method="POST"))
    assert client.read_response().status == 100
    client.send(b"hello")
    assert client.read_response().status == 200
    assert upstream.last_request().values("expect") == []
    assert upstream.last_request().content == b"hello"


def test_an_expectation_without_content_is_not_answered(upstream, connect):
    assert connect().exchange(get("/", "Expect: 100-continue")).status == 200
    assert upstream.last_request().values("expect") == []


def test_pipelined_requests_are_answered_in_order(upstream, connect):
    upstream.answer = lambda request: b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (
        len(request.target), request.target.encode())
    client = connect()
    client.send(b"".join(get(f"/{n}") if n % 3 else post(f"/{n}", b"x" * n) for n in range(60)))
    assert [client.read_response().content.decode() for _ in range(60)] == [f"/{n}" for n in range(60)]


@pytest.mark.parametrize("count", [350, 400, 450, 500, 600, 700, 780, 800, 850, 900, 1000, 1200, 3000])
def test_a_pipeline_deeper_than_every_buffer_is_answered_to_its_end(upstream, connect, count):
    # What TLS has read ahead makes no socket readable: the sizes put the end of the pipeline into each buffer in turn.
    client = connect()
    client.send(get("/deep") * count)
    for _ in range(count):
        assert client.read_response().content == b"ok"
    assert client.exchange(get("/after")).status == 200


def test_a_response_that_is_pipelined_behind_a_denial_still_comes(upstream, connect):
    client = connect(server_name=None)
    client.send(get("/", host="unknown") + get("/known") + get("/", host="unknown") + post("/known", b"hello"))
    assert [client.read_response().status for _ in range(4)] == [404, 200, 404, 200]


def test_connections_to_the_service_are_used_again(start_gateway, own_upstream, phone):
    gateway = start_gateway({"service": own_upstream.address})
    for _ in range(5):
        with Client(gateway, phone) as client:
            for _ in range(5):
                assert client.exchange(post("/", b"hello")).status == 200
    assert len(own_upstream.requests) == 25
    assert len(own_upstream.connections) == 1


def test_a_connection_with_connection_close_is_not_used_again(start_gateway, own_upstream, phone):
    gateway = start_gateway({"service": own_upstream.address})
    own_upstream.answer = OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    with Client(gateway, phone) as client:
        for _ in range(3):
            response = client.exchange(get("/"))
            # The service's connection is not the client's.
            assert response.values("connection") == []
    assert [len(c.requests) for c in own_upstream.connections] == [1, 1, 1]


def test_an_http_1_0_client_gets_an_answer_and_the_end(upstream, connect):
    client = connect()
    response = client.exchange(b"GET /old HTTP/1.0\r\nHost: localhost\r\n\r\n")
    assert (response.status, response.value("connection")) == (200, "close")
    client.assert_closed()
    assert upstream.last_request().untraced == b"GET /old HTTP/1.1\r\nHost: localhost\r\n" + FORWARDED + b"\r\n"


def test_an_http_1_0_client_that_asks_for_it_keeps_its_connection(upstream, connect):
    kept = b"GET /old HTTP/1.0\r\nHost: localhost\r\nConnection: Keep-Alive\r\n\r\n"
    client = connect()
    for _ in range(3):
        response = client.exchange(kept)
        assert (response.status, response.value("connection")) == (200, "keep-alive")
        assert upstream.last_request().untraced == b"GET /old HTTP/1.1\r\nHost: localhost\r\n" + FORWARDED + b"\r\n"
    # A length that is not known is marked by the end of the connection, for chunks are HTTP/1.1's.
    upstream.answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
    response = client.exchange(kept)
    assert (response.value("connection"), response.content) == ("close", b"hello")
    client.assert_closed()


def test_an_http_1_0_client_gets_no_chunks(upstream, connect):
    upstream.answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
    client = connect()
    response = client.exchange(b"GET /old HTTP/1.0\r\nHost: localhost\r\n\r\n")
    assert (response.values("transfer-encoding"), response.content) == ([], b"hello")


def test_a_client_that_says_close_gets_it(upstream, connect):
    client = connect()
    response = client.exchange(get("/", "Connection: close"))
    assert response.value("connection") == "close"
    client.assert_closed()


def test_absolute_form_is_forwarded_as_origin_form(upstream, connect, gateway):
    host = f"localhost:{gateway.port}".encode()
    head = forwarded(upstream, connect, b"GET https://%s/a?b HTTP/1.1\r\nHost: %s\r\n\r\n" % (host, host))
    assert head.startswith(b"GET /a?b HTTP/1.1\r\nHost: %s\r\n" % host)


def test_an_early_answer_leaves_no_half_request_behind(start_gateway, own_upstream, phone):
    """A service that answers before it has the content: its connection is of no more use; the client's is, once the
    little that is left of its request was read over."""
    gateway = start_gateway({"service": own_upstream.address})

    def script(connection):
        connection.read_head()
        connection.send(OK)
        connection.wait_for_end()
    own_upstream.script = script
    with Client(gateway, phone) as client:
        response = client.send(get("/", "Content-Length: 10", method="POST") + b"hello").read_response()
        assert response.status == 200
        eventually(lambda: own_upstream.connections[0].is_closed_by_gateway, "the upstream to be left")
        own_upstream.script = None
        assert client.send(b"world" + get("/next")).read_response().status == 200
    assert [r.target for r in own_upstream.requests] == ["/next"]


def test_an_early_answer_to_content_of_unknown_length_ends_the_connection(start_gateway, own_upstream, phone):
    gateway = start_gateway({"service": own_upstream.address})

    def script(connection):
        connection.read_head()
        connection.send(OK)
        connection.wait_for_end()
    own_upstream.script = script
    with Client(gateway, phone) as client:
        client.send(get("/", "Transfer-Encoding: chunked", method="POST") + b"5\r\nhello\r\n")
        assert client.read_response().value("connection") == "close"
        client.assert_closed()
    eventually(lambda: own_upstream.connections[0].is_closed_by_gateway, "the upstream to be left")
