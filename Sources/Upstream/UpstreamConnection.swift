internal import Bytes
public import EventLoop
internal import Glibc
internal import TLS

/// One connection to a server of an upstream: how it comes about, and what the versions of HTTP have in common.
///
/// Owned by its pool. Holds one block for what comes and one for what goes, and none while idle. What TLS adds is in
/// `UpstreamConnection+TLS`, what is spoken in `HTTP1Connection` and `HTTP2UpstreamConnection`.
public class UpstreamConnection: SocketHandler {
    enum Stage {
        case connecting
        case handshake
        case established
    }

    /// The owner, so never gone before this connection.
    unowned final let pool: UpstreamPool
    final let responseTimeout: TimeSpan
    final let contentTimeout: TimeSpan
    final let idleTimeout: TimeSpan
    /// The server's place.
    final var server: Int
    final var slot = 0
    /// Asks whether the server is well: it serves one call, belongs to one server and counts for no limit.
    final let isCheck: Bool
    final var stage = Stage.connecting
    /// The server's number for the address that it leads to.
    final var address = 0
    /// Addresses of the server that were not tried yet, and until when any may be.
    final var addressesLeft = 0
    final var connectEnd = Instant(nanoseconds: .max)
    /// Until when the socket there is now has time to connect.
    final var connectDeadline = Instant(nanoseconds: .max)
    /// What came of the server's addresses that were tried; nil if nothing did yet.
    final var connectFailure: UpstreamFailure?
    final var callsServed = 0

    /// Of the socket there is now.
    final var transport = Transport.plain
    /// TLS has to write (a key update) before it can read on, or the other way round.
    final var isReadWaitingToWrite = false
    final var isWriteWaitingToRead = false
    /// What is to be sent.
    final var output: ByteBuffer {
        @inline(__always) _read {
            var borrowed = keptOutput.borrow()
            defer { keptOutput.end(&borrowed) }
            yield borrowed.value
        }
        @inline(__always) _modify {
            var borrowed = keptOutput.borrow()
            defer { keptOutput.end(&borrowed) }
            yield &borrowed.value
        }
    }
    private final var keptOutput: Borrowable<ByteBuffer>
    /// A byte of a request may have been handed to the kernel.
    final var hasSent = false

    /// - Parameter socket: that connects to `server`.
    init(pool: UpstreamPool, server: Int, socket: consuming Socket, isCheck: Bool) {
        self.pool = pool
        self.server = server
        self.isCheck = isCheck
        responseTimeout = pool.settings.responseTimeout
        contentTimeout = pool.settings.contentTimeout
        idleTimeout = pool.settings.idleTimeout
        keptOutput = Borrowable(ByteBuffer(pool: pool.buffers))
        super.init(loop: pool.loop, socket: socket)
        limitConnecting()
        awaitConnect()
    }

    /// Nothing of a call can have been sent.
    final var isConnecting: Bool { stage != .established }

    /// With other addresses or servers to go on to, twice what one has.
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

    /// The socket is connected, or will never be.
    final func connectEnded() {
        let error = pendingError
        guard error == 0 else { return notSent(.connecting(to: place, error)) }
        beginTransport()
    }

    /// The time to connect is over.
    final func connectOverdue() {
        switch stage {
        case .connecting, .established: notSent(.connectTimeout(server: place))
        case .handshake: notSent(tlsFailure("the server did not complete the handshake in time"))
        }
    }

    final var place: String { pool.servers[server].place(of: address) }

    // MARK: - For subclasses

    /// The connection is open, and its other end is the expected server.
    func established() {}
    /// Not one byte of a request was sent on this socket: another one may do.
    func notSent(_ failure: UpstreamFailure) {}
    /// Closes the connection for good.
    func discard() {}
    /// The pool itself goes.
    func abandon() { close() }
}

/// What TLS adds: the handshake, what a server may send unasked, and a direction that waits for the other.
extension UpstreamConnection {
    // MARK: - The handshake

    /// The socket is connected: begins TLS where the upstream has it. Its time is what is left of that to connect.
    final func beginTransport() {
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

    // MARK: - One direction waits for the other

    final func waitToWriteBeforeReading() {
        isReadWaitingToWrite = true
        // What lies in the socket cannot be taken till then: it must not wake the loop again and again.
        wantRead(false)
        wantWrite(true)
    }

    /// The server takes no more now; over TLS, something may have to be read first.
    final func waitToWrite(_ step: TLSStep) {
        if case .tls = transport {
            // Part of a record may be with the kernel, though none of its bytes has left `output`.
            hasSent = true
            isWriteWaitingToRead = step == .wantRead
        }
        wantWrite(!isWriteWaitingToRead)
    }
}
