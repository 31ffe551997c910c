internal import EventLoop
internal import Gateway
internal import Metrics
internal import Upstream

/// Names of upstreams' servers: resolved on the main thread's loop, once for all workers, which receive the changes.
extension GatewayProcess {
    /// How long the first answers are waited for: without them the first requests would fail.
    static let namePatience = TimeSpan.seconds(2)

    /// Before workers begin. Ends early if the process begins to stop.
    func resolveNames() {
        names.onEvent = { [unowned self] in tell($0) }
        names.follow(order.blueprint.namedServers)
        var isAnswered = false
        names.whenAnswered(within: Self.namePatience) { [unowned self] in
            isAnswered = true
            loop.stop()
        }
        if !isAnswered { loop.run() }
        order.blueprint = order.blueprint.located(by: names.addresses)
        for (server, _) in names.unresolved where !names.counts(of: server).isFailing {
            logger.warning("\(server) is not resolved yet and receives no requests until it is")
        }
        names.onChange = { [unowned self] in moved($0) }
    }

    private func tell(_ event: NameBook.Event) {
        switch event {
        case .failing(let server, let fault, 0):
            logger.warning("\(server) cannot be resolved and receives no requests until it can be: \(fault.text)")
        case .failing(let server, let fault, let kept):
            let addresses = kept == 1 ? "its address is" : "its \(kept) addresses are"
            logger.warning("\(server) can no longer be resolved, \(addresses) still used: \(fault.text)")
        case .recovered(let server): logger.notice("\(server) is resolved again")
        case .refused(let server, let address, let reason):
            logger.warning("\(server) resolves to \(address.host), which \(reason): it is not used")
        }
    }

    private func moved(_ servers: [NamedServer]) {
        for worker in addressDelivery.changed(servers, for: workers.running) { tellAddresses(servers, to: worker) }
    }

    func addressesTaken(by worker: Int) {
        if let more = addressDelivery.taken(by: worker) { tellAddresses(more, to: worker) }
    }

    private func tellAddresses(_ servers: some Sequence<NamedServer>, to worker: Int) {
        workers.tell(worker, .readdress(servers.map { ($0, names.addresses(of: $0)) }))
    }

    /// Those of the configuration that is served, and no others any more.
    func followServedNames() {
        names.configure(order.blueprint.resolver, order.blueprint.forbidden)
        names.follow(order.blueprint.namedServers)
    }

    /// Those of a configuration that is to be served as well, from now on.
    ///
    /// - Parameter completion: called when they have been resolved, or when that takes too long.
    func follow(alsoNamesOf next: Blueprint, _ completion: @escaping () -> Void) {
        names.configure(next.resolver, next.forbidden)
        names.follow(order.blueprint.namedServers.union(next.namedServers))
        names.whenAnswered(within: Self.namePatience, completion)
    }
}

extension ProcessFamilies {
    /// None where every server is configured by its address.
    static func names(_ names: NameBook) -> [MetricFamily] {
        guard !names.servers.isEmpty else { return [] }
        var lookups = MetricFamily(
            .counter, "attestgate_name_lookups_total", "Lookups of a server's name, by result.")
        var addresses = MetricFamily(
            .gauge, "attestgate_name_addresses", "Known addresses of the server; with 0 it receives no requests.")
        var stale = MetricFamily(
            .gauge, "attestgate_name_stale", "1 if the last lookup of the server's name failed.")
        var refused = MetricFamily(
            .counter, "attestgate_name_addresses_refused_total",
            "Addresses in answers that are not used: the gateway's own listeners, and addresses that are not of a machine."
        )
        for server in names.servers {
            let counts = names.counts(of: server)
            let name = server.description
            lookups.add(counts.resolved, ["server": name, "result": "resolved"])
            for fault in NameFault.allCases {
                lookups.add(counts.faults[fault.rawValue], ["server": name, "result": fault.name])
            }
            addresses.add(counts.addresses, ["server": name])
            stale.add(counts.isFailing ? 1 : 0, ["server": name])
            refused.add(counts.refused, ["server": name])
        }
        return [lookups, addresses, stale, refused]
    }
}
