public import Bytes
internal import CNghttp2
public import EventLoop

/// An HTTP/2 connection in the client role, as a state machine over bytes. `open` begins a request, `write` returns
/// output, `receive` takes input, and `finishEvent` ends each event.
///
/// The counterpart of `HTTP2Session`, with the same structure. nghttp2 handles frames, HPACK, windows and the states of
/// streams; this class defines valid responses and limits. A server is trusted no more than a client: it may be
/// compromised, and it answers for many clients.
@safe public final class HTTP2ClientSession: HTTP2Framing {
    unowned let handler: HTTP2ClientHandler
    var block: ResponseBlock

    /// All stream objects, and the indices of the unused ones.
    var streams: [HTTP2ClientStream] = []
    var idle: [Int] = []
    /// The indices of streams to be notified of room, and of those whose event must be finished. Kept for their
    /// capacity.
    var drained: [Int] = []
    var touched: [Int] = []

    /// The buffer in which heads of requests are composed.
    var scratch: ByteBuffer
    var fieldList = FieldList()
    /// The number of bytes of frames that were made, including those not appended yet.
    private var framed: UInt64 = 0
    /// The request whose fields end with the frame that nghttp2 is making.
    var headFramed: HTTP2ClientStream?

    /// Whether no more requests may begin, by the server's decision or our own.
    private(set) var isDraining = false
    /// Whether GOAWAY has arrived.
    public private(set) var isServerGoing = false
    /// Whether the server has sent its settings.
    public internal(set) var isGreeted = false
    /// Whether the server is within a block of fields: no other frame is allowed until it is complete (RFC 9113 section
    /// 4.3).
    public internal(set) var isMidBlock = false
    /// The number of open streams: those nghttp2 knows, and those whose complete response waits to be taken.
    public internal(set) var openStreams = 0
    private var streamsOnWire = 0
    /// The number of streams that we may still reset. At 0, no more requests begin. A stream that should be reset after
    /// that is ignored until the server ends it, or the connection ends.
    public var resetsLeft = Int.max
    /// Whether a stream is open that should have been reset.
    public private(set) var isWithholdingResets = false
    /// The number of requests begun.
    public internal(set) var requestCount = 0

    /// Creates a session.
    ///
    /// - Parameters:
    ///   - heads: the limits of the number of fields.
    ///   - pool: a pool whose blocks hold a head of `limits.headerList`.
    ///   - handler: the owner of the session.
    public init(limits: HTTP2Limits, heads: HeadLimits, pool: BufferPool, handler: HTTP2ClientHandler) {
        self.handler = handler
        block = ResponseBlock(heads: heads, limits: limits)
        scratch = ByteBuffer(pool: pool)
        super.init(limits, .client, pool: pool)
    }

    deinit {
        // An object that still refers to one of these streams finds it closed.
        for stream in streams {
            stream.id = 0
            stream.session = nil
        }
    }

    // MARK: - Bytes

    /// Takes bytes from the server. Calls streams.
    ///
    /// - Throws: the reason why the connection ends. The remaining output of `write` must be sent before it is closed.
    public func receive(_ bytes: Span<UInt8>, now: Instant) throws(HTTP2Fault) {
        if let fault { throw fault }
        self.now = now
        read(bytes)
        // In addition to requests and their resets.
        boundOutput(limits.outboundFrames + 2 * openStreams)
        if let fault { throw fault }
    }

    /// Appends output as far as there is room. The rest follows with the next call.
    ///
    /// - Throws: the reason why the connection ends, if it is found only now. The appended bytes must be sent
    ///   nevertheless.
    public func write(into output: inout ByteBuffer) throws(HTTP2Fault) {
        precondition(!isReading, "a stream's method writes to no socket")
        let before = fault
        while output.room > 0 {
            if restCount == 0 {
                let length = makeFrame()
                guard length > 0 else { break }
                framed += UInt64(length)
                headFramed?.state.headEnd = framed
                headFramed = nil
            }
            appendRest(to: &output)
        }
        if before == nil, let fault { throw fault }
    }

