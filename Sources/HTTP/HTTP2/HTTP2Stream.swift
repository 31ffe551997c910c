public import Bytes

/// A request and its response on an HTTP/2 connection, for the server side. An object serves one stream after the
/// other.
///
/// The session calls the `open` methods while it receives. The subclass answers with `sendHead`, `sendContent` and
/// `sendEnd`, which do not write to the socket; `HTTP2Session.write` does. Content that is not taken stays here and
/// keeps the client's window closed, so the windows limit it.
open class HTTP2Stream {
    /// The request head, with ranges into `headBytes`. The subclass may swap both for its own.
    public final var head = RequestHead()
    public final var headBytes: ByteBuffer

    /// The session, which owns its streams. Nil while there is no stream.
    final unowned var session: HTTP2Session?
    /// The index among the session's streams.
    final var slot = 0
    /// The stream identifier (RFC 9113 section 5.1.1). 0 while there is no stream.
    private(set) final var id: Int32 = 0

    private final var request = Request.head
    private final var response = Response.closed
    private final var delivery = ContentDelivery.open

    /// Content that was not taken yet.
    private final var waiting: BufferChain
    /// Content of the response that was not framed yet.
    final var output: ByteBuffer
    /// The lines of the response's trailers.
    final var trailers: ByteBuffer

    /// The client's half of the stream.
    private enum Request {
        /// The fields are not complete.
        case head
        /// The head waits for the end of the stream: Content-Length is 0, so nothing may follow.
        case held
        /// The head was delivered. Content or the end may follow.
        case content(Content)
        /// The client has ended the stream. Content waits to be taken before the end is reported.
        case complete
        /// Everything was delivered.
        case delivered
        /// Nothing of it has a use any more: it is refused, disregarded, or the stream was reset.
        ///
        /// - isEnded: whether the client has ended the stream.
        /// - isMalformed: whether the stream is reset behind the response (RFC 9113 section 8.1.1).
        case dropped(isEnded: Bool, isMalformed: Bool)
    }

    private struct Content {
        /// The number of bytes of Content-Length that are missing. Nil without Content-Length.
        var missing: UInt64?
        var tunnel: Tunnel
        /// Whether the stream is in the session's list of streams to be notified of a pause.
        var isTouched = false
    }

    /// A stream that carries a WebSocket (RFC 8441). It has only DATA, and each side ends separately.
    private enum Tunnel {
        case none, asked, open
    }

    /// Our half of the stream.
    private enum Response {
        /// The head was not sent yet.
        case none
        /// The head was sent.
        case begun(OutgoingContent)
        /// Nothing is sent any more: the stream was reset or will be, or there is none.
        case closed
    }

    public init(pool: BufferPool) {
        headBytes = ByteBuffer(pool: pool)
        waiting = BufferChain(pool: pool)
        output = ByteBuffer(pool: pool)
        trailers = ByteBuffer(pool: pool)
    }

    // MARK: - The request, for subclasses to override

    /// Called when the head is complete and well-formed. Content follows if `head.framing` announces it. With
    /// `head.opensWebSocket`, the tunnel's bytes follow, perhaps before it is open.
    open func headReceived() {}
    /// Called when the head is complete, but the end of the stream must confirm its Content-Length of 0. `headReceived`
    /// follows then.
    open func headHeld() {}
    /// Called when content has arrived.
    ///
    /// - Returns: the number of bytes taken. If not all, call `contentWanted()` later.
    open func receive(content: Span<UInt8>) -> Int { content.count }
    /// Called when all received content, if any, was taken; more may follow.
    open func contentPaused() {}
    /// Called when the request is complete.
    open func contentEnded() {}
    /// Called when the request is malformed, in its head or later. Answer it if there is no response yet, or `reset`.
    /// Nothing more of it follows.
    open func requestFaulted(_ fault: MessageFault) {}
    /// Called when there is room for more of the response again.
    open func outputDrained() {}
    /// Called when the stream ends before the response was complete: the client reset it, or the connection ends.
    open func abandoned(_ code: HTTP2ErrorCode) {}
    /// Called last, when nothing more is sent or received. The object may serve another request afterwards.
    open func ended() {}

    /// Sets `head` to the received part of an incomplete head, for a subclass that answers it nevertheless. The bytes
    /// that it refers to are missing.
    public final func showIncompleteHead() {
        if let session, session.incompleteHead === self { head = session.incoming.head }
    }

    // MARK: - The response

    /// Whether no head can be sent any more: one was sent, or the stream was reset.
    public final var isAnswered: Bool { if case .none = response { false } else { true } }
    /// Whether something may still be sent.
    public final var isOpen: Bool { if case .closed = response { false } else { true } }
    /// The stream identifier (RFC 9113 section 5.1.1).
    public final var number: Int32 { id }
    /// The bytes of the response's content for which the client has no window yet.
    public final var unframed: Int { output.count }
    /// Whether the response is complete and its end is not framed yet, because the client opens no window.
    public final var isEndUnframed: Bool { if case .begun(.ending) = response { true } else { false } }

