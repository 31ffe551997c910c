internal import Server

/// The buckets of one process, for all workers and all configurations it loads.
package final class SharedRates: Sendable {
    let sources = SharedBuckets(limit: 65_536)
    let devices = SharedBuckets(limit: 65_536)
    let routes = SharedBuckets(limit: 16_384)

    package init() {}
}
