internal import Bytes
internal import Cryptography
internal import EventLoop
internal import Gateway
public import GatewayConfiguration
public import Policy
public import Registry
internal import Upstream
internal import Vocabulary

/// What the policy of a route decides about a device with a posture, and why.
public struct PolicyExplanation: Sendable {
    public struct Finding: Sendable {
        public let condition: Condition
        public let verdict: Condition.Verdict
        /// Nil if it is not known.
        public let fact: PostureFact?
        /// The age of the fact in seconds. Nil if it is not known.
        public let age: Int64?
    }

    /// The answer of the decision point.
    public enum Answer: Sendable {
        case notAsked
        case decided(PolicyDecision)
        case failed(String)
    }

    public let route: String
    public let policy: String
    /// Whether the policy's decisions are only counted and logged.
    public let isSimulated: Bool
    public let findings: [Finding]
    /// The name of the decision point. Nil if the policy has none.
    public let decisionPoint: String?
    /// What it would be asked about a GET of the route's path. Nil if it cannot be asked.
    public let document: [UInt8]?
    public private(set) var answer = Answer.notAsked
    private let point: DecisionPointSettings?

    /// Whether the policy allows the request, as far as it was asked.
    public var isAllowed: Bool {
        guard findings.allSatisfy({ $0.verdict == .met }) else { return false }
        switch answer {
        case .notAsked: return true
        case .decided(let decision): return decision.isAllowed
        case .failed: return false
        }
    }

    /// The codes of what the device lacks, without duplicates.
    public var violations: [String] {
        var codes: [String] = []
        for finding in findings where finding.verdict != .met {
            let code = String(describing: finding.condition.violation.row.code)
            if !codes.contains(code) { codes.append(code) }
        }
        if case .decided(let decision) = answer { codes += decision.violations.filter { !codes.contains($0) } }
        return codes
    }

    /// Judges a posture.
    ///
    /// - Parameters:
    ///   - route: The name of a route with a policy.
    ///   - now: In seconds since 1970.
    /// - Throws: A `StartupError` that says what is wrong with the route or the configuration.
    public init(
        _ configuration: Configuration, route name: String, _ posture: Posture, at now: Int64
    ) throws(StartupError) {
        guard let route = configuration.routes.first(where: { $0.name == name }) else {
            throw StartupError("there is no route \(name)")
        }
        guard let policyName = route.policy else { throw StartupError("the route \(name) has no policy") }
        let blueprint = try PolicyBlueprint(configuration)
        guard let policy = blueprint.policies.first(where: { $0.name == policyName }) else {
            throw StartupError("there is no policy \(policyName)")
        }
        self.route = name
        self.policy = policyName
        isSimulated = policy.isSimulated
        let facts = posture.facts
        findings = policy.conditions(for: posture.platform).map { condition in
            Finding(
                condition: condition, verdict: condition.verdict(on: posture, at: now),
                fact: facts.first { $0.name == condition.fact },
                age: Self.since(condition.fact, posture).map { now - $0 })
        }
        point = policy.decisionPoint.map { blueprint.decisionPoints[$0] }
        decisionPoint = point?.name
        document = point.flatMap { point in
            let method = route.methods.contains(.get) ? "GET" : route.methods.map(\.rawValue).min()
            var question = DecisionQuestion(
                method: method ?? "", route: name, host: route.host, path: route.path, client: .device(Self.placeholder)
            )
            question.app = route.apps.first { posture.platform.runs($0) }
            question.platform = posture.platform
            question.posture = posture
            question.person = Self.placeholder
            return try? question.document(by: point.decision)
        }
    }

    /// The pseudonym in the document: the gateway alone can compute it.
    private static let placeholder = String(repeating: "0", count: 64)

    /// The time at which a fact became known.
    private static func since(_ fact: PostureFactName, _ posture: Posture) -> Int64? {
        switch fact {
        case .playIntegrity, .playIntegrityAt: posture.integrityAt
        case .admission: posture.enrolledAt
        case .certificateKeyAttested: posture.boundAt ?? posture.attestedAt
        default: posture.attestedAt
        }
    }

    /// Asks the decision point. Blocks for its timeout, and for at most five seconds until its name is resolved.
    public mutating func ask(_ configuration: Configuration) throws {
        guard let point, let document else {
            answer = point == nil ? .notAsked : .failed("it cannot be asked about this device")
            return
        }
        answer = try DecisionTrial.ask(point, document, configuration)
    }
}

/// One question to a decision point, outside of a gateway.
private enum DecisionTrial {
    static func ask(
        _ point: DecisionPointSettings, _ document: [UInt8], _ configuration: Configuration
    ) throws -> PolicyExplanation.Answer {
        let loop = try Loop()
        // TLS needs it until the end.
        let library = try LibraryContext()
        let services = try OutboundServices(
            [point.upstream], resolver: ResolverSettings(configuration.resolver),
            forbidden: ForbiddenAddresses(configuration), loop: loop, buffers: BufferPool(), library: library,
            onEvent: { _ in })
        let calls = DecisionCalls(point, on: services.pools[0], loop: loop)
        var answer = PolicyExplanation.Answer.failed("no metadata can be read at \(point.url)")
        var call: OutboundCall?
        func end(_ result: PolicyExplanation.Answer) {
            answer = result
            loop.stop()
        }
        func ask(at path: Result<String, InquiryFailure>) {
            switch path {
            case .failure(let failure): end(.failed(failure.reason))
            case .success(let path):
                call = calls.ask(document, at: path, nil) { result in
                    switch result {
                    case .success(let decision): end(.decided(decision))
                    case .failure(let failure): end(.failed(failure.reason))
                    }
                }
            }
        }
        var isNamed = false
        services.find {
            isNamed = true
            call = nil
            if let path = point.path { ask(at: .success(path)) } else { call = calls.discover { ask(at: $0) } }
            // Nothing is under way, and nothing else ends the loop.
            if call == nil { loop.stop() }
        }
        if !isNamed || call != nil { withExtendedLifetime(library) { loop.run() } }
        call?.stop()
        return answer
    }
}
