internal import Bytes
public import EventLoop
internal import HTTP

/// A periodic health check of one server. Each check uses a new connection: a server that accepts no new connections is
/// unhealthy.
///
/// ```
///         timer                response, failure, timeout
/// pausing ------> underWay ------------------------------> pausing
///    ^  +-------> awaitingAddress  (unresolved)
///    +-- addresses --+
/// ```
final class HealthCheck: UpstreamCall {
    private unowned let pool: UpstreamPool
    private let server: Int
    private let rules: HealthCheckRules
    private let path: [UInt8]
    private let host: [UInt8]
    private var timer: LoopTimer?
    private var progress = Progress.pausing

    private enum Progress {
        case pausing
        /// No address of the server is known.
        case awaitingAddress
        /// `status` is that of the response, after its head has arrived; `received` counts its content in bytes.
        case underWay(since: Instant, status: UInt16?, received: Int)
    }

    /// The maximum content of a response. It is read to its end, so that the server sees an orderly end.
    private static let contentLimit = 64 << 10

    init(pool: UpstreamPool, server: Int, _ rules: HealthCheckRules) {
        self.pool = pool
        self.server = server
        self.rules = rules
        path = Array(rules.path.utf8)
        host = Array((rules.host ?? pool.settings.servers[server].hostName).utf8)
        super.init()
        // The first check is immediate, but not within this initializer, which runs while the pool is being created.
        timer = LoopTimer(loop: pool.loop, startsIn: TimeSpan(nanoseconds: 0)) { [unowned self] in
            switch progress {
            case .pausing, .awaitingAddress: begin()
            case .underWay: end(.timeout(rules.timeout))
            }
        }
    }

    func stop() {
        timer = nil
        progress = .pausing
        cancel()
    }

    /// Continues after the server's addresses have changed.
    func addressesCame() {
        guard case .awaitingAddress = progress else { return }
        progress = .pausing
        timer?.start(after: TimeSpan(nanoseconds: 0))
    }

    private func begin() {
        guard pool.states[server].isResolved else { return progress = .awaitingAddress }
        progress = .underWay(since: pool.loop.now, status: nil, received: 0)
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
        guard case .underWay(let start, _, _) = progress else { return }
        progress = .pausing
        cancel()
        let next = start + rules.interval - pool.loop.now
        timer?.start(after: max(next, TimeSpan(nanoseconds: 0)))
        // The check did not reach the server, so its state stays.
        if case .upstream(.exhausted) = failure { return }
        pool.checked(server, failure)
    }

    // MARK: - The response

    override var method: Method? { .get }

    override func responseHead(_ head: ResponseHead, _ bytes: Span<UInt8>) {
        guard case .underWay(let start, _, let received) = progress else { return }
        progress = .underWay(since: start, status: head.status, received: received)
    }

    override func responseContent(_ content: Span<UInt8>) -> Int {
        guard case .underWay(let start, let status, let received) = progress else { return content.count }
        progress = .underWay(since: start, status: status, received: received + content.count)
        if received + content.count > Self.contentLimit { end(verdict) }
        return content.count
    }

    /// The failure that the response shows, if any.
    private var verdict: HealthCheckFailure? {
        guard case .underWay(_, let status?, _) = progress, !rules.passes(status) else { return nil }
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
