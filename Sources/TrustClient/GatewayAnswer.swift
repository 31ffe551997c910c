#if canImport(FoundationEssentials)
    internal import FoundationEssentials
#else
    internal import Foundation
#endif
public import RequestProof

/// What a response says about proofs.
public struct GatewayAnswer: Equatable, Sendable {
    public let status: Int
    /// The challenge it carries; nil without one, or if this client cannot read it.
    public let challenge: AcceptSignature?
    /// The gateway's time, in seconds since 1970.
    public let date: Int64?
    /// The code of the denial, as in `proof_stale`; nil if the response is none of the gateway's refusals.
    public let denial: String?

    /// Bytes of a refusal's content; what is longer is a service's.
    public static let denialLimit = 65_536

    /// - Parameters:
    ///   - acceptSignature: the values of all lines of Accept-Signature, in order.
    ///   - date: the value of Date.
    ///   - content: of a response with status 400 or above; what is no refusal's JSON is ignored.
    public init(status: Int, acceptSignature: [String], date: String?, content: [UInt8]) {
        self.status = status
        var field = CombinedField()
        for line in acceptSignature {
            let bytes = Array(line.utf8)
            field.add(bytes.span)
        }
        // A challenge that cannot be read is as good as none: it must not turn a good response into an error.
        challenge = try? AcceptSignature(parsing: field.value)
        self.date = date.flatMap(HTTPDate.seconds)
        denial = status >= 400 && content.count <= Self.denialLimit ? Self.code(in: content) : nil
    }

    private struct Refusal: Decodable {
        let error: String
    }

    private static func code(in content: [UInt8]) -> String? {
        try? JSONDecoder().decode(Refusal.self, from: Data(content)).error
    }
}
