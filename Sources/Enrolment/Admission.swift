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
    /// `alg` is not ES256, RS256 or PS256, `crit` is present, or `kid` is no text.
    case header
    case issuer
    case audience
    /// `exp` is past or too far ahead, or `nbf` or `iat` is in the future.
    case time
    /// `cnf.jkt` is not the new key's thumbprint.
    case key
    /// `alg` is not one that the issuer's key is for.
    case algorithm
    /// The issuer has no key that the token names.
    case unknownKey
    /// The issuer may have a key that the token names, which is being fetched.
    case keyNotFetched
    /// The issuer's keys were not fetched yet, or not for too long.
    case keysUnavailable
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
        case .header: "the admission token's alg is not ES256, RS256 or PS256, or it has crit"
        case .algorithm: "the admission token's alg is not one of the issuer's key"
        case .unknownKey: "the admission token's kid is of no key of the issuer"
        case .keyNotFetched: "the admission token's kid is of no known key of the issuer, whose keys are fetched again"
        case .keysUnavailable: "the keys of the admission token's issuer are not available"
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

/// A verifier of admission tokens: JWTs of one configured issuer, such as a login. Each is for one key and one use. The
/// issuer's keys are in files, or were fetched.
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

    private enum Keys {
        case listed([JWSVerificationKey])
        /// - source: The URL.
        case fetched(source: String)
    }

    private let issuer: String
    private let keys: Keys
    private let audience: ProviderURL
    private let longestLife: Int64
    private let pseudonyms: SubjectPseudonyms
    private let library: LibraryContext

    /// Creates a verifier.
    ///
    /// - Parameters:
    ///   - issuer: The required `iss`, compared byte by byte.
    ///   - keys: Keys in tokens are ignored.
    ///   - audience: The required `aud`, or one of its members.
    ///   - longestLife: The maximum time until `exp`, in seconds. Used tokens are remembered for that time.
    ///   - pseudonymKey: A secret. With another key, a subject's devices can no longer be found.
    public init(
        issuer: String, keys: EnrolmentSettings.TokenIssuer.Keys, audience: ProviderURL, longestLife: Int64,
        pseudonymKey: AuthenticationKey, _ library: LibraryContext
    ) throws(CryptographyError) {
        switch keys {
        case .listed(let points):
            guard (1...Self.keyLimit).contains(points.count) else {
                throw CryptographyError(doing: "verify admission tokens with \(points.count) keys")
            }
            var keys: [JWSVerificationKey] = []
            for point in points { keys.append(JWSVerificationKey(try P256VerificationKey(point: point.span, library))) }
            self.keys = .listed(keys)
        case .fetched(let settings): self.keys = .fetched(source: settings.service.url)
        }
        self.issuer = issuer
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
    ///   - fetched: The keys that were fetched.
    ///   - now: The time in seconds since 1970.
    public func verify(
        _ text: [UInt8], keyThumbprint: String, _ fetched: IssuerKeyRecord = IssuerKeyRecord(), now: Int64
    ) throws(AdmissionFault) -> Admission {
        guard text.count <= Self.lengthLimit, let token = try? CompactJWS(text) else { throw .malformed }
        // Another party defines the token, so unknown members are ignored (RFC 7519 section 4), except `crit`.
        do throws(JWSVerificationFault) { _ = try token.algorithm() } catch { throw AdmissionFault(error) }
        let claims = token.payload
        guard let issuer = claims["iss"], let audience = claims["aud"], let expiry = claims["exp"]?.integer,
            let tokenID = claims["jti"]?.text, Self.tokenIDLengths.contains(tokenID.count),
            let subject = claims["sub"]?.text, Self.subjectLengths.contains(subject.count),
            let thumbprint = claims["cnf"]?.object?["jkt"]
        else { throw .malformed }
        guard issuer.spells(self.issuer) else { throw .issuer }
        guard isAudience(audience) else { throw .audience }
        try checkTimes(claims, expiry, now)
        guard thumbprint.spells(keyThumbprint) else { throw .key }
        try checkSignature(token, fetched, now)
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

    /// Returns whether a claim names the required audience, alone or among others (RFC 7519 section 4.1.3).
    private func isAudience(_ claim: JSONValue) -> Bool {
        guard case .array(let names) = claim else { return claim.spells(audience.text) }
        return names.contains { $0.spells(audience.text) }
    }

    private func checkSignature(
        _ token: CompactJWS, _ fetched: IssuerKeyRecord, _ now: Int64
    ) throws(AdmissionFault) {
        switch keys(fetched, now) {
        case .unavailable: throw .keysUnavailable
        case .listed(let keys): try checkSignature(token, byOneOf: keys)
        case .fetched(let keys, let mayBeOlder):
            do throws(JWSVerificationFault) { try keys.verify(token) } catch {
                throw error == .unknownKey && mayBeOlder ? .keyNotFetched : AdmissionFault(error)
            }
        }
    }

    private func keys(_ fetched: IssuerKeyRecord, _ now: Int64) -> IssuerKeys {
        switch keys {
        case .listed(let keys): .listed(keys)
        case .fetched(let source): fetched.keys(from: source, at: now)
        }
    }

    private func checkSignature(
        _ token: CompactJWS, byOneOf keys: [JWSVerificationKey]
    ) throws(AdmissionFault) {
        do throws(JWSVerificationFault) {
            let algorithm = try token.algorithm()
            guard keys.contains(where: { $0.accepts(algorithm) }) else { throw .algorithm }
            for key in keys {
                if try token.isSigned(by: key, algorithm, library) { return }
            }
        } catch {
            throw AdmissionFault(error)
        }
        throw .signature
    }

    private func pseudonym(of subject: [UInt8]) throws(AdmissionFault) -> Digest256 {
        do throws(CryptographyError) { return try pseudonyms.pseudonym(ofSubject: subject, issuer: issuer) } catch {
            throw .checkFailed(error)
        }
    }
}

extension AdmissionFault {
    fileprivate init(_ fault: JWSVerificationFault) {
        self =
            switch fault {
            case .header: .header
            case .unknownKey: .unknownKey
            case .algorithm: .algorithm
            case .signature: .signature
            case .checkFailed(let error): .checkFailed(error)
            }
    }
}
