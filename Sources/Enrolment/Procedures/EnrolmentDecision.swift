/// The subject of a request for logs and counts, as far as known.
struct EnrolmentSubject {
    enum AttestationVerdict {
        case verified
        case refused
    }

    /// The short id of the device, computed with a key for logs. It is the device that the request names, verified or
    /// not.
    var device: String?
    var app: String?
    /// The verdict on the attestation. Nil until one is examined.
    var attestation: AttestationVerdict?
}

/// A decision of enrolment for the log. It contains no nonce, attestation, token or key.
public struct EnrolmentDecision: Sendable {
    public enum Outcome: Equatable, Sendable {
        /// The request was granted. The text is `registered` or `repeated`, or `first`, `rotation` or `renewal`.
        ///
        /// - serial: The serial number of the issued certificate.
        case granted(String, serial: String?)
        case refused(EnrolmentFault)
    }

    /// The endpoint: `instance-initialization` or `key-binding`.
    public let event: String
    public let device: String?
    public let app: String?
    public let outcome: Outcome
    /// The number of earlier refusals that were not logged, because there were too many in one second.
    public let omitted: Int
}

extension EnrolmentDecision: CustomStringConvertible {
    /// A line of `name=value` pairs, followed by an explanation.
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
            if let step = fault.step { text += " step=\(step)" }
            text += ": \(fault.reason)"
            if case .checkFailed(let error) = fault { text += " (\(error))" }
        }
        return text
    }

    /// Whether an operator must act.
    public var isOurFault: Bool {
        if case .refused(let fault) = outcome { fault.error.isOurs } else { false }
    }
}

/// The log of decisions. It has all admissions, but only a limited number of refusals per second, so that a flood does
/// not fill the disk.
struct EnrolmentAudit {
    private let notify: (EnrolmentDecision) -> Void
    private var second: Int64 = 0
    private var reported = 0
    private var omitted = 0

    private static let refusalsPerSecond = 20

    init(_ notify: @escaping (EnrolmentDecision) -> Void) {
        self.notify = notify
    }

    /// Logs a decision.
    ///
    /// - Parameter now: The time in seconds since 1970.
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
        notify(
            EnrolmentDecision(
                event: endpoint.name, device: subject.device, app: subject.app, outcome: outcome, omitted: omitted))
        omitted = 0
    }
}
