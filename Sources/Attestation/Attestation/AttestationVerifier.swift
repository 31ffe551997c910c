public import Cryptography
public import Vocabulary

/// The message by which an app registers its key, with the values to which it must be bound.
public struct AttestationEvidence: Sendable {
    /// The attestation in CBOR, as received.
    public var attestation: [UInt8]
    /// The argument of `attestKey(_:clientDataHash:)`. Any length is accepted here, because Apple's own samples pass no
    /// hash. Enrolment requires 32 bytes.
    public var clientDataHash: [UInt8]
    /// The key id that the app sent with it.
    public var keyID: KeyID

    public init(attestation: [UInt8], clientDataHash: [UInt8], keyID: KeyID) {
        self.attestation = attestation
        self.clientDataHash = clientDataHash
        self.keyID = keyID
    }
}

/// Complete verification of attestations for a list of apps, as in Apple's "Validating apps that connect to your
/// server".
///
/// The caller checks that the client data was made for this phone and is used once. The verifier has no state except
/// the intermediates that its roots remember. Belongs to the thread of its library context.
public struct AttestationVerifier {
    public struct Roots {
        /// The root of attestations of production and development. It is Apple's except in tests.
        public var apple: TrustedRoot
        /// The root of attestations of simulators.
        public var simulator: TrustedRoot?
        /// The root of receipts.
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

    /// Creates a verifier.
    ///
    /// - Throws: if the list is empty or an entry is invalid. Each environment of an app may be listed once. An app of
    ///   a simulator needs a root and must not be listed for Apple's phones too, because it would have two roots.
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

    /// Performs the checks in the order of `AttestationStep` until one fails. Verify once, at registration: leaf
    /// certificates live for days.
    ///
    /// - Parameter time: Seconds since 1970. The certificates must be valid then.
    public func verify(_ evidence: AttestationEvidence, at time: Int64) throws(AttestationFault) -> VerifiedAttestation
    {
        var examination = AttestationExamination(evidence, self, time, explains: false)
        for step in AttestationStep.allCases {
            switch examination.outcome(of: step) {
            case .passed, .notDemanded: continue
            case .refused(let fault): throw fault
            // The steps before this one parsed its input and passed. A change that breaks this leads to a refusal.
            case .notReached: throw .checkFailed(step, CryptographyError(doing: "reach this step"))
            }
        }
        return try examination.result()
    }

    /// Performs all checks, even after one fails, and returns their outcomes for people.
    ///
    /// Only `verify`, which this calls, accepts an attestation.
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

/// A listed app with its RP id hash.
struct HashedApp {
    let app: AttestedApp
    let rpIDHash: Digest256
}

/// The reason why a list of apps is invalid.
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

/// The content of a verified attestation. Only `AttestationVerifier` creates one.
///
/// An unaltered copy of the app vouched for the client data with its hardware key. The counter of that key is 0.
public struct VerifiedAttestation: Equatable, Sendable {
    public let keyID: KeyID
    /// The uncompressed point (X9.63), 65 bytes.
    public let publicKey: [UInt8]
    public let app: AttestedApp
    public let keyEnvironment: KeyEnvironment
    public let system: AttestedSystem
    /// The validation category. Nil up to iOS 26.
    public let validationCategory: ValidationCategory?
    /// `CFBundleVersion`. Nil up to iOS 26.
    public let bundleVersion: String?
    /// The verified receipt. Nil if the app requires none.
    public let receipt: Receipt?
    /// The receipt as received, which can be exchanged for one with a risk metric. Empty if there is none. It was
    /// verified only if `receipt` is not nil.
    public let receiptBytes: [UInt8]

    /// The extensions that are present and that the key must show from now on.
    public var shown: ShownExtensions {
        var shown: ShownExtensions = []
        if validationCategory != nil { shown.insert(.validationCategory) }
        if bundleVersion != nil { shown.insert(.bundleVersion) }
        return shown
    }
}

/// The outcomes of all checks of an attestation, for people.
public struct AttestationReport: Sendable {
    public struct Entry: Sendable {
        public let step: AttestationStep
        public let outcome: StepOutcome<AttestationFault>
    }

    /// All steps, in the order of `AttestationStep`.
    public let steps: [Entry]
    /// The verified attestation. Nil if it is refused.
    public let verified: VerifiedAttestation?
    public let findings: AttestationFindings

    /// The first fault.
    public var fault: AttestationFault? { steps.lazy.compactMap(\.outcome.fault).first }
}

/// The content of an attestation, verified or not. It explains a refusal and must not decide one.
public struct AttestationFindings: Sendable {
    public var rpIDHash: [UInt8]?
    public var flags: UInt8?
    public var counter: UInt32?
    public var keyEnvironment: KeyEnvironment?
    public var credentialID: [UInt8]?
    public var authenticatorData: [UInt8]?
    public var validationCategory: ValidationCategory?
    public var bundleVersion: String?
    /// The hash and Apple's number of its function.
    public var codeDirectoryHash: (type: UInt8, hash: [UInt8])?
    /// The uncompressed point of the leaf's key.
    public var publicKey: [UInt8]?
    public var keyID: KeyID?
    /// The app id in the leaf, in an extension that Apple does not document.
    public var appID: String?
    public var nonce: [UInt8]?
    public var system: AttestedSystem?
    public var leafIssuer: String?
    public var leafValidity: Validity?
    public var intermediateSubject: String?
    /// The receipt's fields. Its signer is not checked.
    public var receipt: ReceiptFields?
}
