"""The keys and usages of client certificates that a listener accepts: those that its conf file names, in the leaf and in every
authority above it."""

import re
import ssl

import pytest

from support.client import Client, get, tls_context
from support.command_line import curl, curl_alert, favourite_exchange, key_exchange, s_client, s_client_alert
from support.denials import NothingForwarded, assert_connection_refused, assert_denied
from support.gateway import Gateway
from support.http2_client import HTTP2Client
from support.pki import AUTHORITY, CLIENT, about_the_file, attestgate

CERTIFICATE_REQUIRED, UNSUPPORTED = 116, 43
NO_USAGE = CLIENT.replace("extendedKeyUsage=clientAuth\n", "")
KINDS = {"p256": "P-256", "p384": "P-384", "p521": "P-521", "ed25519": "Ed25519", "rsa2048": "RSA-2048", "rsa3072": "RSA-3072"}
REQUEST = get("/", "Connection: close")


@pytest.fixture(scope="module")
def authorities(pki):
    """An authority with each kind of key."""
    return {name: pki.authority(f"keys-{name}", kind=kind) for name, kind in KINDS.items()}


@pytest.fixture(scope="module")
def made(pki, authorities):
    """A client certificate by the kinds of its key and of its authority's."""
    def made(leaf, authority="p256", suffix="", **options):
        return pki.client(
            f"keys-{leaf}-of-{authority}{suffix}", issuer=authorities[authority], kind=KINDS[leaf], **options)
    return made


@pytest.fixture(scope="module")
def listening(pki, shared_upstream, authorities, tmp_path_factory):
    """Settings of `clients` and a policy -> a gateway that trusts every authority."""
    started = {}

    def listening(policy="modern", **clients):
        key = (policy, str(clients))
        if key not in started:
            files = [str(each.certificate) for each in authorities.values()]
            gateway = Gateway(
                tmp_path_factory.mktemp("keys"), pki, {"service": shared_upstream.address}, policy=policy,
                clients={"authorities": files, **clients})
            started[key] = gateway.start()
        started[key].begin()
        return started[key]
    yield listening
    for gateway in started.values():
        gateway.stop()


def is_served(gateway, identity, *arguments):
    done = curl(gateway, "/", *arguments, identity=identity)
    assert done.returncode != 0 or done.stdout == b"ok", done
    return done.returncode == 0


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_key_is_accepted_where_it_is_named(listening, made, upstream, kind):
    gateway = listening(keys=[kind])
    identity = made(kind, kind)
    assert is_served(gateway, identity)
    with HTTP2Client(gateway, identity) as client:
        assert client.get("/").status == 200
    with Client(gateway, identity) as client:
        assert client.exchange(get("/")).status == 200


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "p256"])
def test_another_key_than_p256_is_refused_by_default(listening, made, upstream, kind):
    gateway, before = listening(), upstream.byte_count
    # A client whose key can sign nothing that is asked for presents no certificate.
    assert curl_alert(curl(gateway, "/", identity=made(kind))) == CERTIFICATE_REQUIRED
    assert_connection_refused(gateway, "certificate_required")
    assert upstream.byte_count == before


@pytest.mark.parametrize("authority", ["p384", "rsa2048"])
def test_an_authority_with_another_key_is_refused_with_the_reason(listening, made, upstream, authority):
    gateway, before = listening(), upstream.byte_count
    identity = made("p256", authority)
    assert curl_alert(curl(gateway, "/", identity=identity)) == UNSUPPORTED
    detail = assert_connection_refused(gateway, "certificate_unsuitable")["detail"]
    assert f"the authority CN=keys-{authority} has the key" in detail and "and `keys` accepts p256" in detail
    assert upstream.byte_count == before
    assert is_served(listening(keys=["p256", authority]), identity)


def test_an_intermediate_counts_like_every_authority(listening, pki, authorities, upstream):
    issuing = pki.authority("keys-issuing", issuer=authorities["p256"], kind="RSA-2048")
    identity = pki.client("keys-below-issuing", issuer=issuing, above=[issuing.certificate])
    gateway = listening()
    assert curl_alert(curl(gateway, "/", identity=identity)) == UNSUPPORTED
    assert "the authority CN=keys-issuing has the key RSA-2048" in assert_connection_refused(
        gateway, "certificate_unsuitable")["detail"]
    assert is_served(listening(keys=["p256", "rsa2048"]), identity)


