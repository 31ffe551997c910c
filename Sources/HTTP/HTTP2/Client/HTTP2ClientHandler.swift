public import Bytes

/// The user of an HTTP/2 client connection: makes its streams, and receives the events that concern all of them.
///
/// The session refers to it and does not keep it alive: the handler owns the session.
open class HTTP2ClientHandler {
    public init() {}

    /// A stream is needed: a new object, which the session keeps and uses for one request after the other.
    open func makeStream(_ pool: BufferPool) -> HTTP2ClientStream { HTTP2ClientStream(pool: pool) }
    /// The server takes no more requests on this connection (GOAWAY): `open` fails from now on. Those it has not processed have
    /// failed as `unprocessed` when the call returns; the others go on.
    open func serverGoesAway(_ code: HTTP2ErrorCode) {}
    /// There may be room for more requests, or for fewer: the server's settings have come, or a stream has ended.
    open func capacityChanged() {}
    /// The server has answered `ping`.
    open func pingAnswered() {}
}
