/// A parsed request head: ranges into the bytes it was parsed from, which somebody keeps.
///
/// One value serves all requests of a connection; its arrays keep their room.
public struct RequestHead: Sendable {
    /// Nil for every method no route can admit.
    public internal(set) var method: Method?
    public internal(set) var path = ByteRange.empty
    /// Without the `?`; nil if the target has none.
    public internal(set) var query: ByteRange?
    /// Host and port as the Host field has them, in HTTP/2 as `:authority` does.
    public internal(set) var authority = ByteRange.empty
    /// The host alone.
    public internal(set) var host = ByteRange.empty
    public internal(set) var version = HTTPVersion.http11
    /// 0 for HTTP/1.0, 1 for all that knows what HTTP/1.1 knows.
    public var minorVersion: UInt8 { version == .http10 ? 0 : 1 }
    public private(set) var fields: [HeaderField] = []
    /// Whether any of them has an unusual name. Only where the limits of heads admit that.
    public private(set) var hasUnusualNames = false
    public internal(set) var connection = ConnectionOptions()
    public internal(set) var framing = ContentFraming.none
    /// Whether the client waits for 100 (Continue) before it sends the content.
    public internal(set) var expectsContinue = false
    /// The value of the one traceparent field; nil also if there are several, which say nothing together.
    public internal(set) var traceparent: ByteRange?
    var hasTraceparent = false
    /// An extended CONNECT for a WebSocket (RFC 8441). Its `method` is nil: who does not know of this refuses it.
    public internal(set) var opensWebSocket = false

    /// By which a route is chosen, and what a service of HTTP/1.1 gets: an extended CONNECT stands for the GET that opens a WebSocket
    /// there (RFC 8441 section 5). What is signed is `methodBytes`.
    public var routedMethod: Method? { opensWebSocket ? .get : method }

    /// The port that the authority states; nil if it states none.
    ///
    /// - Parameter bytes: what the ranges refer to.
    public func port(_ bytes: Span<UInt8>) -> UInt16? {
        guard authority.count > host.count else { return nil }
        // `Authority` has found digits, of at most 65535.
        var port: UInt16 = 0
        for index in (host.end + 1)..<authority.end { port = port &* 10 &+ UInt16(bytes[index] & 0x0f) }
        return port
    }

    /// The method as it was sent, for what is signed; nil for one that no route can admit.
    public var methodBytes: [UInt8]? { opensWebSocket ? Self.connect : method?.bytes }

    private static let connect = Array("CONNECT".utf8)

    public init() {}

    /// Of a request that cannot be read: of `head` only what its answer has to keep to. An answer to HEAD has no content.
    public init(unreadable head: RequestHead) {
        method = head.method == .head ? .head : nil
        version = .http2
    }

    /// Whether response trailers can be sent to the client, and it has said that it takes them: `te: trailers`, the one value that the
    /// field may have in HTTP/2 (RFC 9113 section 8.2.2).
    public var acceptsTrailers: Bool { version == .http2 && fields.contains { $0.name == .te } }

    /// Whether the client may send another request on this connection (RFC 9112 section 9.3). An HTTP/1.0 client has to
    /// ask for it with `Connection: keep-alive`; no proxy can have forwarded that, since TLS ends here.
    public var isPersistent: Bool { (minorVersion >= 1 || connection.keepAlive) && !connection.close }

    mutating func append(_ field: HeaderField, _ limits: HeadLimits) throws(MessageFault) {
        if field.hasUnusualName {
            guard limits.admitsUnusualNames else { throw .fieldNameUnusual }
            hasUnusualNames = true
        }
        fields.append(field)
    }

    mutating func reset() {
        method = nil
        query = nil
        authority = .empty
        host = .empty
        fields.removeAll(keepingCapacity: true)
        hasUnusualNames = false
        connection.reset()
        framing = .none
        expectsContinue = false
        traceparent = nil
        hasTraceparent = false
        opensWebSocket = false
    }
}

/// In which version of HTTP a request came.
public enum HTTPVersion: UInt8, CaseIterable, Sendable {
    case http10, http11, http2
}
