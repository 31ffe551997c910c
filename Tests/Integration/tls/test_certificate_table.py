"""Every way a client certificate can be no good, in both versions of TLS: the alert that the client sees, what the log says and
of whom, what is counted, and that the service behind never hears of it. And beside each limit what lies just within it."""

import ssl
import time
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from support.client import Client, get, tls_context
from support.command_line import s_client, s_client_alert
from support.denials import TABLE, NothingForwarded, assert_connection_refused
from support.exposition import scrape
from support.gateway import Gateway
from support.pki import AUTHORITY, CLIENT, Authority
from support.ports import reserve_port
from support.recording_upstream import RecordingUpstream
from support.reloading import reload
from support.waiting import eventually
from test_pins import pin

HANDSHAKE_FAILURE, BAD, UNSUPPORTED, REVOKED, EXPIRED, UNKNOWN, UNKNOWN_CA, REQUIRED = 40, 42, 43, 44, 45, 46, 48, 116
VERSIONS = ["1.2", "1.3"]
REQUEST = b"GET /presented HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
SERVER = CLIENT.replace("clientAuth", "serverAuth")
KEYS = ["p256", "p384", "ed25519", "rsa3072"]
UNKNOWN_CRITICAL = "1.2.3.4.5=critical,ASN1:NULL\n"


@dataclass
class Case:
    code: str
    alert: int
    # In the log, behind the names.
    reason: str
    # Made of the PKI and the name.
    identity: object
    # By version, where it is another one.
    alerts: dict = field(default_factory=dict)
    # The listener it comes to, by its name in the fixture.
    at: str = "lists"


def client(**options):
    return lambda pki, name: pki.client(name, **options)


def below(pki, name, issuer, *above, **options):
    """A client below authorities that it presents itself: each with those extensions, from the top down."""
    chain = []
    for depth, extensions in enumerate(above):
        issuer = pki.authority(f"{name}-{depth}", issuer=issuer, extensions=extensions)
        chain.insert(0, issuer.certificate)
    return pki.client(name, issuer=issuer, above=chain, **options)


def below_root(*above, **options):
    return lambda pki, name: below(pki, name, pki.root, *above, **options)


def constrained(constraint, name):
    """A client of that DNS name, below an authority with that name constraint (RFC 5280 section 4.2.1.10)."""
    return below_root(
        AUTHORITY + f"nameConstraints=critical,{constraint}\n", extensions=CLIENT + f"subjectAltName=DNS:{name}\n")


def pathlen(length):
    return AUTHORITY.replace("CA:TRUE", f"CA:TRUE,pathlen:{length}")


def with_purpose(purpose):
    return AUTHORITY + f"extendedKeyUsage={purpose}\n"


def of_expired_authority(pki, name):
    issuing = pki.authority(f"{name}-ca", issuer=pki.root, start=-30, end=-1)
    return pki.client(name, issuer=issuing, above=[issuing.certificate])


def without_its_issuer(pki, name):
    return pki.client(name, issuer=pki.authority(f"{name}-ca", issuer=pki.root))


def of_a_client(pki, name):
    issuer = pki.phone("phone")
    return pki.client(name, issuer=Authority(issuer.certificate, issuer.key), above=[issuer.certificate])