    /// Notifies streams of room for more of their requests. Call it after the output of `write` has been sent.
    ///
    /// - Returns: whether any stream was notified, so that there may be more to write.
    public func reportRoom() -> Bool {
        guard !drained.isEmpty else { return false }
        while let slot = drained.popLast() {
            let stream = streams[slot]
            guard stream.state.isDrained else { continue }
            stream.state.isDrained = false
            stream.output.releaseIfEmpty()
            guard stream.isOpen, !stream.state.isEnding else { continue }
            touch(stream)
            stream.requestSpaceAvailable()
        }
        return true
    }

    /// Ends an event in which any of the other methods were called. Each stream that was called is notified.
    public func finishEvent() {
        precondition(!isReading, "the event is still under way")
        while let slot = touched.popLast() {
            let stream = streams[slot]
            stream.state.isTouched = false
            stream.finishEvent()
            if stream.id == 0, !stream.state.isTouched { idle.append(slot) }
        }
    }

    /// Marks a stream whose event must be finished. It serves no other request before that.
    func touch(_ stream: HTTP2ClientStream) {
        guard !stream.state.isTouched else { return }
        stream.state.isTouched = true
        touched.append(stream.slot)
    }

    // MARK: - The connection's life

    /// The number of requests that may begin now. Before the server's settings, the limit is 100 (RFC 9113 section
    /// 6.5.2).
    public var capacity: Int {
        guard mayOpen else { return 0 }
        let most = unsafe nghttp2_session_get_remote_settings(library, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS)
        return max(0, min(limits.concurrentStreams - openStreams, Int(most) - streamsOnWire))
    }

    /// Whether requests may begin, now or when there is room. Otherwise the connection only serves present requests.
    public var mayOpen: Bool {
        guard fault == nil, isUsable, !isDraining, !isTerminating, resetsLeft > 0 else { return false }
        return unsafe nghttp2_session_check_request_allowed(library) != 0
    }

    /// Counts a reset.
    ///
    /// - Returns: whether one more stream may be reset.
    private func takeReset() -> Bool {
        guard resetsLeft > 0 else {
            isWithholdingResets = true
            return false
        }
        resetsLeft -= 1
        return true
    }

    /// Whether the server accepts no content on any stream, because it has not returned credit for earlier content (RFC
    /// 9113 section 6.9).
    public var isWindowShut: Bool {
        guard isUsable else { return false }
        return unsafe nghttp2_session_get_remote_window_size(library) <= 0
    }

    /// Returns whether only the content of other streams keeps the stream's content from being sent.
    func isStarved(_ stream: HTTP2ClientStream) -> Bool {
        guard isWindowShut, !stream.state.requestEnded else { return false }
        return unsafe nghttp2_session_get_stream_remote_window_size(library, stream.id) > 0
    }

    /// Whether there is output, whatever the room.
    public var hasOutput: Bool { hasFrames }

    /// Whether nothing will be received or sent any more, so that the connection must be closed.
    public var isFinished: Bool { isSilent }

    /// Begins no more requests. The connection is finished after those in flight.
    public func drain() {
        guard fault == nil, isUsable, !isDraining else { return }
        isDraining = true
        unsafe nghttp2_submit_goaway(
            library, UInt8(NGHTTP2_FLAG_NONE.rawValue), 0, HTTP2ErrorCode.noError.rawValue, nil, 0)
    }

    /// Sends a PING to the server, whose answer calls `pingAnswered` (RFC 9113 section 6.7).
    public func ping() {
        guard fault == nil, isUsable, !isTerminating else { return }
        watch.pinged()
        unsafe nghttp2_submit_ping(library, UInt8(NGHTTP2_FLAG_NONE.rawValue), nil)
    }

    /// Closes the session after the connection is gone.
    ///
    /// Open requests fail, except for complete responses that wait to be taken. Nothing is received or sent afterwards.
    /// Must not be called by a stream's method.
    ///
    /// - Parameter unsent: the number of last bytes of output that the server has certainly not received.
    public func close(unsent: Int = 0) {
        precondition(!isReading, "a session is not closed within a stream's callback")
        guard !isClosed else { return }
        markClosed()
        let sent = framed - min(framed, UInt64(restCount + unsent))
        dropRest()
        // Without an iterator: a stream that is notified of a failure may access the session.
        for slot in streams.indices where streams[slot].state.isOnWire {
            let stream = streams[slot]
            let isUnsent = stream.state.headEnd == 0 || stream.state.headEnd > sent
            leaveWire(stream, isUnsent ? .unprocessed(.unsent) : fault.map { .connectionFaulted($0) } ?? .disconnected)
        }
    }