def test_the_name_of_an_rsa_key_is_its_smallest_modulus(listening, made, upstream):
    assert is_served(listening(keys=["rsa2048", "p256"]), made("rsa3072", "rsa2048"))
    gateway = listening(keys=["p256", "rsa3072"])
    assert is_served(gateway, made("rsa3072"))
    assert curl_alert(curl(gateway, "/", identity=made("rsa2048"))) == UNSUPPORTED
    detail = assert_connection_refused(gateway, "certificate_unsuitable")["detail"]
    assert "the certificate has the key RSA-2048, and `keys` accepts p256, rsa3072" in detail


@pytest.mark.parametrize("bits", [1024, 9216])
def test_no_rsa_key_is_accepted_below_2048_or_above_8192_bits(listening, pki, authorities, upstream, bits):
    gateway = listening(keys=["p256", "rsa2048"])
    identity = pki.client(f"keys-rsa-{bits}", issuer=authorities["p256"], kind=f"RSA-{bits}")
    output = s_client(gateway, identity=identity, weak=True, send=REQUEST)
    assert s_client_alert(output) == UNSUPPORTED
    assert_connection_refused(gateway, "certificate_unsuitable")


@pytest.mark.parametrize("digest", ["sha1", "sha224"])
def test_a_signature_below_sha256_is_refused_with_every_kind_of_key(listening, made, upstream, digest):
    gateway = listening(keys=["p256", "rsa2048"])
    for authority in ["p256", "rsa2048"]:
        identity = made("p256", authority, f"-{digest}", digest=digest)
        output = s_client(gateway, identity=identity, weak=True, send=REQUEST)
        assert s_client_alert(output) == UNSUPPORTED
        assert_connection_refused(gateway, "certificate_unsuitable")


@pytest.mark.parametrize("version", ["tls1_2", "tls1_3"])
@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_key_signs_in_both_versions(listening, made, upstream, kind, version):
    """With TLS 1.2 the curve of a certificate need not be one on which keys are exchanged here."""
    gateway = listening("intermediate", keys=["p256", "p384", "p521", "ed25519", "rsa2048"])
    output = s_client(gateway, f"-{version}", identity=made(kind), send=REQUEST)
    assert "HTTP/1.1 200" in output, output
    # Nobody gets a dear curve for the exchange by that.
    assert key_exchange(output) == ("X25519" if version == "tls1_2" else favourite_exchange())
    output = s_client(gateway, f"-{version}", "-groups", "P-384:P-521", identity=made(kind), send=REQUEST)
    assert s_client_alert(output) == 40


def test_the_signatures_that_are_asked_for_are_those_of_the_keys(listening, made, upstream):
    rsa = [f"{kind}+SHA{bits}" for kind in ("RSA-PSS", "RSA") for bits in (256, 384, 512)]
    for keys, names in [
        (["p256"], ["ECDSA+SHA256"]), (["p384", "p256"], ["ECDSA+SHA256", "ECDSA+SHA384"]),
        (["p256", "ed25519", "rsa4096"], ["ECDSA+SHA256", "ed25519", *rsa]),
    ]:
        output = s_client(listening(keys=keys), identity=made("p256"), send=REQUEST)
        asked = re.search(r"^Requested Signature Algorithms: (\S+)", output, re.MULTILINE)[1]
        assert asked.split(":") == names


# The extended key usage.

def test_a_certificate_without_extended_key_usage_needs_a_listener_that_says_so(listening, made, upstream):
    identity = made("p256", suffix="-no-usage", extensions=NO_USAGE)
    gateway = listening()
    assert curl_alert(curl(gateway, "/", identity=identity)) == UNSUPPORTED
    assert "no extended key usage clientAuth" in assert_connection_refused(gateway, "certificate_unsuitable")["detail"]
    assert is_served(listening(usage="if-present"), identity)
    # As certificates of the wild are: RSA, and not even a key usage.
    bare = made("rsa2048", "rsa2048", "-bare", extensions="basicConstraints=CA:FALSE\n")
    assert is_served(listening(usage="if-present", keys=["rsa2048"]), bare)


