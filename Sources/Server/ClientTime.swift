internal import EventLoop

/// The deadlines of a client while its request is served: for the content, for reading the response, and for the rest
/// of a request that is answered already. An upstream or the registry has timeouts of its own.
///
/// A value: the connection reports events to it and sets the deadline that it returns. It holds all these waits, so
/// that the end of one does not end another: a client may read nothing of the response while it still sends.
struct ClientTime {
    /// The longest pause.
    private let idle: TimeSpan
    /// Bytes per second beyond such pauses; 0 for no minimum.
    private let rate: Int
    /// The longest pause within the content of the request in flight, at any rate; nil for `idle` and `rate`.
    private var contentIdle: TimeSpan?
    private var content = ContentPace()
    private var response = ContentPace()
    /// Whether the client has more content to send, and the exchange takes it.
    private var awaitsContent = false
    /// Whether the client does not read what is written.
    private var isBlocked = false
    /// The deadline for discarding the rest of a request.
    private var rest: Instant?

    init(idle: TimeSpan, rate: Int) {
        self.idle = idle
        self.rate = rate
    }

    /// The time at which the client is overdue; nil while nothing is expected of the client.
    var end: Instant? {
        if let rest { return rest }
        switch (awaitsContent, isBlocked) {
        case (false, false): return nil
        case (true, false): return content.end
        case (false, true): return response.end
        case (true, true): return min(content.end, response.end)
        }
    }

    /// What the client has failed to do, once `end` has passed.
    var debt: ClientDebt {
        isBlocked && (!awaitsContent || response.end <= content.end) ? .response : .content
    }

    // MARK: - Events

    /// Prepares for the next request.
    mutating func reset(now: Instant) {
        awaitsContent = false
        isBlocked = false
        rest = nil
        contentIdle = nil
        response.begin(idle, now: now)
    }

    /// Begins the time for content after a complete head.
    ///
    /// - Parameter isHeldBack: Whether the client waits for 100 (Continue). The gateway may delay that, and until
    ///   then the client's time does not run.
    mutating func contentBegins(now: Instant, isHeldBack: Bool) {
        awaitsContent = !isHeldBack
        content.begin(idle, now: now)
    }

    mutating func contentCame(_ bytes: Int, now: Instant) {
        // The client announced that it would wait for 100 (Continue), and did not.
        if !awaitsContent { contentWanted(now: now) }
        content.moved(bytes, contentIdle ?? idle, rate: contentIdle == nil ? rate : 0, now: now)
    }

    /// Lets the content of the request arrive at any rate, with pauses no longer than this.
    mutating func allowPauses(of idle: TimeSpan, now: Instant) {
        contentIdle = idle
        content.begin(idle, now: now)
    }

    /// Pauses the client's time: the exchange does not take the content that has arrived.
    mutating func contentHeld(now: Instant) {
        awaitsContent = false
        content.pause(now: now)
    }

    mutating func contentWanted(now: Instant) {
        awaitsContent = true
        content.resume(now: now)
    }

    mutating func contentEnded() { awaitsContent = false }

    /// Records that the kernel has taken these bytes of the response and no more: the client does not read. The
    /// client gains time by what it reads, not by what it sends meanwhile.
    mutating func responseBlocked(taken bytes: Int, now: Instant) {
        if !isBlocked { response.resume(now: now) }
        if !isBlocked || bytes > 0 { response.moved(bytes, idle, rate: rate, now: now) }
        isBlocked = true
    }

    /// Records that the kernel has taken everything, these bytes last.
    ///
    /// - Returns: Whether the client was waited for.
    mutating func responseTaken(_ bytes: Int, now: Instant) -> Bool {
        guard isBlocked else { return false }
        response.moved(bytes, idle, rate: rate, now: now)
        isBlocked = false
        return true
    }

    /// Limits the time for discarding the rest of a request that was answered before it was complete. It is a total,
    /// so that a refused client cannot keep the connection by sending a byte now and then.
    ///
    /// - Returns: Whether no limit was set before.
    mutating func limitRest(to end: Instant) -> Bool {
        guard rest == nil else { return false }
        rest = end
        return true
    }
}

/// The time that a client has left for content. It begins with the longest pause, which is also the maximum; each
/// byte adds the time that it takes at the minimum rate. The total has no limit: a client that keeps the rate may
/// continue, and one that sends a byte now and then runs out of time.
///
/// Time in which content waits for something else than the client does not count.
struct ContentPace {
    private var left = TimeSpan(nanoseconds: 0)
    private var since = Instant(nanoseconds: 0)

    /// The time at which the client is overdue if no more bytes move.
    var end: Instant { since + left }

    mutating func begin(_ idle: TimeSpan, now: Instant) {
        left = idle
        since = now
    }

    /// Adds the time of bytes that have moved.
    ///
    /// - Parameter rate: The minimum, in bytes per second; 0 for none.
    mutating func moved(_ bytes: Int, _ idle: TimeSpan, rate: Int, now: Instant) {
        if rate == 0 {
            left = idle
        } else {
            subtractElapsed(now)
            let gained = Int64(bytes) * 1_000_000_000 / Int64(rate)
            left = min(idle, TimeSpan(nanoseconds: left.nanoseconds + gained))
        }
        since = now
    }

    /// Stops the client's time.
    mutating func pause(now: Instant) { subtractElapsed(now) }

    mutating func resume(now: Instant) { since = now }

    private mutating func subtractElapsed(_ now: Instant) {
        left = max(TimeSpan(nanoseconds: 0), TimeSpan(nanoseconds: left.nanoseconds - (now - since).nanoseconds))
    }
}

/// What a client has failed to do in time.
public enum ClientDebt: Equatable, Sendable {
    /// To send what is left of the content.
    case content
    /// To read the response.
    case response
}
