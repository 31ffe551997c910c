internal import Bytes
public import EventLoop
public import TLS

/// A client connection: its socket, TLS or none, and the client's identity. Its application protocol is a
/// `ConnectionProtocol`.
///
/// Owned by the `Acceptor` until it closes. Holds at most one block of input and one of output, and none while idle.
/// Bytes are read only while they are taken, so TCP stops a client that sends faster than its upstream reads.
///
/// The order of work in every event: read, then `advance`, which lets the protocol take the input and sends what it
/// answers, until nothing more can be done. Code below `advance` does not write to the socket, and a nested `advance`
/// has no effect.
public final class ServerConnection: SocketHandler {
    /// Effective client address, used for limits, logs and upstreams: the client's address; of a connection that a
    /// trusted proxy relays, the one that its header names, as soon as it is read.
    public private(set) var peer: SocketAddress
    /// Whether the peer is a trusted proxy whose header must come first.
    private var awaitsProxyHeader: Bool
    /// Whether the application has admitted the connection, and learns when it ends.
    var isAdmitted = false
    let acceptor: Acceptor
    /// The index of its listener, in the order in which the acceptor listens.
    public let listener: Int
    var slot = 0
    /// The number of the connection: the acceptor counts them.
    var number: UInt64 = 0
    /// Whether the client has authenticated as the application demands; set by the application.
    public var isKnown = false
    /// Whether the application counts the connection for its client.
    public var isCountedForClient = false
    /// The time by which the application has to recognize a client with a self-signed certificate.
    private(set) var recognitionEnd = Instant(nanoseconds: .max)
    /// Bytes of memory reported to the meter, without the blocks of buffers.
    private var accounted = 0
    /// Whether reading is paused because memory is short.
    private(set) var isPaused = false

    let transport: Transport
    /// Bytes received and not yet processed.
    var input: ByteBuffer
    /// Bytes to send.
    var output: ByteBuffer
    /// The application protocol; nil during the handshake and after the end.
    var spoken: ConnectionProtocol?
    private(set) var isInHandshake = true
    /// Whether the handshake has failed and the client has not yet read the alert.
    private(set) var isRefused = false
    /// Bytes that a refused client has sent since.
    private var discarded = 0

    /// The client's certificate, after the handshake. Nil without TLS.
    public var identity: ClientIdentity? { verifiedIdentity }
    private var verifiedIdentity: ClientIdentity?
    /// The end of the client's certificate.
    private(set) var identityEnd: Instant?
    /// The bytes of `serverName` after the handshake: every request needs them.
    private var servedName: [UInt8]?
    private var handshakeBegan: Instant?
    private var handshakeEnded: Instant?
    /// Requests begun on this connection.
    public var requests: Int { requestCount }
    var requestCount = 0

    /// The key of the client's certificate, for counting alone: each process seeds Swift's hashing differently. Nil
    /// before the end of the handshake, and without TLS.
    public var clientKey: Int? { verifiedIdentity.map { $0.keyID?.hashValue ?? $0.thumbprint.hashValue } }

    /// The holder of the connection: the client's key. It is the address while the key is unknown, or self-signed and
    /// not yet recognized.
    var holder: Int { (recognitionEnd.nanoseconds == .max ? clientKey : nil) ?? peer.block.hashValue }

    /// What the application keeps for all requests on this connection.
    public var memory: ConnectionMemory?

    /// Whether the handshake was reported already, with an earlier request.
    public var wasHandshakeReported: Bool {
        get { isHandshakeReported }
        set { isHandshakeReported = newValue }
    }
    private var isHandshakeReported = false
    /// Whether the connection ends because its client is no longer admitted.
    public internal(set) var isBarred = false
    /// Whether the worker or the connection's generation is ending.
    public var isEnding: Bool { acceptor.isDraining }

    /// Whether TLS has to write (a key update) before it can read.
    private var isReadWaitingToWrite = false
    private var isAdvancing = false
    /// Whether the connection is advanced at the end of the loop's turn.
    var isAdvanceScheduled = false
    /// Whether `readable` is running, which checks itself for more input.
    private(set) var isReceiving = false
    /// Whether it was aborted below `advance`, where buffers are in use: it closes at the end of `advance`.
    var isAborted = false
    /// The maximum of reads in one event, before other connections have their turn.
    private static let readsPerEvent = 4

