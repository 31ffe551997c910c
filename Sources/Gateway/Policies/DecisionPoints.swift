internal import Bytes
internal import Cryptography
package import EventLoop
internal import Encoding
internal import HTTP
package import Policy
internal import Registry
internal import Telemetry
package import Upstream
internal import Vocabulary

/// The settings of a decision point, the same for all workers.
package struct DecisionPointSettings: Sendable {
    package let name: String
    package var upstream: UpstreamSettings
    package let decision: DecisionSettings
    /// The URL without a path, and the value of Host.
    package let url: String
    let host: String
    /// Nil if the metadata names it.
    package let path: String?
    let token: String?
    let timeout: TimeSpan
    /// How long an answer holds. 0 for the request that has asked.
    let cache: TimeSpan

    /// - Parameters:
    ///   - path: The path of decisions. Nil if AuthZEN's metadata at the URL names it.
    ///   - timeout: The time for a whole call.
    package init(
        name: String, upstream: UpstreamSettings, decision: DecisionSettings, url: String, host: String, path: String?,
        token: String?, timeout: TimeSpan, cache: TimeSpan
    ) {
        self.name = name
        self.upstream = upstream
        self.decision = decision
        self.url = url
        self.host = host
        self.path = path
        self.token = token
        self.timeout = timeout
        self.cache = cache
    }
}

/// The decision points of one worker.
final class DecisionPoints {
    enum Answer {
        /// Nil if the request is allowed.
        case known(Refusal?)
        /// `inquiryEnded` follows.
        case asked(Inquiry)
    }

    private let points: [DecisionPoint]
    /// Questions of simulated policies that have no answer yet.
    private var simulated: [ObjectIdentifier: Inquiry] = [:]

    /// Further questions of simulated policies are left out, so that they never delay real ones.
    private static let simulatedLimit = 32

    init(
        _ settings: [DecisionPointSettings], for gateway: GatewayApplication, loop: Loop, _ library: LibraryContext,
        _ metrics: WorkerMetrics
    ) throws(CryptographyError) {
        points = try settings.map { settings throws(CryptographyError) in
            try DecisionPoint(settings, loop: loop, buffers: gateway.pool, library, metrics)
        }
        for point in points {
            point.pool.onHealthChange = { [unowned gateway] server, change in
                gateway.serverHealthChanged(upstream: nil, server: server, change)
            }
        }
    }

    var pools: [UpstreamPool] { points.map(\.pool) }

    func readdress(_ server: NamedServer, to addresses: [SocketAddress]) {
        for point in points { point.pool.readdress(server, to: addresses) }
    }

    func close() {
        for inquiry in simulated.values { inquiry.stop() }
        simulated = [:]
        for point in points { point.close() }
    }

    /// Asks the decision point of a policy about a request.
    func ask(for exchange: ForwardingExchange, by track: PolicyTrack) -> Answer {
        let gateway = exchange.gateway
        guard let point = point(of: track, gateway) else {
            return .known(Refusal(.internalError, "a policy without its decision point"))
        }
        // Most often it is one that the decision point has allowed before.
        if point.allows(exchange) {
            gateway.policyDecided(track, .allow, [])
            return .known(nil)
        }
        guard let policy = gateway.judge?.policies[track.policy] else {
            return .known(Refusal(.internalError, "a decision point without its policy"))
        }
        let inquiry = Inquiry()
        let outcome = point.ask(exchange, inquiry) { [unowned exchange, unowned gateway] result in
            exchange.inquiryEnded(Self.refusal(result, of: track, policy.name, point.settings.name, gateway))
        }
        guard let outcome else { return .asked(inquiry) }
        return .known(Self.refusal(outcome, of: track, policy.name, point.settings.name, gateway))
    }

    /// Asks the decision point of a simulated policy. Only a difference from what was decided is logged: the request
    /// was allowed.
    func simulate(_ exchange: ForwardingExchange, by track: PolicyTrack) {
        let gateway = exchange.gateway
        guard let point = point(of: track, gateway), let route = exchange.request.decision.route,
            simulated.count < Self.simulatedLimit
        else { return }
        let (trace, inquiry) = (exchange.request.trace, Inquiry())
        let id = ObjectIdentifier(inquiry)
        let note: (Result<PolicyDecision, InquiryFailure>) -> Void = { [unowned self, unowned gateway] result in
            simulated[id] = nil
            switch result {
            case .success(let decision):
                gateway.policyDecided(track, decision.isAllowed ? .allow : .deny, [])
                guard !decision.isAllowed else { return }
                let codes = decision.violations.map { " \($0)" }.joined()
                gateway.simulatedDecision("deny\(codes)", by: track, on: route, of: trace)
            case .failure(let failure):
                gateway.policyDecided(track, .unavailable, [])
                gateway.simulatedDecision("unavailable: \(failure.reason)", by: track, on: route, of: trace)
            }
        }
        if let outcome = point.ask(exchange, inquiry, then: note) { note(outcome) } else { simulated[id] = inquiry }
    }

