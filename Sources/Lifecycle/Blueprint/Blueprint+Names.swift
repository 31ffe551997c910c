internal import EventLoop
internal import GatewayConfiguration
internal import Upstream

/// Servers that are known by a name.
extension Blueprint {
    var namedServers: Set<NamedServer> { Set(upstreams.flatMap(\.servers).compactMap(\.resolved)) }

    /// The same, with the addresses that are known now.
    func located(by addresses: (NamedServer) -> [SocketAddress]) -> Blueprint {
        var located = self
        located.setAddresses { upstreams in
            for upstream in upstreams.indices {
                for server in upstreams[upstream].servers.indices {
                    guard let named = upstreams[upstream].servers[server].resolved else { continue }
                    upstreams[upstream].servers[server].addresses = addresses(named)
                }
            }
        }
        return located
    }

    /// What the conf file alone does not show: that an address is of this machine, all of whose addresses a listener has.
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

    /// Looks every name up once. Blocks, for five seconds at most: for `attestgate check`.
    ///
    /// - Returns: for people, the names that have no address now. That is no reason not to start.
    public func unresolvedNames() throws -> [StartupWarning] {
        let loop = try Loop()
        let names = NameBook(loop: loop, settings: resolver, forbidden: forbidden)
        var warnings: [StartupWarning] = []
        names.onEvent = { event in
            if case .refused(let server, let address, let reason) = event {
                warnings.append(
                    StartupWarning(
                        "\(server) resolves to \(address.host), which \(reason): it will not be used",
                        of: .server("\(server)")))
            }
        }
        names.follow(namedServers.union(enrolment?.receiptServers ?? []).union(tracing?.servers ?? []))
        var isAnswered = false
        names.whenAnswered(within: .seconds(5)) {
            isAnswered = true
            loop.stop()
        }
        if !isAnswered { loop.run() }
        return warnings
            + names.unresolved.map { server, failure in
                StartupWarning("\(server) cannot be resolved now: \(failure.text)", of: .server("\(server)"))
            }
    }
}

extension ResolverSettings {
    init(_ resolver: ResolverConfiguration) throws(StartupError) {
        do throws(EventLoopError) {
            self.init(
                nameservers: try resolver.nameservers.map { server throws(EventLoopError) in
                    try SocketAddress(server.description)
                }, timeout: TimeSpan(resolver.timeout), attempts: resolver.attempts,
                minimumTTL: TimeSpan(resolver.minimumTTL), maximumTTL: TimeSpan(resolver.maximumTTL))
        } catch {
            throw StartupError("resolver: \(error.text)")
        }
    }
}

extension ForbiddenAddresses {
    /// All listeners of the file, whichever this process has: the others are another's on the same machine.
    init(_ configuration: Configuration) throws(StartupError) {
        let own: [(ServerAddress, String)] =
            configuration.listeners.map { ($0.address, "the gateway itself") }
            + [configuration.enrolment].compactMap(\.self).map { ($0.address, "enrolment") }
            + (configuration.administration?.listeners ?? []).map { ($0.address, "the administration") }
        do throws(EventLoopError) {
            self.init(
                listeners: try own.map { address, purpose throws(EventLoopError) in
                    Listener(address: try SocketAddress(address.description), purpose: purpose)
                })
        } catch {
            throw StartupError(error.text)
        }
    }
}
