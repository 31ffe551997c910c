"""What a listener offers of TLS by its policy, and nothing beside it: seen by the openssl command."""

import re

import pytest

from support.client import Client, get
from support.client_hello import answer, client_hello
from support.command_line import favourite_exchange, has_hybrid_exchange, key_exchange, s_client, s_client_alert
from support.denials import assert_connection_refused
from support.exposition import Difference, scrape
from support.pki import AUTHORITY, CLIENT, Authority, attestgate, openssl

HANDSHAKE_FAILURE, ILLEGAL_PARAMETER, PROTOCOL_VERSION, NO_APPLICATION_PROTOCOL = 40, 47, 70, 120
REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
SERVER = "basicConstraints=critical,CA:FALSE\nextendedKeyUsage=serverAuth\nsubjectAltName=DNS:localhost\n"

# Mozilla's guidelines 5.7, the best first; of intermediate without DHE.
SUITES = ["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"]
CIPHERS = ["ECDHE-{}-AES128-GCM-SHA256", "ECDHE-{}-AES256-GCM-SHA384", "ECDHE-{}-CHACHA20-POLY1305"]
VERSIONS = {"modern": ["tls1_3"], "intermediate": ["tls1_2", "tls1_3"]}


@pytest.fixture(scope="module")
def listening(pki, shared_upstream, tmp_path_factory):
    """Policy and kind of the server's key -> a gateway."""
    from support.gateway import Gateway

    made = {}

    def listening(policy, kind="P-256"):
        if (policy, kind) not in made:
            gateway = Gateway(
                tmp_path_factory.mktemp("policy"), pki, {"service": shared_upstream.address}, policy=policy,
                clients={"keys": ["p256", "p384", "rsa3072"]})
            if kind != "P-256":
                gateway.conf["listeners"][0]["tls"].update(tls(server_identity(pki, kind)))
            made[policy, kind] = gateway.start()
        return made[policy, kind]
    yield listening
    for gateway in made.values():
        gateway.stop()


def server_identity(pki, kind, **options):
    issuer = Authority(pki.server_ca, pki.directory / "server-ca.key")
    name = f"server-{kind.lower()}" + "".join(f"-{value}" for value in options.values())
    return pki.client(name, issuer=issuer, extensions=SERVER, kind=kind, **options)


def tls(identity):
    return {"certificate": str(identity.certificate), "key": str(identity.key)}


@pytest.fixture(params=list(VERSIONS))
def policy(request):
    return request.param


def connect(gateway, phone, *arguments, **options):
    """- Returns: what s_client printed if it got an answer to its request, or the number of the alert."""
    output = s_client(gateway, *arguments, identity=phone, send=REQUEST, **options)
    return output if "HTTP/1.1 200" in output else s_client_alert(output)


def served(gateway, phone, *arguments, **options):
    output = connect(gateway, phone, *arguments, **options)
    assert isinstance(output, str), f"alert {output}"
    return output


def cipher(output):
    return re.search(r"Cipher is (\S+)", output)[1]


def order(gateway, phone, option, names, *arguments):
    """Offers everything, the last first, and again without what was chosen, until nothing is. - Returns: what was chosen."""
    chosen = []
    while left := [name for name in reversed(names) if name not in chosen]:
        output = connect(gateway, phone, *arguments, option, ":".join(left), weak=True)
        if isinstance(output, int):
            assert output == HANDSHAKE_FAILURE
            return chosen
        chosen.append(cipher(output))
    return chosen


def test_only_the_policys_versions_are_offered(listening, phone, policy, upstream):
    gateway = listening(policy)
    for version in ["tls1", "tls1_1", "tls1_2", "tls1_3"]:
        outcome = connect(gateway, phone, f"-{version}", weak=True)
        if version in VERSIONS[policy]:
            assert isinstance(outcome, str), f"{version}: alert {outcome}"
        else:
            assert outcome == PROTOCOL_VERSION, version
    assert_connection_refused(gateway, "handshake_failed")


def test_modern_is_the_default(listening, phone, start_gateway, own_upstream):
    gateway = start_gateway({"service": own_upstream.address})
    del gateway.conf["listeners"][0]["tls"]["policy"]
    gateway.write_conf()
    assert attestgate("reload", "--config", gateway.conf_path).returncode == 0
    assert connect(gateway, phone, "-tls1_2") == PROTOCOL_VERSION
    served(gateway, phone, "-tls1_3")


