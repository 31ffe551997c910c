public import EventLoop

/// HTTP/2 connections, which many calls share. An open connection with room is used before another is opened. The
/// oldest comes first, so that connections from a rare peak become idle and are closed.
extension UpstreamPool {
    func streamPlace(for call: UpstreamCall) throws(UpstreamFailure) -> Place {
        // Servers may admit fewer streams than our own limit of requests.
        var full = call.search.tried
        while let server = balancer.choose(among: states, for: call.search.key, tried: full, at: loop.now) {
            let place = try streamPlace(for: call, at: server)
            guard case .none = place else { return place }
            full.insert(server)
        }
        return .none
    }

    private func streamPlace(for call: UpstreamCall, at server: Int) throws(UpstreamFailure) -> Place {
        if let connection = openConnection(to: server, where: { $0.hasRoom && !$0.isWindowShut }) {
            return begin(call, on: connection)
        }
        guard mayConnect(to: server), makeRoom() else {
            // A connection on which content has to wait is better than none.
            return openConnection(to: server, where: { $0.hasRoom }).map { begin(call, on: $0) } ?? .none
        }
        let connection: HTTP2UpstreamConnection
        do throws(UpstreamFailure) {
            connection = try connect(for: call, to: server) {
                HTTP2UpstreamConnection(pool: self, server: $0, addressesLeft: $1, socket: $2, isCheck: false)
            }
        } catch {
            guard error.kind == .exhausted else { throw error }
            return openConnection(to: server, where: { $0.hasRoom }).map { begin(call, on: $0) } ?? .none
        }
        servers[connection.server].open.append(connection)
        return begin(call, on: connection)
    }

    private func openConnection(to server: Int, where isSuitable: (HTTP2UpstreamConnection) -> Bool)
        -> HTTP2UpstreamConnection?
    {
        while let connection = servers[server].open.first(where: isSuitable) {
            // A connection that is gone has left the list.
            if connection.isThere() { return connection }
        }
        return nil
    }

    private func begin(_ call: UpstreamCall, on connection: HTTP2UpstreamConnection) -> Place {
        callBegins(call, at: connection.server)
        guard let stream = connection.take(call) else { return .awaited }
        return .carrier(.http2(stream))
    }

    private func mayConnect(to server: Int) -> Bool {
        let limit = settings.connectionsPerServer ?? settings.connections
        let open = servers[server].open
        guard open.count < limit, loop.now >= servers[server].admitsNoneUntil else { return false }
        // An idle connection without room shows that the server admits no streams.
        return !open.contains { $0.isIdle && !$0.hasRoom }
    }

    /// Whether a waiting call could begin. Does not move the turn.
    var mayStartStream: Bool {
        var balancer = balancer
        var full = ServerSet()
        let hasPlace = connectionCount < settings.connections || servers.contains { $0.open.contains { $0.isIdle } }
        while let server = balancer.choose(among: states, for: 0, tried: full, at: loop.now) {
            if servers[server].open.contains(where: { $0.hasRoom }) || hasPlace && mayConnect(to: server) {
                return true
            }
            full.insert(server)
        }
        return false
    }

    /// Handles a server that greets a new connection but admits no streams (SETTINGS_MAX_CONCURRENT_STREAMS 0).
    ///
    /// The next connection would be no better, and waiting calls would cause endless attempts to connect. Until the
    /// server changes its limit on this connection, calls wait as if all streams were in use.
    func admitsNone(_ server: Int) {
        servers[server].admitsNoneUntil = loop.now + max(settings.waitingTimeout, settings.connectTimeout)
    }

    /// Handles the server's limits, the first or later ones.
    func capacityChanged(on connection: HTTP2UpstreamConnection) {
        let server = servers[connection.server]
        if server.admitsNoneUntil.nanoseconds > .min, connection.hasRoom {
            server.admitsNoneUntil = Instant(nanoseconds: .min)
        }
        serveWaitingSoon()
    }

