"""A site that nginx served is moved by docs/adoption/moving.md: the same requests get the same answers, but for those that the page lists."""

import http.client
import json
import re
import shutil
import socket
import ssl
import subprocess
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pytest

from support.documented import blocks
from support.paths import BINARY, ENVIRONMENT, PATIENCE, REPOSITORY
from support.pki import AUTHORITY, SERVER
from support.ports import uncommon_port
from support.waiting import eventually

PAGE = REPOSITORY / "docs" / "adoption" / "moving.md"
WWW, FHIR, FILES = "www.example.org", "fhir.example.org", "files.example.org"
NGINX = shutil.which("nginx", path=ENVIRONMENT["PATH"] + ":/usr/sbin")

pytestmark = pytest.mark.skipif(not NGINX, reason="nginx is not installed")


@dataclass
class Sent:
    """A request by its name, with who sends it and how."""

    host: str
    text: str
    member: bool = True
    http2: bool = False


def raw(host, line, *fields, content="", member=True, named=None):
    """`line` without its version has that of HTTP/1.1."""
    line = line if line.endswith("HTTP/1.0") else f"{line} HTTP/1.1"
    lines = [line, *([] if named == "" else [f"Host: {named or host}"]), *fields]
    return Sent(host, "\r\n".join([*lines, "", ""]) + content, member)


def get(host, target, *fields, **options):
    return raw(host, f"GET {target}", *fields, **options)


def curl(host, *arguments, member=True):
    return Sent(host, "\0".join(arguments), member, http2=True)