    var pool: BufferPool { acceptor.pool }

    /// - Parameters:
    ///   - tls: Nil for a connection without TLS.
    ///   - isProxied: Whether the peer is a trusted proxy. Then there is TLS.
    init?(
        acceptor: Acceptor, listener: Int, socket: consuming Socket, peer: SocketAddress, tls: VirtualHosts?,
        isProxied: Bool
    ) {
        if let tls {
            guard let stream = TLSStream(accepting: socket.number, tls) else { return nil }
            transport = .tls(stream)
        } else {
            transport = .plain
        }
        self.acceptor = acceptor
        self.listener = listener
        self.peer = peer
        awaitsProxyHeader = isProxied
        input = ByteBuffer(pool: acceptor.pool)
        output = ByteBuffer(pool: acceptor.pool)
        super.init(loop: acceptor.loop, socket: socket)
    }

    /// Records that the application knows the client of a self-signed certificate.
    public func recognize() { recognitionEnd = Instant(nanoseconds: .max) }

    /// The time for a client with a self-signed certificate to be recognized.
    private static let recognitionTime = TimeSpan.seconds(5)

    func start() {
        accountFor(transport.isPlain ? 0 : MemoryCost.handshake)
        if transport.isPlain { return beginSpeaking() }
        handshakeBegan = loop.now
        setDeadline(loop.now + acceptor.settings.handshakeTimeout)
        wantRead(true)
    }

    // MARK: - Memory

    /// Reports memory to the meter.
    ///
    /// - Parameter bytes: What the connection takes from now on, without the blocks of buffers.
    private func accountFor(_ bytes: Int) {
        pool.meter.add(bytes - accounted)
        accounted = bytes
    }

    /// Bytes of memory that the connection holds.
    var footprint: Int { accounted + input.footprint + output.footprint + (spoken?.footprint ?? 0) }

    /// Stops reading, or reads again.
    func pause(_ isPaused: Bool) {
        guard isPaused != self.isPaused, !isInHandshake, !isRefused else { return }
        self.isPaused = isPaused
        if isPaused { wantRead(false) } else { advanceWhenTurnEnds() }
    }

    // MARK: - Events

    public override func readable() {
        guard !isPaused else { return wantRead(false) }
        guard !isRefused else { return discardInput() }
        if isInHandshake {
            guard !awaitsProxyHeader || receiveProxyHeader(), handshake() else { return }
        }
        isReceiving = true
        defer { isReceiving = false }
        for _ in 0..<Self.readsPerEvent {
            guard isOpen, receive() else { return }
        }
        // What OpenSSL has read ahead causes no event: continue after the other connections.
        if isOpen, transport.hasBufferedInput { readAgain() }
    }

    public override func writable() {
        guard !isRefused else { return wantWrite(false) }
        guard !isInHandshake else {
            // A request may have arrived with the last message of the handshake.
            if handshake() { readAgain() }
            return
        }
        wantWrite(false)
        advance()
        if isReadWaitingToWrite, isOpen {
            isReadWaitingToWrite = false
            readAgain()
        }
    }

    public override func deadlinePassed() {
        guard !isRefused else { return close(gracefully: false) }
        guard isInHandshake else {
            spoken?.deadlinePassed()
            return
        }
        acceptor.application.connectionRefused(self, awaitsProxyHeader ? .proxyHeader(.late) : .handshakeTimeout)
        abort()
    }

    // MARK: - Reading

    /// Reads once and processes the input.
    ///
    /// - Returns: Whether there may be more to read immediately.
    private func receive() -> Bool {
        let (step, room) = transport.fill(&input, from: self)
        guard room > 0 else {
            wantRead(false)
            return false
        }
        switch step {
        case .done:
            advance()
            return isOpen && spoken?.isInputHeld == false && transport.hasBufferedInput
        case .wantRead:
            input.releaseIfEmpty()
            return false
        case .wantWrite:
            isReadWaitingToWrite = true
            wantWrite(true)
            // Input in the socket cannot be read until then: it must not wake the loop again and again.
            wantRead(false)
            return false
        case .endOfStream:
            spoken?.inputEnded(isOrderly: true)
            return false
        case .failed:
            spoken?.inputEnded(isOrderly: false)
            return false
        }
    }
}

