public import Cryptography
public import Vocabulary

/// What an app sends to have its key registered, and what it must have been made for.
public struct AttestationEvidence: Sendable {
    /// The attestation as it came, CBOR.
    public var attestation: [UInt8]
    /// What the app gave to `attestKey(_:clientDataHash:)`. Of any length here, for Apple's own samples pass no hash;
    /// enrolment demands 32 bytes.
    public var clientDataHash: [UInt8]
    /// The key id the app sent beside it.
    public var keyID: KeyID

    public init(attestation: [UInt8], clientDataHash: [UInt8], keyID: KeyID) {
        self.attestation = attestation
        self.clientDataHash = clientDataHash
        self.keyID = keyID
    }
}

/// Verifies attestations as Apple's "Validating apps that connect to your server" tells, in full, for a list of apps.
///
/// Whether the client data was made for this phone and once only is for the caller. Holds no state but what its roots
/// remember of intermediates; belongs to the thread of its library context.
public struct AttestationVerifier {
    public struct Roots {
        /// What attestations of production and development lead to: Apple's, unless somebody tests.
        public var apple: TrustedRoot
        /// What attestations of simulators lead to.
        public var simulator: TrustedRoot?
        /// What receipts lead to.
        public var receipts: TrustedRoot

        public init(apple: TrustedRoot, simulator: TrustedRoot? = nil, receipts: TrustedRoot) {
            self.apple = apple
            self.simulator = simulator
            self.receipts = receipts
        }
    }

    let apps: [HashedApp]
    let roots: Roots
    let library: LibraryContext

    /// - Throws: if no app is listed, one is listed twice for an environment, a simulator's app also for Apple's phones
    ///   (each would have two roots), or a simulator's app without a root.
    public init(apps: [AttestedApp], roots: Roots, _ library: LibraryContext) throws(AppListFault) {
        guard !apps.isEmpty else { throw .empty }
        for (index, app) in apps.enumerated() {
            guard app.environment != .simulator || roots.simulator != nil else { throw .rootMissing(app.id) }
            for other in apps[..<index] where other.id == app.id {
                guard other.environment != app.environment else { throw .repeated(app.id) }
                guard other.environment != .simulator, app.environment != .simulator else { throw .twoRoots(app.id) }
            }
        }
        var admitted: [HashedApp] = []
        for app in apps {
            let id = Array(app.id.utf8)
            do throws(CryptographyError) {
                admitted.append(HashedApp(app: app, rpIDHash: try library.sha256(of: id.span)))
            } catch {
                throw .checkFailed(error)
            }
        }
        self.apps = admitted
        self.roots = roots
        self.library = library
    }

    /// Makes all checks in the order of `AttestationStep`, up to the first that refuses.
    ///
    /// - Parameter time: seconds since 1970; the certificates must be valid then. Verify once, at registration: leafs
    ///   live for days.
    public func verify(_ evidence: AttestationEvidence, at time: Int64) throws(AttestationFault) -> VerifiedAttestation
    {
        var examination = AttestationExamination(evidence, self, time, explains: false)
        for step in AttestationStep.allCases {
            switch examination.outcome(of: step) {
            case .passed, .notDemanded: continue
            case .refused(let fault): throw fault
            // The steps before this one read its material and passed. A change that breaks this leads to a refusal.
            case .notReached: throw .checkFailed(step, CryptographyError(doing: "reach this step"))
            }
        }
        return try examination.result()
    }

    /// Makes all checks, whatever the others say, and tells how each ended.
    ///
    /// Made for people: an attestation is accepted only by `verify`, which this calls.
    public func report(_ evidence: AttestationEvidence, at time: Int64) -> AttestationReport {
        var examination = AttestationExamination(evidence, self, time, explains: true)
        let steps = AttestationStep.allCases.map { step in
            AttestationReport.Entry(step: step, outcome: examination.outcome(of: step))
        }
        let verified: VerifiedAttestation?
        do throws(AttestationFault) { verified = try verify(evidence, at: time) } catch { verified = nil }
        return AttestationReport(steps: steps, verified: verified, findings: examination.findings)
    }
}

/// An app of the list with its RP id hash.
struct HashedApp {
    let app: AttestedApp
    let rpIDHash: Digest256
}

/// Why a list of apps cannot be used.
public enum AppListFault: Error, Equatable, Sendable, CustomStringConvertible {
    case empty
    case repeated(String)
    case twoRoots(String)
    case rootMissing(String)
    case checkFailed(CryptographyError)

    public var description: String {
        switch self {
        case .empty: "no app is listed"
        case .repeated(let id): "the app \(id) is listed twice for one environment"
        case .twoRoots(let id): "the app \(id) is listed for a simulator, and also for Apple's phones"
        case .rootMissing(let id): "the app \(id) is listed for a simulator whose root is missing"
        case .checkFailed(let error): error.description
        }
    }
}

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
