internal import Bytes
internal import EventLoop
internal import HTTP
internal import TLS

/// A connection that speaks HTTP/1.1 and carries one call at a time.
///
/// After the server has switched protocols, it is a tunnel: bytes go both ways until one side ends, and no other call
/// follows. The client's side limits the time without traffic.
///
/// ```
///            begin            final head            101, requested
/// idle -----------------> head ----------> content   head -------> tunnel
///   ^                      |                |  |                     |
///   +--- all of both sent -----------------+  |                     |
///                          +---- failed, cancelled, incomplete -----+--> ended
/// ```
public final class HTTP1Connection: UpstreamConnection {
    private enum State {
        /// There is no call. The pool keeps the connection for the next one.
        case idle
        /// While connecting, the call waits.
        case active(UpstreamCall, Response)
        /// The call has ended, and no other one follows. If it was cancelled within an event, the connection is closed
        /// at the end of that event, which uses the buffers.
        case ended
    }

    private enum Response {
        case head(interimResponses: Int)
        case content(ContentDecoder, allowsAnotherCall: Bool, isHeld: Bool)
        /// The server has switched protocols, and the call gets its bytes unchanged.
        case tunnel(isHeld: Bool)

        /// Whether the client is slower than the server, so that nothing is read.
        var isHeld: Bool {
            switch self {
            case .head: false
            case .content(_, _, let isHeld), .tunnel(let isHeld): isHeld
            }
        }
    }

    /// The progress of the call's request, or of our side of the tunnel.
    private enum Request {
        /// The call may write more.
        case open(isChunked: Bool, Delivery)
        /// Everything has been written to `output`.
        case complete(Delivery)
    }

    /// What the server's socket has accepted. While it is blocked, the timeout of the server runs.
    private enum Delivery {
        /// No byte can have been passed to the kernel.
        case unsent(isBlocked: Bool)
        case sent(isBlocked: Bool)

        var isBlocked: Bool {
            switch self {
            case .unsent(let isBlocked), .sent(let isBlocked): isBlocked
            }
        }
    }

    private var state = State.idle
    private var request = Request.open(isChunked: false, .unsent(isBlocked: false))
    private var isHandlingEvent = false
    var input: ByteBuffer
    private var parser: ResponseHeadParser
    /// A head for each response, kept for its capacity.
    private var head = ResponseHead()
    private static let readsPerEvent = 4

    override init(pool: UpstreamPool, server: Int, addressesLeft: Int, socket: consuming Socket, isCheck: Bool) {
        input = ByteBuffer(pool: pool.buffers)
        parser = ResponseHeadParser(limits: pool.settings.head)
        super.init(pool: pool, server: server, addressesLeft: addressesLeft, socket: socket, isCheck: isCheck)
    }

    // MARK: - Interface for the call

    func begin(_ call: UpstreamCall) {
        call.placement = .carried(.http1(self))
        state = .active(call, .head(interimResponses: 0))
        request = .open(isChunked: false, .unsent(isBlocked: false))
        guard !isConnecting else { return }
        wantRead(true)
        // The server owes nothing yet; `writeOutput` starts its timeout.
        clearDeadline()
    }

    /// Sends the content of `output`.
    ///
    /// - Parameter isComplete: whether the request ends with it.
    func send(isComplete: Bool) {
        if isComplete { request = .complete(delivery) }
        // Within an event, `flush` notices by itself.
        guard !isConnecting, !isHandlingEvent else { return }
        // The caller is an event of the client or of the pool, which ends with the client's output.
        handleEvent { flush() }
    }

    /// Continues to pass on response content.
    func resumeResponse() {
        switch state {
        case .active(let call, .content(let decoder, let allowsAnotherCall, isHeld: true)):
            state = .active(call, .content(decoder, allowsAnotherCall: allowsAnotherCall, isHeld: false))
            awaitContent()
        case .active(let call, .tunnel(isHeld: true)): state = .active(call, .tunnel(isHeld: false))
        case .active, .idle, .ended: return
        }
        // In an event of its own: the caller is within an event of its client.
        readAgain()
    }

    /// Cancels the call. Its connection is in the middle of a message, and is closed.
    func cancel() {
        _ = detachCall(from: pool)
        if !isHandlingEvent { discard() }
    }

    // MARK: - Events

