package import Bytes
package import Cryptography
internal import Encoding
package import EventLoop
internal import HTTP
package import Policy
package import Registry
package import Server
package import TLS
package import Telemetry
package import TelemetryExport
package import Upstream
package import Vocabulary

/// What one worker's requests need: routes, upstreams, prepared responses, log.
package final class GatewayApplication: Application {
    let routes: RouteTable
    let upstreams: [UpstreamPool]
    let upstreamRequest: UpstreamRequest
    /// The ports that requests may name, by listener.
    private let ports: [[UInt16]]
    /// The clients that the peers of a listener state, by listener; nil where the peers are the clients. Set before anything
    /// is accepted.
    private var forwardedClients: [ForwardedClients?] = []
    /// Nil without policies.
    let judge: PolicyJudge?
    /// Nil if no policy asks one. Set with `enforcement`.
    private(set) var decisionPoints: DecisionPoints?
    private let decisionPointSettings: [DecisionPointSettings]
    let tunnels = OpenTunnels()
    let denials: DenialResponses
    /// Nil if no route requires device tokens.
    private let deviceTokens: DeviceTokens?
    /// Nil if no route requires client attestations.
    let clientAttestations: ClientAttestations?
    let pool: BufferPool
    /// Nil without a registry: then all routes require a certificate only. Set before anything is accepted.
    var enforcement: Enforcement?
    /// Nil if no rate is limited.
    let limiter: RateLimiter?
    private let sourceLimits: SharedSources.Limits
    private let shared: SharedLimits
    /// Nil if requests are not logged.
    let log: AccessLog?
    /// The log of other events: the same log, or another if requests are not logged.
    private let events: AccessLog
    /// Nil if spans are not exported.
    let spans: RequestSpans?
    private let metrics: WorkerMetrics
    private let library: LibraryContext
    private let tunnelLimits: TunnelLimits
    private var clientShares: ClientShares
    private let clientLimits: ClientLimits
    /// Streams in flight by client.
    private var streams: ClientShares
    /// The indices of routes and upstreams in the counts, in the order of the configuration.
    private let routePlaces: [Int]
    private let upstreamPlaces: [Int]
    /// The indices of apps in the counts, in the order of the configuration. Set with `enforcement`.
    private var appPlaces: [Int] = []
    /// The indices of policies in the counts, in the order of the configuration.
    private let policyPlaces: [Int]
    /// Whether clients' traces are continued. If not, each request begins a new one.
    private let continuesTraces: Bool
    private var traces: TraceGenerator
    private var dateField = DateField()

    /// Makes the application of a worker from a configuration.
    ///
    /// - Parameters:
    ///   - shared: The counts of the process.
    ///   - log: The destination of requests and other events.
    ///   - exporter: Needed if spans are exported.
    ///   - metrics: The worker's metrics, for all its generations.
    package init(
        _ settings: Settings, loop: Loop, pool: BufferPool, library: LibraryContext, shared: SharedLimits,
        log: LogWriter, exporter: SpanExporter?, metrics: WorkerMetrics
    ) throws(CryptographyError) {
        // The table has its own order.
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
        events = AccessLog(
            loop: loop, writer: log, settings: settings.accessLog, routes: names, upstreams: servers,
            listeners: settings.listeners)
        self.log = settings.accessLog.hasRequests ? events : nil
        var sample: UInt64?
        if let tracing = settings.tracing, let exporter {
            let queue = SpanQueue(loop: loop, exporter: exporter, budget: metrics.spans, limits: tracing.limits)
            spans = RequestSpans(queue, routes: names, upstreams: servers, listeners: settings.listeners)
            sample = tracing.sample
        } else {
            spans = nil
        }
        traces = TraceGenerator(sample: sample)
        continuesTraces = !settings.strippedFields.contains("traceparent")
        upstreamRequest = UpstreamRequest(
            policy: FieldPolicy(
                own: settings.certificateFields, stripped: settings.strippedFields, forwarded: settings.forwardedFields)
        )
        denials = DenialResponses(uriPrefix: settings.denialURI)
        deviceTokens = try settings.deviceTokens.map { tokens throws(CryptographyError) in
            try DeviceTokens(tokens, library)
        }
        clientAttestations = try settings.clientAttestations.map { attestations throws(CryptographyError) in
            try ClientAttestations(attestations, shared.attestations, library)
        }
        // Copies without memory shared with other threads.
        ports = settings.ports.map { $0.map(\.self) }
        limiter = settings.rates.isNone ? nil : RateLimiter(settings.rates, routes: names, shared: shared)
        sourceLimits = settings.sourceLimits
        tunnelLimits = settings.tunnelLimits
        clientLimits = settings.clientLimits
        clientShares = ClientShares(limit: settings.clientLimits.requests)
        streams = ClientShares(limit: settings.clientLimits.streams)
        judge = settings.policies.isEmpty ? nil : PolicyJudge(settings.policies)
        decisionPointSettings = settings.decisionPoints
        policyPlaces = settings.policies.map { metrics.counts.placeOfPolicy($0.name) }
        routePlaces = names.map { metrics.counts.placeOfRoute($0) }
        upstreamPlaces = upstreams.map { metrics.counts.placeOfUpstream($0.settings.name) }
        self.routes = routes
        self.upstreams = upstreams
        self.pool = pool
        self.shared = shared
        self.metrics = metrics
        self.library = library
        super.init()
        for (place, upstream) in upstreams.enumerated() {
            upstream.onHealthChange = { [unowned self] server, change in
                serverHealthChanged(upstream: place, server: server, change)
            }
        }
    }

    package override func makeExchange(for connection: ServerConnection) -> Exchange {
        ForwardingExchange(connection: connection, gateway: self)
    }

    /// Returns the clients that the peers of a listener state; nil if the peers are the clients.
    func clients(at listener: Int) -> ForwardedClients? {
        forwardedClients.isEmpty ? nil : forwardedClients[listener]
    }

    /// Whether the peer is a proxy. Limits of one client are not for it: the listener's own limit is.
    private func isProxy(_ connection: ServerConnection) -> Bool { clients(at: connection.listener) != nil }

    /// Whether limits of one address apply: not to proxies, and not to peers without an address.
    private func hasAddress(_ connection: ServerConnection) -> Bool {
        !isProxy(connection) && !connection.peer.isUnix
    }

    package override func admits(_ connection: ServerConnection) -> Bool {
        !hasAddress(connection) || shared.sources.open(connection.peer.block, sourceLimits)
    }

    package override func connectionClosed(_ connection: ServerConnection) {
        if hasAddress(connection) {
            shared.sources.close(connection.peer.block, inHandshake: !connection.isKnown)
        }
        if connection.isKnown { metrics.counts.connectionEnded(connection.applicationProtocol) }
        if connection.standing == .counted, let key = connection.clientKey { shared.clients.give(of: key) }
    }

    package override func admitsClient(of connection: ServerConnection) -> Bool {
        guard let key = connection.clientKey, !isProxy(connection) else { return true }
        guard shared.clients.take(for: key, limit: clientLimits.connections) else { return false }
        connection.countedForClient()
        return true
    }

    private func streamShare(of connection: ServerConnection) -> ClientShares.Share {
        ClientShares.share(of: 0, for: connection.clientKey ?? 0)
    }

    package override func admitsStream(on connection: ServerConnection) -> Bool {
        isProxy(connection) || streams.isFree(streamShare(of: connection))
    }

    package override func streamBegan(on connection: ServerConnection) {
        metrics.counts.streamBegan()
        _ = streams.take(of: 0, for: connection.clientKey ?? 0)
    }

    package override func streamEnded(on connection: ServerConnection) {
        metrics.counts.streamEnded()
        streams.give(streamShare(of: connection))
    }

    package override func connectionRefused(_ connection: ServerConnection, _ refusal: ConnectionRefusal) {
        metrics.counts.connectionRefused(Denial(refusal), inHandshake: refusal.endsHandshake)
        if case .http2(let fault) = refusal { metrics.counts.http2Broken(fault) }
        if let limit = ReachedLimit(refusal) { metrics.counts.connectionHadNoRoom(limit) }
        guard let denial = Denial(refusal) else { return }
        var entry = AccessLog.Entry(
            event: "connection_refused", denial: denial, detail: RefusalDetail.of(refusal, connection.identity))
        entry.listener = connection.listener
        recent.add(RecentDecision(entry, at: WallClock.microseconds, from: connection.peer))
        entry.client = events.client(connection.peer)
        entry.serverName = connection.serverName?.bytes
        entry.timings.handshake = refusal.endsHandshake ? connection.handshakeDuration : nil
        entry.disclosed = Disclosure(events.settings.disclosed, of: connection.peer)
        events.record(entry)
    }

    package override func proxyHeaderRead(_ connection: ServerConnection, hasSource: Bool) {
        metrics.counts.proxyHeaderRead(hasSource: hasSource)
    }

    package override func handshakeCompleted(_ connection: ServerConnection, _ recognition: TLSStream.Recognition) {
        metrics.counts.handshakeEnded(recognition, connection.keyExchange, after: connection.handshakeDuration)
        metrics.counts.connectionBegan(connection.applicationProtocol)
        connection.authenticated()
        if hasAddress(connection) { shared.sources.handshakeCompleted(connection.peer.block) }
    }

    package override func plainConnectionBegan(_ connection: ServerConnection) {
        metrics.counts.connectionBegan(connection.applicationProtocol)
        connection.authenticated()
    }

    package override func acceptingPaused(errno: Int32) {
        metrics.counts.acceptingPaused()
        events.record(AccessLog.Entry(event: "accept_paused", detail: EventLoopError.text(of: errno)))
    }

    /// The latest decisions, for operators who watch the gateway.
    var recent: RecentDecisions { metrics.recent }

    /// Begins a trace for a request that is malformed or has none.
    func beginTrace() -> TraceContext { traces.begin() }

    /// Returns a new span id, which is not 0.
    func nextSpanID() -> UInt64 { traces.nextID() }

    /// Returns whether a request may continue a trace.
    func mayContinueTrace(of head: RequestHead) -> Bool { continuesTraces && head.traceparent != nil }

    /// Returns the trace of a request: the one in its head, or a new one.
    func trace(of head: RequestHead, _ bytes: Span<UInt8>) -> TraceContext {
        guard continuesTraces, let range = head.traceparent, let parent = TraceParent(range.of(bytes)) else {
            return traces.begin()
        }
        return traces.continue(parent)
    }

    // MARK: - Device tokens

    /// Verifies the device token of a request.
    ///
    /// - Parameter bytes: The bytes of `head`.
    func deviceToken(of head: RequestHead, _ bytes: Span<UInt8>, _ client: ClientMemory) -> DeviceTokens.Outcome {
        guard let deviceTokens else {
            return .refused(Refusal(.internalError, "a device token without its issuer"))
        }
        return deviceTokens.verify(head, bytes, client, now: WallClock.seconds)
    }

    /// Judges device tokens and client attestations by a later configuration. Without an issuer in that, this one's rules
    /// stay.
    package func judgeTokens(asIn next: GatewayApplication) {
        if let tokens = next.deviceTokens { deviceTokens?.adopt(tokens) }
        if let attestations = next.clientAttestations { clientAttestations?.adopt(attestations) }
    }

    /// Whether services receive device tokens, once they are verified.
    var forwardsDeviceTokens: Bool { deviceTokens?.isForwarded == true }

    // MARK: - Counts

    /// Counts a completed request.
    ///
    /// - Parameters:
    ///   - route: The index of its route; nil if there was none.
    ///   - status: The status of the response; 0 if there was none.
    func requestEnded(
        _ route: Int?, _ version: HTTPVersion, _ decision: Decision?, _ status: UInt16, _ timings: RequestTimings
    ) {
        metrics.counts.requestEnded(
            route: route.map { routePlaces[$0] } ?? 0, version, decision, status, timings)
    }

    /// Counts a denied request.
    ///
    /// - Parameters:
    ///   - route: The index of its route; nil if there was none.
    ///   - device: The device of its certificate, as far as known.
    func requestDenied(_ denial: Denial, _ route: Int?, _ device: DeviceSnapshot?) {
        let app = device.map { placeOfApp($0).map { appPlaces[$0] } ?? 1 } ?? 0
        metrics.counts.requestDenied(denial, route: route.map { routePlaces[$0] } ?? 0, app: app)
    }

    /// Counts a completed request of a route that observes some devices.
    ///
    /// - Parameters:
    ///   - device: The device of the certificate.
    ///   - version: What the client calls itself.
    ///   - observed: The denial against it, if it passed all the same.
    ///   - denial: Its own.
    func observedRequestEnded(
        _ route: Int, _ device: DeviceSnapshot?, _ version: String, observed: Denial?, _ denial: Denial?
    ) {
        let place = device.flatMap { placeOfApp($0) }
        let app = place.flatMap { place in enforcement.map { String(decoding: $0.apps[place].id, as: UTF8.self) } }
        metrics.counts.observedRequestEnded(
            route: routePlaces[route],
            ObservedRequests.Key(route: routes.routes[route].name, app: app ?? "", version: version),
            observed: observed, denial)
    }

    /// Returns the place of a device's app in the configuration. Nil if it is not configured.
    private func placeOfApp(_ device: DeviceSnapshot) -> Int? { enforcement?.apps.place(of: device) }

    func rateExceeded(_ scope: RateScope) { metrics.counts.rateLimited(scope) }

    /// Counts a decision of a policy.
    func policyDecided(_ track: PolicyTrack, _ outcome: PolicyOutcome, _ violations: Violations) {
        metrics.counts.policyDecided(policyPlaces[track.policy], outcome, violations, isSimulated: track.isSimulated)
    }

    /// Logs the decision of a simulated decision point that differs from what was decided, after its request.
    func simulatedDecision(_ decision: String, by track: PolicyTrack, on route: Int, of trace: TraceContext) {
        guard let policy = judge?.policies[track.policy] else { return }
        var entry = AccessLog.Entry(event: "policy_simulated", detail: decision)
        entry.trace = trace
        entry.route = route
        entry.simulated = policy.name
        events.record(entry)
    }

    func upstreamAnswered(_ route: Int?) {
        guard let route else { return }
        metrics.counts.upstreamAnswered(upstreamPlaces[routes.routes[route].upstream])
    }

    func upstreamFailed(_ route: Int?, _ failure: UpstreamFailure) {
        guard let route else { return }
        metrics.counts.upstreamFailed(upstreamPlaces[routes.routes[route].upstream], failure)
    }

    /// Counts a retry.
    ///
    /// - Parameter route: The route of the request.
    func upstreamRetried(_ route: Int?) {
        guard let route else { return }
        metrics.counts.upstreamRetried(upstreamPlaces[routes.routes[route].upstream])
    }

    // MARK: - Shares of clients

    /// Takes a share of an upstream for a client.
    ///
    /// - Returns: Nil if the client is at its limit.
    func takeShare(of upstream: Int, for client: ClientMemory) -> ClientShares.Share? {
        clientShares.take(of: upstream, for: client.key)
    }

    func give(_ share: ClientShares.Share) { clientShares.give(share) }

    // MARK: - Tunnels

    /// Takes a place for a tunnel.
    ///
    /// - Returns: The refusal if there is none. If nil, `give` follows, once.
    func take(_ place: TunnelPlace) -> Refusal? {
        guard metrics.heldTunnels < tunnelLimits.worker else { return Refusal(.tunnelLimit, "of the worker") }
        let upstream = upstreams[place.upstream]
        guard upstream.takeTunnelPlace() else { return Refusal(.tunnelLimit, "of the upstream") }
        guard shared.tunnels.take(for: place.holder, limit: tunnelLimits.device) else {
            upstream.giveTunnelPlace()
            return Refusal(.deviceTunnelLimit)
        }
        metrics.heldTunnels += 1
        return nil
    }

    func give(_ place: TunnelPlace) {
        metrics.heldTunnels -= 1
        upstreams[place.upstream].giveTunnelPlace()
        shared.tunnels.give(of: place.holder)
    }

    func tunnelOpened() { metrics.counts.tunnelOpened() }
    func tunnelEnded(_ end: TunnelEnd) { metrics.counts.tunnelEnded(end) }
    func tunnelMoved(_ bytes: Int, toService: Bool) { metrics.counts.tunnelMoved(bytes, toService: toService) }

    /// Returns whether a request at a listener may name a port.
    func admits(port: UInt16, at listener: Int) -> Bool { ports[listener].contains(port) }

    /// Returns the Sec-WebSocket-Accept of a service for a key.
    ///
    /// - Parameter bytes: The bytes of the head with a client's key.
    func webSocketAccept(for key: WebSocketKey, in bytes: Span<UInt8>) throws(CryptographyError) -> [UInt8] {
        switch key {
        case .sent(let range): try WebSocketAccept.value(for: range.of(bytes), library)
        case .made(let key): try WebSocketAccept.value(for: key.span, library)
        }
    }

    /// Appends the Date field of a response by the gateway itself.
    func appendDate(to output: inout ByteBuffer) {
        output.append("Date: ")
        output.append(dateField.value(at: WallClock.seconds))
        output.append("\r\n")
    }
}

