internal import EventLoop

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