    public override func readable() {
        if case .idle = state, readUnasked() { return }
        handle {
            if continueConnecting(isWritable: false) { return }
            if waits.remove(.write) != nil { flush() }
            // The bytes held back while the client was slow.
            if !input.isEmpty { advance() }
            for _ in 0..<Self.readsPerEvent {
                guard mayReceive, receive() else { return }
            }
            // Bytes that TLS has read ahead make no socket readable.
            if mayReceive, transport.hasBufferedInput { readAgain() }
        }
    }

    private var mayReceive: Bool {
        guard case .active(_, let response) = state else { return false }
        return isOpen && !isConnecting && !response.isHeld
    }

    public override func writable() {
        handle {
            if continueConnecting(isWritable: true) { return }
            // In an event of its own, in the order of reading.
            if waits.remove(.read) != nil { readAgain() }
            flush()
        }
    }

    /// Sends the request.
    override func established() {
        wantRead(true)
        clearDeadline()
        flush()
        guard isOpen, case .active(_, .head) = state, transport.hasBufferedInput else { return }
        readAgain()
    }

    public override func deadlinePassed() {
        handle { if !endOverdueConnecting() { fail(.responseTimeout) } }
    }

    /// Handles an event of the call in flight, which may write to its client afterwards. Without a call, only the end
    /// is acceptable: a server that sends unrequested bytes cannot be trusted with the next call.
    private func handle(_ event: () -> Void) {
        switch state {
        case .idle, .ended: discard()
        case .active(let call, _):
            handleEvent(event)
            call.finishEvent()
        }
    }

    /// Handles an event without notifying the call of its end.
    private func handleEvent(_ event: () -> Void) {
        isHandlingEvent = true
        event()
        isHandlingEvent = false
        // Cancelled within the event.
        if case .ended = state { discard() }
    }

    /// Continues after a failure before the first byte. Another socket gets the whole request: of the same server, or
    /// of the next one.
    override func notSent(_ failure: UpstreamFailure) {
        guard case .active(let call, _) = state else { return }
        do throws(UpstreamFailure) {
            try reconnect(for: isCheck ? nil : call, after: failure, isExtended: !isConnecting)
            input.removeAll()
        } catch {
            end(error, again: .never)
        }
    }

    // MARK: - Ending a call

    private func detachCall(from pool: UpstreamPool) -> UpstreamCall? {
        guard case .active(let call, _) = state else { return nil }
        state = .ended
        call.placement = .unplaced
        pool.callEnded(on: self)
        return call
    }

    private func finish(keeping isKept: Bool) {
        // Only one look-up: access to an unowned reference is counted.
        let pool = pool
        guard let call = detachCall(from: pool) else { return }
        endSearch()
        if !isCheck { pool.succeeded(server) }
        if isKept, !isCheck {
            state = .idle
            input.releaseIfEmpty()
            setDeadline(loop.now + idleTimeout)
            pool.release(self)
        } else {
            discard()
        }
        call.responseEnded()
    }

    private func fail(_ failure: UpstreamFailure) {
        let hasEnded = failure == .disconnected || failure.kind == .tls
        if isUnsent, hasEnded || failure == .answeredInHTTP2(server: place) { return notSent(failure) }
        var isUnanswered = false
        var isTunnel = false
        switch state {
        case .active(_, .head(interimResponses: 0)): isUnanswered = hasEnded && input.isEmpty
        case .active(_, .tunnel): isTunnel = true
        case .active, .idle, .ended: break
        }
        // A server may close a long unused connection at any time, and a connection whose request remains incomplete.
        // This is no failure of the server, and a slow client must not have it ejected.
        let isExcused = failure == .disconnected && !isRequestComplete || isUnanswered && hasServed
        // A server that grants a tunnel has succeeded, whatever follows.
        if !isExcused, !isTunnel { pool.failed(server, failure, isCheck: isCheck) }
        end(failure, again: isUnanswered ? .ifIdempotent : .never)
    }

    private func end(_ failure: UpstreamFailure, again: Repetition) {
        guard let call = detachCall(from: pool) else { return }
        discard()
        call.search.tried.insert(server)
        call.failed(failure, again: again)
    }

    override func abandon() {
        if case .active(let call, _) = state { call.placement = .unplaced }
        state = .ended
        close()
    }

