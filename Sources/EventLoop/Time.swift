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

/// How often something may be done: evenly, and so many times at once.
public struct Rate: Equatable, Sendable {
    /// How many may come at once, after a pause.
    public let burst: Int
    /// From one to the next, on average.
    let interval: TimeSpan

    /// - Parameters:
    ///   - count: how many in each period, at least 1.
    ///   - burst: at least 1.
    public init(_ count: Int, per period: TimeSpan, burst: Int) {
        precondition(count >= 1 && burst >= 1, "a rate of zero")
        self.burst = burst
        interval = TimeSpan(nanoseconds: max(1, period.nanoseconds / Int64(count)))
    }

    /// How long a bucket takes that was emptied at once to fill up again.
    public var refill: TimeSpan { TimeSpan(nanoseconds: interval.nanoseconds * Int64(burst)) }
}

/// A bucket of tokens that fills up evenly, one for each thing done: as the one number that it takes to know its level.
///
/// A full bucket therefore need not be stored, and the rate can change at any time.
public struct TokenBucket: Sendable {
    /// When it will be full again, if nothing is taken; the bucket is full if that has passed.
    public private(set) var fullAt = Instant(nanoseconds: .min)

    public init() {}

    public func isFull(at now: Instant) -> Bool { fullAt <= now }

    /// Takes a token.
    ///
    /// - Returns: nil if there was one; else how long until there is, and nothing was taken.
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
    /// Rounded up, and at least 1: how long a client should wait.
    public var wholeSeconds: Int { max(1, Int((nanoseconds + 999_999_999) / 1_000_000_000)) }
}
