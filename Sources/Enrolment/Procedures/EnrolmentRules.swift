internal import Attestation
internal import Cryptography
internal import Encoding
internal import Registry
internal import Vocabulary

/// The rules of one generation, built from its settings and including the CA's key. Belongs to the thread of its
/// library context.
struct EnrolmentRules {
    let apps: EnrolledApps
    let bindings: KeyBindingVerifier
    let certificates: ClientCertificateIssue
    let nonces: EnrolmentNonces
    /// The cards that admit devices. Nil unless the endpoints are those of the reference system.
    let cards: CardAdmission?
    /// Nil if no device tokens are issued.
    let deviceTokens: DeviceTokenIssuer?
    /// Whether the answer to a key binding has one.
    let tokensAreIssuedAtBinding: Bool
    /// Nil without the wallet profile.
    let wallets: ClientAttestationIssuer?
    let admission: EnrolmentSettings.Admission
    let overlap: Int64
    /// Whether devices without a client certificate may renew.
    let renewal: KeyRenewal
    let library: LibraryContext
    private let logNames: DeviceLogNames

    init(
        _ settings: EnrolmentSettings, _ identity: StoreIdentity, _ library: LibraryContext
    ) throws(EnrolmentStartError) {
        do {
            apps = try EnrolledApps(settings.apps, library)
            bindings = KeyBindingVerifier(
                provider: settings.provider, admission: try Self.tokenVerifier(settings, library), library)
            certificates = try Self.issue(settings, library)
            nonces = try EnrolmentNonces(settings.secrets, identity, life: settings.nonceLife, library)
            cards = try settings.cards.map { try CardAdmission($0, settings.secrets, library) }
            deviceTokens = try settings.deviceTokens.map { tokens throws(CryptographyError) in
                try DeviceTokenIssuer(tokens, library)
            }
            wallets = try settings.wallet.map { wallet throws(CryptographyError) in
                try ClientAttestationIssuer(wallet, library)
            }
            logNames = DeviceLogNames(try AuthenticationKey(settings.secrets.log.span, library))
        } catch let error as EnrolmentStartError {
            throw error
        } catch {
            throw EnrolmentStartError("\(error)")
        }
        tokensAreIssuedAtBinding = settings.deviceTokens?.atKeyBinding ?? false
        admission = settings.admission
        overlap = settings.rotationOverlap
        renewal = settings.renewal
        self.library = library
    }

    private static func tokenVerifier(
        _ settings: EnrolmentSettings, _ library: LibraryContext
    ) throws -> AdmissionTokenVerifier? {
        guard case .token(let issuer) = settings.admission else { return nil }
        return try AdmissionTokenVerifier(
            issuer: issuer.issuer, keys: issuer.keys, audience: issuer.audience, longestLife: issuer.longestLife,
            pseudonymKey: try AuthenticationKey(settings.secrets.subjects.span, library), library)
    }

    private static func issue(
        _ settings: EnrolmentSettings, _ library: LibraryContext
    ) throws -> ClientCertificateIssue {
        try ClientCertificateIssue(
            try settings.authority.issuer(library), lifetime: settings.certificateLifetime, library)
    }

    /// The keys that sign tokens, with the lifetime of these in seconds.
    var tokenKeys: [(key: PublishedTokenKey, life: Int64)] {
        let own = deviceTokens.map { ($0.signer.publicKey, $0.life) }
        return [own, wallets.map { ($0.signer.publicKey, $0.life) }].compactMap(\.self)
    }

    /// Returns the app of a device, if it is still configured for the device's environment.
    func app(of identity: DeviceIdentity) throws(EnrolmentFault) -> EnrolledApp { try apps.app(of: identity) }

    /// Returns the verification of a device's receipts. Nil if it has none, or its app is not configured.
    func receipts(of identity: DeviceIdentity) -> ReceiptAssessment? {
        guard case .apple(let verification) = try? app(of: identity).verification else { return nil }
        return verification.receipts
    }

    /// Returns the device's name in logs, as in the access log. Nil if it cannot be computed, which does not cause a
    /// refusal.
    func label(of device: KeyID) -> String? {
        guard let name = try? logNames.name(of: device) else { return nil }
        return Hexadecimal.encode(name, digits: 16)
    }
}

