"""Certificates that nobody but the phone has signed: taken in the handshake where the listener says so, good for nothing
until their key is bound to a device, and for nothing any more when that ends."""

import json
import re
import ssl
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from support.attested import ROUTES
from support.client import Client, IncompleteResponse, get, tls_context
from support.command_line import device_tool, s_client, s_client_alert
from support.denials import NothingForwarded, assert_connection_refused, assert_denied, assert_handshake_refused
from support.gateway import APP, Gateway, reserve_port
from support.http2_client import HTTP2Client
from support.phone import Phone
from support.pki import AUTHORITY, CLIENT, Identity, attestgate
from support.recording_upstream import RecordingUpstream

UNKNOWN_CA, EXPIRED, UNSUPPORTED = 48, 45, 43
# Every level, and what needs no route.
PATHS = ["/a", "/device", "/certificate", "/.well-known/attestgate/challenge"]
APPS = [{"id": APP, "environment": "simulator"}, {"id": "TEAMID1234.org.example.other", "environment": "simulator"}]

FURTHER_ROUTES = [
    {"name": "reading", "host": "localhost", "path": "/reading", "methods": ["GET"]},
    {"name": "sockets", "host": "localhost", "path": "/sockets", "websocket": "allowed"},
    {"name": "elsewhere", "host": "elsewhere.example", "path": "/known"},
]


def listener(gateway, accept, authorities=True):
    """A further listener of the gateway, with the same certificate."""
    holder, port = reserve_port()
    first = gateway.conf["listeners"][0]
    clients = {"accept": accept, **({"authorities": first["clients"]["authorities"]} if authorities else {})}
    gateway.conf["listeners"].append({**first, "address": f"127.0.0.1:{port}", "clients": clients})
    return holder, SimpleNamespace(port=port, pki=gateway.pki, directory=gateway.directory)


@pytest.fixture(scope="module")
def served(pki, tmp_path_factory):
    """A gateway that takes both kinds, one kind, and the other."""
    upstream = RecordingUpstream()
    gateway = Gateway(
        tmp_path_factory.mktemp("self-signed"), pki, {"service": upstream.address}, [*ROUTES, *FURTHER_ROUTES], apps=APPS)
    first, issued = listener(gateway, ["issued"])
    second, registered = listener(gateway, ["registered"], authorities=False)
    # Our own side presents only keys that it is asked for.
    gateway.conf["listeners"][0]["clients"].update(accept=["issued", "registered"], keys=["p256", "p384", "rsa3072"])
    with first, second:
        yield SimpleNamespace(
            gateway=gateway.start(), upstream=upstream, issued=issued, registered=registered, pki=pki)
        gateway.stop()
    upstream.close()


@pytest.fixture
def nothing_passes(served, pki):
    return NothingForwarded(served.gateway, served.upstream, pki.phone())


def self_signed(pki, name, **options):
    return pki.client(f"self-{name}", issuer=None, **options)


def registered_phone(served, name, **options):
    return Phone(served.gateway, self_signed(served.pki, name, **options))


# Whose key is bound.

def test_a_self_signed_certificate_of_a_bound_key_passes_every_level(served):
    phone = registered_phone(served, "bound")
    with phone.connect() as client:
        assert client.exchange(get("/certificate")).status == 200
        assert client.exchange(get("/device")).status == 200
        assert client.exchange(phone.request(path="/a", content=b"{}", method="POST")).status == 200
        assert client.exchange(get(PATHS[-1])).status == 204


@pytest.mark.parametrize("name, extensions", [
    ("without-purposes", CLIENT.replace("extendedKeyUsage=clientAuth\n", "")),
    ("any-purpose", CLIENT.replace("clientAuth", "anyExtendedKeyUsage")),
    ("bare", ""),
])
def test_extensions_that_forbid_nothing_may_be_missing(served, name, extensions):
    phone = registered_phone(served, name, extensions=extensions)
    with phone.connect() as client:
        assert client.exchange(get("/certificate")).status == 200


def test_a_listener_may_accept_only_self_signed_certificates(served, pki, nothing_passes):
    phone = registered_phone(served, "alone")
    with Client(served.registered, phone.identity) as client:
        assert client.exchange(get("/device")).status == 200
    with nothing_passes:
        output = s_client(served.registered, identity=pki.phone(), send=get("/certificate", "Connection: close"))
        assert s_client_alert(output) == UNKNOWN_CA


def test_an_authoritys_name_in_a_self_signed_certificate_changes_nothing(served):
    phone = registered_phone(served, "named", subject="/CN=AttestGate development GMS CA")
    with phone.connect() as client:
        assert client.exchange(get("/certificate")).status == 200


# Whose key is not.

