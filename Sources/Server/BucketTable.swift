public import EventLoop
internal import Synchronization

/// Token buckets of many clients in a table of fixed size.
///
/// An unknown client takes over the fullest of a few buckets, in its present state: if a full one is among them, it
/// is as good as new; if not, the client starts with what the previous owner has used up. Apart from time passing,
/// the fullest of those few is never fuller than before. A displaced client therefore returns to a bucket that is no
/// fuller than the one it lost, and no client can empty a bucket and get a new one by bringing a crowd.
public struct BucketTable: Sendable {
    private struct Entry {
        var owner = 0
        var bucket = TokenBucket()
    }

    private static let ways = 8
    private let sets: Int
    /// Allocated at the first use.
    private var entries: [Entry] = []

    /// Creates an empty table.
    ///
    /// - Parameter limit: The maximum of buckets; each has 16 bytes.
    public init(limit: Int) {
        sets = max(1, limit / Self.ways)
    }

    /// Takes a token from a client's bucket. A refusal changes nothing.
    ///
    /// - Parameter owner: The client's `hashValue`. Its seed belongs to this process, so no client can choose its
    ///   bucket or the few candidates.
    /// - Returns: Nil if there was a token; otherwise the time until there is one.
    public mutating func take(of owner: Int, _ rate: Rate, now: Instant) -> TimeSpan? {
        if entries.isEmpty { entries = Array(repeating: Entry(), count: sets * Self.ways) }
        // The low bits may have chosen the table.
        let first = Int((UInt(bitPattern: owner) >> 8) % UInt(sets)) * Self.ways
        var place = first
        for candidate in first..<(first + Self.ways) {
            if entries[candidate].owner == owner {
                place = candidate
                break
            }
            if entries[candidate].bucket.fullAt < entries[place].bucket.fullAt { place = candidate }
        }
        if let wait = entries[place].bucket.take(rate, now: now) { return wait }
        entries[place].owner = owner
        return nil
    }
}

/// Token buckets shared by all workers, so that a rate does not depend on which worker has a connection.
///
/// If the rate were divided by the number of workers, a phone with one connection would get only a part of it; if
/// each worker counted alone, a client with many connections would get a multiple. Sharing costs a lock of a few
/// instructions, and only where a rate is set.
public final class SharedBuckets: Sendable {
    private static let shards = 16
    private let tables: InlineArray<16, Mutex<BucketTable>>

    /// Creates an empty table.
    ///
    /// - Parameter limit: The maximum of buckets; each has 16 bytes.
    public init(limit: Int) {
        tables = InlineArray { _ in Mutex(BucketTable(limit: limit / Self.shards)) }
    }

    /// Takes a token from a client's bucket; see `BucketTable.take`.
    public func take(of owner: Int, _ rate: Rate, now: Instant) -> TimeSpan? {
        tables[owner & (Self.shards - 1)].withLock { $0.take(of: owner, rate, now: now) }
    }
}