/// The header of a trusted proxy.
extension ServerConnection {
    /// Reads the header from the socket and not one byte more: TLS follows, and OpenSSL reads it from the socket.
    ///
    /// Bytes that belong to the header are taken immediately, so that the rest of a slow header does not wake the
    /// loop again and again.
    ///
    /// - Returns: Whether the header is complete and its client admitted.
    private func receiveProxyHeader() -> Bool {
        let taken = input.count
        switch peek(into: &input, atMost: ProxyHeader.longest) {
        case .bytes: break
        case .wouldBlock:
            input.releaseIfEmpty()
            return false
        case .endOfStream, .failed:
            refuseProxy(taken == 0 ? .handshake(.disconnected) : .proxyHeader(.cut))
            return false
        }
        let header: ProxyHeader?
        do throws(ProxyHeaderFault) { header = try ProxyHeader.parse(input.readable) } catch {
            refuseProxy(.proxyHeader(error))
            return false
        }
        guard discard((header?.length ?? input.count) - taken) else {
            refuseProxy(.handshake(.disconnected))
            return false
        }
        guard let header else { return false }
        input.removeAll()
        awaitsProxyHeader = false
        if let source = header.source { peer = source }
        acceptor.application.proxyHeaderRead(self, hasSource: header.source != nil)
        guard acceptor.admits(self) else {
            close(gracefully: false)
            return false
        }
        return true
    }

    /// Closes without an alert: the client speaks TLS, and its handshake has not begun.
    private func refuseProxy(_ refusal: ConnectionRefusal) {
        acceptor.application.connectionRefused(self, refusal)
        close(gracefully: false)
    }
}

/// The handshake, and what it shows: the client's identity and the host it asked for.
extension ServerConnection {
    /// The hosts of the listener that accepted the connection. Nil without TLS.
    public var hosts: VirtualHosts? {
        if case .tls(let stream) = transport { stream.hosts } else { nil }
    }

    /// The host that the client asked for in its handshake; nil if none, or not yet known.
    public var serverName: ServerName? {
        if case .tls(let stream) = transport { stream.serverName } else { nil }
    }

    /// That host, if it is one of the listener's hosts; nil if the listener's own rules apply.
    public var servedHost: [UInt8]? { servedName.flatMap { hosts?.hasHost($0.span) == true ? $0 : nil } }

    /// The duration of the TLS handshake since the connection was accepted, including the client's part; so far,
    /// while it is in flight. Nil without a handshake.
    public var handshakeDuration: TimeSpan? { handshakeBegan.map { (handshakeEnded ?? .now) - $0 } }

    /// Returns whether a request for a host may use this connection (RFC 9110 section 7.4). Certificate and client
    /// were judged by the rules of the host in the handshake, so it must be the same. If the handshake named none,
    /// the host must not have rules of its own.
    ///
    /// - Parameter host: The host without a port, in any case.
    public func serves(host: Span<UInt8>) -> Bool {
        if let servedName { return host.equals(lowercase: servedName) }
        return !(hosts?.hasHost(host) ?? false)
    }

