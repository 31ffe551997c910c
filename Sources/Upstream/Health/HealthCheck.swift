internal import Bytes
public import EventLoop
internal import HTTP

/// A periodic health check of one server. Each check uses a new connection: a server that accepts no new connections is
/// unhealthy.
final class HealthCheck: UpstreamCall {
    private unowned let pool: UpstreamPool
    private let server: Int
    private let rules: HealthCheckRules
    private let path: [UInt8]
    private let host: [UInt8]
    private var timer: LoopTimer?
    private var beganAt = Instant(nanoseconds: 0)
    private var isUnderWay = false
    /// Whether the check waits for an address of the server.
    private var isWaiting = false
    /// The status of the response, after its head has arrived.
    private var status: UInt16?
    private var received = 0

    /// The maximum content of a response. It is read to its end, so that the server sees an orderly end.
    private static let contentLimit = 64 << 10

    init(pool: UpstreamPool, server: Int, _ rules: HealthCheckRules) {
        self.pool = pool
        self.server = server
        self.rules = rules
        path = Array(rules.path.utf8)
        host = Array((rules.host ?? pool.settings.servers[server].name).utf8)
        super.init()
        // The first check is immediate, but not within this initializer, which runs while the pool is being created.
        timer = LoopTimer(loop: pool.loop, startsIn: TimeSpan(nanoseconds: 0)) { [unowned self] in
            if isUnderWay { end(.timeout(rules.timeout)) } else { begin() }
        }
    }

    func stop() {
        timer = nil
        isUnderWay = false
        cancel()
    }

    /// Continues after the server's addresses have changed.
    func addressesCame() {
        guard isWaiting else { return }
        isWaiting = false
        timer?.start(after: TimeSpan(nanoseconds: 0))
    }

    private func begin() {
        isWaiting = !pool.states[server].isResolved
        guard !isWaiting else { return }
        beganAt = pool.loop.now
        isUnderWay = true
        status = nil
        received = 0
        timer?.start(after: rules.timeout)
        do throws(UpstreamFailure) {
            try pool.beginCheck(self, of: server)
        } catch {
            end(.upstream(error))
        }
    }

    override func began(on carrier: UpstreamCarrier) {
        let path = path
        let host = host
        let isWritten = carrier.writeHead(
            OutgoingRequest(.get, framing: .none), path: path.span, query: nil, authority: host.span
        ) { $0.appendField("User-Agent", "attestgate") }
        precondition(isWritten, "a path and a host of the conf file fit a block")
        carrier.send(isComplete: true)
    }

    /// Ends a check.
    ///
    /// - Parameter failure: the failure, or nil if the check has passed.
    private func end(_ failure: HealthCheckFailure?) {
        guard isUnderWay else { return }
        isUnderWay = false
        cancel()
        let next = beganAt + rules.interval - pool.loop.now
        timer?.start(after: max(next, TimeSpan(nanoseconds: 0)))
        // The check did not reach the server, so its state stays.
        if case .upstream(.exhausted) = failure { return }
        pool.checked(server, failure)
    }

    // MARK: - The response

    override var method: Method? { .get }

    override func responseHead(_ head: ResponseHead, _ bytes: Span<UInt8>) { status = head.status }

    override func responseContent(_ content: Span<UInt8>) -> Int {
        received += content.count
        if received > Self.contentLimit { end(verdict) }
        return content.count
    }

    /// The failure that the response shows, if any.
    private var verdict: HealthCheckFailure? {
        guard let status, !rules.passes(status) else { return nil }
        return .status(status, expected: rules.status)
    }

    override func responseEnded() { end(verdict) }

    override func failed(_ failure: UpstreamFailure, again: Repetition) { end(.upstream(failure)) }
}

/// The reason why a health check has failed.
public enum HealthCheckFailure: Equatable, Sendable {
    case upstream(UpstreamFailure)
    /// Another status than expected. `expected` is nil for 200 to 299.
    case status(UInt16, expected: UInt16?)
    /// The check exceeded its time, up to the end of the response.
    case timeout(TimeSpan)

    /// The text for logs.
    public var text: String {
        switch self {
        case .upstream(let failure): failure.text
        case .status(let status, let expected): "status \(status), expected \(expected.map { "\($0)" } ?? "200 to 299")"
        case .timeout(let span): "no complete response within \(span.nanoseconds / 1_000_000) ms"
        }
    }
}
