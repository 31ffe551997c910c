internal import EventLoop

/// Until when a client is waited for while its request is served: for the content, for the taking of the response, for the
/// rest of a request that is answered already. Anybody else who is waited for, a service or the registry, has a timeout of
/// his own.
///
/// A value: the connection tells it what happens, and sets the deadline that it says. All these waits are in here, so that
/// the end of one does not end another: a client may take nothing of the response while it still sends.
struct ClientTime {
    /// Longest pause.
    private let idle: TimeSpan
    /// Octets in a second beyond such pauses; 0 for any number.
    private let rate: Int
    /// The longest pause within the content of the request under way, at whatever rate it comes; nil: as above.
    private var contentIdle: TimeSpan?
    private var content = ContentPace()
    private var response = ContentPace()
    /// The client has more to send, and somebody takes it.
    private var awaitsContent = false
    /// The client does not take what is written.
    private var isBlocked = false
    /// The end of the time for reading over what is left of a request.
    private var rest: Instant?

    init(idle: TimeSpan, rate: Int) {
        self.idle = idle
        self.rate = rate
    }

    /// When the client is overdue, unless something happens; nil while it is not the client who is waited for.
    var end: Instant? {
        if let rest { return rest }
        switch (awaitsContent, isBlocked) {
        case (false, false): return nil
        case (true, false): return content.end
        case (false, true): return response.end
        case (true, true): return min(content.end, response.end)
        }
    }

    /// What the client is overdue with, now that `end` has passed.
    var debt: ClientDebt {
        isBlocked && (!awaitsContent || response.end <= content.end) ? .response : .content
    }

    // MARK: - What happens

    /// Between two requests, and before the first.
    mutating func reset(now: Instant) {
        awaitsContent = false
        isBlocked = false
        rest = nil
        contentIdle = nil
        response.begin(idle, now: now)
    }

    /// A head is complete, and content follows it.
    ///
    /// - Parameter isHeldBack: whether the client waits for 100 (Continue). The gateway may delay that, and until then
    ///   the client's time does not run.
    mutating func contentBegins(now: Instant, isHeldBack: Bool) {
        awaitsContent = !isHeldBack
        content.begin(idle, now: now)
    }

    mutating func contentCame(_ octets: Int, now: Instant) {
        // Of a client that holds it back and then does not.
        if !awaitsContent { contentWanted(now: now) }
        content.moved(octets, contentIdle ?? idle, rate: contentIdle == nil ? rate : 0, now: now)
    }

    /// Behind its head, a request turns out to be one whose content may come however slowly, with no longer pauses than this.
    mutating func allowPauses(of idle: TimeSpan, now: Instant) {
        contentIdle = idle
        content.begin(idle, now: now)
    }

    /// Content that has arrived is not taken: the client is not the slow side.
    mutating func contentHeld(now: Instant) {
        awaitsContent = false
        content.pause(now: now)
    }

    mutating func contentWanted(now: Instant) {
        awaitsContent = true
        content.resume(now: now)
    }

    mutating func contentEnded() { awaitsContent = false }

    /// The kernel has taken that many octets of the response and takes no more: the client does not read them. By what it
    /// reads, not by what it sends meanwhile, it gains time.
    mutating func responseBlocked(taken octets: Int, now: Instant) {
        if !isBlocked { response.resume(now: now) }
        if !isBlocked || octets > 0 { response.moved(octets, idle, rate: rate, now: now) }
        isBlocked = true
    }

    /// All was taken, these octets last.
    ///
    /// - Returns: whether the client was waited for.
    mutating func responseTaken(_ octets: Int, now: Instant) -> Bool {
        guard isBlocked else { return false }
        response.moved(octets, idle, rate: rate, now: now)
        isBlocked = false
        return true
    }

    /// Answered before the request was complete: the rest, which is little, is read over. It has a time in total, or a refused
    /// client would keep the connection with an octet now and then.
    ///
    /// - Returns: whether that was not so before.
    mutating func limitRest(to end: Instant) -> Bool {
        guard rest == nil else { return false }
        rest = end
        return true
    }
}
