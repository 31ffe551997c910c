internal import Bytes

/// Where a request stands in a distributed trace (W3C Trace Context): which trace it belongs to, and what it is called
/// within it.
struct TraceContext: Equatable {
    let id: TraceID
    /// The request's own id, never the client's: unique, not 0. The upstream gets it as its parent, and the log has it as
    /// `request_id`.
    let request: UInt64
    /// Bit 0: the trace is recorded.
    let flags: UInt8
    /// What the client calls its part of the trace, which it began: what else it says of it (tracestate) may be passed on. 0 if
    /// the trace began here.
    let parent: UInt64
    /// Spans of the request are exported.
    let isRecorded: Bool

    var isContinued: Bool { parent != 0 }

    static let none = TraceContext(id: .none, request: 0, flags: 0, parent: 0, isRecorded: false)

    /// The whole traceparent field for the upstream, in version 00: nothing of the client's spelling is passed on.
    func append(to output: inout ByteBuffer) {
        output.append("traceparent: 00-", sixteen: id.high)
        output.append("", sixteen: id.low)
        output.append("-", sixteen: request)
        output.append("-")
        output.append(hex: UInt64(flags), digits: 2)
        output.append("\r\n")
    }
}

/// What a client says in its traceparent field: the trace that its request belongs to.
struct TraceParent: Equatable {
    let id: TraceID
    /// Never 0.
    let parent: UInt64
    let flags: UInt8

    var isSampled: Bool { flags & Self.sampled != 0 }

    /// version, trace id, parent id and flags, with their hyphens.
    private static let length = 55
    private static let hyphen = UInt8(ascii: "-")
    /// The flags that are known: sampled, and of version 00 also random (level 2, section 3.2.2.5).
    static let sampled: UInt8 = 1
    private static let random: UInt8 = 2

    /// - Parameter value: of the field. Nil unless it is valid by section 3.2: lower-case digits alone, neither id 0, version
    ///   not ff, and of version 00 not an octet more. Later versions may go on after a hyphen (section 4).
    init?(_ value: Span<UInt8>) {
        guard value.count >= Self.length, value[2] == Self.hyphen, value[35] == Self.hyphen, value[52] == Self.hyphen,
            let version = Self.number(value, 0..<2), version != 0xff,
            value.count == Self.length || version != 0 && value[Self.length] == Self.hyphen,
            let high = Self.number(value, 3..<19), let low = Self.number(value, 19..<35), high | low != 0,
            let parent = Self.number(value, 36..<52), parent != 0, let flags = Self.number(value, 53..<55)
        else { return nil }
        id = TraceID(high: high, low: low)
        self.parent = parent
        self.flags = UInt8(flags) & (version == 0 ? Self.sampled | Self.random : Self.sampled)
    }

    private static func number(_ bytes: Span<UInt8>, _ range: Range<Int>) -> UInt64? {
        var number: UInt64 = 0
        for index in range {
            switch bytes[index] {
            case let byte where UInt8(ascii: "0")...UInt8(ascii: "9") ~= byte:
                number = number << 4 | UInt64(byte - UInt8(ascii: "0"))
            case let byte where UInt8(ascii: "a")...UInt8(ascii: "f") ~= byte:
                number = number << 4 | UInt64(byte - UInt8(ascii: "a") + 10)
            default: return nil
            }
        }
        return number
    }
}
