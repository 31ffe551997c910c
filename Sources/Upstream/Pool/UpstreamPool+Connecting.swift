internal import EventLoop

/// New connections, and what becomes of a call whose connection did not come about.
extension UpstreamPool {
    /// Opens a connection to `server`, or to another one if that fails at once.
    func connect<Connection: UpstreamConnection>(
        for call: UpstreamCall, to server: Int, by make: (Int, consuming Socket) -> Connection
    ) throws(UpstreamFailure) -> Connection {
        var server = server
        var left = servers[server].addressCount
        while true {
            do throws(UpstreamFailure) {
                let socket = try openSocket(to: server, &left)
                let connection = make(server, socket)
                connection.addressesLeft = left
                connection.address = servers[server].connectedAddress
                add(connection)
                return connection
            } catch {
                // It says nothing of the server, and would be the same at the next one.
                guard error.kind != .exhausted else { throw error }
                server = try another(than: server, for: call, after: error)
                left = servers[server].addressCount
            }
        }
    }

    private func openSocket(to server: Int, _ left: inout Int) throws(UpstreamFailure) -> Socket {
        do throws(UpstreamFailure) {
            let socket = try servers[server].connect(&left, ceiling: settings.descriptorCeiling)
            exhaustionEnd = Instant(nanoseconds: .min)
            return socket
        } catch {
            if error.kind == .exhausted { exhaustionEnd = loop.now + Self.exhaustionTime }
            throw error
        }
    }

    /// Opens a connection that asks how a server is, for a call that begins when there is one.
    func beginCheck(_ call: UpstreamCall, of server: Int) throws(UpstreamFailure) {
        var left = servers[server].addressCount
        let socket = try openSocket(to: server, &left)
        switch settings.speaks {
        case .http11:
            let connection = HTTP1Connection(pool: self, server: server, socket: socket, isCheck: true)
            addCheck(connection, left)
            connection.begin(call)
            call.began(on: .http1(connection))
        case .http2:
            let connection = HTTP2UpstreamConnection(pool: self, server: server, socket: socket, isCheck: true)
            addCheck(connection, left)
            // It waits: the server has not shown itself.
            _ = connection.take(call)
        }
    }

    private func addCheck(_ connection: UpstreamConnection, _ left: Int) {
        connection.addressesLeft = left
        connection.address = servers[connection.server].connectedAddress
        add(connection)
    }

    /// Another socket for a connection that has sent nothing of its call: to the server's next address, or to another
    /// server.
    ///
    /// - Parameter call: which of the servers may be asked for it; nil for no other one.
    /// - Throws: if there is nothing left to try, which of the failures at the last server's addresses says most.
    func anotherSocket(
        for connection: UpstreamConnection, of call: UpstreamCall?, after failure: UpstreamFailure
    ) throws(UpstreamFailure) -> Socket {
        var failure = failure
        if !connection.isConnecting && connection.callsServed > 0 {
            // The server has closed a connection that it had kept, which says nothing of it.
            connection.addressesLeft = servers[connection.server].addressCount
            connection.connectFailure = nil
        } else {
            failure = connection.connectFailure?.orFurther(failure) ?? failure
            connection.connectFailure = failure
        }
        while true {
            if connection.addressesLeft > 0, loop.now < connection.connectEnd {
                do throws(UpstreamFailure) {
                    let socket = try openSocket(to: connection.server, &connection.addressesLeft)
                    connection.address = servers[connection.server].connectedAddress
                    return socket
                } catch {
                    failure = connection.connectFailure?.orFurther(error) ?? error
                    connection.connectFailure = failure
                }
            }
            guard let call, failure.kind != .exhausted, loop.now < connection.connectEnd else {
                failed(connection.server, failure, isCheck: connection.isCheck)
                throw failure
            }
            let next = try another(than: connection.server, for: call, after: failure)
            states[connection.server].busy -= 1
            states[next].busy += 1
            servers[next].tally.counts.requests += 1
            connection.server = next
            // Each server is judged by its own.
            connection.connectFailure = nil
            call.lastServer = next
            connection.addressesLeft = servers[next].addressCount
        }
    }

    private func another(
        than server: Int, for call: UpstreamCall, after failure: UpstreamFailure
    ) throws(UpstreamFailure) -> Int {
        failed(server, failure, isCheck: false)
        return try next(after: server, for: call, failure)
    }

    /// The server to be asked next, where `server` has failed the call and was judged for it.
    func next(
        after server: Int, for call: UpstreamCall, _ failure: UpstreamFailure
    ) throws(UpstreamFailure) -> Int {
        call.tried.insert(server)
        call.lastServer = server
        guard let next = balancer.choose(among: states, for: call.key, tried: call.tried, at: loop.now) else {
            throw failure
        }
        return next
    }
}