    private func point(of track: PolicyTrack, _ gateway: GatewayApplication) -> DecisionPoint? {
        gateway.judge?.outlines[track.policy].decisionPoint.map { points[$0] }
    }

    private static func refusal(
        _ result: Result<PolicyDecision, InquiryFailure>, of track: PolicyTrack, _ policy: String, _ point: String,
        _ gateway: GatewayApplication
    ) -> Refusal? {
        switch result {
        case .success(let decision) where decision.isAllowed:
            gateway.policyDecided(track, .allow, [])
            return nil
        case .success(let decision):
            gateway.policyDecided(track, .deny, [])
            let reasons =
                ["policy \(policy), by \(point)"] + decision.violations + [decision.adminReason].compactMap(\.self)
            return Refusal(
                .policyDenied, reasons.joined(separator: "; "),
                objection: PolicyObjection(violations: decision.violations, reason: decision.userReason))
        // What no mapping fits is not allowed.
        case .failure(.question(let fault)):
            gateway.policyDecided(track, .deny, [])
            return Refusal(
                .policyDenied, "policy \(policy), by \(point): \(fault.reason)",
                objection: PolicyObjection(violations: [], reason: nil))
        case .failure(let failure):
            gateway.policyDecided(track, .unavailable, [])
            return Refusal(.policyUnavailable, "policy \(policy), by \(point): \(failure.reason)")
        }
    }
}

/// A question on its way.
final class Inquiry {
    fileprivate var call: OutboundCall?
    /// Gives back the client's share.
    fileprivate var leave: (() -> Void)?

    /// Ends the wait. No answer follows.
    func stop() {
        call?.stop()
        end()
    }

    fileprivate func end() {
        call = nil
        leave?()
        leave = nil
    }
}

/// One decision point of one worker: its connections, and the answers that still hold.
private final class DecisionPoint {
    let settings: DecisionPointSettings
    let pool: UpstreamPool
    private let calls: DecisionCalls
    private let loop: Loop
    /// The path of decisions, or why it is not known yet.
    private var path: Result<String, InquiryFailure>
    private var answers = AnswerCache()
    /// Questions under way by client, so that one client does not take all places.
    private var shares: ClientShares
    /// Whether answers are kept.
    private let keepsAnswers: Bool
    /// Whether they depend on more of a request than its route, method and client.
    private var discovery: OutboundCall?
    private var discoveryTimer: LoopTimer?

    private static let discoveryPause = TimeSpan.seconds(5)

    init(
        _ settings: DecisionPointSettings, loop: Loop, buffers: BufferPool, _ library: LibraryContext,
        _ metrics: WorkerMetrics
    ) throws(CryptographyError) {
        self.settings = settings
        self.loop = loop
        let upstream = settings.upstream
        pool = try UpstreamPool(
            loop: loop, buffers: buffers, settings: upstream,
            tallies: upstream.servers.map { metrics.tally(of: $0.name, in: upstream.name) }, library: library)
        calls = DecisionCalls(settings, on: pool, loop: loop)
        shares = ClientShares(limit: max(16, min(Int(UInt16.max), (upstream.connections + upstream.waiting) / 4)))
        keepsAnswers = settings.cache.nanoseconds > 0
        path = settings.path.map { .success($0) } ?? .failure(.metadata("it was not read yet"))
        guard settings.path == nil else { return }
        discoveryTimer = LoopTimer(loop: loop, startsIn: TimeSpan.milliseconds(0)) { [unowned self] in discover() }
    }

    private func discover() {
        discovery = calls.discover { [unowned self] found in
            discovery = nil
            path = found
            if case .failure = found { discoveryTimer?.start(after: Self.discoveryPause) }
        }
    }

    func close() {
        discovery?.stop()
        discoveryTimer = nil
        pool.close()
    }

