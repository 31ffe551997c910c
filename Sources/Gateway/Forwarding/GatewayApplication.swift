internal import Bytes
internal import EventLoop
internal import Policy
internal import Server
internal import Upstream
internal import Vocabulary

/// What one worker's requests need to be served: routes, upstreams, prepared answers, log.
final class GatewayApplication: Application {
    let routes: RouteTable
    let upstreams: [UpstreamPool]
    let upstreamRequest: UpstreamRequest
    let denials: DenialResponses
    let pool: BufferPool
    /// Nil if there is no registry: then all routes are for certificates. Set before anything is accepted.
    var enforcement: Enforcement?
    /// Nil if access is not logged.
    let log: AccessLog?
    var traces = TraceIDGenerator()
    private var clock = ClockText()

    init(
        routes: RouteTable, upstreams: [UpstreamPool], upstreamRequest: UpstreamRequest, denials: DenialResponses,
        pool: BufferPool, log: AccessLog?
    ) {
        self.routes = routes
        self.upstreams = upstreams
        self.upstreamRequest = upstreamRequest
        self.denials = denials
        self.pool = pool
        self.log = log
    }

    override func makeExchange(for connection: ServerConnection) -> Exchange {
        ForwardingExchange(connection: connection, gateway: self)
    }

    override func connectionRefused(_ connection: ServerConnection, _ refusal: ConnectionRefusal) {
        guard let denial = Denial(refusal) else { return }
        log?.record(
            AccessLog.Entry(
                event: "connection_refused", client: ClientNetwork.text(of: connection.peer), denial: denial,
                detail: RefusalDetail.of(refusal)))
    }

    override func acceptingPaused(errno: Int32) {
        log?.record(AccessLog.Entry(event: "accept_paused", detail: EventLoopError.text(of: errno)))
    }

    /// The value of a Date field.
    func httpDate() -> String {
        clock.update(to: WallClock.seconds)
        return clock.httpDate
    }
}
