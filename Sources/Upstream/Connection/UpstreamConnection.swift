public import Bytes
public import EventLoop
internal import HTTP
internal import TLS

/// One connection to a server of an upstream: HTTP/1.1 calls in turn.
///
/// Owned by its pool. Holds one block for what comes and one for what goes, and none while idle. What is sent is in
/// `UpstreamConnection+Sending`, what comes in `UpstreamConnection+Receiving`, what TLS adds in `UpstreamConnection+TLS`, what is no
/// HTTP any more in `UpstreamConnection+Tunnel`.
public final class UpstreamConnection: SocketHandler {
    enum Phase {
        case connecting
        case handshake
        case idle
        case head
        case content
        /// The server has switched protocols, and the call takes its bytes as they are.
        case tunnel
    }

    /// The owner, so never gone before this connection.
    unowned let pool: UpstreamPool
    let responseTimeout: TimeSpan
    let contentTimeout: TimeSpan
    private let idleTimeout: TimeSpan
    /// The server's place.
    var server: Int
    var slot = 0
    /// Asks whether the server is well: it serves one call, belongs to one server and counts for no limit.
    let isCheck: Bool
    var phase = Phase.connecting
    var call: UpstreamCall?
    private(set) var callsServed = 0
    /// The server's number for the address that it leads to.
    var address = 0
    /// Addresses of the server that were not tried yet, and until when any may be.
    var addressesLeft = 0
    private(set) var connectEnd = Instant(nanoseconds: .max)
    /// What came of the server's addresses that were tried for the call; nil if nothing did yet.
    var connectFailure: UpstreamFailure?
    /// Of the response under way.
    var interimResponses = 0

    /// Of the socket there is now.
    var transport = Transport.plain
    /// TLS has to write (a key update) before it can read on, or the other way round.
    var isReadWaitingToWrite = false
    var isWriteWaitingToRead = false
    /// What is to be sent: the request, as the call writes it.
    public var output: ByteBuffer
    var input: ByteBuffer
    var parser: ResponseHeadParser
    var head = ResponseHead()
    var decoder = ContentDecoder(.none, extensions: .ignored)
    /// The request has been written to `output` to its end.
    var isRequestComplete = false
    /// A byte of the request has been handed to the kernel.
    var hasSent = false
    var isResponseHeld = false
    /// The server takes nothing at the moment; its time for that runs.
    var isBlocked = false
    private var isWorking = false
    /// Cancelled in the middle of an event, where buffers are in use: the connection is closed at its end.
    private(set) var isCancelled = false
    private static let readsPerEvent = 4

    /// - Parameter socket: that connects to `server`.
    init(pool: UpstreamPool, server: Int, socket: consuming Socket, isCheck: Bool) {
        self.pool = pool
        self.server = server
        self.isCheck = isCheck
        responseTimeout = pool.settings.responseTimeout
        contentTimeout = pool.settings.contentTimeout
        idleTimeout = pool.settings.idleTimeout
        output = ByteBuffer(pool: pool.buffers)
        input = ByteBuffer(pool: pool.buffers)
        parser = ResponseHeadParser(limits: pool.settings.head)
        super.init(loop: pool.loop, socket: socket)
        connectEnd = loop.now + pool.settings.connectTimeout + pool.settings.connectTimeout
        awaitConnect()
    }

    private func awaitConnect() {
        phase = .connecting
        transport = .plain
        isReadWaitingToWrite = false
        isWriteWaitingToRead = false
        wantWrite(true)
        setDeadline(min(loop.now + pool.settings.connectTimeout, connectEnd))
    }

    // MARK: - For the call

    func begin(_ call: UpstreamCall) {
        self.call = call
        call.connection = self
        isRequestComplete = false
        hasSent = false
        isResponseHeld = false
        isBlocked = false
        interimResponses = 0
        if phase == .idle {
            phase = .head
            wantRead(true)
            // The server owes nothing yet: `writeOutput` says from when on it does.
            clearDeadline()
        }
    }

    /// Sends what is in `output`.
    ///
    /// - Parameter isComplete: whether the request ends with it.
    public func send(isComplete: Bool) {
        if isComplete { isRequestComplete = true }
        // Within an event, `flush` sees for itself that there is more.
        guard !isConnecting, !isWorking, let call = enter() else { return }
        flush()
        leave(call)
    }

    /// Takes response content again.
    public func resumeResponse() {
        guard isResponseHeld else { return }
        isResponseHeld = false
        if phase != .tunnel { awaitContent() }
        // In an event of its own: the caller is in the middle of its client's.
        readAgain()
    }

    /// Gives up the call: the connection is in the middle of something and of no more use.
    func cancel() {
        _ = detachCall()
        if isWorking { isCancelled = true } else { discard() }
    }

    // MARK: - Events

