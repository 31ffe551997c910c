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

    // MARK: - Altered chains

    /// Returns the chain's first fault. Without one, the altered chain was accepted.
    private func fault(
        _ genuine: GenuineKeyAttestation, _ certificates: [[UInt8]]
    ) throws -> KeyAttestationFault? {
        var evidence = genuine.evidence
        evidence.certificates = certificates
        return verifier(app(of: genuine)).report(evidence, at: try genuine.time, list, judgesChainOnly: true).fault
    }

    @Test("a chain with any byte changed is refused", arguments: GenuineKeyAttestation.all.filter(\.isAccepted))
    func changedBytes(_ genuine: GenuineKeyAttestation) throws {
        var generator = SeededGenerator(seed: RunSeed.tell())
        let steps: [KeyAttestationStep] = [.certificates, .root, .signatures]
        for (position, certificate) in genuine.evidence.certificates.enumerated() {
            // Each byte of a chain of either kind, and a sample of the others: there are 35,000.
            let isWhole = ["68eb914a", "3f65afd5"].contains(genuine.id)
            let indices =
                isWhole ? Array(certificate.indices) : Array(certificate.indices.shuffled(using: &generator)[..<48])
            for index in indices {
                var changed = genuine.evidence.certificates
                changed[position][index] ^= .random(in: 1...255, using: &generator)
                let fault = try #require(
                    try fault(genuine, changed), "accepted with byte \(index) of certificate \(position) changed")
                #expect(steps.contains(fault.step), "\(fault) for byte \(index) of certificate \(position)")
            }
        }
    }

    @Test("a chain with several bytes changed, moved or lost is refused", arguments: GenuineKeyAttestation.all)
    func changedRanges(_ genuine: GenuineKeyAttestation) throws {
        var generator = SeededGenerator(seed: RunSeed.tell())
        for _ in 0..<200 {
            var changed = genuine.evidence.certificates
            let position = Int.random(in: changed.indices, using: &generator)
            for _ in 0..<Int.random(in: 1...4, using: &generator) {
                let count = changed[position].count
                guard count > 1 else { break }
                let start = Int.random(in: 0..<count, using: &generator)
                let range = start..<min(count, start + .random(in: 1...16, using: &generator))
                switch Int.random(in: 0..<3, using: &generator) {
                case 0: changed[position].removeSubrange(range)
                case 1: changed[position].insert(contentsOf: changed[position][range], at: start)
                default: for index in range { changed[position][index] = .random(in: 0...255, using: &generator) }
                }
            }
            guard changed != genuine.evidence.certificates else { continue }
            #expect(try fault(genuine, changed) != nil)
        }
    }

    @Test("certificates in another order, twice or left out are refused", arguments: GenuineKeyAttestation.all)
    func order(_ genuine: GenuineKeyAttestation) throws {
        let certificates = genuine.evidence.certificates
        for first in certificates.indices {
            for second in certificates.indices where first != second {
                var other = certificates
                other.swapAt(first, second)
                #expect(try fault(genuine, other) != nil, "\(first) and \(second) swapped")
                other = certificates
                other[second] = certificates[first]
                #expect(try fault(genuine, other) != nil, "\(first) in place of \(second)")
            }
            var other = certificates
            other.insert(certificates[first], at: first)
            #expect(try fault(genuine, other) != nil, "\(first) twice")
            guard first < certificates.count - 1 else { continue }
            other = certificates
            other.remove(at: first)
            #expect(try fault(genuine, other) != nil, "\(first) left out")
        }
    }

    @Test("a leaf forged below a genuine one is refused", arguments: GenuineKeyAttestation.all)
    func forgedLeaf(_ genuine: GenuineKeyAttestation) throws {
        // Its signature is wrong too. In KeyAttestationChainTests it is right.
        let forgery = try KeyAttestationForgery(.factory, library)
        let leaf = try forgery.certificates()[0]
        #expect(try fault(genuine, [leaf] + genuine.evidence.certificates) != nil)
        #expect(try fault(genuine, [leaf] + genuine.evidence.certificates.dropFirst()) != nil)
    }

    @Test("certificates of several genuine chains make no chain")
    func mixed() throws {
        let accepted = GenuineKeyAttestation.all.filter(\.isAccepted)
        for genuine in accepted {
            for other in accepted {
                let mixed = [genuine.evidence.certificates[0]] + other.evidence.certificates.dropFirst()
                // Two chains of one phone could have the same certificates above their leaves.
                guard mixed != genuine.evidence.certificates else { continue }
                #expect(try fault(genuine, mixed) != nil, "\(genuine.id) below \(other.id)")
            }
        }
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
