"""Challenges made by a test: it may read the gateway's secret, and then knows how old, or how foreign, they are."""

import base64
import hashlib
import hmac
import os
import sqlite3
import struct
import time


def hkdf(secret, info, length=32):
    key = hmac.new(bytes(32), secret, hashlib.sha256).digest()
    return hmac.new(key, info + b"\x01", hashlib.sha256).digest()[:length]


class ChallengeMaker:
    def __init__(self, gateway):
        """The gateway must not be running: its store is read."""
        lines = open(gateway.conf["registry"]["secret"]).read().splitlines()
        words = next(line.split() for line in lines if line.startswith("challenge "))
        self.generation, self.secret = int(words[1]), bytes.fromhex(words[2])
        store = sqlite3.connect(gateway.conf["registry"]["path"])
        self.store, self.epoch = store.execute("SELECT id, epoch FROM store").fetchone()
        store.close()

    def make(self, age=0, purpose="request", epoch=None, store=None, secret=None, generation=None):
        store, epoch = store or self.store, epoch or self.epoch
        info = f"attestgate challenge {purpose}".encode()
        for part in (store, epoch):
            info += bytes([len(part)]) + part
        content = bytes([1, self.generation if generation is None else generation])
        content += struct.pack(">Q", int(time.time()) - age) + os.urandom(16)
        code = hmac.new(hkdf(secret or self.secret, info), content, hashlib.sha256).digest()
        return base64.urlsafe_b64encode(content + code).rstrip(b"=").decode()
