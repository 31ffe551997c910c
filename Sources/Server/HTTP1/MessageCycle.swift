/// Where a connection stands in the cycle of request and response, and what follows when one of them ends.
///
/// A value without I/O: the connection tells it what happened and does what it answers.
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
        /// Answered; what still comes is discarded until the client closes.
        case lingering
    }

    enum Conclusion: Equatable {
        /// The other half is still under way.
        case unfinished
        case nextRequest
        /// Close, listening for a while because the client may still be sending.
        case linger
        /// Both sides are done.
        case close
    }

    private(set) var phase = Phase.idle
    private(set) var isResponseEnded = false
    /// Whether the response says that the connection stays open.
    var isPersistent = true

    mutating func headBegun() { phase = .head }

    mutating func headComplete(isPersistent: Bool) {
        phase = .content
        isResponseEnded = false
        self.isPersistent = isPersistent
    }

    mutating func contentEnded() { phase = .response }
    mutating func responseEnded() { isResponseEnded = true }

    /// The head cannot be read, so nothing that follows it can.
    mutating func headRefused() {
        phase = .content
        isResponseEnded = false
        isPersistent = false
    }

    /// To be asked when everything written so far has left.
    mutating func conclude() -> Conclusion {
        guard isResponseEnded else { return .unfinished }
        switch phase {
        case .content where isPersistent:
            // Answered early, and what is left of the request is little: read over it, then the next one can come.
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
            // Answered early: what is left of the request must not be taken for the next one.
            isResponseEnded = false
            phase = .lingering
            return .linger
        }
    }
}