@pytest.mark.parametrize("path", PATHS)
def test_a_self_signed_certificate_of_an_unbound_key_passes_nowhere(served, pki, nothing_passes, path):
    with nothing_passes, Client(served.gateway, self_signed(pki, "unbound")) as client:
        response = client.exchange(get(path))
        assert_denied(served.gateway, response, "device_unknown", 401)
        # Each further try costs a handshake.
        assert response.value("connection") == "close"
        client.assert_closed()


HANDSHAKE = ["Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="]
# What others are answered there: status and code. Each would tell a stranger something. The service knows no WebSockets.
PROBES = {
    "a route for certificates": (get("/certificate"), 200, None),
    "a route for devices": (get("/device"), 401, "device_unknown"),
    "a path without route": (get("/certificate", host="elsewhere.example"), 421, "misdirected"),
    "a host of another route": (get("/known", host="elsewhere.example"), 421, "misdirected"),
    "a method without route": (get("/reading", "Content-Length: 0", method="DELETE"), 405, "method_refused"),
    "an unknown method": (get("/certificate", "Content-Length: 0", method="BREW"), 405, "method_refused"),
    "a method of the challenge": (
        get("/.well-known/attestgate/challenge", "Content-Length: 0", method="POST"), 405, "method_refused"),
    "an override": (get("/certificate", "X-HTTP-Method-Override: DELETE"), 400, "header_refused"),
    "too much content": (get("/a", "Content-Length: 100000000", method="POST"), 413, "too_large"),
    "a WebSocket's version": (get("/sockets", *HANDSHAKE, "Sec-WebSocket-Version: 12"), 426, "websocket_version"),
    "a broken WebSocket": (get("/sockets", *HANDSHAKE), 400, "request_malformed"),
    "a WebSocket": (get("/sockets", *HANDSHAKE, "Sec-WebSocket-Version: 13"), 502, "upstream_unavailable"),
    "the challenge": (get("/.well-known/attestgate/challenge"), 204, None),
}
# RFC 9113: no such fields (section 8.2.2); content that does not come is malformed (section 8.1.1).
OVER_HTTP_2 = [name for name in PROBES if "WebSocket" not in name and name != "too much content"]


def seen(response):
    """What a client sees of an answer but for the time and the ids of its trace."""
    content = re.sub(rb'"trace_id":"[0-9a-f]{32}"', b"", response.content)
    fields = sorted((name.lower(), re.sub(" Trace: [0-9a-f]{32}", "", value)) for name, value in response.fields)
    return response.status, [field for field in fields if field[0] != "date"], content


def test_the_probes_tell_whom_an_authority_has_certified(served, pki):
    """The control of the tests below."""
    for name, (request, status, code) in PROBES.items():
        with Client(served.gateway, pki.phone()) as client:
            response = client.exchange(request)
            found = json.loads(response.content)["error"] if response.status >= 400 else None
            assert (response.status, found) == (status, code), name


def test_a_stranger_is_answered_alike_whatever_is_asked(served, pki, nothing_passes):
    identity = self_signed(pki, "curious")
    answers = {}
    with nothing_passes:
        for name, (request, *_) in PROBES.items():
            with Client(served.gateway, identity) as client:
                response = client.exchange(request)
                assert_denied(served.gateway, response, "device_unknown", 401)
                client.assert_closed()
            answers[name] = seen(response)
    for name in PROBES:
        assert answers[name] == answers["a route for devices"], name
    fields = dict(answers["a route for devices"][1])
    assert fields["connection"] == "close" and "accept-signature" not in fields and "allow" not in fields


def test_a_stranger_is_told_nothing_by_head_either(served, pki, nothing_passes):
    identity = self_signed(pki, "curious-head")
    answers = []
    with nothing_passes:
        for path, host in [("/certificate", "localhost"), ("/nowhere", "elsewhere.example"), (PATHS[-1], "localhost")]:
            with Client(served.gateway, identity) as client:
                answers.append(seen(client.exchange(get(path, method="HEAD", host=host))))
                client.assert_closed()
    assert answers == answers[:1] * 3 and answers[0][0] == 401


