/// A parsed request head, with ranges into the bytes from which it was parsed. The caller keeps them.
///
/// One value serves all requests of a connection; its arrays keep their capacity.
public struct RequestHead: ScannedHead, Sendable {
    /// The method. Nil for a method that no route can admit.
    public internal(set) var method: Method?
    public internal(set) var path = ByteRange.empty
    /// The query without the `?`. Nil if the target has none.
    public internal(set) var query: ByteRange?
    /// The forms of path and query beyond the strict spelling. Only those that the limits of heads admit; the caller
    /// decides which of them its route admits.
    public internal(set) var targetForms: TargetForms = []
    /// The byte for which the target was refused. Nil unless it was.
    public internal(set) var targetFault: TargetFault?
    /// The host and port from the Host field, or from `:authority` in HTTP/2.
    public internal(set) var authority = ByteRange.empty
    /// The host without the port.
    public internal(set) var host = ByteRange.empty
    /// The port that the authority states. Nil if it states none.
    public internal(set) var port: UInt16?
    public internal(set) var version = HTTPVersion.http11
    /// The minor version: 0 for HTTP/1.0, 1 for all later versions.
    public var minorVersion: UInt8 { version == .http10 ? 0 : 1 }
    public private(set) var fields: [HeaderField] = []
    /// Whether a field has an unusual name. Only if the limits of heads admit that.
    public private(set) var hasUnusualNames = false
    public internal(set) var connection = ConnectionOptions()
    public internal(set) var framing = ContentFraming.none
    /// Whether the client waits for 100 (Continue) before it sends the content.
    public internal(set) var expectsContinue = false
    /// The value of the one traceparent field. Nil also if there are several, which are invalid together.
    public internal(set) var traceparent: ByteRange?
    var hasTraceparent = false
    /// Whether this is an extended CONNECT for a WebSocket (RFC 8441). Its `method` is nil, so code without support for
    /// it refuses it.
    public internal(set) var opensWebSocket = false

    /// The method that selects a route and that an HTTP/1.1 service gets. An extended CONNECT stands for the GET that
    /// opens a WebSocket (RFC 8441 section 5). Signatures cover `methodBytes`.
    public var routedMethod: Method? { opensWebSocket ? .get : method }

    /// The method as it was sent, for signatures. Nil for a method that no route can admit.
    public var methodBytes: [UInt8]? { opensWebSocket ? Self.connect : method?.bytes }

    private static let connect = Array("CONNECT".utf8)

    public init() {}

    /// Creates the head of an unreadable request. It has only what the answer and its log line depend on: a response
    /// to HEAD has no content.
    public init(unreadable head: RequestHead) {
        method = head.method == .head ? .head : nil
        version = .http2
        targetFault = head.targetFault
    }

    /// Whether response trailers can be sent to the client, and it accepts them: `te: trailers`, the only value of the
    /// field in HTTP/2 (RFC 9113 section 8.2.2).
    public var acceptsTrailers: Bool { version == .http2 && fields.contains { $0.name == .te } }

    /// Whether the client may send another request on this connection (RFC 9112 section 9.3). An HTTP/1.0 client must
    /// ask for it with `Connection: keep-alive`. No proxy can have forwarded that, since TLS ends here.
    public var isPersistent: Bool { (minorVersion >= 1 || connection.keepAlive) && !connection.close }

    /// Takes the path and the query of a target.
    ///
    /// - Parameters:
    ///   - target: the path, and what follows it.
    ///   - bytes: the bytes to which the range refers.
    ///   - admitted: the forms that are accepted beyond the strict spelling.
    mutating func take(
        target: ByteRange, _ bytes: Span<UInt8>, admitting admitted: TargetForms
    ) throws(MessageFault) {
        var pathEnd = target.start
        while pathEnd < target.end, bytes[pathEnd] != UInt8(ascii: "?") { pathEnd += 1 }
        path = ByteRange(target.start, pathEnd)
        guard !path.isEmpty, bytes[target.start] == UInt8(ascii: "/") else { throw .targetForm }
        do throws(TargetFault) {
            targetForms = try TargetSpelling.check(path: path.of(bytes), admitting: admitted)
            guard pathEnd < target.end else { return }
            let range = ByteRange(pathEnd + 1, target.end)
            query = range
            targetForms.formUnion(
                try TargetSpelling.check(query: range.of(bytes), at: path.count + 1, admitting: admitted))
        } catch {
            targetFault = error
            throw error.kind
        }
    }

    /// Returns the first byte for which a target is refused that has other forms than the admitted ones.
    ///
    /// - Parameter bytes: the bytes to which the ranges refer.
    public func targetFault(_ bytes: Span<UInt8>, admitting admitted: TargetForms) -> TargetFault {
        do throws(TargetFault) {
            _ = try TargetSpelling.check(path: path.of(bytes), admitting: admitted)
            if let query {
                _ = try TargetSpelling.check(query: query.of(bytes), at: path.count + 1, admitting: admitted)
            }
            return TargetFault(.pathSpelling, UInt8(ascii: "/"), at: 0)
        } catch {
            return error
        }
    }

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
        targetForms = []
        targetFault = nil
        authority = .empty
        host = .empty
        port = nil
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

/// The HTTP version of a request.
public enum HTTPVersion: UInt8, CaseIterable, Sendable {
    case http10, http11, http2
}

/// The request methods that a route can admit. All others are refused before routing.
public enum Method: UInt8, CaseIterable, Sendable {
    case get, head, post, put, patch, delete, options

    /// The method in a request. Methods are case-sensitive (RFC 9110 section 9.1).
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

    /// The method in bytes, for signatures.
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

/// The limits of a message head.
public struct HeadLimits: Sendable {
    /// The maximum size of the whole head in bytes, including the final empty line; at most 65,535 (`ByteRange`).
    public let bytes: Int
    /// The maximum size of the request target in bytes.
    public let target: Int
    /// The maximum number of field lines.
    public let fields: Int
    /// Whether field names may have characters other than letters, digits and `-`. The head then reports it, and the
    /// caller decides.
    public let admitsUnusualNames: Bool
    /// The forms of targets that are accepted beyond the strict spelling. The head then reports them, and the caller
    /// decides.
    public let targetForms: TargetForms

    public init(
        bytes: Int, target: Int, fields: Int, admitsUnusualNames: Bool = false, targetForms: TargetForms = []
    ) {
        precondition(bytes <= 65_535, "ranges of a head are 16 bits wide")
        self.bytes = bytes
        self.target = target
        self.fields = fields
        self.admitsUnusualNames = admitsUnusualNames
        self.targetForms = targetForms
    }

    /// The limits for response heads of upstreams, and for tests.
    public static let standard = HeadLimits(bytes: 16 * 1024, target: 8 * 1024, fields: 100)
}

/// The progress of parsing a head.
public enum HeadProgress: Equatable, Sendable {
    /// More bytes are needed.
    case incomplete
    /// The head is complete and has this many bytes; content follows.
    case complete(length: Int)
}
