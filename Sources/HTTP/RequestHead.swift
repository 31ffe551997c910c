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

/// The request methods a route can admit. Everything else is refused before routing.
public enum Method: UInt8, CaseIterable, Sendable {
    case get, head, post, put, patch, delete, options

    /// The method as it stands on the wire. Methods are case-sensitive (RFC 9110 section 9.1).
    public var name: StaticString {
        switch self {
        case .get: "GET"
        case .head: "HEAD"
        case .post: "POST"
        case .put: "PUT"
        case .patch: "PATCH"
        case .delete: "DELETE"
        case .options: "OPTIONS"
        }
    }

    /// The same in bytes, for what is signed.
    public var bytes: [UInt8] { Self.spellings[Int(rawValue)] }

    private static let spellings = allCases.map { Array(String(describing: $0.name).utf8) }

    /// Whether sending the request twice has the effect of sending it once (RFC 9110 section 9.2.2).
    public var isIdempotent: Bool { self != .post && self != .patch }

    init?(_ bytes: Span<UInt8>) {
        guard (3...7).contains(bytes.count) else { return nil }
        // At most seven bytes, so the name fits one word and is compared at once.
        var word: UInt64 = 0
        for index in bytes.indices { word = word << 8 | UInt64(bytes[index]) }
        switch word {
        case 0x474554: self = .get
        case 0x4845_4144: self = .head
        case 0x504f_5354: self = .post
        case 0x505554: self = .put
        case 0x50_4154_4348: self = .patch
        case 0x4445_4c45_5445: self = .delete
        case 0x4f_5054_494f_4e53: self = .options
        default: return nil
        }
    }
}

/// A set of methods, for routes.
public struct MethodSet: OptionSet, Sendable {
    public let rawValue: UInt8

    public init(rawValue: UInt8) {
        self.rawValue = rawValue
    }

    public init(_ methods: some Sequence<Method>) {
        rawValue = methods.reduce(0) { $0 | 1 << $1.rawValue }
    }

    public func contains(_ method: Method) -> Bool { rawValue & 1 << method.rawValue != 0 }
}

/// How large a message head may be.
public struct HeadLimits: Sendable {
    /// Bytes of the whole head, the final empty line included; at most 65,535 (`ByteRange`).
    public let bytes: Int
    /// Bytes of the request target.
    public let target: Int
    /// Number of field lines.
    public let fields: Int
    /// Whether names of fields may have characters other than letters, digits and `-`. The head then states it, and the caller
    /// decides.
    public let admitsUnusualNames: Bool

    public init(bytes: Int, target: Int, fields: Int, admitsUnusualNames: Bool = false) {
        precondition(bytes <= 65_535, "ranges of a head are 16 bits wide")
        self.bytes = bytes
        self.target = target
        self.fields = fields
        self.admitsUnusualNames = admitsUnusualNames
    }

    /// For response heads of upstreams, and for tests.
    public static let standard = HeadLimits(bytes: 16 * 1024, target: 8 * 1024, fields: 100)
}

/// How far a head has been parsed.
public enum HeadProgress: Equatable, Sendable {
    /// More bytes are needed.
    case incomplete
    /// The head is complete and this many bytes long; content follows.
    case complete(length: Int)
}
