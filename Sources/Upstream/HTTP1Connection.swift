internal import Bytes
internal import EventLoop
internal import HTTP
internal import TLS

/// A connection that speaks HTTP/1.1 and carries one call at a time.
///
/// After the server has switched protocols, it is a tunnel: bytes go both ways until one side ends, and no other call
/// follows. The client's side limits the time without traffic.
public final class HTTP1Connection: UpstreamConnection {
    enum Phase {
        case idle
        case head
        case content
        /// The server has switched protocols, and the call gets its bytes unchanged.
        case tunnel
    }

    /// The phase of the call in flight. While connecting, the call waits.
    var phase = Phase.head
    var call: UpstreamCall?
    /// The number of interim responses before the response in flight.
    private var interimResponses = 0
    var input: ByteBuffer
    private var parser: ResponseHeadParser
    /// The head of the response in flight. Kept afterwards for its capacity.
    var head = ResponseHead()
    /// Whether the connection can serve another call after that response.
    private var allowsAnotherCall = false
    private var decoder = ContentDecoder(.none, extensions: .ignored)
    /// Whether the content of the request is chunked.
    private var isChunked = false
    /// Whether the whole request has been written to `output`.
    var isRequestComplete = false
    private var isResponseHeld = false
    /// Whether the server accepts nothing at present, while its timeout runs.
    private var isBlocked = false
    private var isWorking = false
    /// Whether the call was cancelled within an event that uses the buffers. The connection is closed at its end.
    private(set) var isCancelled = false
    private static let readsPerEvent = 4

    override init(pool: UpstreamPool, server: Int, socket: consuming Socket, isCheck: Bool) {
        input = ByteBuffer(pool: pool.buffers)
        parser = ResponseHeadParser(limits: pool.settings.head)
        super.init(pool: pool, server: server, socket: socket, isCheck: isCheck)
    }

    // MARK: - Interface for the call

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
            // The server owes nothing yet; `writeOutput` starts its timeout.
            clearDeadline()
        }
    }

    /// Sends the content of `output`.
    ///
    /// - Parameter isComplete: whether the request ends with it.
    func send(isComplete: Bool) {
        if isComplete { isRequestComplete = true }
        // Within an event, `flush` notices by itself.
        guard !isConnecting, !isWorking, let call = enter() else { return }
        flush()
        leave(call)
    }

    /// Continues to pass on response content.
    func resumeResponse() {
        guard isResponseHeld else { return }
        isResponseHeld = false
        if phase != .tunnel { awaitContent() }
        // In an event of its own: the caller is within an event of its client.
        readAgain()
    }

    /// Cancels the call. Its connection is in the middle of a message, and is closed.
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
        // The bytes held back while the client was slow.
        if !input.isEmpty { advance() }
        for _ in 0..<Self.readsPerEvent {
            guard mayReceive, receive() else { return }
        }
        // Bytes that TLS has read ahead make no socket readable.
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
            // In an event of its own, in the order of reading.
            readAgain()
        }
        flush()
    }

    /// Sends the request.
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

    /// Begins an event of the call in flight. Without a call, only the end is acceptable: a server that sends
    /// unrequested bytes cannot be trusted with the next call.
    private func enter() -> UpstreamCall? {
        guard let call else {
            discard()
            return nil
        }
        isWorking = true
        return call
    }

    /// Ends an event. The call may now write to its client.
    private func leave(_ call: UpstreamCall) {
        isWorking = false
        if isCancelled, isOpen { discard() }
        call.finishEvent()
    }

    /// Continues after a failure before the first byte. Another socket gets the whole request: of the same server, or
    /// of the next one.
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

    private func finish(keeping isKept: Bool) {
        // Only one look-up: access to an unowned reference is counted.
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
        // A server may close a long unused connection at any time, and a connection whose request remains incomplete.
        // This is no failure of the server, and a slow client must not have it ejected.
        let isExcused = failure == .disconnected && !isRequestComplete || isUnanswered && callsServed > 0
        // A server that grants a tunnel has succeeded, whatever follows.
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

    /// Closes the connection for good. In the middle of a request the connection is reset: some servers take its end
    /// for the end of the content, with or without close_notify.
    override func discard() {
        guard isOpen else { return }
        if !isRequestComplete || !output.isEmpty { breakOnClose() } else { transport.sendCloseNotify() }
        close()
        input.removeAll()
        output.removeAll()
        pool.remove(self, isIdle: phase == .idle && !isConnecting)
    }
}

