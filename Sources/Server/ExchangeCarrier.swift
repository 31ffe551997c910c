internal import Bytes
internal import EventLoop
internal import HTTP

/// What carries a request and its response on a client connection.
///
/// An enumeration like `Transport`, not a class to be subclassed: a stream of HTTP/2 has a superclass already, and which of them it
/// is costs a comparison, not a call through a table.
enum ExchangeCarrier {
    case http1(HTTP1Session)
    /// Also of a request that has become a tunnel: the stream remains one.
    case http2(RequestStream)
    /// The request of HTTP/1.1 has become a tunnel: bytes as they are.
    case tunnel(TunnelSession)

    /// - Parameter sent: that of the head.
    func version(of sent: HTTPVersion) -> HTTPVersion {
        switch self {
        case .http1, .tunnel: sent
        case .http2: .http2
        }
    }

    func write(_ head: OutgoingHead, _ fields: (inout ByteBuffer) -> Void) -> Bool {
        switch self {
        case .http1(let session): session.write(head, fields)
        case .http2(let stream): stream.write(head, fields)
        case .tunnel: false
        }
    }

    /// - Returns: how much was taken.
    func write(_ content: Span<UInt8>) -> Int {
        switch self {
        case .http1(let session): session.write(content)
        case .http2(let stream): stream.write(content)
        case .tunnel(let tunnel): tunnel.write(content)
        }
    }

    /// - Returns: false if they do not fit.
    func writeTrailers(_ fields: (inout ByteBuffer) -> Void) -> Bool {
        switch self {
        case .http1, .tunnel: true
        case .http2(let stream): stream.add(trailers: fields)
        }
    }

    /// - Returns: false if there is no room for the end yet.
    func writeEnd() -> Bool {
        switch self {
        case .http1(let session): session.writeEnd()
        case .http2(let stream): stream.writeEnd()
        case .tunnel(let tunnel): tunnel.writeEnd()
        }
    }

    func writeContinue() {
        switch self {
        case .http1(let session): session.writeContinue()
        case .http2(let stream): stream.writeContinue()
        case .tunnel: break
        }
    }

    /// Sends what was written, from an event that is not the client connection's.
    func advance(_ connection: ServerConnection) {
        // Other streams of the connection have such events in the same turn of the loop.
        if case .http2 = self { connection.advanceWhenTurnEnds() } else { connection.advance() }
    }

    func abort() {
        switch self {
        case .http1(let session): session.connection.abort()
        case .http2(let stream): stream.abort()
        case .tunnel(let tunnel): tunnel.connection.abort()
        }
    }

    func allowContentPauses(of idle: TimeSpan) {
        switch self {
        case .http1(let session): session.allowContentPauses(of: idle)
        case .http2(let stream): stream.allowContentPauses(of: idle)
        case .tunnel: break
        }
    }

    func resumeContent() {
        switch self {
        case .http1(let session): session.resumeContent()
        case .http2(let stream): stream.resumeContent()
        case .tunnel(let tunnel): tunnel.resumeInput()
        }
    }

    /// - Returns: what carries the exchange from then on; nil if the head does not fit, or what carries it can be none.
    func openTunnel(_ fields: (inout ByteBuffer) -> Void) -> ExchangeCarrier? {
        switch self {
        case .http1(let session): session.becomeTunnel(fields).map { .tunnel($0) }
        case .http2(let stream): stream.becomeTunnel(fields) ? self : nil
        case .tunnel: nil
        }
    }

    func endTunnel() {
        switch self {
        case .http1: break
        case .http2(let stream): stream.finishTunnel()
        case .tunnel(let tunnel): tunnel.finish()
        }
    }
}
