public import EventLoop

/// Connections of HTTP/2, which many calls share: one that is open and has room is taken before another is opened, and the oldest
/// first, so that those of a crowd that came once grow old and are closed.
extension UpstreamPool {
    func streamPlace(for call: UpstreamCall) throws(UpstreamFailure) -> Place {
        // Servers that admit fewer streams than they may have requests by our own count.
        var full = call.tried
        while let server = balancer.choose(among: states, for: call.key, tried: full, at: loop.now) {
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
            // Better one on which content has to wait than none.
            return openConnection(to: server, where: { $0.hasRoom }).map { begin(call, on: $0) } ?? .none
        }
        let connection: HTTP2UpstreamConnection
        do throws(UpstreamFailure) {
            connection = try connect(for: call, to: server) {
                HTTP2UpstreamConnection(pool: self, server: $0, socket: $1, isCheck: false)
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
            // One that is not has left the list.
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
        // One on which nothing is under way, and that has no room all the same, shows that the server admits nothing.
        return !open.contains { $0.isIdle && !$0.hasRoom }
    }

    /// Whether a call that waits could begin. Asked without moving the turn.
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

    /// A server has greeted a new connection, and admits no streams (SETTINGS_MAX_CONCURRENT_STREAMS 0): the next connection would
    /// be no better, and who waits for that server would have us connect again and again. Until it says otherwise, on this one,
    /// calls wait as where all streams are taken.
    func admitsNone(_ server: Int) {
        servers[server].admitsNoneUntil = loop.now + max(settings.waitingTimeout, settings.connectTimeout)
    }

    /// The server has said what its limits are, for the first time or again.
    func capacityChanged(on connection: HTTP2UpstreamConnection) {
        let server = servers[connection.server]
        if server.admitsNoneUntil.nanoseconds > .min, connection.hasRoom {
            server.admitsNoneUntil = Instant(nanoseconds: .min)
        }
        serveWaitingSoon()
    }

    /// Closes a connection that nobody uses, for one to another server. - Returns: whether there was any.
    func closeIdleStreams() -> Bool {
        for server in servers {
            guard let idle = server.open.first(where: { $0.isIdle }) else { continue }
            idle.discard()
            return true
        }
        return false
    }

    /// The connection that a call waits for cannot be had: the next server is asked.
    func move(_ call: UpstreamCall, from connection: HTTP2UpstreamConnection, after failure: UpstreamFailure) {
        callEnded(on: connection)
        let server = connection.server
        begin(call) { () throws(UpstreamFailure) in
            try streamPlace(for: call, at: try next(after: server, for: call, failure))
        }
    }

    /// The server admits fewer streams than calls wait for it.
    func reassign(_ call: UpstreamCall, from connection: HTTP2UpstreamConnection) {
        callEnded(on: connection)
        begin(call) { () throws(UpstreamFailure) in try streamPlace(for: call) }
    }

    func becameIdle(_ connection: HTTP2UpstreamConnection) {
        idleCount += 1
        // Its server may have moved meanwhile.
        let isStale = !servers[connection.server].has(connection.address)
        if isStale || idleCount > settings.idleConnections { connection.discard() }
        serveWaitingSoon()
    }

    func leftIdleness() { idleCount -= 1 }
}

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
