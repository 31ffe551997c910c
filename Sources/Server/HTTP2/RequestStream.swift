internal import Bytes
internal import EventLoop
internal import HTTP

/// A stream and the exchange that serves its request. Both serve one request after the other.
///
/// What becomes of it as a tunnel is in `RequestStream+Tunnel`, how long its client is waited for in `RequestStream+Time`.
final class RequestStream: HTTP2Stream {
    /// Owns the session, which owns this.
    unowned let owner: HTTP2ServerConnection
    /// Its place among the connection's streams.
    let place: Int
    private(set) var exchange: Exchange?
    private(set) var phase = Phase.waiting
    /// How long the client is waited for.
    var time: ClientTime
    /// Whether the request asks for a tunnel, or has become one.
    var tunnel = StreamTunnel.none
    /// Some of the content is not taken.
    private var isContentHeld = false
    /// No more of it comes.
    private(set) var isContentOver = false
    /// Within `receive(content:)`.
    private var isReceiving = false
    /// All of the response was handed over.
    private var isComplete = false
    /// The response was aborted, and the exchange does not know of it yet.
    var isCutOff = false
    /// Octets of the response that were framed when that was looked at last.
    var framed: UInt64 = 0
    /// The connection knows that some of the response was handed over.
    var isMoved = false

    /// How far it has come with the one request that a stream carries.
    enum Phase: Equatable {
        /// None has begun.
        case waiting
        /// Its head waits for the end of the stream, as long as for the rest of a head.
        case held(until: Instant)
        /// The exchange serves it.
        case serving
        /// It is settled, and none comes before the stream has ended: the end of a tunnel may still wait for the client to read.
        case over
    }

    /// The exchange serves a request.
    var isServing: Bool { phase == .serving }

    /// No exchange has begun with the request.
    private var isUnserved: Bool {
        switch phase {
        case .waiting, .held: true
        case .serving, .over: false
        }
    }

    init(of owner: HTTP2ServerConnection, pool: BufferPool) {
        self.owner = owner
        place = owner.streams.count
        time = ClientTime(idle: owner.settings.contentIdleTimeout, rate: owner.settings.contentRate)
        super.init(pool: pool)
    }

    /// Lets go of the exchange, if it serves nothing.
    func release() {
        guard !isServing else { return }
        exchange?.carrier = nil
        exchange = nil
    }

    // MARK: - The request

    override func headHeld() {
        let end = owner.headEnd(of: self)
        phase = .held(until: end)
        owner.wait(until: end)
    }

    override func headReceived() {
        guard isUnserved else { return }
        guard owner.admits(self) else { return reset(.refusedStream) }
        let exchange = begin()
        swap(&head, &exchange.receivedHead)
        swap(&headBytes, &exchange.headBytes)
        if exchange.receivedHead.framing.hasContent {
            time.contentBegins(now: exchange.began, isHeldBack: exchange.receivedHead.expectsContinue)
            owner.wait(until: time.end)
        }
        let isTunnelAsked = exchange.receivedHead.opensWebSocket
        if isTunnelAsked { tunnel = .asked }
        exchange.headReceived()
        // What follows is the tunnel's.
        if isTunnelAsked, isServing { exchange.contentEnded() }
    }

    private func begin() -> Exchange {
        precondition(isUnserved, "a stream carries one request")
        let exchange = currentExchange()
        exchange.beganAt = owner.now
        phase = .serving
        isContentHeld = false
        isContentOver = false
        isComplete = false
        isCutOff = false
        framed = 0
        time.reset(now: owner.now)
        owner.requestBegan()
        return exchange
    }

    private func currentExchange() -> Exchange {
        if let exchange { return exchange }
        let connection = owner.connection
        let made = connection.acceptor.application.makeExchange(for: connection)
        made.carrier = .http2(self)
        exchange = made
        return made
    }

