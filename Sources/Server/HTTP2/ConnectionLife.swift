internal import EventLoop

/// How far a connection of HTTP/2 has come with its end. A value without I/O.
struct ConnectionLife {
    enum Phase: Equatable {
        case serving
        /// The client was asked to begin no more requests; those on their way are still served.
        case announced
        /// The last stream is settled. What was begun is completed.
        case ending
        /// All is said; what still comes is read over until the client closes.
        case lingering
    }

    private(set) var phase = Phase.serving
    /// When nothing of what was sent before the announcement can be on its way any more.
    private(set) var noticeEnd: Instant?
    /// The last GOAWAY is still to be sent.
    private var isFinalDue = false

    /// A round trip, of slow networks too.
    static let notice = TimeSpan.seconds(1)

    /// Whether requests that come are served.
    var takesRequests: Bool { phase == .serving || phase == .announced }

    /// - Returns: whether it is to be announced now.
    mutating func announce(now: Instant) -> Bool {
        guard phase == .serving else { return false }
        phase = .announced
        noticeEnd = now + Self.notice
        return true
    }

    /// No requests but those begun.
    mutating func endNow() {
        guard takesRequests else { return }
        phase = .ending
        noticeEnd = nil
        isFinalDue = true
    }

    mutating func timePassed(now: Instant) {
        if let noticeEnd, noticeEnd <= now { endNow() }
    }

    /// - Returns: whether the last GOAWAY is to be sent: right before what is written, so that nothing can have come meanwhile.
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
