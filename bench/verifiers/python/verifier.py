#!/usr/bin/env python3
"""What nginx's auth_request asks whether a request may pass: 204, 401 or 403. ASGI without a framework, one process.

nginx hands over what the client sent: X-Original-Method, X-Original-Authority, X-Original-Target, and the client's certificate,
which it has verified, as X-Client-Certificate ($ssl_client_escaped_cert).
"""

import argparse
import hashlib
import time
import urllib.parse
from functools import lru_cache
from pathlib import Path

import uvicorn
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from proof import CHALLENGE_LIFE, Challenges, Refused, check
from store import Store

CHALLENGE_PATH = "/.well-known/attestgate/challenge"


@lru_cache(100_000)
def certificate_key(escaped):
    """The 65-byte point of a certificate's key: a phone's certificate comes with each of its requests."""
    key = x509.load_pem_x509_certificate(urllib.parse.unquote_to_bytes(escaped)).public_key()
    return key.public_bytes(serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint)


class Verifier:
    def __init__(self, store, app, secret):
        self._store, self._app = store, app
        self._app_hash = hashlib.sha256(app.encode()).digest()
        self._challenges = Challenges(secret)

    async def __call__(self, scope, receive, send):
        if scope["type"] == "lifespan":
            return await self._live(receive, send)
        now = time.time()
        if scope["path"] == CHALLENGE_PATH:
            return await answer(send, 204, "", self._challenges.offer(now))
        try:
            issued = await self._verify(fields_of(scope["headers"]), now)
            # A new one before the old one has ended.
            offer = self._challenges.offer(now) if now - issued > CHALLENGE_LIFE / 2 else None
            await answer(send, 204, "", offer)
        except Refused as refused:
            await answer(send, refused.status, refused.code, self._challenges.offer(now) if refused.status == 401 else None)

    async def _verify(self, fields, now):
        """- Returns: when the proof's challenge was issued."""
        # What has content cannot be proven here: auth_request is done before nginx has read it.
        if fields.get("x-original-content-length", "0") != "0" or fields["x-original-method"] not in ("GET", "HEAD"):
            raise Refused("method_refused", 403)
        try:
            device = self._store.devices.get(certificate_key(fields["x-client-certificate"]))
        except (KeyError, ValueError, AttributeError):
            device = None
        if device is None or device.app != self._app:
            raise Refused("device_unknown", 403)
        counter, issued = check(
            fields["x-original-method"], fields["x-original-authority"], fields["x-original-target"], fields, device,
            self._app_hash, self._challenges, now)
        durable = self._store.spend(device, counter)
        if durable is None:
            raise Refused("counter_replayed")
        await durable
        return issued

    async def _live(self, receive, send):
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                self._store.open()
            await send({"type": message["type"] + ".complete"})
            if message["type"] == "lifespan.shutdown":
                return


def fields_of(lines):
    fields = {}
    for name, value in lines:
        name, value = name.decode("latin-1"), value.decode("latin-1").strip()
        # RFC 9421 section 2.1.
        fields[name] = f"{fields[name]}, {value}" if name in fields else value
    return fields


async def answer(send, status, code, offer):
    fields = [(b"accept-signature", offer.encode())] if offer else []
    if status != 204:
        fields += [(b"content-length", b"0"), (b"attest-denial", code.encode())]
    await send({"type": "http.response.start", "status": status, "headers": fields})
    await send({"type": "http.response.body"})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--socket", required=True, help="Unix socket to listen on")
    parser.add_argument("--database", type=Path, required=True)
    parser.add_argument("--secret", type=Path, required=True, help="file of the key of challenges")
    parser.add_argument("--app", required=True, help="the one app whose requests pass")
    parser.add_argument("--register", type=Path, help="devices to add first, as `attestgate-load --prepare` writes them")
    chosen = parser.parse_args()
    store = Store(chosen.database)
    if chosen.register:
        store.register(chosen.register.read_text().splitlines())
    uvicorn.run(
        Verifier(store, chosen.app, chosen.secret.read_bytes()), uds=chosen.socket, loop="uvloop", http="httptools",
        lifespan="on", access_log=False, log_level="warning", server_header=False, date_header=False, ws="none")


if __name__ == "__main__":
    main()
