public import EventLoop

/// Where servers are, if they are known by a name.
extension UpstreamPool {
    /// A name was resolved, and leads elsewhere than before: new connections go there, those that nobody uses and that lead
    /// where the server is no more are closed, and requests under way go on.
    public func readdress(_ server: NamedServer, to addresses: [SocketAddress]) {
        for place in servers.indices where settings.servers[place].resolved == server {
            servers[place].readdress(addresses)
            states[place].isResolved = !addresses.isEmpty
            // A copy: a discarded connection leaves the array.
            let idle = servers[place].idle
            for connection in idle where !servers[place].has(connection.address) { connection.discard() }
            let open = servers[place].open
            for connection in open where !servers[place].has(connection.address) { connection.retire() }
            // None once the pool is closed.
            if place < checks.count, !addresses.isEmpty { checks[place].addressesCame() }
        }
        serveWaitingSoon()
    }
}
