public import Bytes
public import EventLoop
public import HTTP
public import TLS

/// A request and its response, as the code that answers sees them. Its carrier, an HTTP/1.1 connection or a stream of
/// HTTP/2, uses one exchange for its requests in turn.
///
/// The carrier calls the `open` methods as the request arrives. The subclass answers with `sendHead`, `sendContent`
/// and `sendEnd`. These do not write to a socket: the current event writes once, at its end, so that a head and its
/// content leave in one record. A subclass that answers from another event, such as one of its upstream, calls
/// `advance()` at the end.
open class Exchange {
    /// The owner of this exchange. It releases the exchange when it closes, which breaks the reference cycle.
    public let connection: ServerConnection
    /// The carrier of request and response; set before any method is called.
    final var carrier: ExchangeCarrier?
    /// The request head: ranges into `headBytes`.
    public internal(set) final var head = RequestHead()
    /// The framing of the request's content.
    public final var framing: ContentFraming { head.framing }
    /// The method of the request; nil if no route can admit it.
    public final var method: Method? { head.method }
    /// The method by which a route is chosen: `RequestHead.routedMethod`.
    public final var routedMethod: Method? { head.routedMethod }
    /// The bytes of the head, kept until the exchange ends.
    public internal(set) var headBytes: ByteBuffer
    /// The version of HTTP of the request, also where its head cannot be read.
    public final var version: HTTPVersion { carrier?.version(of: head.version) ?? head.version }
    /// The time at which the head was complete; until then that of its first byte.
    public internal(set) final var began = Instant(nanoseconds: 0)
    /// The status of the response; 0 before its head is sent.
    public private(set) final var status: UInt16 = 0
    /// Bytes of content received.
    public internal(set) final var requestBytes: UInt64 = 0
    /// Bytes of content handed to the connection.
    public private(set) final var responseBytes: UInt64 = 0

    public init(connection: ServerConnection) {
        self.connection = connection
        headBytes = ByteBuffer(pool: connection.pool)
    }

    // MARK: - The request, for subclasses to override

    /// Called when the head is complete and well-formed. Content follows if `head.framing` says so.
    open func headReceived() {}
    /// Takes content that has arrived.
    ///
    /// - Returns: How many bytes were taken. If not all, the subclass calls `contentWanted()` later.
    open func receive(content: Span<UInt8>) -> Int { content.count }
    /// Called when all content received so far was taken; more may follow.
    open func contentPaused() {}
    /// Called when the request is complete.
    open func contentEnded() {}
    /// Called when the request cannot be read. The subclass answers. Nothing more of the request follows, and with
    /// HTTP/1.1 the connection then closes.
    open func requestFaulted(_ fault: MessageFault) {}
    /// Called when the rest of the head or the content is late and nothing is answered yet. The subclass answers.
    open func requestTimedOut() {}
    /// Called when the client is overdue after the response has begun. The carrier then cuts it off.
    open func cutOff(_ debt: ClientDebt) {}
    /// Called when the client has read what was sent: there is room for more.
    open func outputDrained() {}
    /// Called when the client has gone, or the connection broke.
    open func abandoned() {}
    /// Called when the kernel has taken the last byte of the response, or after `abandoned`.
    open func ended() {}
    /// Bytes of memory that the subclass holds for the request in blocks.
    open var heldBytes: Int { 0 }
    /// Whether the request is decided: no answer of the registry is pending.
    open var isDecided: Bool { isAnswered }

    // MARK: - The response

    public final var isAnswered: Bool { status != 0 }

    /// Writes the response head.
    ///
    /// - Parameters:
    ///   - content: The framing of the content; `untilClose` or `chunked` if the length is unknown. The carrier
    ///     then decides how its end is marked.
    ///   - statedLength: Content-Length of a response without content (HEAD, 304).
    ///   - isLast: Whether the connection takes no more requests after this response.
    ///   - fields: Appends the other fields; none of connection or framing.
    /// - Returns: False if the head does not fit a buffer; nothing was written.
    public final func sendHead(
        _ status: UInt16, content: ContentFraming, statedLength: UInt64? = nil, isLast: Bool = false,
        fields: (inout ByteBuffer) -> Void
    ) -> Bool {
        precondition(!isAnswered, "a request is answered once")
        let head = OutgoingHead(status: status, content: content, statedLength: statedLength, isLast: isLast)
        guard carrier?.write(head, fields) == true else { return false }
        self.status = status
        return true
    }

