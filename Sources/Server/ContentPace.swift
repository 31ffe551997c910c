internal import EventLoop

/// How much time a client has for content: to begin with, and at most, as long as it may pause; and with each octet what
/// that takes at the lowest rate admitted. There is no limit to the whole: whoever keeps the rate may go on for ever, and
/// whoever sends an octet now and then comes to an end.
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
            settle(now)
            let gained = Int64(octets) * 1_000_000_000 / Int64(rate)
            left = min(idle, TimeSpan(nanoseconds: left.nanoseconds + gained))
        }
        since = now
    }

    /// From now on it is not the client who is waited for.
    mutating func pause(now: Instant) { settle(now) }

    mutating func resume(now: Instant) { since = now }

    private mutating func settle(_ now: Instant) {
        left = max(TimeSpan(nanoseconds: 0), TimeSpan(nanoseconds: left.nanoseconds - (now - since).nanoseconds))
    }
}
