public import Cryptography
internal import Encoding

/// The keys of an app's Play Integrity tokens, from the Play Console.
public struct IntegrityKeys {
    let decryption: SecretKey
    let verification: P256VerificationKey

    /// Reads the keys.
    ///
    /// - Parameters:
    ///   - decryption: Base64 of the AES key, 32 bytes. White space is ignored.
    ///   - verification: Base64 of the P-256 public key, a SubjectPublicKeyInfo in DER; or that in PEM.
    public init(
        decryption: [UInt8], verification: [UInt8], _ library: LibraryContext
    ) throws(IntegrityKeyFault) {
        guard let bytes = Self.decode(decryption), let key = SecretKey(bytes) else { throw .decryption }
        self.decryption = key
        let spki: PublicKey?
        if verification.starts(with: "-----BEGIN".utf8) {
            spki = try? PublicKey(pem: verification, library)
        } else {
            spki = Self.decode(verification).flatMap { try? PublicKey(der: $0.span, library) }
        }
        guard let spki, spki.isP256, let point = spki.uncompressedPoint,
            let key = try? P256VerificationKey(point: point.span, library)
        else { throw .verification }
        self.verification = key
    }

    private static func decode(_ text: [UInt8]) -> [UInt8]? {
        let digits = text.filter { $0 != 0x20 && !(0x09...0x0d).contains($0) }
        return Base64.decode(digits[...], isCanonical: false)
    }
}

/// The key that cannot be read.
public enum IntegrityKeyFault: Error, Equatable, Sendable {
    case decryption
    case verification

    public var reason: String {
        switch self {
        case .decryption: "decryption_key is not base64 of 32 bytes"
        case .verification: "verification_key is not base64 or PEM of a P-256 public key"
        }
    }
}

/// A token of the Play Integrity API: a JSON Web Encryption in compact serialization (RFC 7516 section 3.1). Nothing in
/// it was verified.
struct IntegrityToken {
    /// Length limit of the text in bytes. Google's have some 1,500.
    static let lengthLimit = 16 << 10

    private let header: [UInt8]
    private let wrappedKey: [UInt8]
    private let nonce: [UInt8]
    private let ciphertext: [UInt8]
    private let tag: [UInt8]

    /// The only members of a header. Others would change what the token means, such as `zip` and `crit`.
    private static let headerMembers = ["alg", "enc", "typ", "cty", "kid"]

    /// Parses a token. Its algorithms are pinned before anything is decrypted.
    init(_ text: [UInt8]) throws(IntegrityFault) {
        guard text.count <= Self.lengthLimit else { throw .malformed }
        let parts = text.split(separator: UInt8(ascii: "."), maxSplits: 5, omittingEmptySubsequences: false)
        guard parts.count == 5 else { throw .malformed }
        var decoded: [[UInt8]] = []
        for part in parts {
            guard let bytes = Base64URL.decode(part.span) else { throw .malformed }
            decoded.append(bytes)
        }
        // The header is authenticated as it was sent.
        (header, wrappedKey, nonce, ciphertext, tag) = (Array(parts[0]), decoded[1], decoded[2], decoded[3], decoded[4])
        let members: JSONObject
        do throws(JSONFault) { members = try JSONReader.object(in: decoded[0], longest: 1024) } catch {
            throw .header
        }
        guard members.hasOnly(Self.headerMembers) else { throw .header }
        guard members["alg"]?.spells("A256KW") == true, members["enc"]?.spells("A256GCM") == true else {
            throw .algorithm
        }
        guard wrappedKey.count == 40, nonce.count == 12, tag.count == 16 else { throw .malformed }
    }

    /// Returns the content: a JSON Web Signature.
    func open(by key: SecretKey, _ library: LibraryContext) throws(IntegrityFault) -> CompactJWS {
        let unwrapped = try IntegrityFault.checking { () throws(CryptographyError) in
            try key.unwrap(wrappedKey, library)
        }
        guard let unwrapped, let contentKey = SecretKey(unwrapped) else { throw .notForKey }
        let content = try IntegrityFault.checking { () throws(CryptographyError) in
            try contentKey.open(ciphertext, nonce: nonce, authenticating: header, tag: tag, library)
        }
        guard let content else { throw .altered }
        do throws(JWSFault) { return try CompactJWS(content) } catch { throw .content }
    }
}
