public import Cryptography
package import Encoding

/// The signature algorithms of tokens that others issue (RFC 7518 section 3.1).
package enum JWSAlgorithm: String, CaseIterable, Sendable {
    case es256 = "ES256"
    case rs256 = "RS256"
    case ps256 = "PS256"

    /// Returns nil for every other algorithm, such as `none` and HMAC.
    init?(_ value: JSONValue) {
        guard let algorithm = Self.allCases.first(where: { value.spells($0.rawValue) }) else { return nil }
        self = algorithm
    }
}

/// A public key that verifies tokens with the algorithms it was made for, and no others.
package struct JWSVerificationKey {
    fileprivate enum Material {
        case elliptic(P256VerificationKey)
        case rsa(RSAVerificationKey)
    }

    /// The key's `kid` in UTF-8. Nil if it has none.
    package let id: [UInt8]?
    /// The algorithm that the key is limited to. Nil for an RSA key that may verify RS256 and PS256.
    fileprivate let algorithm: JWSAlgorithm?
    fileprivate let material: Material

    /// Creates a key without `kid` for ES256.
    package init(_ key: P256VerificationKey) {
        id = nil
        algorithm = .es256
        material = .elliptic(key)
    }

    /// Creates a key from a JSON Web Key.
    ///
    /// - Returns: nil for a key with another use, type or algorithm, which RFC 7517 section 5 says to ignore.
    /// - Throws: if it is a signature key of a known type that must not be used.
    init?(_ members: JSONObject, _ library: LibraryContext) throws(JWKSetFault) {
        if let use = members["use"], !use.spells("sig") { return nil }
        if let operations = members["key_ops"] {
            guard case .array(let values) = operations, values.contains(where: { $0.spells("verify") }) else {
                return nil
            }
        }
        var named: JWSAlgorithm?
        if let value = members["alg"] {
            guard let algorithm = JWSAlgorithm(value) else { return nil }
            named = algorithm
        }
        if let value = members["kid"] {
            guard let text = value.text else { throw .malformedKey }
            id = text
        } else {
            id = nil
        }
        if members["kty"]?.spells("EC") == true {
            guard members["crv"]?.spells("P-256") == true else { return nil }
            guard named == nil || named == .es256 else { throw .algorithm }
            algorithm = .es256
            material = .elliptic(try Self.elliptic(members, library))
        } else if members["kty"]?.spells("RSA") == true {
            guard named != .es256 else { throw .algorithm }
            algorithm = named
            material = .rsa(try Self.rsa(members, library))
        } else {
            return nil
        }
        // A private key that is published is not secret (RFC 7518 sections 6.2.2 and 6.3.2).
        guard members["d"] == nil else { throw .privateKey }
    }

    private static func elliptic(
        _ members: JSONObject, _ library: LibraryContext
    ) throws(JWKSetFault) -> P256VerificationKey {
        guard let x = bytes(members["x"]), let y = bytes(members["y"]), x.count == 32, y.count == 32 else {
            throw .malformedKey
        }
        let point = [0x04] + x + y
        do throws(CryptographyError) { return try P256VerificationKey(point: point.span, library) } catch {
            throw .unusableKey(error)
        }
    }

    private static func rsa(
        _ members: JSONObject, _ library: LibraryContext
    ) throws(JWKSetFault) -> RSAVerificationKey {
        guard let modulus = bytes(members["n"]), let exponent = bytes(members["e"]) else { throw .malformedKey }
        do throws(CryptographyError) {
            return try RSAVerificationKey(modulus: modulus.span, exponent: exponent.span, library)
        } catch {
            throw .unusableKey(error)
        }
    }

    private static func bytes(_ value: JSONValue?) -> [UInt8]? {
        value?.text.flatMap { Base64URL.decode($0.span) }
    }

    /// Returns whether a token with this `alg` may be verified with the key.
    package func accepts(_ algorithm: JWSAlgorithm) -> Bool {
        switch material {
        case .elliptic: algorithm == .es256
        case .rsa: algorithm != .es256 && (self.algorithm ?? algorithm) == algorithm
        }
    }

    /// Returns whether the key signed the message whose SHA-256 is `digest`.
    fileprivate func verify(digest: Digest256, signature: Span<UInt8>, _ algorithm: JWSAlgorithm) -> Bool {
        guard accepts(algorithm) else { return false }
        return switch material {
        case .elliptic(let key): key.verify(digest: digest, fixedWidthSignature: signature)
        case .rsa(let key): key.verify(digest: digest, signature: signature, algorithm == .ps256 ? .pss : .pkcs1)
        }
    }
}

