internal import EventLoop

/// The choice of a request's server among the healthy ones with room. A value whose only state is the turn.
struct Balancer {
    private let balance: Balance
    /// The maximum number of requests in flight at one server.
    private let limit: Int
    /// The same limit while other servers exist: a server that hangs must not hold all connections.
    private let share: Int
    private var turn = 0

    /// The number of requests below which a server is not considered full, whatever the load of the others.
    private static let lightLoad = 8

    init(_ balance: Balance, limit: Int, share: Int) {
        self.balance = balance
        self.limit = limit
        self.share = min(share, limit)
    }

    /// Chooses a server.
    ///
    /// - Parameters:
    ///   - key: the client's key. Equal keys stay together where devices are distinguished.
    ///   - tried: the servers that have failed this request already.
    /// - Returns: nil if all remaining servers have as many requests as they may.
    mutating func choose(
        among servers: [ServerState], for key: UInt64, tried: ServerSet = ServerSet(), at now: Instant
    ) -> Int? {
        var usable = ServerSet()
        var others = ServerSet()
        var unresolved = ServerSet()
        for place in servers.indices where !tried.contains(place) {
            if servers[place].isUsable(at: now) {
                usable.insert(place)
            } else if servers[place].isResolved {
                others.insert(place)
            } else {
                unresolved.insert(place)
            }
        }
        // No choice is better than all of them: their checks, or our own, may be wrong.
        var open = usable.isEmpty ? others : usable
        // A call there fails at once for lack of an address; a call that has failed otherwise keeps that failure.
        if open.isEmpty, tried.isEmpty { open = unresolved }
        let candidates = Self.below(open.count > 1 ? share : limit, open, servers)
        guard !candidates.isEmpty else { return nil }
        let chosen =
            switch balance {
            case .roundRobin: candidates.place(at: turn % candidates.count)
            case .leastConnections: leastBusy(candidates, servers)
            case .device: wanted(by: key, candidates, servers)
            }
        // A request that returns from a failed server does not advance the turn: otherwise every request would meet
        // that server first.
        guard tried.isEmpty else { return chosen }
        turn = balance == .leastConnections ? (chosen + 1) % servers.count : (turn + 1) & 0xffff_ffff
        return chosen
    }

    private static func below(_ limit: Int, _ places: ServerSet, _ servers: [ServerState]) -> ServerSet {
        var rest = places
        var result = ServerSet()
        while !rest.isEmpty {
            if servers[rest.first].busy < limit { result.insert(rest.first) }
            rest.removeFirst()
        }
        return result
    }

    /// Returns the least busy server. Of equals, it is the next one in turn.
    private func leastBusy(_ candidates: ServerSet, _ servers: [ServerState]) -> Int {
        var best = candidates.first(from: turn)
        for offset in 1..<max(servers.count, 2) {
            let place = (turn + offset) % servers.count
            if candidates.contains(place), servers[place].busy < servers[best].busy { best = place }
        }
        return best
    }

    /// Chooses a server by rendezvous hashing with bounded loads.
    ///
    /// The server with the highest weight wins, unless it has a quarter more than its part of all requests; then the
    /// next one does. When a server leaves, its keys go to all others, and no other key moves.
    private func wanted(by key: UInt64, _ candidates: ServerSet, _ servers: [ServerState]) -> Int {
        var total = 0
        var rest = candidates
        while !rest.isEmpty {
            total += servers[rest.first].busy
            rest.removeFirst()
        }
        let bound = max(Self.lightLoad, (total + 1) * 5 / (candidates.count * 4) + 1)
        let light = Self.below(bound, candidates, servers)
        rest = light.isEmpty ? candidates : light
        var best = rest.first
        while !rest.isEmpty {
            if servers[rest.first].weight(of: key) > servers[best].weight(of: key) { best = rest.first }
            rest.removeFirst()
        }
        return best
    }
}

/// A set of an upstream's servers by index, stored in one word, so that a choice allocates nothing.
struct ServerSet: Equatable {
    /// The maximum number of servers of an upstream.
    static let limit = 64

    private var bits: UInt64 = 0

    var count: Int { bits.nonzeroBitCount }
    var isEmpty: Bool { bits == 0 }

    func contains(_ place: Int) -> Bool { bits & 1 << UInt64(place) != 0 }
    mutating func insert(_ place: Int) { bits |= 1 << UInt64(place) }

    /// The lowest index. The set must not be empty.
    var first: Int { bits.trailingZeroBitCount }
    mutating func removeFirst() { bits &= bits &- 1 }

    /// Returns the lowest index from `start` on, or the lowest one if there is none.
    func first(from start: Int) -> Int {
        let upper = bits & (UInt64.max << UInt64(start))
        return upper == 0 ? first : upper.trailingZeroBitCount
    }

    /// Returns the index with `position` lower members.
    func place(at position: Int) -> Int {
        var rest = self
        for _ in 0..<position { rest.removeFirst() }
        return rest.first
    }
}

/// The state of one server for the balancer: its load and its health.
struct ServerState {
    /// The hash of the configured name, so that workers, restarts and other gateways choose alike.
    let identity: UInt64
    /// The number of requests in flight.
    var busy = 0
    var health: ServerHealth
    /// Whether an address of the server is known.
    var isResolved: Bool

    init(name: String, health: ServerHealth, isResolved: Bool = true) {
        // FNV-1a, spread over all bits: Swift's hashes differ from process to process.
        identity = Self.spread(name.utf8.reduce(0xcbf2_9ce4_8422_2325) { ($0 ^ UInt64($1)) &* 0x0100_0000_01b3 })
        self.health = health
        self.isResolved = isResolved
    }

    func standing(at now: Instant) -> ServerCondition { isResolved ? health.standing(at: now) : .unresolved }

    /// Returns whether the server may get a request now, according to its health.
    fileprivate func isUsable(at now: Instant) -> Bool {
        switch standing(at: now) {
        case .usable: true
        // One request at a time, until one has succeeded.
        case .onProbation: busy == 0
        case .ejected, .unhealthy, .unresolved: false
        }
    }

    /// Returns the weight of this server for a key. The highest of all servers wins (rendezvous hashing).
    fileprivate func weight(of key: UInt64) -> UInt64 { Self.spread(key ^ identity) }

    /// Applies the finalizer of SplitMix64, in whose result each bit depends on every bit.
    private static func spread(_ value: UInt64) -> UInt64 {
        var mixed = value &+ 0x9e37_79b9_7f4a_7c15
        mixed = (mixed ^ mixed >> 30) &* 0xbf58_476d_1ce4_e5b9
        mixed = (mixed ^ mixed >> 27) &* 0x94d0_49bb_1331_11eb
        return mixed ^ mixed >> 31
    }
}
