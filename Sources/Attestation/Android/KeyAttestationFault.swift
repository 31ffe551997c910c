internal import Cryptography
public import Encoding

/// The checks of a key attestation in the order of execution.
public enum KeyAttestationStep: String, Sendable, CaseIterable {
    /// The number and size of the certificates, that each can be read, and their serial numbers.
    case certificates
    /// The last certificate has a trusted root's key, or is signed by one.
    case root
    /// Each certificate is issued and signed by the next, and the root by itself.
    case signatures
    /// The keys came from the factory or from Google's server, and the chain has the length of that.
    case provisioning
    /// The certificates between leaf and root are valid at the given time.
    case validity
    /// The leaf has exactly one key description, and no other certificate has one.
    case keyDescription = "key_description"
    /// The key is in secure hardware of the level that the app demands.
    case securityLevel = "security_level"
    /// The hardware has made the key, on P-256, for signatures.
    case key
    /// The challenge is the client data hash.
    case challenge
    /// The app asked for the key: package, signing certificate, version.
    case application
    /// The phone was started with its maker's system, and its bootloader is locked.
    case boot
    /// The patch levels are not below the app's minimum.
    case patchLevel = "patch_level"
    /// No certificate is on Google's list of revoked ones.
    case revocation

    /// A title for people.
    public var title: StaticString {
        switch self {
        case .certificates: "certificates readable"
        case .root: "root"
        case .signatures: "names and signatures"
        case .provisioning: "provisioning and length"
        case .validity: "validity of the certificates"
        case .keyDescription: "one key description"
        case .securityLevel: "security level"
        case .key: "key made in hardware, on P-256"
        case .challenge: "challenge (client data hash)"
        case .application: "app"
        case .boot: "verified boot"
        case .patchLevel: "patch levels"
        case .revocation: "revocation"
        }
    }

    /// Whether the step judges the chain, not what the key description says.
    public var judgesChain: Bool {
        switch self {
        case .certificates, .root, .signatures, .provisioning, .validity, .keyDescription, .revocation: true
        case .securityLevel, .key, .challenge, .application, .boot, .patchLevel: false
        }
    }
}

/// The reason why a key attestation is refused. Positions count from the leaf, 0.
public enum KeyAttestationFault: Error, Equatable, Sendable {
    case certificateCount(Int)
    case certificateTooLong(Int)
    case certificateUnreadable(Int)
    /// A certificate has an extension of virtual machines, whose keys an app's own code holds.
    case virtualMachine(Int)
    /// A certificate above the leaf has a serial number that is negative or longer than 20 octets.
    case serialNumber(Int)
    case rootUnknown
    /// A certificate does not name the subject of the next as its issuer.
    case issuerMismatch(Int)
    case signatureInvalid(Int)
    /// The certificate below the root is of neither kind of chain.
    case provisioningUnknown
    /// The chain, with its root, is longer or shorter than its kind.
    case chainLength(Int, expected: Int)
    case outsideValidity(Int, Validity)
    /// The leaf has no key description, or more than one.
    case keyDescriptionCount(Int)
    case keyDescriptionForm(DERFault)
    /// A certificate above the leaf has a key description, and is no attest key that the app allows.
    case keyDescriptionAbove(Int)
    /// The attestation's level is not that of the key.
    case securityLevelsDiffer
    case securityLevelTooLow(KeyDescription.SecurityLevel)
    /// The certificates are of another level.
    case securityLevelOfChain
    case leafKey(algorithm: String)
    case authorization(KeyRule)
    case challengeMismatch
    case applicationMissing
    case packageCount(Int)
    case packageMismatch
    case signingCertificateMismatch
    case versionTooLow(UInt64)
    case bootloaderUnlocked
    case bootState(RootOfTrust.BootState)
    case patchLevelMissing
    case patchLevelTooOld(PatchComponent)
    case revoked(Int)
    case statusListMissing
    /// The check failed to run. This is the gateway's fault, but the attestation counts as refused.
    case checkFailed(KeyAttestationStep, CryptographyFailure)

    /// What the hardware must say of a key.
    public enum KeyRule: Equatable, Sendable {
        case algorithm
        case curve
        case purpose
        case origin
        case rootOfTrust
        /// The key is not bound to one app.
        case allApplications
    }

