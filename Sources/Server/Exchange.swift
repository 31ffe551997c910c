public import Bytes
public import EventLoop
public import HTTP

/// One request and its response, for the code that answers. Its carrier, an HTTP/1.1 connection or a stream of HTTP/2,
/// has one exchange for all its requests in turn.
///
/// The connection calls the `open` methods as the request arrives; the subclass answers with `sendHead`, `sendContent`
/// and `sendEnd`. These write to no socket: the event that led to them does that once, at its end, so that a head and
/// its content leave in one record. A subclass that answers from another event (because its upstream did) says `advance()`
/// when it is done.
open class Exchange {
    /// The owner of this exchange. It lets go of the exchange when it closes, which ends the cycle.
    public let connection: ServerConnection
    /// What carries the request and its response on that connection; set before anything is called.
    final var carrier: ExchangeCarrier?
    /// The request head: ranges into `headBytes`. A copy; what most ask for is there by itself, too.
    public final var head: RequestHead { receivedHead }
    final var receivedHead = RequestHead()
    /// How the content of the request is framed, and whether there is any.
    public final var framing: ContentFraming { receivedHead.framing }
    /// The method of the request; nil for one that no route can admit.
    public final var method: Method? { receivedHead.method }
    /// By which a route is chosen: `RequestHead.routedMethod`.
    public final var routedMethod: Method? { receivedHead.routedMethod }
    /// The bytes of the head, kept until the exchange ends.
    public internal(set) var headBytes: ByteBuffer
    /// In which version of HTTP the request came, also where its head could not be read.
    public final var version: HTTPVersion { carrier?.version(of: receivedHead.version) ?? receivedHead.version }
    /// When the head was complete; until then, when its first byte came.
    public final var began: Instant { beganAt }
    final var beganAt = Instant(nanoseconds: 0)
    /// The status answered; 0 while there is none.
    public final var status: UInt16 { answeredStatus }
    private final var answeredStatus: UInt16 = 0
    /// Octets of content received.
    public final var requestBytes: UInt64 { receivedBytes }
    final var receivedBytes: UInt64 = 0
    /// Octets of content handed to the connection.
    public final var responseBytes: UInt64 { sentBytes }
    private final var sentBytes: UInt64 = 0

    public init(connection: ServerConnection) {
        self.connection = connection
        headBytes = ByteBuffer(pool: connection.pool)
    }

    // MARK: - The request, for subclasses to override

    /// The head is complete and well-formed. Content follows if `head.framing` says so.
    open func headReceived() {}
    /// Content has arrived. - Returns: how much of it was taken; if not all, `contentWanted()` is to be called later.
    open func receive(content: Span<UInt8>) -> Int { content.count }
    /// All content that has arrived was taken; more may follow.
    open func contentPaused() {}
    /// The request is complete.
    open func contentEnded() {}
    /// The request cannot be read. Answer; nothing more of it comes, and with HTTP/1.1 the connection is closed after that.
    open func requestFaulted(_ fault: MessageFault) {}
    /// The rest of the head or content did not come in time, and nothing is answered yet: answer.
    open func requestTimedOut() {}
    /// Something is answered already, and the client is overdue: it is cut off after this.
    open func cutOff(_ debt: ClientDebt) {}
    /// The client has taken what was sent: there is room for more.
    open func outputDrained() {}
    /// The client is gone, or the connection broke: nobody waits for the response any more.
    open func abandoned() {}
    /// The last byte of the response was handed to the kernel, or never will be (`abandoned` was called before).
    open func ended() {}
    /// Bytes of memory that the subclass holds in blocks for the request.
    open var heldBytes: Int { 0 }
    /// Whether all is decided about the request: nobody need be asked any more whether it may go on.
    open var isDecided: Bool { isAnswered }

    // MARK: - The response

    public final var isAnswered: Bool { status != 0 }

