internal import Bytes
internal import EventLoop
internal import TLS

/// What TLS adds: the handshake, what a server may send unasked, and a direction that waits for the other.
extension UpstreamConnection {
    /// Nothing of the call can have been sent.
    var isConnecting: Bool { phase == .connecting || phase == .handshake }

    // MARK: - The handshake

    /// The socket is connected: begins TLS where the upstream has it. Its time is what is left of that to connect.
    func beginTransport() {
        guard let destination = pool.servers[server].destination else { return established() }
        guard let stream = TLSStream(connecting: descriptor, to: destination) else {
            return notSent(tlsFailure("there is no memory for a TLS connection"))
        }
        transport = .tls(stream)
        phase = .handshake
        handshake()
    }

    func handshake() {
        guard case .tls(let stream) = transport else { return }
        switch stream.handshake() {
        case .done:
            established()
            if isOpen, phase == .head, transport.hasBufferedInput { readAgain() }
        case .wantRead:
            wantWrite(false)
            wantRead(true)
        case .wantWrite:
            wantRead(false)
            wantWrite(true)
        case .endOfStream, .failed(.disconnected):
            notSent(tlsFailure("the server ended the connection in the middle of the handshake"))
        case .failed(let failure): notSent(tlsFailure(failure))
        }
    }

    func tlsFailure(_ failure: TLSFailure) -> UpstreamFailure {
        switch failure {
        case .tls(let reason): tlsFailure(reason)
        case .disconnected: .disconnected
        // Servers' connections have clients, ours have none.
        case .clientCertificate(let fault): tlsFailure(fault.reason)
        }
    }

    func tlsFailure(_ reason: String) -> UpstreamFailure { .tls(server: pool.servers[server].name, reason: reason) }

    // MARK: - Unused connections

    /// Whether it can serve the next call: nothing has come from the server, not even the end.
    var isReusable: Bool {
        if transport.isPlain { return isQuiet }
        // Of a record that is there in part, nobody knows what it will be.
        return readUnasked() && !transport.hasBufferedInput
    }

    /// Takes in what a server may send over TLS whenever it likes: tickets and key updates (RFC 8446 section 4.6). Only TLS can
    /// tell these from an answer that nobody has asked for.
    ///
    /// - Returns: whether that is all that came.
    func readUnasked() -> Bool {
        guard !transport.isPlain, case .wantRead = transport.read(from: self, into: &input) else { return false }
        input.releaseIfEmpty()
        return true
    }

    // MARK: - One direction waits for the other

    func waitToWriteBeforeReading() {
        input.releaseIfEmpty()
        isReadWaitingToWrite = true
        // What lies in the socket cannot be taken till then: it must not wake the loop again and again.
        wantRead(false)
        wantWrite(true)
    }

    /// The server takes no more now; over TLS, something may have to be read first.
    func waitToWrite(_ step: TLSStep) {
        if case .tls = transport {
            // Part of a record may be with the kernel, though none of its bytes has left `output`.
            hasSent = true
            isWriteWaitingToRead = step == .wantRead
        }
        wantWrite(!isWriteWaitingToRead)
    }
}
