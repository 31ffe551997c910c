internal import Bytes
internal import EventLoop
internal import HTTP
internal import TLS

/// The request on its way out.
extension HTTP1Connection {
    // MARK: - For the call

    func writeHead(
        _ request: OutgoingRequest, path: Span<UInt8>, query: Span<UInt8>?, authority: Span<UInt8>,
        fields: (inout ByteBuffer) -> Void
    ) -> Bool {
        output.appendRequestHead(
            request.method, path: path, query: query, authority: authority, framing: request.framing,
            isUpgrade: request.isUpgrade, isLast: isCheck, fields: fields)
        isChunked = request.framing == .chunked
        guard output.overflowed else { return true }
        output.removeAll()
        return false
    }

    /// Chunks leave room for the last one, so that the end never waits for room alone.
    var contentRoom: Int { isChunked ? max(0, output.chunkRoom - ByteBuffer.lastChunkLength) : output.room }

    /// - Parameter first: a byte that was kept back; with what follows it no more than `contentRoom`.
    func write(_ first: UInt8?, _ content: Span<UInt8>) {
        guard !isChunked else { return output.appendChunk(first, content) }
        if let first { output.append(first) }
        output.append(content)
    }

    func writeEnd() -> Bool { !isChunked || output.appendLastChunk() }

    // MARK: - The socket

    func flush() {
        repeat {
            guard writeOutput() else { return }
            // The call may fill `output` again at once: within this event nobody else would send that.
            if !isRequestComplete { call?.requestSpaceAvailable() }
        } while !output.isEmpty && isOpen && !isCancelled
    }

    /// - Returns: whether everything was sent.
    private func writeOutput() -> Bool {
        let (outcome, taken) = transport.drain(&output, to: self)
        if taken > 0 {
            isBlocked = false
            hasSent = true
        }
        switch outcome {
        case .all: break
        case .wantWrite, .wantRead:
            waitToWrite(outcome == .wantRead ? .wantRead : .wantWrite)
            // Counted from the last byte that the server took. One whose response waits for the client has an excuse.
            if !isBlocked, !isResponseHeld { setDeadline(loop.now + responseTimeout) }
            isBlocked = true
            return false
        case .broken:
            writeFailed()
            return false
        }
        wantWrite(isReadWaitingToWrite)
        // The server's time to answer begins when it has the request. While the client is still sending, it is the client
        // that is watched: a slow network is not the server's fault.
        switch phase {
        case .head: if isRequestComplete { setDeadline(loop.now + responseTimeout) } else { clearDeadline() }
        case .content: if !isResponseHeld { awaitContent() }
        case .tunnel: tunnelSent()
        case .idle: break
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
