/// Some of an upstream's servers, by their places: one word, so that choosing costs no memory.
struct ServerSet: Equatable {
    /// Servers of one upstream at most.
    static let limit = 64

    private var bits: UInt64 = 0

    var count: Int { bits.nonzeroBitCount }
    var isEmpty: Bool { bits == 0 }

    func contains(_ place: Int) -> Bool { bits & 1 << UInt64(place) != 0 }
    mutating func insert(_ place: Int) { bits |= 1 << UInt64(place) }

    /// The lowest place; the set must not be empty.
    var first: Int { bits.trailingZeroBitCount }
    mutating func removeFirst() { bits &= bits &- 1 }

    /// The lowest place from `start` on, and if there is none, the lowest.
    func first(from start: Int) -> Int {
        let upper = bits & (UInt64.max << UInt64(start))
        return upper == 0 ? first : upper.trailingZeroBitCount
    }

    /// The place that `position` others stand before.
    func place(at position: Int) -> Int {
        var rest = self
        for _ in 0..<position { rest.removeFirst() }
        return rest.first
    }
}
