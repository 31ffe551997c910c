"""What lies between a gateway and its database: a Unix socket of its own, whose connections a test may cut, slow down, leave
without answers, or rob of notifications."""

import shutil
import socket
import tempfile
import threading
import time
from pathlib import Path

from support.paths import PATIENCE

SOCKET = ".s.PGSQL.5432"


class DatabaseLink:
    """In place of a directory of PostgreSQL's socket; what comes over it goes to that of `server`."""

    def __init__(self, server):
        self.target = server.directory / SOCKET
        # A short path: it is that of a socket.
        self.directory = Path(tempfile.mkdtemp(prefix="attestgate-link-", dir="/tmp"))
        self.lock = threading.Lock()
        self.pairs = []
        # Seconds that each part waits, in either direction.
        self.delay = 0
        # While this is not set, no answer of the database arrives.
        self.answers = threading.Event()
        self.answers.set()
        self.drops_notifications = False
        # How many were dropped.
        self.dropped = 0
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(self.directory / SOCKET))
        self.listener.listen(32)
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def conf(self):
        """The section of the conf file."""
        return {"hosts": [str(self.directory)]}

    def cut(self):
        """Ends every connection; what was under way never arrives."""
        with self.lock:
            pairs, self.pairs = self.pairs, []
        for pair in pairs:
            for end in pair:
                self._end(end)
        self.answers.set()

    def hold_answers(self):
        """From here on the database gets what it is asked, and its answers do not arrive, until `cut()`."""
        self.answers.clear()

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.cut()
        shutil.rmtree(self.directory)

    def _accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            far = socket.socket(socket.AF_UNIX)
            try:
                far.connect(str(self.target))
            except OSError:
                # As if nobody listened.
                near.close()
                continue
            pair = (near, far)
            with self.lock:
                self.pairs.append(pair)
            threading.Thread(target=self._forward, args=[pair], daemon=True).start()
            threading.Thread(target=self._answer, args=[pair], daemon=True).start()

    def _forward(self, pair):
        near, far = pair
        self._pump(pair, near, lambda data: self._send(far, data))

    def _answer(self, pair):
        near, far = pair
        rest = bytearray()

        def take(data):
            self.answers.wait(PATIENCE)
            rest.extend(data)
            self._send(near, self._messages(rest))
        self._pump(pair, far, take)

    def _messages(self, rest):
        """Takes the whole messages of the server out of `rest`: a letter, a length that counts itself, and the content."""
        passed = bytearray()
        while len(rest) >= 5 and len(rest) >= 1 + int.from_bytes(rest[1:5]):
            length = 1 + int.from_bytes(rest[1:5])
            # NotificationResponse.
            if self.drops_notifications and rest[:1] == b"A":
                self.dropped += 1
            else:
                passed += rest[:length]
            del rest[:length]
        return passed

    def _send(self, end, data):
        if data:
            if self.delay:
                time.sleep(self.delay)
            end.sendall(data)

    def _pump(self, pair, source, take):
        try:
            while data := source.recv(65536):
                take(data)
        except OSError:
            pass
        with self.lock:
            if pair in self.pairs:
                self.pairs.remove(pair)
        for end in pair:
            self._end(end)

    @staticmethod
    def _end(end):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        end.close()
