internal import Cryptography
internal import Encoding
internal import Vocabulary

/// The state of one attestation's verification: its parsed content and the checks.
///
/// A check whose input could not be parsed is not reached. Therefore the checks may stop at the first failure for a
/// verdict, or all run for an explanation.
struct AttestationExamination {
    let evidence: AttestationEvidence
    let verifier: AttestationVerifier
    let time: Int64
    /// Whether `findings` are required. They cost more than the checks that decide.
    let explains: Bool
    let bytes: [UInt8]

    var object: AttestationObject?
    var candidates: [HashedApp]
    /// The app whose rules apply to the attestation.
    var app: AttestedApp
    var environment: KeyEnvironment?
    var extensions: AppExtensions?
    var bundleVersion: String?
    var leaf: AttestedLeaf?
    var intermediate: Certificate?
    /// The nonce in the leaf certificate.
    var nonce: [UInt8]?
    private var isIntermediateAuthority = false
    /// Whether leaf and intermediate are valid at the given time.
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
        // The verifier's list is never empty.
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

    /// Returns the result after all steps have passed.
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

/// Checks of the leaf certificate: its key, its path and the receipt.
extension AttestationExamination {
    private mutating func checkCertificates() throws(AttestationFault) -> Outcome {
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

    /// Performs Apple's step 5.
    private func checkKeyID() throws(AttestationFault) -> Outcome {
        guard let leaf else { return .notReached }
        guard KeyID(digest: leaf.keyID.span) == evidence.keyID else { throw .keyIDMismatch }
        return .passed
    }

    /// Performs Apple's step 9. If the key id sent differs from the key attested, step 5 has failed, and the credential
    /// id may equal either.
    private func checkCredentialID() throws(AttestationFault) -> Outcome {
        guard let object else { return .notReached }
        let credential = bytes.span.extracting(object.data.credentialID)
        let sent = evidence.keyID.bytes
        if ConstantTime.areEqual(credential, sent.span) { return .passed }
        guard let leaf, ConstantTime.areEqual(credential, leaf.keyID.span) else { throw .credentialIDMismatch }
        return .passed
    }

    /// Checks that the COSE key is the leaf's key. Apple's steps do not include this, but an attestation must not have
    /// two keys.
    private func checkCOSEKey() throws(AttestationFault) -> Outcome {
        guard let object else { return .notReached }
        guard let key = object.data.key else { throw .coseKeyKind }
        guard let leaf else { return .notReached }
        let point = leaf.point.span
        guard ConstantTime.areEqual(bytes.span.extracting(key.x), point.extracting(1..<33)),
            ConstantTime.areEqual(bytes.span.extracting(key.y), point.extracting(33..<65))
        else { throw .coseKeyMismatch }
        return .passed
    }

    /// Checks the form of the extension that Apple's step 4 reads.
    private mutating func checkNonceExtension() throws(AttestationFault) -> Outcome {
        guard let leaf else { return .notReached }
        nonce = try leaf.nonce()
        return .passed
    }

    /// Performs Apple's steps 2 to 4.
    private mutating func checkNonce() throws(AttestationFault) -> Outcome {
        guard let object, let nonce else { return .notReached }
        if explains { findings.nonce = nonce }
        let expected = try attempt(.nonce) { () throws(CryptographyError) in
            try verifier.library.sha256(
                of: bytes.span.extracting(object.data.range), evidence.clientDataHash.span)
        }
        guard Digest256(nonce.span) == expected else { throw .nonceMismatch }
        return .passed
    }

    private mutating func checkPlatform() throws(AttestationFault) -> Outcome {
        guard let leaf else { return .notReached }
        let system: AttestedSystem
        do throws(DERFault) { system = try AttestedSystem(leaf.certificate) } catch { throw .platformForm(error) }
        self.system = system
        findings.system = system
        guard app.platforms.contains(system.platform) else { throw .platformRefused(system.platform) }
        return .passed
    }

    private func checkSystemVersion() throws(AttestationFault) -> Outcome {
        guard let system else { return .notReached }
        if let refusal = app.extensions.refusal(ofSystemVersion: system.version) { throw .systemVersion(refusal) }
        return app.extensions.minimumSystem == nil ? .notDemanded(nil) : .passed
    }

    // MARK: - The path

    /// Checks which certificates are authorities (RFC 5280 section 4.2.1.9). OpenSSL accepts any certificate as a leaf.
    private func checkAuthority() throws(AttestationFault) -> Outcome {
        guard let leaf, intermediate != nil else { return .notReached }
        guard !leaf.certificate.mayBeAuthority else { throw .leafIsAuthority }
        guard isIntermediateAuthority else { throw .intermediateIsNoAuthority }
        return .passed
    }

    private mutating func checkValidity() throws(AttestationFault) -> Outcome {
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

    /// Performs the rest of Apple's step 1.
    private func checkChain() throws(AttestationFault) -> Outcome {
        // OpenSSL builds no path over a certificate that is not an authority. The step before has refused it.
        guard let leaf, let intermediate, isIntermediateAuthority else { return .notReached }
        let refusal = try attempt(.chain) { () throws(CryptographyError) in
            try root.refusal(of: leaf.certificate, over: intermediate)
        }
        if let refusal { throw .untrusted(refusal) }
        // If the certificates below are not valid at this time, the root's validity has no meaning.
        if isValid { try check(root.certificate, .root) }
        return .passed
    }

    private var root: TrustedRoot {
        // The verifier has a root for simulators if an app of its list is for them.
        app.environment == .simulator ? verifier.roots.simulator ?? verifier.roots.apple : verifier.roots.apple
    }

    // MARK: - The receipt

    private mutating func checkReceipt() throws(AttestationFault) -> Outcome {
        guard let object, let leaf else { return .notReached }
        guard let range = object.receipt else {
            guard !app.demandsReceipt else { throw .receiptMissing }
            return .notDemanded(nil)
        }
        // This costs two signatures and is done only if required.
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

/// Checks of the authenticator data against the rules of the app.
extension AttestationExamination {
    private mutating func checkForm() throws(AttestationFault) -> Outcome {
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

    /// Performs Apple's step 6.
    private mutating func checkRPID() throws(AttestationFault) -> Outcome {
        guard let object else { return .notReached }
        let found = Digest256(bytes.span.extracting(object.data.rpIDHash))
        let admitted = verifier.apps.filter { $0.rpIDHash == found }
        guard let first = admitted.first else { throw .rpIDMismatch }
        candidates = admitted
        app = first.app
        return .passed
    }

    /// Performs Apple's step 7.
    private func checkCounter() throws(AttestationFault) -> Outcome {
        guard let object else { return .notReached }
        guard object.data.counter == 0 else { throw .counterNotZero(object.data.counter) }
        return .passed
    }

    /// Performs Apple's step 8.
    private mutating func checkEnvironment() throws(AttestationFault) -> Outcome {
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

    private mutating func checkExtensions() throws(AttestationFault) -> Outcome {
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

    private func checkValidationCategory() throws(AttestationFault) -> Outcome {
        guard let extensions else { return .notReached }
        if let refusal = app.extensions.refusal(of: extensions.validationCategory) {
            throw .validationCategory(refusal)
        }
        return app.extensions.categories == nil ? .notDemanded(nil) : .passed
    }

    private func checkBundleVersion() throws(AttestationFault) -> Outcome {
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
