public import EventLoop
internal import Synchronization

/// Counts per holder, for all workers and generations together: connections of a client, WebSockets of a device.
///
/// The table is no larger than what is counted, which the workers bound.
public final class SharedCounts<Holder: Hashable & Sendable>: Sendable {
    private static var shards: Int { 16 }
    private let tables: InlineArray<16, Mutex<[Holder: Int]>> = InlineArray { _ in Mutex([:]) }

    public init() {}

    /// Counts one more.
    ///
    /// - Returns: False if the holder is at its limit; then nothing is counted. If true, `give` follows, once.
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

    /// The number of holders.
    public var holders: Int {
        var sum = 0
        for shard in 0..<Self.shards { sum += tables[shard].withLock(\.count) }
        return sum
    }

    private static func shard(of holder: Holder) -> Int { holder.hashValue & (shards - 1) }
}

/// The number of open connections and of handshakes in flight per client address, for all workers together.
///
/// Everything open is counted, with or without limits, so that a limit that is set later finds the right numbers. The
/// table is no larger than the number of connections.
public final class SharedSources: Sendable {
    /// The configured limits; nil for none.
    public struct Limits: Equatable, Sendable {
        public var connections: Int?
        public var handshakes: Int?

        public init(connections: Int? = nil, handshakes: Int? = nil) {
            self.connections = connections
            self.handshakes = handshakes
        }
    }

    private struct Counts {
        var connections = 0
        var handshakes = 0
    }

    private static let shards = 16
    private let tables: InlineArray<16, Mutex<[AddressBlock: Counts]>> = InlineArray { _ in Mutex([:]) }

    public init() {}

    /// Counts a connection whose handshake begins.
    ///
    /// - Returns: False if its source is at a limit; then nothing is counted.
    public func open(_ source: AddressBlock, _ limits: Limits) -> Bool {
        tables[Self.shard(of: source)].withLock { table in
            var counts = table[source] ?? Counts()
            guard counts.connections < limits.connections ?? .max, counts.handshakes < limits.handshakes ?? .max else {
                return false
            }
            counts.connections += 1
            counts.handshakes += 1
            table[source] = counts
            return true
        }
    }

    public func handshakeCompleted(_ source: AddressBlock) {
        tables[Self.shard(of: source)].withLock { $0[source]?.handshakes -= 1 }
    }

    /// Counts the end of a connection.
    ///
    /// - Parameter inHandshake: Whether it ended before `handshakeCompleted`.
    public func close(_ source: AddressBlock, inHandshake: Bool) {
        tables[Self.shard(of: source)].withLock { table in
            guard var counts = table[source] else { return }
            counts.connections -= 1
            if inHandshake { counts.handshakes -= 1 }
            table[source] = counts.connections > 0 ? counts : nil
        }
    }

    private static func shard(of source: AddressBlock) -> Int { source.hashValue & (shards - 1) }
}
