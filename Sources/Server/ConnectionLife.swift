internal import EventLoop

/// The shutdown state of an HTTP/2 connection: a value without I/O.
struct ConnectionLife {
    enum Phase: Equatable {
        case serving
        /// The client was asked to begin no more requests; those on their way are still served.
        ///
        /// - until: The time after which no request sent before the announcement can be on its way.
        case announced(until: Instant)
        /// Requests in flight are completed.
        ///
        /// - isNoticeDue: Whether the last GOAWAY, which names the last stream, is still to be sent.
        case ending(isNoticeDue: Bool)
        /// Everything is sent; what still arrives is discarded until the client closes.
        ///
        /// - discarded: Bytes so far.
        case lingering(discarded: Int)
    }

    private(set) var phase = Phase.serving

    /// An upper bound of a round trip, on slow networks too.
    static let notice = TimeSpan.seconds(1)

    /// Whether new requests are served.
    var takesRequests: Bool {
        switch phase {
        case .serving, .announced: true
        case .ending, .lingering: false
        }
    }

    var isLingering: Bool { if case .lingering = phase { true } else { false } }

    /// The time at which an announced end follows.
    var noticeEnd: Instant? { if case .announced(let end) = phase { end } else { nil } }

    /// Begins the shutdown.
    ///
    /// - Returns: Whether the first GOAWAY has to be sent now.
    mutating func announce(now: Instant) -> Bool {
        guard phase == .serving else { return false }
        phase = .announced(until: now + Self.notice)
        return true
    }

    /// Refuses all requests that have not begun.
    mutating func endNow() {
        if takesRequests { phase = .ending(isNoticeDue: true) }
    }

    mutating func timePassed(now: Instant) {
        if let noticeEnd, noticeEnd <= now { endNow() }
    }

    /// Returns whether the last GOAWAY has to be sent. Called right before output is written, so that no request can
    /// arrive in between.
    mutating func takeFinalNotice() -> Bool {
        guard phase == .ending(isNoticeDue: true) else { return false }
        phase = .ending(isNoticeDue: false)
        return true
    }

    mutating func linger() { phase = .lingering(discarded: 0) }

    /// Records bytes that were discarded while lingering.
    ///
    /// - Returns: All of them so far.
    mutating func discarded(_ count: Int) -> Int {
        guard case .lingering(let before) = phase else { return 0 }
        phase = .lingering(discarded: before + count)
        return before + count
    }
}
