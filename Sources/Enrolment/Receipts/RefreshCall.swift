internal import Challenges
internal import Cryptography
internal import Encoding
internal import Upstream

/// The credential for Apple: a JSON Web Token (RFC 7519) signed with ES256 by the developer's key. It is renewed
/// periodically. It is a secret and is not logged.
struct RefreshToken {
    /// The number of seconds for which a token is used. Apple accepts it for up to an hour.
    static let life: Int64 = 20 * 60

    private let team: String
    private let keyID: String
    private let key: P256SigningKey
    private let library: LibraryContext
    private var made: (text: String, at: Int64)?

    /// Reads the key.
    ///
    /// - Parameters:
    ///   - team: Ten letters and digits, as is `keyID`. Neither needs an escape in JSON.
    ///   - pem: The private key in PKCS #8.
    init(team: String, keyID: String, pem: [UInt8], _ library: LibraryContext) throws(CryptographyError) {
        self.team = team
        self.keyID = keyID
        key = try P256SigningKey(try PrivateKey(pem: pem, library), library)
        self.library = library
    }

    /// Returns the token.
    ///
    /// - Parameter now: The time in seconds since 1970.
    mutating func text(now: Int64) throws(CryptographyError) -> String {
        // After a clock was set back, a token must not be from the future.
        if let made, (0..<Self.life).contains(now - made.at) { return made.text }
        let text = try make(now)
        made = (text, now)
        return text
    }

    private func make(_ now: Int64) throws(CryptographyError) -> String {
        let header = Array(#"{"alg":"ES256","kid":"\#(keyID)"}"#.utf8)
        let claims = Array(#"{"iss":"\#(team)","iat":\#(now)}"#.utf8)
        let signed = "\(Base64URL.encode(header.span)).\(Base64URL.encode(claims.span))"
        let input = Array(signed.utf8)
        let signature = try key.sign(digest: try library.sha256(of: input.span))
        guard let fixed = ECDSASignature.fixedWidth(der: signature.span) else {
            throw CryptographyError(doing: "sign a token: the signature has an unexpected form")
        }
        return "\(signed).\(Base64URL.encode(fixed.span))"
    }
}

/// Apple's answer to a request for a newer receipt ("Assessing fraud risk").
enum RefreshAnswer: Equatable {
    /// A newer receipt that was not verified yet.
    case receipt([UInt8])
    /// There is no newer receipt: 304.
    case unchanged
    /// The receipt is malformed or for another service: 400.
    case malformed
    /// The credential is refused: 401. The configuration is wrong for all devices.
    case tokenRefused
    /// The device is unknown: 404.
    case unknown
    /// There are too many requests: 429.
    case tooMany(retryAfter: Int64?)
    /// There is no answer, or an unexpected one.
    ///
    /// - reason: A word for logs, followed by details.
    case failed(String)

    init(_ result: Result<OutboundAnswer, OutboundFailure>) {
        switch result {
        case .failure(let failure): self = .failed(failure.reason)
        case .success(let answer): self.init(answer)
        }
    }

    private init(_ answer: OutboundAnswer) {
        switch answer.status {
        case 200:
            self = Self.decode(answer.content).map { .receipt($0) } ?? .failed("no_receipt: the content is not Base64")
        case 304: self = .unchanged
        case 400: self = .malformed
        case 401: self = .tokenRefused
        case 404: self = .unknown
        case 429: self = .tooMany(retryAfter: answer.retryAfter)
        case 500...599: self = .failed("server_error: status \(answer.status)")
        // Redirects are among them and are not followed.
        default: self = .failed("unexpected_status: \(answer.status)")
        }
    }

    /// Decodes base64 and ignores white space around it.
    private static func decode(_ content: [UInt8]) -> [UInt8]? {
        let isBlank = { (byte: UInt8) in byte == 0x20 || (0x09...0x0d).contains(byte) }
        let text = content.drop(while: isBlank)
        guard let last = text.lastIndex(where: { !isBlank($0) }) else { return nil }
        return Base64.decode(text[...last], isCanonical: false)
    }
}
