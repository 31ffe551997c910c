internal import Bytes
internal import Registry
internal import Upstream

/// Content that is held until it is known to be what the proof says, within the worker's budget.
struct CollectedContent: ~Copyable {
    private var chain: BufferChain
    private let budget: ContentBudget
    private let device: DeviceID

    init(from device: DeviceID, pool: BufferPool, budget: ContentBudget) {
        chain = BufferChain(pool: pool)
        self.budget = budget
        self.device = device
    }

    deinit {
        budget.give(chain.count, of: device)
    }

    /// Bytes of memory that the content holds in blocks.
    var footprint: Int { chain.footprint }
    /// Octets that are held.
    var count: Int { chain.count }
    /// Octets that were ever appended.
    private(set) var length = 0

    /// - Returns: false if the budget is used up; nothing was taken then.
    mutating func append(_ content: Span<UInt8>) -> Bool {
        guard budget.take(content.count, for: device) else { return false }
        chain.append(content)
        length += content.count
        return true
    }

    /// Moves as much as fits. - Returns: whether that was all.
    mutating func release(into sink: some ContentSink) -> Bool {
        while !chain.isEmpty {
            let offered = chain.frontCount
            let taken = sink.write(prefixOf: chain.front)
            chain.consume(taken)
            budget.give(taken, of: device)
            if taken < offered { return false }
        }
        return true
    }
}
