internal import Bytes
internal import Cryptography
internal import EventLoop
internal import Gateway
internal import Registry
internal import Server
internal import TLS
internal import Telemetry
internal import TelemetryExport

/// What one worker serves by one configuration: listeners, routes, upstreams, and the connections accepted under it.
/// A request is judged by the rules of its connection's generation, whatever was loaded since.
final class Generation {
    let number: Int
    private let application: GatewayApplication
    let acceptor: Acceptor
    /// The listeners, in the order of the configuration.
    private let listeners: [Listener]
    private(set) var isDraining = false
    /// Ends what does not end by itself, after `expire`.
    private var patience: LoopTimer?
    private let loop: Loop
    private let shutdownTimeout: TimeSpan

    private struct Listener {
        let address: String
        /// Nil without TLS.
        let hosts: VirtualHosts?
        let proxies: TrustedProxies
        let peers: AdmittedPeers
        /// The maximum of open connections.
        let connections: Int
        /// The rules for clients that the peers state; nil if the peers are the clients.
        let forwarded: ClientAdmission?
    }

    init(_ order: GenerationOrder, loop: Loop, pool: BufferPool, library: LibraryContext, metrics: WorkerMetrics)
        throws
    {
        number = order.number
        self.loop = loop
        shutdownTimeout = order.blueprint.shutdownTimeout
        let blueprint = order.blueprint
        let kept = blueprint.keptCertificates
        let application = try GatewayApplication(
            blueprint.application, loop: loop, pool: pool, library: library, shared: order.limits,
            log: order.log ?? order.errors, exporter: order.exporter, metrics: metrics)
        let acceptor = Acceptor(loop: loop, settings: blueprint.settings, pool: pool, application: application)
        application.recognize(try blueprint.listeners.map { try $0.forwarded?.make(library, keeping: kept) })
        self.application = application
        self.acceptor = acceptor
        let registry = order.enforcement?.registry
        listeners = try blueprint.listeners.map {
            Listener(
                address: $0.name,
                hosts: try $0.makeHosts(library, order.sessions, asking: registry, keeping: kept),
                proxies: $0.proxies, peers: $0.peers, connections: $0.connections,
                forwarded: $0.forwarded?.clients.admission)
        }
        if let (settings, registry) = order.enforcement {
            // The acceptor lives as long as the application: the generation owns both.
            try application.enforce(settings, registry, loop: loop, library) { [unowned acceptor] keys in
                let barred = Set(keys)
                acceptor.abort { $0.identity?.keyID.map(barred.contains) ?? false }
            }
        }
    }

    /// The addresses of the listeners.
    var addresses: [String] { listeners.map(\.address) }

    /// Begins to accept.
    ///
    /// - Parameter sockets: A listening socket for each address, whose ownership passes to the generation.
    func listen(_ sockets: [String: Int32]) {
        for listener in listeners {
            guard let descriptor = sockets[listener.address] else {
                preconditionFailure("no socket for \(listener.address)")
            }
            acceptor.listen(
                on: Socket(adopting: descriptor), tls: listener.hosts, proxies: listener.proxies, peers: listener.peers,
                connections: listener.connections)
        }
    }

    /// Duplicates the socket that listens on an address, with the same queue of connections.
    ///
    /// - Returns: Nil if no descriptor is left, or the generation does not listen there.
    func duplicateListener(_ address: String) -> Int32? {
        // The acceptor has the listeners in the same order.
        listeners.firstIndex { $0.address == address }.flatMap { acceptor.duplicateListener($0) }
    }

