internal import Bytes
public import EventLoop
internal import HTTP
public import TLS

/// One client connection: TLS or the bare socket below, HTTP/1.1 requests in turn above.
///
/// Owned by the `Acceptor` until it closes. Holds at most one block for what comes in and one for what goes out, and
/// none while idle. Bytes are read only while somebody takes them, so a client that sends faster than its upstream reads
/// is stopped by TCP.
///
/// The order of work in every event: read, then `settle`, which parses, lets the exchange answer, and writes, until
/// nothing more can be done. Nothing below `settle` writes to the socket or calls `settle` to any effect.
public final class ServerConnection: SocketHandler {
    /// Whom limits, logs and services know the connection by: the client's address; of a connection that a trusted proxy
    /// relays, the one that its header names, as soon as it is read.
    public internal(set) var peer: SocketAddress
    /// The peer is a trusted proxy, whose header must come before anything else.
    var awaitsProxyHeader: Bool
    /// The application has admitted it, and is told when it has ended.
    var isAdmitted = false
    let acceptor: Acceptor
    var slot = 0
    /// Counts the connections of the acceptor.
    var number: UInt64 = 0
    /// The client has shown who it is, by whatever the application asks for; the application says so.
    public var isKnown = false

    let transport: Transport
    var input: ByteBuffer
    var output: ByteBuffer
    private var parser: RequestHeadParser
    var decoder = ContentDecoder(.none, extensions: .refused)
    var cycle = MessageCycle()
    var exchange: Exchange?
    /// The client's certificate; there from the end of the handshake. Nil without TLS.
    public var identity: ClientIdentity? { verifiedIdentity }
    private var verifiedIdentity: ClientIdentity?
    /// When its certificate ends.
    private var identityEnd: Instant?
    /// The hosts of the listener that accepted the connection. Nil without TLS.
    public var hosts: VirtualHosts? {
        if case .tls(let stream) = transport { stream.hosts } else { nil }
    }
    /// The host that the client asked for in its handshake; nil if for none, or not yet.
    public var serverName: ServerName? {
        if case .tls(let stream) = transport { stream.serverName } else { nil }
    }
    /// The bytes of that from the end of the handshake on: every request asks for them.
    private var servedName: [UInt8]?
    /// Whether nobody may pass without one.
    private var demandsIdentity: Bool {
        if case .tls(let stream) = transport { stream.server?.demandsCertificates ?? true } else { false }
    }
    /// Requests begun on this connection.
    public var requests: Int { requestCount }
    private var requestCount = 0
    /// How long the TLS handshake took, from the accepting on, the client's part in it included; while it lasts, how long
    /// it has taken. Nil where there was none.
    public var handshakeDuration: TimeSpan? { handshakeBegan.map { (handshakeEnded ?? .now) - $0 } }
    private var handshakeBegan: Instant?
    private var handshakeEnded: Instant?

    /// Whether a request for that host may come over this connection (RFC 9110 section 7.4): certificate and clients were judged
    /// by the rules of the host that the handshake asked for, so it must be the same. Where it asked for none, it must be one
    /// without rules of its own.
    ///
    /// - Parameter host: without a port, in any case.
    public func serves(host: Span<UInt8>) -> Bool {
        if let servedName { return host.equals(lowercase: servedName) }
        return !(hosts?.hasHost(host) ?? false)
    }

    var isInHandshake: Bool { cycle.phase == .handshake }
    /// How long the client is waited for in a request.
    var clientTime: ClientTime

    /// The client holds the content back until it is told to send it (RFC 9110 section 10.1.1).
    var isContentAwaited = false
    /// The exchange has not taken all content that is there.
    var isContentHeld = false
    /// TLS has to write (a key update) before it can read on.
    var isReadWaitingToWrite = false
    var isSettling = false
    /// In the middle of `readable`, which sees for itself whether there is more.
    private var isReceiving = false
    /// Aborted below `settle`, where buffers are in use: the connection is closed at its end.
    var isAborted = false
    private var lingered = 0
    /// Reads in one event before other connections get their turn.
    private static let readsPerEvent = 4

    var pool: BufferPool { acceptor.pool }

    /// - Parameters:
    ///   - tls: nil for a connection without TLS.
    ///   - isProxied: whether the peer is a trusted proxy. Then there is TLS.
    init?(
        acceptor: Acceptor, socket: consuming Socket, peer: SocketAddress, tls: VirtualHosts?, isProxied: Bool
    ) {
        if let tls {
            guard let stream = TLSStream(accepting: socket.number, tls) else { return nil }
            transport = .tls(stream)
        } else {
            transport = .plain
        }
        self.acceptor = acceptor
        self.peer = peer
        awaitsProxyHeader = isProxied
        input = ByteBuffer(pool: acceptor.pool)
        output = ByteBuffer(pool: acceptor.pool)
        parser = RequestHeadParser(limits: acceptor.settings.head)
        clientTime = ClientTime(idle: acceptor.settings.contentIdleTimeout, rate: acceptor.settings.contentRate)
        super.init(loop: acceptor.loop, socket: socket)
    }

