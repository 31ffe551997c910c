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
    private var headFramed: HTTP2ClientStream?

    private var server = Server.silent
    private var admission = Admission.open
    private var resets = Resets.unlimited

    /// silent -> serving -> goingAway
    private enum Server {
        /// Its settings have not arrived.
        case silent
        case serving
        /// GOAWAY has arrived.
        case goingAway
    }

    private enum Admission {
        case open
        /// We begin no more requests.
        case draining
    }

    /// The streams that we may still reset. Without any, no more requests begin. A stream that should be reset then is
    /// ignored until the server ends it, or the connection ends.
    private enum Resets {
        case unlimited
        case left(Int)
        /// - isWithholding: whether a stream is open that should have been reset.
        case exhausted(isWithholding: Bool)
    }

    /// Whether the server has sent its settings.
    public var isGreeted: Bool { server != .silent }
    /// Whether GOAWAY has arrived.
    public var isServerGoing: Bool { server == .goingAway }
    /// Whether the server is within a block of fields: no other frame is allowed until it is complete (RFC 9113 section
    /// 4.3).
    public var isMidBlock: Bool { block.isOpen }
    /// The number of open streams: those nghttp2 knows, and those whose complete response waits to be taken.
    public internal(set) var openStreams = 0
    var streamsOnWire = 0
    /// Whether a stream is open that should have been reset.
    public var isWithholdingResets: Bool { if case .exhausted(isWithholding: true) = resets { true } else { false } }
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
        for stream in streams { stream.detach() }
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
                headFramed?.headFramed(end: framed)
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
        while let slot = drained.popLast() { streams[slot].reportRoom(in: self) }
        return true
    }

    /// Ends an event in which any of the other methods were called. Each stream that was called is notified.
    public func finishEvent() {
        precondition(!isReading, "the event is still under way")
        while let slot = touched.popLast() {
            if streams[slot].settle() { idle.append(slot) }
        }
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
        guard fault == nil, isUsable, admission == .open, !isTerminating else { return false }
        if case .exhausted = resets { return false }
        return unsafe nghttp2_session_check_request_allowed(library) != 0
    }

    /// Counts a reset.
    ///
    /// - Returns: whether one more stream may be reset.
    private func takeReset() -> Bool {
        switch resets {
        case .unlimited: break
        case .left(let count): resets = count > 1 ? .left(count - 1) : .exhausted(isWithholding: false)
        case .exhausted:
            resets = .exhausted(isWithholding: true)
            return false
        }
        return true
    }

    /// Limits the number of streams that we may reset.
    ///
    /// - Parameter count: at least 1.
    public func limitResets(to count: Int) { resets = .left(count) }

    /// Whether the server accepts no content on any stream, because it has not returned credit for earlier content (RFC
    /// 9113 section 6.9).
    public var isWindowShut: Bool {
        guard isUsable else { return false }
        return unsafe nghttp2_session_get_remote_window_size(library) <= 0
    }

    /// Returns whether only the content of other streams keeps the stream's content from being sent.
    func isStarved(_ id: Int32) -> Bool {
        unsafe isWindowShut && nghttp2_session_get_stream_remote_window_size(library, id) > 0
    }

    /// Whether there is output, whatever the room.
    public var hasOutput: Bool { hasFrames }

    /// Whether nothing will be received or sent any more, so that the connection must be closed.
    public var isFinished: Bool { isSilent }

    /// Begins no more requests. The connection is finished after those in flight.
    public func drain() {
        guard fault == nil, isUsable, admission == .open else { return }
        admission = .draining
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
        let failure = fault.map { HTTP2StreamFailure.connectionFaulted($0) } ?? .disconnected
        // Without an iterator: a stream that is notified of a failure may access the session.
        for slot in streams.indices { streams[slot].connectionEnded(sent: sent, failure, in: self) }
    }

    // MARK: - Events of nghttp2

    private func stream(_ id: Int32) -> HTTP2ClientStream? { object(of: id) }

    override func blockBegan(_ id: Int32, opensStream: Bool) {
        guard let stream = stream(id) else { return }
        block.begin()
        stream.blockBegan()
    }

    override func fieldCame(_ name: Span<UInt8>, _ value: Span<UInt8>, on id: Int32) {
        guard let stream = stream(id) else { return }
        stream.fieldCame(name, value, in: self)
        // A few bytes may decode to a great many.
        if block.size > 4 * limits.headerList { end(.excess(.headerList)) }
    }

    override func blockEnded(_ id: Int32, opensStream: Bool, endsStream: Bool) {
        stream(id)?.blockEnded(endsStream: endsStream, in: self)
    }

    override func contentCame(_ content: Span<UInt8>, on id: Int32) { stream(id)?.contentCame(content, in: self) }

    override func peerEnded(_ id: Int32) { stream(id)?.serverEnded(in: self) }

    override func settingsCame() {
        if server == .silent { server = .serving }
        handler.capacityChanged()
    }

    override func pingAnswered() { handler.pingAnswered() }

    override func peerGoesAway(_ code: HTTP2ErrorCode, last: Int32) {
        server = .goingAway
        for slot in streams.indices where streams[slot].isOnWire {
            let stream = streams[slot]
            stream.serverGoesAway(isFramed: self.stream(stream.number) != nil, last: last, in: self)
        }
        handler.serverGoesAway(code)
    }

    override func streamClosed(_ id: Int32, _ code: HTTP2ErrorCode) {
        guard let stream = stream(id) else { return }
        set(nil, of: id)
        stream.wireClosed(code, in: self)
    }

    override func headSent(on id: Int32) { headFramed = stream(id) }

    override func endSent(on id: Int32) { stream(id)?.requestEnded() }

    override func produce(
        on id: Int32, _ room: UnsafeMutableBufferPointer<UInt8>, _ flags: inout UInt32
    ) -> Int {
        guard let stream = stream(id) else { return Int(NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE.rawValue) }
        return unsafe produce(stream, room, &flags)
    }
}

