public import Bytes
internal import CNghttp2
public import EventLoop

/// An HTTP/2 connection in the server role, as a state machine over bytes: `receive` takes input, `write` returns
/// output.
///
/// It owns a session of nghttp2, which handles frames, HPACK, windows and the states of streams. This class defines
/// valid requests and limits. nghttp2's own rules for messages are off: its only response to a malformed request is a
/// reset, and it accepts other spellings than ours.
@safe public final class HTTP2Session: HTTP2Framing {
    unowned let handler: HTTP2Handler
    var incoming: IncomingHead

    /// All stream objects, at most `concurrentStreams`, and the indices of the unused ones.
    var streams: [HTTP2Stream] = []
    var idle: [Int] = []
    /// The indices of streams to be notified of room, and of those whose content has arrived for now. Kept for their
    /// capacity.
    var drained: [Int] = []
    var touched: [Int] = []
    /// The streams to be reset once their responses are sent.
    private var dismissed: [UnfinishedRequest] = []
    /// Whether received heads wait for the end of their stream.
    private var hasHeld = false

    /// The buffer in which heads of responses are composed.
    var scratch: ByteBuffer
    var fieldList = FieldList()

    /// The number of streams refused for their number that did not count against the client.
    var excusedRefusals = 0
    /// The stream whose head or trailers have begun and are not complete. No other frame is allowed until then (RFC
    /// 9113 section 4.3).
    public internal(set) var incompleteHead: HTTP2Stream?
    /// Whether a block of fields has begun and is not complete, also of an ended stream.
    public var isMidBlock: Bool { watch.isMidBlock }
    /// The number of requests begun.
    public internal(set) var requestCount = 0

    /// Creates a session.
    ///
    /// - Parameters:
    ///   - heads: the limits of the target and the number of fields.
    ///   - pool: a pool whose blocks hold a head of `limits.headerList`.
    ///   - handler: the owner of the session.
    public init(limits: HTTP2Limits, heads: HeadLimits, pool: BufferPool, handler: HTTP2Handler) {
        self.handler = handler
        incoming = IncomingHead(heads: heads, limits: limits, pool: pool)
        scratch = ByteBuffer(pool: pool)
        super.init(limits, .server, pool: pool)
    }

    // MARK: - Bytes

    /// Takes bytes from the client. Calls streams.
    ///
    /// - Throws: the reason why the connection ends. The remaining output of `write` must be sent before it is closed.
    public func receive(_ bytes: Span<UInt8>, now: Instant) throws(HTTP2Fault) {
        if let fault { throw fault }
        self.now = now
        read(bytes)
        checkData()
        boundHeld()
        boundOutput(limits.outboundFrames)
        if let fault { throw fault }
        reportPauses()
    }

    /// Appends output as far as there is room. The rest follows with the next call.
    ///
    /// - Throws: the reason why the connection ends, if it is found only now. The appended bytes must be sent
    ///   nevertheless.
    public func write(into output: inout ByteBuffer) throws(HTTP2Fault) {
        precondition(!isReading, "a stream's method writes to no socket")
        let before = fault
        // Everything framed before is with the socket.
        if !dismissed.isEmpty, output.isEmpty, restCount == 0 { submitDismissals() }
        while output.room > 0 {
            if restCount == 0, makeFrame() == 0 { break }
            appendRest(to: &output)
        }
        if before == nil, let fault { throw fault }
    }

    /// Notifies streams of room for more of their responses. Call it after the output of `write` has been sent.
    ///
    /// - Returns: whether any stream was notified, so that there may be more to write.
    public func reportRoom() -> Bool {
        guard !drained.isEmpty else { return false }
        while let slot = drained.popLast() {
            guard streams[slot].state.isDrained else { continue }
            streams[slot].state.isDrained = false
            streams[slot].output.releaseIfEmpty()
            if streams[slot].isOpen, !streams[slot].state.isEnding { streams[slot].outputDrained() }
        }
        return true
    }

    private func reportPauses() {
        while let slot = touched.popLast() {
            guard streams[slot].state.isTouched else { continue }
            streams[slot].state.isTouched = false
            let isShown = streams[slot].state.isListening && !streams[slot].state.isHeld
            if isShown, streams[slot].free == 0 { streams[slot].contentPaused() }
        }
    }

    // MARK: - The connection's life

    /// Whether there is output, whatever the room.
    public var hasOutput: Bool { !dismissed.isEmpty || hasFrames }

    /// Whether nothing will be received or sent any more, so that the connection must be closed.
    public var isFinished: Bool { isSilent }