    // MARK: - Events of nghttp2

    private func stream(_ id: Int32) -> HTTP2ClientStream? { object(of: id) }

    override func blockBegan(_ id: Int32, opensStream: Bool) {
        if let stream = stream(id) { blockBegan(stream) }
    }

    override func fieldCame(_ name: Span<UInt8>, _ value: Span<UInt8>, on id: Int32) {
        if let stream = stream(id) { fieldCame(name, value, for: stream) }
    }

    override func blockEnded(_ id: Int32, opensStream: Bool, endsStream: Bool) {
        if let stream = stream(id) { blockEnded(stream, endsStream: endsStream) }
    }

    override func contentCame(_ content: Span<UInt8>, on id: Int32) {
        if let stream = stream(id) { contentCame(content, on: stream) }
    }

    override func peerEnded(_ id: Int32) {
        if let stream = stream(id) { serverEnded(stream) }
    }

    override func settingsCame() {
        isGreeted = true
        handler.capacityChanged()
    }

    override func pingAnswered() { handler.pingAnswered() }

    override func peerGoesAway(_ code: HTTP2ErrorCode, last: Int32) {
        isServerGoing = true
        for slot in streams.indices where streams[slot].state.isOnWire && !streams[slot].state.isReset {
            let stream = streams[slot]
            if self.stream(stream.id) == nil {
                // nghttp2 has not framed it yet, and would keep it until its turn to fail.
                fail(stream, .unprocessed(.goingAway), .cancel)
            } else if stream.id > last, !stream.state.isComplete {
                // nghttp2 closes it afterwards. A server that has begun to answer nevertheless contradicts itself.
                deafen(stream)
                touch(stream)
                stream.failed(stream.state.isAnswered ? .reset(.refusedStream) : .unprocessed(.goingAway))
            }
        }
        handler.serverGoesAway(code)
    }

    override func streamClosed(_ id: Int32, _ code: HTTP2ErrorCode) {
        guard let stream = stream(id) else { return }
        set(nil, of: id)
        wireClosed(stream, code)
    }

    override func headSent(on id: Int32) { headFramed = stream(id) }

    override func endSent(on id: Int32) { stream(id)?.state.requestEnded = true }

    override func produce(
        on id: Int32, _ room: UnsafeMutableBufferPointer<UInt8>, _ flags: inout UInt32
    ) -> Int {
        guard let stream = stream(id) else { return Int(NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE.rawValue) }
        return unsafe produce(stream, room, &flags)
    }
}

// MARK: - Requests

extension HTTP2ClientSession {
    /// Begins a request.
    ///
    /// - Parameters:
    ///   - scheme: `https`, or `http` on a connection without TLS.
    ///   - authority: host and port, as in Host.
    ///   - endsStream: whether no content follows.
    ///   - target: appends path and query.
    ///   - fields: appends the fields as lines, as for HTTP/1.1. Those of one connection, and Host, are left out; names
    ///     are
    ///     sent in lower case.
    public func open(
        _ method: Method, scheme: StaticString, authority: Span<UInt8>, endsStream: Bool,
        target: (inout ByteBuffer) -> Void, fields: (inout ByteBuffer) -> Void
    ) throws(HTTP2OpenFailure) -> HTTP2ClientStream {
        guard mayOpen else { throw .closing }
        guard capacity > 0 else { throw .noRoom }
        defer { scratch.removeAll() }
        scratch.removeAll()
        scratch.append(authority)
        target(&scratch)
        let targetEnd = scratch.count
        fields(&scratch)
        guard !scratch.overflowed else { throw .headTooLarge }
        let stream = takeStream()
        var provider = unsafe nghttp2_data_provider()
        unsafe provider.read_callback = readContent
        let user = unsafe Unmanaged.passUnretained(stream).toOpaque()
        var id: Int32 = 0
        unsafe fieldList.withRequest(
            method.name, scheme, in: scratch.readable, authorityEnd: authority.count, targetEnd: targetEnd
        ) { list in
            id =
                unsafe endsStream
                ? nghttp2_submit_request(library, nil, list.baseAddress, list.count, nil, user)
                : nghttp2_submit_request(library, nil, list.baseAddress, list.count, &provider, user)
        }
        guard id > 0 else {
            idle.append(stream.slot)
            // Out of memory or of stream identifiers.
            throw .closing
        }
        stream.id = id
        stream.state.isOnWire = true
        stream.state.isHead = method == .head
        stream.state.isEnding = endsStream
        openStreams += 1
        streamsOnWire += 1
        requestCount += 1
        watch.requestBegan()
        return stream
    }

