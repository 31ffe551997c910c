public import HTTP
internal import TrustClient

/// The bytes of one request, made once and sent over and over.
public struct RequestTemplate: Sendable {
    public let method: Method
    /// As HTTP/1.1 has it, without a proof.
    let bytes: [UInt8]
    /// Nil for a request without any.
    let content: [UInt8]?
    /// The fields as HTTP/2 has them, without a proof.
    let fields: FieldBlock
    /// The head without the empty line that ends it.
    private let head: [UInt8]

    /// - Parameters:
    ///   - body: the content; nil sends a request without any.
    ///   - others: further fields.
    public init(_ target: LoadURL, method: Method, body: [UInt8]?, others: [(name: String, value: String)] = []) {
        self.method = method
        var text = "\(method.name) \(target.target) HTTP/1.1\r\nHost: \(target.authority)\r\n"
        text += "User-Agent: attestgate-load\r\n"
        var fields = FieldBlock()
        fields.append(":method", "\(method.name)")
        fields.append(":scheme", "https")
        fields.append(":authority", target.authority)
        fields.append(":path", target.target)
        fields.append("user-agent", "attestgate-load")
        for (name, value) in others {
            text += "\(name): \(value)\r\n"
            fields.append(name.lowercased(), value)
        }
        if let body {
            text += "Content-Length: \(body.count)\r\n"
            fields.append("content-length", "\(body.count)")
        }
        head = Array(text.utf8)
        content = body
        bytes = head + Self.lineEnd + (body ?? [])
        self.fields = fields
    }

    /// The same request with a proof.
    func bytes(with proof: ProofFields) -> [UInt8] {
        var bytes = head
        bytes.reserveCapacity(
            head.count + proof.signatureInput.count + proof.signature.count + 128 + (content?.count ?? 0))
        if let digest = proof.contentDigest { Self.append(Self.contentDigest, digest, to: &bytes) }
        if let counter = proof.counter { Self.append(Self.counter, counter, to: &bytes) }
        Self.append(Self.signatureInput, proof.signatureInput, to: &bytes)
        Self.append(Self.signature, proof.signature, to: &bytes)
        bytes += Self.lineEnd
        if let content { bytes += content }
        return bytes
    }

    private static func append(_ name: [UInt8], _ value: [UInt8], to bytes: inout [UInt8]) {
        bytes += name
        bytes += value
        bytes += lineEnd
    }

    private static let contentDigest = Array("Content-Digest: ".utf8)
    private static let counter = Array("Attest-Proof-Counter: ".utf8)
    private static let signatureInput = Array("Signature-Input: ".utf8)
    private static let signature = Array("Signature: ".utf8)
    private static let lineEnd = Array("\r\n".utf8)
}
