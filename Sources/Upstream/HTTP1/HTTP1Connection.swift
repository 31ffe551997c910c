internal import Bytes
internal import EventLoop
internal import HTTP
internal import TLS

/// One connection that speaks HTTP/1.1: calls in turn.
///
/// What is sent is in `HTTP1Connection+Sending`, what comes in `HTTP1Connection+Receiving`, what is no HTTP any more in
/// `HTTP1Connection+Tunnel`.
public final class HTTP1Connection: UpstreamConnection {
    enum Phase {
        case idle
        case head
        case content
        /// The server has switched protocols, and the call takes its bytes as they are.
        case tunnel
    }

    /// Of the call under way. While connecting, the call waits for that.
    var phase = Phase.head
    var call: UpstreamCall?
    /// Of the response under way.
    var interimResponses = 0
    var input: ByteBuffer {
        @inline(__always) _read {
            var borrowed = keptInput.borrow()
            defer { keptInput.end(&borrowed) }
            yield borrowed.value
        }
        @inline(__always) _modify {
            var borrowed = keptInput.borrow()
            defer { keptInput.end(&borrowed) }
            yield &borrowed.value
        }
    }
    private var keptInput: Borrowable<ByteBuffer>
    var parser: ResponseHeadParser {
        @inline(__always) _read {
            var borrowed = keptParser.borrow()
            defer { keptParser.end(&borrowed) }
            yield borrowed.value
        }
        @inline(__always) _modify {
            var borrowed = keptParser.borrow()
            defer { keptParser.end(&borrowed) }
            yield &borrowed.value
        }
    }
    private var keptParser: Borrowable<ResponseHeadParser>
    /// Of the response under way, while it has not come whole. Then it is kept for its room.
    var head = ResponseHead()
    /// Whether that response, once complete, leaves the connection to the next call.
    var allowsAnotherCall = false
    var decoder = ContentDecoder(.none, extensions: .ignored)
    /// The content of the request goes in chunks.
    var isChunked = false
    /// The request has been written to `output` to its end.
    var isRequestComplete = false
    var isResponseHeld = false
    /// The server takes nothing at the moment; its time for that runs.
    var isBlocked = false
    private var isWorking = false
    /// Cancelled in the middle of an event, where buffers are in use: the connection is closed at its end.
    private(set) var isCancelled = false
    private static let readsPerEvent = 4

    override init(pool: UpstreamPool, server: Int, socket: consuming Socket, isCheck: Bool) {
        keptInput = Borrowable(ByteBuffer(pool: pool.buffers))
        keptParser = Borrowable(ResponseHeadParser(limits: pool.settings.head))
        super.init(pool: pool, server: server, socket: socket, isCheck: isCheck)
    }

    // MARK: - For the call

    func begin(_ call: UpstreamCall) {
        self.call = call
        call.carrier = .http1(self)
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
    func send(isComplete: Bool) {
        if isComplete { isRequestComplete = true }
        // Within an event, `flush` sees for itself that there is more.
        guard !isConnecting, !isWorking, let call = enter() else { return }
        flush()
        leave(call)
    }

    /// Takes response content again.
    func resumeResponse() {
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
        if stage == .handshake { return handshake() }
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
        isOpen && !isResponseHeld && !isCancelled && !isConnecting && phase != .idle
    }

    public override func writable() {
        guard let call = enter() else { return }
        defer { leave(call) }
        switch stage {
        case .connecting: return connectEnded()
        case .handshake: return handshake()
        case .established: break
        }
        if isReadWaitingToWrite {
            isReadWaitingToWrite = false
            // In an event of its own, in the turn of what reads.
            readAgain()
        }
        flush()
    }

    /// The request goes out.
    override func established() {
        wantRead(true)
        clearDeadline()
        flush()
        if isOpen, phase == .head, transport.hasBufferedInput { readAgain() }
    }

    public override func deadlinePassed() {
        guard let call = enter() else { return }
        defer { leave(call) }
        if isConnecting { connectOverdue() } else { fail(.responseTimeout) }
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
        call.finishEvent()
    }

    /// Not one byte of the request was sent, so another socket gets all of them: of the same server, or of the next.
    override func notSent(_ failure: UpstreamFailure) {
        do throws(UpstreamFailure) {
            if !isConnecting { limitConnecting() }
            replaceSocket(try pool.anotherSocket(for: self, of: isCheck ? nil : call, after: failure))
            callsServed = 0
            input.removeAll()
            awaitConnect()
        } catch {
            end(error, isUnanswered: false)
        }
    }

    // MARK: - Ending a call

    private func detachCall() -> UpstreamCall? { detachCall(from: pool) }

    private func detachCall(from pool: UpstreamPool) -> UpstreamCall? {
        guard let call else { return nil }
        self.call = nil
        call.carrier = nil
        pool.callEnded(on: self)
        return call
    }

    func finish(keeping isKept: Bool) {
        // Looked at once: what is unowned is counted at each look.
        let pool = pool
        guard let call = detachCall(from: pool) else { return }
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
        if !hasSent, hasEnded || failure == .answeredInHTTP2(server: place) { return notSent(failure) }
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
        call.failed(failure, again: isUnanswered ? .ifIdempotent : .never)
    }

    override func abandon() {
        call?.carrier = nil
        call = nil
        close()
    }

    /// Closes the connection for good. In the middle of a request it is broken: there are servers that take its end for
    /// the end of the content, close_notify or not.
    override func discard() {
        guard isOpen else { return }
        if !isRequestComplete || !output.isEmpty { breakOnClose() } else { transport.sendCloseNotify() }
        close()
        input.removeAll()
        output.removeAll()
        pool.remove(self, isIdle: phase == .idle && !isConnecting)
    }
}
