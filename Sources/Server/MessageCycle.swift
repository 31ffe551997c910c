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
        case content
        /// The request is complete; its response is not.
        case response
        /// Answered; further input is discarded until the client closes.
        case lingering
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
    private(set) var isResponseEnded = false
    /// Whether the response leaves the connection open.
    var isPersistent = true

    mutating func headBegun() { phase = .head }

    mutating func headComplete(isPersistent: Bool) {
        phase = .content
        isResponseEnded = false
        self.isPersistent = isPersistent
    }

    mutating func contentEnded() { phase = .response }
    mutating func responseEnded() { isResponseEnded = true }

    /// Called if the head cannot be read: nothing that follows it can be.
    mutating func headRefused() {
        phase = .content
        isResponseEnded = false
        isPersistent = false
    }

    /// Returns what follows, when everything written so far has been sent.
    mutating func conclude() -> Conclusion {
        guard isResponseEnded else { return .unfinished }
        switch phase {
        case .content where isPersistent:
            // Answered early, and the rest of the request is short: it is discarded, and the next request can follow.
            return .unfinished
        case .response where isPersistent:
            isResponseEnded = false
            phase = .idle
            return .nextRequest
        case .response:
            isResponseEnded = false
            phase = .lingering
            return .close
        default:
            // Answered early: the rest of the request must not be read as the next one.
            isResponseEnded = false
            phase = .lingering
            return .linger
        }
    }
}
