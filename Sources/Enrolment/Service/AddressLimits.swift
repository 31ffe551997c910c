package import EventLoop
internal import Server

/// The limits of one client address: a token bucket of requests, and a number of open connections.
///
/// The memory is limited. If there are more addresses than buckets, some share one.
package struct AddressLimits {
    /// The configured limits. Nil for no limit.
    package struct Rates: Equatable, Sendable {
        /// The rate of requests, and the size of the burst.
        package var requestsPerMinute: Int?
        package var connections: Int?

        package init(requestsPerMinute: Int? = nil, connections: Int? = nil) {
            self.requestsPerMinute = requestsPerMinute
            self.connections = connections
        }
    }

    private var buckets: BucketTable
    /// The open connections by address. The server limits their sum.
    private let connections = SharedCounts<AddressBlock>()

    /// Creates buckets.
    ///
    /// - Parameter limit: The number of buckets, 16 bytes each.
    package init(limit: Int = 32_768) {
        buckets = BucketTable(limit: limit)
    }

    /// Counts one request.
    ///
    /// - Returns: nil if it is permitted, else the number of seconds until one is.
    package mutating func takeRequest(of client: AddressBlock, _ rates: Rates, now: Instant) -> Int? {
        guard let perMinute = rates.requestsPerMinute else { return nil }
        let rate = Rate(perMinute, per: .seconds(60), burst: perMinute)
        return buckets.take(of: client.hashValue, rate, now: now)?.wholeSeconds
    }

    /// Counts one more connection if it is permitted.
    ///
    /// - Returns: whether it is permitted.
    package func openConnection(of client: AddressBlock, _ rates: Rates) -> Bool {
        connections.take(for: client, limit: rates.connections ?? .max)
    }

    package func closeConnection(of client: AddressBlock) { connections.give(of: client) }
}
