internal import Attestation
internal import Cryptography
internal import Registry
internal import Vocabulary

/// Instance initialization: from content to what the registry is asked to do.
extension EnrolmentRules {
    /// Verifies all that needs no state: the form, the nonce, the attestation by the app that it names.
    ///
    /// - Parameters:
    ///   - now: in seconds since 1970.
    ///   - subject: filled with whom it is about, as soon as that is known.
    func initialization(
        _ content: [UInt8], now: Int64, _ subject: inout EnrolmentSubject
    ) throws(EnrolmentFault) -> InstanceRegistration {
        let request = try InstanceInitialization(content, library)
        subject.device = label(of: request.keyID)
        let nonce = try nonces.singleUse(of: request.nonce, now: now)
        let app = try app(named: request)
        subject.app = app.settings.id.description
        subject.attestation = .refused
        let verified = try verify(request, app, now: now)
        subject.attestation = .verified
        if let ceiling = app.settings.maximumRisk, let risk = verified.receipt?.fields.riskMetric, risk > ceiling {
            throw .riskTooHigh
        }
        return InstanceRegistration(
            identity: try identity(verified, app.settings), attestation: try record(verified, of: request),
            shown: verified.shown, nonce: nonce, epoch: nonces.epoch)
    }

    /// The app that the attestation names. This verifies nothing yet, but the expected hash depends on the app.
    private func app(named request: InstanceInitialization) throws(EnrolmentFault) -> App {
        let attestation = request.attestation
        do throws(AttestationFault) {
            let hash = try AttestationObject(attestation.span).data.rpIDHash
            guard let app = app(withRPIDHash: Array(attestation[hash])) else { throw .rpIDMismatch }
            return app
        } catch {
            throw .attestation(error)
        }
    }

    private func verify(
        _ request: InstanceInitialization, _ app: App, now: Int64
    ) throws(EnrolmentFault) -> VerifiedAttestation {
        let evidence = try request.evidence(app.settings.form, library)
        do throws(AttestationFault) { return try app.attestations.verify(evidence, at: now) } catch {
            throw .attestation(error)
        }
    }

    private func identity(
        _ verified: VerifiedAttestation, _ app: EnrolmentSettings.App
    ) throws(EnrolmentFault) -> DeviceIdentity {
        guard let platform = Platform(verified.system.platform) else {
            throw .attestation(.platformRefused(verified.system.platform))
        }
        guard let point = PublicPoint(verified.publicKey) else {
            preconditionFailure("a verified key is an uncompressed point")
        }
        return DeviceIdentity(
            app: app.id, platform: platform, environment: AttestationEnvironment(app.attested.environment),
            hardwareKey: verified.keyID, point: point)
    }

    private func record(
        _ verified: VerifiedAttestation, of request: InstanceInitialization
    ) throws(EnrolmentFault) -> AttestationRecord {
        let (attestation, point) = (request.attestation, request.mtlsPublicKey)
        let digest = try EnrolmentFault.checking { () throws(CryptographyError) in
            try library.sha256(of: attestation.span)
        }
        var key: KeyID?
        if let point {
            let digest = try EnrolmentFault.checking { () throws(CryptographyError) in
                try library.sha256(of: point.span)
            }
            key = KeyID(digest: digest.span)
        }
        let receipt = verified.receiptBytes.isEmpty ? nil : verified.receiptBytes
        let record = AttestationRecord(
            digest: Fingerprint(digest), certificateKey: key, receipt: receipt,
            riskMetric: verified.receipt?.fields.riskMetric,
            systemVersion: verified.system.version.flatMap(SystemVersion.init))
        guard let record else { throw .attestation(.tooLong) }
        return record
    }
}

extension Platform {
    /// Leafs that do not say are of iOS up to 17. Nil for systems that no registry knows.
    fileprivate init?(_ platform: AttestedPlatform) {
        switch platform {
        case .iOS, .unstated: self = .iOS
        case .macOS: self = .macOS
        case .tvOS: self = .tvOS
        case .watchOS: self = .watchOS
        case .visionOS: self = .visionOS
        default: return nil
        }
    }
}

extension AttestationEnvironment {
    init(_ environment: AttestedApp.Environment) {
        switch environment {
        case .production: self = .production
        case .development: self = .development
        case .simulator: self = .simulator
        }
    }
}
