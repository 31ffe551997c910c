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
    final var id: Int32 = 0
    final var state = StreamState()

    /// Content that was not taken yet.
    final var waiting: BufferChain
    /// Content of the response that was not framed yet.
    final var output: ByteBuffer
    /// The lines of the response's trailers.
    final var trailers: ByteBuffer

    /// Whether the request has begun and was not delivered to the subclass yet.
    final var isUnseen: Bool { id != 0 && !state.isSeen && !state.isAnswered && !state.isReset }

    /// Whether the head waits for the end of the stream.
    final var isHeld: Bool { state.isHeld && state.isListening }

    /// The number of bytes of `waiting.front` that may be delivered.
    final var free: Int { min(waiting.frontCount, waiting.count - (state.isLastKept ? 1 : 0)) }

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

    public final var isAnswered: Bool { state.isAnswered }
    /// Whether something may still be sent.
    public final var isOpen: Bool { id != 0 && !state.isReset }
    /// The stream identifier (RFC 9113 section 5.1.1).
    public final var number: Int32 { id }
    /// The bytes of the response's content for which the client has no window yet.
    public final var unframed: Int { output.count }
    /// Whether the response is complete and its end is not framed yet, because the client opens no window.
    public final var isEndUnframed: Bool { state.isEnding && !state.responseEnded }

    /// The bytes of memory that the stream takes from pools.
    public final var footprint: Int {
        headBytes.footprint + waiting.footprint + output.footprint + trailers.footprint
    }

    /// Releases most of the memory of a short rest of a response for which the client has no window.
    public final func shrinkOutput() {
        if state.isEnding { output.shrink() }
    }

    /// Whether END_STREAM is framed.
    public final var isEnded: Bool { state.responseEnded }
    /// Whether content, or the end, could be framed now.
    public final var isWindowOpen: Bool { session?.isWindowOpen(for: self) ?? false }
    /// Whether the client may continue to send after the end of the response: only in tunnels (RFC 8441 section 5). The
    /// rest of an answered request has no use.
    public final var outlastsResponse: Bool {
        get { state.outlastsResponse }
        set { state.outlastsResponse = newValue }
    }

    /// Sends an interim response (RFC 9110 section 15.2) without fields.
    public final func sendInterim(_ status: UInt16) {
        guard isOpen, !state.isAnswered else { return }
        session?.submitInterim(status, on: self)
    }

    /// Sends the response head.
    ///
    /// - Parameters:
    ///   - endsStream: whether neither content nor trailers follow.
    ///   - fields: appends the fields as lines, as for HTTP/1.1; none of connection or framing but Content-Length.
    /// - Returns: false if the head exceeds a buffer; nothing was sent.
    public final func sendHead(_ status: UInt16, endsStream: Bool, fields: (inout ByteBuffer) -> Void) -> Bool {
        precondition(!state.isAnswered, "a request is answered once")
        guard isOpen, let session else {
            // Nobody will read it.
            state.isAnswered = true
            return true
        }
        guard session.submitHead(status, on: self, endsStream: endsStream, fields) else { return false }
        state.isAnswered = true
        state.isEnding = endsStream
        return true
    }

    /// Sends content.
    ///
    /// - Returns: the number of bytes taken. `outputDrained` is called when there is room again.
    public final func sendContent(_ content: Span<UInt8>) -> Int {
        precondition(state.isAnswered && !state.isEnding, "content stands between the head and the end")
        // Nobody will read it.
        guard isOpen else { return content.count }
        let taken = output.appendPrefix(of: content)
        if taken > 0 { session?.resume(self) }
        return taken
    }

    /// Adds trailers as lines, which are sent with the end.
    ///
    /// - Returns: false if they exceed a buffer.
    public final func add(trailers fields: (inout ByteBuffer) -> Void) -> Bool {
        guard isOpen, !state.isEnding else { return true }
        fields(&trailers)
        return !trailers.overflowed
    }

    /// Ends the response.
    public final func sendEnd() {
        guard isOpen, !state.isEnding else { return }
        state.isEnding = true
        session?.resume(self)
    }

    /// Ends the response with trailers as lines.
    public final func sendEnd(trailers fields: (inout ByteBuffer) -> Void) {
        guard isOpen, !state.isEnding else { return }
        fields(&trailers)
        sendEnd()
    }

    /// Ends the stream at once, whatever part of it remains.
    public final func reset(_ code: HTTP2ErrorCode) {
        guard isOpen else { return }
        session?.submitReset(code, on: self)
    }

    /// Stops reports about the request, and drops waiting content. Within `receive(content:)`, the passed content stays
    /// valid until that returns.
    public final func disregardRequest() {
        guard isOpen else { return }
        session?.disregard(self)
    }

    /// Requests content again.
    public final func contentWanted() {
        guard isOpen else { return }
        session?.offer(self)
    }
}

/// The state of a stream.
struct StreamState {
    /// The number of bytes of Content-Length that are missing. Nil without Content-Length.
    var missing: UInt64?
    /// Whether the head waits for the end of the stream: Content-Length is 0, so nothing may follow.
    var isHeld = false
    /// Whether received bytes have a use: the request is well-formed, and the stream was not reset.
    var isListening = false
    /// Whether the head or its fault was reported, or has no recipient.
    var isSeen = false
    var clientEnded = false
    var isEndReported = false
    var isFaulted = false
    /// Whether `receive(content:)` is running.
    var isDelivering = false
    /// Whether content was requested within it.
    var isWanted = false
    /// Whether it did not take all content, and has not asked for more since.
    var isFull = false
    /// Whether the last byte of a stated length waits for the end of the stream.
    var isLastKept = false
    var isAnswered = false
    /// Whether the response is complete.
    var isEnding = false
    /// Whether the data provider has no content and waits to be resumed.
    var isDeferred = false
    var isReset = false
    /// Whether END_STREAM was sent.
    var responseEnded = false
    /// Whether the stream is a tunnel, of which one side may end before the other (RFC 8441 section 5).
    var isTunnel = false
    var outlastsResponse = false
    /// Whether the stream is in the session's list of streams to be notified of room, or of a pause in the content.
    var isDrained = false
    var isTouched = false
}