def test_the_suites_of_tls_1_3_are_the_policys_in_its_order(listening, phone, policy, upstream):
    everything = openssl("ciphers", "-s", "-tls1_3", "-ciphersuites", ":".join(
        SUITES + ["TLS_AES_128_CCM_SHA256", "TLS_AES_128_CCM_8_SHA256"]), "ALL:@SECLEVEL=0").strip().split(":")
    suites = [name for name in everything if name.startswith("TLS_")]
    assert len(suites) == 5
    # ChaCha20 is not preferred by a client that lists another before it.
    suites.sort(key=lambda name: "CHACHA" in name, reverse=True)
    assert order(listening(policy), phone, "-ciphersuites", suites, "-tls1_3") == SUITES


@pytest.mark.parametrize("kind, name", [("P-256", "ECDSA"), ("RSA-2048", "RSA")])
def test_the_ciphers_of_tls_1_2_are_the_policys_in_its_order(listening, phone, kind, name, upstream):
    # All that the command knows, those without encryption or authentication included.
    everything = openssl("ciphers", "-s", "-tls1_2", "ALL:COMPLEMENTOFALL:@SECLEVEL=0").strip().split(":")
    everything.sort(key=lambda cipher: "CHACHA" in cipher, reverse=True)
    assert len(everything) > 50 and set(cipher.format(name) for cipher in CIPHERS) < set(everything)
    chosen = order(listening("intermediate", kind), phone, "-cipher", everything, "-tls1_2")
    assert chosen == [cipher.format(name) for cipher in CIPHERS]


def test_a_client_that_prefers_chacha20_gets_it(listening, phone, policy, upstream):
    """It has no instructions for AES."""
    gateway = listening(policy)
    assert cipher(served(gateway, phone, "-tls1_3", "-ciphersuites", ":".join(reversed(SUITES)))) == SUITES[2]
    if policy == "intermediate":
        chacha, aes = CIPHERS[2].format("ECDSA"), CIPHERS[0].format("ECDSA")
        assert cipher(served(gateway, phone, "-tls1_2", "-cipher", f"{chacha}:{aes}")) == chacha


def client_hellos(output):
    """- Returns: how many were sent: two after a HelloRetryRequest. The output is that of `-msg`."""
    return len(re.findall(r"^>>> .*ClientHello$", output, re.MULTILINE))


@pytest.fixture
def hybrid():
    if not has_hybrid_exchange():
        pytest.skip(f"{openssl('version').strip()} has no X25519MLKEM768; OpenSSL 3.5 has")


def test_x25519mlkem768_is_chosen_by_each_client_that_supports_it(hybrid, listening, phone, policy, upstream):
    gateway = listening(policy)
    for groups, count in [
        (None, 1), ("X25519MLKEM768", 1), ("*X25519MLKEM768:*X25519", 1), ("*X25519:*X25519MLKEM768", 1),
        # It must send another key share, so that no recorded connection of it can be read later.
        ("X25519:X25519MLKEM768", 2), ("P-256:X25519:X25519MLKEM768", 2),
    ]:
        before = scrape(gateway)
        output = served(gateway, phone, "-tls1_3", "-msg", *(["-groups", groups] if groups else []))
        assert (key_exchange(output), client_hellos(output)) == ("X25519MLKEM768", count), groups
        more = Difference(before, scrape(gateway))
        assert more("attestgate_key_exchanges_total", group="X25519MLKEM768") == 1 == more("attestgate_key_exchanges_total")


def test_keys_are_exchanged_on_x25519_or_p256_without_a_second_hello(listening, pki, policy, upstream):
    # In TLS 1.2 a client takes and shows no certificate on a curve that it does not name (RFC 8422 section 5.1).
    gateway, identity = listening(policy, "RSA-2048"), pki.client("policy-rsa", kind="RSA-3072")
    others = ["P-384", "P-521", "X448"]
    for version in VERSIONS[policy]:
        for group in ["X25519", "P-256"]:
            before = scrape(gateway)
            output = served(gateway, identity, f"-{version}", "-msg", "-groups", group)
            assert (key_exchange(output), client_hellos(output)) == (group, 1)
            more = Difference(before, scrape(gateway))
            assert more("attestgate_key_exchanges_total", group=group) == 1 == more("attestgate_key_exchanges_total")
            gateway.logged(key_exchange=group)
        newer = ["ffdhe2048", "ffdhe3072"] if version == "tls1_3" else []
        if version == "tls1_3" and has_hybrid_exchange():
            newer += ["MLKEM768", "SecP256r1MLKEM768", "SecP384r1MLKEM1024"]
        for group in others + newer:
            assert connect(gateway, identity, f"-{version}", "-groups", group) == HANDSHAKE_FAILURE, group
        # The server's first, whatever the client's.
        output = served(gateway, identity, f"-{version}", "-groups", ":".join([*others, "P-256", "X25519"]))
        assert key_exchange(output) == "X25519"


