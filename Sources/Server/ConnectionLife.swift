internal import EventLoop

/// The shutdown state of an HTTP/2 connection: a value without I/O.
struct ConnectionLife {
    enum Phase: Equatable {
        case serving
        /// The client was asked to begin no more requests; those on their way are still served.
        case announced
        /// The last GOAWAY names the last stream. Requests in flight are completed.
        case ending
        /// Everything is sent; what still arrives is discarded until the client closes.
        case lingering
    }

    private(set) var phase = Phase.serving
    /// The time after which no request sent before the announcement can be on its way.
    private(set) var noticeEnd: Instant?
    /// The last GOAWAY is still to be sent.
    private var isFinalDue = false

    /// An upper bound of a round trip, on slow networks too.
    static let notice = TimeSpan.seconds(1)

    /// Whether new requests are served.
    var takesRequests: Bool { phase == .serving || phase == .announced }

    /// Begins the shutdown.
    ///
    /// - Returns: Whether the first GOAWAY has to be sent now.
    mutating func announce(now: Instant) -> Bool {
        guard phase == .serving else { return false }
        phase = .announced
        noticeEnd = now + Self.notice
        return true
    }

    /// Refuses all requests that have not begun.
    mutating func endNow() {
        guard takesRequests else { return }
        phase = .ending
        noticeEnd = nil
        isFinalDue = true
    }

    mutating func timePassed(now: Instant) {
        if let noticeEnd, noticeEnd <= now { endNow() }
    }

    /// Returns whether the last GOAWAY has to be sent. Called right before output is written, so that no request can
    /// arrive in between.
    mutating func takeFinalNotice() -> Bool {
        defer { isFinalDue = false }
        return isFinalDue
    }

    mutating func linger() {
        phase = .lingering
        noticeEnd = nil
        isFinalDue = false
    }
}
