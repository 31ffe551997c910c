"""What is stapled to the server certificate: never what a client would not believe."""

import re

import pytest

from support import ocsp
from support.client import Client, get
from support.command_line import s_client
from support.enrolment import Enrolling
from support.exposition import scrape
from support.gateway import Gateway
from support.pki import attestgate
from support.waiting import eventually

REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
SERVER = "basicConstraints=critical,CA:FALSE\nextendedKeyUsage=serverAuth\nsubjectAltName=DNS:localhost\n"
METRIC = "attestgate_ocsp_next_update_timestamp_seconds"


@pytest.fixture
def stapled(tmp_path, pki):
    return ocsp.Stapled(tmp_path, pki)


@pytest.fixture
def make(tmp_path, pki, own_upstream):
    """A gateway that is not started, with that in its listener's section `tls`."""
    def make(tls, **settings):
        gateway = Gateway(tmp_path / "gateway", pki, {"service": own_upstream.address}, **settings)
        gateway.conf["listeners"][0]["tls"].update(tls)
        gateway.write_conf()
        return gateway
    return make


@pytest.fixture
def start(make):
    started = []

    def start(tls, **settings):
        started.append(make(tls, **settings).start())
        return started[-1]
    yield start
    for gateway in started:
        gateway.stop()


def seen(gateway, phone, *arguments):
    """The certificate's status that openssl receives: good, or nothing."""
    output = s_client(gateway, "-status", *arguments, identity=phone, send=REQUEST)
    assert "HTTP/1.1 200" in output, output
    if "OCSP response: no response sent" in output:
        return None
    assert "OCSP Response Status: successful" in output and "Response verify OK" not in output, output
    return re.search(r"Cert Status: (\w+)", output)[1]


def check(gateway):
    return attestgate("check", "--config", gateway.conf_path)


@pytest.mark.parametrize("version", ["-tls1_2", "-tls1_3"])
def test_a_response_is_stapled_only_for_clients_that_request_it(start, stapled, phone, version):
    ends = stapled.write()
    gateway = start(stapled.tls, policy="intermediate", workers=2)
    for _ in range(4):
        assert seen(gateway, phone, version) == "good"
    assert "OCSP" not in s_client(gateway, version, identity=phone, send=REQUEST)
    assert scrape(gateway)(METRIC, listener=f"127.0.0.1:{gateway.port}", subject="CN=localhost") == ends


def test_without_a_response_nothing_is_stapled(gateway, upstream, phone):
    assert seen(gateway, phone) is None
    assert METRIC not in scrape(gateway).kinds


def bad_responses(stapled, pki):
    """Name -> how to write it, and what is said of it."""
    def of_stranger(**options):
        stapled.write(signer=pki.authority("ocsp-stranger"), **options)

    def of_other_leaf():
        other = pki.client("ocsp-other", issuer=stapled.issuer, extensions=SERVER)
        ocsp.write(stapled.response, other.certificate, stapled.issuer)

    def of_unappointed():
        stapled.write(signer=pki.client("ocsp-unappointed", issuer=stapled.issuer, extensions=SERVER))

    return {
        "revoked": (lambda: stapled.write(status="revoked"), "says that CN=localhost is revoked"),
        "unknown": (lambda: stapled.write(status="unknown"), "does not know CN=localhost"),
        "of a stranger": (of_stranger, "is not signed by"),
        "of another certificate of the issuer": (of_unappointed, "is not signed by"),
        "about another certificate": (of_other_leaf, "not about CN=localhost"),
        "an error": (lambda: stapled.response.write_bytes(ocsp.error()), "it is an error response, trylater"),
        "rubbish": (lambda: stapled.response.write_text("rubbish\n"), "it must be DER"),
        "empty": (lambda: stapled.response.write_text(""), "expected a readable DER file"),
    }


BAD = [
    "revoked", "unknown", "of a stranger", "of another certificate of the issuer",
    "about another certificate", "an error", "rubbish", "empty",
]


@pytest.mark.parametrize("name", BAD)
def test_an_invalid_response_is_refused(make, stapled, pki, name):
    bad = bad_responses(stapled, pki)
    assert list(bad) == BAD
    write, words = bad[name]
    write()
    gateway = make(stapled.tls)
    done = check(gateway)
    assert done.returncode != 0 and words in done.stderr and str(stapled.response) in done.stderr, done.stderr
    done = attestgate("run", "--config", gateway.conf_path)
    assert done.returncode != 0 and words in done.stderr, done.stderr
    # The same, but good: nothing else was wrong.
    stapled.write()
    assert check(gateway).returncode == 0


