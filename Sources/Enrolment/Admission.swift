public import Cryptography

/// Who let a device in: what a verified admission token says. Only `AdmissionTokenVerifier` makes one.
public struct Admission: Equatable, Sendable {
    /// The token's `jti`, 1 to 128 bytes: to be used once, so to be remembered until `expiry`.
    public let tokenID: [UInt8]
    /// In seconds since 1970.
    public let expiry: Int64
    /// The subject as it is stored: HMAC-SHA-256 over issuer and subject. The subject itself goes no further.
    public let subject: Digest256
}

/// Why an admission token is refused.
public enum AdmissionFault: Error, Equatable, Sendable {
    /// Not a JWT in strict form, or a claim that is needed is missing or of another form.
    case malformed
    /// `alg` is not ES256, or `crit` demands what is not understood.
    case header
    case issuer
    case audience
    /// `exp` is past or too far ahead, `nbf` or `iat` ahead.
    case time
    /// `cnf.jkt` is not the new key's thumbprint.
    case key
    /// Signed by none of the issuer's keys.
    case signature
    /// The token was used before. Found by who remembers.
    case used
    /// The subject is revoked, or the device was admitted for another. Found by who remembers.
    case subject
    /// The check could not be made. Our fault; the token counts as refused.
    case checkFailed(CryptographyError)

    /// For the log, and for the developer of the client.
    public var reason: StaticString {
        switch self {
        case .malformed: "the admission token is malformed"
        case .header: "the admission token's alg is not ES256, or it has crit"
        case .issuer: "the admission token is of another issuer"
        case .audience: "the admission token is for another audience"
        case .time: "the admission token is expired, not yet valid, or its lifetime is too long"
        case .key: "the admission token is for another key"
        case .signature: "the admission token's signature does not verify"
        case .used: "the admission token was used before"
        case .subject: "the person of the admission token may not enrol this device"
        case .checkFailed: "the admission token could not be checked"
        }
    }
}

/// Verifies admission tokens: JWTs of one configured issuer, a login for example, each for one key and one use.
///
/// Belongs to the thread of its library context. That a token is used once is for who remembers.
public struct AdmissionTokenVerifier {
    /// Most bytes of a token.
    public static let lengthLimit = 8 << 10
    /// Most keys of an issuer: each may cost a verification.
    public static let keyLimit = 8
    /// Lengths of `jti`, in bytes.
    static let tokenIDLengths = 1...128
    /// Lengths of `sub`, in bytes (RFC 7519 sets none; OpenID Connect Core section 2 does).
    static let subjectLengths = 1...255
    /// How far the issuer's clock may be ahead, in seconds.
    public static let clockTolerance: Int64 = 60

    private let issuer: String
    private let keys: [P256VerificationKey]
    private let audience: ProviderURL
    private let longestLife: Int64
    private let pseudonyms: SubjectPseudonyms
    private let library: LibraryContext

    /// - Parameters:
    ///   - issuer: `iss`, byte by byte.
    ///   - points: the issuer's public keys, 1 to 8; embedded ones are never looked at.
    ///   - audience: `aud`.
    ///   - longestLife: how far ahead `exp` may lie, in seconds: used tokens are remembered that long.
    ///   - pseudonymKey: a secret. With another key, a subject's devices can no longer be found.
    public init(
        issuer: String, points: [[UInt8]], audience: ProviderURL, longestLife: Int64, pseudonymKey: AuthenticationKey,
        _ library: LibraryContext
    ) throws(CryptographyError) {
        guard (1...Self.keyLimit).contains(points.count) else {
            throw CryptographyError(doing: "verify admission tokens with \(points.count) keys")
        }
        var keys: [P256VerificationKey] = []
        for point in points { keys.append(try P256VerificationKey(point: point.span, library)) }
        self.issuer = issuer
        self.keys = keys
        self.audience = audience
        self.longestLife = longestLife
        pseudonyms = SubjectPseudonyms(pseudonymKey)
        self.library = library
    }

    /// - Parameters:
    ///   - text: the token as it came.
    ///   - keyThumbprint: of the key that is to be bound (RFC 7638), which has proven itself already.
    ///   - now: in seconds since 1970.
    public func verify(
        _ text: [UInt8], keyThumbprint: String, now: Int64
    ) throws(AdmissionFault) -> Admission {
        guard text.count <= Self.lengthLimit, let token = try? CompactJWS(text) else { throw .malformed }
        // The token is another's: members that mean nothing here are read over (RFC 7519 section 4), but never `crit`.
        guard token.header["alg"]?.spells("ES256") == true, token.header["crit"] == nil else { throw .header }
        let claims = token.payload
        guard let issuer = claims["iss"], let audience = claims["aud"], let expiry = claims["exp"]?.integer,
            let tokenID = claims["jti"]?.text, Self.tokenIDLengths.contains(tokenID.count),
            let subject = claims["sub"]?.text, Self.subjectLengths.contains(subject.count),
            let thumbprint = claims["cnf"]?.object?["jkt"]
        else { throw .malformed }
        guard issuer.spells(self.issuer) else { throw .issuer }
        guard audience.spells(self.audience.text) else { throw .audience }
        try checkTimes(claims, expiry, now)
        guard thumbprint.spells(keyThumbprint) else { throw .key }
        try checkSignature(token)
        return Admission(tokenID: tokenID, expiry: expiry, subject: try pseudonym(of: subject))
    }

    private func checkTimes(_ claims: JSONObject, _ expiry: Int64, _ now: Int64) throws(AdmissionFault) {
        guard NumericDate.range.contains(expiry), now < expiry, expiry - now <= longestLife else { throw .time }
        for name in ["nbf", "iat"] {
            guard let value = claims[name] else { continue }
            guard let time = value.integer, NumericDate.range.contains(time), time <= now + Self.clockTolerance else {
                throw .time
            }
        }
    }

    private func checkSignature(_ token: CompactJWS) throws(AdmissionFault) {
        for key in keys {
            do throws(CryptographyError) {
                if try token.isSigned(by: key, library) { return }
            } catch {
                throw .checkFailed(error)
            }
        }
        throw .signature
    }

    private func pseudonym(of subject: [UInt8]) throws(AdmissionFault) -> Digest256 {
        do throws(CryptographyError) { return try pseudonyms.pseudonym(ofSubject: subject, issuer: issuer) } catch {
            throw .checkFailed(error)
        }
    }
}
