internal import Bytes

/// What one worker has counted of one server since it began.
public struct ServerCounts: Sendable {
    /// Requests that began there: one that was tried at two servers counts for both.
    public internal(set) var requests: UInt64 = 0
    /// By the raw value of the kind.
    public internal(set) var failures = [UInt64](repeating: 0, count: UpstreamFailure.Kind.allCases.count)
    public internal(set) var ejections: UInt64 = 0
    public internal(set) var checksPassed: UInt64 = 0
    public internal(set) var checksFailed: UInt64 = 0

    public init() {}

    public mutating func add(_ other: ServerCounts) {
        requests += other.requests
        for place in failures.indices { failures[place] += other.failures[place] }
        ejections += other.ejections
        checksPassed += other.checksPassed
        checksFailed += other.checksFailed
    }
}

/// A server's failure of a request, or of a check of its health.
public struct ServerFailure: Sendable {
    public let failure: HealthCheckFailure
    /// Seconds since 1970-01-01T00:00:00Z.
    public let at: Int64
}

/// Where a worker counts what happens at a server. It outlives the pools, whose generations come and go.
public final class ServerTally {
    public internal(set) var counts: ServerCounts {
        _read {
            var borrowed = keptCounts.borrow()
            defer { keptCounts.end(&borrowed) }
            yield borrowed.value
        }
        @inline(__always) _modify {
            var borrowed = keptCounts.borrow()
            defer { keptCounts.end(&borrowed) }
            yield &borrowed.value
        }
    }
    /// Nil while there was none.
    public internal(set) var lastFailure: ServerFailure?
    private var keptCounts = Borrowable(ServerCounts())

    public init() {}
}
