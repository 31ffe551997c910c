/// Names one request in the answer and in the log: 128 bits, never 0, unique, not secret.
struct TraceID: Equatable {
    let high: UInt64
    let low: UInt64

    static let none = TraceID(high: 0, low: 0)
}

/// Makes trace ids without a system call each: a random start and a mixed counter (SplitMix64).
struct TraceIDGenerator {
    private let high: UInt64
    private var counter: UInt64

    init() {
        var random = SystemRandomNumberGenerator()
        high = random.next() | 1
        counter = random.next()
    }

    mutating func next() -> TraceID {
        counter &+= 0x9e37_79b9_7f4a_7c15
        var mixed = counter
        mixed = (mixed ^ mixed >> 30) &* 0xbf58_476d_1ce4_e5b9
        mixed = (mixed ^ mixed >> 27) &* 0x94d0_49bb_1331_11eb
        return TraceID(high: high, low: mixed ^ mixed >> 31)
    }
}
