import Testing

@testable import Gateway

@Suite("Used proofs of possession")
struct UsedProofsTests {
    private func take(_ used: UsedProofs, _ proof: UInt128, at now: Int64) -> UsedProofs.Verdict {
        used.take(proof, challengedAt: now, now: now, window: 300)
    }

    @Test("a proof is accepted once for as long as its challenge can be valid")
    func once() {
        let used = UsedProofs()
        #expect(take(used, 1, at: 1_000) == .first)
        for now in stride(from: Int64(1_000), to: 1_300, by: 10) { #expect(take(used, 1, at: now) == .repeated) }
        #expect(take(used, 2, at: 1_290) == .first)
        // The window of the first has ended, and that of the second has not.
        for now in stride(from: Int64(1_300), to: 1_590, by: 10) { #expect(take(used, 2, at: now) == .repeated) }
    }

    @Test("a challenge that is older than the memory is refused, as after a reload with a longer life")
    func forgotten() {
        let used = UsedProofs()
        #expect(take(used, 1, at: 1_000) == .first)
        for now in [Int64(1_400), 1_800] { #expect(take(used, UInt128(now), at: now) == .first) }
        #expect(used.take(1, challengedAt: 1_000, now: 1_801, window: 3_600) == .forgotten)
        #expect(used.take(3, challengedAt: 1_500, now: 1_801, window: 3_600) == .first)
    }

    @Test("a full memory refuses, and has room again after a window")
    func bound() {
        let used = UsedProofs(limit: 2)
        #expect(take(used, 1, at: 1_000) == .first)
        #expect(take(used, 2, at: 1_000) == .first)
        #expect(take(used, 3, at: 1_000) == .full)
        #expect(take(used, 2, at: 1_000) == .repeated)
        #expect(take(used, 3, at: 1_300) == .first)
    }
}
