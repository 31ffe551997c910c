import Attestation
import Cryptography
import Foundation
import Testing

/// What one verification costs. Decides nothing; it runs where a figure is asked for:
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