    /// Closes the connection for good. In the middle of a request the connection is reset: some servers take its end
    /// for the end of the content, with or without close_notify.
    override func discard() {
        guard isOpen else { return }
        if !isRequestComplete || !output.isEmpty { breakOnClose() } else { transport.sendCloseNotify() }
        close()
        input.removeAll()
        output.removeAll()
        if case .idle = state { pool.remove(self, isIdle: true) } else { pool.remove(self, isIdle: false) }
    }
}

// MARK: - Receiving

extension HTTP1Connection {
    /// The maximum number of interim responses before one final response. No service needs more.
    private static var interimLimit: Int { 16 }

    /// Reads once and passes on the bytes.
    ///
    /// - Returns: whether more may be available at once.
    private func receive() -> Bool {
        let (step, room) = transport.fill(&input, from: self)
        guard room > 0 else { return false }
        switch step {
        // Nothing was requested yet, so this is no response. It may have been sent ahead, for another client.
        case .done where isUnsent:
            fail(HTTP2Preface.look(at: input.readable) == .whole ? .answeredInHTTP2(server: place) : .disconnected)
        case .done(let count):
            advance()
            // A read that left room has emptied the socket; the next one would only confirm that.
            return count == room || transport.hasBufferedInput
        case .wantRead: input.releaseIfEmpty()
        case .wantWrite:
            input.releaseIfEmpty()
            waitToWriteBeforeReading()
        case .endOfStream: endInput()
        // This includes content until the end of the connection without close_notify: anybody on the path can cut a
        // connection off, and the content may be incomplete (RFC 9112 section 9.8).
        case .failed(.disconnected): fail(.disconnected)
        case .failed(let failure): fail(tlsFailure(failure))
        }
        return false
    }

    /// Handles the end of the server's side. All earlier bytes have been passed on: nothing is read while bytes are
    /// held.
    private func endInput() {
        switch state {
        case .active(_, .content(let decoder, _, _)) where decoder.endsWithConnection: finish(keeping: false)
        case .active(let call, .tunnel):
            wantRead(false)
            call.tunnelEnded()
        case .active, .idle, .ended: fail(.disconnected)
        }
    }

    private func advance() {
        while isOpen {
            switch state {
            case .active(let call, .head(let interimResponses)):
                guard parseHead(call, after: interimResponses) else { return }
            case .active(let call, .content(let decoder, let allowsAnotherCall, isHeld: false)):
                guard pushContent(call, decoder, allowsAnotherCall: allowsAnotherCall) else { return }
            case .active(let call, .tunnel(isHeld: false)): return pushTunnel(call)
            case .active, .idle, .ended: return
            }
        }
    }

    /// Parses a head.
    ///
    /// - Returns: whether there is more to do now.
    private func parseHead(_ call: UpstreamCall, after interimResponses: Int) -> Bool {
        switch HTTP2Preface.look(at: input.readable) {
        case .none: break
        case .part: return false
        case .whole:
            fail(.answeredInHTTP2(server: place))
            return false
        }
        let method = call.method
        // Moved out during its use: the call would get a copy, which counts references.
        var head = ResponseHead()
        swap(&head, &self.head)
        defer { swap(&head, &self.head) }
        let length: Int
        do throws(MessageFault) {
            switch try parser.parse(input.readable, answering: method, into: &head) {
            case .incomplete: return false
            case .complete(let complete): length = complete
            }
        } catch {
            fail(.malformed(error))
            return false
        }
        guard head.status != 101 else {
            guard beginTunnel(call, head, headLength: length) else { return false }
            input.consume(length)
            return true
        }
        // 100 concerns only us and the server; 103 and others are optional (RFC 9110 section 15.2).
        if head.isInterim {
            guard interimResponses < Self.interimLimit else {
                fail(.malformed(.interimResponsesRepeated))
                return false
            }
            state = .active(call, .head(interimResponses: interimResponses + 1))
        } else {
            let decoder = ContentDecoder(head.framing, extensions: .ignored)
            let isPersistent = head.isPersistent && !Self.mayBeFollowedByContent(head, answering: method)
            state = .active(call, .content(decoder, allowsAnotherCall: isPersistent, isHeld: false))
            call.responseHead(head, input.readable.extracting(first: length))
        }
        input.consume(length)
        return true
    }

