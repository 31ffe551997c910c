internal import Attestation
internal import Cryptography
internal import Registry
internal import Vocabulary

/// What one generation decides by: all that is built of its settings, the CA's key among it. Belongs to the thread of its
/// library context.
struct EnrolmentRules {
    let apps: [String: EnrolmentSettings.App]
    let attestations: AttestationVerifier
    let bindings: KeyBindingVerifier
    let certificates: ClientCertificateIssue
    let nonces: EnrolmentNonces
    let admission: EnrolmentSettings.Admission
    let overlap: Int64
    let library: LibraryContext
    private let logKey: AuthenticationKey

    init(
        _ settings: EnrolmentSettings, _ identity: StoreIdentity, _ library: LibraryContext
    ) throws(EnrolmentStartError) {
        do {
            attestations = try Self.verifier(settings, library)
            bindings = KeyBindingVerifier(
                provider: settings.provider, admission: try Self.tokenVerifier(settings, library), library)
            certificates = try Self.issue(settings, library)
            nonces = try EnrolmentNonces(settings.secrets, identity, life: settings.nonceLife, library)
            logKey = try AuthenticationKey(settings.secrets.log.span, library)
        } catch {
            throw EnrolmentStartError("\(error)")
        }
        apps = Dictionary(settings.apps.map { ($0.attested.id, $0) }) { first, _ in first }
        guard apps.count == settings.apps.count, settings.apps.allSatisfy({ $0.id.description == $0.attested.id }) else {
            throw EnrolmentStartError("an app is listed twice")
        }
        admission = settings.admission
        overlap = settings.rotationOverlap
        self.library = library
    }

    private static func verifier(_ settings: EnrolmentSettings, _ library: LibraryContext) throws -> AttestationVerifier {
        let simulator = try settings.simulatorRoot.map { pem in
            let certificates = try Certificate.all(inPEM: pem, library)
            guard certificates.count == 1 else { throw EnrolmentStartError("the simulator's root: one certificate") }
            return try TrustedRoot(certificates[0], library)
        }
        let roots = AttestationVerifier.Roots(
            apple: try AppleRoots.appAttestation(library), simulator: simulator,
            receipts: try AppleRoots.receipts(library))
        return try AttestationVerifier(apps: settings.apps.map(\.attested), roots: roots, library)
    }

    private static func tokenVerifier(
        _ settings: EnrolmentSettings, _ library: LibraryContext
    ) throws -> AdmissionTokenVerifier? {
        guard case .token(let issuer) = settings.admission else { return nil }
        return try AdmissionTokenVerifier(
            issuer: issuer.issuer, points: issuer.points, audience: settings.provider,
            longestLife: issuer.longestLife,
            pseudonymKey: try AuthenticationKey(settings.secrets.subjects.span, library), library)
    }

    private static func issue(_ settings: EnrolmentSettings, _ library: LibraryContext) throws -> ClientCertificateIssue {
        let authority = settings.authority
        let certificates = try Certificate.all(inPEM: authority.certificate, library)
        let issuer = try CertificateIssuer(
            certificate: certificates[0], key: try PrivateKey(pem: authority.key, library), library)
        return try ClientCertificateIssue(issuer, lifetime: settings.certificateLifetime, library)
    }

    /// What logs know the device by, the same as in the access log; nil if it cannot be computed, which is no reason to
    /// refuse anything.
    func label(of device: KeyID) -> String? {
        let bytes = device.bytes
        guard let code = try? logKey.code(of: bytes.span) else { return nil }
        return Hexadecimal.encode(Array(code.bytes.prefix(8)))
    }
}
