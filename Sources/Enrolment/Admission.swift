internal import Attestation
public import Cryptography
internal import Encoding

/// The content of a verified admission token. Only `AdmissionTokenVerifier` creates one.
public struct Admission: Equatable, Sendable {
    /// The token's `jti`, 1 to 128 bytes. It is single-use and remembered until `expiry`.
    public let tokenID: [UInt8]
    /// The time of expiry in seconds since 1970.
    public let expiry: Int64
    /// The stored form of the subject: HMAC-SHA-256 over issuer and subject. The subject itself is not kept.
    public let subject: Digest256
}

/// The reason why an admission token is refused.
public enum AdmissionFault: Error, Equatable, Sendable {
    /// The token is not a strict JWT, or a required claim is missing or malformed.
    case malformed
    /// `alg` is not ES256, or `crit` is present.
    case header
    case issuer
    case audience
    /// `exp` is past or too far ahead, or `nbf` or `iat` is in the future.
    case time
    /// `cnf.jkt` is not the new key's thumbprint.
    case key
    /// The signature is by none of the issuer's keys.
    case signature
    /// The token was used before. The registry detects this.
    case used
    /// The subject is revoked, or the device was admitted for another. The registry detects this.
    case subject
    /// The check failed to run. This is the service's fault, but the token counts as refused.
    case checkFailed(CryptographyError)

    /// A description for the log and the developer of the client.
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

/// A verifier of admission tokens: JWTs of one configured issuer, such as a login. Each is for one key and one use.
///
/// Belongs to the thread of its library context. The registry ensures that a token is used once.
public struct AdmissionTokenVerifier {
    /// Length limit of a token in bytes.
    public static let lengthLimit = 8 << 10
    /// Limit of an issuer's keys. Each may cost a verification.
    public static let keyLimit = 8
    /// The permitted lengths of `jti` in bytes.
    private static let tokenIDLengths = 1...128
    /// The permitted lengths of `sub` in bytes, from OpenID Connect Core section 2. RFC 7519 defines none.
    private static let subjectLengths = 1...255
    /// Tolerance for the issuer's clock being ahead, in seconds.
    public static let clockTolerance: Int64 = 60

    private let issuer: String
    private let keys: [P256VerificationKey]
    private let audience: ProviderURL
    private let longestLife: Int64
    private let pseudonyms: SubjectPseudonyms
    private let library: LibraryContext

    /// Creates a verifier.
    ///
    /// - Parameters:
    ///   - issuer: The required `iss`, compared byte by byte.
    ///   - points: The issuer's 1 to 8 public keys. Keys in tokens are ignored.
    ///   - audience: The required `aud`.
    ///   - longestLife: The maximum time until `exp`, in seconds. Used tokens are remembered for that time.
    ///   - pseudonymKey: A secret. With another key, a subject's devices can no longer be found.
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

    /// Verifies a token.
    ///
    /// - Parameters:
    ///   - text: The token as received.
    ///   - keyThumbprint: The thumbprint (RFC 7638) of the key to bind, whose possession was proven before.
    ///   - now: The time in seconds since 1970.
    public func verify(
        _ text: [UInt8], keyThumbprint: String, now: Int64
    ) throws(AdmissionFault) -> Admission {
        guard text.count <= Self.lengthLimit, let token = try? CompactJWS(text) else { throw .malformed }
        // Another party defines the token, so unknown members are ignored (RFC 7519 section 4), except `crit`.
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
