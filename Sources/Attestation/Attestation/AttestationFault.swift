public import Cryptography
public import Encoding

/// The checks of an attestation in the order of execution. Comparisons precede signatures.
public enum AttestationStep: String, Sendable, CaseIterable {
    /// Size, CBOR, entries and the fixed forms of authenticator data.
    case form
    /// RP id hash = SHA-256 of the id of a listed app.
    case rpID = "rp_id"
    /// The counter is 0.
    case counter
    /// The AAGUID is that of the app's environment.
    case environment = "aaguid"
    /// The extensions of authenticator data are absent, or one map of Apple's form.
    case extensions
    /// The app's distribution channel is permitted.
    case validationCategory = "validation_category"
    case bundleVersion = "bundle_version"
    /// Leaf and intermediate can be parsed, and the leaf's key is on P-256.
    case certificates
    /// SHA-256 of the leaf's key = the key id that the app sent.
    case keyID = "key_id"
    /// The credential id is the key id.
    case credentialID = "credential_id"
    /// The COSE key is the leaf's key.
    case coseKey = "cose_key"
    /// The leaf contains exactly one nonce, in Apple's form.
    case nonceExtension = "nonce_extension"
    /// The nonce = SHA-256(authenticator data || client data hash).
    case nonce
    /// The leaf was issued for a platform that the app lists.
    case platform
    /// The leaf was issued for a system version that the app permits.
    case systemVersion = "os_version"
    /// The leaf is not a certification authority, and the intermediate is one.
    case authority = "ca_flags"
    /// Leaf and intermediate are valid at the given time.
    case validity
    /// Signatures from the leaf over the intermediate to the root, which is also valid.
    case chain
    /// The receipt, if the app requires one.
    case receipt

    /// A title for people.
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

/// The outcome of one check.
public enum StepOutcome<Fault: Error & Equatable & Sendable>: Equatable, Sendable {
    case passed
    case refused(Fault)
    /// The input could not be parsed or failed another check.
    case notReached
    /// The check is not required. A fault states why it would fail.
    case notDemanded(Fault?)

    public var fault: Fault? { if case .refused(let fault) = self { fault } else { nil } }
}

/// The reason why an attestation is refused, with one case for each check.
public enum AttestationFault: Error, Equatable, Sendable {
    /// More than `AttestationObject.lengthLimit` bytes.
    case tooLong
    case malformed(CBORFault)
    /// `fmt` is not `apple-appattest`, but another statement format (WebAuthn section 8).
    case unknownFormat
    /// The map has an entry that Apple's attestations do not have.
    case unknownEntry
    case entryMissing
    /// The number of certificates is not two: leaf and intermediate.
    case certificateCount(Int)
    case authenticatorData(AuthenticatorDataFault)
    /// The app that made the attestation is not listed.
    case rpIDMismatch
    case counterNotZero(UInt32)
    /// The key is of another environment than the app's. Nil if the AAGUID is not Apple's.
    case environmentMismatch(KeyEnvironment?)
    case extensions(AuthenticatorDataFault)
    /// The validation category is not permitted, or absent although required.
    case validationCategory(ExtensionRefusal)
    case bundleVersion(ExtensionRefusal)
    case certificateUnreadable(CertificatePosition)
    /// The leaf's key is not an ECDSA key on P-256.
    case leafKey
    case keyIDMismatch
    case credentialIDMismatch
    /// The COSE key is not a P-256 key for ES256.
    case coseKeyKind
    case coseKeyMismatch
    /// The number of extensions with a nonce is not one.
    case nonceExtensionCount(Int)
    case nonceExtensionForm(DERFault)
    case nonceMismatch
    case platformForm(DERFault)
    case platformRefused(AttestedPlatform)
    /// The system version is below the minimum, or absent although required.
    case systemVersion(ExtensionRefusal)
    case leafIsAuthority
    case intermediateIsNoAuthority
    /// The certificate is not valid at the given time.
    case outsideValidity(CertificatePosition, Validity)
    case untrusted(PathRefusal)
    case receiptMissing
    case receipt(ReceiptFault)
    /// The check failed to run. This is the gateway's fault, but the attestation counts as refused.
    case checkFailed(AttestationStep, CryptographyError)
}

/// The position of a certificate in its path.
public enum CertificatePosition: String, Sendable {
    case leaf
    case intermediate
    case root
}

/// The validity of a certificate, both ends included, in seconds since 1970. Nil for a field that is not a time.
public struct Validity: Equatable, Sendable {
    public let notBefore: Int64?
    public let notAfter: Int64?