@pytest.mark.parametrize("usage", ["serverAuth", "anyExtendedKeyUsage", "emailProtection"])
def test_an_extended_key_usage_that_is_there_must_include_client_auth(listening, made, upstream, usage):
    identity = made("p256", suffix=f"-{usage}", extensions=CLIENT.replace("clientAuth", usage))
    gateway = listening(usage="if-present")
    output = s_client(gateway, identity=identity, weak=True, send=REQUEST)
    assert s_client_alert(output) == UNSUPPORTED
    assert_connection_refused(gateway, "certificate_unsuitable")
    both = made("p256", suffix=f"-also-{usage}", extensions=CLIENT.replace("clientAuth", f"{usage},clientAuth"))
    assert is_served(gateway, both)


def test_an_authority_is_no_client_even_without_extended_key_usage(listening, authorities, upstream):
    gateway = listening(usage="if-present")
    output = s_client(gateway, identity=authorities["p256"], weak=True, send=REQUEST)
    assert s_client_alert(output) == UNSUPPORTED
    assert_connection_refused(gateway, "certificate_unsuitable")


# Sessions, and reloads.

def test_no_session_outlives_the_acceptance_of_its_key(pki, made, own_upstream, start_gateway, authorities):
    gateway = start_gateway(
        {"service": own_upstream.address}, clients={
            "authorities": [str(authorities["p256"].certificate)], "keys": ["p256", "rsa2048"], "usage": "if-present"})
    bare = made("p256", suffix="-no-usage", extensions=NO_USAGE)
    for identity, change, alert in [
        (bare, {"usage": "required"}, "unsupported certificate"), (made("rsa2048"), {"keys": ["p256"]}, "certificate required"),
    ]:
        context = tls_context(pki, identity)
        with Client(gateway, identity, context=context) as client:
            client.exchange(get("/"))
            session = client.socket.session
            client.leave()
        gateway.conf["listeners"][0]["clients"].update(change)
        gateway.write_conf()
        assert attestgate("reload", "--config", gateway.conf_path).returncode == 0
        with pytest.raises(ssl.SSLError, match=f"(?i){alert.replace(' ', '.')}"):
            with Client(gateway, identity, context=context, session=session) as client:
                assert not client.socket.session_reused
                client.send_while_open(get("/")).read_to_end()


# Devices.

@pytest.mark.parametrize("kind", ["p384", "rsa2048"])
def test_a_route_for_devices_refuses_another_key_than_p256(start_attested, pki, authorities, made, own_upstream, kind):
    attested = start_attested(clients={
        "authorities": [str(pki.gms.certificate), *(str(each.certificate) for each in authorities.values())],
        "keys": ["p256", "p384", "rsa2048"]})
    identity = made(kind)
    with NothingForwarded(attested.gateway, own_upstream, attested.phone.identity):
        with Client(attested.gateway, identity) as client:
            for path in ["/device", "/records"]:
                assert_denied(attested.gateway, client.exchange(get(path)), "device_unknown", 401)
    with Client(attested.gateway, identity) as client:
        assert client.exchange(get("/certificate")).status == 200
        assert "attest-device" not in str(own_upstream.last_request().fields).lower()


# What `check` says.

@pytest.fixture
def check(pki, tmp_path, own_upstream, authorities):
    gateway = Gateway(tmp_path / "checked", pki, {"service": own_upstream.address})

    def check(*arguments, hosts=None, **clients):
        listener = gateway.conf["listeners"][0]
        listener["clients"] = {"authorities": [str(pki.gms.certificate)], **clients}
        listener.pop("hosts", None)
        if hosts:
            listener["hosts"] = [{"names": ["localhost"], "tls": listener["tls"], "clients": {
                "authorities": [str(pki.gms.certificate)], **hosts}}]
        gateway.write_conf()
        return attestgate("check", "--config", gateway.conf_path, *arguments)
    check.place = f"listener 127.0.0.1:{gateway.port}"
    return check


