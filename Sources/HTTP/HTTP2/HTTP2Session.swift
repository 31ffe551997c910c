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
    private var dismissed: [DismissedStream] = []
    /// The indices of streams whose heads, in the bytes that are being received, wait for the end of the stream.
    var held: [Int] = []

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
        for stream in watch.takeLateStreams() { submitReset(.streamClosed, on: Int32(stream)) }
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
        appendFrames(to: &output)
        if before == nil, let fault { throw fault }
    }

    /// Notifies streams of room for more of their responses. Call it after the output of `write` has been sent.
    ///
    /// - Returns: whether any stream was notified, so that there may be more to write.
    public func reportRoom() -> Bool {
        guard !drained.isEmpty else { return false }
        while let slot = drained.popLast() { streams[slot].reportRoom() }
        return true
    }

    private func reportPauses() {
        while let slot = touched.popLast() { streams[slot].reportPause() }
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
            stream.headEnded(endsStream: endsStream, in: self)
        } else {
            stream.trailersEnded(endsStream: endsStream, in: self)
        }
    }

    override func contentCame(_ content: Span<UInt8>, on id: Int32) {
        stream(id)?.contentCame(content, in: self)
    }

    override func peerEnded(_ id: Int32) {
        stream(id)?.clientEnded(in: self)
    }

    override func peerGoesAway(_ code: HTTP2ErrorCode, last: Int32) { handler.clientGoesAway(code) }

    override func streamClosed(_ id: Int32, _ code: HTTP2ErrorCode) {
        guard let stream = stream(id) else { return }
        set(nil, of: id)
        finish(stream, code)
    }

    override func endSent(on id: Int32) {
        stream(id)?.responseEnded(in: self)
    }

    override func resetSent(_ code: HTTP2ErrorCode, on id: Int32) {
        // The cause is not our decision, so it is the client. So is a stream that was refused before it began.
        if let stream = stream(id) {
            if stream.isOpen { countProvokedReset() }
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
        stream.begin(id)
        incoming.begin(trailers: false)
        requestCount += 1
        return stream
    }

    /// Refuses held requests beyond a few, after everything received has been read: most ends come right behind their
    /// heads. These requests were not processed, so the client may send them again.
    private func boundHeld() {
        guard !held.isEmpty else { return }
        held.removeAll(keepingCapacity: true)
        var count = 0
        for stream in streams where stream.isHeld {
            count += 1
            guard count > limits.heldRequests else { continue }
            stream.reset(.refusedStream)
            countProvokedReset()
        }
    }

    /// Returns credit for content to the client: for the windows of the connection and the stream.
    func returnCredit(_ count: Int, of stream: Int32) {
        guard count > 0, !isClosed else { return }
        unsafe nghttp2_session_consume(library, stream, count)
    }

    /// Returns credit for content that has no use: only for the connection's window.
    func returnCredit(_ count: Int) {
        guard count > 0, !isClosed else { return }
        unsafe nghttp2_session_consume_connection(library, count)
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
        stream.finish(code, in: self)
        if incompleteHead === stream {
            incompleteHead = nil
            incoming.drop()
        }
        idle.append(stream.slot)
    }
}

// MARK: - Responses

extension HTTP2Session {
    func submitInterim(_ status: UInt16, on id: Int32) {
        guard !isClosed else { return }
        scratch.append(decimal: UInt64(status))
        unsafe fieldList.withFields(of: scratch.readable, hasStatus: true) {
            _ = unsafe nghttp2_submit_headers(
                library, UInt8(NGHTTP2_FLAG_NONE.rawValue), id, nil, $0.baseAddress, $0.count, nil)
        }
        scratch.removeAll()
    }

    func submitHead(
        _ status: UInt16, on stream: HTTP2Stream, endsStream: Bool, _ fields: (inout ByteBuffer) -> Void
    ) -> HeadSubmission {
        guard !isClosed else { return .submitted }
        defer { scratch.removeAll() }
        scratch.append(decimal: UInt64(status))
        fields(&scratch)
        guard !scratch.overflowed else { return .tooLarge }
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
        return outcome == 0 ? .submitted : .failed
    }

    private func submitTrailers(_ stream: HTTP2Stream) {
        unsafe fieldList.withFields(of: stream.trailers.readable, hasStatus: false) {
            _ = unsafe nghttp2_submit_trailer(library, stream.id, $0.baseAddress, $0.count)
        }
        stream.trailers.removeAll()
    }

    /// Resumes a stream that has content or its end again.
    func resume(_ id: Int32) {
        guard !isClosed else { return }
        unsafe nghttp2_session_resume_data(library, id)
    }

    func isWindowOpen(for id: Int32) -> Bool {
        guard !isClosed else { return false }
        return unsafe nghttp2_session_get_remote_window_size(library) > 0
            && nghttp2_session_get_stream_remote_window_size(library, id) > 0
    }

    func submitReset(_ code: HTTP2ErrorCode, on id: Int32) {
        guard !isClosed else { return }
        unsafe nghttp2_submit_rst_stream(library, UInt8(NGHTTP2_FLAG_NONE.rawValue), id, code.rawValue)
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
        }
        switch stream.framed(count, in: self) {
        case .none: return Int(NGHTTP2_ERR_DEFERRED.rawValue)
        case .some: break
        case .last:
            flags |= NGHTTP2_DATA_FLAG_EOF.rawValue
            if !stream.trailers.isEmpty {
                flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM.rawValue
                submitTrailers(stream)
            }
        }
        return count
    }

    // MARK: - Sent frames

    /// Excuses a refused stream. Before a client has read our settings it may begin any number of streams, and common
    /// clients begin 100 (RFC 9113 section 6.5.2). So many refusals show no attack.
    private func excuseRefusal() -> Bool {
        guard excusedRefusals < limits.excusedRefusals else { return false }
        excusedRefusals += 1
        return true
    }

    /// Lists a stream that is to be reset once its response is sent.
    ///
    /// - Parameter isMalformed: whether its request is malformed. Otherwise the client has not ended it.
    func dismiss(_ stream: HTTP2Stream, isMalformed: Bool) {
        dismissed.append(DismissedStream(slot: stream.slot, id: stream.id, isMalformed: isMalformed))
    }

    /// Resets the streams that `dismiss` has listed, once their responses are sent. libcurl 7.88 loses a response
    /// that arrives in one TLS record with the reset before all of the request was sent. If the client has ended a
    /// well-formed request by then, no reset is necessary.
    private func submitDismissals() {
        for dismissal in dismissed {
            guard !dismissal.isMalformed else {
                // Also if END_STREAM of both sides has closed the stream (RFC 9113 section 8.1.1).
                submitReset(.protocolError, on: dismissal.id)
                continue
            }
            let stream = streams[dismissal.slot]
            guard stream.id == dismissal.id, !stream.hasClientEnded else { continue }
            submitReset(.noError, on: stream.id)
        }
        dismissed.removeAll(keepingCapacity: true)
    }
}

/// The result of `HTTP2Session.submitHead`.
enum HeadSubmission {
    case submitted, tooLarge
    /// Out of memory.
    case failed
}

/// A stream whose response is complete, and whose request is incomplete or malformed.
private struct DismissedStream {
    var slot: Int
    /// The stream identifier. The object may serve another stream by then.
    var id: Int32
    var isMalformed: Bool
}
