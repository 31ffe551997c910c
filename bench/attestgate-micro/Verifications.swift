internal import Attestation
internal import Cryptography
internal import DeviceSimulator
internal import Foundation
internal import Vocabulary

/// Phones made of software, what they have signed, and the verifiers that the services use.
struct Verifications {
    enum Kind: String, CaseIterable {
        /// All nine steps, each of another leaf below one intermediate, as phones send them; without a receipt.
        case attestation = "an attestation, without receipt"
        case assertion = "an assertion"
        case signature = "a bare ECDSA P-256 signature"
    }

    private struct Phone {
        let evidence: AttestationEvidence
        let key: P256VerificationKey
        let assertion: [UInt8]
        let digest: Digest256
        let signature: [UInt8]
    }

    private static let app = "TEAMID1234.org.example.app"

    private let library: LibraryContext
    private let phones: [Phone]
    private let verifier: AttestationVerifier
    private let rpIDHash: Digest256
    private let clientDataHash: [UInt8]
    private let now = Int64(Date().timeIntervalSince1970)

    init(phones count: Int, authorityIn directory: String) throws {
        let library = try LibraryContext()
        self.library = library
        _ = try SimulatorAuthority.create(in: directory)
        let maker = try AttestationMaker(authorityIn: directory, form: .iOS27, library)
        let hash = [UInt8](repeating: 7, count: 32)
        clientDataHash = hash
        phones = try (0..<count).map { _ in try Self.makePhone(maker, hash, library) }
        let rpID = Array(Self.app.utf8)
        rpIDHash = try library.sha256(of: rpID.span)
        let file = try Array(Data(contentsOf: URL(fileURLWithPath: "\(directory)/simulator-root.pem")))
        guard let root = try Certificate.all(inPEM: file, library).first else { throw Refused(description: "no root") }
        verifier = try AttestationVerifier(
            apps: [AttestedApp(id: Self.app, environment: .simulator)],
            roots: AttestationVerifier.Roots(
                apple: try AppleRoots.appAttestation(library), simulator: try TrustedRoot(root, library),
                receipts: try AppleRoots.receipts(library)), library)
    }

    private static func makePhone(
        _ maker: AttestationMaker, _ hash: [UInt8], _ library: LibraryContext
    ) throws -> Phone {
        let key = try PrivateKey.generateP256(library)
        let assertions = try AssertionMaker(key, rpID: app, form: .iOS27, library)
        let point = assertions.point
        let digest = try library.sha256(of: hash.span)
        return Phone(
            evidence: AttestationEvidence(
                attestation: try maker.attestation(of: key, rpID: app, clientDataHash: hash), clientDataHash: hash,
                keyID: assertions.keyID),
            key: try P256VerificationKey(point: point.span, library),
            assertion: try assertions.assertion(counter: 1, clientDataHash: hash), digest: digest,
            signature: try P256SigningKey(key, library).sign(digest: digest))
    }

    /// Verifies one of each phone.
    func verifyAll(_ kind: Kind) throws {
        let hash = clientDataHash
        let rpID = rpIDHash
        for phone in phones {
            switch kind {
            case .attestation: _ = try verifier.verify(phone.evidence, at: now)
            case .assertion:
                let assertion = phone.assertion
                _ = try AssertionVerifier.verify(
                    assertion.span, clientDataHash: hash.span, key: phone.key, rpIDHash: rpID.span, digests: library)
            case .signature:
                let signature = phone.signature
                guard phone.key.verify(digest: phone.digest, signature: signature.span) else {
                    throw Refused(description: "a signature does not verify")
                }
            }
        }
    }
}