    /// Writes content.
    ///
    /// - Returns: How many bytes were taken. `outputDrained` is called when there is room for more.
    public final func sendContent(_ content: Span<UInt8>) -> Int {
        let taken = carrier?.write(content) ?? 0
        responseBytes += UInt64(taken)
        return taken
    }

    /// Hands over trailers, which are sent at the end of the response. With HTTP/1.1 none are sent: few recipients
    /// read them there, and many take them for header fields.
    ///
    /// - Parameter fields: Appends them as lines.
    /// - Returns: False if they do not fit a buffer.
    public final func sendTrailers(_ fields: (inout ByteBuffer) -> Void) -> Bool {
        carrier?.writeTrailers(fields) ?? true
    }

    /// Whether the carrier sends trailers.
    public final var takesTrailers: Bool { version == .http2 }

    /// Ends the response.
    ///
    /// - Returns: False if there is no room for the end yet; call it again in `outputDrained`.
    public final func sendEnd() -> Bool {
        carrier?.writeEnd() ?? true
    }

    /// Asks the client for the content that it holds back (RFC 9110 section 10.1.1). At most once, before the
    /// response.
    public final func sendContinue() {
        carrier?.writeContinue()
    }

    // MARK: - Tunnels

    /// Switches protocols: 101, or 200 on a stream of HTTP/2. From then on `receive(content:)` and `sendContent` move
    /// raw bytes, until `contentEnded` or `sendEnd`, one of which soon follows the other. The bytes of the head are
    /// released.
    ///
    /// - Parameters:
    ///   - client: The client's certificate, with which the tunnel ends; nil if it has none.
    ///   - fields: Appends the fields of the head; in HTTP/1.1 also those of the connection.
    /// - Returns: False if the head does not fit a buffer; nothing was written.
    public final func openTunnel(of client: ClientIdentity?, fields: (inout ByteBuffer) -> Void) -> Bool {
        precondition(!isAnswered, "a request is answered once")
        let end = client?.end(from: connection.loop.now)
        guard let tunnel = carrier?.openTunnel(until: end, fields) else { return false }
        carrier = tunnel
        // RFC 8441 section 5.
        status = version == .http2 ? 200 : 101
        headBytes.removeAll()
        return true
    }

    /// Called when the time of a tunnel is over. The tunnel then ends.
    open func tunnelExpired(_ limit: TunnelLimit) {}

    /// Ends the tunnel in order; calls `ended` before it returns.
    public final func endTunnel() {
        carrier?.endTunnel()
    }

    /// Lets the content arrive at any rate, with pauses no longer than this. Called before any content arrives.
    public final func allowContentPauses(of idle: TimeSpan) {
        carrier?.allowContentPauses(of: idle)
    }

    /// Cuts the response off so that the client notices that it is incomplete.
    public final func abort() {
        carrier?.abort()
    }

    /// Resumes the content of the request.
    public final func contentWanted() {
        carrier?.resumeContent()
    }

    /// Sends what was written. A subclass that answers from an event of another connection calls it last.
    public final func advance() {
        carrier?.advance(connection)
    }

    /// Offers the first bytes of the input as content.
    ///
    /// - Returns: How many of them were taken.
    final func receive(_ count: Int, of input: borrowing ByteBuffer) -> Int {
        receive(content: input.readable.extracting(first: count))
    }

    /// Releases the memory of the head, whose ranges then refer to nothing.
    public final func dropHead() { headBytes.removeAll() }

    /// Bytes of memory that the request holds in blocks.
    final var footprint: Int { headBytes.footprint + heldBytes }

    final func reset() {
        headBytes.removeAll()
        status = 0
        requestBytes = 0
        responseBytes = 0
    }
}

/// The carrier of a request and its response on a client connection.
///
/// An enumeration like `Transport`, and not a superclass: a stream of HTTP/2 has a superclass already, and the
/// distinction costs a comparison, not a dynamic call.
enum ExchangeCarrier {
    case http1(HTTP1Session)
    /// Also after the request has become a tunnel.
    case http2(RequestStream)
    /// A request of HTTP/1.1 that has become a tunnel of raw bytes.
    case tunnel(TunnelSession)