    /// The bytes of memory that the stream takes from pools.
    public final var footprint: Int {
        headBytes.footprint + waiting.footprint + output.footprint + trailers.footprint
    }

    /// Releases most of the memory of a short rest of a response for which the client has no window.
    public final func shrinkOutput() {
        if isEndUnframed { output.shrink() }
    }

    /// Whether END_STREAM is framed, and the client may continue to send: only in tunnels (RFC 8441 section 5).
    public final var isEnded: Bool { if case .begun(.ended) = response { true } else { false } }
    /// Whether content, or the end, could be framed now.
    public final var isWindowOpen: Bool { isOpen && session?.isWindowOpen(for: id) == true }

    /// Sends an interim response (RFC 9110 section 15.2) without fields.
    public final func sendInterim(_ status: UInt16) {
        if case .none = response { session?.submitInterim(status, on: id) }
    }

    /// Sends the response head. A status of 2xx opens the tunnel that a head with `opensWebSocket` asks for.
    ///
    /// - Parameters:
    ///   - endsStream: whether neither content nor trailers follow.
    ///   - fields: appends the fields as lines, as for HTTP/1.1; none of connection or framing but Content-Length.
    /// - Returns: false if the head exceeds a buffer; nothing was sent.
    public final func sendHead(_ status: UInt16, endsStream: Bool, fields: (inout ByteBuffer) -> Void) -> Bool {
        switch response {
        case .none: break
        // Nobody will read it.
        case .closed: return true
        case .begun: preconditionFailure("a request is answered once")
        }
        switch session?.submitHead(status, on: self, endsStream: endsStream, fields) {
        case .tooLarge: return false
        // Out of memory: the client must not wait for a response that never comes.
        case .failed: reset(.internalError)
        case .submitted, nil:
            response = .begun(OutgoingContent(isEmpty: endsStream))
            if (200..<300).contains(status) { openTunnel() }
        }
        return true
    }

    private func openTunnel() {
        guard case .content(var content) = request, content.tunnel == .asked else { return }
        content.tunnel = .open
        request = .content(content)
    }

    /// Sends content.
    ///
    /// - Returns: the number of bytes taken. `outputDrained` is called when there is room again.
    public final func sendContent(_ content: Span<UInt8>) -> Int {
        switch response {
        case .begun(.open(let isDeferred, let isDrained)):
            let taken = output.appendPrefix(of: content)
            if taken > 0, isDeferred {
                response = .begun(.open(isDeferred: false, isDrained: isDrained))
                session?.resume(id)
            }
            return taken
        // Nobody will read it.
        case .closed: return content.count
        case .none, .begun: preconditionFailure("content stands between the head and the end")
        }
    }

    /// Adds trailers as lines, which are sent with the end.
    ///
    /// - Returns: false if they exceed a buffer.
    public final func add(trailers fields: (inout ByteBuffer) -> Void) -> Bool {
        guard case .begun(.open) = response else { return true }
        fields(&trailers)
        return !trailers.overflowed
    }

    /// Ends the response.
    public final func sendEnd() {
        guard case .begun(var content) = response else { return }
        let isDeferred = content.end()
        response = .begun(content)
        if isDeferred { session?.resume(id) }
    }

    /// Ends the response with trailers as lines.
    public final func sendEnd(trailers fields: (inout ByteBuffer) -> Void) {
        _ = add(trailers: fields)
        sendEnd()
    }

    /// Ends the stream at once, whatever part of it remains.
    public final func reset(_ code: HTTP2ErrorCode) {
        guard isOpen, let session else { return }
        response = .closed
        drop(in: session)
        session.submitReset(code, on: id)
    }

    /// Stops reports about the request, and drops waiting content. Within `receive(content:)`, the passed content stays
    /// valid until that returns.
    public final func disregardRequest() {
        guard isOpen, let session else { return }
        drop(in: session)
    }

    /// Requests content again.
    public final func contentWanted() {
        guard isOpen, let session else { return }
        offer(in: session)
    }
}

// MARK: - The request, for the session

extension HTTP2Stream {
    /// Whether the request has begun and was not delivered to the subclass yet.
    final var isUnseen: Bool {
        guard case .none = response else { return false }
        return switch request {
        case .head, .held: true
        case .content, .complete, .delivered, .dropped: false
        }
    }

    /// Whether the head waits for the end of the stream.
    final var isHeld: Bool { if case .held = request { true } else { false } }

