internal import Synchronization

/// How many of something each holder has, at all workers and in all generations together: connections of a client,
/// WebSockets of a device.
///
/// No larger than what is counted, which the workers bound.
public final class SharedCounts<Holder: Hashable & Sendable>: Sendable {
    private static var shards: Int { 16 }
    private let tables: InlineArray<16, Mutex<[Holder: Int]>> = InlineArray { _ in Mutex([:]) }

    public init() {}

    /// Counts one more.
    ///
    /// - Returns: false if the holder has as many as it may; then nothing is counted. If true, `give` follows, once.
    public func take(for holder: Holder, limit: Int) -> Bool {
        tables[Self.shard(of: holder)].withLock { counts in
            let held = counts[holder] ?? 0
            guard held < limit else { return false }
            counts[holder] = held + 1
            return true
        }
    }

    public func give(of holder: Holder) {
        tables[Self.shard(of: holder)].withLock { counts in
            guard let held = counts[holder] else { return }
            counts[holder] = held > 1 ? held - 1 : nil
        }
    }

    /// How many have one.
    public var holders: Int {
        var sum = 0
        for shard in 0..<Self.shards { sum += tables[shard].withLock(\.count) }
        return sum
    }

    private static func shard(of holder: Holder) -> Int { holder.hashValue & (shards - 1) }
}
