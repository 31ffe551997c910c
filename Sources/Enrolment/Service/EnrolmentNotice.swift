package import EventLoop

/// A result of work that no phone asked for, for the log.
public struct EnrolmentNotice: Equatable, Sendable, CustomStringConvertible {
    public enum Subject: String, Sendable {
        case receipts
        case statusList = "status list"
        case issuerKeys = "issuer keys"
        /// The documents of the federation's services.
        case services

        /// The name of the event in the log.
        fileprivate var event: String {
            switch self {
            case .receipts: "receipts"
            case .statusList: "status_list"
            case .issuerKeys: "issuer_keys"
            case .services: "services"
            }
        }
    }

    public enum Severity: Sendable {
        /// An expected event.
        case info
        /// A failure that recovers or concerns only one device.
        case warning
        /// A failure for which an operator must act.
        case error
    }

    public let subject: Subject
    public let severity: Severity
    /// The facts in their order.
    let facts: [LogFact]
    let reason: String?

    /// A line of `name=value` pairs, followed by an explanation.
    public var description: String { LogFact.line(facts, reason) }
    /// The members of the log's line, by name.
    public var members: [String: String] { LogFact.members(facts, reason, event: subject.event) }

    package init(_ subject: Subject, _ severity: Severity, _ facts: [LogFact] = [], because reason: String? = nil) {
        self.subject = subject
        self.severity = severity
        self.facts = facts
        self.reason = reason
    }

    /// Creates a notice about the resolution of a service's name.
    package init(_ subject: Subject, _ event: NameBook.Event) {
        switch event {
        case .failing(let server, let fault, _):
            self.init(subject, .warning, because: "\(server) cannot be resolved: \(fault.text)")
        case .recovered(let server): self.init(subject, .info, because: "\(server) is resolved again")
        case .refused(let server, let address, let reason):
            self.init(
                subject, .warning, because: "\(server) resolves to \(address.host), which \(reason): it is not used")
        }
    }
}

/// A fact of a line in the log.
package struct LogFact: Equatable, Sendable {
    /// Letters and `_`.
    let name: String
    let value: String

    package init(_ name: String, _ value: some CustomStringConvertible) {
        self.name = name
        self.value = value.description
    }

    /// Returns the text for people.
    package static func line(_ facts: [LogFact], _ reason: String?) -> String {
        let pairs = facts.map { "\($0.name)=\($0.value)" }.joined(separator: " ")
        guard let reason else { return pairs }
        return pairs.isEmpty ? reason : "\(pairs): \(reason)"
    }

    /// Returns the members for programs.
    package static func members(_ facts: [LogFact], _ reason: String?, event: String) -> [String: String] {
        var members = ["event": event]
        for fact in facts { members[fact.name] = fact.value }
        if let reason { members["reason"] = reason }
        return members
    }
}