    /// Returns a stream object without a request.
    private func takeStream() -> HTTP2ClientStream {
        if let slot = idle.popLast() {
            streams[slot].state = ClientStreamState()
            return streams[slot]
        }
        let stream = handler.makeStream(pool)
        stream.slot = streams.count
        stream.session = self
        streams.append(stream)
        return stream
    }

    /// Resumes a stream that has content or its end again.
    func resume(_ stream: HTTP2ClientStream) {
        guard stream.state.isDeferred, !isClosed else { return }
        stream.state.isDeferred = false
        unsafe nghttp2_session_resume_data(library, stream.id)
    }

    /// Fills a frame with content for nghttp2.
    ///
    /// - Returns: the number of bytes written to `room`, or NGHTTP2_ERR_DEFERRED.
    private func produce(
        _ stream: HTTP2ClientStream, _ room: UnsafeMutableBufferPointer<UInt8>, _ flags: inout UInt32
    ) -> Int {
        let count = min(stream.output.count, room.count)
        if count > 0 {
            unsafe stream.output.withUnsafeReadable {
                _ = unsafe room.update(fromContentsOf: $0.prefix(count))
            }
            stream.output.consume(count)
            if !stream.state.isEnding, !stream.state.isDrained {
                stream.state.isDrained = true
                drained.append(stream.slot)
            }
        }
        guard stream.output.isEmpty else { return count }
        if stream.state.isEnding {
            stream.output.releaseIfEmpty()
            flags |= NGHTTP2_DATA_FLAG_EOF.rawValue
            return count
        }
        guard count == 0 else { return count }
        stream.state.isDeferred = true
        return Int(NGHTTP2_ERR_DEFERRED.rawValue)
    }

    /// Resets a stream whose response is no longer wanted.
    func reset(_ stream: HTTP2ClientStream, _ code: HTTP2ErrorCode) {
        if stream.state.isOnWire, !stream.state.isReset, !stream.state.isComplete { watch.requestCancelled() }
        deafen(stream)
        if stream.state.isOnWire { return submitReset(code, on: stream) }
        // The response was complete and waited to be taken.
        if !stream.state.isDelivering { finish(stream) }
    }

    func submitReset(_ code: HTTP2ErrorCode, on stream: HTTP2ClientStream) {
        guard isUsable, takeReset() else { return }
        unsafe nghttp2_submit_rst_stream(library, UInt8(NGHTTP2_FLAG_NONE.rawValue), stream.id, code.rawValue)
    }
}

// MARK: - Responses

extension HTTP2ClientSession {
    /// The maximum number of interim responses before one final response. No service needs more.
    private static var interimLimit: Int { 16 }

    // MARK: - Blocks of fields

    /// Begins a head or trailers.
    private func blockBegan(_ stream: HTTP2ClientStream) {
        isMidBlock = true
        block.begin()
        stream.state.isAnswered = true
        guard !stream.state.isReset else { return }
        if stream.state.hasHead { return stream.state.hasTrailers = true }
        stream.headBytes.removeAll()
        stream.head.reset()
    }

    private func fieldCame(_ name: Span<UInt8>, _ value: Span<UInt8>, for stream: HTTP2ClientStream) {
        if stream.state.isReset {
            block.skip(name, value)
        } else if stream.state.hasTrailers {
            block.take(name, value, into: &stream.trailers, &stream.trailerBytes)
        } else {
            block.take(name, value, into: &stream.head, &stream.headBytes)
        }
        // A few bytes may decode to a great many.
        if block.size > 4 * limits.headerList { end(.excess(.headerList)) }
    }