    public var openStreams: Int { streams.count - idle.count }

    /// Whether the client can send no content on any stream, because earlier content was not consumed.
    public var isWindowShut: Bool { unsafe nghttp2_session_get_local_window_size(library) <= 0 }

    /// Asks the client to begin no more requests (RFC 9113 section 6.8). Requests in flight towards us are still
    /// served.
    public func announceDrain() {
        guard fault == nil, isUsable else { return }
        unsafe nghttp2_submit_shutdown_notice(library)
    }

    /// Serves only the requests that have begun. Call it a round trip after `announceDrain`.
    ///
    /// Requests that are incomplete and not delivered yet are refused, so that their clients may send them again:
    /// GOAWAY covers them.
    public func drain() {
        guard fault == nil, isUsable else { return }
        for stream in streams where stream.isUnseen { stream.reset(.refusedStream) }
        unsafe nghttp2_submit_goaway(
            library, UInt8(NGHTTP2_FLAG_NONE.rawValue), nghttp2_session_get_last_proc_stream_id(library),
            HTTP2ErrorCode.noError.rawValue, nil, 0)
    }

    /// Closes the session after the connection is gone. Every open stream is abandoned and ends. Nothing is received or
    /// sent afterwards. Must not be called by a stream's method.
    public func close() {
        precondition(!isReading, "a session is not closed within a stream's callback")
        guard !isClosed else { return }
        markClosed()
        for stream in streams where stream.id != 0 { finish(stream, .cancel) }
    }

    // MARK: - Events of nghttp2

    private func stream(_ id: Int32) -> HTTP2Stream? { object(of: id) }

    override func blockBegan(_ id: Int32, opensStream: Bool) {
        guard opensStream else {
            incompleteHead = stream(id)
            return incoming.begin(trailers: true)
        }
        let stream = begin(id)
        set(stream, of: id)
        incompleteHead = stream
    }

    override func fieldCame(_ name: Span<UInt8>, _ value: Span<UInt8>, on id: Int32) {
        if !incoming.take(name, value) { headTooLong() }
    }

    override func blockEnded(_ id: Int32, opensStream: Bool, endsStream: Bool) {
        incompleteHead = nil
        guard let stream = stream(id) else { return }
        if opensStream {
            headEnded(stream, endsStream: endsStream)
        } else {
            trailersEnded(stream, endsStream: endsStream)
        }
    }

    override func contentCame(_ content: Span<UInt8>, on id: Int32) {
        if let stream = stream(id) { arrived(content, on: stream) }
    }

    override func peerEnded(_ id: Int32) {
        if let stream = stream(id) { clientEnded(stream) }
    }

    override func peerGoesAway(_ code: HTTP2ErrorCode, last: Int32) { handler.clientGoesAway(code) }

    override func streamClosed(_ id: Int32, _ code: HTTP2ErrorCode) {
        guard let stream = stream(id) else { return }
        set(nil, of: id)
        finish(stream, code)
    }

    override func endSent(on id: Int32) {
        if let stream = stream(id) { responseEnded(stream) }
    }

    override func resetSent(_ code: HTTP2ErrorCode, on id: Int32) {
        // The cause is not our decision, so it is the client. So is a stream that was refused before it began.
        if let stream = stream(id) {
            if !stream.state.isReset { countProvokedReset() }
        } else if code == .refusedStream, !excuseRefusal() {
            countProvokedReset()
        }
    }

    override func headNotSent(on id: Int32) {
        // If a head cannot be sent, nothing else of the response may be.
        stream(id)?.reset(.internalError)
    }

    override func produce(
        on id: Int32, _ room: UnsafeMutableBufferPointer<UInt8>, _ flags: inout UInt32
    ) -> Int {
        guard let stream = stream(id) else { return Int(NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE.rawValue) }
        return unsafe produce(stream, room, &flags)
    }
}

/// The user of an HTTP/2 server connection: it creates the streams, and receives the events that concern all of them.
///
/// The handler owns the session, which refers to it unretained.
open class HTTP2Handler {
    public init() {}

    /// Creates a stream. The session keeps it and uses it for one request after the other.
    open func makeStream(_ pool: BufferPool) -> HTTP2Stream { HTTP2Stream(pool: pool) }
    /// Called when the client announces that it begins no more requests (GOAWAY). Later requests may or may not be
    /// served.
    open func clientGoesAway(_ code: HTTP2ErrorCode) {}
}

// MARK: - Streams

extension HTTP2Session {
    // MARK: - Requests