/// The user of an HTTP/2 client connection: it creates the streams, and receives the events that concern all of them.
///
/// The handler owns the session, which refers to it unretained.
open class HTTP2ClientHandler {
    public init() {}

    /// Creates a stream. The session keeps it and uses it for one request after the other.
    open func makeStream(_ pool: BufferPool) -> HTTP2ClientStream { HTTP2ClientStream(pool: pool) }
    /// Called when the server accepts no more requests on this connection (GOAWAY), so `open` fails from now on. When
    /// the call returns, unprocessed requests have failed as `unprocessed`; the others continue.
    open func serverGoesAway(_ code: HTTP2ErrorCode) {}
    /// Called when the room for requests may have changed, by the server's settings or the end of a stream.
    open func capacityChanged() {}
    /// Called when the server has answered `ping`.
    open func pingAnswered() {}
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
        stream.begin(id, method, endsStream: endsStream)
        openStreams += 1
        streamsOnWire += 1
        requestCount += 1
        watch.requestBegan()
        return stream
    }

    /// Returns a stream object without a request.
    private func takeStream() -> HTTP2ClientStream {
        if let slot = idle.popLast() { return streams[slot] }
        let stream = handler.makeStream(pool)
        stream.slot = streams.count
        stream.session = self
        streams.append(stream)
        return stream
    }

    /// Resumes a stream that has content or its end again.
    func resume(_ id: Int32) {
        guard !isClosed else { return }
        unsafe nghttp2_session_resume_data(library, id)
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
        }
        switch stream.framed(count, in: self) {
        case .none: return Int(NGHTTP2_ERR_DEFERRED.rawValue)
        case .some: break
        case .last: flags |= NGHTTP2_DATA_FLAG_EOF.rawValue
        }
        return count
    }

    // MARK: - For the streams

    func submitReset(_ code: HTTP2ErrorCode, on id: Int32) {
        guard isUsable, takeReset() else { return }
        unsafe nghttp2_submit_rst_stream(library, UInt8(NGHTTP2_FLAG_NONE.rawValue), id, code.rawValue)
    }

    /// Returns credit for content to the server: for the windows of the connection and the stream.
    func returnCredit(_ count: Int, of stream: Int32) {
        guard count > 0, isUsable else { return }
        unsafe nghttp2_session_consume(library, stream, count)
    }

    /// Returns credit for content that has no use: only for the connection's window.
    func returnCredit(_ count: Int) {
        guard count > 0, isUsable else { return }
        unsafe nghttp2_session_consume_connection(library, count)
    }

    /// Called when a stream has ended, so that there may be room for another.
    func streamFinished() {
        if !isClosed { handler.capacityChanged() }
    }
}
