import Attestation
import Chance
import Cryptography
import Foundation
import TestVectors
import Testing
import Vocabulary

/// Key attestations of genuine Android phones, and one of a software keystore.
@Suite("Genuine key attestations", .enabled(if: SharedVectors.has(GenuineKeyAttestation.path)))
struct GenuineKeyAttestationTests {
    private let library: LibraryContext
    private let roots: KeyAttestationVerifier.Roots
    private let list = AttestationStatusList(serials: [])

    init() throws {
        library = try LibraryContext()
        roots = .init(google: try GoogleRoots.keyAttestation(library))
    }

    private func verifier(_ app: AndroidApp) -> KeyAttestationVerifier {
        KeyAttestationVerifier(apps: [app], roots: roots, library)
    }

    private func app(of genuine: GenuineKeyAttestation) -> AndroidApp {
        let application = genuine.description.softwareEnforced.application
        return AndroidApp(
            package: application.packages[0].name,
            signingCertificates: application.signatureDigests.map { hex($0) })
    }

    @Test("all expected chains are present")
    func count() {
        #expect(GenuineKeyAttestation.all.count == 8)
    }

    @Test("each chain has the expected verdict, and its key description is read", arguments: GenuineKeyAttestation.all)
    func chain(_ genuine: GenuineKeyAttestation) throws {
        let report = verifier(app(of: genuine)).report(
            genuine.evidence, at: try genuine.time, list, judgesChainOnly: true)
        #expect(report.isAccepted == genuine.isAccepted, "\(String(describing: report.fault))")
        if !genuine.isAccepted { #expect(report.fault == .rootUnknown) }
        let description = try #require(report.description)
        #expect(Int(description.attestationVersion) == genuine.description.attestationVersion)
        #expect(description.attestationSecurityLevel.name == genuine.description.attestationSecurityLevel)
        #expect(Int(description.keyMintVersion) == genuine.description.keyMintVersion)
        #expect(description.keyMintSecurityLevel.name == genuine.description.keyMintSecurityLevel)
        #expect(Data(description.attestationChallenge) == genuine.description.attestationChallenge)
        #expect((report.publicKey != nil) == (genuine.keyType == "ECPublicKey"))
        #expect(report.serials.map(\.hexadecimal) == genuine.serials)
    }

    @Test(
        "the app of a chain on P-256 gets its key, and every other chain is refused",
        arguments: GenuineKeyAttestation.all)
    func verified(_ genuine: GenuineKeyAttestation) throws {
        let verifier = verifier(app(of: genuine))
        let time = try genuine.time
        let expected: [String: KeyAttestationFault] = [
            "9b01e901": .rootUnknown, "57020971": .leafKey(algorithm: "RSA-2048"),
            "48209d5e": .leafKey(algorithm: "RSA-1024"), "1d3836fd": .leafKey(algorithm: "ML-DSA-65"),
        ]
        do throws(KeyAttestationFault) {
            let verified = try verifier.verify(genuine.evidence, at: time, list)
            #expect(expected[genuine.id] == nil)
            #expect(verified.publicKey.count == 65)
            #expect(verified.app.package == app(of: genuine).package)
            #expect(verified.serials.map(\.hexadecimal) == Array(genuine.serials.dropFirst()))
            #expect(verified.description.hardwareEnforced.rootOfTrust?.bootState == .verified)
        } catch {
            #expect(error == expected[genuine.id])
        }
    }

    @Test("a chain may be sent without its root", arguments: GenuineKeyAttestation.all.filter(\.isAccepted))
    func withoutRoot(_ genuine: GenuineKeyAttestation) throws {
        var evidence = genuine.evidence
        evidence.certificates.removeLast()
        let report = verifier(app(of: genuine)).report(evidence, at: try genuine.time, list, judgesChainOnly: true)
        #expect(report.fault == nil)
    }
}

/// A chain of certificates with what is known about it.
struct GenuineKeyAttestation: Decodable, CustomTestStringConvertible, Sendable {
    struct Application: Decodable, Sendable {
        struct Package: Decodable, Sendable {
            let name: String
        }

        let packages: [Package]
        let signatureDigests: [String]
    }

    struct SoftwareList: Decodable, Sendable {
        let application: Application

        enum CodingKeys: String, CodingKey {
            case application = "attestationApplicationId"
        }
    }

    struct Description: Decodable, Sendable {
        let attestationVersion: Int
        let attestationSecurityLevel: String
        let keyMintVersion: Int
        let keyMintSecurityLevel: String
        let attestationChallenge: Data
        let softwareEnforced: SoftwareList

        enum CodingKeys: String, CodingKey {
            case attestationVersion, attestationSecurityLevel, attestationChallenge, softwareEnforced
            case keyMintVersion = "keymasterVersion"
            case keyMintSecurityLevel = "keymasterSecurityLevel"
        }
    }

    let id: String
    let expected: String
    let keyType: String
    let description: Description
    let serials: [String]
    private let chain: [Data]
    private let verificationTime: String

    enum CodingKeys: String, CodingKey {
        case id, expected
        case keyType = "leaf_public_key_type"
        case description = "key_description"
        case serials = "serials_hex"
        case chain = "chain_der"
        case verificationTime = "verification_time"
    }

    static let path = "android/chains.json"
    static let all = (try? SharedVectors.read(File.self, path))??.vectors ?? []

    private struct File: Decodable { let vectors: [GenuineKeyAttestation] }

    var testDescription: String { id }
    var isAccepted: Bool { expected == "accept" }

    /// When the chain was sent, in seconds since 1970.
    var time: Int64 {
        get throws {
            Int64(try Date(verificationTime, strategy: .iso8601).timeIntervalSince1970)
        }
    }

    var evidence: KeyAttestationEvidence {
        KeyAttestationEvidence(
            certificates: chain.map(Array.init), clientDataHash: Array(description.attestationChallenge))
    }
}