    /// Begins a request.
    ///
    /// - Returns: the object of its stream.
    func begin(_ id: Int32) -> HTTP2Stream {
        let stream: HTTP2Stream
        if let slot = idle.popLast() {
            stream = streams[slot]
        } else {
            stream = handler.makeStream(pool)
            stream.slot = streams.count
            stream.session = self
            streams.append(stream)
        }
        stream.id = id
        stream.state = StreamState()
        incoming.begin(trailers: false)
        requestCount += 1
        return stream
    }

    /// Handles the end of a request's fields.
    func headEnded(_ stream: HTTP2Stream, endsStream: Bool) {
        stream.state.clientEnded = endsStream
        // It came too late, and was answered.
        guard !stream.state.isSeen, !stream.state.isReset else { return incoming.drop() }
        do throws(MessageFault) {
            let length = try incoming.finish(&stream.head, &stream.headBytes, endsStream: endsStream)
            stream.state.missing = endsStream ? nil : length
        } catch {
            return fail(stream, error)
        }
        stream.state.isListening = true
        stream.state.isTunnel = stream.head.opensWebSocket
        // Content-Length 0 without the end of the stream: the next frame shows whether it is true. Until then the
        // request may be malformed and is not delivered.
        stream.state.isHeld = !endsStream && stream.state.missing == 0
        if stream.state.isHeld {
            hasHeld = true
            stream.headHeld()
        } else {
            showHead(of: stream)
        }
        // Content may come later than the head. A forwarder must not hold back the head until then, since some clients
        // wait for the response first.
        if endsStream { clientEnded(stream) } else { touch(stream) }
    }

    /// Marks a stream that may have no more bytes for now. It is checked after everything received has been read.
    private func touch(_ stream: HTTP2Stream) {
        guard !stream.state.isTouched else { return }
        stream.state.isTouched = true
        touched.append(stream.slot)
    }

    /// Refuses held requests beyond a few, after everything received has been read: most ends come right behind their
    /// heads. These requests were not processed, so the client may send them again.
    private func boundHeld() {
        guard hasHeld else { return }
        hasHeld = false
        var held = 0
        for stream in streams where stream.isHeld {
            held += 1
            guard held > limits.heldRequests else { continue }
            stream.reset(.refusedStream)
            countProvokedReset()
        }
    }

    private func showHead(of stream: HTTP2Stream) {
        stream.state.isSeen = true
        stream.headReceived()
    }

    func trailersEnded(_ stream: HTTP2Stream, endsStream: Bool) {
        stream.state.clientEnded = endsStream
        guard stream.state.isListening else { return }
        // RFC 9113 section 8.5: a tunnel has only DATA.
        guard !stream.state.isTunnel else { return fail(stream, .fieldsInTunnel) }
        do throws(MessageFault) {
            try incoming.finishTrailers(endsStream: endsStream)
        } catch {
            return fail(stream, error)
        }
        clientEnded(stream)
    }

    func arrived(_ content: Span<UInt8>, on stream: HTTP2Stream) {
        guard stream.state.isListening else { return consumed(content.count, on: stream) }
        guard let missing = stream.state.missing, content.count > missing else {
            if let missing = stream.state.missing { stream.state.missing = missing - UInt64(content.count) }
            return take(content, on: stream)
        }
        stream.state.missing = 0
        take(content.extracting(first: Int(missing)), on: stream)
        consumed(content.count - Int(missing), on: stream)
        if stream.state.isListening { fail(stream, .contentLengthDisagrees) }
    }

    /// Passes on content. The last byte of a stated length waits for the end of the stream, so a request with more
    /// content than announced is never complete.
    private func take(_ content: Span<UInt8>, on stream: HTTP2Stream) {
        guard !content.isEmpty else { return }
        stream.state.isLastKept = stream.state.missing == 0
        let free = content.count - (stream.state.isLastKept ? 1 : 0)
        let isNext = stream.waiting.isEmpty && !stream.state.isFull
        let taken = isNext && free > 0 ? deliver(content.extracting(first: free), to: stream) : 0
        guard stream.state.isListening else { return consumed(content.count, on: stream) }
        if taken < content.count { stream.waiting.append(content.extracting(taken...)) }
        consumed(taken, on: stream)
        if stream.state.isWanted { offer(stream) }
        touch(stream)
    }

    /// Offers waiting content.
    func offer(_ stream: HTTP2Stream) {
        guard !stream.state.isDelivering else {
            stream.state.isWanted = true
            return
        }
        stream.state.isFull = false
        while stream.state.isListening, !stream.state.isFull || stream.state.isWanted, stream.free > 0 {
            stream.state.isWanted = false
            let taken = deliver(stream.waiting.front.extracting(first: stream.free), to: stream)
            stream.waiting.consume(taken)
            consumed(taken, on: stream)
        }
        stream.state.isWanted = false
        if stream.state.isListening { tellEnd(stream) } else { dropWaiting(stream) }
    }

