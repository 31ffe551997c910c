internal import Challenges
package import Cryptography

/// A P-256 public key as a JSON Web Key (RFC 7518 section 6.2.1).
package struct PublicJWK: Equatable, Sendable {
    /// The uncompressed point: 65 bytes. Whether it lies on the curve is for `P256VerificationKey`.
    package let point: [UInt8]
    /// The members it has, all of them.
    static let members = ["kty", "crv", "x", "y"]
    private let x: [UInt8]
    private let y: [UInt8]

    /// - Parameter members: `kty`, `crv`, `x` and `y`, and no other: a private key in particular has no business here.
    ///   Nil comes of another form: coordinates have all their 32 bytes (RFC 7518 section 6.2.1.2), in base64url.
    package init?(_ members: JSONObject) {
        guard members.hasOnly(Self.members), members["kty"]?.spells("EC") == true,
            members["crv"]?.spells("P-256") == true, let x = members["x"]?.text, let y = members["y"]?.text,
            let first = Base64URLText.decode(x.span), let second = Base64URLText.decode(y.span),
            first.count == 32, second.count == 32
        else { return nil }
        self.x = x
        self.y = y
        point = [0x04] + first + second
    }

    /// The JWK thumbprint with SHA-256 (RFC 7638 section 3), in base64url: 43 characters.
    package func thumbprint(_ library: LibraryContext) throws(CryptographyError) -> String {
        // Members in the order of their names, no white space; coordinates are base64url, which needs no escapes.
        let text =
            Array(#"{"crv":"P-256","kty":"EC","x":""#.utf8) + x + Array(#"","y":""#.utf8) + y + Array(#""}"#.utf8)
        let digest = try library.sha256(of: text.span)
        return Base64URLText.encode(digest.span)
    }
}