/// Instance initialization: from the content to a command for the registry.
extension EnrolmentRules {
    /// Verifies everything that needs no state: form, nonce, and attestation by the app that it names.
    ///
    /// - Parameters:
    ///   - status: The status list of Android's attestation keys.
    ///   - now: The time in seconds since 1970.
    ///   - subject: Receives the subject as soon as it is known.
    func initialization(
        _ content: [UInt8], _ status: KeyStatusRecord, now: Int64, _ subject: inout EnrolmentSubject
    ) throws(EnrolmentFault) -> InstanceRegistration {
        let request = try InstanceInitialization(content, library)
        if case .apple(_, let keyID) = request.attestation { subject.device = label(of: keyID) }
        let nonce = try nonces.singleUse(of: request.nonce, now: now)
        let app = try apps.app(named: request.attestation, library)
        subject.app = app.settings.id.description
        subject.attestation = .refused
        let instance = try attest(request, app, status, now: now)
        subject.attestation = .verified
        subject.device = label(of: instance.identity.hardwareKey)
        return InstanceRegistration(
            identity: instance.identity, attestation: instance.record, shown: instance.shown, nonce: nonce,
            epoch: nonces.epoch, developmentLimit: app.settings.developmentLimit)
    }

    private func attest(
        _ request: InstanceInitialization, _ app: EnrolledApp, _ status: KeyStatusRecord, now: Int64
    ) throws(EnrolmentFault) -> AttestedInstance {
        let form = app.settings.form
        switch (app.verification, try request.evidence(form, library)) {
        case (.apple(let apple), .apple(let evidence)):
            var certificateKey: KeyID?
            if let point = request.mtlsPublicKey { certificateKey = try library.keyID(of: point) }
            return try apple.attest(evidence, certificateKey: certificateKey, now: now)
        case (.android(let android), .android(let evidence, let tag)):
            return try android.attest(
                evidence, request, tag: tag, isCertificateKey: form == .dsr, android.status(in: status, now: now),
                now: now)
        // The app was found by the attestation.
        case (.apple, .android), (.android, .apple): throw .appRefused
        }
    }
}

/// A new posture of an enrolled device.
extension EnrolmentRules {
    /// Verifies what the device has sent besides its proof, and returns the command for the registry.
    ///
    /// - Parameters:
    ///   - proof: What the proof shows of the app.
    ///   - status: The status list of Android's attestation keys.
    ///   - now: The time in seconds since 1970.
    func reattestation(
        _ request: PostureRequest, _ nonce: SingleUse, showing proof: ShownApp, of details: DeviceDetails,
        _ status: KeyStatusRecord, now: Int64
    ) throws(EnrolmentFault) -> Reattestation {
        let device = details.device
        var phone: AttestedPhone?
        let evidence: Reattestation.Evidence?
        switch try app(of: device.identity).verification {
        case .apple:
            guard request.chain == nil, request.playIntegrityToken == nil else { throw .memberUnknown }
            evidence = .assertion
        case .android(let android):
            (phone, evidence) = try android.reattest(
                request, of: details, android.status(in: status, now: now), now: now)
        }
        return Reattestation(
            device: device.id, nonce: nonce, epoch: nonces.epoch, phone: phone, evidence: evidence, app: proof,
            signals: request.signals)
    }
}

/// Device tokens.
extension EnrolmentRules {
    /// Returns a token for a client certificate.
    ///
    /// - Parameters:
    ///   - key: The id of the certificate's key.
    ///   - thumbprint: SHA-256 of the certificate.
    ///   - now: The time in seconds since 1970.
    /// - Returns: nil if none are issued.
    func deviceToken(
        for details: DeviceDetails, key: KeyID, thumbprint: [UInt8]?, now: Int64
    ) throws(EnrolmentFault) -> String? {
        guard let deviceTokens, let thumbprint else { return nil }
        let subject = DeviceTokenSubject(details, key: key, thumbprint: thumbprint)
        return try EnrolmentFault.checking { () throws(CryptographyError) in
            try deviceTokens.token(for: subject, now: now)
        }
    }
}

