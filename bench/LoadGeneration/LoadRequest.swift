internal import HTTP
internal import TrustClient

/// One request as it is to be sent, in either version.
struct LoadRequest {
    let template: RequestTemplate
    /// Nil for one without.
    let proof: ProofFields?

    var method: Method { template.method }
    var content: [UInt8]? { template.content }

    /// As HTTP/1.1 has it.
    var bytes: [UInt8] { proof.map { template.bytes(with: $0) } ?? template.bytes }
}
