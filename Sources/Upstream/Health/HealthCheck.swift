internal import Bytes
public import EventLoop
internal import HTTP

/// Asks one server again and again whether it is well, each time on a connection of its own: a server that takes no new
/// connections is not.
final class HealthCheck: UpstreamCall {
    private unowned let pool: UpstreamPool
    private let server: Int
    private let rules: HealthCheckRules
    private let path: [UInt8]
    private let host: [UInt8]
    private var timer: LoopTimer?
    private var beganAt = Instant(nanoseconds: 0)
    private var isUnderWay = false
    /// Until an address of the server is known there is nobody to ask.
    private var isWaiting = false
    /// Of its head, once it has come.
    private var status: UInt16?
    private var received = 0

    /// An answer is read to its end, so that the server sees an orderly one, but no longer than this.
    private static let contentLimit = 64 << 10

    init(pool: UpstreamPool, server: Int, _ rules: HealthCheckRules) {
        self.pool = pool
        self.server = server
        self.rules = rules
        path = Array(rules.path.utf8)
        host = Array((rules.host ?? pool.settings.servers[server].name).utf8)
        super.init()
        // The first one at once; not here, where the pool is still being made.
        timer = LoopTimer(loop: pool.loop, startsIn: TimeSpan(nanoseconds: 0)) { [unowned self] in
            if isUnderWay { end(.timeout(rules.timeout)) } else { begin() }
        }
    }

    func stop() {
        timer = nil
        isUnderWay = false
        cancel()
    }

    /// The server has addresses, or others than before.
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

    /// - Parameter failure: nil if it has passed.
    private func end(_ failure: HealthCheckFailure?) {
        guard isUnderWay else { return }
        isUnderWay = false
        cancel()
        let next = beganAt + rules.interval - pool.loop.now
        timer?.start(after: max(next, TimeSpan(nanoseconds: 0)))
        // The server was not asked: what is known of it stays.
        if case .upstream(.exhausted) = failure { return }
        pool.checked(server, failure)
    }

    // MARK: - The answer

    override var method: Method? { .get }

    override func responseHead(_ head: ResponseHead, _ bytes: Span<UInt8>) { status = head.status }

    override func responseContent(_ content: Span<UInt8>) -> Int {
        received += content.count
        if received > Self.contentLimit { end(verdict) }
        return content.count
    }

    /// What its answer says.
    private var verdict: HealthCheckFailure? {
        guard let status, !rules.passes(status) else { return nil }
        return .status(status, expected: rules.status)
    }

    override func responseEnded() { end(verdict) }

    override func failed(_ failure: UpstreamFailure, again: Repetition) { end(.upstream(failure)) }
}

/// Why a health check has not passed.
public enum HealthCheckFailure: Equatable, Sendable {
    case upstream(UpstreamFailure)
    /// It was answered, but not so. - expected: nil for 200 to 299.
    case status(UInt16, expected: UInt16?)
    /// It took longer than a check may, to the end of the answer.
    case timeout(TimeSpan)

    /// For logs.
    public var text: String {
        switch self {
        case .upstream(let failure): failure.text
        case .status(let status, let expected): "status \(status), expected \(expected.map { "\($0)" } ?? "200 to 299")"
        case .timeout(let span): "no complete response within \(span.nanoseconds / 1_000_000) ms"
        }
    }
}

/// How servers are asked whether they are well.
public struct HealthCheckRules: Sendable {
    /// Of the request: `/health`.
    public var path: String
    /// What the request calls the host; nil: the server as it is configured.
    public var host: String?
    /// From one check to the next.
    public var interval = TimeSpan.seconds(5)
    /// For a whole check; less than `interval`.
    public var timeout = TimeSpan.seconds(2)
    /// Checks, one after the other, that make it healthy or unhealthy.
    public var healthyAfter = 2
    public var unhealthyAfter = 3
    /// The one status that passes; nil: 200 to 299.
    public var status: UInt16?

    public init(path: String) {
        self.path = path
    }

    func passes(_ status: UInt16) -> Bool {
        if let expected = self.status { return status == expected }
        return (200...299).contains(status)
    }
}
