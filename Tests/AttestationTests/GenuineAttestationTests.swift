import Attestation
import Chance
import Cryptography
import Foundation
import Testing
import TestVectors
import Vocabulary

/// Attestations of real devices with iOS 14 to 27. All must be accepted, and no altered copy may.
@Suite("Genuine attestations", .enabled(if: SharedVectors.has(GenuineAttestation.path)))
struct GenuineAttestationTests {
    private let library: LibraryContext
    private let roots: AttestationVerifier.Roots

    init() throws {
        library = try LibraryContext()
        roots = AttestationVerifier.Roots(
            apple: try AppleRoots.appAttestation(library), receipts: try AppleRoots.receipts(library))
    }

    /// Returns the app, which requires the receipt if it is genuine.
    private func app(_ genuine: GenuineAttestation, demandsReceipt: Bool? = nil) throws -> AttestedApp {
        let demandsReceipt = demandsReceipt ?? genuine.hasGenuineReceipt
        let environment = AttestedApp.Environment(rawValue: genuine.environment)
        return AttestedApp(id: genuine.appID, environment: try #require(environment), demandsReceipt: demandsReceipt)
    }

    private func verifier(_ apps: [AttestedApp]) throws(AppListFault) -> AttestationVerifier {
        try AttestationVerifier(apps: apps, roots: roots, library)
    }

    @Test("all expected samples are present")
    func count() {
        #expect(GenuineAttestation.all.count == 11)
    }

    @Test(
        "each attestation is accepted with its receipt, and its values are returned", arguments: GenuineAttestation.all)
    func accepted(_ genuine: GenuineAttestation) throws {
        let evidence = try genuine.evidence()
        let verifier = try verifier([app(genuine)])
        let report = verifier.report(evidence, at: genuine.verificationTime)
        #expect(report.fault == nil)
        let verified = try verifier.verify(evidence, at: genuine.verificationTime)
        #expect(verified.publicKey == genuine.publicKey)
        #expect(verified.keyID.bytes == genuine.keyID)
        #expect(verified.app.id == genuine.appID)
        #expect(verified.keyEnvironment.rawValue == genuine.environment)
        #expect(verified.system.version == genuine.systemVersion)
        #expect(verified.receipt?.fields.appID == (genuine.hasGenuineReceipt ? genuine.appID : nil))
        #expect(verified == report.verified)
        if genuine.systemVersion == "27.0" {
            #expect(verified.validationCategory == .operatingSystem)
            #expect(verified.bundleVersion == "1")
        } else {
            #expect(verified.validationCategory == nil && verified.bundleVersion == nil)
        }
    }

    @Test("the attestation with an altered receipt is refused only where a receipt is required")
    func alteredReceipt() throws {
        let altered = GenuineAttestation.all.filter { !$0.hasGenuineReceipt }
        #expect(altered.count == 1)
        for genuine in altered {
            let report = try verifier([app(genuine, demandsReceipt: true)]).report(
                genuine.evidence(), at: genuine.verificationTime)
            #expect(report.steps.compactMap(\.outcome.fault).map(\.step) == [.receipt])
        }
    }

    @Test(
        "each attestation is accepted from its leaf's first second to its last, and never else",
        arguments: GenuineAttestation.all)
    func validity(_ genuine: GenuineAttestation) throws {
        let evidence = try genuine.evidence()
        let verifier = try verifier([app(genuine, demandsReceipt: false)])
        for time in [genuine.notBefore, genuine.notAfter] {
            #expect(throws: Never.self) { try verifier.verify(evidence, at: time) }
        }
        for time in [genuine.notBefore - 1, genuine.notAfter + 1] {
            let report = verifier.report(evidence, at: time)
            #expect(report.verified == nil)
            #expect(report.steps.compactMap(\.outcome.fault).map(\.step) == [.validity])
        }
    }

    @Test("the attested app is found among several", arguments: GenuineAttestation.all)
    func severalApps(_ genuine: GenuineAttestation) throws {
        let others = try GenuineAttestation.all.filter { $0.appID != genuine.appID }.map { try app($0) }
        let distinct = others.enumerated().filter { pair in
            !others[..<pair.offset].contains { $0.id == pair.element.id }
        }.map(\.element)
        let evidence = try genuine.evidence()
        let all = try verifier(distinct + [app(genuine)])
        #expect(try all.verify(evidence, at: genuine.verificationTime).app.id == genuine.appID)
        let without = try verifier(distinct).report(evidence, at: genuine.verificationTime)
        #expect(without.fault == .rpIDMismatch)
    }

    @Test(
        "another phone's key id, another nonce and another environment are refused as such",
        arguments: GenuineAttestation.all.filter(\.hasGenuineReceipt))
    func mixed(_ genuine: GenuineAttestation) throws {
        let verifier = try verifier([app(genuine)])
        let time = genuine.verificationTime
        func faults(_ change: (inout AttestationEvidence) throws -> Void) throws -> [AttestationStep] {
            var evidence = try genuine.evidence()
            try change(&evidence)
            return verifier.report(evidence, at: time).steps.compactMap(\.outcome.fault).map(\.step)
        }
        let other = try #require(GenuineAttestation.all.first { $0.keyID != genuine.keyID })
        #expect(try faults { $0.keyID = try other.evidence().keyID } == [.keyID])
        #expect(try faults { $0.clientDataHash[0] ^= 1 } == [.nonce, .receipt])
        let hash = genuine.clientDataHash
        let twice = try library.sha256(of: hash.span).bytes
        #expect(try faults { $0.clientDataHash = twice } == [.nonce, .receipt])

        var app = try app(genuine)
        app.environment = app.environment == .production ? .development : .production
        let report = try self.verifier([app]).report(genuine.evidence(), at: time)
        #expect(report.steps.compactMap(\.outcome.fault).map(\.step) == [.environment])
    }

    @Test("an attestation truncated anywhere or extended is malformed", arguments: GenuineAttestation.all)
    func cut(_ genuine: GenuineAttestation) throws {
        let verifier = try verifier([app(genuine)])
        var evidence = try genuine.evidence()
        for count in stride(from: 0, to: genuine.bytes.count, by: 7) {
            evidence.attestation = Array(genuine.bytes[..<count])
            #expect(refusal(verifier, evidence, genuine) == .malformed(.truncated))
        }
        evidence.attestation = genuine.bytes + [0]
        #expect(refusal(verifier, evidence, genuine) == .malformed(.trailingBytes))
    }

    /// Unsigned bytes are left out: the receipt's wrapping and cdHash.
    @Test("a changed bit anywhere is refused", arguments: GenuineAttestation.all)
    func changedBits(_ genuine: GenuineAttestation) throws {
        let seed = RunSeed.tell()
        var generator = SeededGenerator(seed: seed)
        let verifier = try verifier([app(genuine, demandsReceipt: false)])
        let object = try parseAttestation(genuine.bytes).get()
        let receipt = try #require(object.receipt)
        var evidence = try genuine.evidence()
        for _ in 0..<300 {
            let bit = Int.random(in: 0..<(genuine.bytes.count * 8), using: &generator)
            guard !receipt.contains(bit / 8) else { continue }
            evidence.attestation = genuine.bytes
            evidence.attestation[bit / 8] ^= 1 << UInt8(bit % 8)
            #expect(refusal(verifier, evidence, genuine) != nil, "bit \(bit), seed \(seed)")
        }
    }

    private func refusal(
        _ verifier: AttestationVerifier, _ evidence: AttestationEvidence, _ genuine: GenuineAttestation
    ) -> AttestationFault? {
        do throws(AttestationFault) {
            _ = try verifier.verify(evidence, at: genuine.verificationTime)
            return nil
        } catch {
            return error
        }
    }
}

/// A published attestation of a real device; see `SharedVectors`.
struct GenuineAttestation: Decodable, Sendable, CustomTestStringConvertible {
    static let path = "apple/attestations.json"

