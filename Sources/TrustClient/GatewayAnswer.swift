#if canImport(FoundationEssentials)
    internal import FoundationEssentials
#else
    internal import Foundation
#endif
public import RequestProof
internal import Vocabulary

/// What a response says about proofs.
public struct GatewayAnswer: Equatable, Sendable {
    /// Of HTTP.
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
        let denial = status >= 400 && content.count <= Self.denialLimit ? Self.code(in: content) : nil
        self.init(status: status, denial: denial, acceptSignature: acceptSignature, date: date)
    }

    /// Of a call of gRPC: its client sees metadata, where others see status and content.
    ///
    /// - Parameters:
    ///   - status: if the library shows it; most do not.
    ///   - denial: the value of `attest-denial`, which no service can say; nil if the call was not refused by the gateway.
    ///   - acceptSignature: the values of `accept-signature`, in order.
    ///   - date: the value of `date`.
    public init(status: Int? = nil, denial: String?, acceptSignature: [String], date: String?) {
        self.status = status ?? Self.status(of: denial)
        self.denial = denial
        var field = CombinedField()
        for line in acceptSignature {
            let bytes = Array(line.utf8)
            field.add(bytes.span)
        }
        // A challenge that cannot be read is as good as none: it must not turn a good response into an error.
        challenge = try? AcceptSignature(parsing: field.value)
        self.date = date.flatMap(HTTPDate.seconds)
    }

    /// What a service answers to gRPC goes by HTTP with 200, also where the call fails. A new proof does not help
    /// against a refusal that is unknown here.
    private static func status(of denial: String?) -> Int {
        guard let denial else { return 200 }
        let row = Denial.allCases.first { $0.status != nil && String(describing: $0.row.code) == denial }
        return row?.status.map { Int($0) } ?? 400
    }

    private struct Refusal: Decodable {
        let error: String
    }

    private static func code(in content: [UInt8]) -> String? {
        try? JSONDecoder().decode(Refusal.self, from: Data(content)).error
    }
}
