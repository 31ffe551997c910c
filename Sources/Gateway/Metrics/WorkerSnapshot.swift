/// One worker's counts, and what it holds, at one moment: what it sends to whoever scrapes.
struct WorkerSnapshot: Sendable {
    struct Upstream: Sendable {
        let name: String
        /// Connections that serve a request.
        var busy: Int
        /// Connections kept for the next one.
        var idle: Int
    }

    let counts: WorkerCounts
    /// The number of the generation that it serves.
    let generation: Int
    /// Earlier ones that still have connections.
    let retiredGenerations: Int
    let connections: Int
    /// Of all its generations: a name may be there several times.
    let upstreams: [Upstream]
    /// Blocks of 32 KiB that hold bytes on their way.
    let buffersInUse: Int
    /// Blocks kept for the next ones.
    let buffersIdle: Int
}
