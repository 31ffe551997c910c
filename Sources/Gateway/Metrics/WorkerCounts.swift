package import EventLoop
internal import HTTP
internal import Server
internal import TLS
internal import Telemetry
package import TelemetryExport
package import Upstream
internal import Vocabulary

/// The counts of one worker since its start. Counting is an addition in an array, without text or shared memory.
package struct WorkerCounts: Sendable {
    private(set) var routes = SeriesNames()
    private(set) var upstreams = SeriesNames()
    private(set) var apps = SeriesNames()
    /// By the place of the route and the decision.
    private(set) var requests = [UInt64](repeating: 0, count: 2 * decisions)
    /// Responses by the place of the route and the class of the status; the first column is for none.
    private(set) var answers = [UInt64](repeating: 0, count: 2 * statusClasses)
    /// Denied requests by the place of the route and the raw value of the denial.
    private(set) var routeDenials = [UInt64](repeating: 0, count: 2 * Denial.allCases.count)
    /// Denied requests by the place of the device's app and the raw value of the denial.
    private(set) var appDenials = [UInt64](repeating: 0, count: 2 * Denial.allCases.count)
    /// Requests of routes that observe some devices, by the place of the route.
    private(set) var observed: [UInt64] = [0, 0]
    /// Of these, those that a denial is against, by the place of the route and the raw value of the denial.
    private(set) var wouldDeny = [UInt64](repeating: 0, count: 2 * Denial.allCases.count)
    /// All of them, as a table.
    package private(set) var observedRows = ObservedRequests()
    private(set) var policies = SeriesNames()
    /// Decisions by the place of the policy, whether they are simulated, and the outcome.
    private(set) var policyDecisions = [UInt64](repeating: 0, count: 2 * policyColumns)
    /// Violations by the place of the policy, whether they are simulated, and the raw value of the violation.
    private(set) var policyViolations = [UInt64](repeating: 0, count: 2 * violationColumns)
    /// By the raw value of the denial.
    private(set) var denials = [UInt64](repeating: 0, count: Denial.allCases.count)
    /// By the scope of the rate limit.
    private(set) var rateExcesses = [UInt64](repeating: 0, count: RateScope.allCases.count)
    /// PROXY headers with and without the address of a client.
    private(set) var proxyHeaders: (withSource: UInt64, withoutSource: UInt64) = (0, 0)
    /// Connections closed by a limit, by the limit.
    private(set) var withoutRoom = [UInt64](repeating: 0, count: ReachedLimit.allCases.count)
    /// Full handshakes of clients whose chain was verified earlier.
    private(set) var knownChains: UInt64 = 0
    /// Full handshakes with a verification.
    private(set) var verifiedChains: UInt64 = 0
    /// Full handshakes of clients without a certificate.
    private(set) var anonymousHandshakes: UInt64 = 0
    private(set) var resumedHandshakes: UInt64 = 0
    /// Complete handshakes by the raw value of the group.
    private(set) var keyExchanges = [UInt64](repeating: 0, count: KeyExchange.allCases.count)
    /// Handshakes in which the client disconnected.
    private(set) var abandonedHandshakes: UInt64 = 0
    /// By the raw value of the denial.
    private(set) var refusedHandshakes = [UInt64](repeating: 0, count: Denial.allCases.count)
    /// Received response heads, by the place of the upstream.
    private(set) var responses: [UInt64] = [0, 0]
    /// By the place of the upstream and the kind of failure.
    private(set) var failures = [UInt64](repeating: 0, count: 2 * failureKinds)
    /// Requests that were sent again, by the place of the upstream.
    private(set) var retries: [UInt64] = [0, 0]
    private(set) var acceptPauses: UInt64 = 0
    /// By the raw value of the version.
    private(set) var requestsByVersion = [UInt64](repeating: 0, count: HTTPVersion.allCases.count)
    /// Open connections with a completed handshake.
    private(set) var openConnections: (http11: Int, http2: Int) = (0, 0)
    /// Open streams of HTTP/2.
    private(set) var openStreams = 0
    /// Connections of HTTP/2 that ended by a fault, by the raw value of its kind.
    private(set) var http2Faults = [UInt64](repeating: 0, count: HTTP2FaultKind.allCases.count)
    /// Open tunnels, and all that were opened.
    private(set) var tunnels: (open: Int, opened: UInt64) = (0, 0)
    /// By the raw value of the reason.
    private(set) var tunnelEnds = [UInt64](repeating: 0, count: TunnelEnd.allCases.count)
    /// Bytes sent through tunnels.
    private(set) var tunnelBytes: (toService: UInt64, toClient: UInt64) = (0, 0)
    /// Durations of complete requests by the place of the route.
    private(set) var durations = [LatencyHistogram](repeating: LatencyHistogram(), count: 2)
    private(set) var handshake = LatencyHistogram()
    private(set) var verification = LatencyHistogram()
    private(set) var commit = LatencyHistogram()
    private(set) var upstream = LatencyHistogram()
    private(set) var upstreamEnd = LatencyHistogram()
    private(set) var loopLag = LatencyHistogram()

    /// The number of columns of `requests`. The last is for requests without a decision, whose clients disconnected.
    static let decisions = Decision.allCases.count + 1
    /// No response, then 1xx to 5xx.
    static let statusClasses = 6
    static let failureKinds = UpstreamFailure.Kind.allCases.count
    static let policyColumns = 2 * PolicyOutcome.allCases.count
    static let violationColumns = 2 * Violation.allCases.count

    var fullHandshakes: UInt64 { knownChains + verifiedChains + anonymousHandshakes }

    /// Durations of all complete requests.
    var total: LatencyHistogram { durations.reduce(into: LatencyHistogram()) { $0.add($1) } }

    // MARK: - Places

    mutating func placeOfRoute(_ name: String) -> Int {
        let place = routes.place(of: name)
        Self.grow(&requests, to: routes.names.count * Self.decisions)
        Self.grow(&observed, to: routes.names.count)
        Self.grow(&wouldDeny, to: routes.names.count * Denial.allCases.count)
        Self.grow(&answers, to: routes.names.count * Self.statusClasses)
        Self.grow(&routeDenials, to: routes.names.count * Denial.allCases.count)
        durations += [LatencyHistogram](
            repeating: LatencyHistogram(), count: max(0, routes.names.count - durations.count))
        return place
    }

    mutating func placeOfApp(_ id: String) -> Int {
        let place = apps.place(of: id)
        Self.grow(&appDenials, to: apps.names.count * Denial.allCases.count)
        return place
    }

    mutating func placeOfPolicy(_ name: String) -> Int {
        let place = policies.place(of: name)
        Self.grow(&policyDecisions, to: policies.names.count * Self.policyColumns)
        Self.grow(&policyViolations, to: policies.names.count * Self.violationColumns)
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

    /// Counts a request.
    ///
    /// - Parameters:
    ///   - route: The place of the route. 0 if there is none.
    ///   - status: The status of the response. 0 if there is none.
    mutating func requestEnded(
        route: Int, _ version: HTTPVersion, _ decision: Decision?, _ status: UInt16, _ timings: RequestTimings
    ) {
        requestsByVersion[Int(version.rawValue)] += 1
        let column = decision?.rawValue ?? Decision.allCases.count
        requests[route * Self.decisions + column] += 1
        answers[route * Self.statusClasses + Self.statusClass(status)] += 1
        if let time = timings.total { durations[route].record(nanoseconds: time.nanoseconds) }
        if let time = timings.verification { verification.record(nanoseconds: time.nanoseconds) }
        if let time = timings.commit { commit.record(nanoseconds: time.nanoseconds) }
        if let time = timings.upstream { upstream.record(nanoseconds: time.nanoseconds) }
        if let time = timings.upstreamEnd { upstreamEnd.record(nanoseconds: time.nanoseconds) }
    }

    private static func statusClass(_ status: UInt16) -> Int {
        switch status {
        case 200..<300: 2
        case 300..<400: 3
        case 400..<500: 4
        case 500..<600: 5
        case 100..<200: 1
        default: 0
        }
    }

    /// Counts a denied request.
    ///
    /// - Parameters:
    ///   - route: The place of the route. 0 if there is none.
    ///   - app: The place of the device's app. 0 if no device is known, 1 if its app is not configured.
    mutating func requestDenied(_ denial: Denial, route: Int, app: Int) {
        denials[Int(denial.rawValue)] += 1
        routeDenials[route * Denial.allCases.count + Int(denial.rawValue)] += 1
        appDenials[app * Denial.allCases.count + Int(denial.rawValue)] += 1
    }

    /// Counts a request of a route that observes some devices.
    ///
    /// - Parameters:
    ///   - key: Its row in the table.
    ///   - observed: The denial against it, if it passed all the same.
    ///   - denial: Its own.
    mutating func observedRequestEnded(
        route: Int, _ key: ObservedRequests.Key, observed: Denial?, _ denial: Denial?
    ) {
        self.observed[route] += 1
        if let observed { wouldDeny[route * Denial.allCases.count + Int(observed.rawValue)] += 1 }
        observedRows.count(key, observed ?? denial)
    }

    /// Counts a decision of a policy.
    ///
    /// - Parameter violations: Those that its conditions have found.
    mutating func policyDecided(_ policy: Int, _ outcome: PolicyOutcome, _ violations: Violations, isSimulated: Bool) {
        let half = 2 * policy + (isSimulated ? 1 : 0)
        policyDecisions[half * Self.policyColumns / 2 + outcome.rawValue] += 1
        guard !violations.isEmpty else { return }
        for violation in Violation.allCases where violations.contains(violation) {
            policyViolations[half * Self.violationColumns / 2 + Int(violation.rawValue)] += 1
        }
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

    mutating func handshakeEnded(
        _ recognition: TLSStream.Recognition, _ keyExchange: KeyExchange?, after time: TimeSpan?
    ) {
        switch recognition {
        case .session: resumedHandshakes += 1
        case .knownChain: knownChains += 1
        case .verification: verifiedChains += 1
        case .noCertificate: anonymousHandshakes += 1
        }
        if let keyExchange { keyExchanges[keyExchange.rawValue] += 1 }
        if let time { handshake.record(nanoseconds: time.nanoseconds) }
    }

    /// Counts a connection that was refused.
    ///
    /// - Parameters:
    ///   - denial: Nil if the client disconnected.
    ///   - inHandshake: Whether the handshake ended by it.
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

    mutating func tunnelMoved(_ bytes: Int, toService: Bool) {
        if toService { tunnelBytes.toService += UInt64(bytes) } else { tunnelBytes.toClient += UInt64(bytes) }
    }

    mutating func acceptingPaused() { acceptPauses += 1 }

    mutating func loopWasLate(by time: TimeSpan) { loopLag.record(nanoseconds: time.nanoseconds) }
}

/// The counts of one worker, which all its generations share. Only its thread uses them. A scrape gets a copy.
package final class WorkerMetrics {
    package internal(set) var counts = WorkerCounts()
    /// Tunnels of all generations that are open or about to open.
    var heldTunnels = 0
    /// The budget of waiting spans of all generations.
    package let spans = SpanBudget()
    /// The latest decisions of all generations.
    package let recent = RecentDecisions()

    /// The counts of servers, by upstream and server.
    private var servers: [String: [String: ServerTally]] = [:]
    private var serverCount = 0
    /// Limit for the reason given at `SeriesNames`.
    private static let serverLimit = 1_024

    package init() {}

    /// Returns the counts of a server of an upstream, which all generations share.
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

/// The values of a metric's label since the start of the process, each with its place in the arrays of counts.
///
/// A place always belongs to one name, so the counts of a route or upstream continue after a reload.
struct SeriesNames: Sendable {
    /// The value for no name. Names in the configuration begin with a letter or digit.
    static let none = "_none"
    /// The value for all names above the limit.
    static let others = "_others"

    private(set) var names: [String]
    private var places: [String: Int]

    /// Limit of names. Reloads with new names must fill neither the gateway's memory nor that of Prometheus.
    private static let limit = 1_024

    init() {
        names = [Self.none, Self.others]
        places = [Self.none: 0, Self.others: 1]
    }

    /// Returns the place of a name, and adds the name if it is new.
    mutating func place(of name: String) -> Int {
        if let place = places[name] { return place }
        guard names.count < Self.limit else { return 1 }
        let place = names.count
        // A copy that no other thread refers to.
        let name = String(decoding: Array(name.utf8), as: UTF8.self)
        names.append(name)
        places[name] = place
        return place
    }

    static func isReserved(_ name: String) -> Bool { name == none || name == others }
}

/// The reason for the end of an HTTP/2 connection by a fault, as a label of the metric.
enum HTTP2FaultKind: Int, CaseIterable {
    case preface, violation, failure
    case settings, pings, resets, provokedResets, emptyFrames, priorities, windowUpdates, otherFrames
    case continuations, headerBlock, headerList, outboundFrames

    init(_ fault: HTTP2Fault) {
        switch fault {
        case .prefaceMissing: self = .preface
        case .violation: self = .violation
        case .failed: self = .failure
        case .excess(let excess):
            self =
                switch excess {
                case .settings: .settings
                case .pings: .pings
                case .resets: .resets
                case .provokedResets: .provokedResets
                case .emptyFrames: .emptyFrames
                case .priorities: .priorities
                case .windowUpdates: .windowUpdates
                case .otherFrames: .otherFrames
                case .continuations: .continuations
                case .headerBlock: .headerBlock
                case .headerList: .headerList
                case .outboundFrames: .outboundFrames
                }
        }
    }

    /// The name in snake case.
    var name: String {
        String(describing: self).reduce(into: "") { $0 += $1.isUppercase ? "_" + $1.lowercased() : String($1) }
    }
}

/// The limit that closed a connection, as a label of the metric. Clients see no difference, because they get no answer.
enum ReachedLimit: Int, CaseIterable {
    /// `limits.connections`.
    case connections
    /// `limits.handshakes`. It closes the oldest connection in a handshake, not the new one.
    case handshakes
    /// `listeners.connections`.
    case listener
    /// `limits.connections_per_client`.
    case client
    /// `limits.memory`.
    case memory
    /// `limits.connections_per_source` or `limits.handshakes_per_source`.
    case source

    /// Creates a value. Nil if the connection ended for another reason.
    init?(_ refusal: ConnectionRefusal) {
        switch refusal {
        case .limit: self = .connections
        case .handshakeLimit: self = .handshakes
        case .listenerLimit: self = .listener
        case .sourceLimit: self = .source
        case .clientLimit: self = .client
        case .memory: self = .memory
        case .peer, .proxyHeader, .handshake, .handshakeTimeout, .certificateExpired, .certificateBarred, .http2:
            return nil
        }
    }
}
