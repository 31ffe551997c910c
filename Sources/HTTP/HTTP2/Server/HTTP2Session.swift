public import Bytes
internal import CNghttp2
public import EventLoop

/// A connection of HTTP/2 in the server role, as a state machine over bytes: `receive` what came, `write` what is to be sent.
///
/// It owns a session of nghttp2, which does frames, HPACK, windows and the states of streams. What a request is, and what is too
/// much, is decided here: nghttp2's own rules for messages are off, since it knows no answer to a malformed request but a
/// reset, and other spellings than ours.
///
/// C and raw memory, each use marked `unsafe`. nghttp2 is handed two pointers: this object, with each callback, all of which
/// happen within a call of this object's methods; and a stream with each of its streams, all of which `streams` keeps.
@safe public final class HTTP2Session {
    unowned let handler: HTTP2Handler
    let limits: HTTP2Limits
    let pool: BufferPool
    var watch: FrameWatch
    var incoming: IncomingHead
    /// Where nghttp2's session lies.
    private let memory = FrameMemory()
    /// nghttp2's session. Freed in `deinit`.
    private(set) var library: OpaquePointer

    /// Every stream object ever needed, at most `concurrentStreams`, and which of them serve none.
    var streams: [HTTP2Stream] = []
    var idle: [Int] = []
    /// Places of streams to be told that there is room, and of those whose content has come for now. Kept for their room.
    var drained: [Int] = []
    var touched: [Int] = []
    /// Streams to be reset once their responses are out.
    var dismissed: [Dismissal] = []
    /// Heads have come that wait for the end of their stream.
    var hasHeld = false

    /// Heads of responses are put together here.
    var scratch: ByteBuffer
    var fieldList = FieldList()
    /// A frame made by nghttp2 that did not fit the caller's buffer: its memory, until it is asked for the next.
    private var rest: UnsafeBufferPointer<UInt8>

    var now = Instant(nanoseconds: 0)
    /// Why the connection ends; the streams hear nothing after it but their end.
    public var fault: HTTP2Fault? { reason }
    /// Not seen by other modules: each look at it would be checked for exclusivity, and it is looked at for every field.
    var reason: HTTP2Fault?
    /// nghttp2 is in a state in which it may only be freed.
    private var isBroken = false
    /// Within `receive`: nghttp2 and the streams are in the middle of something.
    private var isReading = false
    /// GOAWAY that is sent from now on is our own word.
    private(set) var isTerminating = false
    var isClosed = false
    /// Whether the client has acknowledged our settings (RFC 9113 section 6.5.3).
    public internal(set) var isAcknowledged = false
    /// Streams refused for their number that were not counted against the client.
    var excusedRefusals = 0
    /// The stream whose head, or trailers, have begun and are not complete: no other frame can come before they are (RFC 9113
    /// section 4.3).
    public internal(set) var incompleteHead: HTTP2Stream?
    /// Whether a block of fields has begun and is not complete, also one of a stream that is over.
    public var isMidBlock: Bool { watch.isMidBlock }
    /// DATA frames that nghttp2 has told of.
    var toldData: UInt64 = 0
    /// Requests begun.
    public internal(set) var requestCount = 0

    /// - Parameters:
    ///   - heads: limits of the target and the number of fields.
    ///   - pool: its blocks hold a head of `limits.headerList`.
    ///   - handler: owns the session.
    public init(limits: HTTP2Limits, heads: HeadLimits, pool: BufferPool, handler: HTTP2Handler) {
        precondition(
            limits.headerList <= min(pool.blockSize, 65_535), "a head fits a block, and ranges are 16 bits wide")
        precondition(limits.connectionWindow >= 65_535, "a connection's window begins with 65,535 octets")
        self.limits = limits
        self.pool = pool
        self.handler = handler
        watch = FrameWatch(limits: limits, role: .server)
        incoming = IncomingHead(heads: heads, limits: limits, pool: pool)
        scratch = ByteBuffer(pool: pool)
        unsafe rest = UnsafeBufferPointer(start: nil, count: 0)
        unsafe library = LibrarySetup.makeSession(limits, .server, memory)
        unsafe LibrarySetup.attach(self, to: library)
        unsafe LibrarySetup.submitSettings(limits, .server, library)
    }

    deinit {
        unsafe nghttp2_session_del(library)
    }

    // MARK: - Bytes