@pytest.mark.parametrize("fault, times", [("stale", {"start": -600, "end": -1}), ("not yet valid", {"start": 600})])
def test_a_stale_response_is_not_stapled_but_only_warned_of(
        make, start, stapled, phone, fault, times):
    stapled.write(**times)
    warning = f"the OCSP response for CN=localhost is {fault} and is not stapled"
    done = check(make(stapled.tls))
    assert done.returncode == 0 and warning in done.stdout + done.stderr, done.stderr
    gateway = start(stapled.tls)
    assert warning in gateway.errors
    assert seen(gateway, phone) is None
    stapled.write()
    assert attestgate("reload", "--config", gateway.conf_path).returncode == 0
    assert seen(gateway, phone) == "good"


def test_a_response_is_refused_without_the_issuer_in_the_certificate_file(make, stapled, pki):
    stapled.write()
    done = check(make({**stapled.tls, "certificate": str(pki.server_certificate)}))
    assert done.returncode != 0
    assert "the certificate that issued CN=localhost" in done.stderr and "does not follow it" in done.stderr


def test_a_delegated_responder_may_sign(start, stapled, pki, phone):
    appointed = SERVER.replace("serverAuth", "OCSPSigning")
    stapled.write(signer=pki.client("ocsp-appointed", issuer=stapled.issuer, extensions=appointed))
    assert seen(start(stapled.tls), phone) == "good"


def test_an_invalid_response_changes_nothing_and_a_reload_staples_a_new_one(start, stapled, phone):
    first = stapled.write()
    gateway = start(stapled.tls)
    stapled.write(status="revoked")
    done = attestgate("reload", "--config", gateway.conf_path)
    assert done.returncode == 1 and "says that CN=localhost is revoked" in done.stderr
    assert seen(gateway, phone) == "good"
    assert scrape(gateway)(METRIC) == first
    second = stapled.write(end=7200)
    assert attestgate("reload", "--config", gateway.conf_path).returncode == 0
    assert scrape(gateway)(METRIC) == second


def test_a_rewritten_response_is_stapled_without_a_reload(start, stapled, phone):
    stapled.write()
    gateway = start(stapled.tls, watch="1s")
    second = stapled.write(end=7200)
    eventually(lambda: scrape(gateway)(METRIC) == second, "the new response to be read")
    assert "OCSP response has changed: reloading" in gateway.errors
    assert seen(gateway, phone) == "good"


def test_a_response_that_becomes_stale_is_stapled_no_more_and_warned_of_once(start, stapled, phone):
    for life in (5, 20, 60):
        stapled.write(end=life)
        try:
            gateway = start(stapled.tls)
            break
        except AssertionError:
            # A slow machine: it was stale before it was read.
            assert life < 60
    eventually(lambda: seen(gateway, phone) is None, "the response to be stapled no more", patience=120)
    warning = "the stapled OCSP response for CN=localhost has ended"
    eventually(lambda: warning in gateway.errors, "the warning")
    # The watch has gone round once more.
    first = len(gateway.errors)
    with Client(gateway, phone) as client:
        assert client.exchange(get("/")).status == 200
    stapled.write()
    assert attestgate("reload", "--config", gateway.conf_path).returncode == 0
    assert seen(gateway, phone) == "good"
    assert warning not in gateway.errors[first:] and gateway.errors.count(warning) == 1


def test_a_must_staple_certificate_without_a_response_is_warned_of(make, start, stapled, pki):
    demanding = pki.client("must-staple", issuer=stapled.issuer, extensions=SERVER + "tlsfeature=status_request\n")
    stapled.leaf = demanding.certificate
    stapled.chain.write_text(stapled.leaf.read_text() + pki.server_ca.read_text())
    tls = {"certificate": str(stapled.chain), "key": str(demanding.key)}
    words = "the certificate of CN=must-staple requires a stapled OCSP response (must-staple)"
    done = check(make(tls))
    assert done.returncode == 0 and words in done.stderr, done.stderr
    gateway = start(tls)
    assert words in gateway.errors
    stapled.write()
    done = check(make({**tls, **stapled.tls}))
    assert done.returncode == 0 and words not in done.stderr


def test_enrolments_listener_staples_too(tmp_path, pki, own_upstream, stapled):
    ends = stapled.write()
    tls = {**stapled.tls, "key": str(pki.server_key)}
    enrolling = Enrolling(tmp_path / "enrolling", pki, own_upstream, enrolment={"tls": tls}, watch="1s")
    try:
        enrolling.start()
        port = int(enrolling.provider.rsplit(":", 1)[1])
        assert scrape(enrolling.gateway)(METRIC, listener=f"127.0.0.1:{port}", subject="CN=localhost") == ends

        class Address:
            directory, pki = enrolling.directory, enrolling.pki

        Address.port = port
        output = s_client(Address, "-status", send=b"GET /x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert "Cert Status: good" in output, output
        later = stapled.write(end=7200)
        eventually(lambda: scrape(enrolling.gateway)(METRIC) == later, "the new response to be read")
        stapled.write(status="revoked")
        done = attestgate("check", "--config", enrolling.gateway.conf_path)
        assert done.returncode != 0 and "says that CN=localhost is revoked" in done.stderr
    finally:
        enrolling.stop()
