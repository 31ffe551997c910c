public import EventLoop

/// Why a worker begins or ceases to use a server.
public enum ServerHealthChange: Equatable, Sendable {
    /// It has failed too many requests, one after the other, the last by this: it gets none for so long.
    case ejected(TimeSpan, after: UpstreamFailure)
    /// It was ejected, and has served a request since that was over.
    case readmitted
    /// Its checks fail, the last one by this.
    case unhealthy(HealthCheckFailure)
    /// Its checks pass again.
    case healthy
}

/// One server at one moment, as its pool sees it.
public struct ServerSnapshot: Sendable {
    public let name: String
    /// Requests under way.
    public let requests: Int
    /// Connections that serve any.
    public let busy: Int
    /// Connections kept for the next one.
    public let idle: Int
    public let standing: ServerCondition
    /// Of this worker; nil while there was none. Whatever was since: a server that is the only one is never ejected.
    public let lastFailure: ServerFailure?
}

/// What is thought of servers.
extension UpstreamPool {
    func succeeded(_ server: Int) {
        guard states[server].health.succeeded(at: loop.now) else { return }
        onHealthChange?(servers[server].name, .readmitted)
    }

    /// - Parameter isJudged: whether it speaks against the server; otherwise it is only counted.
    func failed(_ server: Int, _ failure: UpstreamFailure, isCheck: Bool, isJudged: Bool = true) {
        // A check has a verdict of its own.
        guard !isCheck else { return }
        servers[server].tally.counts.failures[failure.kind.rawValue] += 1
        if failure.kind.isServers { note(.upstream(failure), of: server) }
        // Where it was not asked, there is nothing to judge it by.
        guard isJudged, failure.kind.isServers, failure != .unresolved else { return }
        guard states[server].health.failed(at: loop.now), mayEject(server) else { return }
        let span = states[server].health.eject(at: loop.now)
        servers[server].tally.counts.ejections += 1
        onHealthChange?(servers[server].name, .ejected(span, after: failure))
    }

    private func note(_ failure: HealthCheckFailure, of server: Int) {
        servers[server].tally.lastFailure = ServerFailure(failure: failure, at: WallClock.seconds)
    }

    /// Whether enough servers are left without this one.
    private func mayEject(_ server: Int) -> Bool {
        let now = loop.now
        let others = states.indices.count {
            guard $0 != server else { return false }
            return switch states[$0].standing(at: now) {
            case .usable, .onProbation: true
            case .ejected, .unhealthy, .unresolved: false
            }
        }
        return others >= settings.ejection.minimumServers
    }

    /// Begins to ask the servers how they are, if that is wanted.
    func startChecks() {
        guard let rules = settings.health else { return }
        checks = servers.indices.map { HealthCheck(pool: self, server: $0, rules) }
    }

    /// - Parameter failure: nil if the check has passed.
    func checked(_ server: Int, _ failure: HealthCheckFailure?) {
        if let failure {
            servers[server].tally.counts.checksFailed += 1
            note(failure, of: server)
        } else {
            servers[server].tally.counts.checksPassed += 1
        }
        // What changes it is this very check: it says the same.
        guard states[server].health.checked(passed: failure == nil) != nil else { return }
        onHealthChange?(servers[server].name, failure.map { .unhealthy($0) } ?? .healthy)
    }

    public var serverSnapshots: [ServerSnapshot] {
        servers.indices.map { place in
            ServerSnapshot(
                name: servers[place].name, requests: states[place].busy,
                busy: settings.speaks == .http2
                    ? servers[place].open.count { !$0.isIdle } : states[place].busy,
                idle: servers[place].idle.count + servers[place].open.count { $0.isIdle },
                standing: states[place].standing(at: loop.now), lastFailure: servers[place].tally.lastFailure)
        }
    }
}
