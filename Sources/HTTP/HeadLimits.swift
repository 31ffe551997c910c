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
