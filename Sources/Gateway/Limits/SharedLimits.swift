internal import Server

/// What is counted and remembered of clients, for all workers and all configurations of a process.
package final class SharedLimits: Sendable {
    /// Token buckets.
    let sourceRates = SharedBuckets(limit: 65_536)
    let deviceRates = SharedBuckets(limit: 65_536)
    let routeRates = SharedBuckets(limit: 16_384)
    /// Open connections.
    let sources = SharedSources()
    /// Connections, by `ServerConnection.clientKey`.
    let clients = SharedCounts<Int>()
    let tunnels = SharedCounts<TunnelHolder>()
    let attestations = SharedAttestations()

    package init() {}
}

/// The limits of a client, which is a certificate's key, or without a certificate an address.
package struct ClientLimits: Equatable, Sendable {
    /// Open connections, for all workers together.
    let connections: Int
    /// Streams of HTTP/2 in flight, per worker.
    let streams: Int
    /// Requests in flight at one upstream, per worker.
    let requests: Int

    package init(connections: Int, streams: Int, requests: Int) {
        self.connections = connections
        self.streams = streams
        self.requests = requests
    }
}

/// The number of requests in flight per client in a worker, in total or per upstream, so that a client with many
/// streams, none of which it reads, cannot use what others need. A client is a certificate's key, which belongs to
/// one device at most, or without a certificate an address.
///
/// The table has a fixed size, because it is used with every request: clients with the same place share it.
struct ClientShares {
    /// A place in the table, taken once.
    struct Share {
        fileprivate let place: Int
    }

    private let limit: UInt16
    private var counts: [UInt16]

    /// 128 KiB.
    static let places = 65_536

    /// Creates an empty table.
    ///
    /// - Parameter limit: The maximum of requests per client; at most 65,535.
    init(limit: Int) {
        self.limit = UInt16(limit)
        counts = Array(repeating: 0, count: Self.places)
    }

    /// Takes a share.
    ///
    /// - Parameter key: The client's hash, with a secret seed.
    /// - Returns: Nil if the client is at its limit.
    mutating func take(of upstream: Int, for key: Int) -> Share? {
        let share = Self.share(of: upstream, for: key)
        guard counts[share.place] < limit else { return nil }
        counts[share.place] += 1
        return share
    }

    mutating func give(_ share: Share) {
        counts[share.place] -= 1
    }

    /// Returns whether one more may be taken.
    func isFree(_ share: Share) -> Bool { counts[share.place] < limit }

    static func share(of upstream: Int, for key: Int) -> Share {
        // Upstreams are few: an odd factor moves each to different places.
        Share(place: Int(UInt(bitPattern: key &+ upstream &* 40_503) % UInt(places)))
    }
}
