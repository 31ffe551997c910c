internal import Bytes
internal import EventLoop

/// Bytes both ways on a client connection whose request has switched protocols: nothing is parsed and nothing is framed.
///
/// What is read goes to the exchange, which takes as much as the service behind has room for; what is not taken is not
/// read on. Where one side ends in order, its earlier data still goes to the other, which is then notified of the end
/// and has a moment to end as well. A client that does not take what there is for it has as long as for a response.
final class TunnelSession: ConnectionProtocol {
    private let exchange: Exchange
    private var time: TunnelTime
    /// Only of what the client is to take: it may say nothing for as long as the tunnel may be idle.
    private var clientTime: ClientTime
    /// The client has ended its side.
    private var isInputOver = false
    /// Nothing more will be written.
    private var isOutputOver = false
    /// The client was notified of it.
    private var isOutputShut = false
    private var isFinished = false

    init(on connection: ServerConnection, for exchange: Exchange) {
        self.exchange = exchange
        let settings = connection.acceptor.settings
        time = TunnelTime(
            idle: settings.tunnelIdleTimeout, life: settings.tunnelLife, certificateEnd: connection.identityEnd,
            now: connection.loop.now)
        clientTime = ClientTime(idle: settings.contentIdleTimeout, rate: settings.contentRate)
        super.init(on: connection)
    }

    override func began() {
        clientTime.reset(now: connection.loop.now)
        limit()
    }

    override var isDecided: Bool { true }
    override var footprint: Int { exchange.footprint }

    // MARK: - From the client

    override var wantsInput: Bool { !isInputHeld && !isInputOver }

    override func advance() {
        while connection.isOpen, !connection.isAborted, !isInputHeld, !connection.input.isEmpty {
            // Said before, not after: an exchange that can pass the bytes on at once wants more within this call.
            isInputHeld = true
            let count = connection.input.count
            let taken = exchange.receive(count, of: connection.input)
            guard connection.isOpen else { return }
            if taken > 0 {
                connection.input.consume(taken)
                exchange.receivedBytes += UInt64(taken)
                moved()
            }
            if taken == count { isInputHeld = false }
            guard isInputHeld else { continue }
            return
        }
    }

    /// The service has room again.
    func resumeInput() {
        guard isInputHeld else { return }
        isInputHeld = false
        connection.advance()
    }

    override func inputEnded(isOrderly: Bool) {
        // Nothing is read while something is held, so all that came before has been passed on.
        guard isOrderly else { return connection.close(gracefully: false) }
        isInputOver = true
        connection.wantRead(false)
        exchange.contentEnded()
        guard !isFinished, connection.isOpen else { return }
        if isOutputShut { finish() } else { beginClosing() }
    }

    // MARK: - To the client

    /// - Returns: how much was taken.
    func write(_ bytes: Span<UInt8>) -> Int { connection.output.appendPrefix(of: bytes) }

    /// The service has ended its side. - Returns: true; there is always room for that.
    func writeEnd() -> Bool {
        isOutputOver = true
        return true
    }

    override func outputTaken(_ octets: Int) {
        _ = clientTime.responseTaken(octets, now: connection.loop.now)
        moved()
        exchange.outputDrained()
    }

    override func outputBlocked(taken octets: Int) {
        clientTime.responseBlocked(taken: octets, now: connection.loop.now)
        if octets > 0 { moved() } else { limit() }
    }

    override func conclude() -> Bool {
        guard isOutputOver, !isOutputShut else { return false }
        isOutputShut = true
        guard !isInputOver else {
            finish()
            return false
        }
        connection.endSending()
        beginClosing()
        return false
    }

    // MARK: - Time and end

    private func moved() {
        time.moved(now: connection.loop.now)
        limit()
    }

    private func limit() {
        connection.setDeadline(clientTime.end.map { min($0, time.end) } ?? time.end)
    }

    /// One side has ended. The other has a moment for what it has still to say.
    private func beginClosing() {
        time.closes(within: connection.acceptor.settings.lingerTimeout, now: connection.loop.now)
        limit()
    }

    override func deadlinePassed() {
        let now = connection.loop.now
        if let end = clientTime.end, now >= end {
            exchange.cutOff(.response)
            return connection.abort()
        }
        switch time.verdict(at: now) {
        case .goesOn: limit()
        case .closed: finish()
        case .expired(let limit):
            exchange.tunnelExpired(limit)
            finish()
        }
    }

    /// Ends the tunnel, both sides in order.
    func finish() {
        guard !isFinished else { return }
        isFinished = true
        exchange.ended()
        connection.closeGracefully()
    }

    override func closed() {
        if !isFinished {
            isFinished = true
            exchange.abandoned()
            exchange.ended()
        }
        exchange.carrier = nil
    }
}