    /// Takes bytes of the client. Streams are called within.
    ///
    /// - Throws: why the connection ends. What `write` still gives is to be sent before it is closed.
    public func receive(_ bytes: Span<UInt8>, now: Instant) throws(HTTP2Fault) {
        if let fault { throw fault }
        self.now = now
        let stop = watch.look(at: bytes, now: now)
        read(bytes.extracting(first: stop?.admitted ?? bytes.count))
        if let stop { end(stop.fault) }
        settleData()
        boundHeld()
        // What the client makes us say waits until it reads.
        if !isBroken, unsafe nghttp2_session_get_outbound_queue_size(library) > limits.outboundFrames {
            end(.excess(.outboundFrames))
        }
        if let fault { throw fault }
        reportPauses()
    }

    private func read(_ bytes: Span<UInt8>) {
        guard !bytes.isEmpty else { return }
        isReading = true
        let outcome = unsafe bytes.withUnsafeBufferPointer {
            unsafe nghttp2_session_mem_recv(library, $0.baseAddress, $0.count)
        }
        isReading = false
        guard outcome < 0 else { return }
        // All that it returns is fatal: the session is not to be used any more.
        isBroken = true
        guard fault == nil else { return }
        switch Int32(outcome) {
        case NGHTTP2_ERR_BAD_CLIENT_MAGIC.rawValue: reason = .prefaceMissing
        case NGHTTP2_ERR_FLOODED.rawValue: reason = .excess(.outboundFrames)
        default: reason = .failed(Int32(outcome))
        }
    }

    /// Appends what is to be sent, as far as there is room; what does not fit comes the next time.
    ///
    /// - Throws: why the connection ends, if that is found out only now. What was appended is to be sent all the same.
    public func write(into output: inout ByteBuffer) throws(HTTP2Fault) {
        precondition(!isReading, "a stream's method writes to no socket")
        let before = fault
        // Nothing is left of what was framed before: the socket has it.
        if !dismissed.isEmpty, output.isEmpty, unsafe rest.isEmpty { submitDismissals() }
        while output.room > 0 {
            if unsafe rest.isEmpty {
                guard makeFrame() else { break }
            }
            let taken = unsafe output.appendPrefix(of: rest.span)
            unsafe rest = UnsafeBufferPointer(rebasing: rest[taken...])
        }
        if before == nil, let fault { throw fault }
    }

    /// - Returns: false if there is nothing to be sent.
    private func makeFrame() -> Bool {
        guard !isBroken else { return false }
        var start: UnsafePointer<UInt8>?
        let length = unsafe nghttp2_session_mem_send(library, &start)
        if length < 0 {
            isBroken = true
            reason = reason ?? .failed(Int32(length))
        }
        guard length > 0 else { return false }
        unsafe rest = UnsafeBufferPointer(start: start, count: length)
        return true
    }

    /// Tells streams that there is room for more of their responses. To be called when what `write` gave has been sent.
    ///
    /// - Returns: whether any was told: there may be more to write.
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
    public var hasOutput: Bool {
        unsafe !rest.isEmpty || !dismissed.isEmpty || (!isBroken && nghttp2_session_want_write(library) != 0)
    }

    /// Whether nothing will be received or sent any more: the connection is to be closed.
    public var isFinished: Bool {
        guard unsafe rest.isEmpty else { return false }
        return unsafe isBroken
            || (nghttp2_session_want_read(library) == 0 && nghttp2_session_want_write(library) == 0)
    }

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

    /// Ends the connection on the server's account, after GOAWAY with `code`; streams that are open are not completed.
    public func terminate(_ code: HTTP2ErrorCode) {
        guard !isBroken else { return }
        isTerminating = true
        unsafe nghttp2_session_terminate_session(library, code.rawValue)
    }

    /// The connection is gone: every open stream is abandoned and ends. Nothing is received or sent after it. Not to be called
    /// by a stream's method.
    public func close() {
        precondition(!isReading, "whoever is in the middle of a stream is not ended")
        guard !isClosed else { return }
        isClosed = true
        for stream in streams where stream.id != 0 { finish(stream, .cancel) }
    }

    /// The client broke a rule of the connection: GOAWAY.
    func end(_ reason: HTTP2Fault) {
        guard fault == nil else { return }
        self.reason = reason
        switch reason {
        case .violation(let code): terminate(code)
        default: terminate(.enhanceYourCalm)
        }
    }
}
