public import Bytes

/// A request and its response on an HTTP/2 connection, for the client side. An object serves one stream after the
/// other.
///
/// The session calls the `open` methods while it receives. The subclass sends with `sendContent` and `sendEnd`, which
/// do not write to the socket; `HTTP2ClientSession.write` does. Content that is not taken stays here and keeps the
/// server's window closed, so the windows limit it. The stream outlives the connection: a complete response is
/// delivered completely.
open class HTTP2ClientStream {
    /// The session, which owns its streams. Nil while there is no stream.
    final unowned var session: HTTP2ClientSession?
    /// The index among the session's streams.
    final var slot = 0

    private final var life = Life.idle
    private final var request = Request.none
    private final var response = Response.over(isBegun: false)
    private final var delivery = ContentDelivery.open

    /// The response head, with ranges into `headBytes`. Released after its delivery.
    private final var head = ResponseHead()
    private final var headBytes: ByteBuffer
    /// The trailers, kept until the content before them was taken.
    private final var trailers = ResponseTrailers()
    private final var trailerBytes: ByteBuffer
    /// Content that was not taken yet.
    private final var waiting: BufferChain
    /// Content of the request that was not framed yet.
    final var output: ByteBuffer

    /// idle -> open -> ended -> idle
    private enum Life {
        case idle
        /// It carries a request, or the rest of a complete response.
        ///
        /// - isTouched: whether it is in the session's list of streams whose event must be finished.
        case open(id: Int32, isTouched: Bool)
        /// Only the event in which it ended must be finished: the stream is in that list.
        case ended
    }

    /// Our half of the stream.
    private enum Request {
        /// nghttp2 does not know the stream, or has closed it.
        case none
        /// - headEnd: the end of the request's fields as a position in all framed bytes of the connection. Nil before
        ///   they were framed.
        case onWire(headEnd: UInt64?, OutgoingContent)
    }

    /// The server's half of the stream.
    private enum Response {
        /// The final head is not complete.
        case awaited(Awaited)
        /// The final head waits for the end of the stream, because there must be no content.
        case held(hasTrailers: Bool)
        /// The final head was delivered. Content or the end may follow.
        case content(Content)
        /// END_STREAM has arrived after a well-formed response, which is not delivered completely.
        case complete(hasTrailers: Bool)
        /// Nothing that follows has a recipient: the response was delivered, was cancelled or has failed.
        ///
        /// - isBegun: whether any part of a response has begun.
        case over(isBegun: Bool)
    }

    private struct Awaited {
        let isAnswerToHead: Bool
        /// Whether any part of a response has begun.
        var isBegun = false
        var interimResponses = 0
    }

    private struct Content {
        /// The number of announced bytes that are missing. Nil if none were announced.
        var missing: UInt64?
        var hasTrailers = false
    }

    /// The bytes of memory that the stream takes from pools.
    public final var footprint: Int {
        headBytes.footprint + trailerBytes.footprint + waiting.footprint + output.footprint
    }

    public init(pool: BufferPool) {
        headBytes = ByteBuffer(pool: pool)
        trailerBytes = ByteBuffer(pool: pool)
        waiting = BufferChain(pool: pool)
        output = ByteBuffer(pool: pool)
    }

    // MARK: - The response, for subclasses to override

    /// Called when the final response head is complete and well-formed, in the form of HTTP/1.1's parser. Content of
    /// unknown length is `chunked`. The bytes are valid during the call.
    open func responseHead(_ head: ResponseHead, _ bytes: Span<UInt8>) {}
    /// Called when content has arrived.
    ///
    /// - Returns: the number of bytes taken. If not all, call `contentWanted()` later.
    open func receive(content: Span<UInt8>) -> Int { content.count }
    /// Called when trailers have arrived after all content was taken. `responseEnded` follows. They contain no field of
    /// framing or of one connection. The bytes are valid during the call.
    open func responseTrailers(_ trailers: ResponseTrailers, _ bytes: Span<UInt8>) {}
    /// Called when the response is complete and was taken. The unsent part of the request has no use: the stream is
    /// cancelled.
    open func responseEnded() {}
    /// Called when there is room for more of the request again.
    open func requestSpaceAvailable() {}
    /// Called when there will be no complete response. Not called after `reset`.
    open func failed(_ failure: HTTP2StreamFailure) {}
    /// Called when nothing more is sent or received on the stream. Only `finishEvent` follows.
    open func ended() {}
    /// Called at the end of an event in which one of the methods above was called (`HTTP2ClientSession.finishEvent`).
    /// If the stream has ended, the object may serve another request afterwards.
    open func finishEvent() {}

