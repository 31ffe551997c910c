/// What is known of whom a request is about, for logs and counts.
struct EnrolmentSubject {
    enum AttestationVerdict {
        case verified
        case refused
    }

    /// The short id of the device, computed with a key for logs; of whom the request says it is of, verified or not.
    var device: String?
    var app: String?
    /// Nil until one is examined.
    var attestation: AttestationVerdict?
}

/// One decision of enrolment, for the log. Holds no nonce, attestation, token or key.
public struct EnrolmentDecision: Sendable {
    public enum Outcome: Equatable, Sendable {
        /// What came of it: `registered` or `repeated`; `first`, `rotation` or `renewal`.
        /// - serial: of the certificate that was issued.
        case granted(String, serial: String?)
        case refused(EnrolmentFault)
    }

    /// The endpoint: `instance-initialization` or `key-binding`.
    public let event: String
    public let device: String?
    public let app: String?
    public let outcome: Outcome
    /// Earlier refusals that were not logged because there were too many in one second.
    public let omitted: Int
}

extension EnrolmentDecision: CustomStringConvertible {
    /// One line of `name=value`, then what it means.
    public var description: String {
        var text = "\(event)"
        switch outcome {
        case .granted(let what, let serial):
            text += " decision=granted what=\(what)"
            if let serial { text += " serial=\(serial)" }
        case .refused(let fault): text += " decision=refused error=\(fault.error.row.code)"
        }
        if let device { text += " device=\(device)" }
        if let app { text += " app=\(app)" }
        if omitted > 0 { text += " omitted=\(omitted)" }
        if case .refused(let fault) = outcome {
            text += ": \(fault.reason)"
            if case .checkFailed(let error) = fault { text += " (\(error))" }
        }
        return text
    }

    /// Whether an operator has to do something.
    public var isOurFault: Bool {
        if case .refused(let fault) = outcome { fault.error.isOurs } else { false }
    }
}

/// Tells decisions: each that lets somebody in, and of refusals so many in a second, for a flood of them must not fill the disk.
struct EnrolmentAudit {
    private let tell: (EnrolmentDecision) -> Void
    private var second: Int64 = 0
    private var reported = 0
    private var omitted = 0

    private static let refusalsPerSecond = 20

    init(_ tell: @escaping (EnrolmentDecision) -> Void) {
        self.tell = tell
    }

    /// - Parameter now: in seconds since 1970.
    mutating func decided(
        _ endpoint: EnrolmentEndpoint, _ subject: EnrolmentSubject, _ outcome: EnrolmentDecision.Outcome, now: Int64
    ) {
        if case .refused = outcome {
            if now != second { (second, reported) = (now, 0) }
            guard reported < Self.refusalsPerSecond else {
                omitted += 1
                return
            }
            reported += 1
        }
        tell(
            EnrolmentDecision(
                event: endpoint.name, device: subject.device, app: subject.app, outcome: outcome, omitted: omitted))
        omitted = 0
    }
}
