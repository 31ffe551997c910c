"""A proxy that terminates the phones' TLS: what it writes into requests, and phones behind it."""

import base64
import socket
import urllib.parse
from pathlib import Path

from support.attested import Attested
from support.client import Client, tls_context
from support.http2_client import HTTP2Client
from support.paths import PATIENCE
from support.phone import Phone
from support.pki import CLIENT

EDGE = "edge.internal"

# The usual field of each format.
FIELDS = {
    "rfc9440": "Client-Cert", "pem-urlencoded": "X-SSL-Client-Cert", "der-base64": "X-SSL-Client-Cert",
    "xfcc": "X-Forwarded-Client-Cert", "traefik": "X-Forwarded-Tls-Client-Cert"}


def der(path):
    """The base64 of the first certificate of a PEM file."""
    return Path(path).read_text().split("-----BEGIN CERTIFICATE-----")[1].split("-----END")[0].replace("\n", "")


def value(identity, form="rfc9440"):
    """What a proxy states of a client's certificate."""
    text = der(identity.certificate)
    pem = f"-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n"
    return {
        "rfc9440": f":{text}:", "der-base64": text, "traefik": text,
        "pem-urlencoded": urllib.parse.quote(pem, safe=""),
        "xfcc": f'Hash={base64.b16encode(b"0" * 32).decode()};Cert="{urllib.parse.quote(pem, safe="")}";Subject="CN=\\"a, b\\""',
    }[form]


def stated(identity, form="rfc9440"):
    """The line of a request that states a client's certificate."""
    return f"{FIELDS[form]}: {value(identity, form)}"


def stating(data, *lines):
    """A request, with what a proxy adds."""
    head, end, content = data.partition(b"\r\n\r\n")
    return head + b"".join(b"\r\n" + line.encode("latin-1") for line in lines) + end + content


class EdgeConnection(Client):
    """A connection of the proxy, whose requests are those of one phone, or of whom `sent` says."""

    def __init__(self, gateway, edge, *lines, **options):
        self.lines = lines
        super().__init__(gateway, edge, **options)

    def exchange(self, data, *arguments, **options):
        return super().exchange(stating(data, *self.lines), *arguments, **options)


class LocalConnection(Client):
    """A connection through a Unix socket, without TLS unless there is an identity."""

    def __init__(self, gateway, path, *lines, identity=None):
        self.lines, self.buffer = lines, b""
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(PATIENCE)
        self.socket.connect(str(path))
        if identity:
            self.socket = tls_context(gateway.pki, identity).wrap_socket(
                self.socket, server_hostname="localhost", suppress_ragged_eofs=False)

    def exchange(self, data, *arguments, **options):
        return super().exchange(stating(data, *self.lines), *arguments, **options)


class PhoneBehind(Phone):
    """A phone that reaches the gateway through the proxy."""

    def __init__(self, edge, gateway, identity, form, *arguments, **options):
        self.edge, self.form = edge, form
        super().__init__(gateway, identity, *arguments, **options)

    def connect(self, **options):
        return EdgeConnection(self.gateway, self.edge, stated(self.identity, self.form), **options)

    def connect_http2(self):
        return HTTP2Client(self.gateway, self.edge)


def edge_authority(pki):
    return pki.authority("edges")


def edge_identity(pki, name=EDGE):
    """A proxy's own certificate."""
    return pki.client(
        f"edge-{name}", issuer=edge_authority(pki), extensions=f"{CLIENT}subjectAltName=DNS:{name}\n")


def listener_settings(pki, form="rfc9440", **section):
    """Settings of a gateway whose listener is for the proxy."""
    return {
        "clients": {"authorities": [str(edge_authority(pki).certificate)], "names": [EDGE]},
        "forwarded_certificate": {
            "format": form, "authorities": [str(pki.gms.certificate), str(pki.root.certificate)], **section},
    }


class AttestedBehind(Attested):
    """A gateway whose routes ask for proofs, behind a proxy."""

    def __init__(self, directory, pki, upstream, form="rfc9440", section=None, **settings):
        self.form, self.edge = form, edge_identity(pki)
        super().__init__(directory, pki, upstream, **listener_settings(pki, form, **(section or {})), **settings)

    def new_phone(self, app=None, **options):
        plain = super().new_phone(app, register=False)
        return PhoneBehind(self.edge, self.gateway, plain.identity, self.form, plain.app, **options)