def test_check_warns_of_an_authority_none_of_whose_certificates_can_pass(check, pki, authorities):
    paths = [str(authorities[kind].certificate) for kind in ["p256", "rsa2048"]]
    done = check(authorities=paths)
    said = about_the_file(done.stderr)
    assert done.returncode == 0
    assert "the authority CN=keys-rsa2048 has the key RSA-2048, and `keys` accepts p256: no certificate of it can pass" in said
    assert re.search(r"attestgate\.yaml:\d+:\d+: warning: ", said) and "CN=keys-p256" not in said
    assert about_the_file(check(authorities=paths, keys=["p256", "rsa2048"]).stderr) == ""
    other = pki.authority("keys-for-servers", extensions=AUTHORITY + "extendedKeyUsage=serverAuth\n")
    done = check(authorities=[str(other.certificate)])
    assert "CN=keys-for-servers has key usages that exclude client certificates" in done.stderr


def test_check_says_what_a_client_certificate_gets(check, pki, phone, made, authorities):
    done = check("--client-certificate", phone.certificate)
    key_id = pki.names(phone).key_id.hex()
    assert done.returncode == 0
    assert done.stdout.splitlines()[1:] == [f"{check.place}: accepted (key id {key_id})"]

    rsa = made("rsa2048", "rsa2048")
    done = check("--client-certificate", rsa.certificate, authorities=[str(authorities["rsa2048"].certificate)])
    assert done.returncode == 1
    assert done.stdout.splitlines()[1:] == [
        f"{check.place}: refused with certificate_unsuitable, alert unsupported_certificate: "
        "the certificate has the key RSA-2048, and `keys` accepts p256"]
    # One host is enough.
    hosts = {"authorities": [str(authorities["rsa2048"].certificate)], "keys": ["rsa2048"]}
    done = check("--client-certificate", rsa.certificate, hosts=hosts)
    assert done.returncode == 0
    first, second = done.stdout.splitlines()[1:]
    assert first.startswith(f"{check.place}: refused with certificate_unknown_authority, alert unknown_ca: unable to get")
    assert second == f"{check.place}, host localhost: accepted (its key is not on P-256, so it is of no device)"


def test_check_needs_the_chain_that_a_client_sends(check, pki):
    issuing = pki.authority("issuing", issuer=pki.root)
    identity = pki.client("keys-of-issuing", issuer=issuing, above=[issuing.certificate])
    root = [str(pki.root.certificate)]
    assert check("--client-certificate", identity.certificate, authorities=root).returncode == 0
    alone = pki.client("keys-of-issuing", issuer=issuing)
    done = check("--client-certificate", alone.certificate, authorities=root)
    assert done.returncode == 1 and "refused with certificate_unknown_authority" in done.stdout


def test_check_knows_lists_pins_and_dates(check, pki, phone, tmp_path):
    crl = pki.crl(tmp_path / "gms.crl", pki.gms, [(phone, "keyCompromise")])
    pins = ["47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="]
    expired = pki.client("keys-expired", start=-30, end=-1)
    for identity, settings, said in [
        (phone, {"crls": [str(crl)]}, "certificate_revoked, alert certificate_revoked: revoked by the list of"),
        (phone, {"pins": pins}, "certificate_not_pinned, alert bad_certificate: its key is not pinned"),
        (expired, {}, "certificate_expired, alert certificate_expired: certificate has expired"),
    ]:
        done = check("--client-certificate", identity.certificate, **settings)
        assert done.returncode == 1 and f": refused with {said}" in done.stdout, done.stdout


def test_check_without_a_certificate_to_read_is_used_wrongly(check, tmp_path, pki, phone):
    empty = tmp_path / "empty.pem"
    empty.write_text("")
    for arguments in [("--client-certificate", tmp_path / "none.pem"), ("--client-certificate", empty),
                      ("--client-certificate", phone.key), ("--client-certificate",),
                      ("--client-certificate", phone.certificate, "--role", "enrolment")]:
        done = check(*arguments)
        assert done.returncode == 2 and done.stderr, (arguments, done)