    public override func readable() {
        if call == nil, readUnasked() { return }
        guard let call = enter() else { return }
        defer { leave(call) }
        if phase == .handshake { return handshake() }
        if isWriteWaitingToRead {
            isWriteWaitingToRead = false
            flush()
        }
        // What was held back while the client was slow.
        if !input.isEmpty { advance() }
        for _ in 0..<Self.readsPerEvent {
            guard mayReceive, receive() else { return }
        }
        // What TLS has read ahead makes no socket readable.
        if mayReceive, transport.hasBufferedInput { readAgain() }
    }

    private var mayReceive: Bool {
        isOpen && !isResponseHeld && !isCancelled && (phase == .head || phase == .content || phase == .tunnel)
    }

    public override func writable() {
        guard let call = enter() else { return }
        defer { leave(call) }
        if phase == .connecting {
            let error = pendingError
            guard error == 0 else { return notSent(.unreachable(server: place, errno: error)) }
            return beginTransport()
        }
        if phase == .handshake { return handshake() }
        if isReadWaitingToWrite {
            isReadWaitingToWrite = false
            // In an event of its own, in the turn of what reads.
            readAgain()
        }
        flush()
    }

    private var place: String { pool.servers[server].place(of: address) }

    /// The connection is there, and whoever is to be at its other end: the request goes out.
    func established() {
        phase = .head
        wantRead(true)
        clearDeadline()
        flush()
    }

    public override func deadlinePassed() {
        guard let call = enter() else { return }
        defer { leave(call) }
        switch phase {
        case .connecting: notSent(.connectTimeout(server: place))
        case .handshake: notSent(tlsFailure("the server did not complete the handshake in time"))
        case .idle, .head, .content, .tunnel: fail(.responseTimeout)
        }
    }

    /// Begins an event of the call under way. Without one there is nothing to be heard but the end: a server that speaks
    /// without being asked cannot be trusted with the next call either.
    private func enter() -> UpstreamCall? {
        guard let call else {
            discard()
            return nil
        }
        isWorking = true
        return call
    }

    /// Ends an event: the call may now write to its client.
    private func leave(_ call: UpstreamCall) {
        isWorking = false
        if isCancelled, isOpen { discard() }
        call.settle()
    }

    /// Not one byte of the request was sent, so another socket gets all of them: of the same server, or of the next.
    func notSent(_ failure: UpstreamFailure) {
        do throws(UpstreamFailure) {
            if !isConnecting {
                connectEnd = loop.now + pool.settings.connectTimeout + pool.settings.connectTimeout
            }
            replaceSocket(try pool.anotherSocket(for: self, after: failure))
            callsServed = 0
            input.removeAll()
            awaitConnect()
        } catch {
            end(error, isUnanswered: false)
        }
    }

    // MARK: - Ending a call

    private func detachCall() -> UpstreamCall? {
        guard let call else { return nil }
        self.call = nil
        call.connection = nil
        pool.callEnded(self)
        return call
    }

    func finish(keeping isKept: Bool) {
        guard let call = detachCall() else { return }
        callsServed += 1
        if !isCheck { pool.succeeded(server) }
        if isKept, !isCheck {
            phase = .idle
            input.releaseIfEmpty()
            setDeadline(loop.now + idleTimeout)
            pool.release(self)
        } else {
            discard()
        }
        call.responseEnded()
    }

    func fail(_ failure: UpstreamFailure) {
        let hasEnded = failure == .disconnected || failure.kind == .tls
        guard !hasEnded || hasSent else { return notSent(failure) }
        let isUnanswered = hasEnded && phase == .head && input.isEmpty && interimResponses == 0
        // A server may close a connection that was long unused, whatever is on its way there, or whose request does not come to
        // its end: no fault of it, and a client that dawdles must not have it ejected.
        let isExcused = failure == .disconnected && !isRequestComplete || isUnanswered && callsServed > 0
        // A tunnel was granted, and that is all a server is judged by.
        if !isExcused, phase != .tunnel { pool.failed(server, failure, isCheck: isCheck) }
        end(failure, isUnanswered: isUnanswered)
    }

    private func end(_ failure: UpstreamFailure, isUnanswered: Bool) {
        guard let call = detachCall() else { return }
        discard()
        call.tried.insert(server)
        call.failed(failure, isUnanswered: isUnanswered)
    }

    /// The pool itself goes.
    func abandon() {
        call?.connection = nil
        call = nil
        close()
    }

    /// Closes the connection for good. In the middle of a request it is broken: there are servers that take its end for
    /// the end of the content, close_notify or not.
    func discard() {
        guard isOpen else { return }
        if !isRequestComplete || !output.isEmpty { breakOnClose() } else { transport.sendCloseNotify() }
        close()
        input.removeAll()
        output.removeAll()
        pool.remove(self, isIdle: phase == .idle)
    }
}
