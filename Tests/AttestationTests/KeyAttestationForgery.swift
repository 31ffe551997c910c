import Attestation
import Cryptography
import DeviceSimulator

typealias KeyDescriptionForgery = KeyDescriptionForm

extension KeyDescriptionForm {
    static let package = "org.example.app"
    static let signer = AndroidPhone.signingCertificate

    /// Creates the description of a key of that app, with known values.
    init() {
        var phone = AndroidPhone(package: Self.package)
        phone.version = 1042
        phone.patchLevel = 202_602
        self.init(of: phone, challenge: [UInt8](repeating: 7, count: 32), created: 1_790_000_000_000)
        setHardware(1, Self.numbers([2, 3]))
        setHardware(718, Self.number(20_260_205))
    }
}

/// A chain of certificates below a test's root. It is genuine except for the test's changes before signing.
@dynamicMemberLookup
struct KeyAttestationForgery {
    let library: LibraryContext
    var chain: KeyAttestationChain
    var sendsRoot = true
    var app = AndroidApp(package: KeyDescriptionForgery.package, signingCertificates: [KeyDescriptionForgery.signer])
    var list: AttestationStatusList? = AttestationStatusList(serials: [])
    var time = Self.time
    var clientDataHash = [UInt8](repeating: 7, count: 32)

    static let time: Int64 = 1_790_000_000
    static let validity: ClosedRange<Int64> = 1_600_000_000...2_000_000_000

    typealias Kind = AndroidPhone.Provisioning

    init(_ kind: Kind, _ library: LibraryContext) throws {
        self.library = library
        let keys = try (0..<KeyAttestationChain.length(kind)).map { _ in try TestAuthority.key("P-256", library) }
        chain = KeyAttestationChain(
            KeyDescriptionForgery(), provisioning: kind, keys: keys, validity: Self.validity)
    }

    subscript<Value>(dynamicMember path: WritableKeyPath<KeyAttestationChain, Value>) -> Value {
        get { chain[keyPath: path] }
        set { chain[keyPath: path] = newValue }
    }

    var rootCertificate: Certificate { get throws { try chain.certificate(chain.links.count - 1, library) } }

    /// Returns the certificates to send, leaf first.
    func certificates() throws -> [[UInt8]] {
        try chain.certificates(library).dropLast(sendsRoot ? 0 : 1)
    }

    func evidence() throws -> KeyAttestationEvidence {
        KeyAttestationEvidence(certificates: try certificates(), clientDataHash: clientDataHash)
    }

    func verifier() throws -> KeyAttestationVerifier {
        KeyAttestationVerifier(apps: [app], roots: .init(google: [try rootCertificate]), library)
    }

    /// Inserts the certificate of a key of the app's own, which signs the leaf.
    mutating func insertAttestKey(_ description: KeyDescriptionForgery? = nil) throws {
        let attestKey = description ?? Self.attestKey
        var link = chain.links[0]
        link.key = try TestAuthority.key("P-256", library)
        link.name = [("CN", "Attest key")]
        link.extensions.append(.init(KeyDescription.identifier, attestKey.der))
        chain.links.insert(link, at: 1)
    }

    /// The description of a key that attests others.
    static let attestKey: KeyDescriptionForgery = {
        var attestKey = KeyDescriptionForgery()
        attestKey.setHardware(1, KeyDescriptionForgery.numbers([7]))
        return attestKey
    }()

    /// Verification and report have another verdict.
    struct Disagreement: Error {
        let verified: KeyAttestationFault?
        let reported: KeyAttestationFault?
    }

    /// Returns the first fault, nil for acceptance.
    ///
    /// - Throws: if report and verification disagree.
    func fault(_ sent: [[UInt8]]? = nil) throws -> KeyAttestationFault? {
        let evidence = KeyAttestationEvidence(
            certificates: try sent ?? certificates(), clientDataHash: clientDataHash)
        return try verifier().fault(of: evidence, at: time, list)
    }
}

extension KeyAttestationVerifier {
    /// Returns the first fault, nil for acceptance.
    ///
    /// - Throws: if report and verification disagree.
    func fault(
        of evidence: KeyAttestationEvidence, at time: Int64, _ list: AttestationStatusList?
    ) throws -> KeyAttestationFault? {
        let report = report(evidence, at: time, list, judgesChainOnly: false)
        var verified: KeyAttestationFault?
        do throws(KeyAttestationFault) { _ = try verify(evidence, at: time, list) } catch { verified = error }
        guard report.isAccepted == (report.fault == nil), report.fault == verified else {
            throw KeyAttestationForgery.Disagreement(verified: verified, reported: report.fault)
        }
        return verified
    }
}
