"""A health service on libssl itself, for what Python's `ssl` does not do: tickets and key updates whenever the test likes."""

import ctypes
import ctypes.util
import select
import socket
import threading

from support.paths import PATIENCE

ssl = ctypes.CDLL(ctypes.util.find_library("ssl"))
crypto = ctypes.CDLL(ctypes.util.find_library("crypto"))
crypto.ERR_peek_last_error.restype = ctypes.c_ulong
crypto.ERR_reason_error_string.restype = ctypes.c_char_p
crypto.ERR_reason_error_string.argtypes = [ctypes.c_ulong]
for name, result, arguments in [
    ("TLS_server_method", ctypes.c_void_p, []),
    ("SSL_CTX_new", ctypes.c_void_p, [ctypes.c_void_p]),
    ("SSL_CTX_free", None, [ctypes.c_void_p]),
    ("SSL_CTX_use_certificate_chain_file", ctypes.c_int, [ctypes.c_void_p, ctypes.c_char_p]),
    ("SSL_CTX_use_PrivateKey_file", ctypes.c_int, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int]),
    ("SSL_CTX_set_num_tickets", ctypes.c_int, [ctypes.c_void_p, ctypes.c_size_t]),
    ("SSL_CTX_ctrl", ctypes.c_long, [ctypes.c_void_p, ctypes.c_int, ctypes.c_long, ctypes.c_void_p]),
    ("SSL_new", ctypes.c_void_p, [ctypes.c_void_p]),
    ("SSL_free", None, [ctypes.c_void_p]),
    ("SSL_set_fd", ctypes.c_int, [ctypes.c_void_p, ctypes.c_int]),
    ("SSL_accept", ctypes.c_int, [ctypes.c_void_p]),
    ("SSL_do_handshake", ctypes.c_int, [ctypes.c_void_p]),
    ("SSL_read", ctypes.c_int, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int]),
    ("SSL_write", ctypes.c_int, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int]),
    ("SSL_new_session_ticket", ctypes.c_int, [ctypes.c_void_p]),
    ("SSL_key_update", ctypes.c_int, [ctypes.c_void_p, ctypes.c_int]),
    ("SSL_renegotiate", ctypes.c_int, [ctypes.c_void_p]),
    ("SSL_session_reused", ctypes.c_int, [ctypes.c_void_p]),
]:
    function = getattr(ssl, name)
    function.restype, function.argtypes = result, arguments

UPDATE_NOT_REQUESTED, UPDATE_REQUESTED = 0, 1
PEM = 1
SET_MAX_PROTO_VERSION, TLS_1_2 = 124, 0x0303


class Ended(Exception):
    pass


class Session:
    """One connection of the gateway. One thread uses it at a time."""

    def __init__(self, context, peer):
        self.peer = peer
        self.pointer = ssl.SSL_new(context)
        ssl.SSL_set_fd(self.pointer, peer.fileno())
        if ssl.SSL_accept(self.pointer) != 1:
            raise Ended

    @property
    def is_reused(self):
        return ssl.SSL_session_reused(self.pointer) == 1

    def read(self, count=65536):
        room = ctypes.create_string_buffer(count)
        length = ssl.SSL_read(self.pointer, room, count)
        if length <= 0:
            raise Ended
        return room.raw[:length]

    def read_request(self):
        """The head of a request without content."""
        data = b""
        while b"\r\n\r\n" not in data:
            data += self.read()
        return data

    def write(self, data):
        length = ssl.SSL_write(self.pointer, data, len(data))
        if length != len(data):
            raise Ended

    def wait_for_end(self):
        """Reads until the gateway closes: an end over what was not read would break the connection."""
        while True:
            self.read()

    def send_ticket(self):
        assert ssl.SSL_new_session_ticket(self.pointer) == 1
        assert ssl.SSL_do_handshake(self.pointer) == 1

    def flood_with_tickets(self):
        """For as long as the gateway takes them. libssl itself does not say that nobody does: a client may leave without."""
        end = select.poll()
        end.register(self.peer, select.POLLRDHUP)
        while not end.poll(0) and ssl.SSL_new_session_ticket(self.pointer) == 1 and ssl.SSL_do_handshake(self.pointer) == 1:
            pass
        raise Ended

    def update_key(self, kind=UPDATE_REQUESTED):
        assert ssl.SSL_key_update(self.pointer, kind) == 1
        assert ssl.SSL_do_handshake(self.pointer) == 1

    def renegotiate(self):
        """Asks for a new handshake; what becomes of that, the next read tells."""
        assert ssl.SSL_renegotiate(self.pointer) == 1
        assert ssl.SSL_do_handshake(self.pointer) == 1

    @property
    def fault(self):
        """Why the last call failed, for the thread that made it."""
        return (crypto.ERR_reason_error_string(crypto.ERR_peek_last_error()) or b"").decode()


class LibSSLService:
    def __init__(self, identity, script, only_tls12=False):
        """`script`: serves a whole connection, a Session; it need not end by itself."""
        self.context = ssl.SSL_CTX_new(ssl.TLS_server_method())
        assert ssl.SSL_CTX_use_certificate_chain_file(self.context, str(identity.certificate).encode()) == 1
        assert ssl.SSL_CTX_use_PrivateKey_file(self.context, str(identity.key).encode(), PEM) == 1
        # Only those that the test sends.
        ssl.SSL_CTX_set_num_tickets(self.context, 0)
        if only_tls12:
            ssl.SSL_CTX_ctrl(self.context, SET_MAX_PROTO_VERSION, TLS_1_2, None)
        self.script = script
        self.sessions, self.faults = [], []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.threads = [threading.Thread(target=self._accept, daemon=True)]
        self.threads[0].start()

    def _accept(self):
        while True:
            try:
                peer, _ = self.listener.accept()
            except OSError:
                return
            # libssl blocks on the descriptor, which Python's own timeouts would make non-blocking.
            peer.settimeout(None)
            thread = threading.Thread(target=self._serve, args=[peer], daemon=True)
            self.threads.append(thread)
            thread.start()

    def _serve(self, peer):
        try:
            session = Session(self.context, peer)
            self.sessions.append(session)
            self.script(session)
        except Ended:
            pass
        except Exception as fault:
            self.faults.append(repr(fault))
        finally:
            try:
                peer.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for session in self.sessions:
            try:
                session.peer.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        for thread in self.threads:
            thread.join(PATIENCE)
        assert self.faults == [], self.faults
