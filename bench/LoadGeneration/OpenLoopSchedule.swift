public import EventLoop

/// When each request of a constant-rate load is due, and which caller sends it.
///
/// Request `k` is due `k / rate` seconds after the start, whatever became of the requests before it, and belongs to
/// caller `k mod callers`. Latency is measured from the due time, so a server that stalls is charged for every
/// request it kept waiting and not only for the few that were under way ("coordinated omission").
public struct OpenLoopSchedule: Sendable {
    public let start: Instant
    public let callers: Int
    private let nanosecondsApart: Double

    /// - Parameter rate: requests per second over all callers, above 0.
    public init(start: Instant, rate: Double, callers: Int) {
        precondition(rate > 0 && callers > 0, "a schedule needs a rate and somebody to keep it")
        self.start = start
        self.callers = callers
        nanosecondsApart = 1e9 / rate
    }

    /// Computed from the start each time: adding up rounded intervals would drift.
    public func dueTime(of request: Int) -> Instant {
        Instant(nanoseconds: start.nanoseconds + Int64(Double(request) * nanosecondsApart))
    }

    /// How many requests are due at `now` or were before: the number of the next one to wait for.
    public func count(dueBy now: Instant) -> Int {
        guard now >= start else { return 0 }
        var count = Int(Double((now - start).nanoseconds) / nanosecondsApart) + 1
        // The division may land on the other side of a due time than the multiplication above.
        while count > 0, dueTime(of: count - 1) > now { count -= 1 }
        while dueTime(of: count) <= now { count += 1 }
        return count
    }

    public func caller(of request: Int) -> Int { request % callers }
}
