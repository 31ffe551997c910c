package import Bytes
internal import Encoding

/// The position of a request in a distributed trace (W3C Trace Context): its trace, and its id in the trace.
package struct TraceContext: Equatable {
    package let id: TraceID
    /// The id of the request in the trace. The gateway chooses it: unique, and not 0. It is the parent id for the
    /// upstream, and `request_id` in the log.
    package let request: UInt64
    /// The trace flags. Bit 0 says that the trace is recorded.
    package let flags: UInt8
    /// The parent id of the client's traceparent field, 0 if the trace begins here. If it is not 0, the client's
    /// tracestate field may be forwarded.
    package let parent: UInt64
    /// Whether spans of the request are exported.
    package let isRecorded: Bool

    @inlinable
    package init(id: TraceID, request: UInt64, flags: UInt8, parent: UInt64, isRecorded: Bool) {
        self.id = id
        self.request = request
        self.flags = flags
        self.parent = parent
        self.isRecorded = isRecorded
    }

    package var isContinued: Bool { parent != 0 }

    package static let none = TraceContext(id: .none, request: 0, flags: 0, parent: 0, isRecorded: false)

    /// Writes the traceparent field for the upstream, in version 00. No text of the client is forwarded.
    package func append(to output: inout ByteBuffer) {
        output.append("traceparent: 00-", sixteen: id.high)
        output.append("", sixteen: id.low)
        output.append("-", sixteen: request)
        output.append("-")
        output.append(hex: UInt64(flags), digits: 2)
        output.append("\r\n")
    }
}

/// The traceparent field of a client: the trace to which its request belongs.
package struct TraceParent: Equatable {
    package let id: TraceID
    /// Not 0.
    package let parent: UInt64
    package let flags: UInt8

    package var isSampled: Bool { flags & Self.sampled != 0 }

    /// The length of version, trace id, parent id and flags, with hyphens.
    private static let length = 55
    private static let hyphen = UInt8(ascii: "-")
    /// The known flags: sampled, and in version 00 also random (level 2, section 3.2.2.5).
    @inlinable package static var sampled: UInt8 { 1 }
    private static let random: UInt8 = 2

    /// Parses the value of the field.
    ///
    /// - Returns: nil unless the value is valid by section 3.2: digits are lower-case, no id is 0, the version is not ff,
    ///   and version 00 has no further byte. Later versions may continue after a hyphen (section 4).
    package init?(_ value: Span<UInt8>) {
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
            guard let digit = Hexadecimal.value(lowercase: bytes[index]) else { return nil }
            number = number << 4 | UInt64(digit)
        }
        return number
    }
}

/// The id of a trace in responses, in the log and for upstreams: 128 bits, not 0, not secret. A client may have chosen
/// it, so it authenticates nothing and need not be unique.
package struct TraceID: Equatable {
    package let high: UInt64
    package let low: UInt64

    @inlinable
    package init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }

    package static let none = TraceID(high: 0, low: 0)
}

/// A generator of trace contexts, for traces that begin here and for those of clients.
///
/// It makes no system call per request: ids come from a random start and a mixed counter (SplitMix64), which returns no
/// value twice.
package struct TraceGenerator {
    @usableFromInline let high: UInt64
    @usableFromInline var counter: UInt64
    /// One in this number of the traces that begin here is recorded. Nil if spans are not exported.
    @usableFromInline let sample: UInt64?

    package init(sample: UInt64? = nil) {
        self.sample = sample
        var random = SystemRandomNumberGenerator()
        high = random.next() | 1
        counter = random.next()
    }

    @inlinable
    package mutating func begin() -> TraceContext {
        let request = nextID()
        // The gateway's own ids decide, so no client can.
        let isRecorded = sample.map { request % $0 == 0 } ?? false
        // Without export of spans, the log records every trace. A service that follows its parent then records the trace
        // as it does for a direct request.
        let flags = isRecorded || sample == nil ? TraceParent.sampled : 0
        return TraceContext(
            id: TraceID(high: high, low: request), request: request, flags: flags, parent: 0, isRecorded: isRecorded)
    }

    /// Continues the trace of a client, which has decided whether it is recorded: parts of traces are useless.
    ///
    /// The decision is about spans only, because logs and metrics omit nothing. The number of recorded requests per second
    /// is limited.
    package mutating func `continue`(_ parent: TraceParent) -> TraceContext {
        TraceContext(
            id: parent.id, request: nextID(), flags: parent.flags, parent: parent.parent,
            isRecorded: sample != nil && parent.isSampled)
    }

    /// Returns an id for a span: unique, and not 0.
    @inlinable
    package mutating func nextID() -> UInt64 {
        while true {
            counter &+= 0x9e37_79b9_7f4a_7c15
            var mixed = counter
            mixed = (mixed ^ mixed >> 30) &* 0xbf58_476d_1ce4_e5b9
            mixed = (mixed ^ mixed >> 27) &* 0x94d0_49bb_1331_11eb
            mixed ^= mixed >> 31
            // One of 2^64 values of the counter gives 0, which is not an id.
            if mixed != 0 { return mixed }
        }
    }
}
