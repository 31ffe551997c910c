internal import Server

/// What one process counts of clients for its limits, for all workers and all configurations it loads.
package final class SharedLimits: Sendable {
    /// Token buckets.
    let sourceRates = SharedBuckets(limit: 65_536)
    let deviceRates = SharedBuckets(limit: 65_536)
    let routeRates = SharedBuckets(limit: 16_384)
    /// What is open.
    let sources = SharedSources()
    /// Connections, by `ServerConnection.clientKey`.
    let clients = SharedCounts<Int>()
    let tunnels = SharedCounts<TunnelHolder>()

    package init() {}
}

/// What one client may have. A client is a certificate's key.
package struct ClientLimits: Equatable, Sendable {
    /// Open connections, at all workers together.
    let connections: Int
    /// Streams of HTTP/2 under way, per worker.
    let streams: Int
    /// Requests under way at one upstream, per worker.
    let requests: Int

    package init(connections: Int, streams: Int, requests: Int) {
        self.connections = connections
        self.streams = streams
        self.requests = requests
    }
}
