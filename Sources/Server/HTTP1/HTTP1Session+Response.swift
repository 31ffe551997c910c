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

    /// One access to the buffer for the whole head. - Returns: false if it does not fit; nothing was written then.
    func write(_ head: OutgoingHead, _ fields: (inout ByteBuffer) -> Void) -> Bool {
        guard let exchange else { return false }
        let isLengthUnknown = head.content == .chunked || head.content == .untilClose
        let isChunked = isLengthUnknown && exchange.receivedHead.minorVersion >= 1
        let isPersistent = allowsAnotherRequest && isLengthUnknown == isChunked && !head.isLast
        let length = head.length(isAnswerToHead: exchange.method == .head)
        // HTTP/1.0 clients expect the confirmation; for the others persistence is the default (RFC 9112 section 9.3).
        let option: StaticString? =
            if !isPersistent { "close" } else if exchange.receivedHead.minorVersion == 0 { "keep-alive" } else { nil }
        let isWritten = Self.write(head.status, length, isChunked, option, to: &connection.output, fields)
        guard isWritten else { return false }
        self.isChunked = isChunked
        cycle.isPersistent = isPersistent
        return true
    }

    /// - Parameter option: the value of `Connection`, if it is sent.
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
        isChunked ? connection.output.appendChunk(prefixOf: content) : connection.output.appendPrefix(of: content)
    }

    func writeEnd() -> Bool {
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
        guard Self.write(101, nil, false, nil, to: &connection.output, fields) else { return nil }
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
        if let exchange {
            exchange.ended()
            exchange.reset()
        }
        isChunked = false
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
