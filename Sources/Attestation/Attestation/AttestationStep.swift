/// The checks of an attestation, in the order they are made: what costs a comparison before what costs a signature.
///
/// `appleStep` is the step of "Verify the attestation" in Apple's "Validating apps that connect to your server".
public enum AttestationStep: String, Sendable, CaseIterable {
    /// Size, CBOR, entries, the fixed forms of authenticator data.
    case form
    /// RP id hash = SHA-256 of the id of an app that is admitted.
    case rpID = "rp_id"
    /// The counter is 0.
    case counter
    /// The AAGUID is the one of the app's environment.
    case environment = "aaguid"
    /// The extensions of authenticator data are one map of Apple's forms, or absent.
    case extensions
    /// The app came to the phone in a way that is admitted.
    case validationCategory = "validation_category"
    case bundleVersion = "bundle_version"
    /// Leaf and intermediate can be read, and the leaf's key is on P-256.
    case certificates
    /// SHA-256 of the leaf's key = the key id that the app sent.
    case keyID = "key_id"
    /// The credential id is the key id.
    case credentialID = "credential_id"
    /// The COSE key is the leaf's key.
    case coseKey = "cose_key"
    /// The leaf holds exactly one nonce, in the form Apple gives it.
    case nonceExtension = "nonce_extension"
    /// The nonce = SHA-256(authenticator data || client data hash).
    case nonce
    /// The leaf was issued for a platform that the app lists.
    case platform
    /// The leaf was issued for a system version that the app admits.
    case systemVersion = "os_version"
    /// The leaf is no certification authority, the intermediate is one.
    case authority = "ca_flags"
    /// Leaf and intermediate are valid at the time given.
    case validity
    /// Signatures from the leaf over the intermediate to the root, which is valid as well.
    case chain
    /// The receipt, where the app demands one.
    case receipt

    /// Nil for what Apple leaves out.
    public var appleStep: Int? {
        switch self {
        case .chain, .validity, .authority, .certificates: 1
        case .nonce, .nonceExtension: 4
        case .keyID: 5
        case .rpID: 6
        case .counter: 7
        case .environment: 8
        case .credentialID: 9
        default: nil
        }
    }

    /// For people.
    public var title: StaticString {
        switch self {
        case .form: "form of the attestation"
        case .rpID: "app (RP id hash)"
        case .counter: "counter is 0"
        case .environment: "environment (AAGUID)"
        case .extensions: "form of the extensions"
        case .validationCategory: "validation category"
        case .bundleVersion: "bundle version"
        case .certificates: "certificates readable"
        case .keyID: "key id is the leaf's key"
        case .credentialID: "credential id is the key id"
        case .coseKey: "COSE key is the leaf's key"
        case .nonceExtension: "form of the leaf's nonce"
        case .nonce: "nonce (client data hash)"
        case .platform: "platform"
        case .systemVersion: "system version"
        case .authority: "CA flags"
        case .validity: "validity of the certificates"
        case .chain: "chain to the root"
        case .receipt: "receipt"
        }
    }
}

/// How one check ended.
public enum StepOutcome<Fault: Error & Equatable & Sendable>: Equatable, Sendable {
    case passed
    case refused(Fault)
    /// What it would look at could not be read, or is refused by another check.
    case notReached
    /// Nobody demands it. What is there would be refused, if a fault is named.
    case notDemanded(Fault?)

    public var fault: Fault? { if case .refused(let fault) = self { fault } else { nil } }

    /// Whether this ends in acceptance when all others do.
    public var isAcceptable: Bool {
        switch self {
        case .passed, .notDemanded: true
        case .refused, .notReached: false
        }
    }
}
