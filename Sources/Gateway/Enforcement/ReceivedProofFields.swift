internal import HTTP
internal import RequestProof

/// What of a request's head concerns its proof. One value serves all requests of a worker and keeps its room.
struct ReceivedProofFields: ~Copyable {
    var signatureInput = CombinedField()
    var signature = CombinedField()
    var contentDigest = CombinedField()
    private(set) var traits = RequestTraits()

    /// Goes over the fields once.
    mutating func collect(_ head: RequestHead, _ bytes: Span<UInt8>) {
        signatureInput.removeAll()
        signature.removeAll()
        contentDigest.removeAll()
        traits = Self.contentTraits(of: head)
        for index in head.fields.indices {
            let field = head.fields[index]
            switch field.name {
            case .signatureInput: signatureInput.add(field.valueRange.of(bytes))
            case .signature: signature.add(field.valueRange.of(bytes))
            case .contentDigest: contentDigest.add(field.valueRange.of(bytes))
            default: traits.formUnion(Self.traits(of: field.name))
            }
        }
    }

    /// What the request has that a proof must cover.
    static func traits(of head: RequestHead) -> RequestTraits {
        var traits = contentTraits(of: head)
        for index in head.fields.indices { traits.formUnion(Self.traits(of: head.fields[index].name)) }
        return traits
    }

    private static func contentTraits(of head: RequestHead) -> RequestTraits {
        head.framing.hasContent ? .content : []
    }

    private static func traits(of name: FieldName) -> RequestTraits {
        switch name {
        case .authorization: .authorization
        case .contentType: .contentType
        case .contentEncoding: .contentEncoding
        default: []
        }
    }
}
