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

/// The user of an HTTP/2 server connection: makes its streams, and receives the events that concern all of them.
///
/// The session refers to it and does not keep it alive: the handler owns the session.
open class HTTP2Handler {
    public init() {}

    /// A stream is needed: a new object, which the session keeps and uses for one request after the other.
    open func makeStream(_ pool: BufferPool) -> HTTP2Stream { HTTP2Stream(pool: pool) }
    /// The client begins no more requests (GOAWAY). If it does all the same, they may or may not be served.
    open func clientGoesAway(_ code: HTTP2ErrorCode) {}
}

/// What becomes of streams: from what nghttp2 tells to the methods of `HTTP2Stream`, and back.
extension HTTP2Session {
    // MARK: - Requests

    /// A request begins. - Returns: the object that stands for it.
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

    /// All fields of a request are there.
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
        // Content-Length 0 without the end of the stream: what follows shows whether that is true, and until then
        // nobody is to see a request that may yet be malformed.
        stream.state.isHeld = !endsStream && stream.state.missing == 0
        if stream.state.isHeld {
            hasHeld = true
            stream.headHeld()
        } else {
            showHead(of: stream)
        }
        // The content may come later than the head: a forwarder must not hold back the head until content arrives. Some
        // clients wait for the answer first.
        if endsStream { clientEnded(stream) } else { touch(stream) }
    }

    /// Nothing more of the stream may be there for now: looked at when all that came is read.
    private func touch(_ stream: HTTP2Stream) {
        guard !stream.state.isTouched else { return }
        stream.state.isTouched = true
        touched.append(stream.slot)
    }

    /// Refuses what is held beyond a few requests, now that all that has come was read: most ends come right behind their heads.
    /// Nobody has looked at these, so the client may send them again.
    func boundHeld() {
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
        // RFC 9113 section 8.5: a tunnel has nothing but DATA.
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
        fail(stream, .contentLengthDisagrees)
    }

    /// Hands content on: of a stated length all but the last octet, which waits for the end of the stream. So a request whose
    /// content is longer than it says is never complete for anybody.
    private func take(_ content: Span<UInt8>, on stream: HTTP2Stream) {
        guard !content.isEmpty else { return }
        stream.state.isLastKept = stream.state.missing == 0
        let free = content.count - (stream.state.isLastKept ? 1 : 0)
        let isNext = stream.waiting.isEmpty && !stream.state.isFull
        let taken = isNext && free > 0 ? deliver(content.extracting(first: free), to: stream) : 0
        if taken < content.count { stream.waiting.append(content.extracting(taken...)) }
        consumed(taken, on: stream)
        if stream.state.isWanted { offer(stream) }
        touch(stream)
    }

    /// Offers what has waited.
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
        tellEnd(stream)
    }

    private func deliver(_ content: Span<UInt8>, to stream: HTTP2Stream) -> Int {
        stream.state.isDelivering = true
        let taken = stream.receive(content: content)
        stream.state.isDelivering = false
        precondition(taken >= 0 && taken <= content.count, "took more than was there")
        stream.state.isFull = taken < content.count
        return taken
    }

    /// The client's half of the stream is complete.
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

    /// Gives the client back as much of its windows: of the connection's alone if nothing more is wanted on the stream.
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

    /// The request is malformed (RFC 9113 section 8.1.1).
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

    /// Out of the way of who takes fields: there, the session would be retained for each of them.
    @inline(never) func headTooLong() { end(.excess(.headerList)) }

    /// DATA that is all padding: nghttp2 did not report its header.
    func countPaddingAlone() {
        if let excess = watch.countEmptyFrame(now: now) { end(.excess(excess)) }
    }

    /// DATA that nghttp2 has not reported belonged to streams that are over.
    func checkData() {
        if let excess = watch.checkData(reported: reportedData, now: now) { end(.excess(excess)) }
    }

    // MARK: - The end of a stream

    /// nghttp2 has closed the stream, or the connection is gone.
    func finish(_ stream: HTTP2Stream, _ code: HTTP2ErrorCode) {
        stream.state.isListening = false
        dropWaiting(stream)
        let isAbandoned = !stream.state.responseEnded && !stream.state.isReset
        // What the stream does now concerns no stream any more.
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

    /// Content that nobody will take counts against the connection's window no longer.
    private func dropWaiting(_ stream: HTTP2Stream) {
        consumed(stream.waiting.count, on: stream)
        stream.waiting.removeAll()
    }
}

/// From what a stream sends to nghttp2.
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
        // Out of memory: the client is not to wait for what never comes.
        if outcome != 0 { submitReset(.internalError, on: stream) }
        return true
    }

    private func submitTrailers(_ stream: HTTP2Stream) {
        unsafe fieldList.withFields(of: stream.trailers.readable, hasStatus: false) {
            _ = unsafe nghttp2_submit_trailer(library, stream.id, $0.baseAddress, $0.count)
        }
        stream.trailers.removeAll()
    }

    /// There is content or the end again.
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

    /// nghttp2 asks for content to be framed.
    ///
    /// - Returns: how much was written to `room`, or NGHTTP2_ERR_DEFERRED.
    func produce(
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

    // MARK: - What nghttp2 has sent

    func sent(_ frame: SentFrame, on stream: HTTP2Stream?) {
        switch frame {
        case .data: watch.dataSent()
        // Not our word, so the client's doing; so is a stream that was refused before it began.
        case .reset(let code):
            if let stream {
                if !stream.state.isReset { countProvokedReset() }
            } else if code == .refusedStream, !excuseRefusal() {
                countProvokedReset()
            }
        case .goAway(let code): wentAway(code)
        }
    }

    /// Until a client has read our settings it may begin as many streams as it likes, and common ones begin 100 (RFC 9113 section
    /// 6.5.2): so many refusals say nothing of it.
    private func excuseRefusal() -> Bool {
        guard excusedRefusals < limits.excusedRefusals else { return false }
        excusedRefusals += 1
        return true
    }

    /// END_STREAM went out. If the client is still sending, nobody needs that any more (RFC 9113 section 8.1).
    func responseEnded(_ stream: HTTP2Stream) {
        stream.state.responseEnded = true
        guard !stream.state.clientEnded, !stream.state.outlastsResponse else { return }
        guard !stream.state.isFaulted else { return submitReset(.protocolError, on: stream) }
        stream.state.isReset = true
        stream.state.isListening = false
        dismissed.append(UnfinishedRequest(slot: stream.slot, id: stream.id))
    }

    /// Resets what `responseEnded` has left, once the response is out: libcurl 7.88 loses a response that comes in one record of TLS
    /// with the reset, before all of the request was sent. Who has ended the request by then needs none.
    func submitDismissals() {
        for dismissal in dismissed {
            let stream = streams[dismissal.slot]
            guard stream.id == dismissal.id, !stream.state.clientEnded else { continue }
            submitReset(.noError, on: stream)
        }
        dismissed.removeAll(keepingCapacity: true)
    }
}

/// A stream whose response is complete and whose request is not.
struct UnfinishedRequest {
    var slot: Int
    /// The place may be another stream's by then.
    var id: Int32
}

/// What is to be known of a frame that was sent.
enum SentFrame {
    case data, reset(HTTP2ErrorCode), goAway(HTTP2ErrorCode)
}
