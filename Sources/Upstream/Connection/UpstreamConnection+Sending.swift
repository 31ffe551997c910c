internal import Bytes
internal import EventLoop
internal import TLS

/// The request on its way out.
extension UpstreamConnection {
    func flush() {
        repeat {
            guard writeOutput() else { return }
            // The call may fill `output` again at once: within this event nobody else would send that.
            if !isRequestComplete { call?.requestSpaceAvailable() }
        } while !output.isEmpty && isOpen && !isCancelled
    }

    /// - Returns: whether everything was sent.
    private func writeOutput() -> Bool {
        if !output.isEmpty {
            let waiting = output.count
            let step = transport.write(to: self, from: &output)
            if output.count < waiting {
                isBlocked = false
                hasSent = true
            }
            switch step {
            case .done: break
            case .wantWrite, .wantRead:
                waitToWrite(step)
                // Counted from the last byte that the server took. One whose response waits for the client has an excuse.
                if !isBlocked, !isResponseHeld { setDeadline(loop.now + responseTimeout) }
                isBlocked = true
                return false
            case .endOfStream, .failed:
                writeFailed()
                return false
            }
        }
        output.releaseIfEmpty()
        wantWrite(isReadWaitingToWrite)
        // The server's time to answer begins when it has the request. While the client is still sending, it is the client
        // that is watched: a slow network is not the server's fault.
        switch phase {
        case .head: if isRequestComplete { setDeadline(loop.now + responseTimeout) } else { clearDeadline() }
        case .content: if !isResponseHeld { awaitContent() }
        case .tunnel: tunnelSent()
        case .connecting, .handshake, .idle: break
        }
        return true
    }

    private func writeFailed() {
        // A kept connection that the server has closed meanwhile, noticed in time.
        guard hasSent else { return notSent(.disconnected) }
        // The server may have answered before it closed (a refusal of a large request): read that first.
        output.removeAll()
        wantWrite(false)
        isRequestComplete = false
        isBlocked = true
        if !isResponseHeld { setDeadline(loop.now + responseTimeout) }
    }
}
