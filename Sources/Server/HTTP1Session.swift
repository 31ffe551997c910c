internal import Bytes
internal import EventLoop
internal import HTTP

/// HTTP/1.1 on a client connection: one request after the other, and one exchange for all of them. `MessageCycle` is
/// its state.
final class HTTP1Session: ConnectionProtocol {
    private var parser: RequestHeadParser
    private var decoder = ContentDecoder(.none, extensions: .refused)
    private var cycle = MessageCycle()
    private var exchange: Exchange?
    /// The client's deadlines within a request.
    private var clientTime: ClientTime

    private var settings: ServerSettings { connection.acceptor.settings }

    override init(on connection: ServerConnection) {
        let settings = connection.acceptor.settings
        parser = RequestHeadParser(limits: settings.head)
        clientTime = ClientTime(idle: settings.contentIdleTimeout, rate: settings.contentRate)
        super.init(on: connection)
    }

    override func began() {
        clientTime.reset(now: connection.loop.now)
        limitIdleness()
    }

    override var isIdle: Bool { cycle.phase == .idle }
    override var footprint: Int { exchange?.footprint ?? 0 }

    override var wantsInput: Bool {
        switch cycle.phase {
        case .idle, .head, .lingering: true
        case .content: !isInputHeld
        // To notice a client that leaves. A request sent ahead stays in the input.
        case .response: connection.input.isEmpty
        }
    }

    override func windUp() {
        if isIdle { limitIdleness() }
    }

    override var isDecided: Bool {
        switch cycle.phase {
        case .idle, .head: false
        case .content, .response: exchange?.isDecided ?? true
        case .lingering: true
        }
    }

    override func inputEnded(isOrderly: Bool) {
        // Also if a client has only ended its sending side: none of ours does, and a request whose sender has gone is
        // not worth an upstream's time.
        connection.close(gracefully: isIdle)
    }

    override func closed() {
        if cycle.isServing, let exchange, exchange.began.nanoseconds != 0 {
            exchange.abandoned()
            exchange.ended()
        }
        exchange = nil
    }

    // MARK: - Deadlines

    override func deadlinePassed() {
        switch cycle.phase {
        case .idle:
            if !connection.isClientGood {
                connection.acceptor.application.connectionRefused(connection, .certificateExpired)
            }
            connection.closeGracefully()
        case .lingering: connection.close(gracefully: false)
        case .head, .content, .response:
            guard let exchange, !exchange.isAnswered else { return cutOff() }
            if cycle.phase == .head {
                cycle.headRefused()
                exchange.began = connection.loop.now
            }
            cycle.isPersistent = false
            exchange.requestTimedOut()
            connection.advance()
        }
    }

    /// Cuts off an overdue client that was answered already: no other answer is possible.
    private func cutOff() {
        exchange?.cutOff(clientTime.debt)
        connection.abort()
    }

    /// Sets the deadline of the request in flight.
    private func awaitClient() {
        if let end = clientTime.end { connection.setDeadline(end) } else { connection.clearDeadline() }
    }

    /// Sets the deadline of an idle connection: the keep-alive timeout, and at most the end of the client's
    /// certificate. If the clock is set meanwhile, the next request notices.
    private func limitIdleness() {
        // A connection that winds up waits only for a request that may be on its way.
        let patience =
            connection.isWindingUp
            ? min(settings.keepAliveTimeout, ConnectionLife.notice) : settings.keepAliveTimeout
        let end = min(connection.loop.now + patience, connection.recognitionEnd)
        connection.setDeadline(connection.identityEnd.map { min(end, $0) } ?? end)
    }

    // MARK: - Requests

    private var isServing: Bool { connection.isServing }

    override func advance() {
        while isServing {
            switch cycle.phase {
            case .idle, .head:
                guard !connection.input.isEmpty, connection.output.isEmpty else { return }
                guard parseHead() else { return }
            case .content:
                guard let exchange, pushContent(to: exchange) else { return }
            case .lingering:
                let discarded = cycle.discarded(connection.input.count)
                connection.input.removeAll()
                let isKnown = connection.identity != nil || connection.peer.isUnix
                let most = isKnown ? settings.knownLingerBytes : settings.lingerBytes
                if discarded > most { connection.close(gracefully: false) }
                return
            case .response: return
            }
        }
    }

    /// Parses a head.
    ///
    /// - Returns: Whether it is complete.
    private func parseHead() -> Bool {
        let exchange = currentExchange()
        let connection = connection
        let outcome = Self.parse(connection.input.readable, by: &parser, into: &exchange.head)
        do throws(MessageFault) {
            let (progress, isPersistent) = try outcome.get()
            switch progress {
            case .incomplete:
                if cycle.phase == .idle {
                    cycle.headBegun()
                    exchange.began = connection.loop.now
                    connection.setDeadline(connection.loop.now + settings.headTimeout)
                }
                return false
            case .complete(let length):
                begin(exchange, headLength: length, isPersistent: isPersistent)
                return connection.isOpen
            }
        } catch {
            parser.reset()
            cycle.headRefused()
            connection.input.removeAll()
            exchange.began = connection.loop.now
            exchange.requestFaulted(error)
            return false
        }
    }

