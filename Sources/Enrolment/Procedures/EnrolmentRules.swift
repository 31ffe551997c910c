internal import Attestation
internal import Cryptography
internal import Encoding
internal import Registry
internal import Vocabulary

/// The rules of one generation, built from its settings and including the CA's key. Belongs to the thread of its
/// library context.
struct EnrolmentRules {
    /// An app with the verifier of its attestations. An app of simulators has its own root.
    struct App {
        let settings: EnrolmentSettings.App
        let attestations: AttestationVerifier
        let receipts: ReceiptAssessment
    }

    /// The apps by RP id hash.
    private let apps: [[UInt8]: App]
    let bindings: KeyBindingVerifier
    let certificates: ClientCertificateIssue
    let nonces: EnrolmentNonces
    let admission: EnrolmentSettings.Admission
    let overlap: Int64
    let library: LibraryContext
    private let logNames: DeviceLogNames

    init(
        _ settings: EnrolmentSettings, _ identity: StoreIdentity, _ library: LibraryContext
    ) throws(EnrolmentStartError) {
        do {
            apps = try Self.apps(settings, library)
            bindings = KeyBindingVerifier(
                provider: settings.provider, admission: try Self.tokenVerifier(settings, library), library)
            certificates = try Self.issue(settings, library)
            nonces = try EnrolmentNonces(settings.secrets, identity, life: settings.nonceLife, library)
            logNames = DeviceLogNames(try AuthenticationKey(settings.secrets.log.span, library))
        } catch let error as EnrolmentStartError {
            throw error
        } catch {
            throw EnrolmentStartError("\(error)")
        }
        admission = settings.admission
        overlap = settings.rotationOverlap
        self.library = library
    }

    private static func apps(_ settings: EnrolmentSettings, _ library: LibraryContext) throws -> [[UInt8]: App] {
        let apple = try AppleRoots.appAttestation(library)
        let receipts = try AppleRoots.receipts(library)
        var apps: [[UInt8]: App] = [:]
        for app in settings.apps {
            guard app.id.description == app.attested.id else { throw EnrolmentStartError("app \(app.id): two ids") }
            let simulator = try app.simulatorRoot.map { try root($0, of: app, library) }
            // A software phone's attestations and receipts have one root, because Apple does not sign them.
            let roots = AttestationVerifier.Roots(
                apple: apple, simulator: simulator, receipts: simulator ?? receipts)
            let verifier = try AttestationVerifier(apps: [app.attested], roots: roots, library)
            let assessment = ReceiptAssessment(
                appID: app.attested.id, verifier: ReceiptVerifier(root: roots.receipts, library))
            let id = Array(app.attested.id.utf8)
            let replaced = apps.updateValue(
                App(settings: app, attestations: verifier, receipts: assessment),
                forKey: try library.sha256(of: id.span).bytes)
            guard replaced == nil else { throw EnrolmentStartError("app \(app.id): listed twice") }
        }
        return apps
    }

    private static func root(
        _ pem: [UInt8], of app: EnrolmentSettings.App, _ library: LibraryContext
    ) throws -> TrustedRoot {
        let certificates = try Certificate.all(inPEM: pem, library)
        guard certificates.count == 1 else {
            throw EnrolmentStartError("app \(app.id): attestation_root: exactly one certificate is required")
        }
        return try TrustedRoot(certificates[0], library)
    }

    private static func tokenVerifier(
        _ settings: EnrolmentSettings, _ library: LibraryContext
    ) throws -> AdmissionTokenVerifier? {
        guard case .token(let issuer) = settings.admission else { return nil }
        return try AdmissionTokenVerifier(
            issuer: issuer.issuer, points: issuer.points, audience: issuer.audience, longestLife: issuer.longestLife,
            pseudonymKey: try AuthenticationKey(settings.secrets.subjects.span, library), library)
    }

    private static func issue(
        _ settings: EnrolmentSettings, _ library: LibraryContext
    ) throws -> ClientCertificateIssue {
        try ClientCertificateIssue(
            try settings.authority.issuer(library), lifetime: settings.certificateLifetime, library)
    }

