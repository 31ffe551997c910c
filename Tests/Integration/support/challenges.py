"""Challenges made by a test: it may read the gateway's secret, and then knows how old, or how foreign, they are."""

import base64
import hashlib
import hmac
import os
import shutil
import sqlite3
import struct
import tempfile
import time

from support.waiting import eventually


def hkdf(secret, info, length=32):
    key = hmac.new(bytes(32), secret, hashlib.sha256).digest()
    return hmac.new(key, info + b"\x01", hashlib.sha256).digest()[:length]


def identity(path):
    """Id and epoch of a store that a gateway holds: of a copy, with its log. - Returns: None if they changed meanwhile."""
    files = [path, f"{path}-wal"]

    def marks():
        return [(os.stat(file).st_mtime_ns, os.stat(file).st_size) for file in files if os.path.exists(file)]
    with tempfile.TemporaryDirectory() as directory:
        before = marks()
        for file in files:
            if os.path.exists(file):
                shutil.copy(file, directory)
        if marks() != before:
            return None
        store = sqlite3.connect(os.path.join(directory, os.path.basename(path)))
        try:
            return store.execute("SELECT id, epoch FROM store").fetchone()
        except sqlite3.DatabaseError:
            return None
        finally:
            store.close()


class ChallengeMaker:
    def __init__(self, gateway):
        """The gateway must be running: each start on a file draws an epoch."""
        lines = open(gateway.conf["registry"]["secret"]).read().splitlines()
        words = next(line.split() for line in lines if line.startswith("challenge "))
        self.generation, self.secret = int(words[1]), bytes.fromhex(words[2])
        path = gateway.conf["registry"]["path"]
        self.store, self.epoch = eventually(lambda: identity(path), "the store to be read")

    def make(self, age=0, purpose="request", epoch=None, store=None, secret=None, generation=None):
        store, epoch = store or self.store, epoch or self.epoch
        info = f"attestgate challenge {purpose}".encode()
        for part in (store, epoch):
            info += bytes([len(part)]) + part
        content = bytes([1, self.generation if generation is None else generation])
        content += struct.pack(">Q", int(time.time()) - age) + os.urandom(16)
        code = hmac.new(hkdf(secret or self.secret, info), content, hashlib.sha256).digest()
        return base64.urlsafe_b64encode(content + code).rstrip(b"=").decode()
