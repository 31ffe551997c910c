"""Every way a client certificate can be no good, in both versions of TLS: the alert that the client sees, what the log says and
of whom, what is counted, and that the service behind never hears of it."""

import time
from dataclasses import dataclass, field

import pytest

from client import Client, get
from command_line import s_client, s_client_alert
from denials import NothingForwarded, assert_connection_refused
from exposition import scrape
from gateway import Gateway
from pki import AUTHORITY, CLIENT
from recording_upstream import RecordingUpstream
from waiting import eventually

HANDSHAKE_FAILURE, UNSUPPORTED, REVOKED, EXPIRED, UNKNOWN, UNKNOWN_CA, REQUIRED = 40, 43, 44, 45, 46, 48, 116
REQUEST = b"GET /refused HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


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


def client(**options):
    return lambda pki, name: pki.client(name, **options)


def below(pki, name, count, issuer):
    """A client below that many authorities that it presents itself."""
    above = []
    for depth in range(count):
        issuer = pki.authority(f"{name}-{depth}", issuer=issuer)
        above.insert(0, issuer.certificate)
    return pki.client(name, issuer=issuer, above=above)


def constrained(pki, name):
    extensions = AUTHORITY + "nameConstraints=critical,permitted;DNS:example.org\n"
    issuing = pki.authority(f"{name}-ca", issuer=pki.root, extensions=extensions)
    return pki.client(
        name, issuer=issuing, above=[issuing.certificate], extensions=CLIENT + "subjectAltName=DNS:example.net\n")


def stale(pki, name):
    return pki.client(name, issuer=pki.authority("table-fading"))


CASES = {
    # TLS 1.2 has no such alert (RFC 5246 section 7.4.6).
    "none": Case("certificate_required", REQUIRED, "", lambda pki, name: None, {"1.2": HANDSHAKE_FAILURE}),
    "self-signed": Case(
        "certificate_unknown_authority", UNKNOWN_CA, "self-signed certificate", client(issuer=None)),
    "wrong-ca": Case(
        "certificate_unknown_authority", UNKNOWN_CA, "unable to get local issuer certificate",
        lambda pki, name: pki.client(name, issuer=pki.authority(f"{name}-ca"))),
    "expired": Case("certificate_expired", EXPIRED, "certificate has expired", client(start=-30, end=-1)),
    "not-yet-valid": Case("certificate_expired", EXPIRED, "certificate is not yet valid", client(start=1, end=30)),
    "wrong-eku": Case(
        "certificate_unsuitable", UNSUPPORTED, "unsuitable certificate purpose",
        client(extensions=CLIENT.replace("clientAuth", "serverAuth"))),
    "too-deep": Case(
        "certificate_unsuitable", UNSUPPORTED, "certificate chain too long",
        lambda pki, name: below(pki, name, 6, pki.root)),
    "revoked": Case("certificate_revoked", REVOKED, "revoked by the list of CN=root: keyCompromise", client(issuer="root")),
    "stale-crl": Case(
        "crl_stale", UNKNOWN, "the revocation list of CN=table-fading is stale or not yet valid", stale),
    "missing-crl": Case(
        "crl_stale", UNKNOWN, "there is no revocation list of an issuer in its chain",
        lambda pki, name: below(pki, name, 1, pki.root)),
    "rsa-1024": Case("certificate_unsuitable", UNSUPPORTED, "EE certificate key too weak", client(kind="RSA-1024")),
    "sha-1": Case("certificate_unsuitable", UNSUPPORTED, "CA signature digest algorithm too weak", client(digest="sha1")),
    "unknown-critical-extension": Case(
        "certificate_unsuitable", UNSUPPORTED, "unhandled critical extension",
        client(extensions=CLIENT + "1.2.3.4.5=critical,ASN1:NULL\n")),
    "name-constraint": Case("certificate_unsuitable", UNSUPPORTED, "permitted subtree violation", constrained),
}


def identity(pki, name):
    made = CASES[name].identity
    if name == "revoked":
        return pki.client("table-revoked", issuer=pki.root)
    return made(pki, f"table-{name}")


@pytest.fixture(scope="module")
def table(pki, tmp_path_factory):
    """A gateway that has a fresh list of each authority but one, whose list has become stale since."""
    directory = tmp_path_factory.mktemp("table")
    upstream = RecordingUpstream()
    fading = pki.authority("table-fading")
    crls = [directory / f"{name}.crl" for name in ("gms", "root", "fading")]
    pki.crl(crls[0], pki.gms)
    pki.crl(crls[1], pki.root, [(identity(pki, "revoked"), "keyCompromise")])
    for life in (5, 20, 60):
        pki.crl(crls[2], fading, end=life / 86_400)
        ends = time.time() + life
        gateway = Gateway(
            directory / f"gateway-{life}", pki, {"service": upstream.address}, policy="intermediate",
            clients={
                "authorities": [str(ca.certificate) for ca in (pki.gms, pki.root, fading)], "crls": list(map(str, crls))})
        try:
            gateway.start()
            break
        except AssertionError:
            # The list was stale before the gateway had read it.
            assert "is stale" in gateway.errors
    eventually(lambda: time.time() > ends + 1, "the list to become stale", patience=120)
    yield gateway, upstream
    gateway.stop()
    upstream.close()
    assert upstream.faults == []


@pytest.mark.parametrize("version", ["1.2", "1.3"])
@pytest.mark.parametrize("name", CASES)
def test_a_certificate_that_is_no_good_is_refused_with_its_alert(table, pki, phone, name, version):
    gateway, upstream = table
    case, presented = CASES[name], identity(pki, name)
    # One connection to the service is there already, for the sentinels.
    with Client(gateway, phone) as control:
        assert control.exchange(get("/control")).status == 200
    connections = len(upstream.connections)
    before = counts(gateway, case.code)
    lines = refusals(gateway, case.code)
    with NothingForwarded(gateway, upstream, phone):
        output = s_client(gateway, f"-tls{version.replace('.', '_')}", identity=presented, weak=True, send=REQUEST)
        assert s_client_alert(output) == case.alerts.get(version, case.alert)
    entry = assert_connection_refused(gateway, case.code, count=len(lines) + 1)
    assert len(refusals(gateway, case.code)) == len(lines) + 1
    if presented:
        names = pki.names(presented)
        said = f"subject {names.subject}, issuer {names.issuer}, serial {names.serial}"
        assert entry["detail"].startswith(said), entry
        assert (f", key id {names.key_id.hex()}: " in entry["detail"]) == (name != "rsa-1024"), entry
        assert case.reason in entry["detail"].split(": ", 1)[1], entry
    assert counts(gateway, case.code) == [count + 1 for count in before]
    assert len(upstream.connections) == connections, "the service was connected to"


def refusals(gateway, code):
    return [e for e in gateway.access() if e["event"] == "connection_refused" and e.get("denial") == code]


def counts(gateway, code):
    metrics = scrape(gateway)
    return [
        metrics("attestgate_denials_total", code=code),
        metrics("attestgate_handshakes_total", result=code)]
