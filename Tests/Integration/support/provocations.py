"""For each row of the denial table what provokes it on a route, in any mode of enforcement and over any protocol."""

import ssl
from types import SimpleNamespace

import h2.settings

from support.client import Client, get, post, tls_context
from support.denials import code_of
from support.enforcement import CLAIMS, CONTENT, CROWDED_SOURCE, PROTOCOLS
from support.http2_frames import DATA, SETTINGS, frame
from support.pki import CLIENT
from support.platforms import PLATFORMS
from support.preloaded import MARKER

# Requests that are answered, by the row that they provoke.

ROWS = {}


def row(case, kind="proof", world="modes", platforms=("ios",)):
    def add(provoke):
        ROWS[case] = SimpleNamespace(provoke=provoke, kind=kind, world=world, platforms=platforms)
        return provoke
    return add


proof_row = {"platforms": PLATFORMS}


@row("requestMalformed")
def malformed(cell):
    return cell.ask(get(cell.path + ";v=1"))


@row("headerRefused")
def overriding(cell):
    return cell.ask(get(cell.path, "X-Original-URL: /"))


@row("contentTooLarge", "little")
def content_too_large(cell):
    return cell.ask(post(cell.path, bytes(1001)))


@row("targetTooLong")
def target_too_long(cell):
    return cell.ask(get(cell.path + "/" + 8192 * "a"))


@row("headTooLarge")
def head_too_large(cell):
    return cell.ask(get(cell.path, *["X-Field: a"] * 101))


@row("requestTimeout", "impatient")
def late(cell):
    client, wait = cell.begin(cell.phone.request("POST", cell.path, content=b"content"), cell.phone)
    with client:
        return wait()


@row("rateLimited", "rated")
def too_often(cell):
    phone = cell.phone
    # One passes in a minute.
    while code_of(cell.ask(phone.request(path=cell.path + "-first"), phone)) is None:
        pass
    cell.world.counts.denials["rate_limited"] += 1
    return cell.ask(phone.request(path=cell.path), phone)


@row("webSocketVersion", "socket")
def old_web_socket(cell):
    return cell.open_socket(cell.phone, version="12", proof=False)


@row("misdirected")
def misdirected(cell):
    return cell.ask(get(cell.path, host="other.example"))


@row("routeUnknown", "nowhere")
def unknown_route(cell):
    return cell.ask(get(cell.path))


@row("methodRefused", "reading")
def refused_method(cell):
    return cell.ask(get(cell.path, method="DELETE"))


@row("certificateAbsent")
def no_certificate(cell):
    with cell.connect(None, at="optional") as client:
        return client.exchange(get(cell.path))


@row("deviceUnknown")
def unknown_device(cell):
    return cell.ask(get(cell.path, *CLAIMS), cell.stranger)


@row("deviceRevoked")
def revoked_device(cell):
    return cell.world.revoked[cell.mode, cell.protocol].exchange(get(cell.path))


@row("deviceMismatch", **proof_row)
def other_device(cell):
    return cell.ask(cell.phone.request(path=cell.path, keyid=cell.world.other.key.key_id))


@row("deviceRisky", world="enrolled")
def risky_device(cell):
    return cell.ask(get(cell.path), cell.world.risky)


@row("osOutdated", world="enrolled")
def outdated_device(cell):
    return cell.ask(get(cell.path), cell.world.outdated)


@row("appRefused", "other", **proof_row)
def other_app(cell):
    phone = cell.phone
    return cell.ask(phone.request(path=cell.path), phone)


@row("policyDenied", "policed", **proof_row)
def outdated_for_the_policy(cell):
    """What is not known of a phone does not meet a condition: nothing is of one that an operator has registered."""
    phone = cell.phone
    return cell.ask(phone.request("POST", cell.path, content=b"content"), phone)


@row("policyUnavailable", "undecided")
def dead_decision_point(cell):
    return cell.ask(cell.phone.request(path=cell.path))


@row("deviceTunnelLimit", "socket")
def tunnels_of_a_device(cell):
    cell.world.keep_tunnels()
    return cell.open_socket(cell.world.talker)


@row("deviceRequestLimit", "shared")
def requests_of_a_device(cell):
    return cell.ask(cell.world.greedy.request(path=cell.path), cell.world.greedy)


@row("deviceTokenRequired", "token", **proof_row)
def no_device_token(cell):
    return cell.ask(cell.phone.request(path=cell.path), cell.phone)


@row("deviceTokenInvalid", "token", **proof_row)
def malformed_device_token(cell):
    phone = cell.phone
    return cell.ask(phone.request(path=cell.path, sent={"fields": [("X-Device-Token", "a.b.c")]}), phone)


@row("proofRequired", **proof_row)
def no_proof(cell):
    return cell.ask(get(cell.path, *CLAIMS))


@row("proofMalformed", **proof_row)
def malformed_proof(cell):
    phone = cell.phone
    proof = [f"{name}: {value}" for name, value in phone.proof(path=cell.path)]
    return cell.ask(get(cell.path, *[line.replace(";created=", ";made=") for line in proof]), phone)


@row("challengeRequired", **proof_row)
def unknown_challenge(cell):
    phone = cell.phone
    return cell.ask(phone.request(path=cell.path, nonce="A" * 78), phone)


@row("proofStale", **proof_row)
def old_proof(cell):
    phone = cell.phone
    return cell.ask(phone.request(path=cell.path, created=1), phone)


@row("proofIncomplete", **proof_row)
def incomplete_proof(cell):
    phone = cell.phone
    return cell.ask(phone.request(path=cell.path, sent={"fields": [("Authorization", "Bearer x")]}), phone)


