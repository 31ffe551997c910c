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

    private unowned let pool: UpstreamPool
    private var phase = Phase.connecting
    private var call: UpstreamCall?
    private var attempts = 1
    private var callsServed = 0

    /// What is to be sent: the request, as the call writes it.
    public var output: ByteBuffer
    private var input: ByteBuffer
    private var parser: ResponseHeadParser
    private var head = ResponseHead()
    private var decoder = ContentDecoder(.none, extensions: .ignored)
    /// The request has been written to `output` to its end.
    private var isRequestComplete = false
    private var isResponseHeld = false
    private var isWorking = false
    /// Cancelled in the middle of an event, where buffers are in use: the connection is closed at its end.
    private var isCancelled = false
    private static let readsPerEvent = 4

    init(pool: UpstreamPool) throws(UpstreamFailure) {
        self.pool = pool
        output = ByteBuffer(pool: pool.buffers)
        input = ByteBuffer(pool: pool.buffers)
        parser = ResponseHeadParser(limits: pool.settings.head)
        super.init(loop: pool.loop, socket: try Self.open(pool, attempts: &attempts))
        wantWrite(true)
        setDeadline(.now + pool.settings.connectTimeout)
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
        if phase == .idle {
            phase = .head
            wantRead(true)
            setDeadline(.now + pool.settings.responseTimeout)
        }
    }

    /// Sends what is in `output`.
    ///
    /// - Parameter isComplete: whether the request ends with it.
    public func send(isComplete: Bool) {
        if isComplete { isRequestComplete = true }
        guard phase != .connecting, !isWorking else { return }
        work { flush() }
    }

    /// Takes response content again.
    public func resumeResponse() {
        guard isResponseHeld else { return }
        isResponseHeld = false
        setDeadline(.now + pool.settings.responseTimeout)
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
        work {
            // What was held back while the client was slow.
            if !input.isEmpty { advance() }
            for _ in 0..<Self.readsPerEvent {
                guard isOpen, !isResponseHeld, !isCancelled, receive() else { return }
                advance()
            }
        }
    }

    public override func writable() {
        work {
            if phase == .connecting {
                let error = pendingError
                guard error == 0 else { return connectionFailed(.unreachable(errno: error)) }
                phase = .head
                wantRead(true)
                setDeadline(.now + pool.settings.responseTimeout)
            }
            flush()
        }
    }

    public override func deadlinePassed() {
        work {
            switch phase {
            case .connecting: connectionFailed(.connectTimeout)
            case .idle: discard()
            case .head, .content: fail(.responseTimeout)
            }
        }
    }

    /// Runs one event and lets the call settle at its end; nested calls run within the outer one.
    private func work(_ body: () -> Void) {
        guard !isWorking else { return body() }
        let call = call
        isWorking = true
        body()
        isWorking = false
        if isCancelled, isOpen { discard() }
        call?.settle()
    }

    private func connectionFailed(_ failure: UpstreamFailure) {
        guard attempts < pool.settings.servers.count else { return fail(failure) }
        attempts += 1
        // Nothing has been sent, so the next server gets the same bytes.
        do throws(UpstreamFailure) {
            replaceSocket(try Self.open(pool, attempts: &attempts))
            wantWrite(true)
            setDeadline(.now + pool.settings.connectTimeout)
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
            case .bytes: continue
            case .wouldBlock:
                wantWrite(true)
                return false
            case .endOfStream, .failed:
                // The server may have answered before it closed (a refusal of a large request): read that first.
                output.removeAll()
                wantWrite(false)
                isRequestComplete = false
                return false
            }
        }
        output.releaseIfEmpty()
        wantWrite(false)
        return true
    }

    // MARK: - Receiving

    /// - Returns: whether bytes came.
    private func receive() -> Bool {
        guard input.room > 0 else { return false }
        switch receive(into: &input) {
        case .bytes where phase == .idle:
            // A server that speaks without being asked cannot be trusted with the next call.
            discard()
        case .bytes: return true
        case .wouldBlock:
            input.releaseIfEmpty()
        case .endOfStream: connectionEnded()
        case .failed: phase == .idle ? discard() : fail(.disconnected)
        }
        return false
    }

    private func connectionEnded() {
        switch phase {
        case .idle: discard()
        case .content where decoder.endsWithConnection: finish(keeping: false)
        default: fail(.disconnected)
        }
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
        if !head.isInterim {
            decoder = ContentDecoder(head.framing, extensions: .ignored)
            phase = .content
            call.responseHead(head, input.readable.extracting(first: length))
        }
        input.consume(length)
        return true
    }

    /// - Returns: whether there is more to do now.
    private func pushContent(_ call: UpstreamCall) -> Bool {
        do throws(MessageFault) {
            switch try decoder.next(input.readable) {
            case .needMore:
                setDeadline(.now + pool.settings.responseTimeout)
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
            setDeadline(.now + pool.settings.idleTimeout)
            pool.release(self)
        } else {
            discard()
        }
        call.responseEnded()
    }

    private func fail(_ failure: UpstreamFailure) {
        guard let call else { return discard() }
        self.call = nil
        call.connection = nil
        let isStale = failure == .disconnected && callsServed > 0 && phase == .head && input.isEmpty
        discard()
        call.failed(failure, isStale: isStale)
    }

    private func discard() {
        close()
        input.removeAll()
        output.removeAll()
        pool.remove(self)
    }
}

extension EventLoopError {
    /// The error number of a failed system call.
    var errno: Int32 {
        if case .system(_, let errno) = self { errno } else { 0 }
    }
}
