public import Bytes
public import EventLoop
internal import HTTP

/// One connection to a server of an upstream: HTTP/1.1 calls in turn.
///
/// Owned by its pool. Holds one block for what comes and one for what goes, and none while idle.
public final class UpstreamConnection: SocketHandler {
    private enum Phase {
        case connecting
        case idle
        case head
        case content
    }

    /// The owner, so never gone before this connection.
    private unowned let pool: UpstreamPool
    private let responseTimeout: TimeSpan
    private let idleTimeout: TimeSpan
    var slot = 0
    private var phase = Phase.connecting
    private var call: UpstreamCall?
    private var attempts = 1
    private var callsServed = 0
    /// Of the response under way.
    private var interimResponses = 0
    /// More before one final response are none that a service has a use for.
    private static let interimLimit = 16

    /// What is to be sent: the request, as the call writes it.
    public var output: ByteBuffer
    private var input: ByteBuffer
    private var parser: ResponseHeadParser
    private var head = ResponseHead()
    private var decoder = ContentDecoder(.none, extensions: .ignored)
    /// The request has been written to `output` to its end.
    private var isRequestComplete = false
    private var isResponseHeld = false
    /// The server takes nothing at the moment; its time for that runs.
    private var isBlocked = false
    private var isWorking = false
    /// Cancelled in the middle of an event, where buffers are in use: the connection is closed at its end.
    private var isCancelled = false
    private static let readsPerEvent = 4

    init(pool: UpstreamPool) throws(UpstreamFailure) {
        self.pool = pool
        responseTimeout = pool.settings.responseTimeout
        idleTimeout = pool.settings.idleTimeout
        output = ByteBuffer(pool: pool.buffers)
        input = ByteBuffer(pool: pool.buffers)
        parser = ResponseHeadParser(limits: pool.settings.head)
        super.init(loop: pool.loop, socket: try Self.open(pool, attempts: &attempts))
        wantWrite(true)
        setDeadline(loop.now + pool.settings.connectTimeout)
    }

    /// Tries the servers in turn, each once.
    private static func open(_ pool: UpstreamPool, attempts: inout Int) throws(UpstreamFailure) -> Socket {
        while true {
            do throws(EventLoopError) {
                return try Socket.connect(to: pool.nextAddress())
            } catch {
                guard attempts < pool.settings.servers.count else { throw .unreachable(errno: error.errno) }
                attempts += 1
            }
        }
    }

    // MARK: - For the call

    func begin(_ call: UpstreamCall) {
        self.call = call
        call.connection = self
        isRequestComplete = false
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
        guard phase != .connecting, !isWorking, let call = enter() else { return }
        flush()
        leave(call)
    }

    /// Takes response content again.
    public func resumeResponse() {
        guard isResponseHeld else { return }
        isResponseHeld = false
        setDeadline(loop.now + responseTimeout)
        // In an event of its own: the caller is in the middle of its client's.
        readAgain()
    }

    /// Gives up the call: the connection is in the middle of something and of no more use.
    public func cancel() {
        call?.connection = nil
        call = nil
        if isWorking { isCancelled = true } else { discard() }
    }

    // MARK: - Events

    public override func readable() {
        guard let call = enter() else { return }
        defer { leave(call) }
        // What was held back while the client was slow.
        if !input.isEmpty { advance() }
        for _ in 0..<Self.readsPerEvent {
            guard isOpen, !isResponseHeld, !isCancelled, phase != .idle, receive() else { return }
        }
    }

    public override func writable() {
        guard let call = enter() else { return }
        defer { leave(call) }
        if phase == .connecting {
            let error = pendingError
            guard error == 0 else { return connectionFailed(.unreachable(errno: error)) }
            phase = .head
            wantRead(true)
            clearDeadline()
        }
        flush()
    }

