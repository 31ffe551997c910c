public import Vocabulary

/// What a verified attestation says. Only `AttestationVerifier` makes one.
///
/// It says that an unaltered copy of the app vouched for the client data with a hardware key of its own. The counter of
/// that key stands at 0.
public struct VerifiedAttestation: Equatable, Sendable {
    public let keyID: KeyID
    /// The uncompressed point (X9.63), 65 bytes.
    public let publicKey: [UInt8]
    public let app: AttestedApp
    public let keyEnvironment: KeyEnvironment
    public let system: AttestedSystem
    /// Nil up to iOS 26.
    public let validationCategory: ValidationCategory?
    /// `CFBundleVersion`; nil up to iOS 26.
    public let bundleVersion: String?
    /// The receipt, verified. Nil where the app demands none.
    public let receipt: Receipt?
    /// The receipt as it came, to be exchanged for one with a risk metric; empty where there is none. Verified only where
    /// `receipt` is not nil.
    public let receiptBytes: [UInt8]

    /// Which of the extensions are there that the key is held to from now on.
    public var shown: ShownExtensions {
        var shown: ShownExtensions = []
        if validationCategory != nil { shown.insert(.validationCategory) }
        if bundleVersion != nil { shown.insert(.bundleVersion) }
        return shown
    }
}

/// How every check of an attestation ended, for people.
public struct AttestationReport: Sendable {
    public struct Entry: Sendable {
        public let step: AttestationStep
        public let outcome: StepOutcome<AttestationFault>
    }

    /// All steps, in the order of `AttestationStep`.
    public let steps: [Entry]
    /// Nil if the attestation is refused.
    public let verified: VerifiedAttestation?
    public let findings: AttestationFindings

    /// The first fault.
    public var fault: AttestationFault? { steps.lazy.compactMap(\.outcome.fault).first }
}

/// What stands in an attestation, verified or not: to explain a refusal, never to decide.
public struct AttestationFindings: Sendable {
    public var rpIDHash: [UInt8]?
    public var flags: UInt8?
    public var counter: UInt32?
    public var keyEnvironment: KeyEnvironment?
    public var credentialID: [UInt8]?
    public var authenticatorData: [UInt8]?
    public var validationCategory: ValidationCategory?
    public var bundleVersion: String?
    /// Apple's number of the hash function, and the hash.
    public var codeDirectoryHash: (type: UInt8, hash: [UInt8])?
    /// The leaf's key: the uncompressed point.
    public var publicKey: [UInt8]?
    public var keyID: KeyID?
    /// The app id in the leaf, which Apple does not document.
    public var appID: String?
    public var nonce: [UInt8]?
    public var system: AttestedSystem?
    public var leafIssuer: String?
    public var leafValidity: Validity?
    public var intermediateSubject: String?
    /// The receipt's fields; its signer is not checked.
    public var receipt: ReceiptFields?
}
