internal import Glibc

/// How the file descriptors of the process are shared out, by what a configuration can need of them.
///
/// A new descriptor gets the lowest free number, so a ceiling on numbers is a limit on how many the whole process has open. Where
/// there are too few, clients get the rest after what is kept back: a connection to an upstream for each of theirs, and `spare`.
struct DescriptorBudget: Equatable, Sendable {
    /// What a configuration can need.
    struct Demand: Equatable, Sendable {
        var workers = 1
        /// Addresses on which workers and enrolment listen.
        var listeners = 0
        /// The administration socket and listeners.
        var doors = 0
        /// Lookups of names that can be under way at once.
        var lookups = 0
        /// Calls to other services: of spans and receipts.
        var calls = 0
        /// Connections of clients, and to upstreams, of the whole process.
        var clients = 0
        var upstreams = 0
    }

    /// What the process may have open.
    let limit: Int
    let demand: Demand

    /// Open while nobody is served: loops, mailboxes, listening sockets, registry, logs.
    var base: Int { 48 + 7 * demand.workers + demand.listeners * demand.workers + demand.doors }

    /// Opened now and then: files and second listening sockets of a reload, logs and a registry that are opened again, names,
    /// calls, a few operators. Some more, since a listening socket passes its ceiling by one connection.
    var spare: Int {
        16 + 2 * demand.listeners * demand.workers + Self.operators * demand.doors + 3 * demand.lookups + demand.calls
    }

    /// Connections of operators to each socket that find a descriptor in any case.
    private static let operators = 4

    var needed: Int { base + spare + demand.clients + demand.upstreams }

    /// Below this number a connection to an upstream may be opened.
    var upstreamCeiling: Int32 { Int32(clamping: limit - spare) }

    /// Below this number a client's connection may be accepted. At least half is left to upstreams, so that each client of
    /// HTTP/1.1 finds a connection there.
    var clientCeiling: Int32 {
        let shared = limit - spare
        return Int32(clamping: shared - min(demand.upstreams, shared / 2))
    }

    /// Below this number an operator's connection may be accepted.
    var operatorCeiling: Int32 { Int32(clamping: limit - spare + Self.operators * demand.doors) }

    /// The least with which it works at all: each worker serves two clients at once.
    private var least: Int { spare + 2 * (base + 2 * demand.workers) }

    /// Why the process cannot work, or with what it will not do what its configuration promises; nil if it can.
    var objection: (text: String, isFatal: Bool)? {
        let remedy = "raise LimitNOFILE of the unit or `ulimit -Hn`"
        if limit < least {
            return ("this process can open \(limit) files, and needs at least \(least): \(remedy)", true)
        }
        guard limit < needed else { return nil }
        let room = Int(clientCeiling) - base
        return (
            """
            this process can open \(limit) files, and the configuration can require \(needed): \(demand.clients) \
            connections of clients, \(demand.upstreams) to upstreams, \(base + spare) others. Beyond about \(room) \
            connections, clients wait until others close: \(remedy), or lower limits.connections and the upstreams' \
            connections
            """, false
        )
    }

    /// The highest limit that this process may give itself (RLIMIT_NOFILE).
    static var processLimit: Int {
        var limit = rlimit()
        guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return Int(Int32.max) }
        return Int(clamping: min(limit.rlim_max, rlim_t(Int32.max)))
    }
}