CASES = {
    # TLS 1.2 has no such alert (RFC 5246 section 7.4.6).
    "none": Case("certificate_required", REQUIRED, "", lambda pki, name: None, {"1.2": HANDSHAKE_FAILURE}),
    "self-signed": Case(
        "certificate_unknown_authority", UNKNOWN_CA, "self-signed certificate", client(issuer=None)),
    "wrong-ca": Case(
        "certificate_unknown_authority", UNKNOWN_CA, "unable to get local issuer certificate",
        lambda pki, name: pki.client(name, issuer=pki.authority(f"{name}-ca"))),
    "impostor": Case(
        "certificate_unknown_authority", UNKNOWN_CA, "unable to get local issuer certificate",
        lambda pki, name: pki.client(
            name, issuer=pki.authority(f"{name}-ca", subject="/CN=AttestGate development GMS CA"))),
    "intermediate-missing": Case(
        "certificate_unknown_authority", UNKNOWN_CA, "unable to get local issuer certificate", without_its_issuer),
    "expired": Case("certificate_expired", EXPIRED, "certificate has expired", client(start=-30, end=-1)),
    "not-yet-valid": Case("certificate_expired", EXPIRED, "certificate is not yet valid", client(start=1, end=30)),
    "expired-intermediate": Case(
        "certificate_expired", EXPIRED, "certificate has expired, 1 above it", of_expired_authority),
    "wrong-eku": Case(
        "certificate_unsuitable", UNSUPPORTED, "unsuitable certificate purpose", client(extensions=SERVER)),
    "no-eku": Case(
        "certificate_unsuitable", UNSUPPORTED, "no extended key usage clientAuth",
        client(extensions=CLIENT.replace("extendedKeyUsage=clientAuth\n", ""))),
    "wrong-eku-of-intermediate": Case(
        "certificate_unsuitable", UNSUPPORTED, "unsuitable certificate purpose, 1 above it",
        below_root(with_purpose("serverAuth"))),
    "too-deep": Case(
        "certificate_unsuitable", UNSUPPORTED, "certificate chain too long, 5 above it", below_root(*[AUTHORITY] * 5), at="no-lists"),
    "path-length": Case(
        "certificate_unsuitable", UNSUPPORTED, "path length constraint exceeded, 3 above it",
        below_root(pathlen(1), AUTHORITY, AUTHORITY), at="no-lists"),
    "authority-as-client": Case(
        "certificate_unsuitable", UNSUPPORTED, "the certificate belongs to a certification authority",
        client(extensions=CLIENT.replace("CA:FALSE", "CA:TRUE"))),
    "of-a-client": Case("certificate_unsuitable", UNSUPPORTED, "invalid CA certificate, 1 above it", of_a_client),
    "revoked": Case(
        "certificate_revoked", REVOKED, "revoked by the list of CN=root: keyCompromise",
        client(issuer="root")),
    # It offers a session of the time when it was good.
    "revoked-then-resumed": Case(
        "certificate_revoked", REVOKED, "revoked by the list of CN=root: superseded", client(issuer="root")),
    "stale-crl": Case(
        "crl_stale", UNKNOWN, "the revocation list of CN=table-fading is stale or not yet valid",
        lambda pki, name: pki.client(name, issuer=pki.authority("table-fading"))),
    "missing-crl": Case(
        "crl_stale", UNKNOWN, "there is no revocation list of an issuer in its chain", below_root(AUTHORITY)),
    "not-pinned": Case("certificate_not_pinned", BAD, "its key is not pinned", client(), at="pins"),
    "rsa-1024": Case("certificate_unsuitable", UNSUPPORTED, "EE certificate key too weak", client(kind="RSA-1024")),
    "rsa-2048": Case(
        "certificate_unsuitable", UNSUPPORTED,
        "the certificate has the key RSA-2048, and `keys` accepts p256, p384, ed25519, rsa3072", client(kind="RSA-2048")),
    "sha-1": Case("certificate_unsuitable", UNSUPPORTED, "CA signature digest algorithm too weak", client(digest="sha1")),
    "unknown-critical-extension": Case(
        "certificate_unsuitable", UNSUPPORTED, "unhandled critical extension",
        client(extensions=CLIENT + UNKNOWN_CRITICAL)),
    "unknown-critical-extension-of-intermediate": Case(
        "certificate_unsuitable", UNSUPPORTED, "unhandled critical extension, 1 above it",
        below_root(AUTHORITY + UNKNOWN_CRITICAL)),
    "name-constraint": Case(
        "certificate_unsuitable", UNSUPPORTED, "permitted subtree violation",
        constrained("permitted;DNS:example.org", "www.example.net")),
    "name-constraint-excludes": Case(
        "certificate_unsuitable", UNSUPPORTED, "excluded subtree violation",
        constrained("excluded;DNS:example.net", "www.example.net")),
}

