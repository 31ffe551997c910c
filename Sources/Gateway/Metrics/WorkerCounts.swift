package import EventLoop
internal import Metrics
internal import TLS
internal import Upstream
internal import Vocabulary

/// What one worker has counted since it began: additions to arrays, no text and nothing shared.
package struct WorkerCounts: Sendable {
    private(set) var routes = SeriesNames()
    private(set) var upstreams = SeriesNames()
    /// By the route's place and the decision.
    private(set) var requests = [UInt64](repeating: 0, count: 2 * decisions)
    /// By the raw value of the denial.
    private(set) var denials = [UInt64](repeating: 0, count: Denial.allCases.count)
    /// By the scope of the rate.
    private(set) var rateExcesses = [UInt64](repeating: 0, count: RateScope.allCases.count)
    /// PROXY headers that name a client, and those that do not.
    private(set) var proxyHeaders: (withSource: UInt64, withoutSource: UInt64) = (0, 0)
    /// Connections there was no room for, by the limit.
    private(set) var withoutRoom = [UInt64](repeating: 0, count: ReachedLimit.allCases.count)
    /// Full handshakes of clients whose chain had been verified before.
    private(set) var knownChains: UInt64 = 0
    /// Full handshakes with a verification.
    private(set) var verifiedChains: UInt64 = 0
    private(set) var resumedHandshakes: UInt64 = 0
    /// The client went away in the middle.
    private(set) var abandonedHandshakes: UInt64 = 0
    /// By the raw value of the denial.
    private(set) var refusedHandshakes = [UInt64](repeating: 0, count: Denial.allCases.count)
    /// Response heads that came, by the upstream's place.
    private(set) var responses: [UInt64] = [0, 0]
    /// By the upstream's place and the kind of failure.
    private(set) var failures = [UInt64](repeating: 0, count: 2 * failureKinds)
    private(set) var acceptPauses: UInt64 = 0
    private(set) var total = LatencyHistogram()
    private(set) var handshake = LatencyHistogram()
    private(set) var verification = LatencyHistogram()
    private(set) var commit = LatencyHistogram()
    private(set) var upstream = LatencyHistogram()
    private(set) var loopLag = LatencyHistogram()

    /// The last one is for requests without a decision: their clients have left.
    static let decisions = Decision.allCases.count + 1
    static let failureKinds = UpstreamFailureKind.allCases.count

    var fullHandshakes: UInt64 { knownChains + verifiedChains }

    // MARK: - Places

    mutating func placeOfRoute(_ name: String) -> Int {
        let place = routes.place(of: name)
        Self.grow(&requests, to: routes.names.count * Self.decisions)
        return place
    }

    mutating func placeOfUpstream(_ name: String) -> Int {
        let place = upstreams.place(of: name)
        Self.grow(&responses, to: upstreams.names.count)
        Self.grow(&failures, to: upstreams.names.count * Self.failureKinds)
        return place
    }

    private static func grow(_ counts: inout [UInt64], to size: Int) {
        counts += [UInt64](repeating: 0, count: max(0, size - counts.count))
    }

    // MARK: - Counting

    /// - Parameter route: its place; 0 if there is none.
    mutating func requestEnded(route: Int, _ decision: Decision?, _ denial: Denial?, _ timings: RequestTimings) {
        let column = decision?.rawValue ?? Decision.allCases.count
        requests[route * Self.decisions + column] += 1
        if let denial { denials[Int(denial.rawValue)] += 1 }
        if let time = timings.total { total.record(nanoseconds: time.nanoseconds) }
        if let time = timings.verification { verification.record(nanoseconds: time.nanoseconds) }
        if let time = timings.commit { commit.record(nanoseconds: time.nanoseconds) }
        if let time = timings.upstream { upstream.record(nanoseconds: time.nanoseconds) }
    }

    mutating func rateLimited(_ scope: RateScope) {
        switch scope {
        case .source: rateExcesses[0] += 1
        case .device: rateExcesses[1] += 1
        case .route: rateExcesses[2] += 1
        }
    }

    mutating func proxyHeaderRead(hasSource: Bool) {
        if hasSource { proxyHeaders.withSource += 1 } else { proxyHeaders.withoutSource += 1 }
    }

    mutating func handshakeEnded(_ recognition: TLSStream.Recognition, after time: TimeSpan?) {
        switch recognition {
        case .session: resumedHandshakes += 1
        case .knownChain: knownChains += 1
        case .verification: verifiedChains += 1
        }
        if let time { handshake.record(nanoseconds: time.nanoseconds) }
    }

    /// - Parameters:
    ///   - denial: nil if the client has left.
    ///   - inHandshake: whether that is how the handshake ended.
    mutating func connectionRefused(_ denial: Denial?, inHandshake: Bool) {
        guard let denial else {
            abandonedHandshakes += 1
            return
        }
        denials[Int(denial.rawValue)] += 1
        if inHandshake { refusedHandshakes[Int(denial.rawValue)] += 1 }
    }

    mutating func connectionHadNoRoom(_ limit: ReachedLimit) { withoutRoom[limit.rawValue] += 1 }

    mutating func upstreamAnswered(_ upstream: Int) { responses[upstream] += 1 }

    mutating func upstreamFailed(_ upstream: Int, _ failure: UpstreamFailure) {
        failures[upstream * Self.failureKinds + UpstreamFailureKind(failure).rawValue] += 1
    }

    mutating func acceptingPaused() { acceptPauses += 1 }

    mutating func loopWasLate(by time: TimeSpan) { loopLag.record(nanoseconds: time.nanoseconds) }
}

/// One worker's counts, which all its generations go on with. Belongs to its thread; a scrape gets a copy.
package final class WorkerMetrics {
    package internal(set) var counts = WorkerCounts()

    package init() {}

    package func loopWasLate(by time: TimeSpan) { counts.loopWasLate(by: time) }
}

/// What an upstream's failures are told apart by in metrics.
enum UpstreamFailureKind: Int, CaseIterable {
    case unreachable
    case connectTimeout
    case connectionLimit
    case disconnected
    case responseTimeout
    case malformed
    case unexpectedUpgrade

    init(_ failure: UpstreamFailure) {
        self =
            switch failure {
            case .unreachable: .unreachable
            case .connectTimeout: .connectTimeout
            case .connectionLimit: .connectionLimit
            case .disconnected: .disconnected
            case .responseTimeout: .responseTimeout
            case .malformed: .malformed
            case .unexpectedUpgrade: .unexpectedUpgrade
            }
    }

    var name: String {
        switch self {
        case .unreachable: "unreachable"
        case .connectTimeout: "connect_timeout"
        case .connectionLimit: "connection_limit"
        case .disconnected: "disconnected"
        case .responseTimeout: "response_timeout"
        case .malformed: "malformed"
        case .unexpectedUpgrade: "unexpected_upgrade"
        }
    }
}
