internal import Encoding

/// A part of a request that a proof covers (RFC 9421 section 2): one of four derived components, or a field.
///
/// Other derived components are refused. `@target-uri`, `@scheme` and `@request-target` add nothing, and a value with
/// two names may be checked under the wrong one.
public enum Component: Hashable, Sendable {
    /// `@method` (RFC 9421 section 2.2.1).
    case method
    /// `@authority` (RFC 9421 section 2.2.3).
    case authority
    /// `@path` (RFC 9421 section 2.2.6).
    case path
    /// `@query` (RFC 9421 section 2.2.7).
    case query
    /// All values of a field combined (RFC 9421 section 2.1).
    case field(FieldComponent)

    /// The name in a signature base, without quotes.
    public var name: [UInt8] {
        switch self {
        case .method: KnownComponent.method.name
        case .authority: KnownComponent.authority.name
        case .path: KnownComponent.path.name
        case .query: KnownComponent.query.name
        case .field(let field): field.name
        }
    }
}

extension Component: CustomStringConvertible {
    public var description: String { String(decoding: name, as: UTF8.self) }
}

/// The name of a field as a component: a token (RFC 9110 section 5.1) in lower case.
public struct FieldComponent: Hashable, Sendable {
    /// The name in lower case, 1 to 256 bytes.
    public let name: [UInt8]

    static let lengthLimit = 256

    /// Creates a component from a field name in any case.
    ///
    /// - Returns: nil if the text is not a field name.
    public init?(_ name: String) {
        self.init(Array(name.utf8).span)
    }

    public init?(_ name: Span<UInt8>) {
        var lowercase: [UInt8] = []
        for index in name.indices { lowercase.append(FieldByte.lowercased(name[index])) }
        guard Self.isName(lowercase.span) else { return nil }
        self.name = lowercase
    }

    init(known: KnownComponent) {
        name = known.name
    }

    /// Returns whether the bytes are a field name in lower case. Upper case would be a second spelling (RFC 9421
    /// section 2.1).
    static func isName(_ name: Span<UInt8>) -> Bool {
        guard name.count > 0, name.count <= lengthLimit else { return false }
        for index in name.indices {
            let byte = name[index]
            guard FieldByte.isTokenCharacter(byte), !(0x41...0x5a).contains(byte) else { return false }
        }
        return true
    }
}

extension FieldComponent: CustomStringConvertible {
    /// The name in lower case.
    public var description: String { String(decoding: name, as: UTF8.self) }
}

/// The components whose coverage the protocol requires. Their lengths differ, so that they are found without a table.
enum KnownComponent: UInt8, CaseIterable, Sendable {
    // The order determines which missing component is reported.
    case method, authority, path, query
    case contentDigest, authorization, contentType, contentEncoding
    case proofCounter

    var name: [UInt8] { Self.names[Int(rawValue)] }

    private static let names = [
        "@method", "@authority", "@path", "@query",
        "content-digest", "authorization", "content-type", "content-encoding", "attest-proof-counter",
    ].map { Array($0.utf8) }

    /// Returns the known component of this name, or nil.
    static func find(_ name: Span<UInt8>) -> KnownComponent? {
        let candidate: KnownComponent
        switch name.count {
        case 5: candidate = .path
        case 6: candidate = .query
        case 7: candidate = .method
        case 10: candidate = .authority
        case 12: candidate = .contentType
        case 13: candidate = .authorization
        case 14: candidate = .contentDigest
        case 16: candidate = .contentEncoding
        case 20: candidate = .proofCounter
        default: return nil
        }
        return name.isSame(as: candidate.name) ? candidate : nil
    }

    var component: Component {
        switch self {
        case .method: .method
        case .authority: .authority
        case .path: .path
        case .query: .query
        case .contentDigest, .authorization, .contentType, .contentEncoding, .proofCounter:
            .field(FieldComponent(known: self))
        }
    }
}

/// A set of known components.
struct KnownComponents: OptionSet, Hashable, Sendable {
    let rawValue: UInt16

    init(rawValue: UInt16) { self.rawValue = rawValue }
    init(_ component: KnownComponent) { rawValue = 1 << component.rawValue }

    static let target: KnownComponents = [
        KnownComponents(.method), KnownComponents(.authority), KnownComponents(.path), KnownComponents(.query),
    ]

    /// The first component in order. Nil if the set is empty.
    var first: KnownComponent? { KnownComponent(rawValue: UInt8(rawValue.trailingZeroBitCount)) }
}

/// The parameters of a proof (RFC 9421 section 2.3). Others are refused, because nothing would check them.
public enum SignatureParameter: UInt8, CaseIterable, Sendable, CustomStringConvertible {
    case created
    case expires
    case keyid
    case nonce
    case alg
    case tag

    /// The name in the field.
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
        // Their first characters differ.
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

/// The algorithm that a proof states. It never selects the verification, which follows from the registered device.
public enum ProofAlgorithm: UInt8, CaseIterable, Sendable, CustomStringConvertible {
    /// An App Attest assertion over SHA-256 of the signature base. The value is private and not in the registry of RFC
    /// 9421 section 2.3.
    case appleAttest
    /// ECDSA over the signature base: r and s of 32 bytes each (RFC 9421 section 3.3.4). Android devices prove requests
    /// with it, and state their counter in `Attest-Proof-Counter`.
    case ecdsaP256SHA256

    /// The value in the field.
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

/// The label and the tag that identify a proof.
enum ProofName {
    /// The label of the proof's member in Signature-Input, Signature and Accept-Signature.
    static let label = Array("attest".utf8)
    /// The value of the parameter `tag`.
    static let tag = Array("attestgate-request".utf8)
}
