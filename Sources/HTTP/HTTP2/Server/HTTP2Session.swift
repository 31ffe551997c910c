public import Bytes
internal import CNghttp2
public import EventLoop

/// A connection of HTTP/2 in the server role, as a state machine over bytes: `receive` what came, `write` what is to be sent.
///
/// It owns a session of nghttp2, which does frames, HPACK, windows and the states of streams. What a request is, and what is too
/// much, is decided here: nghttp2's own rules for messages are off, since it knows no answer to a malformed request but a
/// reset, and other spellings than ours.
@safe public final class HTTP2Session: HTTP2Framing {
    unowned let handler: HTTP2Handler
    var incoming: IncomingHead

    /// Every stream object ever needed, at most `concurrentStreams`, and which of them serve none.
    var streams: [HTTP2Stream] = []
    var idle: [Int] = []
    /// Places of streams to be notified of room, and of those whose content has come for now. Kept for their room.
    var drained: [Int] = []
    var touched: [Int] = []
    /// Streams to be reset once their responses are out.
    var dismissed: [UnfinishedRequest] = []
    /// Heads have come that wait for the end of their stream.
    var hasHeld = false

    /// Heads of responses are put together here.
    var scratch: ByteBuffer
    var fieldList = FieldList()

    /// Whether the client has acknowledged our settings (RFC 9113 section 6.5.3).
    public internal(set) var isAcknowledged = false
    /// Streams refused for their number that were not counted against the client.
    var excusedRefusals = 0
    /// The stream whose head, or trailers, have begun and are not complete: no other frame can come before they are (RFC 9113
    /// section 4.3).
    public internal(set) var incompleteHead: HTTP2Stream?
    /// Whether a block of fields has begun and is not complete, also one of a stream that is over.
    public var isMidBlock: Bool { watch.isMidBlock }
    /// DATA frames that nghttp2 has reported.
    var reportedData: UInt64 = 0
    /// Requests begun.
    public internal(set) var requestCount = 0

    /// - Parameters:
    ///   - heads: limits of the target and the number of fields.
    ///   - pool: its blocks hold a head of `limits.headerList`.
    ///   - handler: owns the session.
    public init(limits: HTTP2Limits, heads: HeadLimits, pool: BufferPool, handler: HTTP2Handler) {
        self.handler = handler
        incoming = IncomingHead(heads: heads, limits: limits, pool: pool)
        scratch = ByteBuffer(pool: pool)
        super.init(limits, .server, pool: pool)
    }

    // MARK: - Bytes

    /// Takes bytes of the client. Streams are called within.
    ///
    /// - Throws: why the connection ends. What `write` still gives is to be sent before it is closed.
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

    /// Appends what is to be sent, as far as there is room; what does not fit comes the next time.
    ///
    /// - Throws: why the connection ends, if that is found out only now. What was appended is to be sent all the same.
    public func write(into output: inout ByteBuffer) throws(HTTP2Fault) {
        precondition(!isReading, "a stream's method writes to no socket")
        let before = fault
        // Nothing is left of what was framed before: the socket has it.
        if !dismissed.isEmpty, output.isEmpty, restCount == 0 { submitDismissals() }
        while output.room > 0 {
            if restCount == 0, makeFrame() == 0 { break }
            appendRest(to: &output)
        }
        if before == nil, let fault { throw fault }
    }

    /// Tells streams that there is room for more of their responses. To be called when what `write` gave has been sent.
    ///
    /// - Returns: whether any was notified: there may be more to write.
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

    /// Whether there is something to write, whatever the room.
    public var hasOutput: Bool { !dismissed.isEmpty || hasFrames }

    /// Whether nothing will be received or sent any more: the connection is to be closed.
    public var isFinished: Bool { isSilent }

    public var openStreams: Int { streams.count - idle.count }

    /// Whether the client can send no content on any stream, since what it has sent was not consumed.
    public var isWindowShut: Bool { unsafe nghttp2_session_get_local_window_size(library) <= 0 }

    /// Asks the client to begin no more requests (RFC 9113 section 6.8); those under way towards us are still served.
    public func announceDrain() {
        guard fault == nil, !isBroken else { return }
        unsafe nghttp2_submit_shutdown_notice(library)
    }

    /// Serves no requests but those begun. To be called a round trip after `announceDrain`.
    ///
    /// What has begun to come and was shown to nobody is refused, so that its client may send it again: GOAWAY covers it.
    public func drain() {
        guard fault == nil, !isBroken else { return }
        for stream in streams where stream.isUnseen { stream.reset(.refusedStream) }
        unsafe nghttp2_submit_goaway(
            library, UInt8(NGHTTP2_FLAG_NONE.rawValue), nghttp2_session_get_last_proc_stream_id(library),
            HTTP2ErrorCode.noError.rawValue, nil, 0)
    }

    /// The connection is gone: every open stream is abandoned and ends. Nothing is received or sent after it. Not to be called
    /// by a stream's method.
    public func close() {
        precondition(!isReading, "a session is not closed within a stream's callback")
        guard !isClosed else { return }
        isClosed = true
        for stream in streams where stream.id != 0 { finish(stream, .cancel) }
    }
}
