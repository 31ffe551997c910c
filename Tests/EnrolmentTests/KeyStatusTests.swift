import Attestation
import Testing

@testable import Enrolment

@Suite("The status of attestation keys")
struct KeyStatusTests {
    private static let list = AttestationStatusList(serials: ["1a", "26"])

    private func record(_ environments: Set<AndroidApp.Environment>, confirmedAt: Int64?) -> KeyStatusRecord {
        KeyStatusRecord(
            environments: environments, staleAfter: 100,
            kept: confirmedAt.map { KeyStatusRecord.Kept(list: Self.list, confirmedAt: $0) })
    }

    @Test("a list counts until it is older than configured")
    func age() {
        let record = record([.production], confirmedAt: 1_000)
        let cases: [(now: Int64, status: KeyStatus)] = [
            (1_000, .current(Self.list)), (1_100, .current(Self.list)), (1_101, .stale),
            // The clock was set back, a little and far.
            (900, .current(Self.list)), (899, .stale), (0, .stale),
        ]
        for (now, status) in cases { #expect(record.status(for: .production, at: now) == status, "\(now)") }
        #expect(record.age(at: 1_040) == 40)
    }

    @Test("without a list only apps that demand none are served")
    func missing() {
        let record = record([.production], confirmedAt: nil)
        #expect(record.status(for: .production, at: 0) == .missing)
        #expect(record.status(for: .simulator, at: 0) == .notDemanded)
        #expect(!record.isStale(at: .max) && record.age(at: 0) == nil)
        #expect(KeyStatusRecord().status(for: .production, at: 0) == .notDemanded)
    }
}
