"""A real gRPC service and real clients of it, grpcio's both: their messages are bytes, so that nothing is generated."""

import threading
from concurrent import futures

import grpc

from support.paths import PATIENCE

SERVICE = "test.Records"
# What grpcio refuses beyond is not what is tested.
SIZES = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
# Each channel a connection of its own.
OWN = [("grpc.use_local_subchannel_pool", 1), ("grpc.enable_retries", 0)]


class GRPCService:
    """
    `said`: what was called, with its metadata. `cancelled`: names of calls whose client has gone.
    `identity`: for TLS; in the clear without.
    """

    def __init__(self, identity=None, port=0, options=(), threads=128):
        self.said, self.cancelled = [], []
        self.lock = threading.Lock()
        self.gate = threading.Event()
        self.gate.set()
        self.server = grpc.server(
            futures.ThreadPoolExecutor(threads), options=[*SIZES, ("grpc.so_reuseport", 0), *options])
        handlers = {
            "Echo": grpc.unary_unary_rpc_method_handler(self.echo),
            "Down": grpc.unary_stream_rpc_method_handler(self.down),
            "Up": grpc.stream_unary_rpc_method_handler(self.up),
            "Both": grpc.stream_stream_rpc_method_handler(self.both),
            "Fail": grpc.unary_unary_rpc_method_handler(self.fail),
            "Refuse": grpc.stream_stream_rpc_method_handler(self.refuse),
            "Hang": grpc.unary_unary_rpc_method_handler(self.hang),
            "Feed": grpc.unary_stream_rpc_method_handler(self.feed),
            "Greet": grpc.stream_stream_rpc_method_handler(self.greet),
        }
        self.server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, handlers)])
        if identity:
            credentials = grpc.ssl_server_credentials(
                [(identity.key.read_bytes(), identity.certificate.read_bytes())])
            self.port = self.server.add_secure_port(f"127.0.0.1:{port}", credentials)
        else:
            self.port = self.server.add_insecure_port(f"127.0.0.1:{port}")
        assert self.port, "the port is taken"
        self.address = f"127.0.0.1:{self.port}"
        self.server.start()

    def note(self, name, context):
        with self.lock:
            self.said.append((name, context.invocation_metadata()))

    def metadata(self, name):
        """Of the last call of that name: all values of each."""
        found = {}
        for key, value in next(metadata for said, metadata in reversed(self.said) if said == name):
            found.setdefault(key, []).append(value)
        return found

    def echo(self, request, context):
        self.note("Echo", context)
        context.send_initial_metadata((("x-initial", "first"), ("x-initial-bin", bytes(range(256)))))
        context.set_trailing_metadata((("x-trailing", "last"), ("x-trailing-bin", bytes(range(255, -1, -1)))))
        return request

    def down(self, request, context):
        self.note("Down", context)
        count, size = map(int, request.split())
        for number in range(count):
            yield number.to_bytes(4, "big") + bytes(size)

    def up(self, requests, context):
        self.note("Up", context)
        count = octets = 0
        for request in requests:
            count, octets = count + 1, octets + len(request)
        return f"{count} {octets}".encode()

    def both(self, requests, context):
        self.note("Both", context)
        for request in requests:
            yield request[::-1]

    def fail(self, request, context):
        self.note("Fail", context)
        context.set_trailing_metadata((("x-reason-bin", b"\x00\xff"),))
        context.abort(grpc.StatusCode.FAILED_PRECONDITION, "not so: ä %")

    def refuse(self, requests, context):
        """Ends before it has read anything."""
        self.note("Refuse", context)
        context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "enough")
        yield b""

    def greet(self, requests, context):
        """Speaks first."""
        self.note("Greet", context)
        yield b"welcome"
        yield from requests

    def hang(self, request, context):
        ended = self._watch("Hang", context)
        self.note("Hang", context)
        ended.wait(PATIENCE)
        return b""

    def feed(self, request, context):
        """Never ends by itself; pauses where `gate` is closed."""
        ended = self._watch("Feed", context)
        self.note("Feed", context)
        number = 0
        while not ended.is_set():
            if self.gate.wait(0.05):
                yield number.to_bytes(4, "big") + request
                number += 1

    def _watch(self, name, context):
        ended = threading.Event()

        def over():
            with self.lock:
                self.cancelled.append(name)
            ended.set()
        # There is no notice for a call that is over already.
        if not context.add_callback(over):
            over()
        return ended

    def stop(self, grace=None):
        self.gate.set()
        return self.server.stop(grace)


class GRPCClient:
    """Its certificate is `identity`'s; without, it has none and speaks in the clear."""

    def __init__(self, port, pki=None, identity=None, options=()):
        options = list(dict([*SIZES, *OWN, *options]).items())
        if identity:
            credentials = grpc.ssl_channel_credentials(
                pki.server_ca.read_bytes(), identity.key.read_bytes(), identity.certificate.read_bytes())
            self.channel = grpc.secure_channel(f"localhost:{port}", credentials, options)
        else:
            self.channel = grpc.insecure_channel(f"localhost:{port}", options)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.channel.close()

    def _path(self, name):
        return f"/{SERVICE}/{name}" if "/" not in name else name

    def unary(self, name, request=b"", **options):
        return self.channel.unary_unary(self._path(name))(request, timeout=options.pop("timeout", PATIENCE), **options)

    def call(self, name, request=b"", **options):
        """- Returns: content and the call, which knows metadata and status."""
        return self.channel.unary_unary(self._path(name)).with_call(
            request, timeout=options.pop("timeout", PATIENCE), **options)

    def future(self, name, request=b"", **options):
        return self.channel.unary_unary(self._path(name)).future(
            request, timeout=options.pop("timeout", PATIENCE), **options)

    def down(self, name, request=b"", **options):
        return self.channel.unary_stream(self._path(name))(request, timeout=options.pop("timeout", PATIENCE), **options)

    def up(self, name, requests, **options):
        return self.channel.stream_unary(self._path(name))(requests, timeout=options.pop("timeout", PATIENCE), **options)

    def future_up(self, name, requests, **options):
        return self.channel.stream_unary(self._path(name)).future(
            requests, timeout=options.pop("timeout", PATIENCE), **options)

    def both(self, name, requests, **options):
        return self.channel.stream_stream(self._path(name))(requests, timeout=options.pop("timeout", PATIENCE), **options)


def status_of(call):
    """The status code that a call fails with, its details and trailing metadata."""
    try:
        result = call()
        if hasattr(result, "result"):
            result.result()
        elif not isinstance(result, bytes):
            list(result)
    except grpc.RpcError as error:
        return error.code(), error.details(), dict(error.trailing_metadata() or ())
    return grpc.StatusCode.OK, "", {}


class Requests:
    """Requests of a stream, as they are given: the client's sending side, by hand."""

    def __init__(self):
        self.waiting, self.condition, self.isEnded = [], threading.Condition(), False

    def send(self, message):
        with self.condition:
            self.waiting.append(message)
            self.condition.notify()

    def end(self):
        with self.condition:
            self.isEnded = True
            self.condition.notify()

    def __iter__(self):
        return self

    def __next__(self):
        with self.condition:
            while not self.waiting and not self.isEnded:
                self.condition.wait()
            if self.waiting:
                return self.waiting.pop(0)
            raise StopIteration