    /// Sets the deadline for the next piece of content.
    ///
    /// A server that has answered early and still gets the request may wait for the rest of it; then the client is
    /// timed. The server is timed after it has the whole request, and while it accepts no available bytes.
    private func awaitContent() {
        if isRequestComplete || delivery.isBlocked { setDeadline(loop.now + contentTimeout) } else { clearDeadline() }
    }

    /// Returns whether the head announces content that must not follow: with HEAD, 204 and 304 (RFC 9112 section 6.3).
    /// Some servers send it nevertheless a moment later, and it would be taken for the next response.
    private static func mayBeFollowedByContent(_ head: ResponseHead, answering method: Method?) -> Bool {
        guard head.framing == .none else { return false }
        if head.statesChunked { return true }
        return method == .head ? head.statedLength != 0 : (head.statedLength ?? 0) > 0
    }

    /// Passes on content.
    ///
    /// - Returns: whether there is more to do now.
    private func pushContent(_ call: UpstreamCall, _ before: ContentDecoder, allowsAnotherCall: Bool) -> Bool {
        var decoder = before
        var step = ContentDecoder.Step.end
        var isHeld = false
        if !decoder.isAtEnd {
            do throws(MessageFault) { step = try decoder.next(input.readable) } catch {
                fail(.malformed(error))
                return false
            }
            switch step {
            case .needMore: awaitContent()
            case .framing(let count): input.consume(count)
            case .content(let count):
                let taken = call.responseContent(input.readable.extracting(first: count))
                decoder.consumed(taken)
                input.consume(taken)
                isHeld = taken < count
            case .end: break
            }
            // The call may have been cancelled within.
            guard case .active = state else { return false }
        }
        // The end depends only on whether everything has arrived.
        guard !decoder.isAtEnd else {
            finish(keeping: allowsAnotherCall && isRequestComplete && output.isEmpty && input.isEmpty)
            return true
        }
        state = .active(call, .content(decoder, allowsAnotherCall: allowsAnotherCall, isHeld: isHeld))
        if isHeld {
            // The client is slower than the server; the client's own timeouts apply.
            wantRead(false)
            clearDeadline()
        }
        return !isHeld && step != .needMore
    }

    // MARK: - Unused connections

    /// Whether the connection can serve the next call: nothing has arrived from the server, not even the end.
    var isReusable: Bool {
        if transport.isPlain { return isQuiet }
        // The kind of an incomplete record is unknown.
        return readUnasked() && !transport.hasBufferedInput
    }

    /// Reads records that a server may send over TLS at any time: tickets and key updates (RFC 8446 section 4.6). Only
    /// TLS distinguishes these from an unrequested response.
    ///
    /// - Returns: whether nothing else has arrived.
    private func readUnasked() -> Bool {
        guard !transport.isPlain, case .wantRead = transport.read(from: self, into: &input) else { return false }
        input.releaseIfEmpty()
        return true
    }
}

// MARK: - Sending

extension HTTP1Connection {
    // MARK: - Interface for the call

    func writeHead(
        _ request: OutgoingRequest, path: Span<UInt8>, query: Span<UInt8>?, authority: Span<UInt8>,
        fields: (inout ByteBuffer) -> Void
    ) -> Bool {
        output.appendRequestHead(
            request.method, path: path, query: query, authority: authority, framing: request.framing,
            isUpgrade: request.isUpgrade, isLast: isCheck, fields: fields)
        self.request = .open(isChunked: request.framing == .chunked, delivery)
        guard output.overflowed else { return true }
        output.removeAll()
        return false
    }

    /// The room for content. Chunks leave room for the last one, so that the end never waits for room alone.
    var contentRoom: Int { isChunked ? max(0, output.chunkRoom - ByteBuffer.lastChunkLength) : output.room }

    /// Writes content.
    ///
    /// - Parameters:
    ///   - first: a byte that was kept back. Together with the content it must not exceed `contentRoom`.
    ///   - content: the content that follows the byte.
    func write(_ first: UInt8?, _ content: Span<UInt8>) {
        guard !isChunked else { return output.appendChunk(first, content) }
        if let first { output.append(first) }
        output.append(content)
    }

    func writeEnd() -> Bool { !isChunked || output.appendLastChunk() }

    // MARK: - The socket

    private func flush() {
        repeat {
            guard writeOutput() else { return }
            // The call may fill `output` again at once: within this event nothing else would send it.
            if !isRequestComplete, case .active(let call, _) = state { call.requestSpaceAvailable() }
            guard case .active = state else { return }
        } while !output.isEmpty && isOpen
    }

