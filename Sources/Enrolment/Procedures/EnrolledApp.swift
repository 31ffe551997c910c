internal import Attestation
internal import Cryptography
internal import Registry
internal import Vocabulary

/// An app whose phones may enrol, with the verification of its platform.
struct EnrolledApp {
    enum Verification {
        case apple(AppleVerification)
        case android(AndroidVerification)
    }

    let settings: EnrolmentSettings.App
    let verification: Verification
}

/// What an attestation makes of a phone.
struct AttestedInstance {
    let identity: DeviceIdentity
    let record: AttestationRecord
    let shown: ShownExtensions
}

/// What a hardware key vouches for at a key binding.
struct VerifiedBinding {
    let counter: UInt32
    let shown: ShownExtensions
    /// What the attestation of the certificate's key says, or Google Play. Nil if there is neither.
    var phone: AttestedPhone?
    /// Whether an Android phone's certificate key is attested. Nil for others.
    var keyAttestation: CertificateKeyAttestation?
    /// What an assertion shows of the app.
    var app = ShownApp()
}

/// The apps of one generation.
struct EnrolledApps {
    private let apps: [AppID: EnrolledApp]
    /// Apple's attestations name an app by its RP id hash.
    private let appleApps: [[UInt8]: EnrolledApp]

    /// Builds the verifications.
    init(_ settings: [EnrolmentSettings.App], _ library: LibraryContext) throws {
        let apple = try AppleVerification.Roots(library)
        let google = try GoogleRoots.keyAttestation(library)
        var apps: [AppID: EnrolledApp] = [:]
        var appleApps: [[UInt8]: EnrolledApp] = [:]
        for app in settings {
            let root = try app.simulatorRoot.map { try Self.root($0, of: app, library) }
            let enrolled: EnrolledApp
            switch app.kind {
            case .apple(let attested, let maximumRisk):
                guard attested.allSatisfy({ $0.id == app.id.description }) else {
                    throw EnrolmentStartError("app \(app.id): two ids")
                }
                let verification = try AppleVerification(app.id, attested, maximumRisk, apple, simulator: root, library)
                enrolled = EnrolledApp(settings: app, verification: .apple(verification))
                appleApps[verification.rpIDHash.bytes] = enrolled
            case .android(let attested, let attestsCertificateKey, let integrity):
                guard app.id.package == attested.package else {
                    throw EnrolmentStartError("app \(app.id): two ids")
                }
                if attested.environment == .simulator, root == nil {
                    throw EnrolmentStartError("app \(app.id): attestation_root: missing")
                }
                let roots = KeyAttestationVerifier.Roots(google: google, simulator: root.map { [$0] } ?? [])
                let verification = AndroidVerification(
                    id: app.id, app: attested, attestsCertificateKey: attestsCertificateKey,
                    verifier: KeyAttestationVerifier(apps: [attested], roots: roots, library),
                    integrity: try integrity.map { try IntegrityCheck($0, attested, of: app.id, library) },
                    library: library)
                enrolled = EnrolledApp(settings: app, verification: .android(verification))
            }
            guard apps.updateValue(enrolled, forKey: app.id) == nil else {
                throw EnrolmentStartError("app \(app.id): listed twice")
            }
        }
        self.apps = apps
        self.appleApps = appleApps
    }

    private static func root(
        _ pem: [UInt8], of app: EnrolmentSettings.App, _ library: LibraryContext
    ) throws -> Certificate {
        let certificates = try Certificate.all(inPEM: pem, library)
        guard certificates.count == 1 else {
            throw EnrolmentStartError("app \(app.id): attestation_root: exactly one certificate is required")
        }
        return certificates[0]
    }

    /// Returns the app of a device, if it is still configured for the device's environment.
    func app(of identity: DeviceIdentity) throws(EnrolmentFault) -> EnrolledApp {
        guard let app = apps[identity.app], app.settings.environments.contains(identity.environment) else {
            throw .appRefused
        }
        return app
    }

    /// Returns the app that an attestation names. Nothing is verified yet, but the expected client data depends on the
    /// app.
    func app(named attestation: HardwareKeyAttestation, _ library: LibraryContext) throws(EnrolmentFault) -> EnrolledApp
    {
        switch attestation {
        case .apple(let object, _):
            do throws(AttestationFault) {
                let hash = try AttestationObject(object.span).data.rpIDHash
                guard let app = appleApps[Array(object[hash])] else { throw .rpIDMismatch }
                return app
            } catch {
                throw .attestation(error)
            }
        case .android(let chain, _):
            do throws(KeyAttestationFault) {
                let package = try KeyAttestationVerifier.package(namedBy: chain, library)
                guard let id = AppID("android:\(package)"), let app = apps[id] else { throw .packageMismatch }
                return app
            } catch {
                throw .keyAttestation(error)
            }
        }
    }
}