    private func blockEnded(_ stream: HTTP2ClientStream, endsStream: Bool) {
        isMidBlock = false
        guard !stream.state.isReset else { return }
        do throws(MessageFault) {
            if stream.state.hasTrailers {
                try block.finishTrailers(endsStream: endsStream)
                // A response that announced content and has none is found by `missing`.
                return serverEnded(stream)
            }
            let length = try block.finish(&stream.head, isHead: stream.state.isHead, endsStream: endsStream)
            guard !stream.head.isInterim else { return try countInterim(stream) }
            stream.state.hasHead = true
            stream.state.missing = length
        } catch {
            return fail(stream, .malformed(error), .protocolError)
        }
        // No content is announced, but the stream continues. The next frame shows whether that is true; until then the
        // response may be malformed and is not delivered.
        stream.state.isHeld = stream.head.framing == .none
        if endsStream {
            serverEnded(stream)
        } else if !stream.state.isHeld {
            deliverHead(stream)
        }
    }

    private func countInterim(_ stream: HTTP2ClientStream) throws(MessageFault) {
        stream.headBytes.removeAll()
        stream.state.interimResponses += 1
        guard stream.state.interimResponses <= Self.interimLimit else { throw .interimResponsesRepeated }
    }

    private func deliverHead(_ stream: HTTP2ClientStream) {
        touch(stream)
        stream.state.isHeld = false
        stream.responseHead(stream.head, stream.headBytes.readable)
        stream.headBytes.removeAll()
    }

    // MARK: - Content

    private func contentCame(_ content: Span<UInt8>, on stream: HTTP2ClientStream) {
        guard !stream.state.isReset else { return consumed(content.count, on: stream) }
        guard stream.state.hasHead else {
            consumed(content.count, on: stream)
            return fail(stream, .malformed(.headMissing), .protocolError)
        }
        guard let missing = stream.state.missing else { return take(content, on: stream) }
        guard content.count > missing else {
            stream.state.missing = missing - UInt64(content.count)
            return take(content, on: stream)
        }
        stream.state.missing = 0
        take(content.extracting(first: Int(missing)), on: stream)
        consumed(content.count - Int(missing), on: stream)
        guard !stream.state.isReset else { return }
        let isImpossible = stream.head.framing == .none && stream.head.statedLength != 0
        fail(stream, .malformed(isImpossible ? .contentImpossible : .contentLengthDisagrees), .protocolError)
    }

    /// Passes on content. The last byte of a stated length waits for the end of the stream, so a response with more
    /// content than announced is never complete.
    private func take(_ content: Span<UInt8>, on stream: HTTP2ClientStream) {
        guard !content.isEmpty else { return }
        stream.state.isLastKept = stream.state.missing == 0
        let free = content.count - (stream.state.isLastKept ? 1 : 0)
        let isNext = stream.waiting.isEmpty && !stream.state.isFull
        let taken = isNext && free > 0 ? deliver(content.extracting(first: free), to: stream) : 0
        // The stream may have been cancelled meanwhile.
        guard !stream.state.isReset else { return consumed(content.count, on: stream) }
        if taken < content.count { stream.waiting.append(content.extracting(taken...)) }
        consumed(taken, on: stream)
        if stream.state.isWanted { offer(stream) }
    }

    /// Offers waiting content.
    func offer(_ stream: HTTP2ClientStream) {
        guard !stream.state.isDelivering else {
            stream.state.isWanted = true
            return
        }
        stream.state.isFull = false
        while !stream.state.isReset, !stream.state.isFull || stream.state.isWanted, stream.free > 0 {
            stream.state.isWanted = false
            let taken = deliver(stream.waiting.front.extracting(first: stream.free), to: stream)
            stream.waiting.consume(taken)
            consumed(taken, on: stream)
        }
        stream.state.isWanted = false
        if stream.state.isReset { givenUp(stream) } else { tellEnd(stream) }
    }

    /// Handles a stream that was reset within one of its own callbacks.
    private func givenUp(_ stream: HTTP2ClientStream) {
        deafen(stream)
        if !stream.state.isOnWire, stream.id != 0 { finish(stream) }
    }

    private func deliver(_ content: Span<UInt8>, to stream: HTTP2ClientStream) -> Int {
        touch(stream)
        stream.state.isDelivering = true
        let taken = stream.receive(content: content)
        stream.state.isDelivering = false
        precondition(taken >= 0 && taken <= content.count, "took more than was there")
        stream.state.isFull = taken < content.count
        return taken
    }