    // MARK: - The request

    /// Whether more of the request may be sent: the stream is neither ended nor reset, and its response not complete.
    public final var isOpen: Bool { isOnWire && !isOver }
    /// The stream identifier (RFC 9113 section 5.1.1). 0 while there is no stream.
    public final var number: Int32 { if case .open(let id, _) = life { id } else { 0 } }
    /// The bytes of the request's content for which the server has no window yet.
    public final var unframed: Int { output.count }
    /// Whether more of the request waits although the stream's own window is open, because other streams' content was
    /// not taken.
    public final var isStarved: Bool { isOpen && !isRequestSent && session?.isStarved(number) == true }
    /// Whether all of the request was passed to `HTTP2ClientSession.write`.
    public final var isRequestSent: Bool { if case .onWire(_, .ended) = request { true } else { false } }
    /// Whether the request's fields were passed to it. Otherwise the request has not reached the server.
    public final var isHeadSent: Bool { if case .onWire(.some, _) = request { true } else { false } }
    /// Whether any response has begun, interim responses included.
    public final var isAnswered: Bool {
        switch response {
        case .awaited(let awaited): awaited.isBegun
        case .held, .content, .complete: true
        case .over(let isBegun): isBegun
        }
    }

    /// Sends content.
    ///
    /// - Returns: the number of bytes taken. `requestSpaceAvailable` is called when there is room again.
    public final func sendContent(_ content: Span<UInt8>) -> Int {
        // Nobody will read it.
        guard isOpen, case .onWire(let headEnd, let sending) = request else { return content.count }
        guard case .open(let isDeferred, let isDrained) = sending else {
            preconditionFailure("content stands before the end")
        }
        let taken = output.appendPrefix(of: content)
        if taken > 0, isDeferred {
            request = .onWire(headEnd: headEnd, .open(isDeferred: false, isDrained: isDrained))
            session?.resume(number)
        }
        return taken
    }

    /// Ends the request.
    public final func sendEnd() {
        guard isOpen, case .onWire(let headEnd, var content) = request else { return }
        let isDeferred = content.end()
        request = .onWire(headEnd: headEnd, content)
        if isDeferred { session?.resume(number) }
    }

    /// Ends the stream at once, whatever part of the request or the response remains. Only `ended` and `finishEvent`
    /// follow: `ended` within this call, if nothing of the stream remains.
    public final func reset(_ code: HTTP2ErrorCode) {
        guard let session else { return }
        switch response {
        case .awaited, .held, .content: session.watch.requestCancelled()
        // It may wait to be taken after the stream has left the wire.
        case .complete: break
        case .over: return
        }
        abandon(in: session)
        if isOnWire {
            session.submitReset(code, on: number)
        } else if !delivery.isRunning {
            finish(in: session)
        }
    }

    /// Requests content again, which is delivered within this call.
    public final func contentWanted() {
        guard !isOver, let session else { return }
        offer(in: session)
    }
}

// MARK: - The request, for the session

extension HTTP2ClientStream {
    /// Whether nghttp2 knows the stream, or will when its turn has come.
    final var isOnWire: Bool { if case .onWire = request { true } else { false } }
    private var isOver: Bool { if case .over = response { true } else { false } }

    /// Begins a request.
    final func begin(_ id: Int32, _ method: Method, endsStream: Bool) {
        life = .open(id: id, isTouched: false)
        request = .onWire(headEnd: nil, OutgoingContent(isEmpty: endsStream))
        response = .awaited(Awaited(isAnswerToHead: method == .head))
        delivery = .open
    }

    /// Records that the request's fields were framed.
    ///
    /// - Parameter end: their end as a position in all framed bytes of the connection.
    final func headFramed(end: UInt64) {
        if case .onWire(_, let content) = request { request = .onWire(headEnd: end, content) }
    }