    /// Returns the app of a device, if it is still configured for the device's environment.
    func app(of identity: DeviceIdentity) throws(EnrolmentFault) -> (App, rpIDHash: Digest256) {
        let id = Array(identity.app.description.utf8)
        let hash = try library.digest(of: id)
        guard let app = apps[hash.bytes],
            AttestationEnvironment(app.settings.attested.environment) == identity.environment
        else { throw .appRefused }
        return (app, hash)
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
    ///   - now: The time in seconds since 1970.
    ///   - subject: Receives the subject as soon as it is known.
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

    /// Returns the app that the attestation names. Nothing is verified yet, but the expected hash depends on the app.
    private func app(named request: InstanceInitialization) throws(EnrolmentFault) -> App {
        let attestation = request.attestation
        do throws(AttestationFault) {
            let hash = try AttestationObject(attestation.span).data.rpIDHash
            guard let app = apps[Array(attestation[hash])] else { throw .rpIDMismatch }
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
        let digest = try library.digest(of: request.attestation)
        var key: KeyID?
        if let point = request.mtlsPublicKey { key = try library.keyID(of: point) }
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
    /// Converts a platform. Leaf certificates without one are of iOS up to 17. Nil for systems that the registry does
    /// not know.
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

    func binding(
        _ content: [UInt8], now: Int64, _ subject: inout EnrolmentSubject
    ) throws(EnrolmentFault) -> ShownBinding {
        let binding = try bindings.verify(content, now: now)
        subject.device = label(of: binding.hardwareKeyID)
        return ShownBinding(
            binding: binding, nonce: try nonces.singleUse(of: binding.nonce, now: now), epoch: nonces.epoch)
    }

    /// Verifies that the device's hardware key vouches for the new key, and returns the command with the certificate's
    /// number and expiry.
    ///
    /// - Parameter device: The device that is registered under the hardware key.
    func command(
        _ shown: ShownBinding, _ planned: PlannedClientCertificate, of details: DeviceDetails,
        _ subject: inout EnrolmentSubject
    ) throws(EnrolmentFault) -> BindingRequest {
        let device = details.device
        subject.app = device.identity.app.description
        guard device.state != .revoked else { throw .instanceRevoked }
        let (app, rpIDHash) = try app(of: device.identity)
        let assertion = try verifyProof(of: shown.binding, device, app.settings, rpIDHash)
        // Only the device itself may see this refusal. The newest receipt counts, because that of the attestation
        // seldom has a metric.
        if let ceiling = app.settings.maximumRisk, let risk = details.attestation?.riskMetric, risk > ceiling {
            throw .riskTooHigh
        }
        // The minimum may have been raised after the attestation.
        if let minimum = app.settings.attested.extensions.minimumSystem,
            minimum.refusal(of: details.attestation?.systemVersion) != nil
        {
            throw .systemOutdated
        }
        return BindingRequest(
            hardwareKey: shown.binding.hardwareKeyID, key: shown.binding.keyID, nonce: shown.nonce, epoch: shown.epoch,
            counter: assertion.counter, shown: assertion.extensions.shown, mode: app.settings.counters,
            admission: try admission(of: shown.binding), overlap: overlap, serial: planned.serial,
            notAfter: planned.notAfter)
    }

    /// Chooses the serial number and expiry of a certificate.
    ///
    /// - Parameter now: The time in seconds since 1970.
    func planCertificate(now: Int64) throws(EnrolmentFault) -> PlannedClientCertificate {
        try EnrolmentFault.checking { () throws(CryptographyError) in try certificates.plan(now: now) }
    }

    private func verifyProof(
        of binding: KeyBinding, _ device: Device, _ app: EnrolmentSettings.App, _ rpIDHash: Digest256
    ) throws(EnrolmentFault) -> VerifiedAssertion {
        let point = device.identity.point.bytes
        let key = try EnrolmentFault.checking { () throws(CryptographyError) in
            try P256VerificationKey(point: point.span, library)
        }
        let verified = try binding.verifyProof(key: key, rpIDHash: rpIDHash.span, library)
        // The app may be below a minimum now, or the system may state less than before.
        let assertion = binding.proof.assertion
        do throws(ExtensionFault) {
            try app.attested.extensions.judge(verified.extensions, of: assertion.span, after: device.shown)
        } catch {
            throw .extensions(error)
        }
        return verified
    }

    private func admission(of binding: KeyBinding) throws(EnrolmentFault) -> Registry.AdmissionGrant {
        switch admission {
        case .open: return .open
        case .approval: return .approval
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
    func issue(
        _ planned: PlannedClientCertificate, for binding: KeyBinding
    ) throws(EnrolmentFault) -> IssuedClientCertificate {
        try EnrolmentFault.checking { () throws(CryptographyError) in
            try certificates.issue(planned, forKey: binding.point, device: binding.hardwareKeyID)
        }
    }
}
