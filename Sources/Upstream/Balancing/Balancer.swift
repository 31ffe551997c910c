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
