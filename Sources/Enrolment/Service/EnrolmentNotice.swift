internal import EventLoop

/// A result of work that no phone asked for, for the log.
public struct EnrolmentNotice: Equatable, Sendable, CustomStringConvertible {
    public enum Subject: String, Sendable {
        case receipts
        case statusList = "status list"
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
    /// A line of `name=value` pairs, followed by an explanation.
    public let description: String

    init(_ subject: Subject, _ severity: Severity, _ description: String) {
        self.subject = subject
        self.severity = severity
        self.description = description
    }

    /// Creates a notice about the resolution of a service's name.
    init(_ subject: Subject, _ event: NameBook.Event) {
        switch event {
        case .failing(let server, let fault, _):
            self.init(subject, .warning, "\(server) cannot be resolved: \(fault.text)")
        case .recovered(let server): self.init(subject, .info, "\(server) is resolved again")
        case .refused(let server, let address, let reason):
            self.init(
                subject, .warning, "\(server) resolves to \(address.host), which \(reason): it is not used")
        }
    }
}