SAME = {
    # Methods.
    "GET": get(WWW, "/a"), "HEAD": raw(WWW, "HEAD /a"), "OPTIONS": raw(FHIR, "OPTIONS /fhir/x"),
    "POST": raw(FHIR, "POST /fhir/Patient", "Content-Length: 5", content="hello"),
    "PUT": raw(FHIR, "PUT /fhir/Patient/1", "Content-Length: 5", content="hello"),
    "PATCH": raw(FHIR, "PATCH /fhir/Patient/1", "Content-Length: 5", content="hello"),
    "DELETE": raw(FHIR, "DELETE /fhir/Patient/1"), "POST without content": raw(FHIR, "POST /fhir/x", "Content-Length: 0"),
    "chunks": raw(FHIR, "POST /fhir/x", "Transfer-Encoding: chunked", content="5\r\nhello\r\n0\r\n\r\n"),
    "100-continue": raw(FHIR, "POST /fhir/x", "Content-Length: 5", "Expect: 100-continue", content="hello"),
    "too large": raw(FHIR, "POST /fhir/x", "Content-Length: 2000000"),
    # Targets.
    "FHIR token": get(FHIR, "/fhir/Patient?identifier=urn:oid:1|42"), "brackets": get(FHIR, "/fhir?x[0]=1&y[]=2"),
    "braces": get(FHIR, "/fhir?q={a}"), "caret, backslash, backtick": get(FHIR, "/fhir?a=^&b=\\&c=`"),
    "quote": get(FHIR, "/fhir?name='x'"), "encoded bar": get(FHIR, "/fhir?a=1%7C2"),
    "encoded space": get(FHIR, "/fhir/a%20b?x=%20"), "plus": get(FHIR, "/fhir/a+b?x=1+2"),
    "UTF-8": get(FHIR, "/fhir/%C3%A4"), "punctuation": get(FHIR, "/fhir/:@!$&'()*,=~-._"),
    "date": get(FHIR, "/fhir/Observation?date=ge2026-01-01T00:00:00%2B01:00"), "question marks": get(FHIR, "/fhir?a=b?c"),
    "long query": get(FHIR, "/fhir?" + "a" * 3000), "slash at the end": get(FHIR, "/fhir/"), "prefix itself": get(FHIR, "/fhir"),
    "elsewhere": get(FHIR, "/elsewhere"), "slashes in the query": get(FHIR, "/fhir?a=//b/../c"),
    # Fields.
    "names in lower case": get(WWW, "/a", "accept: text/html"), "no space": get(WWW, "/a", "Accept:text/html"),
    "spaces": get(WWW, "/a", "Accept:   text/html  "), "empty value": get(WWW, "/a", "Accept:"),
    "two fields": get(WWW, "/a", "Accept: a", "Accept: b"), "cookies": get(WWW, "/a", "Cookie: a=1; b=2"),
    "UTF-8 value": get(WWW, "/a", "X-Name: \u00e4"), "claimed address": get(WWW, "/a", "X-Forwarded-For: 8.8.8.8"),
    "claimed protocol": get(WWW, "/a", "X-Forwarded-Proto: http"),
    # Hosts.
    "host in capitals": get(WWW, "/a", named="WWW.Example.ORG"), "two hosts": get(WWW, "/a", "Host: other.example.org"),
    "path parameter": get(FHIR, "/fhir/a;v=1"), "encoded slash": get(FHIR, "/fhir/a%2Fb"), "absolute target": get(WWW, f"https://{WWW}/a"),
    # Versions.
    "HTTP/1.0": raw(WWW, "GET /a HTTP/1.0"), "HTTP/1.0 kept": raw(WWW, "GET /a HTTP/1.0", "Connection: keep-alive"),
    "close": get(WWW, "/a", "Connection: close"), "HTTP/2": curl(WWW, f"https://{WWW}/a"),
    "HTTP/2 POST": curl(FHIR, "--data", "hello", f"https://{FHIR}/fhir/x"),
    "HTTP/2 query": curl(FHIR, f"https://{FHIR}/fhir/Patient?identifier=urn:oid:1|42"),
    "HTTP/2 elsewhere": curl(FHIR, f"https://{FHIR}/elsewhere"),
    "HTTP/2 cookies": curl(WWW, "--header", "Cookie: a=1; b=2", f"https://{WWW}/a"),
    # Certificates.
    "public page": get(WWW, "/a", member=False), "members only": get(WWW, "/members/a", member=False),
    "member": get(WWW, "/members/a"), "public over HTTP/2": curl(WWW, f"https://{WWW}/a", member=False),
    "members only over HTTP/2": curl(WWW, f"https://{WWW}/members/a", member=False),
    "read": get(FILES, "/report.pdf"), "head": raw(FILES, "HEAD /report.pdf"),
}
# Name -> request, answer of nginx and ours, and the words of the page's row. 0 is a refused handshake.
OTHER = {
    "write": (raw(FILES, "POST /report.pdf", "Content-Length: 1", content="x"), 403, 405, "405, with `Allow`"),
    "no certificate": (get(FHIR, "/fhir", member=False), 400, 0, "without a certificate"),
    "two slashes": (get(FHIR, "/fhir//a"), 200, 400, "`//`"), "dot segment": (get(FHIR, "/fhir/./a"), 200, 400, "`//`"),
    "dot segments": (get(FHIR, "/fhir/a/../b"), 200, 400, "`//`"),
    "underscore": (get(WWW, "/a", "X_Name: 1"), 200, 400, "field names"),
    "no host": (get(WWW, "/a", named=""), 421, 400, "without Host"),
    "another host's name": (get(WWW, "/fhir", named=FHIR), 421, 421, None),
}


