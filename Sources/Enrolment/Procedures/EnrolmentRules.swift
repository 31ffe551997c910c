internal import Attestation
internal import Cryptography
internal import Registry
internal import Vocabulary

/// What one generation decides by: all that is built of its settings, the CA's key among it. Belongs to the thread of its
/// library context.
struct EnrolmentRules {
    /// An app with what verifies its attestations, by a root of its own if it is one of simulators.
    struct App {
        let settings: EnrolmentSettings.App
        let attestations: AttestationVerifier
        let receipts: ReceiptJudge
    }

    /// By RP id hash.
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
            // What a software phone says has one root, its receipts too: Apple signs none for it.
            let roots = AttestationVerifier.Roots(
                apple: apple, simulator: simulator, receipts: simulator ?? receipts)
            let verifier = try AttestationVerifier(apps: [app.attested], roots: roots, library)
            let judge = ReceiptJudge(
                appID: app.attested.id, verifier: ReceiptVerifier(root: roots.receipts, library))
            let id = Array(app.attested.id.utf8)
            let replaced = apps.updateValue(
                App(settings: app, attestations: verifier, receipts: judge),
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

    /// The app of that RP id hash: 32 bytes.
    func app(withRPIDHash hash: [UInt8]) -> App? { apps[hash] }

    /// The app that a device was registered for, if it is still configured, and for that environment.
    func app(of identity: DeviceIdentity) throws(EnrolmentFault) -> (App, rpIDHash: Digest256) {
        let id = Array(identity.app.description.utf8)
        let hash = try EnrolmentFault.checking { () throws(CryptographyError) in try library.sha256(of: id.span) }
        guard let app = apps[hash.bytes],
            AttestationEnvironment(app.settings.attested.environment) == identity.environment
        else { throw .appRefused }
        return (app, hash)
    }

    /// What logs know the device by, the same as in the access log; nil if it cannot be computed, which is no reason to
    /// refuse anything.
    func label(of device: KeyID) -> String? {
        guard let name = try? logNames.name(of: device) else { return nil }
        return Hexadecimal.encode((0..<8).map { UInt8(truncatingIfNeeded: name >> (56 - 8 * $0)) })
    }
}
