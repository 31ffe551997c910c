/// The parameters a proof may have (RFC 9421 section 2.3). Others are refused, because nobody would look at them.
public enum SignatureParameter: UInt8, CaseIterable, Sendable, CustomStringConvertible {
    case created
    case expires
    case keyid
    case nonce
    case alg
    case tag

    /// As it stands in the field.
    public var description: String {
        switch self {
        case .created: "created"
        case .expires: "expires"
        case .keyid: "keyid"
        case .nonce: "nonce"
        case .alg: "alg"
        case .tag: "tag"
        }
    }

    var key: [UInt8] { Self.keys[Int(rawValue)] }

    private static let keys = allCases.map { Array($0.description.utf8) }

    static func find(_ key: Span<UInt8>) -> SignatureParameter? {
        guard let first = key.isEmpty ? nil : key[0] else { return nil }
        // No two begin alike.
        let candidate: SignatureParameter
        switch first {
        case UInt8(ascii: "c"): candidate = .created
        case UInt8(ascii: "e"): candidate = .expires
        case UInt8(ascii: "k"): candidate = .keyid
        case UInt8(ascii: "n"): candidate = .nonce
        case UInt8(ascii: "a"): candidate = .alg
        case UInt8(ascii: "t"): candidate = .tag
        default: return nil
        }
        return key.isSame(as: candidate.key) ? candidate : nil
    }
}

/// What a proof says it was made with. It never selects how the proof is verified: that is the registered device's.
public enum ProofAlgorithm: UInt8, CaseIterable, Sendable, CustomStringConvertible {
    /// An App Attest assertion over the SHA-256 of the signature base. A private value: RFC 9421 section 2.3 wants those
    /// of its registry.
    case appleAttest
    /// ECDSA over the signature base (RFC 9421 section 3.3.4).
    case ecdsaP256SHA256

    /// As it stands in the field.
    public var description: String {
        switch self {
        case .appleAttest: "apple-attest"
        case .ecdsaP256SHA256: "ecdsa-p256-sha256"
        }
    }

    var text: [UInt8] { Self.texts[Int(rawValue)] }

    private static let texts = allCases.map { Array($0.description.utf8) }

    static func find(_ text: Span<UInt8>) -> ProofAlgorithm? {
        for algorithm in allCases where text.isSame(as: algorithm.text) { return algorithm }
        return nil
    }
}

/// The two texts by which a proof is recognised.
enum ProofName {
    /// The label of our member in Signature-Input, Signature and Accept-Signature.
    static let label = Array("attest".utf8)
    /// The value of the parameter `tag`.
    static let tag = Array("attestgate-request".utf8)
}
