public import EventLoop

/// The token buckets of many, in memory that never grows.
///
/// An unknown client takes over the fullest bucket of a few, as it is: a full one if there is one, as good as new; if
/// not, the newcomer starts with what its owner has used up. Apart from time passing, the fullest of those few is never
/// fuller than before. A displaced client therefore returns to a bucket that is no fuller than the one it lost. No
/// client can empty a bucket and get a new one by bringing a crowd.
public struct BucketTable: Sendable {
    private struct Entry {
        var owner = 0
        var bucket = TokenBucket()
    }

    private static let ways = 8
    private let sets: Int
    /// Made when they are needed first.
    private var entries: [Entry] = []

    /// - Parameter limit: of buckets, 16 bytes each.
    public init(limit: Int) {
        sets = max(1, limit / Self.ways)
    }

    /// Takes a token of somebody's bucket.
    ///
    /// - Parameter owner: whose, as his `hashValue`: it is made with a key of this process, so that nobody can choose whose
    ///   bucket, or whose few, he gets.
    /// - Returns: nil if there was one; else how long until there is. Who is refused changes nothing.
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
