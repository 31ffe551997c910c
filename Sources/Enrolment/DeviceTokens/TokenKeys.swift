internal import Attestation
internal import Cryptography
internal import Encoding

/// A public key of the issuer of device tokens.
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

/// The public keys that verify the device tokens which are valid now: that of the present generation, and earlier ones
/// until their last token has expired.
struct TokenKeys {
    private var current: (key: PublishedTokenKey, life: Int64)?
    /// The newest first. Times are in seconds since 1970.
    private var earlier: [(key: PublishedTokenKey, end: Int64)] = []

    /// Limit of earlier keys. Beyond it, the oldest is dropped.
    private static let limit = 8
    /// An earlier generation may still issue tokens on open connections, in seconds.
    private static let overlap: Int64 = 60

    /// Adopts the issuer of a new generation.
    ///
    /// - Parameter issuer: Nil if it issues none.
    mutating func adopt(_ issuer: DeviceTokenIssuer?, now: Int64) {
        if let current, current.key != issuer?.publicKey {
            earlier.insert((current.key, now + current.life + Self.overlap), at: 0)
        }
        current = issuer.map { ($0.publicKey, $0.life) }
        earlier.removeAll { $0.end <= now || $0.key == issuer?.publicKey }
        earlier.removeLast(max(0, earlier.count - Self.limit))
    }

    /// Returns the JWK Set (RFC 7517 section 5). Nil if no tokens are issued.
    func set(now: Int64) -> [UInt8]? {
        guard let current else { return nil }
        let keys = [current.key] + earlier.filter { now < $0.end }.map(\.key)
        return JSONWriter.object { $0.member("keys", keys.map { key in { key.write(to: &$0) } }) }
    }
}
