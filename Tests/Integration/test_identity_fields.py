"""Nothing that a client says in a proxy's name reaches a service, however it is spelled."""

import random

import pytest

from client import get
from test_forwarding import FORWARDED

# From the design: families are given with some of their members.
IDENTITY_FIELDS = [
    "Client-Cert", "Client-Cert-Chain", "Client-Cert-Anything", "Attest-Device", "Attest-App", "Attest-Platform",
    "Attest-Counter", "Attest-Anything", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto",
    "X-Forwarded-Client-Cert", "X-Forwarded-Anything", "Forwarded", "X-Real-IP", "X-Client-Cert",
    "X-Client-Cert-Subject", "X-Client-Certificate", "X-SSL-Client-Verify", "X-SSL-Client-S-DN", "X-SSL-Anything",
    "SSL-Client-Cert", "SSL-Client-Verify", "X-Amzn-Mtls-Clientcert", "X-Amzn-Mtls-Clientcert-Leaf", "X-Device-Token",
    "ZETA-User-Info", "ZETA-Anything",
    # Named by this gateway's conf file.
    "X-Internal-User",
]


@pytest.mark.parametrize("name", IDENTITY_FIELDS)
def test_an_identity_field_is_removed_in_every_spelling_and_number(upstream, connect, name):
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    mixed = "".join(random.Random(seed).choice([c.lower(), c.upper()]) for c in name)
    client = connect()
    for fields in [
        [name], [name.lower()], [name.upper()], [mixed], [name, name], [name, name.lower(), mixed, name.upper()],
    ]:
        data = get("/", "X-Before: 1", *(f"{spelling}: admin" for spelling in fields), "X-After: 2")
        assert client.exchange(data).status == 200
        assert upstream.last_request().untraced == (
            b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Before: 1\r\nX-After: 2\r\n" + FORWARDED + b"\r\n")


@pytest.mark.parametrize("name", IDENTITY_FIELDS)
def test_an_identity_field_that_connection_names_is_refused(connect, nothing_forwarded, name):
    with nothing_forwarded:
        assert connect().exchange(get("/", f"Connection: {name}", f"{name}: admin")).status == 400


@pytest.mark.parametrize("name", IDENTITY_FIELDS)
def test_an_identity_field_spelled_with_underscores_or_dots_is_refused(connect, nothing_forwarded, name):
    if "-" not in name:
        pytest.skip("the name has but one spelling")
    with nothing_forwarded:
        for spelling in [name.replace("-", "_"), name.replace("-", "_", 1), name.replace("-", ".")]:
            assert connect().exchange(get("/", f"{spelling}: admin")).status == 400


def test_forwarded_is_set_once_and_correctly(upstream, connect):
    data = get("/", 'Forwarded: for=10.0.0.1;proto=http;host="evil"', "forwarded: for=10.0.0.2", host="LOCALHOST:1234")
    assert connect().exchange(data).status == 200
    assert upstream.last_request().values("forwarded") == ['for=127.0.0.1;proto=https;host="LOCALHOST:1234"']


def test_fields_that_only_resemble_identity_are_forwarded(upstream, connect):
    fields = ["Client: 1", "X-Forward: 2", "X-Client: 3", "XX-SSL-Client: 4", "Attest: 5", "ZETA: 6", "My-Client-Cert: 7",
              "X-Real-IPs: 8", "Authorization: Bearer x", "Cookie: a=b"]
    assert connect().exchange(get("/", *fields)).status == 200
    assert upstream.last_request().untraced == (
        b"GET / HTTP/1.1\r\nHost: localhost\r\n" + "".join(f"{f}\r\n" for f in fields).encode() + FORWARDED + b"\r\n")