def test_clients_are_asked_for_signatures_with_sha256_or_more(listening, phone, policy, upstream):
    for version in VERSIONS[policy]:
        output = served(listening(policy), phone, f"-{version}")
        asked = re.search(r"^Requested Signature Algorithms: (\S+)", output, re.MULTILINE)[1].split(":")
        hashes = ["SHA256", "SHA384", "SHA512"]
        ours = ["ECDSA+SHA256", "ECDSA+SHA384"]
        ours += [f"{kind}+{name}" for kind in ("RSA-PSS", "RSA") for name in hashes]
        assert asked == ours


def test_nothing_is_signed_with_less_than_sha256(listening, phone, policy, upstream):
    for version in VERSIONS[policy]:
        # The command itself offers none of these in TLS 1.3.
        for scheme in ["ECDSA+SHA1", "ECDSA+SHA224"] if version == "tls1_2" else []:
            assert connect(
                listening(policy), phone, f"-{version}", "-sigalgs", scheme, weak=True) == HANDSHAKE_FAILURE
        assert "Peer signing digest: SHA256" in served(listening(policy), phone, f"-{version}")


def test_renegotiation_is_refused(listening, phone, upstream):
    gateway, before = listening("intermediate"), upstream.byte_count
    # `R` at the beginning of a line makes the command renegotiate.
    output = s_client(gateway, "-tls1_2", identity=phone, send=b"R\n" + REQUEST)
    assert "RENEGOTIATING" in output and "no renegotiation" in output, output
    assert "HTTP/1.1" not in output and upstream.byte_count == before
    # Nor by the way of old that nobody signs for (RFC 5746), which the server says it knows about.
    assert "Secure Renegotiation IS supported" in output


def test_nothing_is_compressed(listening, policy, upstream):
    gateway, null, deflate = listening(policy), 0, 1
    if policy == "intermediate":
        chosen = answer(gateway, client_hello([0xC02B, 0xC02F], [deflate, null]))
        assert chosen.compression == null
        # A client must offer null (RFC 5246 section 7.4.1.2).
        assert answer(gateway, client_hello([0xC02B, 0xC02F], [deflate])) in (HANDSHAKE_FAILURE, ILLEGAL_PARAMETER, 50)
    # RFC 8446 section 4.1.2.
    assert answer(gateway, client_hello([0x1301], [null], tls13=True)).compression == null
    assert answer(gateway, client_hello([0x1301], [deflate, null], tls13=True)) == ILLEGAL_PARAMETER


def test_no_tickets_are_issued_in_tls_1_2(listening, phone, upstream):
    output = served(listening("intermediate"), phone, "-tls1_2")
    assert "TLS session ticket" not in output and re.search(r"Session-ID: [0-9A-F]{64}\n", output)


def test_tls_1_3_tickets_show_nothing_of_the_client(listening, phone, policy, upstream):
    gateway, seen = listening(policy), []
    for _ in range(2):
        output = served(gateway, phone, "-tls1_3")
        tickets = re.findall(r"TLS session ticket:\n((?: +[0-9a-f]{4} - .*\n)+)", output)
        assert len(tickets) == 1
        lines = [re.match(r" +[0-9a-f]{4} - ((?:[0-9a-f]{2}[ -]){1,16})", line)[1] for line in tickets[0].splitlines()]
        seen.append(bytes.fromhex("".join(lines).replace("-", " ")))
    first, second = ({ticket[start:start + 16] for start in range(0, len(ticket) - 15, 16)} for ticket in seen)
    assert len(seen[0]) == len(seen[1]) > 200
    # The name of the key is the same. All else is encrypted, each time from another start.
    assert first & second == {seen[0][:16]}


def test_no_early_data_is_taken(listening, phone, policy, upstream, tmp_path):
    gateway = listening(policy)
    session, early = tmp_path / "session.pem", tmp_path / "early"
    early.write_bytes(REQUEST)
    assert "Max Early Data: 0" in served(gateway, phone, "-tls1_3", "-sess_out", session)
    before = len(upstream.requests)
    output = served(gateway, phone, "-tls1_3", "-sess_in", session, "-early_data", early)
    assert "Reused, TLSv1.3" in output and "Early data was not sent" in output
    assert len(upstream.requests) == before + 1


@pytest.mark.parametrize("offered, chosen", [
    ("http/1.1", "http/1.1"), ("http/1.0", "http/1.0"), ("http/1.0,http/1.1", "http/1.1"),
    ("h3,spdy/3,http/1.0", "http/1.0")])
def test_of_the_protocols_offered_http_1_1_is_chosen_before_http_1_0(listening, phone, policy, upstream, offered, chosen):
    for version in VERSIONS[policy]:
        assert f"ALPN protocol: {chosen}\n" in served(listening(policy), phone, f"-{version}", "-alpn", offered)


