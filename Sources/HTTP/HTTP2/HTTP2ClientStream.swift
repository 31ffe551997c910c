public import Bytes

/// One request and its response on an HTTP/2 connection, for the client side. An object serves one stream after the
/// other.
///
/// The session calls the `open` methods while it receives; the subclass sends with `sendContent` and `sendEnd`, which write to no
/// socket: `HTTP2ClientSession.write` does. Content that is not taken stays here and keeps the server's window closed, so what
/// waits is at most the windows. It outlives the connection: a response that has come whole is delivered whole.
open class HTTP2ClientStream {
    /// Whose stream it is, while it is one: the session owns its streams.
    final unowned var session: HTTP2ClientSession?
    /// Its place among the session's streams.
    final var slot = 0
    /// RFC 9113 section 5.1.1; 0 while it is none.
    final var id: Int32 = 0
    final var state = ClientStreamState()

    /// The response head: ranges into `headBytes`. Given back once it was delivered.
    final var head = ResponseHead()
    final var headBytes: ByteBuffer
    /// Kept until the content before them was taken.
    final var trailers = ResponseTrailers()
    final var trailerBytes: ByteBuffer
    /// Content that was not taken yet.
    final var waiting: BufferChain
    /// Content of the request that was not framed yet.
    final var output: ByteBuffer

    /// How much of `waiting.front` may be handed on.
    final var free: Int { min(waiting.frontCount, waiting.count - (state.isLastKept ? 1 : 0)) }

    /// Bytes of memory that the stream takes from pools.
    public final var footprint: Int {
        headBytes.footprint + trailerBytes.footprint + waiting.footprint + output.footprint
    }

    public init(pool: BufferPool) {
        headBytes = ByteBuffer(pool: pool)
        trailerBytes = ByteBuffer(pool: pool)
        waiting = BufferChain(pool: pool)
        output = ByteBuffer(pool: pool)
    }

    // MARK: - The response, for subclasses to override

    /// The final response head is complete and well-formed: as HTTP/1.1's parser gives it. Content whose length is not stated is
    /// `chunked`. The bytes are valid within the call.
    open func responseHead(_ head: ResponseHead, _ bytes: Span<UInt8>) {}
    /// Content has arrived. - Returns: how much of it was taken; if not all, `contentWanted()` is to be called later.
    open func receive(content: Span<UInt8>) -> Int { content.count }
    /// Fields behind the content, all of which was taken; `responseEnded` follows. None of them is of framing or of one connection
    /// only. The bytes are valid within the call.
    open func responseTrailers(_ trailers: ResponseTrailers, _ bytes: Span<UInt8>) {}
    /// The response is complete, and was taken. What of the request was not sent yet nobody wants: the stream is cancelled.
    open func responseEnded() {}
    /// There is room for more of the request again.
    open func requestSpaceAvailable() {}
    /// There will be no complete response. Not called after `reset`.
    open func failed(_ failure: HTTP2StreamFailure) {}
    /// Nothing more is sent or received on the stream. The last call but `finishEvent`.
    open func ended() {}
    /// The event in which something of the above was called is over (`HTTP2ClientSession.finishEvent`). The object may serve another
    /// request after it, if the stream has ended.
    open func finishEvent() {}

    // MARK: - The request

    /// Whether more of the request may be sent: the stream is neither over nor reset, and its response not complete.
    public final var isOpen: Bool { id != 0 && !state.isReset && state.isOnWire }
    /// RFC 9113 section 5.1.1.
    public final var number: Int32 { id }
    /// Octets of the request's content that the server has no window for yet.
    public final var unframed: Int { output.count }
    /// Whether more of the request waits for a window, and the stream's own is open: what others have sent was not taken.
    public final var isStarved: Bool { isOpen && (session?.isStarved(self) ?? false) }
    /// Whether all of the request was given to `HTTP2ClientSession.write`.
    public final var isRequestSent: Bool { state.requestEnded }
    /// Whether the request's fields were given to it. A request for which that is not so has not reached anybody.
    public final var isHeadSent: Bool { state.headEnd != 0 }
    /// Whether any answer has begun, interim responses included.
    public final var isAnswered: Bool { state.isAnswered }

    /// Sends content. - Returns: how much of it was taken; `requestSpaceAvailable` tells when more may be.
    public final func sendContent(_ content: Span<UInt8>) -> Int {
        precondition(!state.isEnding, "content stands before the end")
        // Nobody will read it.
        guard isOpen else { return content.count }
        let taken = output.appendPrefix(of: content)
        if taken > 0 { session?.resume(self) }
        return taken
    }

    /// Ends the request.
    public final func sendEnd() {
        guard isOpen, !state.isEnding else { return }
        state.isEnding = true
        session?.resume(self)
    }

    /// Gives up the stream at once, whatever of the request was not sent yet, or of the response not taken. Only
    /// `ended` and `finishEvent` are called afterwards: `ended` within this call, if nothing of the stream remains.
    public final func reset(_ code: HTTP2ErrorCode) {
        guard id != 0, !state.isReset else { return }
        session?.reset(self, code)
    }

    /// Content is wanted again: it is delivered within.
    public final func contentWanted() {
        guard id != 0, !state.isReset else { return }
        session?.offer(self)
    }
}

/// How far a request and its response have come.
struct ClientStreamState {
    // The stream.
    /// nghttp2 knows of it, or will when its turn has come.
    var isOnWire = false
    /// Nobody wants to hear of it: it was given up, or has failed.
    var isReset = false

    // The request.
    var isHead = false
    /// Where the end of its fields stands in all that was ever framed on the connection; 0 before they were.
    var headEnd: UInt64 = 0
    /// No more of it is added.
    var isEnding = false
    /// The data provider has nothing and waits to be resumed.
    var isDeferred = false
    /// END_STREAM was framed.
    var requestEnded = false

    // The response.
    /// Something of an answer has begun.
    var isAnswered = false
    var interimResponses = 0
    /// The final head is read.
    var hasHead = false
    /// It waits for the end of the stream: there is to be no content, and none may follow.
    var isHeld = false
    /// Octets that are still announced; nil if nothing was.
    var missing: UInt64?
    /// The last octet of a stated length waits for the end of the stream.
    var isLastKept = false
    var hasTrailers = false
    /// END_STREAM has come, and all that came before it is well-formed.
    var isComplete = false
    var isEndReported = false
    /// Within `receive(content:)`.
    var isDelivering = false
    /// Content was wanted within it.
    var isWanted = false
    /// It did not take all it was offered, and has not asked since.
    var isFull = false

    // In the session's lists.
    /// In the list of streams to be notified of room.
    var isDrained = false
    /// In the list of streams to be settled.
    var isTouched = false
}
