public import Cryptography

/// The checks of a Play Integrity token in the order of execution.
public enum IntegrityStep: String, Sendable, CaseIterable {
    /// Five parts of base64url, and the pinned algorithms.
    case form
    /// The token was encrypted for the app's key, and nothing was altered.
    case decryption
    /// Google has signed the content.
    case signature
    case payload
    case package
    /// The token was requested for this nonce.
    case nonce
    case age
    /// Google Play knows the app as it is.
    case recognition
    /// A configured certificate has signed the app.
    case certificate
    case version
    /// The phone has the verdict that is demanded.
    case device

    /// A title for people.
    public var title: StaticString {
        switch self {
        case .form: "form and algorithms"
        case .decryption: "decryption"
        case .signature: "Google's signature"
        case .payload: "payload readable"
        case .package: "package"
        case .nonce: "nonce"
        case .age: "age"
        case .recognition: "app recognized by Google Play"
        case .certificate: "signing certificate"
        case .version: "version code"
        case .device: "device verdict"
        }
    }
}

/// The reason why a token is refused.
public enum IntegrityFault: Error, Equatable, Sendable {
    /// The token is not five parts of base64url of the right lengths, or too long.
    case malformed
    /// The header has a member that is not understood, or is no JSON.
    case header
    case algorithm
    /// Another key than `decryption_key` unwraps it, or its first parts were altered.
    case notForKey
    case altered
    /// The decrypted content is no JSON Web Signature.
    case content
    case signatureAlgorithm
    /// Who encrypts a token has the app's key, so another key than `verification_key` has signed it.
    case signature
    /// A member is missing or has another form.
    case payload(StaticMember)
    case packageMismatch
    case nonceMismatch
    case tooOld
    case fromTheFuture
    case recognition(String?)
    case certificateMismatch
    case versionTooLow(UInt64?)
    case device
    /// The check failed to run. This is the gateway's fault, but the token counts as refused.
    case checkFailed(CryptographyError)

    /// The name of a member.
    public struct StaticMember: Equatable, Sendable {
        let name: String
    }

    package static func payload(_ name: StaticString) -> IntegrityFault { .payload(StaticMember(name: "\(name)")) }

    /// Whether the app's keys in the conf file are wrong, or the token is not Google's.
    public var blamesKeys: Bool {
        switch self {
        case .notForKey, .signature: true
        default: false
        }
    }

    /// The check that failed.
    public var step: IntegrityStep {
        switch self {
        case .malformed, .header, .algorithm: .form
        case .notForKey, .altered, .checkFailed: .decryption
        case .content, .signatureAlgorithm, .signature: .signature
        case .payload: .payload
        case .packageMismatch: .package
        case .nonceMismatch: .nonce
        case .tooOld, .fromTheFuture: .age
        case .recognition: .recognition
        case .certificateMismatch: .certificate
        case .versionTooLow: .version
        case .device: .device
        }
    }

    /// A description for the log and the developer of the client. It contains nothing of the token.
    public var reason: String {
        switch self {
        case .malformed: "the integrity token is not a JSON Web Encryption in compact form"
        case .header: "the integrity token's header has a member that is not understood"
        case .algorithm: "the integrity token's alg and enc are not A256KW and A256GCM"
        case .notForKey: "decryption_key does not unwrap the integrity token: another key, or it was altered"
        case .altered: "the integrity token was altered"
        case .content: "the integrity token contains no JSON Web Signature"
        case .signatureAlgorithm: "the integrity token's signature is not ES256"
        case .signature: "verification_key has not signed the integrity token: is it this app's key?"
        case .payload(let member): "\(member.name) in the integrity token is missing or malformed"
        case .packageMismatch: "the integrity token is of another package"
        case .nonceMismatch: "the integrity token was requested for another nonce"
        case .tooOld: "the integrity token is older than ten minutes"
        case .fromTheFuture: "the integrity token was requested in the future"
        case .recognition: "Google Play does not recognize the app"
        case .certificateMismatch: "the app is signed by another certificate"
        case .versionTooLow: "the app's version code is below the minimum, or was not evaluated"
        case .device: "the phone does not have the verdict that is demanded"
        case .checkFailed: "the integrity token could not be checked"
        }
    }

    static func checking<Result>(
        _ compute: () throws(CryptographyError) -> Result
    ) throws(IntegrityFault) -> Result {
        do throws(CryptographyError) { return try compute() } catch { throw .checkFailed(error) }
    }
}
