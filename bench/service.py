"""The health service behind a gateway whose own cost is looked at: light, and it keeps nothing."""

import contextlib
import socket
import threading


class Service:
    """Answers every request with the same kilobyte."""

    # Whether requests have content.
    has_content = False
    ANSWER = b"HTTP/1.1 200 OK\r\nServer: bench\r\nContent-Type: text/plain\r\nContent-Length: 1024\r\n\r\n" + 1024 * b"x"

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            connection, _ = self.listener.accept()
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        with connection, contextlib.suppress(OSError):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            received = b""
            while got := connection.recv(65536):
                received += got
                if self.has_content:
                    received = self._answer_contents(connection, received)
                    continue
                for _ in range(received.count(b"\r\n\r\n")):
                    connection.sendall(self.ANSWER)
                received = received.rpartition(b"\r\n\r\n")[2]

    def _answer_contents(self, connection, received):
        """- Returns: what has arrived of the next request."""
        while (end := received.find(b"\r\n\r\n")) >= 0:
            length = next(
                (int(line[15:]) for line in received[:end].split(b"\r\n") if line.lower().startswith(b"content-length:")), 0)
            if len(received) < end + 4 + length:
                break
            received = received[end + 4 + length:]
            connection.sendall(self.ANSWER)
        return received


class DecisionPoint(Service):
    """Allows everything, by AuthZEN."""

    has_content = True
    ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 17\r\n\r\n{\"decision\":true}"
