/// The fields by which a request carries its proof; to be sent as they are, each in one line.
public struct ProofFields: Equatable, Sendable {
    /// The value of Content-Digest; nil if the request has no content.
    public var contentDigest: [UInt8]?
    public var signatureInput: [UInt8]
    public var signature: [UInt8]

    public init(contentDigest: [UInt8]?, signatureInput: [UInt8], signature: [UInt8]) {
        self.contentDigest = contentDigest
        self.signatureInput = signatureInput
        self.signature = signature
    }

    /// Names and values of the two or three lines.
    public var lines: [(name: String, value: String)] {
        let values = [
            ("Content-Digest", contentDigest), ("Signature-Input", signatureInput), ("Signature", signature),
        ]
        return values.compactMap { name, value in value.map { (name, String(decoding: $0, as: UTF8.self)) } }
    }
}
