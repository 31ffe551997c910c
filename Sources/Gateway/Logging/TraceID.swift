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
    /// Of the traces that begin here, one in so many is recorded; nil if spans are not exported.
    private let sample: UInt64?

    init(sample: UInt64? = nil) {
        self.sample = sample
        var random = SystemRandomNumberGenerator()
        high = random.next() | 1
        counter = random.next()
    }

    mutating func begin() -> TraceContext {
        let request = nextID()
        // Ids of our own: nobody else chooses.
        let isRecorded = sample.map { request % $0 == 0 } ?? false
        // Where no spans are exported, the log records every trace. A service that follows its parent then records it as it
        // would if it were asked directly.
        let flags = isRecorded || sample == nil ? TraceParent.sampled : 0
        return TraceContext(
            id: TraceID(high: high, low: request), request: request, flags: flags, parent: 0, isRecorded: isRecorded)
    }

    /// The client has decided whether the trace is recorded: a part of one that others leave out, or one with a hole, is of no
    /// use. It decides over spans alone, for logs and metrics leave nothing out; and over no more of them than are recorded in a
    /// second.
    mutating func `continue`(_ parent: TraceParent) -> TraceContext {
        TraceContext(
            id: parent.id, request: nextID(), flags: parent.flags, parent: parent.parent,
            isRecorded: sample != nil && parent.isSampled)
    }

    /// For a span: not 0, and no other's.
    mutating func nextID() -> UInt64 {
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
