public import Bytes

/// One request and its response on an HTTP/2 connection, for the server side. An object serves one stream after the
/// other.
///
/// The session calls the `open` methods while it receives; the subclass answers with `sendHead`, `sendContent` and `sendEnd`,
/// which write to no socket: `HTTP2Session.write` does. Content that is not taken stays here and keeps the client's window
/// closed, so what waits is at most the windows.
open class HTTP2Stream {
    /// The request head: ranges into `headBytes`. The subclass may swap both for its own.
    public final var head = RequestHead()
    public final var headBytes: ByteBuffer

    /// Whose stream it is, while it is one: the session owns its streams.
    final unowned var session: HTTP2Session?
    /// Its place among the session's streams.
    final var slot = 0
    /// RFC 9113 section 5.1.1; 0 while it is none.
    final var id: Int32 = 0
    final var state = StreamState()

    /// Content that was not taken yet.
    final var waiting: BufferChain
    /// Content of the response that was not framed yet.
    final var output: ByteBuffer
    /// Lines of the response's trailers.
    final var trailers: ByteBuffer

    /// The request has begun, and the subclass does not know of it yet.
    final var isUnseen: Bool { id != 0 && !state.isSeen && !state.isAnswered && !state.isReset }

    /// The head waits for the end of the stream.
    final var isHeld: Bool { state.isHeld && state.isListening }

    /// How much of `waiting.front` may be handed on.
    final var free: Int { min(waiting.frontCount, waiting.count - (state.isLastKept ? 1 : 0)) }

    public init(pool: BufferPool) {
        headBytes = ByteBuffer(pool: pool)
        waiting = BufferChain(pool: pool)
        output = ByteBuffer(pool: pool)
        trailers = ByteBuffer(pool: pool)
    }

    // MARK: - The request, for subclasses to override

    /// The head is complete and well-formed. Content follows if `head.framing` says so, and where `head.opensWebSocket` what the
    /// tunnel is to carry: it may come before it is open.
    open func headReceived() {}
    /// The head is complete, but its Content-Length of 0 has to be shown true by the end of the stream, at which follows `headReceived`.
    open func headHeld() {}
    /// Content has arrived. - Returns: how much of it was taken; if not all, `contentWanted()` is to be called later.
    open func receive(content: Span<UInt8>) -> Int { content.count }
    /// All content that has arrived was taken, if any has; more may follow.
    open func contentPaused() {}
    /// The request is complete.
    open func contentEnded() {}
    /// The request is malformed, in its head or later. Answer if nothing is answered yet, or `reset`; nothing more of it comes.
    open func requestFaulted(_ fault: MessageFault) {}
    /// There is room for more of the response again.
    open func outputDrained() {}
    /// The stream is gone before the response was complete: the client reset it, or the connection ends.
    open func abandoned(_ code: HTTP2ErrorCode) {}
    /// Nothing more is sent or received. The last call; the object may serve another request after it.
    open func ended() {}

    /// Sets `head` to the received part of an incomplete head, for a subclass that answers it nevertheless. The bytes
    /// that it refers to are not there.
    public final func showIncompleteHead() {
        if let session, session.incompleteHead === self { head = session.incoming.head }
    }

    // MARK: - The response

    public final var isAnswered: Bool { state.isAnswered }
    /// Whether something may still be sent.
    public final var isOpen: Bool { id != 0 && !state.isReset }
    /// RFC 9113 section 5.1.1.
    public final var number: Int32 { id }
    /// Octets of the response's content that the client has no window for yet.
    public final var unframed: Int { output.count }
    /// The response is complete, and its end is not framed yet: a client that opens no window does not get it either.
    public final var isEndUnframed: Bool { state.isEnding && !state.responseEnded }

    /// Bytes of memory that the stream takes from pools.
    public final var footprint: Int {
        headBytes.footprint + waiting.footprint + output.footprint + trailers.footprint
    }

    /// Gives back most of the memory of a short end of a response that the client has no window for.
    public final func shrinkOutput() {
        if state.isEnding { output.shrink() }
    }

    /// END_STREAM is framed.
    public final var isEnded: Bool { state.responseEnded }
    /// Whether content, or the end, could be framed now.
    public final var isWindowOpen: Bool { session?.isWindowOpen(for: self) ?? false }
    /// Whether the client may send on when the response has ended: of tunnels alone (RFC 8441 section 5). What a client still sends
    /// of a request that is answered, nobody needs.
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
    /// - Returns: false if the head does not fit a buffer; nothing was sent.
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

    /// Sends content. - Returns: how much of it was taken; `outputDrained` tells when more may be.
    public final func sendContent(_ content: Span<UInt8>) -> Int {
        precondition(state.isAnswered && !state.isEnding, "content stands between the head and the end")
        // Nobody will read it.
        guard isOpen else { return content.count }
        let taken = output.appendPrefix(of: content)
        if taken > 0 { session?.resume(self) }
        return taken
    }

    /// Hands over trailers, as lines: they go with the end.
    ///
    /// - Returns: false if they do not fit a buffer.
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

    /// Ends the response with trailers, given as lines.
    public final func sendEnd(trailers fields: (inout ByteBuffer) -> Void) {
        guard isOpen, !state.isEnding else { return }
        fields(&trailers)
        sendEnd()
    }

    /// Ends the stream at once, whatever of it was not sent yet.
    public final func reset(_ code: HTTP2ErrorCode) {
        guard isOpen else { return }
        session?.submitReset(code, on: self)
    }

    /// Reports nothing more of the request; waiting content is dropped.
    public final func disregardRequest() {
        guard isOpen else { return }
        session?.disregard(self)
    }

    /// Content is wanted again.
    public final func contentWanted() {
        guard isOpen else { return }
        session?.offer(self)
    }
}

/// How far a stream has come.
struct StreamState {
    /// Octets that Content-Length still announces; nil if it did not say.
    var missing: UInt64?
    /// The head is read but waits for the end of the stream: Content-Length is 0, and nothing may follow.
    var isHeld = false
    /// What comes is of use: the request is well-formed, and nobody has reset it.
    var isListening = false
    /// The head, or its fault, was reported, or nobody wants it.
    var isSeen = false
    var clientEnded = false
    var isEndReported = false
    var isFaulted = false
    /// Within `receive(content:)`.
    var isDelivering = false
    /// Content was wanted within it.
    var isWanted = false
    /// It did not take all it was offered, and has not asked since.
    var isFull = false
    /// The last octet of a stated length waits for the end of the stream.
    var isLastKept = false
    var isAnswered = false
    /// No more of the response is added.
    var isEnding = false
    /// The data provider has nothing and waits to be resumed.
    var isDeferred = false
    var isReset = false
    /// END_STREAM was sent.
    var responseEnded = false
    /// It is a tunnel's, of whose sides one may end before the other (RFC 8441 section 5).
    var isTunnel = false
    var outlastsResponse = false
    /// In the session's list of streams to be notified of room, or of the end of content for now.
    var isDrained = false
    var isTouched = false
}