    /// Whether the client has ended the stream.
    final var hasClientEnded: Bool {
        switch request {
        case .head, .held, .content: false
        case .complete, .delivered: true
        case .dropped(let isEnded, _): isEnded
        }
    }

    /// Begins a request.
    final func begin(_ id: Int32) {
        self.id = id
        request = .head
        response = .none
        delivery = .open
    }

    /// Handles the end of the request's fields.
    final func headEnded(endsStream: Bool, in session: HTTP2Session) {
        guard case .head = request else {
            // It came too late, and was answered.
            session.incoming.drop()
            if endsStream { clientEnded(in: session) }
            return
        }
        let length: UInt64?
        do throws(MessageFault) {
            length = try session.incoming.finish(&head, &headBytes, endsStream: endsStream)
        } catch {
            return fail(error, isEnded: endsStream, in: session)
        }
        guard !endsStream else {
            request = .complete
            headReceived()
            return offer(in: session)
        }
        // Content-Length 0 without the end of the stream: the next frame shows whether it is true. Until then the
        // request may be malformed and is not delivered.
        guard length != 0 else {
            request = .held
            session.held.append(slot)
            return headHeld()
        }
        request = .content(Content(missing: length, tunnel: head.opensWebSocket ? .asked : .none))
        headReceived()
        // Content may come later than the head. A forwarder must not hold back the head until then, since some clients
        // wait for the response first.
        touch(in: session)
    }

    final func trailersEnded(endsStream: Bool, in session: HTTP2Session) {
        switch request {
        case .held: break
        case .content(let content):
            // RFC 9113 section 8.5: a tunnel has only DATA.
            guard content.tunnel == .none else { return fail(.fieldsInTunnel, isEnded: endsStream, in: session) }
        case .head, .complete, .delivered, .dropped:
            if endsStream { clientEnded(in: session) }
            return
        }
        do throws(MessageFault) {
            try session.incoming.finishTrailers(endsStream: endsStream)
        } catch {
            return fail(error, isEnded: endsStream, in: session)
        }
        clientEnded(in: session)
    }

    /// Handles received content.
    final func contentCame(_ bytes: Span<UInt8>, in session: HTTP2Session) {
        switch request {
        case .content(var content):
            guard let missing = content.missing else { return take(bytes, in: session) }
            let length = Int(min(missing, UInt64(bytes.count)))
            content.missing = missing - UInt64(length)
            request = .content(content)
            take(bytes.extracting(first: length), in: session)
            if length < bytes.count { takeExcess(bytes.count - length, in: session) }
        case .held: if !bytes.isEmpty { takeExcess(bytes.count, in: session) }
        case .head, .complete, .delivered, .dropped: consumed(bytes.count, in: session)
        }
    }

    /// Handles content beyond Content-Length.
    private func takeExcess(_ count: Int, in session: HTTP2Session) {
        consumed(count, in: session)
        // It may have been dropped meanwhile.
        if case .dropped = request { return }
        fail(.contentLengthDisagrees, isEnded: false, in: session)
    }

    /// Handles the end of the client's half of the stream.
    final func clientEnded(in session: HTTP2Session) {
        switch request {
        case .held:
            request = .complete
            headReceived()
        case .content(let content):
            guard content.missing ?? 0 == 0 else {
                return fail(.contentLengthDisagrees, isEnded: true, in: session)
            }
            request = .complete
        case .dropped(_, let isMalformed):
            request = .dropped(isEnded: true, isMalformed: isMalformed)
            return
        case .head, .complete, .delivered: return
        }
        if delivery == .open { offer(in: session) }
    }

    /// Notifies the subclass if all received content was taken, after everything received has been read.
    final func reportPause() {
        guard case .content(var content) = request, content.isTouched else { return }
        content.isTouched = false
        request = .content(content)
        if free == 0 { contentPaused() }
    }

    /// Marks the stream as one that may have no more bytes for now.
    private func touch(in session: HTTP2Session) {
        guard case .content(var content) = request, !content.isTouched else { return }
        content.isTouched = true
        request = .content(content)
        session.touched.append(slot)
    }

    // MARK: - Delivery

    /// The number of bytes of `waiting.front` that may be delivered. The last byte of a stated length waits for the end
    /// of the stream, so a request with more content than announced is never complete.
    private var free: Int {
        switch request {
        case .content(let content): min(waiting.frontCount, waiting.count - (content.missing == 0 ? 1 : 0))
        case .complete: waiting.frontCount
        case .head, .held, .delivered, .dropped: 0
        }
    }