class Echo(BaseHTTPRequestHandler):
    """Answers with what it was sent."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        if self.headers.get("Transfer-Encoding") == "chunked":
            content = b""
            while size := int(self.rfile.readline(), 16):
                content += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        kept = {name.lower(): self.headers.get_all(name) for name in self.headers.keys()}
        echoed = json.dumps({
            "method": self.command, "target": self.path, "content": content.decode("latin-1"), "fields": {
                name: kept.get(name) for name in [
                    "host", "accept", "cookie", "x-name", "x-forwarded-for", "x-forwarded-proto"]}}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(echoed)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(echoed)

    do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_GET

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def site(pki, tmp_path_factory):
    """Both servers with the page's files, in front of one service."""
    directory = tmp_path_factory.mktemp("site")
    ports = SimpleNamespace(service=uncommon_port(), before=uncommon_port(), after=uncommon_port())
    authority = pki.authority("site-clients", kind="RSA-2048", extensions=AUTHORITY)
    member = pki.client("site-member", issuer=authority, kind="RSA-2048", extensions="basicConstraints=critical,CA:FALSE\n")
    names = ",".join(f"DNS:{name}" for name in [WWW, FHIR, FILES])
    server = pki.client("site-server", issuer=pki.server_authority, extensions=re.sub("DNS:.*", names, SERVER))
    for name, source in [
            ("clients-ca.pem", authority.certificate), ("server.pem", server.certificate), ("server.key", server.key)]:
        shutil.copy(source, directory / name)
    (directory / "server.key").chmod(0o600)
    for block in blocks(PAGE):
        if block.file:
            text = block.text.replace("127.0.0.1:9000", f"127.0.0.1:{ports.service}")
            text = text.replace("127.0.0.1:10443", f"127.0.0.1:{ports.before}").replace("127.0.0.1:12443", f"127.0.0.1:{ports.after}")
            (directory / block.file).write_text(text)
    # As root, nginx would serve as a user who may not read the folder.
    nginx = "user root;\n" + (directory / "nginx.conf").read_text()
    (directory / "nginx.conf").write_text(nginx)
    service = ThreadingHTTPServer(("127.0.0.1", ports.service), Echo)
    threading.Thread(target=service.serve_forever, daemon=True).start()
    logs = [open(directory / f"{name}.log", "wb") for name in ("before", "after")]
    running = [
        subprocess.Popen([NGINX, "-p", directory, "-c", "nginx.conf", "-e", directory / "error.log"], stderr=logs[0]),
        subprocess.Popen([BINARY, "run", "--config", directory / "moved.yaml"], stderr=logs[1], env=ENVIRONMENT)]
    made = SimpleNamespace(
        ports=ports, member=member, pki=pki, logs=lambda: "".join(path.read_text() for path in directory.glob("*.log")))
    for port in (ports.before, ports.after):
        eventually(lambda: not socket.socket().connect_ex(("127.0.0.1", port)), made.logs)
    yield made
    for process in running:
        process.terminate()
        process.wait(PATIENCE)
    service.shutdown()
    service.server_close()


def answer(site, port, sent):
    """- Returns: status and content, 0 for a refused handshake. The content of an error is each server's own."""
    if sent.http2:
        command = ["curl", "--silent", "--http2", "--globoff", "--path-as-is", "--cacert", site.pki.server_ca, "--connect-to", f"::127.0.0.1:{port}",
                   "--write-out", "\n%{http_code}", *sent.text.split("\0")]
        if sent.member:
            command += ["--cert", site.member.certificate, "--key", site.member.key]
        content, _, status = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE).stdout.rpartition("\n")
        return int(status), json.loads(content) if status == "200" else None
    context = ssl.create_default_context(cafile=str(site.pki.server_ca))
    if sent.member:
        context.load_cert_chain(site.member.certificate, site.member.key)
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as plain, \
                context.wrap_socket(plain, server_hostname=sent.host) as connection:
            connection.sendall(sent.text.encode())
            response = http.client.HTTPResponse(connection, method=sent.text.split(" ")[0])
            response.begin()
            content = response.read()
            return response.status, json.loads(content) if response.status == 200 and content else None
    except (ssl.SSLError, ConnectionError):
        return 0, None


@pytest.mark.parametrize("name", SAME)
def test_the_same_request_gets_the_same_answer_and_reaches_the_service_as_the_same(site, name):
    before, after = (answer(site, port, SAME[name]) for port in (site.ports.before, site.ports.after))
    assert after == before


@pytest.mark.parametrize("name", OTHER)
def test_what_gets_another_answer_is_listed_with_its_reason(site, name):
    sent, before, after, row = OTHER[name]
    assert answer(site, site.ports.before, sent)[0] == before
    assert answer(site, site.ports.after, sent)[0] == after
    table = PAGE.read_text().partition("## What differs")[2]
    assert row is None or row in table


def test_there_are_sixty_requests():
    assert len(SAME) + len(OTHER) >= 60