/// Key binding: from the content to a command for the registry, in two steps. The registry supplies the hardware key in
/// between.
extension EnrolmentRules {
    /// A token that was verified as far as possible without state, with its fresh nonce.
    struct ShownBinding {
        let binding: KeyBinding
        let nonce: SingleUse
        /// The epoch of the nonce.
        let epoch: RandomID
    }

    /// - Parameters:
    ///   - issuerKeys: The keys of admission tokens that were fetched.
    ///   - now: The time in seconds since 1970.
    func binding(
        _ content: [UInt8], _ issuerKeys: IssuerKeyRecord, now: Int64, _ subject: inout EnrolmentSubject
    ) throws(EnrolmentFault) -> ShownBinding {
        let binding = try bindings.verify(content, issuerKeys, now: now)
        if case .keyID(let keyID) = binding.hardwareKey { subject.device = label(of: keyID) }
        return ShownBinding(
            binding: binding, nonce: try nonces.singleUse(of: binding.nonce, now: now), epoch: nonces.epoch)
    }

    /// Verifies that the device's hardware key vouches for the new key, and returns the command with the certificate's
    /// number and expiry.
    ///
    /// - Parameters:
    ///   - details: The device that is registered under the hardware key.
    ///   - renewal: Whether it may renew over its connection.
    ///   - status: The status list of Android's attestation keys.
    ///   - now: The time in seconds since 1970.
    func command(
        _ shown: ShownBinding, _ planned: PlannedClientCertificate, of details: DeviceDetails, _ renewal: KeyRenewal,
        _ status: KeyStatusRecord, now: Int64, _ subject: inout EnrolmentSubject
    ) throws(EnrolmentFault) -> BindingRequest {
        let device = details.device
        subject.device = label(of: device.identity.hardwareKey)
        subject.app = device.identity.app.description
        guard device.state != .revoked else { throw .instanceRevoked }
        let app = try app(of: device.identity)
        let verified: VerifiedBinding
        switch app.verification {
        case .apple(let apple): verified = try apple.verify(shown.binding, of: details)
        case .android(let android):
            verified = try android.verify(
                shown.binding, of: details, android.status(in: status, now: now), now: now)
        }
        return BindingRequest(
            hardwareKey: device.identity.hardwareKey, key: shown.binding.keyID, nonce: shown.nonce, epoch: shown.epoch,
            counter: verified.counter, shown: verified.shown, mode: app.settings.counters,
            admission: try admission(of: shown.binding), overlap: overlap, serial: planned.serial,
            notAfter: planned.notAfter, phone: verified.phone, keyAttestation: verified.keyAttestation,
            app: verified.app, renewal: renewal)
    }

    /// Chooses the serial number and expiry of a certificate.
    ///
    /// - Parameter now: The time in seconds since 1970.
    func planCertificate(now: Int64) throws(EnrolmentFault) -> PlannedClientCertificate {
        try EnrolmentFault.checking { () throws(CryptographyError) in try certificates.plan(now: now) }
    }

    private func admission(of binding: KeyBinding) throws(EnrolmentFault) -> Registry.AdmissionGrant {
        switch admission {
        case .open: return .open
        case .approval: return .approval
        // Devices that a card has admitted are active.
        case .card: return .earlier
        case .token(let issuer):
            guard let shown = binding.admission else { return .earlier }
            // Token ids are unique for one issuer only. The length precedes the issuer, so that no byte can move
            // between the two.
            let id = Array("\(issuer.issuer.utf8.count):\(issuer.issuer)".utf8) + shown.tokenID
            let digest = try library.digest(of: id)
            return .token(
                SingleUse(id: Fingerprint(digest), expiresAt: shown.expiry), subject: Fingerprint(shown.subject))
        }
    }

    /// Issues the certificate for a key whose binding is durable.
    ///
    /// - Parameter device: The hardware key of its device.
    func issue(
        _ planned: PlannedClientCertificate, forKey point: [UInt8], device: KeyID
    ) throws(EnrolmentFault) -> IssuedClientCertificate {
        try EnrolmentFault.checking { () throws(CryptographyError) in
            try certificates.issue(planned, forKey: point, device: device)
        }
    }
}
