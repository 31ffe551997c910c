"""Devices and their counters, in a SQLite database whose commits are durable before anybody hears of them."""

import asyncio
import base64
import hashlib
import json
import queue
import sqlite3
import threading

from cryptography.hazmat.primitives.asymmetric import ec

SCHEMA = """
CREATE TABLE IF NOT EXISTS device (
  certificate_key BLOB PRIMARY KEY, public_key BLOB NOT NULL, app TEXT NOT NULL, active INTEGER NOT NULL DEFAULT 1,
  counter INTEGER NOT NULL DEFAULT 0) STRICT, WITHOUT ROWID"""


class Device:
    """One hardware key, and the certificate's key that it is bound to. What memory says of the counter is never behind the
    database: this process alone writes it."""

    __slots__ = ("certificate_key", "key", "key_id", "app", "counter")

    def __init__(self, certificate_key, public_key, app, counter):
        self.certificate_key = certificate_key
        self.key = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), public_key)
        self.key_id = base64.b64encode(hashlib.sha256(public_key).digest()).decode()
        self.app = app
        self.counter = counter


class Store:
    def __init__(self, path):
        self._database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        # FULL: in WAL mode every commit is synchronised to the disk (sqlite.org/pragma.html#pragma_synchronous).
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.execute("PRAGMA synchronous = FULL")
        assert self._database.execute("PRAGMA synchronous").fetchone() == (2,)
        self._database.execute(SCHEMA)
        self._waiting = queue.SimpleQueue()
        self._loop = None
        self.devices = {}

    def register(self, lines):
        rows = [json.loads(line) for line in lines]
        self._database.execute("BEGIN")
        self._database.executemany(
            "INSERT OR IGNORE INTO device (certificate_key, public_key, app) VALUES (?, ?, ?)",
            [(base64.b64decode(row["certificate_key"]), base64.b64decode(row["public_key"]), row["app_id"]) for row in rows])
        self._database.execute("COMMIT")

    def open(self):
        """Reads the devices, and begins to write counters; from within the event loop."""
        rows = self._database.execute("SELECT certificate_key, public_key, app, counter FROM device WHERE active")
        self.devices = {row[0]: Device(*row) for row in rows}
        self._loop = asyncio.get_running_loop()
        threading.Thread(target=self._write, daemon=True).start()

    def spend(self, device, value):
        """- Returns: what ends when the value is durable; None if it, or a higher one, was spent before."""
        if value <= device.counter:
            return None
        # From here on it is spent, whatever becomes of the commit.
        device.counter = value
        durable = self._loop.create_future()
        self._waiting.put((device, value, durable))
        return durable

    def _write(self):
        """What comes while one commit is made durable shares the next."""
        while True:
            batch = [self._waiting.get()]
            while True:
                try:
                    batch.append(self._waiting.get_nowait())
                except queue.Empty:
                    break
            highest = {}
            for device, value, _ in batch:
                key = device.certificate_key
                highest[key] = max(value, highest.get(key, 0))
            fault = self._commit(highest)
            self._loop.call_soon_threadsafe(_end, [durable for _, _, durable in batch], fault)

    def _commit(self, highest):
        try:
            self._database.execute("BEGIN IMMEDIATE")
            done = self._database.executemany(
                "UPDATE device SET counter = ?1 WHERE certificate_key = ?2 AND active AND counter < ?1",
                [(value, key) for key, value in highest.items()])
            if done.rowcount != len(highest):
                raise sqlite3.IntegrityError("a counter is not behind its new value")
            self._database.execute("COMMIT")
            return None
        except sqlite3.Error as fault:
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")
            return fault


def _end(futures, fault):
    for durable in futures:
        # One whose request was given up meanwhile is done already.
        if not durable.done():
            durable.set_exception(fault) if fault else durable.set_result(None)
