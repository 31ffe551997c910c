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
