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