    /// Records that a frame takes content from `output`.
    ///
    /// - Parameter count: the number of bytes. If it is 0, there were none.
    final func framed(_ count: Int, in session: HTTP2ClientSession) -> OutgoingContent.Frame {
        guard case .onWire(let headEnd, var content) = request else { return .none }
        let frame = content.framed(count, isAll: output.isEmpty)
        request = .onWire(headEnd: headEnd, content)
        switch frame {
        case .some(isFirst: true): session.drained.append(slot)
        case .last: output.releaseIfEmpty()
        case .none, .some: break
        }
        return frame
    }

    /// Records that END_STREAM was framed.
    final func requestEnded() {
        if case .onWire(let headEnd, _) = request { request = .onWire(headEnd: headEnd, .ended) }
    }

    /// Notifies the subclass of room for more of the request.
    final func reportRoom(in session: HTTP2ClientSession) {
        guard case .onWire(let headEnd, var content) = request, content.takeRoom() else { return }
        request = .onWire(headEnd: headEnd, content)
        output.releaseIfEmpty()
        guard !isOver else { return }
        touch(in: session)
        requestSpaceAvailable()
    }
}

// MARK: - The response, for the session

extension HTTP2ClientStream {
    /// The maximum number of interim responses before one final response. No service needs more.
    private static var interimLimit: Int { 16 }

    /// Begins a head or trailers.
    final func blockBegan() {
        switch response {
        case .awaited(var awaited):
            awaited.isBegun = true
            response = .awaited(awaited)
            headBytes.removeAll()
            head.reset()
        case .held: response = .held(hasTrailers: true)
        case .content(var content):
            content.hasTrailers = true
            response = .content(content)
        case .complete: break
        case .over: response = .over(isBegun: true)
        }
    }

    final func fieldCame(_ name: Span<UInt8>, _ value: Span<UInt8>, in session: HTTP2ClientSession) {
        switch response {
        case .awaited: session.block.take(name, value, into: &head, &headBytes)
        case .held, .content: session.block.take(name, value, into: &trailers, &trailerBytes)
        case .complete, .over: session.block.skip(name, value)
        }
    }

    final func blockEnded(endsStream: Bool, in session: HTTP2ClientSession) {
        do throws(MessageFault) {
            switch response {
            case .awaited(let awaited): try headEnded(awaited, endsStream: endsStream, in: session)
            case .held, .content:
                try session.block.finishTrailers(endsStream: endsStream)
                // A response that announced content and has none is found there.
                serverEnded(in: session)
            case .complete, .over: session.block.drop()
            }
        } catch {
            fail(.malformed(error), .protocolError, in: session)
        }
    }

    private func headEnded(
        _ awaited: Awaited, endsStream: Bool, in session: HTTP2ClientSession
    ) throws(MessageFault) {
        let length = try session.block.finish(&head, isHead: awaited.isAnswerToHead, endsStream: endsStream)
        guard !head.isInterim else { return try countInterim(awaited) }
        // No content is announced, but the stream continues. The next frame shows whether that is true; until then the
        // response may be malformed and is not delivered.
        guard head.framing != .none else {
            response = .held(hasTrailers: false)
            if endsStream { serverEnded(in: session) }
            return
        }
        response = .content(Content(missing: length))
        deliverHead(in: session)
    }

    private func countInterim(_ awaited: Awaited) throws(MessageFault) {
        headBytes.removeAll()
        guard awaited.interimResponses < Self.interimLimit else { throw .interimResponsesRepeated }
        var awaited = awaited
        awaited.interimResponses += 1
        response = .awaited(awaited)
    }

    private func deliverHead(in session: HTTP2ClientSession) {
        touch(in: session)
        responseHead(head, headBytes.readable)
        headBytes.removeAll()
    }

    // MARK: - Content

    final func contentCame(_ bytes: Span<UInt8>, in session: HTTP2ClientSession) {
        switch response {
        case .awaited:
            consumed(bytes.count, in: session)
            fail(.malformed(.headMissing), .protocolError, in: session)
        case .held:
            guard !bytes.isEmpty else { return }
            takeExcess(
                bytes.count, head.statedLength == 0 ? .contentLengthDisagrees : .contentImpossible, in: session)
        case .content(var content):
            guard let missing = content.missing else { return take(bytes, in: session) }
            let length = Int(min(missing, UInt64(bytes.count)))
            content.missing = missing - UInt64(length)
            response = .content(content)
            take(bytes.extracting(first: length), in: session)
            if length < bytes.count { takeExcess(bytes.count - length, .contentLengthDisagrees, in: session) }
        case .complete, .over: consumed(bytes.count, in: session)
        }
    }

