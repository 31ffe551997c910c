public import EventLoop

/// What of a constant-rate schedule is due, begun, and waiting.
///
/// Every caller sends its own requests in order. One that is busy when its next request falls due sends it as soon
/// as it is free; until then the request is part of the backlog. Nothing is stored per request, so a server that stalls
/// cannot make the queue grow.
public struct OpenLoopQueue: Sendable {
    private let schedule: OpenLoopSchedule
    /// The next request of each caller, due or not.
    private var next: [Int]
    /// Requests whose callers know that they are due.
    private var announced = 0
    private var begun = 0
    private var largestBacklog = 0

    public init(_ schedule: OpenLoopSchedule) {
        self.schedule = schedule
        next = Array(0..<schedule.callers)
    }

    /// When `announce` is to be called next.
    public var nextDue: Instant { schedule.dueTime(of: announced) }

    /// - Returns: the requests that fell due since the last call; their callers are `caller(of:)`. Not more than
    ///   one for each caller, however many of its requests are due: the others follow the first.
    public mutating func announce(_ now: Instant) -> Range<Int> {
        let count = schedule.count(dueBy: now)
        let first = max(announced, count - schedule.callers)
        announced = max(announced, count)
        return min(first, announced)..<announced
    }

    public func caller(of request: Int) -> Int { schedule.caller(of: request) }

    /// Takes the next request of a caller if it is due. - Returns: when it was due.
    public mutating func take(for caller: Int, _ now: Instant) -> Instant? {
        let due = schedule.dueTime(of: next[caller])
        guard due <= now else { return nil }
        next[caller] += schedule.callers
        begun += 1
        return due
    }

    /// Notes how many requests wait, to be called when those just announced were begun as far as they can be.
    public mutating func noteBacklog(_ now: Instant) {
        largestBacklog = max(largestBacklog, schedule.count(dueBy: now) - begun)
    }

    /// Resets the largest backlog.
    public mutating func forgetBacklog() {
        largestBacklog = 0
    }

    /// How the schedule stands at its end: what is due and not begun will never be.
    public func backlog(_ now: Instant) -> Backlog {
        Backlog(largest: largestBacklog, unsent: schedule.count(dueBy: now) - begun)
    }
}

/// Requests that were due while their caller was still busy with an earlier one.
public struct Backlog: Equatable, Sendable {
    /// Most at any moment of the measurement.
    public let largest: Int
    /// Still waiting when the measurement ended, and not sent any more.
    public let unsent: Int
}