    var id: String
    var appID: String
    var environment: String
    private var object: Data
    private var key: Data
    private var hash: Data
    private var point: Data
    private var time: String
    private var leafNotBefore: String
    private var leafNotAfter: String
    var systemVersion: String

    private enum CodingKeys: String, CodingKey {
        case id
        case appID = "app_id"
        case environment
        case object = "attestation_object"
        case key = "key_id"
        case hash = "client_data_hash"
        case point = "public_key_x963"
        case time = "verification_time"
        case leafNotBefore = "leaf_not_before"
        case leafNotAfter = "leaf_not_after"
        case systemVersion = "os_version"
    }

    var testDescription: String { id }
    /// Whether the receipt is intact. This one was published with an altered byte in its signer's certificate.
    var hasGenuineReceipt: Bool { id != "ios-26.2-4949301d" }
    var bytes: [UInt8] { Array(object) }
    var keyID: [UInt8] { Array(key) }
    var clientDataHash: [UInt8] { Array(hash) }
    var publicKey: [UInt8] { Array(point) }
    var verificationTime: Int64 { Self.seconds(time) }
    var notBefore: Int64 { Self.seconds(leafNotBefore) }
    var notAfter: Int64 { Self.seconds(leafNotAfter) }

    private static func seconds(_ text: String) -> Int64 {
        guard let date = ISO8601DateFormatter().date(from: text) else { fatalError("no time: \(text)") }
        return Int64(date.timeIntervalSince1970)
    }

