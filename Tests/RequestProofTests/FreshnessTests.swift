import RequestProof
import Testing

@Suite("Proof freshness")
struct FreshnessTests {
    private static let now: Int64 = 1_763_690_000

    private func check(
        created: Int64, expires: Int64? = nil, maxAge: Int64 = 300, issued: Int64 = now - 200
    ) -> Freshness {
        Freshness.check(
            created: Self.now + created, expires: expires.map { Self.now + $0 }, now: Self.now, maxAge: maxAge,
            challengeIssuedAt: issued)
    }

    @Test("a proof is at most 60 seconds ahead")
    func ahead() {
        #expect(check(created: 0) == .fresh)
        #expect(check(created: 60) == .fresh)
        #expect(check(created: 61) == .ahead)
    }

    @Test("a proof is not older than the maximum age")
    func tooOld() {
        #expect(check(created: -300, issued: Self.now - 300) == .fresh)
        #expect(check(created: -301, issued: Self.now - 300) == .tooOld)
        #expect(check(created: -1, maxAge: 0) == .tooOld)
        #expect(check(created: 0, maxAge: 0) == .fresh)
    }

    @Test("a proof is not older than its challenge, with a minute's tolerance")
    func challenge() {
        #expect(check(created: -160, issued: Self.now - 100) == .fresh)
        #expect(check(created: -161, issued: Self.now - 100) == .precedesChallenge)
    }

    @Test("a proof does not expire at or before its creation")
    func expired() {
        #expect(check(created: 0, expires: 1) == .fresh)
        #expect(check(created: 0, expires: 0) == .expired)
        #expect(check(created: 0, expires: -1) == .expired)
        #expect(check(created: 30, expires: 20) == .fresh)
    }

    @Test(
        "times at the ends of the range do not overflow", arguments: [0, 1, 999_999_999_999_999, Int64.max, Int64.min])
    func extremes(_ time: Int64) {
        for other in [0, Int64.max, Int64.min, 999_999_999_999_999] {
            let verdict = Freshness.check(
                created: time, expires: other, now: other, maxAge: .max, challengeIssuedAt: other)
            #expect(verdict != .fresh)
        }
    }
}
