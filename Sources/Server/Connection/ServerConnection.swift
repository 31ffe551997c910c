internal import Bytes
public import EventLoop
public import TLS

/// One client connection: its socket, TLS or nothing around it, and who the client is. What is spoken on it is a
/// `ConnectionProtocol`.
///
/// Owned by the `Acceptor` until it closes. Holds at most one block for what comes in and one for what goes out, and
/// none while idle. Bytes are read only while somebody takes them, so a client that sends faster than its upstream reads
/// is stopped by TCP.
///
/// The order of work in every event: read, then `advance`, which lets the protocol take what has come and writes what it
/// answers, until nothing more can be done. Nothing below `advance` writes to the socket or calls `advance` to any effect.
///
/// The handshake and its results are in `ServerConnection+Handshake`; settling and closing are in
/// `ServerConnection+Advancing`.
public final class ServerConnection: SocketHandler {
    /// Effective client address, used for limits, logs and upstreams: the client's address; of a connection that a
    /// trusted proxy relays, the one that its header names, as soon as it is read.
    public internal(set) var peer: SocketAddress
    /// The peer is a trusted proxy, whose header must come before anything else.
    var awaitsProxyHeader: Bool
    /// The application has admitted it, and learns when it has ended.
    var isAdmitted = false
    let acceptor: Acceptor
    /// Its place among those of the acceptor, in the order in which these began to be listened on.
    public let listener: Int
    var slot = 0
    /// Counts the connections of the acceptor.
    var number: UInt64 = 0
    /// The client has shown who it is, by whatever the application asks for; the application says so.
    public var isKnown = false
    /// The application counts the connection among those of its client.
    public var isCountedForClient = false
    /// Until when a client with a certificate of its own making has to be recognized by the application.
    var recognitionEnd = Instant(nanoseconds: .max)
    /// Bytes of memory that the meter knows of, beside the blocks of buffers.
    private var accounted = 0
    /// Nothing is read from it while memory is short.
    private(set) var isPaused = false

    let transport: Transport
    /// What has come, and what is to go.
    var input: ByteBuffer {
        @inline(__always) _read {
            var borrowed = keptInput.borrow()
            defer { keptInput.end(&borrowed) }
            yield borrowed.value
        }
        @inline(__always) _modify {
            var borrowed = keptInput.borrow()
            defer { keptInput.end(&borrowed) }
            yield &borrowed.value
        }
    }
    private var keptInput: Borrowable<ByteBuffer>
    var output: ByteBuffer {
        @inline(__always) _read {
            var borrowed = keptOutput.borrow()
            defer { keptOutput.end(&borrowed) }
            yield borrowed.value
        }
        @inline(__always) _modify {
            var borrowed = keptOutput.borrow()
            defer { keptOutput.end(&borrowed) }
            yield &borrowed.value
        }
    }
    private var keptOutput: Borrowable<ByteBuffer>
    /// Nil during the handshake, and when the connection is closed.
    var spoken: ConnectionProtocol?
    var isInHandshake = true
    /// Its handshake has failed, and the client has still to take the alert that says why.
    var isRefused = false
    /// Octets that a refused client has sent since.
    var discarded = 0

    /// The client's certificate; there from the end of the handshake. Nil without TLS.
    public var identity: ClientIdentity? { verifiedIdentity }
    var verifiedIdentity: ClientIdentity?
    /// When its certificate ends.
    var identityEnd: Instant?
    /// The bytes of `serverName` from the end of the handshake on: every request asks for them.
    var servedName: [UInt8]?
    var handshakeBegan: Instant?
    var handshakeEnded: Instant?
    /// Requests begun on this connection.
    public var requests: Int { requestCount }
    var requestCount = 0

    /// The key of the client's certificate, for counting alone: each process seeds Swift's hashing differently. Nil
    /// before the end of the handshake, and without TLS.
    public var clientKey: Int? { verifiedIdentity.map { $0.keyID?.hashValue ?? $0.thumbprint.hashValue } }

    /// Who holds the connection: the client's key; as long as that is not known, or only the client vouches for it, the
    /// address.
    var holder: Int { (recognitionEnd.nanoseconds == .max ? clientKey : nil) ?? peer.block.hashValue }

    /// What the application wants its requests on this connection to have in common.
    public var memory: ConnectionMemory?

    /// Whether the handshake was reported already: it belongs to no request.
    public var wasHandshakeReported: Bool {
        get { isHandshakeReported }
        set { isHandshakeReported = newValue }
    }
    private var isHandshakeReported = false
    /// It is ended because of who its client is.
    public internal(set) var isBarred = false
    /// The worker, or what it has been configured by, is about to end.
    public var isEnding: Bool { acceptor.isDraining }

    /// TLS has to write (a key update) before it can read on.
    var isReadWaitingToWrite = false
    var isAdvancing = false
    /// It is settled when the loop's turn ends.
    var isAdvanceScheduled = false
    /// In the middle of `readable`, which sees for itself whether there is more.
    private(set) var isReceiving = false
    /// Aborted below `advance`, where buffers are in use: the connection is closed at its end.
    var isAborted = false
    /// Reads in one event before other connections get their turn.
    private static let readsPerEvent = 4

    var pool: BufferPool { acceptor.pool }

    /// - Parameters:
    ///   - tls: nil for a connection without TLS.
    ///   - isProxied: whether the peer is a trusted proxy. Then there is TLS.
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
        keptInput = Borrowable(ByteBuffer(pool: acceptor.pool))
        keptOutput = Borrowable(ByteBuffer(pool: acceptor.pool))
        super.init(loop: acceptor.loop, socket: socket)
    }

    /// The application knows the client, whose certificate nobody else has signed.
    public func recognize() { recognitionEnd = Instant(nanoseconds: .max) }

    /// For a client with a certificate of its own making to become recognized.
    static let recognitionTime = TimeSpan.seconds(5)

    func start() {
        accountFor(transport.isPlain ? 0 : MemoryCost.handshake)
        if transport.isPlain { return beginSpeaking() }
        handshakeBegan = loop.now
        setDeadline(loop.now + acceptor.settings.handshakeTimeout)
        wantRead(true)
    }

    // MARK: - Memory

    /// - Parameter bytes: that the connection takes from now on, beside the blocks of buffers.
    func accountFor(_ bytes: Int) {
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
        // What OpenSSL has read ahead announces itself no more: come back to it after the others.
        if isOpen, transport.hasBufferedInput { readAgain() }
    }

    public override func writable() {
        guard !isRefused else { return wantWrite(false) }
        guard !isInHandshake else {
            // A request may have come with the handshake's last message.
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

    /// Reads once and does what follows. - Returns: whether there may be more at once.
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
            // What lies in the socket cannot be taken till then: it must not wake the loop again and again.
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
