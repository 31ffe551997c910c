public import Bytes

/// A request and its response on an HTTP/2 connection, for the client side. An object serves one stream after the
/// other.
///
/// The session calls the `open` methods while it receives. The subclass sends with `sendContent` and `sendEnd`, which
/// do not write to the socket; `HTTP2ClientSession.write` does. Content that is not taken stays here and keeps the
/// server's window closed, so the windows limit it. The stream outlives the connection: a complete response is
/// delivered completely.
open class HTTP2ClientStream {
    /// The session, which owns its streams. Nil while there is no stream.
    final unowned var session: HTTP2ClientSession?
    /// The index among the session's streams.
    final var slot = 0
    /// The stream identifier (RFC 9113 section 5.1.1). 0 while there is no stream.
    final var id: Int32 = 0
    final var state = ClientStreamState()

    /// The response head, with ranges into `headBytes`. Released after its delivery.
    final var head = ResponseHead()
    final var headBytes: ByteBuffer
    /// The trailers, kept until the content before them was taken.
    final var trailers = ResponseTrailers()
    final var trailerBytes: ByteBuffer
    /// Content that was not taken yet.
    final var waiting: BufferChain
    /// Content of the request that was not framed yet.
    final var output: ByteBuffer

    /// The number of bytes of `waiting.front` that may be delivered.
    final var free: Int { min(waiting.frontCount, waiting.count - (state.isLastKept ? 1 : 0)) }

    /// The bytes of memory that the stream takes from pools.
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

    /// Called when the final response head is complete and well-formed, in the form of HTTP/1.1's parser. Content of
    /// unknown length is `chunked`. The bytes are valid during the call.
    open func responseHead(_ head: ResponseHead, _ bytes: Span<UInt8>) {}
    /// Called when content has arrived.
    ///
    /// - Returns: the number of bytes taken. If not all, call `contentWanted()` later.
    open func receive(content: Span<UInt8>) -> Int { content.count }
    /// Called when trailers have arrived after all content was taken. `responseEnded` follows. They contain no field of
    /// framing or of one connection. The bytes are valid during the call.
    open func responseTrailers(_ trailers: ResponseTrailers, _ bytes: Span<UInt8>) {}
    /// Called when the response is complete and was taken. The unsent part of the request has no use: the stream is
    /// cancelled.
    open func responseEnded() {}
    /// Called when there is room for more of the request again.
    open func requestSpaceAvailable() {}
    /// Called when there will be no complete response. Not called after `reset`.
    open func failed(_ failure: HTTP2StreamFailure) {}
    /// Called when nothing more is sent or received on the stream. Only `finishEvent` follows.
    open func ended() {}
    /// Called at the end of an event in which one of the methods above was called (`HTTP2ClientSession.finishEvent`).
    /// If the stream has ended, the object may serve another request afterwards.
    open func finishEvent() {}

    // MARK: - The request

    /// Whether more of the request may be sent: the stream is neither ended nor reset, and its response not complete.
    public final var isOpen: Bool { id != 0 && !state.isReset && state.isOnWire }
    /// The stream identifier (RFC 9113 section 5.1.1).
    public final var number: Int32 { id }
    /// The bytes of the request's content for which the server has no window yet.
    public final var unframed: Int { output.count }
    /// Whether more of the request waits although the stream's own window is open, because other streams' content was
    /// not taken.
    public final var isStarved: Bool { isOpen && (session?.isStarved(self) ?? false) }
    /// Whether all of the request was passed to `HTTP2ClientSession.write`.
    public final var isRequestSent: Bool { state.requestEnded }
    /// Whether the request's fields were passed to it. Otherwise the request has not reached the server.
    public final var isHeadSent: Bool { state.headEnd != 0 }
    /// Whether any response has begun, interim responses included.
    public final var isAnswered: Bool { state.isAnswered }

    /// Sends content.
    ///
    /// - Returns: the number of bytes taken. `requestSpaceAvailable` is called when there is room again.
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

    /// Ends the stream at once, whatever part of the request or the response remains. Only `ended` and `finishEvent`
    /// follow: `ended` within this call, if nothing of the stream remains.
    public final func reset(_ code: HTTP2ErrorCode) {
        guard id != 0, !state.isReset else { return }
        session?.reset(self, code)
    }

    /// Requests content again, which is delivered within this call.
    public final func contentWanted() {
        guard id != 0, !state.isReset else { return }
        session?.offer(self)
    }
}

/// The state of a request and its response.
struct ClientStreamState {
    // The stream.
    /// Whether nghttp2 knows the stream, or will when its turn has come.
    var isOnWire = false
    /// Whether the stream was cancelled or has failed, so that its events have no recipient.
    var isReset = false

    // The request.
    var isHead = false
    /// The end of the request's fields as a position in all framed bytes of the connection. 0 before they were framed.
    var headEnd: UInt64 = 0
    /// Whether the request is complete.
    var isEnding = false
    /// Whether the data provider has no content and waits to be resumed.
    var isDeferred = false
    /// Whether END_STREAM was framed.
    var requestEnded = false

    // The response.
    /// Whether any part of a response has begun.
    var isAnswered = false
    var interimResponses = 0
    /// Whether the final head is read.
    var hasHead = false
    /// Whether the response waits for the end of the stream, because it must have no content.
    var isHeld = false
    /// The number of announced bytes that are missing. Nil if none were announced.
    var missing: UInt64?
    /// Whether the last byte of a stated length waits for the end of the stream.
    var isLastKept = false
    var hasTrailers = false
    /// Whether END_STREAM has arrived after a well-formed response.
    var isComplete = false
    var isEndReported = false
    /// Whether `receive(content:)` is running.
    var isDelivering = false
    /// Whether content was requested within it.
    var isWanted = false
    /// Whether it did not take all content, and has not asked for more since.
    var isFull = false

    // In the session's lists.
    /// Whether the stream is in the list of streams to be notified of room.
    var isDrained = false
    /// Whether the stream is in the list of streams whose event must be finished.
    var isTouched = false
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
