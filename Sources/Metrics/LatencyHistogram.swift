/// How often something took how long, in fixed buckets: recording is an addition, and histograms of several workers add up.
public struct LatencyHistogram: Sendable {
    /// The longest time that each bucket but the last counts, in nanoseconds: 50 us to 10 s.
    public static let bounds: [Int64] = [
        50_000, 100_000, 200_000, 500_000, 1_000_000, 2_000_000, 5_000_000, 10_000_000, 20_000_000, 50_000_000,
        100_000_000, 200_000_000, 500_000_000, 1_000_000_000, 2_000_000_000, 5_000_000_000, 10_000_000_000,
    ]

    /// In the value itself, so that a copy for a scrape shares nothing with the worker, which continues to record.
    private var counts = InlineArray<18, UInt64>(repeating: 0)
    /// Of all times recorded, in nanoseconds.
    public private(set) var sum: Int64 = 0

    public init() {}

    /// - Parameter nanoseconds: a negative time, which only a clock's fault could make, counts as none.
    public mutating func record(nanoseconds: Int64) {
        var bucket = 0
        while bucket < Self.bounds.count, nanoseconds > Self.bounds[bucket] { bucket += 1 }
        counts[bucket] += 1
        sum &+= max(0, nanoseconds)
    }

    public mutating func add(_ other: LatencyHistogram) {
        for bucket in counts.indices { counts[bucket] += other.counts[bucket] }
        sum &+= other.sum
    }

    /// How often each bucket was met; one more than there are bounds.
    public var buckets: [UInt64] { counts.indices.map { counts[$0] } }
}