    /// Whether an answer that still holds, and depends on little of a request, allows it.
    func allows(_ exchange: ForwardingExchange) -> Bool {
        guard keepsAnswers, !exchange.varies(settings.decision), let key = exchange.answerKey else { return false }
        return answers.allows(key, at: loop.now)
    }

    /// Asks about a request.
    ///
    /// - Parameter completion: Called later with the answer, unless the inquiry is stopped.
    /// - Returns: The answer if it is known.
    func ask(
        _ exchange: ForwardingExchange, _ inquiry: Inquiry,
        then completion: @escaping (Result<PolicyDecision, InquiryFailure>) -> Void
    ) -> Result<PolicyDecision, InquiryFailure>? {
        let key = keepsAnswers ? exchange.answerKey : nil
        let rest = key != nil && exchange.varies(settings.decision) ? exchange.varyingFacts(settings.decision) : []
        if let key, let known = answers.answer(to: key, rest, at: loop.now) { return .success(known) }
        let path: String
        switch self.path {
        case .success(let known): path = known
        case .failure(let failure): return .failure(failure)
        }
        let question: DecisionQuestion
        do throws(InquiryFailure) { question = try exchange.question(settings.decision) } catch {
            return .failure(error)
        }
        let document: [UInt8]
        do throws(QuestionFault) { document = try question.document(by: settings.decision) } catch {
            return .failure(.question(error))
        }
        guard let share = shares.take(of: 0, for: exchange.client.key) else { return .failure(.tooMany) }
        let trace = exchange.request.trace.id
        let identifier = Hexadecimal.encode(trace.high, digits: 16) + Hexadecimal.encode(trace.low, digits: 16)
        inquiry.leave = { [unowned self] in shares.give(share) }
        inquiry.call = calls.ask(document, at: path, identifier) { [unowned self] result in
            inquiry.end()
            if let key, case .success(let decision) = result {
                answers.keep(decision, for: key, rest, until: loop.now + settings.cache)
            }
            completion(result)
        }
        return nil
    }
}

/// What every answer depends on. Trivial, because most requests are compared with one.
struct AnswerKey: Equatable {
    let route: Int
    let method: UInt8
    /// The certificate's key, or the certificate's id.
    let client: KeyID
    /// The number of the device's posture; 0 without a device.
    let generation: UInt32
}

/// Answers that still hold. Each question has one place, so that a look-up is one comparison; another question of the
/// same place takes it over.
private struct AnswerCache {
    /// Trivial.
    private struct Place {
        let key: AnswerKey
        let end: Instant
        let isAllowed: Bool
        /// Whether the answer depends on more than the key.
        let isVarying: Bool
    }

    private var places: [Place?] = []
    /// What else the answer in a place depends on, and the answer.
    private var answers: [(rest: [UInt8], decision: PolicyDecision)?] = []

    /// A power of two.
    private static let count = 1 << 12
    /// An answer that depends on more is not kept, so that all of them take at most some MiB.
    private static let restLimit = 1_024

    private static func index(of key: AnswerKey, _ rest: [UInt8]) -> Int {
        let number = key.client.prefix &+ UInt64(truncatingIfNeeded: key.route &* 31 &+ Int(key.method))
        let other = rest.reduce(into: UInt64(0)) { $0 = $0 &* 31 &+ UInt64($1) }
        return Int(truncatingIfNeeded: (number ^ other) & UInt64(count - 1))
    }

    /// Whether a kept answer that depends on the key alone allows a request.
    func allows(_ key: AnswerKey, at now: Instant) -> Bool {
        guard !places.isEmpty, let place = places[Self.index(of: key, [])] else { return false }
        return place.isAllowed && !place.isVarying && now < place.end && place.key == key
    }

    func answer(to key: AnswerKey, _ rest: [UInt8], at now: Instant) -> PolicyDecision? {
        let index = Self.index(of: key, rest)
        guard !places.isEmpty, let place = places[index], now < place.end, place.key == key,
            let kept = answers[index], kept.rest == rest
        else { return nil }
        return kept.decision
    }

    mutating func keep(_ decision: PolicyDecision, for key: AnswerKey, _ rest: [UInt8], until end: Instant) {
        guard rest.count <= Self.restLimit else { return }
        if places.isEmpty {
            places = Array(repeating: nil, count: Self.count)
            answers = Array(repeating: nil, count: Self.count)
        }
        let index = Self.index(of: key, rest)
        places[index] = Place(key: key, end: end, isAllowed: decision.isAllowed, isVarying: !rest.isEmpty)
        answers[index] = (rest, decision)
    }
}
