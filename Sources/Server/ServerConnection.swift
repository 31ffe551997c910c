internal import Bytes
public import EventLoop
public import TLS

/// A client connection: its socket, TLS or none, and the client's identity. Its application protocol is a
/// `ConnectionProtocol`.
///
///     header ─> handshake ─> speaking ─> closed
///        │          └─> refused ──────────┘
///        └────────────────────────────────┘
///
/// Owned by the `Acceptor` until it closes. Holds at most one block of input and one of output, and none while idle.
/// Bytes are read only while they are taken, so TCP stops a client that sends faster than its upstream reads.
///
/// The order of work in every event: read, then `advance`, which lets the protocol take the input and sends what it
/// answers, until nothing more can be done. Code below `advance` does not write to the socket, and a nested `advance`
/// has no effect.
public final class ServerConnection: SocketHandler {
    private enum Phase {
        /// The header of a trusted proxy must come first.
        case header
        /// Also of a connection without TLS, until it starts.
        case handshake
        /// The handshake has failed, and the client has not yet read the alert.
        ///
        /// - discarded: Bytes that it has sent since.
        case refused(discarded: Int)
        case speaking(ConnectionProtocol)
        case closed

        var isHandshake: Bool {
            switch self {
            case .header, .handshake: true
            case .refused, .speaking, .closed: false
            }
        }
    }

    /// The work that an event has begun.
    private enum Turn {
        case none
        /// `readable` is running, which checks itself for more input.
        case receiving
        /// `advance` is running.
        case advancing
        /// It was aborted below `advance`, where buffers are in use: it closes at the end of `advance`.
        case aborting

        var isAdvancing: Bool { self == .advancing || self == .aborting }
    }

    /// The reasons for which nothing is read.
    private struct Pause: OptionSet {
        let rawValue: UInt8

        /// Memory is short.
        static let memory = Pause(rawValue: 1)
        /// TLS has to write (a key update) before it can read.
        static let writing = Pause(rawValue: 2)
    }

    private var phase: Phase
    private var turn = Turn.none
    public internal(set) var standing = ConnectionStanding.none
    private var pauses: Pause = []
    /// Nil until the handshake is complete, and without TLS.
    private var client: HandshakeResult?

    /// Effective client address, used for limits, logs and upstreams: the client's address; of a connection that a
    /// trusted proxy relays, the one that its header names, as soon as it is read.
    public private(set) var peer: SocketAddress
    /// Whether a trusted proxy has named that address.
    public private(set) var isRelayed = false
    let acceptor: Acceptor
    /// The index of its listener, in the order in which the acceptor listens.
    public let listener: Int
    var slot = 0
    /// The number of the connection: the acceptor counts them.
    var number: UInt64 = 0
    private let accepted: Instant
    /// Bytes of memory reported to the meter, without the blocks of buffers.
    private var accounted = 0

    let transport: Transport
    /// Bytes received and not yet processed.
    var input: ByteBuffer
    /// Bytes to send.
    var output: ByteBuffer
    /// Requests begun on this connection.
    public internal(set) var requests = 0
    /// What the application keeps for all requests on this connection.
    public var memory: ConnectionMemory?
    /// Whether the connection ends because its client is no longer admitted.
    public internal(set) var isBarred = false
    /// Whether the connection is advanced at the end of the loop's turn.
    var isAdvanceScheduled = false

