public import Cryptography

/// The reason why a client attestation, or the proof of possession with it, is refused.
public enum ClientAttestationFault: Error, Equatable, Sendable {
    /// The attestation is not a JSON Web Signature in compact form, or too long.
    case malformed
    /// Its `typ` is not `oauth-client-attestation+jwt`.
    case type
    /// A claim of it is missing or has another form.
    case claim(Claim)
    /// Its issue time, or its `nbf`, is in the future.
    case fromTheFuture
    case expired
    /// It was issued longer ago than `maximum_age`.
    case tooOld
    /// Its client is not among those that are admitted.
    case client
    /// The attester's signature is not accepted.
    case signature(JWSVerificationFault)
    /// The proof is not a JSON Web Signature in compact form, or too long.
    case proofMalformed
    /// The proof's `typ` is another.
    case proofType
    /// The proof's `alg` is not ES256, or it has critical extensions.
    case proofAlgorithm
    case proofClaim(ProofClaim)
    /// The proof is for another audience than the configured resource.
    case audience
    /// The proof is too old, or from the future.
    case proofTime
    /// The proof is for another method or URL (RFC 9449).
    case target
    /// The proof is for another access token, or none (RFC 9449).
    case accessToken
    /// The key of the DPoP proof is not that of the attestation.
    case proofKey
    case proofSignature
    /// The check failed to run. This is the gateway's fault, but the request counts as refused.
    case checkFailed(CryptographyError)

    public enum Claim: String, Sendable {
        case subject = "sub"
        case issuedAt = "iat"
        case notBefore = "nbf"
        case expiry = "exp"
        case confirmation = "cnf"
    }

    public enum ProofClaim: String, Sendable {
        case id = "jti"
        case issuedAt = "iat"
        case challenge
        case nonce
    }

    /// Whether a new attestation repairs it.
    public var isStale: Bool { self == .expired || self == .tooOld }

    /// A description for logs. It contains nothing that was received.
    public var reason: String {
        switch self {
        case .malformed: "the attestation is not a JSON Web Signature in compact form"
        case .type: "typ of the attestation is not oauth-client-attestation+jwt"
        case .claim(let claim): "\(claim.rawValue) of the attestation is missing or malformed"
        case .fromTheFuture: "the attestation is from the future"
        case .expired: "the attestation has expired"
        case .tooOld: "the attestation is older than maximum_age"
        case .client: "sub of the attestation is not among the clients"
        case .signature(let fault): "the attestation: \(fault.reason)"
        case .proofMalformed: "the proof of possession is not a JSON Web Signature in compact form"
        case .proofType: "typ of the proof of possession is wrong"
        case .proofAlgorithm: "alg of the proof of possession is not ES256"
        case .proofClaim(let claim): "\(claim.rawValue) of the proof of possession is missing or malformed"
        case .audience: "aud of the proof of possession is not the resource"
        case .proofTime: "iat of the proof of possession is too old or in the future"
        case .target: "htm or htu of the proof of possession is not of the request"
        case .accessToken: "ath of the proof of possession is not of the access token"
        case .proofKey: "the key of the proof of possession is not that of the attestation"
        case .proofSignature: "the signature of the proof of possession does not verify"
        case .checkFailed(let error): error.description
        }
    }

    /// Runs a computation and converts its error to a failed check.
    package static func checking<Result>(
        _ compute: () throws(CryptographyError) -> Result
    ) throws(ClientAttestationFault) -> Result {
        do throws(CryptographyError) { return try compute() } catch { throw .checkFailed(error) }
    }
}

extension JWSVerificationFault {
    /// A description for logs.
    fileprivate var reason: String {
        switch self {
        case .header: "alg is not ES256, RS256 or PS256, or the header has critical extensions"
        case .unknownKey: "kid names no key of the attester"
        case .algorithm: "alg is not that of the attester's key"
        case .signature: "its signature does not verify"
        case .checkFailed(let error): error.description
        }
    }
}
