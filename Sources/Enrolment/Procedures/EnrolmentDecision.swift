internal import Encoding
internal import EventLoop

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
    /// The short id of the device that the request is to change, if that is another one.
    var target: String?
    /// The verdict on the attestation. Nil until one is examined.
    var attestation: AttestationVerdict?
}

/// A decision of enrolment for the log. It contains no nonce, attestation, token or key.
public struct EnrolmentDecision: Sendable {
    public enum Outcome: Equatable, Sendable {
        /// The request was granted. The text is `registered` or `repeated`, or `first`, `rotation` or `renewal`, or
        /// `attested`, `listed` or `revoked`.
        ///
        /// - serial: The serial number of the issued certificate.
        case granted(String, serial: String?)
        case refused(EnrolmentFault)
    }

    /// The endpoint by its name, or `connection`.
    public let event: String
    public let device: String?
    public let app: String?
    /// Another device that is meant.
    public let target: String?
    public let outcome: Outcome
    /// The number of earlier refusals that were not logged, because there were too many in one second.
    public let omitted: Int
    /// The UUID in the answer of a refusal by an endpoint of the reference system. Nil for others.
    public var trace: String?
}

extension EnrolmentDecision: CustomStringConvertible {
    /// A line of `name=value` pairs, followed by an explanation.
    public var description: String { "\(event) \(LogFact.line(facts, reason))" }

    /// The members of the log's line, by name.
    public var members: [String: String] {
        LogFact.members([LogFact("endpoint", event)] + facts, reason, event: "enrolment")
    }

    private var facts: [LogFact] {
        var facts: [LogFact] = []
        switch outcome {
        case .granted(let what, let serial):
            facts = [LogFact("decision", "granted"), LogFact("what", what)]
            if let serial { facts.append(LogFact("serial", serial)) }
        case .refused(let fault):
            facts = [LogFact("decision", "refused"), LogFact("error", fault.error.row.code)]
        }
        if let device { facts.append(LogFact("device", device)) }
        if let app { facts.append(LogFact("app", app)) }
        if let target { facts.append(LogFact("target", target)) }
        if let trace { facts.append(LogFact("trace", trace)) }
        if omitted > 0 { facts.append(LogFact("omitted", omitted)) }
        if case .refused(let fault) = outcome, let step = fault.step { facts.append(LogFact("step", "\(step)")) }
        return facts
    }

    private var reason: String? {
        guard case .refused(let fault) = outcome else { return nil }
        if case .checkFailed(let error) = fault { return "\(fault.reason) (\(error))" }
        return "\(fault.reason)"
    }

    /// Whether an operator must act.
    public var isOurFault: Bool {
        if case .refused(let fault) = outcome { fault.error.isOurs } else { false }
    }
}

/// The log of decisions. It has all admissions, but only a limited number of refusals per second, so that a flood does
/// not fill the disk.
final class EnrolmentAudit {
    private let notify: (EnrolmentDecision) -> Void
    private var second: Int64 = 0
    private var reported = 0
    private var omitted = 0

    private static let refusalsPerSecond = 20

    init(_ notify: @escaping (EnrolmentDecision) -> Void) {
        self.notify = notify
    }

    /// Logs a refusal, and sends it.
    ///
    /// - Parameter acceptSignature: As in `EnrolmentResponse.refusal`.
    func refuse(
        _ endpoint: EnrolmentEndpoint, _ subject: EnrolmentSubject, _ fault: EnrolmentFault, _ reply: EnrolmentReply,
        acceptSignature: [UInt8]? = nil
    ) {
        let trace = endpoint.isReference ? Self.trace() : nil
        decided(endpoint.name, subject, .refused(fault), trace: trace, now: WallClock.seconds)
        let response: EnrolmentResponse
        if let trace {
            response = .dsrRefusal(fault, trace: trace)
        } else {
            response = .refusal(fault, acceptSignature: acceptSignature)
        }
        reply.send(response, fault.error)
    }

    func granted(_ endpoint: EnrolmentEndpoint, _ subject: EnrolmentSubject, _ what: String, serial: String? = nil) {
        decided(endpoint.name, subject, .granted(what, serial: serial), now: WallClock.seconds)
    }

    /// Logs a decision.
    ///
    /// - Parameter now: The time in seconds since 1970.
    func decided(
        _ event: String, _ subject: EnrolmentSubject, _ outcome: EnrolmentDecision.Outcome, trace: String? = nil,
        now: Int64
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
                event: event, device: subject.device, app: subject.app, target: subject.target, outcome: outcome,
                omitted: omitted, trace: trace))
        omitted = 0
    }

    /// Returns a random UUID (RFC 9562 section 5.4).
    private static func trace() -> String {
        var random = SystemRandomNumberGenerator()
        let (high, low) = (random.next(), random.next())
        let text =
            Hexadecimal.encode(high & ~0xf000 | 0x4000, digits: 16)
            + Hexadecimal.encode(low & ~(3 << 62) | 1 << 63, digits: 16)
        let digits = Array(text)
        return [0..<8, 8..<12, 12..<16, 16..<20, 20..<32].map { String(digits[$0]) }.joined(separator: "-")
    }
}