    /// Handles content beyond the announced length.
    private func takeExcess(_ count: Int, _ fault: MessageFault, in session: HTTP2ClientSession) {
        consumed(count, in: session)
        // It may have been cancelled meanwhile.
        if !isOver { fail(.malformed(fault), .protocolError, in: session) }
    }

    /// The number of bytes of `waiting.front` that may be delivered. The last byte of a stated length waits for the end
    /// of the stream, so a response with more content than announced is never complete.
    private var free: Int {
        switch response {
        case .content(let content): min(waiting.frontCount, waiting.count - (content.missing == 0 ? 1 : 0))
        case .complete: waiting.frontCount
        case .awaited, .held, .over: 0
        }
    }

    /// Passes on content that has arrived.
    private func take(_ bytes: Span<UInt8>, in session: HTTP2ClientSession) {
        guard !bytes.isEmpty, case .content(let content) = response else { return }
        let free = bytes.count - (content.missing == 0 ? 1 : 0)
        let isNext = waiting.isEmpty && delivery == .open
        let taken = isNext && free > 0 ? deliver(bytes.extracting(first: free), in: session) : 0
        // It may have been cancelled meanwhile.
        guard !isOver else { return consumed(bytes.count, in: session) }
        consumed(taken, in: session)
        guard taken < bytes.count else { return }
        waiting.append(bytes.extracting(taken...))
        // The subclass may have requested the rest within the call.
        if delivery == .open { offer(in: session) }
    }

    /// Offers waiting content, which stays where it is until the subclass has returned.
    private func offer(in session: HTTP2ClientSession) {
        guard delivery.resume() else { return }
        while delivery == .open, free > 0 {
            let taken = deliver(waiting.front.extracting(first: free), in: session)
            waiting.consume(taken)
            consumed(taken, in: session)
        }
        switch response {
        case .complete(let hasTrailers): if waiting.isEmpty { deliverEnd(hasTrailers: hasTrailers, in: session) }
        case .over: releaseCancelled(in: session)
        case .awaited, .held, .content: break
        }
    }

    private func deliver(_ content: Span<UInt8>, in session: HTTP2ClientSession) -> Int {
        touch(in: session)
        delivery.begin()
        let taken = receive(content: content)
        precondition(taken >= 0 && taken <= content.count, "took more than was there")
        delivery.end(isAllTaken: taken == content.count)
        return taken
    }

    /// Returns credit for the windows to the server: only for the connection's window if the response has ended.
    private func consumed(_ count: Int, in session: HTTP2ClientSession) {
        switch response {
        case .awaited, .held, .content: session.returnCredit(count, of: number)
        case .complete, .over: session.returnCredit(count)
        }
    }

    // MARK: - The end

    /// Handles the end of the server's half of the stream.
    final func serverEnded(in session: HTTP2ClientSession) {
        switch response {
        case .awaited: return fail(.malformed(.headMissing), .protocolError, in: session)
        case .held(let hasTrailers):
            deliverHead(in: session)
            guard !isOver else { return }
            response = .complete(hasTrailers: hasTrailers)
        case .content(let content):
            guard content.missing ?? 0 == 0 else {
                return fail(.malformed(.contentLengthDisagrees), .protocolError, in: session)
            }
            response = .complete(hasTrailers: content.hasTrailers)
        case .complete, .over: return
        }
        if delivery == .open { offer(in: session) }
    }

    private func deliverEnd(hasTrailers: Bool, in session: HTTP2ClientSession) {
        touch(in: session)
        if hasTrailers {
            delivery.begin()
            responseTrailers(trailers, trailerBytes.readable)
            delivery.end(isAllTaken: true)
            guard !isOver else { return releaseCancelled(in: session) }
        }
        response = .over(isBegun: true)
        responseEnded()
        switch request {
        case .none: finish(in: session)
        // The rest of the request has no use (RFC 9113 section 8.1), and a part must not look like the whole.
        case .onWire(_, .open), .onWire(_, .ending): session.submitReset(.cancel, on: number)
        case .onWire(_, .ended): break
        }
    }

