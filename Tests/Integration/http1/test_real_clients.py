"""The clients that operators try first, against a real nginx."""

import hashlib
import re

import pytest

from support.command_line import curl, s_client


@pytest.fixture
def gateway(start_gateway, nginx):
    return start_gateway({"nginx": nginx.address}, workers=2)


def test_curl_gets(gateway, nginx, phone):
    (nginx.files / "hello").write_text("hello")
    done = curl(gateway, "/files/hello", identity=phone)
    assert (done.returncode, done.stdout) == (0, b"hello"), done.stderr


def test_curl_posts(gateway, phone):
    done = curl(gateway, "/echo", "--data", "a=b", identity=phone)
    host = f"localhost:{gateway.port}"
    assert done.stdout.decode() == f'POST /echo {host} for=127.0.0.1;proto=https;host="{host}"\n', done.stderr


def test_curl_asks_for_the_head(gateway, nginx, phone):
    (nginx.files / "hello").write_text("hello")
    done = curl(gateway, "/files/hello", "--head", identity=phone)
    assert done.returncode == 0 and b"\r\nContent-Length: 5\r\n" in done.stdout


def test_curl_makes_two_requests_on_one_connection(gateway, phone):
    done = curl(gateway, ["/echo?1", "/echo?2"], "--write-out", "%{num_connects}\n", identity=phone)
    lines = done.stdout.decode().splitlines()
    assert [line.split()[1] for line in lines[0::2]] == ["/echo?1", "/echo?2"], done.stderr
    assert lines[1::2] == ["1", "0"]


@pytest.mark.parametrize("framing", [[], ["--header", "Transfer-Encoding: chunked"]], ids=["length", "chunked"])
def test_curl_uploads_fifty_megabytes_byte_for_byte(start_gateway, nginx, phone, tmp_path, framing):
    gateway = start_gateway(
        {"nginx": nginx.address}, [{"name": "all", "host": "localhost", "path": "/", "content_limit": "64MiB"}])
    digest = write_pattern(tmp_path / "up")
    # curl sends Expect: 100-continue with it.
    done = curl(gateway, "/files/up", "--fail", "--upload-file", tmp_path / "up", *framing, identity=phone)
    assert done.returncode == 0, done.stderr
    assert hashlib.sha256((nginx.files / "up").read_bytes()).hexdigest() == digest
    (nginx.files / "up").unlink()


def test_curl_downloads_fifty_megabytes_byte_for_byte(gateway, nginx, phone, tmp_path):
    digest = write_pattern(nginx.files / "down")
    done = curl(gateway, "/files/down", "--fail", "--output", tmp_path / "down", identity=phone)
    assert done.returncode == 0, done.stderr
    assert hashlib.sha256((tmp_path / "down").read_bytes()).hexdigest() == digest


def write_pattern(path):
    """Fifty megabytes in which no two stretches are alike. - Returns: their SHA-256."""
    digest = hashlib.sha256()
    with open(path, "wb") as file:
        for block in range(50):
            data = hashlib.shake_128(block.to_bytes(4, "big")).digest(1_000_000)
            digest.update(data)
            file.write(data)
    return digest.hexdigest()


def test_openssl_s_client_speaks_tls_1_3_and_gets_an_answer(gateway, phone):
    request = b"GET /echo HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    output = s_client(gateway, identity=phone, send=request)
    assert "HTTP/1.1 200 OK" in output and "GET /echo localhost" in output
    assert "New, TLSv1.3" in output and "Verification: OK" in output
    # The authorities are named, so that a phone with several identities presents the right one.
    assert re.search("CN ?= ?AttestGate development GMS CA", output.split("Acceptable client certificate CA names")[1])
