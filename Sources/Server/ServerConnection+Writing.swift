internal import Bytes
internal import EventLoop
internal import HTTP
internal import TLS

/// The way out: what an exchange answers, the socket, and the end of the connection.
extension ServerConnection {
    /// Whether the response under way may leave the connection open.
    var allowsAnotherRequest: Bool {
        guard cycle.isPersistent, !acceptor.isDraining else { return false }
        // An answer before the end of the request: the rest is read over if it is known to be short, and known to come.
        guard let rest = decoder.remaining, rest <= UInt64(acceptor.settings.lingerBytes) else { return false }
        return rest == 0 || !isContentAwaited
    }

    func writeHead(
        _ status: UInt16, _ framing: ContentFraming, _ statedLength: UInt64?, _ isPersistent: Bool,
        _ fields: (inout ByteBuffer) -> Void
    ) -> Bool {
        let head = OutgoingHead(
            status: status, framing: framing, statedLength: statedLength, isPersistent: isPersistent,
            isAnswerToHead: exchange?.head.method == .head)
        guard head.write(to: &output, fields) else { return false }
        cycle.isPersistent = isPersistent
        return true
    }

    func writeContent(_ content: Span<UInt8>, isChunked: Bool) -> Int {
        isChunked ? output.appendChunk(prefixOf: content) : output.appendPrefix(of: content)
    }

    func writeEnd(isChunked: Bool) -> Bool {
        guard !isChunked || output.appendLastChunk() else { return false }
        cycle.responseEnded()
        return true
    }

    func writeContinue() {
        isContentAwaited = false
        output.append("HTTP/1.1 100 Continue\r\n\r\n")
    }

    /// Writes what there is. - Returns: whether that made new work possible.
    func flush() -> Bool {
        if !output.isEmpty {
            let waiting = output.count
            switch transport.write(to: self, from: &output) {
            case .done:
                if clientTime.responseTaken(waiting, now: loop.now) { awaitClient() }
                output.releaseIfEmpty()
                wantWrite(isReadWaitingToWrite)
            case .wantWrite:
                wantWrite(true)
                clientTime.responseBlocked(taken: waiting - output.count, now: loop.now)
                awaitClient()
                return false
            case .wantRead: return false
            case .endOfStream, .failed:
                close(gracefully: false)
                return false
            }
            if !cycle.isResponseEnded, cycle.phase == .content || cycle.phase == .response {
                exchange?.outputDrained()
                if !output.isEmpty { return true }
            }
        }
        switch cycle.conclude() {
        case .unfinished:
            if cycle.isResponseEnded { limitRest() }
            return false
        case .nextRequest:
            end()
            limitIdleness()
            if acceptor.isDraining, input.isEmpty { closeGracefully() }
            return true
        case .close:
            end()
            // A request sent ahead is not served any more; closing over it would reset the connection.
            if input.isEmpty, !transport.hasBufferedInput { closeGracefully() } else { linger() }
            return false
        case .linger:
            end()
            linger()
            return true
        }
    }

    private func limitRest() {
        if clientTime.limitRest(to: loop.now + acceptor.settings.lingerTimeout) { awaitClient() }
    }

    private func end() {
        exchange?.ended()
        exchange?.reset()
        isContentHeld = false
        clientTime.reset(now: loop.now)
    }
}

// MARK: - Closing

extension ServerConnection {
    /// Ends the connection at once; the client sees that it was cut off.
    public func abort() {
        if isSettling { isAborted = true } else { close(gracefully: false) }
    }

    func closeIfIdle() {
        if cycle.phase == .idle || cycle.phase == .handshake { closeGracefully() }
    }

    func closeGracefully() {
        close(gracefully: true)
    }

    /// Says that nothing more comes, and listens until the client has understood.
    private func linger() {
        transport.sendCloseNotify()
        shutdownSending()
        setDeadline(loop.now + acceptor.settings.lingerTimeout)
        isContentHeld = false
    }

    func close(gracefully: Bool) {
        guard isOpen else { return }
        if gracefully { transport.sendCloseNotify() }
        let isServing = cycle.phase == .content || cycle.phase == .response || cycle.phase == .head
        close()
        if isServing, let exchange, exchange.began.nanoseconds != 0, cycle.phase != .head {
            exchange.abandoned()
            exchange.ended()
        }
        input.removeAll()
        output.removeAll()
        exchange = nil
        acceptor.remove(self)
    }
}
