internal import Bytes
internal import EventLoop
internal import HTTP

/// A stream that carries a WebSocket (RFC 8441): DATA both ways, as it is. The other streams of its connection go on as requests.
///
/// As with `TunnelSession`: when one side ends in order, the other side is notified and has a moment to end as well. A
/// client that takes nothing of what there is for it has as long as for a response, and its windows are what holds the
/// service back.
extension RequestStream {
    // MARK: - Opening

    /// Answers the CONNECT: from then on the exchange's bytes are what the stream carries.
    ///
    /// - Returns: false if the head does not fit; nothing was sent then.
    func becomeTunnel(_ fields: (inout ByteBuffer) -> Void) -> Bool {
        guard isServing, tunnel.isAsked, sendHead(200, endsStream: false, fields: fields) else { return false }
        outlastsResponse = true
        let settings = owner.settings
        tunnel = .open(
            TunnelTime(
                idle: settings.tunnelIdleTimeout, life: settings.tunnelLife,
                certificateEnd: owner.connection.identityEnd, now: owner.now))
        tunnelMoved()
        // Not now: the service is in the middle of its answer.
        owner.tunnelOpened(self)
        return true
    }

    /// Takes what the client has sent ahead.
    func tunnelBegins() {
        guard isServing, tunnel.isOpen else { return }
        let wasOver = isContentOver
        contentWanted()
        guard wasOver, isServing, tunnel.isOpen else { return }
        exchange?.contentEnded()
        tunnelCloses()
    }

    // MARK: - Time

    func tunnelMoved() {
        let now = owner.now
        awaitTunnel { $0.moved(now: now) }
    }

    /// One side has ended. The other has a moment for what it has still to say.
    func tunnelCloses() {
        let (now, moment) = (owner.now, owner.settings.lingerTimeout)
        awaitTunnel { $0.closes(within: moment, now: now) }
    }

    private func awaitTunnel(_ change: (inout TunnelTime) -> Void) {
        guard case .open(var time) = tunnel else { return }
        change(&time)
        tunnel = .open(time)
        owner.wait(until: time.end)
    }

    /// - Returns: until when the tunnel is good, or its client waited for.
    func judgeTunnel(now: Instant) -> Instant? {
        let clientEnd = measureResponse(now: now)
        guard let exchange, case .open(let tunnelTime) = tunnel else { return nil }
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

    /// Ends the tunnel, both sides in order as far as they take it.
    func finishTunnel() {
        guard isServing, tunnel.isOpen, let exchange else { return }
        outlastsResponse = false
        if isEnded {
            reset(.noError)
        } else if unframed == 0, isWindowOpen {
            sendEnd()
        } else {
            // It has no end that could reach the client.
            reset(.cancel)
        }
        // The end may wait until the client reads; whatever it sends meanwhile, there is nobody left to hear it.
        disregardRequest()
        let connection = owner.connection
        conclude(exchange)
        connection.advance()
    }

    /// The client has sent what a tunnel has not.
    func tunnelFaulted() {
        isCutOff = true
        reset(.protocolError)
    }
}

/// What a stream is to a WebSocket.
enum StreamTunnel {
    /// It carries a request.
    case none
    /// Its request asks for one: what the client sends behind the head waits.
    case asked
    case open(TunnelTime)

    var isOpen: Bool { if case .open = self { true } else { false } }
    var isAsked: Bool { if case .asked = self { true } else { false } }
}
