public import EventLoop
internal import Synchronization

/// How many connections each client address has open, and how many of them are still in their handshakes, at all workers
/// together.
///
/// Everything open is counted, whether there are limits or not, so that a limit that is set later finds the truth. No larger
/// than the number of connections.
public final class SharedSources: Sendable {
    /// What a configuration sets; nil for no limit.
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
    /// - Returns: false if its source has as many as it may; then nothing is counted.
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

    /// - Parameter inHandshake: whether the connection ended before `handshakeCompleted`.
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
