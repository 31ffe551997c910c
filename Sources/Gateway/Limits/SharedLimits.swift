internal import Server

/// What one process counts of clients for its limits, for all workers and all configurations it loads.
package final class SharedLimits: Sendable {
    /// Token buckets.
    let sourceRates = SharedBuckets(limit: 65_536)
    let deviceRates = SharedBuckets(limit: 65_536)
    let routeRates = SharedBuckets(limit: 16_384)
    /// What is open.
    let sources = SharedSources()
    let tunnels = SharedTunnels()

    package init() {}
}
