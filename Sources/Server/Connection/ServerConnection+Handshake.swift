internal import Bytes
public import EventLoop
public import TLS

/// Who the client is, and which host it has asked for: the handshake, and what is known from it.
extension ServerConnection {
    /// The hosts of the listener that accepted the connection. Nil without TLS.
    public var hosts: VirtualHosts? {
        if case .tls(let stream) = transport { stream.hosts } else { nil }
    }

    /// The host that the client asked for in its handshake; nil if for none, or not yet.
    public var serverName: ServerName? {
        if case .tls(let stream) = transport { stream.serverName } else { nil }
    }

    /// The same, if it is one of the listener's hosts; nil if everybody else's rules apply.
    public var servedHost: [UInt8]? { servedName.flatMap { hosts?.hasHost($0.span) == true ? $0 : nil } }

    /// How long the TLS handshake took, from the accepting on, the client's part in it included; while it lasts, how long
    /// it has taken. Nil where there was none.
    public var handshakeDuration: TimeSpan? { handshakeBegan.map { (handshakeEnded ?? .now) - $0 } }

    /// Whether a request for that host may come over this connection (RFC 9110 section 7.4): certificate and clients were judged
    /// by the rules of the host that the handshake asked for, so it must be the same. Where it asked for none, it must be one
    /// without rules of its own.
    ///
    /// - Parameter host: without a port, in any case.
    public func serves(host: Span<UInt8>) -> Bool {
        if let servedName { return host.equals(lowercase: servedName) }
        return !(hosts?.hasHost(host) ?? false)
    }

    /// - Returns: whether the handshake is complete.
    func handshake() -> Bool {
        guard case .tls(let stream) = transport else { return true }
        switch stream.handshake() {
        case .done:
            handshakeEnded = .now
            verifiedIdentity = stream.clientIdentity
            servedName = stream.serverName?.bytes
            guard verifiedIdentity != nil || !demandsIdentity else {
                // Cannot happen while certificates are demanded; if it did, nobody may pass.
                acceptor.application.connectionRefused(self, .handshake(.clientCertificate(.missing)))
                abort()
                return false
            }
            acceptor.application.handshakeCompleted(self, stream.recognition)
            guard !acceptor.isBarred(self) else {
                abort()
                return false
            }
            guard acceptor.application.admitsClient(of: self) else {
                acceptor.application.connectionRefused(self, .clientLimit)
                abort()
                return false
            }
            wantWrite(false)
            acceptor.leaveHandshake()
            beginSpeaking()
            return true
        case .wantRead:
            wantWrite(false)
            wantRead(true)
        case .wantWrite:
            wantWrite(true)
            wantRead(false)
        case .endOfStream:
            acceptor.application.connectionRefused(self, .handshake(.disconnected))
            close(gracefully: false)
        case .failed(let failure):
            acceptor.application.connectionRefused(self, .handshake(failure))
            refuse()
        }
        return false
    }

    /// Lets the client take the alert that was sent. With TLS 1.3 its handshake is over before ours, and it may have sent on:
    /// one of HTTP/2 does, at once. Closing with that unread would reset the connection, and could destroy the alert on its way.
    private func refuse() {
        isRefused = true
        isInHandshake = false
        acceptor.leaveHandshake()
        wantWrite(false)
        wantRead(true)
        shutdownSending()
        setDeadline(loop.now + acceptor.settings.lingerTimeout)
        discardInput()
    }

    /// Reads what a refused client sends, past TLS, of which there is none any more.
    func discardInput() {
        while true {
            switch Transport.plain.read(from: self, into: &input) {
            case .done(let count):
                discarded += count
                input.removeAll()
                if discarded > acceptor.settings.lingerBytes { return close(gracefully: false) }
            case .wantRead: return input.releaseIfEmpty()
            case .wantWrite, .endOfStream, .failed: return close(gracefully: false)
            }
        }
    }

    /// Nothing more is to be settled about who the client is.
    func beginSpeaking() {
        isInHandshake = false
        accountFor(transport.isPlain ? 0 : MemoryCost.connection)
        wantRead(true)
        if let verifiedIdentity {
            if verifiedIdentity.kind == .selfSigned { recognitionEnd = loop.now + Self.recognitionTime }
            // Not a moment too early, for the clock of certificates has whole seconds. A month is as good as a lifetime here.
            let left = min(max(0, verifiedIdentity.notAfter - WallClock.seconds), 30 * 86_400) + 1
            identityEnd = loop.now + .seconds(left)
        }
        let chosen: ConnectionProtocol
        switch applicationProtocol {
        case .http11: chosen = HTTP1Session(on: self)
        case .http2: chosen = HTTP2ServerConnection(on: self)
        case nil:
            acceptor.application.connectionRefused(self, .handshake(.tls("the client offered no protocol (ALPN)")))
            return close(gracefully: false)
        }
        spoken = chosen
        chosen.began()
    }

    /// What is spoken on the connection; HTTP/1.1 without TLS. Nil where the client's handshake has left that open, and the
    /// listener does not take that for HTTP/1.1.
    public var applicationProtocol: ApplicationProtocol? {
        if case .tls(let stream) = transport { stream.applicationProtocol } else { .http11 }
    }

    /// Whether nobody may pass without a certificate.
    private var demandsIdentity: Bool {
        if case .tls(let stream) = transport { stream.server?.demandsCertificates ?? true } else { false }
    }

    /// Whether the client's certificate is still good. A connection lives no longer; the next handshake says why.
    var isClientGood: Bool {
        guard let verifiedIdentity else { return !demandsIdentity }
        return verifiedIdentity.notAfter > WallClock.seconds
    }
}
