internal import Bytes
public import EventLoop
internal import Glibc
internal import TLS

/// A connection to a server of an upstream: its establishment, TLS, and everything that both versions of HTTP share.
///
/// Owned by its pool. Holds one block for input and one for output, and none while idle. The protocols are in
/// `HTTP1Connection` and `HTTP2UpstreamConnection`.
public class UpstreamConnection: SocketHandler {
    enum Stage {
        case connecting
        case handshake
        case established
    }

    /// The owner, which outlives this connection.
    unowned final let pool: UpstreamPool
    final let responseTimeout: TimeSpan
    final let contentTimeout: TimeSpan
    final let idleTimeout: TimeSpan
    /// The index of the server.
    final var server: Int
    final var slot = 0
    /// Whether the connection is a health check: it serves one call, stays with one server and counts for no limit.
    final let isCheck: Bool
    final var stage = Stage.connecting
    /// The server's number for the address of the connection.
    final var address = 0
    /// The number of addresses of the server that may still be tried, and their common deadline.
    final var addressesLeft = 0
    final var connectEnd = Instant(nanoseconds: .max)
    /// The deadline for the present socket to connect.
    final var connectDeadline = Instant(nanoseconds: .max)
    /// The failure of the addresses tried so far. Nil if there was none.
    final var connectFailure: UpstreamFailure?
    final var callsServed = 0

    /// The transport of the present socket.
    final var transport = Transport.plain
    /// Whether TLS must write (a key update) before it can read on, or must read before it can write.
    final var isReadWaitingToWrite = false
    final var isWriteWaitingToRead = false
    /// The bytes to be sent.
    final var output: ByteBuffer
    /// Whether a byte of a request may have been passed to the kernel.
    final var hasSent = false

    /// Creates a connection.
    ///
    /// - Parameter socket: a socket that connects to `server`.
    init(pool: UpstreamPool, server: Int, socket: consuming Socket, isCheck: Bool) {
        self.pool = pool
        self.server = server
        self.isCheck = isCheck
        responseTimeout = pool.settings.responseTimeout
        contentTimeout = pool.settings.contentTimeout
        idleTimeout = pool.settings.idleTimeout
        output = ByteBuffer(pool: pool.buffers)
        super.init(loop: pool.loop, socket: socket)
        limitConnecting()
        awaitConnect()
    }

    /// Whether nothing of a call can have been sent.
    final var isConnecting: Bool { stage != .established }

    /// Sets the deadline of connecting. With further addresses or servers, twice the time of one is allowed.
    final func limitConnecting() {
        connectEnd = loop.now + pool.settings.connectTimeout + pool.settings.connectTimeout
    }

    final func awaitConnect() {
        stage = .connecting
        transport = .plain
        isReadWaitingToWrite = false
        isWriteWaitingToRead = false
        wantWrite(true)
        connectDeadline = min(loop.now + pool.settings.connectTimeout, connectEnd)
        setDeadline(connectDeadline)
    }

    /// Handles the end of the attempt to connect.
    final func connectEnded() {
        let error = pendingError
        guard error == 0 else { return notSent(.connecting(to: place, error)) }
        beginTransport()
    }

    /// Handles an attempt to connect that exceeds its time.
    final func connectOverdue() {
        switch stage {
        case .connecting, .established: notSent(.connectTimeout(server: place))
        case .handshake: notSent(tlsFailure("the server did not complete the handshake in time"))
        }
    }

    final var place: String { pool.servers[server].place(of: address) }

    // MARK: - For subclasses

    /// Called when the connection is open, and its peer is the expected server.
    func established() {}
    /// Called when not one byte of a request was sent on this socket, so another one may be used.
    func notSent(_ failure: UpstreamFailure) {}
    /// Closes the connection for good.
    func discard() {}
    /// Closes the connection because its pool ends.
    func abandon() { close() }
}

// MARK: - TLS

extension UpstreamConnection {
    // MARK: - The handshake

    /// Begins TLS on the connected socket if the upstream requires it. Its time is the rest of the time to connect.
    private final func beginTransport() {
        guard let destination = pool.servers[server].destination else { return completeConnecting() }
        guard let stream = TLSStream(connecting: descriptor, to: destination) else {
            return notSent(.exhausted(errno: ENOMEM))
        }
        transport = .tls(stream)
        stage = .handshake
        handshake()
    }

    final func handshake() {
        guard case .tls(let stream) = transport else { return }
        switch stream.handshake() {
        case .done: completeConnecting()
        case .wantRead:
            wantWrite(false)
            wantRead(true)
        case .wantWrite:
            wantRead(false)
            wantWrite(true)
        case .endOfStream, .failed(.disconnected):
            notSent(tlsFailure("the server closed the connection during the handshake"))
        case .failed(let failure): notSent(tlsFailure(failure))
        }
    }

    private func completeConnecting() {
        stage = .established
        established()
    }

    final func tlsFailure(_ failure: TLSFailure) -> UpstreamFailure {
        switch failure {
        case .tls(let reason): tlsFailure(reason)
        case .disconnected: .disconnected
        // Servers' connections have clients, ours have none.
        case .clientCertificate(let fault): tlsFailure(fault.reason)
        }
    }

    final func tlsFailure(_ reason: String) -> UpstreamFailure {
        .tls(server: pool.servers[server].name, reason: reason)
    }

    // MARK: - Directions that wait for each other

    final func waitToWriteBeforeReading() {
        isReadWaitingToWrite = true
        // The socket's bytes cannot be read until then, and must not wake the loop again and again.
        wantRead(false)
        wantWrite(true)
    }

    /// Waits until the server accepts more. Over TLS, a read may be necessary first.
    final func waitToWrite(_ step: TLSStep) {
        if case .tls = transport {
            // The kernel may have part of a record, though none of its bytes has left `output`.
            hasSent = true
            isWriteWaitingToRead = step == .wantRead
        }
        wantWrite(!isWriteWaitingToRead)
    }
}