    /// Passes on content that has arrived.
    private func take(_ bytes: Span<UInt8>, in session: HTTP2Session) {
        guard !bytes.isEmpty, case .content(let content) = request else { return }
        let free = bytes.count - (content.missing == 0 ? 1 : 0)
        let isNext = waiting.isEmpty && delivery == .open
        let taken = isNext && free > 0 ? deliver(bytes.extracting(first: free)) : 0
        // It may have been dropped meanwhile.
        guard case .content = request else { return consumed(bytes.count, in: session) }
        consumed(taken, in: session)
        if taken < bytes.count {
            waiting.append(bytes.extracting(taken...))
            // It may have requested the rest within the call.
            if delivery == .open { offer(in: session) }
        }
        touch(in: session)
    }

    /// Offers waiting content, which stays where it is until the subclass has returned.
    private func offer(in session: HTTP2Session) {
        guard delivery.resume() else { return }
        while delivery == .open, free > 0 {
            let taken = deliver(waiting.front.extracting(first: free))
            waiting.consume(taken)
            consumed(taken, in: session)
        }
        switch request {
        case .complete:
            guard waiting.isEmpty else { return }
            request = .delivered
            contentEnded()
        case .dropped: dropWaiting(in: session)
        case .head, .held, .content, .delivered: break
        }
    }

    private func deliver(_ content: Span<UInt8>) -> Int {
        delivery.begin()
        let taken = receive(content: content)
        precondition(taken >= 0 && taken <= content.count, "took more than was there")
        delivery.end(isAllTaken: taken == content.count)
        return taken
    }

    /// Returns credit for the windows to the client: only for the connection's window if the request has ended early.
    private func consumed(_ count: Int, in session: HTTP2Session) {
        switch request {
        case .held, .content, .complete, .delivered: session.returnCredit(count, of: id)
        case .head, .dropped: session.returnCredit(count)
        }
    }

    // MARK: - The end

    /// Handles a request that is malformed (RFC 9113 section 8.1.1), or refused for its fields or size.
    private func fail(_ fault: MessageFault, isEnded: Bool, in session: HTTP2Session) {
        request = .dropped(isEnded: isEnded, isMalformed: fault.kind == .malformed)
        dropWaiting(in: session)
        session.countProvokedReset()
        if session.fault == nil { requestFaulted(fault) }
    }

    /// Drops what remains of the request.
    private func drop(in session: HTTP2Session) {
        if case .dropped = request { return }
        request = .dropped(isEnded: hasClientEnded, isMalformed: false)
        dropWaiting(in: session)
    }

    /// Drops waiting content, which then no longer counts against the connection's window. If the subclass is reading
    /// some of it, `offer` does so when it has returned.
    private func dropWaiting(in session: HTTP2Session) {
        guard !delivery.isRunning, !waiting.isEmpty else { return }
        session.returnCredit(waiting.count)
        waiting.removeAll()
    }

    /// Handles the end of a stream that nghttp2 has closed, or whose connection is gone.
    final func finish(_ code: HTTP2ErrorCode, in session: HTTP2Session) {
        precondition(!delivery.isRunning, "a stream does not end while its content is delivered")
        let before = response
        // Later calls concern no stream.
        response = .closed
        drop(in: session)
        switch before {
        case .none, .begun(.open), .begun(.ending): abandoned(code)
        case .begun(.ended), .closed: break
        }
        ended()
        id = 0
        headBytes.removeAll()
        output.expand(session.pool)
        trailers.removeAll()
    }
}

// MARK: - The response, for the session

extension HTTP2Stream {
    /// Records that a frame has taken content from `output`.
    ///
    /// - Parameter count: the number of bytes. If it is 0, there were none.
    final func framed(_ count: Int, in session: HTTP2Session) -> OutgoingContent.Frame {
        guard case .begun(var content) = response else { return count > 0 ? .some(isFirst: false) : .none }
        let frame = content.framed(count, isAll: output.isEmpty)
        response = .begun(content)
        switch frame {
        case .some(isFirst: true): session.drained.append(slot)
        case .last: output.releaseIfEmpty()
        case .none, .some: break
        }
        return frame
    }

    /// Notifies the subclass of room for more of the response.
    final func reportRoom() {
        guard case .begun(var content) = response, content.takeRoom() else { return }
        response = .begun(content)
        output.releaseIfEmpty()
        outputDrained()
    }

    /// Handles a sent END_STREAM. The rest of a request that is still being sent has no use (RFC 9113 section 8.1),
    /// except in a tunnel. A malformed request is reset even if it has ended.
    final func responseEnded(in session: HTTP2Session) {
        guard isOpen else { return }
        response = .begun(.ended)
        switch request {
        case .dropped(_, isMalformed: true):
            response = .closed
            session.dismiss(self, isMalformed: true)
        case .complete, .delivered, .dropped(isEnded: true, _): break
        case .content(let content) where content.tunnel == .open: break
        case .head, .held, .content, .dropped:
            response = .closed
            drop(in: session)
            session.dismiss(self, isMalformed: false)
        }
    }
}
