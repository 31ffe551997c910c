internal import Synchronization

/// What the workers and configurations of a process share of client attestations: the secret of its challenges, and
/// which proofs of possession it has accepted.
///
/// Challenges are of one process, because only its memory knows the proofs that were accepted with them. So a proof is
/// accepted once by all processes together, also after a restart.
final class SharedAttestations: Sendable {
    let used = UsedProofs()
    /// 32 random bytes.
    let secret: [UInt8]
    /// 16 random bytes.
    let id: [UInt8]

    init() {
        var random = SystemRandomNumberGenerator()
        secret = (0..<32).map { _ in UInt8.random(in: .min ... .max, using: &random) }
        id = (0..<16).map { _ in UInt8.random(in: .min ... .max, using: &random) }
    }
}

/// A bounded set of the proofs of possession that were accepted in the last while.
///
/// It has two generations. At the end of a window the younger one becomes the older, and the older is forgotten: each
/// proof is remembered for one to two windows, and none is looked for to be removed.
final class UsedProofs: Sendable {
    enum Verdict {
        case first
        case repeated
        /// Proofs with such an old challenge may have been forgotten.
        case forgotten
        /// No further proof can be remembered now.
        case full
    }

    private struct Generations {
        /// The times in seconds since 1970 at which they began.
        var (begin, earlierBegin): (Int64, Int64) = (0, 0)
        var present: Set<UInt128> = []
        var earlier: Set<UInt128> = []
    }

    private let generations = Mutex(Generations())
    private let limit: Int

    /// - Parameter limit: The maximum of proofs in a window; each takes about 32 bytes.
    init(limit: Int = 1 << 19) {
        self.limit = limit
    }

    /// Takes a proof that has passed all other checks.
    ///
    /// - Parameters:
    ///   - proof: A digest of its key and its id.
    ///   - challengedAt: When its challenge was issued, in seconds since 1970.
    ///   - window: The life of challenges in seconds.
    func take(_ proof: UInt128, challengedAt: Int64, now: Int64, window: Int64) -> Verdict {
        generations.withLock { all in
            if now >= all.begin + window {
                // What began before this process has challenges of another secret.
                all.earlierBegin = all.begin
                all.earlier = all.present
                all.begin = now
                all.present = []
            }
            // The life may have become longer by a reload.
            guard challengedAt >= all.earlierBegin else { return .forgotten }
            guard !all.present.contains(proof), !all.earlier.contains(proof) else { return .repeated }
            guard all.present.count < limit else { return .full }
            all.present.insert(proof)
            return .first
        }
    }
}
