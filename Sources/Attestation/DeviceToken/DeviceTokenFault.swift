public import Cryptography

/// The checks of a device token in the order of execution. The signature comes last, because it costs most.
public enum DeviceTokenStep: String, Sendable, CaseIterable {
    /// Three parts of base64url with JSON objects, and typ JWT.
    case form
    /// The claims that every token has are present, and of their types.
    case claims
    case issuer
    case time
    /// The token is for the client's certificate.
    case binding
    /// A key of the issuer has signed it, with the algorithm of that key.
    case signature

    /// A title for people.
    public var title: StaticString {
        switch self {
        case .form: "form and type"
        case .claims: "claims readable"
        case .issuer: "issuer"
        case .time: "issued and not expired"
        case .binding: "client certificate"
        case .signature: "issuer's signature"
        }
    }
}

/// The reason why a device token is refused.
public enum DeviceTokenFault: Error, Equatable, Sendable {
    /// The token is not a JSON Web Signature in compact form, or too long.
    case malformed
    /// `typ` is not JWT.
    case type
    /// A claim is missing or has another type.
    case claim(Claim)
    case issuer
    case fromTheFuture
    case expired
    /// It was issued longer ago than `maximum_age`.
    case tooOld
    /// The token is for another certificate or key.
    case binding(DeviceTokenBinding)
    /// `alg` is none that is accepted, or the header has critical extensions.
    case header
    /// The header names no key of the issuer.
    case keyUnknown
    /// `alg` is not that of the issuer's key.
    case algorithm
    case signature
    /// The check failed to run. This is the gateway's fault, but the token counts as refused.
    case checkFailed(CryptographyError)

    /// A claim that every token has.
    public enum Claim: String, Sendable {
        case issuer = "iss"
        case issuedAt = "iat"
        case expiry = "exp"
    }

    /// The check that failed.
    public var step: DeviceTokenStep {
        switch self {
        case .malformed, .type: .form
        case .claim: .claims
        case .issuer: .issuer
        case .fromTheFuture, .expired, .tooOld: .time
        case .binding: .binding
        case .header, .keyUnknown, .algorithm, .signature, .checkFailed: .signature
        }
    }

    /// A description for the log and the developer of the client. It contains nothing of the token.
    public var reason: String {
        switch self {
        case .malformed: "the device token is not a JSON Web Signature in compact form"
        case .type: "typ of the device token is not JWT"
        case .claim(let claim): "\(claim.rawValue) of the device token is missing or malformed"
        case .issuer: "the device token is of another issuer"
        case .fromTheFuture: "the device token was issued in the future"
        case .expired: "the device token has expired"
        case .tooOld: "the device token is older than permitted"
        case .binding(.x5t): "x5t#S256 in cnf of the device token is not of the client certificate"
        case .binding(.sub): "sub of the device token is not of the client certificate's key"
        case .header: "alg of the device token is not ES256, RS256 or PS256, or its header has crit"
        case .keyUnknown: "kid of the device token names no key of the issuer"
        case .algorithm: "alg of the device token is not that of the issuer's key"
        case .signature: "the device token's signature does not verify"
        case .checkFailed: "the device token could not be checked"
        }
    }

    package static func checking<Result>(
        _ compute: () throws(CryptographyError) -> Result
    ) throws(DeviceTokenFault) -> Result {
        do throws(CryptographyError) { return try compute() } catch { throw .checkFailed(error) }
    }
}
