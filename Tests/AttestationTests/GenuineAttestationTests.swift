import Attestation
import Chance
import Cryptography
import TestVectors
import Testing
import Vocabulary

/// Attestations of real devices, iOS 14 to 27: all are accepted, and nothing near to them is.
@Suite("Genuine attestations", .enabled(if: SharedVectors.has(GenuineAttestation.path)))
struct GenuineAttestationTests {
    private let library: LibraryContext
    private let roots: AttestationVerifier.Roots

    init() throws {
        library = try LibraryContext()
        roots = AttestationVerifier.Roots(
            apple: try AppleRoots.appAttestation(library), receipts: try AppleRoots.receipts(library))
    }

    /// Demands the receipt where it is genuine.
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

    /// Not of what nobody signed: bytes of the receipt's own wrapping, and cdHash.
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
