internal import Bytes
internal import EventLoop
internal import HTTP

/// A stream of HTTP/2 and the exchange that serves its request. Both are used for one request after the other.
final class RequestStream: HTTP2Stream {
    /// The owner of the session, which owns the streams.
    unowned let owner: HTTP2ServerConnection
    /// The index among the connection's streams.
    let place: Int
    private(set) var exchange: Exchange?
    private var phase = Phase.waiting
    /// The state of the request that is served: replaced when one begins.
    private var service = Service()
    /// The client's deadlines.
    private var time: ClientTime
    /// Whether `receive(content:)` is running.
    private var isReceiving = false
    /// Whether the connection knows that some of the response was handed over.
    private var isMoved = false

    /// The state of the one request that a stream carries.
    private enum Phase: Equatable {
        /// No request has begun.
        case waiting
        /// The head waits for the end of the stream, with the deadline of a head.
        case held(until: Instant)
        /// The exchange serves the request.
        case serving
        /// The request is complete. The stream has not ended: the end of a tunnel may still wait for the client to
        /// read.
        case over
    }

    private struct Service {
        var content = Content.open
        var response = Response.open
        var tunnel = StreamTunnel.none
        /// Bytes of the response that were framed at the last measurement.
        var framed: UInt64 = 0

        enum Content {
            case open
            /// Some is not taken at present.
            case held
            /// No more follows.
            case over
        }

        enum Response {
            case open
            /// All of it was handed over.
            case complete
            /// It was aborted, and the exchange is not notified yet.
            case cutOff
        }
    }

    /// Whether the exchange serves a request.
    var isServing: Bool { phase == .serving }

    /// Whether no exchange has begun with the request.
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

    /// Releases the exchange, if it serves nothing.
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
        swap(&head, &exchange.head)
        swap(&headBytes, &exchange.headBytes)
        if exchange.head.framing.hasContent {
            time.contentBegins(now: exchange.began, isHeldBack: exchange.head.expectsContinue)
            owner.wait(until: time.end)
        }
        let isTunnelAsked = exchange.head.opensWebSocket
        if isTunnelAsked { service.tunnel = .asked }
        exchange.headReceived()
        // What follows belongs to the tunnel.
        if isTunnelAsked, isServing { exchange.contentEnded() }
    }

    private func begin() -> Exchange {
        precondition(isUnserved, "a stream carries one request")
        let (exchange, owner) = (currentExchange(), owner)
        exchange.began = owner.now
        phase = .serving
        service = Service()
        time.reset(now: exchange.began)
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
        // What the client sends ahead waits within its windows.
        guard !service.tunnel.isAsked else { return 0 }
        isReceiving = true
        let taken = exchange.receive(content: content)
        isReceiving = false
        exchange.requestBytes += UInt64(taken)
        guard !service.tunnel.isOpen else {
            if taken > 0 { tunnelMoved() }
            return taken
        }
        if taken > 0 { time.contentCame(taken, now: owner.now) }
        if taken < content.count {
            // The upstream is slower than the client; its own timeouts apply.
            service.content = .held
            time.contentHeld(now: owner.now)
        } else if service.content == .held {
            service.content = .open
            time.contentWanted(now: owner.now)
        }
        owner.wait(until: time.end)
        return taken
    }

    override func contentPaused() {
        if isServing { exchange?.contentPaused() }
    }

    override func contentEnded() {
        service.content = .over
        time.contentEnded()
        guard isServing, !service.tunnel.isAsked else { return }
        exchange?.contentEnded()
        if service.tunnel.isOpen, isServing { tunnelCloses() }
    }

    override func requestFaulted(_ fault: MessageFault) {
        guard !service.tunnel.isOpen else { return tunnelFaulted() }
        guard let exchange = served() else { return }
        // If it was answered already, perhaps within this event, that answer must still reach the client.
        if service.response != .complete { exchange.requestFaulted(fault) }
    }

    /// Returns the exchange of a request of which nothing more follows, even if its head was incomplete; nil if the
    /// request is complete.
    func served() -> Exchange? {
        time.contentEnded()
        switch phase {
        case .serving:
            service.content = .over
            return exchange
        case .over: return nil
        case .waiting, .held: break
        }
        guard owner.admits(self) else {
            reset(.refusedStream)
            return nil
        }
        let exchange = begin()
        service.content = .over
        // What there is of the head is not trustworthy.
        exchange.head = RequestHead(unreadable: head)
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
        service.response = .complete
        sendEnd()
        // There may be no window.
        responseMoved()
        if service.tunnel.isOpen { tunnelCloses() }
        return true
    }

    func writeContinue() {
        sendInterim(100)
        time.contentWanted(now: owner.now)
        owner.wait(until: time.end)
    }

    /// Resumes the content for the exchange.
    func resumeContent() {
        // The content may lead to an `advance` that finds the connection broken: not while its bytes are in use.
        let connection = owner.connection
        connection.advancingLater {
            contentWanted()
            if !isReceiving, isServing, service.content == .open { exchange?.contentPaused() }
        }
        // Windows open again only when WINDOW_UPDATE is written.
        if !isReceiving { connection.advance() }
    }

    func allowContentPauses(of idle: TimeSpan) {
        time.allowPauses(of: idle, now: owner.now)
        owner.wait(until: time.end)
    }

    /// Resets the stream: the response cannot be completed.
    func abort() {
        service.response = .cutOff
        // RFC 8441 section 5: the equivalent of a TCP reset.
        reset(service.tunnel.isOpen ? .cancel : .internalError)
    }

    override func outputDrained() {
        responseMoved()
        if isServing, service.response != .complete { exchange?.outputDrained() }
    }

    // MARK: - The end

    override func abandoned(_ code: HTTP2ErrorCode) {
        service.response = .cutOff
    }

    override func ended() {
        if isServing, let exchange {
            if service.response == .cutOff { exchange.abandoned() }
            conclude(exchange)
        }
        phase = .waiting
    }

    /// Ends the exchange's work on the request, perhaps before the stream ends.
    func conclude(_ exchange: Exchange) {
        exchange.ended()
        exchange.reset()
        phase = .over
        service = Service()
        owner.requestEnded()
    }
}

