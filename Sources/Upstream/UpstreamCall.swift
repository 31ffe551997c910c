internal import Bytes
internal import EventLoop
public import HTTP

/// A call to an upstream, which waits for its response.
///
/// The carrier calls the `open` methods from its own events, and `finishEvent()` at the end of each, where the call may
/// write to its client.
///
/// ```
///              room                 response ended, failed, cancelled
/// unplaced ---------------> carried ------> unplaced
///   |  |     SETTINGS          ^
///   |  +---> awaiting ---------+  HTTP/2, while the server is being connected
///   |           ^              |
///   +------> queued -----------+
/// ```
open class UpstreamCall {
    enum Placement {
        /// Before the start, after the end, and between two servers.
        case unplaced
        case queued(QueuePlace)
        /// The call waits for the SETTINGS of the connection's server.
        case awaiting(HTTP2UpstreamConnection)
        case carried(UpstreamCarrier)
    }

    /// A place in the queue of a pool, which outlives it.
    struct QueuePlace {
        unowned let pool: UpstreamPool
        let ticket: UInt64
    }

    /// What the pool remembers about a call from its start to its end.
    struct Search {
        /// The client's key, where it decides the server.
        let key: UInt64
        /// The servers that have failed the call.
        var tried = ServerSet()
        var lastServer: Int?
        /// The deadline of the wait for a connection. Nil if the call has not waited yet.
        var waitingEnd: Instant?
        var isPlaced = false
    }

    final var placement = Placement.unplaced
    final var search = Search(key: 0)
    /// The carrier of the call. Nil before its start and after its end.
    public final var carrier: UpstreamCarrier? {
        if case .carried(let carrier) = placement { carrier } else { nil }
    }
    /// The index of the last server that got the request. Nil if there was none.
    public final var lastServer: Int? { search.lastServer }
    /// Whether a connection was available or opened for the call, even if it failed.
    public final var isPlaced: Bool { search.isPlaced }
    /// The sent content, in case another server needs it.
    final var kept = RetainedContent()

    public init() {}

    final func isAwaiting(_ connection: HTTP2UpstreamConnection) -> Bool {
        if case .awaiting(let awaited) = placement { awaited === connection } else { false }
    }

    /// The bytes of memory that the call holds in blocks.
    public final var footprint: Int { (carrier?.footprint ?? 0) + kept.footprint }

    /// The method of the request, which decides whether the response has content.
    open var method: Method? { nil }

    /// Called when a connection is available: write the request and send it.
    open func began(on carrier: UpstreamCarrier) {}
    /// Called when the final response head has arrived.
    open func responseHead(_ head: ResponseHead, _ bytes: Span<UInt8>) {}
    /// Called when the server has switched protocols (101). If that was requested, the connection is a tunnel from now
    /// on: received bytes are `responseContent`, written bytes are sent, and neither is framed.
    ///
    /// - Returns: nil if it was requested, otherwise the failure.
    open func switched(_ head: ResponseHead, _ bytes: Span<UInt8>) -> UpstreamFailure? { .unexpectedUpgrade }
    /// Called when the server has ended its side of a tunnel. It may still receive.
    open func tunnelEnded() {}
    /// Called when content has arrived.
    ///
    /// - Returns: the number of bytes taken. If not all, call `resumeResponse()` later.
    open func responseContent(_ content: Span<UInt8>) -> Int { content.count }
    /// Called when the trailers have arrived after all content was taken. `responseEnded` follows.
    open func responseTrailers(_ trailers: ResponseTrailers, _ bytes: Span<UInt8>) {}
    /// Called when the response is complete. The call has no carrier any more.
    open func responseEnded() {}
    /// Called when there is room for more of the request.
    open func requestSpaceAvailable() {}
    /// Called when there will be no complete response. The call has no carrier any more.
    ///
    /// - Parameter again: whether the request may be sent once more by `startAgain`.
    open func failed(_ failure: UpstreamFailure, again: Repetition) {}
    /// Called at the end of an event: write the pending output.
    open func finishEvent() {}

    /// Cancels the call in any state. Nothing is called afterwards.
    public final func cancel() {
        switch placement {
        case .unplaced: break
        case .queued(let place): place.pool.leave(self, place)
        case .awaiting(let connection): connection.leave(self)
        case .carried(let carrier): carrier.cancel()
        }
    }

    /// Whether all sent content, if any, is sent again by the carrier of a second start.
    public final var isContentKept: Bool { kept.isWhole }
}

/// Whether a failed request may be sent once more.
public enum Repetition: Sendable {
    /// The server may have processed it, or there is no other server.
    case never
    /// The connection ended before the first byte of a response. The server may have processed the request; repeating
    /// an idempotent one is harmless.
    case ifIdempotent
    /// The server has certainly not processed it (RFC 9113 section 8.7).
    case always
}

/// A request to a service, without its target and its fields.
public struct OutgoingRequest {
    public let method: Method
    /// The framing of the content to be written.
    public let framing: ContentFraming
    /// Whether the request asks for a WebSocket.
    public let isUpgrade: Bool

    public init(_ method: Method, framing: ContentFraming, isUpgrade: Bool = false) {
        self.method = method
        self.framing = framing
        self.isUpgrade = isUpgrade
    }
}

/// The sent part of a request's content, at most one block. Another server gets it if the first one does not process
/// the request.
struct RetainedContent: ~Copyable {
    private var buffer: ByteBuffer?
    /// Whether it is complete.
    private(set) var isWhole = true

    /// The bytes of memory that the content holds in blocks.
    var footprint: Int {
        switch buffer {
        case .none: 0
        case .some(let buffer): buffer.footprint
        }
    }

    mutating func keep(_ first: UInt8?, _ content: Span<UInt8>, in pool: BufferPool) {
        guard isWhole else { return }
        if buffer == nil { buffer = ByteBuffer(pool: pool) }
        if let first { buffer?.append(first) }
        buffer?.append(content)
        if buffer?.overflowed == true { drop() }
    }

    /// Passes on the content and keeps it: the next server may fail too.
    func replay(_ send: (Span<UInt8>) -> Void) {
        switch buffer {
        case .none: break
        case .some(let buffer): if !buffer.isEmpty { send(buffer.readable) }
        }
    }

    /// Drops the content, because the request was processed, or there is too much of it.
    mutating func drop() {
        buffer = nil
        isWhole = false
    }

    /// Prepares for the next request.
    mutating func reset() {
        buffer = nil
        isWhole = true
    }
}