# What lies just within a limit that a case above is beyond.
ADMITTED = {
    "deepest": below_root(*[AUTHORITY] * 4),
    "path-length-kept": below_root(pathlen(1), AUTHORITY),
    "permitted-name": constrained("permitted;DNS:example.org", "www.example.org"),
    "name-that-is-not-excluded": constrained("excluded;DNS:example.net", "www.example.org"),
    "purpose-of-intermediate": below_root(with_purpose("clientAuth,serverAuth")),
    "unknown-extension": client(extensions=CLIENT + UNKNOWN_CRITICAL.replace("critical,", "")),
    # Of the keys that the listeners accept.
    "p-384": client(kind="P-384"),
    "ed25519": client(kind="Ed25519"),
    "rsa-3072": client(kind="RSA-3072"),
    "sha-384": client(digest="sha384"),
}


def identity(pki, name):
    if name.startswith("revoked"):
        return pki.client(f"table-{name}", issuer=pki.root)
    made = CASES[name].identity if name in CASES else ADMITTED[name]
    return made(pki, f"table-{name}")


class Table:
    """A gateway with a listener for each question: one with fresh lists of all authorities but one, whose list has become stale
    since; one without lists; one with pins."""

    def __init__(self, directory, pki, upstream):
        self.directory, self.pki, self.upstream = directory, pki, upstream
        self.fading = pki.authority("table-fading")
        self.crls = {name: directory / f"{name}.crl" for name in ("gms", "root", "fading")}
        self.holders = []

    def start(self, life):
        """- Raises: AssertionError if the list was stale before the gateway had read it."""
        self.pki.crl(self.crls["gms"], self.pki.gms)
        self.write_root_list()
        self.pki.crl(self.crls["fading"], self.fading, end=life / 86_400)
        self.ends = time.time() + life
        authorities = [str(ca.certificate) for ca in (self.pki.gms, self.pki.root, self.fading)]
        self.gateway = Gateway(
            self.directory / f"gateway-{life}", self.pki, {"service": self.upstream.address}, policy="intermediate",
            clients={"authorities": authorities, "crls": list(map(str, self.crls.values())), "keys": KEYS})
        main = self.gateway.conf["listeners"][0]
        self.listeners = {"lists": self.gateway}
        pins = [pin(self.pki, self.pki.phone("phone"))]
        for name, clients in [
                ("no-lists", {"authorities": authorities, "keys": KEYS}), ("pins", {"authorities": authorities, "pins": pins})]:
            holder, port = reserve_port()
            self.holders.append(holder)
            self.gateway.conf["listeners"].append({**main, "address": f"127.0.0.1:{port}", "clients": clients})
            self.listeners[name] = SimpleNamespace(port=port, pki=self.pki, directory=self.gateway.directory)
        self.gateway.start()
        self.sessions = {version: self.keep_session(version) for version in VERSIONS}
        self.write_root_list(("revoked", "keyCompromise"), ("revoked-then-resumed", "superseded"))
        done = reload(self.gateway)
        assert done.returncode == 0, done.stderr

    def write_root_list(self, *revoked):
        self.pki.crl(self.crls["root"], self.pki.root, [(identity(self.pki, name), reason) for name, reason in revoked])

    def keep_session(self, version):
        """A session of the client that will be revoked. The control: it is resumed before the revocation."""
        path = self.gateway.directory / f"session-{version}.pem"
        for offered in [(), ("-sess_in", path)]:
            output = self.ask("revoked-then-resumed", version, "-sess_out", path, *offered)
            assert ("Reused, TLSv" in output) == bool(offered) and "HTTP/1.1 200 OK" in output, output
        return path

    def ask(self, name, version, *arguments, at="lists"):
        return s_client(
            self.listeners[at], f"-tls{version.replace('.', '_')}", *arguments, identity=identity(self.pki, name),
            weak=True, send=REQUEST)

    def present(self, name, version):
        offered = ["-sess_in", self.sessions[version]] if name == "revoked-then-resumed" else []
        return self.ask(name, version, *offered, at=CASES[name].at)

    def stop(self):
        self.gateway.stop()
        for holder in self.holders:
            holder.close()


