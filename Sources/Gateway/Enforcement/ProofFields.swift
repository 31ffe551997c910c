internal import HTTP
internal import RequestProof

/// What of a request's head concerns its proof. One value serves all requests of a worker and keeps its room.
struct ProofFields: ~Copyable {
    var signatureInput = CombinedField()
    var signature = CombinedField()
    var contentDigest = CombinedField()
    private(set) var traits = RequestTraits()

    /// Goes over the fields once.
    mutating func collect(_ head: RequestHead, _ bytes: Span<UInt8>) {
        signatureInput.removeAll()
        signature.removeAll()
        contentDigest.removeAll()
        traits = Self.traits(of: head)
        for index in head.fields.indices {
            let field = head.fields[index]
            switch field.name {
            case .signatureInput: signatureInput.add(field.valueRange.of(bytes))
            case .signature: signature.add(field.valueRange.of(bytes))
            case .contentDigest: contentDigest.add(field.valueRange.of(bytes))
            default: break
            }
        }
    }

    /// What the request has that a proof must cover.
    static func traits(of head: RequestHead) -> RequestTraits {
        var traits: RequestTraits = head.framing.hasContent ? .content : []
        for index in head.fields.indices {
            switch head.fields[index].name {
            case .authorization: traits.insert(.authorization)
            case .contentType: traits.insert(.contentType)
            case .contentEncoding: traits.insert(.contentEncoding)
            default: break
            }
        }
        return traits
    }
}