@row("proofInvalid", **proof_row)
def proof_of_another_method(cell):
    phone = cell.phone
    return cell.ask(phone.request(path=cell.path, sent={"method": "DELETE"}), phone)


@row("bodyDigestMismatch", **proof_row)
def other_content(cell):
    phone = cell.phone
    return cell.ask(phone.request("POST", cell.path, content=b"content", sent={"content": b"altered"}), phone)


@row("counterReplayed", **proof_row)
def used_counter(cell):
    phone = cell.phone
    cell.spend(phone.request(path=cell.path + "-first"), phone)
    return cell.ask(phone.request(path=cell.path, counter=phone.counter), phone)


@row("counterLate", **proof_row)
def passed_counter(cell):
    phone = cell.phone
    early = phone.request(path=cell.path)
    cell.spend(phone.request(path=cell.path + "-first"), phone)
    return cell.ask(early, phone)


@row("storeUnavailable", world="stores")
def unwritable_store(cell):
    phone = cell.world.phone
    return cell.ask(phone.request(path=cell.path, nonce=cell.world.challenges.make()), phone)


@row("overloaded")
def content_of_a_device(cell):
    phone = cell.world.holder
    return cell.ask(phone.request("POST", cell.path, content=bytes(CONTENT)), phone)


@row("internalError")
def undigestible(cell):
    cell.path += MARKER
    return cell.ask(cell.phone.request(path=cell.path))


@row("upstreamUnavailable", "dead")
def dead_service(cell):
    return cell.ask(cell.phone.request(path=cell.path))


@row("upstreamTimeout", "mute")
def mute_service(cell):
    return cell.ask(cell.phone.request(path=cell.path))


@row("upstreamBusy", "busy")
def busy_service(cell):
    return cell.ask(cell.phone.request(path=cell.path))


@row("tunnelLimit", "crowded")
def tunnels_of_a_service(cell):
    cell.world.keep_tunnels()
    return cell.open_socket(cell.phone)


# Handshakes and connections that end without an answer, by the row that they provoke.

ENDS = {}


def end(case, world="modes", protocols=PROTOCOLS):
    def add(provoke):
        ENDS[case] = SimpleNamespace(provoke=provoke, world=world, protocols=protocols)
        return provoke
    return add


def shakes_hands(case, identity, at="main", world="modes"):
    """`identity`: of the world."""
    @end(case, world)
    def provoke(cell):
        with cell.connect(identity(cell.world), at=at) as client:
            client.exchange(get(cell.path))


shakes_hands("certificateRequired", lambda world: None)
shakes_hands("certificateUnknownAuthority", lambda world: world.pki.client("enforcement-foreign", issuer=None))
shakes_hands("certificateExpired", lambda world: world.pki.client("enforcement-expired", start=-3, end=-1))
shakes_hands("certificateUnsuitable", lambda world: world.pki.client(
    "enforcement-unsuitable", extensions=CLIENT.replace("clientAuth", "serverAuth")))
shakes_hands("certificateRevoked", lambda world: world.withdrawn)
shakes_hands("crlStale", lambda world: world.pki.client("enforcement-faded", issuer=world.fading))
shakes_hands("certificateNotPinned", lambda world: world.stranger, at="pins")
shakes_hands("deviceRevokedInHandshake", lambda world: world.barred)
shakes_hands("bindingEndedInHandshake", lambda world: world.ended, world="enrolled")
shakes_hands("proxyHeaderRefused", lambda world: world.stranger, at="proxied")


@end("handshakeFailed")
def old_tls(cell):
    context = tls_context(cell.world.pki, cell.world.stranger, maximum=ssl.TLSVersion.TLSv1_2)
    with cell.connect(cell.world.stranger, context=context) as client:
        client.exchange(get(cell.path))


@end("connectionLimit")
def one_connection_more(cell):
    context = tls_context(cell.world.pki, cell.world.stranger)
    context.set_alpn_protocols(["h2" if cell.protocol == "HTTP/2" else "http/1.1"])
    with Client(cell.gateway, cell.world.stranger, context=context, source=CROWDED_SOURCE) as client:
        client.exchange(get(cell.path))


def before_its_end(cell, frames):
    """Frames while the content of a request is still to come."""
    client, _ = cell.begin(cell.phone.request("POST", cell.path, content=b"content"), cell.phone)
    with client:
        client.send_bytes(frames)
        client.pump_until(lambda: False)


@end("protocolBroken", protocols=["HTTP/2"])
def content_without_stream(cell):
    before_its_end(cell, frame(DATA, 0, 0, b"x"))


@end("protocolAbused", protocols=["HTTP/2"])
def too_many_settings(cell):
    before_its_end(cell, b"".join(frame(SETTINGS) for _ in range(200)))


# Rows that no request on a route provokes, and why.
ELSEWHERE = {
    "peerRefused": "a connection of another local user ends before its request: test_local_sockets.py",
    "certificateInvalid": "only behind a proxy: test_forwarded_certificates.py",
    "attestationChallengeRequired": "no mode of enforcement concerns client attestations: test_client_attestations.py",
    "attestationStale": "as above",
    "attestationInvalid": "as above",
    "handshakeTimeout": "a client that does not finish its handshake has sent no request",
    "responseNotTaken": "the service has answered the request: test_the_response_is_cut_off_in_every_mode",
}


def not_taking(cell):
    """A request whose response is not read. - Returns: the client."""
    options = {"receive_buffer": 4096} if cell.protocol == "HTTP/1.1" else {
        "settings": {h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 0}}
    client = cell.connect(cell.phone, **options)
    data = cell.phone.request(path=cell.path)
    client.send(data) if cell.protocol == "HTTP/1.1" else client.begin(data)
    return client
