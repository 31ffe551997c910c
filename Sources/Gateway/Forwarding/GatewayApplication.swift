internal import Bytes
internal import Cryptography
internal import EventLoop
internal import HTTP
internal import Policy
package import Server
package import TLS
internal import Upstream
internal import Vocabulary

/// What one worker's requests need to be served: routes, upstreams, prepared answers, log.
package final class GatewayApplication: Application {
    let routes: RouteTable
    let upstreams: [UpstreamPool]
    let upstreamRequest: UpstreamRequest
    /// Of each listener: the ports that requests may name.
    private let ports: [[UInt16]]
    let denials: DenialResponses
    let pool: BufferPool
    /// Nil if there is no registry: then all routes are for certificates. Set before anything is accepted.
    var enforcement: Enforcement?
    /// Nil if no rate is limited.
    let limiter: RateLimiter?
    private let sourceLimits: SharedSources.Limits
    private let shared: SharedLimits
    /// Nil if requests are not logged.
    let log: AccessLog?
    /// What is no request: the same log, or another where requests are not logged.
    private(set) var events: AccessLog?
    /// Nil if spans are not exported.
    let spans: RequestSpans?
    private let metrics: WorkerMetrics
    private let library: LibraryContext
    private let tunnelLimits: TunnelLimits
    private var clientShares: ClientShares {
        @inline(__always) _read {
            var borrowed = keptClientShares.borrow()
            defer { keptClientShares.end(&borrowed) }
            yield borrowed.value
        }
        @inline(__always) _modify {
            var borrowed = keptClientShares.borrow()
            defer { keptClientShares.end(&borrowed) }
            yield &borrowed.value
        }
    }
    private var keptClientShares: Borrowable<ClientShares>
    private let clientLimits: ClientLimits
    /// Streams under way of each client.
    private var streams: ClientShares
    /// Where routes and upstreams are counted, in the order of the configuration.
    private let routePlaces: [Int]
    private let upstreamPlaces: [Int]
    /// Whether clients' traces go on. If not, each request begins its own.
    private let continuesTraces: Bool
    private var traces: TraceGenerator
    private var clock = ClockText()

    init(
        routes: RouteTable, upstreams: [UpstreamPool], upstreamRequest: UpstreamRequest, ports: [[UInt16]],
        denials: DenialResponses,
        continuesTraces: Bool, pool: BufferPool, limiter: RateLimiter?,
        sourceLimits: SharedSources.Limits, shared: SharedLimits, log: AccessLog?, events: AccessLog?,
        spans: RequestSpans?, sample: UInt64?, metrics: WorkerMetrics,
        library: LibraryContext, tunnelLimits: TunnelLimits, clientLimits: ClientLimits
    ) {
        self.routes = routes
        self.upstreams = upstreams
        self.upstreamRequest = upstreamRequest
        self.ports = ports
        self.denials = denials
        self.continuesTraces = continuesTraces
        self.pool = pool
        self.limiter = limiter
        self.sourceLimits = sourceLimits
        self.shared = shared
        self.log = log
        self.events = events
        self.spans = spans
        traces = TraceGenerator(sample: sample)
        self.metrics = metrics
        self.library = library
        self.tunnelLimits = tunnelLimits
        self.clientLimits = clientLimits
        keptClientShares = Borrowable(ClientShares(limit: clientLimits.requests))
        streams = ClientShares(limit: clientLimits.streams)
        routePlaces = routes.routes.map { metrics.counts.placeOfRoute($0.name) }
        upstreamPlaces = upstreams.map { metrics.counts.placeOfUpstream($0.settings.name) }
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

    package override func admits(_ connection: ServerConnection) -> Bool {
        shared.sources.open(connection.peer.block, sourceLimits)
    }

    package override func connectionClosed(_ connection: ServerConnection) {
        shared.sources.close(connection.peer.block, inHandshake: !connection.isKnown)
        if connection.isKnown { metrics.counts.connectionEnded(connection.applicationProtocol) }
        if connection.isCountedForClient, let key = connection.clientKey { shared.clients.give(of: key) }
    }

    package override func admitsClient(of connection: ServerConnection) -> Bool {
        guard let key = connection.clientKey else { return true }
        connection.isCountedForClient = shared.clients.take(for: key, limit: clientLimits.connections)
        return connection.isCountedForClient
    }

    private func streamShare(of connection: ServerConnection) -> ClientShares.Share {
        ClientShares.share(of: 0, for: connection.clientKey ?? 0)
    }

    package override func admitsStream(on connection: ServerConnection) -> Bool {
        streams.isFree(streamShare(of: connection))
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
        guard let events else { return }
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
        metrics.counts.handshakeEnded(recognition, after: connection.handshakeDuration)
        metrics.counts.connectionBegan(connection.applicationProtocol)
        connection.isKnown = true
        shared.sources.handshakeCompleted(connection.peer.block)
    }

    package override func acceptingPaused(errno: Int32) {
        metrics.counts.acceptingPaused()
        events?.record(AccessLog.Entry(event: "accept_paused", detail: EventLoopError.text(of: errno)))
    }

    /// The latest decisions, for operators who watch the gateway now.
    var recent: RecentDecisions { metrics.recent }

    /// The trace of a request that cannot be read, or says nothing of one.
    func beginTrace() -> TraceContext { traces.begin() }

    /// The id of a span: not 0, and no other's.
    func nextSpanID() -> UInt64 { traces.nextID() }

    /// Whether a request may belong to a trace by its head.
    func mayContinueTrace(of head: RequestHead) -> Bool { continuesTraces && head.traceparent != nil }

    /// The trace that a request belongs to by its head, or one of its own.
    func trace(of head: RequestHead, _ bytes: Span<UInt8>) -> TraceContext {
        guard continuesTraces, let range = head.traceparent, let parent = TraceParent(range.of(bytes)) else {
            return traces.begin()
        }
        return traces.continue(parent)
    }

    // MARK: - What is counted

    /// - Parameter route: its index; nil if there was none.
    func requestEnded(
        _ route: Int?, _ version: HTTPVersion, _ decision: Decision?, _ denial: Denial?, _ timings: RequestTimings
    ) {
        metrics.counts.requestEnded(
            route: route.map { routePlaces[$0] } ?? 0, version, decision, denial, timings)
    }

    func rateExceeded(_ scope: RateScope) { metrics.counts.rateLimited(scope) }

    func upstreamAnswered(_ route: Int?) {
        guard let route else { return }
        metrics.counts.upstreamAnswered(upstreamPlaces[routes.routes[route].upstream])
    }

    func upstreamFailed(_ route: Int?, _ failure: UpstreamFailure) {
        guard let route else { return }
        metrics.counts.upstreamFailed(upstreamPlaces[routes.routes[route].upstream], failure)
    }

    /// - Parameter route: that has led to the upstream.
    func upstreamRetried(_ route: Int?) {
        guard let route else { return }
        metrics.counts.upstreamRetried(upstreamPlaces[routes.routes[route].upstream])
    }

    // MARK: - What one client may have

    /// - Returns: the share; nil if the client has as much of the upstream as it may.
    func takeShare(of upstream: Int, for client: ClientMemory) -> ClientShares.Share? {
        clientShares.take(of: upstream, for: client.key)
    }

    func give(_ share: ClientShares.Share) { clientShares.give(share) }

    // MARK: - Tunnels

    /// - Returns: why there may not be one more; nil if there may, and `give` follows, once.
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
    func tunnelMoved(_ octets: Int, toService: Bool) { metrics.counts.tunnelMoved(octets, toService: toService) }

    /// Whether a request that came to the listener may name the port.
    func admits(port: UInt16, at listener: Int) -> Bool { ports[listener].contains(port) }

    /// What a service answers to that key.
    ///
    /// - Parameter bytes: of the head that a client's key stands in.
    func webSocketAccept(for key: WebSocketKey, in bytes: Span<UInt8>) throws(CryptographyError) -> [UInt8] {
        switch key {
        case .sent(let range): try WebSocketAccept.value(for: range.of(bytes), library)
        case .made(let key): try WebSocketAccept.value(for: key.span, library)
        }
    }

    /// The Date field of a response that the gateway itself answers.
    func appendDate(to output: inout ByteBuffer) {
        clock.update(to: WallClock.seconds)
        output.append("Date: ")
        output.append(clock.httpDate)
        output.append("\r\n")
    }
}

extension ConnectionRefusal {
    fileprivate var endsHandshake: Bool {
        switch self {
        case .handshake, .handshakeTimeout: true
        case .limit, .listenerLimit, .sourceLimit, .clientLimit, .handshakeLimit, .memory, .proxyHeader,
            .certificateExpired,
            .certificateBarred, .http2:
            false
        }
    }
}
