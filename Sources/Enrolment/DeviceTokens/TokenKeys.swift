internal import Attestation
internal import Cryptography
internal import Encoding

/// A private key that signs tokens with ES256. Belongs to the thread of its library context.
struct TokenSigner {
    /// The public key, as it is published.
    let publicKey: PublishedTokenKey
    private let key: P256SigningKey
    private let library: LibraryContext

    /// - Throws: if the key cannot be read, or is not on P-256.
    init(pem: [UInt8], _ library: LibraryContext) throws(CryptographyError) {
        key = try P256SigningKey(PrivateKey(pem: pem, library), library)
        publicKey = try PublishedTokenKey(point: key.point, library)
        self.library = library
    }

    /// Returns a token in compact serialization (RFC 7515 section 3.1).
    ///
    /// - Parameters:
    ///   - type: The `typ` of the header.
    ///   - chain: Its `x5c`. None if it is empty.
    ///   - claims: A JSON object.
    func sign(type: String, chain: [String] = [], _ claims: [UInt8]) throws(CryptographyError) -> String {
        let header = JSONWriter.object { header in
            header.member("typ", type)
            header.member("alg", "ES256")
            header.member("kid", publicKey.id)
            if !chain.isEmpty { header.member("x5c", chain) }
        }
        let input = Array("\(Base64URL.encode(header)).\(Base64URL.encode(claims))".utf8)
        let signature = try key.sign(digest: library.sha256(of: input.span))
        guard let fixed = ECDSASignature.fixedWidth(der: signature.span) else {
            throw CryptographyError(doing: "encode the signature of a token")
        }
        return "\(String(decoding: input, as: UTF8.self)).\(Base64URL.encode(fixed))"
    }
}

/// A public key of an issuer of tokens.
struct PublishedTokenKey: Equatable, Sendable {
    private let key: PublicJWK
    /// The `kid`: the JWK thumbprint (RFC 7638 section 3).
    let id: String

    /// - Parameter point: The uncompressed point, 65 bytes.
    init(point: [UInt8], _ library: LibraryContext) throws(CryptographyError) {
        guard let key = PublicJWK(point: point) else { throw CryptographyError(doing: "publish a key on P-256") }
        self.key = key
        id = try key.thumbprint(library)
    }

    fileprivate func write(to writer: inout JSONWriter) {
        key.write(to: &writer)
        writer.member("use", "sig")
        writer.member("alg", "ES256")
        writer.member("kid", id)
    }
}

/// The public keys that verify the tokens which are valid now: those of the present generation, and earlier ones until
/// their last token has expired.
struct TokenKeys {
    private var current: [(key: PublishedTokenKey, life: Int64)] = []
    /// The newest first. Times are in seconds since 1970.
    private var earlier: [(key: PublishedTokenKey, end: Int64)] = []

    /// Limit of earlier keys. Beyond it, the oldest is dropped.
    private static let limit = 8
    /// An earlier generation may still issue tokens on open connections, in seconds.
    private static let overlap: Int64 = 60

    /// Adopts the keys of a new generation, each with the lifetime of its tokens in seconds.
    mutating func adopt(_ keys: [(key: PublishedTokenKey, life: Int64)], now: Int64) {
        for old in current where !keys.contains(where: { $0.key == old.key }) {
            earlier.insert((old.key, now + old.life + Self.overlap), at: 0)
        }
        current = []
        for new in keys where !current.contains(where: { $0.key == new.key }) { current.append(new) }
        earlier.removeAll { old in old.end <= now || keys.contains { $0.key == old.key } }
        earlier.removeLast(max(0, earlier.count - Self.limit))
    }

    /// Returns the JWK Set (RFC 7517 section 5). Nil if no tokens are issued.
    func set(now: Int64) -> [UInt8]? {
        guard !current.isEmpty else { return nil }
        let keys = current.map(\.key) + earlier.filter { now < $0.end }.map(\.key)
        return JSONWriter.object { $0.member("keys", keys.map { key in { key.write(to: &$0) } }) }
    }
}