/// Deadlines of the client: for what it has to send, and for reading the response.
extension RequestStream {
    func responseMoved() {
        guard !isMoved else { return }
        isMoved = true
        owner.responseMoved(on: self)
    }

    /// Measures the progress of the response. Called when nothing more can be framed.
    ///
    /// - Returns: The client's deadline.
    func measureResponse(now: Instant) -> Instant? {
        isMoved = false
        guard isServing, let exchange else { return nil }
        let bytes = Int(exchange.responseBytes - UInt64(unframed) - service.framed)
        service.framed += UInt64(bytes)
        if bytes > 0, service.tunnel.isOpen { tunnelMoved() }
        // The end is framed only while the stream's window is open.
        if unframed == 0, !isEndUnframed {
            _ = time.responseTaken(bytes, now: now)
        } else {
            time.responseBlocked(taken: bytes, now: now)
            shrinkOutput()
        }
        return time.end
    }

    /// Ends the request if its client is overdue.
    ///
    /// - Parameter isWindowShut: Whether no stream of the connection may be sent content, because content of others
    ///   was not read.
    /// - Returns: The client's deadline.
    func judge(now: Instant, isWindowShut: Bool) -> Instant? {
        if case .held(let end) = phase {
            guard end <= now else { return end }
            headOverdue()
            return nil
        }
        guard isServing, let exchange, service.response != .cutOff else { return nil }
        guard !service.tunnel.isOpen else { return judgeTunnel(now: now) }
        guard let end = measureResponse(now: now), end <= now else { return time.end }
        guard time.debt == .response || exchange.isAnswered || !isWindowShut else {
            // The wait is not for the client of this stream.
            time.contentBegins(now: now, isHeldBack: false)
            return time.end
        }
        guard !exchange.isAnswered else {
            cutOff(time.debt)
            return nil
        }
        time.contentEnded()
        exchange.requestTimedOut()
        return nil
    }

    /// Ends a request whose head, or the end that the head waits for, is late.
    func headOverdue() {
        showIncompleteHead()
        guard let exchange = served() else { return }
        disregardRequest()
        // With trailers, the response may have begun.
        if exchange.isAnswered { cutOff(.content) } else { exchange.requestTimedOut() }
    }

