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

/// The response on its way in.
extension HTTP1Connection {
    /// More interim responses before one final response are none that a service has a use for.
    private static var interimLimit: Int { 16 }

    /// Reads once and passes on what came. - Returns: whether there may be more at once.
    func receive() -> Bool {
        let (step, room) = transport.fill(&input, from: self)
        guard room > 0 else { return false }
        switch step {
        // Nothing was asked yet, so this answers nothing: it may have been sent ahead, for another client to take.
        case .done where !hasSent:
            fail(HTTP2Preface.look(at: input.readable) == .whole ? .answeredInHTTP2(server: place) : .disconnected)
        case .done(let count):
            advance()
            // A read that left room has emptied the socket; the next one would only say so.
            return count == room || transport.hasBufferedInput
        case .wantRead: input.releaseIfEmpty()
        case .wantWrite:
            input.releaseIfEmpty()
            waitToWriteBeforeReading()
        case .endOfStream where phase == .content && decoder.endsWithConnection: finish(keeping: false)
        case .endOfStream where phase == .tunnel: endTunnelInput()
        // Also content that lasts until the end of the connection, where that ends without close_notify: anybody on the way can cut
        // a connection off, and what came is not all there is (RFC 9112 section 9.8).
        case .endOfStream, .failed(.disconnected): fail(.disconnected)
        case .failed(let failure): fail(tlsFailure(failure))
        }
        return false
    }

    func advance() {
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

    /// What there is where a response begins.
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

    /// - Returns: whether there is more to do now.
    private func parseHead(_ call: UpstreamCall) -> Bool {
        let method = call.method
        // Taken out while it is in use: an access to the property that lasts would be checked for exclusivity, and with it all others.
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
        // 100 is between us and the server; 103 and others are optional (RFC 9110 section 15.2).
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

    /// Sets until when the server may take for the next piece of content. One that has answered early and still gets the request
    /// may wait for the rest of that: then it is the client that is watched. It owes something once it has all of the request,
    /// and while it takes none of what is there for it.
    func awaitContent() {
        if isRequestComplete || isBlocked { setDeadline(loop.now + contentTimeout) } else { clearDeadline() }
    }

    /// Whether the head talks of content that must not follow: with HEAD, 204 and 304 (RFC 9112 section 6.3). There are servers that
    /// send it all the same, a moment later, and it would be taken for the next response.
    private static func mayBeFollowedByContent(_ head: ResponseHead, answering method: Method?) -> Bool {
        guard head.framing == .none else { return false }
        if head.statesChunked { return true }
        return method == .head ? head.statedLength != 0 : (head.statedLength ?? 0) > 0
    }

    /// - Returns: whether there is more to do now.
    private func pushContent(_ call: UpstreamCall) -> Bool {
        // A copy while it is in use: an access to the property that lasts would be checked for exclusivity every time.
        var decoder = decoder
        // The end needs no look at what has come, but whether it is all.
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
                    // The client is slower than the server; the client's own timeouts watch it.
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

    /// Finds out what the first of the bytes are, and passes them on if they are content.
    ///
    /// - Returns: what they are, and how much content was taken. What throws would keep the compiler from seeing through the access to
    ///   what has come.
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

    /// Whether it can serve the next call: nothing has come from the server, not even the end.
    var isReusable: Bool {
        if transport.isPlain { return isQuiet }
        // Of a record that is there in part, nobody knows what it will be.
        return readUnasked() && !transport.hasBufferedInput
    }

    /// Takes in what a server may send over TLS whenever it likes: tickets and key updates (RFC 8446 section 4.6). Only TLS can
    /// tell these from an answer that nobody has asked for.
    ///
    /// - Returns: whether that is all that came.
    func readUnasked() -> Bool {
        guard !transport.isPlain, case .wantRead = transport.read(from: self, into: &input) else { return false }
        input.releaseIfEmpty()
        return true
    }
}

/// The request on its way out.
extension HTTP1Connection {
    // MARK: - For the call

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

    /// Chunks leave room for the last one, so that the end never waits for room alone.
    var contentRoom: Int { isChunked ? max(0, output.chunkRoom - ByteBuffer.lastChunkLength) : output.room }

    /// - Parameter first: a byte that was kept back; with what follows it no more than `contentRoom`.
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
            // The call may fill `output` again at once: within this event nobody else would send that.
            if !isRequestComplete { call?.requestSpaceAvailable() }
        } while !output.isEmpty && isOpen && !isCancelled
    }

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
            // Counted from the last byte that the server took. One whose response waits for the client has an excuse.
            if !isBlocked, !isResponseHeld { setDeadline(loop.now + responseTimeout) }
            isBlocked = true
            return false
        case .broken:
            writeFailed()
            return false
        }
        wantWrite(isReadWaitingToWrite)
        // The server's time to answer begins when it has the request. While the client is still sending, it is the client
        // that is watched: a slow network is not the server's fault.
        switch phase {
        case .head: if isRequestComplete { setDeadline(loop.now + responseTimeout) } else { clearDeadline() }
        case .content: if !isResponseHeld { awaitContent() }
        case .tunnel: tunnelSent()
        case .idle: break
        }
        return true
    }

    private func writeFailed() {
        // A kept connection that the server has closed meanwhile, noticed in time.
        guard hasSent else { return notSent(.disconnected) }
        // The server may have answered before it closed (a refusal of a large request): read that first.
        output.removeAll()
        wantWrite(false)
        isRequestComplete = false
        isBlocked = true
        if !isResponseHeld { setDeadline(loop.now + responseTimeout) }
    }
}

/// A connection whose server has switched protocols: bytes both ways, until one side ends. It serves no other call after that.
///
/// Nothing is waited for but that the server takes what there is: how long nothing may be said, the client's side knows.
extension HTTP1Connection {
    /// - Returns: whether the connection is a tunnel now; it has failed otherwise.
    func beginTunnel(_ call: UpstreamCall, _ head: ResponseHead, headLength: Int) -> Bool {
        // An answer to what has not been asked in full yet is none.
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

    func pushTunnel(_ call: UpstreamCall) {
        guard !input.isEmpty else { return }
        let count = input.count
        let taken = call.responseContent(input.readable)
        input.consume(taken)
        // A tunnel that is quiet holds no block.
        guard taken < count else { return input.releaseIfEmpty() }
        // The client is slower than the server; the client's own timeouts watch it.
        isResponseHeld = true
        wantRead(false)
    }

    /// The server has ended its side. What it said before has been passed on: nothing is read while something is held.
    func endTunnelInput() {
        wantRead(false)
        call?.tunnelEnded()
    }

    /// All that was written has left.
    func tunnelSent() {
        clearDeadline()
        if isRequestComplete { endSending() }
    }

    /// In a tunnel: `output` is still sent, nothing comes after it, and the server is notified of the end.
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
