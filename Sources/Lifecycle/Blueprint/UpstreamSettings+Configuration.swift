internal import Cryptography
internal import EventLoop
internal import GatewayConfiguration
internal import TLS
internal import Upstream

extension UpstreamSettings {
    /// Reads the files. Servers configured by name have no addresses yet: `Blueprint.located` adds them.
    init(_ name: String, _ upstream: UpstreamConfiguration) throws(StartupError) {
        var servers: [Server] = []
        for server in upstream.servers {
            var settings = try Server(server, of: name)
            settings.certificateName = upstream.tls.map { $0.serverName ?? server.host }
            servers.append(settings)
        }
        self.init(name: name, servers: servers)
        do { tls = try upstream.tls.map(ClientContext.Settings.init) } catch {
            throw StartupError(in: "upstream \(name)", error)
        }
        speaks = upstream.speaks == .http2 ? .http2 : .http11
        tls?.applicationProtocol = speaks
        streams = upstream.streams
        balance = Balance(upstream.balance)
        connections = upstream.connections
        connectionsPerServer = upstream.connectionsPerServer
        idleConnections = upstream.idleConnections
        tunnels = upstream.tunnels
        requests = upstream.requests
        waiting = upstream.waiting
        waitingTimeout = TimeSpan(upstream.waitingTimeout)
        connectTimeout = TimeSpan(upstream.connectTimeout)
        responseTimeout = TimeSpan(upstream.responseTimeout)
        contentTimeout = TimeSpan(upstream.contentTimeout)
        idleTimeout = TimeSpan(upstream.idleTimeout)
        ejection = EjectionRules(upstream.ejection)
        health = upstream.health.map(HealthCheckRules.init)
        clientFields = ClientFieldSettings(upstream)
    }

    /// Checks the addresses against those that are forbidden: those of this machine, where the gateway itself
    /// listens.
    static func check(_ upstreams: [UpstreamSettings], against forbidden: ForbiddenAddresses) throws(StartupError) {
        for upstream in upstreams {
            for server in upstream.servers {
                guard let objection = server.addresses.lazy.compactMap({ forbidden.objection(to: $0) }).first else {
                    continue
                }
                throw StartupError(
                    "upstream \(upstream.name): \(server.name) \(objection)", of: .server(server.name))
            }
        }
    }
}

extension UpstreamSettings.Server {
    /// Converts a server.
    ///
    /// - Parameter upstream: The upstream's name, for errors.
    init(_ server: ServerAddress, of upstream: String) throws(StartupError) {
        if let path = server.socketPath {
            // Its length was checked.
            guard let address = try? SocketAddress(unixPath: path) else { preconditionFailure("\(path) is too long") }
            self.init(name: server.description, addresses: [address])
            return
        }
        // Both are the addresses of `localhost` (RFC 6761 section 6.3).
        let literals =
            if server.isLiteral {
                [server.description]
            } else if server.isLoopback {
                ["127.0.0.1:\(server.port)", "[::1]:\(server.port)"]
            } else {
                [String]()
            }
        guard !literals.isEmpty else {
            self.init(NamedServer(host: server.host, port: server.port))
            return
        }
        do throws(EventLoopError) {
            let addresses = try literals.map { literal throws(EventLoopError) in try SocketAddress(literal) }
            self.init(name: server.description, addresses: addresses)
        } catch {
            throw StartupError("upstream \(upstream): \(error.text)", of: .server(server.description))
        }
    }
}

extension EjectionRules {
    init(_ ejection: EjectionConfiguration) {
        self.init()
        failures = ejection.failures
        time = TimeSpan(ejection.time)
        longest = TimeSpan(ejection.longest)
        minimumServers = ejection.minimumServers
    }
}

extension ClientContext.Settings {
    init(_ tls: UpstreamTLSConfiguration) throws {
        let authorities = try tls.authoritiesPaths.map { try PEMFile($0, in: tls.place) }
        let trusted: TrustedAuthorities
        do { trusted = try TrustedAuthorities(pem: authorities.map(\.bytes)) } catch {
            throw StartupError(
                "\(tls.authoritiesPaths.joined(separator: ", ")): \(error)",
                of: FaultyFile.among(authorities: tls.authoritiesPaths, in: tls.place) ?? authorities.first?.subject)
        }
        self.init(
            authorities: trusted,
            identity: try tls.identity.map {
                (
                    try PEMFile($0.certificatePath, in: tls.place).bytes,
                    try PEMFile(key: $0.keyPath, in: tls.place).bytes
                )
            }, policy: TLSPolicy(tls.policy))
        do { _ = try ClientContext(self, library: try LibraryContext()) } catch {
            let files = tls.identity.map { "\($0.certificatePath), \($0.keyPath): " } ?? ""
            let culprit = tls.identity.flatMap {
                FaultyFile.among(certificate: $0.certificatePath, key: $0.keyPath, in: tls.place)
                    ?? .file($0.certificatePath).within(tls.place)
            }
            throw StartupError("\(files)\(error)", of: culprit)
        }
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

extension ClientFieldSettings {
    fileprivate init(_ upstream: UpstreamConfiguration) {
        let names: ForwardedNames = upstream.forwarded.reduce(into: []) { names, name in
            switch name {
            case .forwarded: names.insert(.forwarded)
            case .xForwardedFor: names.insert(.xForwardedFor)
            case .xForwardedProto: names.insert(.xForwardedProto)
            case .xForwardedHost: names.insert(.xForwardedHost)
            }
        }
        switch upstream.clientCertificate {
        case .off: self.init(names, .off)
        case .leaf: self.init(names, .leaf)
        case .leafAndChain: self.init(names, .leafAndChain)
        }
    }
}

extension HealthCheckRules {
    init(_ health: HealthCheckConfiguration) {
        self.init(path: health.path)
        host = health.host
        interval = TimeSpan(health.interval)
        timeout = TimeSpan(health.timeout)
        healthyAfter = health.healthyAfter
        unhealthyAfter = health.unhealthyAfter
        status = health.status.map { UInt16($0) }
    }
}
