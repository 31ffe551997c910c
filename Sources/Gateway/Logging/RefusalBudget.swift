/// How many lines about refusals are written in one second: a flood of them must not fill the disk. The others are counted.
struct RefusalBudget {
    private let limit: Int
    private var second: Int64 = 0
    private var used = 0
    private var suppressed: UInt64 = 0

    /// - Parameter limit: lines in each second.
    init(limit: Int) {
        self.limit = limit
    }

    /// Whether one more line may be written.
    ///
    /// - Parameter now: in whole seconds of any clock.
    mutating func admits(at now: Int64) -> Bool {
        if now != second {
            second = now
            used = 0
        }
        guard used < limit else {
            suppressed += 1
            return false
        }
        used += 1
        return true
    }

    /// Whether lines were suppressed and not yet reported.
    var owesCount: Bool { suppressed > 0 }

    /// How many lines were left out since it was asked last; nil if none, or if their second is not over yet.
    mutating func takeSuppressed(at now: Int64) -> UInt64? {
        guard suppressed > 0, now != second else { return nil }
        defer { suppressed = 0 }
        return suppressed
    }
}
