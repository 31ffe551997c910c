internal import Encoding

#if canImport(FoundationEssentials)
    internal import FoundationEssentials
#else
    internal import Foundation
#endif

/// The service's answer to an `EnrolmentRequest`.
public struct EnrolmentAnswer: Equatable, Sendable {
    /// The statements about proofs, at the listener for enrolled devices.
    let statements: GatewayAnswer
    /// The value of Retry-After, in seconds.
    let retryAfter: Int64?
    let content: [UInt8]

    /// Length limit of the content in bytes. Longer content is not from the service, so the rest need not be read.
    public static let contentLimit = 65_536

    /// Creates an answer.
    ///
    /// - Parameters:
    ///   - date: The value of Date.
    ///   - retryAfter: The value of Retry-After.
    ///   - acceptSignature: The values of all lines of Accept-Signature, in order. Needed by a `DeviceClient`.
    ///   - content: The response's content, whatever its status.
    public init(
        status: Int, date: String?, retryAfter: String? = nil, acceptSignature: [String] = [], content: [UInt8]
    ) {
        // RFC 9110 section 10.2.3 also permits a date, but the service sends seconds.
        self.retryAfter = retryAfter.flatMap { Int64($0) }.flatMap { $0 >= 0 ? $0 : nil }
        self.content = content.count <= Self.contentLimit ? content : []
        statements = GatewayAnswer(status: status, acceptSignature: acceptSignature, date: date, content: self.content)
    }

    public var status: Int { statements.status }
    /// The service's time, in seconds since 1970.
    public var date: Int64? { statements.date }

    /// The nonce in the answer to `GET /nonce`.
    package var nonce: EnrolmentNonce? {
        status == 200 ? decoded(Nonce.self).flatMap { EnrolmentNonce($0.nonce) } : nil
    }

    /// The certificate in the answer to `POST /key-binding`.
    var certificate: EnrolledCertificate? {
        guard status == 200, let bound = decoded(Bound.self) else { return nil }
        let chain = bound.certificateChain.compactMap { Base64.decode($0, isCanonical: false) }
        guard chain.count == bound.certificateChain.count, !chain.isEmpty else { return nil }
        return EnrolledCertificate(chain: chain, expiresAt: bound.expiresAt)
    }

    /// The list in the answer to `GET /instances`.
    var instances: [DeviceInstance]? {
        guard status == 200, let listed = decoded([Instance].self) else { return nil }
        return listed.map { each in
            DeviceInstance(
                id: each.id, platform: each.platform, app: each.app, status: each.status, createdAt: each.createdAt,
                isCurrent: each.current)
        }
    }

    /// The posture in the answer to `POST /attestation`.
    var posture: AttestedPosture? {
        guard status == 200, let attested = decoded(Attested.self) else { return nil }
        return AttestedPosture(json: content, deviceToken: attested.deviceToken)
    }

