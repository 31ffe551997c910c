package import Bytes
package import Cryptography
package import EventLoop
package import Policy
package import Registry
package import Server
package import Tracing
package import Upstream
package import Vocabulary

/// How a worker makes its application from a configuration, and lets go of it.
extension GatewayApplication {
    /// What the configuration says of requests: the same for all workers.
    package struct Settings: Sendable {
        let routes: [Route]
        let upstreams: [UpstreamSettings]
        let strippedFields: [String]
        let forwardedFields: [String]
        let denialURI: String
        let listeners: [String]
        let ports: [[UInt16]]
        let accessLog: AccessLog.Settings
        let tracing: TracingSettings?
        let rates: RequestRates
        let sourceLimits: SharedSources.Limits
        let tunnelLimits: TunnelLimits
        let clientLimits: ClientLimits

        /// - Parameters:
        ///   - routes: which refer to the upstreams by their place.
        ///   - strippedFields: names of header fields that reach no upstream, besides those that never do.
        ///   - forwardedFields: names of header fields that reach upstreams, although they otherwise never do.
        ///   - denialURI: of `error_uri`; the denial's code is appended.
        ///   - listeners: their names, in the order in which they are listened on.
        ///   - ports: of each listener: those that requests may name.
        ///   - tracing: nil if spans are not exported.
        package init(
            routes: [Route], upstreams: [UpstreamSettings], strippedFields: [String], forwardedFields: [String],
            denialURI: String, listeners: [String], ports: [[UInt16]], accessLog: AccessLog.Settings,
            tracing: TracingSettings?, rates: RequestRates,
            sourceLimits: SharedSources.Limits, tunnelLimits: TunnelLimits, clientLimits: ClientLimits
        ) {
            self.routes = routes
            self.upstreams = upstreams
            self.strippedFields = strippedFields
            self.forwardedFields = forwardedFields
            self.denialURI = denialURI
            self.listeners = listeners
            self.ports = ports
            self.accessLog = accessLog
            self.tracing = tracing
            self.rates = rates
            self.sourceLimits = sourceLimits
            self.tunnelLimits = tunnelLimits
            self.clientLimits = clientLimits
        }
    }

    /// - Parameters:
    ///   - shared: the process's.
    ///   - log: of requests, and of what is none.
    ///   - exporter: needed if spans are exported.
    ///   - metrics: the worker's, for all its generations.
    package convenience init(
        _ settings: Settings, loop: Loop, pool: BufferPool, library: LibraryContext, shared: SharedLimits,
        log: LogWriter, exporter: SpanExporter?, metrics: WorkerMetrics
    ) throws(CryptographyError) {
        // Which has an order of its own.
        let routes = RouteTable(settings.routes.map(\.unshared))
        var upstreams: [UpstreamPool] = []
        for upstream in settings.upstreams {
            upstreams.append(
                try UpstreamPool(
                    loop: loop, buffers: pool, settings: upstream,
                    tallies: upstream.servers.map { metrics.tally(of: $0.name, in: upstream.name) }, library: library))
        }
        let names = routes.routes.map(\.name)
        let servers = settings.upstreams.map { ($0.name, $0.servers.map(\.name)) }
        let events = AccessLog(
            loop: loop, writer: log, settings: settings.accessLog, routes: names, upstreams: servers,
            listeners: settings.listeners)
        var spans: RequestSpans?
        if let tracing = settings.tracing, let exporter {
            let queue = SpanQueue(loop: loop, exporter: exporter, budget: metrics.spans, limits: tracing.limits)
            spans = RequestSpans(queue, routes: names, upstreams: servers, listeners: settings.listeners)
        }
        self.init(
            routes: routes, upstreams: upstreams,
            upstreamRequest: UpstreamRequest(
                policy: FieldPolicy(stripped: settings.strippedFields, forwarded: settings.forwardedFields)),
            // Copies that no other thread refers to.
            ports: settings.ports.map { $0.map(\.self) },
            denials: DenialResponses(uriPrefix: settings.denialURI),
            continuesTraces: !settings.strippedFields.contains("traceparent"), pool: pool,
            limiter: settings.rates.isNone
                ? nil : RateLimiter(settings.rates, routes: routes.routes.map(\.name), shared: shared),
            sourceLimits: settings.sourceLimits, shared: shared,
            log: settings.accessLog.hasRequests ? events : nil, events: events, spans: spans,
            sample: spans == nil ? nil : settings.tracing?.sample, metrics: metrics, library: library,
            tunnelLimits: settings.tunnelLimits,
            clientLimits: settings.clientLimits)
    }

    /// Devices and proofs are looked at from now on. To be called before anything is accepted.
    ///
    /// - Parameter barred: called with the mTLS keys whose open connections are to be closed, for as long as the
    ///   application lives.
    package func enforce(
        _ settings: Enforcement.Settings, _ registry: DeviceRegistry, loop: Loop, _ library: LibraryContext,
        barred: @escaping ([KeyID]) -> Void
    ) throws {
        enforcement = try Enforcement(
            settings, registry, routes: routes, upstreams: upstreams.map(\.settings.name), loop: loop, pool: pool,
            library,
            barred: barred)
    }

    /// A worker has begun or ceased to use a server.
    func serverHealthChanged(upstream: Int, server: String, _ change: ServerHealthChange) {
        guard let events else { return }
        var entry =
            switch change {
            case .ejected(let span, let failure):
                AccessLog.Entry(
                    event: "server_ejected",
                    detail: "\(server): too many failures, ejected for \(span.nanoseconds / 1_000_000) ms; "
                        + "the last: \(failure.text)")
            case .readmitted:
                AccessLog.Entry(
                    event: "server_readmitted", detail: "\(server): receives requests again after its ejection")
            case .unhealthy(let failure):
                AccessLog.Entry(
                    event: "server_unhealthy",
                    detail: "\(server): its health checks fail: \(failure.text)")
            case .healthy: AccessLog.Entry(event: "server_healthy", detail: "\(server): its health checks pass")
            }
        entry.upstream = upstream
        events.record(entry)
    }

    /// A server that is known by a name has these addresses from now on.
    package func readdress(_ server: NamedServer, to addresses: [SocketAddress]) {
        for upstream in upstreams { upstream.readdress(server, to: addresses) }
    }

    /// What its pools hold now.
    package var upstreamSnapshots: [WorkerSnapshot.Upstream] {
        upstreams.map(WorkerSnapshot.Upstream.init)
    }

    /// Nothing is under way any more: lets go of what waits for more.
    package func close() {
        events?.finish()
        spans?.finish()
        for upstream in upstreams { upstream.close() }
    }
}

extension Route {
    /// A copy whose arrays no other thread refers to.
    fileprivate var unshared: Route {
        Route(
            name: String(decoding: Array(name.utf8), as: UTF8.self), host: String(decoding: host, as: UTF8.self),
            prefix: String(decoding: prefix, as: UTF8.self), methods: methods, requirement: requirement,
            apps: apps.unshared, components: components.map { String(decoding: Array($0.utf8), as: UTF8.self) },
            upstream: upstream, contentLimit: contentLimit, contentIdle: contentIdle, body: body,
            webSocket: webSocket, unusualNames: unusualNames.map { String(decoding: $0, as: UTF8.self) })
    }
}
