package import Cryptography
package import Encoding

/// A parsed JSON Web Signature in compact serialization (RFC 7515 section 3.1). Nothing in it was verified.
package struct CompactJWS: Equatable, Sendable {
    /// Length limit of the text in bytes.
    package static let lengthLimit = 32 << 10

    package let header: JSONObject
    package let payload: JSONObject
    /// The payload as it was signed.
    package let payloadText: [UInt8]
    /// The signed bytes: the first two parts as received, with the full stop between them.
    package let signingInput: [UInt8]
    package let signature: [UInt8]

    /// Parses a token.
    ///
    /// - Parameter text: Three parts of canonical base64url (RFC 7515 section 2: no padding, no white space). Header
    ///   and payload are JSON objects.
    package init(_ text: [UInt8]) throws(JWSFault) {
        guard text.count <= Self.lengthLimit else { throw .malformed }
        let parts = text.split(separator: UInt8(ascii: "."), maxSplits: 3, omittingEmptySubsequences: false)
        guard parts.count == 3 else { throw .malformed }
        header = try Self.object(try Self.bytes(parts[0]))
        payloadText = try Self.bytes(parts[1])
        payload = try Self.object(payloadText)
        signature = try Self.bytes(parts[2])
        signingInput = Array(text[..<parts[1].endIndex])
    }

    private static func object(_ text: [UInt8]) throws(JWSFault) -> JSONObject {
        do throws(JSONFault) {
            return try JSONReader.object(in: text, longest: lengthLimit)
        } catch {
            throw .json(error)
        }
    }

    private static func bytes(_ part: ArraySlice<UInt8>) throws(JWSFault) -> [UInt8] {
        guard let bytes = Base64URL.decode(part.span) else { throw .malformed }
        return bytes
    }

    /// Returns whether the signature is ES256 by this key (RFC 7518 section 3.4). The header is ignored.
    package func isSigned(by key: P256VerificationKey, _ library: LibraryContext) throws(CryptographyError) -> Bool {
        let digest = try library.sha256(of: signingInput.span)
        return key.verify(digest: digest, fixedWidthSignature: signature.span)
    }
}

package enum JWSFault: Error, Equatable, Sendable {
    /// The text is not three parts of base64url, or too long.
    case malformed
    /// Header or payload is not JSON that the reader accepts.
    case json(JSONFault)
}

/// A P-256 public key as a JSON Web Key (RFC 7518 section 6.2.1).
package struct PublicJWK: Equatable, Sendable {
    /// The uncompressed point, 65 bytes. `P256VerificationKey` checks whether it is on the curve.
    package let point: [UInt8]
    /// The names of all members.
    package static let members = ["kty", "crv", "x", "y"]
    private let x: [UInt8]
    private let y: [UInt8]

    /// Parses a key.
    ///
    /// - Parameter members: Exactly `kty`, `crv`, `x` and `y`, so that a private key is refused. Coordinates have 32
    ///   bytes in base64url (RFC 7518 section 6.2.1.2).
    /// - Returns: nil for another form.
    package init?(_ members: JSONObject) {
        guard members.hasOnly(Self.members) else { return nil }
        self.init(received: members)
    }

    /// Parses a key of another party, whose further members are ignored (RFC 7517 section 4).
    ///
    /// - Returns: nil for another form, and for a private key.
    package init?(received members: JSONObject) {
        guard members["d"] == nil, members["kty"]?.spells("EC") == true,
            members["crv"]?.spells("P-256") == true, let x = members["x"]?.text, let y = members["y"]?.text,
            let first = Base64URL.decode(x.span), let second = Base64URL.decode(y.span),
            first.count == 32, second.count == 32
        else { return nil }
        self.x = x
        self.y = y
        point = [0x04] + first + second
    }

    /// Creates a key from an uncompressed point.
    ///
    /// - Returns: nil for another form.
    package init?(point: [UInt8]) {
        guard point.count == 65, point[0] == 0x04 else { return nil }
        self.point = point
        x = Array(Base64URL.encode(Array(point[1..<33])).utf8)
        y = Array(Base64URL.encode(Array(point[33...])).utf8)
    }

    /// Writes the members of the key.
    package func write(to writer: inout JSONWriter) {
        writer.member("kty", "EC")
        writer.member("crv", "P-256")
        writer.member("x", String(decoding: x, as: UTF8.self))
        writer.member("y", String(decoding: y, as: UTF8.self))
    }

    /// Returns the JWK thumbprint with SHA-256 (RFC 7638 section 3) in base64url: 43 characters.
    package func thumbprint(_ library: LibraryContext) throws(CryptographyError) -> String {
        // Members are in the order of their names, without white space. Base64url needs no escapes.
        let text =
            Array(#"{"crv":"P-256","kty":"EC","x":""#.utf8) + x + Array(#"","y":""#.utf8) + y + Array(#""}"#.utf8)
        let digest = try library.sha256(of: text.span)
        return Base64URL.encode(digest.span)
    }
}

/// Times in tokens: seconds since 1970 (RFC 7519 section 2). Fractions are refused.
package enum NumericDate {
    /// The permitted range, up to the year 9999.
    package static let range: ClosedRange<Int64> = 0...253_402_300_799
}