    /// Writes the output to the socket.
    ///
    /// - Returns: whether everything was sent.
    private func writeOutput() -> Bool {
        let (outcome, taken) = transport.drain(&output, to: self)
        if taken > 0 { delivery = .sent(isBlocked: false) }
        switch outcome {
        case .all: break
        case .wantWrite, .wantRead:
            waitToWrite(afterReading: outcome == .wantRead)
            // The timeout counts from the last byte that the server accepted. A server whose response waits for the
            // client is excused.
            if !delivery.isBlocked, !isResponseHeld { setDeadline(loop.now + responseTimeout) }
            // The kernel may have part of a TLS record, though none of its bytes has left `output`.
            delivery = isUnsent && transport.isPlain ? .unsent(isBlocked: true) : .sent(isBlocked: true)
            return false
        case .broken:
            writeFailed()
            return false
        }
        wantWrite(waits.contains(.read))
        // The server's time to answer begins when it has the request. While the client is still sending, the client is
        // timed: a slow network is not the server's fault.
        switch state {
        case .active(_, .head) where isRequestComplete: setDeadline(loop.now + responseTimeout)
        case .active(_, .head): clearDeadline()
        case .active(_, .content(_, _, let isHeld)): if !isHeld { awaitContent() }
        case .active(_, .tunnel):
            clearDeadline()
            if isRequestComplete { endSending() }
        case .idle, .ended: break
        }
        return true
    }

    private func writeFailed() {
        // The server has closed a kept connection in the meantime, and the closure was noticed in time.
        guard !isUnsent else { return notSent(.disconnected) }
        // The server may have answered before it closed, such as with a refusal of a large request. Read that first.
        output.removeAll()
        wantWrite(false)
        request = .open(isChunked: isChunked, .sent(isBlocked: true))
        if !isResponseHeld { setDeadline(loop.now + responseTimeout) }
    }

    // MARK: - The states at a glance

    private var isResponseHeld: Bool {
        guard case .active(_, let response) = state else { return false }
        return response.isHeld
    }

    private var isRequestComplete: Bool { if case .complete = request { true } else { false } }
    private var isChunked: Bool { if case .open(isChunked: true, _) = request { true } else { false } }
    private var isUnsent: Bool { if case .unsent = delivery { true } else { false } }

    private var delivery: Delivery {
        get {
            switch request {
            case .open(_, let delivery), .complete(let delivery): delivery
            }
        }
        set {
            switch request {
            case .open(let isChunked, _): request = .open(isChunked: isChunked, newValue)
            case .complete: request = .complete(newValue)
            }
        }
    }
}

// MARK: - The tunnel

extension HTTP1Connection {
    /// Turns the connection into a tunnel.
    ///
    /// - Returns: whether it is a tunnel now; otherwise the call has failed.
    private func beginTunnel(_ call: UpstreamCall, _ head: ResponseHead, headLength: Int) -> Bool {
        // A response to an incomplete request is invalid.
        guard isRequestComplete, output.isEmpty else {
            fail(.unexpectedUpgrade)
            return false
        }
        if let failure = call.switched(head, input.readable.extracting(first: headLength)) {
            fail(failure)
            return false
        }
        if case .active = state { state = .active(call, .tunnel(isHeld: false)) }
        // More may follow: a tunnel has no marked end.
        request = .open(isChunked: false, .sent(isBlocked: false))
        clearDeadline()
        pool.succeeded(server)
        return true
    }

    private func pushTunnel(_ call: UpstreamCall) {
        guard !input.isEmpty else { return }
        let count = input.count
        let taken = call.responseContent(input.readable)
        input.consume(taken)
        // A tunnel without traffic holds no block.
        guard taken < count else { return input.releaseIfEmpty() }
        // The client is slower than the server; the client's own timeouts apply.
        if case .active = state { state = .active(call, .tunnel(isHeld: true)) }
        wantRead(false)
    }

    /// Ends our side of a tunnel: `output` is still sent, nothing comes after it, and the server is notified of the
    /// end.
    func finishSending() {
        guard isOpen, case .active(_, .tunnel) = state, !isRequestComplete else { return }
        request = .complete(delivery)
        if output.isEmpty { endSending() }
    }

    private func endSending() {
        transport.sendCloseNotify()
        shutdownSending()
    }
}
