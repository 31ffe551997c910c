package import EventLoop
internal import HTTP
internal import Metrics
internal import TLS
package import Tracing
package import Upstream
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
    /// Requests that were sent again, by the upstream's place.
    private(set) var retries: [UInt64] = [0, 0]
    private(set) var acceptPauses: UInt64 = 0
    /// By the raw value of the version.
    private(set) var requestsByVersion = [UInt64](repeating: 0, count: HTTPVersion.allCases.count)
    /// Open now, their handshakes complete.
    private(set) var openConnections: (http11: Int, http2: Int) = (0, 0)
    /// Of HTTP/2.
    private(set) var openStreams = 0
    /// Connections of HTTP/2 that were broken, by the place of the reason.
    private(set) var http2Faults = [UInt64](repeating: 0, count: HTTP2FaultKind.allCases.count)
    /// Tunnels that are open now, and those that ever were.
    private(set) var tunnels: (open: Int, opened: UInt64) = (0, 0)
    /// By what has ended them.
    private(set) var tunnelEnds = [UInt64](repeating: 0, count: TunnelEnd.allCases.count)
    /// Octets that went through tunnels.
    private(set) var tunnelBytes: (toService: UInt64, toClient: UInt64) = (0, 0)
    private(set) var total = LatencyHistogram()
    private(set) var handshake = LatencyHistogram()
    private(set) var verification = LatencyHistogram()
    private(set) var commit = LatencyHistogram()
    private(set) var upstream = LatencyHistogram()
    private(set) var loopLag = LatencyHistogram()

    /// The last one is for requests without a decision: their clients have left.
    static let decisions = Decision.allCases.count + 1
    static let failureKinds = UpstreamFailure.Kind.allCases.count

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
        Self.grow(&retries, to: upstreams.names.count)
        Self.grow(&failures, to: upstreams.names.count * Self.failureKinds)
        return place
    }

    private static func grow(_ counts: inout [UInt64], to size: Int) {
        counts += [UInt64](repeating: 0, count: max(0, size - counts.count))
    }

    // MARK: - Counting

    /// - Parameter route: its place; 0 if there is none.
    mutating func requestEnded(
        route: Int, _ version: HTTPVersion, _ decision: Decision?, _ denial: Denial?, _ timings: RequestTimings
    ) {
        requestsByVersion[Int(version.rawValue)] += 1
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

    mutating func connectionBegan(_ spoken: ApplicationProtocol?) {
        switch spoken {
        case .http11: openConnections.http11 += 1
        case .http2: openConnections.http2 += 1
        case nil: break
        }
    }

    mutating func connectionEnded(_ spoken: ApplicationProtocol?) {
        switch spoken {
        case .http11: openConnections.http11 -= 1
        case .http2: openConnections.http2 -= 1
        case nil: break
        }
    }

    mutating func streamBegan() { openStreams += 1 }
    mutating func streamEnded() { openStreams -= 1 }

    mutating func http2Broken(_ fault: HTTP2Fault) { http2Faults[HTTP2FaultKind(fault).rawValue] += 1 }

    mutating func connectionHadNoRoom(_ limit: ReachedLimit) { withoutRoom[limit.rawValue] += 1 }

    mutating func upstreamAnswered(_ upstream: Int) { responses[upstream] += 1 }

    mutating func upstreamFailed(_ upstream: Int, _ failure: UpstreamFailure) {
        failures[upstream * Self.failureKinds + failure.kind.rawValue] += 1
    }

    mutating func upstreamRetried(_ upstream: Int) { retries[upstream] += 1 }

    mutating func tunnelOpened() {
        tunnels.open += 1
        tunnels.opened += 1
    }

    mutating func tunnelEnded(_ end: TunnelEnd) {
        tunnels.open -= 1
        tunnelEnds[end.rawValue] += 1
    }

    mutating func tunnelMoved(_ octets: Int, toService: Bool) {
        if toService { tunnelBytes.toService += UInt64(octets) } else { tunnelBytes.toClient += UInt64(octets) }
    }

    mutating func acceptingPaused() { acceptPauses += 1 }

    mutating func loopWasLate(by time: TimeSpan) { loopLag.record(nanoseconds: time.nanoseconds) }
}

/// One worker's counts, which all its generations go on with. Belongs to its thread; a scrape gets a copy.
package final class WorkerMetrics {
    package internal(set) var counts = WorkerCounts()
    /// Tunnels that are open, or on their way to be, of all generations.
    var heldTunnels = 0
    /// Spans that wait, of all generations.
    package let spans = SpanBudget()
    /// Of all generations too.
    package let recent = RecentDecisions()

    /// By upstream and server.
    private var servers: [String: [String: ServerTally]] = [:]
    private var serverCount = 0
    /// As for `SeriesNames`: what reloads bring must not fill the memory.
    private static let serverLimit = 1_024

    package init() {}

    /// Where a server of an upstream is counted, whatever generation it belongs to.
    func tally(of server: String, in upstream: String) -> ServerTally {
        if let known = servers[upstream]?[server] { return known }
        let isOther = serverCount >= Self.serverLimit
        let names = isOther ? (SeriesNames.others, SeriesNames.others) : (upstream, server)
        if let known = servers[names.0]?[names.1] { return known }
        if !isOther { serverCount += 1 }
        let made = ServerTally()
        // Copies that no other thread refers to.
        let copies = (
            String(decoding: Array(names.0.utf8), as: UTF8.self), String(decoding: Array(names.1.utf8), as: UTF8.self)
        )
        servers[copies.0, default: [:]][copies.1] = made
        return made
    }

    package var serverCounts: [String: [String: ServerCounts]] { servers.mapValues { $0.mapValues(\.counts) } }

    package func loopWasLate(by time: TimeSpan) { counts.loopWasLate(by: time) }
}
