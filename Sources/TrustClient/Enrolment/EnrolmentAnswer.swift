#if canImport(FoundationEssentials)
    internal import FoundationEssentials
#else
    internal import Foundation
#endif

/// What the service answered to an `EnrolmentRequest`.
public struct EnrolmentAnswer: Equatable, Sendable {
    public let status: Int
    /// The service's time, in seconds since 1970.
    public let date: Int64?
    /// The value of Retry-After, in seconds.
    let retryAfter: Int64?
    let content: [UInt8]

    /// Most bytes of content; what is longer is none of the service's answers, and need not be read to its end.
    public static let contentLimit = 65_536

    /// - Parameters:
    ///   - date: the value of Date.
    ///   - retryAfter: the value of Retry-After.
    ///   - content: of the response, whatever its status.
    public init(status: Int, date: String?, retryAfter: String? = nil, content: [UInt8]) {
        self.status = status
        // A date is admitted too (RFC 9110 section 10.2.3); the service sends seconds.
        self.retryAfter = retryAfter.flatMap { Int64($0) }.flatMap { $0 >= 0 ? $0 : nil }
        self.date = date.flatMap(HTTPDate.seconds)
        self.content = content.count <= Self.contentLimit ? content : []
    }

    /// Of `GET /nonce`.
    var nonce: EnrolmentNonce? { status == 200 ? decoded(Nonce.self).flatMap { EnrolmentNonce($0.nonce) } : nil }

    /// Of `POST /key-binding`.
    var certificate: EnrolledCertificate? {
        guard status == 200, let bound = decoded(Bound.self) else { return nil }
        let chain = bound.certificateChain.compactMap { Data(base64Encoded: $0).map { [UInt8]($0) } }
        guard chain.count == bound.certificateChain.count, !chain.isEmpty else { return nil }
        return EnrolledCertificate(chain: chain, expiresAt: bound.expiresAt)
    }

    /// What it says if it is a refusal: a status of 300 or above.
    public var refusal: EnrolmentRefusal {
        let refused = decoded(Refused.self)
        return EnrolmentRefusal(
            status: status, code: refused.flatMap { EnrolmentRefusal.Code(rawValue: $0.error) },
            retryAfter: retryAfter, explanation: refused?.errorDescription)
    }

    private struct Nonce: Decodable {
        let nonce: String
    }

    private struct Bound: Decodable {
        let certificateChain: [String]
        let expiresAt: Int64

        enum CodingKeys: String, CodingKey {
            case certificateChain = "certificate_chain"
            case expiresAt = "expires_at"
        }
    }

    private struct Refused: Decodable {
        let error: String
        let errorDescription: String?

        enum CodingKeys: String, CodingKey {
            case error
            case errorDescription = "error_description"
        }
    }

    private func decoded<Value: Decodable>(_ type: Value.Type) -> Value? {
        try? JSONDecoder().decode(type, from: Data(content))
    }
}

/// The client certificate of a bound key.
public struct EnrolledCertificate: Equatable, Sendable {
    /// DER, the leaf first, then the authorities above it.
    public let chain: [[UInt8]]
    /// When the first of them expires, in seconds since 1970. Renew it well before: enrol again with the same key.
    public let expiresAt: Int64

    /// Whether the leaf speaks of this key: 65 bytes of a point stand in a certificate as they are.
    func isFor(_ point: [UInt8]) -> Bool {
        let leaf = chain[0]
        guard leaf.count >= point.count else { return false }
        return (0...(leaf.count - point.count)).contains { leaf[$0...].starts(with: point) }
    }
}

/// How the service refused: `{"error", "error_description"}`.
public struct EnrolmentRefusal: Equatable, Sendable, CustomStringConvertible {
    /// The codes there are.
    public enum Code: String, CaseIterable, Sendable {
        case badRequest = "bad_request"
        case invalidRequest = "invalid_request"
        case integrityCheck = "integrity_check_error"
        case osOutdated = "os_outdated"
        case notFound = "not_found"
        case validation = "validation_error"
        case server = "server_error"
        case temporarilyUnavailable = "temporarily_unavailable"
    }

