internal import Bytes
internal import Cryptography
internal import EventLoop
internal import Policy
internal import Server
internal import TLS
internal import Upstream

/// What one worker serves by one configuration: listeners, routes, upstreams, and the connections that were accepted under
/// it. These keep it: a request is judged by the rules its connection came in under, whatever was loaded since.
final class Generation {
    let number: Int
    private let application: GatewayApplication
    private let acceptor: Acceptor
    /// By listener, in the order of the configuration.
    private let contexts: [(address: String, tls: ServerContext)]

    init(_ order: GenerationOrder, loop: Loop, pool: BufferPool, library: LibraryContext, metrics: WorkerMetrics)
        throws
    {
        number = order.number
        let blueprint = order.blueprint
        // Which has an order of its own.
        let routes = RouteTable(blueprint.routes.map(\.unshared))
        let application = GatewayApplication(
            routes: routes,
            upstreams: blueprint.upstreams.map { UpstreamPool(loop: loop, buffers: pool, settings: $0) },
            upstreamRequest: UpstreamRequest(policy: FieldPolicy(additional: blueprint.strippedFields)),
            denials: DenialResponses(uriPrefix: blueprint.denialURI),
            continuesTraces: !blueprint.strippedFields.contains("traceparent"), pool: pool,
            log: order.log.map {
                AccessLog(
                    loop: loop, writer: $0, settings: blueprint.accessLog, routes: routes.routes.map(\.name),
                    upstreams: blueprint.upstreams.map(\.name))
            }, metrics: metrics)
        let acceptor = Acceptor(loop: loop, settings: blueprint.settings, pool: pool, application: application)
        self.application = application
        self.acceptor = acceptor
        contexts = try blueprint.listeners.map { ($0.name, try $0.makeContext(library, order.sessions)) }
        if let (settings, registry) = order.enforcement {
            // Events come for as long as the generation lives, and the acceptor is the generation's.
            application.enforcement = try Enforcement(
                settings, registry, routes: application.routes, upstreams: blueprint.upstreams.map(\.name), loop: loop,
                pool: pool, library
            ) { [unowned acceptor] keys in
                let barred = Set(keys)
                acceptor.abort { $0.identity?.keyID.map(barred.contains) ?? false }
            }
        }
    }

    /// Begins to accept.
    ///
    /// - Parameters:
    ///   - sockets: descriptors of listening sockets by their addresses; taken over.
    ///   - previous: hands over the sockets of the other addresses, with the connections that wait in them.
    func listen(_ sockets: [String: Int32], after previous: Generation?) {
        for (address, tls) in contexts {
            if let descriptor = sockets[address] {
                acceptor.listen(on: Socket(adopting: descriptor), tls: tls)
            } else if let index = previous?.contexts.firstIndex(where: { $0.address == address }),
                let descriptor = previous?.acceptor.duplicateListener(index)
            {
                acceptor.listen(on: Socket(adopting: descriptor), tls: tls)
            }
        }
    }

    /// Connections open now.
    var connections: Int { acceptor.connectionCount }
    var upstreams: [UpstreamPool] { application.upstreams }

    /// Accepts no more. - Parameter ended: called once, when the last connection has closed.
    func retire(ended: @escaping () -> Void) { acceptor.retire(ended) }

    /// Accepts no more, closes idle connections, and lets the others finish the request they serve.
    func drain(ended: @escaping () -> Void) { acceptor.drain(ended) }

    /// Ends every connection at once.
    func abort() { acceptor.abortAll() }

    /// Nothing is under way any more: lets go of what waits for more.
    func close() {
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