    /// Ends connections whose clients the next generation does not admit: it judges by the requested host of the
    /// listener with the same address. Without such a host, it ends those that any revocation list names.
    ///
    /// Winds up the connections of proxies that state their clients, and has device tokens judged as the next generation
    /// judges them.
    func bar(by next: Generation) {
        application.judgeTokens(asIn: next.application)
        // Values, because a reference would keep the next generation alive as long as this one.
        let admissions = Dictionary(
            uniqueKeysWithValues: next.listeners.compactMap { listener in
                listener.hosts.map { (listener.address, ListenerAdmissions($0)) }
            })
        var disbelieved: Set<Int> = []
        for (place, listener) in listeners.enumerated() where listener.forwarded != nil {
            guard let successor = next.listeners.first(where: { $0.address == listener.address }) else { continue }
            if let forwarded = successor.forwarded {
                application.judgeClients(at: place, also: forwarded)
            } else {
                disbelieved.insert(place)
            }
        }
        let listeners = listeners.map { (hosts: $0.hosts, next: admissions[$0.address]) }
        acceptor.bar { connection in
            guard !disbelieved.contains(connection.listener) else {
                return ClientAdmission.KeyRejection(kind: .notPinned, reason: "its listener believes no proxy any more")
            }
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
        // Their other clients, and the proxies themselves, would be judged by these rules for as long as they stay.
        acceptor.windUp(listeners: Set(self.listeners.indices.filter { self.listeners[$0].forwarded != nil }))
    }

    /// Sets the addresses of a server that is configured by name.
    func readdress(_ server: NamedServer, to addresses: [SocketAddress]) {
        application.readdress(server, to: addresses)
    }

    /// Connections open now.
    var connections: Int { acceptor.connectionCount }
    var upstreams: [WorkerSnapshot.Upstream] { application.upstreamSnapshots }

    /// Accepts no more.
    ///
    /// - Parameter ended: Called once, when the last connection has closed.
    func retire(ended: @escaping () -> Void) { acceptor.retire(ended) }

    /// Accepts no more, closes idle connections, and lets the others complete the request in flight.
    func drain(ended: @escaping () -> Void) {
        isDraining = true
        acceptor.drain(ended)
    }

    /// Ends the connections like `windUp`, within the shutdown timeout.
    func expire(ended: @escaping () -> Void) {
        isDraining = true
        acceptor.windUp()
        acceptor.retire(ended)
        patience = LoopTimer(loop: loop, interval: shutdownTimeout) { [unowned self] in abort() }
    }

    /// Accepts no more, and serves what is in flight or may be on its way. May be followed by `retire` or `drain`.
    func windUp() { acceptor.windUp() }

    /// Whether every request received is decided, and none can begin.
    var isDecided: Bool { acceptor.isDecided }

    /// Closes every connection immediately.
    func abort() { acceptor.abortAll() }

    /// Releases the application when nothing is in flight.
    func close() { application.close() }
}

/// What a worker needs to make a generation: a blueprint, and objects that outlive configurations.
struct GenerationOrder: Sendable {
    /// The number of the generation in this process, from 1.
    private(set) var number = 1
    var blueprint: Blueprint
    let sessions: SessionTable
    /// Counts that survive reloads.
    let limits: SharedLimits
    /// The budget of the process.
    let memory: MemoryBudget
    let log: LogWriter?
    /// The log for other events if requests are not logged.
    let errors: LogWriter
    /// Nil if no spans are exported.
    var exporter: SpanExporter?
    /// Nil if there is no registry.
    var enforcement: (settings: Enforcement.Settings, registry: DeviceRegistry)?

    /// Shares sessions with the processes that have the same secrets. Without secrets, this process shares with none.
    func shareSessions() {
        sessions.share(enforcement?.settings.secrets.sessionSecrets ?? blueprint.sessionSecrets)
    }

    init(
        _ blueprint: Blueprint, sessions: SessionTable, limits: SharedLimits, memory: MemoryBudget, log: LogWriter?,
        errors: LogWriter, exporter: SpanExporter?
    ) {
        self.blueprint = blueprint
        self.sessions = sessions
        self.limits = limits
        self.memory = memory
        self.log = log
        self.errors = errors
        self.exporter = exporter
    }

    /// The next generation, so far the same.
    var successor: GenerationOrder {
        var next = self
        next.number += 1
        return next
    }
}

/// The clients that the hosts of a listener admit.
struct ListenerAdmissions {
    /// For clients that ask for none of the hosts.
    let standard: ClientAdmission
    let hosts: [ServerName: ClientAdmission]

    var all: [ClientAdmission] { [standard] + hosts.values }

    /// Returns the admission that applies now to a connection of an earlier generation: that of the host that it
    /// asked for.
    ///
    /// - Parameter wasHost: Whether a host had that name then.
    /// - Returns: Nil if that host no longer exists. The listener's own settings were never meant for its clients.
    func successor(of name: ServerName?, wasHost: Bool) -> ClientAdmission? {
        guard let name else { return standard }
        return hosts[name] ?? (wasHost ? nil : standard)
    }
}

extension ListenerAdmissions {
    init(_ listener: VirtualHosts) {
        // In the configuration, host names are unique.
        self.init(
            standard: listener.standard.trust.admission,
            hosts: Dictionary(uniqueKeysWithValues: listener.admissions.map { ($0.name, $0.admission) }))
    }
}

/// The state of a change of configuration. All workers prepare it before any serves it, so that all of them change or
/// none. A value without I/O: the process reports to it and does what it returns.
struct GenerationChange {
    enum Action: Equatable {
        case wait
        /// Every worker is ready: all are to serve it.
        case adopt
        /// A worker could not prepare: all are to discard it. No worker is still preparing, so the next report
        /// belongs to the next change.
        case discard(fault: String)
        /// Every worker serves it.
        case finish
    }

    private var preparing: Set<Int>
    private var adopting: Set<Int>
    /// The first failure.
    private var fault: String?

    /// Begins a change.
    ///
    /// - Parameter workers: The numbers of the workers, at least one.
    init(workers: some Sequence<Int>) {
        preparing = Set(workers)
        adopting = preparing
    }

    /// Records that a worker has prepared.
    ///
    /// - Parameter fault: Why it could not; nil if it is ready.
    mutating func prepared(by worker: Int, fault: String?) -> Action {
        guard preparing.remove(worker) != nil else { return .wait }
        self.fault = self.fault ?? fault
        guard preparing.isEmpty else { return .wait }
        return self.fault.map { .discard(fault: $0) } ?? .adopt
    }

    mutating func adopted(by worker: Int) -> Action {
        guard preparing.isEmpty, fault == nil, adopting.remove(worker) != nil else { return .wait }
        return adopting.isEmpty ? .finish : .wait
    }
}