    /// Continues the handshake.
    ///
    /// - Returns: Whether it is complete.
    func handshake() -> Bool {
        guard case .tls(let stream) = transport else { return true }
        switch stream.handshake() {
        case .done:
            handshakeEnded = .now
            verifiedIdentity = stream.clientIdentity
            servedName = stream.serverName?.bytes
            guard verifiedIdentity != nil || !demandsIdentity else {
                // Cannot happen while certificates are required. If it did, the client must not pass.
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

    /// Waits until the client has read the alert. With TLS 1.3 the client's handshake ends before ours, and it may
    /// have sent more; HTTP/2 clients do so immediately. Closing with unread input would reset the connection, and
    /// could destroy the alert on its way.
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

    /// Discards what a refused client sends, without TLS.
    private func discardInput() {
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

    /// Starts the application protocol: the client is known.
    private func beginSpeaking() {
        isInHandshake = false
        accountFor(transport.isPlain ? 0 : MemoryCost.connection)
        wantRead(true)
        if let verifiedIdentity {
            if verifiedIdentity.kind == .selfSigned { recognitionEnd = loop.now + Self.recognitionTime }
            // The clock of certificates has whole seconds, so add one. A longer time than a month makes no
            // difference.
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

    /// The application protocol; HTTP/1.1 without TLS. Nil if the handshake did not negotiate one and the listener
    /// does not assume HTTP/1.1.
    public var applicationProtocol: ApplicationProtocol? {
        if case .tls(let stream) = transport { stream.applicationProtocol } else { .http11 }
    }

    /// Whether a client certificate is required.
    private var demandsIdentity: Bool {
        if case .tls(let stream) = transport { stream.server?.demandsCertificates ?? true } else { false }
    }

    /// Whether the client's certificate is still valid. A connection does not outlive it; the next handshake reports
    /// the reason.
    var isClientGood: Bool {
        guard let verifiedIdentity else { return !demandsIdentity }
        return verifiedIdentity.notAfter > WallClock.seconds
    }
}

/// Work after every event, and the end of the connection.
extension ServerConnection {
    /// Processes input, answers and sends until nothing more can be done.
    func advance() {
        guard !isAdvancing, isOpen, var speaking = spoken else { return }
        isAdvancing = true
        var isAgain = true
        while isAgain, isOpen, !isAborted {
            speaking.advance()
            isAgain = !isAborted && flush(speaking)
            // Read each time, because a request may have become a tunnel.
            if let spoken, spoken !== speaking { speaking = spoken }
        }
        isAdvancing = false
        if isAborted { close(gracefully: false) }
        guard isOpen else { return }
        input.releaseIfEmpty()
        let wantsInput = !isReadWaitingToWrite && !isPaused && speaking.wantsInput
        wantRead(wantsInput)
        // An `advance` in another event may have made room for data that OpenSSL holds, for which the socket does not
        // become readable.
        if !isReceiving, wantsInput, transport.hasBufferedInput { readAgain() }
    }

    /// Advances the connection at the end of the loop's turn: the result of many events then leaves in one write, in
    /// few records.
    func advanceWhenTurnEnds() {
        guard !isAdvanceScheduled, isOpen else { return }
        isAdvanceScheduled = true
        acceptor.advanceWhenTurnEnds(self)
    }

    /// Runs `body` without advancing or closing the connection; the caller advances it afterwards.
    func advancingLater(_ body: () -> Void) {
        guard !isAdvancing else { return body() }
        isAdvancing = true
        body()
        isAdvancing = false
    }

    /// Sends the output.
    ///
    /// - Returns: Whether that made new work possible.
    private func flush(_ spoken: ConnectionProtocol) -> Bool {
        let (outcome, taken) = transport.drain(&output, to: self)
        switch outcome {
        case .all:
            // There was no output.
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

    /// Ends the connection immediately; the client notices that it was cut off.
    public func abort() {
        if isAdvancing { isAborted = true } else { close(gracefully: false) }
    }

    /// Completes what is in flight and begins nothing new.
    func drain() {
        guard !isRefused else { return close(gracefully: false) }
        if isInHandshake { closeGracefully() } else { spoken?.drain() }
    }

    /// Drains, but completes a handshake in flight and serves what the client may be sending right now.
    func windUp() {
        guard !isRefused else { return close(gracefully: false) }
        spoken?.windUp()
    }

    /// Whether no request is in flight.
    var isIdle: Bool { spoken?.isIdle ?? false }

    /// Whether every request received is decided, and none can begin.
    var isDecided: Bool { isRefused || spoken?.isDecided ?? false }

    func closeGracefully() {
        close(gracefully: true)
    }

    /// Notifies the client of the end of the output, and keeps reading.
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

/// Estimates of the bytes that a client connection takes without the blocks of its buffers and the memory of nghttp2:
/// mostly OpenSSL's. The measured resident memory corrects them.
enum MemoryCost {
    /// During a TLS handshake.
    static let handshake = 48 * 1024
    static let connection = 24 * 1024
    /// A stream of HTTP/2 and its exchange.
    static let stream = 4 * 1024
}
