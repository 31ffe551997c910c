internal import EventLoop

/// When the next call may begin, and what becomes of spans whose call has failed.
///
/// A value without I/O. Waits double from one failure to the next, up to a minute, each shortened by chance by up to a half, so
/// that gateways do not come back to a collector all at once; `Retry-After` makes them longer, never shorter.
struct ExportSchedule {
    enum Decision: Equatable {
        /// The spans are done with.
        case done(SpanExportCounts.SpanOutcome, rejected: Int)
        /// They are sent again, after that time.
        case again(after: TimeSpan)
    }

    /// A change that is reported to the operator: it begins to fail, or it works again.
    enum Transition: Equatable {
        case failing(reason: String)
        case refused(reason: String)
        /// The collector takes calls, but not all that is in them.
        case rejecting
        case recovered
    }

    private(set) var failures = 0
    /// Since when the oldest spans could not be sent; nil if nothing has failed.
    private var failingSince: Instant?
    private var reported: Transition?

    /// How long a collector may be away until spans are given up: who looks at them wants to see what is.
    static let patience = TimeSpan.seconds(300)
    private static let longestWait: Int64 = 60_000
    /// A collector that asks for more is asked again after this.
    private static let longestRetryAfter: Int64 = 300

    /// - Parameter chance: 0 to 1.
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
            // The collector is there: the next spans are sent at once.
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
                // The time of the next spans begins again, but they wait as long.
                failingSince = nil
                return (.done(.expired, rejected: 0), news)
            }
            return (.again(after: wait), news)
        }
    }

    /// How long what comes next waits, after spans were given up.
    var pause: TimeSpan { failures == 0 ? TimeSpan(nanoseconds: 0) : .milliseconds(longest) }

    private var longest: Int64 { min(Self.longestWait, 1_000 << Int64(min(max(0, failures - 1), 10))) }

    private func wait(atLeast seconds: Int64?, _ chance: Double) -> TimeSpan {
        let own = Int64(Double(longest) * (1 - chance / 2))
        return .milliseconds(max(own, min(seconds ?? 0, Self.longestRetryAfter) * 1_000))
    }

    /// Once for each kind of fault in a row.
    private mutating func news(_ news: Transition) -> Transition? {
        switch (reported, news) {
        case (.failing, .failing), (.refused, .refused), (.rejecting, .rejecting): return nil
        default:
            reported = news
            return news
        }
    }
}