    func start() {
        if transport.isPlain { return awaitRequests() }
        handshakeBegan = loop.now
        setDeadline(loop.now + acceptor.settings.handshakeTimeout)
        wantRead(true)
    }

    // MARK: - Events

    public override func readable() {
        if cycle.phase == .handshake {
            guard !awaitsProxyHeader || receiveProxyHeader(), handshake() else { return }
        }
        isReceiving = true
        defer { isReceiving = false }
        for _ in 0..<Self.readsPerEvent {
            guard isOpen, receive() else { return }
        }
        // What OpenSSL has read ahead announces itself no more: come back to it after the others.
        if isOpen, transport.hasBufferedInput { readAgain() }
    }

    public override func writable() {
        guard cycle.phase != .handshake else {
            // A request may have come with the handshake's last message.
            if handshake() { readAgain() }
            return
        }
        wantWrite(false)
        settle()
        if isReadWaitingToWrite, isOpen {
            isReadWaitingToWrite = false
            readAgain()
        }
    }

    public override func deadlinePassed() {
        switch cycle.phase {
        case .handshake:
            acceptor.application.connectionRefused(self, awaitsProxyHeader ? .proxyHeader(.late) : .handshakeTimeout)
            abort()
        case .idle:
            if !isClientGood { acceptor.application.connectionRefused(self, .certificateExpired) }
            closeGracefully()
        case .lingering: close(gracefully: false)
        case .head, .content, .response:
            guard let exchange, !exchange.isAnswered else { return cutOff() }
            if cycle.phase == .head {
                cycle.headRefused()
                exchange.beganAt = loop.now
            }
            cycle.isPersistent = false
            exchange.requestTimedOut()
            settle()
        }
    }

    /// The client is overdue, and was answered already: nothing can be said to it any more.
    private func cutOff() {
        exchange?.cutOff(clientTime.debt)
        abort()
    }

    /// Sets the deadline of the request that is served.
    func awaitClient() {
        if let end = clientTime.end { setDeadline(end) } else { clearDeadline() }
    }

    // MARK: - Reading

