internal import EventLoop

/// The schedule of calls to Apple: how many may begin, and when a device is due again. It is a value whose caller
/// passes the time.
struct RefreshSchedule {
    struct Rules {
        /// The number of simultaneous calls.
        var concurrency: Int
        var callsPerMinute: Int
        /// The minimum number of seconds between two calls about one device.
        var interval: Int64
        /// The number of seconds from a failure to the next attempt, doubled with each.
        var retry: Int64
    }

    /// The reason why calls are paused.
    enum Pause: String, CaseIterable {
        /// 401: an operator must correct the key or the team.
        case tokenRefused = "token_refused"
        /// 429.
        case throttled
        /// Several successive calls failed.
        case failing
    }

    let rules: Rules
    private var generator: any RandomNumberGenerator
    private(set) var underWay = 0
    private var nextStart = Instant(nanoseconds: 0)
    private(set) var pause: (reason: Pause, until: Instant)?
    private var failuresInARow = 0

    static let day: Int64 = 86_400
    /// The number of successive failures that are attributed to the service instead of a device.
    private static let patience = 3

    init(_ rules: Rules, generator: any RandomNumberGenerator = SystemRandomNumberGenerator()) {
        self.rules = rules
        self.generator = generator
    }

    // MARK: - Calls

    /// Reserves a place for a call, if one may begin now. Calls begin evenly, because a burst would otherwise occur
    /// every minute.
    mutating func begin(at now: Instant) -> Bool {
        guard underWay < rules.concurrency, wait(at: now).nanoseconds == 0 else { return false }
        underWay += 1
        nextStart = now + TimeSpan(nanoseconds: 60_000_000_000 / Int64(rules.callsPerMinute))
        return true
    }

    /// Returns the time until a call may begin if a place is free. Zero if it may begin now.
    func wait(at now: Instant) -> TimeSpan {
        let start = max(nextStart, pause?.until ?? nextStart)
        return max(TimeSpan(nanoseconds: 0), start - now)
    }

    var isFull: Bool { underWay >= rules.concurrency }

    func isPaused(at now: Instant) -> Bool { pause.map { now < $0.until } ?? false }

    /// Handles the end of a call.
    ///
    /// - Returns: whether a new pause begins.
    mutating func ended(_ answer: RefreshAnswer, at now: Instant) -> Bool {
        underWay -= 1
        switch answer {
        case .receipt, .unchanged, .malformed, .unknown:
            failuresInARow = 0
            return false
        case .tokenRefused: return halt(.tokenRefused, Self.tokenPause, at: now)
        case .tooMany(let wanted):
            return halt(.throttled, min(max(wanted ?? Self.usualPause, rules.retry), Self.day), at: now)
        case .failed:
            failuresInARow += 1
            guard failuresInARow >= Self.patience else { return false }
            return halt(.failing, doubled(rules.retry, failuresInARow - Self.patience, atMost: 3_600), at: now)
        }
    }

    /// Continues a pause that began under earlier settings.
    mutating func resume(_ earlier: (reason: Pause, until: Instant)?) {
        // The new configuration may contain the operator's correction.
        guard let earlier, earlier.reason != .tokenRefused else { return }
        pause = earlier
    }

    private mutating func halt(_ reason: Pause, _ seconds: Int64, at now: Instant) -> Bool {
        let isNew = !isPaused(at: now)
        let until = now + .seconds(seconds)
        if isNew || pause.map({ $0.until < until }) ?? true { pause = (reason, until) }
        return isNew
    }

    /// The pause in seconds after a 401. A wrong key or team stays wrong until an operator corrects it.
    private static let tokenPause: Int64 = 3_600
    /// The pause in seconds after a 429 without Retry-After.
    private static let usualPause: Int64 = 900

    // MARK: - Devices

    /// Returns the time when a device is due again in seconds since 1970, or nil for never.
    ///
    /// - Parameters:
    ///   - notBefore: Field 19 of the receipt that is now stored.
    ///   - failures: The number of successive failures, including this one.
    mutating func next(
        after outcome: DeviceOutcome, notBefore: Int64?, failures: Int, now: Int64, at instant: Instant
    ) -> Int64? {
        switch outcome {
        case .refreshed, .unchanged:
            // Never before the time in the receipt. The random part is added to it.
            return max(notBefore ?? 0, now + rules.interval) + drawn(rules.interval / 10)
        case .waiting: return max(notBefore ?? 0, now) + drawn(rules.interval / 10)
        case .malformed, .refused:
            return now + backedOff(rules.interval, failures, atMost: 30 * Self.day)
        case .failed: return now + backedOff(rules.retry, failures, atMost: Self.day)
        case .paused:
            let left = pause.map { max(0, ($0.until - instant).nanoseconds / 1_000_000_000) } ?? 0
            return now + left + 1 + drawn(rules.retry)
        case .unknown, .unverified: return now + 30 * Self.day + drawn(Self.day)
        case .unasked: return now + Self.day
        case .expired: return nil
        }
    }

    /// An outcome like `Registry.ReceiptOutcome`. A call that only causes a pause says nothing about its device.
    enum DeviceOutcome {
        case refreshed, unchanged, waiting, malformed, unknown, refused, expired, unverified, unasked, failed, paused
    }

    private mutating func backedOff(_ first: Int64, _ failures: Int, atMost limit: Int64) -> Int64 {
        let span = doubled(first, failures - 1, atMost: max(limit, first))
        // At least half, so that devices that failed together do not return together.
        return max(1, span / 2 + drawn(span - span / 2))
    }

    private func doubled(_ first: Int64, _ times: Int, atMost limit: Int64) -> Int64 {
        var span = first
        for _ in 0..<max(0, min(times, 40)) where span < limit { span *= 2 }
        return min(span, limit)
    }

    /// Returns a random number from 0 to `most`.
    private mutating func drawn(_ most: Int64) -> Int64 { most > 0 ? Int64.random(in: 0...most, using: &generator) : 0 }
}