extension ConnectionRefusal {
    fileprivate var endsHandshake: Bool {
        switch self {
        case .handshake, .handshakeTimeout: true
        case .peer, .limit, .listenerLimit, .sourceLimit, .clientLimit, .handshakeLimit, .memory, .proxyHeader,
            .certificateExpired,
            .certificateBarred, .http2:
            false
        }
    }
}

extension GatewayApplication {
    /// The settings for requests, the same for all workers.
    package struct Settings: Sendable {
        let routes: [Route]
        let upstreams: [UpstreamSettings]
        let policies: [DevicePolicy]
        let decisionPoints: [DecisionPointSettings]
        let deviceTokens: DeviceTokenSettings?
        let clientAttestations: ClientAttestationSettings?
        let certificateFields: [String]
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
        ///   - routes: Routes, which refer to upstreams by index.
        ///   - policies: Policies, which refer to decision points and each other by index.
        ///   - deviceTokens: Present if a route demands device tokens.
        ///   - clientAttestations: Present if a route requires client attestations.
        ///   - certificateFields: Names of the fields in which proxies state certificates. They reach no upstream.
        ///   - strippedFields: Names of header fields that reach no upstream, besides those that never do.
        ///   - forwardedFields: Names of header fields that reach upstreams, although they otherwise never do.
        ///   - denialURI: The prefix of `error_uri`; the denial's code is appended.
        ///   - listeners: Their names, in the order of the acceptor.
        ///   - ports: The ports that requests may name, by listener.
        ///   - tracing: Nil if spans are not exported.
        package init(
            routes: [Route], upstreams: [UpstreamSettings], policies: [DevicePolicy],
            decisionPoints: [DecisionPointSettings], deviceTokens: DeviceTokenSettings? = nil,
            clientAttestations: ClientAttestationSettings? = nil, certificateFields: [String], strippedFields: [String],
            forwardedFields: [String], denialURI: String, listeners: [String], ports: [[UInt16]],
            accessLog: AccessLog.Settings,
            tracing: TracingSettings?, rates: RequestRates,
            sourceLimits: SharedSources.Limits, tunnelLimits: TunnelLimits, clientLimits: ClientLimits
        ) {
            self.routes = routes
            self.upstreams = upstreams
            self.policies = policies
            self.decisionPoints = decisionPoints
            self.deviceTokens = deviceTokens
            self.clientAttestations = clientAttestations
            self.certificateFields = certificateFields
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

    /// Enables the check of devices and proofs. Called before anything is accepted.
    ///
    /// - Parameter barred: Called with the mTLS keys whose open connections are to be closed, for the life of the
    ///   application.
    package func enforce(
        _ settings: Enforcement.Settings, _ registry: DeviceRegistry, loop: Loop, _ library: LibraryContext,
        barred: @escaping ([KeyID]) -> Void
    ) throws {
        enforcement = try Enforcement(
            settings, registry, routes: routes, upstreams: upstreams.map(\.settings.name), tunnels: tunnels, loop: loop,
            pool: pool, library, barred: barred)
        appPlaces = settings.apps.map { metrics.counts.placeOfApp($0.id.description) }
        if !decisionPointSettings.isEmpty {
            decisionPoints = try DecisionPoints(decisionPointSettings, for: self, loop: loop, library, metrics)
        }
    }

    /// Sets the clients that the peers of listeners state. Called before anything is accepted.
    ///
    /// - Parameter clients: By listener; nil where the peers are the clients.
    package func recognize(_ clients: [ForwardedClients?]) {
        forwardedClients = clients.contains { $0 != nil } ? clients : []
    }

    /// Judges clients that the peers of a listener state by the rules of another configuration, too, and ends the tunnels of
    /// those that it does not admit.
    package func judgeClients(at listener: Int, also admission: ClientAdmission) {
        clients(at: listener)?.judge(also: admission)
        tunnels.endUnadmitted()
    }

    /// Logs that a worker has begun or ceased to use a server.
    ///
    /// - Parameter upstream: Nil for a decision point.
    func serverHealthChanged(upstream: Int?, server: String, _ change: ServerHealthChange) {
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

    /// Sets the addresses of a server that is configured by name.
    package func readdress(_ server: NamedServer, to addresses: [SocketAddress]) {
        for upstream in upstreams { upstream.readdress(server, to: addresses) }
        decisionPoints?.readdress(server, to: addresses)
    }

    /// The present contents of its pools.
    package var upstreamSnapshots: [WorkerSnapshot.Upstream] {
        (upstreams + (decisionPoints?.pools ?? [])).map(WorkerSnapshot.Upstream.init)
    }

    /// Releases logs, spans and connections when nothing is in flight.
    package func close() {
        events.finish()
        spans?.finish()
        for upstream in upstreams { upstream.close() }
        decisionPoints?.close()
    }
}

extension Route {
    /// A copy without memory shared with other threads.
    fileprivate var unshared: Route {
        Route(
            name: String(decoding: Array(name.utf8), as: UTF8.self), host: String(decoding: host, as: UTF8.self),
            prefix: String(decoding: prefix, as: UTF8.self), methods: methods, requirement: requirement,
            enforcedPercent: enforcedPercent, policy: policy, apps: apps.unshared,
            components: components.map { String(decoding: Array($0.utf8), as: UTF8.self) },
            upstream: upstream, contentLimit: contentLimit, contentIdle: contentIdle, body: body,
            webSocket: webSocket, unusualNames: unusualNames.map { String(decoding: $0, as: UTF8.self) },
            targetForms: targetForms, identity: identity, deviceToken: deviceToken,
            answersAsReference: answersAsReference)
    }
}
