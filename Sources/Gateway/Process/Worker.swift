internal import Bytes
internal import Cryptography
internal import EventLoop
internal import Policy
internal import Registry
internal import Server
internal import TLS
internal import Upstream

/// One worker: a thread with a loop, listeners, upstream connections and TLS contexts of its own. Workers share nothing
/// but the session table and the log's mailbox.
final class Worker {
    enum Command: Sendable {
        /// Stop accepting, finish what is under way, then end.
        case drain
        /// End now.
        case stop
    }

    private let loop: Loop
    private let application: GatewayApplication
    private let acceptor: Acceptor
    private let mailbox: Mailbox<Command>

    /// - Parameter sockets: descriptors of listening sockets, one for each listener of the blueprint; taken over.
    init(
        _ blueprint: Blueprint, sockets: [Int32], sessions: SessionTable, log: LogWriter?,
        enforcement: (Enforcement.Settings, DeviceRegistry)?, mailbox: Mailbox<Command>
    ) throws {
        loop = try Loop()
        self.mailbox = mailbox
        let pool = BufferPool()
        let loop = loop
        application = GatewayApplication(
            routes: RouteTable(blueprint.routes.map(\.unshared)),
            upstreams: blueprint.upstreams.map { UpstreamPool(loop: loop, buffers: pool, settings: $0) },
            upstreamRequest: UpstreamRequest(policy: FieldPolicy(additional: blueprint.strippedFields)),
            denials: DenialResponses(uriPrefix: blueprint.denialURI),
            continuesTraces: !blueprint.strippedFields.contains("traceparent"), pool: pool,
            log: log.map {
                AccessLog(
                    loop: loop, writer: $0, settings: blueprint.accessLog, routes: blueprint.routes.map(\.name),
                    upstreams: blueprint.upstreams.map(\.name))
            })
        acceptor = Acceptor(loop: loop, settings: blueprint.settings, pool: pool, application: application)
        let library = try LibraryContext()
        if let (settings, registry) = enforcement {
            // The acceptor owns the connections, and is this worker's: it lives as long as the registry's events come.
            application.enforcement = try Enforcement(
                settings, registry, routes: application.routes, upstreams: blueprint.upstreams.map(\.name), loop: loop,
                pool: pool, library
            ) { [unowned acceptor] keys in
                let barred = Set(keys)
                acceptor.abort { $0.identity?.keyID.map(barred.contains) ?? false }
            }
        }
        for (listener, socket) in zip(blueprint.listeners, sockets) {
            acceptor.listen(on: Socket(adopting: socket), tls: try listener.makeContext(library, sessions))
        }
    }

    /// Serves until told to end. Blocks the thread.
    func run() {
        let receiver = MailboxReceiver(loop: loop, mailbox: mailbox) { [self] command in
            switch command {
            case .drain: acceptor.drain { self.loop.stop() }
            case .stop:
                acceptor.abortAll()
                loop.stop()
            }
        }
        withExtendedLifetime(receiver) { loop.run() }
        application.log?.finish()
        for upstream in application.upstreams { upstream.closeIdle() }
    }
}

extension Route {
    /// A copy whose arrays no other thread refers to.
    fileprivate var unshared: Route {
        Route(
            name: String(decoding: Array(name.utf8), as: UTF8.self), host: String(decoding: host, as: UTF8.self),
            prefix: String(decoding: prefix, as: UTF8.self), methods: methods, requirement: requirement,
            apps: apps.unshared, components: components.map { String(decoding: Array($0.utf8), as: UTF8.self) },
            upstream: upstream, contentLimit: contentLimit)
    }
}