// MARK: - Receiving

extension HTTP1Connection {
    /// The maximum number of interim responses before one final response. No service needs more.
    private static var interimLimit: Int { 16 }

    /// Reads once and passes on the bytes.
    ///
    /// - Returns: whether more may be available at once.
    func receive() -> Bool {
        let (step, room) = transport.fill(&input, from: self)
        guard room > 0 else { return false }
        switch step {
        // Nothing was requested yet, so this is no response. It may have been sent ahead, for another client.
        case .done where !hasSent:
            fail(HTTP2Preface.look(at: input.readable) == .whole ? .answeredInHTTP2(server: place) : .disconnected)
        case .done(let count):
            advance()
            // A read that left room has emptied the socket; the next one would only confirm that.
            return count == room || transport.hasBufferedInput
        case .wantRead: input.releaseIfEmpty()
        case .wantWrite:
            input.releaseIfEmpty()
            waitToWriteBeforeReading()
        case .endOfStream where phase == .content && decoder.endsWithConnection: finish(keeping: false)
        case .endOfStream where phase == .tunnel: endTunnelInput()
        // This includes content until the end of the connection without close_notify: anybody on the path can cut a
        // connection off, and the content may be incomplete (RFC 9112 section 9.8).
        case .endOfStream, .failed(.disconnected): fail(.disconnected)
        case .failed(let failure): fail(tlsFailure(failure))
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
            case .tunnel: return pushTunnel(call)
            case .idle: return
            }
        }
    }

    /// The result of parsing the beginning of a response.
    private enum ResponseStart {
        case incomplete
        case head(length: Int)
        case http2
        case malformed(MessageFault)
    }

    private static func look(
        at bytes: Span<UInt8>, answering method: Method?, _ parser: inout ResponseHeadParser, _ head: inout ResponseHead
    ) -> ResponseStart {
        switch HTTP2Preface.look(at: bytes) {
        case .none: break
        case .part: return .incomplete
        case .whole: return .http2
        }
        do throws(MessageFault) {
            switch try parser.parse(bytes, answering: method, into: &head) {
            case .incomplete: return .incomplete
            case .complete(let length): return .head(length: length)
            }
        } catch {
            return .malformed(error)
        }
    }

    /// Parses a head.
    ///
    /// - Returns: whether there is more to do now.
    private func parseHead(_ call: UpstreamCall) -> Bool {
        let method = call.method
        // Moved out during its use: a long access to the property would be checked for exclusivity, and with it all
        // others.
        var head = ResponseHead()
        swap(&head, &self.head)
        defer { swap(&head, &self.head) }
        let length: Int
        switch Self.look(at: input.readable, answering: method, &parser, &head) {
        case .incomplete: return false
        case .head(let complete): length = complete
        case .http2:
            fail(.answeredInHTTP2(server: place))
            return false
        case .malformed(let fault):
            fail(.malformed(fault))
            return false
        }
        guard head.status != 101 else {
            guard beginTunnel(call, head, headLength: length) else { return false }
            input.consume(length)
            return true
        }
        // 100 concerns only us and the server; 103 and others are optional (RFC 9110 section 15.2).
        if head.isInterim {
            interimResponses += 1
            guard interimResponses <= Self.interimLimit else {
                fail(.malformed(.interimResponsesRepeated))
                return false
            }
        } else {
            decoder = ContentDecoder(head.framing, extensions: .ignored)
            allowsAnotherCall = head.isPersistent && !Self.mayBeFollowedByContent(head, answering: method)
            phase = .content
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
        if isRequestComplete || isBlocked { setDeadline(loop.now + contentTimeout) } else { clearDeadline() }
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
    private func pushContent(_ call: UpstreamCall) -> Bool {
        // A copy during its use: a long access to the property would be checked for exclusivity every time.
        var decoder = decoder
        // The end depends only on whether everything has arrived.
        guard !decoder.isAtEnd else {
            finish(keeping: allowsAnotherCall && isRequestComplete && output.isEmpty && input.isEmpty)
            return true
        }
        defer { self.decoder = decoder }
        do throws(MessageFault) {
            let (step, taken) = try Self.pass(input.readable, to: call, &decoder).get()
            switch step {
            case .needMore:
                awaitContent()
                return false
            case .framing(let count): input.consume(count)
            case .content(let count):
                input.consume(taken)
                guard taken == count else {
                    // The client is slower than the server; the client's own timeouts apply.
                    isResponseHeld = true
                    wantRead(false)
                    clearDeadline()
                    return false
                }
            case .end: break
            }
        } catch {
            fail(.malformed(error))
            return false
        }
        return true
    }

    /// Parses the first bytes, and passes them on if they are content.
    ///
    /// - Returns: the kind of the bytes, and the amount of content taken. Errors are returned, because a throwing
    ///   function would keep the compiler from optimising the access to the input.
    private static func pass(
        _ bytes: Span<UInt8>, to call: UpstreamCall, _ decoder: inout ContentDecoder
    ) -> Result<(step: ContentDecoder.Step, taken: Int), MessageFault> {
        let step: ContentDecoder.Step
        do throws(MessageFault) { step = try decoder.next(bytes) } catch { return .failure(error) }
        guard case .content(let count) = step else { return .success((step, 0)) }
        let taken = call.responseContent(bytes.extracting(first: count))
        decoder.consumed(taken)
        return .success((step, taken))
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
        isChunked = request.framing == .chunked
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

    func flush() {
        repeat {
            guard writeOutput() else { return }
            // The call may fill `output` again at once: within this event nothing else would send it.
            if !isRequestComplete { call?.requestSpaceAvailable() }
        } while !output.isEmpty && isOpen && !isCancelled
    }

    /// Writes the output to the socket.
    ///
    /// - Returns: whether everything was sent.
    private func writeOutput() -> Bool {
        let (outcome, taken) = transport.drain(&output, to: self)
        if taken > 0 {
            isBlocked = false
            hasSent = true
        }
        switch outcome {
        case .all: break
        case .wantWrite, .wantRead:
            waitToWrite(outcome == .wantRead ? .wantRead : .wantWrite)
            // The timeout counts from the last byte that the server accepted. A server whose response waits for the
            // client is excused.
            if !isBlocked, !isResponseHeld { setDeadline(loop.now + responseTimeout) }
            isBlocked = true
            return false
        case .broken:
            writeFailed()
            return false
        }
        wantWrite(isReadWaitingToWrite)
        // The server's time to answer begins when it has the request. While the client is still sending, the client is
        // timed: a slow network is not the server's fault.
        switch phase {
        case .head: if isRequestComplete { setDeadline(loop.now + responseTimeout) } else { clearDeadline() }
        case .content: if !isResponseHeld { awaitContent() }
        case .tunnel: tunnelSent()
        case .idle: break
        }
        return true
    }

    private func writeFailed() {
        // The server has closed a kept connection in the meantime, and the closure was noticed in time.
        guard hasSent else { return notSent(.disconnected) }
        // The server may have answered before it closed, such as with a refusal of a large request. Read that first.
        output.removeAll()
        wantWrite(false)
        isRequestComplete = false
        isBlocked = true
        if !isResponseHeld { setDeadline(loop.now + responseTimeout) }
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
        phase = .tunnel
        // More may follow: a tunnel has no marked end.
        isRequestComplete = false
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
        isResponseHeld = true
        wantRead(false)
    }

    /// Handles the end of the server's side. All earlier bytes have been passed on: nothing is read while bytes are
    /// held.
    private func endTunnelInput() {
        wantRead(false)
        call?.tunnelEnded()
    }

    /// Continues after everything was sent.
    private func tunnelSent() {
        clearDeadline()
        if isRequestComplete { endSending() }
    }

    /// Ends our side of a tunnel: `output` is still sent, nothing comes after it, and the server is notified of the
    /// end.
    func finishSending() {
        guard phase == .tunnel, isOpen, !isRequestComplete else { return }
        isRequestComplete = true
        if output.isEmpty { endSending() }
    }

    private func endSending() {
        transport.sendCloseNotify()
        shutdownSending()
    }
}