    /// - Returns: whether the handshake is complete.
    private func handshake() -> Bool {
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
            wantWrite(false)
            acceptor.leaveHandshake()
            awaitRequests()
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
            close(gracefully: false)
        }
        return false
    }

    /// Nothing more is to be settled about who the client is.
    private func awaitRequests() {
        cycle.handshakeDone()
        clientTime.reset(now: loop.now)
        wantRead(true)
        if let verifiedIdentity {
            // Not a moment too early, for the clock of certificates has whole seconds. A month is as good as a lifetime here.
            let left = min(max(0, verifiedIdentity.notAfter - WallClock.seconds), 30 * 86_400) + 1
            identityEnd = loop.now + .seconds(left)
        }
        limitIdleness()
    }

    /// An idle connection stays for as long as it may be unused, and no longer than its client's certificate is good. With a
    /// clock that is set meanwhile, the next request tells.
    func limitIdleness() {
        let end = loop.now + acceptor.settings.keepAliveTimeout
        setDeadline(identityEnd.map { min(end, $0) } ?? end)
    }

    /// Reads once and does what follows. - Returns: whether there may be more at once.
    private func receive() -> Bool {
        guard input.room > 0 else {
            wantRead(false)
            return false
        }
        switch transport.read(from: self, into: &input) {
        case .done:
            settle()
            return isOpen && !isContentHeld && transport.hasBufferedInput
        case .wantRead:
            input.releaseIfEmpty()
            return false
        case .wantWrite:
            isReadWaitingToWrite = true
            wantWrite(true)
            // What lies in the socket cannot be taken till then: it must not wake the loop again and again.
            wantRead(false)
            return false
        case .endOfStream, .failed:
            // Also a client that has only ended its sending side: none of ours does, and a request whose sender is gone
            // is not worth an upstream's time.
            close(gracefully: cycle.phase == .idle)
            return false
        }
    }

    // MARK: - Settling

    /// Parses, pushes and writes until nothing more can be done now.
    func settle() {
        guard !isSettling, isOpen else { return }
        isSettling = true
        var isAgain = true
        while isAgain, isOpen, !isAborted {
            advance()
            isAgain = !isAborted && flush()
        }
        isSettling = false
        if isAborted { close(gracefully: false) }
        guard isOpen else { return }
        input.releaseIfEmpty()
        wantRead(wantsInput)
        // Whoever settled from another event may have made room for what OpenSSL holds, which makes no socket readable.
        if !isReceiving, wantsInput, transport.hasBufferedInput { readAgain() }
    }

    private var wantsInput: Bool {
        guard !isReadWaitingToWrite else { return false }
        return switch cycle.phase {
        case .handshake, .idle, .head, .lingering: true
        case .content: !isContentHeld
        // To notice a client that goes away; but a request sent ahead waits where it is.
        case .response: input.isEmpty
        }
    }

    /// Takes in what has been read, as far as the phase allows.
    private func advance() {
        while isOpen, !isAborted {
            switch cycle.phase {
            case .idle, .head:
                guard !input.isEmpty, output.isEmpty else { return }
                guard parseHead() else { return }
            case .content:
                guard let exchange, pushContent(to: exchange) else { return }
            case .lingering:
                lingered += input.count
                input.removeAll()
                if lingered > acceptor.settings.lingerBytes { close(gracefully: false) }
                return
            case .handshake, .response: return
            }
        }
    }

    /// - Returns: whether a head was completed.
    private func parseHead() -> Bool {
        let exchange = currentExchange()
        do throws(MessageFault) {
            switch try parser.parse(input.readable, into: &exchange.head) {
            case .incomplete:
                if cycle.phase == .idle {
                    cycle.headBegun()
                    exchange.beganAt = loop.now
                    setDeadline(loop.now + acceptor.settings.headTimeout)
                }
                return false
            case .complete(let length):
                begin(exchange, headLength: length)
                return isOpen
            }
        } catch {
            parser.reset()
            cycle.headRefused()
            input.removeAll()
            exchange.beganAt = loop.now
            exchange.requestFaulted(error)
            return false
        }
    }

    private func currentExchange() -> Exchange {
        if let exchange { return exchange }
        let made = acceptor.application.makeExchange(for: self)
        exchange = made
        return made
    }

    private func begin(_ exchange: Exchange, headLength: Int) {
        requestCount += 1
        exchange.beganAt = loop.now
        guard isClientGood else {
            // The connection lives no longer than its certificate. The next handshake says so with the exact alert.
            acceptor.application.connectionRefused(self, .certificateExpired)
            return closeGracefully()
        }
        // The exchange takes over the block that holds its head; what follows the head moves to a new one.
        swap(&input, &exchange.headBytes)
        if exchange.headBytes.count > headLength {
            input.append(exchange.headBytes.readable.extracting(headLength...))
            exchange.headBytes.truncate(to: headLength)
        }
        let framing = exchange.head.framing
        decoder = ContentDecoder(framing, extensions: .refused)
        isContentAwaited = exchange.head.expectsContinue
        isContentHeld = false
        cycle.headComplete(
            isPersistent: exchange.head.isPersistent && requestCount < acceptor.settings.requestsPerConnection
                && !acceptor.isDraining)
        if framing.hasContent { clientTime.contentBegins(now: exchange.began) }
        awaitClient()
        exchange.headReceived()
    }

    private var isClientGood: Bool {
        guard let verifiedIdentity else { return !demandsIdentity }
        return verifiedIdentity.notAfter > WallClock.seconds
    }

    /// - Returns: whether the content is complete.
    private func pushContent(to exchange: Exchange) -> Bool {
        do throws(MessageFault) {
            while isOpen, !isAborted {
                // A copy while it is in use: an access to the property that lasts would be checked for exclusivity.
                var decoder = decoder
                let step = try decoder.next(input.readable)
                self.decoder = decoder
                switch step {
                case .needMore:
                    exchange.contentPaused()
                    return false
                case .framing(let count): input.consume(count)
                case .content(let count):
                    // Said before, not after: an exchange that can pass the content on at once wants more within this call.
                    isContentHeld = true
                    let taken = exchange.receive(content: input.readable.extracting(first: count))
                    if taken > 0 {
                        input.consume(taken)
                        self.decoder.consumed(taken)
                        exchange.receivedBytes += UInt64(taken)
                        clientTime.contentCame(taken, now: loop.now)
                    }
                    if taken == count { isContentHeld = false }
                    // If not, the upstream is slower than the client; its own timeouts watch it.
                    if isContentHeld { clientTime.contentHeld(now: loop.now) }
                    awaitClient()
                    if isContentHeld { return false }
                case .end:
                    cycle.contentEnded()
                    clientTime.contentEnded()
                    awaitClient()
                    exchange.contentEnded()
                    return true
                }
            }
        } catch {
            cycle.isPersistent = false
            input.removeAll()
            // Denied already, perhaps within this very event: the answer must still reach the client, whatever it sends.
            if !cycle.isResponseEnded { exchange.requestFaulted(error) }
        }
        return false
    }

    /// The exchange takes content again.
    func resumeContent() {
        guard isContentHeld else { return }
        isContentHeld = false
        clientTime.contentWanted(now: loop.now)
        awaitClient()
        settle()
    }
}