/// The public keys of an issuer of tokens: a JSON Web Key Set (RFC 7517 section 5).
///
/// Belongs to the thread of its library context.
package struct JWKSet {
    /// Length limit of the text in bytes.
    package static let lengthLimit = 64 << 10
    /// Limit of the set's keys, including those that are ignored.
    package static let keyLimit = 64

    /// The keys that verify signatures, at least one. No two have the same `kid`.
    package let keys: [JWSVerificationKey]
    private let library: LibraryContext

    /// Parses a set. Keys with another use, type, curve or algorithm are ignored.
    ///
    /// - Throws: if the text is no set, has too many keys, an RSA key below 2048 bits, a private key or a
    ///   key that is not on its curve, two keys with the same `kid`, or no key that verifies signatures.
    package init(_ text: [UInt8], _ library: LibraryContext) throws(JWKSetFault) {
        let object: JSONObject
        do throws(JSONFault) {
            object = try JSONReader.object(in: text, longest: Self.lengthLimit, most: Self.keyLimit)
        } catch {
            throw .json(error)
        }
        try self.init(object, library)
    }

    /// Reads a set, as above.
    package init(_ object: JSONObject, _ library: LibraryContext) throws(JWKSetFault) {
        guard case .array(let elements)? = object["keys"], elements.count <= Self.keyLimit else { throw .malformedSet }
        var keys: [JWSVerificationKey] = []
        for element in elements {
            guard let members = element.object else { throw .malformedSet }
            guard let key = try JWSVerificationKey(members, library) else { continue }
            guard key.id == nil || !keys.contains(where: { $0.id == key.id }) else { throw .repeatedID }
            keys.append(key)
        }
        guard !keys.isEmpty else { throw .noKey }
        self.keys = keys
        self.library = library
    }

    /// Verifies a token's signature with the key that its header names.
    ///
    /// A token without `kid` is accepted only if one key alone accepts its `alg` (OpenID Connect Core section 10.1).
    /// Keys and references in the header are ignored.
    package func verify(_ token: CompactJWS) throws(JWSVerificationFault) {
        let algorithm = try token.algorithm()
        let key: JWSVerificationKey?
        if let id = token.header["kid"] {
            guard let id = id.text else { throw .header }
            key = keys.first { $0.id == id }
        } else {
            let candidates = keys.filter { $0.accepts(algorithm) }
            key = candidates.count == 1 ? candidates[0] : nil
        }
        guard let key else { throw .unknownKey }
        guard key.accepts(algorithm) else { throw .algorithm }
        guard try token.isSigned(by: key, algorithm, library) else { throw .signature }
    }
}

extension CompactJWS {
    /// Returns the token's algorithm.
    ///
    /// - Throws: `.header` if it is none of those accepted, or the token has critical extensions (RFC 7515 section
    ///   4.1.11).
    package func algorithm() throws(JWSVerificationFault) -> JWSAlgorithm {
        guard header["crit"] == nil, let algorithm = header["alg"].flatMap({ JWSAlgorithm($0) }) else { throw .header }
        return algorithm
    }

    /// Returns whether the key made the signature with this algorithm. `kid` is ignored.
    package func isSigned(
        by key: JWSVerificationKey, _ algorithm: JWSAlgorithm, _ library: LibraryContext
    ) throws(JWSVerificationFault) -> Bool {
        do throws(CryptographyError) {
            let digest = try library.sha256(of: signingInput.span)
            return key.verify(digest: digest, signature: signature.span, algorithm)
        } catch {
            throw .checkFailed(error)
        }
    }
}

/// The reason why a token's signature is not accepted.
public enum JWSVerificationFault: Error, Equatable, Sendable {
    /// `alg` is not ES256, RS256 or PS256, `kid` is no text, or `crit` is present.
    case header
    /// `kid` names none of the keys, or is missing and more or fewer than one key may be meant.
    case unknownKey
    /// `alg` is not one that the key is for.
    case algorithm
    case signature
    /// The check failed to run.
    case checkFailed(CryptographyError)
}

/// The reason why bytes are not a set of keys that is used.
package enum JWKSetFault: Error, Equatable, Sendable {
    /// The text is not JSON that the reader accepts, too long, or has too many keys.
    case json(JSONFault)
    /// There is no array `keys` of objects.
    case malformedSet
    /// A required member of a key is missing or not canonical base64url, or `kid` is no text.
    case malformedKey
    /// `alg` of a key is for another type of key.
    case algorithm
    /// A key has its private member.
    case privateKey
    /// A key is too weak, too expensive or not on its curve.
    case unusableKey(CryptographyError)
    /// Two keys have the same `kid`.
    case repeatedID
    /// No key verifies ES256, RS256 or PS256.
    case noKey

    /// A description for logs and diagnostics.
    package var reason: String {
        switch self {
        case .json(let fault): "\(fault.reason)"
        case .malformedSet: "it is not a JWK Set"
        case .malformedKey: "a key is malformed"
        case .algorithm: "the alg of a key is for another type of key"
        case .privateKey: "it publishes a private key"
        case .unusableKey(let error): "\(error)"
        case .repeatedID: "two keys have the same kid"
        case .noKey: "it has no key for ES256, RS256 or PS256"
        }
    }
}