    /// Returns the message of the app.
    func evidence() throws -> AttestationEvidence {
        let id = KeyID(digest: keyID.span)
        return AttestationEvidence(attestation: bytes, clientDataHash: clientDataHash, keyID: try #require(id))
    }

    /// All attestations. Empty if the vectors are absent.
    static let all: [GenuineAttestation] = {
        struct File: Decodable {
            var vectors: [GenuineAttestation]
        }
        do { return try SharedVectors.read(File.self, path)?.vectors ?? [] } catch {
            fatalError("\(path) cannot be read: \(error)")
        }
    }()
}

/// The cost of one verification. It checks nothing and runs only on request:
///
///     ATTESTGATE_MEASURE=1 scripts/test unit AttestationMeasurement
@Suite(
    "Attestation measurement", .serialized,
    .enabled(if: ProcessInfo.processInfo.environment["ATTESTGATE_MEASURE"] != nil))
struct AttestationMeasurement {
    @Test("CPU time of one verification")
    func verification() throws {
        let authority = try TestAuthority(LibraryContext())
        let forgery = try AttestationForgery(authority)
        let evidence = try forgery.evidence()
        let verifier = try forgery.verifier()
        let count = 2000
        let first = try cpuSeconds { _ = try verifier.verify(evidence, at: AttestationForgery.time) }
        let rest = try cpuSeconds {
            for _ in 0..<count { _ = try verifier.verify(evidence, at: AttestationForgery.time) }
        }
        print("attestation: first \(microseconds(first)) us, then \(microseconds(rest / Double(count))) us of CPU each")
    }

    @Test("CPU time of a genuine attestation, without and with its receipt")
    func genuine() throws {
        guard let genuine = GenuineAttestation.all.last else { return }
        let library = try LibraryContext()
        let roots = try AttestationVerifier.Roots(
            apple: AppleRoots.appAttestation(library), receipts: AppleRoots.receipts(library))
        let count = 2000
        for demandsReceipt in [false, true] {
            let app = AttestedApp(id: genuine.appID, environment: .production, demandsReceipt: demandsReceipt)
            let verifier = try AttestationVerifier(apps: [app], roots: roots, library)
            let evidence = try genuine.evidence()
            let time = genuine.verificationTime
            let seconds = try cpuSeconds {
                for _ in 0..<count { _ = try verifier.verify(evidence, at: time) }
            }
            let what = demandsReceipt ? "attestation and receipt" : "attestation"
            print("genuine \(what): \(microseconds(seconds / Double(count))) us of CPU each")
        }
    }

    private func cpuSeconds(_ body: () throws -> Void) rethrows -> Double {
        func now() -> Double {
            var time = timespec()
            clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
            return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
        }
        let start = now()
        try body()
        return now() - start
    }

    private func microseconds(_ seconds: Double) -> Int { Int(seconds * 1e6) }
}
