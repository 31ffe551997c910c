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