    public let status: Int
    /// Nil if the answer is none of this service's: a proxy's, or one that cannot be read.
    public let code: Code?
    /// In how many seconds the same may succeed; nil if the service does not say.
    public let retryAfter: Int64?
    /// `error_description`: for the app's developer, not for its user.
    public let explanation: String?

    public init(status: Int, code: Code?, retryAfter: Int64? = nil, explanation: String? = nil) {
        self.status = status
        self.code = code
        self.retryAfter = retryAfter
        self.explanation = explanation
    }

    public var description: String {
        "\(status)" + (code.map { " \($0.rawValue)" } ?? "") + (explanation.map { ": \($0)" } ?? "")
    }
}

/// What can remedy a refusal.
public enum EnrolmentAdvice: Equatable, Sendable, CaseIterable {
    /// The same with a new nonce.
    case newNonce
    /// A new hardware key, and its attestation: the phone is not, or no more, known there.
    case newHardwareKey
    /// The same some time later.
    case later
    /// The same once an operator has approved the phone.
    case awaitApproval
    /// A newer version of the app or the system.
    case update
    /// A newer version of the system, and nothing else. The record has started over: the next enrolment makes a new hardware
    /// key, whose attestation states the newer version. A certificate key that was bound stays bound to the old one: an app
    /// that was enrolled before enrols with a new certificate key.
    case updateSystem
    /// Nothing that the app or its user could do: the client is wrong, or this phone is not wanted.
    case giveUp
}

extension EnrolmentRefusal {
    /// What can remedy it, as far as the code says. The same advice after it was followed means: give up.
    public func advice(for endpoint: EnrolmentRequest.Endpoint) -> EnrolmentAdvice {
        // The request came too slowly, whatever is said besides.
        if status == 408 { return .later }
        return switch (code, endpoint) {
        case (.server, _), (.temporarilyUnavailable, _): .later
        case (.integrityCheck, _): .update
        // The service compares what the attestation stated: if the system was updated since, only a new one says so.
        case (.osOutdated, .keyBinding): .newHardwareKey
        case (.osOutdated, _): .updateSystem
        // An attestation speaks for one nonce, and a key is attested once: with the nonce both are lost.
        case (.invalidRequest, .initialization): .newHardwareKey
        // Nothing is wrong with what was sent if the same may succeed by waiting: somebody has to act.
        case (.invalidRequest, .keyBinding): retryAfter == nil ? .newNonce : .awaitApproval
        case (.notFound, .keyBinding): .newHardwareKey
        case (.badRequest, _), (.validation, _), (.invalidRequest, .nonce), (.notFound, _): .giveUp
        // Not the service itself: a proxy before it, for example.
        case (nil, _): status == 429 || status >= 500 ? .later : .giveUp
        }
    }
}

/// Why an enrolment has ended without a certificate. The record holds what was reached: the next enrolment continues
/// from there.
public enum EnrolmentFailure: Error, Equatable, Sendable {
    /// The advice is never `newNonce` or `newHardwareKey`: where these promised help they were tried.
    case refused(EnrolmentRefusal, advice: EnrolmentAdvice)
    /// The platform made nothing; `keyLost` only if that happened to a new key, too.
    case attestor(AttestorFault)
    /// The service's answer, though no refusal, is not of the form it must have.
    case answerUnreadable(EnrolmentRequest.Endpoint)
    /// The certificate is for another key.
    case certificateForeign
    /// The platform's assertion or the certificate key's signature is not of the form it must have: `Attestor` or
    /// `CertificateKey` are wrong.
    case signatureUnreadable
    /// The admission token is no JWT, or too long.
    case admissionTokenMalformed
}
