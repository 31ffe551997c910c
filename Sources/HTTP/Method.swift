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
