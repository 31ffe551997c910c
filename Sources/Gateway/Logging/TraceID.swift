/// Names a trace in answers, in the log and to upstreams: 128 bits, never 0, not secret. A client may have chosen it, so
/// it authenticates nothing, and may come again.
struct TraceID: Equatable {
    let high: UInt64
    let low: UInt64

    static let none = TraceID(high: 0, low: 0)
}

/// Begins traces and continues those of clients, without a system call for each: a random start and a mixed counter
/// (SplitMix64), which gives no value twice.
struct TraceGenerator {
    private let high: UInt64
    private var counter: UInt64

    /// A trace that begins here is recorded: the log does. A service that follows its parent then records it as it would
    /// if it were asked directly.
    private static let ownFlags: UInt8 = 1

    init() {
        var random = SystemRandomNumberGenerator()
        high = random.next() | 1
        counter = random.next()
    }

    mutating func begin() -> TraceContext {
        let request = nextRequest()
        return TraceContext(
            id: TraceID(high: high, low: request), request: request, flags: Self.ownFlags, isContinued: false)
    }

    mutating func `continue`(_ parent: TraceParent) -> TraceContext {
        TraceContext(id: parent.id, request: nextRequest(), flags: parent.flags, isContinued: true)
    }

    private mutating func nextRequest() -> UInt64 {
        while true {
            counter &+= 0x9e37_79b9_7f4a_7c15
            var mixed = counter
            mixed = (mixed ^ mixed >> 30) &* 0xbf58_476d_1ce4_e5b9
            mixed = (mixed ^ mixed >> 27) &* 0x94d0_49bb_1331_11eb
            mixed ^= mixed >> 31
            // One counter of 2^64 gives 0, which is no id.
            if mixed != 0 { return mixed }
        }
    }
}