    /// The refusal, for a status of 300 or above.
    public var refusal: EnrolmentRefusal {
        let refused = decoded(Refused.self)
        let code = refused.flatMap { EnrolmentRefusal.Code(rawValue: $0.error) }
        return EnrolmentRefusal(
            status: status, code: code, denial: code == nil ? statements.denial : nil, retryAfter: retryAfter,
            explanation: refused?.errorDescription)
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

    private struct Instance: Decodable {
        let id: String
        let platform: String
        let app: String
        let status: String
        let createdAt: Int64
        let current: Bool

        enum CodingKeys: String, CodingKey {
            case id
            case platform
            case app
            case status
            case createdAt = "created_at"
            case current
        }
    }

    private struct Attested: Decodable {
        struct Facts: Decodable {}
        let posture: Facts
        let deviceToken: String?

        enum CodingKeys: String, CodingKey {
            case posture
            case deviceToken = "device_token"
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
    /// The certificates in DER: the leaf first, then the authorities above it.
    public let chain: [[UInt8]]
    /// The earliest expiry in the chain, in seconds since 1970. Renew the certificate well before: enrol again with the
    /// same key.
    public let expiresAt: Int64

    /// Returns whether the leaf certifies this key. A certificate contains the 65 bytes of the point unchanged.
    func isFor(_ point: [UInt8]) -> Bool {
        let leaf = chain[0]
        guard leaf.count >= point.count else { return false }
        return (0...(leaf.count - point.count)).contains { leaf[$0...].starts(with: point) }
    }
}

/// The service's refusal: `{"error", "error_description"}`.
public struct EnrolmentRefusal: Equatable, Sendable, CustomStringConvertible {
    /// The codes of refusals.
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
    /// The code. Nil if the answer is unreadable or not from this service, but from a proxy for example.
    public let code: Code?
    /// The denial code, such as `device_unknown`, of the listener for enrolled devices, which refuses as the gateway.
    public let denial: String?
    /// The number of seconds after which the same request may succeed. Nil if the service does not say.
    public let retryAfter: Int64?
    /// `error_description`: a text for the app's developer, not for its user.
    public let explanation: String?

    public init(
        status: Int, code: Code?, denial: String? = nil, retryAfter: Int64? = nil, explanation: String? = nil
    ) {
        self.status = status
        self.code = code
        self.denial = denial
        self.retryAfter = retryAfter
        self.explanation = explanation
    }

    public var description: String {
        "\(status)" + ((code?.rawValue ?? denial).map { " \($0)" } ?? "") + (explanation.map { ": \($0)" } ?? "")
    }
}

/// A remedy for a refusal.
public enum EnrolmentAdvice: Equatable, Sendable, CaseIterable {
    /// Send the same request with a new nonce.
    case newNonce
    /// Make a new hardware key and its attestation, because the service does not know this one.
    case newHardwareKey
    /// Send the same request later.
    case later
    /// Send the same request after an operator has approved the phone.
    case awaitApproval
    /// Install a newer version of the app or the system. A refused attestation was dropped, as below.
    case update
    /// Install a newer version of the system. The record was reset, so the next enrolment makes a new hardware key,
    /// whose attestation states the newer version.
    case updateSystem
    /// Stop, because neither the app nor its user can help. The client is faulty, or the phone is not permitted.
    case giveUp
}

extension EnrolmentRefusal {
    /// Returns the remedy according to the code. If the same advice returns after it was followed, give up.
    public func advice(for endpoint: EnrolmentRequest.Endpoint) -> EnrolmentAdvice {
        // The request arrived too slowly, whatever the code says.
        if status == 408 { return .later }
        return switch (code, endpoint) {
        case (.server, _), (.temporarilyUnavailable, _): .later
        case (.integrityCheck, _): .update
        // The service compares the version in the attestation. After an update of the system, only a new attestation
        // states the new version.
        case (.osOutdated, .keyBinding): .newHardwareKey
        case (.osOutdated, _): .updateSystem
        // An attestation is for one nonce, and a key is attested once. Without the nonce, both are lost.
        case (.invalidRequest, .initialization): .newHardwareKey
        // If waiting helps, the request was right, and an operator must approve the phone.
        case (.invalidRequest, .keyBinding): retryAfter == nil ? .newNonce : .awaitApproval
        case (.notFound, .keyBinding): .newHardwareKey
        case (.badRequest, _), (.validation, _), (.invalidRequest, _), (.notFound, _): .giveUp
        // The answer is from a proxy, for example, not from the service.
        case (nil, _): status == 429 || status >= 500 ? .later : .giveUp
        }
    }
}

/// The reason why an enrolment ended without a certificate, or a `DeviceClient` without an answer. The record keeps the progress, and the next enrolment
/// continues there.
public enum EnrolmentFailure: Error, Equatable, Sendable {
    /// The service refused. The advice is never `newNonce` or `newHardwareKey`, because these were tried.
    case refused(EnrolmentRefusal, advice: EnrolmentAdvice)
    /// The platform failed. `keyLost` means that it also failed for a new key.
    case attestor(AttestorFault)
    /// The service's answer is neither a refusal nor well-formed.
    case answerUnreadable(EnrolmentRequest.Endpoint)
    /// The certificate is for another key.
    case certificateForeign
    /// The platform's assertion or the certificate key's signature is malformed. The app's `Attestor` or
    /// `CertificateKey` is faulty.
    case signatureUnreadable
    /// The admission token is not a JWT, or too long.
    case admissionTokenMalformed
    /// The signals are not a JSON object, or too long.
    case signalsMalformed
    /// The id is not one of a list of devices.
    case instanceMalformed
}