    /// Returns the version of HTTP on the wire.
    ///
    /// - Parameter sent: The version in the head.
    func version(of sent: HTTPVersion) -> HTTPVersion {
        switch self {
        case .http1, .tunnel: sent
        case .http2: .http2
        }
    }

    func write(_ head: OutgoingHead, _ fields: (inout ByteBuffer) -> Void) -> Bool {
        switch self {
        case .http1(let session): session.write(head, fields)
        case .http2(let stream): stream.write(head, fields)
        case .tunnel: false
        }
    }

    /// Writes content.
    ///
    /// - Returns: How many bytes were taken.
    func write(_ content: Span<UInt8>) -> Int {
        switch self {
        case .http1(let session): session.write(content)
        case .http2(let stream): stream.write(content)
        case .tunnel(let tunnel): tunnel.write(content)
        }
    }

    /// Keeps trailers for the end of the response. Without HTTP/2 they are dropped.
    ///
    /// - Returns: False if they do not fit.
    func writeTrailers(_ fields: (inout ByteBuffer) -> Void) -> Bool {
        switch self {
        case .http1, .tunnel: true
        case .http2(let stream): stream.add(trailers: fields)
        }
    }

    /// Ends the response.
    ///
    /// - Returns: False if there is no room for the end yet.
    func writeEnd() -> Bool {
        switch self {
        case .http1(let session): session.writeEnd()
        case .http2(let stream): stream.writeEnd()
        case .tunnel(let tunnel): tunnel.writeEnd()
        }
    }

    func writeContinue() {
        switch self {
        case .http1(let session): session.writeContinue()
        case .http2(let stream): stream.writeContinue()
        case .tunnel: break
        }
    }

    /// Sends what was written, from an event of another connection.
    func advance(_ connection: ServerConnection) {
        // Other streams of the connection may have such events in the same turn of the loop.
        if case .http2 = self { connection.advanceWhenTurnEnds() } else { connection.advance() }
    }

    func abort() {
        switch self {
        case .http1(let session): session.connection.abort()
        case .http2(let stream): stream.abort()
        case .tunnel(let tunnel): tunnel.connection.abort()
        }
    }

    func allowContentPauses(of idle: TimeSpan) {
        switch self {
        case .http1(let session): session.allowContentPauses(of: idle)
        case .http2(let stream): stream.allowContentPauses(of: idle)
        case .tunnel: break
        }
    }

    func resumeContent() {
        switch self {
        case .http1(let session): session.resumeContent()
        case .http2(let stream): stream.resumeContent()
        case .tunnel(let tunnel): tunnel.resumeInput()
        }
    }

    /// Switches protocols.
    ///
    /// - Parameter end: The end of the client's certificate; nil if it has none.
    /// - Returns: The carrier from then on; nil if the head does not fit, or there is no way to a tunnel.
    func openTunnel(until end: Instant?, _ fields: (inout ByteBuffer) -> Void) -> ExchangeCarrier? {
        switch self {
        case .http1(let session): session.becomeTunnel(until: end, fields).map { .tunnel($0) }
        case .http2(let stream): stream.becomeTunnel(until: end, fields) ? self : nil
        case .tunnel: nil
        }
    }

    func endTunnel() {
        switch self {
        case .http1: break
        case .http2(let stream): stream.finishTunnel()
        case .tunnel(let tunnel): tunnel.finish()
        }
    }
}

/// The head of a response without the fields that the exchange adds.
struct OutgoingHead {
    let status: UInt16
    let content: ContentFraming
    /// Content-Length of a response without content (HEAD, 304).
    let statedLength: UInt64?
    /// The connection takes no more requests after this response.
    let isLast: Bool

    /// Returns the Content-Length to send; nil for none.
    ///
    /// - Parameter isAnswerToHead: Whether the request was HEAD. A length would then be that of the response to
    ///   GET, which is unknown here.
    func length(isAnswerToHead: Bool) -> UInt64? {
        switch content {
        case .length(let length): length
        case .chunked, .untilClose: nil
        case .none:
            if let statedLength {
                statedLength
            } else if status >= 200, status != 204, status != 304, !isAnswerToHead {
                0
            } else {
                nil
            }
        }
    }
}