    override func receive(content: Span<UInt8>) -> Int {
        guard isServing, let exchange else { return content.count }
        // What the client sends ahead waits, as far as its windows let it.
        guard !tunnel.isAsked else { return 0 }
        isReceiving = true
        let taken = exchange.receive(content: content)
        isReceiving = false
        exchange.receivedBytes += UInt64(taken)
        guard !tunnel.isOpen else {
            if taken > 0 { tunnelMoved() }
            return taken
        }
        if taken > 0 { time.contentCame(taken, now: owner.now) }
        if taken < content.count {
            // The upstream is slower than the client; its own timeouts watch it.
            isContentHeld = true
            time.contentHeld(now: owner.now)
        } else if isContentHeld {
            isContentHeld = false
            time.contentWanted(now: owner.now)
        }
        owner.wait(until: time.end)
        return taken
    }

    override func contentPaused() {
        if isServing { exchange?.contentPaused() }
    }

    override func contentEnded() {
        isContentOver = true
        time.contentEnded()
        guard isServing, !tunnel.isAsked else { return }
        exchange?.contentEnded()
        if tunnel.isOpen, isServing { tunnelCloses() }
    }

    override func requestFaulted(_ fault: MessageFault) {
        guard !tunnel.isOpen else { return tunnelFaulted() }
        guard let exchange = served() else { return }
        // Answered already, perhaps within this very event: the answer must still reach the client.
        if !isComplete { exchange.requestFaulted(fault) }
    }

    /// The exchange, where nothing more of the request comes; also if its head was never complete. None if all is settled.
    func served() -> Exchange? {
        time.contentEnded()
        isContentOver = true
        switch phase {
        case .serving: return exchange
        case .over: return nil
        case .waiting, .held: break
        }
        guard owner.admits(self) else {
            reset(.refusedStream)
            return nil
        }
        let exchange = begin()
        // What there is of it is not to be believed.
        exchange.receivedHead = RequestHead(unreadable: head)
        return exchange
    }

    // MARK: - The response, for the exchange

    func write(_ head: OutgoingHead, _ fields: (inout ByteBuffer) -> Void) -> Bool {
        let length = head.length(isAnswerToHead: exchange?.method == .head)
        let isWritten = sendHead(head.status, endsStream: head.content == .none) { output in
            fields(&output)
            if let length { output.appendField("Content-Length", decimal: length) }
        }
        if isWritten, head.isLast { owner.life.endNow() }
        return isWritten
    }

    func write(_ content: Span<UInt8>) -> Int {
        let taken = sendContent(content)
        if taken > 0 { responseMoved() }
        return taken
    }

    func writeEnd() -> Bool {
        isComplete = true
        sendEnd()
        // It may find no window.
        responseMoved()
        if tunnel.isOpen { tunnelCloses() }
        return true
    }

    func writeContinue() {
        sendInterim(100)
        time.contentWanted(now: owner.now)
        owner.wait(until: time.end)
    }

    /// The exchange takes content again.
    func resumeContent() {
        // Whatever content leads to may settle the connection, and find it broken: not while its bytes are in use.
        let connection = owner.connection
        connection.advancingLater {
            contentWanted()
            if !isReceiving, isServing, !isContentHeld, !isContentOver { exchange?.contentPaused() }
        }
        // Windows are open again, and only what is written opens them.
        if !isReceiving { connection.advance() }
    }

    func allowContentPauses(of idle: TimeSpan) {
        time.allowPauses(of: idle, now: owner.now)
        owner.wait(until: time.end)
    }

    /// What has begun cannot be completed.
    func abort() {
        isCutOff = true
        // RFC 8441 section 5: what a reset is for TCP.
        reset(tunnel.isOpen ? .cancel : .internalError)
    }

    override func outputDrained() {
        responseMoved()
        if isServing, !isComplete { exchange?.outputDrained() }
    }

    // MARK: - The end

    override func abandoned(_ code: HTTP2ErrorCode) {
        isCutOff = true
    }

    override func ended() {
        if isServing, let exchange {
            if isCutOff { exchange.abandoned() }
            conclude(exchange)
        }
        phase = .waiting
    }

    /// The exchange is done with the request, perhaps before the stream is.
    func conclude(_ exchange: Exchange) {
        exchange.ended()
        exchange.reset()
        phase = .over
        tunnel = .none
        owner.requestEnded()
    }
}
