internal import Bytes
internal import Cryptography
internal import EventLoop
internal import Gateway
public import GatewayConfiguration
public import Policy
public import Registry
internal import Upstream
internal import Vocabulary

/// What the policy of a route decides about a request, and why.
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

    public enum Outcome: String, Sendable {
        case allow, deny
        /// The decision point did not decide.
        case unavailable
    }

    public let route: String
    public let policy: String
    /// Whether the policy's decisions are only counted and logged.
    public let isSimulated: Bool
    public let findings: [Finding]
    /// The name of the decision point. Nil if the policy has none.
    public let decisionPoint: String?
    /// What it would be asked. Nil if the policy has none, or if `fault` says why the question is not asked but denied.
    public let document: [UInt8]?
    public let fault: QuestionFault?
    public private(set) var answer = Answer.notAsked
    private let point: DecisionPointSettings?

    /// What the policy decides. A decision point that was not asked counts as one that allows.
    public var outcome: Outcome {
        guard fault == nil, findings.allSatisfy({ $0.verdict == .met }) else { return .deny }
        switch answer {
        case .notAsked: return .allow
        case .decided(let decision): return decision.isAllowed ? .allow : .deny
        case .failed: return .unavailable
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
    ///   - posture: Nil where the route requires no device.
    ///   - method: Without it the first of the route, GET if it has that.
    ///   - target: The path, perhaps with a query. Without it the path of the route.
    ///   - now: In seconds since 1970.
    /// - Throws: A `StartupError` that says what is wrong with the route or the configuration.
    public init(
        _ configuration: Configuration, route name: String, _ posture: Posture?, method: String?, target: String?,
        at now: Int64
    ) throws(StartupError) {
        guard let route = configuration.routes.first(where: { $0.name == name }) else {
            throw StartupError("there is no route \(name)")
        }
        guard let policyName = route.policy else { throw StartupError("the route \(name) has no policy") }
        let blueprint = try PolicyBlueprint(configuration)
        guard let policy = blueprint.policies.first(where: { $0.name == policyName }) else {
            throw StartupError("there is no policy \(policyName)")
        }
        guard (posture != nil) == (route.require >= .device) else {
            throw StartupError(
                posture == nil
                    ? "the route \(name) requires a device" : "the route \(name) requires no device: give none")
        }
        self.route = name
        self.policy = policyName
        isSimulated = policy.isSimulated
        findings = posture.map { Self.findings(policy, $0, at: now) } ?? []
        point = policy.decisionPoint.map { blueprint.decisionPoints[$0] }
        decisionPoint = point?.name
        let parts = (target ?? route.path).split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        var question = DecisionQuestion(
            method: method ?? (route.methods.contains(.get) ? "GET" : route.methods.map(\.rawValue).min() ?? ""),
            route: name, host: route.host, path: String(parts[0]),
            query: parts.count > 1 ? String(parts[1]) : nil,
            client: posture == nil ? .certificate(Self.placeholder) : .device(Self.placeholder))
        if let posture {
            question.app = route.apps.first { posture.platform.runs($0) }
            question.platform = posture.platform
            question.posture = posture
            question.person = Self.placeholder
        }
        do throws(QuestionFault) {
            document = try point.map { point throws(QuestionFault) in try question.document(by: point.decision) }
            fault = nil
        } catch {
            document = nil
            fault = error
        }
    }

    private static func findings(_ policy: DevicePolicy, _ posture: Posture, at now: Int64) -> [Finding] {
        let facts = posture.facts
        return policy.conditions(for: posture.platform).map { condition in
            let fact =
                facts.first { $0.name == condition.fact } ?? facts.first { $0.name == condition.substitute }
            return Finding(
                condition: condition, verdict: condition.verdict(on: posture, at: now), fact: fact,
                age: fact.flatMap { since($0.name, posture) }.map { now - $0 })
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
        case .claimedSystem, .claimedDeviceSecure: nil
        default: posture.attestedAt
        }
    }

    /// Asks the decision point. Blocks for its timeout, and for at most five seconds until its name is resolved.
    public mutating func ask(_ configuration: Configuration) throws {
        guard let point, let document else { return }
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
