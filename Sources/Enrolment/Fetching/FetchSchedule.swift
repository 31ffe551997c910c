package import EventLoop

/// The schedule of fetches of content that is kept, such as the status list. It is a value whose caller passes the time.
package struct FetchSchedule {
    package struct Rules: Equatable {
        /// The number of seconds between two fetches.
        package var interval: Int64
        /// The number of seconds from a failure to the next attempt, doubled with each.
        package var retry: Int64
        /// The maximum age of the content in seconds.
        package var staleAfter: Int64

        package init(interval: Int64, retry: Int64, staleAfter: Int64) {
            self.interval = interval
            self.retry = retry
            self.staleAfter = staleAfter
        }
    }

    package enum Outcome: Equatable {
        /// The source has confirmed the content or sent a new one.
        ///
        /// - maxAge: `max-age` of its Cache-Control.
        case confirmed(maxAge: Int64?)
        /// There is no answer, or content that is not taken.
        ///
        /// - retryAfter: The value of its Retry-After in seconds.
        case failed(retryAfter: Int64?)
    }

    let rules: Rules
    private var generator: any RandomNumberGenerator
    private var failures = 0
    /// The time of the next fetch.
    package private(set) var due = Instant(nanoseconds: 0)

    /// The factor by which Cache-Control may shorten or lengthen the interval.
    private static let stretch: Int64 = 4
    private static let day: Int64 = 86_400

    package init(_ rules: Rules, generator: any RandomNumberGenerator = SystemRandomNumberGenerator()) {
        self.rules = rules
        self.generator = generator
    }

    /// Schedules the first fetch. Content that was confirmed lately is not fetched at each start.
    ///
    /// - Parameter age: The number of seconds since the content was confirmed. Nil if there is none.
    package mutating func begin(age: Int64?, at now: Instant) {
        failures = 0
        due = now + .seconds(age.map { max(0, rules.interval - $0) } ?? 0)
    }

    /// Schedules the fetch after one that has ended.
    package mutating func ended(_ outcome: Outcome, at now: Instant) {
        switch outcome {
        case .confirmed(let maxAge):
            failures = 0
            let span = span(maxAge)
            // Gateways that started together do not fetch together.
            due = now + .seconds(span + drawn(span / 10))
        case .failed(let retryAfter):
            failures += 1
            let span = doubled(rules.retry, failures - 1, atMost: max(rules.interval, rules.retry))
            let wait = max(1, span / 2 + drawn(span - span / 2))
            due = now + .seconds(max(wait, min(retryAfter ?? 0, Self.day)))
        }
    }

    /// Whether the last fetch has failed.
    package var hasFailed: Bool { failures > 0 }

    /// Schedules a fetch now, before it is due.
    mutating func hurry(at now: Instant) { due = min(due, now) }

    /// Returns the number of seconds to the next fetch: what Cache-Control says, within limits around the interval. A
    /// lifetime that has no effect on freshness (0) is no statement.
    private func span(_ maxAge: Int64?) -> Int64 {
        guard let maxAge, maxAge > 0 else { return rules.interval }
        let shortest = max(1, rules.interval / Self.stretch)
        // Three failures in a row must not make the content stale.
        let longest = max(rules.interval, min(rules.interval * Self.stretch, rules.staleAfter / Self.stretch))
        return min(max(maxAge, shortest), longest)
    }

    private func doubled(_ first: Int64, _ times: Int, atMost limit: Int64) -> Int64 {
        var span = first
        for _ in 0..<max(0, min(times, 40)) where span < limit { span *= 2 }
        return min(span, limit)
    }

    /// Returns a random number from 0 to `most`.
    private mutating func drawn(_ most: Int64) -> Int64 { most > 0 ? Int64.random(in: 0...most, using: &generator) : 0 }
}