@pytest.fixture(scope="module")
def table(pki, tmp_path_factory):
    upstream = RecordingUpstream()
    table = Table(tmp_path_factory.mktemp("table"), pki, upstream)
    try:
        for life in (5, 15, 60):
            try:
                table.start(life)
                break
            except AssertionError:
                assert "is stale" in table.gateway.errors
                table.gateway.stop()
        eventually(lambda: time.time() > table.ends + 1, "the list to become stale", patience=120)
        yield table
    finally:
        table.stop()
    upstream.close()
    assert upstream.faults == []


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", CASES)
def test_an_invalid_certificate_is_refused_with_its_alert(table, pki, phone, name, version):
    gateway, upstream = table.gateway, table.upstream
    case, presented = CASES[name], identity(pki, name)
    assert f"alert {case.alert}" == next(row for row in TABLE.values() if row.code == case.code).answer
    # One connection to the service is there already, for the sentinels.
    with Client(gateway, phone) as control:
        assert control.exchange(get("/control")).status == 200
    connections = len(upstream.connections)
    before = counts(gateway, case.code)
    lines = refusals(gateway, case.code)
    with NothingForwarded(gateway, upstream, phone):
        output = table.present(name, version)
        assert s_client_alert(output) == case.alerts.get(version, case.alert)
        assert "Reused, TLSv" not in output
    entry = assert_connection_refused(gateway, case.code, count=len(lines) + 1)
    assert len(refusals(gateway, case.code)) == len(lines) + 1
    if presented:
        names = pki.names(presented)
        said = f"subject {names.subject}, issuer {names.issuer}, serial {names.serial}"
        assert entry["detail"].startswith(said), entry
        assert (f", key id {names.key_id.hex()}: " in entry["detail"]) == (not name.startswith("rsa")), entry
        assert entry["detail"].split(": ", 1)[1].endswith(case.reason), entry
    else:
        assert "detail" not in entry or "subject" not in entry["detail"], entry
    assert counts(gateway, case.code) == [count + 1 for count in before]
    assert len(upstream.connections) == connections, "the service was connected to"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ADMITTED)
def test_a_certificate_just_within_the_limits_is_admitted(table, pki, name, version):
    presented, before = identity(pki, name), len(table.upstream.requests)
    maximum = getattr(ssl.TLSVersion, f"TLSv{version.replace('.', '_')}")
    context = tls_context(pki, presented, maximum=maximum)
    with Client(table.listeners["no-lists"], presented, context=context) as opened:
        assert opened.socket.version() == f"TLSv{version}"
        assert opened.exchange(get("/presented")).status == 200
    assert [request.target for request in table.upstream.requests[before:]] == ["/presented"]


def test_a_key_on_another_curve_than_the_listener_admits_is_refused(table, pki, phone):
    """It is not asked for, so the client presents none."""
    with NothingForwarded(table.gateway, table.upstream, phone):
        output = s_client(table.listeners["pins"], "-tls1_2", identity=identity(pki, "ed25519"), send=REQUEST)
        assert s_client_alert(output) == HANDSHAKE_FAILURE
    assert_connection_refused(table.gateway, "certificate_required")


def refusals(gateway, code):
    return [e for e in gateway.access() if e["event"] == "connection_refused" and e.get("denial") == code]


def counts(gateway, code):
    metrics = scrape(gateway)
    return [
        metrics("attestgate_denials_total", code=code),
        metrics("attestgate_handshakes_total", result=code)]