    /// The maximum of reads in one event, before other connections have their turn.
    private static let readsPerEvent = 4

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
        phase = isProxied ? .header : .handshake
        accepted = acceptor.loop.now
        input = ByteBuffer(pool: acceptor.pool)
        output = ByteBuffer(pool: acceptor.pool)
        super.init(loop: acceptor.loop, socket: socket)
    }

    func start() {
        accountFor(transport.isPlain ? 0 : MemoryCost.handshake)
        if transport.isPlain {
            acceptor.application.plainConnectionBegan(self)
            return beginSpeaking()
        }
        setDeadline(accepted + acceptor.settings.handshakeTimeout)
        wantRead(true)
    }

    /// The application protocol; nil before, and after the end.
    private var spoken: ConnectionProtocol? { if case .speaking(let spoken) = phase { spoken } else { nil } }

    /// Whether an application protocol is the one that is spoken.
    func speaks(_ candidate: ConnectionProtocol) -> Bool { spoken === candidate }

    /// Continues with another application protocol.
    func speak(_ next: ConnectionProtocol) {
        guard case .speaking = phase else { return }
        phase = .speaking(next)
        next.began()
    }

    var isInHandshake: Bool { phase.isHandshake }
    /// Whether the handshake has failed and the client has not yet read the alert.
    var isRefused: Bool { if case .refused = phase { true } else { false } }
    /// Whether it is open and stays so.
    var isServing: Bool { isOpen && turn != .aborting }
    /// Whether the worker or the connection's generation is ending.
    public var isEnding: Bool { acceptor.isDraining }
    /// Whether the connection was wound up: by itself, or with its acceptor.
    private var isWoundUp = false
    /// Whether each response ends the connection.
    var endsWithResponse: Bool { isWoundUp || acceptor.isDraining }
    /// Whether the client may still send the request that may be on its way.
    var isWindingUp: Bool { isWoundUp || acceptor.isWindingUp }
    var pool: BufferPool { acceptor.pool }

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

    /// Whether reading is paused because memory is short.
    var isPaused: Bool { pauses.contains(.memory) }

    /// Stops reading, or reads again.
    func pause(_ isPaused: Bool) {
        guard isPaused != self.isPaused, case .speaking = phase else { return }
        if isPaused {
            pauses.insert(.memory)
            wantRead(false)
        } else {
            pauses.remove(.memory)
            advanceWhenTurnEnds()
        }
    }

    // MARK: - Events

    public override func readable() {
        guard !isPaused else { return wantRead(false) }
        switch phase {
        case .header: guard receiveProxyHeader(), handshake() else { return }
        case .handshake: guard handshake() else { return }
        case .refused: return discardInput()
        case .speaking: break
        case .closed: return
        }
        turn = .receiving
        defer { turn = .none }
        for _ in 0..<Self.readsPerEvent {
            guard isOpen, receive() else { return }
        }
        // What OpenSSL has read ahead causes no event: continue after the other connections.
        if isOpen, transport.hasBufferedInput { readAgain() }
    }

    public override func writable() {
        switch phase {
        case .refused, .closed: wantWrite(false)
        // A request may have arrived with the last message of the handshake.
        case .header, .handshake: if handshake() { readAgain() }
        case .speaking:
            wantWrite(false)
            advance()
            if pauses.contains(.writing), isOpen {
                pauses.remove(.writing)
                readAgain()
            }
        }
    }

    public override func deadlinePassed() {
        switch phase {
        case .header: refuse(late: .proxyHeader(.late))
        case .handshake: refuse(late: .handshakeTimeout)
        case .refused: close(gracefully: false)
        case .speaking(let spoken): spoken.deadlinePassed()
        case .closed: break
        }
    }

    private func refuse(late refusal: ConnectionRefusal) {
        acceptor.application.connectionRefused(self, refusal)
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
            pauses.insert(.writing)
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
        phase = .handshake
        if let source = header.source {
            peer = source
            isRelayed = true
        }
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
    public var servedHost: [UInt8]? { client?.serverName.flatMap { hosts?.hasHost($0.span) == true ? $0 : nil } }

    /// The client's certificate, after the handshake. Nil if it has presented none, and without TLS.
    public var identity: ClientIdentity? { client?.identity }

    /// The key of the client's certificate, or without a certificate its address, for counting alone: each process
    /// seeds Swift's hashing differently. Nil before the end of the handshake, and without TLS.
    public var clientKey: Int? { client?.key }

    /// The holder of the connection: the client's key. It is the address while the key is unknown, if there is none,
    /// or if it is self-signed and not yet recognized.
    var holder: Int { (recognitionEnd.nanoseconds == .max ? clientKey : nil) ?? peer.block.hashValue }

    /// The end of the client's certificate.
    var identityEnd: Instant? { client?.identityEnd }
    /// The time by which the application has to recognize a client with a self-signed certificate.
    var recognitionEnd: Instant { client?.recognitionEnd ?? Instant(nanoseconds: .max) }

    /// Makes the client's next handshake a full one, in which it can present a certificate.
    public func forgetSession() {
        if case .tls(let stream) = transport { stream.forgetSession() }
    }

    /// Records that the application knows the client of a self-signed certificate.
    public func recognize() { client?.recognitionEnd = Instant(nanoseconds: .max) }

    /// Whether the client has authenticated as the application demands.
    public var isKnown: Bool { standing >= .known }

    /// Records that the client has authenticated as the application demands.
    public func authenticated() { standing = max(standing, .known) }

    /// Records that the application counts the connection for its client.
    public func countedForClient() { standing = .counted }

    /// The duration of the TLS handshake since the connection was accepted, including the client's part; so far,
    /// while it is in flight. Nil without a handshake.
    public var handshakeDuration: TimeSpan? { transport.isPlain ? nil : client?.duration ?? .now - accepted }

    /// The group of the handshake's key exchange. Nil before the end of the handshake, and if it exchanged no keys.
    public var keyExchange: KeyExchange? { client?.keyExchange }

    /// Returns the duration of the handshake, once.
    public func takeHandshakeDuration() -> TimeSpan? {
        guard client?.isReported == false else { return nil }
        client?.isReported = true
        return client?.duration
    }

    /// Returns whether a request for a host may use this connection (RFC 9110 section 7.4). Certificate and client
    /// were judged by the rules of the host in the handshake, so it must be the same. If the handshake named none,
    /// the host must not have rules of its own.
    ///
    /// - Parameter host: The host without a port, in any case.
    public func serves(host: Span<UInt8>) -> Bool {
        if let name = client?.serverName { return host.equals(lowercase: name) }
        return !(hosts?.hasHost(host) ?? false)
    }

    /// Continues the handshake.
    ///
    /// - Returns: Whether it is complete.
    func handshake() -> Bool {
        guard case .tls(let stream) = transport else { return true }
        switch stream.handshake() {
        case .done:
            client = HandshakeResult(stream, from: peer, since: accepted, now: loop.now)
            guard identity != nil || !demandsIdentity else {
                // Cannot happen where certificates are required. If it did, the client must not pass.
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
        phase = .refused(discarded: 0)
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
                input.removeAll()
                guard case .refused(let discarded) = phase else { return }
                phase = .refused(discarded: discarded + count)
                if discarded + count > acceptor.settings.lingerBytes { return close(gracefully: false) }
            case .wantRead: return input.releaseIfEmpty()
            case .wantWrite, .endOfStream, .failed: return close(gracefully: false)
            }
        }
    }

    /// Starts the application protocol: the client is known.
    private func beginSpeaking() {
        accountFor(transport.isPlain ? 0 : MemoryCost.connection)
        wantRead(true)
        let chosen: ConnectionProtocol
        switch applicationProtocol {
        case .http11: chosen = HTTP1Session(on: self)
        case .http2: chosen = HTTP2ServerConnection(on: self)
        case nil:
            acceptor.application.connectionRefused(self, .handshake(.tls("the client offered no protocol (ALPN)")))
            return close(gracefully: false)
        }
        phase = .speaking(chosen)
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
        guard let identity else { return !demandsIdentity }
        return identity.notAfter > WallClock.seconds
    }
}

