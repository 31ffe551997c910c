public import Cryptography
internal import Encoding
public import Vocabulary

/// A chain of certificates as a phone sends it, with the value to which it must be bound.
public struct KeyAttestationEvidence: Sendable {
    /// The certificates in DER, leaf first.
    public var certificates: [[UInt8]]
    /// The argument of `setAttestationChallenge`.
    public var clientDataHash: [UInt8]

    public init(certificates: [[UInt8]], clientDataHash: [UInt8]) {
        self.certificates = certificates
        self.clientDataHash = clientDataHash
    }
}

/// Complete verification of Android's key attestations for a list of apps.
///
/// The caller checks that the client data was made for this phone and is used once. The verifier has no state. Belongs
/// to the thread of its library context.
public struct KeyAttestationVerifier {
    /// Keys that end a chain, in certificates. Their validity has no meaning: Google's oldest root has expired.
    public struct Roots {
        /// The roots of production.
        public var google: [Certificate]
        /// The roots of software phones.
        public var simulator: [Certificate]

        public init(google: [Certificate], simulator: [Certificate] = []) {
            self.google = google
            self.simulator = simulator
        }
    }

    let apps: [AndroidApp]
    let roots: Roots
    let library: LibraryContext

    /// - Parameter apps: At least one, each package once.
    public init(apps: [AndroidApp], roots: Roots, _ library: LibraryContext) {
        precondition(!apps.isEmpty, "a verifier needs an app")
        self.apps = apps
        self.roots = roots
        self.library = library
    }

    /// Returns the package that a chain names, which decides on the rules for it. Nothing is verified.
    ///
    /// - Throws: if the chain cannot be read, or its leaf does not name one package.
    public static func package(
        namedBy chain: [[UInt8]], _ library: LibraryContext
    ) throws(KeyAttestationFault) -> String {
        let certificates = try KeyAttestationExamination.read(chain, library)
        let description = try KeyAttestationExamination.describe(certificates[0])
        guard let application = description.softwareEnforced.application else { throw .applicationMissing }
        guard application.packages.count == 1 else { throw .packageCount(application.packages.count) }
        return application.packages[0].name
    }

    /// Performs the checks in the order of `KeyAttestationStep` until one fails.
    ///
    /// - Parameters:
    ///   - time: Seconds since 1970.
    ///   - list: The revoked keys. Nil if there is no list, which is a refusal.
    public func verify(
        _ evidence: KeyAttestationEvidence, at time: Int64, _ list: AttestationStatusList?
    ) throws(KeyAttestationFault) -> VerifiedKeyAttestation {
        var examination = KeyAttestationExamination(evidence, self, time, list, demandsList: true)
        for step in KeyAttestationStep.allCases {
            switch examination.outcome(of: step) {
            case .passed, .notDemanded: continue
            case .refused(let fault): throw fault
            // The steps before this one read its input and passed. A change that breaks this leads to a refusal.
            case .notReached: throw .checkFailed(step, .init(CryptographyError(doing: "reach this step")))
            }
        }
        return try examination.result()
    }

    /// Performs all checks, even after one fails, and returns their outcomes for people. Only `verify` accepts an
    /// attestation.
    ///
    /// - Parameters:
    ///   - list: The revoked keys. Without a list, revocation is not demanded here.
    ///   - judgesChainOnly: Whether to leave out what the key description says.
    public func report(
        _ evidence: KeyAttestationEvidence, at time: Int64, _ list: AttestationStatusList?, judgesChainOnly: Bool
    ) -> KeyAttestationReport {
        var examination = KeyAttestationExamination(evidence, self, time, list, demandsList: false)
        var steps: [KeyAttestationReport.Entry] = []
        for step in KeyAttestationStep.allCases where step.judgesChain || !judgesChainOnly {
            steps.append(KeyAttestationReport.Entry(step: step, outcome: examination.outcome(of: step)))
        }
        return KeyAttestationReport(
            steps: steps, description: examination.description, publicKey: examination.point,
            serials: examination.chain.map(AttestationSerial.init))
    }
}

/// The content of a verified attestation. Only `KeyAttestationVerifier` creates one.
public struct VerifiedKeyAttestation: Equatable, Sendable {
    public let keyID: KeyID
    /// The uncompressed point (X9.63), 65 bytes.
    public let publicKey: [UInt8]
    public let app: AndroidApp
    public let description: KeyDescription
    /// The serials of all certificates above the leaf, for later lists.
    public let serials: [AttestationSerial]
}

/// The outcomes of the checks of an attestation, for people.
public struct KeyAttestationReport: Sendable {
    public struct Entry: Sendable {
        public let step: KeyAttestationStep
        public let outcome: StepOutcome<KeyAttestationFault>
    }

    public let steps: [Entry]
    /// The leaf's key description, verified or not. Nil if it cannot be read.
    public let description: KeyDescription?
    /// The uncompressed point of the leaf's key. Nil if it is not on P-256.
    public let publicKey: [UInt8]?
    /// The serials of the certificates as they were sent, the leaf's first.
    public let serials: [AttestationSerial]

    /// The first fault.
    public var fault: KeyAttestationFault? { steps.lazy.compactMap(\.outcome.fault).first }

    public var isAccepted: Bool {
        steps.allSatisfy { entry in
            switch entry.outcome {
            case .passed, .notDemanded: true
            case .refused, .notReached: false
            }
        }
    }
}
