internal import Glibc

/// A point on the monotonic clock, in nanoseconds since an arbitrary start. Never wall-clock time.
public struct Instant: Comparable, Sendable {
    public var nanoseconds: Int64

    @inlinable public init(nanoseconds: Int64) {
        self.nanoseconds = nanoseconds
    }

    public static var now: Instant { Instant(nanoseconds: read(CLOCK_MONOTONIC)) }

    @inlinable public static func < (left: Instant, right: Instant) -> Bool { left.nanoseconds < right.nanoseconds }
    @inlinable public static func + (instant: Instant, span: TimeSpan) -> Instant {
        Instant(nanoseconds: instant.nanoseconds + span.nanoseconds)
    }
    @inlinable public static func - (later: Instant, earlier: Instant) -> TimeSpan {
        TimeSpan(nanoseconds: later.nanoseconds - earlier.nanoseconds)
    }

    static func read(_ clock: clockid_t) -> Int64 {
        var time = timespec()
        clock_gettime(clock, &time)
        return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
    }
}

/// A length of time in nanoseconds.
public struct TimeSpan: Comparable, Sendable {
    public var nanoseconds: Int64

    @inlinable public init(nanoseconds: Int64) {
        self.nanoseconds = nanoseconds
    }

    @inlinable public static func milliseconds(_ count: Int64) -> TimeSpan { TimeSpan(nanoseconds: count * 1_000_000) }
    @inlinable public static func seconds(_ count: Int64) -> TimeSpan { TimeSpan(nanoseconds: count * 1_000_000_000) }
    @inlinable public static func < (left: TimeSpan, right: TimeSpan) -> Bool { left.nanoseconds < right.nanoseconds }
}

/// Wall-clock time, for certificates and logs only.
public enum WallClock {
    /// Seconds since 1970-01-01T00:00:00Z.
    public static var seconds: Int64 { microseconds / 1_000_000 }
    /// Microseconds since 1970-01-01T00:00:00Z.
    public static var microseconds: Int64 { Instant.read(CLOCK_REALTIME) / 1_000 }
}

/// A rate limit: an average rate and a burst.
public struct Rate: Equatable, Sendable {
    /// The number of events that may occur at once after a pause.
    public let burst: Int
    /// The average time between two events.
    let interval: TimeSpan

    /// Creates a rate.
    ///
    /// - Parameters:
    ///   - count: the number of events in each period, at least 1.
    ///   - burst: the number of events at once, at least 1.
    public init(_ count: Int, per period: TimeSpan, burst: Int) {
        precondition(count >= 1 && burst >= 1, "a rate of zero")
        self.burst = burst
        interval = TimeSpan(nanoseconds: max(1, period.nanoseconds / Int64(count)))
    }

    /// The time in which an empty bucket fills up.
    public var refill: TimeSpan { TimeSpan(nanoseconds: interval.nanoseconds * Int64(burst)) }
}

/// A token bucket that fills evenly. It stores one number, from which its level follows.
///
/// A full bucket therefore need not be stored, and the rate can change at any time.
public struct TokenBucket: Sendable {
    /// The time at which the bucket is full again if nothing is taken. The bucket is full once that has passed.
    public private(set) var fullAt = Instant(nanoseconds: .min)

    public init() {}

    /// Takes a token.
    ///
    /// - Returns: nil on success, otherwise the time until a token is available.
    public mutating func take(_ rate: Rate, now: Instant) -> TimeSpan? {
        let base = max(fullAt, now)
        let missing = TimeSpan(nanoseconds: (base - now).nanoseconds + rate.interval.nanoseconds)
        guard missing <= rate.refill else {
            return TimeSpan(nanoseconds: missing.nanoseconds - rate.refill.nanoseconds)
        }
        fullAt = base + rate.interval
        return nil
    }
}

extension TimeSpan {
    /// The span in seconds, rounded up and at least 1: the time that a client should wait.
    public var wholeSeconds: Int { max(1, Int((nanoseconds + 999_999_999) / 1_000_000_000)) }
}
