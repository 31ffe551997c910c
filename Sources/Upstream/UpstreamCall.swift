internal import Bytes
internal import EventLoop
public import HTTP

/// A call to an upstream, which waits for its response.
///
/// The carrier calls the `open` methods from its own events, and `finishEvent()` at the end of each, where the call may
/// write to its client.
open class UpstreamCall {
    /// The carrier of the call. Nil before its start and after its end.
    ///
    /// Computed, as are others here: see `Loop.now`.
    public internal(set) final var carrier: UpstreamCarrier? {
        get { storedCarrier }
        set { storedCarrier = newValue }
    }
    private final var storedCarrier: UpstreamCarrier?
    /// The index of the last server that got the request. Nil if there was none.
    public internal(set) final var lastServer: Int? {
        get { storedServer }
        set { storedServer = newValue }
    }
    private final var storedServer: Int?
    /// Whether a connection was available or opened for the call, even if it failed.
    public internal(set) final var isPlaced: Bool {
        get { storedPlaced }
        set { storedPlaced = newValue }
    }
    private final var storedPlaced = false
    /// The pool whose queue the call waits in. It stays set after the wait, so that ending the call can remove it from
    /// there.
    final unowned var queue: UpstreamPool?
    final var ticket: UInt64 = 0
    /// The client's key, where it decides the server.
    final var key: UInt64 = 0
    /// The deadline of the wait for a connection. Nil if the call has not waited yet.
    final var waitingEnd: Instant?
    /// The servers that have failed the call.
    final var tried = ServerSet()
    /// The connection whose server the call waits for.
    final var awaited: HTTP2UpstreamConnection?
    /// The sent content, in case another server needs it.
    final var kept = RetainedContent()

    public init() {}

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
        carrier?.cancel()
        awaited?.leave(self)
        if waitingEnd != nil { queue?.leave(self) }
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
