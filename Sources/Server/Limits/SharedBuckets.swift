public import EventLoop
internal import Synchronization

/// Token buckets that all workers take from, so that a rate means the same whichever of them a connection has come to.
///
/// Divided by the number of workers, a phone with one connection would get a part of what it may have; counted by each, a
/// client with many connections as many times that. What is shared costs a lock of a few instructions, and only where a
/// rate is set.
public final class SharedBuckets: Sendable {
    private static let shards = 16
    private let tables: InlineArray<16, Mutex<BucketTable>>

    /// - Parameter limit: of buckets, 16 bytes each.
    public init(limit: Int) {
        tables = InlineArray { _ in Mutex(BucketTable(limit: limit / Self.shards)) }
    }

    /// Takes a token of somebody's bucket, as `BucketTable` does.
    public func take(of owner: Int, _ rate: Rate, now: Instant) -> TimeSpan? {
        tables[owner & (Self.shards - 1)].withLock { $0.take(of: owner, rate, now: now) }
    }
}
