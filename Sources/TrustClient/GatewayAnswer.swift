internal import Encoding
public import RequestProof
public import Vocabulary

#if canImport(FoundationEssentials)
    internal import FoundationEssentials
#else
    internal import Foundation
#endif

/// The statements of a response about proofs.
public struct GatewayAnswer: Equatable, Sendable {
    /// The HTTP status.
    public let status: Int
    /// The challenge in the response. Nil if it has none or this client cannot parse it.
    public let challenge: AcceptSignature?
    /// The gateway's time, in seconds since 1970.
    public let date: Int64?
    /// The denial code, such as `proof_stale`. Nil if the response is not a refusal by the gateway.
    public let denial: String?

    /// Length limit of a refusal's content in bytes. Longer content is from a service.
    public static let denialLimit = 65_536

    /// Parses a response.
    ///
    /// - Parameters:
    ///   - acceptSignature: The values of all lines of Accept-Signature, in order.
    ///   - date: The value of Date.
    ///   - content: The content of a response with status 400 or above. Content that is not the JSON of a refusal is
    ///     ignored.
    public init(status: Int, acceptSignature: [String], date: String?, content: [UInt8]) {
        let denial = status >= 400 && content.count <= Self.denialLimit ? Self.code(in: content) : nil
        self.init(status: status, denial: denial, acceptSignature: acceptSignature, date: date)
    }

    /// Parses the answer to a gRPC call, whose client sees metadata instead of status and content.
    ///
    /// - Parameters:
    ///   - status: The HTTP status. Most libraries do not show it.
    ///   - denial: The value of `attest-denial`, which no service can set. Nil if the gateway did not refuse the call.
    ///   - acceptSignature: The values of `accept-signature`, in order.
    ///   - date: The value of `date`.
    public init(status: Int? = nil, denial: String?, acceptSignature: [String], date: String?) {
        self.status = status ?? Self.status(of: denial)
        self.denial = denial
        var field = CombinedField()
        for line in acceptSignature {
            let bytes = Array(line.utf8)
            field.add(bytes.span)
        }
        // An unreadable challenge counts as none. It must not turn a good response into an error.
        challenge = try? AcceptSignature(parsing: field.value)
        self.date = date.flatMap(HTTPDate.seconds)
    }

    /// Returns the HTTP status of a denial. A service's gRPC answer has 200, even if the call fails. For an unknown
    /// denial a new proof does not help.
    private static func status(of denial: String?) -> Int {
        guard let denial else { return 200 }
        let rows = Denial.allCases.filter { $0.status != nil && String(describing: $0.row.code) == denial }
        // An alert has a status only behind a proxy that terminates TLS.
        let row = rows.first { $0.row.answer == $0.status.map { .status($0) } } ?? rows.first
        return row?.status.map { Int($0) } ?? 400
    }

    private struct Refusal: Decodable {
        let error: String
    }

    private static func code(in content: [UInt8]) -> String? {
        try? JSONDecoder().decode(Refusal.self, from: Data(content)).error
    }
}

/// A challenge of the gateway with its time of arrival. It serves many proofs while it is fresh.
public struct ReceivedChallenge: Equatable, Sendable {
    /// The requested components and parameters, with the challenge in `nonce`.
    public let request: AcceptSignature
    /// The time of arrival by this device's clock, in seconds since 1970.
    public let receivedAt: Int64

    public init(_ request: AcceptSignature, receivedAt: Int64) {
        self.request = request
        self.receivedAt = receivedAt
    }

    /// Returns the age in seconds. It is negative if the clock was set back.
    public func age(now: Int64) -> Int64 { now - receivedAt }

    /// Returns whether a key that signs by this algorithm can make the requested proof. A signer that cannot must not
    /// sign (RFC 9421 section 5.2).
    public func isFor(_ keyID: KeyID, _ algorithm: ProofAlgorithm = .appleAttest) -> Bool {
        (request.keyID ?? keyID) == keyID && (request.algorithm ?? algorithm) == algorithm
    }
}
