internal import Challenges
internal import Cryptography

/// The credential for Apple: a JSON Web Token (RFC 7519), signed with ES256 by the developer's key, renewed now and
/// then. It is a secret: no log contains it.
struct RefreshToken {
    /// How long one is shown, in seconds. Apple takes them for up to an hour.
    static let life: Int64 = 20 * 60

    private let team: String
    private let keyID: String
    private let key: P256SigningKey
    private let library: LibraryContext
    private var made: (text: String, at: Int64)?

    /// - Parameters:
    ///   - team: ten letters and digits, as `keyID`: neither needs an escape in JSON.
    ///   - pem: the private key, PKCS #8.
    init(team: String, keyID: String, pem: [UInt8], _ library: LibraryContext) throws(CryptographyError) {
        self.team = team
        self.keyID = keyID
        key = try P256SigningKey(try PrivateKey(pem: pem, library), library)
        self.library = library
    }

    /// - Parameter now: in seconds since 1970.
    mutating func text(now: Int64) throws(CryptographyError) -> String {
        // A clock that went back must not leave one that is of the future.
        if let made, (0..<Self.life).contains(now - made.at) { return made.text }
        let text = try make(now)
        made = (text, now)
        return text
    }

    private func make(_ now: Int64) throws(CryptographyError) -> String {
        let header = Array(#"{"alg":"ES256","kid":"\#(keyID)"}"#.utf8)
        let claims = Array(#"{"iss":"\#(team)","iat":\#(now)}"#.utf8)
        let signed = "\(Base64URLText.encode(header.span)).\(Base64URLText.encode(claims.span))"
        let input = Array(signed.utf8)
        let signature = try key.sign(digest: try library.sha256(of: input.span))
        guard let fixed = ECDSASignature.fixedWidth(der: signature.span) else {
            throw CryptographyError(doing: "sign a token: the signature has an unexpected form")
        }
        return "\(signed).\(Base64URLText.encode(fixed.span))"
    }
}
