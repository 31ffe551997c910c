internal import EventLoop

/// Chooses the server of a request among those that are well and have room. A value, without memory of its own but for
/// whose turn it is.
struct Balancer {
    private let balance: Balance
    /// Requests that one server may have under way.
    private let limit: Int
    /// The same while there are others: one that hangs must not hold all connections there are.
    private let share: Int
    private var turn = 0

    /// A server is not taken for full below this, whatever the others have.
    private static let lightLoad = 8

    init(_ balance: Balance, limit: Int, share: Int) {
        self.balance = balance
        self.limit = limit
        self.share = min(share, limit)
    }

    /// - Parameters:
    ///   - key: whose request it is; equal ones stay together where devices are distinguished.
    ///   - tried: the servers that have failed this request already.
    /// - Returns: nil if all servers that are left have as many requests as they may.
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
        // Nothing better is known then than all of them: their checks, or we, may be wrong.
        var open = usable.isEmpty ? others : usable
        // Who asks there learns at once that there is nobody to ask; who has learnt something worse already keeps that.
        if open.isEmpty, tried.isEmpty { open = unresolved }
        let candidates = Self.below(open.count > 1 ? share : limit, open, servers)
        guard !candidates.isEmpty else { return nil }
        let chosen =
            switch balance {
            case .roundRobin: candidates.place(at: turn % candidates.count)
            case .leastConnections: leastBusy(candidates, servers)
            case .device: wanted(by: key, candidates, servers)
            }
        // A request that comes back from a failed server does not advance the turn: otherwise every request would meet
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

    /// Of equals, the next one in turn.
    private func leastBusy(_ candidates: ServerSet, _ servers: [ServerState]) -> Int {
        var best = candidates.first(from: turn)
        for offset in 1..<max(servers.count, 2) {
            let place = (turn + offset) % servers.count
            if candidates.contains(place), servers[place].busy < servers[best].busy { best = place }
        }
        return best
    }

    /// Rendezvous hashing with bounded loads: the server that wants the key most, unless it has a quarter more than its part
    /// of all requests; then the next. When a server leaves, its keys go to all others, and no other key moves.
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

/// By what rule a request's server is chosen.
public enum Balance: Sendable {
    /// Each in turn.
    case roundRobin
    /// The one with the fewest requests under way.
    case leastConnections
    /// The same one for the same device, for as long as it can be used.
    case device
}

/// Some of an upstream's servers, by their places: one word, so that choosing costs no memory.
struct ServerSet: Equatable {
    /// Servers of one upstream at most.
    static let limit = 64

    private var bits: UInt64 = 0

    var count: Int { bits.nonzeroBitCount }
    var isEmpty: Bool { bits == 0 }

    func contains(_ place: Int) -> Bool { bits & 1 << UInt64(place) != 0 }
    mutating func insert(_ place: Int) { bits |= 1 << UInt64(place) }

    /// The lowest place; the set must not be empty.
    var first: Int { bits.trailingZeroBitCount }
    mutating func removeFirst() { bits &= bits &- 1 }

    /// The lowest place from `start` on, and if there is none, the lowest.
    func first(from start: Int) -> Int {
        let upper = bits & (UInt64.max << UInt64(start))
        return upper == 0 ? first : upper.trailingZeroBitCount
    }

    /// The place that `position` others stand before.
    func place(at position: Int) -> Int {
        var rest = self
        for _ in 0..<position { rest.removeFirst() }
        return rest.first
    }
}

/// One server as the balancer sees it: what is under way there, and how it fares.
struct ServerState {
    /// Of the configured name, so that workers, restarts and other gateways choose alike.
    let identity: UInt64
    /// Requests under way.
    var busy = 0
    var health: ServerHealth
    /// Whether any address of it is known.
    var isResolved: Bool

    init(name: String, health: ServerHealth, isResolved: Bool = true) {
        // FNV-1a, spread over all bits: no hash of Swift's is the same in the next process.
        identity = Self.spread(name.utf8.reduce(0xcbf2_9ce4_8422_2325) { ($0 ^ UInt64($1)) &* 0x0100_0000_01b3 })
        self.health = health
        self.isResolved = isResolved
    }

    func standing(at now: Instant) -> ServerCondition { isResolved ? health.standing(at: now) : .unresolved }

    /// Whether it may get a request now, as far as it is known to be well.
    func isUsable(at now: Instant) -> Bool {
        switch standing(at: now) {
        case .usable: true
        // One at a time, until one has succeeded.
        case .onProbation: busy == 0
        case .ejected, .unhealthy, .unresolved: false
        }
    }

    /// How much a key wants this server: the highest of all servers wins (rendezvous hashing).
    func weight(of key: UInt64) -> UInt64 { Self.spread(key ^ identity) }

    /// The finalizer of SplitMix64: each bit of the result depends on every bit.
    private static func spread(_ value: UInt64) -> UInt64 {
        var mixed = value &+ 0x9e37_79b9_7f4a_7c15
        mixed = (mixed ^ mixed >> 30) &* 0xbf58_476d_1ce4_e5b9
        mixed = (mixed ^ mixed >> 27) &* 0x94d0_49bb_1331_11eb
        return mixed ^ mixed >> 31
    }
}