    public override func deadlinePassed() {
        guard let call = enter() else { return }
        defer { leave(call) }
        if phase == .connecting { connectionFailed(.connectTimeout) } else { fail(.responseTimeout) }
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

    private func connectionFailed(_ failure: UpstreamFailure) {
        guard attempts < pool.settings.servers.count else { return fail(failure) }
        attempts += 1
        // Nothing has been sent, so the next server gets the same bytes.
        do throws(UpstreamFailure) {
            replaceSocket(try Self.open(pool, attempts: &attempts))
            wantWrite(true)
            setDeadline(loop.now + pool.settings.connectTimeout)
        } catch {
            fail(error)
        }
    }

    // MARK: - Sending

    private func flush() {
        repeat {
            guard writeOutput() else { return }
            // The call may fill `output` again at once: within this event nobody else would send that.
            if !isRequestComplete { call?.requestSpaceAvailable() }
        } while !output.isEmpty && isOpen && !isCancelled
    }

    /// - Returns: whether everything was sent.
    private func writeOutput() -> Bool {
        while !output.isEmpty {
            switch send(from: &output) {
            case .bytes: isBlocked = false
            case .wouldBlock:
                wantWrite(true)
                // Counted from the last byte that the server took.
                if !isBlocked { setDeadline(loop.now + responseTimeout) }
                isBlocked = true
                return false
            case .endOfStream, .failed:
                // The server may have answered before it closed (a refusal of a large request): read that first.
                output.removeAll()
                wantWrite(false)
                isRequestComplete = false
                setDeadline(loop.now + responseTimeout)
                return false
            }
        }
        output.releaseIfEmpty()
        wantWrite(false)
        // The server's time to answer begins when it has the request. While the client is still sending, it is the client
        // that is watched: a slow network is not the server's fault.
        if phase == .head {
            if isRequestComplete { setDeadline(loop.now + responseTimeout) } else { clearDeadline() }
        }
        return true
    }

    // MARK: - Receiving

    /// Reads once and passes on what came. - Returns: whether there may be more at once.
    private func receive() -> Bool {
        let room = input.room
        guard room > 0 else { return false }
        switch receive(into: &input) {
        case .bytes(let count):
            advance()
            // A read that left room has emptied the socket; the next one would only say so.
            return count == room
        case .wouldBlock: input.releaseIfEmpty()
        case .endOfStream where phase == .content && decoder.endsWithConnection: finish(keeping: false)
        case .endOfStream, .failed: fail(.disconnected)
        }
        return false
    }

    private func advance() {
        while isOpen, !isResponseHeld, let call {
            switch phase {
            case .head:
                guard parseHead(call) else { return }
            case .content:
                guard pushContent(call) else { return }
            case .connecting, .idle: return
            }
        }
    }

    /// - Returns: whether there is more to do now.
    private func parseHead(_ call: UpstreamCall) -> Bool {
        guard !input.isEmpty else { return false }
        let length: Int
        do throws(MessageFault) {
            switch try parser.parse(input.readable, answering: call.method, into: &head) {
            case .incomplete: return false
            case .complete(let complete): length = complete
            }
        } catch {
            fail(.malformed(error))
            return false
        }
        guard head.status != 101 else {
            fail(.unexpectedUpgrade)
            return false
        }
        // 100 is between us and the server; 103 and others are optional (RFC 9110 section 15.2).
        if head.isInterim {
            interimResponses += 1
            guard interimResponses <= Self.interimLimit else {
                fail(.malformed(.interimResponsesRepeated))
                return false
            }
        } else {
            decoder = ContentDecoder(head.framing, extensions: .ignored)
            phase = .content
            call.responseHead(head, input.readable.extracting(first: length))
        }
        input.consume(length)
        return true
    }

    /// - Returns: whether there is more to do now.
    private func pushContent(_ call: UpstreamCall) -> Bool {
        // A copy while it is in use: an access to the property that lasts would be checked for exclusivity every time.
        var decoder = decoder
        defer { self.decoder = decoder }
        do throws(MessageFault) {
            switch try decoder.next(input.readable) {
            case .needMore:
                setDeadline(loop.now + responseTimeout)
                return false
            case .framing(let count): input.consume(count)
            case .content(let count):
                let taken = call.responseContent(input.readable.extracting(first: count))
                input.consume(taken)
                decoder.consumed(taken)
                guard taken == count else {
                    // The client is slower than the server; the client's own timeouts watch it.
                    isResponseHeld = true
                    wantRead(false)
                    clearDeadline()
                    return false
                }
            case .end: finish(keeping: head.isPersistent && isRequestComplete && output.isEmpty && input.isEmpty)
            }
        } catch {
            fail(.malformed(error))
            return false
        }
        return true
    }

    // MARK: - Ending a call

    private func finish(keeping isKept: Bool) {
        guard let call else { return }
        self.call = nil
        call.connection = nil
        callsServed += 1
        if isKept {
            phase = .idle
            input.releaseIfEmpty()
            setDeadline(loop.now + idleTimeout)
            pool.release(self)
        } else {
            discard()
        }
        call.responseEnded()
    }

    private func fail(_ failure: UpstreamFailure) {
        guard let call else { return }
        self.call = nil
        call.connection = nil
        let isStale = failure == .disconnected && callsServed > 0 && phase == .head && input.isEmpty
        discard()
        call.failed(failure, isStale: isStale)
    }

    /// Closes the connection for good. In the middle of a request it is broken: there are servers that take its end for
    /// the end of the content.
    func discard() {
        guard isOpen else { return }
        if !isRequestComplete || !output.isEmpty { breakOnClose() }
        close()
        input.removeAll()
        output.removeAll()
        pool.remove(self, isIdle: phase == .idle)
    }
}

extension EventLoopError {
    /// The error number of a failed system call.
    var errno: Int32 {
        if case .system(_, let errno) = self { errno } else { 0 }
    }
}