@pytest.mark.parametrize("media", [None, "application/grpc"])
def test_a_stranger_is_answered_alike_over_http_2(served, pki, nothing_passes, media):
    identity = self_signed(pki, f"curious-2-{bool(media)}")
    answers = {}
    with nothing_passes:
        for name in OVER_HTTP_2:
            request = PROBES[name][0]
            if media:
                request = request.replace(b"\r\n\r\n", f"\r\nContent-Type: {media}\r\n\r\n".encode())
            with HTTP2Client(served.gateway, identity) as client:
                number = client.begin(request)
                response = client.response(number)
                assert response.status == 401
                if media:
                    assert response.value("attest-denial") == "device_unknown" and response.value("grpc-status") == "16"
                client.wait_for_end()
                assert client.going_away
            answers[name] = seen(response)
        # Extended CONNECT (RFC 8441), on a route that permits it and on one that does not.
        for path in ["/sockets", "/certificate", "/nowhere"]:
            with HTTP2Client(served.gateway, identity) as client:
                number = client.start(fields=[("sec-websocket-version", "13")], end=False, pseudo=[
                    (":method", "CONNECT"), (":protocol", "websocket"), (":scheme", "https"),
                    (":authority", "localhost"), (":path", path)])
                response = client.response(number)
                client.wait_for_end()
            if not media:
                answers[f"CONNECT {path}"] = seen(response)
    for name in answers:
        assert answers[name] == answers["a route for devices"], name


def test_an_issued_certificate_of_an_unbound_key_goes_where_one_is_enough(served, pki):
    # The control of the test above.
    with Client(served.gateway, pki.phone()) as client:
        assert client.exchange(get("/certificate")).status == 200


def test_a_proof_of_a_registered_device_does_not_help_an_unbound_key(served, pki, nothing_passes):
    phone = registered_phone(served, "honest")
    with nothing_passes, Client(served.gateway, self_signed(pki, "thief")) as client:
        assert_denied(served.gateway, client.exchange(phone.request(path="/a")), "device_unknown", 401)


def test_a_revoked_devices_self_signed_certificate_is_refused_and_its_connection_ends(served, nothing_passes):
    phone = registered_phone(served, "revoked")
    phone.challenge()
    with phone.connect() as opened:
        assert opened.exchange(get("/certificate")).status == 200
        served.gateway.device_command("revoke", str(phone.number))
        # Though nothing is sent on it.
        try:
            opened.read_to_end()
        except IncompleteResponse:
            pass
    with nothing_passes:
        assert_handshake_refused(served.gateway, phone.identity, "device_revoked")


# The handshake.

