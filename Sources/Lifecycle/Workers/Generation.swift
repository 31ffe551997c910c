internal import Bytes
internal import Cryptography
internal import EventLoop
internal import Gateway
internal import Server
internal import TLS

/// What one worker serves by one configuration: listeners, routes, upstreams, and the connections that were accepted under
/// it. These keep it: a request is judged by the rules its connection came in under, whatever was loaded since.
final class Generation {
    let number: Int
    private let application: GatewayApplication
    let acceptor: Acceptor
    /// By listener, in the order of the configuration.
    private let listeners: [(address: String, hosts: VirtualHosts, proxies: TrustedProxies, connections: Int)]
    private(set) var isDraining = false
    /// Ends what does not end by itself, once it drains for another generation's sake.
    private var patience: LoopTimer?
    private let loop: Loop
    private let shutdownTimeout: TimeSpan

    init(_ order: GenerationOrder, loop: Loop, pool: BufferPool, library: LibraryContext, metrics: WorkerMetrics)
        throws
    {
        number = order.number
        self.loop = loop
        shutdownTimeout = order.blueprint.shutdownTimeout
        let blueprint = order.blueprint
        let application = try GatewayApplication(
            blueprint.application, loop: loop, pool: pool, library: library, shared: order.limits,
            log: order.log ?? order.errors, exporter: order.exporter, metrics: metrics)
        let acceptor = Acceptor(loop: loop, settings: blueprint.settings, pool: pool, application: application)
        self.application = application
        self.acceptor = acceptor
        let registry = order.enforcement?.registry
        listeners = try blueprint.listeners.map {
            ($0.name, try $0.makeHosts(library, order.sessions, asking: registry), $0.proxies, $0.connections)
        }
        if let (settings, registry) = order.enforcement {
            // The acceptor lives as long as the application: both are the generation's.
            try application.enforce(settings, registry, loop: loop, library) { [unowned acceptor] keys in
                let barred = Set(keys)
                acceptor.abort { $0.identity?.keyID.map(barred.contains) ?? false }
            }
        }
    }

    /// The addresses it listens on.
    var addresses: [String] { listeners.map(\.address) }

    /// Begins to accept. - Parameter sockets: descriptors of listening sockets, one for each address; taken over.
    func listen(_ sockets: [String: Int32]) {
        for (address, hosts, proxies, connections) in listeners {
            guard let descriptor = sockets[address] else { preconditionFailure("no socket for \(address)") }
            acceptor.listen(
                on: Socket(adopting: descriptor), tls: hosts, proxies: proxies, connections: connections)
        }
    }

    /// A second descriptor of the socket that listens on the address, with the same queue of connections.
    ///
    /// - Returns: nil if there is no descriptor left, or it does not listen there.
    func duplicateListener(_ address: String) -> Int32? {
        // The acceptor was given them in this order, none left out.
        listeners.firstIndex { $0.address == address }.flatMap { acceptor.duplicateListener($0) }
    }

    /// Ends the connections whose clients the next generation would not let in any more: the host that they asked for, of the
    /// listener with the same address. Where that is gone, those that any revocation list names.
    func bar(by next: Generation) {
        // Not the generation itself, which would be kept for as long as this one lasts.
        let admissions = Dictionary(
            uniqueKeysWithValues: next.listeners.map { ($0.address, ListenerAdmissions($0.hosts)) })
        let listeners = listeners.map { (hosts: $0.hosts, next: admissions[$0.address]) }
        acceptor.bar { connection in
            guard let identity = connection.identity else { return nil }
            let (name, hosts) = (connection.serverName, connection.hosts)
            let wasHost = name.map { hosts?.hasHost($0.bytes.span) ?? false } ?? false
            let next = listeners.first { $0.hosts === hosts }?.next
            if let admission = next?.successor(of: name, wasHost: wasHost) {
                return admission.objection(toKeeping: identity)
            }
            return admissions.values.lazy.flatMap(\.all).compactMap { $0.objection(toKeeping: identity) }
                .first { $0.kind == .revoked }
        }
    }

    /// A server that is known by a name has these addresses from now on.
    func readdress(_ server: NamedServer, to addresses: [SocketAddress]) {
        application.readdress(server, to: addresses)
    }

    /// Connections open now.
    var connections: Int { acceptor.connectionCount }
    var upstreams: [WorkerSnapshot.Upstream] { application.upstreamSnapshots }

    /// Accepts no more. - Parameter ended: called once, when the last connection has closed.
    func retire(ended: @escaping () -> Void) { acceptor.retire(ended) }

    /// Accepts no more, closes idle connections, and lets the others finish the request they serve.
    func drain(ended: @escaping () -> Void) {
        isDraining = true
        acceptor.drain(ended)
    }

    /// Ends the connections as `windUp` does, within the time that a stopping process may take.
    func expire(ended: @escaping () -> Void) {
        isDraining = true
        acceptor.windUp()
        acceptor.retire(ended)
        patience = LoopTimer(loop: loop, interval: shutdownTimeout) { [unowned self] in abort() }
    }

    /// Accepts no more, and serves what is under way or may be on its way right now. May be followed by `retire` or `drain`.
    func windUp() { acceptor.windUp() }

    /// Whether nothing more is begun, and all that was is decided.
    var isDecided: Bool { acceptor.isDecided }

    /// Ends every connection at once.
    func abort() { acceptor.abortAll() }

    /// Nothing is under way any more: lets go of what waits for more.
    func close() { application.close() }
}
