internal import EventLoop

/// The schedule of export calls and the handling of spans whose call failed.
///
/// It is a value without I/O. Waits double from one failure to the next, up to a minute. Each is shortened randomly by
/// up to a half, so that gateways do not return to a collector at the same time. `Retry-After` can only lengthen a
/// wait.
struct ExportSchedule {
    enum Decision: Equatable {
        /// The spans are finished.
        case done(SpanExportCounts.SpanOutcome, rejected: Int)
        /// The spans are sent again after this time.
        case again(after: TimeSpan)
    }

    /// A change to be reported to the operator: calls begin to fail, or succeed again.
    enum Transition: Equatable {
        case failing(reason: String)
        case refused(reason: String)
        /// The collector accepts calls, but not all of their spans.
        case rejecting
        case recovered
    }

    private(set) var failures = 0
    /// The time since when the oldest spans could not be sent. Nil if nothing has failed.
    private var failingSince: Instant?
    private var reported: Transition?

    /// The time without a collector after which spans are discarded. Operators want to see recent ones.
    static let patience = TimeSpan.seconds(300)
    private static let longestWait: Int64 = 60_000
    /// Limit of `Retry-After` in seconds. A longer value is reduced to it.
    private static let longestRetryAfter: Int64 = 300

    /// Handles the end of a call.
    ///
    /// - Parameter chance: A random number from 0 to 1.
    mutating func ended(
        _ answer: ExportAnswer, at now: Instant, chance: Double
    ) -> (decision: Decision, news: Transition?) {
        switch answer {
        case .accepted(let rejected):
            failures = 0
            failingSince = nil
            if rejected > 0 { return (.done(.exported, rejected: rejected), news(.rejecting)) }
            let news: Transition? = reported == nil ? nil : .recovered
            reported = nil
            return (.done(.exported, rejected: 0), news)
        case .refused(let reason):
            // The collector works, so the next spans are sent at once.
            failures = 0
            failingSince = nil
            return (.done(.refused, rejected: 0), news(.refused(reason: reason)))
        case .again(let after, let reason):
            let since = failingSince ?? now
            failingSince = since
            failures += 1
            let news = news(.failing(reason: reason))
            let wait = wait(atLeast: after, chance)
            guard now + wait - since <= Self.patience else {
                // The next spans start with a new period, but wait as long.
                failingSince = nil
                return (.done(.expired, rejected: 0), news)
            }
            return (.again(after: wait), news)
        }
    }

    /// The wait of the next spans after others were discarded.
    var pause: TimeSpan { failures == 0 ? TimeSpan(nanoseconds: 0) : .milliseconds(longest) }

    private var longest: Int64 { min(Self.longestWait, 1_000 << Int64(min(max(0, failures - 1), 10))) }

    private func wait(atLeast seconds: Int64?, _ chance: Double) -> TimeSpan {
        let own = Int64(Double(longest) * (1 - chance / 2))
        return .milliseconds(max(own, min(seconds ?? 0, Self.longestRetryAfter) * 1_000))
    }

    /// Returns the transition unless the last one was equal.
    private mutating func news(_ news: Transition) -> Transition? {
        switch (reported, news) {
        case (.failing, .failing), (.refused, .refused), (.rejecting, .rejecting): return nil
        default:
            reported = news
            return news
        }
    }
}