    private func deliver(_ content: Span<UInt8>, to stream: HTTP2Stream) -> Int {
        stream.state.isDelivering = true
        let taken = stream.receive(content: content)
        stream.state.isDelivering = false
        precondition(taken >= 0 && taken <= content.count, "took more than was there")
        stream.state.isFull = taken < content.count
        return taken
    }

    /// Handles the end of the client's half of the stream.
    func clientEnded(_ stream: HTTP2Stream) {
        stream.state.clientEnded = true
        guard stream.state.isListening else { return }
        guard stream.state.missing ?? 0 == 0 else { return fail(stream, .contentLengthDisagrees) }
        if stream.state.isHeld {
            stream.state.isHeld = false
            showHead(of: stream)
        }
        stream.state.isLastKept = false
        if stream.state.isFull { tellEnd(stream) } else { offer(stream) }
    }

    private func tellEnd(_ stream: HTTP2Stream) {
        guard stream.state.clientEnded, !stream.state.isEndReported, stream.state.isListening, stream.waiting.isEmpty
        else {
            return
        }
        stream.state.isEndReported = true
        stream.contentEnded()
    }

    /// Returns credit for the windows to the client: only for the connection's window if the stream has ended.
    private func consumed(_ count: Int, on stream: HTTP2Stream) {
        guard count > 0, !isClosed else { return }
        if stream.state.isListening {
            unsafe nghttp2_session_consume(library, stream.id, count)
        } else {
            unsafe nghttp2_session_consume_connection(library, count)
        }
    }

    func disregard(_ stream: HTTP2Stream) {
        stream.state.isListening = false
        stream.state.isSeen = true
        dropWaiting(stream)
    }

    /// Handles a malformed request (RFC 9113 section 8.1.1).
    private func fail(_ stream: HTTP2Stream, _ fault: MessageFault) {
        stream.state.isListening = false
        stream.state.isFaulted = true
        stream.state.isSeen = true
        dropWaiting(stream)
        countProvokedReset()
        if self.fault == nil { stream.requestFaulted(fault) }
    }

    /// Counts a stream that the client has made us reset.
    public func countProvokedReset() {
        if let excess = watch.countProvokedReset(now: now) { end(.excess(excess)) }
    }

    /// Ends the connection. Not inlined: otherwise the session would be retained for each field.
    @inline(never) func headTooLong() { end(.excess(.headerList)) }

    /// Counts DATA without a report of nghttp2, which belonged to ended streams.
    func checkData() {
        if let excess = watch.checkData(reported: reportedData, now: now) { end(.excess(excess)) }
    }

    // MARK: - The end of a stream

    /// Handles a stream that nghttp2 has closed, or whose connection is gone.
    func finish(_ stream: HTTP2Stream, _ code: HTTP2ErrorCode) {
        precondition(!stream.state.isDelivering, "a stream does not end while its content is delivered")
        stream.state.isListening = false
        dropWaiting(stream)
        let isAbandoned = !stream.state.responseEnded && !stream.state.isReset
        // Later calls of the object concern no stream.
        stream.state.isReset = true
        if isAbandoned { stream.abandoned(code) }
        stream.ended()
        stream.id = 0
        stream.state = StreamState()
        stream.headBytes.removeAll()
        stream.output.expand(pool)
        stream.trailers.removeAll()
        if incompleteHead === stream {
            incompleteHead = nil
            incoming.drop()
        }
        idle.append(stream.slot)
    }

    /// Drops waiting content, which then no longer counts against the connection's window. While the stream reads some
    /// of it, this is left to `offer`, which owns the content until the stream returns.
    private func dropWaiting(_ stream: HTTP2Stream) {
        guard !stream.state.isDelivering else { return }
        consumed(stream.waiting.count, on: stream)
        stream.waiting.removeAll()
    }
}

// MARK: - Responses

extension HTTP2Session {
    func submitInterim(_ status: UInt16, on stream: HTTP2Stream) {
        guard !isClosed else { return }
        scratch.removeAll()
        scratch.append(decimal: UInt64(status))
        unsafe fieldList.withFields(of: scratch.readable, hasStatus: true) {
            _ = unsafe nghttp2_submit_headers(
                library, UInt8(NGHTTP2_FLAG_NONE.rawValue), stream.id, nil, $0.baseAddress, $0.count, nil)
        }
        scratch.removeAll()
    }

