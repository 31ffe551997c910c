internal import Bytes
internal import EventLoop
internal import TLS

/// What follows from every event, and the end of the connection.
extension ServerConnection {
    /// Takes in, answers and writes until nothing more can be done now.
    func settle() {
        guard !isSettling, isOpen, var speaking = spoken else { return }
        isSettling = true
        var isAgain = true
        while isAgain, isOpen, !isAborted {
            speaking.advance()
            isAgain = !isAborted && flush(speaking)
            // Looked at each time: a request may have turned into a tunnel.
            if let spoken, spoken !== speaking { speaking = spoken }
        }
        isSettling = false
        if isAborted { close(gracefully: false) }
        guard isOpen else { return }
        input.releaseIfEmpty()
        let wantsInput = !isReadWaitingToWrite && speaking.wantsInput
        wantRead(wantsInput)
        // Whoever settled from another event may have made room for what OpenSSL holds, which makes no socket readable.
        if !isReceiving, wantsInput, transport.hasBufferedInput { readAgain() }
    }

    /// Settles the connection when all events of the loop's turn have been served: what many of them have led to leaves in one
    /// write, in few records.
    func settleWhenTurnEnds() {
        guard !isSettlingDue, isOpen else { return }
        isSettlingDue = true
        acceptor.settleWhenTurnEnds(self)
    }

    /// Nothing that happens within settles the connection, or closes it: whoever calls this settles it after.
    func settlingLater(_ body: () -> Void) {
        guard !isSettling else { return body() }
        isSettling = true
        body()
        isSettling = false
    }

    /// Writes what there is. - Returns: whether that made new work possible.
    private func flush(_ spoken: ConnectionProtocol) -> Bool {
        let (outcome, taken) = transport.drain(&output, to: self)
        switch outcome {
        case .all:
            // There was nothing.
            guard taken > 0 else { break }
            wantWrite(isReadWaitingToWrite)
            spoken.outputTaken(taken)
            if !output.isEmpty { return true }
        case .wantWrite:
            wantWrite(true)
            spoken.outputBlocked(taken: taken)
            return false
        case .wantRead: return false
        case .broken:
            close(gracefully: false)
            return false
        }
        return spoken.conclude()
    }

    // MARK: - Closing

    /// Ends the connection at once; the client sees that it was cut off.
    public func abort() {
        if isSettling { isAborted = true } else { close(gracefully: false) }
    }

    /// Nothing more is to be begun on the connection.
    func drain() {
        guard !isRefused else { return close(gracefully: false) }
        if isInHandshake { closeGracefully() } else { spoken?.drain() }
    }

    /// The same, with time for a handshake that is under way, and for what the client may be sending right now.
    func windUp() {
        guard !isRefused else { return close(gracefully: false) }
        spoken?.windUp()
    }

    /// Whether all that has come is decided, and nothing more is begun.
    var isDecided: Bool { isRefused || spoken?.isDecided ?? false }

    func closeGracefully() {
        close(gracefully: true)
    }

    /// Tells the client that nothing more comes, and listens to it still.
    func endSending() {
        transport.sendCloseNotify()
        shutdownSending()
    }

    func close(gracefully: Bool) {
        guard isOpen else { return }
        if gracefully { transport.sendCloseNotify() }
        close()
        spoken?.closed()
        spoken = nil
        input.removeAll()
        output.removeAll()
        acceptor.remove(self)
    }
}
