"""Every certificate that proves nothing is refused in the handshake, with the alert that says why.

TLS 1.3 clients have sent their request by the time they are refused: not a byte of it may go on.
"""

import pytest

from support.command_line import curl, curl_alert, s_client, s_client_alert
from support.denials import TABLE, assert_connection_refused
from support.pki import AUTHORITY, CLIENT, Authority, Identity

CERTIFICATE_REQUIRED, UNKNOWN_CA, EXPIRED, UNSUPPORTED = 116, 48, 45, 43


@pytest.fixture(params=["openssl s_client", "curl"])
def refused(request, gateway, nothing_forwarded):
    """Asserts that a client with this identity is refused with this denial and its exact alert."""
    def check(identity, code, alert, subject=None, weak=False):
        row = next(row for row in TABLE.values() if row.code == code)
        assert row.answer == f"alert {alert}"
        before = len([e for e in gateway.access() if e.get("denial") == code])
        with nothing_forwarded:
            if request.param == "curl":
                seen = curl_alert(curl(gateway, "/refused", identity=identity, weak=weak))
            else:
                request_bytes = b"GET /refused HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
                seen = s_client_alert(s_client(gateway, identity=identity, weak=weak, send=request_bytes))
        assert seen == alert
        entry = assert_connection_refused(gateway, code, count=before + 1)
        if subject:
            assert subject in entry["detail"]
        return entry
    return check


def test_no_certificate_is_refused_with_certificate_required(refused):
    refused(None, "certificate_required", CERTIFICATE_REQUIRED)


def test_a_self_signed_certificate_is_refused_with_unknown_ca(refused, pki):
    identity = pki.client("self-signed", issuer=None)
    refused(identity, "certificate_unknown_authority", UNKNOWN_CA, subject="CN=self-signed")


def test_a_certificate_of_a_foreign_ca_is_refused_with_unknown_ca(refused, pki):
    identity = pki.client("of-foreign", issuer=pki.authority("foreign-ca"))
    refused(identity, "certificate_unknown_authority", UNKNOWN_CA, subject="CN=of-foreign")


def test_a_foreign_ca_that_bears_our_cas_name_is_refused_with_unknown_ca(refused, pki):
    impostor = pki.authority("impostor", subject="/CN=AttestGate development GMS CA")
    refused(pki.client("of-impostor", issuer=impostor), "certificate_unknown_authority", UNKNOWN_CA)


def test_a_foreign_ca_that_comes_along_in_the_chain_is_refused_with_unknown_ca(refused, pki):
    foreign = pki.authority("foreign-root")
    identity = pki.client("with-root", issuer=foreign, above=[foreign.certificate])
    refused(identity, "certificate_unknown_authority", UNKNOWN_CA)


def test_the_servers_own_certificate_is_no_client_certificate(refused, pki):
    identity = Identity(pki.server_certificate, pki.server_key)
    refused(identity, "certificate_unknown_authority", UNKNOWN_CA)


@pytest.mark.parametrize("name, start, end", [("expired", -30, -1), ("not-yet-valid", 1, 30)])
def test_a_certificate_outside_its_validity_is_refused_with_certificate_expired(refused, pki, name, start, end):
    identity = pki.client(name, start=start, end=end)
    refused(identity, "certificate_expired", EXPIRED, subject=f"CN={name}")


@pytest.mark.parametrize("name, start, end", [("expired-ca", -30, -1), ("future-ca", 1, 30)])
def test_an_issuing_ca_outside_its_validity_is_refused_with_certificate_expired(refused, pki, name, start, end):
    issuing = pki.authority(name, issuer=pki.root, start=start, end=end)
    identity = pki.client(f"of-{name}", issuer=issuing, above=[issuing.certificate])
    refused(identity, "certificate_expired", EXPIRED)


UNSUITABLE = {
    "no-eku": dict(extensions=CLIENT.replace("extendedKeyUsage=clientAuth\n", "")),
    "server-auth-only": dict(extensions=CLIENT.replace("clientAuth", "serverAuth")),
    "any-eku-only": dict(extensions=CLIENT.replace("clientAuth", "anyExtendedKeyUsage")),
    "ca-as-leaf": dict(extensions=AUTHORITY + "extendedKeyUsage=clientAuth\n"),
    "ca-that-may-not-sign": dict(extensions=CLIENT.replace("CA:FALSE", "CA:TRUE")),
    "unknown-critical-extension": dict(extensions=CLIENT + "1.2.3.4.5=critical,ASN1:NULL\n"),
    "sha-1": dict(digest="sha1"),
}


@pytest.mark.parametrize("name", UNSUITABLE)
def test_an_unsuitable_certificate_is_refused_with_unsupported_certificate(refused, pki, name):
    identity = pki.client(name, **UNSUITABLE[name])
    refused(identity, "certificate_unsuitable", UNSUPPORTED, subject=f"CN={name}", weak=True)


def test_an_issuing_ca_with_a_p224_key_is_refused_with_unsupported_certificate(refused, pki):
    issuing = pki.authority("p224-ca", issuer=pki.root, kind="P-224")
    identity = pki.client("of-p224-ca", issuer=issuing, above=[issuing.certificate])
    refused(identity, "certificate_unsuitable", UNSUPPORTED, weak=True)


def test_a_client_certificate_cannot_issue_another(refused, pki, phone):
    identity = pki.client("of-phone", issuer=Authority(phone.certificate, phone.key), above=[phone.certificate])
    refused(identity, "certificate_unsuitable", UNSUPPORTED, weak=True)


def test_a_p224_key_is_refused_with_unsupported_certificate(start_gateway, own_upstream, pki):
    # TLS 1.3 knows no signature with such a key, so only a listener that admits TLS 1.2 can be shown one.
    gateway = start_gateway({"service": own_upstream.address}, policy="intermediate")
    identity = pki.client("p224", kind="P-224")
    output = s_client(gateway, "-tls1_2", identity=identity, weak=True)
    assert s_client_alert(output) == UNSUPPORTED
    assert_connection_refused(gateway, "certificate_unsuitable")
    assert own_upstream.connections == []


def test_a_key_on_p256_is_admitted(gateway, pki, upstream):
    identity = pki.client("strong-p-256", kind="P-256")
    done = curl(gateway, "/admitted", identity=identity)
    assert (done.returncode, done.stdout) == (0, b"ok"), done.stderr


def test_a_ca_below_one_that_admits_none_is_refused_with_unsupported_certificate(refused, pki):
    # The GMS CA's path length constraint is 0.
    issuing = pki.authority("below-gms", issuer=pki.gms)
    identity = pki.client("of-below-gms", issuer=issuing, above=[issuing.certificate])
    refused(identity, "certificate_unsuitable", UNSUPPORTED)


def test_a_certificate_of_an_issuing_ca_below_ours_is_admitted(gateway, pki, upstream):
    issuing = pki.authority("issuing", issuer=pki.root)
    identity = pki.client("of-issuing", issuer=issuing, above=[issuing.certificate])
    done = curl(gateway, "/admitted", identity=identity)
    assert (done.returncode, done.stdout) == (0, b"ok"), done.stderr
