/// A parsed response head: ranges into the bytes it was parsed from.
public struct ResponseHead: Sendable {
    public internal(set) var status: UInt16 = 0
    public internal(set) var minorVersion: UInt8 = 1
    public internal(set) var fields: [HeaderField] = []
    public internal(set) var connection = ConnectionOptions()
    public internal(set) var framing = ContentFraming.none
    /// Content-Length as sent; with HEAD and 304 it tells of content that does not follow.
    public internal(set) var statedLength: UInt64?

    /// Whether the head speaks of chunked content, even where none follows.
    public internal(set) var statesChunked = false

    public init() {}

    /// Whether the connection can serve another request after this response.
    public var isPersistent: Bool {
        framing != .untilClose && !connection.close && (minorVersion >= 1 || connection.keepAlive)
    }

    public var isInterim: Bool { status < 200 }

    mutating func reset() {
        fields.removeAll(keepingCapacity: true)
        connection.reset()
        framing = .none
        statedLength = nil
        statesChunked = false
    }
}
