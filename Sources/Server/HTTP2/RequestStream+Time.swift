internal import EventLoop
internal import HTTP

/// How long a stream's client is waited for: until it has sent what it owes, and taken what there is for it.
extension RequestStream {
    func responseMoved() {
        guard !isMoved else { return }
        isMoved = true
        owner.responseMoved(on: self)
    }

    /// To be called when nothing more can be framed.
    ///
    /// - Returns: until when the client is waited for.
    func measureResponse(now: Instant) -> Instant? {
        isMoved = false
        guard isServing, let exchange else { return nil }
        let octets = Int(exchange.responseBytes - UInt64(unframed) - framed)
        framed += UInt64(octets)
        if octets > 0, tunnel.isOpen { tunnelMoved() }
        // The end is framed only while the stream's window is open.
        if unframed == 0, !isEndUnframed {
            _ = time.responseTaken(octets, now: now)
        } else {
            time.responseBlocked(taken: octets, now: now)
            shrinkOutput()
        }
        return time.end
    }

    /// Ends the request if its client is overdue.
    ///
    /// - Parameter isWindowShut: whether no stream of the connection may be sent content, since others have not been taken.
    /// - Returns: until when the client is waited for.
    func judge(now: Instant, isWindowShut: Bool) -> Instant? {
        if case .held(let end) = phase {
            guard end <= now else { return end }
            headOverdue()
            return nil
        }
        guard isServing, let exchange, !isCutOff else { return nil }
        guard !tunnel.isOpen else { return judgeTunnel(now: now) }
        guard let end = measureResponse(now: now), end <= now else { return time.end }
        guard time.debt == .response || exchange.isAnswered || !isWindowShut else {
            // It is not this stream's client who is waited for.
            time.contentBegins(now: now, isHeldBack: false)
            return time.end
        }
        guard !exchange.isAnswered else {
            cutOff(time.debt)
            return nil
        }
        time.contentEnded()
        exchange.requestTimedOut()
        return nil
    }

    /// The rest of the head, or the end that it waits for, has not come in time.
    func headOverdue() {
        showIncompleteHead()
        guard let exchange = served() else { return }
        disregardRequest()
        // Of trailers, the response may have begun.
        if exchange.isAnswered { cutOff(.content) } else { exchange.requestTimedOut() }
    }

    /// The client is overdue, and was answered already: nothing can be said to it any more.
    func cutOff(_ debt: ClientDebt) {
        guard isServing, let exchange, !isCutOff else { return }
        if exchange.isAnswered { exchange.cutOff(debt) }
        abort()
    }
}