    /// Returns a result: the bytes of a connection cannot be passed to a call that throws.
    private static func parse(
        _ bytes: Span<UInt8>, by parser: inout RequestHeadParser, into head: inout RequestHead
    ) -> Result<(progress: HeadProgress, isPersistent: Bool), MessageFault> {
        do throws(MessageFault) {
            return .success((try parser.parse(bytes, into: &head), head.isPersistent))
        } catch {
            return .failure(error)
        }
    }

    private func currentExchange() -> Exchange {
        if let exchange { return exchange }
        let made = connection.acceptor.application.makeExchange(for: connection)
        made.carrier = .http1(self)
        exchange = made
        return made
    }

    private func begin(_ exchange: Exchange, headLength: Int, isPersistent: Bool) {
        let (framing, isHeldBack) = (exchange.head.framing, exchange.head.expectsContinue)
        connection.requests += 1
        exchange.began = connection.loop.now
        guard connection.isClientGood else {
            // A connection does not outlive its certificate. The next handshake fails with the exact alert.
            connection.acceptor.application.connectionRefused(connection, .certificateExpired)
            return connection.closeGracefully()
        }
        // The exchange takes over the block with its head; what follows the head moves to a new block.
        swap(&connection.input, &exchange.headBytes)
        if exchange.headBytes.count > headLength {
            connection.input.append(exchange.headBytes.readable.extracting(headLength...))
            exchange.headBytes.truncate(to: headLength)
        }
        decoder = ContentDecoder(framing, extensions: .refused)
        isInputHeld = false
        cycle.headComplete(
            isPersistent: isPersistent && connection.requests < settings.requestsPerConnection
                && !connection.endsWithResponse, isContentHeldBack: isHeldBack)
        if framing.hasContent { clientTime.contentBegins(now: exchange.began, isHeldBack: isHeldBack) }
        awaitClient()
        exchange.headReceived()
    }

    // MARK: - Content

    /// Passes content to the exchange.
    ///
    /// - Returns: Whether the content is complete.
    private func pushContent(to exchange: Exchange) -> Bool {
        let connection = connection
        do throws(MessageFault) {
            while isServing {
                // The end needs no input.
                guard !decoder.isAtEnd else {
                    contentCompleted(exchange)
                    return true
                }
                let step = Self.next(connection.input.readable, by: &decoder)
                switch try step.get() {
                case .needMore:
                    exchange.contentPaused()
                    return false
                case .framing(let count): connection.input.consume(count)
                case .content(let count):
                    // Set before the call: an exchange that can forward the content immediately resumes it within the
                    // call.
                    isInputHeld = true
                    let taken = exchange.receive(count, of: connection.input)
                    if taken > 0 {
                        connection.input.consume(taken)
                        decoder.consumed(taken)
                        exchange.requestBytes += UInt64(taken)
                        clientTime.contentCame(taken, now: connection.loop.now)
                    }
                    if taken == count { isInputHeld = false }
                    // The upstream is slower than the client; its own timeouts apply.
                    if isInputHeld { clientTime.contentHeld(now: connection.loop.now) }
                    awaitClient()
                    if isInputHeld { return false }
                case .end: break
                }
            }
        } catch {
            cycle.isPersistent = false
            connection.input.removeAll()
            // If it was denied already, perhaps within this event, that answer must still reach the client.
            if !cycle.isResponseEnded { exchange.requestFaulted(error) }
        }
        return false
    }

    private static func next(
        _ bytes: Span<UInt8>, by decoder: inout ContentDecoder
    ) -> Result<ContentDecoder.Step, MessageFault> {
        do throws(MessageFault) { return .success(try decoder.next(bytes)) } catch { return .failure(error) }
    }

    private func contentCompleted(_ exchange: Exchange) {
        cycle.contentEnded()
        clientTime.contentEnded()
        awaitClient()
        exchange.contentEnded()
    }

    func allowContentPauses(of idle: TimeSpan) {
        clientTime.allowPauses(of: idle, now: connection.loop.now)
        awaitClient()
    }

    /// Resumes the content for the exchange.
    func resumeContent() {
        guard isInputHeld else { return }
        isInputHeld = false
        clientTime.contentWanted(now: connection.loop.now)
        awaitClient()
        connection.advance()
    }

    // MARK: - Output

    override func outputTaken(_ bytes: Int) {
        if clientTime.responseTaken(bytes, now: connection.loop.now) { awaitClient() }
        if !cycle.isResponseEnded, cycle.isServing { exchange?.outputDrained() }
    }

    override func outputBlocked(taken bytes: Int) {
        clientTime.responseBlocked(taken: bytes, now: connection.loop.now)
        awaitClient()
    }

