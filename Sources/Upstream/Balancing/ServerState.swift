internal import EventLoop

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