    func submitHead(
        _ status: UInt16, on stream: HTTP2Stream, endsStream: Bool, _ fields: (inout ByteBuffer) -> Void
    ) -> Bool {
        guard !isClosed else { return true }
        defer { scratch.removeAll() }
        scratch.removeAll()
        scratch.append(decimal: UInt64(status))
        fields(&scratch)
        guard !scratch.overflowed else { return false }
        var provider = unsafe nghttp2_data_provider()
        unsafe provider.source.ptr = Unmanaged.passUnretained(stream).toOpaque()
        unsafe provider.read_callback = readContent
        var outcome: Int32 = 0
        unsafe fieldList.withFields(of: scratch.readable, hasStatus: true) { list in
            outcome =
                unsafe endsStream
                ? nghttp2_submit_response(library, stream.id, list.baseAddress, list.count, nil)
                : nghttp2_submit_response(library, stream.id, list.baseAddress, list.count, &provider)
        }
        // Out of memory: the client must not wait for a response that never comes.
        if outcome != 0 { submitReset(.internalError, on: stream) }
        return true
    }

    private func submitTrailers(_ stream: HTTP2Stream) {
        unsafe fieldList.withFields(of: stream.trailers.readable, hasStatus: false) {
            _ = unsafe nghttp2_submit_trailer(library, stream.id, $0.baseAddress, $0.count)
        }
        stream.trailers.removeAll()
    }

    /// Resumes a stream that has content or its end again.
    func resume(_ stream: HTTP2Stream) {
        guard stream.state.isDeferred, !isClosed else { return }
        stream.state.isDeferred = false
        unsafe nghttp2_session_resume_data(library, stream.id)
    }

    func isWindowOpen(for stream: HTTP2Stream) -> Bool {
        guard !isClosed, stream.isOpen else { return false }
        return unsafe nghttp2_session_get_remote_window_size(library) > 0
            && nghttp2_session_get_stream_remote_window_size(library, stream.id) > 0
    }

    func submitReset(_ code: HTTP2ErrorCode, on stream: HTTP2Stream) {
        stream.state.isReset = true
        stream.state.isListening = false
        guard !isClosed else { return }
        unsafe nghttp2_submit_rst_stream(library, UInt8(NGHTTP2_FLAG_NONE.rawValue), stream.id, code.rawValue)
    }

    /// Fills a frame with content for nghttp2.
    ///
    /// - Returns: the number of bytes written to `room`, or NGHTTP2_ERR_DEFERRED.
    private func produce(
        _ stream: HTTP2Stream, _ room: UnsafeMutableBufferPointer<UInt8>, _ flags: inout UInt32
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
            if !stream.trailers.isEmpty {
                flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM.rawValue
                submitTrailers(stream)
            }
            return count
        }
        guard count == 0 else { return count }
        stream.state.isDeferred = true
        return Int(NGHTTP2_ERR_DEFERRED.rawValue)
    }

    // MARK: - Sent frames

    /// Excuses a refused stream. Before a client has read our settings it may begin any number of streams, and common
    /// clients begin 100 (RFC 9113 section 6.5.2). So many refusals show no attack.
    private func excuseRefusal() -> Bool {
        guard excusedRefusals < limits.excusedRefusals else { return false }
        excusedRefusals += 1
        return true
    }

    /// Handles a sent END_STREAM. The rest of a request that is still being sent has no use (RFC 9113 section 8.1).
    func responseEnded(_ stream: HTTP2Stream) {
        stream.state.responseEnded = true
        guard !stream.state.clientEnded, !stream.state.outlastsResponse else { return }
        guard !stream.state.isFaulted else { return submitReset(.protocolError, on: stream) }
        stream.state.isReset = true
        stream.state.isListening = false
        dismissed.append(UnfinishedRequest(slot: stream.slot, id: stream.id))
    }

    /// Resets the streams that `responseEnded` has listed, once their responses are sent. libcurl 7.88 loses a response
    /// that arrives in one TLS record with the reset before all of the request was sent. If the client has ended the
    /// request by then, no reset is necessary.
    private func submitDismissals() {
        for dismissal in dismissed {
            let stream = streams[dismissal.slot]
            guard stream.id == dismissal.id, !stream.state.clientEnded else { continue }
            submitReset(.noError, on: stream)
        }
        dismissed.removeAll(keepingCapacity: true)
    }
}

/// A stream whose response is complete and whose request is not.
private struct UnfinishedRequest {
    var slot: Int
    /// The stream identifier. The object may serve another stream by then.
    var id: Int32
}
