package import Upstream

/// The counts and gauges of one worker at one moment, for the thread that serves metrics.
package struct WorkerSnapshot: Sendable {
    package struct Upstream: Sendable {
        package let name: String
        /// Connections that serve a request.
        package var busy: Int
        /// Connections kept for the next request.
        package var idle: Int
        /// Requests that wait for a connection.
        package var waiting: Int
        package var servers: [Server]
    }

    /// A server in several pools.
    package struct Server: Sendable {
        package let name: String
        /// Requests in-flight.
        package var requests: Int
        package var busy: Int
        package var idle: Int
        /// The number of pools for each condition of the server, by the raw value of the condition.
        package var standings: [Int]
        /// The latest failure of all pools.
        package var lastFailure: ServerFailure?
    }

    package let counts: WorkerCounts
    /// The counts of servers, by upstream and server.
    package let serverCounts: [String: [String: ServerCounts]]
    /// The number of the current generation.
    package let generation: Int
    /// Earlier generations with connections.
    package let retiredGenerations: Int
    package let connections: Int
    /// The upstreams of all generations. A name may occur several times.
    package let upstreams: [Upstream]
    /// Blocks of 32 KiB in use.
    package let buffersInUse: Int
    /// Blocks kept for reuse.
    package let buffersIdle: Int
    /// Bytes of waiting spans.
    package let spanBytes: Int

    package init(
        counts: WorkerCounts, serverCounts: [String: [String: ServerCounts]] = [:], generation: Int,
        retiredGenerations: Int, connections: Int, upstreams: [Upstream],
        buffersInUse: Int, buffersIdle: Int, spanBytes: Int = 0
    ) {
        self.counts = counts
        self.serverCounts = serverCounts
        self.generation = generation
        self.retiredGenerations = retiredGenerations
        self.connections = connections
        self.upstreams = upstreams
        self.buffersInUse = buffersInUse
        self.buffersIdle = buffersIdle
        self.spanBytes = spanBytes
    }
}

extension WorkerSnapshot.Upstream {
    init(_ pool: UpstreamPool) {
        let servers = pool.serverSnapshots
        self.init(
            name: pool.settings.name, busy: pool.connectionCount - pool.idleCount, idle: pool.idleCount,
            waiting: pool.waitingCount, servers: servers.map(WorkerSnapshot.Server.init))
    }

    /// Returns sums over several workers, by name.
    package static func sum(of snapshots: [WorkerSnapshot]) -> [Self] {
        var sums: [String: Self] = [:]
        for upstream in snapshots.flatMap(\.upstreams) {
            if sums[upstream.name]?.add(upstream) == nil { sums[upstream.name] = upstream }
        }
        return sums.values.sorted { $0.name < $1.name }
    }

    private mutating func add(_ other: Self) {
        busy += other.busy
        idle += other.idle
        waiting += other.waiting
        for server in other.servers {
            if let place = servers.firstIndex(where: { $0.name == server.name }) {
                servers[place].add(server)
            } else {
                servers.append(server)
            }
        }
    }
}

extension WorkerSnapshot.Server {
    init(_ server: ServerSnapshot) {
        var standings = [Int](repeating: 0, count: ServerCondition.allCases.count)
        standings[server.standing.rawValue] = 1
        self.init(
            name: server.name, requests: server.requests, busy: server.busy, idle: server.idle,
            standings: standings, lastFailure: server.lastFailure)
    }

    fileprivate mutating func add(_ other: Self) {
        requests += other.requests
        busy += other.busy
        idle += other.idle
        for place in standings.indices { standings[place] += other.standings[place] }
        if let failure = other.lastFailure, failure.at > lastFailure?.at ?? 0 { lastFailure = failure }
    }
}
