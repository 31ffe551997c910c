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

/// Whether leaf and authenticator data speak of one key, whom the leaf's path leads to, and what the receipt says of both.
extension AttestationExamination {
    mutating func checkCertificates() throws(AttestationFault) -> Outcome {
        guard let object else { return .notReached }
        let certificate: Certificate
        do throws(CryptographyError) {
            certificate = try Certificate(der: bytes.span.extracting(object.leaf), verifier.library)
        } catch {
            throw .certificateUnreadable(.leaf)
        }
        if explains {
            findings.leafIssuer = certificate.issuer
            findings.leafValidity = Validity(certificate)
            findings.appID = AttestedLeaf.appID(in: certificate)
        }
        let leaf = try AttestedLeaf(certificate, verifier.library)
        self.leaf = leaf
        if explains {
            findings.publicKey = leaf.point
            findings.keyID = KeyID(digest: leaf.keyID.span)
        }
        let intermediate: Certificate
        do throws(CryptographyError) {
            intermediate = try root.intermediate(der: bytes.span.extracting(object.intermediate))
        } catch {
            throw .certificateUnreadable(.intermediate)
        }
        self.intermediate = intermediate
        isIntermediateAuthority = intermediate.isAuthority
        if explains { findings.intermediateSubject = intermediate.subject }
        return .passed
    }

    /// Apple's step 5.
    func checkKeyID() throws(AttestationFault) -> Outcome {
        guard let leaf else { return .notReached }
        guard KeyID(digest: leaf.keyID.span) == evidence.keyID else { throw .keyIDMismatch }
        return .passed
    }

    /// Apple's step 9. Where the key id sent and the key attested differ, step 5 has refused, and the credential id may be
    /// either.
    func checkCredentialID() throws(AttestationFault) -> Outcome {
        guard let object else { return .notReached }
        let credential = bytes.span.extracting(object.data.credentialID)
        let sent = evidence.keyID.bytes
        if ConstantTime.areEqual(credential, sent.span) { return .passed }
        guard let leaf, ConstantTime.areEqual(credential, leaf.keyID.span) else { throw .credentialIDMismatch }
        return .passed
    }

    /// Not among Apple's steps, but two keys in one attestation would be one too many.
    func checkCOSEKey() throws(AttestationFault) -> Outcome {
        guard let object else { return .notReached }
        guard let key = object.data.key else { throw .coseKeyKind }
        guard let leaf else { return .notReached }
        let point = leaf.point.span
        guard ConstantTime.areEqual(bytes.span.extracting(key.x), point.extracting(1..<33)),
            ConstantTime.areEqual(bytes.span.extracting(key.y), point.extracting(33..<65))
        else { throw .coseKeyMismatch }
        return .passed
    }

    /// The form that Apple's step 4 looks into.
    mutating func checkNonceExtension() throws(AttestationFault) -> Outcome {
        guard let leaf else { return .notReached }
        nonce = try leaf.nonce()
        return .passed
    }

    /// Apple's steps 2 to 4.
    mutating func checkNonce() throws(AttestationFault) -> Outcome {
        guard let object, let nonce else { return .notReached }
        if explains { findings.nonce = nonce }
        let expected = try attempt(.nonce) { () throws(CryptographyError) in
            try verifier.library.sha256(
                of: bytes.span.extracting(object.data.range), evidence.clientDataHash.span)
        }
        guard Digest256(nonce.span) == expected else { throw .nonceMismatch }
        return .passed
    }

    mutating func checkPlatform() throws(AttestationFault) -> Outcome {
        guard let leaf else { return .notReached }
        let system: AttestedSystem
        do throws(DERFault) { system = try AttestedSystem(leaf.certificate) } catch { throw .platformForm(error) }
        self.system = system
        findings.system = system
        guard app.platforms.contains(system.platform) else { throw .platformRefused(system.platform) }
        return .passed
    }

    func checkSystemVersion() throws(AttestationFault) -> Outcome {
        guard let system else { return .notReached }
        if let refusal = app.extensions.refusal(ofSystemVersion: system.version) { throw .systemVersion(refusal) }
        return app.extensions.minimumSystem == nil ? .notDemanded(nil) : .passed
    }

    // MARK: - The path

    /// OpenSSL takes any certificate for a leaf, so this is said here (RFC 5280 section 4.2.1.9).
    func checkAuthority() throws(AttestationFault) -> Outcome {
        guard let leaf, intermediate != nil else { return .notReached }
        guard !leaf.certificate.mayBeAuthority else { throw .leafIsAuthority }
        guard isIntermediateAuthority else { throw .intermediateIsNoAuthority }
        return .passed
    }

    mutating func checkValidity() throws(AttestationFault) -> Outcome {
        guard let leaf, let intermediate else { return .notReached }
        try check(leaf.certificate, .leaf)
        try check(intermediate, .intermediate)
        isValid = true
        return .passed
    }

    private func check(_ certificate: Certificate, _ position: CertificatePosition) throws(AttestationFault) {
        let validity = Validity(certificate)
        guard validity.includes(time) else { throw .outsideValidity(position, validity) }
    }