def test_a_client_that_offers_no_protocol_is_served_without(listening, phone, policy, upstream):
    for version in VERSIONS[policy]:
        assert "No ALPN negotiated" in served(listening(policy), phone, f"-{version}")


@pytest.mark.parametrize("offered", ["h2c", "HTTP/1.1", "http/1.11", "http/1", "h3,spdy/3,acme-tls/1"])
def test_a_client_that_offers_only_unknown_protocols_gets_the_alert(listening, phone, policy, upstream, offered):
    before = upstream.byte_count
    for version in VERSIONS[policy]:
        outcome = connect(listening(policy), phone, f"-{version}", "-alpn", offered)
        assert outcome == NO_APPLICATION_PROTOCOL
    assert upstream.byte_count == before


@pytest.mark.parametrize("kind", ["RSA-2048", "RSA-3072", "P-384"])
def test_strong_server_keys_are_accepted(listening, phone, policy, upstream, kind):
    for version in VERSIONS[policy]:
        served(listening(policy, kind), phone, f"-{version}")


WEAK = {
    "RSA-1024": (dict(kind="RSA-1024"), "its RSA key has 1024 bits, at least 2048 are required"),
    "P-224": (dict(kind="P-224"), "neither RSA nor on P-256 or P-384"),
    "P-521": (dict(kind="P-521"), "neither RSA nor on P-256 or P-384"),
    "secp256k1": (dict(kind="secp256k1"), "neither RSA nor on P-256 or P-384"),
    "SHA-1": (dict(kind="P-256", digest="sha1"), "its signature algorithm is weaker than SHA-256"),
}


@pytest.mark.parametrize("name", WEAK)
def test_a_server_certificate_that_is_too_weak_is_refused(listening, pki, start_gateway, own_upstream, phone, name):
    options, words = WEAK[name]
    gateway = start_gateway({"service": own_upstream.address})
    gateway.conf["listeners"][0]["tls"].update(tls(server_identity(pki, **options)))
    gateway.write_conf()
    done = attestgate("check", "--config", gateway.conf_path)
    assert done.returncode != 0 and words in done.stderr, done.stderr
    done = attestgate("reload", "--config", gateway.conf_path)
    assert done.returncode == 1 and words in done.stderr, done.stderr
    with Client(gateway, phone) as client:
        assert client.exchange(get("/")).status == 200


def test_an_intermediate_of_the_server_that_is_too_weak_is_refused(make_check, pki):
    issuer = Authority(pki.server_ca, pki.directory / "server-ca.key")
    for name, options, words in [
        ("weak-signature", dict(digest="sha1"), "its signature algorithm is weaker than SHA-256"),
        ("weak-key", dict(kind="RSA-1024"), "its key is weaker than RSA with 2048 bits"),
    ]:
        made = pki.client(f"server-{name}", issuer=issuer, extensions=AUTHORITY, **options)
        leaf = pki.client(
            f"server-below-{name}", issuer=Authority(made.certificate, made.key), extensions=SERVER,
            above=[made.certificate])
        done = make_check(tls(leaf))
        assert done.returncode != 0 and words in done.stderr and f"CN=server-{name}" in done.stderr, done.stderr
    # Nobody looks at a root's own signature.
    root = pki.client("server-old-root", issuer=None, extensions=AUTHORITY, digest="sha1")
    leaf = pki.client(
        "server-below-old-root", issuer=Authority(root.certificate, root.key), extensions=SERVER,
        above=[root.certificate])
    assert make_check(tls(leaf)).returncode == 0


@pytest.fixture
def make_check(pki, tmp_path, own_upstream):
    from support.gateway import Gateway

    def check(changes):
        gateway = Gateway(tmp_path / "checked", pki, {"service": own_upstream.address})
        gateway.conf["listeners"][0]["tls"].update(changes)
        gateway.write_conf()
        return attestgate("check", "--config", gateway.conf_path)
    return check


def test_the_old_key_of_the_conf_file_is_refused_with_the_new_one(make_check):
    done = make_check({"minimum_version": "1.2"})
    assert done.returncode != 0
    assert "unknown key `minimum_version`" in done.stderr and "did you mean `policy`?" in done.stderr


def test_a_client_with_a_p384_key_needs_no_tls_1_3(listening, pki, upstream):
    """In TLS 1.2 a certificate's curve need not be one that keys are exchanged on here."""
    identity = pki.client("policy-p384", kind="P-384", extensions=CLIENT)
    gateway = listening("intermediate")
    for version in VERSIONS["intermediate"]:
        exchange = "X25519" if version == "tls1_2" else favourite_exchange()
        assert key_exchange(served(gateway, identity, f"-{version}")) == exchange
