internal import EventLoop
internal import HTTP

/// The end of a connection of HTTP/2.
///
/// What the client has sent is never left in doubt: a stream that the last GOAWAY does not cover, or that is refused, was not
/// looked at. One that it covers is completed, or ends with another code.
extension HTTP2ServerConnection {
    func certificateEnded() {
        guard life.takesRequests else { return }
        connection.acceptor.application.connectionRefused(connection, .certificateExpired)
        life.endNow()
    }

    /// The client has broken a rule of the connection; the session has said so to it.
    func report(_ fault: HTTP2Fault) {
        guard !isFaultReported else { return }
        isFaultReported = true
        connection.acceptor.application.connectionRefused(connection, .http2(fault))
    }

    /// Everything is said. Closing at once over what the client still sends would reset the connection, and GOAWAY might not
    /// arrive.
    func linger() {
        life.linger()
        connection.endSending()
        connection.setDeadline(now + settings.lingerTimeout)
    }
}
