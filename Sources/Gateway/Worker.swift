internal import Bytes
internal import Cryptography
internal import EventLoop
internal import Policy
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
        _ blueprint: Blueprint, sockets: [Int32], sessions: SessionTable, log: LogWriter?, mailbox: Mailbox<Command>
    ) throws {
        loop = try Loop()
        self.mailbox = mailbox
        let pool = BufferPool()
        let loop = loop
        application = GatewayApplication(
            routes: RouteTable(blueprint.routes.map(\.unshared)),
            upstreams: blueprint.upstreams.map { UpstreamPool(loop: loop, buffers: pool, settings: $0) },
            upstreamRequest: UpstreamRequest(policy: FieldPolicy(additional: blueprint.strippedFields)),
            denials: DenialResponses(uriPrefix: blueprint.denialURI), pool: pool,
            log: log.map { AccessLog(loop: loop, writer: $0) })
        acceptor = Acceptor(loop: loop, settings: blueprint.settings, pool: pool, application: application)
        let library = try LibraryContext()
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
        application.log?.handOver()
        for upstream in application.upstreams { upstream.closeIdle() }
    }
}

extension Route {
    /// A copy whose arrays no other thread refers to.
    fileprivate var unshared: Route {
        Route(
            name: String(decoding: Array(name.utf8), as: UTF8.self), host: String(decoding: host, as: UTF8.self),
            prefix: String(decoding: prefix, as: UTF8.self), methods: methods, requirement: requirement,
            upstream: upstream, contentLimit: contentLimit)
    }
}
