internal import Attestation
internal import Cryptography
internal import Registry
internal import Vocabulary

/// The verification of iPhones for one app, with App Attest.
struct AppleVerification {
    /// Apple's roots.
    struct Roots {
        let attestations: TrustedRoot
        let receipts: TrustedRoot

        init(_ library: LibraryContext) throws(CryptographyError) {
            attestations = try AppleRoots.appAttestation(library)
            receipts = try AppleRoots.receipts(library)
        }
    }

    let rpIDHash: Digest256
    let receipts: ReceiptAssessment
    private let id: AppID
    /// The app in each environment.
    private let apps: [AttestedApp]
    private let maximumRisk: UInt32?
    private let verifier: AttestationVerifier
    private let library: LibraryContext

    /// - Parameter simulator: The root of software phones. Their attestations and receipts have one root, because Apple
    ///   does not sign them.
    init(
        _ id: AppID, _ apps: [AttestedApp], _ maximumRisk: UInt32?, _ roots: Roots, simulator: Certificate?,
        _ library: LibraryContext
    ) throws {
        let simulator = try simulator.map { try TrustedRoot($0, library) }
        let all = AttestationVerifier.Roots(
            apple: roots.attestations, simulator: simulator, receipts: simulator ?? roots.receipts)
        self.id = id
        self.apps = apps
        self.maximumRisk = maximumRisk
        self.library = library
        verifier = try AttestationVerifier(apps: apps, roots: all, library)
        receipts = ReceiptAssessment(appID: id.description, verifier: ReceiptVerifier(root: all.receipts, library))
        let text = Array(id.description.utf8)
        rpIDHash = try library.sha256(of: text.span)
    }

    // MARK: - Initialization

    func attest(
        _ evidence: AttestationEvidence, certificateKey: KeyID?, now: Int64
    ) throws(EnrolmentFault) -> AttestedInstance {
        let verified: VerifiedAttestation
        do throws(AttestationFault) { verified = try verifier.verify(evidence, at: now) } catch {
            throw .attestation(error)
        }
        if let maximumRisk, let risk = verified.receipt?.fields.riskMetric, risk > maximumRisk { throw .riskTooHigh }
        return AttestedInstance(
            identity: try identity(verified), record: try record(verified, evidence.attestation, certificateKey),
            shown: verified.shown)
    }

    private func identity(_ verified: VerifiedAttestation) throws(EnrolmentFault) -> DeviceIdentity {
        guard let platform = Platform(verified.system.platform) else {
            throw .attestation(.platformRefused(verified.system.platform))
        }
        guard let point = PublicPoint(verified.publicKey) else {
            preconditionFailure("a verified key is an uncompressed point")
        }
        return DeviceIdentity(
            app: id, platform: platform, environment: environment(verified.keyEnvironment),
            hardwareKey: verified.keyID, point: point)
    }

    /// Returns the environment for which a key was attested. Software phones have one of Apple's too.
    private func environment(_ attested: KeyEnvironment) -> AttestationEnvironment {
        if apps.contains(where: { $0.environment == .simulator }) { return .simulator }
        return attested == .production ? .production : .development
    }

    private func record(
        _ verified: VerifiedAttestation, _ attestation: [UInt8], _ certificateKey: KeyID?
    ) throws(EnrolmentFault) -> AttestationRecord {
        let digest = try library.digest(of: attestation)
        let receipt = verified.receiptBytes.isEmpty ? nil : verified.receiptBytes
        let record = AttestationRecord(
            digest: Fingerprint(digest), certificateKey: certificateKey, receipt: receipt,
            riskMetric: verified.receipt?.fields.riskMetric,
            systemVersion: verified.system.version.flatMap(SystemVersion.init),
            app: ShownApp(
                version: verified.bundleVersion.flatMap { AppVersion(bundleVersion: $0) }, verified.validationCategory))
        guard let record else { throw .attestation(.tooLong) }
        return record
    }

    // MARK: - Key binding

    /// Verifies that the device's hardware key vouches for the new key.
    func verify(_ binding: KeyBinding, of details: DeviceDetails) throws(EnrolmentFault) -> VerifiedBinding {
        guard case .assertion(let parts) = binding.proof else { throw .memberMissing(.keyAttestation) }
        return try verify(parts, over: binding.clientData, of: details)
    }

    /// Verifies that the device's hardware key vouches for client data.
    func verify(
        _ parts: AssertionParts, over clientData: [UInt8], of details: DeviceDetails
    ) throws(EnrolmentFault) -> VerifiedBinding {
        let key = try library.key(of: details.device)
        let verified = try parts.verify(over: clientData, key: key, rpIDHash: rpIDHash.span, library)
        return try judged(verified, parts.assertion, of: details)
    }

    /// Verifies an assertion over any client data.
    ///
    /// - Parameter assertion: As `generateAssertion(_:clientDataHash:)` returns it.
    func verify(
        _ assertion: [UInt8], clientDataHash hash: Digest256, of details: DeviceDetails
    ) throws(EnrolmentFault) -> VerifiedBinding {
        let key = try library.key(of: details.device)
        let verified: VerifiedAssertion
        do throws(AssertionFault) {
            verified = try AssertionVerifier.verify(
                assertion.span, clientDataHash: hash.span, key: key, rpIDHash: rpIDHash.span, digests: library)
        } catch {
            throw .assertion(error)
        }
        return try judged(verified, assertion, of: details)
    }

    private func judged(
        _ verified: VerifiedAssertion, _ assertion: [UInt8], of details: DeviceDetails
    ) throws(EnrolmentFault) -> VerifiedBinding {
        guard
            let app = apps.first(where: {
                AttestationEnvironment($0.environment) == details.device.identity.environment
            })
        else { throw .appRefused }
        // The app may be below a minimum now, or the system may state less than before.
        do throws(ExtensionFault) {
            try app.extensions.judge(verified.extensions, of: assertion.span, after: details.device.shown)
        } catch {
            throw .extensions(error)
        }
        try judge(details.attestation, app)
        let version = verified.extensions.bundleVersion.flatMap {
            AppVersion(bundleVersion: assertion.span.extracting($0))
        }
        return VerifiedBinding(
            counter: verified.counter, shown: verified.extensions.shown,
            app: ShownApp(version: version, verified.extensions.validationCategory))
    }

    private func judge(_ attestation: AttestationRecord?, _ app: AttestedApp) throws(EnrolmentFault) {
        // Only the device itself may see this refusal. The newest receipt counts, because that of the attestation
        // seldom has a metric.
        if let maximumRisk, let risk = attestation?.riskMetric, risk > maximumRisk { throw .riskTooHigh }
        // The minimum may have been raised after the attestation.
        if let minimum = app.extensions.minimumSystem, minimum.refusal(of: attestation?.systemVersion) != nil {
            throw .systemOutdated
        }
    }
}

extension ShownApp {
    fileprivate init(version: AppVersion?, _ category: ValidationCategory?) {
        self.init(version: version, distribution: category.flatMap { UInt8(exactly: $0.rawValue) })
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
