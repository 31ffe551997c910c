internal import Bytes
internal import EventLoop
internal import Glibc
internal import TLS

/// What TLS adds: the handshake, what a server may send unasked, and a direction that waits for the other.
extension UpstreamConnection {
    // MARK: - The handshake

    /// The socket is connected: begins TLS where the upstream has it. Its time is what is left of that to connect.
    final func beginTransport() {
        guard let destination = pool.servers[server].destination else { return completeConnecting() }
        guard let stream = TLSStream(connecting: descriptor, to: destination) else {
            return notSent(.exhausted(errno: ENOMEM))
        }
        transport = .tls(stream)
        stage = .handshake
        handshake()
    }

    final func handshake() {
        guard case .tls(let stream) = transport else { return }
        switch stream.handshake() {
        case .done: completeConnecting()
        case .wantRead:
            wantWrite(false)
            wantRead(true)
        case .wantWrite:
            wantRead(false)
            wantWrite(true)
        case .endOfStream, .failed(.disconnected):
            notSent(tlsFailure("the server closed the connection during the handshake"))
        case .failed(let failure): notSent(tlsFailure(failure))
        }
    }

    private func completeConnecting() {
        stage = .established
        established()
    }

    final func tlsFailure(_ failure: TLSFailure) -> UpstreamFailure {
        switch failure {
        case .tls(let reason): tlsFailure(reason)
        case .disconnected: .disconnected
        // Servers' connections have clients, ours have none.
        case .clientCertificate(let fault): tlsFailure(fault.reason)
        }
    }

    final func tlsFailure(_ reason: String) -> UpstreamFailure {
        .tls(server: pool.servers[server].name, reason: reason)
    }

    // MARK: - One direction waits for the other

    final func waitToWriteBeforeReading() {
        isReadWaitingToWrite = true
        // What lies in the socket cannot be taken till then: it must not wake the loop again and again.
        wantRead(false)
        wantWrite(true)
    }

    /// The server takes no more now; over TLS, something may have to be read first.
    final func waitToWrite(_ step: TLSStep) {
        if case .tls = transport {
            // Part of a record may be with the kernel, though none of its bytes has left `output`.
            hasSent = true
            isWriteWaitingToRead = step == .wantRead
        }
        wantWrite(!isWriteWaitingToRead)
    }
}
