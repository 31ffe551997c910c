"""The health service behind a gateway whose own cost is looked at: light, and it keeps nothing."""

import contextlib
import socket
import threading


class Service:
    """Answers every request with the same kilobyte."""

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
                # None of the requests has content.
                for _ in range(received.count(b"\r\n\r\n")):
                    connection.sendall(self.ANSWER)
                received = received.rpartition(b"\r\n\r\n")[2]
