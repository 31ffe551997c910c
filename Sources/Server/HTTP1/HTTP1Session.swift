internal import Bytes
internal import EventLoop
internal import HTTP

/// HTTP/1.1 on a client connection: requests in turn, one exchange for all of them.
///
/// How requests come in is here, what an exchange answers in `HTTP1Session+Response`.
final class HTTP1Session: ConnectionProtocol {
    private var parser: RequestHeadParser
    var decoder = ContentDecoder(.none, extensions: .refused)
    var cycle = MessageCycle()
    var exchange: Exchange?
    /// How long the client is waited for in a request.
    var clientTime: ClientTime
    /// The content of the response under way is chunked.
    var isChunked = false
    /// The client holds the content back until it receives 100 (Continue) (RFC 9110 section 10.1.1).
    var isContentAwaited = false
    /// Octets read over since the connection was to end.
    private var lingered = 0

    var settings: ServerSettings { connection.acceptor.settings }

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
        // To notice a client that goes away; but a request sent ahead waits where it is.
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
        // Also a client that has only ended its sending side: none of ours does, and a request whose sender is gone
        // is not worth an upstream's time.
        connection.close(gracefully: isIdle)
    }

    override func closed() {
        if cycle.phase == .content || cycle.phase == .response, let exchange, exchange.began.nanoseconds != 0 {
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
                exchange.beganAt = connection.loop.now
            }
            cycle.isPersistent = false
            exchange.requestTimedOut()
            connection.advance()
        }
    }

    /// The client is overdue, and was answered already: nothing can be said to it any more.
    private func cutOff() {
        exchange?.cutOff(clientTime.debt)
        connection.abort()
    }

    /// Sets the deadline of the request that is served.
    func awaitClient() {
        if let end = clientTime.end { connection.setDeadline(end) } else { connection.clearDeadline() }
    }

    /// An idle connection stays for as long as it may be unused, and no longer than its client's certificate is good. With a
    /// clock that is set meanwhile, the next request tells.
    func limitIdleness() {
        // A connection that winds up waits only for a client that is about to send a request.
        let patience =
            connection.acceptor.isWindingUp
            ? min(settings.keepAliveTimeout, ConnectionLife.notice) : settings.keepAliveTimeout
        let end = min(connection.loop.now + patience, connection.recognitionEnd)
        connection.setDeadline(connection.identityEnd.map { min(end, $0) } ?? end)
    }

    // MARK: - Requests

    private var isServing: Bool { connection.isOpen && !connection.isAborted }

    override func advance() {
        while isServing {
            switch cycle.phase {
            case .idle, .head:
                guard !connection.input.isEmpty, connection.output.isEmpty else { return }
                guard parseHead() else { return }
            case .content:
                guard let exchange, pushContent(to: exchange) else { return }
            case .lingering:
                lingered += connection.input.count
                connection.input.removeAll()
                if lingered > settings.lingerBytes { connection.close(gracefully: false) }
                return
            case .response: return
            }
        }
    }

    /// - Returns: whether a head was completed.
    private func parseHead() -> Bool {
        let exchange = currentExchange()
        let connection = connection
        // Swapped out while it changes, so that no dynamic access check remains: docs/decisions, record 0036.
        var head = RequestHead()
        swap(&head, &exchange.receivedHead)
        let outcome = Self.parse(connection.input.readable, by: &parser, into: &head)
        let (framing, isContentAwaited, isPersistent) = (head.framing, head.expectsContinue, head.isPersistent)
        swap(&head, &exchange.receivedHead)
        do throws(MessageFault) {
            switch try outcome.get() {
            case .incomplete:
                if cycle.phase == .idle {
                    cycle.headBegun()
                    exchange.beganAt = connection.loop.now
                    connection.setDeadline(connection.loop.now + settings.headTimeout)
                }
                return false
            case .complete(let length):
                self.isContentAwaited = isContentAwaited
                begin(exchange, headLength: length, framing, isPersistent: isPersistent)
                return connection.isOpen
            }
        } catch {
            parser.reset()
            cycle.headRefused()
            connection.input.removeAll()
            exchange.beganAt = connection.loop.now
            exchange.requestFaulted(error)
            return false
        }
    }

    private static func parse(
        _ bytes: Span<UInt8>, by parser: inout RequestHeadParser, into head: inout RequestHead
    ) -> Result<HeadProgress, MessageFault> {
        do throws(MessageFault) {
            return .success(try parser.parse(bytes, into: &head))
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

    private func begin(_ exchange: Exchange, headLength: Int, _ framing: ContentFraming, isPersistent: Bool) {
        connection.requestCount += 1
        exchange.beganAt = connection.loop.now
        guard connection.isClientGood else {
            // The connection lives no longer than its certificate. The next handshake says so with the exact alert.
            connection.acceptor.application.connectionRefused(connection, .certificateExpired)
            return connection.closeGracefully()
        }
        // The exchange takes over the block that holds its head; what follows the head moves to a new one.
        swap(&connection.input, &exchange.headBytes)
        if exchange.headBytes.count > headLength {
            connection.input.append(exchange.headBytes.readable.extracting(headLength...))
            exchange.headBytes.truncate(to: headLength)
        }
        decoder = ContentDecoder(framing, extensions: .refused)
        isInputHeld = false
        cycle.headComplete(
            isPersistent: isPersistent && connection.requestCount < settings.requestsPerConnection
                && !connection.acceptor.isDraining)
        if framing.hasContent { clientTime.contentBegins(now: exchange.began, isHeldBack: isContentAwaited) }
        awaitClient()
        exchange.headReceived()
    }

    // MARK: - Content

    /// - Returns: whether the content is complete.
    private func pushContent(to exchange: Exchange) -> Bool {
        let connection = connection
        do throws(MessageFault) {
            while isServing {
                // A copy while it is in use: an access to the property that lasts would be checked for exclusivity, and with it
                // all others.
                var decoder = decoder
                // The end needs no look at what has come.
                guard !decoder.isAtEnd else {
                    contentCompleted(exchange)
                    return true
                }
                let step = try Self.next(connection.input.readable, by: &decoder).get()
                self.decoder = decoder
                switch step {
                case .needMore:
                    exchange.contentPaused()
                    return false
                case .framing(let count): connection.input.consume(count)
                case .content(let count):
                    // Said before, not after: an exchange that can pass the content on at once wants more within this call.
                    isInputHeld = true
                    let taken = exchange.receive(count, of: connection.input)
                    if taken > 0 {
                        connection.input.consume(taken)
                        decoder.consumed(taken)
                        self.decoder = decoder
                        exchange.receivedBytes += UInt64(taken)
                        clientTime.contentCame(taken, now: connection.loop.now)
                    }
                    if taken == count { isInputHeld = false }
                    // If not, the upstream is slower than the client; its own timeouts watch it.
                    if isInputHeld { clientTime.contentHeld(now: connection.loop.now) }
                    awaitClient()
                    if isInputHeld { return false }
                case .end: break
                }
            }
        } catch {
            cycle.isPersistent = false
            connection.input.removeAll()
            // Denied already, perhaps within this very event: the answer must still reach the client, whatever it sends.
            if !cycle.isResponseEnded { exchange.requestFaulted(error) }
        }
        return false
    }

    /// What throws would keep the compiler from seeing through the access to what has come.
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

    /// The exchange takes content again.
    func resumeContent() {
        guard isInputHeld else { return }
        isInputHeld = false
        clientTime.contentWanted(now: connection.loop.now)
        awaitClient()
        connection.advance()
    }

    // MARK: - The way out

    override func outputTaken(_ octets: Int) {
        if clientTime.responseTaken(octets, now: connection.loop.now) { awaitClient() }
        if !cycle.isResponseEnded, cycle.phase == .content || cycle.phase == .response { exchange?.outputDrained() }
    }

    override func outputBlocked(taken octets: Int) {
        clientTime.responseBlocked(taken: octets, now: connection.loop.now)
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
            // The last response kept the connection open, so it is closed only when no further input has arrived.
            if connection.acceptor.isDraining, !connection.acceptor.isWindingUp, connection.input.isEmpty {
                connection.closeGracefully()
            }
            return !connection.input.isEmpty
        case .close:
            end()
            // A request sent ahead is not served any more; closing over it would reset the connection.
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