    /// Fails a request without a response, and resets its stream with `code`.
    private func fail(_ failure: HTTP2StreamFailure, _ code: HTTP2ErrorCode, in session: HTTP2ClientSession) {
        abandon(in: session)
        session.submitReset(code, on: number)
        touch(in: session)
        failed(failure)
    }

    /// Stops the stream's events, and drops waiting content. If the subclass is reading some of it, `offer` does so when
    /// it has returned.
    private func abandon(in session: HTTP2ClientSession) {
        response = .over(isBegun: isAnswered)
        guard !delivery.isRunning else { return }
        session.returnCredit(waiting.count)
        waiting.removeAll()
    }

    /// Handles a stream that was cancelled within one of its own callbacks.
    private func releaseCancelled(in session: HTTP2ClientSession) {
        abandon(in: session)
        if !isOnWire { finish(in: session) }
    }

    /// Handles GOAWAY.
    ///
    /// - Parameters:
    ///   - isFramed: whether nghttp2 knows the stream. Otherwise it would keep it until its turn to fail.
    ///   - last: the highest stream that the server may process.
    final func serverGoesAway(isFramed: Bool, last: Int32, in session: HTTP2ClientSession) {
        guard isOpen else { return }
        guard isFramed else { return fail(.unprocessed(.goingAway), .cancel, in: session) }
        if case .complete = response { return }
        guard number > last else { return }
        // nghttp2 closes it afterwards. A server that has begun to answer nevertheless contradicts itself.
        let isAnswered = isAnswered
        abandon(in: session)
        touch(in: session)
        failed(isAnswered ? .reset(.refusedStream) : .unprocessed(.goingAway))
    }

    /// Handles a stream that nghttp2 has closed.
    final func wireClosed(_ code: HTTP2ErrorCode, in session: HTTP2ClientSession) {
        if !isHeadSent {
            leaveWire(.unprocessed(session.isServerGoing ? .goingAway : .unsent), in: session)
        } else if code == .refusedStream, !isAnswered {
            leaveWire(.unprocessed(.refused), in: session)
        } else {
            leaveWire(.reset(code), in: session)
        }
    }

    /// Handles the end of the connection.
    ///
    /// - Parameter sent: the number of framed bytes of the connection that the server may have received.
    final func connectionEnded(sent: UInt64, _ failure: HTTP2StreamFailure, in session: HTTP2ClientSession) {
        guard case .onWire(let headEnd, _) = request else { return }
        let isUnsent = headEnd.map { $0 > sent } ?? true
        leaveWire(isUnsent ? .unprocessed(.unsent) : failure, in: session)
    }

    /// Ends a stream, except for the part of its response that waits to be taken.
    ///
    /// - Parameter failure: the failure if no complete response has arrived.
    private func leaveWire(_ failure: HTTP2StreamFailure, in session: HTTP2ClientSession) {
        request = .none
        session.streamsOnWire -= 1
        output.removeAll()
        switch response {
        case .awaited, .held, .content:
            abandon(in: session)
            touch(in: session)
            failed(failure)
        case .complete: return
        case .over: break
        }
        finish(in: session)
    }

    /// Releases a stream on which nothing is sent, received or waiting.
    private func finish(in session: HTTP2ClientSession) {
        guard case .open = life else { return }
        abandon(in: session)
        touch(in: session)
        session.openStreams -= 1
        headBytes.removeAll()
        trailers.fields.removeAll(keepingCapacity: true)
        trailerBytes.removeAll()
        output.removeAll()
        ended()
        life = .ended
        session.streamFinished()
    }

    // MARK: - Events

    /// Marks the stream as one whose event must be finished. It serves no other request before that.
    private func touch(in session: HTTP2ClientSession) {
        guard case .open(let id, isTouched: false) = life else { return }
        life = .open(id: id, isTouched: true)
        session.touched.append(slot)
    }

    /// Finishes the event.
    ///
    /// - Returns: whether the object may serve another request.
    final func settle() -> Bool {
        let before = life
        if case .open(let id, _) = before { life = .open(id: id, isTouched: false) }
        finishEvent()
        guard case .ended = before else { return false }
        life = .idle
        return true
    }

    /// Detaches the object from its session, which is gone. Objects that still refer to it find it closed.
    final func detach() {
        session = nil
        life = .idle
        request = .none
        response = .over(isBegun: isAnswered)
    }
}
