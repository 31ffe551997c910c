/// How large a message head may be.
public struct HeadLimits: Sendable {
    /// Bytes of the whole head, the final empty line included; at most 65,535 (`ByteRange`).
    public let bytes: Int
    /// Bytes of the request target.
    public let target: Int
    /// Number of field lines.
    public let fields: Int

    public init(bytes: Int, target: Int, fields: Int) {
        precondition(bytes <= 65_535, "ranges of a head are 16 bits wide")
        self.bytes = bytes
        self.target = target
        self.fields = fields
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
