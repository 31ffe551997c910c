internal import Bytes
internal import EventLoop
internal import HTTP

/// The way out: what an exchange answers, and what follows when a response has ended.
extension HTTP1Session {
    // MARK: - For the exchange

    /// Whether the response under way may leave the connection open.
    var allowsAnotherRequest: Bool {
        guard cycle.isPersistent, !connection.acceptor.isDraining else { return false }
        // An answer before the end of the request: the rest is read over if it is known to be short, and known to come.
        guard let rest = decoder.remaining, rest <= UInt64(settings.lingerBytes) else { return false }
        return rest == 0 || !isContentAwaited
    }

    func writeHead(
        _ status: UInt16, _ framing: ContentFraming, _ statedLength: UInt64?, _ isPersistent: Bool,
        _ fields: (inout ByteBuffer) -> Void
    ) -> Bool {
        let head = OutgoingHead(
            status: status, framing: framing, statedLength: statedLength, isPersistent: isPersistent,
            isAnswerToHead: exchange?.head.method == .head)
        guard head.write(to: &connection.output, fields) else { return false }
        cycle.isPersistent = isPersistent
        return true
    }

    func writeContent(_ content: Span<UInt8>, isChunked: Bool) -> Int {
        isChunked ? connection.output.appendChunk(prefixOf: content) : connection.output.appendPrefix(of: content)
    }

    func writeEnd(isChunked: Bool) -> Bool {
        guard !isChunked || connection.output.appendLastChunk() else { return false }
        cycle.responseEnded()
        return true
    }

    func writeContinue() {
        isContentAwaited = false
        connection.output.append("HTTP/1.1 100 Continue\r\n\r\n")
        clientTime.contentWanted(now: connection.loop.now)
        awaitClient()
    }

    /// Writes the head that switches protocols; from then on the exchange's bytes are what the connection carries.
    ///
    /// - Returns: nil if the head does not fit; nothing was written then.
    func becomeTunnel(_ fields: (inout ByteBuffer) -> Void) -> TunnelSession? {
        guard let exchange, cycle.phase == .response, connection.spoken === self else { return nil }
        let head = OutgoingHead(
            status: 101, framing: .none, statedLength: nil, isPersistent: true, isAnswerToHead: false)
        guard head.write(to: &connection.output, fields) else { return nil }
        let tunnel = TunnelSession(on: connection, for: exchange)
        self.exchange = nil
        connection.spoken = tunnel
        tunnel.began()
        return tunnel
    }

    // MARK: - The end of a response

    func limitRest() {
        if clientTime.limitRest(to: connection.loop.now + settings.lingerTimeout) { awaitClient() }
    }

    func end() {
        exchange?.ended()
        exchange?.reset()
        isInputHeld = false
        clientTime.reset(now: connection.loop.now)
    }

    /// Says that nothing more comes, and listens until the client has understood.
    func linger() {
        connection.endSending()
        connection.setDeadline(connection.loop.now + settings.lingerTimeout)
        isInputHeld = false
    }
}
