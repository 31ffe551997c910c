internal import Enrolment
internal import EventLoop
internal import Gateway

/// The subject of a request for logs, as far as known.
struct FederationSubject {
    /// The short id of the device, computed with a key for logs.
    var device: String?
    /// The id of a service.
    var service: String?
    var operatorName: String?
}

/// A decision for the log. It contains no token, assertion or key.
public struct FederationDecision: Sendable, CustomStringConvertible {
    private let endpoint: String
    private let facts: [LogFact]
    private let reason: String?
    /// Whether an operator must act.
    public let isOurFault: Bool

    init(
        _ endpoint: FederationEndpoint, _ subject: FederationSubject, _ outcome: [LogFact], reason: String? = nil,
        isOurFault: Bool = false
    ) {
        self.endpoint = endpoint.name
        var facts = outcome
        if let device = subject.device { facts.append(LogFact("device", device)) }
        if let service = subject.service { facts.append(LogFact("service", service)) }
        if let name = subject.operatorName { facts.append(LogFact("operator", name)) }
        self.facts = facts
        self.reason = reason
        self.isOurFault = isOurFault
    }

    /// A line of `name=value` pairs, followed by an explanation.
    public var description: String { "\(endpoint) \(LogFact.line(facts, reason))" }

    /// The members of the log's line, by name.
    public var members: [String: String] {
        LogFact.members([LogFact("endpoint", endpoint)] + facts, reason, event: "federation")
    }
}

/// The log of decisions. It has everything that is granted, but only a limited number of refusals per second.
final class FederationAudit {
    private let notify: (FederationDecision) -> Void
    private var budget = RefusalBudget(limit: 20)

    init(_ notify: @escaping (FederationDecision) -> Void) {
        self.notify = notify
    }

    func granted(_ endpoint: FederationEndpoint, _ subject: FederationSubject, _ what: String) {
        notify(FederationDecision(endpoint, subject, [LogFact("decision", "granted"), LogFact("what", what)]))
    }

    /// - Parameter now: In seconds since 1970.
    func refused(
        _ endpoint: FederationEndpoint, _ subject: FederationSubject, _ fault: FederationFault, now: Int64
    ) {
        guard budget.admits(at: now) else { return }
        var facts = [LogFact("decision", "refused"), LogFact("error", fault.code)]
        if let omitted = budget.takeSuppressed(at: now + 1) { facts.append(LogFact("omitted", omitted)) }
        notify(FederationDecision(endpoint, subject, facts, reason: fault.reason, isOurFault: fault.isOurs))
    }
}