    /// Apple's step 1, without what the two steps before have said.
    func checkChain() throws(AttestationFault) -> Outcome {
        // OpenSSL looks for no path over what is no authority; that is refused already.
        guard let leaf, let intermediate, isIntermediateAuthority else { return .notReached }
        let refusal = try attempt(.chain) { () throws(CryptographyError) in
            try root.refusal(of: leaf.certificate, over: intermediate)
        }
        if let refusal { throw .untrusted(refusal) }
        // Where the time is wrong for the certificates below, it says nothing about the root.
        if isValid { try check(root.certificate, .root) }
        return .passed
    }

    private var root: TrustedRoot {
        // The verifier has a root for simulators if it lists an app of one.
        app.environment == .simulator ? verifier.roots.simulator ?? verifier.roots.apple : verifier.roots.apple
    }

    // MARK: - The receipt

    mutating func checkReceipt() throws(AttestationFault) -> Outcome {
        guard let object, let leaf else { return .notReached }
        guard let range = object.receipt else {
            guard !app.demandsReceipt else { throw .receiptMissing }
            return .notDemanded(nil)
        }
        // Costs two signatures, so made only for whom it matters.
        guard app.demandsReceipt || explains else { return .notDemanded(nil) }
        var expectation = ReceiptExpectation(
            appID: app.id, publicKey: leaf.point, clientDataHash: evidence.clientDataHash)
        expectation.certificate = Array(bytes[object.leaf])
        let verifier = ReceiptVerifier(root: self.verifier.roots.receipts, self.verifier.library)
        let receiptBytes = Array(bytes[range])
        if explains { findings.receipt = verifier.report(receiptBytes, expectation, at: time).fields }
        do throws(ReceiptFault) {
            receipt = try verifier.verify(receiptBytes, expectation, at: time)
        } catch {
            guard !app.demandsReceipt else { throw .receipt(error) }
            return .notDemanded(.receipt(error))
        }
        return .passed
    }
}

/// What the authenticator data says, and whether an app that is admitted may say so.
extension AttestationExamination {
    mutating func checkForm() throws(AttestationFault) -> Outcome {
        let object = try AttestationObject(bytes.span)
        self.object = object
        guard explains else { return .passed }
        let data = object.data
        findings.rpIDHash = Array(bytes[data.rpIDHash])
        findings.flags = data.flags
        findings.counter = data.counter
        findings.credentialID = Array(bytes[data.credentialID])
        findings.authenticatorData = Array(bytes[data.range])
        return .passed
    }

    /// Apple's step 6.
    mutating func checkRPID() throws(AttestationFault) -> Outcome {
        guard let object else { return .notReached }
        let found = Digest256(bytes.span.extracting(object.data.rpIDHash))
        let admitted = verifier.apps.filter { $0.rpIDHash == found }
        guard let first = admitted.first else { throw .rpIDMismatch }
        candidates = admitted
        app = first.app
        return .passed
    }

    /// Apple's step 7.
    func checkCounter() throws(AttestationFault) -> Outcome {
        guard let object else { return .notReached }
        guard object.data.counter == 0 else { throw .counterNotZero(object.data.counter) }
        return .passed
    }

    /// Apple's step 8.
    mutating func checkEnvironment() throws(AttestationFault) -> Outcome {
        guard let object else { return .notReached }
        guard let environment = KeyEnvironment(aaguid: bytes.span.extracting(object.data.aaguid)) else {
            throw .environmentMismatch(nil)
        }
        self.environment = environment
        findings.keyEnvironment = environment
        guard let admitted = candidates.first(where: { $0.app.admits(environment) }) else {
            throw .environmentMismatch(environment)
        }
        app = admitted.app
        return .passed
    }

    mutating func checkExtensions() throws(AttestationFault) -> Outcome {
        guard let object else { return .notReached }
        let found: AppExtensions
        do throws(AuthenticatorDataFault) {
            found = try AuthenticatorData.extensions(bytes.span, in: object.data.extensions)
        } catch {
            throw .extensions(error)
        }
        extensions = found
        bundleVersion = found.bundleVersion.map { String(decoding: bytes[$0], as: UTF8.self) }
        findings.validationCategory = found.validationCategory
        findings.bundleVersion = bundleVersion
        findings.codeDirectoryHash = found.codeDirectoryHash.map { ($0.type, Array(bytes[$0.hash])) }
        return .passed
    }

    func checkValidationCategory() throws(AttestationFault) -> Outcome {
        guard let extensions else { return .notReached }
        if let refusal = app.extensions.refusal(of: extensions.validationCategory) {
            throw .validationCategory(refusal)
        }
        return app.extensions.categories == nil ? .notDemanded(nil) : .passed
    }

    func checkBundleVersion() throws(AttestationFault) -> Outcome {
        guard let extensions else { return .notReached }
        let refusal =
            if let range = extensions.bundleVersion {
                app.extensions.refusal(ofBundleVersion: bytes.span.extracting(range))
            } else {
                app.extensions.refusal(ofBundleVersion: nil)
            }
        if let refusal { throw .bundleVersion(refusal) }
        return app.extensions.minimumVersion == nil ? .notDemanded(nil) : .passed
    }
}
