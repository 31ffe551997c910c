internal import Cryptography
internal import Vocabulary

/// One attestation on its way through the checks: what was read of it so far, and the checks.
///
/// A check whose material could not be read is not reached. So the checks may be asked in their order for a verdict, or all
/// of them for an explanation.
struct AttestationExamination {
    let evidence: AttestationEvidence
    let verifier: AttestationVerifier
    let time: Int64
    /// Whether `findings` are wanted: they cost more than the checks that decide.
    let explains: Bool
    let bytes: [UInt8]

    var object: AttestationObject?
    var candidates: [HashedApp]
    /// The app that the attestation is measured by.
    var app: AttestedApp
    var environment: KeyEnvironment?
    var extensions: AppExtensions?
    var bundleVersion: String?
    var leaf: AttestedLeaf?
    var intermediate: Certificate?
    /// What the leaf says that it is.
    var nonce: [UInt8]?
    var isIntermediateAuthority = false
    /// Leaf and intermediate are valid at the time given.
    var isValid = false
    var system: AttestedSystem?
    var receipt: Receipt?
    var findings = AttestationFindings()

    typealias Outcome = StepOutcome<AttestationFault>

    init(_ evidence: AttestationEvidence, _ verifier: AttestationVerifier, _ time: Int64, explains: Bool) {
        self.explains = explains
        self.evidence = evidence
        self.verifier = verifier
        self.time = time
        bytes = evidence.attestation
        candidates = verifier.apps
        // The verifier's list is not empty.
        app = verifier.apps[0].app
    }

    mutating func outcome(of step: AttestationStep) -> StepOutcome<AttestationFault> {
        do throws(AttestationFault) {
            return try perform(step)
        } catch {
            return .refused(error)
        }
    }

    private mutating func perform(_ step: AttestationStep) throws(AttestationFault) -> Outcome {
        switch step {
        case .form: try checkForm()
        case .rpID: try checkRPID()
        case .counter: try checkCounter()
        case .environment: try checkEnvironment()
        case .extensions: try checkExtensions()
        case .validationCategory: try checkValidationCategory()
        case .bundleVersion: try checkBundleVersion()
        case .certificates: try checkCertificates()
        case .keyID: try checkKeyID()
        case .credentialID: try checkCredentialID()
        case .coseKey: try checkCOSEKey()
        case .nonceExtension: try checkNonceExtension()
        case .nonce: try checkNonce()
        case .platform: try checkPlatform()
        case .systemVersion: try checkSystemVersion()
        case .authority: try checkAuthority()
        case .validity: try checkValidity()
        case .chain: try checkChain()
        case .receipt: try checkReceipt()
        }
    }

    /// What a caller gets when all steps have passed.
    consuming func result() throws(AttestationFault) -> VerifiedAttestation {
        guard let object, let extensions, let leaf, let environment, let system,
            let keyID = KeyID(digest: leaf.keyID.span)
        else { throw .checkFailed(.form, CryptographyError(doing: "collect the verified values")) }
        return VerifiedAttestation(
            keyID: keyID, publicKey: leaf.point, app: app, keyEnvironment: environment, system: system,
            validationCategory: extensions.validationCategory, bundleVersion: bundleVersion, receipt: receipt,
            receiptBytes: object.receipt.map { Array(bytes[$0]) } ?? [])
    }

    func attempt<Value>(
        _ step: AttestationStep, _ body: () throws(CryptographyError) -> Value
    ) throws(AttestationFault) -> Value {
        do throws(CryptographyError) { return try body() } catch { throw .checkFailed(step, error) }
    }
}
