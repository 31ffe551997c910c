public import Bytes
internal import CNghttp2
public import EventLoop

/// A connection of HTTP/2 in the client role, as a state machine over bytes: `open` begins a request, `write` gives what is to be
/// sent, `receive` takes what came, and `finishEvent` ends each event.
///
/// The counterpart of `HTTP2Session`, and built like it: nghttp2 does frames, HPACK, windows and the states of streams; what a response
/// is, and what is too much, is decided here. A server is trusted no further than a client: it is one that may have
/// been taken over, and answers for many.
@safe public final class HTTP2ClientSession: HTTP2Framing {
    unowned let handler: HTTP2ClientHandler
    var block: ResponseBlock

    /// Every stream object ever needed, and which of them serve none.
    var streams: [HTTP2ClientStream] = []
    var idle: [Int] = []
    /// Places of streams to be notified of room, and of those to be settled. Kept for their room.
    var drained: [Int] = []
    var touched: [Int] = []

    /// Heads of requests are put together here.
    var scratch: ByteBuffer
    var fieldList = FieldList()
    /// Octets of frames that were made, those not appended yet included.
    private var framed: UInt64 = 0
    /// The request whose fields end with what nghttp2 is making.
    var headFramed: HTTP2ClientStream?

    /// No more requests: by the server's word, or by our own.
    private(set) var isDraining = false
    /// GOAWAY has come.
    public private(set) var isServerGoing = false
    /// Whether the server has acknowledged our settings (RFC 9113 section 6.5.3).
    public internal(set) var isAcknowledged = false
    /// Whether the server has said what its limits are.
    public internal(set) var isGreeted = false
    /// Whether the server is in the middle of a block of fields: until it is complete, no other frame can come (RFC 9113 section 4.3).
    public internal(set) var isMidBlock = false
    /// Streams that are not over: those nghttp2 knows, and those whose response is whole and waits to be taken.
    public internal(set) var openStreams = 0
    var streamsOnWire = 0
    /// Streams that we may reset; who has reset as many begins no more requests. What would be reset beyond that is only not listened to
    /// any more: it ends when the server ends it, or with the connection.
    public var resetsLeft = Int.max
    /// Whether any stream is open that would have been reset.
    public private(set) var isWithholdingResets = false
    /// Requests begun.
    public internal(set) var requestCount = 0

    /// - Parameters:
    ///   - heads: limits of the number of fields.
    ///   - pool: its blocks hold a head of `limits.headerList`.
    ///   - handler: owns the session.
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

    /// Takes bytes of the server. Streams are called within.
    ///
    /// - Throws: why the connection ends. What `write` still gives is to be sent before it is closed.
    public func receive(_ bytes: Span<UInt8>, now: Instant) throws(HTTP2Fault) {
        if let fault { throw fault }
        self.now = now
        read(bytes)
        // Beside requests, and the resets of these.
        boundOutput(limits.outboundFrames + 2 * openStreams)
        if let fault { throw fault }
    }

    /// Appends what is to be sent, as far as there is room; what does not fit comes the next time.
    ///
    /// - Throws: why the connection ends, if that is found out only now. What was appended is to be sent all the same.
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

    /// Tells streams that there is room for more of their requests. To be called when what `write` gave has been sent.
    ///
    /// - Returns: whether any was notified: there may be more to write.
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

    /// Ends an event, in which any of the other methods were called: each stream that was called learns that the event
    /// is over.
    public func finishEvent() {
        precondition(!isReading, "the event is still under way")
        while let slot = touched.popLast() {
            let stream = streams[slot]
            stream.state.isTouched = false
            stream.finishEvent()
            if stream.id == 0, !stream.state.isTouched { idle.append(slot) }
        }
    }

    /// The stream is to be settled, and serves no other request before.
    func touch(_ stream: HTTP2ClientStream) {
        guard !stream.state.isTouched else { return }
        stream.state.isTouched = true
        touched.append(stream.slot)
    }

    // MARK: - The connection's life

