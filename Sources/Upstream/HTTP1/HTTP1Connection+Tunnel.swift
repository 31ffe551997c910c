internal import Bytes
internal import EventLoop
internal import HTTP
internal import TLS

/// A connection whose server has switched protocols: bytes both ways, until one side ends. It serves no other call after that.
///
/// Nothing is waited for but that the server takes what there is: how long nothing may be said, the client's side knows.
extension HTTP1Connection {
    /// - Returns: whether the connection is a tunnel now; it has failed otherwise.
    func beginTunnel(_ call: UpstreamCall, _ head: ResponseHead, headLength: Int) -> Bool {
        // An answer to what has not been asked in full yet is none.
        guard isRequestComplete, output.isEmpty else {
            fail(.unexpectedUpgrade)
            return false
        }
        if let failure = call.switched(head, input.readable.extracting(first: headLength)) {
            fail(failure)
            return false
        }
        phase = .tunnel
        // More may follow: a tunnel has no marked end.
        isRequestComplete = false
        clearDeadline()
        pool.succeeded(server)
        return true
    }

    func pushTunnel(_ call: UpstreamCall) {
        guard !input.isEmpty else { return }
        let count = input.count
        let taken = call.responseContent(input.readable)
        input.consume(taken)
        // A tunnel that is quiet holds no block.
        guard taken < count else { return input.releaseIfEmpty() }
        // The client is slower than the server; the client's own timeouts watch it.
        isResponseHeld = true
        wantRead(false)
    }

    /// The server has ended its side. What it said before has been passed on: nothing is read while something is held.
    func endTunnelInput() {
        wantRead(false)
        call?.tunnelEnded()
    }

    /// All that was written has left.
    func tunnelSent() {
        clearDeadline()
        if isRequestComplete { endSending() }
    }

    /// In a tunnel: `output` is still sent, nothing comes after it, and the server is notified of the end.
    func finishSending() {
        guard phase == .tunnel, isOpen, !isRequestComplete else { return }
        isRequestComplete = true
        if output.isEmpty { endSending() }
    }

    private func endSending() {
        transport.sendCloseNotify()
        shutdownSending()
    }
}