    public init(_ certificate: Certificate) {
        notBefore = certificate.notBefore
        notAfter = certificate.notAfter
    }

    public func includes(_ time: Int64) -> Bool {
        guard let notBefore, let notAfter else { return false }
        return notBefore <= time && time <= notAfter
    }
}

extension AttestationFault {
    /// The check that failed.
    public var step: AttestationStep {
        switch self {
        case .tooLong, .malformed, .unknownFormat, .unknownEntry, .entryMissing, .certificateCount,
            .authenticatorData:
            .form
        case .rpIDMismatch: .rpID
        case .counterNotZero: .counter
        case .environmentMismatch: .environment
        case .extensions: .extensions
        case .validationCategory: .validationCategory
        case .bundleVersion: .bundleVersion
        case .certificateUnreadable, .leafKey: .certificates
        case .keyIDMismatch: .keyID
        case .credentialIDMismatch: .credentialID
        case .coseKeyKind, .coseKeyMismatch: .coseKey
        case .nonceExtensionCount, .nonceExtensionForm: .nonceExtension
        case .nonceMismatch: .nonce
        case .platformForm, .platformRefused: .platform
        case .systemVersion: .systemVersion
        case .leafIsAuthority, .intermediateIsNoAuthority: .authority
        case .outsideValidity(.root, _), .untrusted: .chain
        case .outsideValidity: .validity
        case .receiptMissing, .receipt: .receipt
        case .checkFailed(let step, _): step
        }
    }

    /// A description for the log and the developer of the client. It contains nothing that identifies a phone.
    public var reason: String {
        switch self {
        case .tooLong: "the attestation is longer than 16 KiB"
        case .malformed(let fault): "\(fault.reason)"
        case .unknownFormat: "the attestation's format is not apple-appattest"
        case .unknownEntry: "the attestation has an entry that App Attest does not know"
        case .entryMissing: "the attestation lacks fmt, attStmt with x5c, or authData"
        case .certificateCount(let count): "the attestation has \(count) certificates, not leaf and intermediate"
        case .authenticatorData(let fault), .extensions(let fault): "\(fault.reason)"
        case .rpIDMismatch: "the attestation was made by another app"
        case .counterNotZero(let counter): "the counter is \(counter), not 0"
        case .environmentMismatch(nil): "the AAGUID is not one of App Attest"
        case .environmentMismatch(let found?): "the key is for \(found.rawValue), which the app does not allow"
        case .validationCategory(let refusal): ExtensionFault.validationCategory(refusal).reason
        case .bundleVersion(let refusal): ExtensionFault.bundleVersion(refusal).reason
        case .certificateUnreadable(let position): "the \(position.rawValue) certificate cannot be read"
        case .leafKey: "the leaf's key is not on P-256"
        case .keyIDMismatch: "the key id is not the SHA-256 of the attested key"
        case .credentialIDMismatch: "the credential id is not the key id"
        case .coseKeyKind: "the COSE key is not an ES256 key on P-256"
        case .coseKeyMismatch: "the COSE key is not the leaf's key"
        case .nonceExtensionCount(0): "the leaf has no nonce extension"
        case .nonceExtensionCount(let count): "the leaf has \(count) nonce extensions"
        case .nonceExtensionForm(let fault): "the leaf's nonce extension is malformed: \(fault.reason)"
        case .nonceMismatch: "the leaf's nonce does not match the authenticator data and client data hash"
        case .platformForm(let fault): "the leaf's platform cannot be read: \(fault.reason)"
        case .platformRefused(let platform): "the app does not list the platform \(platform.name)"
        case .systemVersion(.notAdmitted): "the system version is below the minimum"
        case .systemVersion(let refusal): "the system version is \(refusal.reason)"
        case .leafIsAuthority: "the leaf is a certification authority"
        case .intermediateIsNoAuthority: "the intermediate is not a certification authority"
        case .outsideValidity(let position, _): "the \(position.rawValue) certificate is not valid at this time"
        case .untrusted(let refusal): "no chain to the root: \(refusal.reason)"
        case .receiptMissing: "there is no receipt"
        case .receipt(let fault): "the receipt is refused: \(fault.reason)"
        case .checkFailed: "the attestation could not be checked"
        }
    }
}