    /// How many more requests may be begun now. Until the server has said how many it takes, as if that were 100 (RFC 9113
    /// section 6.5.2).
    public var capacity: Int {
        guard mayOpen else { return 0 }
        let most = unsafe nghttp2_session_get_remote_settings(library, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS)
        return max(0, min(limits.concurrentStreams - openStreams, Int(most) - streamsOnWire))
    }

    /// Whether requests may be begun at all, now or when there is room: a connection of which that is not so serves those it has.
    public var mayOpen: Bool {
        guard fault == nil, !isBroken, !isClosed, !isDraining, !isTerminating, resetsLeft > 0 else { return false }
        return unsafe nghttp2_session_check_request_allowed(library) != 0
    }

    /// - Returns: whether one more stream may be reset.
    func takeReset() -> Bool {
        guard resetsLeft > 0 else {
            isWithholdingResets = true
            return false
        }
        resetsLeft -= 1
        return true
    }

    /// Whether the server takes no content on any stream, since what it has got of others it has not given back (RFC 9113 section 6.9).
    public var isWindowShut: Bool {
        guard !isBroken, !isClosed else { return false }
        return unsafe nghttp2_session_get_remote_window_size(library) <= 0
    }

    /// Whether it is others' content alone that keeps the stream's from being sent.
    func isStarved(_ stream: HTTP2ClientStream) -> Bool {
        guard isWindowShut, !stream.state.requestEnded else { return false }
        return unsafe nghttp2_session_get_stream_remote_window_size(library, stream.id) > 0
    }

    /// Whether there is something to write, whatever the room.
    public var hasOutput: Bool { hasFrames }

    /// Whether nothing will be received or sent any more: the connection is to be closed.
    public var isFinished: Bool { isSilent }

    /// Begins no more requests. When those under way are over, the connection is finished.
    public func drain() {
        guard fault == nil, !isBroken, !isClosed, !isDraining else { return }
        isDraining = true
        unsafe nghttp2_submit_goaway(
            library, UInt8(NGHTTP2_FLAG_NONE.rawValue), 0, HTTP2ErrorCode.noError.rawValue, nil, 0)
    }

    /// Asks the server for a sign of life, which `pingAnswered` tells of (RFC 9113 section 6.7).
    public func ping() {
        guard fault == nil, !isBroken, !isClosed, !isTerminating else { return }
        watch.pinged()
        unsafe nghttp2_submit_ping(library, UInt8(NGHTTP2_FLAG_NONE.rawValue), nil)
    }

    /// The connection is gone: what is open fails, but for responses that have come whole and wait to be taken. Nothing is received
    /// or sent after it. Not to be called by a stream's method.
    ///
    /// - Parameter unsent: how many octets of what `write` gave, the last ones, the server has certainly not got.
    public func close(unsent: Int = 0) {
        precondition(!isReading, "a session is not closed within a stream's callback")
        guard !isClosed else { return }
        isClosed = true
        let sent = framed - min(framed, UInt64(restCount + unsent))
        dropRest()
        // Not by an iterator: a stream that is notified of a failure may look at the session.
        for slot in streams.indices where streams[slot].state.isOnWire {
            let stream = streams[slot]
            let isUnsent = stream.state.headEnd == 0 || stream.state.headEnd > sent
            leaveWire(stream, isUnsent ? .unprocessed(.unsent) : fault.map { .connectionFaulted($0) } ?? .disconnected)
        }
    }

    /// - Parameter last: the highest stream that the server has processed or will.
    func serverGoesAway(_ code: HTTP2ErrorCode, last: Int32) {
        isServerGoing = true
        for slot in streams.indices where streams[slot].state.isOnWire && !streams[slot].state.isReset {
            let stream = streams[slot]
            if unsafe nghttp2_session_get_stream_user_data(library, stream.id) == nil {
                // nghttp2 has made nothing of it yet, and would keep it until its turn to fail.
                fail(stream, .unprocessed(.goingAway), .cancel)
            } else if stream.id > last, !stream.state.isComplete {
                // nghttp2 closes it when this is over. A server that has begun to answer all the same contradicts itself.
                deafen(stream)
                touch(stream)
                stream.failed(stream.state.isAnswered ? .reset(.refusedStream) : .unprocessed(.goingAway))
            }
        }
        handler.serverGoesAway(code)
    }
}
