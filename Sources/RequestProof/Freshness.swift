/// Whether a proof is of now. Every verdict but `fresh` leads to `proof_stale`.
public enum Freshness: Equatable, Sendable, CaseIterable {
    case fresh
    /// Made more than `tolerance` in the future: the client's clock is fast.
    case ahead
    /// Made longer ago than the greatest age admitted.
    case tooOld
    /// Made before its challenge was issued, by more than `tolerance`.
    case precedesChallenge
    /// Its own `expires` has come.
    case expired

    /// How far a client's clock may be ahead of ours, and behind it when the challenge is fresh, in seconds.
    public static let tolerance: Int64 = 60

    /// All times are seconds since 1970.
    ///
    /// - Parameters:
    ///   - maxAge: the greatest age in seconds, not negative.
    ///   - challengeIssuedAt: when the challenge in the proof's nonce was made.
    public static func check(
        created: Int64, expires: Int64?, now: Int64, maxAge: Int64, challengeIssuedAt: Int64
    ) -> Freshness {
        if created > sum(now, tolerance) { return .ahead }
        if sum(created, maxAge) < now { return .tooOld }
        if sum(created, tolerance) < challengeIssuedAt { return .precedesChallenge }
        // At its very second the proof has expired already: the strictest reading of RFC 9421 section 2.3.
        if let expires, expires <= now { return .expired }
        return .fresh
    }

    /// Saturates, so that no claimed time overflows.
    private static func sum(_ time: Int64, _ seconds: Int64) -> Int64 {
        let (sum, overflows) = time.addingReportingOverflow(seconds)
        guard overflows else { return sum }
        return seconds < 0 ? .min : .max
    }
}
