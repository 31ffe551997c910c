internal import Challenges
package import Cryptography

/// A JSON Web Signature in compact serialization (RFC 7515 section 3.1), taken apart; nothing in it is believed yet.
package struct CompactJWS: Equatable, Sendable {
    /// Most bytes of the text.
    package static let lengthLimit = 32 << 10

    package let header: JSONObject
    package let payload: JSONObject
    /// The two first parts with the full stop between them, as they came: what is signed.
    package let signingInput: [UInt8]
    package let signature: [UInt8]

    /// - Parameter text: three parts of base64url, each in its one spelling (RFC 7515 section 2: no padding, no white
    ///   space), header and payload JSON objects.
    package init(_ text: [UInt8]) throws(JWSFault) {
        guard text.count <= Self.lengthLimit else { throw .malformed }
        let parts = text.split(separator: UInt8(ascii: "."), maxSplits: 3, omittingEmptySubsequences: false)
        guard parts.count == 3 else { throw .malformed }
        header = try Self.object(parts[0])
        payload = try Self.object(parts[1])
        signature = try Self.bytes(parts[2])
        signingInput = Array(text[..<parts[1].endIndex])
    }

    private static func object(_ part: ArraySlice<UInt8>) throws(JWSFault) -> JSONObject {
        let text = try bytes(part)
        do throws(JSONFault) {
            return try JSONReader.object(in: text, longest: lengthLimit)
        } catch {
            throw .json(error)
        }
    }

    private static func bytes(_ part: ArraySlice<UInt8>) throws(JWSFault) -> [UInt8] {
        guard let bytes = Base64URLText.decode(part.span) else { throw .malformed }
        return bytes
    }

    /// Whether the signature is ES256 by this key (RFC 7518 section 3.4). Does not look at the header.
    package func isSigned(by key: P256VerificationKey, _ library: LibraryContext) throws(CryptographyError) -> Bool {
        let digest = try library.sha256(of: signingInput.span)
        return key.verify(digest: digest, fixedWidthSignature: signature.span)
    }
}

package enum JWSFault: Error, Equatable, Sendable {
    /// Not three parts of base64url, or too long.
    case malformed
    /// Header or payload is not JSON as it is read here.
    case json(JSONFault)
}

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
