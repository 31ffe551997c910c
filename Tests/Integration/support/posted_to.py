"""A service that others call over HTTP/1.1, each call on a thread of its own."""

import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from support.paths import PATIENCE


class PostedTo:
    """- serve: is given the handler of each call."""

    def __init__(self, serve, identity=None, port=0):
        self.context = context = None
        if identity is not None:
            self.context = context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(identity.certificate, identity.key)

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                serve(self)

            do_GET = do_POST

            def log_message(self, *_):
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 64

            def handle_error(self, *_):
                # A client that does not like our certificate, or is gone.
                pass

            def finish_request(self, request, address):
                if context is not None:
                    request.settimeout(PATIENCE)
                    request = context.wrap_socket(request, server_side=True)
                try:
                    super().finish_request(request, address)
                finally:
                    # The one that the server would close was detached by wrapping it.
                    request.close()

        self.server = Server(("127.0.0.1", port), Handler)
        self.port = self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self.thread.start()

    @property
    def url(self):
        return f"https://localhost:{self.port}" if self.context else f"http://127.0.0.1:{self.port}"

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()
