/// One worker's counts, and what it holds, at one moment: what it sends to whoever scrapes.
package struct WorkerSnapshot: Sendable {
    package struct Upstream: Sendable {
        package let name: String
        /// Connections that serve a request.
        package var busy: Int
        /// Connections kept for the next one.
        package var idle: Int
    }

    package let counts: WorkerCounts
    /// The number of the generation that it serves.
    package let generation: Int
    /// Earlier ones that still have connections.
    package let retiredGenerations: Int
    package let connections: Int
    /// Of all its generations: a name may be there several times.
    package let upstreams: [Upstream]
    /// Blocks of 32 KiB that hold bytes on their way.
    package let buffersInUse: Int
    /// Blocks kept for the next ones.
    package let buffersIdle: Int

    package init(
        counts: WorkerCounts, generation: Int, retiredGenerations: Int, connections: Int, upstreams: [Upstream],
        buffersInUse: Int, buffersIdle: Int
    ) {
        self.counts = counts
        self.generation = generation
        self.retiredGenerations = retiredGenerations
        self.connections = connections
        self.upstreams = upstreams
        self.buffersInUse = buffersInUse
        self.buffersIdle = buffersIdle
    }
}
