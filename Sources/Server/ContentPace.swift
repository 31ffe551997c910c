internal import EventLoop

/// How much time a client has for content. It begins with the time for which it may pause, which is also the maximum;
/// each byte adds the time that it takes at the lowest rate admitted. The whole has no limit: a client that keeps the
/// rate may continue for ever, and one that sends a byte now and then runs out of time.
///
/// The time in which content waits for somebody else than the client does not count.
struct ContentPace {
    private var left = TimeSpan(nanoseconds: 0)
    private var since = Instant(nanoseconds: 0)

    /// When the client's time is over, unless more comes.
    var end: Instant { since + left }

    mutating func begin(_ idle: TimeSpan, now: Instant) {
        left = idle
        since = now
    }

    /// - Parameter rate: octets in a second; 0 for none.
    mutating func moved(_ octets: Int, _ idle: TimeSpan, rate: Int, now: Instant) {
        if rate == 0 {
            left = idle
        } else {
            subtractElapsed(now)
            let gained = Int64(octets) * 1_000_000_000 / Int64(rate)
            left = min(idle, TimeSpan(nanoseconds: left.nanoseconds + gained))
        }
        since = now
    }

    /// From now on it is not the client who is waited for.
    mutating func pause(now: Instant) { subtractElapsed(now) }

    mutating func resume(now: Instant) { since = now }

    private mutating func subtractElapsed(_ now: Instant) {
        left = max(TimeSpan(nanoseconds: 0), TimeSpan(nanoseconds: left.nanoseconds - (now - since).nanoseconds))
    }
}