    override func conclude() -> Bool {
        switch cycle.conclude() {
        case .unfinished:
            if cycle.isResponseEnded { limitRest() }
            return false
        case .nextRequest:
            end()
            limitIdleness()
            // The last response kept the connection open, so it closes only if no further input has arrived.
            if connection.acceptor.isDraining, !connection.acceptor.isWindingUp, connection.input.isEmpty {
                connection.closeGracefully()
            }
            return !connection.input.isEmpty
        case .close:
            end()
            // A request sent ahead is no longer served; closing with unread input would reset the connection.
            if connection.input.isEmpty, !connection.transport.hasBufferedInput {
                connection.closeGracefully()
            } else {
                linger()
            }
            return false
        case .linger:
            end()
            linger()
            return true
        }
    }
}

/// Output: what the exchange answers, and the end of a response.
extension HTTP1Session {
    // MARK: - For the exchange

    /// Whether the response in flight may leave the connection open.
    private var allowsAnotherRequest: Bool {
        guard cycle.isPersistent, !connection.endsWithResponse else { return false }
        // An answer before the end of the request: the rest is discarded if it is known to be short and certain to
        // come.
        guard let rest = decoder.remaining, rest <= UInt64(settings.lingerBytes) else { return false }
        return rest == 0 || cycle.phase != .content(isHeldBack: true)
    }

    /// Writes the response head with one access to the buffer.
    ///
    /// - Returns: False if it does not fit; nothing was written.
    func write(_ head: OutgoingHead, _ fields: (inout ByteBuffer) -> Void) -> Bool {
        guard let exchange else { return false }
        let isLengthUnknown = head.content == .chunked || head.content == .untilClose
        let isChunked = isLengthUnknown && exchange.head.minorVersion >= 1
        let isPersistent = allowsAnotherRequest && isLengthUnknown == isChunked && !head.isLast
        let length = head.length(isAnswerToHead: exchange.method == .head)
        // HTTP/1.0 clients expect the confirmation; for the others persistence is the default (RFC 9112 section 9.3).
        let option: StaticString? =
            if !isPersistent { "close" } else if exchange.head.minorVersion == 0 { "keep-alive" } else { nil }
        let isWritten = Self.write(head.status, length, isChunked, option, to: &connection.output, fields)
        guard isWritten else { return false }
        cycle.responseBegun(isChunked: isChunked, isPersistent: isPersistent)
        return true
    }

    /// Writes a response head.
    ///
    /// - Parameter option: The value of `Connection`, if it is sent.
    private static func write(
        _ status: UInt16, _ length: UInt64?, _ isChunked: Bool, _ option: StaticString?, to output: inout ByteBuffer,
        _ fields: (inout ByteBuffer) -> Void
    ) -> Bool {
        let before = output.count
        output.appendStatusLine(status)
        fields(&output)
        if let length { output.appendField("Content-Length", decimal: length) }
        if isChunked { output.appendField("Transfer-Encoding", "chunked") }
        if let option { output.appendField("Connection", option) }
        output.append("\r\n")
        guard output.overflowed else { return true }
        output.rollback(to: before)
        return false
    }

    func write(_ content: Span<UInt8>) -> Int {
        cycle.response == .begun(isChunked: true)
            ? connection.output.appendChunk(prefixOf: content) : connection.output.appendPrefix(of: content)
    }

    func writeEnd() -> Bool {
        guard cycle.response != .begun(isChunked: true) || connection.output.appendLastChunk() else { return false }
        cycle.responseEnded()
        return true
    }

    func writeContinue() {
        cycle.contentAsked()
        connection.output.append("HTTP/1.1 100 Continue\r\n\r\n")
        clientTime.contentWanted(now: connection.loop.now)
        awaitClient()
    }

    /// Writes the head that switches protocols. From then on the connection carries the exchange's raw bytes.
    ///
    /// - Parameter end: The end of the client's certificate; nil if it has none.
    /// - Returns: Nil if the head does not fit; nothing was written.
    func becomeTunnel(until end: Instant?, _ fields: (inout ByteBuffer) -> Void) -> TunnelSession? {
        guard let exchange, cycle.phase == .response, connection.speaks(self) else { return nil }
        guard Self.write(101, nil, false, nil, to: &connection.output, fields) else { return nil }
        let tunnel = TunnelSession(on: connection, for: exchange, until: end)
        self.exchange = nil
        connection.speak(tunnel)
        return tunnel
    }

    // MARK: - The end of a response

    private func limitRest() {
        if clientTime.limitRest(to: connection.loop.now + settings.lingerTimeout) { awaitClient() }
    }

    private func end() {
        if let exchange {
            exchange.ended()
            exchange.reset()
        }
        isInputHeld = false
        clientTime.reset(now: connection.loop.now)
    }

    /// Ends the output and discards input until the client has closed.
    private func linger() {
        connection.endSending()
        connection.setDeadline(connection.loop.now + settings.lingerTimeout)
        isInputHeld = false
    }
}
