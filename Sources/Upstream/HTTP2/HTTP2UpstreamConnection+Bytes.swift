internal import Bytes
internal import EventLoop
internal import HTTP
internal import TLS

/// Bytes in and out.
extension HTTP2UpstreamConnection {
    private static var readsPerEvent: Int { 4 }

    // MARK: - In

    func receiveAll() {
        isWriteWaitingToRead = false
        for _ in 0..<Self.readsPerEvent {
            guard isOpen, !isConnecting, loss == nil, receive() else { return }
        }
        // What TLS has read ahead makes no socket readable.
        if isOpen, transport.hasBufferedInput { readAgain() }
    }

    func readAfterWriting() {
        isReadWaitingToWrite = false
        wantRead(true)
        receiveAll()
    }

    /// Reads once. - Returns: whether there may be more at once.
    private func receive() -> Bool {
        let room = input.room
        switch transport.read(from: self, into: &input) {
        case .done(let count):
            lastReceived = loop.now
            return take() && (count == room || transport.hasBufferedInput)
        case .wantRead: input.releaseIfEmpty()
        case .wantWrite:
            input.releaseIfEmpty()
            waitToWriteBeforeReading()
        // With close_notify or without: of each response its own frames say whether it is whole.
        case .endOfStream, .failed(.disconnected): ended(.disconnected)
        case .failed(let failure): ended(tlsFailure(failure))
        }
        return false
    }

    /// - Returns: whether the connection continues.
    private func take() -> Bool {
        guard let session else { return false }
        do throws(HTTP2Fault) {
            try session.receive(input.readable, now: loop.now)
        } catch {
            input.removeAll()
            ended(.http2(error))
            return false
        }
        input.removeAll()
        return true
    }

    /// The server has ended the connection, or made it end.
    private func ended(_ failure: UpstreamFailure) {
        guard isGreeted else {
            return notSent(ungreeted(failure))
        }
        // What is still to be said, GOAWAY above all, goes as far as the socket takes it.
        if case .http2 = failure { flush() }
        lose(failure)
    }

    /// Before its SETTINGS: whatever it speaks, it is no HTTP/2. One that has agreed on it in TLS and says nothing may have other reasons
    /// to leave.
    private func ungreeted(_ failure: UpstreamFailure) -> UpstreamFailure {
        if case .http2 = failure { return .notHTTP2(server: place, .saidOtherwise) }
        if transport.isPlain { return .notHTTP2(server: place, .ended) }
        return lastReceived.nanoseconds > 0 ? .notHTTP2(server: place, .saidOtherwise) : failure
    }

    // MARK: - Out

    func flush() {
        guard isOpen, !isConnecting, let session, !isWriteWaitingToRead else { return }
        repeat {
            do throws(HTTP2Fault) {
                try session.write(into: &output)
            } catch {
                lose(.http2(error))
            }
            guard writeOutput() else { return }
        } while isOpen && (session.reportRoom() || session.hasOutput)
        for stream in active { stream.measure() }
        measureWindow()
    }

    /// - Returns: whether everything was sent.
    private func writeOutput() -> Bool {
        guard !output.isEmpty else {
            output.releaseIfEmpty()
            return true
        }
        let before = output.count
        let step = transport.write(to: self, from: &output)
        if output.count < before { outputEnd = nil }
        switch step {
        case .done:
            wantWrite(isReadWaitingToWrite)
            return true
        case .wantWrite, .wantRead:
            waitToWrite(step)
            // Counted from the last byte that the server took.
            if outputEnd == nil {
                let end = loop.now + responseTimeout
                outputEnd = end
                wait(until: end)
            }
        case .endOfStream, .failed:
            // The server may have answered before it closed: what there is is read first, and says the end.
            output.removeAll()
            wantWrite(false)
            outputEnd = loop.now + responseTimeout
            wait(until: outputEnd)
            readAgain()
        }
        return false
    }
}
