internal import Bytes
internal import EventLoop
internal import TLS

/// What follows from every event, and the end of the connection.
extension ServerConnection {
    /// Takes in, answers and writes until nothing more can be done now.
    func advance() {
        guard !isAdvancing, isOpen, var speaking = spoken else { return }
        isAdvancing = true
        var isAgain = true
        while isAgain, isOpen, !isAborted {
            speaking.advance()
            isAgain = !isAborted && flush(speaking)
            // Looked at each time: a request may have turned into a tunnel.
            if let spoken, spoken !== speaking { speaking = spoken }
        }
        isAdvancing = false
        if isAborted { close(gracefully: false) }
        guard isOpen else { return }
        input.releaseIfEmpty()
        let wantsInput = !isReadWaitingToWrite && !isPaused && speaking.wantsInput
        wantRead(wantsInput)
        // A `advance` in another event may have made room for data that OpenSSL holds, which makes no socket readable.
        if !isReceiving, wantsInput, transport.hasBufferedInput { readAgain() }
    }

    /// Settles the connection when all events of the loop's turn have been served: what many of them have led to leaves in one
    /// write, in few records.
    func advanceWhenTurnEnds() {
        guard !isAdvanceScheduled, isOpen else { return }
        isAdvanceScheduled = true
        acceptor.advanceWhenTurnEnds(self)
    }

    /// Runs `body` without settling or closing the connection; the caller settles it afterwards.
    func advancingLater(_ body: () -> Void) {
        guard !isAdvancing else { return body() }
        isAdvancing = true
        body()
        isAdvancing = false
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
        if isAdvancing { isAborted = true } else { close(gracefully: false) }
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

    /// Whether no request is under way.
    var isIdle: Bool { spoken?.isIdle ?? false }

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
        accountFor(0)
        acceptor.remove(self)
    }
}