/// Work after every event, and the end of the connection.
extension ServerConnection {
    /// Processes input, answers and sends until nothing more can be done.
    func advance() {
        guard !turn.isAdvancing, isOpen, case .speaking(var speaking) = phase else { return }
        let outer = turn
        turn = .advancing
        var isAgain = true
        while isAgain, isServing {
            speaking.advance()
            isAgain = turn != .aborting && flush(speaking)
            // Read each time, because a request may have become a tunnel.
            if let spoken, spoken !== speaking { speaking = spoken }
        }
        endTurn(outer)
        guard isOpen else { return }
        input.releaseIfEmpty()
        let wantsInput = pauses.isEmpty && speaking.wantsInput
        wantRead(wantsInput)
        // An `advance` in another event may have made room for data that OpenSSL holds, for which the socket does not
        // become readable.
        if outer != .receiving, wantsInput, transport.hasBufferedInput { readAgain() }
    }

    /// Continues with the work around `advance`, or closes what was aborted meanwhile.
    private func endTurn(_ outer: Turn) {
        let isAborted = turn == .aborting
        turn = outer
        if isAborted { close(gracefully: false) }
    }

    /// Advances the connection at the end of the loop's turn: the result of many events then leaves in one write, in
    /// few records.
    func advanceWhenTurnEnds() {
        guard !isAdvanceScheduled, isOpen else { return }
        isAdvanceScheduled = true
        acceptor.advanceWhenTurnEnds(self)
    }

    /// Runs `body` without advancing or closing the connection meanwhile; the caller advances it afterwards.
    func advancingLater(_ body: () -> Void) {
        guard !turn.isAdvancing else { return body() }
        let outer = turn
        turn = .advancing
        body()
        endTurn(outer)
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
            wantWrite(pauses.contains(.writing))
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
        if turn.isAdvancing { turn = .aborting } else { close(gracefully: false) }
    }

    /// Completes what is in flight and begins nothing new.
    func drain() {
        switch phase {
        case .header, .handshake: closeGracefully()
        case .refused: close(gracefully: false)
        case .speaking(let spoken): spoken.drain()
        case .closed: break
        }
    }

    /// Drains, but completes a handshake in flight and serves what the client may be sending right now.
    func windUp() {
        isWoundUp = true
        switch phase {
        case .refused: close(gracefully: false)
        case .speaking(let spoken): spoken.windUp()
        case .header, .handshake, .closed: break
        }
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
        let last = phase
        if case .speaking(let spoken) = last { spoken.closed() }
        phase = .closed
        input.removeAll()
        output.removeAll()
        accountFor(0)
        acceptor.remove(self, isInHandshake: last.isHandshake)
    }
}
