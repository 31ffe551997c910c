/// The position of an HTTP/1.1 connection in the cycle of request and response: a value without I/O.
///
/// The session reports events to it and does what it returns.
struct MessageCycle {
    enum Phase: Equatable {
        /// Between two requests.
        case idle
        /// A request head has begun.
        case head
        /// The head is complete; content may follow.
        ///
        /// - isHeldBack: Whether the client waits for 100 (Continue) (RFC 9110 section 10.1.1).
        case content(isHeldBack: Bool)
        /// The request is complete; its response is not.
        case response
        /// Answered; further input is discarded until the client closes.
        ///
        /// - discarded: Bytes so far.
        case lingering(discarded: Int)
    }

    /// The response to the request in flight.
    enum Response: Equatable {
        /// Its head is not written yet.
        case none
        case begun(isChunked: Bool)
        case ended
    }

    enum Conclusion: Equatable {
        /// Request or response is still in flight.
        case unfinished
        case nextRequest
        /// Close, after a while in which the client may still be sending.
        case linger
        /// Both sides are complete.
        case close
    }

    private(set) var phase = Phase.idle
    private(set) var response = Response.none
    /// Whether the response leaves the connection open.
    var isPersistent = true

    var isResponseEnded: Bool { response == .ended }

    /// Whether a request has begun and is not concluded.
    var isServing: Bool {
        switch phase {
        case .content, .response: true
        case .idle, .head, .lingering: false
        }
    }

    mutating func headBegun() { phase = .head }

    mutating func headComplete(isPersistent: Bool, isContentHeldBack: Bool = false) {
        phase = .content(isHeldBack: isContentHeldBack)
        self.isPersistent = isPersistent
    }

    /// Records that the client was asked for its content.
    mutating func contentAsked() {
        if case .content = phase { phase = .content(isHeldBack: false) }
    }

    mutating func contentEnded() { phase = .response }

    mutating func responseBegun(isChunked: Bool, isPersistent: Bool) {
        response = .begun(isChunked: isChunked)
        self.isPersistent = isPersistent
    }

    mutating func responseEnded() { response = .ended }

    /// Called if the head cannot be read: nothing that follows it can be.
    mutating func headRefused() {
        phase = .content(isHeldBack: false)
        isPersistent = false
    }

    /// Records bytes that were discarded while lingering.
    ///
    /// - Returns: All of them so far.
    mutating func discarded(_ count: Int) -> Int {
        guard case .lingering(let before) = phase else { return 0 }
        phase = .lingering(discarded: before + count)
        return before + count
    }

    /// Returns what follows, when everything written so far has been sent.
    mutating func conclude() -> Conclusion {
        guard isResponseEnded else { return .unfinished }
        // Answered early, and the rest of the request is short: it is discarded, and the next request can follow.
        if isPersistent, case .content = phase { return .unfinished }
        response = .none
        guard phase == .response else {
            // Answered early: the rest of the request must not be read as the next one.
            phase = .lingering(discarded: 0)
            return .linger
        }
        phase = isPersistent ? .idle : .lingering(discarded: 0)
        return isPersistent ? .nextRequest : .close
    }
}