    /// Closes an idle connection in favour of one to another server.
    ///
    /// - Returns: whether there was one.
    func closeIdleStreams() -> Bool {
        for server in servers {
            guard let idle = server.open.first(where: { $0.isIdle }) else { continue }
            idle.discard()
            return true
        }
        return false
    }

    /// Moves a call to the next server, because its connection has failed.
    func move(_ call: UpstreamCall, from connection: HTTP2UpstreamConnection, after failure: UpstreamFailure) {
        callEnded(on: connection)
        let server = connection.server
        begin(call) { () throws(UpstreamFailure) in
            try streamPlace(for: call, at: try next(after: server, for: call, failure))
        }
    }

    /// Moves a call to another server, because this one admits fewer streams than calls wait for it.
    func reassign(_ call: UpstreamCall, from connection: HTTP2UpstreamConnection) {
        callEnded(on: connection)
        begin(call) { () throws(UpstreamFailure) in try streamPlace(for: call) }
    }

    func becameIdle(_ connection: HTTP2UpstreamConnection) {
        idleCount += 1
        // The server's address may have changed meanwhile.
        let isStale = !servers[connection.server].has(connection.address)
        if isStale || idleCount > settings.idleConnections { connection.discard() }
        serveWaitingSoon()
    }

    func leftIdleness() { idleCount -= 1 }
}

/// The reason why a worker starts or stops using a server.
public enum ServerHealthChange: Equatable, Sendable {
    /// Too many consecutive requests have failed, the last one with this failure. The server gets none for this time.
    case ejected(TimeSpan, after: UpstreamFailure)
    /// The server has served a request since the end of its ejection.
    case readmitted
    /// The checks fail, the last one with this failure.
    case unhealthy(HealthCheckFailure)
    /// The checks pass again.
    case healthy
}

/// The state of one server in its pool at one moment.
public struct ServerSnapshot: Sendable {
    public let name: String
    /// The number of requests in flight.
    public let requests: Int
    /// The number of connections that serve requests.
    public let busy: Int
    /// The number of connections kept for the next request.
    public let idle: Int
    public let standing: ServerCondition
    /// The last failure in this worker, whatever followed. Nil if there was none. It matters because a single server is
    /// never ejected.
    public let lastFailure: ServerFailure?
}

// MARK: - Health

extension UpstreamPool {
    func succeeded(_ server: Int) {
        guard states[server].health.succeeded(at: loop.now) else { return }
        onHealthChange?(servers[server].name, .readmitted)
    }

    /// Records a failed request.
    ///
    /// - Parameter isJudged: whether it counts against the server's health, or only in the metrics.
    func failed(_ server: Int, _ failure: UpstreamFailure, isCheck: Bool, isJudged: Bool = true) {
        // A check has a result of its own.
        guard !isCheck else { return }
        servers[server].tally.counts.failures[failure.kind.rawValue] += 1
        if failure.kind.isServers { note(.upstream(failure), of: server) }
        // A server that was not contacted cannot be blamed.
        guard isJudged, failure.kind.isServers, failure != .unresolved else { return }
        guard states[server].health.failed(at: loop.now), mayEject(server) else { return }
        let span = states[server].health.eject(at: loop.now)
        servers[server].tally.counts.ejections += 1
        onHealthChange?(servers[server].name, .ejected(span, after: failure))
    }

    private func note(_ failure: HealthCheckFailure, of server: Int) {
        servers[server].tally.lastFailure = ServerFailure(failure: failure, at: WallClock.seconds)
    }

    /// Returns whether enough servers are left without this one.
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

    /// Starts health checks if they are configured.
    func startChecks() {
        guard let rules = settings.health else { return }
        life = .open(checks: servers.indices.map { HealthCheck(pool: self, server: $0, rules) })
    }

    /// Records a check.
    ///
    /// - Parameter failure: the failure, or nil if the check has passed.
    func checked(_ server: Int, _ failure: HealthCheckFailure?) {
        if let failure {
            servers[server].tally.counts.checksFailed += 1
            note(failure, of: server)
        } else {
            servers[server].tally.counts.checksPassed += 1
        }
        // The cause of the change is this check, so they agree.
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
