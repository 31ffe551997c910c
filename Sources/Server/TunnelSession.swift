internal import Bytes
internal import EventLoop

/// A tunnel on a client connection whose request has switched protocols: raw bytes in both directions, without
/// parsing or framing.
///
/// Input goes to the exchange, which takes as much as the service has room for; the rest stops the reading. When one
/// side ends in order, its earlier bytes still reach the other, which is then notified of the end and has a moment to
/// end as well. A client that does not read has as long as for a response.
final class TunnelSession: ConnectionProtocol {
    private let exchange: Exchange
    private var time: TunnelTime
    /// Only for what the client has to read: it may be silent as long as the tunnel may be idle.
    private var clientTime: ClientTime
    private var phase = Phase.open(.open, .open)

    private enum Phase {
        case open(ClientSide, ServiceSide)
        case finished
    }

    private enum ClientSide {
        case open
        /// The client has ended its side.
        case ended
    }

    private enum ServiceSide {
        case open
        /// The service has ended its side; the client is not notified yet.
        case ending
        case ended
    }

    /// - Parameter end: The end of the client's certificate; nil if it has none.
    init(on connection: ServerConnection, for exchange: Exchange, until end: Instant?) {
        self.exchange = exchange
        let settings = connection.acceptor.settings
        time = TunnelTime(
            idle: settings.tunnelIdleTimeout, life: settings.tunnelLife, certificateEnd: end, now: connection.loop.now)
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

    override var wantsInput: Bool {
        if !isInputHeld, case .open(.open, _) = phase { true } else { false }
    }

    override func advance() {
        while connection.isServing, !isInputHeld, !connection.input.isEmpty {
            // Set before the call: an exchange that can forward the bytes immediately resumes the input within the
            // call.
            isInputHeld = true
            let count = connection.input.count
            let taken = exchange.receive(count, of: connection.input)
            guard connection.isOpen else { return }
            if taken > 0 {
                connection.input.consume(taken)
                exchange.requestBytes += UInt64(taken)
                moved()
            }
            if taken == count { isInputHeld = false }
            guard isInputHeld else { continue }
            return
        }
    }

    /// Resumes the input: the service has room again.
    func resumeInput() {
        guard isInputHeld else { return }
        isInputHeld = false
        connection.advance()
    }

    override func inputEnded(isOrderly: Bool) {
        // Nothing is read while input is held, so everything received before was forwarded.
        guard isOrderly, case .open(_, let service) = phase else { return connection.close(gracefully: false) }
        phase = .open(.ended, service)
        connection.wantRead(false)
        exchange.contentEnded()
        guard connection.isOpen, case .open(_, let service) = phase else { return }
        if case .ended = service { finish() } else { beginClosing() }
    }

    // MARK: - To the client

    /// Writes bytes to the client.
    ///
    /// - Returns: How many were taken.
    func write(_ bytes: Span<UInt8>) -> Int { connection.output.appendPrefix(of: bytes) }

    /// Records that the service has ended its side.
    ///
    /// - Returns: True; there is always room for the end.
    func writeEnd() -> Bool {
        if case .open(let client, .open) = phase { phase = .open(client, .ending) }
        return true
    }

    override func outputTaken(_ bytes: Int) {
        _ = clientTime.responseTaken(bytes, now: connection.loop.now)
        moved()
        exchange.outputDrained()
    }

    override func outputBlocked(taken bytes: Int) {
        clientTime.responseBlocked(taken: bytes, now: connection.loop.now)
        if bytes > 0 { moved() } else { limit() }
    }

    override func conclude() -> Bool {
        guard case .open(let client, .ending) = phase else { return false }
        phase = .open(client, .ended)
        switch client {
        case .ended: finish()
        case .open:
            connection.endSending()
            beginClosing()
        }
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

    /// Limits the time of the other side, after one side has ended.
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
        guard case .open = phase else { return }
        phase = .finished
        exchange.ended()
        connection.closeGracefully()
    }

    override func closed() {
        if case .open = phase {
            phase = .finished
            exchange.abandoned()
            exchange.ended()
        }
        exchange.carrier = nil
    }
}

/// The limit by which a tunnel ends.
public enum TunnelLimit: Sendable {
    /// No byte has moved in either direction for too long.
    case idle
    /// The maximum life is over.
    case life
    /// The client's certificate has expired.
    case certificate
}

/// The deadlines of a tunnel. A value: the session reports events to it.
struct TunnelTime {
    private let idle: TimeSpan
    private let lifeEnd: Instant
    private let certificateEnd: Instant
    private var idleEnd: Instant
    /// After one side has ended: the deadline of the other side.
    private var closeEnd: Instant?

    /// Begins the time of a tunnel.
    ///
    /// - Parameter certificateEnd: Nil for a client without a certificate.
    init(idle: TimeSpan, life: TimeSpan, certificateEnd: Instant?, now: Instant) {
        self.idle = idle
        lifeEnd = now + life
        idleEnd = now + idle
        self.certificateEnd = certificateEnd ?? Instant(nanoseconds: .max)
    }

    /// The next deadline, unless bytes move before.
    var end: Instant { min(min(closeEnd ?? idleEnd, lifeEnd), certificateEnd) }

    /// Records that bytes have moved, in either direction.
    mutating func moved(now: Instant) { idleEnd = now + idle }

    /// Limits the time after one side has ended: moving bytes no longer extend it.
    mutating func closes(within span: TimeSpan, now: Instant) {
        if closeEnd == nil { closeEnd = now + span }
    }

    enum Verdict: Equatable {
        case goesOn
        /// The time for the other side to end is over.
        case closed
        case expired(TunnelLimit)
    }

    func verdict(at now: Instant) -> Verdict {
        if now >= certificateEnd { return .expired(.certificate) }
        if let closeEnd { return now >= closeEnd ? .closed : now >= lifeEnd ? .expired(.life) : .goesOn }
        if now >= lifeEnd { return .expired(.life) }
        return now >= idleEnd ? .expired(.idle) : .goesOn
    }
}
