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
        while let connection = servers[server].open.first(where: { $0.hasRoom }) {
            // One that was not has left the list.
            guard connection.isThere() else { continue }
            return begin(call, on: connection)
        }
        let limit = settings.connectionsPerServer ?? settings.connections
        guard servers[server].open.count < limit, makeRoom() else { return .none }
        let connection = try connect(for: call, to: server) {
            HTTP2Connection(pool: self, server: $0, socket: $1, isCheck: false)
        }
        servers[connection.server].open.append(connection)
        return begin(call, on: connection)
    }

    private func begin(_ call: UpstreamCall, on connection: HTTP2Connection) -> Place {
        callBegins(call, at: connection.server)
        guard let stream = connection.take(call) else { return .awaited }
        return .carrier(.http2(stream))
    }

    /// Whether an open connection has room for one more request.
    var hasStreamRoom: Bool { servers.contains { $0.open.contains { $0.hasRoom } } }

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
    func move(_ call: UpstreamCall, from server: Int, after failure: UpstreamFailure) {
        callEnded(at: server)
        begin(call) { () throws(UpstreamFailure) in
            try streamPlace(for: call, at: try next(after: server, for: call, failure))
        }
    }

    /// The server admits fewer streams than calls wait for it.
    func reassign(_ call: UpstreamCall, from server: Int) {
        callEnded(at: server)
        begin(call) { () throws(UpstreamFailure) in try streamPlace(for: call) }
    }

    func becameIdle(_ connection: HTTP2Connection) {
        idleCount += 1
        // Its server may have moved meanwhile.
        let isStale = !servers[connection.server].has(connection.address)
        if isStale || idleCount > settings.idleConnections { connection.discard() }
        serveWaitingSoon()
    }

    func leftIdleness() { idleCount -= 1 }
}