    public enum PatchComponent: String, Equatable, Sendable {
        case system
        case vendor
        case boot
    }

    /// The description of an error of the library.
    public struct CryptographyFailure: Equatable, Sendable {
        public let description: String

        init(_ error: CryptographyError) { description = error.description }
    }

    /// The check that failed.
    public var step: KeyAttestationStep {
        switch self {
        case .certificateCount, .certificateTooLong, .certificateUnreadable, .virtualMachine, .serialNumber:
            .certificates
        case .rootUnknown: .root
        case .issuerMismatch, .signatureInvalid: .signatures
        case .provisioningUnknown, .chainLength: .provisioning
        case .outsideValidity: .validity
        case .keyDescriptionCount, .keyDescriptionForm, .keyDescriptionAbove: .keyDescription
        case .securityLevelsDiffer, .securityLevelTooLow, .securityLevelOfChain: .securityLevel
        case .leafKey, .authorization: .key
        case .challengeMismatch: .challenge
        case .applicationMissing, .packageCount, .packageMismatch, .signingCertificateMismatch, .versionTooLow:
            .application
        case .bootloaderUnlocked, .bootState: .boot
        case .patchLevelMissing, .patchLevelTooOld: .patchLevel
        case .revoked, .statusListMissing: .revocation
        case .checkFailed(let step, _): step
        }
    }

    /// A description for the log and the developer of the client. It contains nothing that identifies a phone.
    public var reason: String {
        switch self {
        case .certificateCount(let count): "the attestation has \(count) certificates"
        case .certificateTooLong(let position): "certificate \(position) is longer than 8 KiB"
        case .certificateUnreadable(let position): "certificate \(position) cannot be read"
        case .virtualMachine(let position): "certificate \(position) is of a virtual machine"
        case .serialNumber(let position):
            "the serial number of certificate \(position) is negative or longer than 20 octets"
        case .rootUnknown: "the chain leads to no trusted root"
        case .issuerMismatch(let position):
            "the issuer of certificate \(position) is not the subject of the next"
        case .signatureInvalid(let position): "the issuer's key has not signed certificate \(position)"
        case .provisioningUnknown: "the certificate below the root is of no known kind"
        case .chainLength(let count, let expected):
            "the chain has \(count) certificates with its root, not \(expected)"
        case .outsideValidity(let position, _): "certificate \(position) is not valid at this time"
        case .keyDescriptionCount(0): "the leaf has no key description"
        case .keyDescriptionCount(let count): "the leaf has \(count) key descriptions"
        case .keyDescriptionForm(let fault): "the key description is malformed: \(fault.reason)"
        case .keyDescriptionAbove(let position): "certificate \(position), above the leaf, has a key description"
        case .securityLevelsDiffer: "the attestation's security level is not the key's"
        case .securityLevelTooLow(let level): "the security level is \(level.name)"
        case .securityLevelOfChain: "the certificates are of another security level"
        case .leafKey(let algorithm): "the leaf's key is not on P-256, but \(algorithm)"
        case .authorization(.algorithm): "the hardware does not state an EC key"
        case .authorization(.curve): "the hardware does not state P-256"
        case .authorization(.purpose): "the key is not for signatures"
        case .authorization(.origin): "the hardware has not generated the key"
        case .authorization(.rootOfTrust): "the hardware states no root of trust"
        case .authorization(.allApplications): "all apps may use the key"
        case .challengeMismatch: "the challenge is not the client data hash"
        case .applicationMissing: "the key description names no app"
        case .packageCount(let count): "the key description names \(count) packages"
        case .packageMismatch: "the attestation was made by another app"
        case .signingCertificateMismatch: "the app is signed by another certificate"
        case .versionTooLow(let version): "the app's version code \(version) is below the minimum"
        case .bootloaderUnlocked: "the bootloader is unlocked"
        case .bootState(let state): "the boot state is \(state.name)"
        case .patchLevelMissing: "the hardware states no patch level"
        case .patchLevelTooOld(let component): "the \(component.rawValue) patch level is below the minimum"
        case .revoked(let position): "the key of certificate \(position) is revoked"
        case .statusListMissing: "there is no list of revoked keys"
        case .checkFailed: "the attestation could not be checked"
        }
    }
}
