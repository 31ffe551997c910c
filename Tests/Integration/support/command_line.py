"""The clients that everybody has: curl and openssl s_client, and what they say about alerts."""

import functools
import os
import re
import subprocess

from support.paths import BINARY, ENVIRONMENT, PATIENCE

DEVICE_TOOL = BINARY.with_name("attestgate-device")

# TLS alert descriptions (RFC 8446 appendix B.2), as curl's OpenSSL names them.
ALERT_NAMES = {
    "handshake failure": 40, "bad certificate": 42, "unsupported certificate": 43, "certificate revoked": 44,
    "certificate expired": 45, "certificate unknown": 46, "unknown ca": 48,
    "protocol version": 70, "no application protocol": 120, "certificate required": 116,
}


def environment(gateway, weak):
    """`weak` lets our own side present what the gateway is to refuse."""
    if not weak:
        return None
    conf = gateway.directory / "weak-openssl.cnf"
    conf.write_text(
        "openssl_conf=a\n[a]\nssl_conf=b\n[b]\nsystem_default=c\n[c]\nCipherString=DEFAULT@SECLEVEL=0\n")
    return {**os.environ, "OPENSSL_CONF": str(conf)}


def s_client(gateway, *arguments, identity=None, weak=False, send=b""):
    """Runs openssl s_client until the gateway ends the connection. - Returns: all it printed."""
    command = [
        "openssl", "s_client", "-connect", f"127.0.0.1:{gateway.port}", "-servername", "localhost",
        "-CAfile", gateway.pki.server_ca, *arguments]
    if identity:
        command += ["-cert", identity.certificate, "-key", identity.key, "-cert_chain", identity.certificate]
    # Its standard input stays open: at the end of it, s_client would go before the answer comes.
    reader, writer = os.pipe()
    try:
        os.write(writer, send)
        done = subprocess.run(
            list(map(str, command)), stdin=reader, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=PATIENCE,
            env=environment(gateway, weak))
    finally:
        os.close(reader)
        os.close(writer)
    return done.stdout.decode("latin-1")


def key_exchange(output):
    """- Returns: the group of the key exchange that s_client prints, by our names."""
    match = re.search(r"(?:(?:Server|Peer) Temp Key: (?:ECDH, )?|Negotiated TLS1.3 group: )(\w+)", output)
    assert match, f"s_client says nothing of keys:\n{output}"
    return {"prime256v1": "P-256"}.get(match[1], match[1])


@functools.cache
def has_hybrid_exchange():
    """Whether OpenSSL has X25519MLKEM768: the command, and so the library."""
    done = subprocess.run(["openssl", "list", "-kem-algorithms"], capture_output=True, check=True, timeout=PATIENCE)
    return b"X25519MLKEM768" in done.stdout


def favourite_exchange():
    """- Returns: the gateway's preferred group."""
    return "X25519MLKEM768" if has_hybrid_exchange() else "X25519"


def s_client_alert(output):
    match = re.search(r"SSL alert number (\d+)", output)
    assert match, f"s_client saw no alert:\n{output}"
    return int(match[1])


def curl(gateway, path="/", *arguments, identity=None, weak=False, **options):
    command = [
        "curl", "--silent", "--show-error", "--http1.1", "--max-time", str(int(PATIENCE)), "--noproxy", "*",
        "--cacert", gateway.pki.server_ca]
    if identity:
        command += ["--cert", identity.certificate, "--key", identity.key]
    paths = [path] if isinstance(path, str) else path
    command += [*arguments, *(f"https://localhost:{gateway.port}{path}" for path in paths)]
    return subprocess.run(
        list(map(str, command)), capture_output=True, env=environment(gateway, weak), **options)


def curl_alert(done):
    text = done.stderr.decode()
    match = re.search(r"alert ([a-z ]+)", text)
    assert done.returncode != 0 and match, f"curl saw no alert: {done.returncode} {text}"
    return ALERT_NAMES[match[1].strip()]


def device_tool(*arguments, **options):
    """Runs attestgate-device. What it printed is bytes, or text with `text=True`."""
    return subprocess.run(
        [DEVICE_TOOL, *map(str, arguments)], capture_output=True, timeout=PATIENCE, env=ENVIRONMENT, **options)