    /// Cuts off an overdue client that was answered already: no other answer is possible.
    func cutOff(_ debt: ClientDebt) {
        guard isServing, let exchange, service.response != .cutOff else { return }
        if exchange.isAnswered { exchange.cutOff(debt) }
        abort()
    }
}

/// A stream that carries a WebSocket (RFC 8441): DATA frames in both directions. The other streams of the connection
/// carry requests.
///
/// As with `TunnelSession`, when one side ends in order, the other side is notified and has a moment to end as well.
/// A client that reads nothing has as long as for a response, and its windows hold the service back.
extension RequestStream {
    // MARK: - Opening

    /// Answers the CONNECT request. From then on the stream carries the exchange's raw bytes.
    ///
    /// - Parameter end: The end of the client's certificate; nil if it has none.
    /// - Returns: False if the head does not fit; nothing was sent.
    func becomeTunnel(until end: Instant?, _ fields: (inout ByteBuffer) -> Void) -> Bool {
        guard isServing, service.tunnel.isAsked, sendHead(200, endsStream: false, fields: fields) else { return false }
        let settings = owner.settings
        service.tunnel = .open(
            TunnelTime(
                idle: settings.tunnelIdleTimeout, life: settings.tunnelLife, certificateEnd: end, now: owner.now))
        tunnelMoved()
        // Deferred, because this event still handles the service's response.
        owner.tunnelOpened(self)
        return true
    }

    /// Processes what the client has sent ahead.
    func tunnelBegins() {
        guard isServing, service.tunnel.isOpen else { return }
        let wasOver = service.content == .over
        contentWanted()
        guard wasOver, isServing, service.tunnel.isOpen else { return }
        exchange?.contentEnded()
        tunnelCloses()
    }

    // MARK: - Time

    private func tunnelMoved() {
        let now = owner.now
        awaitTunnel { $0.moved(now: now) }
    }

    /// Limits the time of the other side, after one side has ended.
    private func tunnelCloses() {
        let (now, moment) = (owner.now, owner.settings.lingerTimeout)
        awaitTunnel { $0.closes(within: moment, now: now) }
    }

    private func awaitTunnel(_ change: (inout TunnelTime) -> Void) {
        guard case .open(var time) = service.tunnel else { return }
        change(&time)
        service.tunnel = .open(time)
        owner.wait(until: time.end)
    }

    /// Ends the tunnel if its time is over.
    ///
    /// - Returns: The deadline of the tunnel or its client.
    private func judgeTunnel(now: Instant) -> Instant? {
        let clientEnd = measureResponse(now: now)
        guard let exchange, case .open(let tunnelTime) = service.tunnel else { return nil }
        if let clientEnd, clientEnd <= now {
            cutOff(.response)
            return nil
        }
        switch tunnelTime.verdict(at: now) {
        case .goesOn: return clientEnd.map { min($0, tunnelTime.end) } ?? tunnelTime.end
        case .closed: finishTunnel()
        case .expired(let limit):
            exchange.tunnelExpired(limit)
            finishTunnel()
        }
        return nil
    }

    // MARK: - The end

    /// Ends the tunnel, both sides in order where that is possible.
    func finishTunnel() {
        guard isServing, service.tunnel.isOpen, let exchange else { return }
        if isEnded {
            reset(.noError)
        } else if unframed == 0, isWindowOpen {
            sendEnd()
        } else {
            // No orderly end could reach the client.
            reset(.cancel)
        }
        // The end may wait until the client reads. What the client sends meanwhile is discarded.
        disregardRequest()
        let connection = owner.connection
        conclude(exchange)
        connection.advance()
    }

    /// Resets the stream after input that a tunnel cannot have.
    private func tunnelFaulted() {
        service.response = .cutOff
        reset(.protocolError)
    }
}

/// The state of a WebSocket on a stream.
private enum StreamTunnel {
    /// The stream carries a request.
    case none
    /// The request asks for a WebSocket: what the client sends after the head waits.
    case asked
    case open(TunnelTime)

    var isOpen: Bool { if case .open = self { true } else { false } }
    var isAsked: Bool { if case .asked = self { true } else { false } }
}