    /// Returns credit for the windows to the server: only for the connection's window if the stream has ended.
    private func consumed(_ count: Int, on stream: HTTP2ClientStream) {
        guard count > 0, isUsable else { return }
        if stream.state.isReset || stream.state.isComplete {
            unsafe nghttp2_session_consume_connection(library, count)
        } else {
            unsafe nghttp2_session_consume(library, stream.id, count)
        }
    }

    // MARK: - The end

    /// Handles the end of the server's half of the stream.
    func serverEnded(_ stream: HTTP2ClientStream) {
        guard !stream.state.isReset else { return }
        guard stream.state.hasHead else { return fail(stream, .malformed(.headMissing), .protocolError) }
        guard stream.state.missing ?? 0 == 0 else {
            return fail(stream, .malformed(.contentLengthDisagrees), .protocolError)
        }
        if stream.state.isHeld { deliverHead(stream) }
        guard !stream.state.isReset else { return }
        stream.state.isComplete = true
        stream.state.isLastKept = false
        if stream.state.isFull { tellEnd(stream) } else { offer(stream) }
    }

    private func tellEnd(_ stream: HTTP2ClientStream) {
        guard stream.state.isComplete, !stream.state.isEndReported, !stream.state.isReset, stream.waiting.isEmpty else {
            return
        }
        touch(stream)
        stream.state.isEndReported = true
        if stream.state.hasTrailers {
            stream.state.isDelivering = true
            stream.responseTrailers(stream.trailers, stream.trailerBytes.readable)
            stream.state.isDelivering = false
            guard !stream.state.isReset else { return givenUp(stream) }
        }
        stream.state.isReset = true
        stream.responseEnded()
        guard stream.state.isOnWire else { return finish(stream) }
        // The rest of the request has no use (RFC 9113 section 8.1), and a part must not look like the whole.
        if !stream.state.requestEnded { submitReset(.cancel, on: stream) }
    }

    /// Fails a request without a response, and resets its stream with `code`.
    func fail(_ stream: HTTP2ClientStream, _ failure: HTTP2StreamFailure, _ code: HTTP2ErrorCode) {
        deafen(stream)
        submitReset(code, on: stream)
        touch(stream)
        stream.failed(failure)
    }

    /// Stops the stream's events, and drops its waiting content.
    private func deafen(_ stream: HTTP2ClientStream) {
        stream.state.isReset = true
        // A running callback of the stream notices this when it returns.
        guard !stream.state.isDelivering else { return }
        consumed(stream.waiting.count, on: stream)
        stream.waiting.removeAll()
    }

    /// Handles a stream that nghttp2 has closed.
    private func wireClosed(_ stream: HTTP2ClientStream, _ code: HTTP2ErrorCode) {
        let failure: HTTP2StreamFailure
        if stream.state.headEnd == 0 {
            failure = .unprocessed(isServerGoing ? .goingAway : .unsent)
        } else if code == .refusedStream, !stream.state.isAnswered {
            failure = .unprocessed(.refused)
        } else {
            failure = .reset(code)
        }
        leaveWire(stream, failure)
    }

    /// Ends a stream, except for the part of its response that waits to be taken.
    ///
    /// - Parameter failure: the failure if no complete response has arrived.
    private func leaveWire(_ stream: HTTP2ClientStream, _ failure: HTTP2StreamFailure) {
        stream.state.isOnWire = false
        streamsOnWire -= 1
        stream.output.removeAll()
        if !stream.state.isReset {
            if stream.state.isComplete, !stream.state.isEndReported { return }
            if !stream.state.isComplete {
                deafen(stream)
                touch(stream)
                stream.failed(failure)
            }
        }
        finish(stream)
    }

    /// Releases a stream on which nothing is sent, received or waiting.
    func finish(_ stream: HTTP2ClientStream) {
        deafen(stream)
        stream.state.isReset = true
        touch(stream)
        openStreams -= 1
        stream.headBytes.removeAll()
        stream.trailers.fields.removeAll(keepingCapacity: true)
        stream.trailerBytes.removeAll()
        stream.output.removeAll()
        stream.ended()
        stream.id = 0
        if !isClosed { handler.capacityChanged() }
    }
}
