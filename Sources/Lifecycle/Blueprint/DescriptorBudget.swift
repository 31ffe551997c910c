internal import Glibc

/// The shares of the process's file descriptors, by what a configuration can need.
///
/// A new descriptor gets the lowest free number, so a ceiling on numbers limits how many the process has open. If
/// there are too few, clients get what is left after a connection to an upstream for each client, and `spare`.
struct DescriptorBudget: Equatable, Sendable {
    /// The maximum that a configuration can need.
    struct Demand: Equatable, Sendable {
        var workers = 1
        /// Addresses on which workers and enrolment listen.
        var listeners = 0
        /// The administration socket and listeners.
        var doors = 0
        /// Concurrent lookups of names.
        var lookups = 0
        /// Calls to other services: for spans, receipts and the status list.
        var calls = 0
        /// Connections of clients and to upstreams, of the whole process.
        var clients = 0
        var upstreams = 0
    }

    /// The maximum that the process may have open.
    let limit: Int
    let demand: Demand

    /// Open without clients: loops, mailboxes, listening sockets, registry, logs.
    var base: Int { 48 + 7 * demand.workers + demand.listeners * demand.workers + demand.doors }

    /// Opened for short times: files and second listening sockets of a reload, reopened logs and registry, lookups,
    /// calls, a few operators. It includes some more, because a listening socket passes its ceiling by one
    /// connection.
    var spare: Int {
        16 + 2 * demand.listeners * demand.workers + Self.operators * demand.doors + 3 * demand.lookups + demand.calls
    }

    /// Connections of operators per socket for which a descriptor is reserved.
    private static let operators = 4

    var needed: Int { base + spare + demand.clients + demand.upstreams }

    /// A connection to an upstream may be opened below this number.
    var upstreamCeiling: Int32 { Int32(clamping: limit - spare) }

    /// A client's connection may be accepted below this number. At least half is left to upstreams, so that each
    /// HTTP/1.1 client finds a connection there.
    var clientCeiling: Int32 {
        let shared = limit - spare
        return Int32(clamping: shared - min(demand.upstreams, shared / 2))
    }

    /// An operator's connection may be accepted below this number.
    var operatorCeiling: Int32 { Int32(clamping: limit - spare + Self.operators * demand.doors) }

    /// The least with which the gateway works: each worker serves two clients at a time.
    private var least: Int { spare + 2 * (base + 2 * demand.workers) }

    /// Why the process cannot start (fatal), or which part of the configuration it may not fulfil; nil if the limit
    /// suffices.
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

    /// The highest limit that this process may set for itself (RLIMIT_NOFILE).
    static var processLimit: Int {
        var limit = rlimit()
        guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return Int(Int32.max) }
        return Int(clamping: min(limit.rlim_max, rlim_t(Int32.max)))
    }
}