def certificate(pki, name, signer=None, subject="forged"):
    """A certificate that says of itself that it is self-signed; signed by another key, if there is `signer`."""
    key = ec.generate_private_key(ec.SECP256R1())
    name_of_it = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)])
    now = datetime.now(timezone.utc)
    made = (
        x509.CertificateBuilder().subject_name(name_of_it).issuer_name(name_of_it).public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
        .sign(signer or key, hashes.SHA256()))
    identity = Identity(pki.directory / f"{name}.pem", pki.directory / f"{name}.key")
    identity.certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    identity.key.write_bytes(key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
    return identity


def assert_refused(served, where, identity, code, alert, weak=False):
    before = len([e for e in served.gateway.access() if e.get("denial") == code])
    output = s_client(where, identity=identity, weak=weak, send=get("/certificate", "Connection: close"))
    assert s_client_alert(output) == alert
    return assert_connection_refused(served.gateway, code, count=before + 1)


UNSUITABLE = {
    "rsa": dict(kind="RSA-3072"),
    "p384": dict(kind="P-384"),
    "server": dict(extensions=CLIENT.replace("clientAuth", "serverAuth")),
    "no-signatures": dict(extensions=CLIENT.replace("digitalSignature", "keyAgreement")),
    "ca": dict(extensions=AUTHORITY + "extendedKeyUsage=clientAuth\n"),
    "ca-that-may-not-sign": dict(extensions=CLIENT.replace("CA:FALSE", "CA:TRUE")),
    "critical": dict(extensions=CLIENT + "1.2.3.4.5=critical,ASN1:NULL\n"),
    "sha-1": dict(digest="sha1"),
}


@pytest.mark.parametrize("name", UNSUITABLE)
def test_an_unsuitable_self_signed_certificate_is_refused(served, pki, nothing_passes, name):
    identity = self_signed(pki, f"unsuitable-{name}", **UNSUITABLE[name])
    with nothing_passes:
        entry = assert_refused(
            served, served.gateway, identity, "certificate_unsuitable", UNSUPPORTED, weak=True)
    assert f"CN=self-unsuitable-{name}" in entry["detail"]


@pytest.mark.parametrize("name, start, end", [("over", -30, -1), ("early", 1, 30)])
def test_a_self_signed_certificate_outside_its_validity_is_refused(served, pki, nothing_passes, name, start, end):
    with nothing_passes:
        assert_refused(
            served, served.gateway, self_signed(pki, name, start=start, end=end), "certificate_expired", EXPIRED)


def test_a_forged_self_signature_is_refused(served, pki, nothing_passes):
    # The control: with its own signature it gets as far as the registry.
    with Client(served.gateway, certificate(pki, "unforged")) as client:
        assert_denied(served.gateway, client.exchange(get("/certificate")), "device_unknown", 401)
    forged = certificate(pki, "forged", signer=ec.generate_private_key(ec.SECP256R1()))
    with nothing_passes:
        assert_refused(served, served.gateway, forged, "certificate_unknown_authority", UNKNOWN_CA)


def test_a_foreign_authority_is_still_refused(served, pki, nothing_passes):
    foreign = pki.authority("self-signed-foreign")
    identity = pki.client("of-self-signed-foreign", issuer=foreign, above=[foreign.certificate])
    with nothing_passes:
        assert_refused(served, served.gateway, identity, "certificate_unknown_authority", UNKNOWN_CA)


def test_an_authoritys_own_certificate_is_refused_as_a_clients(served, pki, nothing_passes):
    authority = Identity(pki.gms.certificate, pki.gms.key)
    with nothing_passes:
        for where in [served.gateway, served.registered]:
            assert_refused(served, where, authority, "certificate_unsuitable", UNSUPPORTED)


def test_a_bound_key_is_refused_where_self_signed_certificates_are_not_accepted(served, nothing_passes):
    phone = registered_phone(served, "elsewhere")
    with nothing_passes:
        assert_refused(served, served.issued, phone.identity, "certificate_unknown_authority", UNKNOWN_CA)


# Resumption.

def session_of(client):
    assert client.exchange(get("/certificate")).status == 200
    session = client.socket.session
    client.leave()
    return session


def test_a_session_is_resumed_only_where_self_signed_certificates_are_taken(served, pki, nothing_passes):
    phone = registered_phone(served, "resuming")
    context = tls_context(pki, phone.identity)
    with Client(served.gateway, None, context=context) as client:
        session = session_of(client)
    # The control, which shows the kind to last as well: the resumed connection is judged by its device.
    with Client(served.gateway, None, context=context, session=session) as client:
        assert client.socket.session_reused
        session = session_of(client)
    with nothing_passes:
        with pytest.raises(ssl.SSLError, match="(?i)unknown.ca"):
            with Client(served.issued, None, context=context, session=session) as client:
                assert not client.socket.session_reused
                client.exchange(get("/certificate"))


def test_a_resumed_session_stays_self_signed(served, pki, nothing_passes):
    identity = self_signed(pki, "resuming-unbound")
    context = tls_context(pki, identity)
    with nothing_passes:
        with Client(served.gateway, None, context=context) as client:
            assert_denied(served.gateway, client.exchange(get("/certificate")), "device_unknown", 401)
            session = client.socket.session
            client.assert_closed()
            client.leave()
        with Client(served.gateway, None, context=context, session=session) as client:
            assert client.socket.session_reused
            assert_denied(served.gateway, client.exchange(get("/certificate")), "device_unknown", 401)


def test_a_session_ends_with_a_reload_that_stops_accepting_its_certificate(pki, own_upstream, tmp_path):
    gateway = Gateway(tmp_path / "gateway", pki, {"service": own_upstream.address}, ROUTES, apps=APPS)
    accept = gateway.conf["listeners"][0]["clients"]
    accept["accept"] = ["issued", "registered"]
    try:
        phone = Phone(gateway.start(), self_signed(pki, "outlived"))
        context = tls_context(pki, phone.identity)
        with Client(gateway, None, context=context) as client:
            session = session_of(client)
        # The control: a reload alone ends no session.
        assert attestgate("reload", "--config", gateway.conf_path).returncode == 0
        with Client(gateway, None, context=context, session=session) as client:
            assert client.socket.session_reused
            session = session_of(client)
        accept["accept"] = ["issued"]
        gateway.write_conf()
        assert attestgate("reload", "--config", gateway.conf_path).returncode == 0
        with NothingForwarded(gateway, own_upstream, pki.phone()):
            with pytest.raises(ssl.SSLError, match="(?i)unknown.ca"):
                with Client(gateway, None, context=context, session=session) as client:
                    assert not client.socket.session_reused
                    client.exchange(get("/certificate"))
    finally:
        gateway.stop()


# The software phone.

def test_the_software_phone_can_sign_its_own_certificate(served, pki, tmp_path):
    done = device_tool("create", "--directory", tmp_path / "phone", "--app-id", APP, "--self-signed", "--json")
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)
    served.gateway.device_command(
        "add", "--app-id", APP, "--public-key", made["public_key"], "--certificate-key", made["certificate_key"])
    done = device_tool(
        "request", "--directory", tmp_path / "phone", "--cacert", pki.server_ca,
        "--resolve", f"localhost:{served.gateway.port}:127.0.0.1", f"https://localhost:{served.gateway.port}/a")
    assert done.returncode == 0 and b"ok" in done.stdout, done
