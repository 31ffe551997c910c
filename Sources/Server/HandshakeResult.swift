internal import EventLoop
internal import TLS

/// What a complete handshake has shown of the client.
struct HandshakeResult {
    let identity: ClientIdentity?
    /// `ServerConnection.clientKey`: every stream needs it.
    let key: Int
    /// The bytes of the server name: every request needs them.
    let serverName: [UInt8]?
    let duration: TimeSpan
    let keyExchange: KeyExchange?
    /// Whether the duration was reported, with an earlier request.
    var isReported = false
    /// The end of the certificate.
    let identityEnd: Instant?
    /// The time by which the application has to recognize a client with a self-signed certificate.
    var recognitionEnd = Instant(nanoseconds: .max)

    /// The time for a client with a self-signed certificate to be recognized.
    private static let recognitionTime = TimeSpan.seconds(5)

    init(_ stream: TLSStream, from peer: SocketAddress, since accepted: Instant, now: Instant) {
        identity = stream.clientIdentity
        key = identity.map { $0.keyID?.hashValue ?? $0.thumbprint.hashValue } ?? peer.block.hashValue
        serverName = stream.serverName?.bytes
        duration = .now - accepted
        keyExchange = stream.keyExchange
        if identity?.kind == .selfSigned { recognitionEnd = now + Self.recognitionTime }
        identityEnd = identity?.end(from: now)
    }
}

extension ClientIdentity {
    /// Returns the end of the certificate. The clock of certificates has whole seconds, so one is added. A longer time than
    /// a month makes no difference.
    func end(from now: Instant) -> Instant {
        now + .seconds(min(max(0, notAfter - WallClock.seconds), 30 * 86_400) + 1)
    }
}
