internal import Cryptography
internal import Vocabulary

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