    /// Writes the response head.
    ///
    /// - Parameters:
    ///   - content: how long the content is; `untilClose` or `chunked` when that is unknown: the carrier then decides
    ///     how its end is marked.
    ///   - statedLength: Content-Length of a response without content (HEAD, 304).
    ///   - isLast: whether the connection takes no more requests after this response, whatever else speaks for keeping it.
    ///   - fields: appends the other fields; none of connection or framing.
    /// - Returns: false if the head does not fit a buffer; nothing was written.
    public final func sendHead(
        _ status: UInt16, content: ContentFraming, statedLength: UInt64? = nil, isLast: Bool = false,
        fields: (inout ByteBuffer) -> Void
    ) -> Bool {
        precondition(!isAnswered, "a request is answered once")
        let head = OutgoingHead(status: status, content: content, statedLength: statedLength, isLast: isLast)
        guard carrier?.write(head, fields) == true else { return false }
        answeredStatus = status
        return true
    }

    /// Writes content. - Returns: how much of it was taken; `outputDrained` tells when more may be.
    public final func sendContent(_ content: Span<UInt8>) -> Int {
        let taken = carrier?.write(content) ?? 0
        sentBytes += UInt64(taken)
        return taken
    }

    /// Hands over trailers, which go when the response ends. HTTP/1.1 carries none: hardly anybody reads them there, and many take them for
    /// header fields.
    ///
    /// - Parameter fields: appends them as lines.
    /// - Returns: false if they do not fit a buffer.
    public final func sendTrailers(_ fields: (inout ByteBuffer) -> Void) -> Bool {
        carrier?.writeTrailers(fields) ?? true
    }

    /// Whether trailers come through to the client.
    public final var takesTrailers: Bool { version == .http2 }

    /// Ends the response. - Returns: false if there is no room for the end yet; try again when drained.
    public final func sendEnd() -> Bool {
        carrier?.writeEnd() ?? true
    }

    /// Tells the client to send the content it holds back (RFC 9110 section 10.1.1). Once, before the response.
    public final func sendContinue() {
        carrier?.writeContinue()
    }

    // MARK: - Tunnels

    /// Switches protocols (101, on a stream of HTTP/2 200): from now on, what the client sends is `receive(content:)` and what is sent is `sendContent`, as it
    /// is, until `contentEnded` or `sendEnd`, one of which soon follows the other. The bytes of the head are let go of.
    ///
    /// - Parameter fields: appends the fields of the head, in HTTP/1.1 those of the connection included.
    /// - Returns: false if the head does not fit a buffer; nothing was written.
    public final func openTunnel(fields: (inout ByteBuffer) -> Void) -> Bool {
        precondition(!isAnswered, "a request is answered once")
        guard let tunnel = carrier?.openTunnel(fields) else { return false }
        carrier = tunnel
        // RFC 8441 section 5.
        answeredStatus = version == .http2 ? 200 : 101
        headBytes.removeAll()
        return true
    }

    /// In a tunnel: its time is over. It ends after this.
    open func tunnelExpired(_ limit: TunnelLimit) {}

    /// Ends the tunnel now, in order; `ended` is called within.
    public final func endTunnel() {
        carrier?.endTunnel()
    }

    /// The content of the request may come however slowly, with no longer pauses than this. To be said before any has come.
    public final func allowContentPauses(of idle: TimeSpan) {
        carrier?.allowContentPauses(of: idle)
    }

    /// Breaks the response off: what has begun cannot be completed, and the client must see that.
    public final func abort() {
        carrier?.abort()
    }

    /// Content is wanted again.
    public final func contentWanted() {
        carrier?.resumeContent()
    }

    /// Sends what was written. A subclass that answers from an event of another connection calls it last.
    public final func advance() {
        carrier?.advance(connection)
    }

    /// Offers the first octets of what has been read as content. - Returns: how many of them were taken.
    final func receive(_ count: Int, of input: borrowing ByteBuffer) -> Int {
        receive(content: input.readable.extracting(first: count))
    }

    /// Gives back the memory of the head, which nobody reads any more: its ranges refer to nothing.
    public final func dropHead() { headBytes.removeAll() }

    /// Bytes of memory that the request holds in blocks.
    final var footprint: Int { headBytes.footprint + heldBytes }

    final func reset() {
        headBytes.removeAll()
        answeredStatus = 0
        receivedBytes = 0
        sentBytes = 0
    }
}

/// What a client is overdue with.
public enum ClientDebt: Equatable, Sendable {
    /// To send what is left of the content.
    case content
    /// To take the response.
    case response
}
