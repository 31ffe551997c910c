internal import Bytes
internal import EventLoop
public import HTTP

/// Who waits for an upstream's response.
///
/// What carries it calls the `open` methods from its own events and says `finishEvent()` at the end of each, where the call may
/// write to its client.
open class UpstreamCall {
    /// What carries the call; nil before it started and after it ended.
    ///
    /// Computed, as are others here: see `Loop.now`.
    public internal(set) final var carrier: UpstreamCarrier? {
        get { storedCarrier }
        set { storedCarrier = newValue }
    }
    private final var storedCarrier: UpstreamCarrier?
    /// The place of the server that was asked last; nil while none was.
    public internal(set) final var lastServer: Int? {
        get { storedServer }
        set { storedServer = newValue }
    }
    private final var storedServer: Int?
    /// A connection was there or begun for it, whatever came of that.
    public internal(set) final var isPlaced: Bool {
        get { storedPlaced }
        set { storedPlaced = newValue }
    }
    private final var storedPlaced = false
    /// The pool whose queue it waits in; stays set after the wait, so that ending the call can remove it from there.
    final unowned var queue: UpstreamPool?
    final var ticket: UInt64 = 0
    /// Whose request it is, where servers are chosen by that.
    final var key: UInt64 = 0
    /// Until when it may wait for a connection; nil if it did not have to yet.
    final var waitingEnd: Instant?
    /// The servers that have failed it.
    final var tried = ServerSet()
    /// The connection whose server it waits for.
    final var awaited: HTTP2UpstreamConnection?
    /// Of its content, where another server may get it too.
    final var kept: RetainedContent {
        @inline(__always) _read {
            var borrowed = keptContent.borrow()
            defer { keptContent.end(&borrowed) }
            yield borrowed.value
        }
        @inline(__always) _modify {
            var borrowed = keptContent.borrow()
            defer { keptContent.end(&borrowed) }
            yield &borrowed.value
        }
    }
    private final var keptContent = Borrowable(RetainedContent())

    public init() {}

    /// Bytes of memory that the call holds in blocks.
    public final var footprint: Int { (carrier?.footprint ?? 0) + kept.footprint }

    /// The method of the request, which decides whether the response has content.
    open var method: Method? { nil }

    /// The wait for a connection is over: write the request and send it.
    open func began(on carrier: UpstreamCarrier) {}
    /// The final response head has arrived.
    open func responseHead(_ head: ResponseHead, _ bytes: Span<UInt8>) {}
    /// The server has switched protocols (101). If that is what was asked for, the connection is a tunnel from now on: what comes
    /// is `responseContent`, what is written goes, and nothing is framed.
    ///
    /// - Returns: nil if so; what is wrong with it otherwise.
    open func switched(_ head: ResponseHead, _ bytes: Span<UInt8>) -> UpstreamFailure? { .unexpectedUpgrade }
    /// In a tunnel: the server sends no more, but may still take.
    open func tunnelEnded() {}
    /// Content has arrived. - Returns: how much was taken; if not all, say `resumeResponse()` later.
    open func responseContent(_ content: Span<UInt8>) -> Int { content.count }
    /// The fields behind the content have arrived, all of which was taken; `responseEnded` follows.
    open func responseTrailers(_ trailers: ResponseTrailers, _ bytes: Span<UInt8>) {}
    /// The response is complete, and the call has no carrier any more.
    open func responseEnded() {}
    /// There is room for more of the request.
    open func requestSpaceAvailable() {}
    /// There will be no (complete) response, and the call has no carrier any more.
    ///
    /// - Parameter again: whether the request may be sent once more, by `startAgain`.
    open func failed(_ failure: UpstreamFailure, again: Repetition) {}
    /// The event is over: write what is to be written.
    open func finishEvent() {}

    /// Gives up the call, wherever it is. Nothing is called any more.
    public final func cancel() {
        carrier?.cancel()
        awaited?.leave(self)
        if waitingEnd != nil { queue?.leave(self) }
    }

    /// Whether all that was sent of the content, if there was any, is sent again by a carrier that it is started on once more.
    public final var isContentKept: Bool { kept.isWhole }
}

/// Whether a request that has failed may be sent once more.
public enum Repetition: Sendable {
    /// It may have been carried out, or there is nobody else to ask.
    case never
    /// Its connection ended before the first byte of a response. Whether the server has done what was asked, nobody knows; asking
    /// once more for what is idempotent does no harm.
    case ifIdempotent
    /// The server has certainly not processed it (RFC 9113 section 8.7).
    case always
}

/// A request to a service, but for its target and its fields.
public struct OutgoingRequest {
    public let method: Method
    /// Of the content as it is going to be written.
    public let framing: ContentFraming
    /// It asks for a WebSocket.
    public let isUpgrade: Bool

    public init(_ method: Method, framing: ContentFraming, isUpgrade: Bool = false) {
        self.method = method
        self.framing = framing
        self.isUpgrade = isUpgrade
    }
}

/// What was sent of a request's content, for another server, should the one that got it not process it: one block of it at most.
struct RetainedContent: ~Copyable {
    private var buffer: ByteBuffer?
    /// Nothing is missing from it.
    private(set) var isWhole = true

    /// Bytes of memory that the content holds in blocks.
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

    /// Hands out what there is. It is kept on: the next server may do the same.
    func replay(_ send: (Span<UInt8>) -> Void) {
        switch buffer {
        case .none: break
        case .some(let buffer): if !buffer.isEmpty { send(buffer.readable) }
        }
    }

    /// It will not be needed: the request was processed, or there is too much of it.
    mutating func drop() {
        buffer = nil
        isWhole = false
    }

    /// For the next request.
    mutating func reset() {
        buffer = nil
        isWhole = true
    }
}
