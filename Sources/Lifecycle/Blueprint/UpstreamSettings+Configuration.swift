internal import EventLoop
internal import GatewayConfiguration
internal import Upstream

extension UpstreamSettings {
    /// Resolves the servers' names.
    init(_ name: String, _ upstream: UpstreamConfiguration) throws(StartupError) {
        var servers: [Server] = []
        for server in upstream.servers {
            do {
                let addresses = try SocketAddress.resolve(host: server.host, port: server.port)
                servers.append(Server(name: server.description, addresses: addresses))
            } catch {
                throw StartupError("upstream \(name): cannot resolve \(server.host)")
            }
        }
        self.init(name: name, servers: servers)
        balance = Balance(upstream.balance)
        connections = upstream.connections
        connectionsPerServer = upstream.connectionsPerServer
        idleConnections = upstream.idleConnections
        requests = upstream.requests
        waiting = upstream.waiting
        waitingTimeout = TimeSpan(upstream.waitingTimeout)
        connectTimeout = TimeSpan(upstream.connectTimeout)
        responseTimeout = TimeSpan(upstream.responseTimeout)
        contentTimeout = TimeSpan(upstream.contentTimeout)
        idleTimeout = TimeSpan(upstream.idleTimeout)
        ejection.failures = upstream.ejection.failures
        ejection.time = TimeSpan(upstream.ejection.time)
        ejection.longest = TimeSpan(upstream.ejection.longest)
        ejection.minimumServers = upstream.ejection.minimumServers
        health = upstream.health.map(HealthCheckRules.init)
    }
}

extension Balance {
    fileprivate init(_ balance: UpstreamConfiguration.Balance) {
        self =
            switch balance {
            case .roundRobin: .roundRobin
            case .leastConnections: .leastConnections
            case .device: .device
            }
    }
}

extension HealthCheckRules {
    fileprivate init(_ health: HealthCheckConfiguration) {
        self.init(path: health.path)
        host = health.host
        interval = TimeSpan(health.interval)
        timeout = TimeSpan(health.timeout)
        healthyAfter = health.healthyAfter
        unhealthyAfter = health.unhealthyAfter
        status = health.status.map { UInt16($0) }
    }
}
